--- tls.lua BUILD OUTPUT: what TLS costs, beside the same without it, in one run.
---
--- Messages: one producer and one consumer of `tidemq bench`, through a listener with TLS
--- and one without, of the same broker, in turn. Handshakes: `openssl s_time` from two
--- processes, for several keys. Each figure is the median of three runs. The broker's
--- processor time comes from /proc. RAM is the store (--store none).
package.path = './tests/integration/?.lua;' .. package.path
local socket = require 'socket'
local shell = require 'support.shell'
local wait = require 'support.wait'

local sh = shell.line

local build, output = arg[1], arg[2]
local ROUNDS = 3
local SIZES = { 128, 1024, 16384, 262144 }
local TOTAL_BYTES, COUNT_MAX = 512 * 1024 * 1024, 400000

local dir = sh 'mktemp -d ${TMPDIR:-/tmp}/tidemq-bench-tls.XXXXXX'
local pid

local function issue(key)
  sh(('openssl req -x509 -newkey %s -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost '
    .. '-keyout %s/key -out %s/cert 2>&1'):format(key, dir, dir))
end

local plain_port, secure_port

local function start(key)
  issue(key)
  local command = 'exec setsid %s/tidemq serve --store none --http none --listen 127.0.0.1:0 --listen tls:127.0.0.1:0 '
    .. '--tls-cert %s/cert --tls-key %s/key --log error >%s/out 2>&1 </dev/null & echo $!'
  pid = sh(command:format(build, dir, dir, dir))
  assert(wait.poll(function()
    plain_port, secure_port = sh(('cat %s/out'):format(dir)):match 'on 127.0.0.1:(%d+)\n.*tls:127.0.0.1:(%d+)$'
    return secure_port
  end), 'the broker did not start: see ' .. dir)
end

local function stop()
  os.execute('kill ' .. pid)
  assert(wait.poll(function() return not shell.is_running(pid) end, 60), 'the broker does not stop')
end

--- Seconds of processor time that the broker has used.
local function cpu()
  local file <close> = assert(io.open('/proc/' .. pid .. '/stat'))
  local user, system = file:read('a'):match '%) %S+ %S+ %S+ %S+ %S+ %S+ %S+ %S+ %S+ %S+ %S+ (%d+) (%d+)'
  return (user + system) / 100
end

local function median(list)
  table.sort(list)
  return list[(#list + 1) // 2]
end

local function thousands(n)
  local text = ('%d'):format(math.floor(n + 0.5)):reverse():gsub('(%d%d%d)', '%1,'):reverse()
  return (text:gsub('^,', ''))
end

local out = assert(io.open(output, 'w'))
local function line(...) out:write(string.format(...), '\n') end

--- Messages a second, and microseconds of the broker's processor time for each.
local function bench(url, size)
  local count = math.max(1000, math.min(COUNT_MAX, TOTAL_BYTES // size))
  local before = cpu()
  local text = sh(('TIDEMQ_TLS_CA=%s/cert %s/tidemq bench --url %s --size %d --count %d 2>&1'):format(dir, build, url,
    size, count))
  local rate = tonumber(text:match 'delivered.-: (%d+) a second')
  assert(rate and text:find 'missing 0, duplicates 0, out of order 0', text)
  return rate, (cpu() - before) / count * 1e6
end

local function messages()
  line '| bytes | without TLS, messages a second | CPU, µs | with TLS | CPU, µs | of the rate |'
  line '| --- | --- | --- | --- | --- | --- |'
  start 'ec -pkeyopt ec_paramgen_curve:P-256'
  for _, size in ipairs(SIZES) do
    local plain, secure = { rate = {}, cpu = {} }, { rate = {}, cpu = {} }
    for i = 1, ROUNDS do
      plain.rate[i], plain.cpu[i] = bench('tide://localhost:' .. plain_port, size)
      secure.rate[i], secure.cpu[i] = bench('tides://localhost:' .. secure_port, size)
    end
    local without, with = median(plain.rate), median(secure.rate)
    line('| %s | %s | %.2f | %s | %.2f | %.0f %% |', thousands(size), thousands(without), median(plain.cpu),
      thousands(with), median(secure.cpu), with / without * 100)
  end
  stop()
end

--- Connections a second of two clients, and microseconds of the broker's time for each.
local function handshakes(flags)
  local command = ('timeout 30 openssl s_time -connect localhost:%s -time 3 %s 2>/dev/null'):format(secure_port, flags)
  local before = cpu()
  local text = sh(('(%s) & (%s) & wait'):format(command, command))
  local count, rate = 0, 0
  for connections, seconds in text:gmatch '(%d+) connections in (%d+) real seconds' do
    count, rate = count + connections, rate + connections / seconds
  end
  assert(count > 0, text)
  return rate, (cpu() - before) / count * 1e6
end

local function connects()
  local before, since, count = cpu(), socket.gettime(), 0
  while socket.gettime() - since < 3 do
    local c = assert(socket.connect('127.0.0.1', plain_port))
    c:send 'QUIT\r\n'
    c:receive '*a'
    c:close()
    count = count + 1
  end
  return count / (socket.gettime() - since), (cpu() - before) / count * 1e6
end

local function handshake_table()
  line ''
  line '| a new connection | a second, two clients | broker CPU, µs |'
  line '| --- | --- | --- |'
  local function row(what, measure, ...)
    local rates, costs = {}, {}
    for i = 1, ROUNDS do rates[i], costs[i] = measure(...) end
    line('| %s | %s | %.0f |', what, thousands(median(rates)), median(costs))
  end
  for _, key in ipairs { { 'ec -pkeyopt ec_paramgen_curve:P-256', 'P-256' }, { 'rsa:2048', 'RSA 2048' },
    { 'rsa:4096', 'RSA 4096' } } do
    start(key[1])
    if key[2] == 'P-256' then row('without TLS (one client)', connects) end
    row('TLS 1.3, ' .. key[2], handshakes, '-new')
    if key[2] == 'P-256' then row('TLS 1.2, P-256', handshakes, '-new -tls1_2') end
    if key[2] == 'RSA 4096' then row('TLS 1.2, resumed', handshakes, '-reuse -tls1_2') end
    stop()
  end
end

messages()
handshake_table()
out:close()
os.execute('rm -rf ' .. dir)
io.stderr:write(sh('cat ' .. output), '\n')
