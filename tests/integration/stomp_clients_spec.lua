-- STOMP clients that others wrote, each in its own language: tests/stomp/.
local Broker = require 'support.broker'
local needs = require 'support.needs'
local shell = require 'support.shell'
local users = require 'support.users'
local wait = require 'support.wait'

-- What each program does; what is not there its library cannot do, or only in one way.
local all = {
  '1.0', '1.1', '1.2', 'individual', 'cumulative', 'transaction', 'durable', 'reply', 'bodies', 'escapes', 'error',
  'login', 'heartbeats',
}
local NPM = 'command -v node && command -v npm'
local clients = {
  { 'python3-stomp', '/usr/bin/python3 -B tests/stomp/client.py', without = {},
    probe = '/usr/bin/python3 -c "import stomp"' },
  { 'ruby-stomp', '/usr/bin/ruby tests/stomp/client.rb', without = {}, probe = '/usr/bin/ruby -rstomp -e 1' },
  { 'Net::Stomp of Perl', '/usr/bin/perl tests/stomp/client.pl', without = { 'escapes', 'heartbeats' },
    probe = '/usr/bin/perl -MNet::Stomp -e 1' },
  { 'the extension of PHP', '/usr/bin/php tests/stomp/client.php',
    without = { '1.1', '1.2', 'cumulative', 'escapes', 'heartbeats' },
    probe = "/usr/bin/php -r 'exit(class_exists(\"Stomp\") ? 0 : 1);'" },
  { 'stompit of npm', 'node NODE/stompit.js', without = {}, probe = NPM },
  { '@stomp/stompjs of npm', 'node NODE/stompjs.js', without = {}, probe = NPM },
  { '@stomp/stompjs in a WebSocket', 'node NODE/stompjs.js', without = {}, is_websocket = true, probe = NPM },
}

local function cases(without)
  local left, list = {}, {}
  for _, name in ipairs(without) do left[name] = true end
  for _, name in ipairs(all) do list[#list + 1] = not left[name] and 'ok ' .. name or nil end
  return table.concat(list, '\n') .. '\n'
end

describe('STOMP with', function()
  local broker, node, npm_said
  local has_npm = os.execute('{ ' .. NPM .. '; } >/dev/null')

  setup(function()
    broker = Broker.start { redis = {}, http = '127.0.0.1:0', stopped = true }
    -- Each program is a user of its own: each has a wrong password once, and the next login of a
    -- user that has failed waits twice as long.
    local may = { vhosts = { ['/'] = { configure = '.*', write = '.*', read = '.*' } } }
    local table_of_users = {}
    for i in ipairs(clients) do table_of_users['app' .. i] = may end
    users.restore(broker.redis, table_of_users)
    broker:run()
    if not has_npm then return end
    -- The packages come from npm, by their names and hashes in package-lock.json.
    node = shell.make_dir 'tidemq-node'
    local output, status = shell.run(('cp -R tests/stomp/node/. %s && cd %s && npm ci --ignore-scripts 2>&1 </dev/null')
      :format(node, node))
    npm_said = status ~= 0 and output or nil
  end)
  teardown(function()
    if broker then broker:destroy() end
    if node then shell.run('rm -rf ' .. node) end
  end)

  for i, client in ipairs(clients) do
    local name, command = table.unpack(client)

    needs.client(it, client.probe)(name, function()
      -- A machine of one's own may have no way to npm; that of CI has.
      if client.probe == NPM and npm_said and not os.getenv 'CI' then
        return pending('npm ci has failed: ' .. npm_said)
      end
      assert.is_nil(client.probe == NPM and npm_said or nil)
      local output, status = shell.run(('timeout %d %s %s app%d %s 2>&1 </dev/null'):format(
        wait.limit(200), (command:gsub('NODE', node or '')), (broker.address:gsub(':', ' ')), i,
        users.password .. (client.is_websocket and (' ws://%s/stomp'):format(broker.http_address) or '')))
      assert.equal(cases(client.without), output)
      assert.equal(0, status)
    end)
  end
end)
