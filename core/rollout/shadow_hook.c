#include "shadow_hook.h"

#include "base/mem.h"
#include "broker/config.h"
#include "broker/declare.h"
#include "broker/vhost.h"
#include "broker/walk.h"
#include "follow/changes.h"
#include "follow/recent.h"
#include "rules/engine/auth.h"
#include "rules/engine/deliver.h"
#include "rules/engine/policy.h"
#include "rules/engine/settled.h"
#include "shadow.h"

/* What one of the two said: the part of its kind. */
struct answer {
	struct error failure; /* code 0: none */
	struct deliver_pass deliver;
	struct settled_pass settled;
	struct connect_decision admission;
	struct config config; /* that policies make */
	char policies[POLICY_FILES_MAX];
};

struct hook_sample {
	struct vhost *vhost; /* of the message */
	struct msg *msg;     /* NULL: it is about none */
	struct buf facts;    /* members of an object */
	struct buf live, shadow;
	struct buf changes; /* elements of an array */
};

struct hook_figures {
	uint64_t seen, compared, differing;
	struct hook_sample samples[SHADOW_SAMPLES]; /* a ring: the last that differ */
};

struct shadow_hook {
	struct candidate *candidate;
	struct walk walk;
	/* The active rules are asked about what there is, in a dry run. */
	struct policy_watch watch;
	struct decision_context context;
	bool is_asked;
	struct answer asked; /* of the candidate rules, until the others have answered */
	struct hook_figures figures[SCRIPT_KINDS_MAX];
};

static void note(struct answer *a, int rc, const struct error *err)
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

/* ---- deliver/ ---------------------------------------------------------------------- */

static void ask_deliver(struct engine *e, const struct step *h,
			struct decision_context *context, struct answer *out)
{
	struct error err;

	out->deliver = *h->deliver;
	out->deliver.context = context;
	note(out, deliver_run(e, &out->deliver, &err), &err);
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

/* ---- settled/ ---------------------------------------------------------------------- */

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

/* ---- declare/ ---------------------------------------------------------------------- */

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
	note(out, rc, &err);
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
	note(out, rc, &err);
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

/* ---- connect/ ---------------------------------------------------------------------- */

static void ask_connect(struct engine *e, const struct step *h,
			struct decision_context *context, struct answer *out)
{
	struct auth_login client = *h->client;
	struct error err;

	client.context = context;
	note(out, auth_connect(e, &client, &out->admission, &err), &err);
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

/* ---- all kinds --------------------------------------------------------------------- */

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

static void free_sample(struct hook_sample *s)
{
	msg_unref(s->msg);
	vhost_unref(s->vhost);
	buf_deinit(&s->facts);
	buf_deinit(&s->live);
	buf_deinit(&s->shadow);
	buf_deinit(&s->changes);
}

struct shadow_hook *shadow_hook_create(struct candidate *c)
{
	struct shadow_hook *s = mem_zalloc(sizeof(*s));

	s->candidate = c;
	s->context.is_dry = true;
	s->watch.context = &s->context;
	walk_begin(&s->walk, c->broker);
	return s;
}

void shadow_hook_destroy(struct shadow_hook *s)
{
	if (!s)
		return;
	walk_end(&s->walk);
	for (unsigned kind = 0; kind < script_kind_count; kind++)
		for (int i = 0; i < SHADOW_SAMPLES; i++)
			free_sample(&s->figures[kind].samples[i]);
	mem_free(s);
}

bool shadow_hook_see(struct shadow_hook *s, const struct step *h)
{
	s->is_asked = false;
	/* A simulation is nothing that happens. */
	if (h->script == SCRIPT_DECLARE && h->policy->watch &&
	    h->policy->watch != &s->watch)
		return false;
	s->figures[h->script].seen++;
	return true;
}

void shadow_hook_ask(struct shadow_hook *s, const struct step *h, int64_t now_ms)
{
	const struct engine *active = s->candidate->broker->engine;
	struct decision_context context = {
		.now_ms = now_ms,
		.has_random = true,
		.random_state = engine_random_state(active),
		.shared = engine_shared(active),
		.is_dry = true,
	};

	s->figures[h->script].compared++;
	if (!candidate_has_other_scripts(s->candidate, h->script))
		return;
	s->is_asked = true;
	memset(&s->asked, 0, sizeof(s->asked));
	kinds[h->script].ask(s->candidate->rules.engine, h, &context, &s->asked);
}

static void write_side(const struct hook_kind *kind, const struct answer *mine,
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
static bool write_difference(const struct hook_kind *kind, const struct answer *live,
			     const struct answer *shadow, struct hook_sample *out)
{
	struct json j = { .out = &out->changes };
	struct changes c = { .out = &j, .one = "live", .other = "shadow" };

	write_side(kind, live, shadow, false, &out->live);
	write_side(kind, shadow, live, false, &out->shadow);
	if (kind->change && live->failure.code == TIDE_OK &&
	    shadow->failure.code == TIDE_OK)
		kind->change(live, shadow, &c);
	if (c.count == 0 &&
	    slice_is_equal(buf_slice(&out->live), buf_slice(&out->shadow)))
		return false;
	write_side(kind, live, shadow, true, &out->live);
	write_side(kind, shadow, live, true, &out->shadow);
	return true;
}

/* In the place of the oldest. */
static void keep_take(struct hook_figures *f, const struct step *h,
		      struct hook_sample *sample)
{
	struct hook_sample *kept = &f->samples[f->differing++ % SHADOW_SAMPLES];
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

void shadow_hook_compare(struct shadow_hook *s, const struct step *h)
{
	struct answer live = { .failure = { .code = TIDE_OK } };
	struct hook_sample sample = { 0 };

	if (!s->is_asked)
		return;
	s->is_asked = false;
	if (h->error)
		live.failure = *h->error;
	else
		kinds[h->script].take(h, &live);
	if (write_difference(&kinds[h->script], &live, &s->asked, &sample))
		keep_take(&s->figures[h->script], h, &sample);
	else
		free_sample(&sample);
	free_policy(&live);
	free_answer(&s->asked);
}

bool shadow_hook_walk(struct shadow_hook *s)
{
	struct definition *d = walk_definition(&s->walk);

	if (d)
		declare_ask_again(d, &s->watch);
	return d;
}

static void write_sample(const struct hook_sample *s, const struct vhost *viewer,
			 struct json *out)
{
	json_object_begin(out);
	json_written(out, buf_slice(&s->facts));
	if (s->msg)
		recent_write_publish(s->vhost, s->msg, s->msg->payload_len, viewer, out);
	json_key(out, "live");
	json_written(out, buf_slice(&s->live));
	json_key(out, "shadow");
	json_written(out, buf_slice(&s->shadow));
	if (buf_len(&s->changes) > 0 && recent_is_shown(s->vhost, viewer))
		json_member_list(out, "changes", buf_slice(&s->changes));
	json_object_end(out);
}

static void write_figures(const struct hook_figures *f, const struct vhost *viewer,
			  struct json *out)
{
	uint64_t first =
		f->differing > SHADOW_SAMPLES ? f->differing - SHADOW_SAMPLES : 0;

	json_member_int(out, "seen", (int64_t)f->seen);
	json_member_int(out, "compared", (int64_t)f->compared);
	json_member_int(out, "differing", (int64_t)f->differing);
	json_member_array(out, "samples");
	for (uint64_t i = f->differing; i > first; i--)
		write_sample(&f->samples[(i - 1) % SHADOW_SAMPLES], viewer, out);
	json_array_end(out);
}

void shadow_hook_write(const struct shadow_hook *s, const struct vhost *viewer,
		       struct json *out)
{
	for (unsigned kind = 0; kind < script_kind_count; kind++) {
		if (!kinds[kind].ask)
			continue;
		json_member_object(out, script_kind_name((enum script_kind)kind));
		write_figures(&s->figures[kind], viewer, out);
		json_object_end(out);
	}
}
