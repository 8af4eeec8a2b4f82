-- Rules over HTTP: files of generations, and candidates that are uploaded.
local Broker = require 'support.broker'
local Http = require 'support.http'
local shell = require 'support.shell'

local FILTER = [[
return {
  match = { exchange = "x" },
  publish = function(msg) %s end,
}
]]

describe('rules over HTTP', function()
  local broker, http, c

  --- The rules of the broker, with other files on top.
  local function files_with(more)
    local files = http:expect(200, 'GET', '/api/rules/generations/active').files
    for path, text in pairs(more) do files[path] = text end
    return files
  end
  local function upload(files) return http:expect(200, 'PUT', '/api/rules/candidate', { files = files }) end
  local function refuse(status, code, files)
    return http:expect_error(status, code, 'PUT', '/api/rules/candidate', { files = files })
  end

  describe('with a place for candidates', function()
    setup(function()
      broker = Broker.start { http = '127.0.0.1:0', rules = {}, args = { '--rules-candidates', '@DIR@' } }
    end)
    teardown(function()
      broker:expect_clean_stop()
      broker:destroy()
    end)
    before_each(function()
      http, c = Http.connect(broker), broker:connect()
      c:ok 'DECLARE exchange x fanout'
      c:ok 'DECLARE queue q'
      c:ok 'BIND q x -'
      c:ok 'DECLARE exchange y fanout'
      c:ok 'DECLARE queue other'
      c:ok 'BIND other y -'
    end)
    after_each(function()
      c:request 'RULES shadow drop'
      http:close()
      c:close()
    end)

    it('gives the files of a generation', function()
      local active = http:expect(200, 'GET', '/api/rules').hash
      local generation = http:expect(200, 'GET', '/api/rules/generations/' .. active)
      assert.same({ active, true }, { generation.hash, generation.active })
      assert.is_nil(generation.files['retry/fixed.lua'])
      assert.equal(shell.read_file 'rules/retry/fixed.lua', generation.shipped['shipped/retry/fixed.lua'])
      broker:write_rule('filter/50-new.lua', FILTER:format '')
      c:document 'RULES reload'
      local before = http:expect(200, 'GET', '/api/rules/generations/' .. active:sub(1, 6))
      assert.same({ active, false }, { before.hash, before.active })
      assert.is_nil(before.files['filter/50-new.lua'])
      assert.equal(FILTER:format '',
        http:expect(200, 'GET', '/api/rules/generations/active').files['filter/50-new.lua'])
      http:expect_error(404, 'not-found', 'GET', '/api/rules/generations/0123456789abcdef')
    end)

    it('takes candidates from their upload to their promotion', function()
      local candidate = upload(files_with { ['filter/60-vip.lua'] = FILTER:format 'msg.exchange = "y"' })
      assert.matches('^uploads/%d+%-%x+$', candidate.dir)
      assert.is_true(candidate.check.fit)
      http:expect(200, 'POST', '/api/vhosts/%2F/exchanges/x/publish', { key = 'k', payload = 'before' })
      local replay = http:expect(200, 'POST', '/api/rules/replay', { dir = candidate.dir })
      assert.is_true(replay.changed >= 1)
      local shadow = http:expect(200, 'POST', '/api/rules/shadow', { dir = candidate.dir, share = 100 })
      assert.is_true(shadow.active)
      http:expect(200, 'POST', '/api/vhosts/%2F/exchanges/x/publish', { key = 'k', payload = 'during' })
      assert.equal(1, http:expect(200, 'GET', '/api/rules/shadow').differing)
      assert.equal(candidate.hash, http:expect(200, 'POST', '/api/rules/shadow/promote').hash)
      http:expect(200, 'POST', '/api/vhosts/%2F/exchanges/x/publish', { key = 'k', payload = 'after' })
      assert.same({ 2, 1 }, { c:stats 'q'.ready, c:stats 'other'.ready })
      http:expect(200, 'POST', '/api/rules/rollback')
    end)

    it('tells what the check has found, with file and line', function()
      local check = upload { ['retry/bad.lua'] = 'return {\n  decide = function(\n' }.check
      assert.is_false(check.fit)
      assert.same({ 'retry/bad.lua', false }, { check.findings[1].file, check.findings[1].note })
      assert.equal('integer', math.type(check.findings[1].line))
    end)

    it('refuses what is no file of a rules directory', function()
      for _, path in ipairs {
        '../x.lua', '/etc/x.lua', 'a/../../x.lua', '.luacheckrc', 'x.so', 'a b.lua', 'a//b.lua',
      } do
        assert.matches('no path of a rules file', refuse(400, 'syntax', { [path] = 'return {}' }))
      end
      assert.matches('a spec', refuse(403, 'denied', { ['filter/x_spec.lua'] = 'os.execute "true"' }))
      assert.matches('at most 262144', refuse(413, 'too-large', { ['a.lua'] = ('-'):rep(262145) }))
      local many = {}
      for i = 1, 20 do many[('a%d.lua'):format(i)] = ('-'):rep(220000) end
      assert.matches('too many', refuse(413, 'too-large', many))
      assert.matches('1 to 1000 files', refuse(400, 'syntax', {}))
      assert.matches('a text for', refuse(400, 'syntax', { ['a.lua'] = 1 }))
      assert.equal('', shell.line(('ls %s | grep -v uploads | grep lua || true'):format(broker.dir)))
    end)

    it('keeps the last uploads, and the one in the shadow', function()
      local first = upload(files_with { ['filter/61-first.lua'] = FILTER:format '' }).dir
      http:expect(200, 'POST', '/api/rules/shadow', { dir = first, share = 1 })
      for i = 1, 12 do upload { ['a.lua'] = '-- ' .. i } end
      local function kept() return tonumber(shell.line(('ls %s/uploads | wc -l'):format(broker.dir))) end
      assert.is_true(kept() <= 11, kept())
      assert.equal('', shell.line(('ls %s/%s >/dev/null 2>&1 || echo gone'):format(broker.dir, first)))
    end)

    it('takes one upload at a time', function()
      local https, count = { http }, {}
      for i = 2, 4 do https[i] = Http.connect(broker) end
      for _, h in ipairs(https) do h:send('PUT', '/api/rules/candidate', { files = { ['a.lua'] = 'return {}' } }) end
      for i, h in ipairs(https) do
        local answer = h:answer()
        local what = answer.status == 200 and 200 or answer.json.error.code
        count[what] = (count[what] or 0) + 1
        if i > 1 then h:close() end
      end
      assert.equal(4, count[200] + (count.busy or 0))
      assert.is_true(count[200] >= 1)
    end)

    it('ends an upload that is under way when the broker stops', function()
      http:send('PUT', '/api/rules/candidate', { files = files_with {} })
      broker:expect_clean_stop()
      broker:run()
    end)
  end)

  describe('without a place for candidates', function()
    setup(function() broker = Broker.start { http = '127.0.0.1:0' } end)
    teardown(function()
      broker:expect_clean_stop()
      broker:destroy()
    end)

    it('takes no upload', function()
      http = Http.connect(broker)
      assert.matches('--rules-candidates', refuse(403, 'denied', { ['a.lua'] = 'return {}' }), 1, true)
      http:close()
    end)
  end)
end)
