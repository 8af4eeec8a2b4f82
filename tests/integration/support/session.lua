--- The sessions in a document: what is typed into a broker, and what comes.
local assert = require 'luassert'
local json = require 'dkjson'

local M = {}

local is_reply = { OK = true, ERR = true, DATA = true, MSG = true, EVT = true }

local function first_word(line)
  return line:gsub('^@%d+ ', ''):match '^%S*'
end

--- A message id, and the token of a lock.
local ID, TOKEN = '%f[%x]%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%f[%X]', '%f[%w]' .. ('%d'):rep(13) .. '%f[%W]'

--- What differs from run to run. Ids keep their identity: the first becomes
--- ID1, the second ID2. `ids` has both ways.
local function normalizer(ids)
  local count = 0
  return function(line)
    local function name(id)
      if not ids[id] then
        count = count + 1
        ids[id], ids['ID' .. count] = 'ID' .. count, id
      end
      return ids[id]
    end
    line = line:gsub('^(EVT lease %S+ %d+) %d+$', '%1 MS')
    -- The vhost of a session is new.
    line = line:gsub("; vhost 'doc%-%d+' has one", ''):gsub("vhost 'doc%-%d+'", "vhost '/'")
    line = line:gsub('ts=%d+', 'ts=TIME'):gsub('time=%d+', 'time=TIME')
    return (line:gsub(ID, name):gsub(TOKEN, name))
  end
end

local volatile = {
  connection = true, ts = true, last = true, last_ms = true, lag_ms = true, due = true, expires = true,
  generation = true, us = true,
}

local function normalize_document(value, normalize)
  if type(value) == 'string' then return normalize(value) end
  if type(value) ~= 'table' then return value end
  local copy = {}
  for name, member in pairs(value) do
    copy[name] = volatile[name] and type(member) or normalize_document(member, normalize)
  end
  return copy
end

--- The members of a document that the session shows: `, … }` stands for others.
local function shown(text, document)
  local whole, cut = text:gsub(', … }$', '}')
  if cut == 0 then return json.decode(text), document end
  local wanted, part = json.decode(whole), {}
  for name in pairs(wanted) do part[name] = document[name] end
  return wanted, part
end

--- Play a session on a connection: what is typed is sent, what is not must come.
---@param text string
---@param c Client
function M.play(text, c)
  local documented_ids, actual_ids = {}, {}
  local documented, actual = normalizer(documented_ids), normalizer(actual_ids)
  local lines = {}
  for line in (text .. '\n'):gmatch '([^\n]*)\n' do lines[#lines + 1] = line end
  if first_word(lines[1]) ~= 'HELLO' then
    c:enter_vhost(('doc-%d'):format(math.random(1, 1 << 40)))
  end
  local i = 1
  local function next_line()
    i = i + 1
    return lines[i - 1]
  end
  while i <= #lines do
    local line = next_line()
    local word = first_word(line)
    if not is_reply[word] then
      -- An id that came before is the one of this run.
      local function of_this_run(id) return actual_ids[documented_ids[id]] end
      c:send(line:gsub(ID, of_this_run):gsub(TOKEN, of_this_run) .. '\r\n')
      if word == 'PUB' then
        local payload = next_line()
        assert.equal(#payload, tonumber(line:match '%d+$'), 'the length of ' .. payload)
        c:send(payload .. '\r\n')
      end
    else
      local got = c:expect '^.*$'
      if word == 'DATA' then
        local document_text = next_line()
        if not document_text:find ', … }$' then
          assert.equal(#document_text, tonumber(line:match '%d+$'), 'the length of ' .. document_text)
        end
        assert.is_truthy(got:find '^DATA %d+$', got)
        local payload = c:expect_payload(got:match '%d+$')
        local wanted, document = shown(document_text, json.decode(payload))
        assert.same(normalize_document(wanted, documented), normalize_document(document, actual))
      else
        assert.equal(documented(line), actual(got))
        if word == 'MSG' then
          assert.equal(next_line(), c:expect_payload(got:match '%d+$'))
        end
      end
    end
  end
  if lines[#lines]:find '^EVT closed ' then c:expect_closed() else c:expect_nothing() end
end

--- The sessions of a document, with the heading (`## `) that each stands under.
---@param doc string
---@return {heading: string, text: string}[]
function M.all(doc)
  local sessions, heading, at = {}, 'the beginning', 1
  while true do
    local from, to, text = doc:find('\n```tide\n(.-)\n```\n', at)
    if not from then return sessions end
    for name in doc:sub(at, from):gmatch '\n## ([^\n]+)' do heading = name end
    sessions[#sessions + 1] = { heading = heading, text = text }
    at = to
  end
end

return M
