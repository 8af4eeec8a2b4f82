/* The table of operations, in the order of HELP. */
#include "operation.h"

#include "base/duration.h"
#include "store/store.h"

#define RUN(name, expression)                                            \
	static int name(const struct operation_call *c, struct reply *r, \
			struct error *err)                               \
	{                                                                \
		return expression;                                       \
	}

RUN(declare, session_define_declare(c->session, &c->spec->declare, r, err))
RUN(delete_thing, session_define_delete(c->session, &c->spec->delete, r, err))
RUN(bind_thing, session_define_bind(c->session, &c->spec->bind, r, err))
RUN(unbind_thing, session_define_unbind(c->session, &c->spec->bind, r, err))
RUN(seek_group, session_group_seek(c->queue, &c->spec->group, r, err))
RUN(delete_group, session_group_delete(c->queue, &c->spec->group, r, err))
RUN(peek, session_peek(c->queue, &c->spec->peek, r, err))
RUN(redrive, session_redrive_start(c->session, c->queue, &c->spec->redrive, r, err))
RUN(purge, session_purge(c->queue, &c->spec->purge, r, err))
RUN(kick, session_queue_kick(c->queue, &c->spec->kick, r, err))
RUN(find_message, session_by_id_find(c->queue, &c->spec->kick, r))
RUN(remove_messages, session_by_id_remove(c->queue, &c->spec->by_id, r, err))
RUN(reschedule, session_by_id_reschedule(c->queue, &c->spec->by_id, r, err))
RUN(pause_group, session_group_pause(c->queue, &c->spec->group, r, err))
RUN(pause_queue, session_pause(c->queue, &c->spec->pause, r))
RUN(list_things, session_list(c->session, &c->spec->list, r, err))
RUN(show_stats, session_report_stats(c->session, c->queue, &c->spec->stats, r, err))
RUN(show_history, session_report_history(c->session, c->queue, &c->spec->list, r, err))
RUN(show_sample, session_report_sample(c->session, r, err))
RUN(whoami, session_whoami(c->session, r, err))
RUN(take_lock, session_lock_take(c->channel, &c->spec->lock, r, err))
RUN(release_lock, session_lock_release(c->session, &c->spec->lock, r, err))
RUN(check_lock, session_lock_check(c->session, &c->spec->lock, r, err))
RUN(kill_connection, session_operate_kill(c->session, &c->spec->operate, r, err))
RUN(drain, session_operate_drain(c->session, &c->spec->operate, r, err))
RUN(trace, session_trace_start(c->channel, &c->spec->trace, r, err))
RUN(edit_user, session_user_edit(c->session, &c->spec->user, r, err))
RUN(list_users, session_user_list(c->session, r, err))
RUN(list_shared, session_shared_list(c->session, &c->spec->shared, r, err))
RUN(get_shared, session_shared_get(c->session, &c->spec->shared, r, err))
RUN(set_shared, session_shared_set(c->session, &c->spec->shared, r, err))
RUN(delete_shared, session_shared_delete(c->session, &c->spec->shared, r, err))
RUN(clear_shared, session_shared_clear(c->session, &c->spec->shared, r, err))
RUN(reload, session_rules_reload(c->session, r, err))
RUN(show_rules, session_rules_status(c->session, r, err))
RUN(show_log, session_rules_log(c->session, r, err))
RUN(show_files, session_rules_files(c->session, c->spec->rules.name, r, err))
RUN(roll_back, session_rules_rollback(c->session, c->spec->rules.name, r, err))
RUN(show_script, session_rules_show(c->session, &c->spec->rules, r, err))
RUN(evaluate, session_rules_evaluate(c->session, c->spec->rules.text, r, err))
RUN(start_shadow, session_rules_shadow(c->session, &c->spec->rules, r, err))
RUN(show_shadow, session_rules_shadow_status(c->session, r, err))
RUN(promote, session_rules_shadow_promote(c->session, r, err))
RUN(install, session_push_install(c->session, r, err))
RUN(drop_shadow, session_rules_shadow_drop(c->session, r, err))
RUN(show_recent, session_rules_recent(c->session, (size_t)c->spec->rules.max, r, err))
RUN(replay, session_rules_replay(c->session, c->spec->rules.name, r, err))
RUN(begin_upload, session_push_begin(c->session, r, err))
RUN(end_upload, session_push_upload(c->session, r, err))
RUN(upload_part, session_push_part(c->session, &c->spec->rules, r, err))
RUN(simulate_retry, session_rules_simulate(c->session, &c->spec->retry, r, err))
RUN(simulate_login, session_simulate_login(c->session, &c->spec->login, r, err))
RUN(simulate_access, session_simulate_access(c->session, &c->spec->access, r, err))
RUN(simulate_declare, session_simulate_declare(c->session, &c->spec->simulate, r, err))

/* Where a value goes; it must be as large as a `type`. */
#define AT(field, type)                                                             \
	(offsetof(union operation_spec, field) +                                    \
	 0 * sizeof(char[sizeof(((union operation_spec *)0)->field) == sizeof(type) \
				 ? 1                                                \
				 : -1]))

/* clang-format off */
#define WORD PARAMETER_WORD
#define NEEDED PARAMETER_NEEDED
#define PLACE (PARAMETER_WORD | PARAMETER_NEEDED)
#define LINE_PLACE (PARAMETER_WORD | PARAMETER_LINE_NEEDED)
#define LINE PARAMETER_LINE_ONLY
#define HTTP PARAMETER_HTTP_ONLY

#define TAKES(...) .parameters = (const struct parameter[]){ __VA_ARGS__, { 0 } }
#define TAKES_NONE .parameters = (const struct parameter[]){ { 0 } }
#define FIXED(field, value) { "", .type = PARAMETER_FIXED, .offset = AT(field, unsigned), .fallback = value }
#define NAME(field, name_, features_, what_, help_) \
	{ name_, .type = PARAMETER_NAME, .features = features_, .offset = AT(field, struct slice), .what = what_, .help = help_ }
#define ADDRESS(field, name_, features_, what_, help_) \
	{ name_, .type = PARAMETER_ADDRESS, .features = features_, .offset = AT(field, struct slice), .what = what_, .help = help_ }
#define TEXT(field, name_, features_, what_, help_) \
	{ name_, .type = PARAMETER_TEXT, .features = features_, .offset = AT(field, struct slice), .what = what_, .help = help_ }
#define BYTES(field, name_, features_, min_, max_, help_) \
	{ name_, .type = PARAMETER_TEXT, .features = features_, .offset = AT(field, struct slice), .min = min_, .max = max_, .help = help_ }
#define UINT(field, name_, features_, min_, max_, fallback_, help_) \
	{ name_, .type = PARAMETER_UINT, .features = features_, .offset = AT(field, uint64_t), .min = min_, .max = max_, .fallback = fallback_, .help = help_ }
#define INT(field, name_, features_, min_, max_, fallback_, help_) \
	{ name_, .type = PARAMETER_INT, .features = features_, .offset = AT(field, int64_t), .min = min_, .max = max_, .fallback = fallback_, .help = help_ }
#define DURATION(field, name_, features_, min_, max_, help_) \
	{ name_, .type = PARAMETER_DURATION, .features = features_, .offset = AT(field, int64_t), .min = min_, .max = max_, .help = help_ }
#define CHOICE(field, name_, features_, what_, first, fallback_, help_) \
	{ name_, .type = PARAMETER_CHOICE, .features = features_, .offset = AT(field, unsigned), .what = what_, .min = first, .fallback = fallback_, .help = help_ }
#define FLAG(field, name_, features_, help_) \
	{ name_, .type = PARAMETER_FLAG, .features = features_, .offset = AT(field, bool), .help = help_ }
#define SWITCH(field, name_, help_) { name_, .type = PARAMETER_SWITCH, .offset = AT(field, bool), .help = help_ }
#define POSITION(field, name_, features_, help_) \
	{ name_, .type = PARAMETER_POSITION, .features = features_, .offset = AT(field, struct position), .help = help_ }
#define OPTIONS(field, help_) { "options", .type = PARAMETER_OPTIONS, .offset = AT(field, struct args *), .help = help_ }
#define SHARE(field, name_, help_) { name_, .type = PARAMETER_SHARE, .offset = AT(field, double), .help = help_ }
#define IDS(field) { "id", .type = PARAMETER_IDS, .offset = AT(field, struct id_list), .help = "the id of a message" }
#define ID(field, features_) { "id", .type = PARAMETER_ID, .features = features_, .offset = AT(field, uint64_t), .help = "the id of a message" }

/* ---- parameters of many rows ---- */

#define QUEUE(field) NAME(field, "queue", PLACE, "a queue", "a queue")
#define TOPIC(field) NAME(field, "topic", PLACE, "a topic", "a topic")
#define GROUP NAME(group.group, "group", PLACE, "a group", "a group of the topic")
#define PARTITION(field, features_, help_) INT(field, "partition", features_, 0, TOPIC_PARTITIONS_MAX - 1, -1, help_)
#define PLACES "`first`, `last`, an offset, a time like `2026-11-23T10:00:00Z`, or a duration ago like `90m`"
#define NEWEST FLAG(peek.is_newest, "newest", 0, "of a topic: the newest first, of all partitions unless one is named")
#define MATCH(field) TEXT(field, "match", 0, NULL, "only messages that match")
#define SELECT(field, features_) TEXT(field.match, "match", features_, "what the messages have", "only messages that match"), \
	FLAG(field.is_dry, "dry", (features_) & (LINE | HTTP), "count them, and change nothing")
#define CHANGES(features_) \
	{ "delay", .type = PARAMETER_DURATION, .features = features_, .offset = AT(by_id.delay_ms, int64_t), .max = DURATION_MAX_MS, \
	  .fallback = -1, .help = "from now; 0 makes it ready" }, \
	INT(by_id.priority, "pri", features_, 0, 255, -1, "its priority from now on")
#define UPDATE FLAG(declare.update, "update", HTTP, "it exists: change these options")
#define PAGE(what_) FIXED(list.what, what_), \
	TEXT(list.sort, "sort", 0, NULL, "what the order depends on; docs/protocol.md, LIST, has the words of each list"), \
	CHOICE(list.direction, "order", 0, "asc or desc", LIST_ASCENDING, LIST_AS_USUAL, "smallest or largest first"), \
	UINT(list.max, "max", 0, 0, UINT32_MAX, 0, "items at most; all if it is not given"), \
	UINT(list.offset, "offset", 0, 0, UINT32_MAX, 0, "items that are left out at the front"), \
	TEXT(list.match, "match", 0, NULL, "only things with this part in a name")
#define SAMPLES UINT(list.max, "max", 0, 0, UINT32_MAX, 0, "samples at most, the newest")
#define HISTORY_GROUP(features_) TEXT(list.only[LIST_BY_GROUP], "group", features_, NULL, "of this group of the topic")
#define DIRECTION(features_) CHOICE(pause.which, "direction", features_, "in, out or both", 0, PAUSE_BOTH, "default: both")
#define BINDING \
	{ "destination", .line = "queue", .type = PARAMETER_NAME, .features = PLACE, .offset = AT(bind.dest, struct slice), \
	  .what = "a destination", .help = "a queue, a topic or an exchange" }, \
	NAME(bind.exchange, "exchange", PLACE, "an exchange", ""), \
	{ "pattern", .type = PARAMETER_ADDRESS, .features = LINE_PLACE, .offset = AT(bind.pattern, struct slice), \
	  .what = "a pattern", .help = "default: the empty one" }, \
	{ "to", .line = "dest", .type = PARAMETER_CHOICE, .offset = AT(bind.to, unsigned), .what = "queue, exchange or topic", \
	  .help = "what the destination is; default: queue" }, \
	OPTIONS(bind.args, "of the exchange's type")
#define OF CHOICE(shared.of, "of", 0, "keys, counters or buckets", 0, 0, "default: keys")
#define KEY BYTES(shared.key, "key", NEEDED, 1, 256, "the key of an entry")
#define PREFIX BYTES(shared.key, "prefix", 0, 0, 256, "how the key begins")
#define CURSOR UINT(shared.cursor, "cursor", 0, 0, UINT32_MAX, 0, "of the answer before: the entries come in steps")
#define USER(edit_) FIXED(user.edit, edit_), NAME(user.name, "user", PLACE, "a user", "")
#define PASSWORD(features_) { "password", .line = "pass", .type = PARAMETER_TEXT, .features = features_, \
	.offset = AT(user.password, struct slice), .what = "a password", .help = "" }
#define TAGS TEXT(user.tags, "tags", 0, NULL, "`admin`, `monitor`, or both with a comma; what is given replaces what was")
#define LIMIT(index, name_, features_, help_) UINT(user.limits[index], name_, features_, 0, UINT64_C(1) << 53, -1, help_)
#define GRANT { "of", .line = "vhost", .type = PARAMETER_NAME, .features = PLACE, .offset = AT(user.vhost, struct slice), \
	.what = "a vhost", .help = "a vhost, percent-encoded" }
#define TOKEN(features_, help_) { "token", .type = PARAMETER_UINT, .features = features_, .offset = AT(lock.token, uint64_t), \
	.what = "the token of a LOCK, a number", .min = 1, .max = UINT64_MAX - 1, .help = help_ }
#define LOCK_NAME NAME(lock.name, "name", PLACE, "a lock", "")
#define DIRECTORY(features_) TEXT(rules.name, "dir", features_, "a directory of candidate rules, as an upload names it", \
	"below --rules-candidates, or of an upload")
#define OF_VHOST NAME(rules.vhost, "vhost", HTTP, "a vhost", "whose publishes are shown with their content; default: `/`")

#define MONITOR .permission = PERMISSION_MONITOR
#define ADMIN .permission = PERMISSION_ADMIN
#define CONFIGURE .permission = PERMISSION_CONFIGURE
#define WRITE .permission = PERMISSION_WRITE
#define READ .permission = PERMISSION_READ

/* The features of a verb with an answer, and of a list. */
#define ASKS .features = OPERATION_DOCUMENT | OPERATION_ANSWERS
#define LISTS .features = OPERATION_DOCUMENT | OPERATION_ANSWERS | OPERATION_PAGED

#define AT_VHOST "/api/vhosts/{vhost}"
#define AT_EXCHANGE AT_VHOST "/exchanges/{exchange}"
#define AT_QUEUE AT_VHOST "/queues/{queue}"
#define AT_TOPIC AT_VHOST "/topics/{topic}"
#define AT_MESSAGE AT_QUEUE "/messages/{id}"
#define AT_RULES "/api/rules"
#define DECLARED .answer = "Done|Text", .errors = "409 422 429"

const struct operation operation_rows[] = {
	/* ---- definitions ---- */
	{ "putExchange", "DECLARE exchange", "PUT", AT_EXCHANGE, CONFIGURE, OPERATION_DECLARES, declare,
	  TAKES(FIXED(declare.kind, DEFINE_EXCHANGE), NAME(declare.name, "exchange", PLACE, "a name", "an exchange; `-` is the default one"),
		NAME(declare.type, "type", PLACE | PARAMETER_SCRIPT, "a name", "its routing script: `direct`, `fanout`, `topic`, `headers`, …"),
		OPTIONS(declare.args, "as of DECLARE exchange"), UPDATE),
	  .help = "Declare an exchange", .errors = "409 429", .group = "exchanges" },
	{ "putQueue", "DECLARE queue", "PUT", AT_QUEUE, CONFIGURE, OPERATION_DECLARES, declare,
	  TAKES(FIXED(declare.kind, DEFINE_QUEUE), NAME(declare.name, "queue", PLACE, "a name", "a queue"),
		OPTIONS(declare.args, "as of DECLARE queue"), UPDATE),
	  .help = "Declare a queue", DECLARED, .group = "queues" },
	{ "putTopic", "DECLARE topic", "PUT", AT_TOPIC, CONFIGURE, OPERATION_DECLARES, declare,
	  TAKES(FIXED(declare.kind, DEFINE_TOPIC), NAME(declare.name, "topic", PLACE, "a name", "a topic"),
		OPTIONS(declare.args, "as of DECLARE topic"), UPDATE),
	  .help = "Declare a topic", DECLARED, .group = "topics" },
	{ "declareVhost", "DECLARE vhost", "PUT", "/api/vhosts/{name}", ADMIN, 0, declare,
	  TAKES(FIXED(declare.kind, DEFINE_VHOST), NAME(declare.name, "name", PLACE, "a name", "of the vhost"),
		INT(declare.on_demand, "on-demand", 0, 0, 1, -1, "1: who publishes to a queue or reads one makes it; default: as before, 0 at first"),
		INT(declare.cell, "in-cell", 0, 0, STORE_CELLS_MAX - 1, -1, "with --cells: the cell that a new vhost is in; default: by its name")),
	  .help = "Make a vhost, or change its options", .errors = "429", .group = "broker" },
	{ "deleteExchange", "DELETE exchange", "DELETE", AT_EXCHANGE, CONFIGURE, 0, delete_thing,
	  TAKES(FIXED(delete.kind, DEFINE_EXCHANGE), NAME(delete.name, "exchange", PLACE, "a name", "an exchange; `-` is the default one"),
		FLAG(delete.if_unused, "if-unused", 0, "only without bindings")),
	  .help = "Delete an exchange", .errors = "404 409", .group = "exchanges" },
	{ "deleteQueue", "DELETE queue", "DELETE", AT_QUEUE, CONFIGURE, 0, delete_thing,
	  TAKES(FIXED(delete.kind, DEFINE_QUEUE), NAME(delete.name, "queue", PLACE, "a name", "a queue"),
		FLAG(delete.if_empty, "if-empty", 0, "only without messages"), FLAG(delete.if_unused, "if-unused", 0, "only without consumers")),
	  .help = "Delete a queue with its messages", .errors = "404 409", .group = "queues" },
	{ "deleteTopic", "DELETE topic", "DELETE", AT_TOPIC, CONFIGURE, 0, delete_thing,
	  TAKES(FIXED(delete.kind, DEFINE_TOPIC), NAME(delete.name, "topic", PLACE, "a name", "a topic"),
		FLAG(delete.if_unused, "if-unused", 0, "only without consumers")),
	  .help = "Delete a topic with its messages", .errors = "404 409", .group = "topics" },
	{ "deleteVhost", "DELETE vhost", "DELETE", "/api/vhosts/{name}", ADMIN, 0, delete_thing,
	  TAKES(FIXED(delete.kind, DEFINE_VHOST), NAME(delete.name, "name", PLACE, "a name", "of the vhost"),
		FLAG(delete.with_contents, "with-contents", 0, "with its exchanges, queues and topics, and their messages")),
	  .help = "Delete a vhost that is empty, or with all that is in it", .errors = "404 409", .group = "broker" },
	{ "deleteGroup", "DELETE group", "DELETE", AT_TOPIC "/groups/{group}", CONFIGURE, 0, delete_group,
	  TAKES(TOPIC(group.topic), GROUP),
	  .object = OBJECT_TOPIC, .help = "Delete a group", .errors = "404 409", .group = "topics" },
	{ "bind", "BIND", "POST", AT_VHOST "/bindings", READ, 0, bind_thing, TAKES(BINDING),
	  .help = "Bind a queue, a topic or an exchange to an exchange", .errors = "404 422 429", .group = "exchanges" },
	{ "unbind", "UNBIND", "DELETE", AT_VHOST "/bindings", READ, 0, unbind_thing, TAKES(BINDING),
	  .help = "Take a binding away", .errors = "404", .group = "exchanges" },

	/* ---- messages ---- */
	{ "seek", "SEEK", "POST", AT_TOPIC "/groups/{group}/seek", READ, 0, seek_group,
	  TAKES(TOPIC(group.topic), GROUP,
		{ "to", .line = "position", .type = PARAMETER_POSITION, .features = PLACE, .offset = AT(group.to, struct position),
		  .what = "first, last, an offset or a time", .help = PLACES },
		PARTITION(group.partition, 0, "default: all")),
	  .object = OBJECT_TOPIC, .help = "Move what a group has committed", .errors = "404 409", .group = "topics" },
	{ "peek", "PEEK", NULL, NULL, READ, ASKS, peek,
	  TAKES(QUEUE(peek.queue), UINT(peek.max, "n", WORD, 1, PEEK_MAX, 1, "messages at most"),
		CHOICE(peek.state, "state", 0, "ready, delayed, unacked or buried", PEEK_READY, PEEK_ANY, "default: ready"),
		MATCH(peek.match), TEXT(peek.after, "after", 0, NULL, "`next` of the answer before"),
		PARTITION(peek.partition, 0, "of the topic"), POSITION(peek.from, "offset", 0, PLACES), NEWEST),
	  .object = OBJECT_ANY, .help = "Look at messages; nothing changes", .group = "queues" },
	{ "peekQueue", NULL, "GET", AT_QUEUE "/messages", READ, ASKS, peek,
	  TAKES(QUEUE(peek.queue), INT(peek.partition, "partition", LINE, 0, 0, -1, ""),
		CHOICE(peek.state, "state", 0, "ready, delayed, unacked or buried", PEEK_READY, PEEK_ANY, "default: ready"),
		UINT(peek.max, "max", 0, 1, PEEK_MAX, PEEK_MAX, "default: 100"), MATCH(peek.match),
		TEXT(peek.after, "after", 0, NULL, "`next` of the answer before")),
	  .object = OBJECT_ANY, .help = "Look at messages; nothing changes", .answer = "Peek", .errors = "404", .group = "queues" },
	{ "peekTopic", NULL, "GET", AT_TOPIC "/messages", READ, ASKS, peek,
	  TAKES(TOPIC(peek.queue), PARTITION(peek.partition, 0, "of the topic"), POSITION(peek.from, "offset", 0, PLACES),
		UINT(peek.max, "max", 0, 1, PEEK_MAX, PEEK_MAX, "default: 100"), MATCH(peek.match), NEWEST,
		TEXT(peek.after, "after", 0, NULL, "with newest: `next` of the answer before")),
	  .object = OBJECT_ANY, .help = "Look at messages of a partition, or at the newest of all", .answer = "TopicPeek", .errors = "404", .group = "topics" },
	{ "redrive", "REDRIVE", "POST", AT_QUEUE "/redrive", READ, OPERATION_DOCUMENT, redrive,
	  TAKES(QUEUE(redrive.queue),
		{ "max", .line = "n", .type = PARAMETER_UINT, .features = WORD, .offset = AT(redrive.max, uint64_t), .min = 1,
		  .max = UINT64_MAX - 1, .fallback = -1, .help = "messages at most" },
		MATCH(redrive.match), TEXT(redrive.to, "to", 0, NULL, "`<exchange>/<key>`; default: the queue where each died"),
		FLAG(redrive.is_routed, "routed", 0, "publish them once more by the exchange that they came from")),
	  .object = OBJECT_QUEUE, .help = "Send dead letters back to the queues where they died, or elsewhere", .answer = "Counts", .errors = "404",
	  .group = "queues" },
	{ "purgeQueue", "PURGE", "POST", AT_QUEUE "/purge", READ, 0, purge,
	  TAKES(NAME(purge.queue, "queue", PLACE, "a queue or a topic", "a queue"),
		POSITION(purge.before, "before", LINE, "of a topic: up to there; default: all. " PLACES),
		PARTITION(purge.partition, LINE, "of a topic; default: all"), SELECT(purge.select, 0)),
	  .object = OBJECT_ANY, .help = "Remove its messages that nobody holds", .answer = "Count", .errors = "404", .group = "queues" },
	{ "purgeTopic", NULL, "POST", AT_TOPIC "/purge", READ, 0, purge,
	  TAKES(TOPIC(purge.queue), POSITION(purge.before, "before", 0, "up to there; default: all. " PLACES),
		PARTITION(purge.partition, 0, "default: all")),
	  .object = OBJECT_ANY, .help = "Drop its oldest messages", .answer = "Count", .errors = "404", .group = "topics" },
	{ "kick", "KICK", "POST", AT_QUEUE "/kick", READ, OPERATION_DOCUMENT, kick,
	  TAKES(QUEUE(kick.queue),
		{ "max", .line = "n", .type = PARAMETER_UINT, .features = WORD, .offset = AT(kick.max, uint64_t), .min = 1,
		  .max = UINT64_MAX - 1, .help = "messages at most, and delayed ones when none is buried; default: all that are buried" },
		ID(kick.id, LINE), SELECT(kick.select, 0)),
	  .object = OBJECT_QUEUE, .help = "Make buried messages ready", .answer = "Count", .errors = "404", .group = "queues" },
	{ "kickMessage", NULL, "POST", AT_MESSAGE "/kick", READ, 0, kick, TAKES(QUEUE(kick.queue), ID(kick.id, NEEDED)),
	  .object = OBJECT_QUEUE, .help = "Make a buried message ready", .answer = "Count", .errors = "404", .group = "queues" },
	{ "findMessage", "FIND", "GET", AT_MESSAGE, READ, ASKS, find_message, TAKES(QUEUE(kick.queue), ID(kick.id, PLACE)),
	  .object = OBJECT_QUEUE, .help = "A message, whatever its state", .answer = "WaitingMessage", .errors = "404", .group = "queues" },
	{ "removeMessage", "REMOVE", "DELETE", AT_MESSAGE, READ, OPERATION_DOCUMENT, remove_messages,
	  TAKES(QUEUE(by_id.queue), IDS(by_id.ids), SELECT(by_id.select, LINE)),
	  .object = OBJECT_QUEUE, .help = "Remove messages by their ids, or those that match", .answer = "Count", .errors = "404", .group = "queues" },
	{ "removeMessages", NULL, "DELETE", AT_QUEUE "/messages", READ, OPERATION_DOCUMENT, remove_messages,
	  TAKES(QUEUE(by_id.queue), SELECT(by_id.select, NEEDED)),
	  .object = OBJECT_QUEUE, .help = "Remove messages that match", .answer = "Count", .errors = "404", .group = "queues" },
	{ "rescheduleMessage", "RESCHEDULE", "POST", AT_MESSAGE "/reschedule", READ, OPERATION_DOCUMENT, reschedule,
	  TAKES(QUEUE(by_id.queue), IDS(by_id.ids), CHANGES(0), SELECT(by_id.select, LINE)),
	  .object = OBJECT_QUEUE, .help = "Change when messages are ready, or their priority", .answer = "Count", .errors = "404", .group = "queues" },
	{ "rescheduleMessages", NULL, "POST", AT_QUEUE "/reschedule", READ, OPERATION_DOCUMENT, reschedule,
	  TAKES(QUEUE(by_id.queue), SELECT(by_id.select, NEEDED), CHANGES(0)),
	  .object = OBJECT_QUEUE, .help = "Change when messages that match are ready, or their priority", .answer = "Count", .errors = "404",
	  .group = "queues" },
	{ "pause", "PAUSE", "POST", AT_QUEUE "/pause", CONFIGURE, OPERATION_UNUSABLE, pause_queue,
	  TAKES(QUEUE(pause.queue), DIRECTION(LINE_PLACE), DURATION(pause.for_ms, "for", 0, 1, DURATION_MAX_MS, "default: until it is resumed")),
	  .object = OBJECT_QUEUE, .help = "Pause a queue", .errors = "404", .group = "queues" },
	{ "resume", "RESUME", "POST", AT_QUEUE "/resume", CONFIGURE, OPERATION_UNUSABLE, pause_queue,
	  TAKES(FIXED(pause.is_resume, 1), QUEUE(pause.queue), DIRECTION(WORD)),
	  .object = OBJECT_QUEUE, .help = "Resume a queue", .errors = "404", .group = "queues" },
	{ "pauseGroup", "PAUSE group", "POST", AT_TOPIC "/groups/{group}/pause", CONFIGURE, 0, pause_group,
	  TAKES(TOPIC(group.topic), GROUP, DURATION(group.for_ms, "for", 0, 1, DURATION_MAX_MS, "default: until it is resumed")),
	  .object = OBJECT_TOPIC, .help = "Pause a group: it gets nothing", .errors = "404", .group = "topics" },
	{ "resumeGroup", "RESUME group", "POST", AT_TOPIC "/groups/{group}/resume", CONFIGURE, 0, pause_group,
	  TAKES(FIXED(group.is_resume, 1), TOPIC(group.topic), GROUP),
	  .object = OBJECT_TOPIC, .help = "Resume a group", .errors = "404", .group = "topics" },

	/* ---- lists and figures ---- */
	{ "listExchanges", "LIST exchanges", "GET", AT_VHOST "/exchanges", MONITOR, LISTS, list_things, TAKES(PAGE(LIST_EXCHANGES)),
	  .help = "Exchanges of a vhost", .answer = "ExchangeList", .group = "exchanges" },
	{ "listQueues", "LIST queues", "GET", AT_VHOST "/queues", MONITOR, LISTS, list_things, TAKES(PAGE(LIST_QUEUES)),
	  .help = "Queues of a vhost", .answer = "QueueList", .group = "queues" },
	{ "listTopics", "LIST topics", "GET", AT_VHOST "/topics", MONITOR, LISTS, list_things, TAKES(PAGE(LIST_TOPICS)),
	  .help = "Topics of a vhost", .answer = "TopicList", .group = "topics" },
	{ "listGroups", "LIST groups", "GET", AT_VHOST "/groups", PERMISSION_NONE, LISTS, list_things, TAKES(PAGE(LIST_GROUPS)),
	  .help = "Groups of the topics that the user may read", .answer = "GroupList", .group = "topics" },
	{ "listBindings", "LIST bindings", "GET", AT_VHOST "/bindings", MONITOR, LISTS, list_things,
	  TAKES(PAGE(LIST_BINDINGS), TEXT(list.only[LIST_BY_EXCHANGE], "exchange", 0, NULL, "only of this one"),
		TEXT(list.only[LIST_BY_DESTINATION], "destination", 0, NULL, "only to this one"),
		TEXT(list.only[LIST_BY_TO], "to", 0, NULL, "only to a `queue`, a `topic` or an `exchange`")),
	  .help = "Bindings of a vhost", .answer = "BindingList", .group = "exchanges" },
	{ "listConsumers", "LIST consumers", "GET", AT_VHOST "/consumers", MONITOR, LISTS, list_things,
	  TAKES(PAGE(LIST_CONSUMERS), TEXT(list.only[LIST_BY_QUEUE], "queue", 0, NULL, "only of this queue or topic"),
		TEXT(list.only[LIST_BY_GROUP], "group", 0, NULL, "only of this group of a topic")),
	  .help = "Consumers of queues and topics", .answer = "ConsumerList", .group = "queues" },
	{ "listConnections", "LIST connections", "GET", "/api/connections", MONITOR, LISTS, list_things, TAKES(PAGE(LIST_CONNECTIONS)),
	  .help = "Connections of all protocols", .answer = "ConnectionList", .group = "broker" },
	{ "listLocks", "LIST locks", "GET", AT_VHOST "/locks", MONITOR, LISTS, list_things, TAKES(PAGE(LIST_LOCKS)),
	  .help = "Locks", .answer = "LockList", .group = "queues" },
	{ "listVhosts", "LIST vhosts", "GET", "/api/vhosts", PERMISSION_NONE, LISTS, list_things, TAKES(PAGE(LIST_VHOSTS)),
	  .help = "The vhosts that the user may enter", .answer = "VhostList", .group = "broker" },
	{ "listBrokers", "LIST brokers", "GET", "/api/brokers", MONITOR, LISTS, list_things, TAKES(PAGE(LIST_BROKERS)),
	  .help = "The brokers of the store", .answer = "BrokerList", .group = "broker" },
	{ "getHistory", "LIST history", "GET", "/api/history", MONITOR, ASKS, show_history,
	  TAKES(SAMPLES, NAME(list.only[LIST_BY_QUEUE], "queue", LINE, "a queue", "of this queue or topic"), HISTORY_GROUP(LINE)),
	  .object = OBJECT_ANY, .help = "What the broker, a queue, a topic or a group did in the last hour", .answer = "History", .group = "broker" },
	{ "getQueueHistory", NULL, "GET", AT_QUEUE "/history", READ, ASKS, show_history, TAKES(QUEUE(list.only[LIST_BY_QUEUE]), SAMPLES),
	  .object = OBJECT_QUEUE, .help = "What a queue did in the last hour", .answer = "History", .errors = "404", .group = "queues" },
	{ "getTopicHistory", NULL, "GET", AT_TOPIC "/history", READ, ASKS, show_history,
	  TAKES(TOPIC(list.only[LIST_BY_QUEUE]), SAMPLES, HISTORY_GROUP(0)),
	  .object = OBJECT_TOPIC, .help = "What a topic, or a group of it, did in the last hour", .answer = "History", .errors = "404",
	  .group = "topics" },
	{ "getSample", "LIST now", NULL, NULL, MONITOR, ASKS, show_sample, TAKES_NONE,
	  .help = "The broker at this moment, with the columns of LIST history", .group = "broker" },
	{ "listRules", "LIST rules", NULL, NULL, MONITOR, ASKS, show_rules, TAKES_NONE, .help = "As RULES status", .group = "rules" },
	{ "stats", "STATS", NULL, NULL, READ, ASKS, show_stats,
	  TAKES(FIXED(stats.kind, STATS_ANY), NAME(stats.name, "name", WORD, "a queue", "a queue or a topic; default: the broker")),
	  .object = OBJECT_ANY, .help = "Figures of the broker, a queue or a topic", .group = "broker" },
	{ "getStats", NULL, "GET", "/api/stats", MONITOR, ASKS, show_stats, TAKES(FIXED(stats.kind, STATS_ANY)),
	  .help = "Figures of the broker", .answer = "BrokerStats", .group = "broker" },
	{ "getExchange", "STATS exchange", "GET", AT_EXCHANGE, READ, ASKS, show_stats,
	  TAKES(FIXED(stats.kind, STATS_EXCHANGE), ADDRESS(stats.name, "exchange", PLACE, "an exchange", "an exchange; `-` is the default one")),
	  .help = "Figures of an exchange", .answer = "ExchangeStats", .errors = "404", .group = "exchanges" },
	{ "getQueue", "STATS queue", "GET", AT_QUEUE, READ, ASKS, show_stats, TAKES(FIXED(stats.kind, STATS_QUEUE), QUEUE(stats.name)),
	  .object = OBJECT_QUEUE, .help = "Figures of a queue", .answer = "QueueStats", .errors = "404", .group = "queues" },
	{ "getTopic", "STATS topic", "GET", AT_TOPIC, READ, ASKS, show_stats, TAKES(FIXED(stats.kind, STATS_TOPIC), TOPIC(stats.name)),
	  .object = OBJECT_TOPIC, .help = "Figures of a topic", .answer = "TopicStats", .errors = "404", .group = "topics" },
	{ "whoami", NULL, "GET", "/api/whoami", PERMISSION_NONE, ASKS, whoami, TAKES_NONE,
	  .help = "Who asks, and where", .answer = "Whoami", .group = "broker" },

	/* ---- rules ---- */
	{ "reload", "RULES reload", "POST", AT_RULES "/reload", ADMIN, ASKS, reload, TAKES_NONE,
	  .help = "Load the rules directory", .answer = "Rules", .errors = "422", .group = "rules" },
	{ "getRules", "RULES status", "GET", AT_RULES, MONITOR, ASKS, show_rules, TAKES_NONE,
	  .help = "The active rules", .answer = "Rules", .group = "rules" },
	{ "showScript", "RULES show", NULL, NULL, MONITOR, ASKS | OPERATION_CHECKS, show_script,
	  TAKES(TEXT(rules.name, "name", PLACE, "a script", "a script, or kind/name"),
		FLAG(rules.has_source, "source", 0, "with its text; for administrators")),
	  .help = "The active scripts of a name", .group = "rules" },
	{ "evaluate", "RULES eval", NULL, NULL, ADMIN, ASKS, evaluate, TAKES(TEXT(rules.text, "code", NEEDED, "a line of Lua", "a line of Lua")),
	  .help = "The values of a line of Lua among the active rules", .group = "rules" },
	{ "getRulesLog", "RULES log", "GET", AT_RULES "/log", ADMIN, ASKS, show_log, TAKES_NONE,
	  .help = "Generations that there were, accepted or refused", .answer = "RulesLog", .group = "rules" },
	{ "getGeneration", NULL, "GET", AT_RULES "/generations/{hash}", ADMIN, ASKS, show_files,
	  TAKES(TEXT(rules.name, "hash", NEEDED, NULL, "of a kept generation, or its first digits, at least four; `active`")),
	  .help = "The files of a generation", .answer = "Generation", .errors = "404", .group = "rules" },
	{ "rollback", "RULES rollback", "POST", AT_RULES "/rollback", ADMIN, ASKS, roll_back,
	  TAKES(TEXT(rules.name, "hash", WORD, NULL, "or its first digits, at least four; default: the one before")),
	  .help = "Go back to an earlier generation", .answer = "Rules", .errors = "404 409 422", .group = "rules" },
	{ "startShadow", "RULES shadow", "POST", AT_RULES "/shadow", ADMIN, ASKS, start_shadow,
	  TAKES(DIRECTORY(PLACE), SHARE(rules.share, "share", "percent of the publishes; default: 10"),
		TEXT(rules.apply, "apply", 0, "key or h:NAME", "key, or h:NAME: what they decide counts, for a share of the values"),
		FLAG(rules.is_exclusive, "exclusive", LINE, "it ends with the connection")),
	  .help = "Let candidate rules decide beside the active ones, or in earnest for a share of the keys", .answer = "Shadow", .errors = "404 409 422",
	  .group = "rules" },
	{ "getShadow", "RULES shadow status", "GET", AT_RULES "/shadow", ADMIN, ASKS | OPERATION_VHOST, show_shadow, TAKES(OF_VHOST),
	  .help = "What the shadow has found", .answer = "Shadow", .group = "rules" },
	{ "dropShadow", "RULES shadow drop", "DELETE", AT_RULES "/shadow", ADMIN, ASKS, drop_shadow, TAKES_NONE,
	  .help = "End the shadow", .errors = "404", .group = "rules" },
	{ "promote", "RULES shadow promote", "POST", AT_RULES "/shadow/promote", ADMIN, ASKS, promote, TAKES_NONE,
	  .help = "The rules in the shadow become the active ones", .answer = "Rules", .errors = "404 422", .group = "rules" },
	{ "install", "RULES shadow promote install", NULL, NULL, ADMIN, ASKS | OPERATION_INTERNAL, install, TAKES_NONE,
	  .help = "Promote, and write the files into the rules directory", .group = "rules" },
	{ "getRecent", "RULES recent", "GET", AT_RULES "/recent", ADMIN, ASKS | OPERATION_VHOST, show_recent,
	  TAKES({ "max", .line = "n", .type = PARAMETER_UINT, .features = WORD, .offset = AT(rules.max, uint64_t), .min = 1,
		  .max = SESSION_RECENT_MAX, .fallback = 20, .help = "default: 20" }, OF_VHOST),
	  .help = "The last publishes and what was decided", .answer = "Recent", .group = "rules" },
	{ "replay", "RULES replay", "POST", AT_RULES "/replay", ADMIN, ASKS | OPERATION_VHOST, replay, TAKES(DIRECTORY(PLACE), OF_VHOST),
	  .help = "Decide the last publishes again by candidate rules", .answer = "Replay", .errors = "404 422", .group = "rules" },
	{ "simulateRetry", "RULES simulate retry", "POST", AT_RULES "/simulate/retry", ADMIN, ASKS, simulate_retry,
	  TAKES(NAME(retry.name, "name", PLACE, "a name", "of the script"),
		CHOICE(retry.reason, "reason", 0, "nack, timeout or gone", 0, 0, "default: nack"),
		UINT(retry.failures_max, "failures", 0, 1, 1000, 100, "default: 100"),
		TEXT(retry.delivery_limit, "delivery-limit", 0, NULL, "as of DECLARE queue"),
		TEXT(retry.ack_timeout, "ack-timeout", 0, NULL, "as of DECLARE queue"), OPTIONS(retry.options, "of the script")),
	  .help = "The attempts that a retry script would make", .answer = "RetrySimulation", .errors = "404 422", .group = "rules" },
	{ "simulateLogin", "RULES simulate login", "POST", AT_RULES "/simulate/login", ADMIN, ASKS, simulate_login,
	  TAKES(TEXT(login.user, "user", 0, NULL, "who logs in"),
		{ "password", .line = "pass", .type = PARAMETER_TEXT, .offset = AT(login.password, struct slice), .help = "its password" },
		NAME(login.vhost, "vhost", 0, "a vhost", ""), TEXT(login.name, "name", 0, NULL, "of the connection"), TEXT(login.address, "address", 0, NULL, "of the client"),
		TEXT(login.certificate, "certificate", 0, NULL, "the name in it"), CHOICE(login.protocol, "protocol", 0, "line, stomp, amqp or http", 0, 0, "default: line"),
		SWITCH(login.is_tls, "tls", "does it come by TLS?"), SWITCH(login.is_local, "local", "from the same machine?")),
	  .help = "What would be said to somebody who logs in", .answer = "LoginSimulation", .group = "rules" },
	{ "simulateAccess", "RULES simulate access", "POST", AT_RULES "/simulate/access", ADMIN, ASKS, simulate_access,
	  TAKES(NAME(access.user, "user", NEEDED, "a name", "who asks"), CHOICE(access.action, "action", NEEDED, "configure, write or read", 0, 0, ""),
		CHOICE(access.kind, "kind", NEEDED, "exchange, queue, topic or lock", 0, 0, ""), NAME(access.name, "name", NEEDED, "a name", "of what it is about"),
		NAME(access.vhost, "vhost", 0, "a vhost", ""), TEXT(access.address, "address", 0, NULL, "of the client")),
	  .help = "What would be said to somebody who wants to do something", .answer = "AccessSimulation", .group = "rules" },
	{ "simulateDeclare", "RULES simulate declare", "POST", AT_RULES "/simulate/declare", MONITOR, ASKS, simulate_declare,
	  TAKES(CHOICE(simulate.kind, "kind", NEEDED, "exchange, queue or topic", 0, 0, ""), NAME(simulate.name, "name", NEEDED, "a name", "of what is declared"),
		NAME(simulate.type, "type", 0, "a type", ""),
		NAME(simulate.vhost, "vhost", 0, "a vhost", ""), NAME(simulate.user, "user", 0, "a user", ""),
		OPTIONS(simulate.args, "as of DECLARE")),
	  .help = "What policies would make of a declaration", .answer = "DeclareSimulation", .errors = "404", .group = "rules" },
	{ "beginUpload", "RULES upload begin", NULL, NULL, ADMIN, ASKS | OPERATION_CHECKS | OPERATION_INTERNAL, begin_upload, TAKES_NONE,
	  .help = "May rules be uploaded, and installed? What came before is dropped", .group = "rules" },
	{ "uploadPart", "RULES upload", NULL, NULL, ADMIN, ASKS | OPERATION_INTERNAL, upload_part,
	  TAKES(TEXT(rules.name, "path", PLACE, "a path", "of the file"), TEXT(rules.text, "text", NEEDED, "a part of the file", "a part of the file")),
	  .help = "A part of a file of candidate rules", .group = "rules" },
	{ "endUpload", "RULES upload done", NULL, NULL, ADMIN, ASKS | OPERATION_INTERNAL, end_upload, TAKES_NONE,
	  .help = "All files are there: check them", .group = "rules" },

	/* ---- tide.shared ---- */
	{ "listShared", "SHARED list", "GET", "/api/shared", MONITOR, ASKS, list_shared, TAKES(OF, PREFIX, CURSOR),
	  .help = "Entries of tide.shared whose key begins with the prefix", .answer = "SharedList", .group = "rules" },
	{ "getShared", "SHARED get", "GET", "/api/shared/entry", MONITOR, ASKS, get_shared, TAKES(OF, KEY),
	  .help = "An entry of tide.shared", .answer = "SharedEntry", .errors = "404", .group = "rules" },
	{ "putShared", "SHARED set", "PUT", "/api/shared/entry", ADMIN, ASKS, set_shared,
	  TAKES(KEY, TEXT(shared.value, "value", NEEDED, "a text, a number or a boolean", "of the same type in scripts"),
		CHOICE(shared.type, "type", PARAMETER_JSON, "string, integer, number or boolean", SESSION_SHARED_STRING, 0,
		       "default: that of the JSON value; on the line that of the entry, or string"),
		DURATION(shared.ttl_ms, "ttl", 0, 1, INT64_C(366) * 24 * 3600 * 1000 * 100, "without it the entry stays")),
	  .help = "Make or replace an entry of tide.shared", .errors = "429", .group = "rules" },
	{ "deleteShared", "SHARED delete", "DELETE", "/api/shared/entry", ADMIN, ASKS, delete_shared, TAKES(OF, KEY),
	  .help = "Remove an entry of tide.shared", .errors = "404", .group = "rules" },
	{ "clearShared", "SHARED clear", "DELETE", "/api/shared", ADMIN, ASKS, clear_shared, TAKES(OF, PREFIX, CURSOR),
	  .help = "Remove the entries whose key begins with the prefix", .answer = "SharedCleared", .group = "rules" },

	/* ---- locks ---- */
	{ "lock", "LOCK", NULL, NULL, WRITE, OPERATION_ANSWERS, take_lock,
	  TAKES(LOCK_NAME, DURATION(lock.wait_ms, "wait", 0, 0, 3600 * 1000, "for a lock that another one has"),
		DURATION(lock.ttl_ms, "ttl", 0, 100, INT64_C(24) * 3600 * 1000, "default: 30s"),
		FLAG(lock.is_shared, "shared", 0, "with others who share it"),
		TOKEN(0, "of a lock that is held: take it for longer")),
	  .help = "Take a lock", .group = "queues" },
	{ "unlock", "UNLOCK", NULL, NULL, WRITE, 0, release_lock, TAKES(LOCK_NAME, TOKEN(PLACE, "of the LOCK")),
	  .help = "Release a lock", .group = "queues" },
	{ "checkLock", "CHECK", NULL, NULL, READ, OPERATION_INTERNAL, check_lock, TAKES(LOCK_NAME, TOKEN(PLACE, "of the LOCK")),
	  .help = "Is the lock held with this token?", .group = "queues" },

	/* ---- the broker ---- */
	{ "killConnection", "KILL connection", "DELETE", "/api/connections/{connection}", ADMIN, 0, kill_connection,
	  TAKES({ "connection", .line = "number", .type = PARAMETER_UINT, .features = PLACE, .offset = AT(operate.number, uint64_t),
		  .what = "the number of a connection, see LIST connections", .max = UINT64_MAX, .help = "its number" }),
	  .help = "Close a connection", .errors = "404", .group = "broker" },
	{ "drain", "DRAIN", "POST", "/api/drain", ADMIN, 0, drain, TAKES(FIXED(operate.is_on, 1)),
	  .help = "Take no publishes from now on", .group = "broker" },
	{ "endDrain", "DRAIN off", "DELETE", "/api/drain", ADMIN, 0, drain, TAKES(FIXED(operate.is_on, 0)),
	  .help = "Take publishes again", .group = "broker" },
	{ "trace", "TRACE", NULL, NULL, MONITOR, 0, trace,
	  TAKES(ADDRESS(trace.exchange, "exchange", PLACE, "an exchange", "`*`: any"),
		ADDRESS(trace.key, "key", WORD, "a key", "a pattern; default: `#`"), SHARE(trace.share, "sample", "percent of the publishes; default: all"),
		DURATION(trace.for_ms, "for", 0, 100, TRACE_FOR_MAX_MS, "default: 1m"),
		UINT(trace.max, "max", 0, 1, TRACE_MESSAGES_MAX, 100, "messages at most; default: 100"),
		FLAG(trace.has_payload, "payload", 0, "with payloads")),
	  .help = "Follow messages: events tell what becomes of them", .group = "exchanges" },

	/* ---- users ---- */
	{ "addUser", "USER add", NULL, NULL, ADMIN, ASKS, edit_user, TAKES(USER(USER_EDIT_ADD), PASSWORD(0), TAGS),
	  .help = "Add a user; the first one must have the tag admin", .group = "users" },
	{ "setPassword", "USER passwd", NULL, NULL, ADMIN, ASKS, edit_user, TAKES(USER(USER_EDIT_PASSWORD), PASSWORD(NEEDED)),
	  .help = "Give a user another password", .group = "users" },
	{ "deleteUser", "USER delete", "DELETE", "/api/users/{user}", ADMIN, ASKS, edit_user, TAKES(USER(USER_EDIT_DELETE)),
	  .help = "Delete a user and end its connections", .errors = "404", .group = "users" },
	{ "listUsers", "USER list", "GET", "/api/users", ADMIN, LISTS, list_users, TAKES_NONE,
	  .help = "Users", .answer = "UserList", .group = "users" },
	{ "putGrant", "USER grant", "PUT", "/api/users/{user}/grants/{of}", ADMIN, ASKS, edit_user,
	  TAKES(USER(USER_EDIT_GRANT), GRANT, TEXT(user.configure, "configure", 0, NULL, "pattern of names"),
		TEXT(user.write, "write", 0, NULL, "pattern of names"), TEXT(user.read, "read", 0, NULL, "pattern of names")),
	  .help = "What a user may do in a vhost", .errors = "404", .group = "users" },
	{ "deleteGrant", "USER revoke", "DELETE", "/api/users/{user}/grants/{of}", ADMIN, ASKS, edit_user,
	  TAKES(USER(USER_EDIT_REVOKE), GRANT),
	  .help = "Take a user's permissions in a vhost away", .errors = "404", .group = "users" },
	{ "setUser", "USER set", NULL, NULL, ADMIN, ASKS, edit_user,
	  TAKES(USER(USER_EDIT_SET), TAGS, LIMIT(0, "max-connections", 0, "0: no limit"), LIMIT(1, "max-channels", 0, "of all its connections together"),
		LIMIT(2, "publish-rate", 0, "messages a second"), LIMIT(3, "publish-bytes", PARAMETER_BYTES, "a second")),
	  .help = "Change the tags and limits of a user", .group = "users" },

#ifdef TIDE_REHEARSAL
	/* The test of operations_spec: all that a new verb costs. */
	{ "rehearse", "REHEARSE", "POST", AT_QUEUE "/rehearse", MONITOR, ASKS, show_stats,
	  TAKES(FIXED(stats.kind, STATS_QUEUE), QUEUE(stats.name), FLAG(redrive.is_routed, "loud", 0, "so that all hear")),
	  .object = OBJECT_QUEUE, .help = "Rehearse an operation", .answer = "QueueStats", .errors = "404", .group = "queues" },
#endif
	{ 0 },
};
/* clang-format on */
