#include "config.h"

#include <stdio.h>

#include "base/duration.h"
#include "base/mem.h"
#include "name_list.h"
#include "shard/dedupe.h"

#define COUNT_MAX UINT64_C(1000000000000)
#define DAY_MS (INT64_C(24) * 3600 * 1000)
#define HINT "; the option update changes that"

struct config_row {
	unsigned kinds; /* bits of enum config_kind */
	struct option_row row;
	const char *expected; /* in the place of what follows from type and range */
	const char *fixed;    /* why it cannot change later; NULL: it can */
	/* NULL: by type, into the field of the row. */
	bool (*set)(struct config *c, const struct config_row *r, const char *value);
	/* NULL: by the field. */
	bool (*is_same)(const struct config *a, const struct config *b);
};

/* ---- values that are not numbers, durations or choices ----------------------------- */

bool config_read_target(struct slice value, struct slice *exchange, struct slice *key)
{
	bool is_default;

	*key = value;
	*exchange = slice_cut(key, '/');
	is_default = slice_is(*exchange, "-");
	if (!slice_is_name(*exchange) || (key->len && !slice_is_name(*key)) ||
	    (is_default && !key->len))
		return false;
	if (is_default)
		exchange->len = 0;
	return true;
}

static bool set_target(struct config *c, const struct config_row *r, const char *value)
{
	struct slice exchange, key;

	if (value[0] == '\0')
		return true;
	if (!config_read_target(slice_from(value), &exchange, &key))
		return false;
	c->dead_exchange = mem_strndup(exchange.data, exchange.len);
	c->dead_key = key.len ? mem_strndup(key.data, key.len) : NULL;
	return true;
}

static bool is_same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool has_same_target(const struct config *a, const struct config *b)
{
	return is_same_text(a->dead_exchange, b->dead_exchange) &&
	       is_same_text(a->dead_key, b->dead_key);
}

static bool set_order(struct config *c, const struct config_row *r, const char *value)
{
	struct slice by = slice_from(value);

	if (slice_is(by, "key"))
		c->order_by = ORDER_KEY;
	else if (slice_is(by, "shard"))
		c->order_by = ORDER_SHARD;
	else if (by.len > 0)
		c->order_by = ORDER_HEADER;
	if (c->order_by != ORDER_HEADER)
		return true;
	c->order_header = mem_strdup(by.len > 2 ? value + 2 : "");
	return slice_has_prefix(by, "h:") && slice_is_name(slice_skip(by, 2));
}

static bool has_same_order(const struct config *a, const struct config *b)
{
	return a->order_by == b->order_by &&
	       is_same_text(a->order_header, b->order_header);
}

/* "10/s": the time between two. */
static bool set_rate(struct config *c, const struct config_row *r, const char *value)
{
	static const struct {
		const char *name;
		int64_t ns;
	} units[] = { { "s", INT64_C(1000000000) },
		      { "m", INT64_C(60000000000) },
		      { "h", INT64_C(3600000000000) } };
	struct slice unit = slice_from(value), number = slice_cut(&unit, '/');
	uint64_t n;

	if (strcmp(value, "0") == 0)
		return true;
	if (!slice_to_uint(number, 1000000, &n) || n == 0)
		return false;
	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++)
		if (slice_is(unit, units[i].name))
			c->rate_ns = units[i].ns / (int64_t)n;
	return c->rate_ns > 0;
}

/* Empty: the broker's own, which may be another after its next start. */
static bool set_window(struct config *c, const struct config_row *r, const char *value)
{
	struct option_value ms = { .integer = (uint64_t)-1 };

	if (c->kind == CONFIG_QUEUE && strcmp(value, "queued") == 0)
		ms.integer = (uint64_t)PUBLISH_IDS_QUEUED_MS;
	else if (value[0] && !option_read(&r->row, OPTION_DURATION, value, &ms))
		return false;
	c->dedupe_ms = (int64_t)ms.integer;
	return true;
}

static bool set_groups(struct config *c, const struct config_row *r, const char *value)
{
	c->keep_unread = mem_strdup(value);
	return name_list_is(slice_from(value));
}

static bool has_same_groups(const struct config *a, const struct config *b)
{
	return name_list_is_same(slice_from(a->keep_unread), slice_from(b->keep_unread));
}

static bool set_compact(struct config *c, const struct config_row *r, const char *value)
{
	c->compacts = strcmp(value, "key") == 0;
	return c->compacts || !value[0];
}

static bool set_name(struct config *c, const struct config_row *r, const char *value)
{
	struct slice name = slice_from(value);

	*(char **)(void *)((char *)c + r->row.offset) = mem_strdup(value);
	return slice_is_name(name) &&
	       (r->kinds != CONFIG_EXCHANGE || !slice_is(name, "-"));
}

/* `reshard` is a request, or what became of one: no part of what a queue is. */
static bool has_any(const struct config *a, const struct config *b)
{
	return true;
}

/* ---- the table --------------------------------------------------------------------- */

#define OF_QUEUE CONFIG_QUEUE
#define OF_TOPIC CONFIG_TOPIC
#define OF_BOTH (CONFIG_QUEUE | CONFIG_TOPIC)
#define OF_EXCHANGE CONFIG_EXCHANGE

#define FIELD(f)                                  \
	.row.offset = offsetof(struct config, f), \
	.row.size = sizeof(((struct config *)0)->f)
#define ROW(n, d, h) .row.name = n, .row.arg = "VALUE", .row.fallback = d, .row.help = h
#define RANGE(t, least, most)                                           \
	.row.type = t, .row.has_min = true, .row.min = (double)(least), \
	.row.has_max = true, .row.max = (double)(most)
#define FLAG(n, f, d, h) FIELD(f), ROW(n, d, h), .row.type = OPTION_BOOLEAN
#define COUNT(n, f, d, least, most, h) \
	FIELD(f), ROW(n, d, h), RANGE(OPTION_COUNT, least, most)
#define AMOUNT(n, f, h) FIELD(f), ROW(n, "0", h), RANGE(OPTION_COUNT, 0, COUNT_MAX)
#define BYTES(n, f, h) FIELD(f), ROW(n, "0", h), RANGE(OPTION_BYTES, 0, COUNT_MAX)
#define TIME(n, f, d, least, most, h) \
	FIELD(f), ROW(n, d, h), RANGE(OPTION_DURATION, least, most)
#define CHOICE(n, f, words, d, h)                                                    \
	FIELD(f), .row.name = n, .row.arg = words, .row.fallback = d, .row.help = h, \
		  .row.type = OPTION_CHOICE
#define SCRIPT(n, kind, d, h) \
	FIELD(scripts[kind]), ROW(n, d, h), .set = set_name, .row.type = OPTION_TEXT

#define MESSAGES_SAID "a number of messages from 1 to 1000000000000, or 0 for no limit"
#define BYTES_SAID "a number of bytes from 1 to 1000000000000, or 0 for no limit"
#define OF_GROUPS "its groups count their messages from the first on"
#define OF_PARTITION "each key has its messages in one partition"
#define NO_MOVE "messages do not move between memory and Redis"

/* In the order in which HELP and errors name them, and Redis has those of an exchange. */
/* clang-format off */
static const struct config_row options[] = {
	{ OF_BOTH, FLAG("durable", is_durable, "1", "1: it and its messages are in Redis; 0: in memory only. A partition of a topic keeps its newest 16 MiB then"), .fixed = NO_MOVE },
	{ OF_EXCHANGE, FLAG("durable", is_durable, "1", "1: it survives a restart; 0: it does not"), .fixed = "bindings do not move between memory and Redis" },
	{ OF_QUEUE, FLAG("exclusive", is_exclusive, "0", "1: for this connection only, deleted when it ends"), .fixed = "whose it is does not change" },
	{ OF_QUEUE, FLAG("auto-delete", is_auto_delete, "0", "1: deleted when its last consumer is gone") },
	{ OF_EXCHANGE, FLAG("auto-delete", is_auto_delete, "0", "1: deleted when its last binding is gone") },
	{ OF_EXCHANGE, FLAG("internal", is_internal, "0", "1: clients cannot `PUB` to it. Bindings, alternates, dead letters, filters and schedules lead to it") },
	{ OF_EXCHANGE, FIELD(alternate), ROW("alternate", NULL, "an exchange that takes what leads nowhere here, see below. If it does not exist yet, the answer is `OK warning <text>`"), .set = set_name, .expected = "the name of an exchange other than the default one" },
	{ OF_QUEUE, FLAG("single-active", is_single_active, "0", "1: one subscription at a time gets the messages, see [SUB](protocol-consume.md#sub)") },
	{ OF_QUEUE, COUNT("shards", shards, "1", 1, QUEUE_SHARDS_MAX, "parts of the queue, each with an order of its own") },
	{ OF_TOPIC, COUNT("partitions", shards, "8", 1, QUEUE_SHARDS_MAX, "parts of the topic, each with an order and offsets of its own. `update` makes [more of them](#more-partitions), never fewer") },
	{ OF_QUEUE, FIELD(reshard), .row.name = "reshard", .row.fallback = "0", .row.help = "a flag: if the queue exists with another number of shards, [change the number](#another-number-of-shards)", .row.type = OPTION_COUNT, .row.has_max = true, .row.max = QUEUE_SHARDS_MAX, .is_same = has_any, .expected = "0 or 1" },
	{ OF_QUEUE, SCRIPT("sharding", SCRIPT_SHARDING, "hash", "a script in `rules/sharding/`: `hash`, `consistent`, `round_robin`, `least_loaded`, `random`"), .expected = "the name of a script in sharding/" },
	{ OF_TOPIC, SCRIPT("sharding", SCRIPT_SHARDING, "hash", "as of a queue; it picks the partition. It cannot be changed"), .expected = "the name of a script in sharding/", .fixed = OF_PARTITION },
	{ OF_QUEUE, SCRIPT("priority", SCRIPT_PRIORITY, "fifo", "a script in `rules/priority/`: `fifo`, `strict`, `aging`, `due_time`, `deadline`, `fair`"), .expected = "the name of a script in priority/" },
	{ OF_BOTH, SCRIPT("retry", SCRIPT_RETRY, "immediate", "a script in `rules/retry/`: `immediate`, `fixed`, `exponential`, `schedule`, `none`; of a topic for each group that reads"), .expected = "the name of a script in retry/" },
	{ OF_BOTH, TIME("ack-timeout", ack_timeout_ms, "60s", 10, DAY_MS, "the [lease](protocol-messages.md#leases), for how long a consumer may hold a message") },
	{ OF_BOTH, TIME("ack-timeout-max", ack_timeout_max_ms, "1d", 10, DAY_MS, "the longest lease that publishers and consumers may ask for, not less than `ack-timeout`") },
	{ OF_QUEUE, TIME("ttl", ttl_ms, "0", 0, DURATION_MAX_MS, "how long a message lives in this queue, see [expiry](protocol-messages.md#attempts-and-failures); 0 is no limit"), .expected = "a duration from 1ms to 3660d, or 0 for no limit" },
	{ OF_QUEUE, AMOUNT("max-length", max_length, "messages that may wait, see [limits](protocol-messages.md#limits-of-a-queue); 0 is any number"), .expected = MESSAGES_SAID },
	{ OF_QUEUE, BYTES("max-bytes", max_bytes, "of payload that may wait, also as `512K`, `16M` or `1G`; 0 is any number"), .expected = BYTES_SAID },
	{ OF_QUEUE, CHOICE("overflow", overflow, "reject|drop-head|dead-letter|drop-lowest|dead-letter-lowest", "reject", "what happens [at these limits](protocol-messages.md#limits-of-a-queue)"), .expected = "reject, drop-head, dead-letter, drop-lowest or dead-letter-lowest" },
	{ OF_QUEUE, TIME("expires", expires_ms, "0", 0, DURATION_MAX_MS, "the queue [goes when nobody uses it](protocol-messages.md#limits-of-a-queue) for so long; 0 is never"), .expected = "a duration from 1ms to 3660d, or 0 for never" },
	{ OF_QUEUE, CHOICE("expires-if", expires_if, "unused|empty", "unused", "with `empty` a queue that has a message does not go"), .expected = "unused or empty" },
	{ OF_QUEUE, FIELD(rate_ns), ROW("rate", "0", "`<n>/s`, `<n>/m` or `<n>/h`, n up to 1,000,000: [deliveries at a rate](protocol-messages.md#limits-of-a-queue); 0 is no limit"), .row.type = OPTION_COUNT, .set = set_rate, .expected = "<n>/s, <n>/m or <n>/h, with a number from 1 to 1000000, or 0 for no limit" },
	{ OF_BOTH, COUNT("delivery-limit", delivery_limit, "20", 0, 1000000, "failures after which a message is dead-lettered or buried; 0 is no limit") },
	{ OF_BOTH, COUNT("death-limit", death_limit, "100", 1, 1000000, "deaths after which a message is buried and not dead-lettered again, see [dead letters](protocol-messages.md#dead-letters)") },
	{ OF_BOTH, ROW("dead-letter", "", "`<exchange>/<key>`: where dead messages go; `-/q` is the queue q; `x` is the exchange x, with the message's own key. If the target does not exist yet, the answer is `OK warning <text>`. Without it they are buried"), .set = set_target, .is_same = has_same_target, .expected = "<exchange>/<key>, with - for the default exchange, which needs a key (a queue's name); without a key the message keeps its own" },
	{ OF_QUEUE, ROW("order-by", "", "`key`, `shard` or `h:<name>`: what makes a group, see [order within groups](protocol-messages.md#order-within-groups)"), .set = set_order, .is_same = has_same_order, .expected = "key, shard, or h:<name> for the values of a header", .fixed = OF_GROUPS },
	{ OF_QUEUE, COUNT("inflight", inflight, "", 1, 65535, "messages of a group that are at work at a time; 1 with `order-by`"), .expected = "a number from 1 to 65535: messages of a group that are at work at a time", .fixed = OF_GROUPS },
	{ OF_QUEUE, TIME("dedupe", dedupe_ms, "", 0, DAY_MS, "how long the queue remembers the ids of publishes (`PUB id=`); 0 is not at all. `queued`: for as long as the message is in the queue. Else the broker's `--dedupe-window`, `2m`"), .set = set_window, .expected = "a duration up to 1d, or queued: for as long as the message is in the queue; 0 remembers no publish ids" },
	{ OF_TOPIC, TIME("dedupe", dedupe_ms, "", 0, DAY_MS, "how long the topic remembers the ids of publishes (`PUB id=`); 0 is not at all. Else the broker's `--dedupe-window`, `2m`"), .set = set_window, .expected = "a duration up to 1d; 0 remembers no publish ids" },
	{ OF_TOPIC, FLAG("order", keeps_order, "1", "1: a message that waits to be tried again holds up its partition; 0: the next ones go on"), .fixed = "its groups hold messages by it" },
	{ OF_TOPIC, TIME("retention", retention_ms, "1d", 0, DURATION_MAX_MS, "[how long messages are kept](#what-a-topic-keeps); 0 is for ever"), .expected = "a duration from 1ms to 3660d, or 0 for ever" },
	{ OF_TOPIC, BYTES("retention-bytes", retention_bytes, "that each partition keeps, also as `512K`, `16M` or `1G`; 0 is any number"), .expected = BYTES_SAID },
	{ OF_TOPIC, AMOUNT("retention-count", retention_count, "messages that each partition keeps; 0 is any number"), .expected = MESSAGES_SAID },
	{ OF_TOPIC, ROW("keep-unread", "", "names of groups, with commas between them: what one of them has not committed is kept"), .set = set_groups, .is_same = has_same_groups, .expected = "names of groups, each once, separated by commas" },
	{ OF_TOPIC, FIELD(compacts), ROW("compact", "", "`key`: of each routing key the last message is kept ([topics.md](topics.md#compaction)). `retention` is 0 then, unless it is given. Not with `durable=0`"), .row.type = OPTION_BOOLEAN, .set = set_compact, .expected = "key, or nothing", .fixed = "it decides from the first message on which are kept" },
#ifdef TIDE_REHEARSAL /* of "Add an option" in docs/architecture.md */
	{ OF_BOTH | OF_EXCHANGE, COUNT("rehearsed", rehearsed, "3", 1, 9, "what a test adds") },
#endif
};
/* clang-format on */
#define OPTIONS (sizeof(options) / sizeof(options[0]))

_Static_assert(OPTIONS <= 64, "a bit of config.given for each");

/* ---- reading ----------------------------------------------------------------------- */

/* @param kinds  look at the rows of these */
static const struct config_row *find_row(const char *name, unsigned kinds)
{
	for (size_t i = 0; i < OPTIONS; i++)
		if (options[i].kinds & kinds && strcmp(options[i].row.name, name) == 0)
			return &options[i];
	return NULL;
}

/* The script that an option names, of a row with one. */
static enum script_kind kind_of_script(const struct config_row *r)
{
	return (enum script_kind)((r->row.offset - offsetof(struct config, scripts)) /
				  sizeof(char *));
}

/* The row that names the script which "retry.base" is for; NULL: no option of a script
 * has such a name. */
static const struct config_row *script_of(const char *name, unsigned kinds)
{
	size_t len = strcspn(name, ".");

	for (size_t i = 0; i < OPTIONS; i++) {
		const struct config_row *r = &options[i];

		if (r->set == set_name && r->kinds & kinds & OF_BOTH && name[len] &&
		    name[len + 1] && strncmp(name, r->row.name, len) == 0 &&
		    !r->row.name[len])
			return r;
	}
	return NULL;
}

/* @param is_other  the other kind takes it */
static int refuse_unknown(const struct config *c, const char *name, struct error *err)
{
	bool is_topic = c->kind == CONFIG_TOPIC;
	bool is_other = script_of(name, OF_BOTH) || find_row(name, OF_BOTH);
	struct buf all = { 0 };
	int rc;

	for (size_t i = 0; i < OPTIONS; i++)
		if (options[i].kinds & c->kind)
			buf_printf(&all, "%s ", options[i].row.name);
	buf_printf(&all, "update and sharding.* %sretry.* for the options of the scripts",
		   is_topic ? "" : "priority.* ");
	if (is_other)
		rc = error_set(err, TIDE_ESYNTAX,
			       "'%.64s' is an option of %s: %s takes %s", name,
			       is_topic ? "queues" : "topics",
			       is_topic ? "a topic" : "a queue", buf_cstr(&all));
	else
		rc = error_set(err, TIDE_ESYNTAX,
			       "a %s has no option '%.64s'; it takes: %s",
			       is_topic ? "topic" : "queue", name, buf_cstr(&all));
	buf_deinit(&all);
	return rc;
}

static int refuse_value(const struct config_row *r, const char *value, struct error *err)
{
	const struct option_row *o = &r->row;
	char range[128], min[DURATION_TEXT_MAX], max[DURATION_TEXT_MAX];

	if (o->type == OPTION_BOOLEAN) {
		snprintf(range, sizeof(range), "0 or 1");
	} else if (o->type == OPTION_DURATION) {
		duration_format((int64_t)o->min, min);
		duration_format((int64_t)o->max, max);
		snprintf(range, sizeof(range), "a duration from %s to %s", min, max);
	} else {
		snprintf(range, sizeof(range), "a number from %.0f to %.0f", o->min,
			 o->max);
	}
	return error_set(err, TIDE_ESYNTAX, "%s=%s: expected %s", o->name, value,
			 r->expected ? r->expected : range);
}

/* Unlike a script's option, a flag is 0 or 1. */
static bool set_option(struct config *c, const struct config_row *r, const char *value)
{
	struct option_value v;

	if (r->set)
		return r->set(c, r, value);
	/* The default of this option depends on another one. */
	if (!value[0] && !r->row.fallback[0])
		return true;
	if (!option_read(&r->row, r->row.type, value, &v) ||
	    (r->row.type == OPTION_BOOLEAN && value[1]))
		return false;
	option_set_field(&r->row, c, v.integer);
	return true;
}

/* Hand "retry.base" to the retry script, and what an exchange does not know to its
 * routing script. */
static int set_script_arg(struct config *c, const struct arg *a, struct error *err)
{
	const struct config_row *r = script_of(a->name, c->kind);
	bool is_routing = c->kind == CONFIG_EXCHANGE;
	struct slice value = { a->value, a->value_len };

	if (!r && !is_routing)
		return refuse_unknown(c, a->name, err);
	if (args_add(&c->script_args[is_routing ? SCRIPT_ROUTING : kind_of_script(r)],
		     slice_from(is_routing ? a->name : a->name + strlen(r->row.name) + 1),
		     value) < 0)
		return error_set(err, TIDE_ESYNTAX, "option '%s' appears twice", a->name);
	return args_add(&c->canonical, slice_from(a->name), value);
}

/* The value of an option that is not given; NULL: it has none. */
static const char *fallback_of(const struct config_row *r, const struct args *args)
{
	const char *order_by = args_get(args, "order-by");
	const char *compact = args_get(args, "compact");

	if (order_by && order_by[0] && strcmp(r->row.name, "inflight") == 0)
		return "1";
	/* The last message of a key is worth keeping, however old. */
	if (compact && compact[0] && strcmp(r->row.name, "retention") == 0)
		return "0";
	return r->row.fallback;
}

/* 1M is kept as a number, which every version reads. */
static const char *canonical_value(const struct config *c, const struct config_row *r,
				   const char *value, char number[32])
{
	if (r->row.type != OPTION_BYTES || !value[0] ||
	    !strchr("KMG", value[strlen(value) - 1]))
		return value;
	snprintf(number, 32, "%llu",
		 *(const unsigned long long *)(const void *)((const char *)c +
							     r->row.offset));
	return number;
}

static int set_row(struct config *c, const struct config_row *r, const struct args *args,
		   struct error *err)
{
	const char *given = args_get(args, r->row.name);
	const char *value = given ? given : fallback_of(r, args);
	char number[32];

	if (!value)
		return TIDE_OK;
	c->given |= given ? UINT64_C(1) << (r - options) : 0;
	if (!set_option(c, r, value))
		return refuse_value(r, value, err);
	if (args_add(&c->canonical, slice_from(r->row.name),
		     slice_from(canonical_value(c, r, value, number))) < 0)
		return error_set(err, TIDE_ETOOLONG, "too many options");
	return TIDE_OK;
}

/* ---- options together -------------------------------------------------------------- */

/* The shipped scripts that keep what they shard by together. Of others it is not known.
 */
static bool keeps_together(const struct config *c, const char *by)
{
	const char *script = c->scripts[SCRIPT_SHARDING];
	const char *has = args_get(&c->script_args[SCRIPT_SHARDING], "by");

	return (strcmp(script, "hash") == 0 || strcmp(script, "consistent") == 0) &&
	       strcmp(has ? has : "key", by) == 0;
}

/* A group needs all of its messages in one shard. */
static int check_order(const struct config *c, struct error *err)
{
	const char *by = c->order_by == ORDER_HEADER ? c->order_header : "key";

	if (c->order_by == ORDER_NONE && c->inflight > 0)
		return error_set(err, TIDE_ESYNTAX,
				 "inflight=%u counts messages of a group: it needs "
				 "order-by=key, order-by=shard or order-by=h:<name>",
				 c->inflight);
	if (c->order_by == ORDER_NONE || c->order_by == ORDER_SHARD || c->shards == 1 ||
	    keeps_together(c, by))
		return TIDE_OK;
	return error_set(
		err, TIDE_ESYNTAX,
		"a group needs all of its messages in one shard: with shards=%u, "
		"%s%s needs sharding=hash or sharding=consistent with "
		"sharding.by=%s",
		c->shards, c->order_by == ORDER_KEY ? "order-by=" : "order-by=h:", by,
		by);
}

/* Options that make no sense without another one. */
static int check_together(const struct config *c, struct error *err)
{
	if (c->ack_timeout_ms > c->ack_timeout_max_ms)
		return error_set(err, TIDE_ESYNTAX,
				 "ack-timeout=%s is longer than ack-timeout-max=%s",
				 args_get(&c->canonical, "ack-timeout"),
				 args_get(&c->canonical, "ack-timeout-max"));
	if (check_order(c, err) < 0)
		return err->code;
	if (c->overflow && !c->max_length && !c->max_bytes)
		return error_set(
			err, TIDE_ESYNTAX,
			"overflow= says what happens at a limit: give max-length= or "
			"max-bytes=");
	if (queue_overflow_is_dead_letter(c->overflow) && !c->dead_exchange)
		return error_set(err, TIDE_ESYNTAX,
				 "overflow=%s needs dead-letter=<exchange>/<key>",
				 args_get(&c->canonical, "overflow"));
	if (c->expires_if && !c->expires_ms)
		return error_set(err, TIDE_ESYNTAX,
				 "expires-if= says which queue goes after its expires=: "
				 "give expires=");
	if (c->compacts && !c->is_durable)
		return error_set(err, TIDE_ESYNTAX,
				 "compact=key is for durable topics: with durable=0 the "
				 "oldest messages go when memory is full");
	return TIDE_OK;
}

int config_parse(struct config *c, enum config_kind kind, const struct args *args,
		 struct error *err)
{
	int rc = TIDE_OK;

	*c = (struct config){ .kind = kind };
	for (size_t i = 0; i < args->count && rc == TIDE_OK; i++)
		if (!find_row(args->items[i].name, kind))
			rc = set_script_arg(c, &args->items[i], err);
	for (size_t i = 0; i < OPTIONS && rc == TIDE_OK; i++)
		if (options[i].kinds & kind)
			rc = set_row(c, &options[i], args, err);
	if (rc == TIDE_OK)
		rc = check_together(c, err);
	if (rc < 0)
		config_deinit(c);
	args_sort(&c->script_args[SCRIPT_ROUTING]);
	args_sort(&c->canonical);
	return rc;
}

void config_deinit(struct config *c)
{
	for (int i = 0; i < CONFIG_SCRIPTS; i++) {
		mem_free(c->scripts[i]);
		args_deinit(&c->script_args[i]);
	}
	mem_free(c->order_header);
	mem_free(c->keep_unread);
	mem_free(c->dead_exchange);
	mem_free(c->dead_key);
	mem_free(c->alternate);
	args_deinit(&c->canonical);
	*c = (struct config){ 0 };
}

/* ---- writing ----------------------------------------------------------------------- */

bool config_is_given(const struct config *c, const char *name)
{
	const struct config_row *r = find_row(name, c->kind);

	return r && c->given >> (r - options) & 1;
}

bool config_is_default(const struct config *c, const struct arg *a)
{
	const struct config_row *r = find_row(a->name, c->kind);

	return r && r->row.fallback && strcmp(r->row.fallback, a->value) == 0;
}

void config_format(const struct config *c, struct buf *out)
{
	struct args own = { 0 };
	int rc = TIDE_OK; /* there is room: they are not more than they were */

	if (c->kind != CONFIG_EXCHANGE) {
		args_format(&c->canonical, out);
		return;
	}
	for (size_t i = 0; i < OPTIONS && rc == TIDE_OK; i++) {
		const char *name = options[i].row.name;
		const char *value = args_get(&c->canonical, name);

		if (options[i].kinds & CONFIG_EXCHANGE && value &&
		    (options[i].row.type != OPTION_BOOLEAN || value[0] == '1' ||
		     strcmp(name, "internal") != 0))
			rc = args_add(&own, slice_from(name), slice_from(value));
	}
	args_format(&own, out);
	args_deinit(&own);
	if (c->script_args[SCRIPT_ROUTING].count) {
		buf_append_char(out, ' ');
		args_format(&c->script_args[SCRIPT_ROUTING], out);
	}
}

/* Append one option; of the canonical ones there is always room. */
static int add_option(struct args *out, const struct arg *a)
{
	return args_add(out, slice_from(a->name),
			(struct slice){ a->value, a->value_len });
}

void config_options(const struct config *c, struct args *out)
{
	int rc = TIDE_OK;

	*out = (struct args){ 0 };
	for (size_t i = 0; i < c->canonical.count && rc == TIDE_OK; i++) {
		const struct arg *a = &c->canonical.items[i];

		if (!config_is_default(c, a) &&
		    (c->kind != CONFIG_QUEUE || strcmp(a->name, "reshard") != 0))
			rc = add_option(out, a);
	}
}

void config_write(const char *name, const struct config *c, struct json *j)
{
	struct args given;

	config_options(c, &given);
	json_member_object(j, name);
	for (size_t i = 0; i < given.count; i++)
		json_member_text(j, given.items[i].name, given.items[i].value);
	json_object_end(j);
	args_deinit(&given);
}

static const char *shown_value(const struct config *c, const char *name)
{
	const char *value = args_get(&c->canonical, name);

	return value && value[0] ? value : "(none)";
}

static void set_shards(struct config *c, unsigned shards, unsigned reshard)
{
	char text[16];

	c->shards = shards;
	c->reshard = reshard;
	snprintf(text, sizeof(text), "%u", shards);
	args_set(&c->canonical, "shards", text);
	snprintf(text, sizeof(text), "%u", reshard);
	args_set(&c->canonical, "reshard", text);
}

void config_reshard(struct config *c, unsigned shards)
{
	unsigned had = config_shards(c);

	set_shards(c, shards, had > shards ? had : shards);
}

int config_take_reshard(struct config *c, bool *is_given, struct error *err)
{
	*is_given = c->reshard;
	if (c->kind != CONFIG_QUEUE)
		return TIDE_OK;
	if (c->reshard > 1)
		return error_set(err, TIDE_ESYNTAX, "reshard=%u: expected 0 or 1",
				 c->reshard);
	set_shards(c, c->shards, 0);
	return TIDE_OK;
}

/* @param scripts  the row of their options */
static void document(enum config_kind kind, const char *scripts, struct buf *out)
{
	buf_append_text(out, OPTION_DOCUMENT_HEAD);
	for (size_t i = 0; i < OPTIONS; i++)
		if (options[i].kinds & kind)
			option_document(&options[i].row, out);
	buf_append_text(out, "| `update` | a flag: it exists; [change its "
			     "options](#change-a-queue) | 0 |\n");
	buf_printf(out, "| %s |\n", scripts);
}

void config_document_queue(struct buf *out)
{
	document(CONFIG_QUEUE,
		 "`sharding.x`, `priority.x`, `retry.x` | option `x` of the script: "
		 "`retry.base=500ms` | the script's",
		 out);
}

void config_document_topic(struct buf *out)
{
	document(CONFIG_TOPIC,
		 "`sharding.x`, `retry.x` | option `x` of the script | the script's",
		 out);
}

void config_document_exchange(struct buf *out)
{
	document(CONFIG_EXCHANGE,
		 "others | options of the routing script, which refuses unknown ones | "
		 "the script's",
		 out);
}

/* ---- comparing --------------------------------------------------------------------- */

static bool is_same(const struct config_row *r, const struct config *a,
		    const struct config *b)
{
	return r->is_same ? r->is_same(a, b) : option_is_same_field(&r->row, a, b);
}

static void format_window(int64_t ms, char out[DURATION_TEXT_MAX])
{
	if (ms == PUBLISH_IDS_QUEUED_MS)
		snprintf(out, DURATION_TEXT_MAX, "queued");
	else
		duration_format(ms, out);
}

/* A `dedupe` that is not given is the broker's. */
static int compare_windows(const struct config *has, const struct config *wanted,
			   int64_t dedupe_ms, struct error *err)
{
	int64_t has_ms = has->dedupe_ms < 0 ? dedupe_ms : has->dedupe_ms;
	int64_t wanted_ms = wanted->dedupe_ms < 0 ? dedupe_ms : wanted->dedupe_ms;
	char has_text[DURATION_TEXT_MAX], wanted_text[DURATION_TEXT_MAX];

	if (has_ms == wanted_ms)
		return TIDE_OK;
	format_window(has_ms, has_text);
	format_window(wanted_ms, wanted_text);
	return error_set(err, TIDE_EMISMATCH, "it has dedupe=%s, not dedupe=%s" HINT,
			 has_text, wanted_text);
}

int config_compare(const struct config *has, const struct config *wanted, bool is_given,
		   int64_t dedupe_ms, struct error *err)
{
	int rc = TIDE_OK;

	for (size_t i = 0; i < OPTIONS && rc == TIDE_OK; i++) {
		const struct config_row *r = &options[i];
		const char *name = r->row.name;

		if (!(r->kinds & has->kind) ||
		    (wanted->given >> i & 1) != (uint64_t)is_given)
			continue;
		if (r->set == set_window)
			rc = compare_windows(has, wanted, dedupe_ms, err);
		else if (!is_same(r, has, wanted))
			rc = error_set(err, TIDE_EMISMATCH, "it has %s=%s, not %s=%s%s",
				       name, shown_value(has, name), name,
				       shown_value(wanted, name), r->fixed ? "" : HINT);
	}
	return rc;
}

bool config_is_same(const struct config *a, const struct config *b, const char *name)
{
	for (size_t i = 0; i < OPTIONS; i++)
		if (options[i].kinds & a->kind && !is_same(&options[i], a, b) &&
		    (!name || strcmp(options[i].row.name, name) == 0))
			return false;
	return true;
}

/* ---- changing ---------------------------------------------------------------------- */

/* Is it an option of a script that is replaced: "retry.base" behind another retry? */
static bool is_of_former(const struct config *has, const struct args *given,
			 const char *name)
{
	const struct config_row *r = script_of(name, has->kind);
	const char *script = r ? args_get(given, r->row.name) : NULL;

	return script && strcmp(script[0] ? script : r->row.fallback,
				has->scripts[kind_of_script(r)]) != 0;
}

static int check_name(const struct config *has, const char *name, struct error *err)
{
	if (has->kind == CONFIG_EXCHANGE || find_row(name, has->kind) ||
	    strchr(name, '.'))
		return TIDE_OK;
	return refuse_unknown(has, name, err);
}

int config_merge(const struct config *has, const struct args *given, struct args *out,
		 struct error *err)
{
	struct args old;
	int rc = TIDE_OK;

	*out = (struct args){ 0 };
	config_options(has, &old);
	for (size_t i = 0; i < old.count && rc == TIDE_OK; i++)
		if (!args_get(given, old.items[i].name) &&
		    !is_of_former(has, given, old.items[i].name))
			rc = add_option(out, &old.items[i]);
	for (size_t i = 0; i < given->count && rc == TIDE_OK; i++)
		if (given->items[i].value_len > 0)
			rc = add_option(out, &given->items[i]);
	if (rc < 0)
		error_set(err, rc, "too many options");
	for (size_t i = 0; i < given->count && rc == TIDE_OK; i++)
		if (given->items[i].value_len == 0)
			rc = check_name(has, given->items[i].name, err);
	args_deinit(&old);
	if (rc < 0)
		args_deinit(out);
	return rc;
}

static int refuse_change(const struct config *has, const char *name, const char *why,
			 struct error *err)
{
	return error_set(err, TIDE_EMISMATCH, "it keeps %s=%s, because %s", name,
			 shown_value(has, name), why);
}

static int check_sharding(const struct config *has, const struct config *next,
			  bool is_sharded_anew, struct error *err)
{
	static const char why[] = "with order-by= what is at work in one shard holds "
				  "back its group";

	if (has->kind == CONFIG_TOPIC && next->shards < has->shards)
		return refuse_change(has, "partitions",
				     "its messages stay in their partitions: there can "
				     "be more of them, but not fewer",
				     err);
	if (has->kind == CONFIG_TOPIC && next->shards > has->shards && has->compacts)
		return refuse_change(has, "partitions",
				     "with compact=key each partition would keep a "
				     "message of one key",
				     err);
	if (has->kind == CONFIG_TOPIC && is_sharded_anew)
		return refuse_change(has, "sharding", OF_PARTITION, err);
	if (has->order_by == ORDER_NONE)
		return TIDE_OK;
	if (has->shards != next->shards)
		return refuse_change(has, "shards", why, err);
	return is_sharded_anew && has->shards > 1
		       ? refuse_change(has, "sharding", why, err)
		       : TIDE_OK;
}

int config_check_change(const struct config *has, const struct config *next,
			bool is_sharded_anew, struct error *err)
{
	for (size_t i = 0; i < OPTIONS; i++) {
		const struct config_row *r = &options[i];

		if (r->kinds & has->kind && r->fixed && !is_same(r, has, next))
			return refuse_change(has, r->row.name, r->fixed, err);
	}
	if ((has->dedupe_ms == PUBLISH_IDS_QUEUED_MS) !=
	    (next->dedupe_ms == PUBLISH_IDS_QUEUED_MS))
		return refuse_change(has, "dedupe",
				     "an id is remembered for a time, or with its "
				     "message, from its publish on",
				     err);
	return check_sharding(has, next, is_sharded_anew, err);
}

/* Where messages are said to lie: shards, sharding, sharding.*, reshard, partitions */
bool config_is_of_place(const struct arg *a)
{
	return strncmp(a->name, "shard", strlen("shard")) == 0 ||
	       strcmp(a->name, "reshard") == 0 || strcmp(a->name, "partitions") == 0;
}

int config_check_policy(enum config_kind kind, const struct arg *a, struct error *err)
{
	struct config c = { .kind = kind };
	const struct config_row *r = find_row(a->name, kind);
	const char *why = r ? r->fixed : NULL;
	int rc = TIDE_OK;

	if (!r)
		rc = set_script_arg(&c, a, err);
	else if (!set_option(&c, r, a->value))
		rc = refuse_value(r, a->value, err);
	config_deinit(&c);
	if (rc < 0)
		return rc;
	if (kind == CONFIG_EXCHANGE)
		return r && !why ? TIDE_OK
				 : error_set(err, TIDE_ESYNTAX, "%s: %s", a->name,
					     CONFIG_EXCHANGE_POLICY);
	if (config_is_of_place(a))
		why = "messages are found by it";
	if (!why)
		return TIDE_OK;
	return error_set(err, TIDE_ESYNTAX,
			 "a policy cannot set %s, because %s; it can only refuse what is "
			 "declared",
			 a->name, why);
}
