---@meta
-- luacheck: ignore
-- What the engine gives to every rule, for the Lua language server: add this
-- folder to `workspace.library`. Nothing here is ever run.

---What the decisions on a failure are called.
---@alias tide.Decision "bury"|"dead-letter"|"drop"

---@class tide
---@field log tide.Log
---@field shared tide.Shared
---@field BURY "bury"  set the message aside in its queue until it is KICKed
---@field DEAD_LETTER "dead-letter"  send it to the queue's dead-letter address
---@field DROP "drop"  remove it
tide = {}

---The same number for the same text in every process and version: 0 to 2^63-1.
---@param text string
---@return integer
function tide.hash(text) end

---The wall clock in milliseconds since 1970.
---@return integer
function tide.now() end

---A number from 0 up to but without 1; with one bound an integer from 1 to it;
---with two an integer from the first to the second.
---@param m integer?
---@param n integer?
---@return number
---@overload fun(): number
---@overload fun(n: integer): integer
---@overload fun(m: integer, n: integer): integer
function tide.random(m, n) end

---Whether nothing may be remembered, because EXPLAIN asks.
---@return boolean
function tide.is_dry_run() end

---A duration as options have it ("250ms", "30s", "5m", "2h", "1d") in milliseconds.
---@param text string
---@return integer? milliseconds
---@return string? message
function tide.duration(text) end

---Keeps values beyond reloads and restarts, for all scripts. A ttl is
---milliseconds or the text of a duration.
---@class tide.Shared
local shared = {}

---@param key string
---@return string|number|boolean|nil
function shared.get(key) end

---@param key string
---@param value string|number|boolean
---@param ttl string|number|nil
function shared.set(key, value, ttl) end

---Sets it if it is not there.
---@param key string
---@param value string|number|boolean
---@param ttl string|number|nil
---@return boolean added
function shared.add(key, value, ttl) end

---@param key string
---@param by number?  1 when left out
---@param ttl string|number|nil  for an entry that this call makes
---@return number sum
function shared.incr(key, by, ttl) end

---@param key string
---@return boolean was_there
function shared.delete(key) end

---@class tide.Counter
local counter = {}

---@param by number?  1 when left out
---@return number value  the new one
function counter:incr(by) end

---@return number
function counter:get() end

---A counter that STATS and RULES status show.
---@param name string
---@return tide.Counter
function tide.counter(name) end

---@class tide.Bucket
local bucket = {}

---@param tokens number?  1 when left out
---@return boolean taken
---@return integer? wait_ms  until there are as many
function bucket:take(tokens) end

---Takes tokens that the bucket will have within a time.
---@param tokens number
---@param longest number|string  milliseconds or a duration
---@return integer|false delay_ms  until they are there, 0 for now; false when that is longer
---@return integer? wait_ms  how long it would be then
function bucket:reserve(tokens, longest) end

---A token bucket: `rate` tokens a second (a number, or "100/s", "600/m", "5/10s").
---@param name string
---@param options { rate: number|string, burst: number? }
---@return tide.Bucket
function tide.bucket(name, options) end

---Lines in the broker's log. Calling the table itself is `info`.
---@class tide.Log
---@overload fun(...: any)
local log = {}

---@param ... any
function log.debug(...) end

---@param ... any
function log.info(...) end

---@param ... any
function log.warn(...) end

---@param ... any
function log.error(...) end

---The message that a decision is about. Good for one call, read-only.
---@class tide.Msg
---@field id string  16 hex digits; the order of ids is the order in time
---@field exchange string  "" is the default exchange
---@field key string  the routing key
---@field priority integer  0 to 255, higher is more urgent
---@field headers table<string, string>  nil for a header that is not there
---@field payload string
---@field size integer  the payload's bytes
---@field ts integer  when it was published, milliseconds since 1970
---@field delay integer  milliseconds it asked to be held back, 0 for none
---@field ttl integer?  milliseconds it lives, nil for ever
---@field attempt integer  the delivery that it is in; 0 before the first
---@field dedupe_id string?  what its publisher calls it (PUB id=), nil for none

---The queue that a message goes into. Good for one call, read-only.
---@class tide.Queue
---@field vhost string
---@field name string
---@field shard integer  that the message enters, from 0 on
---@field served number  the rank that was served last in this shard; 0 before the first
---@field ready integer  how many messages wait, in this shard

---What happened to a delivery. Good for one call, read-only.
---@class tide.Failure
---@field reason "nack"|"timeout"|"gone"|"expired"
---@field attempts integer  deliveries so far, this one included
---@field failures integer  those of them that count against the message

---The options of a use, declared ones with defaults. Read-only.
---@alias tide.Options table<string, any>

---@class tide.OptionDeclaration
---@field type "string"|"integer"|"number"|"boolean"|"duration"|"list"|nil  "string" when left out
---@field default any
---@field doc string?
---@field min number|string|nil  for numbers and durations
---@field max number|string|nil
---@field choices string[]?
---@field required boolean?
---@field of "string"|"integer"|"number"|"boolean"|"duration"|nil  the elements of a list

---@class tide.Rule
---@field doc string?
---@field options table<string, tide.OptionDeclaration>?
---@field pure boolean|nil|fun(opts: tide.Options): boolean

---@class tide.Routing : tide.Rule
---@field binding_options table<string, tide.OptionDeclaration>?
---@field new fun(args: tide.Options): any
---@field bind fun(index: any, pattern: string, dest: integer, args: tide.Options)
---@field unbind fun(index: any, pattern: string, dest: integer, args: tide.Options)
---@field route fun(index: any, msg: tide.Msg, to: fun(dest: integer))

---@class tide.Sharding : tide.Rule
---@field new nil|fun(opts: tide.Options): any
---@field carry nil|fun(old: any, opts: tide.Options): any  after a reload: a copy of the state before -> the state
---@field pick fun(msg: tide.Msg, n: integer, opts: tide.Options, state: any, loads: fun(shard: integer): integer): integer

---@class tide.Priority : tide.Rule
---@field new nil|fun(opts: tide.Options): any
---@field carry nil|fun(old: any, opts: tide.Options): any
---@field rank fun(msg: tide.Msg, queue: tide.Queue, opts: tide.Options, state: any): number

---@class tide.Retry : tide.Rule
---@field new nil|fun(opts: tide.Options): any
---@field carry nil|fun(old: any, opts: tide.Options): any
---@field decide fun(msg: tide.Msg, failure: tide.Failure, opts: tide.Options, state: any): number|tide.Decision

---The message as a filter has it: it may be written to.
---@class tide.Draft : tide.Msg
---@field vhost string  that it is published in; read-only
---@field user string?  who publishes it, as HELLO has said; read-only
---@field dedupe_id string?  128 bytes at most
---@field delay number|string  milliseconds or "30s"
---@field ttl number|string|nil
local draft = {}

---Publish a copy too.
---@param changes { exchange: string?, key: string?, dedupe_id: string?, priority: integer?, delay: number|string|nil, ttl: number|string|nil, payload: string?, headers: table<string, string|number|false>? }
function draft:copy(changes) end

---@class tide.Filter
---@field doc string?
---@field match { exchange: string?, key: string? }?  without it the filter is not active
---@field publish fun(msg: tide.Draft): boolean?, string?

---What a schedule can do with the broker. Good for one run.
---@class tide.Broker
local broker = {}

---@class tide.Message
---@field exchange string?  without one the key names a queue
---@field key string?
---@field payload string|number|nil
---@field headers table<string, string|number>?
---@field delay string|number|nil  milliseconds, or the text of a duration
---@field priority integer?  0 to 255

---@param message tide.Message
function broker.publish(message) end

---@param name string
---@return { ready: integer, delayed: integer, unacked: integer, buried: integer, consumers: integer }?
function broker.queue(name) end

---@class tide.Tick
---@field ms integer  its time, milliseconds since 1970
---@field missed integer  earlier ticks that it stands for

---@class tide.Schedule
---@field doc string?
---@field every string?  a duration; either this or cron
---@field cron string?  five fields, UTC
---@field missed "skip"|"once"|"all"|nil  "once" when left out
---@field jitter string?  a duration
---@field active boolean?  true when left out
---@field vhost string?  "/" when left out
---@field run fun(broker: tide.Broker, tick: tide.Tick)
