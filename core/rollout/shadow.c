#include "shadow.h"

#include <inttypes.h>

#include "base/container.h"
#include "base/mem.h"
#include "base/random.h"
#include "host/log.h"
#include "host/machine.h"
#include "broker/vhost.h"
#include "candidate.h"
#include "follow/changes.h"
#include "follow/recent.h"
#include "rules/engine/strategy.h"
#include "shadow_hook.h"

/* Of a loop turn, while both rules are asked about what there is. */
#define WALK_SLICE_NS 1000000

/* What one of the two decided: a verdict about a publish, or an action for a failure. */
struct side {
	struct verdict verdict;
	struct retry_decision decision;
	char *error; /* NULL where there is none */
};

/* A publish or a failure on which the two disagree. */
struct sample {
	struct msg *msg;
	struct vhost *vhost;
	struct side live, shadow;
	unsigned difference;         /* of a publish */
	struct buf changes;          /* with VERDICT_MESSAGE: the members of an array */
	struct failure_view failure; /* of a publish without a reason */
	uint64_t queue;              /* of a failure: the serial number */
};

struct comparison {
	uint64_t seen, compared, differing;
	struct sample samples[SHADOW_SAMPLES]; /* a ring: the last that differ */
};

struct shadow {
	struct follower follower;
	struct rollout *rollout;
	struct candidate *candidate;
	shadow_started_fn *on_started; /* NULL once told */
	void *ctx;
	bool is_loaded;
	bool is_walking; /* before: both are asked about what there is */
	double share;
	uint64_t owner;
	char *by;
	int64_t asked_unix_ms;
	uint64_t threshold; /* of random numbers, below which a publish is taken */
	uint64_t random;
	int64_t started_unix_ms;
	struct comparison publishes, failures;
	uint64_t differences[VERDICT_DIFFERENCES]; /* by the bits of the enum */
	int64_t time_ns, time_max_ns;
	unsigned slow;
	bool is_stopped;
	struct decision_context taken; /* of the publish or failure that is taken */
	bool is_asked; /* about the failure that the active rules decide now */
	struct retry_decision asked;
	struct error asked_error; /* code 0: it has decided */
	struct shadow_hook *hooks;
};

static void tell(struct shadow *s, const struct error *result)
{
	shadow_started_fn *on_started = s->on_started;

	s->on_started = NULL;
	if (on_started)
		on_started(s->ctx, result);
}

static void begin(struct shadow *s)
{
	const struct error none = { .code = TIDE_OK };

	s->is_loaded = true;
	s->started_unix_ms = s->rollout->broker->now_ms;
	log_info("rules: '%s' decides in the shadow on %g%% of the publishes",
		 s->candidate->dir, s->share * 100);
	tell(s, &none);
}

static void on_idle(uv_idle_t *handle)
{
	struct shadow *s = ((struct candidate *)handle->data)->ctx;
	int64_t start = shadow_clock_ns();
	bool has_more;

	do
		has_more = shadow_hook_walk(s->hooks);
	while (has_more && shadow_clock_ns() - start < WALK_SLICE_NS);
	if (has_more)
		return;
	uv_idle_stop(handle);
	s->is_walking = false;
	begin(s);
}

static void on_loaded(void *ctx, const struct error *result)
{
	struct shadow *s = ctx;

	if (result->code < 0) {
		tell(s, result);
		shadow_drop(s->rollout);
		return;
	}
	s->hooks = shadow_hook_create(s->candidate);
	s->is_walking = broker_has_hook(s->rollout->broker, SCRIPT_DECLARE) &&
			candidate_has_other_scripts(s->candidate, SCRIPT_DECLARE);
	if (s->is_walking)
		uv_idle_start(&s->candidate->turn, on_idle);
	else
		begin(s);
}

static void free_sample(struct sample *sample)
{
	msg_unref(sample->msg);
	vhost_unref(sample->vhost);
	mem_free(sample->live.error);
	mem_free(sample->shadow.error);
	strategy_extra_unref(sample->live.decision.extra);
	strategy_extra_unref(sample->shadow.decision.extra);
	buf_deinit(&sample->changes);
}

/* Keep a sample, which borrows the message and the vhost, in the place of the oldest. */
static struct sample *keep(struct comparison *c, const struct sample *sample,
			   const struct error *live, const struct error *shadow)
{
	struct sample *kept = &c->samples[c->differing++ % SHADOW_SAMPLES];

	free_sample(kept);
	*kept = *sample;
	msg_ref(kept->msg);
	vhost_ref(kept->vhost);
	kept->live.decision.extra = strategy_extra_clone(sample->live.decision.extra);
	strategy_extra_ref(kept->shadow.decision.extra);
	kept->live.error = live ? mem_strdup(live->text) : NULL;
	kept->shadow.error = shadow ? mem_strdup(shadow->text) : NULL;
	return kept;
}

void shadow_drop(struct rollout *r)
{
	struct broker *b = r->broker;
	struct shadow *s = r->shadow;
	struct error err;

	if (!s)
		return;
	r->shadow = NULL;
	step_unfollow(&b->followers, &s->follower);
	if (s->on_started && b->is_closing)
		error_set(&err, TIDE_ESHUTDOWN, "the broker is stopping");
	else
		error_set(&err, TIDE_ENOTFOUND,
			  "the shadow was dropped before it was loaded");
	tell(s, &err);
	if (s->is_loaded)
		log_info("rules: '%s' has left the shadow", s->candidate->dir);
	for (size_t i = 0; i < SHADOW_SAMPLES; i++) {
		free_sample(&s->publishes.samples[i]);
		free_sample(&s->failures.samples[i]);
	}
	shadow_hook_destroy(s->hooks);
	candidate_destroy(s->candidate);
	mem_free(s->by);
	mem_free(s);
}

struct bundle *shadow_files(const struct rollout *r)
{
	const struct shadow *s = r->shadow;

	return s && s->is_loaded ? engine_files(s->candidate->rules.engine) : NULL;
}

uint64_t shadow_owner(const struct rollout *r)
{
	return r->shadow ? r->shadow->owner : 0;
}

const char *shadow_dir(const struct rollout *r)
{
	return r->shadow->candidate->dir;
}

/* The share is taken at random: no pattern in the traffic can meet one of ours. */
static bool is_taken(struct shadow *s)
{
	return random_next(&s->random) <= s->threshold;
}

static void count_time(struct shadow *s, int64_t ns)
{
	s->time_ns += ns;
	if (ns > s->time_max_ns)
		s->time_max_ns = ns;
	if (ns < SHADOW_SLOW_NS || ++s->slow < SHADOW_SLOW_MAX)
		return;
	s->is_stopped = true;
	log_warn("rules: stopped '%s' in the shadow: it held up the broker %d times, for "
		 "up to %llu ms",
		 s->candidate->dir, SHADOW_SLOW_MAX,
		 (unsigned long long)(s->time_max_ns / 1000000));
}

/* The scripts of both see one moment. */
static void begin_moment(struct shadow *s)
{
	const struct engine *active = s->rollout->broker->engine;

	s->taken = (struct decision_context){ .now_ms = engine_now_ms(active) };
}

/* Is what is decided next one of the share? */
static bool take(struct shadow *s)
{
	if (s->is_stopped || !s->is_loaded || !is_taken(s))
		return false;
	begin_moment(s);
	return true;
}

/* What filters of either wrote into the message and its copies, in the order of their
 * making; members of an array, with `out` NULL only counted. */
static unsigned compare_written(const struct decision *live,
				const struct decision *shadow, struct json *out)
{
	struct changes c = { .out = out, .one = "live", .other = "shadow" };

	changes_add(&c, live->first.msg, shadow->first.msg);
	changes_add_int(&c, "copies", live->copy_count, shadow->copy_count);
	for (unsigned i = 0; i < live->copy_count && i < shadow->copy_count; i++) {
		c.copy = i + 1;
		changes_add(&c, live->copies[i].msg, shadow->copies[i].msg);
	}
	return c.count;
}

static void compare(struct shadow *s, const struct step *p, const struct decision *d,
		    const struct error *err, struct sample *sample)
{
	struct json j = { 0 };

	s->publishes.compared++;
	sample->difference =
		verdict_compare(&sample->live.verdict, &sample->shadow.verdict);
	if (!p->error && !err && compare_written(p->decision, d, NULL) > 0)
		sample->difference |= VERDICT_MESSAGE;
	if (sample->difference == VERDICT_SAME)
		return;
	for (int i = 0; i < VERDICT_DIFFERENCES; i++)
		s->differences[i] += sample->difference >> i & 1;
	sample = keep(&s->publishes, sample, p->error, err);
	j.out = &sample->changes;
	if (sample->difference & VERDICT_MESSAGE)
		compare_written(p->decision, d, &j);
}

static void look(struct shadow *s, const struct step *p)
{
	struct decision_context context = { .now_ms = s->taken.now_ms,
					    .has_random = true,
					    .random_state = p->random_state };
	struct decide_spec spec = { .context = &context,
				    .vhost = p->spec->vhost,
				    .subject = p->spec->subject,
				    .msg = p->spec->msg,
				    .now_ms = p->spec->now_ms };
	struct sample sample = { .msg = spec.msg, .vhost = spec.vhost };
	int64_t start = shadow_clock_ns();
	struct decision mine;
	struct error err;
	int rc = candidate_decide(s->candidate, &spec, p->decision, &mine, &err);

	candidate_judge(s->candidate, &mine, rc, &sample.shadow.verdict);
	verdict_set(&sample.live.verdict, p->decision,
		    p->error ? p->error->code : TIDE_OK);
	count_time(s, shadow_clock_ns() - start);
	compare(s, p, &mine, rc < 0 ? &err : NULL, &sample);
	decide_deinit(&mine);
}

/* The rules in the shadow are asked first, on the counters and the like of the active
 * ones, and so see what those will see. */
static bool ask_retry(struct shadow *s, const struct retry_failure *f)
{
	struct engine *active = s->rollout->broker->engine;
	struct decision_context context;
	int64_t start;

	s->is_asked = false;
	s->failures.seen++;
	if (!take(s))
		return false;
	s->failures.compared++;
	if (!candidate_has_other_retry(s->candidate, f->queue))
		return false;
	context = (struct decision_context){
		.now_ms = s->taken.now_ms,
		.has_random = true,
		.random_state = engine_random_state(active),
		.shared = engine_shared(active),
		.is_dry = true,
	};
	start = shadow_clock_ns();
	s->is_asked = true;
	s->asked_error.code = retry_decide(&s->candidate->rules, &context, f, &s->asked,
					   &s->asked_error);
	count_time(s, shadow_clock_ns() - start);
	return true;
}

/* An expired message cannot be returned: a delay dead-letters it. */
static struct retry_decision settled(struct retry_decision d,
				     const struct retry_failure *f)
{
	if (strcmp(f->view.reason, "expired") == 0 && d.action == RETRY_AFTER)
		d.action = RETRY_DEAD_LETTER;
	return d;
}

static bool is_same_action(const struct retry_decision *a, const struct retry_decision *b)
{
	return a->action == b->action &&
	       (a->action != RETRY_AFTER || a->delay_ms == b->delay_ms) &&
	       strategy_is_same_extra(a->extra, b->extra);
}

static void compare_retry(struct shadow *s, const struct step *step)
{
	const struct retry_failure *f = step->failure;
	const struct error *err = step->error;
	const struct error *asked_err = s->asked_error.code < 0 ? &s->asked_error : NULL;
	struct sample sample = { .msg = f->msg,
				 .vhost = f->queue->vhost,
				 .failure = f->view,
				 .queue = f->queue->serial };
	bool is_same = err && asked_err && strcmp(err->text, asked_err->text) == 0;

	if (!s->is_asked)
		return;
	s->is_asked = false;
	if (!err)
		sample.live.decision = settled(*step->verdict, f);
	if (!asked_err)
		sample.shadow.decision = settled(s->asked, f);
	if (!err && !asked_err)
		is_same = is_same_action(&sample.live.decision, &sample.shadow.decision);
	if (!is_same)
		keep(&s->failures, &sample, err, asked_err);
	if (!asked_err)
		strategy_extra_unref(s->asked.extra);
}

/* Of what is rare the share is all. */
static bool takes_hook(struct shadow *s, const struct step *h)
{
	if (h->script == SCRIPT_DELIVER || h->script == SCRIPT_SETTLED)
		return take(s);
	if (s->is_stopped || !(s->is_loaded || s->is_walking))
		return false;
	begin_moment(s);
	return true;
}

static bool ask_hook(struct shadow *s, const struct step *h)
{
	int64_t start;

	if (!s->hooks || !shadow_hook_see(s->hooks, h) || !takes_hook(s, h))
		return false;
	start = shadow_clock_ns();
	shadow_hook_ask(s->hooks, h, s->taken.now_ms);
	count_time(s, shadow_clock_ns() - start);
	return true;
}

static void tell_step(struct follower *f, struct step *step)
{
	struct shadow *s = container_of(f, struct shadow, follower);
	bool is_taken_up = false;

	switch (step->kind) {
	case STEP_PUBLISH:
		s->publishes.seen++;
		is_taken_up = take(s);
		break;
	case STEP_DECIDED:
		if (step->spec->context == &s->taken)
			look(s, step);
		break;
	case STEP_FAIL:
		is_taken_up = ask_retry(s, step->failure);
		break;
	case STEP_FAILED:
		compare_retry(s, step);
		break;
	case STEP_ASK:
		is_taken_up = ask_hook(s, step);
		break;
	default:
		if (s->hooks)
			shadow_hook_compare(s->hooks, step);
	}
	if (is_taken_up)
		step->context = &s->taken;
}

/* There is one already. */
static int refuse_second(const struct shadow *s, struct error *err)
{
	return error_set(
		err, TIDE_EEXISTS,
		"other candidate rules are in the shadow: '%s', by %s, for %" PRId64
		" s; %s",
		s->candidate->dir, s->by,
		(s->rollout->broker->now_ms - s->asked_unix_ms) / 1000,
		s->owner ? "wait until they are active or dropped"
			 : "promote or drop them first");
}

int shadow_start(struct rollout *r, const struct shadow_spec *spec,
		 shadow_started_fn *on_started, void *ctx, struct error *err)
{
	struct candidate_spec wanted = { RULESET_SHADOW, spec->dir, on_loaded, NULL };
	struct broker *b = r->broker;
	struct shadow *s;
	int rc;

	if (r->shadow)
		return refuse_second(r->shadow, err);
	s = mem_zalloc(sizeof(*s));
	wanted.ctx = s;
	rc = candidate_create(&s->candidate, r, &wanted, err);
	if (rc < 0) {
		mem_free(s);
		return rc;
	}
	s->rollout = r;
	s->on_started = on_started;
	s->ctx = ctx;
	s->owner = spec->owner;
	s->by = mem_strdup(spec->by);
	s->asked_unix_ms = b->now_ms;
	s->share = spec->share;
	s->threshold = s->share >= 1 ? UINT64_MAX : (uint64_t)(s->share * 0x1p64);
	s->random = machine_random();
	r->shadow = s;
	s->follower = (struct follower){
		.tell = tell_step,
		.steps = STEP_BIT(STEP_PUBLISH) | STEP_BIT(STEP_DECIDED) |
			 STEP_BIT(STEP_FAIL) | STEP_BIT(STEP_FAILED) |
			 STEP_BIT(STEP_ASK) | STEP_BIT(STEP_ANSWERED),
		.role = FOLLOWER_SHADOW,
	};
	step_follow(&b->followers, &s->follower);
	return TIDE_OK;
}

static void write_action(const struct side *side, bool is_shown, struct json *out)
{
	json_object_begin(out);
	if (side->error) {
		json_member_text(out, "code", error_wire_code(TIDE_ERULE));
		json_member_text(out, "error", side->error);
	} else {
		json_member_text(out, "action",
				 strategy_action_names[side->decision.action]);
		if (side->decision.action == RETRY_AFTER)
			json_member_int(out, "delay_ms", side->decision.delay_ms);
		if (side->decision.extra && is_shown)
			strategy_write_extra(side->decision.extra, out);
	}
	json_object_end(out);
}

static void write_sides(const struct sample *sample, bool is_shown, struct json *out)
{
	static const char *const names[] = { "live", "shadow" };
	const struct side *sides[] = { &sample->live, &sample->shadow };

	for (int i = 0; i < 2; i++) {
		json_key(out, names[i]);
		if (sample->failure.reason)
			write_action(sides[i], is_shown, out);
		else
			verdict_write(&sides[i]->verdict, sample->vhost->broker,
				      sides[i]->error, out);
	}
}

static void write_sample(const struct sample *sample, const struct vhost *viewer,
			 struct json *out)
{
	bool is_shown = recent_is_shown(sample->vhost, viewer);

	json_object_begin(out);
	if (sample->failure.reason) {
		verdict_write_queue(sample->queue, sample->vhost->broker, out);
		json_member_text(out, "reason", sample->failure.reason);
		json_member_int(out, "attempts", sample->failure.attempts);
		json_member_int(out, "failures", sample->failure.failures);
	} else {
		verdict_write_difference(sample->difference, out);
	}
	recent_write_publish(sample->vhost, sample->msg, sample->msg->payload_len, viewer,
			     out);
	write_sides(sample, is_shown, out);
	if (sample->difference & VERDICT_MESSAGE && is_shown)
		json_member_list(out, "changes", buf_slice(&sample->changes));
	json_object_end(out);
}

/* Members of an object. */
static void write_comparison(const struct comparison *c, const struct vhost *viewer,
			     struct json *out)
{
	uint64_t first =
		c->differing > SHADOW_SAMPLES ? c->differing - SHADOW_SAMPLES : 0;

	json_member_int(out, "seen", (int64_t)c->seen);
	json_member_int(out, "compared", (int64_t)c->compared);
	json_member_int(out, "differing", (int64_t)c->differing);
	json_member_array(out, "samples");
	for (uint64_t i = c->differing; i > first; i--)
		write_sample(&c->samples[(i - 1) % SHADOW_SAMPLES], viewer, out);
	json_array_end(out);
}

static void write_differences(const struct shadow *s, struct json *out)
{
	static const char *const names[] = { "errors", "queues", "shards", "ranks",
					     "messages" };

	json_member_object(out, "differences");
	for (int i = 0; i < VERDICT_DIFFERENCES; i++)
		json_member_int(out, names[i], (int64_t)s->differences[i]);
	json_object_end(out);
}

static void write_loaded(const struct shadow *s, const struct vhost *viewer,
			 struct json *out)
{
	candidate_write(s->candidate, out);
	json_member_text(out, "by", s->by);
	json_member_number(out, "share", s->share);
	json_member_int(out, "started_ms", s->started_unix_ms);
	json_member_bool(out, "stopped", s->is_stopped);
	write_differences(s, out);
	json_member_int(out, "time_us", (int64_t)(s->time_ns / 1000));
	json_member_int(out, "time_max_us", (int64_t)(s->time_max_ns / 1000));
	write_comparison(&s->publishes, viewer, out);
	json_member_object(out, "failures");
	write_comparison(&s->failures, viewer, out);
	json_object_end(out);
	shadow_hook_write(s->hooks, viewer, out);
}

void shadow_write(const struct rollout *r, const struct vhost *viewer, struct json *out)
{
	const struct shadow *s = r->shadow;

	json_object_begin(out);
	json_member_bool(out, "active", s && s->is_loaded);
	if (s && !s->is_loaded)
		json_member_text(out, "loading", s->candidate->dir);
	if (s && s->is_loaded)
		write_loaded(s, viewer, out);
	json_object_end(out);
}
