#include "model.h"

#include <stdio.h>
#include <strings.h>

#include "check.h"
#include "base/mem.h"
#include "broker/vhost.h"

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

static void nothing(void *ctx)
{
}

static bool can_take(void *ctx)
{
	return true;
}

static void describe(void *ctx, struct json *out)
{
}

static const struct protocol_ops ops = {
	.finish = nothing,
	.kill = nothing,
	.wake = nothing,
	.can_take = can_take,
	.describe = describe,
};

static void close_broker(struct model *m)
{
	if (m->service)
		service_close(m->service, 0);
	uv_run(&m->loop, UV_RUN_DEFAULT);
	uv_loop_close(&m->loop);
}

int model_open(struct model *m, const struct check_options *o, struct findings *f,
	       struct error *err)
{
	struct service_hooks hooks = { .ctx = m,
				       .on_started = on_started,
				       .on_turn = nothing,
				       .on_closed = nothing };
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

void model_close(struct model *m)
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

/* What asks for a queue may be given a topic: they share their names. */
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

bool model_has_exchange(const struct model *m, const char *name)
{
	return !name[0] || find_place(m, "exchange", name);
}

bool model_has_queue(const struct model *m, const char *name)
{
	return find_place(m, "queue", name) != NULL;
}

static bool is_refused(const struct model *m, const char *kind, const char *name)
{
	const struct model_place *place = find_place(m, kind, name);

	return place && place->is_refused;
}

void model_report(struct model *m, const char *kind, const char *name, const char *text)
{
	const struct model_place *place = find_place(m, kind, name);

	findings_add_outside(m->findings, place ? place->file : BROKER,
			     place ? place->line : 0, "%s", text);
}

/* Carry out a request; its answer, without the line end, is a text. */
static const char *ask(struct model *m, const char *request, struct buf *answer)
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

/* What a line is about. */
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
	findings_add_outside(m->findings, at.file, at.line,
			     s->is_bind ? "binding of '%s' to '%s':%s" : "%s '%s':%s",
			     s->words[1], s->words[2], why);
}

static void read_line(struct model *m, const char *line, struct model_place at)
{
	struct declaration s = { .id = "" };
	struct buf buf = { 0 };
	const char *answer;

	if (!read_declaration(line, &s)) {
		findings_add_outside(
			m->findings, at.file, at.line,
			"'%.80s' is not a definition; definitions are: DECLARE exchange "
			"<name> <type>, DECLARE queue <name>, DECLARE topic <name>, BIND "
			"<queue> <exchange> <pattern>, each with its options, in at most "
			"%d bytes",
			line, LINE_MAX_BYTES);
		return;
	}
	answer = ask(m, line, &buf);
	at.is_refused = strncmp(answer, "OK", 2) != 0;
	note_place(m, s.id, at);
	if (at.is_refused && !is_consequence(m, &s))
		report_refusal(m, &s, at, answer);
	buf_deinit(&buf);
}

/* Cut off blanks at both ends. */
static char *trim(char *line)
{
	size_t len;

	line += strspn(line, " \t");
	len = strlen(line);
	while (len > 0 && strchr(" \t\r", line[len - 1]))
		line[--len] = '\0';
	return line;
}

void model_read(struct model *m, struct slice text, const char *file)
{
	char *copy = mem_strndup(text.len ? text.data : "", text.len), *rest = copy;
	struct model_place at = { .file = file ? file : BROKER };
	char *line;

	while ((line = strsep(&rest, "\n"))) {
		at.line += file != NULL;
		line = trim(line);
		if (line[0] && line[0] != '#')
			read_line(m, line, at);
	}
	mem_free(copy);
}
