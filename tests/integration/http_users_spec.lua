-- Users over HTTP: PUT makes one what the request says.
local Broker = require 'support.broker'
local Http = require 'support.http'
local users = require 'support.users'
local wait = require 'support.wait'

describe('a user over HTTP', function()
  local broker, http

  before_each(function() broker = Broker.start { http = '127.0.0.1:0', redis = {}, stopped = true } end)
  after_each(function()
    broker:expect_clean_stop()
    broker:destroy()
  end)

  local function start(table_of_users)
    users.restore(broker.redis, table_of_users)
    broker:run()
    http = Http.connect(broker, { user = 'root', password = users.password })
  end

  local function find(name)
    for _, user in ipairs(http:expect(200, 'GET', '/api/users').items) do
      if user.name == name then return user end
    end
  end

  it('that is the first one is the connection from then on', function()
    broker:run()
    http = Http.connect(broker)
    assert.same({ '', true }, { http:get '/api/whoami'.json.user, http:get '/api/whoami'.json.open })
    http:expect(200, 'PUT', '/api/users/root', { password = 'secret', tags = { 'admin' } })
    local me = http:expect(200, 'GET', '/api/whoami')
    assert.same({ 'root', false, { 'monitor', 'admin' } }, { me.user, me.open, me.tags })
    local other = Http.connect(broker)
    other:expect_error(401, 'denied', 'GET', '/api/whoami')
    other:log_in('root', 'secret')
    other:expect(200, 'GET', '/api/whoami')
    other:close()
  end)

  it('is added with password, tags and limits, and changed by what is given', function()
    start { root = { tags = { 'admin' } } }
    http:expect(200, 'PUT', '/api/users/ann', { password = 'one', tags = 'monitor', limits = { ['publish-rate'] = 5 } })
    local ann = find 'ann'
    assert.same({ { 'monitor' }, 5, true }, { ann.tags, ann.limits['publish-rate'], ann.password })
    -- The rest stays.
    http:expect(200, 'PUT', '/api/users/ann', { limits = { ['max-connections'] = 7 } })
    ann = find 'ann'
    assert.same({ { 'monitor' }, 5, 7 }, { ann.tags, ann.limits['publish-rate'], ann.limits['max-connections'] })
    http:expect(200, 'PUT', '/api/users/ann', { password = 'two', tags = {} })
    assert.same({}, find 'ann'.tags)
    http:expect(200, 'PUT', '/api/users/ann/grants/%2F', { read = '.*' })
    local her = Http.connect(broker, { user = 'ann', password = 'one' })
    her:expect_error(401, 'denied', 'GET', '/api/whoami')
    her:log_in('ann', 'two')
    assert(wait.poll(function() return her:get '/api/whoami'.status == 200 end))
    her:close()
    http:expect(200, 'DELETE', '/api/users/ann/grants/%2F')
    assert.same({}, find 'ann'.vhosts)
    http:expect(200, 'DELETE', '/api/users/ann')
    assert.is_nil(find 'ann')
    http:expect_error(404, 'not-found', 'DELETE', '/api/users/ann')
  end)

  it('that may enter another vhost alone is asked in that one, where the path names none', function()
    start { root = { tags = { 'admin' } }, bob = { vhosts = { shop = { configure = '.*', read = '.*' } } }, eve = {} }
    local bob = Http.connect(broker, { user = 'bob', password = users.password })
    assert.same({ 'bob', 'shop' }, { bob:get '/api/whoami'.json.user, bob:get '/api/whoami'.json.vhost })
    bob:expect(200, 'PUT', '/api/vhosts/shop/queues/q', {})
    assert.equal('shop', bob:expect(200, 'GET', '/api/vhosts').items[1].name)
    bob:expect_error(403, 'denied', 'GET', '/api/vhosts/%2F/queues/q')
    assert.equal('shop', bob:get '/api/whoami'.json.vhost)
    bob:expect(200, 'GET', '/api/vhosts/shop/queues/q')
    bob:close()
    local eve = Http.connect(broker, { user = 'eve', password = users.password })
    eve:expect_error(403, 'denied', 'GET', '/api/whoami')
    eve:close()
  end)

  it('is refused with a sentence', function()
    start { root = { tags = { 'admin' } } }
    for _, body in ipairs {
      { tags = { 'king' } }, { tags = { 1 } }, { limits = { ['max-cats'] = 1 } },
      { limits = { ['publish-rate'] = -1 } }, { limits = 5 }, { password = {} }, { name = 'x' },
    } do
      local answer = http:put('/api/users/ann', body)
      assert.equal(400, answer.status, answer.body)
      if answer.headers.connection == 'close' then
        http = Http.connect(broker, { user = 'root', password = users.password })
      end
    end
    assert.is_nil(find 'ann')
    -- A change is refused as a whole.
    http:expect(200, 'PUT', '/api/users/ann', { password = 'one' })
    http:expect_error(400, 'syntax', 'PUT', '/api/users/ann', { password = 'two', tags = { 'king' } })
    assert.matches('may not enter', Http.connect(broker, { user = 'ann', password = 'one' })
      :expect_error(403, 'denied', 'GET', '/api/stats'))
    http:expect_error(404, 'not-found', 'PUT', '/api/users/nobody/grants/%2F', { read = '.*' })
    http:expect_error(400, 'syntax', 'PUT', '/api/users/root/grants/%2F', { read = '(' })
  end)
end)
