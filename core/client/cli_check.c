#include "cli_check.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "../../include/tidemq/client.h"

struct check {
	json_t *scripts; /* of the rules in question */
	json_t *exchanges, *queues, *bindings;
	unsigned problems;
};

static void problem(struct check *c, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void problem(struct check *c, const char *format, ...)
{
	va_list ap;

	fputs("error: ", stdout);
	va_start(ap, format);
	vprintf(format, ap);
	va_end(ap);
	putchar('\n');
	c->problems++;
}

static const char *text(const json_t *object, const char *key)
{
	const char *value = json_string_value(json_object_get(object, key));

	return value ? value : "";
}

static const json_t *find(const json_t *array, const char *key, const char *name)
{
	size_t i;
	json_t *item;

	json_array_foreach(array, i,
			   item) if (strcmp(text(item, key), name) == 0) return item;
	return NULL;
}

static bool has_script(const struct check *c, const char *kind, const char *name)
{
	size_t i;
	json_t *item;

	json_array_foreach(c->scripts, i,
			   item) if (strcmp(text(item, "kind"), kind) == 0 &&
				     strcmp(text(item, "name"), name) == 0) return true;
	return false;
}

/* ---- strategies that are in use ------------------------------------------------ */

static void check_exchanges(struct check *c)
{
	size_t i;
	json_t *x;

	json_array_foreach(c->exchanges, i, x)
	{
		if (!has_script(c, "routing", text(x, "type")))
			problem(c,
				"exchange '%s' is of type %s, and there is no "
				"routing/%s.lua",
				text(x, "name"), text(x, "type"), text(x, "type"));
	}
}

static void check_strategies(struct check *c, const json_t *q)
{
	static const char *const kinds[] = { "sharding", "priority", "retry" };
	const json_t *options = json_object_get(q, "options");

	for (size_t i = 0; i < 3; i++) {
		const char *name = text(options, kinds[i]);

		/* One that is not shown is the default, which a broker needs as well. */
		if (!name[0])
			name = i == 0 ? "hash" : i == 1 ? "fifo" : "immediate";
		if (!has_script(c, kinds[i], name))
			problem(c, "queue '%s' has %s=%s, and there is no %s/%s.lua",
				text(q, "name"), kinds[i], name, kinds[i], name);
	}
}

/* ---- dead letters ------------------------------------------------------------------ */

/* The queue that a queue dead-letters to directly, NULL when there is none or an
 * exchange decides. */
static const json_t *dead_queue(const struct check *c, const json_t *q)
{
	const char *target = text(json_object_get(q, "options"), "dead-letter");

	return strncmp(target, "-/", 2) == 0 ? find(c->queues, "name", target + 2) : NULL;
}

static void check_dead_letters(struct check *c, const json_t *q)
{
	const char *target = text(json_object_get(q, "options"), "dead-letter");
	size_t len = strcspn(target, "/");
	char exchange[256];
	const json_t *next = q;

	if (!target[0] || len >= sizeof(exchange))
		return;
	snprintf(exchange, sizeof(exchange), "%.*s", (int)len, target);
	if (strcmp(exchange, "-") != 0 && !find(c->exchanges, "name", exchange))
		problem(c,
			"queue '%s' dead-letters to exchange '%s', which does not exist",
			text(q, "name"), exchange);
	if (strcmp(exchange, "-") == 0 && !dead_queue(c, q))
		problem(c, "queue '%s' dead-letters to queue '%s', which does not exist",
			text(q, "name"), target + 2);
	for (size_t steps = 0; next && steps <= json_array_size(c->queues); steps++) {
		next = dead_queue(c, next);
		if (next == q) {
			problem(c, "queue '%s' dead-letters to itself in the end",
				text(q, "name"));
			return;
		}
	}
}

/* ---- bindings ------------------------------------------------------------------------
 */

static bool leads_to(const struct check *c, const char *from, const char *to,
		     size_t depth)
{
	size_t i;
	json_t *b;

	if (depth > json_array_size(c->exchanges))
		return false;
	json_array_foreach(c->bindings, i, b)
	{
		const char *next = text(b, "destination");

		if (strcmp(text(b, "exchange"), from) != 0 ||
		    strcmp(text(b, "to"), "exchange") != 0)
			continue;
		if (strcmp(next, to) == 0 || leads_to(c, next, to, depth + 1))
			return true;
	}
	return false;
}

static void check_loops(struct check *c)
{
	size_t i;
	json_t *x;

	/* No danger to the broker, which visits each once, but hardly meant. */
	json_array_foreach(c->exchanges, i, x)
	{
		if (leads_to(c, text(x, "name"), text(x, "name"), 0))
			problem(c,
				"exchange '%s' is bound to itself by way of other "
				"exchanges",
				text(x, "name"));
	}
}

/* ---- filters
 * --------------------------------------------------------------------------- */

static void check_filters(struct check *c)
{
	size_t i;
	json_t *s;

	json_array_foreach(c->scripts, i, s)
	{
		const json_t *match = json_object_get(s, "match");
		const char *exchange = text(match, "exchange");

		if (strcmp(text(s, "kind"), "filter") != 0 || !exchange[0])
			continue;
		if (strcmp(exchange, "*") != 0 && strcmp(exchange, "-") != 0 &&
		    !find(c->exchanges, "name", exchange))
			problem(c,
				"%s matches exchange '%s', which does not exist: it is "
				"never called",
				text(s, "file"), exchange);
	}
}

/* ---- asking the broker
 * -------------------------------------------------------------------- */

static json_t *ask(struct tidemq_client *client, const char *line)
{
	struct tidemq_reply reply;

	if (tidemq_request(client, line, NULL, 0, &reply) != TIDEMQ_OK)
		return NULL;
	return json_loadb(reply.text, reply.len, 0, NULL);
}

static void check_all(struct check *c)
{
	size_t i;
	json_t *q;

	check_exchanges(c);
	json_array_foreach(c->queues, i, q)
	{
		check_strategies(c, q);
		check_dead_letters(c, q);
	}
	check_loops(c);
	check_filters(c);
}

unsigned cli_check_definitions(const char *url, const char *status)
{
	struct tidemq_error err;
	struct tidemq_client *client = tidemq_connect(url, NULL, &err);
	json_t *rules = json_loads(status, 0, NULL);
	struct check c = { .scripts = json_object_get(rules, "scripts") };

	if (!client) {
		problem(&c, "%s", err.text);
		json_decref(rules);
		return c.problems;
	}
	c.exchanges = ask(client, "LIST exchanges");
	c.queues = ask(client, "LIST queues");
	c.bindings = ask(client, "LIST bindings");
	if (c.exchanges && c.queues && c.bindings)
		check_all(&c);
	else
		problem(&c, "the broker did not tell what it has: %s",
			tidemq_last_error(client)->text);
	json_decref(c.exchanges);
	json_decref(c.queues);
	json_decref(c.bindings);
	json_decref(rules);
	tidemq_disconnect(client);
	return c.problems;
}
