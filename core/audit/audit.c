#include "audit.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <uv.h>

#include "base/container.h"
#include "base/mem.h"
#include "base/percent.h"
#include "host/log.h"
#include "row_check.h"

/* Keys of a page, and ids that are looked at together. */
#define KEYS_COUNT 16
#define LOOK_MAX 128
/* Rows of a page: as many as have about so many bytes. */
#define ROWS_FIRST 8
#define ROWS_MAX 256
#define PAGE_BYTES ((size_t)256 << 10)
/* What waits for its second look. */
#define SUSPECTS_MAX 16384
#define SETTLE_MS 1000
/* A pause is as long as what Redis was asked to do. */
#define PAUSE_MIN_NS UINT64_C(5000000)
#define PROGRESS_MS 5000
#define COMMAND_TIMEOUT_MS 10000
#define CLOSE_GRACE_MS 2000

struct audit {
	const struct audit_options *options;
	uv_loop_t loop;
	uv_timer_t timer; /* pauses */
	uv_timer_t progress;
	uv_signal_t signals[2];
	struct store *store;
	bool is_started, is_closing;
	bool is_busy;     /* a request or a pause is under way */
	bool is_stopping; /* a signal: what is under way ends, nothing else begins */
	uint64_t asked_at_ns, owed_ns;
	/* The walk. */
	uint64_t page_cursor, next_cursor; /* of SCAN */
	bool is_scanned;
	STAILQ_HEAD(, damage_key) keys; /* of the page, not yet begun */
	struct damage_key *key;         /* being read */
	uint64_t cursor;                /* in it */
	unsigned rows;                  /* of the next page */
	struct damage_key *resume_key;
	uint64_t resume_cursor;
	/* What was found: to be asked about, seen once, under way, certain. */
	struct damages fresh, suspects, group, certain;
	unsigned suspect_count, group_count;
	bool is_second; /* the suspects are looked at */
	uint64_t suspected_at_ms;
	struct damage *mending;
	/* For people. */
	uint64_t key_count, row_count, found_count, mended_count;
	int status;
};

static void go(struct audit *a);

static void stop_loop(struct audit *a);

static void begin_request(struct audit *a)
{
	a->is_busy = true;
	a->asked_at_ns = uv_hrtime();
}

/* @return  false: the store is closing, and nothing else is done */
static bool end_request(struct audit *a, int status)
{
	a->is_busy = false;
	a->owed_ns += uv_hrtime() - a->asked_at_ns;
	return status != TIDE_ESHUTDOWN && !a->is_closing;
}

static void on_closed(void *ctx)
{
	struct audit *a = ctx;

	a->store = NULL;
	stop_loop(a);
}

static void close_store(struct audit *a, int64_t grace_ms)
{
	if (a->is_closing)
		return;
	a->is_closing = true;
	store_close(a->store, grace_ms, on_closed, a);
}

static void fail(struct audit *a, const char *text)
{
	log_print(STDERR_FILENO, "tidemq: check-store: %s", text);
	a->status = 1;
	close_store(a, CLOSE_GRACE_MS);
}

/* ---- where the walk is: CURSOR, or CURSOR/CURSOR/KEY within a key */

static void append_place(const struct audit *a, struct buf *out)
{
	const struct damage_key *key = a->key ? a->key : STAILQ_FIRST(&a->keys);

	buf_append_uint(out, key ? a->page_cursor : a->next_cursor);
	if (!key)
		return;
	buf_append_char(out, '/');
	buf_append_uint(out, a->key ? a->cursor : 0);
	buf_append_char(out, '/');
	percent_encode(out, damage_key_slice(key));
}

static bool read_place(struct audit *a, struct slice text)
{
	struct slice rest = text, first = slice_cut(&rest, '/');
	struct slice second = slice_cut(&rest, '/');
	char *key;
	size_t len;
	bool is_good;

	if (!slice_to_uint(first, UINT64_MAX, &a->next_cursor))
		return false;
	if (first.len == text.len)
		return true;
	key = mem_alloc(rest.len + 1);
	is_good = slice_to_uint(second, UINT64_MAX, &a->resume_cursor) && rest.len > 0 &&
		  percent_decode(rest, key, &len) == TIDE_OK;
	if (is_good)
		a->resume_key = damage_key_create((struct slice){ key, len });
	mem_free(key);
	return is_good;
}

/* ---- what was found */

static void suspect(struct audit *a, struct damage *d)
{
	STAILQ_INSERT_TAIL(&a->suspects, d, link);
	a->suspect_count++;
	a->suspected_at_ms = uv_now(&a->loop);
}

/* Nobody else writes while the store is held for a repair: one look is enough. */
static void add_damage(void *ctx, struct damage *d)
{
	struct audit *a = ctx;
	enum damage_look look = damage_look(d->kind);

	if (look == DAMAGE_LOOK_ASK)
		STAILQ_INSERT_TAIL(&a->fresh, d, link);
	else if (look == DAMAGE_LOOK_ROW && !a->options->is_repair)
		suspect(a, d);
	else
		STAILQ_INSERT_TAIL(&a->certain, d, link);
}

static void report(struct audit *a, struct damage *d, enum damage_fate fate,
		   const char *why)
{
	struct buf line = { 0 };

	damage_print(d, fate, why, &line);
	fwrite(buf_cstr(&line), 1, buf_len(&line), stdout);
	fflush(stdout);
	buf_deinit(&line);
	a->found_count++;
	a->mended_count += fate == DAMAGE_MENDED;
	damage_destroy(d);
}

static void on_mended(void *ctx, int status, const char *text)
{
	struct audit *a = ctx;
	struct damage *d = a->mending;

	a->mending = NULL;
	if (end_request(a, status)) {
		report(a, d, status < 0 ? DAMAGE_REFUSED : DAMAGE_MENDED, text);
		go(a);
	} else {
		damage_destroy(d);
	}
}

/* @return  true: it is done with */
static bool settle(struct audit *a)
{
	struct store_walk_edit edits[DAMAGE_EDITS_MAX];
	struct buf keys[DAMAGE_EDITS_MAX] = { { 0 } };
	struct damage *d = STAILQ_FIRST(&a->certain);
	size_t count = a->options->is_repair ? damage_edits(d, edits, keys) : 0;

	STAILQ_REMOVE_HEAD(&a->certain, link);
	if (count == 0) {
		report(a, d, DAMAGE_FOUND, NULL);
	} else {
		a->mending = d;
		begin_request(a);
		store_walk_edit(a->store, edits, count, on_mended, a);
	}
	for (int i = 0; i < DAMAGE_EDITS_MAX; i++)
		buf_deinit(&keys[i]);
	return count == 0;
}

/* ---- looking again */

/* Those at the front of a list that belong to one key and are looked at in one way. */
static void take_group(struct audit *a, struct damages *from)
{
	const struct damage *first = STAILQ_FIRST(from);
	struct damage *d;

	a->group_count = 0;
	while ((d = STAILQ_FIRST(from)) && d->key == first->key &&
	       a->group_count < LOOK_MAX &&
	       damage_look(d->kind) == damage_look(first->kind)) {
		STAILQ_REMOVE_HEAD(from, link);
		STAILQ_INSERT_TAIL(&a->group, d, link);
		a->group_count++;
		a->suspect_count -= from == &a->suspects;
	}
}

static void judge(struct audit *a, struct damage *d, bool is_there)
{
	STAILQ_REMOVE_HEAD(&a->group, link);
	if (!is_there)
		damage_destroy(d);
	else if (a->is_second || a->options->is_repair)
		STAILQ_INSERT_TAIL(&a->certain, d, link);
	else
		suspect(a, d);
}

/* Behind its words Redis says where in a script. */
static void add_refusal(struct audit *a, struct damage_key *key, const char *text)
{
	const char *end = strstr(text, " script: ");
	char *words = mem_strndup(text, end ? (size_t)(end - text) : strlen(text));

	add_damage(a, damage_create(DAMAGE_READ, key, SLICE(""), words));
	mem_free(words);
}

static void refuse_group(struct audit *a, const char *text)
{
	struct damage *d = STAILQ_FIRST(&a->group);

	add_refusal(a, d->key, text);
	while ((d = STAILQ_FIRST(&a->group)) != NULL)
		judge(a, d, false);
}

static void on_looked(void *ctx, int status, const char *text, uint64_t next,
		      const struct store_walk_row *rows, size_t count)
{
	struct audit *a = ctx;
	struct damage *d;
	unsigned step;

	if (!end_request(a, status))
		return;
	d = STAILQ_FIRST(&a->group);
	step = damage_look(d->kind) == DAMAGE_LOOK_ASK ? DAMAGE_QUESTIONS : 1;
	if (status < 0 || count != (size_t)a->group_count * step) {
		refuse_group(a, text ? text : "an unexpected reply from Redis");
		go(a);
		return;
	}
	for (; (d = STAILQ_FIRST(&a->group)) != NULL; rows += step) {
		if (step == 1)
			d->found = rows->found;
		judge(a, d,
		      step == 1 ? damage_is_in_row(d->kind, d->key->name.key, d->found)
				: damage_is_answered(d, rows));
	}
	go(a);
}

static void look(struct audit *a, struct damages *from)
{
	struct store_walk_question questions[LOOK_MAX * DAMAGE_QUESTIONS];
	struct slice members[LOOK_MAX];
	struct damage_tables tables;
	struct damage *d;
	size_t count = 0;

	take_group(a, from);
	d = STAILQ_FIRST(&a->group);
	damage_tables_init(&tables, d->key);
	begin_request(a);
	if (damage_look(d->kind) == DAMAGE_LOOK_ASK) {
		STAILQ_FOREACH (d, &a->group, link)
			damage_ask(d, &tables, questions + DAMAGE_QUESTIONS * count++);
		store_walk_ask(a->store, questions, DAMAGE_QUESTIONS * count, on_looked,
			       a);
	} else {
		const struct layout_name *name = &d->key->name;

		STAILQ_FOREACH (d, &a->group, link)
			members[count++] = (struct slice){ d->member, d->member_len };
		store_walk_members(a->store, name, damage_wanted(name->key), members,
				   count, on_looked, a);
	}
	damage_tables_deinit(&tables);
}

/* ---- the rows of a key */

static void end_key(struct audit *a)
{
	damage_key_unref(a->key);
	a->key = NULL;
	a->key_count++;
}

static void adapt_rows(struct audit *a, size_t bytes)
{
	if (bytes > PAGE_BYTES && a->rows > 1)
		a->rows /= 2;
	else if (bytes < PAGE_BYTES / 4 && a->rows < ROWS_MAX)
		a->rows *= 2;
}

static void on_page(void *ctx, int status, const char *text, uint64_t next,
		    const struct store_walk_row *rows, size_t count)
{
	struct audit *a = ctx;
	size_t bytes = 0;

	if (!end_request(a, status))
		return;
	if (status < 0)
		add_refusal(a, a->key, text);
	for (size_t i = 0; i < count; i++) {
		bytes += rows[i].member.len + rows[i].value.len;
		row_check(a->key, &rows[i], add_damage, a);
	}
	a->row_count += count;
	adapt_rows(a, bytes);
	a->cursor = next;
	if (next == 0 || status < 0)
		end_key(a);
	go(a);
}

static void read_page(struct audit *a)
{
	const struct layout_name *name = &a->key->name;
	const struct store_walk_page page = {
		.key = damage_key_slice(a->key),
		.type = name->type,
		.cursor = a->cursor,
		.count = a->rows,
	};

	begin_request(a);
	if (layout_has_ids(name))
		store_walk_shard(a->store, &page, name, damage_wanted(name->key), on_page,
				 a);
	else
		store_walk_page(a->store, &page, on_page, a);
}

/* ---- the keys */

static bool has_rows(const struct layout_name *name)
{
	return name->kind != LAYOUT_DOCUMENT ||
	       (name->document != LAYOUT_HOLDER && name->document != LAYOUT_GENERATION &&
		name->document != LAYOUT_LAST);
}

static void begin_key(struct audit *a)
{
	struct damage_key *key = STAILQ_FIRST(&a->keys);
	const struct layout_name *name = &key->name;

	STAILQ_REMOVE_HEAD(&a->keys, link);
	a->key = key;
	a->cursor = 0;
	a->rows = ROWS_FIRST;
	if (a->resume_key &&
	    slice_is_equal(damage_key_slice(key), damage_key_slice(a->resume_key)))
		a->cursor = a->resume_cursor;
	for (int kind = 0; kind < DAMAGE_KIND_COUNT; kind++)
		if (damage_is_of_key((enum damage_kind)kind, name))
			add_damage(a, damage_create((enum damage_kind)kind, key,
						    SLICE(""), NULL));
	if (!has_rows(name))
		end_key(a);
}

/* What can be told of a key by its name and its type.
 *
 * @return  false: nothing else is */
static bool check_key(struct audit *a, struct damage_key *key,
		      const struct store_walk_key *found)
{
	char detail[96];

	if (slice_is(found->type, "none"))
		return false;
	if (key->name.kind == LAYOUT_UNKNOWN) {
		add_damage(a, damage_create(DAMAGE_KEY, key, SLICE(""), NULL));
		return false;
	}
	if (found->has_ttl)
		add_damage(a, damage_create(DAMAGE_TTL, key, SLICE(""), NULL));
	if (slice_is(found->type, key->name.type))
		return true;
	snprintf(detail, sizeof(detail), "%" SLICE_FMT " instead of %s",
		 SLICE_HEAD(found->type, 20), key->name.type);
	add_damage(a, damage_create(DAMAGE_TYPE, key, SLICE(""), detail));
	return false;
}

/* What stood before the place of an earlier run in its page was walked then. */
static size_t count_done(const struct audit *a, const struct store_walk_key *keys,
			 size_t count)
{
	for (size_t i = 0; a->resume_key && i < count; i++)
		if (slice_is_equal(keys[i].name, damage_key_slice(a->resume_key)))
			return i;
	return 0;
}

static void on_keys(void *ctx, int status, const char *text, uint64_t next,
		    const struct store_walk_key *keys, size_t count)
{
	struct audit *a = ctx;

	if (!end_request(a, status))
		return;
	if (status < 0) {
		fail(a, text);
		return;
	}
	for (size_t i = count_done(a, keys, count); i < count; i++) {
		struct damage_key *key = damage_key_create(keys[i].name);

		if (check_key(a, key, &keys[i])) {
			STAILQ_INSERT_TAIL(&a->keys, key, link);
		} else {
			damage_key_unref(key);
			a->key_count++;
		}
	}
	a->next_cursor = next;
	a->is_scanned = next == 0;
	go(a);
}

static void read_keys(struct audit *a)
{
	a->page_cursor = a->next_cursor;
	begin_request(a);
	store_walk_keys(a->store, a->page_cursor, KEYS_COUNT, on_keys, a);
}

/* ---- step by step */

static void on_pause(uv_timer_t *timer)
{
	struct audit *a = timer->data;

	a->is_busy = false;
	if (!a->is_closing)
		go(a);
}

static void pause_for(struct audit *a, uint64_t ms)
{
	a->is_busy = true;
	uv_timer_start(&a->timer, on_pause, ms ? ms : 1, 0);
}

static void finish(struct audit *a)
{
	bool is_complete = a->is_scanned && !a->key && STAILQ_EMPTY(&a->keys);
	struct buf place = { 0 };

	printf("%llu key%s, %llu %s: %llu finding%s", (unsigned long long)a->key_count,
	       a->key_count == 1 ? "" : "s", (unsigned long long)a->row_count,
	       a->row_count == 1 ? "entry" : "entries",
	       (unsigned long long)a->found_count, a->found_count == 1 ? "" : "s");
	if (a->options->is_repair)
		printf(", %llu repaired", (unsigned long long)a->mended_count);
	putchar('\n');
	fflush(stdout);
	if (!is_complete) {
		append_place(a, &place);
		log_print(STDERR_FILENO,
			  "tidemq: check-store: interrupted; continue with --resume-from "
			  "'%s'",
			  buf_cstr(&place));
		buf_deinit(&place);
	}
	a->status = !is_complete || a->found_count > a->mended_count;
	close_store(a, CLOSE_GRACE_MS);
}

static void look_again(struct audit *a)
{
	uint64_t age_ms = uv_now(&a->loop) - a->suspected_at_ms;

	if (STAILQ_EMPTY(&a->suspects))
		a->is_second = false;
	else if (age_ms < SETTLE_MS)
		pause_for(a, SETTLE_MS - age_ms);
	else
		look(a, &a->suspects);
}

static void walk_on(struct audit *a)
{
	if (a->key)
		read_page(a);
	else if (!STAILQ_EMPTY(&a->keys))
		begin_key(a);
	else
		read_keys(a);
}

static bool has_more(const struct audit *a)
{
	return !a->is_stopping && (a->key || !STAILQ_EMPTY(&a->keys) || !a->is_scanned);
}

static void step(struct audit *a)
{
	if (!STAILQ_EMPTY(&a->certain)) {
		settle(a);
	} else if (!STAILQ_EMPTY(&a->fresh)) {
		look(a, &a->fresh);
	} else if (a->is_second) {
		look_again(a);
	} else if (a->suspect_count >= SUSPECTS_MAX) {
		a->is_second = true;
	} else if (has_more(a) && a->owed_ns > PAUSE_MIN_NS && !a->options->is_repair) {
		pause_for(a, a->owed_ns / 1000000);
		a->owed_ns = 0;
	} else if (has_more(a)) {
		walk_on(a);
	} else if (a->suspect_count > 0) {
		a->is_second = true;
	} else {
		finish(a);
	}
}

static void go(struct audit *a)
{
	while (!a->is_busy && !a->is_closing)
		step(a);
}

static void on_state(void *ctx, enum store_state state, const char *why)
{
	struct audit *a = ctx;

	if (state == STORE_FAILED)
		fail(a, why);
	if (state != STORE_UP || a->is_started)
		return;
	a->is_started = true;
	go(a);
}

static void on_signal(uv_signal_t *handle, int number)
{
	struct audit *a = handle->data;

	if (a->is_stopping || !a->is_started) {
		a->status = 1;
		close_store(a, 0);
		return;
	}
	a->is_stopping = true;
}

static void on_progress(uv_timer_t *timer)
{
	const struct audit *a = timer->data;
	struct buf place = { 0 };

	append_place(a, &place);
	log_print(
		STDERR_FILENO,
		"tidemq: check-store: %llu keys, %llu entries, %llu findings so far; at "
		"%s",
		(unsigned long long)a->key_count, (unsigned long long)a->row_count,
		(unsigned long long)a->found_count, buf_cstr(&place));
	buf_deinit(&place);
}

static void start_handles(struct audit *a)
{
	static const int numbers[2] = { SIGINT, SIGTERM };

	uv_timer_init(&a->loop, &a->timer);
	uv_timer_init(&a->loop, &a->progress);
	a->timer.data = a->progress.data = a;
	uv_timer_start(&a->progress, on_progress, PROGRESS_MS, PROGRESS_MS);
	for (int i = 0; i < 2; i++) {
		uv_signal_init(&a->loop, &a->signals[i]);
		a->signals[i].data = a;
		uv_signal_start(&a->signals[i], on_signal, numbers[i]);
	}
}

static void stop_loop(struct audit *a)
{
	uv_close((uv_handle_t *)&a->timer, NULL);
	uv_close((uv_handle_t *)&a->progress, NULL);
	for (int i = 0; i < 2; i++)
		uv_close((uv_handle_t *)&a->signals[i], NULL);
}

static int open_url(struct audit *a, const char *url, struct error *err)
{
	const struct store_config config = {
		.url = url,
		.data_dir = a->options->data_dir,
		.fsync = STORE_FSYNC_ALWAYS,
		.hold = a->options->is_repair ? STORE_HOLD_OR_FAIL : STORE_HOLD_NONE,
		.connect_timeout_ms = COMMAND_TIMEOUT_MS,
		.command_timeout_ms = COMMAND_TIMEOUT_MS,
	};
	const struct store_hooks hooks = { .ctx = a, .on_state = on_state };

	return store_open(&a->store, &a->loop, &config, &hooks, err);
}

/* A broker that runs has the directory: its Redis is asked beside it. */
static int open_socket(struct audit *a, struct error *err)
{
	struct buf path = { 0 }, url = { 0 };
	int rc;

	buf_printf(&path, "%s/redis.sock", a->options->data_dir);
	buf_append_text(&url, "redis+unix:");
	percent_encode(&url, buf_slice(&path));
	rc = open_url(a, buf_cstr(&url), err);
	buf_deinit(&path);
	buf_deinit(&url);
	return rc;
}

/* An empty directory would become a store. */
static bool has_store(const char *data_dir)
{
	struct buf path = { 0 };
	bool has;

	buf_printf(&path, "%s/appendonlydir", data_dir);
	has = access(buf_cstr(&path), F_OK) == 0;
	buf_deinit(&path);
	return has;
}

static int open_store(struct audit *a, struct error *err)
{
	const struct audit_options *o = a->options;
	int rc;

	if (strcmp(o->store_url, "none") == 0)
		return error_set(
			err, TIDE_ESYNTAX,
			"--store none keeps nothing: there is no store to check");
	if (strcmp(o->store_url, "embedded") == 0 && !has_store(o->data_dir))
		return error_set(err, TIDE_ESYNTAX, "there is no store in %s",
				 o->data_dir);
	rc = open_url(a, o->store_url, err);
	if (rc == TIDE_EEXISTS && !o->is_repair)
		rc = open_socket(a, err);
	return rc;
}

static void drop_all(struct damages *list)
{
	struct damage *d;

	while ((d = STAILQ_FIRST(list)) != NULL) {
		STAILQ_REMOVE_HEAD(list, link);
		damage_destroy(d);
	}
}

static void deinit(struct audit *a)
{
	struct damage_key *key;

	drop_all(&a->fresh);
	drop_all(&a->suspects);
	drop_all(&a->group);
	drop_all(&a->certain);
	while ((key = STAILQ_FIRST(&a->keys)) != NULL) {
		STAILQ_REMOVE_HEAD(&a->keys, link);
		damage_key_unref(key);
	}
	damage_key_unref(a->key);
	damage_key_unref(a->resume_key);
}

int audit_run(const struct audit_options *o)
{
	struct audit a = { .options = o };
	struct error err;

	STAILQ_INIT(&a.keys);
	STAILQ_INIT(&a.fresh);
	STAILQ_INIT(&a.suspects);
	STAILQ_INIT(&a.group);
	STAILQ_INIT(&a.certain);
	if (o->resume && !read_place(&a, slice_from(o->resume))) {
		log_print(STDERR_FILENO,
			  "tidemq: check-store: --resume-from takes what an earlier run "
			  "printed, not '%.80s'",
			  o->resume);
		return 2;
	}
	log_configure(LOG_WARN, false);
	uv_loop_init(&a.loop);
	if (open_store(&a, &err) < 0) {
		log_print(STDERR_FILENO, "tidemq: check-store: %s%s", err.text,
			  err.code == TIDE_EEXISTS
				  ? "; --repair needs a store that no broker holds"
				  : "");
		a.status = err.code == TIDE_ESYNTAX ? 2 : 1;
	} else {
		start_handles(&a);
	}
	uv_run(&a.loop, UV_RUN_DEFAULT);
	uv_loop_close(&a.loop);
	deinit(&a);
	return a.status;
}
