#include "shadow.h"

#include <stdio.h>

#include "base/mem.h"
#include "base/random.h"
#include "host/log.h"
#include "host/machine.h"
#include "broker/vhost.h"
#include "candidate.h"
#include "changes.h"
#include "recent.h"
#include "shadow_failures.h"
#include "rules/engine/strategy.h"

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
	struct decision_context taken; /* of the publish or failure that is taken */
	struct shadow_failures failures;
	struct shadow_failure asked; /* the one that is not told of yet; or no queue */
	struct watcher before;       /* that of the broker */
};

static void watch(struct shadow *s);

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
	struct candidate_spec wanted = { RULESET_SHADOW, spec->dir, on_loaded, NULL };
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
	watch(s);
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
	b->watcher = s->before;
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

/* The share is taken at random: no pattern in the traffic can meet one of ours. */
static bool is_taken(struct shadow *s)
{
	return random_next(&s->random) <= s->threshold;
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

/* Is what is decided next one of the share? Then scripts see one moment. */
static bool take(struct shadow *s)
{
	if (s->is_stopped || !s->is_loaded || !is_taken(s))
		return false;
	s->taken =
		(struct decision_context){ .now_ms = engine_now_ms(s->broker->engine) };
	return true;
}

static struct decision_context *on_publish(void *ctx)
{
	struct shadow *s = ctx;

	s->seen++;
	return take(s) ? &s->taken : NULL;
}

/* A publish that both have decided. */
struct both {
	const struct decide_spec *spec;
	const struct decision *live, *shadow;
	const struct error *live_error, *shadow_error; /* NULL: none */
	struct verdict live_verdict, shadow_verdict;
};

/* What filters of either wrote into the message and its copies, in the order of their
 * making; members of an array, with `out` NULL only counted. */
static unsigned compare_written(const struct both *b, struct json *out)
{
	struct changes c = { .out = out, .one = "live", .other = "shadow" };
	unsigned lives = b->live->copy_count, shadows = b->shadow->copy_count;

	changes_add(&c, b->live->first.msg, b->shadow->first.msg);
	changes_add_int(&c, "copies", lives, shadows);
	for (unsigned i = 0; i < lives && i < shadows; i++) {
		c.copy = i + 1;
		changes_add(&c, b->live->copies[i].msg, b->shadow->copies[i].msg);
	}
	return c.count;
}

static unsigned compare(const struct both *b)
{
	unsigned difference = verdict_compare(&b->live_verdict, &b->shadow_verdict);

	if (!b->live_error && !b->shadow_error && compare_written(b, NULL) > 0)
		difference |= VERDICT_MESSAGE;
	return difference;
}

static void keep_sample(struct shadow *s, const struct both *b, unsigned difference)
{
	struct sample *sample = &s->samples[s->sample_count++ % SHADOW_SAMPLES];
	struct json j = { .out = &sample->changes };

	free_sample(sample);
	*sample = (struct sample){
		.msg = msg_ref(b->spec->msg),
		.vhost = vhost_ref(b->spec->vhost),
		.difference = difference,
		.live = b->live_verdict,
		.shadow = b->shadow_verdict,
		.live_error = b->live_error ? mem_strdup(b->live_error->text) : NULL,
		.shadow_error =
			b->shadow_error ? mem_strdup(b->shadow_error->text) : NULL,
	};
	if (difference & VERDICT_MESSAGE)
		compare_written(b, &j);
}

static void look(struct shadow *s, const struct watched_publish *p)
{
	struct decision_context context = { .now_ms = s->taken.now_ms,
					    .has_random = true,
					    .random_state = p->random_state };
	struct decide_spec spec = { .context = &context,
				    .vhost = p->spec->vhost,
				    .msg = p->spec->msg,
				    .now_ms = p->spec->now_ms };
	struct both b = { .spec = p->spec,
			  .live = p->decision,
			  .live_error = p->refusal };
	uint64_t start = uv_hrtime();
	struct decision mine;
	struct error err;
	unsigned difference;
	int rc = candidate_decide(s->candidate, &spec, p->decision, &mine, &err);

	b.shadow = &mine;
	b.shadow_error = rc < 0 ? &err : NULL;
	candidate_judge(s->candidate, &mine, rc, &b.shadow_verdict);
	verdict_set(&b.live_verdict, p->decision,
		    p->refusal ? p->refusal->code : TIDE_OK);
	count_time(s, uv_hrtime() - start);
	s->compared++;
	difference = compare(&b);
	if (difference != VERDICT_SAME) {
		count_difference(s, difference);
		keep_sample(s, &b, difference);
	}
	decide_deinit(&mine);
}

static void on_decided(void *ctx, const struct watched_publish *p)
{
	struct shadow *s = ctx;

	s->before.on_decided(s->before.ctx, p);
	if (p->spec->context == &s->taken)
		look(s, p);
}

/* The rules in the shadow are asked first, on the counters and the like of the active
 * ones, and so see what those will see. */
static struct decision_context *on_failure(void *ctx, const struct retry_failure *f)
{
	struct shadow *s = ctx;
	struct engine *active = s->broker->engine;
	struct shadow_failure *asked = &s->asked;
	struct decision_context context;
	struct error err;
	uint64_t start;
	int rc;

	asked->queue = NULL;
	s->failures.seen++;
	if (!take(s))
		return NULL;
	s->failures.compared++;
	if (!candidate_has_other_retry(s->candidate, f->queue))
		return NULL;
	context = (struct decision_context){
		.now_ms = s->taken.now_ms,
		.has_random = true,
		.random_state = engine_random_state(active),
		.shared = engine_shared(active),
		.is_dry = true,
	};
	start = uv_hrtime();
	*asked = (struct shadow_failure){
		f->queue, f->msg, f->view, { .error = NULL }, { .error = NULL }
	};
	rc = candidate_retry(s->candidate, &context, f, &asked->shadow.decision, &err);
	shadow_failures_set(&asked->shadow, rc < 0 ? &err : NULL);
	count_time(s, uv_hrtime() - start);
	return &s->taken;
}

static void on_failed(void *ctx, const struct retry_failure *f,
		      const struct retry_decision *d, const struct error *err)
{
	struct shadow *s = ctx;

	if (!s->asked.queue)
		return;
	if (!err)
		s->asked.live.decision = *d;
	shadow_failures_set(&s->asked.live, err);
	shadow_failures_add_take(&s->failures, &s->asked);
	s->asked.queue = NULL;
}

static void watch(struct shadow *s)
{
	struct broker *b = s->broker;

	s->before = b->watcher;
	b->watcher = (struct watcher){ s, on_publish, on_decided, on_failure, on_failed };
}

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
		json_member_list(out, "changes", buf_slice(&sample->changes));
	}
	json_object_end(out);
}

static void write_samples(const struct shadow *s, struct json *out)
{
	uint64_t first =
		s->sample_count > SHADOW_SAMPLES ? s->sample_count - SHADOW_SAMPLES : 0;

	json_member_array(out, "samples");
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
	json_member_object(out, "differences");
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
		json_member_number(out, "share", s->share);
		json_member_int(out, "started_ms", s->started_unix_ms);
		json_member_bool(out, "stopped", s->is_stopped);
		write_counts(s, out);
		write_samples(s, out);
		shadow_failures_write(&s->failures, out);
	}
	json_object_end(out);
}
