/* What the user of a session may do, and what he is told of names that are not there. */
#include <stdio.h>

#include "base/mem.h"
#include "broker/address.h"
#include "broker/group_settle.h"
#include "broker/retry.h"
#include "session_private.h"

/* Scripts are told where it comes from. */
static struct subject *subject_of(struct session *s)
{
	struct session_peer peer;

	if (!s->subject.address) {
		s->ops->facts(s->ctx, &peer);
		subject_set_address(&s->subject, peer.address);
	}
	return &s->subject;
}

int session_access_check(struct session *s, enum user_action action,
			 enum subject_kind kind, struct slice name, struct error *err)
{
	if (subject_is_free(&s->subject))
		return TIDE_OK;
	return subject_ask(subject_of(s), action, kind, name, err);
}

int session_access_check_queue(struct session *s, enum user_action action,
			       struct slice name, struct error *err)
{
	if (subject_is_free(&s->subject))
		return TIDE_OK;
	return subject_ask(subject_of(s), action, address_kind(s->vhost, name), name,
			   err);
}

int session_access_check_write(struct session *s, struct slice exchange, struct slice key,
			       struct error *err)
{
	if (subject_is_free(&s->subject))
		return TIDE_OK;
	return address_check(subject_of(s), s->vhost, exchange, key, err);
}

int session_access_check_admin(const struct session *s, const char *what,
			       struct error *err)
{
	return subject_check_tag(&s->subject, USER_ADMIN, what, err);
}

int session_access_check_monitor(const struct session *s, const char *what,
				 struct error *err)
{
	return subject_check_tag(&s->subject, USER_MONITOR, what, err);
}

/* A user with a tag may look at all vhosts. */
bool session_access_may_enter(const struct session *s, struct slice vhost)
{
	const struct user *u = s->subject.user;

	return !u || u->tags || user_grant_find(u, vhost);
}

/* ---- names that are not there ---- */

#define NAMED_MAX 5 /* vhosts that an error names */
#define NAMED_BYTES 200

static bool may_use(struct subject *s, enum subject_kind kind, struct slice name)
{
	static const enum user_action actions[] = { USER_WRITE, USER_READ,
						    USER_CONFIGURE };
	struct error ignored;

	for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++)
		if (subject_ask(s, actions[i], kind, name, &ignored) == TIDE_OK)
			return true;
	return false;
}

/* Who may do nothing with the name there is not told that it is there. */
static bool may_know(const struct session *s, const struct vhost *v,
		     enum subject_kind kind, struct slice name)
{
	struct subject there;
	bool may;

	if (subject_is_free(&s->subject))
		return true;
	if (!s->subject.user || !session_access_may_enter(s, vhost_slice(v)))
		return false;
	if (s->subject.user->tags && !s->subject.user->is_deleted)
		return true;
	subject_copy(&there, &s->subject);
	subject_set_vhost(&there, vhost_slice(v));
	may = may_use(&there, kind, name);
	subject_deinit(&there);
	return may;
}

static bool has_thing(struct vhost *v, enum subject_kind kind, struct slice name)
{
	const struct queue *q;

	if (kind == SUBJECT_EXCHANGE)
		return exchange_find(v, name) != NULL;
	q = queue_find(v, name);
	return q && (kind == SUBJECT_QUEUE || q->topic);
}

int session_missing(const struct session *s, enum subject_kind kind, struct slice name,
		    struct error *err)
{
	static const char *const kinds[] = { [SUBJECT_EXCHANGE] = "exchange",
					     [SUBJECT_QUEUE] = "queue",
					     [SUBJECT_TOPIC] = "topic" };

	int rc = vhost_refuse(s->vhost, kinds[kind], name, err);

	for (struct vhost *v = s->broker->vhosts; v; v = v->hh.next)
		if (v != s->vhost && has_thing(v, kind, name) &&
		    may_know(s, v, kind, name))
			return error_set(err, rc, "%s; vhost '%s' has one", err->text,
					 v->name);
	return rc;
}

/* "'/', 'shop' and 3 more" */
static void name_vhosts(const struct session *s, struct buf *out)
{
	unsigned named = 0, others = 0;

	for (const struct vhost *v = s->broker->vhosts; v; v = v->hh.next) {
		if (!session_access_may_enter(s, vhost_slice(v)))
			continue;
		if (named == NAMED_MAX || buf_len(out) + v->name_len > NAMED_BYTES) {
			others++;
			continue;
		}
		buf_printf(out, "%s'%s'", named++ ? ", " : "", v->name);
	}
	if (others)
		buf_printf(out, " and %u more", others);
}

int session_missing_vhost(const struct session *s, struct slice name, struct error *err)
{
	struct buf names = { 0 };

	name_vhosts(s, &names);
	error_set(err, TIDE_ENOTFOUND,
		  "there is no vhost '%.*s', only %s; DECLARE vhost %.*s makes it",
		  SLICE_HEAD(name, 64), buf_len(&names) ? buf_cstr(&names) : "others",
		  SLICE_HEAD(name, 64));
	buf_deinit(&names);
	return err->code;
}

/* ---- rights that have changed ---- */

/* The last queue that was asked about: most of what a channel holds is of one. */
struct read_check {
	struct session *session;
	const struct queue *queue;
	struct error denied; /* code < 0: it may not be read */
};

static bool may_read(struct read_check *r, const struct queue *q)
{
	enum subject_kind kind = q->topic ? SUBJECT_TOPIC : SUBJECT_QUEUE;

	if (r->queue != q)
		r->denied.code = session_access_check(r->session, USER_READ, kind,
						      queue_slice(q), &r->denied);
	r->queue = q;
	return r->denied.code == TIDE_OK;
}

static void cancel_subscriptions(struct channel *ch, struct read_check *r)
{
	const struct session *s = ch->session;
	struct subscription *sub, *next;
	char words[NAME_LEN_MAX + 16];

	for (sub = TAILQ_FIRST(&ch->subscriptions); sub; sub = next) {
		next = TAILQ_NEXT(sub, channel_link);
		if (!sub->consumer.queue || may_read(r, sub->consumer.queue))
			continue;
		snprintf(words, sizeof(words), "%s denied", sub->sid);
		s->ops->on_event(s->ctx, ch->number, "cancelled", words);
		subscription_destroy(sub);
	}
}

static bool may_wait(const struct fetch *f, struct read_check *r)
{
	for (unsigned i = 0; i < f->getter.consumer_count; i++)
		if (f->consumers[i].queue && !may_read(r, f->consumers[i].queue))
			return false;
	return true;
}

static void refuse_fetches(struct channel *ch, struct read_check *r)
{
	struct fetch *f, *next;

	for (f = TAILQ_FIRST(&ch->fetches); f; f = next) {
		next = TAILQ_NEXT(f, channel_link);
		if (!may_wait(f, r))
			fetch_refuse(f, &r->denied);
	}
}

/* Unpunished: its consumer is not at fault, and nor is the message. */
static void return_entries(struct channel *ch, struct read_check *r)
{
	uint64_t *tags = NULL;
	size_t count = 0;

	for (struct entry *e = held_from(&ch->held, 0); e;
	     e = held_from(&ch->held, e->tag + 1)) {
		if (e->flags & LIES_IN_COMMIT || may_read(r, entry_queue(e)))
			continue;
		if (!tags)
			tags = mem_alloc(ch->held.count * sizeof(*tags));
		tags[count++] = e->tag;
	}
	/* From the last to the first, so that each enters at the queue's front. */
	while (count > 0)
		retry_unpunished(held_from(&ch->held, tags[--count]));
	mem_free(tags);
}

static void return_runs(struct channel *ch, struct read_check *r)
{
	struct run_tag_tree *runs = &ch->holder.runs;
	struct run *run = run_from_tag(runs, 0);

	while (run) {
		uint64_t next = run->first_tag + run->count;

		if (!may_read(r, group_settle_queue(run)))
			group_settle_return(run, run->first_tag, run->count);
		run = run_from_tag(runs, next);
	}
}

static bool may_hold_lock(void *ctx, struct slice name, struct error *err)
{
	return session_access_check(ctx, USER_WRITE, SUBJECT_LOCK, name, err) == TIDE_OK;
}

static void recheck_channel(struct channel *ch, struct read_check *r)
{
	cancel_subscriptions(ch, r);
	refuse_fetches(ch, r);
	return_entries(ch, r);
	return_runs(ch, r);
	lock_holder_recheck(&ch->locks, may_hold_lock, ch->session);
}

void session_recheck(struct session *s)
{
	struct read_check reading = { .session = s };
	const struct user *user = s->subject.user;
	struct channel *ch, *next;
	char why[NAME_LEN_MAX + 64];

	s->exchange_version = 0;
	session_allowance_note(s);
	if (!user)
		return; /* it may do all, or was killed */
	if (user->is_deleted) {
		snprintf(why, sizeof(why), "denied user '%s' was deleted", user->name);
		s->ops->on_kill(s->ctx, why);
		return;
	}
	session_trace_recheck(s);
	recheck_channel(&s->zero, &reading);
	HASH_ITER (hh, s->channels, ch, next)
		recheck_channel(ch, &reading);
}
