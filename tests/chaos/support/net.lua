--- Cuts between servers in a network namespace of the test's own (`unshare --net`, which the Makefile says with
--- TIDE_CHAOS_NET=1). Each server has an address of its own, 127.0.1.N, by which it listens and connects; clients
--- are 127.0.0.1, and reach all of them whatever is cut.
local M = {}

local PREFIX = '127.0.1.'

local function run(command) return os.execute(command .. ' 2>/dev/null') == true end

--- Make the namespace ready: rules can stand before the one for local addresses.
---@return boolean
function M.begin()
  if os.getenv 'TIDE_CHAOS_NET' ~= '1' then return false end
  return run 'ip link set lo up' and run 'ip rule add pref 100 lookup local' and run 'ip rule del pref 0'
end

---@param i integer
---@return string
function M.host(i) return PREFIX .. i end

local function rule(pref, format, ...)
  assert(run(('ip rule add pref %d '):format(pref) .. format:format(...)))
end

--- Nothing passes between these nodes and all others of the cluster, in either direction. Replicas and masters
--- notice that on the bus; what they have sent each other waits.
---@param cluster Cluster
---@param nodes RedisNode[]
function M.cut(cluster, nodes)
  for _, node in ipairs(nodes) do
    for _, other in ipairs(nodes) do
      if node ~= other then rule(40, 'from %s to %s lookup local', node.host, other.host) end
    end
    rule(50, 'from %s to %s0/24 blackhole', node.host, PREFIX)
    rule(50, 'from %s0/24 to %s blackhole', PREFIX, node.host)
  end
  -- Redis tries its second connection from any address.
  rule(60, 'from %s0/24 lookup local', PREFIX)
  for _, node in ipairs(cluster.nodes) do rule(70, 'to %s ipproto tcp dport %d blackhole', node.host, node.bus_port) end
end

--- Everything passes again.
function M.heal()
  for _, pref in ipairs { 40, 50, 60, 70 } do
    while run('ip rule del pref ' .. pref) do end -- luacheck: ignore 542
  end
end

return M
