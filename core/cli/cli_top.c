/* cli_top.c: top. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <uv.h>

#include "base/mem.h"
#include "base/percent.h"
#include "cli_top_screen.h"
#include "cli_url.h"
#include "cli_top_view.h"
#include "cli.h"

#define TYPED_MAX 255
#define ROWS_FIRST (CLI_TOP_HEAD_LINES + 2) /* behind name, head and titles */
#define SIGNALS 3
#define HEARTBEAT_MS 10000 /* a broker that is gone is noticed in twice that */

enum mode { LOOKING, TYPING_FILTER, TYPING_VHOST, HELPING };

struct top {
	struct cli *cli;
	uv_loop_t loop;
	uv_timer_t timer;
	uv_poll_t input;
	int terminal; /* that it watches, as long as there is a screen */
	uv_signal_t signals[SIGNALS];
	struct tidemq_client *client;
	char *url;   /* of the client */
	char *other; /* tried last, while there is another client's; or NULL */
	void *screen;
	bool is_ending;
	int status;

	const struct cli_top_view *view;
	const struct cli_top_column *sort;
	bool is_reversed, is_paused;
	uint64_t offset;
	char filter[TYPED_MAX + 1];
	enum mode mode;
	char typed[TYPED_MAX + 1];

	unsigned asked;  /* answers that are to come */
	bool is_changed; /* since it asked: it asks again when they have */
	json_t *now, *rows;
	char trouble[TIDEMQ_TEXT_MAX + 64]; /* "": there is none */
	bool is_refused;                    /* it is what an answer said */
	bool is_lost;                       /* there is no connection */
};

/* ---- what is shown ---- */

static void append_title(const struct top *t, struct buf *out)
{
	json_t *info = json_loads(tidemq_server_info(t->client), 0, NULL);
	const char *vhost = json_string_value(json_object_get(info, "vhost"));
	const char *version = json_string_value(json_object_get(info, "version"));
	json_int_t at = json_integer_value(json_object_get(t->now, "t")) / 1000;
	const time_t seconds = (time_t)at;
	struct tm tm;
	char clock[16] = "";

	if (at > 0 && localtime_r(&seconds, &tm))
		strftime(clock, sizeof(clock), "%H:%M:%S", &tm);
	buf_printf(out, "tidemq %s  vhost ", version ? version : "");
	cli_top_view_clip(vhost ? vhost : "", 40, out);
	buf_printf(out, "  %s by %s%s  %s%s", t->view->name,
		   t->sort->sort ? t->sort->sort : "", t->is_reversed ? ", reversed" : "",
		   clock, t->is_paused ? "  PAUSED" : "");
	json_decref(info);
}

static void append_state(const struct top *t, struct buf *out)
{
	size_t count = json_array_size(t->rows);

	if (t->mode == TYPING_FILTER || t->mode == TYPING_VHOST) {
		buf_printf(out, "%s: %s", t->mode == TYPING_FILTER ? "filter" : "vhost",
			   t->typed);
		return;
	}
	if (t->trouble[0]) {
		buf_append_text(out, t->trouble);
		return;
	}
	if (t->filter[0])
		buf_printf(out, "filter: %s  ", t->filter);
	if (t->offset > 0)
		buf_printf(out, "from %" PRIu64 "  ", t->offset + 1);
	if (count == 0)
		buf_printf(out, "no %s", t->view->name);
}

/* Lines of the terminal for rows; with the one below them that says the state. */
static int page_rows(void)
{
	int rows = cli_top_screen_rows() - ROWS_FIRST - 1;

	return rows > 0 ? rows : 1;
}

static void put(int y, struct buf *text, enum cli_top_style style)
{
	struct buf clipped = { 0 };

	cli_top_view_clip(buf_cstr(text), cli_top_screen_columns(), &clipped);
	cli_top_screen_line(y, buf_cstr(&clipped), style);
	buf_deinit(&clipped);
	buf_clear(text);
}

static void draw_head(struct top *t, struct buf *text)
{
	append_title(t, text);
	put(0, text, CLI_TOP_BOLD);
	for (int i = 0; i < CLI_TOP_HEAD_LINES; i++) {
		cli_top_view_head(t->now, i, text);
		put(1 + i, text, CLI_TOP_PLAIN);
	}
}

static void draw_rows(struct top *t, struct buf *text)
{
	int width = cli_top_screen_columns();
	size_t i;
	json_t *row;

	cli_top_view_titles(t->view, width, text);
	put(ROWS_FIRST - 1, text, CLI_TOP_TITLE);
	json_array_foreach(t->rows, i, row)
	{
		if ((int)i >= page_rows())
			break;
		cli_top_view_row(t->view, row, width, text);
		put(ROWS_FIRST + (int)i, text, CLI_TOP_PLAIN);
	}
}

static void draw_help(struct top *t, struct buf *text)
{
	for (int i = 0; cli_top_view_help(t->view, i, text); i++)
		put(i, text, CLI_TOP_PLAIN);
}

static void draw(struct top *t)
{
	struct buf text = { 0 };
	int last = cli_top_screen_rows() - 1, typed = -1;

	if (!t->screen)
		return;
	cli_top_screen_begin();
	if (t->mode == HELPING) {
		draw_help(t, &text);
	} else {
		draw_head(t, &text);
		draw_rows(t, &text);
	}
	append_state(t, &text);
	if (t->mode == TYPING_FILTER || t->mode == TYPING_VHOST)
		typed = (int)buf_len(&text);
	put(last, &text, t->trouble[0] ? CLI_TOP_ALARM : CLI_TOP_PLAIN);
	cli_top_screen_show(typed < 0 ? -1 : last, typed);
	buf_deinit(&text);
}

/* ---- the end ---- */

static void on_input_closed(uv_handle_t *handle)
{
	close(((struct top *)handle->data)->terminal);
}

static void on_client_closed(void *ctx)
{
}

static void end(struct top *t, int status)
{
	if (t->is_ending)
		return;
	t->is_ending = true;
	t->status = status;
	cli_top_screen_close(t->screen);
	t->screen = NULL;
	if (t->client)
		tidemq_close(t->client, on_client_closed, NULL);
	t->client = NULL;
	uv_close((uv_handle_t *)&t->timer, NULL);
	if (t->input.data)
		uv_close((uv_handle_t *)&t->input, on_input_closed);
	for (int i = 0; i < SIGNALS; i++)
		uv_close((uv_handle_t *)&t->signals[i], NULL);
}

/* ---- what is printed once ---- */

static void print_once(struct top *t)
{
	struct buf text = { 0 };
	const char *columns = getenv("COLUMNS");
	int width = columns && atoi(columns) >= 40 ? atoi(columns) : 120;
	size_t i;
	json_t *row;

	if (t->cli->json) {
		json_t *all = json_pack("{s:O, s:O}", "now", t->now, "rows", t->rows);

		json_dumpf(all, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
		putchar('\n');
		json_decref(all);
		return;
	}
	append_title(t, &text);
	for (int line = 0; line < CLI_TOP_HEAD_LINES; line++) {
		struct buf head = { 0 };

		cli_top_view_head(t->now, line, &head);
		buf_append_char(&text, '\n');
		buf_append_slice(&text, buf_slice(&head));
		buf_deinit(&head);
	}
	buf_append_text(&text, "\n");
	cli_top_view_titles(t->view, width, &text);
	json_array_foreach(t->rows, i, row)
	{
		buf_append_char(&text, '\n');
		cli_top_view_row(t->view, row, width, &text);
	}
	puts(buf_cstr(&text));
	buf_deinit(&text);
}

/* ---- questions and answers ---- */

static void ask(struct top *t);

static bool is_once(const struct top *t)
{
	return t->cli->json || cli_is_given(t->cli, "once") || !isatty(STDOUT_FILENO) ||
	       !isatty(STDIN_FILENO);
}

static void answered(struct top *t)
{
	if (--t->asked > 0)
		return;
	if (!t->screen && t->now && t->rows) {
		print_once(t);
		end(t, CLI_DONE);
		return;
	}
	draw(t);
	if (t->is_changed)
		ask(t);
}

/* The document in place of the last one. False: there is none. */
static void take(struct top *t, const struct tidemq_reply *reply, json_t **out)
{
	if (reply->status == TIDEMQ_OK) {
		json_decref(*out);
		*out = json_loadb(reply->text, reply->len, 0, NULL);
		if (t->is_refused)
			t->trouble[0] = '\0';
		t->is_refused = false;
	} else if (reply->status != TIDEMQ_ELOST) {
		t->is_refused = true;
		snprintf(t->trouble, sizeof(t->trouble), "%s%s%s", reply->word,
			 reply->word[0] ? ": " : "", reply->text);
	}
}

static void on_answer(struct top *t, struct tidemq_client *c,
		      const struct tidemq_reply *reply, json_t **out)
{
	if (c != t->client || t->is_ending)
		return;
	take(t, reply, out);
	if (t->screen || reply->status == TIDEMQ_OK)
		answered(t);
	else
		end(t, cli_failure("%s", t->trouble));
}

static void on_now(struct tidemq_client *c, const struct tidemq_reply *reply, void *ctx)
{
	struct top *t = ctx;

	on_answer(t, c, reply, &t->now);
}

static void on_rows(struct tidemq_client *c, const struct tidemq_reply *reply, void *ctx)
{
	struct top *t = ctx;

	on_answer(t, c, reply, &t->rows);
}

static void send_one(struct top *t, const char *line, tidemq_reply_fn on_reply)
{
	int rc = tidemq_send(t->client, line, NULL, 0, on_reply, t);

	if (rc == TIDEMQ_OK)
		t->asked++;
	else if (!t->screen)
		end(t, cli_failure("%s", tidemq_status_text(rc)));
}

/* One page, unless an answer is still to come. */
static void ask(struct top *t)
{
	struct buf line = { 0 };
	bool is_falling = cli_top_view_is_falling(t->sort) != t->is_reversed;

	t->is_changed = t->asked > 0;
	if (t->asked > 0 || !t->client)
		return;
	buf_printf(&line, "LIST %s sort=%s order=%s max=%d offset=%" PRIu64,
		   t->view->name, t->sort->sort, is_falling ? "desc" : "asc",
		   t->screen ? page_rows() : (int)cli_number(t->cli, "max"), t->offset);
	if (t->filter[0]) {
		buf_append_text(&line, " match=");
		percent_encode(&line, slice_from(t->filter));
	}
	send_one(t, "LIST now", on_now);
	if (!t->is_ending)
		send_one(t, buf_cstr(&line), on_rows);
	buf_deinit(&line);
}

static void on_timer(uv_timer_t *timer)
{
	struct top *t = timer->data;

	if (!t->is_paused && t->asked == 0)
		ask(t);
}

/* ---- connections ---- */

static void connect_to(struct top *t, const char *url);

/* There is no connection: to another vhost, perhaps. */
static void go_back(struct top *t)
{
	char *other = t->other;

	t->other = NULL;
	if (t->screen && other)
		connect_to(t, other);
	else
		end(t, cli_failure("%s", t->trouble));
	mem_free(other);
}

static void begin_screen(struct top *t);

static void on_connected(struct tidemq_client *c, const struct tidemq_error *why,
			 void *ctx)
{
	struct top *t = ctx;

	if (c != t->client)
		return;
	if (why->status != TIDEMQ_OK) {
		tidemq_close(t->client, on_client_closed, NULL);
		t->client = NULL;
		snprintf(t->trouble, sizeof(t->trouble), "%s%s%s", why->word,
			 why->word[0] ? ": " : "", why->text);
		go_back(t);
		return;
	}
	if (!t->screen && !is_once(t))
		begin_screen(t);
	if (!t->is_ending)
		ask(t);
}

static void on_msg(struct tidemq_client *c, struct tidemq_msg *m, void *ctx)
{
	tidemq_msg_free(m);
}

static void on_lost(struct tidemq_client *c, const struct tidemq_error *why, void *ctx)
{
	struct top *t = ctx;

	if (c == t->client)
		end(t, cli_failure("%s", why->text));
}

static void on_state(struct tidemq_client *c, enum tidemq_state state,
		     const struct tidemq_error *why, void *ctx)
{
	struct top *t = ctx;

	if (c != t->client || !t->screen)
		return;
	t->is_lost = state == TIDEMQ_LOST;
	if (t->is_lost)
		snprintf(t->trouble, sizeof(t->trouble), "%s; connecting again",
			 why->text);
	else if (state == TIDEMQ_RESTORED)
		t->trouble[0] = '\0';
	draw(t);
}

static void connect_to(struct top *t, const char *url)
{
	const struct tidemq_handlers handlers = { t, on_connected, on_msg, NULL,
						  on_lost };
	const struct tidemq_options options = { .name = "tidemq-top",
						.heartbeat_ms = HEARTBEAT_MS,
						.reconnect = !is_once(t),
						.on_state = on_state,
						.on_state_ctx = t };
	struct tidemq_error err;
	char *copy = mem_strdup(url);

	t->asked = 0;
	t->is_changed = false;
	t->client = tidemq_start(&t->loop, url, &options, &handlers, &err);
	mem_free(t->url);
	t->url = copy;
	if (t->client)
		return;
	snprintf(t->trouble, sizeof(t->trouble), "%s", err.text);
	go_back(t);
}

static void enter_vhost(struct top *t, const char *vhost)
{
	char *url = cli_url_with(t->url, vhost);

	mem_free(t->other);
	t->other = mem_strdup(t->url);
	tidemq_close(t->client, on_client_closed, NULL);
	t->client = NULL;
	t->offset = 0;
	t->trouble[0] = '\0';
	connect_to(t, url);
	mem_free(url);
}

/* ---- keys ---- */

static void choose_view(struct top *t, const struct cli_top_view *view)
{
	t->view = view;
	t->sort = cli_top_view_by_key(view, 'b');
	t->is_reversed = false;
	t->offset = 0;
	t->filter[0] = '\0';
	json_decref(t->rows);
	t->rows = NULL;
}

static void scroll_by(struct top *t, int64_t rows)
{
	int64_t offset = (int64_t)t->offset + rows;

	/* Not behind the last one. */
	if (rows > 0 && json_array_size(t->rows) < (size_t)page_rows())
		return;
	t->offset = offset > 0 ? (uint64_t)offset : 0;
}

static void type(struct top *t, enum mode mode)
{
	t->mode = mode;
	snprintf(t->typed, sizeof(t->typed), "%s",
		 mode == TYPING_FILTER ? t->filter : "");
}

static void take_typed(struct top *t)
{
	if (t->mode == TYPING_VHOST) {
		t->mode = LOOKING;
		if (t->typed[0])
			enter_vhost(t, t->typed);
		return;
	}
	t->mode = LOOKING;
	memcpy(t->filter, t->typed, sizeof(t->filter));
	t->offset = 0;
	ask(t);
}

static void on_typed(struct top *t, int key)
{
	size_t len = strlen(t->typed);

	if (key == CLI_TOP_KEY_ENTER) {
		take_typed(t);
	} else if (key == CLI_TOP_KEY_ESCAPE) {
		t->mode = LOOKING;
	} else if (key == CLI_TOP_KEY_BACK) {
		/* A character of UTF-8 whole. */
		while (len > 0 && ((unsigned char)t->typed[len - 1] & 0xc0) == 0x80)
			len--;
		t->typed[len > 0 ? len - 1 : 0] = '\0';
	} else if (key >= ' ' && key <= 0xff && len < TYPED_MAX) {
		t->typed[len] = (char)key;
		t->typed[len + 1] = '\0';
	}
}

/* A key that looks for other rows. False: it is none. */
static bool on_order(struct top *t, int key)
{
	const struct cli_top_column *column = cli_top_view_by_key(t->view, key);
	const struct cli_top_view *view = cli_top_view_all;

	while (view->name && view->key != key)
		view++;
	if (view->name) {
		choose_view(t, view);
	} else if (column) {
		t->is_reversed = false;
		t->sort = column;
		t->offset = 0;
	} else if (key == 'r') {
		t->is_reversed = !t->is_reversed;
		t->offset = 0;
	} else if (key == CLI_TOP_KEY_UP || key == CLI_TOP_KEY_DOWN) {
		scroll_by(t, key == CLI_TOP_KEY_UP ? -1 : 1);
	} else if (key == CLI_TOP_KEY_PAGE_UP || key == CLI_TOP_KEY_PAGE_DOWN) {
		scroll_by(t, key == CLI_TOP_KEY_PAGE_UP ? -page_rows() : page_rows());
	} else if (key == CLI_TOP_KEY_HOME) {
		t->offset = 0;
	} else {
		return key == ' ';
	}
	return true;
}

static void on_key(struct top *t, int key)
{
	if (!t->is_lost && !t->is_refused)
		t->trouble[0] = '\0'; /* it has been read */
	if (t->mode == TYPING_FILTER || t->mode == TYPING_VHOST) {
		on_typed(t, key);
	} else if (t->mode == HELPING) {
		t->mode = LOOKING;
	} else if (key == 'q') {
		end(t, CLI_DONE);
	} else if (key == '?' || key == 'h') {
		t->mode = HELPING;
	} else if (key == 'p') {
		t->is_paused = !t->is_paused;
	} else if (key == '/') {
		type(t, TYPING_FILTER);
	} else if (key == 'v') {
		type(t, TYPING_VHOST);
	} else if (on_order(t, key)) {
		ask(t);
	}
}

static void on_input(uv_poll_t *input, int status, int events)
{
	struct top *t = input->data;
	int key;

	if (status < 0) {
		end(t, CLI_DONE); /* the terminal has gone */
		return;
	}
	while (!t->is_ending && (key = cli_top_screen_key()) != CLI_TOP_KEY_NONE)
		on_key(t, key);
	draw(t);
}

static void on_signal(uv_signal_t *handle, int number)
{
	struct top *t = handle->data;

	if (number != SIGWINCH) {
		end(t, CLI_DONE);
		return;
	}
	if (!t->screen)
		return;
	cli_top_screen_resize();
	draw(t);
	ask(t);
}

/* libuv makes a descriptor non-blocking that it watches. The terminal's own is that of
 * the shell, too, and of what curses writes: this is another. */
static bool watch_keys(struct top *t)
{
	const char *name = ttyname(STDIN_FILENO);

	t->terminal = name ? open(name, O_RDONLY | O_NOCTTY | O_CLOEXEC) : -1;
	if (t->terminal < 0)
		return false;
	uv_poll_init(&t->loop, &t->input, t->terminal);
	t->input.data = t;
	return uv_poll_start(&t->input, UV_READABLE, on_input) == 0;
}

static void begin_screen(struct top *t)
{
	t->screen = cli_top_screen_open();
	if (!t->screen) {
		end(t, cli_failure("the terminal '%s' cannot be used; --once prints "
				   "plain text",
				   getenv("TERM") ? getenv("TERM") : ""));
		return;
	}
	if (!watch_keys(t)) {
		end(t, cli_failure("cannot read the terminal: %s", strerror(errno)));
		return;
	}
	uv_timer_start(&t->timer, on_timer, cli_number(t->cli, "every"),
		       cli_number(t->cli, "every"));
	draw(t);
}

static void init_loop(struct top *t)
{
	static const int numbers[SIGNALS] = { SIGWINCH, SIGINT, SIGTERM };

	uv_loop_init(&t->loop);
	uv_timer_init(&t->loop, &t->timer);
	t->timer.data = t;
	for (int i = 0; i < SIGNALS; i++) {
		uv_signal_init(&t->loop, &t->signals[i]);
		t->signals[i].data = t;
		uv_signal_start(&t->signals[i], on_signal, numbers[i]);
	}
}

static int refuse_sort(struct cli *cli, const struct cli_top_view *view)
{
	struct buf names = { 0 };
	int status;

	for (const struct cli_top_column *c = view->columns; c->title; c++)
		if (c->sort)
			buf_printf(&names, " %s", c->sort);
	status = cli_usage_error(cli, "%s are not sorted by '%s'; expected one of:%s",
				 view->name, cli_get(cli, "sort"), buf_cstr(&names));
	buf_deinit(&names);
	return status;
}

/* What the command line says; CLI_USAGE. */
static int choose(struct top *t)
{
	const char *name = t->cli->word_count ? t->cli->words[0] : "queues";
	const struct cli_top_view *view = cli_top_view_all;

	while (view->name && strcmp(view->name, name) != 0)
		view++;
	if (!view->name)
		return cli_usage_error(
			t->cli,
			"there is no view '%s'; expected queues, topics or "
			"connections",
			name);
	choose_view(t, view);
	if (cli_is_given(t->cli, "sort"))
		t->sort = cli_top_view_by_sort(view, cli_get(t->cli, "sort"));
	if (!t->sort)
		return refuse_sort(t->cli, view);
	if (cli_is_given(t->cli, "match"))
		snprintf(t->filter, sizeof(t->filter), "%s", cli_get(t->cli, "match"));
	return CLI_DONE;
}

static int run_top(struct cli *cli)
{
	struct top t = { .cli = cli };
	int status = choose(&t);

	if (status != CLI_DONE)
		return status;
	init_loop(&t);
	connect_to(&t, cli->url);
	uv_run(&t.loop, UV_RUN_DEFAULT);
	uv_loop_close(&t.loop);
	json_decref(t.now);
	json_decref(t.rows);
	mem_free(t.url);
	mem_free(t.other);
	return t.status;
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
