-- The Python client: its own tests, each file of which starts the real broker itself.
local Broker = require 'support.broker'
local needs = require 'support.needs'
local shell = require 'support.shell'
local wait = require 'support.wait'

local python = ('TIDEMQ=%s PYTHONPATH=examples/python:tests/python timeout %d python3 -B -W error '):format(
  shell.quote(Broker.binary()), wait.limit(400))

describe('the Python client', function()
  local function check(name)
    local output, status = shell.run(python .. '-m unittest ' .. name .. ' 2>&1 </dev/null')
    assert(status == 0 and output:find '\nOK', output)
  end

  it('reads what a broker says, however it is cut', function() check 'test_codec' end)
  it('sends and restores the right lines', function() check 'test_link' end)
  it('publishes and consumes', function() check 'test_client' end)
  it('does so with asyncio', function() check 'test_aio' end)

  it('speaks TLS', function() check 'test_tls' end)
  it('logs in', function() check 'test_users' end)

  -- Debian's setuptools cannot be loaded behind pip.
  local with_pip = '/usr/bin/python3'
  local probe = ('%s -c "import setuptools, wheel" && %s -m pip --version'):format(with_pip, with_pip)
  needs.client(it, probe)('is installed by pip', function()
    local dir = shell.make_dir 'tidemq-pip'
    local output, status = shell.run(([[
      cp -R examples/python DIR/src && cd DIR && PYTHON -m pip install --quiet --no-index --no-deps \
        --no-build-isolation --disable-pip-version-check --root-user-action=ignore --target lib ./src 2>&1 &&
      PYTHONPATH=lib PYTHON -c 'import tidemq, os; print(os.path.exists(tidemq.__path__[0] + "/py.typed"))'
      status=$?; rm -rf DIR; exit $status]]):gsub('DIR', dir):gsub('PYTHON%f[^%w_]', with_pip))
    assert.equal('True\n', output)
    assert.equal(0, status)
  end)
end)
