#include "check.h"

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "broker/death.h"
#include "broker/decide.h"
#include "broker/exchange.h"
#include "broker/terms.h"
#include "broker/queue.h"
#include "broker/vhost.h"
#include "cli/cli_definition.h"
#include "findings.h"
#include "host/log.h"
#include "proto/line/line.h"
#include "rules/sandbox/bundle.h"
#include "rules/engine/survey.h"
#include "session/service.h"
#include "tidemq/client.h"

/* Where a definition came from. */
struct model_place {
	UT_hash_handle hh;
	const char *file; /* "broker": a running one */
	int line;         /* 0 for a broker */
	bool is_refused;
	char id[]; /* "queue jobs", "exchange orders", "binding orders audit" */
};

/* Exchanges, queues and bindings in a broker of this process, which has the rules in
 * question, and neither store, network nor messages. What a file or a running broker has
 * is declared in it, to look at what the rules make of it. */
struct model {
	struct findings *findings;
	struct service *service;
	struct vhost *vhost;
	/* The rest is the model's own. */
	uv_loop_t loop;
	struct pool chunks;
	struct out out;
	struct line line;
	bool is_started;
	struct error start_error;
	struct model_place *places;
};

static void model_report(struct model *m, const char *kind, const char *name,
			 const char *format, ...) TIDE_PRINTF(4, 5);
static bool model_has_exchange(const struct model *m, const char *name);
static bool model_has_queue(const struct model *m, const char *name);

static int ask_list(struct tidemq_client *client, size_t kind, struct buf *lines,
		    struct error *err)
{
	struct tidemq_reply reply;
	json_t *list, *item;
	char request[32];
	size_t n;
	int rc = TIDE_OK;

	snprintf(request, sizeof(request), "LIST %s", cli_definition_member(kind));
	if (tidemq_request(client, request, NULL, 0, &reply) != TIDEMQ_OK)
		return error_set(err, TIDE_EDENIED, "%s: %s", request,
				 tidemq_last_error(client)->text);
	list = json_loadb(reply.text, reply.len, 0, NULL);
	if (!json_is_array(list))
		rc = error_set(err, TIDE_ESYNTAX, "%s: the broker's answer is not a list",
			       request);
	json_array_foreach(list, n, item) cli_definition_append(lines, kind, item);
	json_decref(list);
	return rc;
}

/* Appends the exchanges, queues and bindings of the URL's vhost as the requests that
 * would make them: lines of DECLARE and BIND. Blocks. */
static int ask_broker(const char *url, struct buf *lines, struct error *err)
{
	struct tidemq_error failure;
	struct tidemq_client *client = tidemq_connect(url, NULL, &failure);
	int rc = TIDE_OK;

	if (!client)
		return error_set(err, TIDE_ENOTFOUND, "%s", failure.text);
	for (size_t i = 0; i < CLI_DEFINITION_KINDS && rc == TIDE_OK; i++)
		rc = ask_list(client, i, lines, err);
	tidemq_disconnect(client);
	return rc;
}

#define WAY_SHOWN_MAX 64

struct circles {
	struct model *model;
	const char *kind; /* of the nodes: "queue" */
	const char *what; /* happens in the circle: "is bound to itself" */
	struct graph graph;
};

/* Begins with the first name in the alphabet, at whatever node the circle was found. */
static void report_circle(void *ctx, struct graph_node *const *way, size_t count)
{
	struct circles *c = ctx;
	const char *first;
	struct buf text = { 0 };
	size_t start = 0;

	for (size_t i = 0; i < count; i++)
		if (strcmp(way[i]->name, way[start]->name) < 0)
			start = i;
	first = way[start]->name;
	buf_printf(&text, "%s '%s' %s: ", c->kind, first, c->what);
	for (size_t i = 0; i < count && i < WAY_SHOWN_MAX; i++)
		buf_printf(&text, "%s -> ", way[(start + i) % count]->name);
	buf_printf(&text, "%s%s", count > WAY_SHOWN_MAX ? "... -> " : "", first);
	model_report(c->model, c->kind, first, "%s", buf_cstr(&text));
	buf_deinit(&text);
}

static void report_circles(struct circles *c)
{
	graph_each_circle(&c->graph, report_circle, c);
	graph_deinit(&c->graph);
}

static void check_bindings(struct model *m)
{
	struct circles c = { .model = m,
			     .kind = "exchange",
			     .what = "is bound to itself in the end" };

	for (const struct exchange *x = m->vhost->exchanges; x; x = x->hh.next) {
		for (uint32_t i = 0; i < x->binding_cap; i++) {
			const struct binding *b = x->bindings[i];

			if (b && b->exchange)
				graph_link(&c.graph, x->name, b->exchange->name);
		}
	}
	report_circles(&c);
}

static struct msg *make_dead_letter(const struct queue *q, const char *key)
{
	const int64_t now_ms = q->vhost->broker->now_ms;
	const struct death death = { .queue = queue_slice(q),
				     .reason = "nack",
				     .rule = "consumer",
				     .attempts = 1,
				     .now_ms = now_ms };
	struct death_headers headers;
	struct msg spec = {
		.id = 1,
		.ts_unix_ms = now_ms,
		.key = slice_from(key),
		.payload = "",
	};

	death_write(&spec, &death, &headers);
	spec.exchange = slice_from(q->config.dead_exchange);
	spec.headers = headers.items;
	spec.header_count = (uint8_t)headers.count;
	return msg_create(&spec);
}

static void link_outcome(struct circles *c, const struct queue *q,
			 const struct outcome *o)
{
	for (unsigned i = 0; i < o->count; i++)
		graph_link(&c->graph, q->name, o->picks[i].queue->name);
}

/* Links the queue to those that take its dead letters under this key. */
static void link_dead_letter(struct circles *c, const struct queue *q, const char *key)
{
	struct msg *dead = make_dead_letter(q, key);
	const struct broker *b = c->model->vhost->broker;
	struct decide_spec spec = { .rules = &b->active_rules,
				    .vhost = c->model->vhost,
				    .msg = dead,
				    .now_ms = b->now_ms };
	struct decision d;
	struct error err;

	if (!dead)
		return;
	if (decide(&d, &spec, &err) == TIDE_OK) {
		link_outcome(c, q, &d.first);
		for (unsigned i = 0; i < d.copy_count; i++)
			link_outcome(c, q, &d.copies[i]);
	}
	decide_deinit(&d);
	msg_unref(dead);
}

/* A key that the pattern of a binding is likely to match. */
static char *key_of(const char *pattern)
{
	char *key = mem_strdup(pattern);

	for (char *c = key; *c; c++)
		if (*c == '*' || *c == '#')
			*c = 'a';
	return key;
}

/* A dead letter keeps the key of its message unless the queue sets one. */
static void link_dead_letters(struct circles *c, const struct queue *q)
{
	const struct binding *b;

	if (!q->config.dead_exchange)
		return;
	if (q->config.dead_key) {
		link_dead_letter(c, q, q->config.dead_key);
		return;
	}
	link_dead_letter(c, q, q->name);
	TAILQ_FOREACH (b, &q->incoming, dest_link) {
		char *key = key_of(b->pattern);

		link_dead_letter(c, q, key);
		mem_free(key);
	}
}

static void check_death_circles(struct model *m)
{
	struct circles c = { .model = m,
			     .kind = "queue",
			     .what = "dead-letters to itself in the end" };

	for (const struct queue *q = m->vhost->queues; q; q = q->hh.next)
		link_dead_letters(&c, q);
	report_circles(&c);
}

/* Queues whose dead letters come back, and exchanges that are bound to themselves in the
 * end. Dead letters are decided by the rules of the model, as a broker decides them. */
static void circles_check(struct model *m)
{
	check_death_circles(m);
	check_bindings(m);
}

/* A directed graph of named nodes, and its circles. */

void graph_deinit(struct graph *g)
{
	struct graph_node *n, *next;

	HASH_ITER (hh, g->nodes, n, next) {
		HASH_DEL(g->nodes, n);
		mem_free(n->links);
		mem_free(n);
	}
	mem_free(g->way);
}

static struct graph_node *node_of(struct graph *g, const char *name)
{
	struct graph_node *n;

	HASH_FIND_STR(g->nodes, name, n);
	if (n)
		return n;
	n = mem_zalloc(sizeof(*n));
	n->name = name;
	HASH_ADD_KEYPTR(hh, g->nodes, name, strlen(name), n);
	return n;
}

void graph_link(struct graph *g, const char *from, const char *to)
{
	struct graph_node *n = node_of(g, from);

	MEM_GROW(n->links, n->count, n->cap, 4);
	n->links[n->count++] = node_of(g, to);
}

static void enter_node(struct graph *g, struct graph_node *n)
{
	n->state = ON_WAY;
	n->place = g->way_len;
	g->way[g->way_len++] = n;
}

/* Depth first. A link back to a node on the way closes a circle. */
static void walk_from(struct graph *g, struct graph_node *start,
		      graph_circle_fn *on_circle, void *ctx)
{
	enter_node(g, start);
	while (g->way_len > 0) {
		struct graph_node *last = g->way[g->way_len - 1], *next;

		if (last->at == last->count) {
			last->state = DONE;
			g->way_len--;
			continue;
		}
		next = last->links[last->at++];
		if (next->state == UNSEEN) {
			enter_node(g, next);
		} else if (next->state == ON_WAY && !next->is_reported) {
			next->is_reported = true;
			on_circle(ctx, &g->way[next->place], g->way_len - next->place);
		}
	}
}

static int by_name(const struct graph_node *a, const struct graph_node *b)
{
	return strcmp(a->name, b->name);
}

void graph_each_circle(struct graph *g, graph_circle_fn *on_circle, void *ctx)
{
	HASH_SORT(g->nodes, by_name);
	g->way = mem_alloc((HASH_COUNT(g->nodes) + 1) * sizeof(struct graph_node *));
	for (struct graph_node *n = g->nodes; n; n = n->hh.next)
		if (n->state == UNSEEN)
			walk_from(g, n, on_circle, ctx);
}

struct sender {
	struct model *model;
	const struct rule *script;
};

/* Of a filter: an exchange of its match. */
static bool is_matched(const struct rule *script, struct slice exchange)
{
	const struct rule_match *m = script->match;

	for (size_t i = 0; m && i < m->exchange.count; i++) {
		if (slice_is(exchange, m->exchange.items[i]))
			return true;
	}
	return false;
}

static void on_exchange(void *ctx, struct slice name, int line)
{
	const struct sender *sender = ctx;
	char *text = mem_strndup(name.data, name.len);

	/* A matched target is reported for the match. */
	if (!is_matched(sender->script, name) && !model_has_exchange(sender->model, text))
		findings_add(sender->model->findings, FINDING_PROBLEM,
			     sender->script->file, line,
			     "sends to exchange '%s', which does not exist: the publish "
			     "fails",
			     text);
	mem_free(text);
}

static void check_matched(struct model *m, const struct rule *script)
{
	const struct match_words *w = &script->match->exchange;

	for (size_t i = 0; i < w->count; i++) {
		if (!model_has_exchange(m, w->items[i]))
			findings_add(m->findings, FINDING_PROBLEM, script->file,
				     script->line,
				     "matches exchange '%s', which does not exist: the "
				     "filter is never called%s",
				     w->items[i], w->count > 1 ? " for it" : "");
	}
}

static void check_script(struct model *m, const struct rule *script,
			 const struct bundle *files)
{
	const struct bundle_file *file = bundle_find(files, script->file);
	struct sender sender = { m, script };

	if (!rule_is_active(script))
		return;
	if (script->kind == SCRIPT_FILTER)
		check_matched(m, script);
	if (file)
		findings_each_exchange((struct slice){ file->text, file->len },
				       on_exchange, &sender);
}

static void check_dead_letters(struct model *m, const struct queue *q)
{
	const char *exchange = q->config.dead_exchange, *problem = NULL;
	bool is_to_queue = exchange && !exchange[0];
	const char *name = is_to_queue ? q->config.dead_key : exchange;
	const struct exchange *x;

	if (!exchange)
		return;
	/* NULL as well when its declaration was refused. */
	x = is_to_queue ? NULL : exchange_find(m->vhost, slice_from(name));
	if (!(is_to_queue ? model_has_queue(m, name) : model_has_exchange(m, name)))
		problem = "does not exist";
	else if (x && x->binding_count == 0)
		problem = "has no bindings";
	if (problem)
		model_report(
			m, "queue", q->name,
			"%s '%s' dead-letters to %s '%s', which %s: its dead letters "
			"are %s",
			definition_kind(q->definition.table), q->name,
			is_to_queue ? "queue" : "exchange", name, problem,
			q->topic ? "given up" : "buried");
}

static void check_alternate(struct model *m, const struct exchange *x)
{
	if (x->config.alternate && !model_has_exchange(m, x->config.alternate))
		model_report(
			m, "exchange", x->name,
			"exchange '%s' has the alternate '%s', which does not exist: "
			"what no queue takes is dropped",
			x->name, x->config.alternate);
}

/* Exchanges and queues that do not exist: exchanges that filters match, exchanges in the
 * texts of active filters and schedules (`exchange = "name"`), targets of dead letters.
 */
static void targets_check(struct model *m, const struct survey *s)
{
	size_t count;
	struct rule *const *scripts = survey_scripts(s, &count);

	for (size_t i = 0; i < count; i++)
		check_script(m, scripts[i], survey_files(s));
	for (const struct queue *q = m->vhost->queues; q; q = q->hh.next)
		check_dead_letters(m, q);
	for (const struct exchange *x = m->vhost->exchanges; x; x = x->hh.next)
		check_alternate(m, x);
}

/* Exchanges, queues and bindings in a broker of this process, which has the
 * rules in question, and neither store, network nor messages.
 *
 * `tidemq check` declares in it what a file or a running broker has, and looks at what
 * the rules make of it. */

#define BROKER "broker" /* the place of what a running broker has */
#define PAYLOAD_MAX 1024
#define WORDS_MAX 4
#define WORD_MAX 300
#define ID_MAX (2 * WORD_MAX + 16)

static void on_started(void *ctx, const struct error *err)
{
	struct model *m = ctx;

	m->is_started = true;
	if (err)
		m->start_error = *err;
	uv_stop(&m->loop);
}

static void do_nothing(void *ctx)
{
}

static bool can_take(void *ctx)
{
	return true;
}

static void describe_nothing(void *ctx, struct json *out)
{
}

static const struct protocol_ops ops = {
	.finish = do_nothing,
	.kill = do_nothing,
	.wake = do_nothing,
	.can_take = can_take,
	.describe = describe_nothing,
};

static void close_broker(struct model *m)
{
	if (m->service)
		service_close(m->service, 0);
	uv_run(&m->loop, UV_RUN_DEFAULT);
	uv_loop_close(&m->loop);
}

/* The rules must load. On failure there is nothing to close. */
static int model_open(struct model *m, const struct check_options *o, struct findings *f,
		      struct error *err)
{
	struct service_hooks hooks = { .ctx = m,
				       .on_started = on_started,
				       .on_turn = do_nothing,
				       .on_closed = do_nothing };
	struct broker_config config;
	struct protocol_spec spec;
	int rc;

	*m = (struct model){ .findings = f };
	broker_config_init(&config);
	config.store.url = "none";
	config.rules_dir = o->dir;
	config.lua_dir = o->lua_dir;
	config.rules_settings = o->settings;
	config.rules_watch = false;
	config.is_model = true;
	uv_loop_init(&m->loop);
	rc = service_create(&m->service, &m->loop, &config, &hooks, err);
	while (rc == TIDE_OK && !m->is_started)
		uv_run(&m->loop, UV_RUN_DEFAULT);
	if (rc == TIDE_OK && m->start_error.code < 0) {
		*err = m->start_error;
		rc = err->code;
	}
	if (rc < 0) {
		close_broker(m);
		return rc;
	}
	m->vhost = vhost_find(m->service->broker, SLICE("/"));
	out_pool_init(&m->chunks);
	out_init(&m->out, &m->chunks);
	spec = (struct protocol_spec){
		.service = m->service,
		.out = &m->out,
		.ops = &ops,
		.ctx = m,
		.payload_max = PAYLOAD_MAX,
	};
	line_protocol.init(&m->line.base, &spec);
	return TIDE_OK;
}

static void model_close(struct model *m)
{
	struct model_place *place, *next;

	line_protocol.deinit(&m->line.base);
	out_deinit(&m->out);
	close_broker(m);
	pool_deinit(&m->chunks);
	HASH_ITER (hh, m->places, place, next) {
		HASH_DEL(m->places, place);
		mem_free(place);
	}
}

static const struct model_place *find_exactly(const struct model *m, const char *kind,
					      const char *name)
{
	const struct model_place *place;
	char id[ID_MAX];

	snprintf(id, sizeof(id), "%s %s", kind, name);
	HASH_FIND_STR(m->places, id, place);
	return place;
}

/* A script that asks for a queue may be given a topic: they share their names. */
static const struct model_place *find_place(const struct model *m, const char *kind,
					    const char *name)
{
	const struct model_place *place = find_exactly(m, kind, name);

	return place || strcmp(kind, "queue") != 0 ? place
						   : find_exactly(m, "topic", name);
}

static void note_place(struct model *m, const char *id, struct model_place at)
{
	struct model_place *place;

	HASH_FIND_STR(m->places, id, place);
	if (place)
		return;
	place = mem_zalloc(sizeof(*place) + strlen(id) + 1);
	*place = at;
	strcpy(place->id, id);
	HASH_ADD_STR(m->places, id, place);
}

/* Was it declared, even if that was refused? The default exchange ("") is there. */
static bool model_has_exchange(const struct model *m, const char *name)
{
	return !name[0] || find_place(m, "exchange", name);
}

static bool model_has_queue(const struct model *m, const char *name)
{
	return find_place(m, "queue", name) != NULL;
}

/* Add a finding at the definition of this exchange or queue (`kind`). */
static void model_report(struct model *m, const char *kind, const char *name,
			 const char *format, ...)
{
	const struct model_place *place = find_place(m, kind, name);
	char *text;
	va_list ap;

	va_start(ap, format);
	if (vasprintf(&text, format, ap) < 0)
		text = NULL;
	va_end(ap);
	findings_add(m->findings, FINDING_OUTSIDE, place ? place->file : BROKER,
		     place ? place->line : 0, "%s", text ? text : format);
	free(text);
}

/* Carry out a request; its answer, without the line end, is a text. */
static const char *ask_model(struct model *m, const char *request, struct buf *answer)
{
	struct iovec piece;

	buf_printf(answer, "%s\r\n", request);
	line_protocol.feed(&m->line.base, answer->data + answer->start, buf_len(answer));
	buf_clear(answer);
	while (out_iovecs(&m->out, &piece, 1) > 0) {
		buf_append(answer, piece.iov_base, piece.iov_len);
		out_consume(&m->out, piece.iov_len);
	}
	answer->end = answer->start + strcspn(buf_cstr(answer), "\r\n");
	return buf_cstr(answer);
}

/* A declaration in a line. */
struct declaration {
	char words[WORDS_MAX][WORD_MAX];
	bool is_bind, is_to_exchange;
	char id[ID_MAX];
};

static bool read_declaration(const char *line, struct declaration *s)
{
	int n = sscanf(line, "%299s %299s %299s %299s", s->words[0], s->words[1],
		       s->words[2], s->words[3]);

	s->is_bind = strcasecmp(s->words[0], "BIND") == 0;
	s->is_to_exchange = strstr(line, " dest=exchange") != NULL;
	if (n >= 3 && strcasecmp(s->words[0], "DECLARE") == 0)
		snprintf(s->id, sizeof(s->id), "%s %s", s->words[1], s->words[2]);
	else if (n >= 4 && s->is_bind)
		snprintf(s->id, sizeof(s->id), "binding %s %s", s->words[2], s->words[1]);
	else
		return false;
	return strlen(line) < LINE_MAX_BYTES - strlen("\r\n");
}

static bool is_refused(const struct model *m, const char *kind, const char *name)
{
	const struct model_place *place = find_place(m, kind, name);

	return place && place->is_refused;
}

/* A binding of what was refused fails for that reason alone. */
static bool is_consequence(const struct model *m, const struct declaration *s)
{
	return s->is_bind &&
	       (is_refused(m, "exchange", s->words[2]) ||
		is_refused(m, s->is_to_exchange ? "exchange" : "queue", s->words[1]));
}

/* @param why  "ERR not-found there is no ..." */
static void report_refusal(struct model *m, const struct declaration *s,
			   struct model_place at, const char *why)
{
	why = strncmp(why, "ERR ", 4) == 0 ? why + 4 : why;
	why += strcspn(why, " ");
	findings_add(m->findings, FINDING_OUTSIDE, at.file, at.line,
		     s->is_bind ? "binding of '%s' to '%s':%s" : "%s '%s':%s",
		     s->words[1], s->words[2], why);
}

static void read_line(struct model *m, const char *line, struct model_place at)
{
	struct declaration s = { .id = "" };
	struct buf buf = { 0 };
	const char *answer;

	if (!read_declaration(line, &s)) {
		findings_add(
			m->findings, FINDING_OUTSIDE, at.file, at.line,
			"'%.80s' is not a definition; definitions are: DECLARE exchange "
			"<name> <type>, DECLARE queue <name>, DECLARE topic <name>, BIND "
			"<queue> <exchange> <pattern>, each with its options, in at most "
			"%d bytes",
			line, LINE_MAX_BYTES);
		return;
	}
	answer = ask_model(m, line, &buf);
	at.is_refused = strncmp(answer, "OK", 2) != 0;
	note_place(m, s.id, at);
	if (at.is_refused && !is_consequence(m, &s))
		report_refusal(m, &s, at, answer);
	buf_deinit(&buf);
}

/* Cut off blanks at both ends. */
static char *trim_line(char *line)
{
	size_t len;

	line += strspn(line, " \t");
	len = strlen(line);
	while (len > 0 && strchr(" \t\r", line[len - 1]))
		line[--len] = '\0';
	return line;
}

/* Declare what the lines say. A line that is refused is a finding, unless it is refused
 * only because an earlier one was.
 *
 * @param file  where the lines are from, outlives the model; NULL: a running broker */
static void model_read(struct model *m, struct slice text, const char *file)
{
	char *copy = mem_strndup(text.len ? text.data : "", text.len), *rest = copy;
	struct model_place at = { .file = file ? file : BROKER };
	char *line;

	while ((line = strsep(&rest, "\n"))) {
		at.line += file != NULL;
		line = trim_line(line);
		if (line[0] && line[0] != '#')
			read_line(m, line, at);
	}
	mem_free(copy);
}

/* The files that `tidemq check` looks at, one after the other. */

#define DEFINITIONS_MAX_BYTES ((size_t)64 << 20)

static int read_file(const char *path, struct buf *out)
{
	FILE *file = fopen(path, "r");
	size_t n = 1;
	int rc;

	while (file && n > 0 && buf_len(out) < DEFINITIONS_MAX_BYTES) {
		n = fread(buf_reserve(out, 4096), 1, 4096, file);
		buf_grow(out, n);
	}
	rc = !file || ferror(file) ? -1 : 0;
	if (file)
		fclose(file);
	return rc;
}

static void on_error(void *ctx, const char *text)
{
	findings_add_error(ctx, text);
}

static void check_model(const struct check_options *o, const struct survey *s,
			struct slice definitions, struct slice of_broker,
			struct findings *f)
{
	struct model m;
	struct error err;

	if (model_open(&m, o, f, &err) < 0) {
		findings_add_error(f, err.text);
		return;
	}
	model_read(&m, definitions, o->definitions);
	model_read(&m, of_broker, NULL);
	targets_check(&m, s);
	circles_check(&m);
	model_close(&m);
}

static void check_definitions(const struct check_options *o, const struct survey *s,
			      struct slice definitions, struct findings *f)
{
	struct buf of_broker = { 0 };
	struct error err;

	if (!o->url && !o->definitions)
		return;
	if (!survey_is_complete(s)) {
		findings_add(f, FINDING_NOTE, "", 0,
			     "not compared with the definitions, because not every "
			     "script loads");
		return;
	}
	/* Without an answer nobody knows whether the rules fit: that is a problem. */
	if (o->url && ask_broker(o->url, &of_broker, &err) < 0)
		findings_add(f, FINDING_OUTSIDE, "broker", 0, "%s", err.text);
	else
		check_model(o, s, definitions, buf_slice(&of_broker), f);
	buf_deinit(&of_broker);
}

static int check_with(const struct check_options *o, struct slice definitions)
{
	const struct survey_spec spec = { o->dir, o->lua_dir, o->settings,
					  terms_check_option };
	struct findings f;
	struct survey *s;
	int status;

	findings_init(&f, o->dir);
	log_configure(LOG_WARN, false);
	s = survey_open(&spec, on_error, &f);
	findings_add_scripts(s, &f);
	findings_lint(o->dir, &f);
	/* Filters see made-up dead letters; what they log about those helps nobody. */
	log_configure(LOG_NONE, false);
	check_definitions(o, s, definitions, &f);
	status = f.problems ? 1 : 0;
	if (o->is_json) {
		findings_print_json(&f, stdout);
	} else {
		findings_print(&f, stdout);
		printf("%s: %s\n", o->dir,
		       status ? "not fit to go live" : "nothing is wrong");
	}
	survey_close(s);
	findings_deinit(&f);
	return status;
}

int check_run(const struct check_options *o)
{
	struct buf definitions = { 0 };
	int status = 2;

	if (o->definitions && read_file(o->definitions, &definitions) < 0)
		fprintf(stderr, "tidemq: cannot read '%s': %s\n", o->definitions,
			strerror(errno));
	else
		status = check_with(o, buf_slice(&definitions));
	buf_deinit(&definitions);
	return status;
}
