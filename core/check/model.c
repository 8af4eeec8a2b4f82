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

/* ---- the broker, and a connection to it ---------------------------------------------
 */

static void on_started(void *ctx, const struct error *err)
{
	struct model *m = ctx;

	m->is_started = true;
	uv_stop(&m->loop);
}

static void on_turn(void *ctx)
{
}

static void on_closed(void *ctx)
{
	struct model *m = ctx;

	m->broker = NULL;
}

static void nothing(void *ctx)
{
}

static void set_heartbeat(void *ctx, int64_t interval_ms)
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
	.set_heartbeat = set_heartbeat,
	.wrote = nothing,
	.can_take = can_take,
	.resume = nothing,
	.describe = describe,
};

int model_open(struct model *m, const char *rules_dir, const char *lua_dir,
	       struct error *err)
{
	struct broker_hooks hooks = { m, on_started, on_turn, on_closed };
	struct broker_config config;
	int rc;

	broker_config_init(&config);
	config.store.url = "none";
	config.rules_dir = rules_dir;
	config.lua_dir = lua_dir;
	config.rules_watch = false;
	uv_loop_init(&m->loop);
	rc = broker_create(&m->broker, &m->loop, &config, &hooks, err);
	if (rc < 0) {
		uv_run(&m->loop, UV_RUN_DEFAULT);
		uv_loop_close(&m->loop);
		return rc;
	}
	while (!m->is_started)
		uv_run(&m->loop, UV_RUN_DEFAULT);
	m->vhost = vhost_find(m->broker, SLICE("/"));
	out_pool_init(&m->chunks);
	out_init(&m->out, &m->chunks);
	line_init(&m->line, m->broker, &m->out, &ops, m, PAYLOAD_MAX);
	return TIDE_OK;
}

void model_close(struct model *m)
{
	line_deinit(&m->line);
	out_deinit(&m->out);
	broker_close(m->broker, 0);
	uv_run(&m->loop, UV_RUN_DEFAULT);
	uv_loop_close(&m->loop);
	pool_deinit(&m->chunks);
	for (size_t i = 0; i < m->place_count; i++)
		mem_free(m->places[i].id);
	mem_free(m->places);
}

/* ---- places
 * ---------------------------------------------------------------------------- */

static const struct model_place *find_place(const struct model *m, const char *id)
{
	for (size_t i = 0; i < m->place_count; i++)
		if (strcmp(m->places[i].id, id) == 0)
			return &m->places[i];
	return NULL;
}

bool model_knows(const struct model *m, const char *kind, const char *name)
{
	char id[600];

	snprintf(id, sizeof(id), "%s %s", kind, name);
	return find_place(m, id) != NULL;
}

static bool is_refused(const struct model *m, const char *kind, const char *name)
{
	char id[600];
	const struct model_place *place;

	snprintf(id, sizeof(id), "%s %s", kind, name);
	place = find_place(m, id);
	return place && place->is_refused;
}

static void note_place(struct model *m, const char *id, int line, bool refused)
{
	if (find_place(m, id))
		return;
	m->places = mem_realloc(m->places, (m->place_count + 1) * sizeof(*m->places));
	m->places[m->place_count++] =
		(struct model_place){ mem_strdup(id), m->file, line, refused };
}

static void find_at(struct model *m, const char *file, int line, const char *text)
{
	const char *dir = m->findings->dir;

	m->findings->dir = NULL;
	findings_add(m->findings, file ? file : "broker", file ? line : 0, "%s", text);
	m->findings->dir = dir;
}

void model_find(struct model *m, const char *id, const char *format, ...)
{
	const struct model_place *place = find_place(m, id);
	char *text;
	va_list ap;
	int len;

	va_start(ap, format);
	len = vasprintf(&text, format, ap);
	va_end(ap);
	if (len < 0)
		return;
	find_at(m, place ? place->file : m->file, place ? place->line : 1, text);
	free(text);
}

/* ---- lines
 * ----------------------------------------------------------------------------- */

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

/* What a line is about: its first words. */
struct subject {
	char words[WORDS_MAX][300];
	bool is_bind, is_to_exchange;
	char id[600];
};

static bool read_subject(const char *line, struct subject *s)
{
	int n = sscanf(line, "%299s %299s %299s %299s", s->words[0], s->words[1],
		       s->words[2], s->words[3]);

	s->is_bind = strcasecmp(s->words[0], "BIND") == 0;
	s->is_to_exchange = strstr(line, " dest=exchange") != NULL;
	if (n >= 3 && strcasecmp(s->words[0], "DECLARE") == 0)
		snprintf(s->id, sizeof(s->id), "%.290s %.290s", s->words[1], s->words[2]);
	else if (n >= 4 && s->is_bind)
		snprintf(s->id, sizeof(s->id), "binding %.280s %.280s", s->words[2],
			 s->words[1]);
	else
		return false;
	return true;
}

/* A binding of what was refused fails for that reason alone. */
static bool is_consequence(const struct model *m, const struct subject *s)
{
	return s->is_bind &&
	       (is_refused(m, "exchange", s->words[2]) ||
		is_refused(m, s->is_to_exchange ? "exchange" : "queue", s->words[1]));
}

static void read_line(struct model *m, char *line, int number)
{
	struct subject s = { .id = "" };
	char answer[ANSWER_MAX], text[2 * ANSWER_MAX];
	const char *why;

	line += strspn(line, " \t");
	line[strcspn(line, "\r\n")] = '\0';
	for (size_t len = strlen(line); len && strchr(" \t", line[len - 1]);)
		line[--len] = '\0';
	if (!line[0] || line[0] == '#')
		return;
	if (!read_subject(line, &s)) {
		snprintf(text, sizeof(text),
			 "'%.80s' is no definition; these are: DECLARE exchange <name> "
			 "<type>, DECLARE queue <name>, BIND <queue> <exchange> "
			 "<pattern>, each with its options",
			 line);
		find_at(m, m->file, number, text);
		return;
	}
	ask(m, line, answer);
	bool refused = strncmp(answer, "OK", 2) != 0;
	note_place(m, s.id, number, refused);
	if (!refused || is_consequence(m, &s))
		return;
	/* "ERR not-found there is no ..." */
	why = strncmp(answer, "ERR ", 4) == 0 ? answer + 4 : answer;
	why += strcspn(why, " ");
	if (s.is_bind)
		snprintf(text, sizeof(text), "binding of '%s' to '%s':%s", s.words[1],
			 s.words[2], why);
	else
		snprintf(text, sizeof(text), "%s '%s':%s", s.words[1], s.words[2], why);
	find_at(m, m->file, number, text);
}

void model_read(struct model *m, struct slice text)
{
	char *copy = mem_strndup(text.len ? text.data : "", text.len), *rest = copy;
	char *line;

	for (int number = 1; (line = strsep(&rest, "\n")); number++)
		read_line(m, line, number);
	mem_free(copy);
}
