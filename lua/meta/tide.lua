---@meta
-- luacheck: ignore
-- Declarations for the Lua language server: what the engine gives to every script. Add this
-- folder to `workspace.library`. This file is never run.

---Decisions of retry scripts.
---@alias tide.Decision "bury"|"dead-letter"|"drop"

---@class tide
---@field log tide.Log
---@field shared tide.Shared
---@field base64 tide.Base64
---@field hex tide.Hex
---@field json tide.Json
---@field time tide.Time
---@field BURY "bury"  set the message aside in its queue until it is KICKed
---@field DEAD_LETTER "dead-letter"  send it to the queue's dead-letter address
---@field DROP "drop"  remove it
tide = {}

---A hash from 0 to 2^63-1, the same in every process and version.
---@param text string
---@return integer
function tide.hash(text) end

---The wall clock in milliseconds since 1970.
---@return integer
function tide.now() end

---Without arguments a number from 0 up to, but not including, 1. With one bound an integer
---from 1 to it. With two bounds an integer from the first to the second.
---@param m integer?
---@param n integer?
---@return number
---@overload fun(): number
---@overload fun(n: integer): integer
---@overload fun(m: integer, n: integer): integer
function tide.random(m, n) end

---True in a dry run (EXPLAIN): the script must not remember anything.
---@return boolean
function tide.is_dry_run() end

---The milliseconds of a duration: "250ms", "30s", "5m", "2h", "1d".
---@param text string
---@return integer? milliseconds
---@return string? message
function tide.duration(text) end

---The content of the file `name` in `serve --secrets DIR`, without its last line end. At the
---top of a file alone.
---@param name string
---@return string
function tide.secret(name) end

---What `serve --rules-set` gave under this name.
---@param name string
---@param default string?
---@return string?
function tide.setting(name, default) end

---Can a policy of `declare/` set this option to this value? For `new`, so that a misspelt name is
---found when the file loads. Specs have no list of options: true there.
---@param kind "queue"|"topic"|"exchange"
---@param name string
---@param value string
---@return boolean?
---@return string? why
function tide.check_option(kind, name, value) end

---Of `filter/`, `deliver/`, `settled/`, `declare/`, `connect/`: what a script is for. Everything
---given must fit; of a list one value.
---@class tide.Match
---@field exchange string|string[]?  a name; in `declare/` a topic pattern
---@field key string|string[]?  a topic pattern
---@field queue string|string[]?  a topic pattern
---@field vhost string|string[]?
---@field user string|string[]?
---@field headers table<string, string|string[]|boolean>?
---@field min_size integer?  bytes of the payload
---@field max_size integer?
---@field except tide.Match?

---@class tide.UseSettings
---@field options table<string, string|number|boolean|table>?
---@field match tide.Match?
---@field doc string?
---@field active boolean?
---@field every string?
---@field cron string?
---@field zone string?
---@field missed "skip"|"once"|"all"?
---@field jitter string?
---@field vhost string?

---What a file returns that is another script of its folder, with these settings over its own.
---@param name string  without folder and `.lua`
---@param settings tide.UseSettings?
---@return userdata
function tide.use(name, settings) end

---What a queue or topic of the call's vhost has now. Read-only; expires after the call.
---@class tide.QueueFacts
---@field ready integer?  nil for a topic, as the next three
---@field unacked integer?
---@field delayed integer?
---@field buried integer?
---@field messages integer  of a queue all of these, of a topic those that it keeps
---@field consumers integer
---@field bytes integer?  of a topic, or of a queue with max-bytes
---@field oldest_ms integer?  for how long the oldest ready message has been so; 0 without one
---@field in_rate number  messages a second, over ten seconds
---@field out_rate number

---Not in pure scripts, in routing, or while a file loads.
---@param name string
---@return tide.QueueFacts?  nil: there is no such queue
function tide.queue(name) end

---@param text string  1 MiB at most
---@return string digest  32 bytes
function tide.sha256(text) end

---@param key string  not empty
---@param text string  1 MiB at most
---@return string digest  32 bytes
function tide.hmac_sha256(key, text) end

---Whether two texts are the same. The time that it takes does not tell where they differ.
---@param a string
---@param b string
---@return boolean
function tide.equal(a, b) end

---@class tide.Base64
local base64 = {}

---@param bytes string
---@param alphabet "standard"|"url"|nil  "url" is not padded
---@return string
function base64.encode(bytes, alphabet) end

---@param text string
---@param alphabet "standard"|"url"|nil
---@return string? bytes
---@return string? message
function base64.decode(text, alphabet) end

---The CRC-32 of zlib, 0 to 2^32-1. Not for secrets.
---@param text string  1 MiB at most
---@return integer
function tide.crc32(text) end

---Bytes that nobody can guess: for tokens. A spec cannot repeat them.
---@param n integer  1 to 1024
---@return string
function tide.random_bytes(n) end

---A new UUID of version 7: they sort by time. From the numbers of tide.random: unique, no
---secret.
---@return string
function tide.uuid() end

---Whether the topic pattern matches, as a `topic` exchange would. `*` is one word, `#` any
---number. Raises an error for a wrong pattern.
---@param pattern string  255 bytes at most
---@param text string  1024 bytes at most
---@return boolean
function tide.match(pattern, text) end

---@class tide.Networks
local networks = {}

---@param address string
---@return boolean? is_in  nil: it is not an IP address
---@return string? message
function networks:has(address) end

---A list of networks of IPv4 and IPv6. Raises an error for a wrong one. Make it at the top of a
---file.
---@param list string  "10.0.0.0/8, fd00::/8"
---@return tide.Networks
function tide.cidr(list) end

---@class tide.Hex
local hex = {}

---@param bytes string
---@return string  in lower case
function hex.encode(bytes) end

---@param text string
---@return string? bytes
---@return string? message
function hex.decode(text) end

---Dates and clocks. `zone` is a name as "Europe/Berlin"; UTC when left out.
---@class tide.Time
local time = {}

---@class tide.TimeFields
---@field year integer
---@field month integer  1 to 12
---@field day integer  1 to 31
---@field hour integer
---@field min integer
---@field sec integer
---@field ms integer
---@field weekday integer  1: Monday, to 7: Sunday
---@field yearday integer  1 to 366
---@field offset_ms integer  ahead of UTC
---@field dst boolean

---@param ms number  since 1970
---@param zone string?
---@return tide.TimeFields
function time.fields(ms, zone) end

---The time at which clocks show this. Values outside of their range count on: day 32 is in the
---next month.
---@param fields { year: integer, month: integer, day: integer, hour: integer?, min: integer?, sec: integer?, ms: integer? }
---@param zone string?
---@return integer ms
function time.of(fields, zone) end

---@param ms number
---@param zone string?
---@return string  "2026-11-23T12:30:00.000Z"
function time.format(ms, zone) end

---@param text string  ISO 8601, as RFC 3339 has it; time and offset may be left out
---@param zone string?  of a text without an offset
---@return integer? ms
---@return string? message
function time.parse(text, zone) end

---@class tide.Json
---@field null lightuserdata  is written as null
local json = {}

---A null becomes nil, or with the option tide.json.null.
---@param text string  1 MiB at most
---@param options { null: boolean? }?
---@return any value
---@return string? message
function json.decode(text, options) end

---Objects are written in the order of their names. Raises for what JSON cannot hold.
---@param value any
---@return string text  1 MiB at most
function json.encode(value) end

---Marks a table: it is written as an array when it is empty.
---@generic T: table
---@param list T
---@return T list  the same
function json.array(list) end

---One dictionary for all scripts that outlives reloads and restarts. A ttl is milliseconds
---or the text of a duration.
---@class tide.Shared
local shared = {}

---@param key string
---@return string|number|boolean|nil
function shared.get(key) end

---@param key string
---@param value string|number|boolean
---@param ttl string|number|nil
function shared.set(key, value, ttl) end

---Sets the key unless it has a value.
---@param key string
---@param value string|number|boolean
---@param ttl string|number|nil
---@return boolean added
function shared.add(key, value, ttl) end

---@class tide.Addition
---@field by number?  1 when left out
---@field ttl string|number|nil  for an entry that this call creates
---@field min number?
---@field max number?

---@param key string
---@param by number|tide.Addition|nil  1 when left out
---@param ttl string|number|nil  for an entry that this call creates
---@return number|false sum  false = it would be out of bounds
---@return number? current  what is there then
function shared.incr(key, by, ttl) end

---Compare and set. nil stands for no entry.
---@param key string
---@param expected string|number|boolean|nil
---@param value string|number|boolean|nil
---@param ttl string|number|nil
---@return boolean was_set
---@return string|number|boolean|nil current  what is there instead
function shared.cas(key, expected, value, ttl) end

---@param key string
---@return integer? milliseconds  until it expires; nil = it does not, or is not there
function shared.ttl(key) end

---@param key string
---@param ttl string|number|nil  nil = it does not expire any more
---@return boolean was_there
function shared.touch(key, ttl) end

---About 1,000 keys at a time.
---@param prefix string?
---@param cursor integer?  of the call before
---@return string[] keys
---@return integer? cursor  nil = there are no more
function shared.list(prefix, cursor) end

---@param key string
---@return boolean was_there
function shared.delete(key) end

---@class tide.Counter
local counter = {}

---@param by number?  1 when left out
---@return number value  the new value
function counter:incr(by) end

---@return number
function counter:get() end

---Labels of a metric: up to 6.
---@alias tide.Labels table<string, string|number|boolean>

---A counter, which only grows and outlives restarts. STATS, RULES status and /metrics show
---it.
---@param name string
---@param labels tide.Labels?
---@return tide.Counter
function tide.counter(name, labels) end

---@class tide.Gauge
local gauge = {}

---@param value number
function gauge:set(value) end

---@param by number?  1 when left out
function gauge:incr(by) end

---@return number
function gauge:get() end

---@param name string
---@param labels tide.Labels?
---@return tide.Gauge
function tide.gauge(name, labels) end

---@class tide.Histogram
local histogram = {}

---@param value number
function histogram:observe(value) end

---@param name string
---@param spec { buckets: number[] }  1 to 30 upper bounds, which grow
---@param labels tide.Labels?
---@return tide.Histogram
function tide.histogram(name, spec, labels) end

---@class tide.Bucket
local bucket = {}

---@param tokens number?  1 when left out
---@return boolean taken
---@return integer? wait_ms  until there are enough
function bucket:take(tokens) end

---Takes tokens that the bucket will have within `longest`.
---@param tokens number
---@param longest number|string  milliseconds or a duration
---@return integer|false delay_ms  until they are there; 0 = they are; false = it is longer
---@return integer? wait_ms  how long it would be
function bucket:reserve(tokens, longest) end

---What the bucket has; takes nothing.
---@return integer tokens  whole ones
---@return integer reset_ms  until it is full
function bucket:left() end

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

---The message of a decision. Read-only; expires after the call.
---@class tide.Msg
---@field id string  16 hex digits; the order of ids is the order in time
---@field exchange string  "-" is the default exchange
---@field key string  the routing key
---@field priority integer  0 to 255, higher is more urgent
---@field headers table<string, string>  nil for a missing header
---@field payload string
---@field json any  the payload, read-only; nil if it is no JSON
---@field json_error string?  why it is nil
---@field size integer  bytes of the payload
---@field ts integer  when it was published, milliseconds since 1970
---@field delay integer  milliseconds, 0 for none
---@field ttl integer?  milliseconds, nil for ever
---@field attempt integer  number of this delivery; 0 before the first
---@field partition integer?  in a retry script of a topic: where the message lies
---@field offset integer?  likewise
---@field dedupe_id string?  the publisher's id (PUB id=), nil for none

---The queue that a message enters. Read-only; expires after the call.
---@class tide.Queue
---@field vhost string
---@field name string
---@field shard integer  the shard that the message enters, from 0
---@field served number  the rank served last in this shard; 0 before the first
---@field ready integer  number of messages that wait in this shard

---@class tide.DeadLetter
---@field exchange string  "-" is the default exchange
---@field key string?  without it the message keeps its own

---What a retry script returns to dead-letter a message elsewhere than the queue says.
---@param exchange string
---@param key string?
---@return tide.DeadLetter
function tide.dead_letter(exchange, key) end

---A failed delivery. Read-only; expires after the call.
---@class tide.Failure
---@field reason "nack"|"timeout"|"gone"|"expired"
---@field reason_text string?  what the last NACK reason= said
---@field attempts integer  attempts so far, this one included
---@field deliveries integer  how often it was handed out
---@field failures integer  attempts that failed, this one included

---The options of a queue or exchange, with defaults. Read-only.
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
---@field bind fun(index: any, pattern: string, dest: integer, args: tide.Options, name: string)
---@field unbind fun(index: any, pattern: string, dest: integer, args: tide.Options, name: string)
---@field route fun(index: any, msg: tide.Msg, to: fun(dest: integer))

---@class tide.Sharding : tide.Rule
---@field new nil|fun(opts: tide.Options): any
---@field carry nil|fun(old: any, opts: tide.Options): any  a copy of the previous state -> the state after a reload
---@field pick fun(msg: tide.Msg, n: integer, opts: tide.Options, state: any, loads: fun(shard: integer): integer): integer

---@class tide.Priority : tide.Rule
---@field new nil|fun(opts: tide.Options): any
---@field carry nil|fun(old: any, opts: tide.Options): any
---@field rank fun(msg: tide.Msg, queue: tide.Queue, opts: tide.Options, state: any): number

---@class tide.Retry : tide.Rule
---@field new nil|fun(opts: tide.Options): any
---@field carry nil|fun(old: any, opts: tide.Options): any
---@field decide fun(msg: tide.Draft, failure: tide.Failure, opts: tide.Options, state: any): number|tide.Decision|tide.DeadLetter

---The message in a filter, which may write to it.
---In a filter. In a retry script headers alone can be written.
---@class tide.Draft : tide.Msg
---@field vhost string  the vhost of the publish; read-only
---@field user string?  the user of HELLO, not verified; read-only
---@field dedupe_id string?  128 bytes at most
---@field delay number|string  milliseconds or "30s"
---@field ttl number|string|nil
local draft = {}

---Publish a copy as well.
---@param changes { exchange: string?, key: string?, dedupe_id: string?, priority: integer?, delay: number|string|nil, ttl: number|string|nil, payload: string?, json: any, headers: table<string, string|number|false>? }
function draft:copy(changes) end

---@class tide.Filter
---@field doc string?
---@field match { exchange: string?, key: string? }?  without it the filter is not active
---@field publish fun(msg: tide.Draft, opts: tide.Options, state: any): boolean?, string?

---What is declared. Only its options can be written.
---@class tide.Declared
---@field kind "queue"|"topic"|"exchange"
---@field name string
---@field vhost string
---@field user string?  who declares it; nil when the broker asks again
---@field type string?  of an exchange
---@field options table<string, string|number|boolean|nil>  those that do not have their defaults

---A policy. Without `match` it is not active.
---@class tide.Declare
---@field doc string?
---@field options table<string, tide.OptionDeclaration>?
---@field match { queue: string|string[]?, exchange: string|string[]?, vhost: string|string[]?, user: string|string[]?, except: table? }?
---@field new nil|fun(opts: table): any
---@field carry nil|fun(old: any, opts: table): any
---@field declare fun(what: tide.Declared, opts: table, state: any): boolean?, string?

---The broker in a schedule. Expires after the run.
---Who is to get a message. Read-only; expires after the call.
---@class tide.Consumer
---@field user string?
---@field name string?  of the connection
---@field address string?  without the port
---@field vhost string
---@field queue string  or topic
---@field channel integer
---@field sid string?  nil: a GET
---@field unacked integer
---@field prefetch integer
---@field protocol string

---@class tide.Deliver : tide.Rule
---@field match table?  without it the script is not active
---@field deliver fun(msg: tide.Msg, consumer: tide.Consumer, opts: table, state: any): boolean|number|string|nil, string?

---What becomes of a message. Read-only; expires after the call.
---@class tide.Outcome
---@field event "ack"|"retry"|"expired"|"dead-letter"|"bury"|"drop"
---@field reason string?
---@field rule string?
---@field vhost string
---@field queue string  or topic
---@field group string?  of a topic
---@field user string?  of the consumer
---@field attempts integer
---@field failures integer
---@field waited_ms integer
---@field took_ms integer

---@class tide.Settled : tide.Rule
---@field match table?  without it the script is not active
---@field settled fun(msg: tide.Draft, outcome: tide.Outcome, opts: table, state: any)

---@class tide.Broker
local broker = {}

---@class tide.Message
---@field exchange string?  without it the key names a queue
---@field key string?
---@field payload string|number|nil
---@field headers table<string, string|number>?
---@field delay string|number|nil  milliseconds or the text of a duration
---@field priority integer?  0 to 255

---@param message tide.Message
function broker.publish(message) end

---As tide.queue.
---@param name string
---@return tide.QueueFacts?
function broker.queue(name) end

---@class tide.Tick
---@field ms integer  its time, milliseconds since 1970
---@field missed integer  number of earlier ticks that it stands for

---@class tide.Schedule
---@field doc string?
---@field every string?  a duration; either this or cron
---@field cron string?  five fields
---@field zone string?  of `cron`: "Europe/Berlin"; UTC when left out
---@field missed "skip"|"once"|"all"|nil  "once" when left out
---@field jitter string?  a duration
---@field active boolean?  true when left out
---@field vhost string?  "/" when left out
---@field run fun(broker: tide.Broker, tick: tide.Tick, opts: tide.Options, state: any)

---A login. Read-only; expires after the call. The password must not be kept.
---@class tide.Login
---@field user string?
---@field password string?
---@field vhost string
---@field name string?  that the client gives its connection
---@field address string?  without the port; nil for Unix sockets
---@field is_local boolean
---@field is_tls boolean
---@field certificate string?  common name of the verified client certificate
---@field protocol "line"|"stomp"|"amqp"

---A user that a script makes for one login. Patterns are POSIX extended regular expressions for
---the vhost of the login; one that is left out matches nothing.
---@class tide.MadeUser
---@field name string?  that of the login when left out
---@field tags ("admin"|"monitor")[]?
---@field configure string?
---@field write string?
---@field read string?
---@field limits { max_connections: integer?, max_channels: integer?, publish_rate: integer?, publish_bytes: integer? }?

---Who wants to do something. Read-only; expires after the call.
---@class tide.User
---@field name string
---@field vhost string
---@field address string?
---@field is_admin boolean
---@field is_monitor boolean

---What he wants to do it with. Read-only; expires after the call.
---@class tide.Object
---@field kind "exchange"|"queue"|"topic"|"lock"
---@field name string
---@field vhost string

---At least one of the functions. nil is no opinion.
---@class tide.Auth
---@field doc string?
---@field authenticate nil|fun(login: tide.Login, opts: tide.Options, state: any): boolean|tide.MadeUser|nil, string?
---@field authorize nil|fun(user: tide.User, action: "configure"|"write"|"read", object: tide.Object, opts: tide.Options, state: any): boolean?, string?

---Somebody who is about to be let in. Read-only; expires after the call.
---@class tide.Client
---@field user string?  who has logged in, or what the client calls itself when nobody has to
---@field name string?  of the connection
---@field vhost string
---@field address string?  without the port; nil for a Unix socket
---@field certificate string?  the name in a verified certificate
---@field protocol "line"|"stomp"|"amqp"|"http"
---@field is_tls boolean
---@field is_local boolean  from this machine

---@class tide.Connection
---@field name string?
---@field vhost string?
---@field limits { max_channels: integer?, publish_rate: integer?, publish_bytes: integer? }?

---@class tide.Connect
---@field doc string?
---@field match { vhost: string|string[]|nil, user: string|string[]|nil, except: table? }?  without it it is not active
---@field options table<string, tide.OptionDeclaration>?
---@field connect fun(client: tide.Client, opts: tide.Options, state: any): false|tide.Connection|nil, string?
