/* cli_definition.c: export and import, of all definitions as one JSON document. Import
 * reads RabbitMQ's file of definitions as well. */
#include <string.h>

#include "base/args.h"
#include "base/mem.h"
#include "base/rabbit.h"
#include "cli_definition.h"
#include "cli_operation.h"
#include "cli_table.h"
#include "cli_url.h"

static const struct kind {
	const char *member; /* of a vhost in the document; LIST has the same name */
	const char *verb;
	const char *words[3]; /* members of an item */
} kinds[CLI_DEFINITION_KINDS] = {
	{ "exchanges", "DECLARE exchange", { "name", "type" } },
	{ "queues", "DECLARE queue", { "name" } },
	{ "topics", "DECLARE topic", { "name" } },
	{ "bindings", "BIND", { "destination", "exchange", "pattern" } },
};
#define KINDS CLI_DEFINITION_KINDS
#define FORMAT_MEMBER "tidemq_definitions"
#define FORMAT 1

static json_t *ask(struct cli *cli, const char *request)
{
	struct tidemq_reply reply;

	buf_clear(&cli->request);
	buf_append_text(&cli->request, request);
	return cli_ask(cli, &reply) == CLI_DONE ? cli_table_parse(cli, &reply) : NULL;
}

static int enter_vhost(struct cli *cli, const char *vhost)
{
	char *url = cli_url_with(cli->url, vhost);

	mem_free(cli->hidden_url);
	cli->url = cli->hidden_url = url;
	tidemq_disconnect(cli->client);
	cli->client = NULL;
	return cli->status = cli_connect(cli, NULL);
}

static bool has_text(const json_t *object, const char *member, const char *text)
{
	return strcmp(cli_table_text(object, member, ""), text) == 0;
}

/* ---- export ---- */

/* Without figures. Policies own the options that they make. */
static json_t *definition_of(const struct kind *k, const json_t *item)
{
	json_t *made = json_object(), *options = json_object_get(item, "declared");

	for (size_t i = 0; i < 3 && k->words[i]; i++)
		json_object_set(made, k->words[i], json_object_get(item, k->words[i]));
	if (has_text(item, "to", "exchange"))
		json_object_set(made, "to", json_object_get(item, "to"));
	json_object_set(made, "options",
			options ? options : json_object_get(item, "options"));
	return made;
}

/* Each vhost has exchanges amq.…; an exclusive queue ends with its connection. */
static bool is_of_itself(const struct kind *k, const json_t *item, json_t *exclusive)
{
	if (json_object_get(json_object_get(item, "options"), "exclusive")) {
		json_object_set_new(exclusive, cli_table_text(item, "name", ""),
				    json_true());
		return true;
	}
	if (k == &kinds[0])
		return strncmp(cli_table_text(item, "name", ""), "amq.", 4) == 0;
	return k == &kinds[KINDS - 1] && !has_text(item, "to", "exchange") &&
	       json_object_get(exclusive, cli_table_text(item, "destination", ""));
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The same definitions give the same document. */
static json_t *sorted(json_t *list_take)
{
	size_t count = json_array_size(list_take), i;
	char **texts = mem_alloc((count + 1) * sizeof(*texts));
	json_t *made = json_array(), *item;

	json_array_foreach(list_take, i, item) texts[i] =
		json_dumps(item, JSON_PRESERVE_ORDER);
	qsort(texts, count, sizeof(*texts), by_text);
	for (i = 0; i < count; i++) {
		json_array_append_new(made, json_loads(texts[i], 0, NULL));
		free(texts[i]);
	}
	mem_free(texts);
	json_decref(list_take);
	return made;
}

/* The definitions of the vhost that is entered; NULL with cli->status. */
static json_t *read_vhost(struct cli *cli, const char *name)
{
	json_t *vhost = json_pack("{s:s}", "name", name), *exclusive = json_object();

	for (const struct kind *k = kinds; k < kinds + KINDS; k++) {
		char request[32];
		json_t *list, *item, *made = json_array();
		size_t i;

		snprintf(request, sizeof(request), "LIST %s", k->member);
		list = ask(cli, request);
		json_array_foreach(list, i, item) if (!is_of_itself(k, item, exclusive))
			json_array_append_new(made, definition_of(k, item));
		json_decref(list);
		json_object_set_new(vhost, k->member, sorted(made));
	}
	json_decref(exclusive);
	return vhost;
}

static json_t *read_users(struct cli *cli)
{
	json_t *users = ask(cli, "USER list"), *user;
	size_t i;

	json_array_foreach(users, i, user)
	{
		json_object_del(user, "connections");
		json_object_del(user, "password");
	}
	return users ? sorted(users) : NULL;
}

/* Those of all cells, or none: an export without some would be taken for the whole. */
static json_t *ask_vhosts(struct cli *cli)
{
	unsigned missing = 0;
	json_t *all;

	buf_clear(&cli->request);
	buf_append_text(&cli->request, "LIST vhosts");
	all = cli_operation_ask_cells(cli, &missing);
	if (missing)
		cli->status = CLI_FAILED;
	return all;
}

static int run_export(struct cli *cli)
{
	json_t *document = json_pack("{s:i}", FORMAT_MEMBER, FORMAT);
	json_t *vhosts = ask_vhosts(cli), *made = json_array(), *vhost, *users;
	size_t i;

	json_array_foreach(vhosts, i, vhost)
	{
		const char *name = cli_table_text(vhost, "name", "/");

		if (cli->status == CLI_DONE && enter_vhost(cli, name) == CLI_DONE)
			json_array_append_new(made, read_vhost(cli, name));
		if (json_is_true(json_object_get(vhost, "on_demand")))
			json_object_set_new(
				json_array_get(made, json_array_size(made) - 1),
				"options", json_pack("{s:s}", "on-demand", "1"));
	}
	json_decref(vhosts);
	json_object_set_new(document, "vhosts", sorted(made));
	users = cli->status == CLI_DONE ? read_users(cli) : NULL;
	if (users)
		json_object_set_new(document, "users", users);
	if (cli->status == CLI_DONE) {
		json_dumpf(document, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
		putchar('\n');
	}
	json_decref(document);
	return cli->status;
}

/* ---- RabbitMQ's file ---- */

static void note(const char *format, ...) TIDE_PRINTF(1, 2);
static void note(const char *format, ...)
{
	va_list ap;

	fputs("tidemq import: not carried over: ", stderr);
	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	fputc('\n', stderr);
}

static void set_option(json_t *options, const char *name, const char *value)
{
	json_object_set_new(options, name, json_string(value));
}

#define VALUE_MAX 300

/* A number, a boolean or a text as a text. */
static struct slice text_of(const json_t *value, char room[VALUE_MAX])
{
	if (json_is_integer(value))
		snprintf(room, VALUE_MAX, "%lld", (long long)json_integer_value(value));
	else
		snprintf(room, VALUE_MAX, "%s",
			 json_is_string(value)  ? json_string_value(value)
			 : json_is_true(value)  ? "true"
			 : json_is_false(value) ? "false"
						: "");
	return slice_from(room);
}

static void set_value(json_t *options, const char *name, const json_t *value)
{
	char room[VALUE_MAX];

	set_option(options, name, text_of(value, room).data);
}

static struct slice argument_of(const void *item, const char *name)
{
	const json_t *arguments = json_object_get(item, "arguments");

	return slice_from(cli_table_text(arguments, name, NULL));
}

static void take_arguments(const json_t *item, const char *what, enum rabbit_kind kind,
			   struct args *out)
{
	char room[VALUE_MAX];
	json_t *value;
	const char *name;

	json_object_foreach(json_object_get(item, "arguments"), name, value)
	{
		if (!rabbit_argument(kind, slice_from(name), text_of(value, room), out))
			note("%s of %s '%s'", name, what,
			     cli_table_text(item, "name", ""));
	}
}

static json_t *take_options(const json_t *item, const char *what, enum rabbit_kind kind)
{
	json_t *options = json_object();
	struct args args = { 0 };

	if (json_is_false(json_object_get(item, "durable")))
		set_option(options, "durable", "0");
	if (json_is_true(json_object_get(item, "auto_delete")))
		set_option(options, "auto-delete", "1");
	if (json_is_true(json_object_get(item, "internal")))
		set_option(options, "internal", "1");
	take_arguments(item, what, kind, &args);
	if (kind == RABBIT_QUEUE)
		rabbit_queue_ends(argument_of, item, &args);
	for (size_t i = 0; i < args.count; i++)
		set_option(options, args.items[i].name, args.items[i].value);
	args_deinit(&args);
	return options;
}

/* A stream is a topic. */
static json_t *take_stream(const json_t *item)
{
	json_t *options = take_options(item, "queue", RABBIT_STREAM);

	set_option(options, "partitions", "1");
	json_object_del(options, "durable");
	return options;
}

static json_t *find_vhost(json_t *vhosts, const char *name)
{
	json_t *vhost;
	size_t i;

	json_array_foreach(vhosts, i,
			   vhost) if (has_text(vhost, "name", name)) return vhost;
	vhost = json_pack("{s:s,s:[],s:[],s:[],s:[]}", "name", name, "exchanges",
			  "queues", "topics", "bindings");
	json_array_append_new(vhosts, vhost);
	return vhost;
}

static void append_to(json_t *vhosts, const json_t *item, const char *member,
		      json_t *made_take)
{
	json_t *vhost = find_vhost(vhosts, cli_table_text(item, "vhost", "/"));

	json_array_append_new(json_object_get(vhost, member), made_take);
}

static void take_exchange(json_t *vhosts, const json_t *item)
{
	const char *name = cli_table_text(item, "name", "");
	const char *type = rabbit_exchange_type(
		cli_table_text(item, "type", ""),
		cli_table_text(json_object_get(item, "arguments"), "x-delayed-type", ""));

	if (strncmp(type, "x-", 2) == 0) {
		note("exchange '%s': there is no type '%s'", name, type);
		return;
	}
	append_to(vhosts, item, "exchanges",
		  json_pack("{s:s,s:s,s:o}", "name", name, "type", type, "options",
			    take_options(item, "exchange", RABBIT_EXCHANGE)));
}

static void take_queue(json_t *vhosts, const json_t *item)
{
	const char *name = cli_table_text(item, "name", "");
	json_t *options;

	if (has_text(json_object_get(item, "arguments"), "x-queue-type", "stream")) {
		append_to(vhosts, item, "topics",
			  json_pack("{s:s,s:o}", "name", name, "options",
				    take_stream(item)));
		return;
	}
	options = take_options(item, "queue", RABBIT_QUEUE);
	if (slice_is(argument_of(item, "x-overflow"), "reject-publish-dlx"))
		note("x-overflow=reject-publish-dlx of queue '%s': it refuses publishes",
		     name);
	append_to(vhosts, item, "queues",
		  json_pack("{s:s,s:o}", "name", name, "options", options));
}

/* Arguments are conditions of a headers exchange. */
static void take_binding(json_t *vhosts, const json_t *item)
{
	json_t *options = json_object(), *value;
	json_t *made = json_pack(
		"{s:s,s:s,s:s,s:o}", "exchange", cli_table_text(item, "source", ""),
		"destination", cli_table_text(item, "destination", ""), "pattern",
		cli_table_text(item, "routing_key", ""), "options", options);
	const char *name;
	char option[300];

	json_object_foreach(json_object_get(item, "arguments"), name, value)
	{
		snprintf(option, sizeof(option), "%s%s",
			 strcmp(name, "x-match") == 0 ? "" : "h:", name);
		set_value(options, option, value);
	}
	if (has_text(item, "destination_type", "exchange"))
		set_option(made, "to", "exchange");
	append_to(vhosts, item, "bindings", made);
}

static json_t *take_user(const json_t *item, const json_t *permissions)
{
	const char *name = cli_table_text(item, "name", "");
	json_t *tags = json_array(), *vhosts = json_object(), *permission;
	char *given = json_dumps(json_object_get(item, "tags"), JSON_ENCODE_ANY);
	size_t i;

	if (given && strstr(given, "administrator"))
		json_array_append_new(tags, json_string("admin"));
	if (given && strstr(given, "monitoring"))
		json_array_append_new(tags, json_string("monitor"));
	free(given);
	json_array_foreach(permissions, i, permission)
	{
		if (has_text(permission, "user", name))
			json_object_set_new(
				vhosts, cli_table_text(permission, "vhost", "/"),
				json_pack("{s:s,s:s,s:s}", "configure",
					  cli_table_text(permission, "configure", ""),
					  "write",
					  cli_table_text(permission, "write", ""), "read",
					  cli_table_text(permission, "read", "")));
	}
	return json_pack("{s:s,s:o,s:o,s:{}}", "name", name, "tags", tags, "vhosts",
			 vhosts, "limits");
}

static json_t *from_rabbitmq(const json_t *theirs)
{
	static const char *const without[] = { "policies", "parameters",
					       "global_parameters", "topic_permissions" };
	json_t *vhosts = json_array(), *users = json_array(), *item;
	size_t i;

	json_array_foreach(json_object_get(theirs, "vhosts"), i, item)
		find_vhost(vhosts, cli_table_text(item, "name", "/"));
	json_array_foreach(json_object_get(theirs, "exchanges"), i, item)
		take_exchange(vhosts, item);
	json_array_foreach(json_object_get(theirs, "queues"), i, item)
		take_queue(vhosts, item);
	json_array_foreach(json_object_get(theirs, "bindings"), i, item)
		take_binding(vhosts, item);
	json_array_foreach(json_object_get(theirs, "users"), i, item)
		json_array_append_new(
			users, take_user(item, json_object_get(theirs, "permissions")));
	for (size_t n = 0; n < sizeof(without) / sizeof(without[0]); n++)
		if (json_array_size(json_object_get(theirs, without[n])) > 0)
			note("%zu %s",
			     json_array_size(json_object_get(theirs, without[n])),
			     without[n]);
	return json_pack("{s:i,s:o,s:o}", FORMAT_MEMBER, FORMAT, "vhosts", vhosts,
			 "users", users);
}

/* ---- import ---- */

struct import {
	struct cli *cli;
	bool is_dry;
	unsigned declared, same, refused;
};

static void refuse(struct import *m, const char *line, const char *why)
{
	m->refused++;
	fprintf(stderr, "tidemq import: refused: %s: %s\n", line, why);
}

/* What a word of a line may be; the document is anybody's. */
static bool is_word(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text <= ' ' || *text == 0x7f)
			return false;
	return true;
}

/* False: a word has white space, and the line is good for messages alone. */
static bool append_line(struct buf *out, const struct kind *k, const json_t *item)
{
	struct args args = { 0 };
	bool is_good = true;
	json_t *value;
	const char *name;

	buf_append_text(out, k->verb);
	for (size_t i = 0; i < 3 && k->words[i]; i++) {
		const char *word = cli_table_text(item, k->words[i], "");

		is_good = is_good && is_word(word);
		buf_printf(out, " %s", word[0] ? word : "-");
	}
	if (has_text(item, "to", "exchange"))
		buf_append_text(out, " dest=exchange");
	json_object_foreach(json_object_get(item, "options"), name, value)
	{
		if (args_add(&args, slice_from(name),
			     slice_from(json_is_string(value) ? json_string_value(value)
							      : "")) < 0)
			is_good = false;
	}
	if (args.count)
		buf_append_char(out, ' ');
	args_format(&args, out);
	args_deinit(&args);
	return is_good;
}

const char *cli_definition_member(size_t kind)
{
	return kinds[kind].member;
}

void cli_definition_append(struct buf *lines, size_t kind, const json_t *item)
{
	json_t *definition = definition_of(&kinds[kind], item);

	append_line(lines, &kinds[kind], definition);
	buf_append_char(lines, '\n');
	json_decref(definition);
}

/* Whether the broker has done it. */
static bool send_line(struct import *m, const char *line)
{
	struct tidemq_reply reply;
	int rc;

	if (m->is_dry) {
		puts(line);
		return true;
	}
	rc = slice_has_prefix(slice_from(line), "DECLARE vhost ")
		     ? cli_ask_vhost(m->cli, line)
		     : tidemq_request(m->cli->client, line, NULL, 0, &reply);
	if (rc == TIDEMQ_OK)
		return true;
	refuse(m, line, tidemq_last_error(m->cli->client)->text);
	return false;
}

static void import_items(struct import *m, const json_t *vhost, const json_t *there)
{
	for (const struct kind *k = kinds; k < kinds + KINDS; k++) {
		struct buf line = { 0 };
		json_t *item;
		size_t i;

		json_array_foreach(json_object_get(vhost, k->member), i, item)
		{
			buf_clear(&line);
			if (!append_line(&line, k, item))
				refuse(m, buf_cstr(&line),
				       "a name or pattern has white space, or an option "
				       "no name");
			else if (json_object_get(there, buf_cstr(&line)))
				m->same++;
			else if (send_line(m, buf_cstr(&line)))
				m->declared++;
		}
		buf_deinit(&line);
	}
}

/* What the vhost has, as the lines that would declare it. */
static json_t *lines_there(struct cli *cli)
{
	json_t *lines = json_object(), *vhost = read_vhost(cli, ""), *item;
	struct buf line = { 0 };
	size_t i;

	for (const struct kind *k = kinds; k < kinds + KINDS; k++)
		json_array_foreach(json_object_get(vhost, k->member), i, item)
		{
			buf_clear(&line);
			append_line(&line, k, item);
			json_object_set_new(lines, buf_cstr(&line), json_true());
		}
	buf_deinit(&line);
	json_decref(vhost);
	return lines;
}

static void import_vhost(struct import *m, const json_t *vhost, json_t *vhosts)
{
	const char *name = cli_table_text(vhost, "name", "");
	bool wants_demand = has_text(json_object_get(vhost, "options"), "on-demand", "1"),
	     is_there = false, is_same = false;
	json_t *there = NULL, *item;
	char line[300];
	size_t i;

	snprintf(line, sizeof(line), "DECLARE vhost %.255s%s", name,
		 wants_demand ? " on-demand=1" : "");
	json_array_foreach(vhosts, i, item) if (has_text(item, "name", name))
	{
		is_there = true;
		is_same =
			!wants_demand || json_is_true(json_object_get(item, "on_demand"));
	}
	if (!slice_is_name(slice_from(name))) {
		refuse(m, line, "that is no name of a vhost");
		return;
	}
	if (!is_same && !send_line(m, line))
		return;
	m->declared += !is_same;
	if (is_there || !m->is_dry) {
		if (enter_vhost(m->cli, name) == CLI_DONE)
			there = lines_there(m->cli);
		if (m->cli->status != CLI_DONE) {
			json_decref(there);
			return;
		}
	}
	import_items(m, vhost, there);
	json_decref(there);
}

static void append_words(struct buf *line, const json_t *options)
{
	json_t *value;
	const char *name;

	json_object_foreach((json_t *)(uintptr_t)options, name, value)
	{
		json_t *made = json_object();
		struct args args = { 0 };

		set_value(made, "value", value);
		if (args_add(&args, slice_from(name),
			     slice_from(cli_table_text(made, "value", ""))) == TIDE_OK) {
			buf_append_char(line, ' ');
			args_format(&args, line);
		}
		args_deinit(&args);
		json_decref(made);
	}
}

/* Grants, then limits, of a user who is there by now. */
static void import_rights(struct import *m, const char *name, const json_t *user)
{
	struct buf line = { 0 };
	json_t *value;
	const char *vhost;

	json_object_foreach(json_object_get(user, "vhosts"), vhost, value)
	{
		buf_clear(&line);
		buf_printf(&line, "USER grant %s %s", name, vhost);
		append_words(&line, value);
		if (is_word(vhost))
			send_line(m, buf_cstr(&line));
		else
			refuse(m, buf_cstr(&line), "that is no name of a vhost");
	}
	if (json_object_size(json_object_get(user, "limits")) > 0) {
		buf_clear(&line);
		buf_printf(&line, "USER set %s", name);
		append_words(&line, json_object_get(user, "limits"));
		send_line(m, buf_cstr(&line));
	}
	buf_deinit(&line);
}

static void import_user(struct import *m, const json_t *user, const json_t *there)
{
	const char *name = cli_table_text(user, "name", "");
	json_t *item, *tag;
	struct buf line = { 0 };
	size_t i;

	buf_printf(&line, "USER add %s", name);
	json_array_foreach(there, i, item) if (has_text(item, "name", name))
	{
		if (json_equal(item, (json_t *)(uintptr_t)user))
			m->same++;
		else
			refuse(m, buf_cstr(&line),
			       "exists with other tags, grants or limits");
		goto done;
	}
	json_array_foreach(json_object_get(user, "tags"), i, tag)
		buf_printf(&line, "%s%s", i ? "," : " tags=", json_string_value(tag));
	if (!slice_is_name(slice_from(name)))
		refuse(m, buf_cstr(&line), "that is no name of a user");
	else if (send_line(m, buf_cstr(&line))) {
		m->declared++;
		import_rights(m, name, user);
		note("the password of user '%s': tidemq user passwd", name);
	}
done:
	buf_deinit(&line);
}

static json_t *read_document(struct cli *cli)
{
	const char *path = cli->words[0];
	json_error_t why;
	json_t *document = strcmp(path, "-") == 0 ? json_loadf(stdin, 0, &why)
						  : json_load_file(path, 0, &why);
	json_t *made;

	if (!document) {
		cli->status = cli_failure("cannot read '%s': %s", path, why.text);
		return NULL;
	}
	if (json_integer_value(json_object_get(document, FORMAT_MEMBER)) == FORMAT)
		return document;
	if (json_is_array(json_object_get(document, "queues")) ||
	    json_is_array(json_object_get(document, "vhosts"))) {
		made = from_rabbitmq(document);
	} else {
		made = NULL;
		cli->status = cli_failure("'%s' has no definitions: expected what tidemq "
					  "export or rabbitmqctl export_definitions "
					  "writes",
					  path);
	}
	json_decref(document);
	return made;
}

static int run_import(struct cli *cli)
{
	struct import m = { .cli = cli, .is_dry = cli_is_given(cli, "dry") };
	json_t *document = read_document(cli), *vhosts, *there, *item;
	size_t i;

	if (!document)
		return cli->status;
	enter_vhost(cli, "/");
	vhosts = cli->status == CLI_DONE ? ask_vhosts(cli) : NULL;
	json_array_foreach(json_object_get(document, "vhosts"), i,
			   item) if (cli->status == CLI_DONE)
		import_vhost(&m, item, vhosts);
	json_decref(vhosts);
	if (cli->status == CLI_DONE &&
	    json_array_size(json_object_get(document, "users")) > 0 &&
	    enter_vhost(cli, "/") == CLI_DONE) {
		there = read_users(cli);
		json_array_foreach(json_object_get(document, "users"), i,
				   item) if (cli->status == CLI_DONE)
			import_user(&m, item, there);
		json_decref(there);
	}
	json_decref(document);
	if (cli->status != CLI_DONE)
		return cli->status;
	printf(cli->json ? "{\"declared\":%u,\"there\":%u,\"refused\":%u}\n"
			 : "declared %u, there already %u, refused %u\n",
	       m.declared, m.same, m.refused);
	return m.refused ? CLI_FAILED : CLI_DONE;
}

static const struct option_row export_options[] = { { .name = NULL } };

static const struct option_row import_options[] = {
	{ COMMAND_FLAG("dry", "print the requests, and change nothing") },
	{ .name = NULL },
};

const struct cli_verb cli_definition_verbs[] = {
	{ .name = "export",
	  .summary = "print all definitions as JSON: vhosts, what they have, and users",
	  .usage = "[options]",
	  .details = "Users are without their passwords. Exclusive queues, messages and\n"
		     "rules are not definitions.",
	  .examples = "  tidemq export >definitions.json\n",
	  .options = export_options,
	  .run = run_export },
	{ .name = "import",
	  .summary = "declare what a file of definitions has",
	  .usage = "[options] FILE",
	  .details =
		  "FILE is what export printed, or RabbitMQ's definitions; - is the\n"
		  "standard input. What is there already stays as it is. Standard error\n"
		  "has what the broker refused, and what cannot be carried over. Users\n"
		  "come without a password.",
	  .examples = "  tidemq import definitions.json\n"
		      "  tidemq import --dry rabbitmq.json\n",
	  .options = import_options,
	  .words_min = 1,
	  .words_max = 1,
	  .run = run_import },
	{ .name = NULL },
};
