-- `tidemq rules new`: a script and its spec for each kind, which pass as they are.
local Broker = require 'support.broker'
local shell = require 'support.shell'

local KINDS = {
  'routing', 'sharding', 'priority', 'retry', 'filter', 'schedule', 'auth', 'deliver', 'settled',
  'declare', 'connect',
}

describe('tidemq rules new', function()
  local dir

  before_each(function() dir = shell.make_dir 'tidemq-test' end)
  after_each(function() assert(os.execute(("rm -r '%s'"):format(dir))) end)

  local function run(words)
    return shell.run(('%s %s 2>&1'):format(Broker.binary(), words))
  end

  it('writes scripts of all kinds whose specs pass', function()
    for _, kind in ipairs(KINDS) do
      local output, status = run(('rules new --rules %s %s my-own'):format(dir, kind))
      assert.equal(0, status, output)
      assert.equal(('%s/%s/my-own.lua\n%s/%s/my-own_spec.lua\n'):format(dir, kind, dir, kind), output)
      assert.is_nil(shell.read_file(('%s/%s/my-own.lua'):format(dir, kind)):find '@')
    end
    local output, status = run('test ' .. dir)
    assert.equal(0, status, output)
    assert.matches(('\n%d specs, %%d+ passed, 0 failed'):format(#KINDS), output)
    output, status = run('check ' .. dir)
    assert.equal(0, status, output)
  end)

  it('overwrites nothing, and checks kind and name', function()
    assert.equal(0, select(2, run(('rules new --rules %s retry mine'):format(dir))))
    local text = shell.read_file(dir .. '/retry/mine.lua')
    local function refused(status, message, words)
      local output, got = run(('rules new --rules %s %s'):format(dir, words))
      assert.equal(status, got, output)
      assert.matches(message, output)
    end
    refused(1, "mine_spec.lua' is there already", 'retry mine')
    assert(os.remove(dir .. '/retry/mine_spec.lua'))
    refused(1, "mine.lua' is there already", 'retry mine')
    assert.is_nil(io.open(dir .. '/retry/mine_spec.lua'))
    assert.equal(text, shell.read_file(dir .. '/retry/mine.lua'))
    refused(2, "there is no kind 'filters' of scripts; there are: routing ", 'filters mine')
    refused(2, "'1st' cannot be the name of a script: a letter, then", 'retry 1st')
    refused(2, "'../x' cannot be the name", 'filter ../x')
    refused(2, 'an argument is missing', 'filter')
    assert.equal(2, select(2, run('rules new --rules /nonexistent retry mine')))
    assert.equal(0, select(2, run(('rules new --rules %s filter 10-mine'):format(dir))))
  end)

  it('has a page of help', function()
    local page = run 'help rules new'
    assert.matches('^usage: tidemq rules new %[options%] KIND NAME\n', page)
    assert.equal(page, (run 'rules new --help'))
  end)
end)
