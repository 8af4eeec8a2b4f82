-- The Python client: its own tests, each file of which starts the real broker itself.
local Broker = require 'support.broker'
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

  -- What pip does with it is in python_doc_spec.lua.
  it('makes a wheel of itself, with nothing else than Python', function()
    local dir = shell.make_dir 'tidemq-wheel'
    local output, status = shell.run(([[cd examples/python && export PYTHONPATH= && python3 -B -W error -c '
import build_backend, csv, hashlib, sys, tarfile, zipfile
wheel = sys.argv[1] + "/" + build_backend.build_wheel(sys.argv[1])
sdist = tarfile.open(sys.argv[1] + "/" + build_backend.build_sdist(sys.argv[1]))
files = zipfile.ZipFile(wheel)
record = list(csv.reader(files.read(build_backend.INFO + "/RECORD").decode().splitlines()))
print(sorted(row[0] for row in record) == sorted(files.namelist()))
print({"tidemq/py.typed", "tidemq/sync.py"} < set(files.namelist()))
print({build_backend.NAME + "/" + name for name in ("build_backend.py", "PKG-INFO")} < set(sdist.getnames()))
sys.path[:] = [wheel] + [path for path in sys.path if path]
import tidemq
print(tidemq.__file__ == wheel + "/tidemq/__init__.py")' %s 2>&1]]):format(dir))
    shell.run('rm -rf ' .. dir)
    assert.equal('True\nTrue\nTrue\nTrue\n', output)
    assert.equal(0, status)
  end)
end)
