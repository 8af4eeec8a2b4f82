#include "scheduler.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/container.h"
#include "base/duration.h"
#include "base/mem.h"
#include "broker/exchange.h"
#include "broker/publish.h"
#include "broker/queue.h"
#include "broker/vhost.h"
#include "host/log.h"

static int schedule_run_home(const struct schedule *s, struct vhost **out,
			     struct error *err);
static void schedule_run_tick(struct schedule *s, int64_t tick_ms, uint64_t missed);

/* The clock is looked at so often, since it may be set while a timer runs. */
#define LOOK_MS 1000

/* A last tick that is further in the future was made by a wrong clock. */
#define WRONG_CLOCK_MS (INT64_C(24) * 3600 * 1000)

/* By the schedule's name: "<done>", or "<done> <begun> <missed> <id>,<id>..." while a
 * tick is under way. The ids of a message's copies follow its own: "<id>+<id>+<id>". */
#define DOC_SCHEDULE "rules:schedule"

struct scheduler *scheduler_create(struct broker *b)
{
	struct scheduler *s = mem_zalloc(sizeof(*s));

	s->broker = b;
	TAILQ_INIT(&s->schedules);
	return s;
}

static struct schedule *find(const struct scheduler *sched, const char *name)
{
	struct schedule *s;

	TAILQ_FOREACH (s, &sched->schedules, link)
		if (strcmp(name, s->name) == 0)
			return s;
	return NULL;
}

static struct schedule *create(struct scheduler *sched, struct slice name)
{
	struct schedule *s = mem_zalloc(sizeof(*s));

	s->scheduler = sched;
	s->broker = sched->broker;
	s->name = mem_strndup(name.data, name.len);
	TAILQ_INSERT_TAIL(&sched->schedules, s, link);
	return s;
}

static void forget_ids(struct schedule *s)
{
	mem_free(s->ids);
	s->ids = NULL;
	s->id_count = s->id_cap = 0;
	s->begun_ms = 0;
	s->begun_missed = 0;
}

/* Note the id of the run's message number `message`, or of a copy of it. */
static void scheduler_add_id(struct schedule *s, uint64_t id, unsigned message)
{
	MEM_GROW(s->ids, s->id_count, s->id_cap, 16);
	s->ids[s->id_count++] = (struct schedule_id){ id, message };
}

static void on_mark_written(void *ctx, int status, const char *text)
{
	struct scheduler *sched = ctx;

	if (status == TIDE_OK || status == TIDE_ESHUTDOWN)
		return;
	if (!sched->has_failed)
		log_error(
			"cannot write a schedule's last tick to Redis, trying again: %s",
			text ? text : error_text(status));
	sched->has_failed = true;
}

/* Set the schedule's field of the document; an empty value removes it. */
static void write_field(struct schedule *s, struct slice value, struct waiter *waiter)
{
	const struct store_field change = { slice_from(s->name), value };
	struct broker *b = s->broker;

	if (!b->env.store || b->is_closing)
		return;
	if (waiter)
		waiter_add(waiter);
	store_document_change(b->store, DOC_SCHEDULE, &change, 1,
			      waiter ? waiter_store_done : on_mark_written,
			      waiter ? (void *)waiter : s->scheduler);
}

static void write_ids(const struct schedule *s, struct buf *out)
{
	char id[ID_HEX_LEN];

	for (unsigned i = 0; i < s->id_count; i++) {
		bool is_copy = i > 0 && s->ids[i].message == s->ids[i - 1].message;

		buf_append_char(out, i == 0 ? ' ' : is_copy ? '+' : ',');
		id_format(s->ids[i].id, id);
		buf_append(out, id, sizeof(id));
	}
}

/* Write what is done and begun; the waiter may be NULL. */
static void scheduler_write_mark(struct schedule *s, struct waiter *waiter)
{
	struct buf text = { 0 };

	buf_printf(&text, "%" PRId64, s->done_ms);
	if (s->begun_ms) {
		buf_printf(&text, " %" PRId64 " %" PRIu64, s->begun_ms, s->begun_missed);
		write_ids(s, &text);
	}
	write_field(s, buf_slice(&text), waiter);
	buf_deinit(&text);
}

static void write_marks_again(struct scheduler *sched)
{
	struct schedule *s;

	sched->has_failed = false;
	TAILQ_FOREACH (s, &sched->schedules, link)
		if (!s->is_busy)
			scheduler_write_mark(s, NULL);
}

static void release_run(struct schedule *s)
{
	for (unsigned i = 0; i < s->msg_count; i++)
		msg_unref(s->msgs[i]);
	mem_free(s->msgs);
	mem_free(s->finds);
	vhost_unref(s->home);
	s->home = NULL;
	s->msgs = NULL;
	s->finds = NULL;
	s->msg_count = s->find_count = 0;
}

static void destroy(struct schedule *s)
{
	TAILQ_REMOVE(&s->scheduler->schedules, s, link);
	release_run(s);
	forget_ids(s);
	mem_free(s->name);
	mem_free(s->spec.when);
	mem_free(s->spec.vhost);
	mem_free(s);
}

void scheduler_destroy(struct scheduler *s)
{
	struct schedule *first;

	while ((first = TAILQ_FIRST(&s->schedules)) != NULL)
		destroy(first);
	mem_free(s);
}

static bool read_ids(struct schedule *s, struct slice text)
{
	for (unsigned n = 0; text.len && n < SCHEDULE_MESSAGES_MAX; n++) {
		struct slice ids = slice_cut(&text, ',');

		do {
			uint64_t id;

			if (id_parse(slice_cut(&ids, '+'), &id) != TIDE_OK)
				return false;
			scheduler_add_id(s, id, n);
		} while (ids.len);
	}
	return s->id_count > 0;
}

static bool read_mark(struct schedule *s, struct slice text)
{
	uint64_t done, begun;

	if (!slice_to_uint(slice_cut(&text, ' '), INT64_MAX, &done))
		return false;
	s->done_ms = (int64_t)done;
	s->last_tick_ms = s->done_ms;
	if (text.len == 0)
		return true;
	if (!slice_to_uint(slice_cut(&text, ' '), INT64_MAX, &begun) ||
	    !slice_to_uint(slice_cut(&text, ' '), INT64_MAX, &s->begun_missed) ||
	    !read_ids(s, text)) {
		forget_ids(s);
		return false;
	}
	s->begun_ms = (int64_t)begun;
	return true;
}

static void on_fields(void *ctx, int status, const char *text,
		      const struct store_field *fields, size_t count)
{
	struct scheduler *sched = ctx;

	for (size_t i = 0; i < count; i++) {
		struct schedule *s = create(sched, fields[i].name);

		if (!read_mark(s, fields[i].value))
			log_error("{tide}:rules:schedule: '%" SLICE_FMT
				  "' of '%s' cannot be read",
				  SLICE_ARG(fields[i].value), s->name);
		s->is_starting = true;
	}
	sched->on_loaded(sched->ctx, status, text);
}

void scheduler_load(struct scheduler *sched, store_done_fn on_loaded, void *ctx)
{
	sched->on_loaded = on_loaded;
	sched->ctx = ctx;
	store_document_read(sched->broker->store, DOC_SCHEDULE, on_fields, sched);
}

/* Earlier ticks are none of this schedule's. */
static void start_from_now(struct schedule *s)
{
	forget_ids(s);
	s->done_ms = s->broker->now_ms;
	scheduler_write_mark(s, NULL);
}

static void take_timing(struct schedule *s, const struct schedule_spec *spec)
{
	bool is_new = s->done_ms == 0 && s->begun_ms == 0;
	bool is_other = s->spec.when && strcmp(s->spec.when, spec->when) != 0;

	mem_free(s->spec.when);
	mem_free(s->spec.vhost);
	s->spec = *spec;
	s->spec.when = mem_strdup(spec->when);
	s->spec.vhost = mem_strdup(spec->vhost);
	s->due_ms = 0;
	if (is_other && s->is_busy)
		s->has_new_when = true;
	else if (is_new || is_other)
		start_from_now(s);
}

/* A schedule runs at the owner of its vhost, who writes what it has done. */
static bool is_of_other_cell(const struct scheduler *sched,
			     const struct schedule_spec *spec)
{
	return !store_has_vhost(sched->broker->store, slice_from(spec->vhost));
}

static void update_one(void *ctx, const struct rule *rule)
{
	struct schedule *s = find(ctx, rule->name);

	if (!rule->schedule->is_active)
		return;
	if (is_of_other_cell(ctx, rule->schedule)) {
		if (s)
			s->is_elsewhere = true;
		return;
	}
	if (!s)
		s = create(ctx, slice_from(rule->name));
	s->is_listed = true;
	take_timing(s, rule->schedule);
}

static void drop_if_unlisted(struct schedule *s)
{
	if (s->is_listed || s->is_busy)
		return;
	if (!s->is_elsewhere)
		write_field(s, (struct slice){ 0 }, NULL);
	destroy(s);
}

void scheduler_update(struct scheduler *sched)
{
	struct schedule *s, *next;

	if (!sched->is_started)
		return;
	TAILQ_FOREACH (s, &sched->schedules, link)
		s->is_listed = s->is_elsewhere = false;
	schedule_each(sched->broker->engine, update_one, sched);
	for (s = TAILQ_FIRST(&sched->schedules); s; s = next) {
		next = TAILQ_NEXT(s, link);
		drop_if_unlisted(s);
	}
	sched->due_ms = sched->broker->now_ms;
}

void scheduler_start(struct scheduler *sched)
{
	sched->is_started = true;
	scheduler_update(sched);
}

static void end_run(struct schedule *s)
{
	release_run(s);
	s->is_busy = false;
	s->scheduler->busy--;
	s->due_ms = 0;
	s->scheduler->due_ms = s->broker->now_ms;
}

static void note_result(struct schedule *s, const char *why)
{
	s->last_tick_ms = s->tick.ms;
	s->last_run_ms = s->broker->now_ms;
	snprintf(s->last_result, sizeof(s->last_result), "%s", why ? why : "ok");
	if (!why)
		return;
	s->failures++;
	log_error("schedule '%s': %s", s->name, why);
}

/* The tick is done; `why` is NULL when all went well. */
static void scheduler_finish(struct schedule *s, const char *why)
{
	note_result(s, why);
	if (!why)
		s->messages += s->msg_count;
	s->done_ms = s->tick.ms;
	forget_ids(s);
	if (s->has_new_when)
		s->done_ms = s->broker->now_ms;
	s->has_new_when = false;
	end_run(s);
	if (s->is_listed)
		scheduler_write_mark(s, NULL);
	else
		drop_if_unlisted(s);
}

/* The tick could not be stored and is to be run again. */
static void scheduler_postpone(struct schedule *s, const char *why)
{
	int64_t next_ms = schedule_spec_next(&s->spec, s->broker->now_ms);

	note_result(s, why);
	end_run(s);
	s->due_ms = schedule_spec_due(&s->spec, s->name, next_ms);
	drop_if_unlisted(s);
}

/* The last tick whose time has come. */
static int64_t latest_due(const struct schedule *s, int64_t now_ms)
{
	int64_t tick = schedule_spec_prev(&s->spec, now_ms);

	if (tick && schedule_spec_due(&s->spec, s->name, tick) > now_ms)
		tick = schedule_spec_prev(&s->spec, tick - 1);
	return tick;
}

/* How many ticks there are from `first` to before `last`, SCHEDULE_MISSED_MAX at most;
 * `*from` is the first of those counted. */
static uint64_t count_missed(const struct schedule *s, int64_t first, int64_t last,
			     int64_t *from)
{
	uint64_t n = 0;

	*from = last;
	while (n<SCHEDULE_MISSED_MAX && * from> first) {
		*from = schedule_spec_prev(&s->spec, *from - 1);
		n++;
	}
	return n;
}

static void skip_to(struct schedule *s, int64_t tick_ms, uint64_t count)
{
	log_info("schedule '%s': skipping %s%" PRIu64 " missed ticks", s->name,
		 count >= SCHEDULE_MISSED_MAX ? "at least " : "", count);
	s->skipped += count;
	s->done_ms = tick_ms;
	scheduler_write_mark(s, NULL);
}

static void run_due(struct schedule *s, int64_t first, int64_t last)
{
	int64_t from;
	uint64_t missed = count_missed(s, first, last, &from);

	if (s->spec.missed == SCHEDULE_SKIP && s->is_starting) {
		skip_to(s, last, missed + 1);
		return;
	}
	s->is_starting = false;
	if (s->spec.missed != SCHEDULE_ALL) {
		s->skipped += missed;
		schedule_run_tick(s, last, missed);
		return;
	}
	if (from > first)
		log_warn("schedule '%s': running only the last %d of the missed ticks",
			 s->name, SCHEDULE_MISSED_MAX);
	schedule_run_tick(s, from, 0);
}

static void check_clock(struct schedule *s, int64_t now_ms)
{
	if (s->done_ms <= now_ms + WRONG_CLOCK_MS)
		return;
	log_warn("schedule '%s': its last tick is days in the future: a clock was wrong. "
		 "The schedule starts again from now",
		 s->name);
	start_from_now(s);
}

static void look_at(struct schedule *s, int64_t now_ms)
{
	int64_t first, last;

	check_clock(s, now_ms);
	if (s->begun_ms) {
		schedule_run_tick(s, s->begun_ms, s->begun_missed);
		return;
	}
	first = schedule_spec_next(&s->spec, s->done_ms);
	last = latest_due(s, now_ms);
	if (first && last >= first) {
		run_due(s, first, last);
		return;
	}
	s->is_starting = false;
	s->due_ms = first ? schedule_spec_due(&s->spec, s->name, first) : INT64_MAX;
}

static void set_due(struct scheduler *sched)
{
	int64_t now_ms = sched->broker->now_ms;
	struct schedule *s;
	int64_t due_ms = INT64_MAX;

	TAILQ_FOREACH (s, &sched->schedules, link)
		if (!s->is_busy && s->due_ms < due_ms)
			due_ms = s->due_ms > now_ms ? s->due_ms : now_ms;
	if (due_ms == INT64_MAX) {
		sched->due_ms = 0;
		return;
	}
	/* The next full second at the latest, so that it stays the same for a while. */
	int64_t look_ms = (now_ms / LOOK_MS + 1) * LOOK_MS;
	if (look_ms < due_ms)
		due_ms = look_ms;
	if (due_ms < sched->rest_until_ms)
		due_ms = sched->rest_until_ms;
	sched->due_ms = due_ms;
}

/* A run that took long is followed by a rest as long, so that schedules have half of
 * the loop at most, however short their intervals. The next to run is another one. */
static bool must_rest(struct scheduler *sched, struct schedule *s, uint64_t began_ns)
{
	int64_t took_ms = (int64_t)((uv_hrtime() - began_ns) / 1000000);

	if (took_ms == 0)
		return false;
	sched->rest_until_ms = s->broker->now_ms + 2 * took_ms;
	TAILQ_REMOVE(&sched->schedules, s, link);
	TAILQ_INSERT_TAIL(&sched->schedules, s, link);
	return true;
}

static void run_those_due(struct scheduler *sched, bool is_set_back)
{
	const struct broker *b = sched->broker;
	uint64_t began_ns = uv_hrtime();
	struct schedule *s, *next;

	for (s = TAILQ_FIRST(&sched->schedules); s; s = next) {
		next = TAILQ_NEXT(s, link);
		if (s->is_busy || (s->due_ms > b->now_ms && !is_set_back))
			continue;
		look_at(s, b->now_ms);
		if (must_rest(sched, s, began_ns) && !is_set_back)
			return;
	}
}

void scheduler_turn(struct scheduler *sched)
{
	const struct broker *b = sched->broker;
	bool is_set_back = b->now_ms < sched->seen_ms;

	sched->seen_ms = b->now_ms;
	if (is_set_back)
		sched->rest_until_ms = 0;
	if (!sched->is_started || b->is_draining || sched->is_held ||
	    sched->due_ms == 0 || (b->now_ms < sched->due_ms && !is_set_back))
		return;
	if (sched->has_failed)
		write_marks_again(sched);
	run_those_due(sched, is_set_back);
	set_due(sched);
}

void scheduler_hold(struct scheduler *sched, bool is_held)
{
	sched->is_held = is_held;
}

int64_t scheduler_due_ms(const struct scheduler *sched)
{
	return sched->broker->is_draining || sched->is_held ? 0 : sched->due_ms;
}

bool scheduler_is_idle(const struct scheduler *sched)
{
	return sched->busy == 0;
}

struct status {
	const struct scheduler *scheduler;
	struct json *out;
};

static void write_state(struct json *out, const struct schedule *s)
{
	struct vhost *home;
	struct error err;
	bool has_home = schedule_run_home(s, &home, &err) == TIDE_OK;
	int64_t next_ms =
		s->begun_ms ? s->begun_ms : schedule_spec_next(&s->spec, s->done_ms);

	json_member_int(out, "next_ms", next_ms);
	json_member_int(out, "last_ms", s->last_tick_ms);
	json_member_text(out, "result", has_home ? s->last_result : err.text);
	json_member_bool(out, "running", s->is_busy);
	json_member_int(out, "runs", (int64_t)s->runs);
	json_member_int(out, "failures", (int64_t)s->failures);
	json_member_int(out, "skipped", (int64_t)s->skipped);
	json_member_int(out, "messages", (int64_t)s->messages);
}

static void write_one(void *ctx, const struct rule *rule)
{
	struct status *st = ctx;
	const struct schedule *s = find(st->scheduler, rule->name);
	const struct store *store = st->scheduler->broker->store;

	/* Only what uses it runs. */
	if (rule->is_shipped)
		return;
	json_object_begin(st->out);
	json_member_text(st->out, "name", rule->name);
	json_member_text(st->out, "file", rule->file);
	json_member_text(st->out, "when", rule->schedule->when);
	json_member_text(st->out, "vhost", rule->schedule->vhost);
	json_member_text(st->out, "missed",
			 schedule_spec_missed_name(rule->schedule->missed));
	json_member_int(st->out, "jitter_ms", rule->schedule->jitter_ms);
	json_member_bool(st->out, "active", rule->schedule->is_active);
	if (store_cells(store) > 1)
		json_member_int(st->out, "cell",
				store_cell_of(store, slice_from(rule->schedule->vhost)));
	if (s && s->is_listed)
		write_state(st->out, s);
	json_object_end(st->out);
}

void scheduler_status(const struct scheduler *sched, struct json *out)
{
	struct status st = { sched, out };

	json_member_array(out, "schedules");
	schedule_each(sched->broker->engine, write_one, &st);
	json_array_end(out);
}

/* One tick of a schedule: run, gather, publish. */

/* The ids of a message and its copies, as the first run has written them down. */
static const struct schedule_id *ids_of(const struct schedule *s, unsigned message)
{
	for (unsigned i = 0; s->is_repeat && i < s->id_count; i++)
		if (s->ids[i].message == message)
			return &s->ids[i];
	return NULL;
}

/* The id of the run's next message: a repeated run gives those of the first. */
static uint64_t next_id(struct schedule *s)
{
	const struct schedule_id *first = ids_of(s, s->msg_count);

	return first ? first->id : broker_next_id(s->broker);
}

static int gather(void *ctx, const struct msg *m, struct error *err)
{
	struct schedule *s = ctx;
	struct msg spec = *m, *msg;

	if (m->exchange.len && !exchange_find(s->home, m->exchange))
		return vhost_refuse(s->home, "exchange", m->exchange, err);
	if (s->msg_count == SCHEDULE_MESSAGES_MAX)
		return error_set(err, TIDE_ELIMIT, "a run publishes at most %d messages",
				 SCHEDULE_MESSAGES_MAX);
	spec.id = next_id(s);
	if (!spec.id)
		return id_lease_check(s->broker, err);
	spec.ts_unix_ms = s->broker->now_ms;
	if (spec.due_unix_ms)
		spec.due_unix_ms += spec.ts_unix_ms;
	msg = msg_create(&spec);
	if (!msg)
		return error_set(err, TIDE_EBUSY, "out of memory for %zu bytes",
				 m->payload_len);
	if (!s->msgs)
		s->msgs = mem_alloc(SCHEDULE_MESSAGES_MAX * sizeof(struct msg *));
	s->msgs[s->msg_count++] = msg;
	return TIDE_OK;
}

static void on_stored(struct waiter *w)
{
	struct schedule *s = container_of(w, struct schedule, waiter);

	if (w->status == TIDE_ESHUTDOWN || s->broker->is_closing)
		return; /* the next process finds the tick begun */
	if (w->status < 0)
		scheduler_postpone(s, w->text ? w->text : error_text(w->status));
	else
		scheduler_finish(s, s->failure.code < 0 ? s->failure.text : NULL);
}

static int compare_finds(const void *left, const void *right)
{
	const struct schedule_find *a = left, *b = right;

	if (a->id != b->id)
		return a->id < b->id ? -1 : 1;
	return ((uintptr_t)a->queue > (uintptr_t)b->queue) -
	       ((uintptr_t)a->queue < (uintptr_t)b->queue);
}

static bool was_found(const void *ctx, const struct msg *m, const struct queue *q)
{
	const struct schedule *s = ctx;
	const struct schedule_find wanted = { m->id, q };

	return s->find_count && bsearch(&wanted, s->finds, s->find_count, sizeof(wanted),
					compare_finds) != NULL;
}

/* A message of the run on its way. */
struct passing {
	struct decide_spec spec;
	struct decision decision;
	int status;
};

static void note_failure(struct schedule *s, struct passing *p, int status,
			 const struct error *err)
{
	p->status = status;
	if (status < 0 && s->failure.code == TIDE_OK)
		s->failure = *err;
}

static void pass_filters(struct schedule *s, unsigned n, struct passing *p)
{
	struct msg *m = s->msgs[n];
	struct error err;

	p->spec = (struct decide_spec){ .vhost = s->home, .msg = m };
	p->decision = (struct decision){ .copy_count = 0 };
	if (m->exchange.len) {
		p->spec.exchange = exchange_find(s->home, m->exchange);
		if (!p->spec.exchange) {
			error_set(&err, TIDE_ENOTFOUND, "an exchange no longer exists");
			note_failure(s, p, TIDE_ENOTFOUND, &err);
			return;
		}
	}
	note_failure(s, p, publish_filter(&p->decision, &p->spec, &err), &err);
}

/* Of a message that fails the copies may have none. */
static void note_ids(struct schedule *s, unsigned n, const struct passing *p)
{
	const struct decision *d = &p->decision;

	scheduler_add_id(s, s->msgs[n]->id, n);
	for (unsigned i = 0; p->status == TIDE_OK && i < d->copy_count; i++)
		scheduler_add_id(s, d->copies[i].msg->id, n);
}

/* The copies are those that the first run has made, if the filters are the same. */
static void give_ids(const struct schedule *s, unsigned n, const struct decision *d)
{
	const struct schedule_id *id = ids_of(s, n), *end = s->ids + s->id_count;

	for (unsigned i = 0; id && i < d->copy_count; i++) {
		if (++id == end || id->message != n)
			return;
		d->copies[i].msg->id = id->id;
	}
}

static void publish_one(struct schedule *s, struct passing *p)
{
	const struct publish_known known = { was_found, s };
	struct error err;

	if (p->status == TIDE_OK)
		note_failure(s, p,
			     publish_filtered(&p->decision, &p->spec, &known, &s->waiter,
					      &err),
			     &err);
	decide_deinit(&p->decision);
}

/* The filters come first, since the mark has the ids of what they copy. That of a
 * first run leaves before its messages, on the same connection. */
static void publish_all(struct schedule *s)
{
	struct passing *all = mem_alloc(s->msg_count * sizeof(*all));

	waiter_init(&s->waiter, on_stored);
	for (unsigned i = 0; i < s->msg_count; i++) {
		pass_filters(s, i, &all[i]);
		if (s->is_repeat)
			give_ids(s, i, &all[i].decision);
		else
			note_ids(s, i, &all[i]);
	}
	if (!s->is_repeat) {
		s->begun_ms = s->tick.ms;
		s->begun_missed = s->tick.missed;
		scheduler_write_mark(s, &s->waiter);
	}
	for (unsigned i = 0; i < s->msg_count; i++)
		publish_one(s, &all[i]);
	mem_free(all);
	waiter_done(&s->waiter, TIDE_OK, NULL);
}

struct asking {
	struct schedule *schedule;
	struct shard *shard;
};

static void on_has(void *ctx, int status, const bool *found, unsigned count)
{
	struct asking *a = ctx;
	struct schedule *s = a->schedule;

	for (unsigned i = 0; status == TIDE_OK && i < count; i++) {
		if (!found[i])
			continue;
		s->finds = mem_realloc(s->finds, (s->find_count + 1) * sizeof(*s->finds));
		s->finds[s->find_count++] =
			(struct schedule_find){ s->ids[i].id, a->shard->owner };
	}
	shard_unref(a->shard);
	mem_free(a);
	waiter_done(&s->waiter, status, NULL);
}

static void on_asked(struct waiter *w)
{
	struct schedule *s = container_of(w, struct schedule, waiter);

	if (w->status < 0 || s->broker->is_closing)
		return;
	if (s->find_count)
		qsort(s->finds, s->find_count, sizeof(*s->finds), compare_finds);
	publish_all(s);
}

static void ask_shard(struct schedule *s, struct shard *sh)
{
	struct asking *a;
	uint64_t *ids;

	if (!sh->keys)
		return;
	ids = mem_alloc(s->id_count * sizeof(*ids));
	for (unsigned i = 0; i < s->id_count; i++)
		ids[i] = s->ids[i].id;
	a = mem_alloc(sizeof(*a));
	a->schedule = s;
	a->shard = shard_ref(sh);
	waiter_add(&s->waiter);
	store_read_has(s->broker->store, sh->keys, ids, s->id_count, on_has, a);
	mem_free(ids);
}

/* A sharding script may choose otherwise this time: every shard is asked. Topics are not:
 * what a run has appended before a crash is appended again. */
static void look_for_messages(struct schedule *s)
{
	struct queue *q, *next;

	waiter_init(&s->waiter, on_asked);
	if (s->broker->env.store)
		HASH_ITER (hh, s->home->queues, q, next)
			for (unsigned i = 0; i < q->shard_count; i++)
				ask_shard(s, q->shards[i]);
	waiter_done(&s->waiter, TIDE_OK, NULL);
}

/* The schedule's vhost; TIDE_ENOTFOUND when there is none yet. */
static int schedule_run_home(const struct schedule *s, struct vhost **out,
			     struct error *err)
{
	*out = vhost_find(s->broker, slice_from(s->spec.vhost));
	if (*out)
		return TIDE_OK;
	return error_set(err, TIDE_ENOTFOUND,
			 "there is no vhost '%s'; DECLARE vhost %s makes it",
			 s->spec.vhost, s->spec.vhost);
}

/* Run a tick. The schedule is busy until scheduler_finish or scheduler_postpone, which
 * may come within the call. */
static void schedule_run_tick(struct schedule *s, int64_t tick_ms, uint64_t missed)
{
	const struct schedule_broker broker = { s, gather, slice_from(s->spec.vhost) };
	struct error err;

	s->is_repeat = s->begun_ms != 0;
	s->is_busy = true;
	s->scheduler->busy++;
	s->failure.code = TIDE_OK;
	s->tick = (struct schedule_tick){ tick_ms, missed };
	s->runs++;
	if (schedule_run_home(s, &s->home, &s->failure) < 0) {
		scheduler_finish(s, s->failure.text);
		return;
	}
	vhost_ref(s->home);
	if (id_lease_check(s->broker, &err) < 0) {
		scheduler_postpone(s, err.text);
		return;
	}
	if (schedule_run(s->broker->engine, slice_from(s->name), &s->tick, &broker,
			 &err) != TIDE_OK) {
		s->failure = err;
		scheduler_finish(s, s->failure.text);
	} else if (s->msg_count == 0) {
		scheduler_finish(s, NULL);
	} else if (s->is_repeat) {
		look_for_messages(s);
	} else {
		publish_all(s);
	}
}
