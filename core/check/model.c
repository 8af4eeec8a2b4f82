#include "model.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/mem.h"
#include "broker/vhost.h"

#define ANSWER_MAX 1024
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

static void on_closed(void *ctx)
{
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

static const struct line_ops ops = {
	.finish = nothing,
	.wrote = nothing,
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

int model_open(struct model *m, const char *rules_dir, const char *lua_dir,
	       struct findings *f, struct error *err)
{
	struct service_hooks hooks = { m, on_started, nothing, on_closed };
	struct broker_config config;
	int rc;

	*m = (struct model){ .findings = f };
	broker_config_init(&config);
	config.store.url = "none";
	config.rules_dir = rules_dir;
	config.lua_dir = lua_dir;
	config.rules_watch = false;
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
	line_init(&m->line, m->service, &m->out, &ops, m, PAYLOAD_MAX);
	return TIDE_OK;
}

void model_close(struct model *m)
{
	struct model_place *place, *next;

	line_deinit(&m->line);
	out_deinit(&m->out);
	close_broker(m);
	pool_deinit(&m->chunks);
	HASH_ITER (hh, m->places, place, next) {
		HASH_DEL(m->places, place);
		mem_free(place);
	}
}

static const struct model_place *find_place(const struct model *m, const char *kind,
					    const char *name)
{
	const struct model_place *place;
	char id[ID_MAX];

	snprintf(id, sizeof(id), "%s %s", kind, name);
	HASH_FIND_STR(m->places, id, place);
	return place;
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

static void add_finding(struct model *m, const char *file, int line, const char *text)
{
	findings_add_outside(m->findings, file ? file : "broker", file ? line : 0, "%s",
			     text);
}

void model_report(struct model *m, const char *kind, const char *name, const char *format,
		  ...)
{
	const struct model_place *place = find_place(m, kind, name);
	char *text;
	va_list ap;
	int len;

	va_start(ap, format);
	len = vasprintf(&text, format, ap);
	va_end(ap);
	if (len < 0)
		return;
	add_finding(m, place ? place->file : NULL, place ? place->line : 0, text);
	free(text);
}

/* The answer to a request, without its end. */
static void take_answer(struct model *m, char *answer)
{
	struct iovec vec[8];
	unsigned count;
	size_t len = 0;

	while ((count = out_iovecs(&m->out, vec, 8)) > 0) {
		size_t taken = 0;

		for (unsigned i = 0; i < count; i++) {
			size_t room = ANSWER_MAX - 1 - len;
			size_t some = vec[i].iov_len < room ? vec[i].iov_len : room;

			memcpy(answer + len, vec[i].iov_base, some);
			len += some;
			taken += vec[i].iov_len;
		}
		out_consume(&m->out, taken);
	}
	answer[len] = '\0';
	answer[strcspn(answer, "\r\n")] = '\0';
}

static void ask(struct model *m, const char *request, char *answer)
{
	struct buf line;

	buf_init(&line);
	buf_printf(&line, "%s\r\n", request);
	line_feed(&m->line, line.data + line.start, buf_len(&line));
	buf_deinit(&line);
	take_answer(m, answer);
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
	char text[2 * ANSWER_MAX];

	why = strncmp(why, "ERR ", 4) == 0 ? why + 4 : why;
	why += strcspn(why, " ");
	if (s->is_bind)
		snprintf(text, sizeof(text), "binding of '%s' to '%s':%s", s->words[1],
			 s->words[2], why);
	else
		snprintf(text, sizeof(text), "%s '%s':%s", s->words[1], s->words[2], why);
	add_finding(m, at.file, at.line, text);
}

static void read_line(struct model *m, const char *line, struct model_place at)
{
	struct declaration s = { .id = "" };
	char answer[ANSWER_MAX], text[ANSWER_MAX];

	if (!read_declaration(line, &s)) {
		snprintf(text, sizeof(text),
			 "'%.80s' is not a definition; definitions are: DECLARE exchange "
			 "<name> <type>, DECLARE queue <name>, BIND <queue> <exchange> "
			 "<pattern>, each with its options, in at most %d bytes",
			 line, LINE_MAX_BYTES);
		add_finding(m, at.file, at.line, text);
		return;
	}
	ask(m, line, answer);
	at.is_refused = strncmp(answer, "OK", 2) != 0;
	note_place(m, s.id, at);
	if (at.is_refused && !is_consequence(m, &s))
		report_refusal(m, &s, at, answer);
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
	struct model_place at = { .file = file };
	char *line;

	while ((line = strsep(&rest, "\n"))) {
		at.line++;
		line = trim(line);
		if (line[0] && line[0] != '#')
			read_line(m, line, at);
	}
	mem_free(copy);
}
