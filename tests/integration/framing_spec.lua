-- Bytes to requests: what a line is, what a payload is, and what becomes of
-- input that is neither.
local Broker = require 'support.broker'

local NAME = '1-255 bytes of UTF-8 without white space and control characters'

describe('the framing of the line protocol', function()
  local broker, c

  setup(function() broker = Broker.start { args = { '--fsync', 'no', '--max-payload', '1M' } } end)
  teardown(function() broker:expect_clean_stop() end)
  before_each(function()
    c = broker:connect()
    c:ok 'DECLARE queue f durable=0 exclusive'
  end)
  after_each(function() c:close() end)

  local function get(payload)
    c:send 'GET f ack=auto\r\n'
    c:expect_line 'OK 1'
    local msg = c:expect_msg()
    assert.equal(payload, msg.payload)
    return msg
  end

  describe('lines', function()
    it('end in CRLF or in LF', function()
      c:send 'PING\r\nPING\nPING\r\n'
      for _ = 1, 3 do c:expect_line 'OK' end
    end)

    it('may arrive one byte at a time', function()
      for byte in ('PING\r\nPUB - f h:a=%20b 5\r\nhello\r\nPING\n'):gmatch '.' do c:send(byte) end
      c:expect_line 'OK'
      c:expect '^OK %x+ 1$'
      c:expect_line 'OK'
      assert.equal(' b', get('hello').headers.a)
    end)

    it('may arrive by the thousand in one write', function()
      local parts = {}
      for i = 1, 2000 do parts[i] = ('PUB - f %d\r\n%d\r\n'):format(#tostring(i), i) end
      c:send(table.concat(parts))
      for _ = 1, 2000 do c:expect '^OK %x+ 1$' end
      c:send 'GET f max=1000 ack=auto\r\n'
      c:expect_line 'OK 1000'
      for i = 1, 1000 do assert.equal(tostring(i), c:expect_msg().payload) end
    end)

    it('are taken in any split', function()
      local text = 'PUB - f h:x=%41 3\r\na\nb\r\nPING\nGET f ack=auto\r\n'
      for cut = 1, #text - 1 do
        c:send(text:sub(1, cut))
        c:send(text:sub(cut + 1))
        c:expect '^OK %x+ 1$'
        c:expect_line 'OK'
        c:expect_line 'OK 1'
        assert.equal('a\nb', c:expect_msg().payload)
      end
    end)

    it('are forgotten when the peer closes in the middle of one', function()
      local half = broker:connect()
      half:send 'PING\r\nPIN'
      half:expect_line 'OK'
      half:shutdown()
      half:expect_closed()
      local payload = broker:connect()
      payload:send 'DECLARE queue half durable=0\r\nPUB - half 10\r\n12345'
      payload:expect_line 'OK'
      payload:shutdown()
      payload:expect_closed()
      c:send 'GET half\r\nDELETE queue half\r\n'
      c:expect_line 'OK 0'
      c:expect_line 'OK'
    end)

    it('that are empty are ignored', function()
      c:send '\r\n\n\r\n'
      c:expect_nothing()
    end)

    it('have single spaces between their words', function()
      c:send 'DELETE  queue f\r\n'
      c:expect_line 'ERR syntax single spaces separate words'
      c:send 'GET f \r\n'
      c:expect_line 'ERR syntax single spaces separate words'
      c:send 'GET f  max=2\r\n'
      c:expect_line 'ERR syntax single spaces separate words'
      c:send ' PING\r\n'
      c:expect_line 'ERR syntax a request begins with a verb; single spaces separate words'
      c:send 'PUB - f  2\r\nhi\r\n'
      c:expect_line 'ERR syntax single spaces separate words'
      c:expect_nothing()
    end)

    it('begin with a verb in any case', function()
      c:send 'ping\r\nPiNg\r\n'
      c:expect_line 'OK'
      c:expect_line 'OK'
    end)

    it('with a verb that there is not are refused', function()
      c:send 'FROB a b\r\n'
      c:expect_line "ERR unknown-verb there is no verb 'FROB'"
      c:send 'PINGPONG\r\n'
      c:expect_line "ERR unknown-verb there is no verb 'PINGPONG'"
      c:send 'PIN\r\n'
      c:expect_line "ERR unknown-verb there is no verb 'PIN'"
      c:expect_nothing()
    end)

    it('that lack words are told which', function()
      for line, text in pairs {
        ['BIND'] = 'BIND needs <queue>, <exchange> and <pattern>: <queue>, <exchange> and <pattern> are missing',
        ['DECLARE'] = 'DECLARE takes exchange, queue, topic or vhost',
        ['DECLARE queue'] = 'DECLARE queue needs <queue>: <queue> is missing',
        ['SUB q'] = 'SUB needs <queue> and <sid>: <sid> is missing',
        ['GET'] = 'GET needs <queue>: <queue> is missing',
        ['ACK'] = 'ACK needs tags: numbers, or ranges like 3-7',
      } do
        c:expect_answer(line, 'ERR syntax ' .. text)
      end
    end)

    it('are all listed by help', function()
      c:send 'help\r\n'
      local text = c:expect_data()
      for name in pairs(require 'support.line_verbs') do
        assert.is_truthy(('\n' .. text):find('\n' .. name, 1, true), name)
      end
      local pub = 'PUB <exchange> <key> [pri=]'
        .. ' [delay=] [ttl=] [id=] [ack-timeout=] [durable=] [expect=] [must] [h:name=value]... <length>'
      assert.is_truthy(text:find(pub, 1, true))
      local peek = '\nPEEK <queue> [n] [state=] [match=] [after=] [partition=] [offset=] [newest]\r\n'
      assert.is_truthy(text:find(peek, 1, true))
    end)

    it('of HTTP end the connection, and their bodies are not carried out', function()
      for _, head in ipairs {
        'POST / HTTP/1.1', 'GET / HTTP/1.0', 'delete /queue HTTP/1.1', 'OPTIONS * HTTP/1.1', 'PUT http://x/ HTTP/1.1',
        'PRI * HTTP/2.0',
      } do
        local page = broker:connect()
        page:send(head .. '\r\nHost: localhost\r\n\r\nDECLARE queue from-a-page\r\nPUB - from-a-page 1\r\nx\r\n')
        page:expect_line('ERR syntax this port speaks the tidemq line protocol; '
          .. 'HTTP is on that of --http (by default 7311)')
        page:expect_closed()
      end
      c:expect_answer('STATS from-a-page', "ERR not-found there is no queue 'from-a-page' in vhost '/'")
      -- Only there: a queue may have such a name.
      c:ok 'DECLARE queue HTTP/1.1'
      broker:connect():ok 'DELETE queue HTTP/1.1'
    end)

    it('with zero bytes are refused', function()
      c:send 'PING\0\r\n'
      c:expect '^ERR syntax '
      c:send 'PING\0PONG and so on\r\n'
      c:expect '^ERR syntax '
      c:send 'GET f\0\r\n'
      c:expect_line 'ERR syntax a line must not contain zero bytes'
      c:send 'PUB - f\0 2\r\nhi\r\n'
      c:expect_line 'ERR syntax a line must not contain zero bytes'
      c:expect_nothing()
    end)

    it('have at most 65536 bytes with their end', function()
      local line = 'PUB - f h:a=' .. ('x'):rep(65536 - #'PUB - f h:a= 2\r\n') .. ' 2\r\n'
      c:send(line .. 'hi\r\n')
      c:expect '^OK %x+ 1$'
      assert.equal(65536 - #'PUB - f h:a= 2\r\n', #get('hi').headers.a)
    end)

    it('of 70 KiB end the connection', function()
      c:send(('PUB - f h:a=%s 2\r\nhi\r\n'):format(('x'):rep(70 * 1024)))
      c:expect_line 'ERR too-long a line has at most 65536 bytes'
      c:expect_closed()
    end)

    it('without an end are refused when they become too long', function()
      c:send(('x'):rep(65536))
      c:expect_line 'ERR too-long a line has at most 65536 bytes'
      c:expect_closed()
    end)

    it('that are too long are answered after all that came before', function()
      c:ok 'DECLARE queue framing.order'
      c:send('PUB - framing.order 1\r\na\r\nDELETE queue framing.order\r\n' .. ('x'):rep(70000))
      c:expect '^OK %x+ 1$'
      c:expect_line 'OK'
      c:expect_line 'ERR too-long a line has at most 65536 bytes'
      c:expect_closed()
    end)
  end)

  describe('payloads', function()
    it('are any bytes', function()
      local all = {}
      for i = 0, 255 do all[#all + 1] = string.char(i) end
      local payload = table.concat(all) .. '\r\nPING\r\n\0\0'
      assert.equal('OK', c:request('PUB - f', payload):match '^OK')
      get(payload)
    end)

    it('may be empty', function()
      c:send 'PUB - f 0\r\n\r\n'
      c:expect '^OK %x+ 1$'
      c:send 'PUB - f 0\n\n'
      c:expect '^OK %x+ 1$'
      get ''
      get ''
    end)

    it('may be large, and arrive in pieces', function()
      local payload = ('0123456789abcdef'):rep(65536)
      c:send(('PUB - f %d\r\n'):format(#payload))
      for at = 1, #payload, 100000 do c:send(payload:sub(at, at + 99999)) end
      c:send '\r\n'
      c:expect '^OK %x+ 1$'
      get(payload)
    end)

    it('longer than their length end the connection', function()
      c:send 'PUB - f 3\r\nhello\r\n'
      c:expect_line 'ERR syntax no line end follows the payload; check its length'
      c:expect_closed()
    end)

    it('shorter than their length take in what follows', function()
      c:send 'PUB - f 9\r\nhello\r\nPING\r\nPING\r\n'
      c:expect_line 'ERR syntax no line end follows the payload; check its length'
      c:expect_closed()
    end)

    it('followed by CR and something else end the connection', function()
      c:send 'PUB - f 5\r\nhello\rX'
      c:expect_line 'ERR syntax no line end follows the payload; check its length'
      c:expect_closed()
    end)

    it('without a length that is a number end the connection', function()
      local text = 'ERR syntax PUB must end with the length of the payload in decimal; '
        .. 'the connection cannot continue'
      for _, line in ipairs {
        'PUB - f five', 'PUB - f -1', 'PUB - f +1', 'PUB - f 1.5', 'PUB - f 0x10', 'PUB - f must', 'PUB - f 5 ',
        'PUB - f 9007199254740993', 'PUB - f 18446744073709551616', 'PUB - f 99999999999999999999999999',
      } do
        local lost = broker:connect()
        lost:send(line .. '\r\nPING\r\n')
        lost:expect_line(text)
        lost:expect_closed()
      end
    end)

    it('whose PUB lacks words are told which, and end the connection', function()
      for line, missing in pairs {
        ['PUB'] = '<exchange>, <key> and <length> are',
        ['pub five'] = '<key> and <length> are',
        ['PUB - f'] = '<length> is',
      } do
        local lost = broker:connect()
        lost:send(line .. '\r\nPING\r\n')
        lost:expect_line('ERR syntax PUB needs <exchange>, <key> and <length>: ' .. missing
          .. ' missing; the connection cannot continue')
        lost:expect_closed()
      end
    end)

    it('over the limit are skipped, and the connection goes on', function()
      c:send('PUB - f 1048577\r\n' .. ('x'):rep(1048577) .. '\r\n')
      c:expect_line 'ERR too-large the payload of 1048577 bytes exceeds the limit of 1048576 and is skipped'
      c:expect_nothing()
      c:send('PUB - f 1048576\r\n' .. ('x'):rep(1048576) .. '\r\n')
      c:expect '^OK %x+ 1$'
      get(('x'):rep(1048576))
    end)

    it('of a refused PUB are skipped', function()
      local text = 'PING\r\n'
      local function refused(line, answer)
        c:send(('%s %d\r\n%s\r\n'):format(line, #text, text))
        c:expect_line(answer)
        c:expect_nothing()
      end
      refused('PUB nowhere k', "ERR not-found there is no exchange 'nowhere' in vhost '/'")
      refused('PUB - f pri=256', 'ERR syntax pri=256: expected a number from 0 to 255')
      refused('PUB - f maybe', "ERR syntax PUB has no flag 'maybe'; it takes: must quiet")
      refused('PUB - f frob=1',
        "ERR syntax PUB has no option 'frob'; it takes: pri delay ttl id ack-timeout durable expect")
      refused('PUB -', 'ERR syntax PUB needs <exchange>, <key> and <length>: <key> is missing')
      refused('@7 PUB - f', '@7 ERR not-found channel 7 is not open: send @7 OPEN first')
      refused('@x PUB - f', "ERR syntax '@x' is not a channel: expected @0 to @65535 and a space")
      refused('@65536 PUB - f', "ERR syntax '@65536' is not a channel: expected @0 to @65535 and a space")
      refused('PUB - nobody must', "ERR unroutable no queue takes key 'nobody' from exchange '-'")
    end)
  end)

  describe('headers', function()
    it('come back as they were, in their order', function()
      c:send 'PUB - f h:b=2 h:a=1 h:B=3 h:empty= h:eq=a=b 2\r\nhi\r\n'
      c:expect '^OK %x+ 1$'
      c:send 'GET f ack=auto\r\n'
      c:expect_line 'OK 1'
      c:expect '^MSG %- %- 1 %- f id=%x+ ts=%d+ h:b=2 h:a=1 h:B=3 h:empty= h:eq=a=b 2$'
      c:expect_line 'hi'
    end)

    it('are percent-encoded both ways', function()
      c:send 'PUB - f h:all=%00%01%0d%0A%20%25%7f%41é 2\r\nhi\r\n'
      c:expect '^OK %x+ 1$'
      c:send 'GET f ack=auto\r\n'
      c:expect_line 'OK 1'
      c:expect '^MSG %- %- 1 %- f id=%x+ ts=%d+ h:all=%%00%%01%%0d%%0a%%20%%25%%7fAé 2$'
      c:expect_line 'hi'
    end)

    it('with a % that is not followed by two hex digits are refused', function()
      for _, value in ipairs { '%', '%4', '%zz', 'a%', '%4g', '%%41' } do
        c:send('PUB - f h:a=' .. value .. ' 2\r\nhi\r\n')
        c:expect_line "ERR syntax the value of 'a' has a % that is not followed by two hex digits"
      end
      c:expect_nothing()
    end)

    local function many(n)
      local words = {}
      for i = 1, n do words[i] = ('h:n%d=%d'):format(i, i) end
      return table.concat(words, ' ')
    end

    it('are at most 64', function()
      c:send('PUB - f ' .. many(64) .. ' 2\r\nhi\r\n')
      c:expect '^OK %x+ 1$'
      assert.equal('64', get('hi').headers.n64)
      c:send('PUB - f ' .. many(65) .. ' 2\r\nhi\r\n')
      c:expect_line 'ERR too-long a message has at most 64 headers'
      c:expect_nothing()
    end)

    it('that stand twice are refused', function()
      c:send 'PUB - f h:a=1 h:b=1 h:a=2 2\r\nhi\r\n'
      c:expect_line "ERR syntax header 'a' appears twice"
      c:expect_nothing()
    end)

    it('have names', function()
      c:send 'PUB - f h:=1 2\r\nhi\r\n'
      c:expect_line('ERR syntax the name of a header must be ' .. NAME)
      c:send('PUB - f h:' .. ('n'):rep(256) .. '=1 2\r\nhi\r\n')
      c:expect_line('ERR too-long the name of a header must be ' .. NAME)
      c:send('PUB - f h:' .. ('n'):rep(255) .. '=1 2\r\nhi\r\n')
      c:expect '^OK %x+ 1$'
      assert.equal('1', get('hi').headers[('n'):rep(255)])
    end)

    it('belong to PUB and EXPLAIN alone', function()
      c:send 'GET f h:a=1\r\n'
      c:expect_line 'ERR syntax GET takes no headers'
    end)
  end)

  describe('options', function()
    it('that stand twice are refused', function()
      c:send 'GET f max=1 max=1\r\n'
      c:expect_line "ERR syntax option 'max' appears twice"
      c:send 'DECLARE queue twice exclusive exclusive=1\r\n'
      c:expect_line "ERR syntax option 'exclusive' appears twice"
    end)

    it('are percent-decoded', function()
      c:send 'GET f max=%32 wait=%30\r\n'
      c:expect_line 'OK 0'
      c:send 'GET f max=%3\r\n'
      c:expect_line "ERR syntax the value of 'max' has a % that is not followed by two hex digits"
    end)

    it('that a verb does not know are refused, with those that it does', function()
      c:send 'PING now\r\n'
      c:expect_line "ERR syntax PING has no flag 'now'; it takes: quiet"
      c:send 'PING a=b\r\n'
      c:expect_line "ERR syntax PING has no option 'a'; it takes: none"
      c:send 'SUB f s pre=3\r\n'
      c:expect "^ERR syntax SUB has no option 'pre'; it takes: prefetch ack"
    end)

    it('are at most 64', function()
      local words = {}
      for i = 1, 65 do words[i] = ('o%d=1'):format(i) end
      c:send('DECLARE queue many ' .. table.concat(words, ' ') .. '\r\n')
      c:expect_line 'ERR too-long a request has at most 64 options'
    end)
  end)

  describe('names', function()
    it('have 1 to 255 bytes', function()
      local longest = ('q'):rep(255)
      c:ok('DECLARE queue ' .. longest .. ' exclusive')
      c:ok('PUB - ' .. longest, 'x')
      c:send('SUB ' .. longest .. ' ' .. longest .. '\r\n')
      c:expect_line 'OK'
      local msg = c:expect_msg()
      assert.equal(longest, msg.key)
      assert.equal(longest, msg.sid)
      c:send('DECLARE queue ' .. longest .. 'q\r\n')
      c:expect_line('ERR too-long a name must be ' .. NAME)
      c:send('SUB f ' .. longest .. 'q\r\n')
      c:expect_line("ERR too-long a subscription's id must be " .. NAME)
      c:send('PUB - ' .. longest .. 'q 1\r\nx\r\n')
      c:expect_line('ERR too-long a key must be ' .. NAME)
    end)

    it('are UTF-8', function()
      c:ok 'DECLARE queue grüße-☃-🌊 exclusive'
      c:ok('PUB - grüße-☃-🌊', 'x')
      for _, bad in ipairs { '\xff', 'a\xc3', '\xc0\xaf', '\xed\xa0\x80', '\xf4\x90\x80\x80', 'x\x80y' } do
        c:send('DECLARE queue ' .. bad .. '\r\n')
        c:expect_line('ERR syntax a name must be ' .. NAME)
        c:send('PUB - ' .. bad .. ' 1\r\nx\r\n')
        c:expect_line('ERR syntax a key must be ' .. NAME)
      end
    end)

    it('have no control characters and no white space', function()
      for _, bad in ipairs { 'a\tb', 'a\x01', '\x7f', 'a\rb', 'a\u{a0}b', 'a\u{2028}b', 'a\u{85}' } do
        c:send('DECLARE queue ' .. bad .. '\r\n')
        c:expect_line('ERR syntax a name must be ' .. NAME)
      end
    end)

    it('cannot break the line of an error', function()
      c:send 'UNSUB a\rb\x01c\x1b[31m\r\n'
      c:expect_line("ERR syntax a subscription's id must be " .. NAME)
      c:send 'DELETE queue a\rb\r\n'
      c:expect_line('ERR syntax a name must be ' .. NAME)
      c:send 'PURGE a\rb\r\n'
      c:expect_line('ERR syntax a queue or a topic must be ' .. NAME)
      c:send 'LIST a\rb\r\n'
      c:expect '^ERR syntax LIST takes '
      c:send 'GET f max=%1b\r\n'
      c:expect_line 'ERR syntax max= : expected a number from 1 to 1000'
    end)

    it('and headers make no line of a message longer than 72 KiB', function()
      local exchange, queue, sid, key = ('%'):rep(255), ('%'):rep(254) .. 'q', ('s'):rep(255), ('%'):rep(253) .. 'aa'
      local dead, dead_key = ('%'):rep(254) .. 'd', ('k'):rep(255)
      c:ok('DECLARE exchange ' .. exchange .. ' fanout durable=0')
      c:ok('DECLARE exchange ' .. dead .. ' fanout durable=0')
      c:ok(('DECLARE queue %s exclusive dead-letter=%s/%s'):format(queue, dead:gsub('%%', '%%25'), dead_key))
      c:ok('BIND ' .. queue .. ' ' .. exchange .. ' -')
      c:ok('BIND f ' .. dead .. ' -')
      local line = ('PUB %s %s pri=255 h:a='):format(exchange, key)
      line = line .. ('x'):rep(65536 - 4 - #line) .. ' 1\r\n'
      assert.equal(65536, #line)
      c:send(line .. 'x\r\n')
      c:expect '^OK %x+ 1$'
      c:send('@65535 OPEN\r\n@65535 SUB f ' .. sid .. '\r\n')
      c:expect_line '@65535 OK'
      c:expect_line '@65535 OK'
      c:send('GET ' .. queue .. '\r\n')
      c:expect_line 'OK 1'
      assert.is_true(#c:expect_msg().line < 66560)
      c:send 'NACK 1 dead\r\n'
      c:expect_line 'OK 1'
      local msg = c:expect_msg(nil, 65535)
      assert.equal(key, msg.headers['x-death-key'])
      assert.is_true(#msg.line > 65536 + 2000 and #msg.line + 2 <= 73728, #msg.line)
      c:send '@65535 ACK 1\r\n'
      c:expect_line '@65535 OK 1'
      c:ok('DELETE exchange ' .. exchange)
      c:ok('DELETE exchange ' .. dead)
    end)

    it('have values in which control characters are encoded', function()
      c:send 'PUB - f h:a=x\x01y 5\r\nhello\r\n'
      c:expect_line "ERR syntax the value of 'a' has a control character; write it as % and two hex digits"
      c:send 'GET f max=\x1b\r\n'
      c:expect_line "ERR syntax the value of 'max' has a control character; write it as % and two hex digits"
      c:expect_nothing()
    end)

    it('are not -, which stands for nothing', function()
      c:send 'DECLARE exchange - fanout\r\n'
      c:expect_line "ERR syntax '-' stands for the default exchange and cannot be declared"
      c:send 'SUB f -\r\n'
      c:expect_line "ERR syntax '-' cannot be the name of a subscription"
      c:send 'GET -\r\n'
      c:expect_line "ERR not-found there is no queue '-' in vhost '/'"
    end)
  end)

  describe('quiet', function()
    it('leaves out the answer of what succeeds', function()
      c:send 'PING quiet\r\nPUB - f quiet 2\r\nhi\r\n'
      c:send 'PUB nowhere k quiet 2\r\nhi\r\nDECLARE queue f2 quiet exclusive\r\n'
      c:expect_line "ERR not-found there is no exchange 'nowhere' in vhost '/'"
      c:send 'KICK f quiet\r\nKICK f 1 quiet\r\nDELETE queue f2 quiet\r\n@3 OPEN quiet\r\n@3 CLOSE quiet\r\n'
      c:expect_nothing()
      get 'hi'
    end)

    it('is not for verbs that are asked for their answer', function()
      for _, line in ipairs { 'GET f quiet', 'PEEK f 1 quiet', 'LIST queues quiet', 'EXPLAIN - f quiet' } do
        c:send(line .. '\r\n')
        c:expect "^ERR syntax %u+ ?%l* has no flag 'quiet'"
      end
      c:send 'RULES status quiet\r\n'
      c:expect_line "ERR syntax RULES status has no flag 'quiet'; it takes: none"
    end)

    it('never stops a connection, however many requests are unanswered', function()
      c:ok 'DECLARE queue framing.flood'
      local parts = {}
      for i = 1, 50000 do parts[i] = 'PUB - framing.flood quiet 1\r\nx\r\n' end
      c:send(table.concat(parts))
      c:expect_nothing()
      c:send 'PURGE framing.flood\r\n'
      c:expect_line 'OK 50000'
      c:ok 'DELETE queue framing.flood'
    end)
  end)
end)
