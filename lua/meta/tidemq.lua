---@meta tidemq
-- luacheck: ignore
-- Declarations for the Lua language server: the module "tidemq" of specs of rules. This file is
-- never run. docs/rules-testing.md says more about each function.

---What the engine refuses is nil, a sentence and a code of the protocol.
---@class tidemq
local tidemq = {}

---@class tidemq.Options
---@field rules string?  the rules directory; without it the one under test
---@field lua string?  the framework
---@field settings table<string, string>?  of tide.setting
---@field secrets table<string, string>|string|nil  of tide.secret, or their directory
---@field budget_ms integer?  of a call
---@field memory_bytes integer?
---@field shared_entries integer?

---Load the scripts.
---@param options tidemq.Options?
---@return tidemq.Engine? engine
---@return string? message
---@return string? code
function tidemq.open(options) end

---@class tidemq.Message
---@field exchange string?
---@field key string?
---@field payload string?
---@field headers table<string, string|number>?
---@field priority integer?
---@field user string?
---@field vhost string?
---@field dedupe_id string?
---@field id integer?
---@field ts integer?  this and the next two are ms since 1970
---@field due integer?
---@field expires integer?
---@field partition integer?  of a message of a topic
---@field offset integer?

---@class tidemq.Filtered : tidemq.Message
---@field delay integer  ms
---@field copies tidemq.Message[]
---@field passed string[]  files
---@field hops integer

---@class tidemq.Delivered
---@field verdict "give"|"refuse"|"delay"
---@field reason string?
---@field delay integer?  ms
---@field script string?
---@field headers table<string, string>

---@class tidemq.Login
---@field user string?
---@field password string?
---@field vhost string?
---@field name string?
---@field address string?
---@field certificate string?
---@field protocol string?
---@field is_tls boolean?
---@field is_local boolean?

---@class tidemq.Engine
local engine = {}

---Strategies and indexes are closed before.
function engine:close() end

---Load the directory again.
---@return true?
---@return string? message
---@return string? code
function engine:reload() end

---The document of RULES status.
---@return string json
function engine:status() end

---What is asked of the engine in `f` changes nothing.
---@param f fun(): ...
---@return any ...
function engine:dry_run(f) end

---The values of a line of Lua in the sandbox.
---@param text string
---@param message tidemq.Message?
---@return string? values
---@return string? message
---@return string? code
---@return boolean? is_open  the line goes on
function engine:eval(text, message) end

---The stack of the last call that failed; "" for none.
---@return string
function engine:traceback() end

---What tide.now gives from here on; nil for the real time.
---@param ms integer?
function engine:set_now(ms) end

---Set the clock on.
---@param ms integer|string  or a duration
---@return integer now
function engine:advance(ms) end

---tide.random repeats.
---@param n integer
function engine:seed(n) end

---What tide.shared has under the key; with a value it is set, with nil it is removed.
---@param key string
---@param value string|number|boolean|nil
---@param ttl integer|string|nil
---@return string|number|boolean|nil
---@return string? message
---@return string? code
---@overload fun(self: tidemq.Engine, key: string): string|number|boolean|nil
function engine:shared(key, value, ttl) end

---The keys of tide.shared that begin with the prefix, sorted.
---@param prefix string?
---@return string[]
function engine:shared_list(prefix) end

---Milliseconds until the entry of tide.shared expires; nil: it does not, or is not there.
---@param key string
---@return integer?
function engine:shared_ttl(key) end

---@return table<string, number>
function engine:counters() end

---What scripts logged since the last call: "warn filter/10-x.lua:3: text".
---@return string[]
function engine:log() end

---What tide.queue knows; nil: there is none.
---@param name string
---@param facts table<string, number>?
function engine:set_queue(name, facts) end

---Send a message through the active filters.
---@param message tidemq.Message
---@return tidemq.Filtered?
---@return string? reason
---@return string? code
function engine:filter(message) end

---@return integer
function engine:filter_count() end

---@param message tidemq.Message
---@param consumer table<string, any>  the fields of `consumer`, `attempt`, `keeps_order`
---@return tidemq.Delivered?
---@return string? message
---@return string? code
function engine:deliver(message, consumer) end

---Ask the scripts of a kind that match, with a table for each argument but `opts` and `state`.
---@param kind "filter"|"deliver"|"settled"|"connect"
---@param ... table<string, any>
---@return boolean|number|string|nil result  true for nothing, false for a refusal
---@return string? message  or the reason of the refusal
---@return string? code
function engine:ask(kind, ...) end

---@param message tidemq.Message
---@param outcome table<string, any>  the fields of `outcome`
---@return tidemq.Message[]? copies
---@return string? message
---@return string? code
function engine:settled(message, outcome) end

---Run a schedule for a tick.
---@param name string
---@param ms integer
---@param missed integer?
---@return tidemq.Message[]? published
---@return string? message
---@return string? code
function engine:run(name, ms, missed) end

---The time of the first run after `ms`.
---@param name string
---@param ms integer
---@return integer
function engine:next_run(name, ms) end

---@param kind "routing"|"sharding"|"priority"|"retry"
---@param name string
---@param options table<string, string|number|boolean>?
---@return tidemq.Strategy?
---@return string? message
---@return string? code
function engine:strategy(kind, name, options) end

---The timetable of a retry script.
---@param name string
---@param options table<string, string|number|boolean>?
---@param how { failures: integer?, reason: string?, limit: integer?, held: integer? }?
---@return string? json
---@return string? message
---@return string? code
function engine:simulate(name, options, how) end

---The index of an exchange of that type.
---@param name string
---@param options table<string, string|number|boolean>?
---@return tidemq.Index?
---@return string? message
---@return string? code
function engine:index(name, options) end

---@param what { kind: string?, name: string, options: table?, vhost: string?, user: string?, type: string? }
---@return table<string, string>? options
---@return string? files
---@return string? code
function engine:declare(what) end

---@param login tidemq.Login
---@return "allow"|"refuse"|"none"
---@return table|string|nil user  or the reason
---@return string? file
function engine:authenticate(login) end

---@param user table
---@param action "configure"|"write"|"read"
---@param object { kind: string, name: string }
---@return "allow"|"refuse"|"none"
---@return string? reason
---@return string? file
function engine:authorize(user, action, object) end

---@param client tidemq.Login
---@return { name: string?, vhost: string?, limits: table?, file: string? }?
---@return string? reason
---@return string? file
function engine:connect(client) end

---@class tidemq.Strategy
local strategy = {}

---@param message tidemq.Message
---@param shards integer
---@param loads table<integer, integer>?
---@return integer? shard
---@return string? message
---@return string? code
function strategy:pick(message, shards, loads) end

---@param message tidemq.Message
---@param queue { served: number?, ready: integer?, shard: integer?, name: string? }?
---@return number? rank
---@return string? message
---@return string? code
function strategy:rank(message, queue) end

---@param message tidemq.Message
---@param failure { failures: integer?, attempts: integer?, deliveries: integer?, reason: string?, reason_text: string? }
---@return integer|string|nil decision  ms, "bury", "dead-letter" or "drop"
---@return table|string|nil more  what the script did besides
---@return string? code
function strategy:decide(message, failure) end

---@return boolean
function strategy:is_pure() end

function strategy:close() end

---@class tidemq.Index
local index = {}

---@param pattern string
---@param dest integer  stands for a queue
---@param options table<string, string|number|boolean>?
---@return true?
---@return string? message
---@return string? code
function index:bind(pattern, dest, options) end

---@param pattern string
---@param dest integer
---@param options table<string, string|number|boolean>?
---@return true?
---@return string? message
---@return string? code
function index:unbind(pattern, dest, options) end

---@param message tidemq.Message
---@return integer[]? dests
---@return string? message
---@return string? code
function index:route(message) end

---@return boolean
function index:is_pure() end

function index:close() end

return tidemq
