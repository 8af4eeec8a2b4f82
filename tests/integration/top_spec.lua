-- tidemq top: real keys in a real terminal, and plain text.
local Broker = require 'support.broker'
local Redis = require 'support.redis'
local Tmux = require 'support.tmux'
local json = require 'dkjson'
local shell = require 'support.shell'
local users = require 'support.users'
local verbs = require 'support.verbs'
local wait = require 'support.wait'

describe('tidemq top', function()
  local broker, c, top

  setup(function()
    broker = Broker.start { args = { '--fsync', 'no' }, listen = { 'unix:@DIR@/sock' } }
  end)
  teardown(function() broker:expect_clean_stop() end)
  before_each(function() c = broker:enter_vhost() end)
  after_each(function()
    if top then top:destroy() end
    top = nil
    if c then c:close() end
  end)

  local function start(arguments, options)
    options = options or {}
    options.env = options.env or {}
    options.env.TIDEMQ_URL = broker:url()
    top = Tmux.start(("'%s' top --every 100ms %s"):format(Broker.binary(), arguments or ''), options)
  end

  local function fill(queues)
    for name, messages in pairs(queues) do
      c:ok('DECLARE queue ' .. name)
      for _ = 1, messages do c:ok('PUB - ' .. name, 'x') end
    end
  end

  --- The first words of the rows, in their order.
  local function rows()
    local names, is_row = {}, false
    for line in top:screen():gmatch '([^\n]*)\n' do
      local word = line:match '^(%S+) '
      if is_row and (not word or word == 'from' or word == 'filter:') then break end
      if is_row then names[#names + 1] = word end
      is_row = is_row or line:find '^QUEUE ' ~= nil or line:find '^TOPIC ' ~= nil
    end
    return table.concat(names, ' ')
  end

  local function expect_rows(wanted)
    if not wait.poll(function() return rows() == wanted end) then
      assert.equal(wanted, rows(), top:screen())
    end
  end

  describe('in a terminal', function()
    it('shows queues by their backlog, and what changes', function()
      fill { few = 1, many = 3, none = 0 }
      start()
      expect_rows 'many few none'
      top:expect 'many +3 +0 +0 '
      top:expect('vhost ' .. broker.vhost:gsub('%-', '%%-') .. ' +queues by ready')
      top:expect 'in [%d.]+/s +out .*ready %d+ '
      top:expect 'connections %d+ .*store .*loop [%d.]+%%'
      for _ = 1, 5 do c:ok('PUB - none', 'x') end
      expect_rows 'none many few'
      top:expect 'none +5 '
    end)

    it('sorts by keys', function()
      fill { a = 1, b = 3, c = 2 }
      start()
      expect_rows 'b c a'
      top:keys 'n'
      expect_rows 'a b c'
      top:keys 'r'
      expect_rows 'c b a'
      top:expect 'queues by name, reversed'
      top:keys 'b'
      expect_rows 'b c a'
      c:ok 'GET a'
      c:expect_msg()
      top:keys 'u'
      expect_rows 'a b c'
      for key, name in pairs { i = 'in', o = 'out', a = 'age', d = 'delayed', m = 'consumers' } do
        top:keys(key)
        top:expect('queues by ' .. name .. ' ')
      end
    end)

    it('filters by a part of the name', function()
      fill { ['orders.eu'] = 1, ['orders.us'] = 2, ['mails.eu'] = 3 }
      start()
      expect_rows 'mails.eu orders.us orders.eu'
      top:keys('/', 'O', 'r', 'd', 'x')
      top:expect 'filter: Ordx'
      top:keys('BSpace', 'Enter')
      expect_rows 'orders.us orders.eu'
      top:expect '\nfilter: Ord'
      top:keys('/', 'x', 'Escape')
      expect_rows 'orders.us orders.eu'
      top:keys('/', 'BSpace', 'BSpace', 'BSpace', '.', 'e', 'u', 'Enter')
      expect_rows 'mails.eu orders.eu'
    end)

    it('goes through pages that the broker sorts', function()
      local parts = {}
      for i = 1, 60 do parts[i] = ('DECLARE queue q%02d quiet durable=0\r\n'):format(i) end
      c:send(table.concat(parts)):expect_nothing()
      start('--sort name', { rows = 15 }) -- ten rows
      expect_rows 'q01 q02 q03 q04 q05 q06 q07 q08 q09 q10'
      top:keys 'NPage'
      expect_rows 'q11 q12 q13 q14 q15 q16 q17 q18 q19 q20'
      top:expect '\nfrom 11'
      top:keys('Down', 'Down')
      expect_rows 'q13 q14 q15 q16 q17 q18 q19 q20 q21 q22'
      top:keys('Up', 'PPage', 'PPage')
      expect_rows 'q01 q02 q03 q04 q05 q06 q07 q08 q09 q10'
      top:keys('NPage', 'NPage', 'NPage', 'NPage', 'NPage', 'Home')
      expect_rows 'q01 q02 q03 q04 q05 q06 q07 q08 q09 q10'
      top:resize(100, 9)
      expect_rows 'q01 q02 q03 q04'
      top:resize(100, 17)
      expect_rows 'q01 q02 q03 q04 q05 q06 q07 q08 q09 q10 q11 q12'
    end)

    it('shows topics and connections', function()
      c:ok 'DECLARE topic calm'
      c:ok 'DECLARE topic busy'
      c:ok 'GET busy group=g'
      for _ = 1, 4 do c:ok('PUB - busy', 'x') end
      start()
      top:expect 'no queues'
      top:keys 't'
      expect_rows 'busy calm'
      top:expect 'busy +%d+ +4 .* 1 +4 '
      top:keys 'c'
      top:expect 'CONNECTION NAME'
      top:expect '%d+ tidemq%-top '
      top:keys 'Q'
      top:expect 'no queues'
    end)

    it('enters another vhost, or stays where it is', function()
      fill { here = 1 }
      local first = broker.vhost
      local other = broker:enter_vhost()
      other:ok 'DECLARE queue there'
      local second = broker.vhost
      broker.vhost = first
      start()
      expect_rows 'here'
      top:keys('v', second, 'Enter')
      expect_rows 'there'
      top:expect('vhost ' .. second:gsub('%-', '%%-') .. ' ')
      top:keys('v', 'a:b', 'Enter')
      top:expect "the vhost 'a:b' must be / or 1"
      expect_rows 'there'
      top:keys('v', first, 'Enter')
      expect_rows 'here'
      other:close()
    end)

    it('pauses, and asks once', function()
      fill { q = 1 }
      start()
      top:expect 'q +1 '
      top:keys 'p'
      top:expect 'PAUSED'
      c:ok('PUB - q', 'x')
      -- What it may still have asked for before.
      top:keys 'n'
      top:expect 'queues by name'
      top:keys ' '
      top:expect 'q +2 '
      c:ok('PUB - q', 'x')
      local at = top:screen()
      c:expect_nothing()
      assert.equal(at, top:screen())
      top:keys 'p'
      top:expect 'q +3 '
    end)

    it('explains its keys', function()
      start()
      top:expect 'no queues'
      top:keys '?'
      top:expect 'b +sort by backlog.*a +sort by age.*/ +only names.*q +quit'
      top:keys 'x'
      top:expect 'no queues'
    end)

    it('says that the broker is away, and goes on when it is back', function()
      fill { kept = 2 }
      start()
      top:expect 'kept +2 '
      c:close()
      c = nil
      broker:kill9()
      top:expect '; connecting again'
      top:expect 'kept +2 '
      broker:run()
      assert(wait.poll(function() return not top:screen():find 'connecting again' end))
      c = broker:connect()
      c:ok('PUB - kept', 'x')
      top:expect 'kept +3 '
    end)

    it('leaves the terminal as it was', function()
      start()
      top:expect 'no queues'
      top:keys 'q'
      top:expect '^ended: 0'
      top:destroy()
      start()
      top:expect 'no queues'
      top:keys 'C-c'
      top:expect '^ended: 0'
    end)

    it('has colours, unless nobody wants them', function()
      fill { q = 1 }
      start()
      top:expect 'q +1 '
      assert.matches('\27%[[%d;]*3%d', top:screen(true))
      top:destroy()
      start('', { env = { NO_COLOR = '1' } })
      top:expect 'q +1 '
      assert.is_nil(top:screen(true):find '\27%[[%d;]*[34][0-7]')
    end)

    it('sends little to a slow terminal', function()
      local queues = {}
      for i = 1, 18 do queues[('q%02d'):format(i)] = 1 end
      fill(queues)
      start()
      top:expect 'q18 +1 '
      local path = top:record()
      local before = #shell.read_file(path)
      -- In a second of its clock it asks ten times.
      local first = top:expect '(%d%d:%d%d:%d%d)'
      assert(wait.poll(function() return top:screen():match '(%d%d:%d%d:%d%d)' ~= first end))
      local second = top:expect '(%d%d:%d%d:%d%d)'
      assert(wait.poll(function() return top:screen():match '(%d%d:%d%d:%d%d)' ~= second end))
      local sent = #shell.read_file(path) - before
      assert.is_true(sent > 0 and sent < 20 * 500, sent)
    end)

    it('fits narrow and odd terminals', function()
      c:ok 'DECLARE queue größe-äöü'
      c:ok('DECLARE queue ' .. ('long'):rep(30))
      start('--sort name', { columns = 50 })
      top:expect '\nlong[long]+ +0 '
      top:expect '\ngröße%-äöü +0 '
      for line in top:screen():gmatch '[^\n]+' do assert.is_true(utf8.len(line) <= 50, line) end
      top:resize(10, 3)
      top:resize(120, 24)
      top:expect 'BURIED'
    end)
  end)

  describe('without a terminal', function()
    it('prints one page', function()
      fill { few = 1, many = 3 }
      local lines = {}
      for line in verbs.tide(broker, 'top'):gmatch '[^\n]+' do lines[#lines + 1] = line end
      assert.equal(6, #lines)
      assert.matches('^tidemq .* queues by ready ', lines[1])
      assert.matches('^in .* ready %d+ ', lines[2])
      assert.matches('^QUEUE +READY ', lines[4])
      assert.matches('^many +3 ', lines[5])
      assert.matches('^few +1 ', lines[6])
      assert.matches('\nfew [^\n]*\n$', verbs.tide(broker, 'top', '--sort', 'name', '--max', '1'))
      assert.is_nil(verbs.tide(broker, 'top', '--match', 'MAN'):find '\nfew')
    end)

    it('prints a document', function()
      fill { q = 2 }
      local document = json.decode(verbs.tide(broker, 'top', '--json'))
      assert.equal(2, document.rows[1].ready)
      assert.is_number(document.now.t)
    end)

    it('refuses what it does not know', function()
      verbs.refused(broker, 2, "there is no view 'cats'; expected queues, topics or connections", 'top', 'cats')
      verbs.refused(broker, 2, "queues are not sorted by 'size'; expected one of: name ready unacked",
        'top', '--sort', 'size')
      local output, status = shell.run(("'%s' top --url tide://127.0.0.1:1/ 2>&1"):format(Broker.binary()))
      assert.equal(1, status)
      assert.matches('^tidemq: [^\n]+\n$', output)
    end)

    it('says what a user may not see', function()
      local redis = Redis.start {}
      users.restore(redis, { bob = { vhosts = { ['/'] = { read = '.*' } } } })
      local closed = Broker.start { args = { '--store', redis.url } }
      local output, status = shell.run(("'%s' top --url tide://bob:secret@%s/ 2>&1"):format(Broker.binary(),
        closed.address))
      assert.equal(1, status)
      assert.matches('monitor', output)
      closed:destroy()
      redis:destroy()
    end)
  end)
end)
