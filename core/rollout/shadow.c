#include "shadow.h"

#include <inttypes.h>

#include "base/container.h"
#include "base/mem.h"
#include "base/bytes.h"
#include "broker/config.h"
#include "broker/declare.h"
#include "broker/vhost.h"
#include "broker/walk.h"
#include "candidate.h"
#include "follow/changes.h"
#include "follow/recent.h"
#include "host/log.h"
#include "host/machine.h"
#include "rules/engine/auth.h"
#include "rules/engine/deliver.h"
#include "rules/engine/policy.h"
#include "rules/engine/settled.h"
#include "rules/engine/strategy.h"

/* Of a loop turn, while both rules are asked about what there is. */
#define WALK_SLICE_NS 1000000

/* What one of the two decided: a verdict about a publish, or an action for a failure. */
struct side {
	struct verdict verdict;
	struct retry_decision decision;
	char *error; /* NULL where there is none */
};

/* Something on which the two disagree: a publish, a failure, or what scripts of deliver/,
 * settled/, declare/ or connect/ were asked. */
struct sample {
	struct msg *msg;     /* NULL: it is about none */
	struct vhost *vhost; /* of the message */
	struct buf changes;  /* elements of an array */
	/* Of a publish or a failure. */
	struct side live, shadow;
	unsigned difference;         /* of a publish */
	struct failure_view failure; /* of a publish without a reason */
	uint64_t queue;              /* of a failure: the serial number */
	/* Of a question: members of an object, and what both have said. */
	struct buf facts, live_text, shadow_text;
};

struct comparison {
	uint64_t seen, compared, differing;
	struct sample samples[SHADOW_SAMPLES]; /* a ring: the last that differ */
};

/* What one of the two said: the part of its kind. */
struct answer {
	struct error failure; /* code 0: none */
	struct deliver_pass deliver;
	struct settled_pass settled;
	struct connect_decision admission;
	struct config config; /* that policies make */
	char policies[POLICY_FILES_MAX];
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
	struct comparison publishes, failures, questions[SCRIPT_KINDS_MAX];
	uint64_t differences[VERDICT_DIFFERENCES]; /* by the bits of the enum */
	int64_t time_ns, time_max_ns;
	unsigned slow;
	bool is_stopped;
	struct decision_context taken; /* of the publish or failure that is taken */
	bool is_asked; /* about the failure that the active rules decide now */
	struct retry_decision asked;
	struct error asked_error; /* code 0: it has decided */
	bool is_question_asked;
	struct answer answer; /* of the candidate rules, until the others have answered */
	/* What there is, about which both are asked in a dry run. */
	struct walk walk;
	struct policy_watch watch;
	struct decision_context dry;
};

static void note_failure(struct answer *a, int rc, const struct error *err)
{
	if (rc < 0)
		a->failure = *err;
}

/* Who refuses or delays. */
static void write_source(const char *file, int line, const char *reason, struct json *out)
{
	json_member_text(out, "file", file);
	json_member_int(out, "line", line);
	if (reason[0])
		json_member_text(out, "reason", reason);
}

/* deliver/ */

static void ask_deliver(struct engine *e, const struct step *h,
			struct decision_context *context, struct answer *out)
{
	struct error err;

	out->deliver = *h->deliver;
	out->deliver.context = context;
	note_failure(out, deliver_run(e, &out->deliver, &err), &err);
}

static void take_deliver(const struct step *h, struct answer *out)
{
	out->deliver = *h->deliver;
}

static void write_deliver_facts(const struct step *h, struct json *out)
{
	const struct consumer_view *c = h->deliver->consumer;

	json_member_string(out, "queue", c->queue);
	if (c->user.len)
		json_member_string(out, "consumer", c->user);
}

static void write_deliver(const struct answer *mine, const struct answer *other,
			  bool is_whole, struct json *out)
{
	const struct deliver_pass *p = &mine->deliver;

	json_member_text(out, "verdict", deliver_verdict_names[p->verdict]);
	if (p->verdict == DELIVER_LATER)
		json_member_int(out, "delay_ms", p->delay_ms);
	if (is_whole && p->verdict != DELIVER_GIVE)
		write_source(p->file, p->line, p->reason, out);
}

static void change_deliver(const struct answer *live, const struct answer *shadow,
			   struct changes *c)
{
	const struct deliver_pass *a = &live->deliver, *b = &shadow->deliver;

	if (a->verdict == DELIVER_GIVE && b->verdict == DELIVER_GIVE)
		changes_add_headers(c, a->head ? a->head : a->msg,
				    b->head ? b->head : b->msg);
}

/* settled/ */

static void on_step(void *ctx, const struct settled_step *step)
{
	struct answer *a = ctx;

	if (step->failure->code < 0)
		a->failure = *step->failure;
}

static void ask_settled(struct engine *e, const struct step *h,
			struct decision_context *context, struct answer *out)
{
	out->settled = *h->settled;
	out->settled.context = context;
	out->settled.on_step = on_step;
	out->settled.ctx = out;
	settled_run(e, &out->settled);
}

static void take_settled(const struct step *h, struct answer *out)
{
	out->settled = *h->settled;
}

static void write_settled_facts(const struct step *h, struct json *out)
{
	const struct outcome_view *o = h->settled->outcome;

	json_member_string(out, "queue", o->queue);
	json_member_text(out, "event", script_kind_events[o->event]);
}

static void write_settled(const struct answer *mine, const struct answer *other,
			  bool is_whole, struct json *out)
{
	json_member_int(out, "copies", mine->settled.copies.count);
}

static void change_settled(const struct answer *live, const struct answer *shadow,
			   struct changes *c)
{
	const struct draft_copies *a = &live->settled.copies,
				  *b = &shadow->settled.copies;

	for (unsigned i = 0; i < a->count && i < b->count; i++) {
		c->copy = i + 1;
		changes_add(c, a->items[i], b->items[i]);
	}
}

/* declare/ */

static void take_policy(const struct step *h, struct answer *out)
{
	const struct policy_call *c = h->policy;
	enum config_kind kind = c->type                         ? CONFIG_EXCHANGE
				: strcmp(c->kind, "topic") == 0 ? CONFIG_TOPIC
								: CONFIG_QUEUE;
	struct args shown;
	struct error err;
	int rc;

	memcpy(out->policies, c->files, sizeof(out->policies));
	rc = config_parse(&out->config, kind, &c->options, &err);
	note_failure(out, rc, &err);
	if (rc < 0 || kind != CONFIG_EXCHANGE)
		return;
	/* Defaults of an exchange are not shown. */
	config_options(&out->config, &shown);
	args_deinit(&out->config.canonical);
	out->config.canonical = shown;
}

static void ask_policy(struct engine *e, const struct step *h,
		       struct decision_context *context, struct answer *out)
{
	const struct policy_watch watch = { .context = context };
	struct policy_call mine = *h->policy;
	const struct step answered = { .policy = &mine };
	struct error err;
	int rc;

	args_copy(&mine.options, &h->policy->options);
	mine.watch = &watch;
	rc = policy_ask(e, &mine, &err);
	note_failure(out, rc, &err);
	if (rc == TIDE_OK)
		take_policy(&answered, out);
	args_deinit(&mine.options);
}

static void free_policy(struct answer *a)
{
	config_deinit(&a->config);
}

static void write_policy_facts(const struct step *h, struct json *out)
{
	json_member_text(out, "kind", h->policy->kind);
	json_member_string(out, "name", h->policy->name);
	json_member_string(out, "vhost", h->policy->vhost);
}

/* However it is spelled. */
static bool has_same_option(const struct answer *a, const struct answer *b,
			    const char *name)
{
	const char *x = args_get(&a->config.canonical, name),
		   *y = args_get(&b->config.canonical, name);
	bool is_of_script = strchr(name, '.') != NULL;

	if (!x || !y || strcmp(x, y) == 0)
		return x && y;
	return a->config.kind != CONFIG_EXCHANGE && !is_of_script &&
	       config_is_same(&a->config, &b->config, name);
}

/* The options that the other one has not, or not so. */
static void write_policy(const struct answer *mine, const struct answer *other,
			 bool is_whole, struct json *out)
{
	const struct args *options = &mine->config.canonical;

	json_member_object(out, "options");
	for (size_t i = 0; i < options->count && other->failure.code == TIDE_OK; i++) {
		const struct arg *a = &options->items[i];

		if (!has_same_option(mine, other, a->name))
			json_member_text(out, a->name, a->value);
	}
	json_object_end(out);
	if (is_whole && mine->policies[0])
		json_member_text(out, "policy", mine->policies);
}

/* connect/ */

static void ask_connect(struct engine *e, const struct step *h,
			struct decision_context *context, struct answer *out)
{
	struct auth_login client = *h->client;
	struct error err;

	client.context = context;
	note_failure(out, auth_connect(e, &client, &out->admission, &err), &err);
}

static void take_connect(const struct step *h, struct answer *out)
{
	out->admission = *h->admission;
}

static void write_connect_facts(const struct step *h, struct json *out)
{
	const struct auth_login *c = h->client;

	json_member_string(out, "user", c->user);
	if (c->name.len)
		json_member_string(out, "name", c->name);
	json_member_string(out, "vhost", c->vhost);
	json_member_string(out, "address", c->address);
	if (c->protocol)
		json_member_text(out, "protocol", c->protocol);
}

static void write_limits(const struct auth_limits *l, struct json *out)
{
	json_member_object(out, "limits");
	json_member_int(out, "max_channels", l->channels);
	json_member_int(out, "publish_rate", l->publish_rate);
	json_member_int(out, "publish_bytes", l->publish_bytes);
	json_object_end(out);
}

static void write_connect(const struct answer *mine, const struct answer *other,
			  bool is_whole, struct json *out)
{
	const struct connect_decision *d = &mine->admission;

	json_member_text(out, "verdict", d->is_refused ? "refuse" : "allow");
	if (is_whole && d->is_refused)
		write_source(d->file, d->line, d->reason, out);
	if (d->is_refused)
		return;
	if (d->name[0])
		json_member_text(out, "name", d->name);
	if (d->vhost[0])
		json_member_text(out, "vhost", d->vhost);
	if (d->has_limits)
		write_limits(&d->limits, out);
}

struct hook_kind {
	void (*ask)(struct engine *e, const struct step *h,
		    struct decision_context *context, struct answer *out);
	/* What the active rules have answered, unless they have failed. */
	void (*take)(const struct step *h, struct answer *out);
	void (*write_facts)(const struct step *h, struct json *out);
	/* Members of an object: they differ if these do. `is_whole`: and who says so, and
	 * why. */
	void (*write)(const struct answer *mine, const struct answer *other,
		      bool is_whole, struct json *out);
	/* And if there are such; NULL: never. */
	void (*change)(const struct answer *live, const struct answer *shadow,
		       struct changes *c);
};

static const struct hook_kind kinds[SCRIPT_KINDS_MAX] = {
	[SCRIPT_DELIVER] = { ask_deliver, take_deliver, write_deliver_facts,
			     write_deliver, change_deliver },
	[SCRIPT_SETTLED] = { ask_settled, take_settled, write_settled_facts,
			     write_settled, change_settled },
	[SCRIPT_DECLARE] = { ask_policy, take_policy, write_policy_facts, write_policy,
			     NULL },
	[SCRIPT_CONNECT] = { ask_connect, take_connect, write_connect_facts,
			     write_connect, NULL },
};

/* Of the candidate rules, whose it is. */
static void free_answer(struct answer *a)
{
	for (unsigned i = 0; i < a->settled.copies.count; i++)
		msg_unref(a->settled.copies.items[i]);
	msg_unref(a->deliver.head);
	free_policy(a);
}

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

/* Ask both about the next queue, topic or exchange that there is. False: that was the
 * last one. */
static bool walk_on(struct shadow *s)
{
	struct definition *d = walk_definition(&s->walk);

	if (d)
		declare_ask_again(d, &s->watch);
	return d;
}

static void on_idle(uv_idle_t *handle)
{
	struct shadow *s = ((struct candidate *)handle->data)->ctx;
	int64_t start = shadow_clock_ns();
	bool has_more;

	do
		has_more = walk_on(s);
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
	walk_begin(&s->walk, s->rollout->broker);
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
	buf_deinit(&sample->facts);
	buf_deinit(&sample->live_text);
	buf_deinit(&sample->shadow_text);
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

static void free_samples(struct comparison *c)
{
	for (size_t i = 0; i < SHADOW_SAMPLES; i++)
		free_sample(&c->samples[i]);
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
	if (s->is_loaded || s->is_walking)
		walk_end(&s->walk);
	free_samples(&s->publishes);
	free_samples(&s->failures);
	for (unsigned kind = 0; kind < script_kind_count; kind++)
		free_samples(&s->questions[kind]);
	candidate_destroy(s->candidate);
	mem_free(s->by);
	mem_free(s);
}

static void write_answer(const struct hook_kind *kind, const struct answer *mine,
			 const struct answer *other, bool is_whole, struct buf *out)
{
	struct json j = { .out = out };

	buf_clear(out);
	json_object_begin(&j);
	if (mine->failure.code < 0) {
		json_member_text(&j, "code", error_wire_code(mine->failure.code));
		json_member_text(&j, "error", mine->failure.text);
	} else {
		kind->write(mine, other, is_whole, &j);
	}
	json_object_end(&j);
}

/* False: they are the same. */
static bool write_question(const struct hook_kind *kind, const struct answer *live,
			   const struct answer *shadow, struct sample *out)
{
	struct json j = { .out = &out->changes };
	struct changes c = { .out = &j, .one = "live", .other = "shadow" };

	write_answer(kind, live, shadow, false, &out->live_text);
	write_answer(kind, shadow, live, false, &out->shadow_text);
	if (kind->change && live->failure.code == TIDE_OK &&
	    shadow->failure.code == TIDE_OK)
		kind->change(live, shadow, &c);
	if (c.count == 0 &&
	    slice_is_equal(buf_slice(&out->live_text), buf_slice(&out->shadow_text)))
		return false;
	write_answer(kind, live, shadow, true, &out->live_text);
	write_answer(kind, shadow, live, true, &out->shadow_text);
	return true;
}

/* In the place of the oldest. */
static void keep_question_take(struct comparison *f, const struct step *h,
			       struct sample *sample)
{
	struct sample *kept = &f->samples[f->differing++ % SHADOW_SAMPLES];
	const struct msg *m = h->script == SCRIPT_DELIVER   ? h->deliver->msg
			      : h->script == SCRIPT_SETTLED ? h->settled->msg
							    : NULL;
	struct json j = { .out = &sample->facts };

	kinds[h->script].write_facts(h, &j);
	if (m) {
		/* One of a topic is the log's. */
		sample->msg =
			m->refs > 0 ? msg_ref((struct msg *)(uintptr_t)m) : msg_create(m);
		sample->vhost = vhost_ref(h->vhost);
	}
	free_sample(kept);
	*kept = *sample;
}

static void compare_answers(struct shadow *s, const struct step *h)
{
	struct answer live = { .failure = { .code = TIDE_OK } };
	struct sample sample = { 0 };

	if (!s->is_question_asked)
		return;
	s->is_question_asked = false;
	if (h->error)
		live.failure = *h->error;
	else
		kinds[h->script].take(h, &live);
	if (write_question(&kinds[h->script], &live, &s->answer, &sample))
		keep_question_take(&s->questions[h->script], h, &sample);
	else
		free_sample(&sample);
	free_policy(&live);
	free_answer(&s->answer);
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

/* On the counters and the like of the active rules. */
static struct decision_context dry_context(const struct shadow *s)
{
	const struct engine *active = s->rollout->broker->engine;

	return (struct decision_context){
		.now_ms = s->taken.now_ms,
		.has_random = true,
		.random_state = engine_random_state(active),
		.shared = engine_shared(active),
		.is_dry = true,
	};
}

/* The rules in the shadow are asked first, on the counters and the like of the active
 * ones, and so see what those will see. */
static bool ask_retry(struct shadow *s, const struct fate_question *f)
{
	struct decision_context context;
	int64_t start;

	s->is_asked = false;
	s->failures.seen++;
	if (!take(s))
		return false;
	s->failures.compared++;
	if (!candidate_has_other_retry(s->candidate, f->queue))
		return false;
	context = dry_context(s);
	start = shadow_clock_ns();
	s->is_asked = true;
	s->asked_error.code =
		fate_ask(&s->candidate->rules, &context, f, &s->asked, &s->asked_error);
	count_time(s, shadow_clock_ns() - start);
	return true;
}

/* An expired message cannot be returned: a delay dead-letters it. */
static struct retry_decision settled(struct retry_decision d,
				     const struct fate_question *f)
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
	const struct fate_question *f = step->failure;
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
static bool takes_question(struct shadow *s, const struct step *h)
{
	if (h->script == SCRIPT_DELIVER || h->script == SCRIPT_SETTLED)
		return take(s);
	if (s->is_stopped || !(s->is_loaded || s->is_walking))
		return false;
	begin_moment(s);
	return true;
}

static bool ask_question(struct shadow *s, const struct step *h)
{
	struct decision_context context;
	int64_t start;

	s->is_question_asked = false;
	/* A simulation is nothing that happens. */
	if (!(s->is_loaded || s->is_walking) ||
	    (h->script == SCRIPT_DECLARE && h->policy->watch &&
	     h->policy->watch != &s->watch))
		return false;
	s->questions[h->script].seen++;
	if (!takes_question(s, h))
		return false;
	s->questions[h->script].compared++;
	if (!candidate_has_other_scripts(s->candidate, h->script))
		return true;
	context = dry_context(s);
	start = shadow_clock_ns();
	s->is_question_asked = true;
	memset(&s->answer, 0, sizeof(s->answer));
	kinds[h->script].ask(s->candidate->rules.engine, h, &context, &s->answer);
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
		is_taken_up = ask_question(s, step);
		break;
	default:
		compare_answers(s, step);
	}
	if (is_taken_up)
		step->context = &s->taken;
}

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
	s->dry.is_dry = true;
	s->watch.context = &s->dry;
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

static void write_question_sample(const struct sample *s, const struct vhost *viewer,
				  struct json *out)
{
	json_written(out, buf_slice(&s->facts));
	if (s->msg)
		recent_write_publish(s->vhost, s->msg, s->msg->payload_len, viewer, out);
	json_key(out, "live");
	json_written(out, buf_slice(&s->live_text));
	json_key(out, "shadow");
	json_written(out, buf_slice(&s->shadow_text));
}

static void write_decision_sample(const struct sample *s, const struct vhost *viewer,
				  struct json *out)
{
	if (s->failure.reason) {
		verdict_write_queue(s->queue, s->vhost->broker, out);
		json_member_text(out, "reason", s->failure.reason);
		json_member_int(out, "attempts", s->failure.attempts);
		json_member_int(out, "failures", s->failure.failures);
	} else {
		verdict_write_difference(s->difference, out);
	}
	recent_write_publish(s->vhost, s->msg, s->msg->payload_len, viewer, out);
	write_sides(s, recent_is_shown(s->vhost, viewer), out);
}

static void write_sample(const struct sample *s, const struct vhost *viewer,
			 struct json *out)
{
	json_object_begin(out);
	if (buf_len(&s->facts) > 0)
		write_question_sample(s, viewer, out);
	else
		write_decision_sample(s, viewer, out);
	if (buf_len(&s->changes) > 0 && recent_is_shown(s->vhost, viewer))
		json_member_list(out, "changes", buf_slice(&s->changes));
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
	for (unsigned kind = 0; kind < script_kind_count; kind++) {
		if (!kinds[kind].ask)
			continue;
		json_member_object(out, script_kind_name((enum script_kind)kind));
		write_comparison(&s->questions[kind], viewer, out);
		json_object_end(out);
	}
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
