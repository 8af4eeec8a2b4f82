/* config.h: the options of a queue, a topic or an exchange: read, checked, compared and
 * written.
 *
 * Each option is a row of the table in config.c; who adds one adds a row (and a field
 * here). Options with a dot ("retry.base") belong to the script that the option before
 * the dot names; an exchange hands all names without a row to its routing script. The
 * scripts' declarations check those. */
#pragma once

#include "base/args.h"
#include "base/json.h"
#include "base/option.h"
#include "rules/engine/engine.h"
#include "shard/order.h"

#define QUEUE_SHARDS_MAX 64

/* The reaction of a queue to a publish that exceeds a limit. */
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

/* The state of a queue that its `expires` deletes. */
enum queue_expires_if {
	QUEUE_EXPIRES_UNUSED,
	QUEUE_EXPIRES_EMPTY, /* unused, and without a message in any state */
};

/* Bits: an option has a set of them. */
enum config_kind {
	CONFIG_QUEUE = 1,
	CONFIG_TOPIC = 2,
	CONFIG_EXCHANGE = 4,
};

/* Scripts that options name: routing (of an exchange, by its type), sharding, priority,
 * retry. */
#define CONFIG_SCRIPTS (SCRIPT_RETRY + 1)

/* An option that the kind lacks has the value that does nothing. */
struct config {
	enum config_kind kind;
	bool is_durable;
	bool is_exclusive;
	bool is_auto_delete;
	bool is_single_active; /* one subscription at a time gets its messages */
	bool keeps_order; /* of a topic: a message that waits to be tried again holds up
			   * its partition */
	bool compacts;    /* of a topic: the last message of each key is kept */
	bool is_internal; /* of an exchange: clients do not publish to it */
	unsigned shards;  /* that new messages are placed in; partitions of a topic */
	unsigned reshard; /* the most shards there were, after a reshard; 0: none was */
	unsigned expires_if;     /* enum queue_expires_if */
	unsigned overflow;       /* enum queue_overflow */
	uint32_t delivery_limit; /* failures after which it is dead-lettered; 0 = none */
	uint32_t inflight;       /* of a group; 0 without order-by */
	uint32_t death_limit; /* deaths after which it is buried, whatever the target */
	enum order_by order_by;
	int64_t ack_timeout_ms;
	int64_t ack_timeout_max_ms; /* the longest that may be asked for */
	int64_t dedupe_ms;    /* memory of publish ids; -1 = the broker's own default */
	int64_t expires_ms;   /* it goes when it was not used for so long; 0 = never */
	int64_t rate_ns;      /* between two deliveries; 0 = any number at once */
	int64_t ttl_ms;       /* how long messages live in it; 0 = no limit */
	uint64_t max_length;  /* messages that may wait; 0 = any number */
	uint64_t max_bytes;   /* of their payloads; likewise */
	int64_t retention_ms; /* how long messages are kept; 0 = for ever */
	uint64_t retention_bytes; /* of each partition; 0 = any number */
	uint64_t retention_count; /* likewise */
	uint32_t rehearsed;       /* of a test: see TIDE_REHEARSAL */
	char *order_header;       /* of ORDER_HEADER */
	char *dead_exchange;      /* NULL: no target; "" = the default exchange */
	char *dead_key;           /* NULL: the message keeps its key */
	char *keep_unread;        /* groups, separated by commas; "" for none */
	char *alternate; /* the exchange of messages that lead nowhere; NULL: none */
	char *scripts[CONFIG_SCRIPTS];           /* their names; of an exchange NULL */
	struct args script_args[CONFIG_SCRIPTS]; /* their options, without the prefix */
	uint64_t given;        /* bits of the rows that are not left out */
	struct args canonical; /* every option with its effective value, sorted */
};

/* Read what DECLARE says. TIDE_ESYNTAX with what is wrong and what is allowed; nothing is
 * owned then. */
TIDE_MUST_USE int config_parse(struct config *c, enum config_kind kind,
			       const struct args *args, struct error *err);
void config_deinit(struct config *c);
/* Append the text that Redis keeps: "durable=1 shards=4 …", of an exchange without the
 * defaults of newer options. */
void config_format(const struct config *c, struct buf *out);
/* The options that do not have their defaults, as DECLARE takes them, sorted. */
void config_options(const struct config *c, struct args *out);

/* The same as a member of a document. */
void config_write(const char *name, const struct config *c, struct json *j);

/* The number of shards that may have messages. */
static inline unsigned config_shards(const struct config *c)
{
	return c->reshard > c->shards ? c->reshard : c->shards;
}
/* Another number of shards, beside the ones that there are. */
void config_reshard(struct config *c, unsigned shards);
/* DECLARE says `reshard`, a flag and no part of the queue: take it out. TIDE_ESYNTAX */
TIDE_MUST_USE int config_take_reshard(struct config *c, bool *is_given,
				      struct error *err);
/* Is the value the one of an option that nobody gives? */
bool config_is_default(const struct config *c, const struct arg *a);
/* Was the option given, by DECLARE or by a policy? */
bool config_is_given(const struct config *c, const char *name);
/* Name the first option in which two differ, with both values; TIDE_OK when there is
 * none. Options of scripts are compared by their declarations (strategy_differs,
 * index_differs).
 *
 * @param is_given   look at the options that `wanted` gives; false: at the others
 * @param dedupe_ms  the broker's default of `dedupe` */
TIDE_MUST_USE int config_compare(const struct config *has, const struct config *wanted,
				 bool is_given, int64_t dedupe_ms, struct error *err);
/* Are they the same, apart from the options of scripts?
 * @param name  look at this option; NULL: at all */
bool config_is_same(const struct config *a, const struct config *b, const char *name);
/* Put given options over those of an existing one: `out` is what DECLARE would take. A
 * value without text is the default; with another script the options of the former one
 * go. `out` holds nothing before, and nothing after a failure. */
TIDE_MUST_USE int config_merge(const struct config *has, const struct args *given,
			       struct args *out, struct error *err);
/* May something in use change so? TIDE_EMISMATCH names an option and says why not.
 * @param is_sharded_anew  by another script, or by other options of it */
TIDE_MUST_USE int config_check_change(const struct config *has, const struct config *next,
				      bool is_sharded_anew, struct error *err);
#define CONFIG_EXCHANGE_POLICY                                            \
	"a policy sets auto-delete, internal and alternate; it can only " \
	"refuse durable and the options of a type, because bindings are " \
	"kept and indexed by them"
/* May a policy (declare/) set this option to this value? Other options may still refuse
 * it. TIDE_ESYNTAX */
TIDE_MUST_USE int config_check_policy(enum config_kind kind, const struct arg *a,
				      struct error *err);
/* Does the option say where messages lie? Policies cannot decide it. */
bool config_is_of_place(const struct arg *a);

/* The documents' table of a kind. */
void config_document_queue(struct buf *out);
void config_document_topic(struct buf *out);
void config_document_exchange(struct buf *out);

/* "<exchange>/<key>": `exchange` is empty for the default one, `key` where there is none.
 * False: it is not well formed. */
bool config_read_target(struct slice value, struct slice *exchange, struct slice *key);
