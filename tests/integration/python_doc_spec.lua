-- docs/python.md: its programs print what it says, and what it says of an installation is true.
local Broker = require 'support.broker'
local needs = require 'support.needs'
local python = require 'support.python'
local shell = require 'support.shell'

local doc = shell.read_file 'docs/python.md'

describe('docs/python.md', function()
  local broker

  setup(function() broker = Broker.start { rules = {} } end)
  teardown(function()
    broker:expect_clean_stop()
    broker:destroy()
  end)

  it('has no program without what it prints', function()
    local count = select(2, doc:gsub('\n```python\n', ''))
    assert.is_true(count >= 4)
    assert.equal(count, #python.all(doc))
  end)

  it('can be followed after the README', function()
    python.expect(broker, assert(shell.read_file('README.md'):match '```python\n(.-)```'), 'hello\n')
  end)

  for _, example in ipairs(python.all(doc)) do
    it('has a program that runs, in line ' .. example.line, function()
      python.expect(broker, example.program, example.expected)
    end)
  end

  local with_venv = needs.client(it, '/usr/bin/python3 -c "import ensurepip"')
  with_venv('installs the package with pip, without a network', function()
    local commands = assert(doc:match '\n```sh\n(.-)```')
    local dir = shell.make_dir 'tidemq-pip'
    local output, status = shell.run(([[
      examples=$(pwd)/examples && cd %s && ln -s "$examples" examples &&
      export PIP_NO_INDEX=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PATH=/usr/bin:/bin && (set -e
      %s
      env/bin/python -c 'import tidemq; print(tidemq.__file__)'
      ls env/lib/python3*/site-packages/tidemq/py.typed) 2>&1]]):format(dir, commands))
    shell.run('rm -rf ' .. dir)
    assert.equal(0, status, output)
    assert.matches('\n' .. dir:gsub('%p', '%%%0') .. '/env/lib/[^\n]+/tidemq/__init__.py\n', output)
  end)
end)
