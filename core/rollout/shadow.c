#include "shadow.h"

#include <stdio.h>

#include "base/mem.h"
#include "base/random.h"
#include "host/log.h"
#include "host/machine.h"
#include "candidate.h"
#include "changes.h"
#include "broker/decide.h"
#include "recent.h"
#include "session/session.h"
#include "shadow_failures.h"
#include "broker/vhost.h"

/* A publish on which the two disagree. */
struct sample {
	struct msg *msg;
	struct vhost *vhost;
	unsigned difference;
	struct verdict live, shadow;
	char *live_error, *shadow_error; /* NULL where there is none */
	struct buf changes; /* with VERDICT_MESSAGE: the members of an array */
};

struct shadow {
	struct broker *broker;
	struct candidate *candidate;
	shadow_started_fn *on_started; /* NULL once told */
	void *ctx;
	bool is_loaded;
	double share;
	uint64_t threshold; /* of random numbers, below which a publish is taken */
	uint64_t random;
	int64_t started_unix_ms;
	uint64_t seen, compared, differing;
	uint64_t differences[VERDICT_DIFFERENCES]; /* by the bits of the enum */
	uint64_t time_ns, time_max_ns;
	unsigned slow;
	bool is_stopped;
	struct sample samples[SHADOW_SAMPLES]; /* a ring: the last ones */
	uint64_t sample_count;                 /* ever */
	struct moment moment;                  /* of what has been taken */
	struct shadow_failures failures;
	struct shadow_failure asked; /* the one that is not told of yet */
};

/* ---- life ------------------------------------------------------------------------- */

static void tell(struct shadow *s, const struct error *result)
{
	shadow_started_fn *on_started = s->on_started;

	s->on_started = NULL;
	if (on_started)
		on_started(s->ctx, result);
}

static void on_loaded(void *ctx, const struct error *result)
{
	struct shadow *s = ctx;
	struct broker *b = s->broker;

	if (result->code < 0) {
		tell(s, result);
		shadow_drop(b);
		return;
	}
	s->is_loaded = true;
	s->started_unix_ms = b->now_ms;
	log_info("rules: '%s' decides in the shadow on %g%% of the publishes",
		 candidate_dir(s->candidate), s->share * 100);
	tell(s, result);
}

int shadow_start(struct broker *b, const struct shadow_spec *spec,
		 shadow_started_fn *on_started, void *ctx, struct error *err)
{
	struct candidate_spec wanted = { CANDIDATE_SHADOW, spec->dir, on_loaded, NULL };
	struct shadow *s;
	int rc;

	if (b->shadow)
		return error_set(err, TIDE_EEXISTS,
				 "'%s' is in the shadow already; promote or drop it "
				 "first",
				 candidate_dir(b->shadow->candidate));
	s = mem_zalloc(sizeof(*s));
	wanted.ctx = s;
	rc = candidate_create(&s->candidate, b, &wanted, err);
	if (rc < 0) {
		mem_free(s);
		return rc;
	}
	s->broker = b;
	s->on_started = on_started;
	s->ctx = ctx;
	s->share = spec->share;
	s->threshold = s->share >= 1 ? UINT64_MAX : (uint64_t)(s->share * 0x1p64);
	s->random = machine_random();
	b->shadow = s;
	return TIDE_OK;
}

static void free_sample(struct sample *sample)
{
	msg_unref(sample->msg);
	vhost_unref(sample->vhost);
	mem_free(sample->live_error);
	mem_free(sample->shadow_error);
	buf_deinit(&sample->changes);
}

void shadow_drop(struct broker *b)
{
	struct shadow *s = b->shadow;
	struct error err;

	if (!s)
		return;
	b->shadow = NULL;
	if (s->on_started && b->is_closing)
		error_set(&err, TIDE_ESHUTDOWN, "the broker is stopping");
	else
		error_set(&err, TIDE_ENOTFOUND, "it was dropped before it was loaded");
	tell(s, &err);
	if (s->is_loaded)
		log_info("rules: '%s' is out of the shadow", candidate_dir(s->candidate));
	for (size_t i = 0; i < SHADOW_SAMPLES; i++)
		free_sample(&s->samples[i]);
	shadow_failures_deinit(&s->failures);
	candidate_destroy(s->candidate);
	mem_free(s);
}

struct bundle *shadow_files(const struct broker *b)
{
	const struct shadow *s = b->shadow;

	return s && s->is_loaded ? candidate_files(s->candidate) : NULL;
}

const char *shadow_dir(const struct broker *b)
{
	return candidate_dir(b->shadow->candidate);
}

/* ---- looking ---------------------------------------------------------------------- */

/* The share is taken at random: no pattern in the traffic can meet one of ours. */
static bool is_taken(struct shadow *s)
{
	return random_next(&s->random) <= s->threshold;
}

static char *copy_error(const struct verdict *v, const struct error *err)
{
	return v->status == TIDE_OK ? NULL : mem_strdup(err->text);
}

static void count_difference(struct shadow *s, unsigned difference)
{
	s->differing++;
	for (int i = 0; i < VERDICT_DIFFERENCES; i++)
		s->differences[i] += difference >> i & 1;
}

static void count_time(struct shadow *s, uint64_t ns)
{
	s->time_ns += ns;
	if (ns > s->time_max_ns)
		s->time_max_ns = ns;
	if (ns < SHADOW_SLOW_NS || ++s->slow < SHADOW_SLOW_MAX)
		return;
	s->is_stopped = true;
	log_warn("rules: '%s' in the shadow has held up the broker %d times, for up to "
		 "%llu ms, and is stopped",
		 candidate_dir(s->candidate), SHADOW_SLOW_MAX,
		 (unsigned long long)(s->time_max_ns / 1000000));
}

static bool take(struct shadow *s)
{
	/* What there is to follow is followed a step at a time; until it is done the two
	 * cannot be compared. */
	if (s->is_stopped || !s->is_loaded || !is_taken(s) ||
	    !candidate_follow(s->candidate))
		return false;
	engine_moment_begin(s->broker->engine, &s->moment);
	return true;
}

bool shadow_take_publish(struct shadow *s)
{
	s->seen++;
	return take(s);
}

/* What filters of either wrote into the message and its copies, in the order of their
 * making; members of an array, with `out` NULL only counted. */
static unsigned compare_written(const struct decision *live,
				const struct candidate_decision *mine, struct json *out)
{
	struct changes c = { .out = out, .one = "live", .other = "shadow" };
	unsigned copies = mine->written_count - 1;

	changes_add(&c, live->first.msg, mine->written[0]);
	changes_add_int(&c, "copies", live->copy_count, copies);
	for (unsigned i = 0; i < copies && i < live->copy_count; i++) {
		c.copy = i + 1;
		changes_add(&c, live->copies[i].msg, mine->written[i + 1]);
	}
	return c.count;
}

static unsigned compare(const struct shadow_live *live,
			const struct candidate_decision *mine)
{
	unsigned difference = verdict_compare(live->verdict, &mine->verdict);

	if (live->verdict->status == TIDE_OK && mine->verdict.status == TIDE_OK &&
	    compare_written(live->decision, mine, NULL) > 0)
		difference |= VERDICT_MESSAGE;
	return difference;
}

static void keep_sample(struct shadow *s, const struct shadow_live *live,
			const struct candidate_decision *mine, unsigned difference)
{
	struct sample *sample = &s->samples[s->sample_count++ % SHADOW_SAMPLES];
	struct json j;

	free_sample(sample);
	*sample = (struct sample){
		.msg = msg_ref(live->spec->msg),
		.vhost = vhost_ref(live->spec->vhost),
		.difference = difference,
		.live = *live->verdict,
		.shadow = mine->verdict,
		.live_error = copy_error(live->verdict, live->refusal),
		.shadow_error = copy_error(&mine->verdict, &mine->err),
	};
	json_init(&j, &sample->changes);
	if (difference & VERDICT_MESSAGE)
		compare_written(live->decision, mine, &j);
}

void shadow_look(struct shadow *s, const struct shadow_live *live)
{
	struct candidate_decision mine = { .moment = &s->moment };
	uint64_t start = uv_hrtime();
	unsigned difference;

	engine_moment_end(s->broker->engine, &s->moment);
	candidate_decide(s->candidate, live->spec->vhost, live->spec->msg, &mine);
	count_time(s, uv_hrtime() - start);
	s->compared++;
	difference = compare(live, &mine);
	if (difference != VERDICT_SAME) {
		count_difference(s, difference);
		keep_sample(s, live, &mine, difference);
	}
	candidate_decision_deinit(&mine);
}

bool shadow_ask_retry(struct shadow *s, struct queue *q, struct msg *m,
		      const struct failure_view *failure)
{
	struct candidate_failure f = { q, m, failure, &s->moment };
	struct shadow_failure *asked = &s->asked;
	struct error err;
	uint64_t start;
	int rc;

	s->failures.seen++;
	if (!take(s))
		return false;
	s->failures.compared++;
	if (!candidate_has_other_retry(s->candidate, q)) {
		engine_moment_end(s->broker->engine, &s->moment);
		return false;
	}
	start = uv_hrtime();
	*asked = (struct shadow_failure){ .queue = q, .msg = m, .failure = *failure };
	rc = candidate_retry(s->candidate, &f, &asked->shadow.decision, &err);
	shadow_outcome_set(&asked->shadow, rc == TIDE_OK ? NULL : &err);
	count_time(s, uv_hrtime() - start);
	return true;
}

void shadow_tell_retry(struct shadow *s, const struct retry_decision *d,
		       const struct error *err)
{
	engine_moment_end(s->broker->engine, &s->moment);
	if (d)
		s->asked.live.decision = *d;
	shadow_outcome_set(&s->asked.live, err);
	shadow_failures_add_take(&s->failures, &s->asked);
}

/* ---- telling ---------------------------------------------------------------------- */

static void write_sample(const struct sample *sample, struct broker *b, struct json *out)
{
	json_object_begin(out);
	json_key(out, "differs");
	verdict_write_difference(sample->difference, out);
	recent_write_publish(sample->vhost, sample->msg, sample->msg->payload_len, out);
	json_key(out, "live");
	verdict_write(&sample->live, b, sample->live_error, out);
	json_key(out, "shadow");
	verdict_write(&sample->shadow, b, sample->shadow_error, out);
	if (sample->difference & VERDICT_MESSAGE) {
		json_key(out, "changes");
		json_array_begin(out);
		buf_append_slice(out->out, buf_slice(&sample->changes));
		json_array_end(out);
	}
	json_object_end(out);
}

static void write_samples(const struct shadow *s, struct json *out)
{
	uint64_t first =
		s->sample_count > SHADOW_SAMPLES ? s->sample_count - SHADOW_SAMPLES : 0;

	json_key(out, "samples");
	json_array_begin(out);
	for (uint64_t i = s->sample_count; i > first; i--)
		write_sample(&s->samples[(i - 1) % SHADOW_SAMPLES], s->broker, out);
	json_array_end(out);
}

static void write_counts(const struct shadow *s, struct json *out)
{
	static const char *const names[] = { "errors", "queues", "shards", "ranks",
					     "messages" };

	json_member_int(out, "seen", (int64_t)s->seen);
	json_member_int(out, "compared", (int64_t)s->compared);
	json_member_int(out, "differing", (int64_t)s->differing);
	json_key(out, "differences");
	json_object_begin(out);
	for (int i = 0; i < VERDICT_DIFFERENCES; i++)
		json_member_int(out, names[i], (int64_t)s->differences[i]);
	json_object_end(out);
	json_member_int(out, "time_us", (int64_t)(s->time_ns / 1000));
	json_member_int(out, "time_max_us", (int64_t)(s->time_max_ns / 1000));
}

void shadow_write(const struct broker *b, struct json *out)
{
	const struct shadow *s = b->shadow;

	json_object_begin(out);
	json_member_bool(out, "active", s && s->is_loaded);
	if (s && !s->is_loaded)
		json_member_text(out, "loading", candidate_dir(s->candidate));
	if (s && s->is_loaded) {
		candidate_write(s->candidate, out);
		json_key(out, "share");
		json_number(out, s->share);
		json_member_int(out, "started_ms", s->started_unix_ms);
		json_member_bool(out, "stopped", s->is_stopped);
		write_counts(s, out);
		write_samples(s, out);
		shadow_failures_write(&s->failures, out);
	}
	json_object_end(out);
}
