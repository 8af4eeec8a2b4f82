#include "ask.h"

#include <jansson.h>
#include <string.h>

#include "tidemq/client.h"
#include "base/args.h"

static const char *text(const json_t *object, const char *key)
{
	const char *value = json_string_value(json_object_get(object, key));

	return value ? value : "";
}

/* Append the options, encoded as in a line, and the end of the line. */
static void end_line(struct buf *line, json_t *item)
{
	const char *name;
	struct args args;
	json_t *value;

	args_init(&args);
	json_object_foreach(json_object_get(item, "options"), name, value)
	{
		struct slice given = { json_string_value(value),
				       json_string_length(value) };

		if (given.data && args_add(&args, slice_from(name), given) < 0)
			continue;
	}
	if (args.count)
		buf_append_char(line, ' ');
	args_format(&args, line);
	args_deinit(&args);
	buf_append_char(line, '\n');
}

static void write_exchange(struct buf *out, const json_t *x)
{
	buf_printf(out, "DECLARE exchange %s %s", text(x, "name"), text(x, "type"));
}

static void write_queue(struct buf *out, const json_t *q)
{
	buf_printf(out, "DECLARE queue %s", text(q, "name"));
}

static void write_binding(struct buf *out, const json_t *b)
{
	const char *pattern = text(b, "pattern");

	buf_printf(out, "BIND %s %s %s%s", text(b, "destination"), text(b, "exchange"),
		   pattern[0] ? pattern : "-",
		   strcmp(text(b, "to"), "exchange") == 0 ? " dest=exchange" : "");
}

static const struct {
	const char *request;
	void (*write)(struct buf *out, const json_t *item);
} lists[] = {
	{ "LIST exchanges", write_exchange },
	{ "LIST queues", write_queue },
	{ "LIST bindings", write_binding },
};

static int ask(struct tidemq_client *client, size_t i, struct buf *lines,
	       struct error *err)
{
	struct tidemq_reply reply;
	json_t *list, *item;
	size_t n;

	if (tidemq_request(client, lists[i].request, NULL, 0, &reply) != TIDEMQ_OK)
		return error_set(err, TIDE_EDENIED, "%s: %s", lists[i].request,
				 tidemq_last_error(client)->text);
	list = json_loadb(reply.text, reply.len, 0, NULL);
	if (!json_is_array(list)) {
		json_decref(list);
		return error_set(err, TIDE_ESYNTAX,
				 "%s: the broker's answer is not a list",
				 lists[i].request);
	}
	json_array_foreach(list, n, item)
	{
		lists[i].write(lines, item);
		end_line(lines, item);
	}
	json_decref(list);
	return TIDE_OK;
}

int ask_broker(const char *url, struct buf *lines, struct error *err)
{
	struct tidemq_error failure;
	struct tidemq_client *client = tidemq_connect(url, NULL, &failure);
	int rc = TIDE_OK;

	if (!client)
		return error_set(err, TIDE_ENOTFOUND, "%s", failure.text);
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]) && rc == TIDE_OK; i++)
		rc = ask(client, i, lines, err);
	tidemq_disconnect(client);
	return rc;
}
