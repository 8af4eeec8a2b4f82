-- The tables that the binary prints stand in the documents, and a new row of a table is all that a new
-- option or figure costs: build/rehearsal/tidemq has one more than the binary.
local Broker = require 'support.broker'
local Http = require 'support.http'
local shell = require 'support.shell'

local tidemq = Broker.binary()
local rehearsal = tidemq:gsub('[^/]*$', 'rehearsal/tidemq')

describe('a generated table', function()
  it('is in its document as the binary prints it', function()
    local count = 0
    for _, file in ipairs { 'docs/protocol-declare.md', 'docs/operations.md', 'docs/monitoring.md' } do
      local text = shell.read_file(file)
      for name, body in text:gmatch '<!%-%- tidemq docs ([%w-]+) %-%->\n\n(.-)\n<!%-%- end %-%->' do
        count = count + 1
        assert.equal(shell.run(tidemq .. ' docs ' .. name), body, name .. ': run make docs')
      end
    end
    assert.is_true(count >= 8)
  end)
end)

describe('an option that is a new row', function()
  local broker, c, http

  setup(function()
    broker = Broker.start { binary = rehearsal, rules = {}, http = '127.0.0.1:0', args = { '--fsync', 'no' } }
    c, http = broker:connect(), Http.connect(broker)
  end)
  teardown(function() if broker then broker:destroy() end end)

  local heads = { queue = 'DECLARE queue q', topic = 'DECLARE topic t', exchange = 'DECLARE exchange x fanout' }
  for kind, head in pairs(heads) do
    it('is one of a ' .. kind, function()
      c:ok(head .. ' rehearsed=5')
      assert.matches('^ERR mismatch .* it has rehearsed=5, not rehearsed=4; the option update changes that$',
        c:request(head .. ' rehearsed=4'))
      assert.matches('^ERR syntax rehearsed=10: expected a number from 1 to 9$',
        c:request(head .. ' rehearsed=10 update'))
      c:ok(head .. ' rehearsed=6 update')
      local name = head:match '%w+ (%l)%f[%s\0]'
      local path = ('/api/vhosts/%%2F/%ss/%s'):format(kind, name)
      local function update(value)
        return http:put(path, { type = kind == 'exchange' and 'fanout' or nil, options = { rehearsed = value },
          update = true })
      end
      local answer = update(7)
      assert.equal(200, answer.status, answer.body)
      answer = update(0)
      assert.equal(400, answer.status)
      assert.equal('rehearsed=0: expected a number from 1 to 9', answer.json.error.text)
      local found
      for _, item in ipairs(c:document('LIST ' .. kind .. 's')) do
        if item.name == name then found = item end
      end
      assert.equal('7', found.options.rehearsed)
      assert.is_truthy(shell.run(('%s docs %s-options'):format(rehearsal, kind)):find(
        '| `rehearsed` | 1–9: what a test adds | 3 |', 1, true))
    end)
  end

  it('is there after a restart', function()
    broker:kill9_all()
    broker:run()
    c = broker:connect()
    c:ok 'DECLARE queue q rehearsed=7'
    c:ok 'DECLARE topic t rehearsed=7'
    c:ok 'DECLARE exchange x fanout rehearsed=7'
  end)
end)

describe('a figure that is a new row', function()
  it('is in LIST, its sort=, STATS, /metrics, tide.queue, tidemq list and the documents', function()
    local broker = Broker.start { binary = rehearsal, http = '127.0.0.1:0', args = { '--fsync', 'no' } }
    finally(function() broker:destroy() end)
    local c = broker:connect()
    c:ok 'DECLARE queue empty'
    c:ok 'DECLARE queue jobs'
    c:ok 'PUB - jobs 1\r\nx'
    assert.equal(1, c:document('LIST queues sort=rehearsed order=desc')[1].rehearsed)
    assert.equal(1, c:document('STATS jobs').rehearsed)
    assert.matches('tidemq_queue_rehearsed{vhost="/",queue="jobs"} 1\n', Http.connect(broker):get('/metrics').body)
    local function run(words)
      return shell.run(('TIDEMQ_URL=%s COLUMNS=200 %s %s'):format(broker:url(), rehearsal, words))
    end
    assert.equal('1\n', run [[rules eval 'tide.queue("jobs").rehearsed']])
    local list = run 'list queues --match jobs'
    assert.matches(' REHEARSED ', list)
    assert.is_truthy(run('docs queue-metrics'):find(
      '| `tidemq_queue_rehearsed` | gauge | number | What a test adds. |', 1, true))
  end)
end)
