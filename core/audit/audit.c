#include "audit.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <uv.h>

#include "base/mem.h"
#include "base/percent.h"
#include "host/log.h"
#include "damage.h"

/* Keys of a page, and ids that are looked at together. */
#define KEYS_COUNT 16
#define LOOK_MAX 128
/* Rows of a page: as many as have about so many bytes. */
#define ROWS_FIRST 8
#define ROWS_MAX 256
#define PAGE_BYTES ((size_t)256 << 10)
/* The findings that wait for their second look. */
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
	bool is_started;
	bool is_waiting;  /* for a completion, or the end of a pause */
	bool is_stopping; /* a signal: what is under way ends, nothing else begins */
	bool is_over;     /* the store has failed, or a second signal has come */
	uint64_t owed_ns; /* for so long Redis has worked without a pause */
	/* The walk. */
	struct store_walk_place page, next;
	bool is_scanned;
	STAILQ_HEAD(, damage_key) keys; /* of the page: the first is being read */
	uint64_t cursor;                /* in it */
	unsigned rows;                  /* of the next page */
	struct damage_key *resume_key;
	uint64_t resume_cursor;
	/* The findings: of the last page, seen once, being looked at. */
	struct damages found, suspects, group;
	struct damage *mending;
	unsigned suspect_count, group_count;
	uint64_t suspected_at_ms;
	/* For people. */
	uint64_t key_count, row_count, found_count, mended_count;
	bool has_commits; /* that a crash has cut short */
	int status;
};

/* Wait for the completion of the request that was just sent. False: it will not come. */
static bool wait_done(struct audit *a)
{
	uint64_t since_ns = uv_hrtime();

	a->is_waiting = true;
	while (a->is_waiting && !a->is_over)
		uv_run(&a->loop, UV_RUN_ONCE);
	a->owed_ns += uv_hrtime() - since_ns;
	return !a->is_over;
}

static void on_pause_end(uv_timer_t *timer)
{
	((struct audit *)timer->data)->is_waiting = false;
}

static void pause_for(struct audit *a, uint64_t ms)
{
	uv_timer_start(&a->timer, on_pause_end, ms ? ms : 1, 0);
	wait_done(a);
	a->owed_ns = 0;
}

static void give_up(struct audit *a, const char *why)
{
	if (why)
		log_print(STDERR_FILENO, "tidemq: check-store: %s", why);
	a->status = 1;
	a->is_over = true;
}

/* Where the walk is: CURSOR, or CURSOR/CURSOR/KEY within a key; of a further master of a
 * Redis Cluster its first slot comes before it, as SLOT:CURSOR. */
static void append_place(const struct audit *a, struct buf *out)
{
	const struct damage_key *key = STAILQ_FIRST(&a->keys);
	const struct store_walk_place *place = key ? &a->page : &a->next;

	if (place->slot > 0) {
		buf_append_uint(out, place->slot);
		buf_append_char(out, ':');
	}
	buf_append_uint(out, place->cursor);
	if (!key)
		return;
	buf_append_char(out, '/');
	buf_append_uint(out, a->cursor);
	buf_append_char(out, '/');
	percent_encode(out, damage_key_slice(key));
}

static bool read_place(struct audit *a, struct slice text)
{
	struct slice rest = text, first = slice_cut(&rest, '/');
	struct slice second = slice_cut(&rest, '/'), cursor = first;
	bool has_slot = slice_find(first, ':') < first.len, is_good;
	uint64_t slot = 0;
	char *key;
	size_t len;

	if ((has_slot &&
	     !slice_to_uint(slice_cut(&cursor, ':'), LAYOUT_SLOTS - 1, &slot)) ||
	    !slice_to_uint(cursor, UINT64_MAX, &a->next.cursor))
		return false;
	a->next.slot = (unsigned)slot;
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

static void add_damage(void *ctx, struct damage *d)
{
	STAILQ_INSERT_TAIL(&((struct audit *)ctx)->found, d, link);
}

static void on_mended(void *ctx, int status, const char *text)
{
	struct audit *a = ctx;
	struct buf line = { 0 };

	a->is_waiting = false;
	if (status == TIDE_ESHUTDOWN)
		return;
	damage_print(a->mending, status < 0 ? DAMAGE_REFUSED : DAMAGE_MENDED, text,
		     &line);
	fputs(buf_cstr(&line), stdout);
	buf_deinit(&line);
	a->mended_count += status >= 0;
}

/* Mend or report what is certain. */
static void settle_take(struct audit *a, struct damage *d)
{
	struct store_walk_edit edits[DAMAGE_EDITS_MAX];
	struct buf keys[DAMAGE_EDITS_MAX] = { { 0 } }, line = { 0 };
	size_t count = a->options->is_repair ? damage_edits(d, edits, keys) : 0;

	if (count > 0) {
		a->mending = d;
		store_walk_edit(a->store, edits, count, on_mended, a);
		wait_done(a);
	} else {
		damage_print(d, DAMAGE_FOUND, NULL, &line);
		fputs(buf_cstr(&line), stdout);
	}
	fflush(stdout);
	a->found_count += !a->is_over;
	damage_destroy(d);
	buf_deinit(&line);
	for (int i = 0; i < DAMAGE_EDITS_MAX; i++)
		buf_deinit(&keys[i]);
}

/* A first look is enough for a repair: nobody else writes to a store that is held. */
static void judge_take(struct audit *a, struct damage *d, bool is_certain)
{
	if (is_certain || a->options->is_repair) {
		settle_take(a, d);
		return;
	}
	STAILQ_INSERT_TAIL(&a->suspects, d, link);
	a->suspect_count++;
	a->suspected_at_ms = uv_now(&a->loop);
}

/* Behind its words Redis says where in a script. */
static void add_refusal(struct audit *a, struct damage_key *key, const char *text)
{
	const char *end = strstr(text, " script: ");
	char *words = mem_strndup(text, end ? (size_t)(end - text) : strlen(text));

	add_damage(a, damage_create(DAMAGE_READ, key, SLICE(""), words));
	mem_free(words);
}

static void drop_all(struct damages *list)
{
	struct damage *d;

	while ((d = STAILQ_FIRST(list)) != NULL) {
		STAILQ_REMOVE_HEAD(list, link);
		damage_destroy(d);
	}
}

/* Leave in the group what is still there. */
static void on_looked(void *ctx, int status, const char *text, uint64_t next,
		      const struct store_walk_row *rows, size_t count)
{
	struct audit *a = ctx;
	struct damage *d = STAILQ_FIRST(&a->group), *following;
	bool is_asked = damage_look(d->kind) == DAMAGE_LOOK_ASK;
	size_t step = is_asked ? DAMAGE_QUESTIONS : 1;

	a->is_waiting = false;
	if (status == TIDE_ESHUTDOWN)
		return;
	if (status < 0 || count != a->group_count * step) {
		add_refusal(a, d->key, text ? text : "an unexpected reply from Redis");
		drop_all(&a->group);
		return;
	}
	for (; d; d = following, rows += step) {
		following = STAILQ_NEXT(d, link);
		if (!is_asked)
			d->found = rows->found;
		if (is_asked ? damage_is_answered(d, rows)
			     : damage_is_in_row(d->kind, d->key->name.key, d->found))
			continue;
		STAILQ_REMOVE(&a->group, d, damage, link);
		damage_destroy(d);
	}
}

static void ask_group(struct audit *a)
{
	struct store_walk_question questions[LOOK_MAX * DAMAGE_QUESTIONS];
	struct buf texts[LOOK_MAX * DAMAGE_QUESTIONS] = { { 0 } };
	struct slice members[LOOK_MAX];
	struct damage *d = STAILQ_FIRST(&a->group);
	const struct layout_name *name = &d->key->name;
	bool is_asked = damage_look(d->kind) == DAMAGE_LOOK_ASK;
	size_t count = 0, i;

	STAILQ_FOREACH (d, &a->group, link) {
		i = count++;
		members[i] = (struct slice){ d->member, d->member_len };
		if (is_asked)
			damage_ask(d, questions + i * DAMAGE_QUESTIONS,
				   texts + i * DAMAGE_QUESTIONS);
	}
	if (is_asked)
		store_walk_ask(a->store, questions, DAMAGE_QUESTIONS * count, on_looked,
			       a);
	else
		store_walk_members(a->store, name, damage_wanted(name->key), members,
				   count, on_looked, a);
	for (i = 0; i < DAMAGE_QUESTIONS * count; i++)
		buf_deinit(&texts[i]);
	wait_done(a);
}

/* Look at the first of them again, with others behind it that are of the same key and
 * are looked at in the same way. */
static void look_at_some(struct audit *a, struct damages *from, bool is_second)
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
	}
	ask_group(a);
	while (!a->is_over && (d = STAILQ_FIRST(&a->group))) {
		STAILQ_REMOVE_HEAD(&a->group, link);
		judge_take(a, d, is_second);
	}
}

/* Suspects are looked at when they are old enough. */
static void look_at_suspects(struct audit *a)
{
	uint64_t age_ms = uv_now(&a->loop) - a->suspected_at_ms;

	if (a->suspect_count > 0 && age_ms < SETTLE_MS)
		pause_for(a, SETTLE_MS - age_ms);
	while (!a->is_over && !STAILQ_EMPTY(&a->suspects))
		look_at_some(a, &a->suspects, true);
	a->suspect_count = 0;
}

/* Report the findings of the last page, or suspect them. */
static void look_at_found(struct audit *a)
{
	struct damage *d;

	while (!a->is_over && (d = STAILQ_FIRST(&a->found))) {
		if (damage_look(d->kind) == DAMAGE_LOOK_ASK) {
			look_at_some(a, &a->found, false);
		} else {
			STAILQ_REMOVE_HEAD(&a->found, link);
			judge_take(a, d, damage_look(d->kind) == DAMAGE_LOOK_NONE);
		}
	}
	if (a->suspect_count >= SUSPECTS_MAX)
		look_at_suspects(a);
	if (a->owed_ns > PAUSE_MIN_NS && !a->options->is_repair && !a->is_stopping)
		pause_for(a, a->owed_ns / 1000000);
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
	struct damage_key *key = STAILQ_FIRST(&a->keys);
	size_t bytes = 0;

	a->is_waiting = false;
	if (status == TIDE_ESHUTDOWN)
		return;
	if (status < 0)
		add_refusal(a, key, text);
	for (size_t i = 0; i < count; i++) {
		bytes += rows[i].member.len + rows[i].value.len;
		row_check(key, &rows[i], add_damage, a);
	}
	a->row_count += count;
	a->has_commits |= count > 0 && key->name.kind == LAYOUT_DOCUMENT &&
			  key->name.document == LAYOUT_COMMITS;
	adapt_rows(a, bytes);
	a->cursor = status < 0 ? 0 : next;
}

static void read_page(struct audit *a, const struct damage_key *key)
{
	const struct layout_name *name = &key->name;
	const struct store_walk_page page = {
		.key = damage_key_slice(key),
		.type = name->type,
		.cursor = a->cursor,
		.count = a->rows,
	};

	if (layout_has_ids(name))
		store_walk_shard(a->store, &page, name, damage_wanted(name->key), on_page,
				 a);
	else
		store_walk_page(a->store, &page, on_page, a);
	wait_done(a);
}

static bool has_rows(const struct layout_name *name)
{
	return name->kind != LAYOUT_DOCUMENT ||
	       (name->document != LAYOUT_HOLDER && name->document != LAYOUT_GENERATION &&
		name->document != LAYOUT_LAST && name->document != LAYOUT_LOCKS);
}

/* Read the first key of the page to its end, or until a signal comes. */
static void walk_key(struct audit *a)
{
	struct damage_key *key = STAILQ_FIRST(&a->keys);

	a->rows = ROWS_FIRST;
	if (a->resume_key &&
	    slice_is_equal(damage_key_slice(key), damage_key_slice(a->resume_key)))
		a->cursor = a->resume_cursor;
	for (int kind = 0; kind < DAMAGE_KIND_COUNT; kind++)
		if (damage_is_of_key((enum damage_kind)kind, &key->name))
			add_damage(a, damage_create((enum damage_kind)kind, key,
						    SLICE(""), NULL));
	do {
		if (has_rows(&key->name))
			read_page(a, key);
		look_at_found(a);
	} while (a->cursor != 0 && !a->is_stopping && !a->is_over);
	if (a->cursor != 0 || a->is_over)
		return;
	STAILQ_REMOVE_HEAD(&a->keys, link);
	damage_key_unref(key);
	a->key_count++;
}

/* Check a key by its name and its type.
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
	if (slice_is(found->type, key->name.type) ||
	    (key->name.other_type && slice_is(found->type, key->name.other_type)))
		return true;
	snprintf(detail, sizeof(detail), "%" SLICE_FMT " instead of %s",
		 SLICE_HEAD(found->type, 20), key->name.type);
	add_damage(a, damage_create(DAMAGE_TYPE, key, SLICE(""), detail));
	return false;
}

static void on_keys(void *ctx, int status, const char *text, uint64_t next,
		    const struct store_walk_key *keys, size_t count)
{
	struct audit *a = ctx;
	size_t first = 0;

	a->is_waiting = false;
	if (status < 0) {
		if (status != TIDE_ESHUTDOWN)
			give_up(a, text);
		return;
	}
	/* The keys before the place of an earlier run in its page were walked then. */
	for (size_t i = 0; a->resume_key && i < count; i++)
		if (slice_is_equal(keys[i].name, damage_key_slice(a->resume_key)))
			first = i;
	for (size_t i = first; i < count; i++) {
		struct damage_key *key = damage_key_create(keys[i].name);

		if (check_key(a, key, &keys[i])) {
			STAILQ_INSERT_TAIL(&a->keys, key, link);
		} else {
			damage_key_unref(key);
			a->key_count++;
		}
	}
	a->next.cursor = next;
	if (next == 0)
		a->next.slot = store_walk_master(a->store, a->page.slot + 1);
	a->is_scanned = a->next.slot == STORE_WALK_END;
}

static void read_keys(struct audit *a)
{
	a->page = a->next;
	store_walk_keys(a->store, &a->page, KEYS_COUNT, on_keys, a);
	if (wait_done(a))
		look_at_found(a);
}

static void print_summary(struct audit *a)
{
	bool is_complete = a->is_scanned && STAILQ_EMPTY(&a->keys);
	struct buf place = { 0 };
	struct store_stats stats;

	printf("%llu key%s, %llu %s: %llu finding%s", (unsigned long long)a->key_count,
	       a->key_count == 1 ? "" : "s", (unsigned long long)a->row_count,
	       a->row_count == 1 ? "entry" : "entries",
	       (unsigned long long)a->found_count, a->found_count == 1 ? "" : "s");
	if (a->options->is_repair)
		printf(", %llu repaired", (unsigned long long)a->mended_count);
	putchar('\n');
	if (a->has_commits)
		puts("{tide}:commits has a COMMIT that is not carried out in whole yet: "
		     "the next start of a broker does that");
	fflush(stdout);
	if (!is_complete) {
		append_place(a, &place);
		log_print(STDERR_FILENO,
			  "tidemq: check-store: interrupted; continue with --resume-from "
			  "'%s'",
			  buf_cstr(&place));
		buf_deinit(&place);
	}
	store_stats(a->store, &stats);
	if (stats.slots_without_master > 0) {
		is_complete = false;
		log_print(STDERR_FILENO,
			  "tidemq: check-store: slots of the Redis Cluster without a "
			  "master, which were not checked: %u",
			  stats.slots_without_master);
	}
	a->status = !is_complete || a->found_count > a->mended_count;
}

static void on_layout(void *ctx, int status, const char *text)
{
	struct audit *a = ctx;

	a->is_waiting = false;
	if (status < 0 && status != TIDE_ESHUTDOWN)
		give_up(a, text);
}

/* That of an earlier run may have other slots now. */
static void find_master(struct audit *a)
{
	unsigned slot = store_walk_master(a->store, a->next.slot);

	if (slot != a->next.slot)
		a->next = (struct store_walk_place){ slot, 0 };
	a->is_scanned = slot == STORE_WALK_END;
}

static void walk_store(struct audit *a)
{
	if (wait_done(a)) { /* until the store is up */
		store_layout_check(a->store, on_layout, a);
		wait_done(a);
	}
	if (!a->is_over)
		find_master(a);
	while (!a->is_over && !a->is_stopping &&
	       (!a->is_scanned || !STAILQ_EMPTY(&a->keys))) {
		if (STAILQ_EMPTY(&a->keys))
			read_keys(a);
		else
			walk_key(a);
	}
	look_at_suspects(a);
	look_at_found(a); /* what Redis refused meanwhile */
	if (!a->is_over)
		print_summary(a);
}

static void on_state(void *ctx, enum store_state state, const char *why)
{
	struct audit *a = ctx;

	if (state == STORE_FAILED)
		give_up(a, why);
	if (state != STORE_UP || a->is_started)
		return;
	a->is_started = true;
	a->is_waiting = false;
}

static void on_signal(uv_signal_t *handle, int number)
{
	struct audit *a = handle->data;

	if (a->is_stopping || !a->is_started)
		give_up(a, NULL);
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

static void on_closed(void *ctx)
{
	struct audit *a = ctx;

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
		.hold = a->options->is_repair ? STORE_HOLD_AS_IS : STORE_HOLD_NONE,
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

static void drop_keys(struct audit *a)
{
	struct damage_key *key;

	while ((key = STAILQ_FIRST(&a->keys)) != NULL) {
		STAILQ_REMOVE_HEAD(&a->keys, link);
		damage_key_unref(key);
	}
	damage_key_unref(a->resume_key);
}

int audit_run(const struct audit_options *o)
{
	struct audit a = { .options = o };
	struct damages *lists[] = { &a.found, &a.suspects, &a.group };
	struct error err;

	STAILQ_INIT(&a.keys);
	for (int i = 0; i < 3; i++)
		STAILQ_INIT(lists[i]);
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
		walk_store(&a);
		store_close(a.store, a.is_over && a.is_stopping ? 0 : CLOSE_GRACE_MS,
			    on_closed, &a);
	}
	uv_run(&a.loop, UV_RUN_DEFAULT);
	uv_loop_close(&a.loop);
	for (int i = 0; i < 3; i++)
		drop_all(lists[i]);
	drop_keys(&a);
	return a.status;
}
