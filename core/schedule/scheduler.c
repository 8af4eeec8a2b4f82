#include "scheduler.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/duration.h"
#include "base/mem.h"
#include "host/log.h"
#include "broker/vhost.h"

/* The clock is looked at so often, since it may be set while a timer runs. */
#define LOOK_MS 1000

/* A last tick that is further in the future was made by a wrong clock. */
#define WRONG_CLOCK_MS (INT64_C(24) * 3600 * 1000)

struct scheduler *scheduler_create(void)
{
	struct scheduler *s = mem_zalloc(sizeof(*s));

	TAILQ_INIT(&s->schedules);
	return s;
}

/* ---- one schedule ---------------------------------------------------------------- */

static struct schedule *find(struct broker *b, struct slice name)
{
	struct schedule *s;

	TAILQ_FOREACH (s, &b->scheduler->schedules, link)
		if (slice_is(name, s->name))
			return s;
	return NULL;
}

struct schedule *schedule_create(struct broker *b, struct slice name)
{
	struct schedule *s = mem_zalloc(sizeof(*s));

	s->broker = b;
	s->name = mem_strndup(name.data, name.len);
	TAILQ_INSERT_TAIL(&b->scheduler->schedules, s, link);
	return s;
}

void schedule_forget_ids(struct schedule *s)
{
	mem_free(s->ids);
	s->ids = NULL;
	s->id_count = s->id_cap = 0;
	s->begun_ms = 0;
	s->begun_missed = 0;
}

void schedule_add_id(struct schedule *s, uint64_t id, unsigned message)
{
	if (s->id_count == s->id_cap) {
		s->id_cap = s->id_cap * 2 + 16;
		s->ids = mem_realloc(s->ids, s->id_cap * sizeof(*s->ids));
	}
	s->ids[s->id_count++] = (struct schedule_id){ id, message };
}

static void destroy(struct schedule *s)
{
	TAILQ_REMOVE(&s->broker->scheduler->schedules, s, link);
	for (unsigned i = 0; i < s->msg_count; i++)
		msg_unref(s->msgs[i]);
	mem_free(s->msgs);
	mem_free(s->finds);
	schedule_forget_ids(s);
	mem_free(s->name);
	mem_free(s->when);
	mem_free(s->vhost);
	vhost_unref(s->home);
	mem_free(s);
}

void scheduler_destroy(struct scheduler *s)
{
	struct schedule *first;

	while ((first = TAILQ_FIRST(&s->schedules)) != NULL)
		destroy(first);
	mem_free(s);
}

/* ---- the rules ------------------------------------------------------------------ */

static void take_timing(struct schedule *s, const struct schedule_info *info)
{
	int64_t now_ms = s->broker->now_ms;
	bool is_new = s->done_ms == 0 && s->begun_ms == 0;
	bool is_other = s->when && strcmp(s->when, info->spec->when) != 0;

	mem_free(s->when);
	s->when = mem_strdup(info->spec->when);
	mem_free(s->vhost);
	s->vhost = mem_strdup(info->spec->vhost);
	s->spec = *info->spec;
	s->spec.when = s->spec.vhost = NULL;
	s->due_ms = 0;
	/* Ticks before now were none of this timing's. */
	if (is_other && s->is_busy)
		s->has_new_when = true;
	else if (is_new || is_other) {
		schedule_forget_ids(s);
		s->done_ms = now_ms;
		schedule_write_mark(s, NULL);
	}
}

static void update_one(void *ctx, const struct schedule_info *info)
{
	struct broker *b = ctx;
	struct schedule *s;

	if (!info->spec->is_active)
		return;
	s = find(b, slice_from(info->name));
	if (!s)
		s = schedule_create(b, slice_from(info->name));
	s->is_listed = true;
	take_timing(s, info);
}

static void drop_if_unlisted(struct schedule *s)
{
	if (s->is_listed || s->is_busy)
		return;
	schedule_remove_mark(s);
	destroy(s);
}

void scheduler_update(struct broker *b)
{
	struct schedule *s, *next;

	if (!b->scheduler->is_started)
		return;
	TAILQ_FOREACH (s, &b->scheduler->schedules, link)
		s->is_listed = false;
	schedule_each(b->engine, update_one, b);
	for (s = TAILQ_FIRST(&b->scheduler->schedules); s; s = next) {
		next = TAILQ_NEXT(s, link);
		drop_if_unlisted(s);
	}
	b->scheduler->due_ms = b->now_ms;
}

void scheduler_start(struct broker *b)
{
	b->scheduler->is_started = true;
	scheduler_update(b);
}

/* ---- the ends of a run ------------------------------------------------------------- */

static void end_run(struct schedule *s)
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
	s->is_busy = false;
	s->broker->scheduler->busy--;
	s->due_ms = 0;
	s->broker->scheduler->due_ms = s->broker->now_ms;
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

void schedule_finish(struct schedule *s, const char *why)
{
	note_result(s, why);
	if (!why)
		s->messages += s->msg_count;
	s->done_ms = s->tick.ms;
	schedule_forget_ids(s);
	if (s->has_new_when)
		s->done_ms = s->broker->now_ms;
	s->has_new_when = false;
	end_run(s);
	if (s->is_listed)
		schedule_write_mark(s, NULL);
	else
		drop_if_unlisted(s);
}

void schedule_postpone(struct schedule *s, const char *why)
{
	int64_t next_ms = schedule_spec_next(&s->spec, s->broker->now_ms);

	note_result(s, why);
	end_run(s);
	s->due_ms = schedule_spec_due(&s->spec, s->name, next_ms);
	drop_if_unlisted(s);
}

/* ---- what is due ------------------------------------------------------------------- */

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
	log_info("schedule '%s': %s%" PRIu64 " missed ticks are skipped", s->name,
		 count >= SCHEDULE_MISSED_MAX ? "at least " : "", count);
	s->skipped += count;
	s->done_ms = tick_ms;
	schedule_write_mark(s, NULL);
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
		log_warn("schedule '%s': of the missed ticks the last %d are made up for",
			 s->name, SCHEDULE_MISSED_MAX);
	schedule_run_tick(s, from, 0);
}

static void check_clock(struct schedule *s, int64_t now_ms)
{
	if (s->done_ms <= now_ms + WRONG_CLOCK_MS)
		return;
	log_warn("schedule '%s': its last tick lies days in the future, so a clock was "
		 "wrong; it starts anew",
		 s->name);
	schedule_forget_ids(s);
	s->done_ms = now_ms;
	schedule_write_mark(s, NULL);
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

static void set_due(struct broker *b)
{
	struct schedule *s;
	int64_t due_ms = INT64_MAX;

	TAILQ_FOREACH (s, &b->scheduler->schedules, link)
		if (!s->is_busy && s->due_ms < due_ms)
			due_ms = s->due_ms > b->now_ms ? s->due_ms : b->now_ms;
	if (due_ms == INT64_MAX) {
		b->scheduler->due_ms = 0;
		return;
	}
	/* The next full second at the latest, so that it stays the same for a while. */
	int64_t look_ms = (b->now_ms / LOOK_MS + 1) * LOOK_MS;
	if (look_ms < due_ms)
		due_ms = look_ms;
	if (due_ms < b->scheduler->rest_until_ms)
		due_ms = b->scheduler->rest_until_ms;
	b->scheduler->due_ms = due_ms;
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

static void run_those_due(struct broker *b, bool is_set_back)
{
	struct scheduler *sched = b->scheduler;
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

void scheduler_turn(struct broker *b)
{
	struct scheduler *sched = b->scheduler;
	bool is_set_back = b->now_ms < sched->seen_ms;

	sched->seen_ms = b->now_ms;
	if (is_set_back)
		sched->rest_until_ms = 0;
	if (!sched->is_started || b->is_draining || sched->due_ms == 0 ||
	    (b->now_ms < sched->due_ms && !is_set_back))
		return;
	if (sched->has_failed)
		scheduler_write_marks_again(b);
	run_those_due(b, is_set_back);
	set_due(b);
}

int64_t scheduler_due_ms(const struct broker *b)
{
	return b->is_draining ? 0 : b->scheduler->due_ms;
}

bool scheduler_is_idle(const struct broker *b)
{
	return b->scheduler->busy == 0;
}

/* ---- status ----------------------------------------------------------------------- */

struct status {
	const struct broker *broker;
	struct json *out;
};

static void write_state(struct json *out, const struct schedule *s)
{
	struct vhost *home;
	struct error err;
	bool has_home = schedule_find_home(s, &home, &err) == TIDE_OK;
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

static void write_one(void *ctx, const struct schedule_info *info)
{
	struct status *st = ctx;
	const struct schedule *s =
		find((struct broker *)st->broker, slice_from(info->name));

	json_object_begin(st->out);
	json_member_text(st->out, "name", info->name);
	json_member_text(st->out, "file", info->file);
	json_member_text(st->out, "when", info->spec->when);
	json_member_text(st->out, "vhost", info->spec->vhost);
	json_member_text(st->out, "missed",
			 schedule_spec_missed_name(info->spec->missed));
	json_member_int(st->out, "jitter_ms", info->spec->jitter_ms);
	json_member_bool(st->out, "active", info->spec->is_active);
	if (s && s->is_listed)
		write_state(st->out, s);
	json_object_end(st->out);
}

void scheduler_status(const struct broker *b, struct json *out)
{
	struct status st = { b, out };

	json_key(out, "schedules");
	json_array_begin(out);
	schedule_each(b->engine, write_one, &st);
	json_array_end(out);
}
