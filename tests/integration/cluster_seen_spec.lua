-- What people see of a Redis Cluster: check-store.
local Broker = require 'support.broker'
local Cluster = require 'support.cluster'
local shell = require 'support.shell'

local SHARDS = 16

describe('a broker on a Redis Cluster', function()
  local cluster, broker

  setup(function()
    cluster = Cluster.start()
    broker = Broker.start { args = { '--store', cluster.url } }
  end)
  teardown(function()
    broker:destroy()
    cluster:close()
  end)

  describe('is checked by check-store', function()
    local function command(...)
      local words = { shell.quote(Broker.binary()), 'check-store', '--store', cluster.url, ... }
      return 'timeout 60 ' .. table.concat(words, ' ') .. ' 2>&1 </dev/null'
    end
    local function check(...) return shell.run(command(...)) end

    local function key(shard, name) return ('tide:{//many#%d}:%s'):format(shard, name) end

    local ids = {} -- the front of a shard of each master, by its address

    setup(function()
      local c = broker:connect()
      c:ok('DECLARE queue many sharding=round_robin shards=' .. SHARDS)
      for _ = 1, 2 * SHARDS do c:ok('PUB - many', 'abc') end
      broker:expect_clean_stop()
      for shard = 0, SHARDS - 1 do
        local address = cluster:master_of(key(shard, 'msg')).address
        local id = cluster:command('ZRANGE', key(shard, 'ready'), 0, 0)[1]
        ids[address] = ids[address] or { shard = shard, id = id }
      end
    end)
    teardown(function() broker:run() end)

    it('which finds nothing wrong on any master, and knows the record of each', function()
      local text, status = check()
      assert.equal(0, status, text)
      assert.matches('^%d+ keys, %d+ entries: 0 findings\n$', text)
      assert.equal(#cluster:keys '*tide*:*', tonumber(text:match '^%d+'))
      assert.equal(3, #cluster:keys '*:holder')
    end)

    it('which finds damage on each master, and repairs it', function()
      local lines = {}
      for _, master in ipairs(cluster:masters()) do
        local at = assert(ids[master.address], 'no shard of 16 there')
        assert.equal(1, (cluster:command('ZREM', key(at.shard, 'ready'), at.id)))
        lines[#lines + 1] = ('%s %s: the message is in no set; --repair makes it ready'):format(
          key(at.shard, 'msg'), at.id)
        local lost = ('tide:{//gone#%d}:ready'):format(at.shard)
        cluster:command('ZADD', lost, 1, 'x')
      end
      local text, status = check()
      assert.equal(1, status, text)
      for _, line in ipairs(lines) do assert.truthy(text:find(line, 1, true), text) end
      for _, at in pairs(ids) do
        local lost = ('tide:{//gone#%d}:ready: there is no such shard'):format(at.shard)
        assert.truthy(text:find(lost, 1, true), text)
        cluster:command('DEL', ('tide:{//gone#%d}:ready'):format(at.shard))
      end
      text, status = check '--repair'
      assert.equal(0, status, text)
      assert.matches(': 3 findings, 3 repaired\n$', text)
      text, status = check()
      assert.equal(0, status, text)
    end)

    it('which goes on at a further master', function()
      local slot = 16384 * 2 // 3
      local text, status = check('--resume-from', slot .. ':0')
      assert.equal(0, status, text)
      local last = cluster:master_of(16383)
      assert.equal(#last:ok('KEYS', '*'), tonumber(text:match '^%d+'), text)
    end)

    it('which leaves keys to their master while a slot is moved, and waits for it', function()
      local masters = {}
      for _, name in ipairs { 0, 16383 } do masters[#masters + 1] = cluster:master_of(name) end
      local name = key(ids[masters[1].address].shard, 'msg')
      cluster:migrate_slot(name, masters[1], masters[2], 1)
      local process = assert(io.popen(command()))
      cluster:fix_slot(name, masters[1], masters[2])
      local text = process:read 'a'
      assert.is_true(process:close(), text)
    end)
  end)
end)
