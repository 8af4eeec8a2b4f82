--- A program in a real terminal:
---
---   local t = Tmux.start('tidemq top', { columns = 80, rows = 24 })
---   t:expect 'QUEUE +READY'
---   t:keys('r', 'Escape')
---   t:destroy()
---
--- Each has a tmux of its own, that ends with it.
local shell = require 'support.shell'
local wait = require 'support.wait'

local quote = shell.quote

---@class Tmux
---@field socket string
local Tmux = {}
Tmux.__index = Tmux

local count = 0

--- The program runs in a shell; when it has ended the terminal shows `ended: <status>`.
---@param command string
---@param options { columns?: integer, rows?: integer, env?: table<string, string> }?
---@return Tmux
function Tmux.start(command, options)
  options = options or {}
  count = count + 1
  local self = setmetatable({ dir = shell.make_dir 'tidemq-tmux' }, Tmux)
  self.socket = self.dir .. '/' .. count
  shell.write_file(self.dir .. '/tmux.conf', 'set -g default-terminal "tmux-256color"\nset -s escape-time 0\n'
    .. 'set -g status off\n')
  local env = { 'env LC_ALL=C.UTF-8' }
  for name, value in pairs(options.env or {}) do env[#env + 1] = quote(name .. '=' .. value) end
  shell.write_file(self.dir .. '/command', ('trap : INT; %s %s; echo "ended: $?"; exec cat >/dev/null\n')
    :format(table.concat(env, ' '), command))
  assert(os.execute(('%s -f %s new-session -d -x %d -y %d sh %s'):format(self:tmux(), quote(self.dir .. '/tmux.conf'),
    options.columns or 100, options.rows or 24, quote(self.dir .. '/command'))))
  return self
end

function Tmux:tmux() return 'env -u TMUX LC_ALL=C.UTF-8 tmux -u -S ' .. quote(self.socket) end

--- What the terminal shows.
---@param escapes boolean? with the sequences for colours
---@return string
function Tmux:screen(escapes)
  return (shell.run(('%s capture-pane -p %s'):format(self:tmux(), escapes and '-e' or '')))
end

--- Wait until the terminal shows the pattern; gives its captures.
---@param pattern string
---@return string ...
function Tmux:expect(pattern)
  local screen
  if not wait.poll(function()
    screen = self:screen()
    return screen:find(pattern)
  end) then
    error(('the terminal does not show %q but:\n%s'):format(pattern, screen), 2)
  end
  return screen:match(pattern)
end

--- Press keys, by their names in tmux.
function Tmux:keys(...)
  local words = {}
  for i, key in ipairs { ... } do words[i] = quote(key) end
  assert(os.execute(('%s send-keys %s'):format(self:tmux(), table.concat(words, ' '))))
end

---@param columns integer
---@param rows integer
function Tmux:resize(columns, rows)
  assert(os.execute(('%s resize-window -x %d -y %d'):format(self:tmux(), columns, rows)))
end

--- What the program writes goes to this file, too.
---@return string path
function Tmux:record()
  local path = self.dir .. '/output'
  shell.write_file(path, '')
  assert(os.execute(('%s pipe-pane -O %s'):format(self:tmux(), quote('cat >>' .. path))))
  return path
end

function Tmux:destroy()
  os.execute(self:tmux() .. ' kill-server 2>/dev/null')
  os.execute('rm -rf ' .. quote(self.dir))
end

return Tmux
