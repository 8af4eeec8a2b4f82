-- What `make test` installs (tools/deps.sh), and what it says of tests that are pending (tools/run_tests.sh).
local shell = require 'support.shell'

local quote = shell.quote
local root = shell.line 'pwd'

describe('make test', function()
  local dir

  setup(function() dir = shell.make_dir 'tidemq-make-test' end)
  teardown(function() shell.run('rm -rf ' .. quote(dir)) end)

  describe('installs', function()
    -- On a bare Debian, for a user whose sudo says no.
    local function packages_of(groups)
      for name, text in pairs { ['dpkg-query'] = 'exit 1', ['apt-get'] = 'exit 1', sudo = 'exit 1', id = 'echo 1' } do
        shell.write_file(dir .. '/bin/' .. name, '#!/bin/sh\n' .. text .. '\n')
      end
      local output = shell.run(('chmod +x %s/bin/*; PATH=%s/bin:$PATH tools/deps.sh %s 2>&1 </dev/null'):format(
        quote(dir), quote(dir), groups))
      local found = {}
      for name in assert(output:match '^Installing:([^\n]*)\n', output):gmatch '%S+' do found[name] = true end
      return found
    end

    it('packages that stand in one place', function()
      local seen, count = {}, 0
      for name in shell.read_file 'tools/deps.sh':match "\ntable='\n(.-)'\n":gmatch '(%S+) [^\n]+\n' do
        assert.is_nil(seen[name], name)
        seen[name], count = true, count + 1
      end
      assert.is_true(count > 50)
    end)

    it('neither a browser nor clients that others wrote', function()
      local test, more = packages_of 'build test', packages_of 'test-browser test-clients'
      assert.is_true(test['lua-busted'] and test['redis-server'] and more['chromium-driver'] and more['ruby-stomp'])
      for name in pairs(more) do assert.is_nil(test[name], name) end
    end)

    it('groups that there are', function()
      local makefiles = shell.read_file 'Makefile' .. shell.read_file 'packaging/packaging.mk'
      for groups in makefiles:gmatch 'tools/deps%.sh ([%l -]+)' do
        for group in groups:gmatch '%S+' do
          assert.matches(' ' .. group:gsub('%p', '%%%0') .. '%f[%s]', shell.read_file 'tools/deps.sh')
        end
      end
      assert.same({ 'deps.sh: no such group: nothing (they are in its table)\n', 2 },
        { shell.run 'tools/deps.sh nothing 2>&1' })
    end)
  end)

  it('has no test with a browser that would fail without one', function()
    local _, status = shell.run [[grep -l "require 'support.browser'" tests/*/*_spec.lua |
      xargs grep -L 'needs.browser(describe)' | grep .]]
    assert.equal(1, status)
  end)

  describe('says at its end', function()
    -- For one spec with this text.
    local function run(env, text)
      shell.write_file(dir .. '/tests/lua/a_spec.lua', text)
      shell.write_file(dir .. '/rules/nothing', '')
      local output, status = shell.run(([[cd %s && mkdir -p build &&
        env -u CI %s LUA_PATH='%s/tests/integration/?.lua;;' %s/tools/run_tests.sh build lua 2>&1]]):format(
        quote(dir), env, root, quote(root)))
      return output, status
    end

    it('which tests are pending, and what adds their packages', function()
      local text = [[
        local needs = require 'support.needs'
        needs.client(it, 'true')('has its packages', function() end)
        needs.client(it, 'exit 1')('is of a client', function() error 'it runs' end)
        needs.client(describe, 'exit 1')('are of clients', function() error 'it runs' end)
      ]]
      local wanted = ' s\npending: 2 of tests/lua/a_spec.lua\nto run them: make deps-test-clients'
      local output, status = run('', text)
      assert.equal(wanted .. '\ntests: 1 passed, 0 failed\n', output:match ' s\n.*$')
      assert.equal(0, status)
      output, status = run('CI=true', text)
      assert.equal(wanted .. ' (with CI=true they have failed)\ntests: 1 passed, 2 failed\n',
        output:match ' s\n.*$')
      assert.equal(1, status)
    end)

    it('why a test is pending that lacks no packages', function()
      local output, status = run('CI=true', [[
        it('passes', function() end)
        it('asks', function() return pending 'nobody is there' end)
      ]])
      assert.matches('nobody is there\n.* s\npending: 1 of tests/lua/a_spec.lua\ntests: 1 passed, 0 failed\n$', output)
      assert.equal(0, status)
    end)
  end)
end)
