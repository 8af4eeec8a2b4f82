#include "steps.h"

#include <jansson.h>
#include <string.h>

#include "tidemq/client.h"
#include "base/args.h"

static const char *text(const json_t *object, const char *key)
{
	const char *value = json_string_value(json_object_get(object, key));

	return value ? value : "";
}

static const struct {
	const char *list, *verb;
	const char *words[3]; /* members of an item */
} requests[] = {
	{ "LIST exchanges", "DECLARE exchange", { "name", "type" } },
	{ "LIST queues", "DECLARE queue", { "name" } },
	{ "LIST topics", "DECLARE topic", { "name" } },
	{ "LIST bindings", "BIND", { "destination", "exchange", "pattern" } },
};

static void write_words(struct buf *line, size_t i, const json_t *item)
{
	buf_append_text(line, requests[i].verb);
	for (size_t n = 0; n < 3 && requests[i].words[n]; n++) {
		const char *word = text(item, requests[i].words[n]);

		buf_printf(line, " %s", word[0] ? word : "-");
	}
	if (strcmp(text(item, "to"), "exchange") == 0)
		buf_append_text(line, " dest=exchange");
}

/* Append the options, encoded as in a line, and the end of the line. */
static void end_line(struct buf *line, json_t *item)
{
	const char *name;
	struct args args = { 0 };
	json_t *value, *options = json_object_get(item, "declared");

	/* What policies make of them is theirs. */
	if (!options)
		options = json_object_get(item, "options");
	json_object_foreach(options, name, value)
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

static int ask(struct tidemq_client *client, size_t i, struct buf *lines,
	       struct error *err)
{
	const char *request = requests[i].list;
	struct tidemq_reply reply;
	json_t *list, *item;
	size_t n;
	int rc = TIDE_OK;

	if (tidemq_request(client, request, NULL, 0, &reply) != TIDEMQ_OK)
		return error_set(err, TIDE_EDENIED, "%s: %s", request,
				 tidemq_last_error(client)->text);
	list = json_loadb(reply.text, reply.len, 0, NULL);
	if (!json_is_array(list))
		rc = error_set(err, TIDE_ESYNTAX, "%s: the broker's answer is not a list",
			       request);
	json_array_foreach(list, n, item)
	{
		write_words(lines, i, item);
		end_line(lines, item);
	}
	json_decref(list);
	return rc;
}

int ask_broker(const char *url, struct buf *lines, struct error *err)
{
	struct tidemq_error failure;
	struct tidemq_client *client = tidemq_connect(url, NULL, &failure);
	int rc = TIDE_OK;

	if (!client)
		return error_set(err, TIDE_ENOTFOUND, "%s", failure.text);
	for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]) && rc == TIDE_OK;
	     i++)
		rc = ask(client, i, lines, err);
	tidemq_disconnect(client);
	return rc;
}
