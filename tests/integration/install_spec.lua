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

  it('leaves the directory of the operator empty: nothing shipped must be copied', function()
    assert.equal('', install())
    assert.equal(shell.read_file 'rules/routing/topic.lua', shell.read_file(shipped .. '/routing/topic.lua'))
    assert.equal('', (shell.run(('cd %s && ls'):format(etc))))
    shell.write_file(etc .. '/filter/10-mine.lua', '-- mine\n')
    assert.equal('', install())
    assert.equal('-- mine\n', shell.read_file(etc .. '/filter/10-mine.lua'))
  end)

  it('removes the copies of earlier versions that nobody has changed, and names the others', function()
    install()
    shell.write_file(etc .. '/retry/fixed.lua', '-- mine\n')
    shell.write_file(etc .. '/retry/none.lua', shell.read_file 'rules/retry/none.lua')
    -- As an earlier version had it, and the operator left it.
    shell.write_file(etc .. '/routing/topic.lua', '-- old\n')
    shell.write_file(shipped .. '/routing/topic.lua', '-- old\n')
    local output = install()
    assert.equal('-- mine\n', shell.read_file(etc .. '/retry/fixed.lua'))
    for _, path in ipairs { '/routing/topic.lua', '/retry/none.lua' } do
      assert.is_nil(shell.read_file(etc .. path))
      assert.equal(shell.read_file('rules' .. path), shell.read_file(shipped .. path))
    end
    assert.matches('^  kept +%S+/etc/rules/retry/fixed.lua: it hides the shipped %S+/share/rules/retry/fixed.lua\n$',
      output)
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
    assert(wait.poll(function() return not shell.is_running(pid) end))
    os.execute('rm -rf ' .. shell.quote(dir))
    assert.is_truthy(seen, text)
    assert.is_truthy(text:find(('nc 127.0.0.1 %s '):format(port), 1, true), text)
    assert.is_truthy(text:find((" | nc 127.0.0.1 %s\n"):format(port), 1, true), text)
  end)
end)
