#include "transaction.h"

#include "base/mem.h"
#include "broker.h"
#include "dead_letter.h"
#include "declare.h"
#include "host/log.h"
#include "move.h"
#include "publish.h"
#include "queue.h"
#include "settle.h"
#include "shard/commit.h"

struct transaction_publish {
	struct msg *msg;
	struct decision decision; /* once it is filtered */
	unsigned number;
	bool is_mandatory;
};

/* A message that is published with a settle: a dead letter, or what scripts publish. */
struct transaction_copy {
	STAILQ_ENTRY(transaction_copy) link;
	struct decision decision;
};

struct transaction_settle {
	struct entry *entry;
	struct msg *msg; /* the message as it is from then on: a reference */
	struct fate fate;
	unsigned number;
	bool has_dead_letter; /* it is one of the copies */
	STAILQ_HEAD(, transaction_copy) copies;
};

struct transaction {
	struct vhost *vhost;
	struct subject *subject; /* who publishes */
	struct transaction_publish *publishes;
	size_t publish_count, publish_cap;
	size_t filtered; /* of these: they have a decision */
	struct transaction_settle *settles;
	size_t settle_count, settle_cap;
};

struct transaction *transaction_create(struct vhost *v, struct subject *subject)
{
	struct transaction *t = mem_zalloc(sizeof(*t));

	t->vhost = v;
	t->subject = subject;
	return t;
}

static void free_copy(struct transaction_copy *c)
{
	decide_deinit(&c->decision);
	mem_free(c);
}

static void free_settle(struct transaction_settle *s)
{
	struct transaction_copy *c;

	while ((c = STAILQ_FIRST(&s->copies)) != NULL) {
		STAILQ_REMOVE_HEAD(&s->copies, link);
		free_copy(c);
	}
	strategy_extra_unref(s->fate.extra);
	msg_unref(s->msg);
}

void transaction_destroy(struct transaction *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->publish_count; i++) {
		if (i < t->filtered)
			decide_deinit(&t->publishes[i].decision);
		msg_unref(t->publishes[i].msg);
	}
	for (size_t i = 0; i < t->settle_count; i++)
		free_settle(&t->settles[i]);
	mem_free(t->publishes);
	mem_free(t->settles);
	mem_free(t);
}

void transaction_publish_take(struct transaction *t, struct msg *m, bool is_mandatory,
			      unsigned number)
{
	struct transaction_publish *p;

	MEM_GROW(t->publishes, t->publish_count, t->publish_cap, 2);
	p = &t->publishes[t->publish_count++];
	p->msg = m;
	p->number = number;
	p->is_mandatory = is_mandatory;
}

void transaction_settle(struct transaction *t, struct entry *e,
			const struct transaction_settling *what)
{
	struct msg *m = settle_with_reason(e, what->reason);
	const struct fate_subject subject = settle_subject(e, m);

	MEM_GROW(t->settles, t->settle_count, t->settle_cap, 4);
	t->settles[t->settle_count++] = (struct transaction_settle){
		.entry = e,
		.msg = m,
		.fate = fate_decide(&subject, what->cause, what->delay_ms),
		.number = what->number,
	};
}

/* "request 3: " before what is wrong with it. */
static int blame(unsigned number, struct error *err)
{
	return error_set(err, err->code, "request %u: %s", number, err->text);
}

/* The message begins to exist with the commit: its id is that of now. */
static int begin(struct broker *b, struct msg *m, struct error *err)
{
	int64_t waited_ms = b->now_ms - m->ts_unix_ms;

	m->id = broker_next_id(b);
	if (!m->id)
		return id_lease_check(b, err);
	m->ts_unix_ms += waited_ms;
	m->due_unix_ms += m->due_unix_ms ? waited_ms : 0;
	m->expires_unix_ms += m->expires_unix_ms ? waited_ms : 0;
	return TIDE_OK;
}

static int filter(struct transaction *t, struct transaction_publish *p, struct error *err)
{
	struct decide_spec spec = { .vhost = t->vhost,
				    .subject = t->subject,
				    .msg = p->msg };
	int rc = begin(t->vhost->broker, p->msg, err);

	if (rc < 0)
		return rc;
	t->filtered++;
	return publish_filter(&p->decision, &spec, err);
}

int transaction_filter(struct transaction *t, struct error *err)
{
	struct broker *b = t->vhost->broker;

	while (t->filtered < t->publish_count) {
		struct transaction_publish *p = &t->publishes[t->filtered];

		if (filter(t, p, err) < 0)
			return blame(p->number, err);
		if (pace_is_spent(&b->pace, false))
			return TIDE_AGAIN;
	}
	return TIDE_OK;
}

static int check_topic(const struct decision *d, struct error *err)
{
	const struct queue *topic = publish_find_remembering(d);

	if (!topic)
		return TIDE_OK;
	return error_set(err, TIDE_EDENIED,
			 "the message has an id=, and would go to topic '%s', which "
			 "remembers ids: a transaction has no room for them",
			 topic->name);
}

static int route(struct transaction *t, struct transaction_publish *p, struct error *err)
{
	struct decide_spec spec = { .vhost = t->vhost,
				    .subject = t->subject,
				    .make_queue = declare_on_demand,
				    .msg = p->msg };
	int rc = publish_route(&p->decision, &spec, p->is_mandatory, err);

	if (rc == TIDE_OK && publish_is_unsettled(&p->decision))
		rc = error_set(err, TIDE_EBUSY,
			       "another publish with this id is not confirmed yet; try "
			       "again when it is");
	if (rc == TIDE_OK)
		rc = check_topic(&p->decision, err);
	return rc < 0 ? blame(p->number, err) : rc;
}

/* @param is_told  by a script of settled/: it is lost if a topic has no room for its id;
 *                 else the transaction fails by that, later */
static int add_copy(struct transaction_settle *s, struct msg *m, bool is_told,
		    struct error *err)
{
	struct decide_spec spec = { .vhost = entry_queue(s->entry)->vhost, .msg = m };
	struct transaction_copy *c = mem_alloc(sizeof(*c));
	int rc = publish_filter(&c->decision, &spec, err);

	if (rc == TIDE_OK)
		rc = publish_route(&c->decision, &spec, true, err);
	if (rc == TIDE_OK && is_told)
		rc = check_topic(&c->decision, err);
	if (rc == TIDE_OK)
		STAILQ_INSERT_TAIL(&s->copies, c, link);
	else
		free_copy(c);
	return rc;
}

/* Add the publishes of scripts. An error of theirs is none of the transaction. */
static void add_script_copies(struct transaction_settle *s,
			      const struct draft_copies *copies, bool is_told)
{
	struct queue *q = entry_queue(s->entry);
	struct error err;

	for (unsigned i = 0; i < copies->count; i++) {
		struct msg *m = copies->items[i];

		m->id = broker_next_id(q->vhost->broker);
		if ((!m->id && id_lease_check(q->vhost->broker, &err) < 0) ||
		    add_copy(s, m, is_told, &err) < 0)
			move_copies_tell_lost(q, m, err.text);
	}
}

/* With the headers that its script wrote. */
static struct msg *message_of(const struct transaction_settle *s)
{
	const struct retry_extra *extra = s->fate.extra;

	return extra && extra->msg ? extra->msg : s->msg;
}

/* Without a copy the message is buried, as when it is dead-lettered alone. */
static void decide_dead_letter(struct transaction_settle *s)
{
	const struct retry_extra *extra = s->fate.extra;
	const struct dead_letter_facts facts = { s->fate.reason, s->fate.rule,
						 s->entry->failures + s->fate.is_failure,
						 extra };
	struct msg *copy = dead_letter_make(entry_queue(s->entry), message_of(s), &facts);
	struct error err;

	s->fate.action = RETRY_BURY;
	if (!copy)
		return;
	if (add_copy(s, copy, false, &err) < 0) {
		log_warn("dead-lettering: %s; the message is buried instead", err.text);
	} else {
		s->fate.action = RETRY_DROP;
		s->has_dead_letter = true;
	}
	msg_unref(copy);
}

static int decide_copies(struct transaction_settle *s, struct error *err)
{
	const struct transaction_copy *c;

	STAILQ_INIT(&s->copies);
	if (s->fate.extra)
		add_script_copies(s, &s->fate.extra->copies, false);
	if (s->fate.action == RETRY_DEAD_LETTER)
		decide_dead_letter(s);
	STAILQ_FOREACH (c, &s->copies, link)
		if (check_topic(&c->decision, err) < 0)
			return blame(s->number, err);
	return TIDE_OK;
}

/* The scripts of settled/ are told last, when everything else is decided. What they
 * publish is part of the transaction. */
static void decide_told(struct transaction_settle *s)
{
	const struct fate_subject subject = settle_subject(s->entry, s->entry->msg);
	struct fate fate = s->fate;
	struct settled_pass pass;

	if (s->has_dead_letter)
		fate.action = RETRY_DEAD_LETTER;
	fate_tell(&subject, &fate, s->entry->lease, &pass);
	add_script_copies(s, &pass.copies, true);
	for (unsigned i = 0; i < pass.copies.count; i++)
		msg_unref(pass.copies.items[i]);
}

static int decide_rest(struct transaction *t, struct error *err)
{
	for (size_t i = 0; i < t->publish_count; i++)
		if (route(t, &t->publishes[i], err) < 0)
			return err->code;
	for (size_t i = 0; i < t->settle_count; i++)
		if (decide_copies(&t->settles[i], err) < 0)
			return err->code;
	for (size_t i = 0; i < t->settle_count; i++)
		if (fate_is_told(entry_queue(t->settles[i].entry)))
			decide_told(&t->settles[i]);
	return TIDE_OK;
}

static struct commit_change change_of(const struct transaction_settle *s)
{
	int64_t now_ms = s->entry->shard->env->now_ms;
	struct commit_change change = { .state = ENTRY_GONE };

	change.reason = s->fate.is_failure ? s->fate.reason : NULL;
	if (s->fate.action != RETRY_DROP && message_of(s) != s->entry->msg)
		change.msg = message_of(s);
	if (s->fate.action == RETRY_BURY) {
		change.state = ENTRY_BURIED;
		change.at_unix_ms = now_ms;
	} else if (s->fate.action == RETRY_AFTER && s->fate.due_ms > now_ms) {
		change.state = ENTRY_DELAYED;
		change.at_unix_ms = s->fate.due_ms;
	} else if (s->fate.action == RETRY_AFTER) {
		change.state = ENTRY_READY;
	}
	return change;
}

static void settle(const struct transaction_settle *s, struct commit *c)
{
	struct queue *q = entry_queue(s->entry);
	const struct commit_change change = change_of(s);
	struct transaction_copy *copy;
	struct published ignored;

	fate_count_cause(q, s->fate.cause, 1);
	settle_trace(s->entry, &s->fate);
	fate_count(q, &s->fate);
	q->counters.buries += change.state == ENTRY_BURIED;
	commit_settle(c, s->entry, &change);
	STAILQ_FOREACH (copy, &s->copies, link)
		publish_commit(&copy->decision, q->vhost, c, &ignored);
	if (s->has_dead_letter)
		dead_letter_count(q);
}

static const struct commit_ops commit_ops = { .on_settled = consumer_release };

int transaction_commit(struct transaction *t, struct waiter *waiter,
		       struct transaction_result *out, struct error *err)
{
	struct broker *b = t->vhost->broker;
	struct commit *c;

	if (decide_rest(t, err) < 0)
		return err->code;
	*out = (struct transaction_result){ .settled = t->settle_count };
	c = commit_create(&b->env, &commit_ops, waiter);
	for (size_t i = 0; i < t->settle_count; i++)
		settle(&t->settles[i], c);
	for (size_t i = 0; i < t->publish_count; i++) {
		struct published published;

		publish_commit(&t->publishes[i].decision, t->vhost, c, &published);
		out->published += !published.is_duplicate;
	}
	commit_send_take(c);
	return TIDE_OK;
}
