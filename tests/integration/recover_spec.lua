-- What a start makes of what a killed broker has left.
local Broker = require 'support.broker'
local traffic = require 'support.traffic'

describe('a deletion that a crash interrupts', function()
  it('removes a queue with its messages at once, or not at all', function()
    -- The command that removes the messages fails: what a crash before it leaves.
    local broker = Broker.start { redis = { '--rename-command', 'UNLINK', '' } }
    local c = broker:connect()
    c:ok 'DECLARE queue jobs shards=2'
    traffic.publish(c, 'jobs', 4)
    c:send 'DELETE queue jobs\r\n'
    broker:expect_log "Redis refused to delete 'jobs', trying again"
    broker:kill9()
    broker:run()
    c = broker:connect()
    assert.equal(4, c:stats('jobs').ready)
    broker:destroy()
  end)

  it('is finished at the next start', function()
    local broker = Broker.start { redis = {} }
    local c = broker:connect()
    local redis = broker.redis
    c:ok 'DECLARE exchange orders topic'
    c:ok 'DECLARE exchange passing fanout auto-delete=1'
    c:ok 'DECLARE queue jobs'
    c:ok 'BIND jobs orders orders.#'
    c:ok 'DECLARE queue kept'
    c:ok 'BIND kept orders kept.#'
    broker:kill9()
    -- The queue `gone` was bound to both exchanges, the exchange `away` to `jobs` and from `passing`.
    redis:cli('SADD', 'tide:/:bindings', 'queue gone orders orders.#', 'queue gone passing -', 'queue jobs away -',
      'exchange away passing -')
    redis:cli('SADD', 'tide:vhosts', 'left')
    redis:cli('SADD', 'tide:left:bindings', 'queue gone away -')
    broker:run()
    broker:expect_log 'finished a deletion: removed 5 bindings'
    c = broker:connect()
    c:ok 'DECLARE queue gone' -- answered behind the removals
    assert.equal('2', redis:cli('SCARD', 'tide:/:bindings'))
    assert.equal('0', redis:cli('EXISTS', 'tide:left:bindings'))
    assert.equal('orders', redis:cli('HKEYS', 'tide:/:exchanges'))
    assert.equal('/', redis:cli('SMEMBERS', 'tide:vhosts'))
    assert.equal('2', redis:cli('SCARD', 'tide:/:bindings'))
    assert.equal(2, #c:document 'LIST bindings')
    broker:destroy()
  end)
end)
