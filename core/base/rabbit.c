#include "rabbit.h"

#include "duration.h"

#define ALL (RABBIT_QUEUE | RABBIT_STREAM | RABBIT_EXCHANGE)
#define QUEUES (RABBIT_QUEUE | RABBIT_STREAM)

static const char *const exchange_types[][2] = {
	{ "x-random", "random" },
	{ "x-consistent-hash", "consistent-hash" },
};

static const struct argument {
	unsigned kinds;
	const char *theirs;
	const char *ours;  /* NULL: it says nothing here, or rabbit_queue_ends reads it */
	const char *unit;  /* behind the value */
	const char *fixed; /* the value, whatever it is; of a boolean: if it is true */
} arguments[] = {
	{ RABBIT_QUEUE, "x-message-ttl", "ttl", "ms", NULL },
	{ RABBIT_QUEUE, "x-expires", "expires", "ms", NULL },
	{ RABBIT_QUEUE, "x-max-length", "max-length", "", NULL },
	{ RABBIT_QUEUE, "x-max-length-bytes", "max-bytes", "", NULL },
	{ RABBIT_QUEUE, "x-delivery-limit", "delivery-limit", "", NULL },
	{ RABBIT_QUEUE, "x-max-priority", "priority", "", "strict" },
	{ RABBIT_QUEUE, "x-single-active-consumer", "single-active", "", "1" },
	{ RABBIT_QUEUE, "x-consumer-timeout", "ack-timeout", "ms", NULL },
	{ RABBIT_STREAM, "x-max-age", "retention", "", NULL },
	{ RABBIT_STREAM, "x-max-length-bytes", "retention-bytes", "", NULL },
	{ RABBIT_EXCHANGE, "alternate-exchange", "alternate", "", NULL },
	{ RABBIT_EXCHANGE, "hash-header", "by", "", NULL },
	{ RABBIT_EXCHANGE, "x-delayed-type", NULL, "", NULL },
	{ RABBIT_QUEUE, "x-dead-letter-exchange", NULL, "", NULL },
	{ RABBIT_QUEUE, "x-dead-letter-routing-key", NULL, "", NULL },
	{ RABBIT_QUEUE, "x-overflow", NULL, "", NULL },
	{ QUEUES, "x-queue-type", NULL, "", NULL },
	/* RabbitMQ's ways to keep a queue; there is only one way here. */
	{ QUEUES, "x-queue-mode", NULL, "", NULL },
	{ QUEUES, "x-queue-version", NULL, "", NULL },
	{ QUEUES, "x-queue-leader-locator", NULL, "", NULL },
	{ QUEUES, "x-queue-master-locator", NULL, "", NULL },
	{ QUEUES, "x-quorum-initial-group-size", NULL, "", NULL },
	{ QUEUES, "x-initial-cluster-size", NULL, "", NULL },
	{ QUEUES, "x-dead-letter-strategy", NULL, "", NULL },
	{ QUEUES, "x-stream-max-segment-size-bytes", NULL, "", NULL },
};
#define ARGUMENTS (sizeof(arguments) / sizeof(arguments[0]))

const char *rabbit_exchange_type(const char *theirs, const char *delayed)
{
	if (strcmp(theirs, RABBIT_DELAYED) == 0 && *delayed)
		theirs = delayed;
	for (size_t i = 0; i < sizeof(exchange_types) / sizeof(exchange_types[0]); i++)
		if (strcmp(exchange_types[i][0], theirs) == 0)
			return exchange_types[i][1];
	return theirs;
}

static const struct argument *find(unsigned kinds, struct slice name)
{
	for (size_t i = 0; i < ARGUMENTS; i++)
		if (arguments[i].kinds & kinds && slice_is(name, arguments[i].theirs))
			return &arguments[i];
	return NULL;
}

bool rabbit_argument(enum rabbit_kind kind, struct slice name, struct slice value,
		     struct args *out)
{
	const struct argument *a = find(kind, name);
	struct buf text = { 0 };
	uint64_t n;
	bool is_good = true;

	/* Arguments of other kinds of queues say nothing of this one. */
	if (!a && kind != RABBIT_EXCHANGE)
		return find(QUEUES, name) != NULL;
	if (!a || !a->ours || (a->fixed && slice_is(value, "false")))
		return a != NULL;
	if (a->fixed)
		return args_add(out, slice_from(a->ours), slice_from(a->fixed)) ==
		       TIDE_OK;
	buf_append_slice(&text, value);
	/* A time to live of 0 is short, and 0 is none here. */
	if (strcmp(a->unit, "ms") == 0 && slice_to_uint(value, UINT64_MAX, &n) && n == 0)
		buf_append_text(&text, "1");
	buf_append_text(&text, a->unit);
	is_good = args_add(out, slice_from(a->ours), buf_slice(&text)) == TIDE_OK;
	buf_deinit(&text);
	return is_good;
}

static void set(struct args *out, const char *name, struct slice value)
{
	/* The name is new, and the value has no zero byte unless a client is odd. */
	if (args_add(out, slice_from(name), value) < 0)
		args_set(out, name, "?");
}

void rabbit_queue_ends(rabbit_value_fn *value, const void *ctx, struct args *out)
{
	struct slice exchange = value(ctx, "x-dead-letter-exchange"),
		     key = value(ctx, "x-dead-letter-routing-key"),
		     overflow = value(ctx, "x-overflow");
	struct buf target = { 0 };

	if (exchange.data) {
		buf_append_slice(&target, exchange.len ? exchange : SLICE("-"));
		if (key.len)
			buf_append_char(&target, '/');
		buf_append_slice(&target, key);
		set(out, "dead-letter", buf_slice(&target));
	}
	buf_deinit(&target);
	if (slice_has_prefix(overflow, "reject-publish"))
		return; /* as by default */
	if (overflow.data && !slice_is(overflow, "drop-head"))
		set(out, "overflow", overflow);
	else if (args_get(out, "max-length") || args_get(out, "max-bytes"))
		set(out, "overflow",
		    exchange.data ? SLICE("dead-letter") : SLICE("drop-head"));
}

bool rabbit_has_option(struct slice option)
{
	static const char *const others[] = { "durable",     "exclusive", "auto-delete",
					      "dead-letter", "overflow",  "internal" };

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (slice_is(option, others[i]))
			return true;
	for (size_t i = 0; i < ARGUMENTS; i++)
		if (arguments[i].ours && slice_is(option, arguments[i].ours))
			return true;
	return false;
}
