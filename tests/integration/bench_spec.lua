--- `tidemq bench`: what it says of a run is so.
local Broker = require 'support.broker'
local shell = require 'support.shell'
local wait = require 'support.wait'

describe('tidemq bench', function()
  local broker

  setup(function() broker = Broker.start { args = { '--fsync', 'no' } } end)
  teardown(function() broker:expect_clean_stop() end)

  local function bench(words)
    return shell.run(('%s bench --url %s %s 2>&1'):format(Broker.binary(), broker:url(), words))
  end

  it('sends, receives and checks every message, and takes its queues away', function()
    local text, status = bench '--producers 2 --consumers 2 --queues 2 --count 3000 --json shards=2'
    assert.equal(0, status, text)
    for name, value in pairs { confirmed = 3000, received = 3000, missing = 0, duplicates = 0, disordered = 0 } do
      assert.equal(tostring(value), text:match(('"%s":(%%d+)'):format(name)), text)
    end
    local c = broker:connect()
    assert.same({}, c:document 'LIST queues')
  end)

  it('keeps to a rate, and draws how latencies are spread', function()
    local text, status = bench '--rate 1000 --count 300 --size 64 --chart'
    assert.equal(0, status, text)
    local seconds = tonumber(text:match 'published   300 of 64 bytes in ([%d.]+) s')
    -- The last of 300 is due after 0.299 s.
    assert.is_true(seconds >= 0.298, text)
    assert.truthy(text:find 'confirm, from\n.-[%d.]+ us  #', text)
    assert.truthy(text:find 'deliver, from\n.-[%d.]+ us  #', text)
  end)

  it('fills in one run and drains in another', function()
    local text, status = bench '--fill --count 500 --json'
    assert.equal(0, status, text)
    assert.equal('0', text:match '"deliver_seconds":(%d+)%.')
    local c = broker:connect()
    assert.equal(500, c:document('STATS bench-1').ready)
    text, status = bench '--drain --count 500 --json'
    assert.equal(0, status, text)
    assert.equal('500', text:match '"received":(%d+)')
    assert.equal('0', text:match '"publish_seconds":(%d+)%.')
  end)

  it('gives every message of a topic to each group, or to each reader, and takes its topics away', function()
    for words, received in pairs {
      ['--groups 3 --consumers 2 --producers 2 partitions=4 sharding=round_robin'] = 9000,
      ['--groups 0 --consumers 2 partitions=1'] = 6000,
      ['--groups 2 --queues 2 --consumers 2 --producers 2 --ack auto'] = 6000,
    } do
      local text, status = bench('--topic --count 3000 --json ' .. words)
      assert.equal(0, status, text)
      for name, value in pairs { confirmed = 3000, received = received, missing = 0, duplicates = 0 } do
        assert.equal(tostring(value), text:match(('"%s":(%%d+)'):format(name)), text)
      end
      local c = broker:connect()
      assert.same({}, c:document 'LIST topics')
      c:close()
    end
  end)

  it('fills a topic in one run, and groups of another read it from where they are told', function()
    local text, status = bench '--topic --fill --count 500'
    assert.equal(0, status, text)
    text, status = bench '--topic --drain --groups 2 --from nowhere --count 500'
    assert.equal(1, status, text)
    assert.truthy(text:find('nowhere', 1, true), text)
    text, status = bench '--topic --fill --count 500'
    assert.equal(0, status, text)
    text, status = bench '--topic --drain --groups 2 --count 500 --json'
    assert.equal(0, status, text)
    assert.equal('1000', text:match '"received":(%d+)')
  end)

  it('takes its queues away when it is interrupted', function()
    for _, signal in ipairs { 'INT', 'TERM' } do
      -- A shell without job control starts what is behind & with SIGINT ignored.
      local command = ('echo $$; exec env --default-signal=INT %s bench --url %s --rate 50 --count 100000 2>&1')
        :format(Broker.binary(), broker:url())
      local pipe = assert(io.popen(("sh -c '%s'; echo \"status $?\""):format(command)))
      local pid = pipe:read 'l'
      local c = broker:connect()
      assert(wait.poll(function()
        local queues = c:document 'LIST queues'
        return queues[1] and queues[1].consumers > 0 and c:stats('bench-1').published > 0
      end))
      assert(os.execute(('kill -%s %s'):format(signal, pid)))
      local text = pipe:read 'a'
      pipe:close()
      assert.matches('interrupted', text)
      assert.matches('status 1\n$', text)
      assert.same({}, c:document 'LIST queues')
      c:close()
    end
  end)

  it('says what is wrong', function()
    local text, status = bench '--fill --drain'
    assert.equal(2, status, text)
    for words, why in pairs {
      ['--groups 2'] = '--groups and --from are for --topic',
      ['--from last'] = '--groups and --from are for --topic',
      ['--topic --groups 0 --queues 3'] = '--groups 0 wants one topic, not --queues 3',
      ['--topic --groups 1000 --consumers 3'] = '--groups times --consumers is at most 1024',
    } do
      text, status = bench(words)
      assert.equal(2, status, text)
      assert.truthy(text:find(why, 1, true), text)
    end
    text, status = bench 'colour=red --count 1'
    assert.equal(1, status, text)
    assert.truthy(text:find("no option 'colour'", 1, true), text)
  end)
end)
