local Broker = require 'support.broker'
describe('x', function() it('y', function()
  local broker = Broker.start { args={'--fsync','no'} }
  local c, w = broker:connect(), broker:connect()
  c:ok 'DECLARE exchange x topic'
  c:ok 'DECLARE queue dead shards=1'
  c:ok 'DECLARE queue q shards=1 dead-letter=-/dead'
  c:ok 'DECLARE topic t partitions=1'
  c:ok 'BIND q x a.#'
  c:ok 'BIND t x a.#'
  w:ok 'TRACE x a.* payload'
  c:ok('PUB x a.b h:h=v', 'hello')
  c:ok('PUB x b.b', 'hello')
  c:get 'q'
  c:ok 'NACK 1 dead'
  c:get 'dead'
  c:ok 'ACK 2'
  c:get 't group=g'
  c:ok 'ACK 3'
  for i=1,12 do local l = w:read_line(0.5) print(l) end w:close() c:close()
  broker:expect_clean_stop()
end) end)
