-- PEEK reads a queue of any length, page by page, and searches it.
local Broker = require 'support.broker'
local Client = require 'support.client'

--- All pages of a PEEK; gives the messages, and how many pages there were.
local function read_all(c, words, between)
  local messages, pages, after = {}, 0, ''
  repeat
    local page = c:document('PEEK ' .. words .. after)
    for _, m in ipairs(page.messages) do messages[#messages + 1] = m end
    pages = pages + 1
    after = page.next and ' after=' .. page.next
    if after and between then between(page) end
    assert.is_true(pages < 1000)
  until not after
  return messages, pages
end

local payloads = Client.payloads

local function numbers(first, last, step)
  local list = {}
  for i = first, last, step or 1 do list[#list + 1] = tostring(i) end
  return list
end

for _, kind in ipairs {
  { name = 'with a backlog in Redis', args = { '--window-messages', '16', '--fsync', 'no' } },
  { name = 'in memory', args = { '--store', 'none' } },
} do
  describe('PEEK of a queue ' .. kind.name, function()
    local broker, c

    setup(function() broker = Broker.start { args = kind.args } end)
    teardown(function()
      broker:expect_clean_stop()
      broker:destroy()
    end)
    before_each(function() c = broker:enter_vhost() end)
    after_each(function() c:close() end)

    local function publish(first, last, words)
      local lines = {}
      for i = first, last do
        lines[#lines + 1] = ('PUB - q%s %d\r\n%d\r\n'):format(words and words(i) or '', #tostring(i), i)
      end
      c:send(table.concat(lines))
      for _ = first, last do c:expect '^OK %x+ 1$' end
    end

    --- A GET gives what is in memory.
    local function take(count, words)
      while count > 0 do count = count - #c:get(('q max=%d wait=20s%s'):format(count, words or '')) end
    end

    for _, shards in ipairs { 1, 3 } do
      local options = ('shards=%d sharding=round_robin'):format(shards)

      it(('reads all of it, each message once, over %d shards'):format(shards), function()
        c:ok('DECLARE queue q ' .. options)
        publish(1, 1234)
        for _, n in ipairs { 7, 100 } do
          local messages, pages = read_all(c, 'q ' .. n)
          assert.same(numbers(1, 1234), payloads(messages))
          assert.is_true(pages <= 1234 // n + 2)
        end
        -- An id alone is a place here too.
        local tenth = c:peek('q 10')[10]
        assert.equal('11', c:peek('q 1 after=' .. tenth.id)[1].payload)
        local stats = c:stats 'q'
        assert.equal(1234, stats.ready)
        assert.equal(0, stats.delivered)
      end)

      it(('reads delayed, buried and held ones over %d shards'):format(shards), function()
        c:ok('DECLARE queue q retry=none ' .. options)
        publish(1, 200, function(i) return (' delay=%dh'):format(1 + i * 7919 % 199) end)
        local delayed = read_all(c, 'q 13 state=delayed')
        assert.equal(200, #delayed)
        for i = 2, 200 do assert.is_true(delayed[i - 1].due <= delayed[i].due) end
        for i = 1, 199, 22 do
          local behind = c:peek('q state=delayed after=' .. delayed[i].id)[1]
          assert.equal(delayed[i + 1].id, behind.id)
        end
        c:ok 'PURGE q'
        publish(1, 200)
        take(200)
        local held = payloads(read_all(c, 'q 13 state=unacked'))
        table.sort(held, function(a, b) return tonumber(a) < tonumber(b) end)
        assert.same(numbers(1, 200), held)
        c:ok 'NACK 1-200'
        local all = read_all(c, 'q 13 state=buried')
        assert.equal(all[2].id, c:peek('q state=buried after=' .. all[1].id)[1].id)
        assert.equal(all[200].id, c:peek('q state=buried after=' .. all[199].id)[1].id)
        local buried = payloads(all)
        table.sort(buried, function(a, b) return tonumber(a) < tonumber(b) end)
        assert.same(numbers(1, 200), buried)
      end)
    end

    it('goes on behind what is gone meanwhile, and shows what comes', function()
      c:ok 'DECLARE queue q'
      publish(1, 300)
      local last = 300
      local messages = read_all(c, 'q 50', function(page)
        -- All that was shown is taken, and one is added.
        take(#page.messages, ' ack=auto')
        if last < 303 then
          last = last + 1
          publish(last, last)
        end
      end)
      assert.same(numbers(1, 303), payloads(messages))
    end)

    it('follows the ranks of a priority script', function()
      c:ok 'DECLARE queue q priority=strict'
      publish(1, 120, function(i) return ' pri=' .. i % 3 end)
      local expected = {}
      for priority = 2, 0, -1 do
        for i = 1, 120 do
          if i % 3 == priority then expected[#expected + 1] = tostring(i) end
        end
      end
      assert.same(expected, payloads(read_all(c, 'q 11')))
      -- By the id alone, wherever it is, as long as it is there.
      local seen, after = {}, ''
      repeat
        local page = c:peek('q 7' .. after)
        for _, m in ipairs(page) do seen[#seen + 1] = m.payload end
        after = page[1] and ' after=' .. page[#page].id
      until not after
      assert.same(expected, seen)
      local id = c:get('q ack=auto')[1].options.id
      c:expect_answer('PEEK q after=' .. id, ('ERR not-found after=%s: no such message is ready any more; go on with '
        .. 'the `next` of the answer before'):format(id))
    end)

    it('finds texts, keys and headers', function()
      c:ok 'DECLARE exchange x topic'
      c:ok 'DECLARE queue q'
      c:ok 'BIND q x #'
      c:ok('PUB x orders.eu.paid h:tier=gold h:note=late%20again', 'ship it')
      c:ok('PUB x orders.us.paid h:tier=silver', 'h:tier is no header')
      c:ok('PUB x parcels.eu', 'orders\0key:')
      local function finds(match, ...)
        assert.same({ ... }, payloads(c:peek('q 10 match=' .. match)))
      end
      finds('ship', 'ship it')
      finds('late%20again', 'ship it')
      finds('tier', 'h:tier is no header') -- names are not searched
      finds('orders.eu') -- nor are keys
      finds('orders%00key', 'orders\0key:')
      finds('h:tier~g*d', 'ship it')
      finds('h:tier~*l*', 'ship it', 'h:tier is no header')
      finds('text:h:tier', 'h:tier is no header')
      finds('text:key:', 'orders\0key:')
      finds('key:orders.*.paid', 'ship it', 'h:tier is no header')
      finds('key:#.eu', 'orders\0key:')
      finds('key:orders')
      finds('h:tier=gold', 'ship it')
      finds('h:tier=gol')
      finds('h:tier', 'ship it', 'h:tier is no header')
      finds('h:note=late%20again', 'ship it')
      for _, bad in ipairs { '', 'text:', 'key:', 'h:', 'h:=x' } do
        c:expect_answer('PEEK q match=' .. bad, ('ERR syntax match=%s: expected <text>, text:<text>, key:<pattern>, '
          .. 'h:<name>, h:<name>=<value>, h:<name>~<glob> or lua:<expression>'):format(bad))
      end
    end)

    it('ends a search after 10000 messages and says where to go on', function()
      c:ok 'DECLARE queue q shards=2 sharding=round_robin'
      publish(1, 12345)
      local page = c:document 'PEEK q match=12345'
      assert.same({}, page.messages)
      assert.equal(10000, page.searched)
      page = c:document('PEEK q match=12345 after=' .. page.next)
      assert.same({ '12345' }, payloads(page.messages))
      assert.equal(2345, page.searched)
      -- What was found comes in any case.
      page = c:document 'PEEK q 100 match=777'
      assert.same(10000, page.searched)
      assert.same({ '777', '1777', '2777', '3777', '4777', '5777', '6777', '7770' },
        { table.unpack(payloads(page.messages), 1, 8) })
      local all = payloads(read_all(c, 'q 3 match=777'))
      assert.equal(21, #all)
      assert.equal('11777', all[21])
    end)

    it('refuses a place that is none', function()
      c:ok 'DECLARE queue q'
      for _, bad in ipairs { '', 'x', '@0', '0123456789abcdef@', '0123456789abcdef@x', '0123456789abcdef@inf',
        '0123456789abcdeF', ('0123456789abcdef@%s'):format(('1'):rep(60)) } do
        c:expect_answer('PEEK q after=' .. bad,
          ('ERR syntax after=%s: expected the `next` of an answer, or an id'):format(bad:sub(1, 64)))
      end
    end)
  end)
end

describe('PEEK', function()
  it('reads the same pages after kill -9 of broker and Redis', function()
    local broker = Broker.start { args = { '--window-messages', '16' } }
    local c = broker:connect()
    c:ok 'DECLARE queue q shards=2 sharding=round_robin'
    for i = 1, 200 do c:send(('PUB - q %d\r\n%d\r\n'):format(#tostring(i), i)) end
    for _ = 1, 200 do c:expect '^OK %x+ 1$' end
    local page = c:document 'PEEK q 100'
    broker:kill9_all()
    broker:run()
    c = broker:connect()
    assert.same(numbers(101, 200), payloads(c:peek('q 100 after=' .. page.next)))
    broker:expect_clean_stop()
    broker:destroy()
  end)

  it('under way does not hold up others, nor the end of the broker', function()
    local broker = Broker.start { args = { '--store', 'none' } }
    local c, busy = broker:connect(), broker:connect()
    c:ok 'DECLARE queue q'
    local payload = ('x'):rep(200000)
    for _ = 1, 300 do c:ok('PUB - q', payload) end
    for _ = 1, 7 do busy:send 'PEEK q match=yyy\r\n' end
    c:ok 'PING'
    broker:expect_clean_stop()
    broker:destroy()
  end)
end)
