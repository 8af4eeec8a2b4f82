-- AMQP clients that others wrote: pika, py-amqp, Celery and the tools of librabbitmq. The programs
-- are in tests/amqp/.
local Broker = require 'support.broker'
local needs = require 'support.needs'
local shell = require 'support.shell'
local users = require 'support.users'
local wait = require 'support.wait'

local PYTHON <const> = '/usr/bin/python3 -B '

describe('AMQP with', function()
  local broker, host, port

  setup(function()
    broker = Broker.start { redis = {}, stopped = true }
    local may = { vhosts = { ['/'] = { configure = '.*', write = '.*', read = '.*' } } }
    users.restore(broker.redis, { pika = may, amqp = may, tools = may, celery = may })
    broker:run()
    host, port = broker.address:match '^(.+):(%d+)$'
  end)
  teardown(function()
    if broker then broker:destroy() end
  end)

  local function run(command)
    return shell.run(('timeout %d %s 2>&1 </dev/null'):format(wait.limit(200), command))
  end

  for library, cases in pairs {
    pika = { 'properties', 'confirms', 'errors', 'pool', 'rpc', 'direct', 'delayed', 'copies' },
    amqp = { 'properties', 'confirms', 'errors', 'consume', 'heartbeats', 'transaction' },
  } do
    needs.client(it, PYTHON .. '-c "import ' .. library .. '"')('python3-' .. library, function()
      local output, status = run(('%stests/amqp/client.py %s %s %s %s %s'):format(PYTHON, library, host, port, library,
        users.password))
      assert.equal('ok ' .. table.concat(cases, '\nok ') .. '\n', output)
      assert.equal(0, status)
    end)
  end

  -- A broker of its own: the other one has users.
  needs.client(it, PYTHON .. '-c "import pika"')('the first program of its document', function()
    local other = Broker.start {}
    local program = shell.read_file 'docs/amqp.md':match '```python\n(.-)```'
    local path = os.tmpname()
    shell.write_file(path, (program:gsub('7310', other.address:match '%d+$')))
    local output, status = run(PYTHON .. path)
    os.remove(path)
    other:destroy()
    assert.same({ '', 0 }, { output, status })
  end)

  needs.client(it, 'command -v amqp-publish')('amqp-tools', function()
    local function tool(name, arguments)
      local output, status = run(('%s --server=%s --port=%s --username=tools --password=%s %s'):format(name, host, port,
        users.password, arguments))
      assert.equal(0, status, output)
      return output
    end
    assert.equal('tools\n', tool('amqp-declare-queue', '-q tools -d'))
    tool('amqp-publish', '-r tools -p -C text/plain -b hello')
    tool('amqp-publish', '-r tools -b ' .. ('x'):rep(100000))
    tool('amqp-publish', '-e amq.fanout -r any -b nobody')
    assert.equal('hello', tool('amqp-get', '-q tools'))
    assert.equal(('x'):rep(100000), tool('amqp-consume', '-q tools -c 1 cat'))
    tool('amqp-delete-queue', '-q tools')
  end)

  needs.client(it, PYTHON .. '-c "import celery"')('Celery', function()
    local environment = ('cd tests/amqp && TIDE_TEST_AMQP=amqp://celery:%s@%s// C_FORCE_ROOT=1 timeout %d '):format(
      users.password, broker.address, wait.limit(200))
    local log = os.tmpname()
    local worker = '{ %s%s-m celery -A tasks worker -c 2 -P threads -l warning >%s 2>&1 </dev/null & echo $!; }'
    local pid = shell.line(worker:format(environment, PYTHON, log))
    local output, status = shell.run(environment .. PYTHON .. 'tasks.py 2>&1 </dev/null')
    shell.run('kill ' .. pid)
    assert.equal('ok delay\nok retry\nok group\nok countdown\n', output, shell.run('cat ' .. log))
    assert.equal(0, status)
    os.remove(log)
  end)
end)
