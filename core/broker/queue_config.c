#include "queue_config.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/duration.h"
#include "base/mem.h"
#include "base/name_list.h"
#include "shard/dedupe.h"

#define COUNT_MAX UINT64_C(1000000000000)
#define DAY_MS (INT64_C(24) * 3600 * 1000)

enum option_type {
	OPTION_BOOL,
	OPTION_UINT,
	OPTION_RESHARD,
	OPTION_DURATION,
	OPTION_WINDOW,
	OPTION_SCRIPT,
	OPTION_TARGET,
	OPTION_ORDER,
	OPTION_AMOUNT,
	OPTION_CHOICE,
	OPTION_RATE,
	OPTION_GROUPS,
	OPTION_COMPACT
};

/* What an option is for. */
enum option_kinds { OF_QUEUE = 1, OF_TOPIC = 2, OF_BOTH = OF_QUEUE | OF_TOPIC };

struct queue_option {
	enum option_kinds kinds;
	const char *name;
	const char *fallback;
	enum option_type type;
	size_t offset; /* in struct queue_config; of a script: its kind */
	uint64_t min, max;
	const char *expected;
};

#define FIELD(name) offsetof(struct queue_config, name)

static const struct queue_option options[] = {
	{ OF_BOTH, "durable", "1", OPTION_BOOL, FIELD(is_durable), 0, 1, "0 or 1" },
	{ OF_QUEUE, "exclusive", "0", OPTION_BOOL, FIELD(is_exclusive), 0, 1, "0 or 1" },
	{ OF_QUEUE, "auto-delete", "0", OPTION_BOOL, FIELD(is_auto_delete), 0, 1,
	  "0 or 1" },
	{ OF_QUEUE, "single-active", "0", OPTION_BOOL, FIELD(is_single_active), 0, 1,
	  "0 or 1" },
	{ OF_QUEUE, "shards", "1", OPTION_UINT, FIELD(shards), 1, QUEUE_SHARDS_MAX,
	  "a number from 1 to 64" },
	{ OF_TOPIC, "partitions", "8", OPTION_UINT, FIELD(shards), 1, QUEUE_SHARDS_MAX,
	  "a number from 1 to 64" },
	{ OF_QUEUE, "reshard", "0", OPTION_RESHARD, FIELD(reshard), 0, QUEUE_SHARDS_MAX,
	  "0 or 1" },
	{ OF_BOTH, "sharding", "hash", OPTION_SCRIPT, SCRIPT_SHARDING, 0, 0,
	  "the name of a script in sharding/" },
	{ OF_QUEUE, "priority", "fifo", OPTION_SCRIPT, SCRIPT_PRIORITY, 0, 0,
	  "the name of a script in priority/" },
	{ OF_BOTH, "retry", "immediate", OPTION_SCRIPT, SCRIPT_RETRY, 0, 0,
	  "the name of a script in retry/" },
	{ OF_BOTH, "ack-timeout", "60s", OPTION_DURATION, FIELD(ack_timeout_ms), 10,
	  DAY_MS, "a duration from 10ms to 1d" },
	{ OF_BOTH, "ack-timeout-max", "1d", OPTION_DURATION, FIELD(ack_timeout_max_ms),
	  10, DAY_MS, "a duration from 10ms to 1d" },
	{ OF_QUEUE, "ttl", "0", OPTION_DURATION, FIELD(ttl_ms), 0, DURATION_MAX_MS,
	  "a duration from 1ms to 3660d, or 0 for no limit" },
	{ OF_QUEUE, "max-length", "0", OPTION_AMOUNT, FIELD(max_length), 0, COUNT_MAX,
	  "a number of messages from 1 to 1000000000000, or 0 for no limit" },
	{ OF_QUEUE, "max-bytes", "0", OPTION_AMOUNT, FIELD(max_bytes), 0, COUNT_MAX,
	  "a number of bytes from 1 to 1000000000000, or 0 for no limit" },
	{ OF_QUEUE, "overflow", "reject", OPTION_CHOICE, FIELD(overflow), 0, 0,
	  "reject, drop-head, dead-letter, drop-lowest or dead-letter-lowest" },
	{ OF_QUEUE, "expires", "0", OPTION_DURATION, FIELD(expires_ms), 0,
	  DURATION_MAX_MS, "a duration from 1ms to 3660d, or 0 for never" },
	{ OF_QUEUE, "expires-if", "unused", OPTION_CHOICE, FIELD(expires_if), 0, 0,
	  "unused or empty" },
	{ OF_QUEUE, "rate", "0", OPTION_RATE, FIELD(rate_ns), 0, 1000000,
	  "<n>/s, <n>/m or <n>/h, with a number from 1 to 1000000, or 0 for no limit" },
	{ OF_BOTH, "delivery-limit", "20", OPTION_UINT, FIELD(delivery_limit), 0, 1000000,
	  "a number from 0 to 1000000" },
	{ OF_BOTH, "death-limit", "100", OPTION_UINT, FIELD(death_limit), 1, 1000000,
	  "a number from 1 to 1000000" },
	{ OF_BOTH, "dead-letter", "", OPTION_TARGET, 0, 0, 0,
	  "<exchange>/<key>, with - for the default exchange, which needs a key (a "
	  "queue's name); without a key the message keeps its own" },
	{ OF_QUEUE, "order-by", "", OPTION_ORDER, 0, 0, 0,
	  "key, shard, or h:<name> for the values of a header" },
	{ OF_QUEUE, "inflight", "", OPTION_UINT, FIELD(inflight), 1, 65535,
	  "a number from 1 to 65535: messages of a group that are at work at a time" },
	{ OF_QUEUE, "dedupe", "", OPTION_WINDOW, FIELD(dedupe_ms), 0, DAY_MS,
	  "a duration up to 1d, or queued: for as long as the message is in the queue; "
	  "0 remembers no publish ids" },
	{ OF_TOPIC, "dedupe", "", OPTION_WINDOW, FIELD(dedupe_ms), 0, DAY_MS,
	  "a duration up to 1d; 0 remembers no publish ids" },
	{ OF_TOPIC, "order", "1", OPTION_BOOL, FIELD(keeps_order), 0, 1, "0 or 1" },
	{ OF_TOPIC, "retention", "1d", OPTION_DURATION, FIELD(retention_ms), 0,
	  DURATION_MAX_MS, "a duration from 1ms to 3660d, or 0 for ever" },
	{ OF_TOPIC, "retention-bytes", "0", OPTION_AMOUNT, FIELD(retention_bytes), 0,
	  COUNT_MAX, "a number of bytes from 1 to 1000000000000, or 0 for no limit" },
	{ OF_TOPIC, "retention-count", "0", OPTION_AMOUNT, FIELD(retention_count), 0,
	  COUNT_MAX, "a number of messages from 1 to 1000000000000, or 0 for no limit" },
	{ OF_TOPIC, "keep-unread", "", OPTION_GROUPS, 0, 0, 0,
	  "names of groups, each once, separated by commas" },
	{ OF_TOPIC, "compact", "", OPTION_COMPACT, FIELD(compacts), 0, 0,
	  "key, or nothing" },
};
#define OPTIONS (sizeof(options) / sizeof(options[0]))

_Static_assert(OPTIONS <= 64, "a bit of queue_config.given for each");
_Static_assert(QUEUE_SHARDS_MAX == 64, "the text about shards says so");

bool queue_config_read_target(struct slice value, struct slice *exchange,
			      struct slice *key)
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

static bool set_target(struct queue_config *c, const char *value)
{
	struct slice exchange, key;

	if (value[0] == '\0')
		return true;
	if (!queue_config_read_target(slice_from(value), &exchange, &key))
		return false;
	c->dead_exchange = mem_strndup(exchange.data, exchange.len);
	c->dead_key = key.len ? mem_strndup(key.data, key.len) : NULL;
	return true;
}

static bool set_order(struct queue_config *c, const char *value)
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

static bool set_number(struct queue_config *c, const struct queue_option *o,
		       const char *value)
{
	char *field = (char *)c + o->offset;
	uint64_t n;

	/* Its default depends on another option. */
	if (!value[0] && !o->fallback[0])
		return true;
	if (!slice_to_uint(slice_from(value), o->max, &n) || n < o->min)
		return false;
	if (o->type == OPTION_BOOL)
		*(bool *)field = n == 1;
	else
		*(uint32_t *)field = (uint32_t)n;
	return true;
}

static bool set_count(struct queue_config *c, const struct queue_option *o,
		      const char *value)
{
	uint64_t *field = (uint64_t *)((char *)c + o->offset);

	return slice_to_uint(slice_from(value), o->max, field) && *field >= o->min;
}

/* "10/s": the time between two. */
static bool set_rate(struct queue_config *c, const struct queue_option *o,
		     const char *value)
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
	if (!slice_to_uint(number, o->max, &n) || n == 0)
		return false;
	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++)
		if (slice_is(unit, units[i].name))
			c->rate_ns = units[i].ns / (int64_t)n;
	return c->rate_ns > 0;
}

/* The words are in the order of the enum. */
static bool set_choice(struct queue_config *c, const struct queue_option *o,
		       const char *value)
{
	unsigned *field = (unsigned *)((char *)c + o->offset);

	return slice_is_choice(slice_from(value), o->expected, field);
}

static bool set_duration(struct queue_config *c, const struct queue_option *o,
			 const char *value)
{
	int64_t ms = -1;

	/* Empty: the broker's own, which may be another after its next start. */
	if (o->type == OPTION_WINDOW && !c->is_topic && strcmp(value, "queued") == 0)
		ms = PUBLISH_IDS_QUEUED_MS;
	else if (o->type != OPTION_WINDOW || value[0])
		if (duration_parse(slice_from(value), &ms) < 0 || ms < (int64_t)o->min ||
		    ms > (int64_t)o->max)
			return false;
	*(int64_t *)((char *)c + o->offset) = ms;
	return true;
}

static bool set_groups(struct queue_config *c, const char *value)
{
	c->keep_unread = mem_strdup(value);
	return name_list_is(slice_from(value));
}

static bool set_compact(struct queue_config *c, const char *value)
{
	c->compacts = strcmp(value, "key") == 0;
	return c->compacts || !value[0];
}

static bool set_option(struct queue_config *c, const struct queue_option *o,
		       const char *value)
{
	switch (o->type) {
	case OPTION_BOOL:
	case OPTION_UINT:
	case OPTION_RESHARD:
		return set_number(c, o, value);
	case OPTION_WINDOW:
	case OPTION_DURATION:
		return set_duration(c, o, value);
	case OPTION_SCRIPT:
		c->scripts[o->offset] = mem_strdup(value);
		return slice_is_name(slice_from(value));
	case OPTION_TARGET:
		return set_target(c, value);
	case OPTION_ORDER:
		return set_order(c, value);
	case OPTION_AMOUNT:
		return set_count(c, o, value);
	case OPTION_CHOICE:
		return set_choice(c, o, value);
	case OPTION_RATE:
		return set_rate(c, o, value);
	case OPTION_GROUPS:
		return set_groups(c, value);
	case OPTION_COMPACT:
		return set_compact(c, value);
	}
	return false;
}

static enum option_kinds kind_of(const struct queue_config *c)
{
	return c->is_topic ? OF_TOPIC : OF_QUEUE;
}

/* It takes it, or something else does, or nothing. */
static int refuse_unknown(const struct queue_config *c, const char *name, bool is_other,
			  struct error *err)
{
	struct buf all = { 0 };
	int rc;

	for (size_t i = 0; i < OPTIONS; i++)
		if (options[i].kinds & kind_of(c))
			buf_printf(&all, "%s ", options[i].name);
	buf_printf(&all, "update and sharding.* %sretry.* for the options of the scripts",
		   c->is_topic ? "" : "priority.* ");
	if (is_other)
		rc = error_set(err, TIDE_ESYNTAX,
			       "'%.64s' is an option of %s: %s takes %s", name,
			       c->is_topic ? "queues" : "topics",
			       c->is_topic ? "a topic" : "a queue", buf_cstr(&all));
	else
		rc = error_set(err, TIDE_ESYNTAX,
			       "a %s has no option '%.64s'; it takes: %s",
			       c->is_topic ? "topic" : "queue", name, buf_cstr(&all));
	buf_deinit(&all);
	return rc;
}

static const struct queue_option *find_option(const char *name, enum option_kinds kinds)
{
	for (size_t i = 0; i < OPTIONS; i++)
		if (options[i].kinds & kinds && strcmp(options[i].name, name) == 0)
			return &options[i];
	return NULL;
}

/* The option that names the script which "retry.base" is for; NULL: no option of a
 * script has such a name. */
static const struct queue_option *script_of(const char *name)
{
	size_t len = strcspn(name, ".");

	for (size_t i = 0; i < OPTIONS; i++)
		if (options[i].type == OPTION_SCRIPT && name[len] && name[len + 1] &&
		    strncmp(name, options[i].name, len) == 0 && !options[i].name[len])
			return &options[i];
	return NULL;
}

/* Hand "retry.base" to the retry script. What is left is no option. */
static int set_script_arg(struct queue_config *c, const struct arg *a, struct error *err)
{
	const struct queue_option *o = script_of(a->name);
	struct slice name, value = { a->value, a->value_len };

	if (!o || !(o->kinds & kind_of(c)))
		return refuse_unknown(c, a->name, o || find_option(a->name, OF_BOTH),
				      err);
	name = slice_from(a->name + strlen(o->name) + 1);
	if (args_add(&c->script_args[o->offset], name, value) < 0)
		return error_set(err, TIDE_ESYNTAX, "option '%s' appears twice", a->name);
	return args_add(&c->canonical, slice_from(a->name), value);
}

/* What an option has that is not given. */
static const char *fallback(const struct queue_option *o, const struct args *args)
{
	const char *order_by = args_get(args, "order-by");
	const char *compact = args_get(args, "compact");

	if (order_by && order_by[0] && strcmp(o->name, "inflight") == 0)
		return "1";
	/* The last message of a key is worth keeping, however old. */
	if (compact && compact[0] && strcmp(o->name, "retention") == 0)
		return "0";
	return o->fallback;
}

/* The shipped scripts that keep what they shard by together. Of others it is not known.
 */
static bool keeps_together(const struct queue_config *c, const char *by)
{
	const char *script = c->scripts[SCRIPT_SHARDING];
	const char *has = args_get(&c->script_args[SCRIPT_SHARDING], "by");

	return (strcmp(script, "hash") == 0 || strcmp(script, "consistent") == 0) &&
	       strcmp(has ? has : "key", by) == 0;
}

/* A group needs all of its messages in one shard. */
static int check_order(struct queue_config *c, struct error *err)
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
static int check_together(const struct queue_config *c, struct error *err)
{
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

static int refuse_value(const struct queue_option *o, const char *value,
			struct error *err)
{
	return error_set(err, TIDE_ESYNTAX, "%s=%s: expected %s", o->name, value,
			 o->expected);
}

int queue_config_check_option(bool is_topic, const struct arg *a, struct error *err)
{
	struct queue_config c = { .is_topic = is_topic };
	const struct queue_option *o = find_option(a->name, kind_of(&c));
	int rc = TIDE_OK;

	if (!o)
		rc = set_script_arg(&c, a, err);
	else if (!set_option(&c, o, a->value))
		rc = refuse_value(o, a->value, err);
	queue_config_deinit(&c);
	return rc;
}

static int set_options(struct queue_config *c, const struct args *args, struct error *err)
{
	int rc = TIDE_OK;

	for (size_t i = 0; i < args->count && rc == TIDE_OK; i++)
		if (!find_option(args->items[i].name, kind_of(c)))
			rc = set_script_arg(c, &args->items[i], err);
	for (size_t i = 0; i < OPTIONS && rc == TIDE_OK; i++) {
		const struct queue_option *o = &options[i];
		const char *given = args_get(args, o->name);
		const char *value = given ? given : fallback(o, args);

		if (!(o->kinds & kind_of(c)))
			continue;
		c->given |= given ? UINT64_C(1) << i : 0;
		if (!set_option(c, o, value))
			rc = refuse_value(o, value, err);
		else if (args_add(&c->canonical, slice_from(o->name), slice_from(value)) <
			 0)
			rc = error_set(err, TIDE_ETOOLONG, "too many options");
	}
	return rc;
}

static int parse(struct queue_config *c, const struct args *args, struct error *err)
{
	int rc = set_options(c, args, err);

	if (rc == TIDE_OK && c->ack_timeout_ms > c->ack_timeout_max_ms)
		rc = error_set(err, TIDE_ESYNTAX,
			       "ack-timeout=%s is longer than ack-timeout-max=%s",
			       args_get(&c->canonical, "ack-timeout"),
			       args_get(&c->canonical, "ack-timeout-max"));
	if (rc == TIDE_OK)
		rc = check_order(c, err);
	if (rc == TIDE_OK)
		rc = check_together(c, err);
	if (rc < 0) {
		queue_config_deinit(c);
		return rc;
	}
	args_sort(&c->canonical);
	return TIDE_OK;
}

int queue_config_parse(struct queue_config *c, const struct args *args, struct error *err)
{
	*c = (struct queue_config){ 0 };
	return parse(c, args, err);
}

int queue_config_parse_topic(struct queue_config *c, const struct args *args,
			     struct error *err)
{
	*c = (struct queue_config){ .is_topic = true };
	return parse(c, args, err);
}

void queue_config_deinit(struct queue_config *c)
{
	for (int i = 0; i < SCRIPT_KIND_COUNT; i++) {
		mem_free(c->scripts[i]);
		args_deinit(&c->script_args[i]);
	}
	mem_free(c->order_header);
	mem_free(c->keep_unread);
	mem_free(c->dead_exchange);
	mem_free(c->dead_key);
	args_deinit(&c->canonical);
	*c = (struct queue_config){ 0 };
}

static void set_shards(struct queue_config *c, unsigned shards, unsigned reshard)
{
	char text[16];

	c->shards = shards;
	c->reshard = reshard;
	snprintf(text, sizeof(text), "%u", shards);
	args_set(&c->canonical, "shards", text);
	snprintf(text, sizeof(text), "%u", reshard);
	args_set(&c->canonical, "reshard", text);
}

void queue_config_reshard(struct queue_config *c, unsigned shards)
{
	unsigned had = queue_config_shards(c);

	set_shards(c, shards, had > shards ? had : shards);
}

int queue_config_take_reshard(struct queue_config *c, bool *is_given, struct error *err)
{
	if (c->reshard > 1)
		return error_set(err, TIDE_ESYNTAX, "reshard=%u: expected 0 or 1",
				 c->reshard);
	*is_given = c->reshard;
	set_shards(c, c->shards, 0);
	return TIDE_OK;
}

bool queue_config_is_default(const struct arg *a)
{
	const struct queue_option *o = find_option(a->name, OF_BOTH);

	return o && strcmp(o->fallback, a->value) == 0;
}

static bool is_same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool is_same(const struct queue_option *o, const struct queue_config *a,
		    const struct queue_config *b)
{
	const char *x = (const char *)a + o->offset, *y = (const char *)b + o->offset;

	switch (o->type) {
	case OPTION_BOOL:
	case OPTION_COMPACT:
		return *(const bool *)x == *(const bool *)y;
	case OPTION_UINT:
	case OPTION_CHOICE:
		return *(const uint32_t *)x == *(const uint32_t *)y;
	case OPTION_DURATION:
	case OPTION_RATE:
	case OPTION_WINDOW:
		return *(const int64_t *)x == *(const int64_t *)y;
	case OPTION_RESHARD:
		return true; /* no part of what a queue is */
	case OPTION_SCRIPT:
		return is_same_text(a->scripts[o->offset], b->scripts[o->offset]);
	case OPTION_AMOUNT:
		return *(const uint64_t *)x == *(const uint64_t *)y;
	case OPTION_TARGET:
		return is_same_text(a->dead_exchange, b->dead_exchange) &&
		       is_same_text(a->dead_key, b->dead_key);
	case OPTION_ORDER:
		return a->order_by == b->order_by &&
		       is_same_text(a->order_header, b->order_header);
	case OPTION_GROUPS:
		return name_list_is_same(slice_from(a->keep_unread),
					 slice_from(b->keep_unread));
	}
	return false;
}

static const char *shown_value(const struct queue_config *c, const char *name)
{
	const char *value = args_get(&c->canonical, name);

	return value && value[0] ? value : "(none)";
}

/* Those that cannot change while the queue or topic is in use, and why not. All others
 * can. */
static const struct {
	enum option_kinds kinds;
	const char *name, *why;
} fixed[] = {
	{ OF_BOTH, "durable", "messages do not move between memory and Redis" },
	{ OF_QUEUE, "exclusive", "whose it is does not change" },
	{ OF_QUEUE, "order-by", "its groups count their messages from the first on" },
	{ OF_QUEUE, "inflight", "its groups count their messages from the first on" },
	{ OF_TOPIC, "partitions", "each key has its messages in one partition" },
	{ OF_TOPIC, "sharding", "each key has its messages in one partition" },
	{ OF_TOPIC, "order", "its groups hold messages by it" },
	{ OF_TOPIC, "compact", "it decides from the first message on which are kept" },
};

/* NULL: it can change. */
static const char *why_fixed(enum option_kinds kinds, const char *name)
{
	for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
		if (fixed[i].kinds & kinds && strcmp(fixed[i].name, name) == 0)
			return fixed[i].why;
	return NULL;
}

const char *queue_config_why_fixed(bool is_topic, const char *name)
{
	return why_fixed(is_topic ? OF_TOPIC : OF_QUEUE, name);
}

#define HINT "; the option update changes that"

static void format_window(int64_t ms, char out[DURATION_TEXT_MAX])
{
	if (ms == PUBLISH_IDS_QUEUED_MS)
		snprintf(out, DURATION_TEXT_MAX, "queued");
	else
		duration_format(ms, out);
}

/* Whoever does not say how long gets what the broker says. */
static int64_t window_of(const struct queue_config *c, int64_t dedupe_ms)
{
	return c->dedupe_ms < 0 ? dedupe_ms : c->dedupe_ms;
}

static int compare_windows(int64_t has_ms, int64_t wanted_ms, struct error *err)
{
	char has[DURATION_TEXT_MAX], wanted[DURATION_TEXT_MAX];

	if (has_ms == wanted_ms)
		return TIDE_OK;
	format_window(has_ms, has);
	format_window(wanted_ms, wanted);
	return error_set(err, TIDE_EMISMATCH, "it has dedupe=%s, not dedupe=%s" HINT, has,
			 wanted);
}

static int refuse_option(const struct queue_option *o, const struct queue_config *has,
			 const struct queue_config *wanted, struct error *err)
{
	return error_set(err, TIDE_EMISMATCH, "it has %s=%s, not %s=%s%s", o->name,
			 shown_value(has, o->name), o->name, shown_value(wanted, o->name),
			 why_fixed(kind_of(has), o->name) ? "" : HINT);
}

int queue_config_compare(const struct queue_config *has,
			 const struct queue_config *wanted, bool is_given,
			 int64_t dedupe_ms, struct error *err)
{
	int rc = TIDE_OK;

	for (size_t i = 0; i < OPTIONS && rc == TIDE_OK; i++) {
		const struct queue_option *o = &options[i];

		if (!(o->kinds & kind_of(has)) ||
		    (wanted->given >> i & 1) != (uint64_t)is_given)
			continue;
		if (o->type == OPTION_WINDOW)
			rc = compare_windows(window_of(has, dedupe_ms),
					     window_of(wanted, dedupe_ms), err);
		else if (!is_same(o, has, wanted))
			rc = refuse_option(o, has, wanted, err);
	}
	return rc;
}

bool queue_config_is_same(const struct queue_config *a, const struct queue_config *b,
			  const char *name)
{
	for (size_t i = 0; i < OPTIONS; i++)
		if (options[i].kinds & kind_of(a) && !is_same(&options[i], a, b) &&
		    (!name || strcmp(options[i].name, name) == 0))
			return false;
	return true;
}

/* ---- changes --------------------------------------------------------------------- */

/* Of a script that the queue has no more: "retry.base" behind another retry. */
static bool is_of_former(const struct queue_config *has, const struct args *given,
			 const char *name)
{
	const struct queue_option *o = script_of(name);
	const char *script = o ? args_get(given, o->name) : NULL;

	return script &&
	       strcmp(script[0] ? script : o->fallback, has->scripts[o->offset]) != 0;
}

static bool is_own(const struct arg *a)
{
	return !queue_config_is_default(a) && strcmp(a->name, "reshard") != 0;
}

static int check_name(const struct queue_config *has, const struct arg *a,
		      struct error *err)
{
	if (find_option(a->name, kind_of(has)) || strchr(a->name, '.'))
		return TIDE_OK;
	return refuse_unknown(has, a->name, find_option(a->name, OF_BOTH) != NULL, err);
}

int queue_config_merge(const struct queue_config *has, const struct args *given,
		       struct args *out, struct error *err)
{
	int rc = TIDE_OK;

	*out = (struct args){ 0 };
	for (size_t i = 0; i < has->canonical.count && rc == TIDE_OK; i++) {
		const struct arg *a = &has->canonical.items[i];

		if (is_own(a) && !args_get(given, a->name) &&
		    !is_of_former(has, given, a->name))
			rc = args_add(out, slice_from(a->name),
				      (struct slice){ a->value, a->value_len });
	}
	for (size_t i = 0; i < given->count && rc == TIDE_OK; i++) {
		const struct arg *a = &given->items[i];

		if (a->value_len > 0)
			rc = args_add(out, slice_from(a->name),
				      (struct slice){ a->value, a->value_len });
		else if (check_name(has, a, err) < 0)
			goto fail;
	}
	if (rc == TIDE_OK)
		return TIDE_OK;
	error_set(err, rc, "too many options");
fail:
	args_deinit(out);
	return err->code;
}

static int refuse_change(const struct queue_config *has, const char *name,
			 const char *why, struct error *err)
{
	return error_set(err, TIDE_EMISMATCH, "it keeps %s=%s, because %s", name,
			 shown_value(has, name), why);
}

static int check_sharding(const struct queue_config *has, const struct queue_config *next,
			  bool is_sharded_anew, struct error *err)
{
	static const char why[] = "with order-by= what is at work in one shard holds "
				  "back its group";

	if (has->is_topic && is_sharded_anew)
		return refuse_change(has, "sharding", why_fixed(OF_TOPIC, "sharding"),
				     err);
	if (has->order_by == ORDER_NONE)
		return TIDE_OK;
	if (has->shards != next->shards)
		return refuse_change(has, "shards", why, err);
	return is_sharded_anew && has->shards > 1
		       ? refuse_change(has, "sharding", why, err)
		       : TIDE_OK;
}

int queue_config_check_change(const struct queue_config *has,
			      const struct queue_config *next, bool is_sharded_anew,
			      struct error *err)
{
	for (size_t i = 0; i < OPTIONS; i++) {
		const struct queue_option *o = &options[i];
		const char *why = why_fixed(kind_of(has), o->name);

		if (o->kinds & kind_of(has) && why && !is_same(o, has, next))
			return refuse_change(has, o->name, why, err);
	}
	if ((has->dedupe_ms == PUBLISH_IDS_QUEUED_MS) !=
	    (next->dedupe_ms == PUBLISH_IDS_QUEUED_MS))
		return refuse_change(has, "dedupe",
				     "an id is remembered for a time, or with its "
				     "message, from its publish on",
				     err);
	return check_sharding(has, next, is_sharded_anew, err);
}
