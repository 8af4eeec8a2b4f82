--- proxy_process.lua LISTEN REDIS CONTROL: the process behind proxy.lua; its three
--- arguments are paths of Unix sockets, the first also a port of loopback. It answers each
--- line on CONTROL with one line.
local socket = require 'socket'
local unix = require 'socket.unix'

local listen_path, redis_path, control_path = table.unpack(arg)

local CHUNK = 65536

local function listen(path)
  local port = tonumber(path)
  local server = assert(port and socket.tcp() or unix())
  if port then
    server:setoption('reuseaddr', true)
    assert(server:bind('127.0.0.1', port))
  else
    assert(server:bind(path))
  end
  assert(server:listen(64))
  server:settimeout(0)
  return server
end

local server, control_server = listen(listen_path), listen(control_path)

---@class Point
---@field at integer the number of a command
---@field when 'before'|'after'
---@field what 'cut'|'go'|'hold'
---@field run string? a command of the shell

---@class Bounce
---@field at integer the number of a command
---@field kind 'instead'|'carried' whether Redis has the command too
---@field text string the answer

local control ---@type table?
local control_input = ''
local links = {} ---@type table<table, Link>
local count = 0 -- commands taken from the broker
local point ---@type Point?
local bounce ---@type Bounce?
local reached ---@type string? what has been reached: number and command
local is_held = false
local trace ---@type string[]?
local delay = 0 -- seconds that each answer is kept back

--- Where a scan of RESP goes on; requests and replies have the same syntax.
local function new_scan()
  return { buf = '', pos = 1, left = 0, words = {} }
end

--- The end of the next whole value in the buffer, nil when there is none yet. Bulk
--- strings on the way are noted in `words`, the first three of them.
local function scan_value(scan)
  local buf = scan.buf
  if scan.left == 0 then scan.left, scan.words = 1, {} end
  while scan.left > 0 do
    local eol = buf:find('\r\n', scan.pos, true)
    if not eol then return nil end
    local kind = buf:byte(scan.pos)
    local next_pos = eol + 2
    if kind == 36 then -- '$'
      local len = tonumber(buf:sub(scan.pos + 1, eol - 1))
      if len >= 0 then
        if #buf < eol + 3 + len then return nil end
        next_pos = eol + 4 + len
        if #scan.words < 3 then
          scan.words[#scan.words + 1] = buf:sub(eol + 2, eol + 1 + math.min(len, 60))
        end
      end
    elseif kind == 42 then -- '*'
      local members = tonumber(buf:sub(scan.pos + 1, eol - 1))
      scan.left = scan.left + math.max(members, 0)
    end
    scan.left = scan.left - 1
    scan.pos = next_pos
  end
  return scan.pos - 1
end

--- Take the first whole value out of the buffer.
local function take(scan)
  local last = scan_value(scan)
  if not last then return nil end
  local value = scan.buf:sub(1, last)
  scan.buf = scan.buf:sub(last + 1)
  scan.pos = 1
  return value
end

---@class Link a connection of the broker, with the one to Redis that belongs to it
---@field client table
---@field redis table
---@field requests table scan of what the broker sends
---@field replies table scan of what Redis answers
---@field to_redis string
---@field to_client string
---@field late { at: number, reply: string }[] answers that are kept back
---@field owed integer commands that Redis has not answered
---@field bounced { after: integer, text: string }? the answer that is replaced

local function accept()
  local client = server:accept()
  if not client then return end
  local redis = assert(unix())
  if not redis:connect(redis_path) then
    client:close()
    redis:close()
    return
  end
  client:settimeout(0)
  redis:settimeout(0)
  local link = {
    client = client, redis = redis, requests = new_scan(), replies = new_scan(),
    to_redis = '', to_client = '', late = {}, owed = 0,
  }
  links[client], links[redis] = link, link
end

local function close(link)
  links[link.client], links[link.redis] = nil, nil
  link.client:close()
  link.redis:close()
end

local function close_all()
  for sock, link in pairs(links) do
    if sock == link.client then close(link) end
  end
end

local function is_stopped()
  return point ~= nil and count >= point.at
end

--- The command gets another answer. In its place goes one that Redis refuses, so that a transaction with it fails as
--- a whole, or does not happen. A command without a key is answered as always: a cluster bounces none.
local function bounce_request(link, request)
  local words = link.requests.words
  local b = bounce
  bounce = nil
  if not b then return request end
  local name = words[1]
  local has_key = name == 'EXEC' or name == 'EVAL' or name == 'EVALSHA'
    or (words[2] and words[2]:find '^{?tide[}:]') ~= nil
  if not has_key then return request end
  link.bounced = { after = link.owed, text = b.text }
  reached = ('%d %s'):format(count, table.concat(words, ' '):gsub('[%c]', '?'):sub(1, 100))
  if b.kind == 'carried' then return request end
  return name == 'EXEC' and 'DISCARD\r\n' or 'GET\r\n'
end

local by_clock = {
  ['CLUSTER INFO'] = true, ['CLUSTER SLOTS'] = true, ['INFO replication'] = true,
  ['HGET {tide}:holder incarnation'] = true, ['ZADD {tide}:probe XX 0 probe'] = true, ['INFO memory'] = true,
}

--- Commands go on to Redis until the point is reached.
local function forward(link)
  while not is_stopped() do
    local request = take(link.requests)
    if not request then return end
    local words = table.concat(link.requests.words, ' ')
    -- What the clock sends would give the commands behind it another number each time.
    if not by_clock[words] then count = count + 1 end
    if trace then trace[#trace + 1] = ('%d %s'):format(count, words:gsub('[%c]', '?'):sub(1, 100)) end
    if is_stopped() then
      reached = ('%d %s'):format(count, words:gsub('[%c]', '?'):sub(1, 100))
      point.link, point.request = link, request
      return
    end
    if bounce and count >= bounce.at and not by_clock[words] then request = bounce_request(link, request) end
    link.to_redis = link.to_redis .. request
    link.owed = link.owed + 1
  end
end

--- The answer as the broker gets it.
local function replaced(link, reply)
  local b = link.bounced
  if not b then return reply end
  b.after = b.after - 1
  if b.after >= 0 then return reply end
  link.bounced = nil
  return '-' .. b.text .. '\r\n'
end

local function answer(link)
  while true do
    -- The answer that nobody gets.
    if point and point.is_sent and point.link == link and link.owed == 1 then
      point.reply = point.reply or take(link.replies)
      return
    end
    local reply = take(link.replies)
    if not reply then return end
    link.owed = link.owed - 1
    link.late[#link.late + 1] = { at = socket.gettime() + delay, reply = replaced(link, reply) }
  end
end

--- Let out the answers whose time has come; gives how long the next one has to wait.
local function release()
  local now, next_in = socket.gettime(), nil
  for sock, link in pairs(links) do
    local due = 0
    while sock == link.client and link.late[due + 1] and link.late[due + 1].at <= now do due = due + 1 end
    if due > 0 then
      local replies = {}
      for i = 1, due do replies[i] = link.late[i].reply end
      link.late = table.move(link.late, due + 1, #link.late, 1, {})
      link.to_client = link.to_client .. table.concat(replies)
    end
    if link.late[1] then next_in = math.min(next_in or math.huge, link.late[1].at - now) end
  end
  return next_in
end

local function end_point(is_cut)
  local link, p = point.link, point
  point, is_held = nil, false
  if is_cut then return close_all() end
  if links[link.client] then
    if p.when == 'before' then
      link.to_redis = link.to_redis .. p.request
      link.owed = link.owed + 1
    else
      link.to_client = link.to_client .. p.reply
      link.owed = link.owed - 1
    end
  end
  for sock, one in pairs(links) do
    if sock == one.client then forward(one) end
  end
end

--- All that went before has been answered and told to the broker.
local function is_quiet()
  for sock, link in pairs(links) do
    local expected = point.is_sent and link == point.link and 1 or 0
    if sock == link.client and (link.owed > expected or link.to_client ~= '' or link.late[1]) then
      return false
    end
  end
  return true
end

--- At the point: once everything is quiet, do what it asks for.
local function advance()
  if not point or not point.link or is_held then return end
  if not links[point.link.client] then
    -- The connection has ended on the way; the point has been passed.
    return end_point(true)
  end
  if not is_quiet() then return end
  if point.when == 'after' and not point.is_sent then
    point.is_sent = true
    point.link.to_redis = point.link.to_redis .. point.request
    point.link.owed = point.link.owed + 1
    return
  end
  if point.is_sent and not point.reply then return end
  if point.run then os.execute(point.run) end
  is_held = point.what == 'hold'
  if not is_held then end_point(point.what == 'cut') end
end

local commands = {}

function commands.arm(rest)
  local n, when, what, run = rest:match '^(%d+) (%l+) (%l+) ?(.*)$'
  if point and point.link then return 'busy' end
  point = { at = count + tonumber(n), when = when, what = what, run = run ~= '' and run or nil }
  reached = nil
  return 'ok'
end

function commands.bounce(rest)
  local n, kind, text = rest:match '^(%d+) (%l+) (.+)$'
  bounce = { at = count + tonumber(n), kind = kind, text = text }
  reached = nil
  return 'ok'
end

function commands.disarm()
  if point and point.link then return 'busy' end
  point, bounce = nil, nil
  return 'ok'
end

function commands.state()
  local state = is_held and 'held' or (point and point.link and 'stopping') or ((point or bounce) and 'armed')
    or 'idle'
  return ('%s %d %s'):format(state, count, reached or '')
end

function commands.go()
  if is_held then end_point(false) end
  return 'ok'
end

function commands.cut()
  if is_held then end_point(true) else close_all() end
  return 'ok'
end

function commands.delay(rest)
  delay = tonumber(rest) / 1000
  return 'ok'
end

function commands.trace(rest)
  if rest ~= '' then
    local file = assert(io.open(rest, 'w'))
    file:write(table.concat(trace or {}, '\n'), '\n')
    file:close()
  end
  trace = {}
  return 'ok'
end

local function read_control()
  local data, err, partial = control:receive(CHUNK)
  control_input = control_input .. (data or partial)
  if err == 'closed' then os.exit(0) end
  for line in control_input:gmatch '([^\r\n]*)\r\n' do
    local verb, rest = line:match '^(%l+) ?(.*)$'
    control:settimeout(nil)
    control:send(commands[verb](rest) .. '\r\n')
    control:settimeout(0)
  end
  control_input = control_input:match '[^\n]*$'
end

local function read(sock)
  local link = links[sock]
  if not link then return end
  local data, err, partial = sock:receive(CHUNK)
  data = data or partial
  local scan = sock == link.client and link.requests or link.replies
  if data ~= '' then
    scan.buf = scan.buf .. data
    if sock == link.client then forward(link) else answer(link) end
  end
  if err ~= 'closed' then return end
  release()
  -- What Redis said before it went reaches the broker, and the other way round.
  if sock == link.redis then link.client:send(link.to_client) else link.redis:send(link.to_redis) end
  close(link)
end

local function write(sock, name)
  local link = links[sock]
  if not link or link[name] == '' then return end
  local sent, err, partial = sock:send(link[name])
  link[name] = link[name]:sub((sent or partial or 0) + 1)
  if err and err ~= 'timeout' then close(link) end
end

local function turn()
  local next_in = release()
  local readers, writers = { server, control_server, control }, {}
  for sock, link in pairs(links) do
    -- While it is stopped, what the broker says waits.
    if sock == link.redis or not is_stopped() then readers[#readers + 1] = sock end
    if link[sock == link.client and 'to_client' or 'to_redis'] ~= '' then writers[#writers + 1] = sock end
  end
  local readable, writable = socket.select(readers, writers, next_in)
  for _, sock in ipairs(writable) do
    local link = links[sock]
    if link then write(sock, sock == link.client and 'to_client' or 'to_redis') end
  end
  for _, sock in ipairs(readable) do
    if sock == control then
      read_control()
    elseif sock == server then
      accept()
    elseif sock ~= control_server then
      read(sock)
    end
  end
  advance()
end

control_server:settimeout(nil)
control = assert(control_server:accept())
control:settimeout(0)
while true do turn() end
