-- SHARED, `tidemq shared` and /api/shared: what scripts keep in tide.shared, for operators.
local Broker = require 'support.broker'
local Client = require 'support.client'
local Http = require 'support.http'

describe('what scripts share', function()
  local broker, http, c

  setup(function()
    broker = Broker.start { http = '127.0.0.1:0', args = { '--fsync', 'no' }, rules = {
      ['filter/10-share.lua'] = [[
        return { match = {}, publish = function(msg)
          local s = tide.shared
          if msg.key == 'fill' then
            for i = 1, 2500 do s.set("many:" .. i, i) end
          end
          s.set("text of " .. msg.key, ("x"):rep(300)) s.set("limit", 5) s.set("brief", true, "1h")
          tide.counter("seen", { key = msg.key }):incr()
          tide.bucket("bucket", { rate = 1, burst = 5 }):take()
        end }]],
    } }
    http = Http.connect(broker)
  end)
  teardown(function()
    http:close()
    broker:expect_clean_stop()
  end)
  before_each(function()
    c = Client.connect(broker.address)
    c:ok 'DECLARE queue q'
  end)
  after_each(function() c:close() end)

  local function by_key(document)
    local entries = {}
    for _, entry in ipairs(document.entries) do entries[entry.key] = entry end
    return entries
  end

  it('is listed, with who holds it', function()
    c:ok('PUB - q', 'x')
    local document = c:document 'SHARED list'
    local entries = by_key(document)
    assert.equal(3, #document.entries)
    assert.is_nil(document.cursor)
    local text, limit, brief = entries['text of q'], entries.limit, entries.brief
    assert.same({ ('x'):rep(256), true, 'string', 'filter/10-share.lua', '/' },
      { text.value, text.is_cut, text.type, text.file, text.vhost })
    assert.same({ 5, 'integer' }, { limit.value, limit.type })
    assert.same({ true, 'boolean' }, { brief.value, brief.type })
    assert.is_nil(limit.ttl_ms)
    assert.is_true(brief.ttl_ms > 3500000 and brief.ttl_ms <= 3600000)
    assert.same({ 'limit' }, { c:document('SHARED list prefix=li').entries[1].key })
    assert.equal('seen{key="q"}', c:document('SHARED list of=counters').entries[1].key)
    assert.equal('bucket', c:document('SHARED list of=buckets').entries[1].key)
    assert.equal(('x'):rep(300), c:document('SHARED get key=text%20of%20q').value)
  end)

  it('is set, with the type that it had', function()
    c:ok 'SHARED set key=limit value=7 type=integer'
    c:ok 'SHARED set key=limit value=8'
    assert.same({ 'integer', 8 }, { c:document('SHARED get key=limit').type, c:document('SHARED get key=limit').value })
    c:ok 'SHARED set key=limit value=0.5 type=number ttl=1h'
    assert.is_true(c:document('SHARED get key=limit').ttl_ms > 3500000)
    c:ok 'SHARED set key=new value=007'
    assert.equal('007', c:document('SHARED get key=new').value)
    c:ok 'SHARED set key=new value=false type=boolean'
    assert.is_false(c:document('SHARED get key=new').value)
    c:ok 'SHARED delete key=new'
    for request, answer in pairs {
      ['SHARED get key=new'] = "ERR not-found there is no 'new'",
      ['SHARED delete key=new'] = "ERR not-found there is no 'new'",
      ['SHARED set key=limit value=x'] =
        "ERR syntax value: expected a finite number, not 'x'; type= says another type",
      ['SHARED set key=limit value=1e999'] =
        "ERR syntax value: expected a finite number, not '1e999'; type= says another type",
      ['SHARED set key=limit value=99999999999999999999 type=integer'] =
        "ERR syntax value: expected an integer of 64 bits, not '99999999999999999999'; type= says another type",
      ['SHARED set key=limit value=yes type=boolean'] =
        "ERR syntax value: expected true or false, not 'yes'; type= says another type",
      ['SHARED set key=limit value=0x10'] =
        "ERR syntax value: expected a finite number, not '0x10'; type= says another type",
      ['SHARED set key=limit value=1%00x type=integer'] =
        "ERR syntax value: expected an integer of 64 bits, not '1'; type= says another type",
      ['SHARED set key=limit'] = 'ERR syntax value= is missing: expected a text, a number or a boolean',
      ['SHARED get'] = 'ERR syntax key= is missing: expected the key of an entry',
      ['SHARED list key=x'] = "ERR syntax SHARED list has no option 'key'; it takes: of prefix cursor",
      ['SHARED list of=all'] = 'ERR syntax of=all: expected keys, counters or buckets',
      ['SHARED put'] = 'ERR syntax SHARED takes list, get, set, delete or clear',
    } do
      assert.equal(answer, c:request(request))
    end
  end)

  it('comes in steps when there is much, and is cleared', function()
    c:ok('PUB - q', 'x')
    c:request('PUB - fill', 'x')
    local keys, steps, cursor = {}, 0, nil
    repeat
      local document = c:document('SHARED list prefix=many:' .. (cursor and ' cursor=' .. cursor or ''))
      for _, entry in ipairs(document.entries) do keys[entry.key] = true end
      steps, cursor = steps + 1, document.cursor
    until not cursor
    local count = 0
    for _ in pairs(keys) do count = count + 1 end
    assert.equal(2500, count)
    assert.is_true(steps >= 3)
    local output = broker:cli('shared', 'list', 'many:', '--max', '2200')
    assert.equal(2201, select(2, output:gsub('\n', '\n')))
    assert.matches('^KEY +TYPE +VALUE', output)
    assert.equal('2500 removed\n', (broker:cli('shared', 'clear', 'many:')))
    assert.equal('5\n', (broker:cli('shared', 'get', 'limit')))
  end)

  it('is changed on the command line', function()
    assert.equal('', (broker:cli('shared', 'set', 'a key', 'a value', '--ttl', '1h')))
    assert.equal('a value\n', (broker:cli('shared', 'get', 'a key')))
    assert.equal('{"ok":true}\n', (broker:cli('shared', '--json', 'set', 'a key', '7', '--type', 'integer')))
    assert.equal(7, c:document('SHARED get key=a%20key').value)
    broker:cli('shared', 'delete', 'a key')
    local output, status = broker:cli('shared', 'get', 'a key')
    assert.matches("there is no 'a key'", output)
    assert.equal(1, status)
    assert.equal(2, (select(2, broker:cli('shared', 'put'))))
    assert.equal(2, (select(2, broker:cli('shared', 'get'))))
  end)

  it('is there over HTTP', function()
    http:expect(200, 'PUT', '/api/shared/entry', { key = 'h 1', value = 7, ttl = '1h' })
    http:expect(200, 'PUT', '/api/shared/entry', { key = 'h 2', value = 0.5 })
    http:expect(200, 'PUT', '/api/shared/entry', { key = 'h 3', value = true })
    http:expect(200, 'PUT', '/api/shared/entry', { key = 'h 4', value = 'text' })
    local list = by_key(http:expect(200, 'GET', '/api/shared?prefix=h%20'))
    local types = {}
    for i = 1, 4 do types[i] = list['h ' .. i].type end
    assert.same({ 'integer', 'number', 'boolean', 'string' }, types)
    assert.equal(7, http:expect(200, 'GET', '/api/shared/entry?key=h%201').value)
    http:expect(200, 'DELETE', '/api/shared/entry?key=h%201')
    http:expect_error(404, 'not-found', 'GET', '/api/shared/entry?key=h%201')
    http:expect_error(400, 'syntax', 'PUT', '/api/shared/entry', { key = 'h', value = { 1 } })
    http:expect_error(400, 'syntax', 'PUT', '/api/shared/entry', { key = 'h' })
    http:expect_error(400, 'syntax', 'GET', '/api/shared/entry')
    assert.equal(3, http:expect(200, 'DELETE', '/api/shared?prefix=h%20').removed)
  end)
end)
