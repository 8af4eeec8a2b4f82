--- A headless Chromium that looks at a broker's page, driven by the W3C WebDriver protocol:
---
---   local browser = Browser.start()
---   browser:open(broker, '#/queues')
---   browser:click { button = 'New queue' }
---   browser:type({ field = 'Name' }, 'jobs')
---   browser:expect_text('main', 'jobs')
---   browser:expect_no_problems()
---
--- One browser serves a whole spec file: starting it takes a second. What can be clicked or read is named by a CSS
--- selector, or by what a user sees: { button = text }, { link = text }, { field = label }, { cell = text }. While
--- a dialog is open, only what is in it is found. Each wait has a deadline.
local Client = require 'support.client'
local Redis = require 'support.redis'
local http = require 'socket.http'
local json = require 'dkjson'
local ltn12 = require 'ltn12'
local shell = require 'support.shell'
local wait = require 'support.wait'

---@class Browser
---@field dir string
---@field url string of chromedriver
---@field session string
local Browser = {}
Browser.__index = Browser

local quote = shell.quote
local root = shell.line 'pwd'
local ELEMENT = 'element-6066-11e4-a52e-4f735466cecf'

-- Keys that are no characters.
Browser.keys = {
  enter = '\u{E007}', escape = '\u{E00C}', tab = '\u{E004}', down = '\u{E015}', up = '\u{E013}', left = '\u{E012}',
  right = '\u{E014}', backspace = '\u{E003}', control = '\u{E009}', null = '\u{E000}',
}

-- What finds an element: of an open dialog, or else of the page; only one that can be seen.
local FINDER = [[
const what = arguments[0];
const scope = [...document.querySelectorAll('dialog[open]')].pop() ?? document;
const isSeen = (e) => e.checkVisibility({ visibilityProperty: true }) && e.getClientRects().length > 0;
const textOf = (e) => (e.textContent ?? '').replace(/\s+/g, ' ').trim();
function candidates() {
  if (typeof what === 'string') return [...scope.querySelectorAll(what)];
  if (what.button !== undefined) {
    return [...scope.querySelectorAll('button, input[type=submit], summary, [role=button], [role=tab]')]
      .filter((e) => [textOf(e), e.getAttribute('aria-label'), e.value].includes(what.button));
  }
  if (what.link !== undefined) {
    return [...scope.querySelectorAll('a')].filter((e) => textOf(e) === what.link);
  }
  if (what.cell !== undefined) {
    return [...scope.querySelectorAll('td, th')].filter((e) => textOf(e) === what.cell);
  }
  if (what.field !== undefined) {
    const labels = [...scope.querySelectorAll('label')].filter((e) => textOf(e) === what.field)
      .map((e) => e.control);
    return [...labels, ...[...scope.querySelectorAll('input, select, textarea')].filter((e) =>
      e.getAttribute('aria-label') === what.field || e.placeholder === what.field)].filter(Boolean);
  }
  return [];
}
const boxes = what.within ? [...document.querySelectorAll(what.within)] : [document];
const within = (e) => boxes.some((box) => box.contains(e));
return candidates().filter((e) => isSeen(e) && within(e))[(what.nth ?? 1) - 1] ?? null;
]]

local NOTHING = setmetatable({}, { __jsontype = 'object' })

local function describe(what)
  return type(what) == 'table' and json.encode(what) or what
end

--- One command of the protocol; gives its value, or nil and the error.
local function command(self, method, path, body)
  local parts = {}
  local source = body and json.encode(body)
  local _, status = http.request {
    url = self.url .. path, method = method, sink = ltn12.sink.table(parts),
    source = source and ltn12.source.string(source),
    headers = source and { ['content-type'] = 'application/json', ['content-length'] = #source } or nil,
  }
  local answer = json.decode(table.concat(parts))
  if not answer then error(('chromedriver does not answer %s %s: %s'):format(method, path, status), 3) end
  if status ~= 200 then return nil, answer.value.error .. ': ' .. answer.value.message:match '^[^\n]*' end
  return answer.value
end

local function must(self, method, path, body, level)
  local value, err = command(self, method, '/session/' .. self.session .. path, body)
  if err then error(('%s %s: %s'):format(method, path, err), level or 3) end
  return value
end

local function start_driver(self)
  self.dir = shell.make_dir 'tidemq-browser'
  local script = ('TIDE_TEST_DIR=%s exec bash %s/tests/integration/support/process.sh '):format(
    quote(self.dir), quote(root))
  self.guard = assert(io.popen(script .. 'guard', 'w'))
  -- Without IPv6 it does not tell which port it took for 0.
  local wanted = Client.has_ipv6() and 0 or Redis.free_port()
  shell.write_file(self.dir .. '/command', ('cd %s && HOME=%s exec chromedriver --port=%d --log-path=%s\n'):format(
    quote(self.dir), quote(self.dir), wanted, quote(self.dir .. '/driver.log')))
  assert(os.execute(script .. 'run'))
  local port = wait.poll(function()
    return (shell.read_file(self.dir .. '/stdout') or ''):match 'started successfully on port (%d+)'
  end, 120) -- several start at once, from a cold disk
  if not port then
    error('chromedriver does not start: ' .. (shell.read_file(self.dir .. '/stderr') or ''), 3)
  end
  self.url = 'http://127.0.0.1:' .. port
end

---@return Browser
function Browser.start()
  local self = setmetatable({}, Browser)
  start_driver(self)
  local args = { '--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--hide-scrollbars',
    '--no-first-run', '--disable-background-networking', '--disable-component-update', '--lang=en',
    '--window-size=1200,900',
    '--user-data-dir=' .. self.dir .. '/profile' }
  local value, err = command(self, 'POST', '/session', { capabilities = { alwaysMatch = {
    ['goog:chromeOptions'] = { args = args }, ['goog:loggingPrefs'] = { browser = 'ALL' },
    acceptInsecureCerts = true,
  } } })
  if not value then error('Chromium does not start: ' .. err, 2) end
  self.session = value.sessionId
  return self
end

--- End it. Harmless more than once.
function Browser:destroy()
  if not self.guard then return end
  self.guard:close()
  self.guard = nil
end

--- Run JavaScript; `...` is `arguments`. Gives what it returns.
---@param code string
---@return any
function Browser:run(code, ...)
  local args = setmetatable({ ... }, { __jsontype = 'array' })
  local value = must(self, 'POST', '/execute/sync', { script = code, args = args })
  return value ~= json.null and value or nil
end

--- Run JavaScript that awaits something; it hands what it gives to its last argument, a function.
---@param code string
---@return any
function Browser:run_async(code, ...)
  local args = setmetatable({ ... }, { __jsontype = 'array' })
  local script = '(async function () {' .. code .. '}).apply(null, arguments)'
  local value = must(self, 'POST', '/execute/async', { script = script, args = args })
  return value ~= json.null and value or nil
end

--- Open the page of a broker, at a place of it.
---@param broker Broker
---@param hash? string
function Browser:open(broker, hash)
  local scheme = broker.http_address:find '^tls:' and 'https://' or 'http://'
  must(self, 'POST', '/url', { url = scheme .. broker.http_address:gsub('^tls:', '') .. '/' .. (hash or '') })
end

--- Another place of the page that is open, without loading it anew.
---@param hash string
function Browser:go(hash)
  self:run('location.hash = arguments[0]', hash)
end

function Browser:reload()
  must(self, 'POST', '/refresh', NOTHING)
end

--- A command of Chromium's own protocol.
---@param name string
---@param params table
function Browser:cdp(name, params)
  local given = setmetatable(params, { __jsontype = 'object' })
  return must(self, 'POST', '/goog/cdp/execute', { cmd = name, params = given })
end

---@param width integer of what the page sees
---@param height integer
function Browser:resize(width, height)
  self:cdp('Emulation.setDeviceMetricsOverride',
    { width = width, height = height, deviceScaleFactor = 1, mobile = false })
end

--- Light or dark, as the system would say it.
---@param scheme 'light'|'dark'
function Browser:prefer(scheme)
  self:cdp('Emulation.setEmulatedMedia', { features = { { name = 'prefers-color-scheme', value = scheme } } })
end

local function element_id(self, what)
  local found = command(self, 'POST', '/session/' .. self.session .. '/execute/sync',
    { script = FINDER, args = setmetatable({ what }, { __jsontype = 'array' }) })
  return type(found) == 'table' and found[ELEMENT] or nil
end

--- Whether it can be seen now.
---@param what string|table
---@return boolean
function Browser:has(what)
  return element_id(self, what) ~= nil
end

-- What the page shows, for messages of failures.
local function seen(self)
  local text = self:run 'return document.body.innerText' or ''
  return ('the page at %s shows:\n%s'):format(self:run 'return location.href', text:sub(1, 3000))
end

--- Wait until something can be seen, and do something with it that may fail while it moves or is covered.
local function with(self, what, action)
  local last = 'it is not there'
  local done = wait.poll(function()
    local id = element_id(self, what)
    if not id then return nil end
    local value, err = action(id)
    last = err or last
    return err == nil and { value } or nil
  end)
  if not done then error(('%s: %s; %s'):format(describe(what), last, seen(self)), 3) end
  return done[1]
end

--- Wait until it can be seen.
---@param what string|table
function Browser:expect(what)
  with(self, what, function() return true end)
end

--- Wait until it can not be seen any more.
---@param what string|table
function Browser:expect_gone(what)
  if not wait.poll(function() return element_id(self, what) == nil end) then
    error(describe(what) .. ' is still there; ' .. seen(self), 2)
  end
end

--- It waits for what is still disabled: a click on that is lost.
---@param what string|table
function Browser:click(what)
  with(self, what, function(id)
    local path = ('/session/%s/element/%s'):format(self.session, id)
    local is_enabled, err = command(self, 'GET', path .. '/enabled')
    if not is_enabled then return nil, err or 'it is disabled' end
    return command(self, 'POST', path .. '/click', NOTHING)
  end)
end

--- Type into a field, in place of what is there.
---@param what string|table
---@param text string
function Browser:type(what, text)
  with(self, what, function(id)
    local path = ('/session/%s/element/%s'):format(self.session, id)
    local _, err = command(self, 'POST', path .. '/clear', NOTHING)
    if err then return nil, err end
    if text == '' then return true end
    return command(self, 'POST', path .. '/value', { text = text })
  end)
end

--- Choose a file, or a directory, to be uploaded.
---@param what string|table
---@param path string
function Browser:upload(what, path)
  with(self, what, function(id)
    return command(self, 'POST', ('/session/%s/element/%s/value'):format(self.session, id), { text = path })
  end)
end

--- Choose an option of a <select> by its text.
---@param what string|table
---@param text string
function Browser:choose(what, text)
  with(self, what, function(id)
    local _, err = command(self, 'POST', '/session/' .. self.session .. '/execute/sync', { script = [[
      const [select, text] = arguments;
      const option = [...select.options].find((o) => o.textContent === text);
      if (!option) throw new Error('no option ' + text);
      select.value = option.value;
      select.dispatchEvent(new Event('input', { bubbles: true }));
      select.dispatchEvent(new Event('change', { bubbles: true }));
    ]], args = { { [ELEMENT] = id }, text } })
    return true, err
  end)
end

--- Press keys, one after the other, wherever the focus is: characters, or names of `Browser.keys`.
---@param ... string
function Browser:press(...)
  local actions = {}
  for _, key in ipairs { ... } do
    local value = Browser.keys[key] or key
    actions[#actions + 1] = { type = 'keyDown', value = value }
    actions[#actions + 1] = { type = 'keyUp', value = value }
  end
  must(self, 'POST', '/actions', { actions = { { type = 'key', id = 'keyboard', actions = actions } } })
end

--- The text that is shown, or '' while nothing is.
---@param css string
---@return string
function Browser:text(css)
  return self:run([[
    const all = [...document.querySelectorAll(arguments[0])].filter((e) => e.checkVisibility());
    return all.map((e) => e.innerText).join('\n');
  ]], css) or ''
end

--- Wait until the text has this part; a Lua pattern after `pattern:`.
---@param css string
---@param part string
---@param seconds? number
function Browser:expect_text(css, part, seconds)
  local pattern = part:match '^pattern:(.*)$'
  local text
  local is_there = wait.poll(function()
    text = self:text(css)
    return text:find(pattern or part, 1, pattern == nil)
  end, seconds)
  if not is_there then error(('no %q in %s, which says:\n%s'):format(part, css, text:sub(1, 3000)), 2) end
end

--- Wait until the JavaScript expression is true; gives its value.
---@param expression string
---@return any
function Browser:expect_js(expression, ...)
  local args = { ... }
  local value = wait.poll(function()
    local value = self:run('return ' .. expression, table.unpack(args))
    return value ~= false and value ~= 0 and value or nil
  end)
  if not value then error(('never true: %s; %s'):format(expression, seen(self)), 2) end
  return value
end

--- The texts of the first cells of a table's rows.
---@param name string the table's data-table
---@return string[]
function Browser:rows(name)
  return self:run([[
    return [...document.querySelectorAll(`[data-table="${arguments[0]}"] tbody tr:not(.detail)`)]
      .map((tr) => tr.children[0].innerText);
  ]], name)
end

--- Wait until a table has these rows, by their first cells.
---@param name string
---@param wanted string[]
function Browser:expect_rows(name, wanted)
  local rows
  local text = table.concat(wanted, '\n')
  if not wait.poll(function()
    rows = self:rows(name)
    return table.concat(rows, '\n') == text
  end) then
    error(('the rows of %s are:\n%s\nand not:\n%s'):format(name, table.concat(rows, '\n'), text), 2)
  end
end

--- A picture of what is seen, as PNG.
---@return string
function Browser:picture()
  return require('mime').unb64(must(self, 'GET', '/screenshot'))
end

--- The console since the last call: errors, warnings, what the page logged, requests that failed.
---@return table[] of level, source, message
function Browser:console()
  return must(self, 'POST', '/se/log', { type = 'browser' })
end

--- The console must be empty, but for failed requests that a test provokes: they match one of these patterns.
---@param ... string
function Browser:expect_no_problems(...)
  local bad = {}
  for _, entry in ipairs(self:console()) do
    local is_expected = false
    for _, pattern in ipairs { ... } do
      is_expected = is_expected or (entry.source == 'network' and entry.message:find(pattern) ~= nil)
    end
    if not is_expected then bad[#bad + 1] = ('%s %s: %s'):format(entry.level, entry.source, entry.message) end
  end
  if #bad > 0 then error('the console has:\n' .. table.concat(bad, '\n'), 2) end
end

--- Forget what a test has left: the page that is open, its storage, the window's size and colours, the console.
function Browser:reset()
  self:run 'try { localStorage.clear(); sessionStorage.clear(); } catch {}'
  must(self, 'POST', '/url', { url = 'about:blank' })
  self:prefer 'light'
  self:resize(1200, 900)
  self:console()
end

return Browser
