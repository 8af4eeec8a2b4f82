-- SUB exclusive: the queue has no other subscription meanwhile.
local Broker = require 'support.broker'

describe('an exclusive subscription', function()
  local broker, c, d
  setup(function() broker = Broker.start() end)
  teardown(function() broker:expect_clean_stop() end)
  before_each(function()
    c = broker:enter_vhost()
    d = broker:connect()
    c:ok 'DECLARE queue q'
  end)
  after_each(function()
    c:close()
    d:close()
  end)

  local taken = "ERR exists queue 'q' has an exclusive subscription"

  it('keeps others out until it ends', function()
    c:expect_answer('SUB q s exclusive', 'OK')
    d:expect_answer('SUB q s', taken)
    d:expect_answer('SUB q s exclusive', taken)
    c:expect_answer('SUB q t', taken)
    d:ok('PUB - q', 'a')
    assert.equal('a', c:expect_msg().payload)
    c:ok 'UNSUB s'
    d:expect_answer('SUB q s', 'OK')
  end)

  it('ends with its connection', function()
    c:expect_answer('SUB q s exclusive', 'OK')
    local e = broker:connect()
    c:ok 'QUIT'
    assert(require 'support.wait'.poll(function() return e:stats('q').consumers == 0 end))
    e:expect_answer('SUB q s exclusive', 'OK')
    e:close()
  end)

  it('is refused while there is another', function()
    local answer = "ERR exists queue 'q' has %s: an exclusive one must be the only one"
    d:ok 'SUB q s'
    c:expect_answer('SUB q s exclusive', answer:format '1 subscription')
    d:ok 'SUB q t'
    c:expect_answer('SUB q s exclusive', answer:format '2 subscriptions')
    d:ok 'UNSUB s'
    d:ok 'UNSUB t'
    c:expect_answer('SUB q s exclusive', 'OK')
  end)

  it('does not mind a GET', function()
    d:send '@1 OPEN\r\n@1 GET q wait=1h\r\n'
    d:expect '^@1 OK$'
    c:expect_answer('SUB q s exclusive', 'OK')
    d:expect_answer('GET q', 'OK 0')
  end)

  it('is shown by LIST consumers, of it alone', function()
    c:ok 'SUB q s exclusive'
    c:ok 'DECLARE queue r'
    c:ok 'SUB r t'
    local shown = {}
    for _, consumer in ipairs(c:document 'LIST consumers') do shown[consumer.sid] = consumer.exclusive or 'no' end
    assert.same({ s = true, t = 'no' }, shown)
  end)

  it('is not for topics', function()
    c:ok 'DECLARE topic log'
    c:expect_answer('SUB log s exclusive', "ERR syntax exclusive is for queues, and 'log' is a topic")
  end)
end)
