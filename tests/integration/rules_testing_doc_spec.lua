-- The scripts and specs of docs/rules-testing.md are run as they stand there; and what
-- `tidemq test` does with specs that fail, hang, eat memory, or lie elsewhere.
local Broker = require 'support.broker'
local shell = require 'support.shell'

local doc = shell.read_file 'docs/rules-testing.md'

local function write(dir, path, text)
  assert(os.execute(("mkdir -p '%s/%s'"):format(dir, path:match '^(.*)/' or '.')))
  shell.write_file(dir .. '/' .. path, text)
end

describe('tidemq test', function()
  local dir

  before_each(function() dir = shell.make_dir 'tidemq-test' end)
  after_each(function() assert(os.execute(("rm -r '%s'"):format(dir))) end)

  local function run(words)
    return shell.run(('%s test %s 2>&1'):format(Broker.binary(), words or dir))
  end

  it('runs the specs of docs/rules-testing.md', function()
    local specs = 0
    for block in doc:gmatch '\n```lua\n(.-)\n```' do
      local path = assert(block:match '^%-%- rules/(%S+)', block)
      write(dir, path, block)
      specs = specs + (path:find '_spec.lua$' and 1 or 0)
    end
    local output, status = run()
    assert.equal(0, status, output)
    assert.matches(('\n%d specs, %%d+ passed, 0 failed in %%d+.%%d s\n$'):format(specs), output)
    output, status = run(('--filter "large ones" %s'):format(dir))
    assert.equal(0, status, output)
    output = run(('--filter "refuses large" %s'):format(dir))
    assert.matches('\nok    %S+/filter/30%-vat_spec.lua  1 passed\n', '\n' .. output)
    assert.matches('\n1 spec, 1 passed, 0 failed', output)
    assert.is_nil(output:find('0 passed', 1, true), output)
    output, status = run(('--filter "no such test" %s'):format(dir))
    assert.equal(1, status)
    assert.matches("tidemq: no test has 'no such test' in its name\n", output)
  end)

  it('prints what failed with file and line, and the test', function()
    write(dir, 'retry/mine_spec.lua', [[
      describe('mine', function()
        it('passes', function() end)
        it('fails', function() assert.equal(1, 2) end)
        it('raises', function() error 'no' end)
      end)]])
    write(dir, 'x_spec.lua', 'it(')
    local output, status = run()
    assert.equal(1, status)
    assert.matches('FAIL  %S+/retry/mine_spec.lua  1 passed, 2 failed\n', output)
    assert.matches('\nFailure at %S+/retry/mine_spec.lua:3: mine fails\n  Expected objects to be equal.\n', output)
    assert.matches('\nFailure at %S+/retry/mine_spec.lua:4: mine raises\n  no\n', output)
    assert.matches('FAIL  %S+/x_spec.lua  0 passed, 1 failed\n', output)
    assert.matches('\n2 specs, 1 passed, 3 failed in %d', '\n' .. output)
  end)

  it('ends specs that hang, and says which', function()
    write(dir, 'x_spec.lua', 'it("spins", function() while true do end end)')
    local output, status
    -- The time includes the start of the process, which is long on a busy machine.
    for seconds = 1, 8 do
      output, status = run(('--timeout %ds %s'):format(seconds, dir))
      assert.equal(1, status)
      assert.matches(('^tidemq: the specs did not finish within %d s %%(%%-%%-timeout%%); '):format(seconds), output)
      if output:find 'spins' then break end
    end
    assert.matches('; %S+/x_spec.lua: spins was running\n', output)
  end)

  it('ends specs that eat memory', function()
    write(dir, 'x_spec.lua',
      'it("eats", function() local t = {} while true do t[#t + 1] = ("x"):rep(1000000) .. #t end end)')
    local output, status = run('--memory 256M --timeout 20s ' .. dir)
    assert.equal(1, status)
    assert.is_truthy(output:find 'not enough memory' or output:find 'did not finish', output)
  end)

  it('stays in the directory, whatever lies in the current one', function()
    local other = shell.make_dir 'tidemq-test'
    local fails = 'it("is of another", function() error "run" end)'
    write(other, 'far/y_spec.lua', fails)
    write(other, 'near_spec.lua', fails)
    write(dir, 'own/..data/real_spec.lua', 'it("is reached by a link", function() end)')
    write(dir, 'own/.hidden/z_spec.lua', fails)
    assert(os.execute(("ln -s '%s/far' '%s/far'"):format(other, dir)))
    assert(os.execute(("ln -s '%s/near_spec.lua' '%s/near_spec.lua'"):format(other, dir)))
    assert(os.execute(("ln -s ..data/real_spec.lua '%s/own/real_spec.lua'"):format(dir)))
    write(other, '.busted', 'error "read"')
    -- A sanitized binary is deeper in the build directory, and does not find it by itself.
    assert(os.execute(("ln -s \"$(pwd)/lua\" '%s/lua'"):format(other)))
    local binary = shell.run(("realpath '%s'"):format(Broker.binary())):gsub('\n', '')
    local output, status = shell.run(("cd '%s' && '%s' test '%s' 2>&1"):format(other, binary, dir))
    assert.equal(0, status, output)
    assert.matches('\n1 spec, 1 passed, 0 failed', '\n' .. output)
    output, status = run('--follow-links ' .. dir)
    assert.equal(1, status)
    assert.matches('\n2 specs, 1 passed, 1 failed', output)
    assert(os.execute(("rm -r '%s'"):format(other)))
  end)

  it('says when there is no spec', function()
    local output, status = run()
    assert.equal(1, status)
    assert.matches("^tidemq: there is no %*_spec.lua in '", output)
  end)
end)
