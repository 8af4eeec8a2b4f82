#include <assert.h>
#include <stdio.h>

#include "service_events.h"
#include "service_users.h"
#include "session_private.h"
#include "base/mem.h"
#include "access/network.h"
#include "broker/group_settle.h"
#include "broker/settle.h"

/* Unfinished answers of a session that may be large, such as those of PEEK. */
#define DOCUMENTS_MAX 8
/* Unanswered GETs of a session that read a topic without a group: one message may be
 * copied for each. */
#define READS_MAX 64
/* Answers of a session that are there, and wait for earlier ones. */
#define KEPT_MAX ((size_t)1 << 20)

struct session *session_create(struct service *service, const struct session_ops *ops,
			       void *ctx)
{
	struct session *s = mem_zalloc(sizeof(*s));
	struct error ignored;

	s->service = service;
	s->broker = service->broker;
	s->ops = ops;
	s->ctx = ctx;
	s->number = ++service->last_session;
	subject_init(&s->subject, &s->broker->subjects, SLICE("/"));
	TAILQ_INIT(&s->exclusive);
	TAILQ_INIT(&s->named);
	channel_init(&s->zero, s, 0);
	/* The default vhost is made at the start and never goes. */
	if (vhost_open(s->broker, SLICE("/"), &s->vhost, &ignored) < 0)
		s->vhost = NULL;
	else
		vhost_enter(s->vhost);
	TAILQ_INSERT_TAIL(&service->sessions, s, link);
	return s;
}

static void drop_exclusive(struct session *s)
{
	struct queue *q;

	while ((q = TAILQ_FIRST(&s->exclusive)) != NULL)
		queue_destroy(q);
}

void session_destroy(struct session *s)
{
	struct channel *ch, *next;

	s->is_closed = true;
	service_events_closed(s);
	HASH_ITER (hh, s->channels, ch, next) {
		channel_deinit(ch);
		channel_forget(ch);
	}
	channel_deinit(&s->zero);
	session_answer_leave(s, 0);
	session_settle_cancel(s);
	session_login_cancel(s);
	session_push_leave(s);
	heap_remove(&s->service->throttled, &s->throttle_node);
	session_allowance_logout(s);
	session_allowance_limit(s, NULL);
	drop_exclusive(s);
	if (s->vhost)
		vhost_leave(s->vhost);
	if (s->service->recheck == s)
		s->service->recheck = TAILQ_NEXT(s, link);
	TAILQ_REMOVE(&s->service->sessions, s, link);
	subject_deinit(&s->subject);
	buf_deinit(&s->written_key);
	mem_free(s->unwelcome);
	mem_free(s->name);
	mem_free(s->user);
	mem_free(s);
}

int session_set_vhost(struct session *s, struct slice name, struct error *err)
{
	struct vhost *v;
	int rc = vhost_open(s->broker, name, &v, err);

	if (rc < 0)
		return rc;
	s->exchange = NULL;
	s->exchange_version = 0;
	s->prepared = NULL;
	subject_set_vhost(&s->subject, name);
	vhost_enter(v);
	vhost_leave(s->vhost);
	s->vhost = v;
	session_trace_recheck(s);
	return TIDE_OK;
}

int session_check_vhost(struct slice name, struct error *err)
{
	return vhost_check_name(name, err);
}

bool session_has_vhost(const struct session *s, struct slice name)
{
	const struct vhost *v = vhost_find(s->broker, name);

	return v && !v->is_deleted;
}

void session_set_name(struct session *s, struct slice name)
{
	mem_free(s->name);
	s->name = mem_strndup(name.data, name.len);
}

void session_set_user(struct session *s, struct slice user)
{
	assert(user.len <= MSG_USER_MAX);
	mem_free(s->user);
	s->user = mem_strndup(user.data, user.len);
	s->user_len = user.len;
}

void session_format_author(const struct session *s, char out[SESSION_AUTHOR_MAX])
{
	struct session_peer peer;
	bool has_name = s->name && s->name[0];
	bool is_user = s->of_user && s->user;

	s->ops->facts(s->ctx, &peer);
	snprintf(out, SESSION_AUTHOR_MAX, "connection %llu%s%.100s%s%s%.*s%s%s%.150s",
		 (unsigned long long)s->number, has_name ? " '" : "",
		 has_name ? s->name : "", has_name ? "'" : "",
		 is_user ? " of user '" : "", is_user ? (int)s->user_len : 0,
		 is_user ? s->user : "", is_user ? "'" : "", peer.address ? " from " : "",
		 peer.address ? peer.address : "");
}

void session_drained(struct session *s)
{
	struct channel *ch = NULL;
	struct subscription *sub;

	while ((ch = session_next_channel(s, ch)) != NULL)
		TAILQ_FOREACH (sub, &ch->subscriptions, channel_link) {
			subscription_tell_active(sub);
			subscription_tell_assigned(sub);
			subscription_tell_lease(sub);
			if (!consumer_is_able(&sub->consumer))
				consumer_update(&sub->consumer);
		}
}

void session_end_waits(struct session *s)
{
	struct channel *ch = NULL;
	struct reply_aside *a;
	struct fetch *f;

	while ((ch = session_next_channel(s, ch)) != NULL) {
		TAILQ_FOREACH (a, &ch->asides, link)
			if (a->on_hurry)
				a->on_hurry(a->ctx);
		TAILQ_FOREACH (f, &ch->fetches, channel_link)
			getter_hurry(&f->getter);
		lock_holder_end_waits(&ch->locks);
	}
}

void session_leave(struct session *s)
{
	s->has_left = true;
}

void session_break(struct session *s)
{
	s->is_broken = true;
}

void session_return_held(struct session *s)
{
	struct channel *ch = NULL;

	while ((ch = session_next_channel(s, ch)) != NULL)
		channel_return_held(ch);
}

/* Has the session as many unanswered requests as it may? */
static bool has_its_limit(const struct session *s)
{
	return s->pending >= s->broker->config.replies_max ||
	       s->documents >= DOCUMENTS_MAX ||
	       (s->wants_document && session_answer_is_late(s)) ||
	       s->reads >= READS_MAX || s->kept_bytes > KEPT_MAX;
}

bool session_is_held(const struct session *s, bool is_receiving)
{
	return has_its_limit(s) || s->settling || s->committing || s->logging_in ||
	       s->is_founder || heap_has(&s->throttle_node) ||
	       (is_receiving
			? !session_receive_may_go_on(s)
			: s->service->is_blocked && !s->transactions && s->has_published);
}

static struct channel *find_channel(struct session *s, unsigned number)
{
	struct channel *ch;

	if (number == 0)
		return &s->zero;
	HASH_FIND_INT(s->channels, &number, ch);
	return ch;
}

struct channel *session_channel(struct session *s, unsigned number)
{
	struct channel *ch = find_channel(s, number);

	return ch && !ch->is_closing ? ch : NULL;
}

struct channel *session_closing_channel(struct session *s, unsigned number)
{
	struct channel *ch = find_channel(s, number);

	return ch && ch->is_closing ? ch : NULL;
}

int session_open(struct session *s, unsigned number, struct channel **out,
		 struct error *err)
{
	struct channel *ch = find_channel(s, number);

	if (ch && !ch->is_closing)
		return error_set(err, TIDE_EEXISTS, "channel %u is open already", number);
	if (ch) {
		ch->is_closing = false;
		*out = ch;
		return TIDE_OK;
	}
	if (s->channel_count >= s->broker->config.channels_max)
		return error_set(err, TIDE_ELIMIT,
				 "the limit of %u channels per connection is reached",
				 s->channel_count);
	if (session_allowance_open(s, err) < 0)
		return err->code;
	ch = mem_zalloc(sizeof(*ch));
	channel_init(ch, s, number);
	HASH_ADD_INT(s->channels, number, ch);
	s->channel_count++;
	*out = ch;
	return TIDE_OK;
}

void session_limit_channel(struct channel *ch, uint32_t prefetch)
{
	credit_init(&ch->credit, ch->session->broker, prefetch);
}

void session_limit_consumers(struct channel *ch, uint32_t prefetch)
{
	struct subscription *sub;

	TAILQ_FOREACH (sub, &ch->subscriptions, channel_link) {
		sub->consumer.prefetch = prefetch;
		if (sub->consumer.queue)
			consumer_update(&sub->consumer);
	}
}

void session_limit_change(struct channel *ch, uint32_t prefetch)
{
	struct subscription *sub;

	if (!ch->credit.limit)
		session_limit_channel(ch, prefetch);
	TAILQ_FOREACH (sub, &ch->subscriptions, channel_link)
		if (!sub->consumer.is_auto_ack && sub->consumer.queue)
			consumer_share(&sub->consumer, &ch->credit);
	credit_change(&ch->credit, prefetch);
}

void session_close_channel(struct channel *ch, struct reply *r)
{
	channel_end(ch);
	ch->is_closing = true;
	reply_ok(r);
}

uint64_t session_route_version(const struct session *s)
{
	return s->broker->route_version;
}

bool session_is_stranger(const struct session *s)
{
	return !s->subject.user && !service_users_is_open(s->service);
}

bool session_is_logging_in(const struct session *s)
{
	return s->logging_in != NULL;
}

bool session_is_shut_out(const struct session *s)
{
	return s->is_shut_out;
}

bool session_is_answered(const struct session *s)
{
	return s->pending == 0;
}

void session_begin(struct session *s)
{
	struct broker *b = s->broker;

	broker_begin(b);
	turn_time_enter(&b->turn_time, TURN_REQUESTS, s->number, b->pace.began_ns);
}

void session_name_request(struct session *s, const char *what)
{
	turn_time_name(&s->broker->turn_time, what, uv_hrtime());
}

bool session_is_spent(struct session *s, bool is_heavy)
{
	return pace_is_spent(&s->broker->pace, is_heavy);
}

struct session_facts session_facts(const struct session *s)
{
	const struct broker_config *c = &s->broker->config;

	return (struct session_facts){ vhost_slice(s->vhost),
				       s->number,
				       c->node,
				       c->channels_max,
				       store_confirm_level(s->broker->store),
				       service_net_cell(s->service),
				       service_net_cells(s->service) };
}

/* A session that acts for another one and may outlive it. */

struct session *session_beside_create(const struct session *s,
				      const struct session_ops *ops, void *ctx)
{
	struct session *beside = session_create(s->service, ops, ctx);

	beside->is_beside = true;
	beside->is_visitor = s->is_visitor;
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

/* The messages that a channel holds. */

bool session_held_any(const struct channel *ch)
{
	return ch->held.count > 0 || !RB_EMPTY(&ch->holder.runs);
}

uint64_t session_held_skip(struct channel *ch)
{
	return ++ch->held.last_tag;
}

bool session_held_was_given(const struct channel *ch, uint64_t tag, uint64_t id)
{
	const struct entry *e = held_from(&ch->held, tag);

	return tag > 0 && tag <= ch->held.last_tag &&
	       (!e || e->tag != tag || e->id == id);
}
