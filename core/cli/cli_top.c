/* cli_top.c: top. Between two refreshes it waits for a key. Curses sends to the terminal
 * what has changed. Without a terminal the same page is printed once. */
#include <curses.h>
#include <inttypes.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/percent.h"
#include "base/utf8.h"
#include "cli_table.h"
#include "cli_url.h"
#include "figures/figure.h"
#include "figures/figure_rows.h"
#include "host/machine.h"

#define TYPED_MAX 255
#define HEAD_LINES 2
#define ROWS_FIRST (HEAD_LINES + 2) /* behind name, head and titles */
#define ANSWER_MS 5000 /* no answer for so long: the connection is given up */
#define ESCAPE_MS 25   /* from an Esc to the rest of a key */
#define KEY_ESCAPE 27
#define NAME_MIN 16
#define CELL_MAX 48 /* bytes of a figure */

enum cell_kind {
	BY_FIGURE, /* as the row of figure_rows.h says */
	COUNT,
	RATE,
	BYTES,
	DURATION,
	STATE, /* of a queue: paused or not. LIST does not sort by it, nor by labels */
	LABEL,
	TEXT,
	NAME, /* takes the room that is left */
};

struct top_column {
	const char *title;  /* NULL: behind the last */
	const char *member; /* of the broker's document */
	enum cell_kind kind;
	int width;
	int spare;        /* left out when it is narrow: the highest first; 0: never */
	char key;         /* that sorts by it; 0: none */
	const char *what; /* for the help */
};

/* clang-format off */
static const struct top_column queue_columns[] = {
	{ "QUEUE",   "name",            NAME,      0, 0, 'n', "name" },
	{ "READY",   "ready",           BY_FIGURE, 7, 0, 'b', "backlog: ready" },
	{ "UNACKED", "unacked",         BY_FIGURE, 7, 0, 'u', "unacked" },
	{ "DELAYED", "delayed",         BY_FIGURE, 7, 2, 'd', "delayed" },
	{ "BURIED",  "buried",          BY_FIGURE, 6, 4, 0,   NULL },
	{ "IN/S",    "in_10s",          BY_FIGURE, 7, 0, 'i', "rate in" },
	{ "OUT/S",   "out_10s",         BY_FIGURE, 7, 0, 'o', "rate out" },
	{ "OLDEST",  "oldest_ready_ms", BY_FIGURE, 7, 0, 'a', "age of the oldest ready message" },
	{ "CONS",    "consumers",       BY_FIGURE, 5, 1, 'm', "consumers" },
	{ "STATE",   "paused",          STATE,     8, 3, 0,   NULL },
	{ .title = NULL },
};

static const struct top_column topic_columns[] = {
	{ "TOPIC",    "name",       NAME,      0, 0, 'n', "name" },
	{ "PARTS",    "partitions", BY_FIGURE, 5, 2, 0,   NULL },
	{ "MESSAGES", "messages",   BY_FIGURE, 8, 0, 'u', "messages" },
	{ "BYTES",    "bytes",      BY_FIGURE, 7, 3, 'd', "bytes" },
	{ "IN/S",     "in_10s",     BY_FIGURE, 7, 0, 'i', "rate in" },
	{ "OUT/S",    "out_10s",    BY_FIGURE, 7, 0, 'o', "rate out" },
	{ "GROUPS",   "groups",     BY_FIGURE, 6, 1, 0,   NULL },
	{ "LAG",      "lag",        BY_FIGURE, 8, 0, 'b', "backlog: lag of the group that is the furthest behind" },
	{ "CONS",     "consumers",  BY_FIGURE, 5, 4, 'm', "consumers" },
	{ .title = NULL },
};

static const struct top_column connection_columns[] = {
	{ "CONNECTION", "connection", COUNT, 10, 0, 'a', "age" },
	{ "NAME",       "name",       NAME,   0, 0, 'n', "name" },
	{ "USER",       "user",       TEXT,  10, 2, 0,   NULL },
	{ "PEER",       "peer",       LABEL, 21, 4, 0,   NULL },
	{ "PROTOCOL",   "protocol",   LABEL, 11, 3, 0,   NULL },
	{ "VHOST",      "vhost",      LABEL,  8, 5, 0,   NULL },
	{ "CHAN",       "channels",   COUNT,  5, 1, 'm', "channels" },
	{ "PENDING",    "pending",    COUNT,  7, 0, 'u', "requests without an answer" },
	{ "OUTPUT",     "output",     BYTES,  7, 0, 'b', "backlog: bytes that wait for the client" },
	{ "IN",         "bytes_in",   BYTES,  7, 0, 'i', "bytes from it" },
	{ "OUT",        "bytes_out",  BYTES,  7, 0, 'o', "bytes to it" },
	{ .title = NULL },
};
/* clang-format on */

static const struct view {
	const char *name; /* as LIST names it; NULL: behind the last */
	char key;
	const struct top_column *columns;
} views[] = {
	{ "queues", 'Q', queue_columns },
	{ "topics", 't', topic_columns },
	{ "connections", 'c', connection_columns },
	{ .name = NULL },
};

enum mode { LOOKING, TYPING_FILTER, TYPING_VHOST, HELPING };

struct top {
	struct cli *cli; /* its client is that of the last connection */
	char *url;       /* of the last connection */
	SCREEN *screen;  /* NULL: plain text */
	bool is_ending;
	const struct view *view;
	const struct top_column *sort;
	bool is_reversed, is_paused;
	bool is_wanted; /* a page is to be asked for, before it is time */
	uint64_t offset;
	char filter[TYPED_MAX + 1];
	enum mode mode;
	char typed[TYPED_MAX + 1];
	json_t *now, *rows;
	char trouble[TIDEMQ_TEXT_MAX + 64]; /* "": there is none */
	bool is_refused;                    /* it is what an answer said */
	bool is_lost;                       /* there is no connection */
};

/* The words of a figure's row about a column. */
struct figure_words {
	const char *name, *sort;
	enum figure_kind kind;
};

static const struct figure_words *figure_of(const char *member)
{
#define WORDS(read, name, shown, sort, script, metric, kind, column, help) \
	{ name, sort, kind },
	static const struct figure_words words[] = { QUEUE_FIGURES(WORDS)
							     TOPIC_FIGURES(WORDS) };
	const struct figure_words *w = words;

	while (!w->name || strcmp(w->name, member) != 0)
		w++;
	return w;
}

/* The word of LIST sort=; NULL: not sorted by it. */
static const char *sort_of(const struct top_column *c)
{
	if (c->kind == BY_FIGURE)
		return figure_of(c->member)->sort;
	return c->kind == STATE || c->kind == LABEL ? NULL : c->member;
}

static enum cell_kind kind_of(const struct top_column *c)
{
	static const enum cell_kind kinds[] = {
		[FIGURE_RATE] = RATE, [FIGURE_SINCE] = DURATION
	};
	enum cell_kind kind;

	if (c->kind != BY_FIGURE)
		return c->kind;
	kind = kinds[figure_of(c->member)->kind];
	return kind ? kind : strcmp(c->member, "bytes") == 0 ? BYTES : COUNT;
}

static const struct top_column *column_by_key(const struct view *view, int key)
{
	const struct top_column *c = view->columns;

	while (c->title && (!c->key || c->key != key))
		c++;
	return c->title ? c : NULL;
}

/* Append text that fits into `width` columns, one a code point, without what would drive
 * the terminal. Returns the columns that it takes. */
static int append_clipped(const char *text, int width, struct buf *out)
{
	size_t len = strlen(text), i = 0;
	int taken = 0;

	for (; i < len && taken < width; taken++) {
		uint32_t point = (unsigned char)text[i];
		size_t n = point < 0x80 ? 1 : utf8_decode(text + i, len - i, &point);

		if (n == 0 || point < 0x20 || (point >= 0x7f && point < 0xa0))
			buf_append_char(out, '.');
		else
			buf_append(out, text + i, n);
		i += n ? n : 1;
	}
	return taken;
}

static double scale_down(double n, double base, const char *units, char *unit)
{
	for (*unit = *units; n >= base - 0.5 && units[1]; *unit = *++units)
		n /= base;
	return n;
}

static void format_duration(double ms, char out[CELL_MAX])
{
	const long long s = (long long)(ms / 1000);

	if (ms < 1000)
		snprintf(out, CELL_MAX, "%.0fms", ms);
	else if (ms < 60000)
		snprintf(out, CELL_MAX, "%.1fs", ms / 1000);
	else if (s < 3600)
		snprintf(out, CELL_MAX, "%lldm%02llds", s / 60, s % 60);
	else if (s < 86400)
		snprintf(out, CELL_MAX, "%lldh%02lldm", s / 3600, s / 60 % 60);
	else
		snprintf(out, CELL_MAX, "%lldd%02lldh", s / 86400, s / 3600 % 24);
}

static void format_number(enum cell_kind kind, double n, char out[CELL_MAX])
{
	char unit;

	if (kind == DURATION) {
		format_duration(n, out);
	} else if (kind == BYTES) {
		n = scale_down(n, 1024, " KMGTP", &unit);
		snprintf(out, CELL_MAX, unit != ' ' && n < 99.95 ? "%.1f%c" : "%.0f%c", n,
			 unit);
		out[strcspn(out, " ")] = '\0';
	} else if (kind == RATE ? n < 99999.95 : n < 1e6) {
		snprintf(out, CELL_MAX, kind == RATE ? "%.1f" : "%.0f", n);
	} else {
		n = scale_down(n, 1000, " kMGTP", &unit);
		snprintf(out, CELL_MAX, "%.*f%c",
			 n < 9.995   ? 2
			 : n < 99.95 ? 1
				     : 0,
			 n, unit);
	}
}

/* Of a value as text, in `out` or in the row. */
static const char *cell_of(enum cell_kind kind, const char *member, const json_t *row,
			   char out[CELL_MAX])
{
	const json_t *value = json_object_get(row, member);
	const char *text = json_string_value(value);

	if (kind == STATE && json_object_get(row, "unusable"))
		return "unusable";
	if (kind == STATE)
		return !text || strcmp(text, "no") == 0 ? "-"
		       : strcmp(text, "in") == 0        ? "no in"
		       : strcmp(text, "out") == 0       ? "no out"
							: "paused";
	if (kind >= LABEL)
		return text ? text : "-";
	if (!json_is_number(value))
		return "-";
	format_number(kind, json_number_value(value), out);
	return out;
}

/* The room for names, without columns whose `spare` is above the limit. */
static int room_for_name(const struct view *view, int width, int spare)
{
	for (const struct top_column *c = view->columns; c->title; c++)
		if (c->kind != NAME && c->spare <= spare)
			width -= c->width + 1;
	return width;
}

/* Append a line of cells: titles if there is no row. Columns that may be left out are,
 * until there is room for names. */
static void append_row(const struct view *view, const json_t *row, int width,
		       struct buf *out)
{
	int spare = 9, name;

	while ((name = room_for_name(view, width, spare)) < NAME_MIN && spare > 0)
		spare--;
	for (const struct top_column *c = view->columns; c->title; c++) {
		enum cell_kind kind = kind_of(c);
		int room = kind != NAME ? c->width : name < 4 ? 4 : name;
		char text[CELL_MAX];
		struct buf clipped = { 0 };
		int gap;

		if (c->spare > spare)
			continue;
		gap = room -
		      append_clipped(row ? cell_of(kind, c->member, row, text) : c->title,
				     room, &clipped);
		buf_printf(out, "%s%*s%s%*s", c != view->columns ? " " : "",
			   kind < LABEL ? gap : 0, "", buf_cstr(&clipped),
			   kind < LABEL ? 0 : gap, "");
		buf_deinit(&clipped);
	}
}

/* Append what the whole broker does: LIST now. */
static void append_head(const json_t *now, int line, struct buf *out)
{
	/* clang-format off */
	static const struct {
		const char *name, *member;
		enum cell_kind kind;
		const char *unit;
	} figures[HEAD_LINES][9] = {
		{ { "in",          "published",       RATE,     "/s" },
		  { "out",         "delivered",       RATE,     "/s" },
		  { "acked",       "acked",           RATE,     "/s" },
		  { "failed",      "failed",          RATE,     "/s" },
		  { "ready",       "ready",           COUNT,    "" },
		  { "unacked",     "unacked",         COUNT,    "" },
		  { "delayed",     "delayed",         COUNT,    "" },
		  { "buried",      "buried",          COUNT,    "" } },
		{ { "oldest",      "oldest_ready_ms", DURATION, "" },
		  { "connections", "connections",     COUNT,    "" },
		  { "memory",      "memory_bytes",    BYTES,    "" },
		  { "unstored",    "unstored_bytes",  BYTES,    "" },
		  { "store",       "store_ms",        RATE,     "ms" } },
	};
	/* clang-format on */
	char text[CELL_MAX];

	for (int i = 0; figures[line][i].unit; i++) {
		const char *cell = cell_of(figures[line][i].kind, figures[line][i].member,
					   now, text);

		buf_printf(out, "%s%s %s%s", i ? "  " : "", figures[line][i].name, cell,
			   cell == text ? figures[line][i].unit : "");
	}
	if (line == 0)
		return;
	buf_printf(out, "  loop %.1f%%",
		   100 * json_number_value(json_object_get(now, "loop_busy")));
	if (json_object_get(now, "masters"))
		buf_printf(
			out, "  masters %lld/%lld",
			(long long)json_integer_value(json_object_get(now, "masters_up")),
			(long long)json_integer_value(json_object_get(now, "masters")));
}

static void append_title(const struct top *t, struct buf *out)
{
	json_t *info = json_loads(tidemq_server_info(t->cli->client), 0, NULL);
	const char *vhost = json_string_value(json_object_get(info, "vhost"));
	const char *version = json_string_value(json_object_get(info, "version"));
	const time_t seconds = json_integer_value(json_object_get(t->now, "t")) / 1000;
	struct tm tm;
	char clock[16] = "";

	if (seconds > 0 && localtime_r(&seconds, &tm))
		strftime(clock, sizeof(clock), "%H:%M:%S", &tm);
	buf_printf(out, "tidemq %s  vhost ", version ? version : "");
	append_clipped(vhost ? vhost : "", 40, out);
	buf_printf(out, "  %s by %s%s  %s%s", t->view->name, sort_of(t->sort),
		   t->is_reversed ? ", reversed" : "", clock,
		   t->is_paused ? "  PAUSED" : "");
	json_decref(info);
}

static bool is_typing(const struct top *t)
{
	return t->mode == TYPING_FILTER || t->mode == TYPING_VHOST;
}

static void append_state(const struct top *t, struct buf *out)
{
	if (is_typing(t)) {
		buf_printf(out, "%s: %s", t->mode == TYPING_FILTER ? "filter" : "vhost",
			   t->typed);
	} else if (t->trouble[0]) {
		buf_append_text(out, t->trouble);
	} else {
		if (t->filter[0])
			buf_printf(out, "filter: %s  ", t->filter);
		if (t->offset > 0)
			buf_printf(out, "from %" PRIu64 "  ", t->offset + 1);
		if (json_array_size(t->rows) == 0)
			buf_printf(out, "no %s", t->view->name);
	}
}

/* Show the line, and empty the text. @param pair  a pair of colours, 0: none */
static void put_line(const struct top *t, int y, struct buf *text, attr_t attribute,
		     int pair)
{
	struct buf clipped = { 0 };

	if (!t->screen)
		puts(buf_cstr(text));
	if (t->screen && y < LINES) {
		if (COLOR_PAIRS > 0)
			attribute |= COLOR_PAIR(pair);
		append_clipped(buf_cstr(text), COLS, &clipped);
		attron(attribute);
		mvaddstr(y, 0, buf_cstr(&clipped));
		attroff(attribute);
	}
	buf_deinit(&clipped);
	buf_clear(text);
}

/* Lines of the terminal for rows, but for the one below them that says the state. */
static int page_rows(void)
{
	return LINES > ROWS_FIRST + 2 ? LINES - ROWS_FIRST - 1 : 1;
}

static void put_rows(const struct top *t, int width, struct buf *text)
{
	size_t i;
	json_t *row;

	append_title(t, text);
	put_line(t, 0, text, A_BOLD, 2);
	for (int line = 0; line < HEAD_LINES; line++) {
		append_head(t->now, line, text);
		put_line(t, 1 + line, text, 0, 0);
	}
	append_row(t->view, NULL, width, text);
	put_line(t, ROWS_FIRST - 1, text, A_REVERSE, 0);
	json_array_foreach(t->rows, i, row)
	{
		if (t->screen && (int)i >= page_rows())
			break;
		append_row(t->view, row, width, text);
		put_line(t, ROWS_FIRST + (int)i, text, 0, 0);
	}
}

static void put_help(const struct top *t, struct buf *text)
{
	static const char *const keys[] = {
		"r         reverse the order",
		"/         only names with a part; Enter takes it, Esc leaves it",
		"Q t c     queues, topics, connections",
		"v         another vhost",
		"arrows, PgUp, PgDn, Home   other rows",
		"p         pause the display; space asks once",
		"?         this page; any key leaves it",
		"q         quit",
	};
	int y = 0;

	for (const struct top_column *c = t->view->columns; c->title; c++)
		if (c->key) {
			buf_printf(text, "%c         sort by %s", c->key, c->what);
			put_line(t, y++, text, 0, 0);
		}
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		buf_append_text(text, keys[i]);
		put_line(t, y++, text, 0, 0);
	}
}

static void draw_screen(const struct top *t)
{
	struct buf text = { 0 };
	int typed = -1;

	erase();
	if (t->mode == HELPING)
		put_help(t, &text);
	else
		put_rows(t, COLS, &text);
	append_state(t, &text);
	if (is_typing(t))
		typed = (int)buf_len(&text);
	put_line(t, LINES - 1, &text, t->trouble[0] ? A_BOLD : 0, t->trouble[0] ? 1 : 0);
	curs_set(typed >= 0);
	if (typed >= 0)
		move(LINES - 1, typed < COLS ? typed : COLS - 1);
	refresh();
	buf_deinit(&text);
}

static void set_trouble(struct top *t, const struct tidemq_error *why, const char *more)
{
	snprintf(t->trouble, sizeof(t->trouble), "%s%s%s%s", why->word,
		 why->word[0] ? ": " : "", why->text, more);
}

/* The document of the answer in place of the last one. */
static bool ask_document(struct top *t, const char *line, json_t **out)
{
	struct tidemq_reply reply;
	int rc = tidemq_request(t->cli->client, line, NULL, 0, &reply);

	if (rc == TIDEMQ_OK) {
		json_decref(*out);
		*out = json_loadb(reply.text, reply.len, 0, NULL);
		return true;
	}
	t->is_refused = rc == TIDEMQ_EREFUSED;
	set_trouble(t, tidemq_last_error(t->cli->client),
		    t->is_refused || !t->screen ? "" : "; connecting again");
	t->is_lost = !t->is_refused;
	return false;
}

/* Connect to another vhost (a URL for mem_free), or again. */
static bool connect_take(struct top *t, char *url)
{
	const struct tidemq_options options = { .name = "tidemq-top",
						.connect_timeout_ms = ANSWER_MS,
						.request_timeout_ms = ANSWER_MS };
	struct tidemq_error err;
	struct tidemq_client *c = tidemq_connect(url, &options, &err);

	if (!c) {
		set_trouble(t, &err, t->is_lost ? "; connecting again" : "");
		mem_free(url);
		return false;
	}
	tidemq_disconnect(t->cli->client);
	t->cli->client = c;
	mem_free(t->url);
	t->url = url;
	t->trouble[0] = '\0';
	t->is_lost = false;
	return true;
}

/* False: no page, and the trouble is set. */
static bool ask_page(struct top *t)
{
	struct buf line = { 0 };
	/* The largest come first, but the oldest connection and names from A on. */
	bool is_falling =
		kind_of(t->sort) < LABEL && strcmp(t->sort->member, "connection") != 0;
	bool is_answered;

	if (t->is_lost && !connect_take(t, mem_strdup(t->url)))
		return false;
	buf_printf(&line, "LIST %s sort=%s order=%s max=%d offset=%" PRIu64,
		   t->view->name, sort_of(t->sort),
		   is_falling != t->is_reversed ? "desc" : "asc",
		   t->screen ? page_rows() : (int)cli_number(t->cli, "max"), t->offset);
	if (t->filter[0]) {
		buf_append_text(&line, " match=");
		percent_encode(&line, slice_from(t->filter));
	}
	is_answered = ask_document(t, "LIST now", &t->now) &&
		      ask_document(t, buf_cstr(&line), &t->rows);
	if (is_answered && t->is_refused) {
		t->trouble[0] = '\0';
		t->is_refused = false;
	}
	buf_deinit(&line);
	return is_answered;
}

static void choose_view(struct top *t, const struct view *view)
{
	t->view = view;
	t->sort = column_by_key(view, 'b');
	t->is_reversed = false;
	t->offset = 0;
	t->filter[0] = '\0';
	json_decref(t->rows);
	t->rows = NULL;
}

static void take_typed(struct top *t)
{
	if (t->mode == TYPING_FILTER)
		memcpy(t->filter, t->typed, sizeof(t->filter));
	if (t->mode == TYPING_FILTER ||
	    (t->typed[0] && connect_take(t, cli_url_with(t->url, t->typed)))) {
		t->offset = 0;
		t->is_wanted = true;
	}
	t->mode = LOOKING;
}

static void on_typed(struct top *t, int key)
{
	size_t len = strlen(t->typed);

	if (key == KEY_ENTER || key == '\r' || key == '\n') {
		take_typed(t);
	} else if (key == KEY_ESCAPE) {
		t->mode = LOOKING;
	} else if (key == KEY_BACKSPACE || key == 127 || key == '\b') {
		/* A character of UTF-8 whole. */
		while (len > 0 && ((unsigned char)t->typed[len - 1] & 0xc0) == 0x80)
			len--;
		t->typed[len > 0 ? len - 1 : 0] = '\0';
	} else if (key >= ' ' && key <= 0xff && len < TYPED_MAX) {
		t->typed[len] = (char)key;
		t->typed[len + 1] = '\0';
	}
}

/* Another view or another order. False: the key is for neither. */
static bool on_order(struct top *t, int key)
{
	const struct top_column *column = column_by_key(t->view, key);
	const struct view *view = views;

	while (view->name && view->key != key)
		view++;
	if (view->name) {
		choose_view(t, view);
	} else if (column || key == 'r') {
		t->is_reversed = !column && !t->is_reversed;
		t->sort = column ? column : t->sort;
		t->offset = 0;
	}
	return view->name || column || key == 'r';
}

/* Other rows of the same order. False: the key is for nothing of this. */
static bool on_scroll(struct top *t, int key)
{
	int64_t rows = key == KEY_UP      ? -1
		       : key == KEY_DOWN  ? 1
		       : key == KEY_PPAGE ? -page_rows()
		       : key == KEY_NPAGE ? page_rows()
		       : key == KEY_HOME  ? -(int64_t)t->offset
					  : 0;
	bool is_last = json_array_size(t->rows) < (size_t)page_rows();

	if (rows < 0 || (rows > 0 && !is_last))
		t->offset = (int64_t)t->offset > -rows
				    ? (uint64_t)((int64_t)t->offset + rows)
				    : 0;
	return rows || key == KEY_HOME || key == ' ';
}

static void on_key(struct top *t, int key)
{
	if (!t->is_lost && !t->is_refused)
		t->trouble[0] = '\0'; /* it has been read */
	if (key == KEY_RESIZE) {
		clearok(curscr, TRUE);
		t->is_wanted = true;
	} else if (is_typing(t)) {
		on_typed(t, key);
	} else if (t->mode == HELPING) {
		t->mode = LOOKING;
	} else if (key == 'q') {
		t->is_ending = true;
	} else if (key == '?' || key == 'h') {
		t->mode = HELPING;
	} else if (key == 'p') {
		t->is_paused = !t->is_paused;
	} else if (key == '/' || key == 'v') {
		t->mode = key == '/' ? TYPING_FILTER : TYPING_VHOST;
		snprintf(t->typed, sizeof(t->typed), "%s", key == '/' ? t->filter : "");
	} else if (on_order(t, key) || on_scroll(t, key)) {
		t->is_wanted = true;
	}
}

/* NULL: this terminal cannot be used, and nothing was changed. */
static SCREEN *open_screen(void)
{
	SCREEN *screen;
	const char *no_color = getenv("NO_COLOR");

	setlocale(LC_CTYPE, "");
	use_tioctl(TRUE);
	screen = newterm(NULL, stdout, stdin);
	if (!screen)
		return NULL;
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	set_escdelay(ESCAPE_MS);
	curs_set(0);
	if ((!no_color || !*no_color) && has_colors()) {
		start_color();
		use_default_colors();
		init_pair(1, COLOR_RED, -1);
		init_pair(2, COLOR_CYAN, -1);
	}
	return screen;
}

static volatile sig_atomic_t is_signalled;

static void on_signal(int number)
{
	is_signalled = 1;
}

/* Show pages and take keys until somebody wants to leave, or the terminal is gone. */
static int watch_keys(struct top *t)
{
	const char *terminal = getenv("TERM");
	const struct sigaction action = { .sa_handler = on_signal };
	int64_t now_ms, due_ms = 0;
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	int key;

	t->screen = open_screen();
	if (!t->screen)
		return cli_failure(
			"the terminal '%s' cannot be used; --once prints plain text",
			terminal ? terminal : "");
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	do {
		now_ms = machine_clock_ns(CLOCK_MONOTONIC) / 1000000;
		if (t->is_wanted || (!t->is_paused && now_ms >= due_ms)) {
			t->is_wanted = false;
			ask_page(t);
			now_ms = machine_clock_ns(CLOCK_MONOTONIC) / 1000000;
			due_ms = now_ms + (int64_t)cli_number(t->cli, "every");
		}
		draw_screen(t);
		poll(&input, 1, t->is_paused ? -1 : (int)(due_ms - now_ms));
		while (!t->is_ending && (key = getch()) != ERR)
			on_key(t, key);
	} while (!t->is_ending && !is_signalled &&
		 !(input.revents & (POLLERR | POLLHUP)));
	endwin();
	delscreen(t->screen);
	return CLI_DONE;
}

static int print_once(struct top *t)
{
	struct buf text = { 0 };
	const char *columns = getenv("COLUMNS");

	if (!ask_page(t))
		return cli_failure("%s", t->trouble);
	if (t->cli->json) {
		json_t *all = json_pack("{s:O, s:O}", "now", t->now, "rows", t->rows);

		json_dumpf(all, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
		putchar('\n');
		json_decref(all);
	} else {
		put_rows(t, columns && atoi(columns) >= 40 ? atoi(columns) : 120, &text);
	}
	buf_deinit(&text);
	return CLI_DONE;
}

static int refuse_sort(struct cli *cli, const struct view *view)
{
	struct buf names = { 0 };
	int status;

	for (const struct top_column *c = view->columns; c->title; c++)
		if (sort_of(c))
			buf_printf(&names, " %s", sort_of(c));
	status = cli_usage_error(cli, "%s are not sorted by '%s'; expected one of:%s",
				 view->name, cli_get(cli, "sort"), buf_cstr(&names));
	buf_deinit(&names);
	return status;
}

/* Read the command line: CLI_DONE, or CLI_USAGE after a message. */
static int read_words(struct top *t)
{
	const char *name = t->cli->word_count ? t->cli->words[0] : "queues";
	const char *sort = cli_get(t->cli, "sort");
	const struct top_column *c;
	const struct view *view = views;

	while (view->name && strcmp(view->name, name) != 0)
		view++;
	if (!view->name)
		return cli_usage_error(
			t->cli,
			"there is no view '%s'; expected queues, topics or connections",
			name);
	choose_view(t, view);
	if (sort) {
		for (c = view->columns; c->title; c++)
			if (sort_of(c) && strcmp(sort_of(c), sort) == 0)
				break;
		if (!c->title)
			return refuse_sort(t->cli, view);
		t->sort = c;
	}
	if (cli_get(t->cli, "match"))
		snprintf(t->filter, sizeof(t->filter), "%s", cli_get(t->cli, "match"));
	return CLI_DONE;
}

static int run_top(struct cli *cli)
{
	struct top t = { .cli = cli, .url = mem_strdup(cli->url) };
	bool is_plain = cli->json || cli_is_given(cli, "once") ||
			!isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO);
	int status = read_words(&t);

	if (status == CLI_DONE)
		status = cli_connect(cli, NULL);
	if (status == CLI_DONE)
		status = is_plain ? print_once(&t) : watch_keys(&t);
	json_decref(t.now);
	json_decref(t.rows);
	mem_free(t.url);
	return status;
}

static const struct option_row top_options[] = {
	{ COMMAND_DURATION("every", "2s", "how often it asks", 100, 3600000) },
	{ COMMAND_TEXT("match", "PART", NULL, "only those with this part in a name") },
	{ COMMAND_NUMBER("max", "20", "rows with --once", 1, UINT32_MAX) },
	{ COMMAND_FLAG("once", "print it once, as plain text; so it is without a "
			       "terminal, too") },
	{ COMMAND_TEXT("sort", "BY", NULL,
		       "one of the columns: ready, in, out, age, name, ... as of tidemq "
		       "list (default: the backlog)") },
	{ .name = NULL },
};

const struct cli_verb cli_top_verbs[] = {
	{ .name = "top",
	  .summary = "watch queues, topics or connections, the busiest first",
	  .usage = "[options] [queues|topics|connections]",
	  .details = "Keys: b i o a n sort by backlog, rate in, rate out, age, name; r "
		     "reverses. / filters,\nt and c show topics and connections, Q "
		     "queues; v enters another vhost, p pauses, ? shows all\nkeys, q "
		     "quits. NO_COLOR in the environment turns colours off.",
	  .examples = "  tidemq top --every 5s\n"
		      "  tidemq top connections --once\n",
	  .options = top_options,
	  .words_max = 1,
	  .run = run_top },
	{ .name = NULL },
};
