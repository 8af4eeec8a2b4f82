#include "queue_config.h"

#include <stdlib.h>

#include "base/duration.h"
#include "base/mem.h"

#define ACK_TIMEOUT_MAX_MS (INT64_C(24) * 3600 * 1000)
#define DELIVERY_LIMIT_MAX 1000000
#define DEDUPE_MAX_MS (INT64_C(24) * 3600 * 1000)

enum option_type {
	OPTION_BOOL,
	OPTION_UINT,
	OPTION_DURATION,
	OPTION_WINDOW,
	OPTION_SCRIPT,
	OPTION_TARGET
};

struct queue_option {
	const char *name;
	const char *fallback;
	enum option_type type;
	size_t offset;
	uint64_t min, max;
};

#define FIELD(name) offsetof(struct queue_config, name)

static const struct queue_option options[] = {
	{ "durable", "1", OPTION_BOOL, FIELD(is_durable), 0, 1 },
	{ "exclusive", "0", OPTION_BOOL, FIELD(is_exclusive), 0, 1 },
	{ "auto-delete", "0", OPTION_BOOL, FIELD(is_auto_delete), 0, 1 },
	{ "shards", "1", OPTION_UINT, FIELD(shards), 1, QUEUE_SHARDS_MAX },
	{ "sharding", "hash", OPTION_SCRIPT, SCRIPT_SHARDING, 0, 0 },
	{ "priority", "fifo", OPTION_SCRIPT, SCRIPT_PRIORITY, 0, 0 },
	{ "retry", "immediate", OPTION_SCRIPT, SCRIPT_RETRY, 0, 0 },
	{ "ack-timeout", "60s", OPTION_DURATION, FIELD(ack_timeout_ms), 10,
	  ACK_TIMEOUT_MAX_MS },
	{ "delivery-limit", "20", OPTION_UINT, FIELD(delivery_limit), 0,
	  DELIVERY_LIMIT_MAX },
	{ "dead-letter", "", OPTION_TARGET, 0, 0, 0 },
	{ "dedupe", "", OPTION_WINDOW, FIELD(dedupe_ms), 0, DEDUPE_MAX_MS },
};
#define OPTION_COUNT (sizeof(options) / sizeof(options[0]))

static const char allowed[] =
	"durable exclusive auto-delete shards sharding priority retry ack-timeout "
	"delivery-limit dead-letter dedupe, and sharding.* priority.* retry.* for the "
	"scripts' "
	"own";

static int set_target(struct queue_config *c, const char *value, struct error *err)
{
	const char *slash = strchr(value, '/');
	struct slice exchange = { value,
				  slash ? (size_t)(slash - value) : strlen(value) };

	if (value[0] == '\0')
		return TIDE_OK;
	if (!slice_is_name(exchange) ||
	    (slash && slash[1] && !slice_is_name(slice_from(slash + 1))))
		return error_set(
			err, TIDE_ESYNTAX,
			"dead-letter=%s: wanted is <exchange>/<key>, with - for the "
			"default exchange; without a key the message keeps its own",
			value);
	c->dead_exchange = slice_is(exchange, "-")
				   ? mem_strdup("")
				   : mem_strndup(exchange.data, exchange.len);
	if (slash && slash[1])
		c->dead_key = mem_strdup(slash + 1);
	if (!c->dead_key && c->dead_exchange[0] == '\0')
		return error_set(err, TIDE_ESYNTAX,
				 "dead-letter=%s: the default exchange needs a key (a "
				 "queue's name)",
				 value);
	return TIDE_OK;
}

static int set_number(struct queue_config *c, const struct queue_option *o,
		      const char *value, struct error *err)
{
	char *field = (char *)c + o->offset;
	uint64_t n;

	if (!slice_to_uint(slice_from(value), o->max, &n) || n < o->min)
		return error_set(err, TIDE_ESYNTAX,
				 "%s=%s: wanted is a number from %llu to %llu", o->name,
				 value, (unsigned long long)o->min,
				 (unsigned long long)o->max);
	if (o->type == OPTION_BOOL)
		*(bool *)field = n == 1;
	else
		*(uint32_t *)field = (uint32_t)n;
	return TIDE_OK;
}

/* Empty: the broker's own, which may be another after its next start. */
static int set_window(struct queue_config *c, const char *value, struct error *err)
{
	c->dedupe_ms = -1;
	if (value[0] == '\0')
		return TIDE_OK;
	if (duration_parse(slice_from(value), &c->dedupe_ms) < 0 ||
	    c->dedupe_ms > DEDUPE_MAX_MS)
		return error_set(err, TIDE_ESYNTAX,
				 "dedupe=%s: wanted is a duration up to 1d; 0 = no "
				 "publish ids are remembered",
				 value);
	return TIDE_OK;
}

static int set_option(struct queue_config *c, const struct queue_option *o,
		      const char *value, struct error *err)
{
	int64_t ms;

	switch (o->type) {
	case OPTION_BOOL:
	case OPTION_UINT:
		return set_number(c, o, value, err);
	case OPTION_WINDOW:
		return set_window(c, value, err);
	case OPTION_DURATION:
		if (duration_parse(slice_from(value), &ms) < 0 || ms < (int64_t)o->min ||
		    ms > (int64_t)o->max)
			return error_set(err, TIDE_ESYNTAX,
					 "%s=%s: wanted is a duration from 10ms to 1d",
					 o->name, value);
		*(int64_t *)((char *)c + o->offset) = ms;
		return TIDE_OK;
	case OPTION_SCRIPT:
		if (!slice_is_name(slice_from(value)))
			return error_set(err, TIDE_ESYNTAX,
					 "%s=%s: wanted is the name of a script in %s/",
					 o->name, value, o->name);
		c->scripts[o->offset] = mem_strdup(value);
		return TIDE_OK;
	case OPTION_TARGET:
		return set_target(c, value, err);
	}
	return TIDE_OK;
}

/* Hand "retry.base" to the retry script; NOTFOUND when it is no such option. */
static int set_script_arg(struct queue_config *c, const struct arg *a, struct error *err)
{
	for (size_t i = 0; i < OPTION_COUNT; i++) {
		const struct queue_option *o = &options[i];
		size_t len = strlen(o->name);

		if (o->type != OPTION_SCRIPT || strncmp(a->name, o->name, len) != 0 ||
		    a->name[len] != '.' || a->name[len + 1] == '\0')
			continue;
		if (args_add(&c->script_args[o->offset], slice_from(a->name + len + 1),
			     (struct slice){ a->value, a->value_len }) < 0)
			return error_set(err, TIDE_ESYNTAX, "option '%s' is there twice",
					 a->name);
		return args_add(&c->canonical, slice_from(a->name),
				(struct slice){ a->value, a->value_len });
	}
	return error_set(err, TIDE_ESYNTAX, "a queue has no option '%s'; it takes: %s",
			 a->name, allowed);
}

static const struct queue_option *find_option(const char *name)
{
	for (size_t i = 0; i < OPTION_COUNT; i++)
		if (strcmp(options[i].name, name) == 0)
			return &options[i];
	return NULL;
}

int queue_config_parse(struct queue_config *c, const struct args *args, struct error *err)
{
	int rc = TIDE_OK;

	*c = (struct queue_config){ 0 };
	for (size_t i = 0; i < args->count && rc == TIDE_OK; i++)
		if (!find_option(args->items[i].name))
			rc = set_script_arg(c, &args->items[i], err);
	for (size_t i = 0; i < OPTION_COUNT && rc == TIDE_OK; i++) {
		const char *value = args_get(args, options[i].name);

		rc = set_option(c, &options[i], value ? value : options[i].fallback, err);
		if (rc == TIDE_OK &&
		    args_add(&c->canonical, slice_from(options[i].name),
			     slice_from(value ? value : options[i].fallback)) < 0)
			rc = error_set(err, TIDE_ETOOLONG, "too many options");
	}
	if (rc < 0) {
		queue_config_deinit(c);
		return rc;
	}
	args_sort(&c->canonical);
	return TIDE_OK;
}

void queue_config_deinit(struct queue_config *c)
{
	for (int i = 0; i < SCRIPT_KIND_COUNT; i++) {
		mem_free(c->scripts[i]);
		args_deinit(&c->script_args[i]);
	}
	mem_free(c->dead_exchange);
	mem_free(c->dead_key);
	args_deinit(&c->canonical);
	*c = (struct queue_config){ 0 };
}

static bool is_same_value(const char *name, const char *a, const char *b)
{
	const struct queue_option *o = find_option(name);
	int64_t a_ms, b_ms;

	if (o && (o->type == OPTION_DURATION || o->type == OPTION_WINDOW) &&
	    duration_parse(slice_from(a), &a_ms) == TIDE_OK &&
	    duration_parse(slice_from(b), &b_ms) == TIDE_OK)
		return a_ms == b_ms;
	return strcmp(a, b) == 0;
}

bool queue_config_is_default(const struct arg *a)
{
	const struct queue_option *o = find_option(a->name);

	return o && strcmp(o->fallback, a->value) == 0;
}

int queue_config_compare(const struct queue_config *has,
			 const struct queue_config *wanted, struct error *err)
{
	for (size_t i = 0; i < wanted->canonical.count; i++) {
		const struct arg *w = &wanted->canonical.items[i];
		const char *value = args_get(&has->canonical, w->name);

		if (!value || !is_same_value(w->name, value, w->value))
			return error_set(err, TIDE_EMISMATCH, "it has %s=%s, not %s=%s",
					 w->name, value ? value : "(none)", w->name,
					 w->value);
	}
	for (size_t i = 0; i < has->canonical.count; i++) {
		const struct arg *h = &has->canonical.items[i];

		if (!args_get(&wanted->canonical, h->name))
			return error_set(err, TIDE_EMISMATCH,
					 "it has %s=%s, which is missing here", h->name,
					 h->value);
	}
	return TIDE_OK;
}
