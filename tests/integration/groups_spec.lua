-- Groups of consumers of a topic: SUB group=, ACK, NACK, TOUCH, assignment, commits.
local Broker = require 'support.broker'

describe('a group', function()
  local broker, c

  setup(function() broker = Broker.start { args = { '--fsync', 'no' } } end)
  teardown(function() broker:expect_clean_stop() end)
  before_each(function() c = broker:enter_vhost() end)
  after_each(function() c:close() end)

  it('gets what was published, in order, with partition and offset', function()
    c:ok 'DECLARE topic t partitions=1'
    for i = 1, 3 do c:ok('PUB - t', 'm' .. i) end
    c:send 'SUB t s group=g\r\n'
    c:expect_line 'OK'
    c:expect_line 'EVT assigned s 0'
    for i = 1, 3 do
      local m = c:expect_msg()
      assert.equal(('MSG s %d 1 - t id=%s ts=%s partition=0 offset=%d 2'):format(i, m.options.id, m.options.ts, i - 1),
        m.line)
      assert.equal('m' .. i, m.payload)
    end
    assert.equal('3', c:ok 'ACK 1-3')
    c:ok('PUB - t', 'm4')
    assert.equal('m4', c:expect_msg().payload)
  end)
end)
