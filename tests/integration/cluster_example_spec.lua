-- examples/cluster/run.sh: what `make cluster` and `make sentinel` start works, and ends as a whole.
local Broker = require 'support.broker'
local Client = require 'support.client'
local Node = require 'support.redis_node'
local shell = require 'support.shell'
local socket = require 'socket'
local wait = require 'support.wait'

local quote = shell.quote

--- The first of six free ports, whose buses are free too, 10000 above: below those that other tests take, and
--- below those that the system gives to connections.
local function first_port()
  while true do
    local port, is_free = math.random(13000, 14900), true
    for n = 0, 5 do
      for _, one in ipairs { port + n, port + n + 10000 } do
        local server = socket.bind('127.0.0.1', one)
        is_free = is_free and server ~= nil
        if server then server:close() end
      end
    end
    if is_free then return port end
  end
end

describe('examples/cluster/run.sh', function()
  for kind, expected in pairs {
    cluster = { text = 'cluster nodes', servers = 6 }, sentinel = { text = 'sentinel failover', servers = 5 },
  } do
    it('starts a broker on ' .. kind .. ', says what to type, and leaves nothing behind', function()
      local dir, root, port = shell.make_dir 'tidemq-example', shell.line 'pwd', first_port()
      local guard = Node.guard(dir)
      finally(function() guard:close() end)
      local function command(directory)
        return ('cd %s && exec env TIDEMQ=%s DIR=%s PORT=%d LISTEN=127.0.0.1:0 HTTP=none RULES=%s '
          .. '%s/examples/cluster/run.sh %s\n'):format(quote(dir), quote(Broker.binary()), quote(dir .. directory),
          port, quote(shell.shipped_rules()), quote(root), kind)
      end
      shell.write_file(dir .. '/command', command '/all')
      assert(os.execute(('TIDE_TEST_DIR=%s exec bash tests/integration/support/process.sh run'):format(quote(dir))))
      local function said() return shell.read_file(dir .. '/stdout') or '' end
      assert(wait.poll(function()
        return said():find(expected.text, 1, true) or shell.read_file(dir .. '/exit')
      end, 60))
      local address = said():match 'TIDEMQ_URL=tide://([%d.:]+)/'
      assert(address, said() .. (shell.read_file(dir .. '/stderr') or ''))

      local c = Client.connect(address)
      c:ok 'DECLARE queue hello shards=6'
      c:ok('PUB - hello', 'world')
      assert.equal('world', c:get('hello')[1].payload)
      c:close()
      local pids = {}
      for pid in io.popen(('cat %s/[0-9]*/pid'):format(quote(dir .. '/all'))):lines() do pids[#pids + 1] = pid end
      assert.equal(expected.servers, #pids)

      -- A second one ends nothing of the first.
      local function refused(directory)
        local output, status = shell.run(('(%s) 2>&1 </dev/null'):format(command(directory)))
        assert.equal(1, status, output)
        return output
      end
      assert.equal(('run.sh: process %d runs in %s/all; end it, or take another DIR=\n'):format(
        shell.read_file(dir .. '/pid'), dir), refused '/all')
      assert.matches(('run.sh: port %d is in use: PORT= takes others\n$'):format(port), refused '/other')
      for _, pid in ipairs(pids) do assert.is_true(shell.is_running(pid)) end

      assert(os.execute('kill -TERM $(cat ' .. quote(dir .. '/pid') .. ')'))
      assert(wait.poll(function() return shell.read_file(dir .. '/exit') end, 60))
      for _, pid in ipairs(pids) do assert.is_false(shell.is_running(pid)) end
    end)
  end
end)
