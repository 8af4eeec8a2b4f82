-- docs/coming-from.md: each row of its tables is run against a broker, and gets what the
-- row says. The document describes the form of a row. No call of theirs is forgotten.
local Broker = require 'support.broker'
local Client = require 'support.client'
local shell = require 'support.shell'

local doc = shell.read_file 'docs/coming-from.md'

---@class Row
---@field theirs string
---@field ours string
---@field differs string

---@class Table
---@field name string
---@field setup string[] requests before each row
---@field rows Row[]

---@return Table[]
local function read_tables()
  local tables = {}
  for name, text in (doc .. '\n## '):gmatch '## ([^\n]+)\n(.-)\n%f[#]' do
    local t = { name = name, setup = {}, rows = {} }
    for line in (text:match '```tide\n(.-)```' or ''):gmatch '[^\n]+' do t.setup[#t.setup + 1] = line end
    for line in text:gmatch '\n(|[^\n]+)' do
      local theirs, ours, differs = line:match '^| (.-) | (.-) |%s?(.-)%s*|$'
      if not theirs then
        t.rows[#t.rows + 1] = { theirs = line } -- no row: a test says so
      elseif theirs ~= 'theirs' and theirs ~= '---' then
        t.rows[#t.rows + 1] = { theirs = theirs, ours = ours, differs = differs }
      end
    end
    if #t.rows > 0 then tables[#tables + 1] = t end
  end
  return tables
end

--- What a row has you type, and what must come.
---@return {kind: 'request'|'answer', text: string}[]
local function steps_of(ours)
  local steps, at = {}, 1
  while true do
    local from, to, text = ours:find('`(.-)`', at)
    if not from then return steps end
    local is_answer = ours:sub(at, from - 1):find('→', 1, true)
    steps[#steps + 1] = { kind = is_answer and 'answer' or 'request', text = text }
    at = to + 1
  end
end

-- ---- playing a row ------------------------------------------------------------

---@class Player
---@field c Client
---@field names table<string, string> what ID1, ID2, TOKEN stand for
---@field loose string[] lines that answer no request that was waited for
---@field reply string? to the last request of a channel that does not wait
---@field channel string of the last request: '@1 ', or nothing
local Player = {}
Player.__index = Player

local function channel_of(line)
  return line:match '^@%d+ ' or ''
end

local function is_document(text)
  return text:find '^[%[{]' ~= nil
end

local function is_reply(line)
  local word = line:gsub('^@%d+ ', ''):match '^%u+'
  return word == 'OK' or word == 'ERR' or word == 'DATA'
end

--- One line, with what belongs to it: the payload of a MSG; of DATA, the document alone.
function Player:read()
  local line = self.c:expect '^.*$'
  local len = line:match '^@?%d* ?DATA (%d+)$'
  if len then return self.c:expect_payload(len), true end
  len = line:match '^@?%d* ?MSG .* (%d+)$'
  if len then line = line .. '⏎' .. self.c:expect_payload(len) end
  return line, is_reply(line)
end

function Player:send(text)
  text = text:gsub('%u+%d*', function(name) return self.names[name] end)
  self.c:send(text:gsub('⏎', '\r\n') .. '\r\n')
  self.reply, self.channel = nil, channel_of(text)
  if text:find ' quiet' then return end
  -- Another channel may wait, while this one goes on.
  if self.channel ~= '' and text:find 'wait=' then return end
  repeat
    local line, is_answer = self:read()
    is_answer = is_answer and (channel_of(line) == self.channel or is_document(line))
    if is_answer then self.reply = line else self.loose[#self.loose + 1] = line end
  until is_answer
  local id = text:find '^PUB' and self.reply:match '^OK (%x+) '
  if id then
    self.published = (self.published or 0) + 1
    self.names['ID' .. self.published] = id
  end
end

--- The text of an answer as a pattern: `…` is anything, a name what it stands for.
function Player:pattern(text)
  local new = {}
  local pattern = text:gsub('[%^%$%(%)%%%.%[%]%*%+%-%?]', '%%%0'):gsub('…', '.*')
  pattern = pattern:gsub('%f[%w]%u+%d*%f[%W]', function(name)
    if self.names[name] then return self.names[name] end
    if not name:find '^ID%d$' and name ~= 'TOKEN' then return nil end
    new[#new + 1] = name
    return '(%x+)'
  end)
  return '^' .. pattern .. '$', new
end

function Player:match(text, line)
  local pattern, new = self:pattern(text)
  local captures = { line:match(pattern) }
  if #captures == 0 then return false end
  for i, name in ipairs(new) do self.names[name] = captures[i] end
  return true
end

function Player:expect(text)
  local is_of_this = self.is_cli or is_document(text) or (is_reply(text) and channel_of(text) == self.channel)
  if self.reply and is_of_this then
    assert(self:match(text, self.reply), ('expected %q, got %q'):format(text, self.reply))
    self.reply = nil
    return
  end
  for _ = 1, 20 do
    local line = table.remove(self.loose, 1) or self:read()
    if self:match(text, line) then return end
    assert(not is_reply(line), ('expected %q, got %q'):format(text, line))
  end
  error(('%q did not come'):format(text))
end

--- Without an answer in the row, the request must succeed.
function Player:expect_success(request)
  if self.reply and self.reply:find '^@?%d* ?ERR' then
    error(('%q was answered %q'):format(request, self.reply))
  end
end

local function run_cli(broker, request)
  local words = {}
  for word in request:gmatch '%S+' do words[#words + 1] = word end
  local output, status = broker:cli(table.unpack(words, 2))
  assert.equal(0, status, output)
  return (output:gsub('\n$', ''))
end

local function play(broker, setup, row)
  local steps = steps_of(row.ours)
  local c = broker:enter_vhost()
  if steps[1].text:find '^HELLO' then
    c:close()
    c = Client.connect(broker.address)
  end
  local player = setmetatable({ c = c, names = {}, loose = {} }, Player)
  if not steps[1].text:find '^HELLO' then
    for _, line in ipairs(setup) do
      player:send(line)
      player:expect_success(line)
    end
  end
  for i, step in ipairs(steps) do
    if step.kind == 'answer' then
      player:expect(step.text)
    elseif step.text:find '^tidemq ' then
      player.reply, player.is_cli = run_cli(broker, step.text), true
    else
      player.is_cli = false
      player:send(step.text)
      if not steps[i + 1] or steps[i + 1].kind == 'request' then player:expect_success(step.text) end
    end
  end
  c:close()
end

-- ---- all of their calls ---------------------------------------------------------

--- What each of them offers, as its own reference names it.
local calls = {
  RabbitMQ = [[
    connection.open connection.start connection.tune connection.close connection.blocked connection.update-secret
    channel.open channel.close channel.flow
    exchange.declare exchange.delete exchange.bind exchange.unbind
    queue.declare queue.bind queue.unbind queue.purge queue.delete
    basic.qos basic.consume basic.cancel basic.publish basic.return basic.deliver basic.get basic.ack basic.nack
    basic.reject basic.recover confirm.select tx.select tx.commit tx.rollback
    x-message-ttl x-expires x-max-length x-max-length-bytes x-overflow x-dead-letter-exchange
    x-dead-letter-routing-key x-dead-letter-strategy x-max-priority x-queue-mode x-queue-type
    x-single-active-consumer x-delivery-limit x-priority x-match alternate-exchange x-death]],
  beanstalkd = [[
    put use reserve reserve-with-timeout reserve-job delete release bury touch watch ignore peek peek-ready
    peek-delayed peek-buried kick kick-job stats-job stats-tube stats list-tubes list-tube-used
    list-tubes-watched quit pause-tube DEADLINE_SOON DRAINING BURIED JOB_TOO_BIG EXPECTED_CRLF BAD_FORMAT
    UNKNOWN_COMMAND NOT_FOUND]],
  ['dyno-queues'] = [[
    getName getUnackTime push pop popWithMsgId peek ack setUnackTimeout setTimeout remove atomicRemove ensure
    containsPredicate getMsgWithPredicate popMsgWithPredicate get getAllMessages localGet bulkPop unsafeBulkPop
    size shardSizes clear processUnacks atomicProcessUnacks findStaleMessages unsafePeekAllShards
    unsafePopAllShards unsafePopWithMsgIdAllShards close Message.setTimeout Message.setPriority]],
  ['Redis lists'] = [[
    LPUSH RPOP BRPOP RPOPLPUSH LMOVE BRPOPLPUSH BLMOVE BLMPOP LMPOP LREM LLEN LRANGE LPOS LTRIM ZADD
    SUBSCRIBE PUBLISH MULTI EXEC INCR]],
  ['Redis Streams'] = [[
    XADD XLEN XRANGE XREVRANGE XREAD XGROUP XREADGROUP XACK XPENDING XCLAIM XAUTOCLAIM XDEL XTRIM XINFO XSETID]],
  Kafka = [[
    send partitioner.class acks linger.ms batch.size enable.idempotence transactional.id beginTransaction
    headers timestamp subscribe group.id assign poll max.poll.records max.poll.interval.ms session.timeout.ms
    commitSync commitAsync enable.auto.commit auto.offset.reset seek seekToBeginning seekToEnd offsetsForTimes
    beginningOffsets endOffsets committed position pause resume ConsumerRebalanceListener
    partition.assignment.strategy group.instance.id retention.ms retention.bytes cleanup.policy kafka-topics
    kafka-consumer-groups kafka-delete-records kafka-console-producer kafka-console-consumer replication.factor]],
  ['NATS JetStream'] = [[
    js.publish Nats-Msg-Id Nats-Expected-Last-Sequence max_age max_msgs max_bytes max_msgs_per_subject discard
    retention storage replicas mirror sources deliver_policy filter_subject ack_policy ack_wait max_deliver backoff
    max_ack_pending fetch nak term in_progress num_pending]],
  EQueue = [[
    Producer.Send Producer.SendAsync SendOneway BatchSend Consumer.Subscribe IMessageHandler PullMessages
    CommitConsumeOffset ConsumeFromWhere.FirstOffset MessageHandleMode.Sequential RetryMessageInterval
    GetCurrentQueues CreateTopic AddQueue DeleteTopic GetTopicQueueInfo GetTopicConsumeInfo GetConsumerList
    SetQueueNextConsumeOffset DeleteConsumerGroup GetMessageDetail DeleteMessageByTimeStrategy
    DeleteMessageByCountStrategy]],
  LindMQ = [[
    ProducerManager.Push PushResult MessageBody.QueueId QueueOffset Config_QueueCount ConsumerManager.Start
    GetQueueOffset GetAllTopic GetMessageBody AutoRemoveQueue AutoEmptyForDay]],
}

describe('docs/coming-from.md', function()
  local broker
  local tables = read_tables()

  setup(function() broker = Broker.start { args = { '--fsync', 'no', '--max-vhosts', '1000' } } end)
  teardown(function() if broker then broker:destroy() end end)

  it('has a table for each of those that people come from', function()
    local names = {}
    for _, t in ipairs(tables) do
      names[t.name] = true
      assert.is_string(calls[t.name], t.name)
    end
    for name in pairs(calls) do assert.is_true(names[name], name) end
  end)

  for _, t in ipairs(tables) do
    describe('on ' .. t.name, function()
      it('names each call', function()
        local named = {}
        for _, row in ipairs(t.rows) do
          for word in row.theirs:gmatch '[%w_.-]+' do named[word] = true end
        end
        for call in calls[t.name]:gmatch '%S+' do assert.is_true(named[call], call) end
      end)

      for _, row in ipairs(t.rows) do
        it('is right about ' .. row.theirs, function()
          assert.is_string(row.ours, 'a row of three cells')
          local steps = steps_of(row.ours)
          if row.ours:find '^none' then
            assert.equal(0, #steps, 'a row with nothing to run')
            assert.is_true(#row.differs > 0, 'says what to do instead')
          elseif steps[1].text:find '^EVT' then
            local event = steps[1].text:match '^EVT %S+'
            assert.is_truthy(shell.read_file('docs/protocol-framing.md'):find('\n| `' .. event, 1, true), event)
          else
            play(broker, t.setup, row)
          end
        end)
      end
    end)
  end
end)
