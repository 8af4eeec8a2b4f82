/* queue_config.h: what DECLARE says of a queue or a topic, read, checked and written out.
 *
 * The one table of their options is in queue_config.c. Options with a dot
 * ("retry.base") belong to the script that the option before the dot names,
 * and are checked by that script's declarations. */
#pragma once

#include "base/args.h"
#include "rules/engine/engine.h"
#include "shard/order.h"

#define QUEUE_SHARDS_MAX 64

/* What a queue does with what is too much. */
enum queue_overflow {
	QUEUE_OVERFLOW_REJECT, /* publishes are refused */
	QUEUE_OVERFLOW_DROP_HEAD,
	QUEUE_OVERFLOW_DEAD_LETTER,
	QUEUE_OVERFLOW_DROP_LOWEST,
	QUEUE_OVERFLOW_DEAD_LETTER_LOWEST,
};

static inline bool queue_overflow_is_dead_letter(unsigned overflow)
{
	return overflow == QUEUE_OVERFLOW_DEAD_LETTER ||
	       overflow == QUEUE_OVERFLOW_DEAD_LETTER_LOWEST;
}

/* The last messages go, not the first. */
static inline bool queue_overflow_is_lowest(unsigned overflow)
{
	return overflow >= QUEUE_OVERFLOW_DROP_LOWEST;
}

/* What a queue is that its `expires` deletes. */
enum queue_expires_if {
	QUEUE_EXPIRES_UNUSED,
	QUEUE_EXPIRES_EMPTY, /* that, and it has no message in any state */
};

struct queue_config {
	bool is_topic; /* what it does not take has the value that does nothing */
	bool is_durable;
	bool is_exclusive;
	bool is_auto_delete;
	bool is_single_active; /* one subscription at a time gets its messages */
	unsigned shards;  /* that new messages are placed in; partitions of a topic */
	unsigned reshard; /* the most that it has had, after a reshard; 0: there was none
			   */
	int64_t ack_timeout_ms;
	int64_t ack_timeout_max_ms; /* of all that ask for another one */
	int64_t dedupe_ms; /* how long publish ids are remembered; -1 = as the broker says
			    */
	int64_t expires_ms;      /* it goes when it was not used for so long; 0 = never */
	unsigned expires_if;     /* enum queue_expires_if */
	int64_t rate_ns;         /* between two deliveries; 0 = any number at once */
	uint64_t max_length;     /* messages that may wait; 0 = any number */
	uint64_t max_bytes;      /* of their payloads; likewise */
	unsigned overflow;       /* enum queue_overflow */
	int64_t ttl_ms;          /* how long messages live in it; 0 = no limit */
	uint32_t delivery_limit; /* failures after which it is dead-lettered; 0 = none */
	enum order_by order_by;
	char *order_header;   /* of ORDER_HEADER */
	uint32_t inflight;    /* of a group; 0 without order-by */
	uint32_t death_limit; /* deaths after which it is buried, whatever the target */
	char *dead_exchange;  /* NULL: no target; "" = the default exchange */
	char *dead_key;       /* NULL: the message keeps its key */
	/* Of a topic. */
	bool keeps_order; /* a message that waits to be tried again holds up its partition
			   */
	bool compacts;    /* the last message of each key is kept */
	int64_t retention_ms;     /* how long messages are kept; 0 = for ever */
	uint64_t retention_bytes; /* of each partition; 0 = any number; likewise */
	uint64_t retention_count;
	char *keep_unread;                /* groups, separated by commas; "" for none */
	char *scripts[SCRIPT_KIND_COUNT]; /* sharding, priority, retry */
	struct args
		script_args[SCRIPT_KIND_COUNT]; /* their options, without the prefix */
	uint64_t given;        /* bits of the options that are not left out */
	struct args canonical; /* every option with its effective value, sorted */
};

/* TIDE_ESYNTAX with what is wrong and what is allowed; nothing is owned then. */
TIDE_MUST_USE int queue_config_parse(struct queue_config *c, const struct args *args,
				     struct error *err);
/* The same for what DECLARE topic says. */
TIDE_MUST_USE int queue_config_parse_topic(struct queue_config *c,
					   const struct args *args, struct error *err);
/* Those that may have messages. */
static inline unsigned queue_config_shards(const struct queue_config *c)
{
	return c->reshard > c->shards ? c->reshard : c->shards;
}
/* Another number of shards, which keeps those that there are. */
void queue_config_reshard(struct queue_config *c, unsigned shards);
/* DECLARE says `reshard`, which is a flag and no part of what the queue is: it is taken
 * out of the configuration. TIDE_ESYNTAX */
TIDE_MUST_USE int queue_config_take_reshard(struct queue_config *c, bool *is_given,
					    struct error *err);
/* Is this an option, and its value one? Regardless of other options. TIDE_ESYNTAX */
TIDE_MUST_USE int queue_config_check_option(bool is_topic, const struct arg *a,
					    struct error *err);
/* Why the option cannot change while the queue or topic is in use; NULL: it can. */
const char *queue_config_why_fixed(bool is_topic, const char *name);
/* The value is what the option has when nobody gives it. */
bool queue_config_is_default(const struct arg *a);
void queue_config_deinit(struct queue_config *c);
/* Name the first option in which they differ, with both values; TIDE_OK when there is
 * none. The options of the scripts are the scripts' business (strategy_differs).
 *
 * @param is_given   look at those that `wanted` gives; false: at the others
 * @param dedupe_ms  what the broker says for queues that do not */
TIDE_MUST_USE int queue_config_compare(const struct queue_config *has,
				       const struct queue_config *wanted, bool is_given,
				       int64_t dedupe_ms, struct error *err);

/* They do the same, but for what the options of their scripts say.
 * @param name  look at this option; NULL: at all */
bool queue_config_is_same(const struct queue_config *a, const struct queue_config *b,
			  const char *name);

/* What it was declared with, as the options that do not have their defaults, and others
 * over them. A value without text is the default; with another script the options of the
 * former one go. `out` holds nothing before, and nothing after a failure. */
TIDE_MUST_USE int queue_config_merge(const struct queue_config *has,
				     const struct args *given, struct args *out,
				     struct error *err);
/* May a queue or topic in use change so? TIDE_EMISMATCH names an option and says why not.
 * @param is_sharded_anew  by another script, or by other options of it */
TIDE_MUST_USE int queue_config_check_change(const struct queue_config *has,
					    const struct queue_config *next,
					    bool is_sharded_anew, struct error *err);

/* "<exchange>/<key>": `exchange` is empty for the default one, `key` where there is none.
 * False: it is not well formed. */
bool queue_config_read_target(struct slice value, struct slice *exchange,
			      struct slice *key);
