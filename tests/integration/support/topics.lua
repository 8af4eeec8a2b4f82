--- What specs of topics do again and again, with a topic that is named `t`.
local assert = require 'luassert'

local M = {}

--- What is said of a message that its connection no longer has.
M.LOST = 'is no longer held: it was settled, timed out or its queue was deleted'

---@param c Client
---@param options string? of the topic
function M.declare(c, options) c:ok('DECLARE topic t ' .. (options or 'partitions=1')) end

--- Publish payloads, one after the other.
---@param c Client
function M.publish(c, ...)
  for _, payload in ipairs { ... } do c:ok('PUB - t', payload) end
end

--- Become a member of a group.
---@param c Client
---@param words string the name of the subscription, and the options
---@param partitions string? those that it is given
function M.sub(c, words, partitions)
  c:send(('SUB t %s\r\n'):format(words))
  c:expect_line 'OK'
  c:expect_line(('EVT assigned %s %s'):format(words:match '^%S+', partitions or '0'))
end

--- These messages come next; gives the last one.
---@param c Client
---@return Delivery
function M.expect_payloads(c, ...)
  local last
  for _, payload in ipairs { ... } do
    last = c:expect_msg()
    assert.equal(payload, last.payload)
  end
  return last
end

--- What LIST groups says of a group.
---@param c Client
---@param name string
---@return table?
function M.group(c, name)
  for _, g in ipairs(c:document 'LIST groups') do
    if g.group == name then return g end
  end
end

return M
