-- Where the rules of RULES shadow and RULES replay may come from.
local Broker = require 'support.broker'
local shell = require 'support.shell'

local MINE = 'return { pick = function() return 1 end }\n'

describe('candidate rules', function()
  local broker, c

  before_each(function()
    broker = Broker.start { rules = { ['sharding/mine.lua'] = MINE }, args = { '--store', 'none' } }
    c = broker:connect()
  end)
  after_each(function() broker:destroy() end)

  local function sh(command)
    assert(os.execute(('cd %s && %s'):format(shell.quote(broker.dir), command)))
  end

  local function refused(dir, pattern)
    for _, verb in ipairs { 'shadow', 'replay' } do
      c:send(('RULES %s %s\r\n'):format(verb, dir))
      local answer = c:expect '^ERR .*'
      assert.is_truthy(answer:find(pattern), answer)
    end
  end

  it('lie where the rules directory is', function()
    broker:copy_rules('next', {})
    assert.equal(broker.dir .. '/next', c:document('RULES shadow next').directory)
    assert.equal(broker.dir .. '/next', c:document('RULES replay ' .. broker.dir .. '/next').directory)
  end)

  it('come from nowhere else', function()
    local elsewhere = shell.make_dir 'tidemq-elsewhere'
    sh('cp -R rules ' .. elsewhere .. '/rules; ln -s ' .. elsewhere .. '/rules link')
    refused(elsewhere .. '/rules', '^ERR denied .* does not lie below .* %(serve %-%-rules%-candidates%)$')
    refused('link', '^ERR denied')
    refused('../' .. elsewhere:match '[^/]+$' .. '/rules', '^ERR denied')
    -- What is there is not told.
    refused('/nowhere/at/all', '^ERR denied')
    refused('../nowhere', '^ERR denied')
    refused('nowhere', '^ERR not%-found')
    os.execute('rm -rf ' .. elsewhere)
  end)

  it('may lie below another directory that is configured', function()
    local other = shell.make_dir 'tidemq-candidates'
    broker:expect_clean_stop()
    broker.options.args = { '--store', 'none', '--rules-candidates', other }
    broker:run()
    c = broker:connect()
    sh('cp -R rules ' .. other .. '/next')
    assert.equal(other .. '/next', c:document('RULES shadow next').directory)
    c:ok 'RULES shadow drop'
    refused(broker.dir .. '/rules', '^ERR denied')
    os.execute('rm -rf ' .. other)
  end)

  it('lie in a directory that the broker makes, or it does not start', function()
    local dir = broker.dir
    local other = Broker.start { args = { '--store', 'none', '--rules-candidates', dir .. '/made' } }
    assert.equal('700', shell.line('stat -c %a ' .. dir .. '/made'))
    other:destroy()
    local wrong = { ['/no/where'] = 'No such file or directory', ['/rules/sharding/mine.lua'] = 'Not a directory' }
    for path, why in pairs(wrong) do
      local none, log, status = Broker.start { may_fail = true,
        args = { '--store', 'none', '--rules-candidates', dir .. path } }
      assert.is_nil(none)
      assert.equal(1, status)
      assert.equal(("tidemq: cannot make the directory for candidate rules (--rules-candidates) '%s%s': %s\n")
        :format(dir, path, why), log)
    end
  end)

  it('are closed to others', function()
    sh 'mkdir open'
    broker:copy_rules('open/next', {})
    sh 'chmod 0777 open/next'
    refused('open/next', "^ERR denied '[^']*/open/next' can be written by others %(mode 0777%)")
    sh 'chmod 0755 open/next; chmod 0777 open'
    refused('open/next', "^ERR denied '[^']*/open' can be written by others")
    sh 'chmod 0755 open; chmod 0666 open/next/sharding/mine.lua'
    refused('open/next', "^ERR rule sharding/mine.lua: '[^']*' can be written by others %(mode 0666%)")
    sh 'chmod 0644 open/next/sharding/mine.lua'
    c:document 'RULES shadow open/next'
  end)

  it('show nothing of other files', function()
    broker:copy_rules('next', {})
    shell.write_file(broker.dir .. '/secret', 'hush hush\n')
    sh 'ln -sf ../../secret next/sharding/mine.lua'
    refused('next', '^ERR rule sharding/mine.lua: leads to a place that is no Lua file below')
    sh 'ln -sf /etc/passwd next/sharding/mine.lua'
    refused('next', '^ERR rule sharding/mine.lua: leads to a place that is no Lua file below')
    sh 'rm next/sharding/mine.lua; mkdir next/lib; ln -s ../../secret next/lib/m.lua'
    shell.write_file(broker.dir .. '/next/sharding/mine.lua', 'require "lib.m"\n' .. MINE)
    refused('next', '^ERR rule .*lib/m.lua: leads to a place')
    assert.is_nil(broker:log():find('hush', 1, true))
    -- A script of another rules directory may be shared.
    sh 'ln -sf ../../rules/sharding/mine.lua next/sharding/mine.lua'
    c:document 'RULES shadow next'
  end)
end)
