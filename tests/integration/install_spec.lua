--- What `make install` does with rules that an operator edits, and what `make run` says.
local Broker = require 'support.broker'
local shell = require 'support.shell'
local wait = require 'support.wait'

describe('installing rules', function()
  local dir, etc, shipped

  before_each(function()
    dir = shell.make_dir 'tidemq-install'
    etc, shipped = dir .. '/etc/rules', dir .. '/share/rules'
  end)
  after_each(function() os.execute('rm -rf ' .. shell.quote(dir)) end)

  local function install()
    local output, status = shell.run(('tools/install_rules.sh %s %s'):format(shipped, etc))
    assert.equal(0, status)
    return output
  end

  it('puts them where the operator edits them, and is silent when it changes nothing', function()
    assert.equal('', install())
    assert.equal(shell.read_file 'rules/routing/topic.lua', shell.read_file(etc .. '/routing/topic.lua'))
    assert.equal('', install())
  end)

  it('leaves what the operator has changed or removed, and updates the rest', function()
    install()
    shell.write_file(etc .. '/retry/fixed.lua', '-- mine\n')
    shell.write_file(etc .. '/filter/10-mine.lua', '-- mine too\n')
    os.remove(etc .. '/routing/headers.lua')
    -- As an earlier version had it, and the operator left it.
    shell.write_file(etc .. '/routing/topic.lua', '-- old\n')
    shell.write_file(shipped .. '/routing/topic.lua', '-- old\n')
    local output = install()
    assert.equal('-- mine\n', shell.read_file(etc .. '/retry/fixed.lua'))
    assert.equal('-- mine too\n', shell.read_file(etc .. '/filter/10-mine.lua'))
    assert.is_nil(shell.read_file(etc .. '/routing/headers.lua'))
    assert.equal(shell.read_file 'rules/routing/topic.lua', shell.read_file(etc .. '/routing/topic.lua'))
    assert.matches('kept +%S+/retry/fixed.lua: it was changed; the shipped one is %S+/share/rules/', output)
    assert.matches('removed +%S+/routing/headers.lua: stays removed', output)
    assert.matches('updated +%S+/routing/topic.lua\n', output)
    assert.equal(shell.read_file 'rules/retry/fixed.lua', shell.read_file(shipped .. '/retry/fixed.lua'))
  end)
end)

describe('make run', function()
  it('names the port that the broker took', function()
    local dir = shell.make_dir 'tidemq-run'
    local command = ('exec tools/run.sh %s serve --store none --http none --listen 127.0.0.1:0 '
      .. '--rules %s >%s/out 2>&1 & echo $!')
      :format(Broker.binary(), shell.shipped_rules(), dir)
    local pid = shell.line(command)
    local text = ''
    local seen = wait.poll(function()
      text = shell.read_file(dir .. '/out') or ''
      return text:find('GET hello', 1, true)
    end)
    local port = text:match '%f[%l]listening on 127%.0%.0%.1:(%d+)\n'
    os.execute('kill -TERM ' .. pid)
    assert(wait.poll(function() return not os.execute(('kill -0 %s 2>/dev/null'):format(pid)) end))
    os.execute('rm -rf ' .. shell.quote(dir))
    assert.is_truthy(seen, text)
    assert.is_truthy(text:find(('nc 127.0.0.1 %s '):format(port), 1, true), text)
    assert.is_truthy(text:find((" | nc 127.0.0.1 %s\n"):format(port), 1, true), text)
  end)
end)
