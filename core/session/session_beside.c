/* A session that acts for another one and may outlive it. */
#include "access/network.h"
#include "broker/group_settle.h"
#include "broker/settle.h"
#include "session_private.h"

struct session *session_beside_create(const struct session *s,
				      const struct session_ops *ops, void *ctx)
{
	struct session *beside = session_create(s->service, ops, ctx);

	beside->is_beside = true;
	vhost_enter(s->vhost);
	vhost_leave(beside->vhost);
	beside->vhost = s->vhost;
	subject_set_vhost(&beside->subject, vhost_slice(s->vhost));
	if (s->subject.user)
		session_login_as(beside, s->subject.user);
	else if (s->user)
		session_set_user(beside, (struct slice){ s->user, s->user_len });
	return beside;
}

struct session_peer session_beside_peer(const struct session *s)
{
	struct session_peer peer;

	s->ops->facts(s->ctx, &peer);
	return peer;
}

static bool is_same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

bool session_beside_may_act(const struct session *beside, const struct session *s)
{
	return beside->vhost == s->vhost && is_same_text(beside->user, s->user);
}

bool session_beside_is_same(const struct session *beside, const struct session *s)
{
	if (beside->subject.user != s->subject.user || !session_beside_may_act(beside, s))
		return false;
	if (!s->subject.env->scripts)
		return true; /* nobody asks where it comes from */
	return slice_is_equal(network_host(session_beside_peer(beside).address),
			      network_host(session_beside_peer(s).address));
}

bool session_beside_is_holding(const struct session *s)
{
	return session_held_any(&s->zero);
}

static void give_back(struct channel *ch, uint64_t tag)
{
	struct entry *e = held_from(&ch->held, tag);
	struct run *run = run_from_tag(&ch->holder.runs, tag);

	if (e && e->tag == tag)
		settle_entry(e, FATE_RETURNED, 0);
	else if (run && run->first_tag <= tag)
		group_settle_return(run, tag, 1, FATE_RETURNED);
}

void session_beside_end_wait(struct session *s, const struct reply *r)
{
	struct fetch *f;

	TAILQ_FOREACH (f, &s->zero.fetches, channel_link)
		if (f->reply == r)
			getter_hurry(&f->getter);
}

void session_beside_return(struct session *s, const struct delivery *deliveries,
			   uint64_t count)
{
	/* From the last to the first, so that each enters at the queue's front. */
	for (; count > 0; count--)
		if (deliveries[count - 1].tag)
			give_back(&s->zero, deliveries[count - 1].tag);
}
