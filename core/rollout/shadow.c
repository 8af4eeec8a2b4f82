#include "shadow.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/container.h"
#include "base/mem.h"
#include "base/bytes.h"
#include "broker/canary.h"
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

/* The decision of one of the two: a verdict about a publish, or the answer to a question.
 */
struct side {
	struct verdict verdict;
	char *error;               /* of a publish; NULL: none */
	struct buf text;           /* of a question: members of an object */
	struct retry_extra *extra; /* of a failure: for those who may see the message */
};

/* Something on which the two disagree: a publish, or what scripts of retry/, deliver/,
 * settled/, declare/ or connect/ were asked. */
struct sample {
	struct msg *msg;     /* NULL: it is about none */
	struct vhost *vhost; /* of the message */
	struct buf changes;  /* elements of an array */
	struct side live, shadow;
	unsigned difference; /* of a publish */
	struct buf facts;    /* of a question: members of an object */
	uint64_t queue;      /* of a failure: the serial number; 0: of none */
};

struct comparison {
	uint64_t seen, compared, differing;
	struct sample samples[SHADOW_SAMPLES]; /* a ring: the last that differ */
};

/* The answer of one of the two: the part of its kind. */
struct answer {
	struct error failure; /* code 0: none */
	struct retry_decision retry;
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
	bool is_canary; /* what they decide counts: no follower compares */
	struct canary canary;
	uint64_t owner;
	char *by;
	int64_t asked_unix_ms;
	uint64_t threshold; /* of random numbers, below which a publish is taken */
	uint64_t random;
	int64_t started_unix_ms;
	struct comparison publishes, questions[SCRIPT_KINDS_MAX];
	uint64_t differences[VERDICT_DIFFERENCES]; /* by the bits of the enum */
	int64_t time_ns, time_max_ns;
	unsigned slow;
	bool is_stopped;
	struct decision_context taken; /* of the publish or question that is taken */
	bool is_question_asked;
	struct answer answer; /* of the candidate rules, until the others have answered */
	/* The definitions about which both are asked in a dry run. */
	struct walk walk;
	struct policy_watch watch;
	struct decision_context dry;
};

static void note_failure(struct answer *a, int rc, const struct error *err)
{
	if (rc < 0)
		a->failure = *err;
}

/* Write the script that refuses or delays. */
static void write_source(const char *file, int line, const char *reason, struct json *out)
{
	json_member_text(out, "file", file);
	json_member_int(out, "line", line);
	if (reason[0])
		json_member_text(out, "reason", reason);
}

/* retry/ */

/* An expired message cannot be returned: a delay dead-letters it. */
static void settle_retry(const struct step *h, struct answer *out)
{
	if (strcmp(h->failure->view.reason, "expired") == 0 &&
	    out->retry.action == RETRY_AFTER)
		out->retry.action = RETRY_DEAD_LETTER;
}

static void ask_retry(const struct ruleset *rules, const struct step *h,
		      struct decision_context *context, struct answer *out)
{
	struct error err;
	int rc = fate_ask(rules, context, h->failure, &out->retry, &err);

	note_failure(out, rc, &err);
	if (rc < 0)
		out->retry.extra = NULL;
	else
		settle_retry(h, out);
}

static void take_retry(const struct step *h, struct answer *out)
{
	out->retry = *h->verdict;
	settle_retry(h, out);
}

static void write_retry_facts(const struct step *h, struct json *out)
{
	const struct failure_view *f = &h->failure->view;

	json_member_text(out, "reason", f->reason);
	json_member_int(out, "attempts", f->attempts);
	json_member_int(out, "failures", f->failures);
}

static void write_retry(const struct answer *mine, const struct answer *other,
			bool is_whole, struct json *out)
{
	const struct retry_decision *d = &mine->retry;

	json_member_text(out, "action", strategy_action_names[d->action]);
	if (d->action == RETRY_AFTER)
		json_member_int(out, "delay_ms", d->delay_ms);
}

/* deliver/ */

static void ask_deliver(const struct ruleset *rules, const struct step *h,
			struct decision_context *context, struct answer *out)
{
	struct error err;

	out->deliver = *h->deliver;
	out->deliver.context = context;
	note_failure(out, deliver_run(rules->engine, &out->deliver, &err), &err);
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

static void ask_settled(const struct ruleset *rules, const struct step *h,
			struct decision_context *context, struct answer *out)
{
	out->settled = *h->settled;
	out->settled.context = context;
	out->settled.on_step = on_step;
	out->settled.ctx = out;
	settled_run(rules->engine, &out->settled);
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

static void ask_policy(const struct ruleset *rules, const struct step *h,
		       struct decision_context *context, struct answer *out)
{
	const struct policy_watch watch = { .context = context };
	struct policy_call mine = *h->policy;
	const struct step answered = { .policy = &mine };
	struct error err;
	int rc;

	args_copy(&mine.options, &h->policy->options);
	mine.watch = &watch;
	rc = policy_ask(rules->engine, &mine, &err);
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

static void ask_connect(const struct ruleset *rules, const struct step *h,
			struct decision_context *context, struct answer *out)
{
	struct auth_login client = *h->client;
	struct error err;

	client.context = context;
	note_failure(out, auth_connect(rules->engine, &client, &out->admission, &err),
		     &err);
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
	void (*ask)(const struct ruleset *rules, const struct step *h,
		    struct decision_context *context, struct answer *out);
	/* Take the answer of the active rules, unless they have failed. */
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
	[SCRIPT_RETRY] = { ask_retry, take_retry, write_retry_facts, write_retry, NULL },
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
	strategy_extra_unref(a->retry.extra);
	free_policy(a);
}

static void tell(struct shadow *s, const struct error *result)
{
	shadow_started_fn *on_started = s->on_started;

	s->on_started = NULL;
	if (on_started)
		on_started(s->ctx, result);
}

static void begin_canary(struct shadow *s)
{
	struct broker *b = s->rollout->broker;

	step_unfollow(&b->followers, &s->follower);
	s->canary.broker = b;
	s->canary.rules = &s->candidate->rules;
	s->canary.share = s->share;
	s->canary.context.shared = engine_shared(b->engine);
	b->canary = &s->canary;
	log_info("rules: '%s' decides for %g%% of the values of %s%s", s->candidate->dir,
		 s->share * 100, s->canary.header ? "header " : "the routing key",
		 s->canary.header ? s->canary.header : "");
}

static void begin(struct shadow *s)
{
	const struct error none = { .code = TIDE_OK };

	s->is_loaded = true;
	s->started_unix_ms = s->rollout->broker->now_ms;
	if (s->is_canary)
		begin_canary(s);
	else
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
	s->is_walking = !s->is_canary &&
			broker_has_hook(s->rollout->broker, SCRIPT_DECLARE) &&
			candidate_has_other_scripts(s->candidate, SCRIPT_DECLARE);
	if (s->is_walking)
		uv_idle_start(&s->candidate->turn, on_idle);
	else
		begin(s);
}

static void free_side(struct side *side)
{
	mem_free(side->error);
	buf_deinit(&side->text);
	strategy_extra_unref(side->extra);
}

static void free_sample(struct sample *sample)
{
	msg_unref(sample->msg);
	vhost_unref(sample->vhost);
	free_side(&sample->live);
	free_side(&sample->shadow);
	buf_deinit(&sample->changes);
	buf_deinit(&sample->facts);
}

/* In the place of the oldest. */
static struct sample *keep_take(struct comparison *c, const struct sample *sample)
{
	struct sample *kept = &c->samples[c->differing++ % SHADOW_SAMPLES];

	free_sample(kept);
	*kept = *sample;
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
	b->canary = NULL;
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
	for (unsigned kind = 0; kind < script_kind_count; kind++)
		free_samples(&s->questions[kind]);
	candidate_destroy(s->candidate);
	mem_free(s->canary.header);
	mem_free(s->by);
	mem_free(s);
}

static void write_answer(const struct hook_kind *kind, const struct answer *mine,
			 const struct answer *other, bool is_whole, struct buf *out)
{
	struct json j = { .out = out };

	buf_clear(out);
	if (mine->failure.code < 0) {
		json_member_text(&j, "code", error_wire_code(mine->failure.code));
		json_member_text(&j, "error", mine->failure.text);
	} else {
		kind->write(mine, other, is_whole, &j);
	}
}

/* False: they are the same. */
static bool write_question(const struct hook_kind *kind, const struct answer *live,
			   const struct answer *shadow, struct sample *out)
{
	struct json j = { .out = &out->changes };
	struct changes c = { .out = &j, .one = "live", .other = "shadow" };

	write_answer(kind, live, shadow, false, &out->live.text);
	write_answer(kind, shadow, live, false, &out->shadow.text);
	if (kind->change && live->failure.code == TIDE_OK &&
	    shadow->failure.code == TIDE_OK)
		kind->change(live, shadow, &c);
	if (c.count == 0 &&
	    strategy_is_same_extra(live->retry.extra, shadow->retry.extra) &&
	    slice_is_equal(buf_slice(&out->live.text), buf_slice(&out->shadow.text)))
		return false;
	write_answer(kind, live, shadow, true, &out->live.text);
	write_answer(kind, shadow, live, true, &out->shadow.text);
	return true;
}

/* The message that the question is about; NULL: none. */
static const struct msg *msg_of(enum script_kind kind, const struct step *h)
{
	return kind == SCRIPT_RETRY     ? h->failure->msg
	       : kind == SCRIPT_DELIVER ? h->deliver->msg
	       : kind == SCRIPT_SETTLED ? h->settled->msg
					: NULL;
}

static void keep_question_take(struct shadow *s, enum script_kind kind,
			       const struct step *h, const struct answer *live,
			       struct sample *sample)
{
	const struct msg *m = msg_of(kind, h);
	struct json j = { .out = &sample->facts };

	kinds[kind].write_facts(h, &j);
	if (m) {
		/* One of a topic is the log's. */
		sample->msg =
			m->refs > 0 ? msg_ref((struct msg *)(uintptr_t)m) : msg_create(m);
		sample->vhost = vhost_ref(kind == SCRIPT_RETRY ? h->failure->queue->vhost
							       : h->vhost);
	}
	if (kind == SCRIPT_RETRY)
		sample->queue = h->failure->queue->serial;
	sample->live.extra = strategy_extra_clone(live->retry.extra);
	sample->shadow.extra = strategy_extra_ref(s->answer.retry.extra);
	keep_take(&s->questions[kind], sample);
}

static void compare_answers(struct shadow *s, enum script_kind kind, const struct step *h)
{
	struct answer live = { .failure = { .code = TIDE_OK } };
	struct sample sample = { 0 };

	if (!s->is_question_asked)
		return;
	s->is_question_asked = false;
	if (h->error)
		live.failure = *h->error;
	else
		kinds[kind].take(h, &live);
	if (write_question(&kinds[kind], &live, &s->answer, &sample))
		keep_question_take(s, kind, h, &live, &sample);
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

/* Compare the writes of both sides' filters into the message and its copies, in the
 * order of their making; members of an array, with `out` NULL only counted. */
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
	msg_ref(sample->msg);
	vhost_ref(sample->vhost);
	sample->live.error = p->error ? mem_strdup(p->error->text) : NULL;
	sample->shadow.error = err ? mem_strdup(err->text) : NULL;
	sample = keep_take(&s->publishes, sample);
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

/* Of what is rare the share is all. */
static bool takes_question(struct shadow *s, enum script_kind kind)
{
	if (kind != SCRIPT_DECLARE && kind != SCRIPT_CONNECT)
		return take(s);
	if (s->is_stopped || !(s->is_loaded || s->is_walking))
		return false;
	begin_moment(s);
	return true;
}

/* The rules in the shadow are asked first, on the counters and the like of the active
 * ones, and so see what those will see. */
static bool ask_question(struct shadow *s, enum script_kind kind, const struct step *h)
{
	struct decision_context context;
	int64_t start;
	bool is_other;

	s->is_question_asked = false;
	/* A simulation is nothing that happens. */
	if (!(s->is_loaded || s->is_walking) ||
	    (kind == SCRIPT_DECLARE && h->policy->watch && h->policy->watch != &s->watch))
		return false;
	s->questions[kind].seen++;
	if (!takes_question(s, kind))
		return false;
	s->questions[kind].compared++;
	is_other = kind == SCRIPT_RETRY
			   ? candidate_has_other_retry(s->candidate, h->failure->queue)
			   : candidate_has_other_scripts(s->candidate, kind);
	if (!is_other)
		return kind != SCRIPT_RETRY;
	context = dry_context(s);
	start = shadow_clock_ns();
	s->is_question_asked = true;
	memset(&s->answer, 0, sizeof(s->answer));
	kinds[kind].ask(&s->candidate->rules, h, &context, &s->answer);
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
		is_taken_up = ask_question(s, SCRIPT_RETRY, step);
		break;
	case STEP_FAILED:
		compare_answers(s, SCRIPT_RETRY, step);
		break;
	case STEP_ASK:
		is_taken_up = ask_question(s, step->script, step);
		break;
	default:
		compare_answers(s, step->script, step);
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

/* What `apply` names. */
static int set_canary(struct shadow *s, const struct shadow_spec *spec, struct error *err)
{
	bool is_header = slice_has_prefix(spec->apply, "h:");
	struct slice name = slice_skip(spec->apply, is_header ? 2 : 0);

	if (is_header ? !msg_is_header_name(name) : !slice_is(name, "key"))
		return error_set(err, TIDE_ESYNTAX,
				 "apply=%" SLICE_FMT ": expected key or h:<name>",
				 SLICE_ARG(spec->apply));
	s->is_canary = true;
	mem_free(s->canary.header);
	s->canary.header = is_header ? mem_strndup(name.data, name.len) : NULL;
	return TIDE_OK;
}

/* The rules that are there begin to apply, or apply to another share. */
static int change_canary(struct shadow *s, const struct shadow_spec *spec,
			 shadow_started_fn *on_started, void *ctx, struct error *err)
{
	if (!s->is_loaded || !spec->apply.len ||
	    !candidate_is_of(s->candidate, spec->dir))
		return refuse_second(s, err);
	if (set_canary(s, spec, err) < 0)
		return err->code;
	s->share = spec->share;
	s->canary.failed = 0;
	s->on_started = on_started;
	s->ctx = ctx;
	begin(s);
	return TIDE_OK;
}

int shadow_start(struct rollout *r, const struct shadow_spec *spec,
		 shadow_started_fn *on_started, void *ctx, struct error *err)
{
	struct candidate_spec wanted = { RULESET_SHADOW, spec->dir, on_loaded, NULL };
	struct broker *b = r->broker;
	struct shadow *s;
	int rc;

	if (r->shadow)
		return change_canary(r->shadow, spec, on_started, ctx, err);
	s = mem_zalloc(sizeof(*s));
	wanted.ctx = s;
	rc = spec->apply.len ? set_canary(s, spec, err) : TIDE_OK;
	if (rc == TIDE_OK)
		rc = candidate_create(&s->candidate, r, &wanted, err);
	if (rc < 0) {
		mem_free(s->canary.header);
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

static void write_side(const struct sample *s, const struct side *side, bool is_shown,
		       struct json *out)
{
	if (buf_len(&s->facts) == 0) {
		verdict_write(&side->verdict, s->vhost->broker, side->error, out);
		return;
	}
	json_object_begin(out);
	json_written(out, buf_slice(&side->text));
	if (side->extra && is_shown)
		strategy_write_extra(side->extra, out);
	json_object_end(out);
}

static void write_sample(const struct sample *s, const struct vhost *viewer,
			 struct json *out)
{
	bool is_shown = s->vhost && recent_is_shown(s->vhost, viewer);

	json_object_begin(out);
	if (s->queue)
		verdict_write_queue(s->queue, s->vhost->broker, out);
	if (buf_len(&s->facts) > 0)
		json_written(out, buf_slice(&s->facts));
	else
		verdict_write_difference(s->difference, out);
	if (s->msg)
		recent_write_publish(s->vhost, s->msg, s->msg->payload_len, viewer, out);
	json_key(out, "live");
	write_side(s, &s->live, is_shown, out);
	json_key(out, "shadow");
	write_side(s, &s->shadow, is_shown, out);
	if (buf_len(&s->changes) > 0 && is_shown)
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

static void write_canary(const struct canary *c, struct json *out)
{
	char apply[NAME_LEN_MAX + 8];

	snprintf(apply, sizeof(apply), "%s%s", c->header ? "h:" : "key",
		 c->header ? c->header : "");
	json_member_text(out, "apply", apply);
	json_member_int(out, "decided", (int64_t)c->decided);
	json_member_int(out, "failed", (int64_t)c->failed);
}

static void write_loaded(const struct shadow *s, const struct vhost *viewer,
			 struct json *out)
{
	candidate_write(s->candidate, out);
	json_member_text(out, "by", s->by);
	json_member_number(out, "share", s->share);
	if (s->is_canary)
		write_canary(&s->canary, out);
	json_member_int(out, "started_ms", s->started_unix_ms);
	json_member_bool(out, "stopped", s->is_stopped || canary_is_stopped(&s->canary));
	write_differences(s, out);
	json_member_int(out, "time_us", (int64_t)(s->time_ns / 1000));
	json_member_int(out, "time_max_us", (int64_t)(s->time_max_ns / 1000));
	write_comparison(&s->publishes, viewer, out);
	json_member_object(out, "failures");
	write_comparison(&s->questions[SCRIPT_RETRY], viewer, out);
	json_object_end(out);
	for (unsigned kind = 0; kind < script_kind_count; kind++) {
		if (!kinds[kind].ask || kind == SCRIPT_RETRY)
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
