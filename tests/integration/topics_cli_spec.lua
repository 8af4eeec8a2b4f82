-- The command-line verbs that know topics.
local Broker = require 'support.broker'
local json = require 'dkjson'
local verbs = require 'support.verbs'
local wait = require 'support.wait'

describe('the command line on a topic', function()
  local broker
  local topic, number = nil, 0

  setup(function() broker = Broker.start { args = { '--fsync', 'no' } } end)
  teardown(function() if broker then broker:destroy() end end)
  before_each(function()
    number = number + 1
    topic = 't' .. number
  end)

  local function tide(...) return verbs.tide(broker, ...) end
  local function refused(...) verbs.refused(broker, ...) end
  local function run(command) return verbs.run(broker, command) end

  --- The topic, with one partition, and messages 1 to n.
  local function fill(n, ...)
    tide('declare', 'topic', topic, 'partitions=1', ...)
    run(('seq %d | tidemq pub --lines - %s'):format(n, topic))
  end

  --- The standard output alone: members are told of their partitions on the other one.
  local function quiet(command)
    local output, status = run(command .. ' 2>/dev/null')
    assert.equal(0, status, output)
    return output
  end

  it('declares, lists, shows and deletes it', function()
    assert.equal('', tide('declare', 'topic', topic, 'partitions=2', 'sharding=round_robin'))
    assert.matches('published %x+ to 1 topic, partition 0 offset 0\n', tide('pub', '-', topic, 'a'))
    local receipt = json.decode(tide('pub', '--json', '-', topic, 'b'))
    assert.equal(1, receipt.partition)
    assert.equal(0, receipt.offset)
    assert.matches('NAME +PARTITIONS +MESSAGES', tide('list', 'topics'))
    assert.matches('\n' .. topic .. ' +2 +2 ', tide('list', 'topics'))
    local stats = tide('stats', topic)
    assert.matches('\nper_partition\n +PARTITION +START +END +BYTES +LAST\n', stats)
    assert.matches('\n +1 +0 +1 +%d+ +%d%d%d%d%-%d%d%-', stats)
    assert.equal('', tide('delete', 'topic', '--if-unused', topic))
    refused(1, '^tidemq: not%-found: ', 'stats', topic)
    refused(2, "'shelf': DELETE takes exchange, queue, topic, vhost or group;", 'delete', 'shelf', topic)
    refused(2, 'too many arguments', 'delete', 'topic', topic, 'group')
  end)

  it('publishes only at the offset that it expects', function()
    fill(2)
    assert.matches('partition 0 offset 2\n$', tide('pub', '--expect', '2', '-', topic, 'x'))
    refused(1, "^tidemq: mismatch: partition 0 of topic '.*' ends at 3, not at 2", 'pub', '--expect', '2', '-', topic,
      'x')
    refused(2, '%-%-expect is for one message', 'pub', '--count', '2', '--expect', '2', '-', topic, 'x')
  end)

  it('follows it on its own, from a place or from now on', function()
    fill(5)
    assert.equal('0:3 4\n0:4 5\n', quiet(("tidemq sub --from 3 --count 2 --format '%%n:%%o %%p\\n' %s"):format(topic)))
    assert.equal('12345', quiet(("tidemq sub --from first --timeout 200ms --format %%p %s"):format(topic)))
    assert.equal('12', quiet(("tidemq sub --from 1d --partition 0 --count 2 --format %%p %s"):format(topic)))
    local msg = json.decode(quiet(('tidemq sub --json --from 4 --count 1 %s'):format(topic)))
    assert.equal(0, msg.partition)
    assert.equal(4, msg.offset)
    assert.equal('5', msg.payload)
    assert.same({}, json.decode(tide('list', '--json', 'consumers')))
  end)

  it('tails it without a position, also up to a count', function()
    fill(3)
    local pipe = io.popen(("'%s' sub --url '%s' --count 2 --format '%%o %%p\\n' %s"):format(
      Broker.binary(), broker:url(), topic))
    wait.poll(function() return #json.decode(tide('list', '--json', 'consumers')) == 1 end)
    for _, payload in ipairs { 'x', 'y', 'z' } do tide('pub', '-', topic, payload) end
    assert.equal('3 x\n4 y\n', pipe:read 'a')
    pipe:close()
  end)

  it('reads for a group, no more than it is asked for', function()
    fill(7)
    local one = ("tidemq sub --group g --count 2 --format '%%p ' %s"):format(topic)
    assert.equal('1 2 ', quiet(one))
    assert.equal('3 4 ', quiet(one))
    assert.equal('1 ', quiet(("tidemq sub --group other --count 1 --format '%%p ' %s"):format(topic)))
    assert.equal('5 6 7 ', quiet(("tidemq sub --group g --timeout 300ms --format '%%p ' %s"):format(topic)))
    local output = run(("tidemq sub --group g --from first --timeout 1ms %s 2>&1"):format(topic))
    assert.equal('tidemq: event: assigned cli 0\n', output)
    refused(2, '%-%-count of a group does not take %-%-ack auto', 'sub', '--group', 'g', '--count', '1', '--ack',
      'auto', topic)
  end)

  it('pulls for a group, and looks at a place', function()
    fill(4)
    assert.equal('1 2 ', tide('get', '--group', 'g', '--max', '2', '--format', '%p ', topic))
    assert.equal('3 ', tide('get', '--group', 'g', '--format', '%p ', topic))
    assert.equal('0:1 2 0:2 3 ', tide('get', '--partition', '0', '--offset', '1', '--max', '2', '--format', '%n:%o %p ',
      topic))
    assert.equal('4 ', tide('get', '--group', 'g', '--max', '9', '--format', '%p ', topic))
    assert.equal('3 ', tide('get', '--group', 'new', '--from', '2', '--format', '%p ', topic))
  end)

  it('sets groups back, lists and deletes them', function()
    fill(3)
    tide('get', '--group', 'g', '--max', '3', topic)
    local row = '\n' .. topic .. ' +g '
    assert.matches(row, tide('list', 'groups'))
    tide('seek', topic, 'g', 'first')
    assert.equal('1 ', tide('get', '--group', 'g', '--format', '%p ', topic))
    tide('seek', '--partition', '0', topic, 'g', '2')
    assert.equal('3 ', tide('get', '--group', 'g', '--max', '3', '--format', '%p ', topic))
    tide('seek', topic, 'g', '1d')
    assert.equal('1 2 3 ', tide('get', '--group', 'g', '--max', '3', '--format', '%p ', topic))
    local stats = tide('stats', topic)
    assert.matches('GROUP', stats)
    assert.matches('LAG', stats)
    tide('delete', 'group', topic, 'g')
    assert.is_nil(tide('list', 'groups'):match(row))
    refused(1, '^tidemq: syntax: ', 'seek', topic, 'g', 'yesterday')
    refused(2, 'GROUP is missing', 'delete', 'group', topic)
  end)

  it('purges it up to a position', function()
    fill(4)
    assert.equal('purged 2 messages\n', tide('purge', '--before', '2', '--partition', '0', topic))
    assert.equal('3 ', tide('get', '--partition', '0', '--offset', 'first', '--format', '%p ', topic))
    assert.equal('{"ok":true,"count":2}\n', tide('purge', '--json', topic))
  end)
end)
