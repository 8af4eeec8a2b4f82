-- A rules directory with links to anywhere, or with masses of other files, does not hold up the broker.
local Broker = require 'support.broker'
local shell = require 'support.shell'
local wait = require 'support.wait'

-- Far less than any of these took, and far more than a turn takes on a busy machine.
local LONGEST_CPU_US = 500000 * wait.patience

describe('the rules directory', function()
  local broker, c

  before_each(function()
    broker = Broker.start { rules = {}, args = { '--store', 'none' } }
    c = broker:connect()
  end)
  after_each(function() broker:destroy() end)

  local function sh(command)
    assert(os.execute(('cd %s && %s'):format(shell.quote(broker.rules), command)))
  end

  --- A change is noticed, and costs the loop little: in the best of a few, since on a busy machine the
  --- same work takes more of the processor now and then.
  local function reload(n)
    local longest_us
    for try = 1, 5 do
      broker:write_rule('sharding/mine.lua', ('return { pick = function() return %d end }\n'):format(n * 10 + try))
      c:send 'RULES reload\r\n'
      c:expect_json(60) -- of thousands of files
      longest_us = c:document('RULES status').build.longest_turn_cpu_us
      if longest_us < LONGEST_CPU_US then return end
    end
    error('the longest turn took ' .. longest_us .. ' us')
  end

  it('may have links to /proc and to itself', function()
    sh 'ln -s /proc p && ln -s / root && ln -s . self && mkdir filter && ln -s .. filter/up'
    reload(1)
    reload(2)
    broker:expect_clean_stop()
  end)

  it('may have folders full of links to each other', function()
    sh [[for i in $(seq 25); do mkdir d$i; for j in $(seq 48); do ln -s ../d$((j % 25 + 1)) d$i/l$j; done; done]]
    reload(1)
    reload(2)
    broker:expect_clean_stop()
  end)

  it('may have masses of foreign files', function()
    sh 'mkdir heap && cd heap && seq 30000 | xargs touch'
    sh 'for i in $(seq 30); do mkdir -p filters/d$i; echo "return {}" >filters/d$i/x.lua; done'
    reload(1)
    broker:expect_log 'warn  rules: cannot watch [^ ]*, and perhaps other folders: there are too many files'
    broker:expect_log 'warn  rules: .*has more than 10000 entries; not all of them were looked at'
    reload(2)
    broker:expect_clean_stop()
  end)

  it('is watched, although links lead to more than can be', function()
    sh 'mkdir ../heap && for i in $(seq 1200); do mkdir ../heap/$i; done'
    local kinds = { 'connect', 'deliver', 'filter', 'schedule', 'settled', 'sharding' }
    for i, kind in ipairs(kinds) do
      sh(('mkdir %s && ln -s ../heap %d && ln -s ../../heap %s/%d'):format(kind, i, kind, i))
    end
    c:document 'RULES reload'
    broker:expect_log 'warn  rules: cannot watch [^ ]*, and perhaps other folders: there are too many folders'
    for _, kind in ipairs(kinds) do
      broker:write_rule(kind .. '/mine.lua', 'oops')
      broker:expect_log('change refused, the active rules stay: ' .. kind .. '/mine.lua:1:')
      broker:remove_rule(kind .. '/mine.lua')
      assert(wait.poll(function() return c:document 'RULES status'.refusal == nil end))
    end
  end)

  it('may have thousands of scripts', function()
    local name = ('a-name-that-is-as-long-as-names-may-be-'):rep(2):sub(1, 59)
    sh(([[mkdir filter && cd filter && for i in $(seq 10001 12000); do
      echo "return { match = { exchange = 'x$i' }, publish = function() end }" >%s$i.lua; done]]):format(name))
    reload(1)
    reload(2)
    broker:expect_clean_stop()
  end)

  it('is warned about in one line', function()
    sh 'for i in $(seq 30); do mkdir -p filters; echo "return {}" >filters/x$i.lua; done'
    reload(1)
    broker:expect_log 'filters/x16%.lua is not loaded: [^;]*; and 22 more %(tidemq check shows all%)'
  end)
end)
