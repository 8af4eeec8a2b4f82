#include "redis_conn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "host/log.h"
#include "layout.h"
#include "redis_link.h"
#include "resp.h"
#include "slots.h"

#define BACKOFF_FIRST_MS 10
/* A standby waits longer for a holder that comes back after an outage of Redis. */
#define BACKOFF_MAX_MS 1000
/* A connection that held for as long ends the growth of the pauses: one that
 * is lost as soon as it is used (a Redis whose disk is full) does not. */
#define STEADY_MS 5000
#define LOADING_RETRY_MS 100
/* Until a Sentinel is asked again. */
#define SENTINEL_RETRY_MS 250
/* So many connections, one after the other, may be lost over one request. */
#define REQUEST_LOSSES_MAX 8
/* How long a patient first connection is tried at all. */
#define PATIENCE_MS 60000
/* The timeout is counted in ticks and not read from the clock, so that a
 * pause of our own process does not look like a silent Redis. */
#define TICKS_PER_TIMEOUT 12
/* So long it is told that Redis is silent before the connection is given up. */
#define TICKS_OF_SILENCE 4
/* Between two tries of a write that Redis refuses for lack of replicas. */
#define HOLD_FIRST_MS 20
#define HOLD_MAX_MS 500

static void lose(struct redis_conn *c, bool is_final, const char *format, ...)
	TIDE_PRINTF(3, 4);
static void try_connect(struct redis_conn *c);
static void send_holder_round(struct redis_conn *c);
static void refuse_all(struct redis_conn *c, const char *text);
static void on_grace_over(uv_timer_t *timer);

/* The prepare callback runs before the loop sleeps. The idle handle does
 * nothing but keep the loop from sleeping, for the case that the flush was
 * asked for by another prepare callback, when ours has already run. */
static void on_idle(uv_idle_t *handle)
{
}

static void on_prepare(uv_prepare_t *handle)
{
	struct redis_conn *c = handle->data;
	struct redis_request *wait;

	uv_prepare_stop(&c->prepare);
	uv_idle_stop(&c->idle);
	if (c->state == STORE_STALE) {
		refuse_all(c, c->stale);
		return;
	}
	if (!c->link)
		return;
	wait = c->phase == PHASE_UP ? redis_confirm_next(&c->confirm) : NULL;
	if (wait)
		redis_link_send(c->link, wait);
	redis_link_flush(c->link);
}

static void schedule_flush(struct redis_conn *c)
{
	if (uv_is_active((uv_handle_t *)&c->prepare))
		return;
	c->asked_ns = uv_hrtime();
	uv_prepare_start(&c->prepare, on_prepare);
	uv_idle_start(&c->idle, on_idle);
}

static void tell_elsewhere(struct redis_conn *c)
{
	if (c->config.is_cluster && !c->is_closing)
		c->hooks.on_elsewhere(c->hooks.ctx);
}

static bool has_sentinel(const struct redis_conn *c)
{
	return c->config.url->kind == REDIS_URL_SENTINEL;
}

static bool is_owed(const struct redis_conn *c)
{
	bool is_pausing = c->is_held && !c->last_sent;

	return c->phase != PHASE_UP || (c->stats.pending_requests > 0 && !is_pausing) ||
	       c->is_beat_out || c->is_watch_out || c->trouble.key.is_out;
}

bool redis_conn_is_silent(const struct redis_conn *c)
{
	return is_owed(c) && uv_hrtime() - c->heard_ns >
				     (uint64_t)3 * REDIS_HOLDER_BEAT_MS * 1000 * 1000;
}

static void on_tick(struct redis_conn *c)
{
	bool is_up = c->phase == PHASE_UP;

	if (!is_owed(c))
		uv_timer_stop(&c->timer);
	else if (++c->silent_ticks > TICKS_PER_TIMEOUT)
		lose(c, !is_up, "%sno reply within %g s", is_up ? "" : "connected, but ",
		     (double)c->config.command_timeout_ms / 1000);
	else if (c->silent_ticks == TICKS_OF_SILENCE)
		redis_trouble_silent(&c->trouble, uv_now(c->loop));
	if (c->silent_ticks >= TICKS_OF_SILENCE)
		tell_elsewhere(c);
}

static void on_timer(uv_timer_t *timer)
{
	struct redis_conn *c = timer->data;

	if (c->phase == PHASE_WAITING)
		try_connect(c);
	else if (c->phase == PHASE_CONNECTING)
		lose(c, false, "no %s within %g s",
		     redis_link_is_shaking(c->link)
			     ? "answer to TLS (is it a port with TLS?)"
			     : "connection",
		     (double)c->config.connect_timeout_ms / 1000);
	else if (c->phase == PHASE_STANDBY)
		send_holder_round(c);
	else
		on_tick(c);
}

/* Enter a phase that ends after `ms`, unless something else ends it. */
static void enter(struct redis_conn *c, enum phase phase, int64_t ms)
{
	c->phase = phase;
	uv_timer_start(&c->timer, on_timer, (uint64_t)ms, 0);
}

static void start_ticks(struct redis_conn *c)
{
	uint64_t tick_ms = (uint64_t)c->config.command_timeout_ms / TICKS_PER_TIMEOUT;

	c->silent_ticks = 0;
	uv_timer_start(&c->timer, on_timer, tick_ms ? tick_ms : 1, tick_ms ? tick_ms : 1);
}

static void drop_link(struct redis_conn *c)
{
	struct redis_requests unanswered;
	struct redis_link *link = c->link;

	if (!link)
		return;
	c->link = NULL;
	TAILQ_INIT(&unanswered);
	redis_link_close(link, &unanswered);
	if (c->phase != PHASE_UP)
		TAILQ_INIT(&unanswered); /* it was the greeting alone */
	else if (c->is_beat_out)
		TAILQ_REMOVE(&unanswered, &c->beat, entry);
	if (c->trouble.key.is_out)
		TAILQ_REMOVE(&unanswered, &c->trouble.key.request, entry);
	if (c->is_watch_out)
		TAILQ_REMOVE(&unanswered, &c->watch, entry);
	c->is_beat_out = c->is_watch_out = c->trouble.key.is_out = false;
	c->is_held = c->is_dropping = false;
	c->last_sent = NULL;
	TAILQ_CONCAT(&c->again, &unanswered, entry);
	TAILQ_CONCAT(&unanswered, &c->again, entry);
	redis_confirm_lose(&c->confirm, &unanswered);
	TAILQ_CONCAT(&unanswered, &c->waiting, entry);
	TAILQ_CONCAT(&c->waiting, &unanswered, entry);
}

static int64_t next_backoff(struct redis_conn *c)
{
	int64_t pause_ms = c->backoff_ms;
	/* A failover is not to be waited for longer than it takes. */
	int64_t max_ms = has_sentinel(c) ? SENTINEL_RETRY_MS : BACKOFF_MAX_MS;

	/* A Redis that was just started listens after some 20 ms. */
	if (c->state == STORE_STARTING && !c->is_standing_by)
		return has_sentinel(c) ? SENTINEL_RETRY_MS : BACKOFF_FIRST_MS;
	c->backoff_ms = pause_ms * 2 < max_ms ? pause_ms * 2 : max_ms;
	return pause_ms;
}

static void set_state(struct redis_conn *c, enum store_state state, const char *why)
{
	c->state = state;
	c->hooks.on_state(c->hooks.ctx, state, why);
}

static bool is_start_over(const struct redis_conn *c, bool is_final)
{
	if (c->state != STORE_STARTING || c->is_standing_by || c->config.is_joining)
		return false;
	return is_final || !c->config.is_patient ||
	       uv_now(c->loop) - c->began_at_ms > PATIENCE_MS;
}

/* A command that Redis cannot read, because a word of it is too long for one,
 * ends the connection, and would end the next one as well. */
static void note_refusal(struct redis_conn *c, struct redis_request *r,
			 const redisReply *reply)
{
	if (reply->type != REDIS_REPLY_ERROR ||
	    strncmp(reply->str, "ERR Protocol error", 18) != 0)
		return;
	c->suspect = r;
	c->suspect_losses = 0;
	snprintf(c->refusal, sizeof(c->refusal), "%s", reply->str);
}

static void forget_suspect(struct redis_conn *c)
{
	c->suspect = NULL;
	c->suspect_losses = 0;
	c->refusal[0] = '\0';
}

/* Redis is not to blame for what it answered and what was held. */
static struct redis_request *first_unanswered(struct redis_conn *c)
{
	struct redis_request *r = TAILQ_FIRST(&c->waiting);

	while (r && r->answered == r->replies)
		r = TAILQ_NEXT(r, entry);
	return r;
}

/* A working link was lost. The request that is to be given up, or NULL. */
static struct redis_request *find_culprit(struct redis_conn *c)
{
	struct redis_request *first = c->refusal[0] ? c->suspect : first_unanswered(c);

	if (first != c->suspect)
		forget_suspect(c);
	c->suspect = first;
	if (first && (++c->suspect_losses == REQUEST_LOSSES_MAX || c->refusal[0]))
		return first;
	return NULL;
}

/* Take a request out of those that wait. */
static void take_waiting(struct redis_conn *c, struct redis_request *r)
{
	TAILQ_REMOVE(&c->waiting, r, entry);
	c->stats.pending_requests--;
	c->stats.pending_bytes -= r->bytes;
}

static void close_if_idle(struct redis_conn *c)
{
	if (c->is_closing && c->stats.pending_requests == 0)
		uv_timer_start(&c->grace, on_grace_over, 0, 0);
}

static void answer_with_error(struct redis_conn *c, struct redis_request *r,
			      const char *text)
{
	redisReply reply = { .type = REDIS_REPLY_ERROR,
			     .str = (char *)(uintptr_t)text,
			     .len = strlen(text) };
	unsigned replies = r->replies, slot = r->slot;

	take_waiting(c, r);
	for (unsigned i = 1; i <= replies; i++) {
		r->answered = i;
		/* A request behind one that has bounced bounces too. */
		if (c->hooks.may_answer && !c->hooks.may_answer(c->hooks.ctx, r, &reply))
			continue;
		r->on_reply(r, &reply);
		if (i == replies && c->hooks.on_answered)
			c->hooks.on_answered(c->hooks.ctx, slot);
	}
}

/* Requests made meanwhile wait for the next turn. */
static void refuse_all(struct redis_conn *c, const char *text)
{
	struct redis_request *r;

	forget_suspect(c);
	for (uint64_t n = c->stats.pending_requests; n > 0; n--) {
		r = TAILQ_FIRST(&c->waiting);
		c->stats.refused[STORE_TROUBLE_OTHER]++;
		answer_with_error(c, r, text);
	}
	close_if_idle(c);
}

static void give_up(struct redis_conn *c, struct redis_request *r)
{
	struct error err;

	if (c->refusal[0])
		error_set(&err, TIDE_ESTORE, "%s", c->refusal);
	else
		error_set(&err, TIDE_ESTORE,
			  "%u connections to Redis were lost over this request",
			  c->suspect_losses);
	log_error("store: giving up a request of %zu bytes, the others continue: "
		  "%s",
		  r->bytes, err.text);
	forget_suspect(c);
	answer_with_error(c, r, err.text);
	close_if_idle(c);
}

/* Redis cannot be reached: its former troubles are forgotten. */
static void forget_redis(struct redis_conn *c)
{
	redis_trouble_forget(&c->trouble);
	c->hello.verdict = REDIS_HELLO_OK;
}

/* The link is gone, or could not be made. `is_final`: a first connection is
 * not tried again. */
static void lose(struct redis_conn *c, bool is_final, const char *format, ...)
{
	struct redis_request *culprit = NULL;
	bool was_standby = c->is_standing_by &&
			   (c->phase == PHASE_HOLDER || c->phase == PHASE_STANDBY);
	char why[ERROR_TEXT_MAX];
	struct error err;
	va_list args;

	va_start(args, format);
	vsnprintf(why, sizeof(why), format, args);
	va_end(args);
	error_set(&err, TIDE_ESTORE, "Redis at %s: %s", c->config.address, why);
	drop_link(c);
	if (c->phase == PHASE_UP)
		culprit = find_culprit(c);
	else if (c->phase == PHASE_CONNECTING)
		forget_redis(c);
	uv_timer_stop(&c->timer);
	tell_elsewhere(c);
	if (is_start_over(c, is_final)) {
		c->phase = PHASE_FAILED;
		set_state(c, STORE_FAILED, err.text);
		return;
	}
	if (c->state == STORE_UP && uv_now(c->loop) - c->up_at_ms > STEADY_MS)
		c->backoff_ms = BACKOFF_FIRST_MS;
	enter(c, PHASE_WAITING, next_backoff(c));
	if (c->state == STORE_UP ||
	    (c->config.is_joining && c->state == STORE_STARTING)) {
		c->began_at_ms = uv_now(c->loop);
		if (c->is_leaving)
			log_info("store: %s; connecting anew", err.text);
		else
			log_error("store: lost %s; reconnecting", err.text);
		set_state(c, STORE_DOWN, err.text);
	} else if (was_standby) {
		log_error("store: lost %s; still standing by, reconnecting", err.text);
	} else if (c->config.is_patient && !c->config.is_sole &&
		   c->state == STORE_STARTING && !c->is_waiting_told) {
		log_info("store: %s; %s", err.text,
			 has_sentinel(c) ? "waiting for the Sentinels to name another"
					 : "trying again");
		c->is_waiting_told = true;
	} else {
		log_debug("store: %s", err.text);
	}
	if (culprit)
		give_up(c, culprit);
}

static void tell_up(struct redis_conn *c)
{
	struct error err;
	const struct redis_hello *h = &c->hello;
	unsigned long long again = c->stats.pending_requests;

	error_set(&err, TIDE_OK, "Redis %s at %s, %s%s%s", h->version, c->config.address,
		  h->is_append_only ? "append-only" : "no append-only file",
		  h->is_append_only && h->fsync[0] ? ", fsync " : "",
		  h->is_append_only ? h->fsync : "");
	if (c->state == STORE_STARTING) {
		redis_hello_tell(h, err.text, c->config.address,
				 has_sentinel(c) && c->config.hold != STORE_HOLD_NONE);
	} else {
		c->stats.reconnects++;
		log_info("store: %s is back after %llu ms, %llu request%s sent again",
			 err.text, (unsigned long long)(uv_now(c->loop) - c->began_at_ms),
			 again, again == 1 ? "" : "s");
	}
	if (h->is_cluster && !c->config.self->is_told &&
	    c->config.hold != STORE_HOLD_NONE)
		c->config.self->is_told = redis_hello_warn(h, c->config.address);
	set_state(c, STORE_UP, err.text);
}

/* Send a request of the connection itself: not counted, and not sent again. */
static void ask(struct redis_conn *c, struct redis_request *r)
{
	redis_link_send(c->link, r);
	schedule_flush(c);
	if (!uv_is_active((uv_handle_t *)&c->timer))
		start_ticks(c);
}

/* The owner of a cell looks at the others. */
static void ask_cells(struct redis_conn *c)
{
	if (c->holder.is_guest || c->is_watch_out)
		return;
	buf_clear(&c->watch_bytes);
	c->watch.replies = redis_cells_ask(&c->config.self->cells, &c->watch_bytes);
	c->watch_part = redis_request_part(buf_slice(&c->watch_bytes));
	c->is_watch_out = c->watch.replies > 0;
	if (c->is_watch_out)
		ask(c, &c->watch);
}

static void on_beat(uv_timer_t *timer)
{
	struct redis_conn *c = timer->data;

	if (c->phase != PHASE_UP || c->is_beat_out)
		return;
	c->is_beat_out = true;
	redis_confirm_look(&c->confirm);
	ask(c, &c->beat);
	ask_cells(c);
	if (redis_trouble_tick(&c->trouble, uv_now(c->loop)))
		ask(c, &c->trouble.key.request);
}

static void count_sent(struct redis_conn *c, struct redis_request *r)
{
	r->count =
		r->is_write && c->config.hold != STORE_HOLD_NONE ? &c->count_part : NULL;
	r->bytes = r->count ? r->count->len : 0;
	r->answered = 0;
	r->number = 0;
	for (unsigned i = 0; i < r->part_count; i++)
		r->bytes += r->parts[i].len;
	c->stats.requests++;
	c->stats.commands += r->replies + (r->count != NULL);
	c->stats.pending_bytes += r->bytes;
	c->stats.pending_requests++;
}

/* A promoted replica lacks the last writes of its predecessor, or may lack them. Before
 * everything else: what is unanswered was asked later. */
static void replay(struct redis_conn *c)
{
	struct redis_requests lacking = TAILQ_HEAD_INITIALIZER(lacking);
	struct redis_request *r;
	uint64_t has = c->holder.record.writes;
	unsigned count;

	if (c->is_record_new)
		redis_replay_restart(&c->replay, has);
	c->is_record_new = false;
	if (!redis_replay_has_above(&c->replay, has))
		return;
	count = redis_replay_take(&c->replay, has, &lacking);
	log_warn(
		"store: Redis at %s lacks the last %u writes of the master before it, or "
		"may lack them: they are sent again",
		c->config.address, count);
	TAILQ_FOREACH (r, &lacking, entry) {
		r->asked_ns = uv_hrtime();
		count_sent(c, r);
		if (c->hooks.on_own)
			c->hooks.on_own(c->hooks.ctx, r);
	}
	TAILQ_CONCAT(&lacking, &c->waiting, entry);
	TAILQ_CONCAT(&c->waiting, &lacking, entry);
}

/* The pending requests are about messages that this master lacks. */
static void forget_all(struct redis_conn *c)
{
	c->has_gap = false;
	c->is_record_new = true;
	redis_replay_clear(&c->replay);
	refuse_all(c, "Redis lost some of the last writes in a failover");
}

static void give_to_link(struct redis_conn *c, struct redis_request *r)
{
	c->stats.bytes_sent += r->bytes;
	redis_link_send(c->link, r);
	c->last_sent = r;
}

static void send_waiting(struct redis_conn *c)
{
	struct redis_request *r;

	while ((r = TAILQ_FIRST(&c->waiting))) {
		TAILQ_REMOVE(&c->waiting, r, entry);
		give_to_link(c, r);
	}
	redis_confirm_note(&c->confirm);
	schedule_flush(c);
}

/* Requests on their way point to the bytes: the link is dropped before they change. */
static void point_at_commands(struct redis_conn *c)
{
	c->beat_part = redis_request_part(redis_holder_beat(&c->holder));
	c->count_part = redis_request_part(redis_holder_count(&c->holder));
}

static void enter_up(struct redis_conn *c)
{
	bool has_gap = c->has_gap;

	redis_replay_begin(&c->replay);
	if (has_gap)
		forget_all(c);
	replay(c);
	point_at_commands(c);
	c->phase = PHASE_UP;
	c->up_at_ms = uv_now(c->loop);
	c->is_waiting_told = false;
	send_waiting(c);
	start_ticks(c);
	if (c->config.hold != STORE_HOLD_NONE)
		uv_timer_start(&c->beat_timer, on_beat, 0, REDIS_HOLDER_BEAT_MS);
	tell_up(c);
	if (has_gap)
		c->hooks.on_gap(c->hooks.ctx);
}

/* Somebody else has the store: nothing is sent any more. */
static void lose_for_good(struct redis_conn *c)
{
	struct error err;

	error_set(&err, TIDE_ESTORE, "Redis at %s: %s", c->config.address,
		  c->holder.reason);
	drop_link(c);
	uv_timer_stop(&c->timer);
	c->phase = PHASE_FAILED;
	if (c->is_closing)
		uv_timer_start(&c->grace, on_grace_over, 0, 0);
	set_state(c, STORE_FAILED, err.text);
}

static void send_greeting(struct redis_conn *c, enum phase phase, unsigned replies)
{
	c->greeting_part = redis_request_part(buf_slice(&c->greeting_bytes));
	c->greeting.replies = replies;
	c->greeting.parts = &c->greeting_part;
	c->greeting.part_count = 1;
	c->phase = phase;
	start_ticks(c);
	redis_link_send(c->link, &c->greeting);
	redis_link_flush(c->link);
}

static void send_holder_round(struct redis_conn *c)
{
	buf_clear(&c->greeting_bytes);
	send_greeting(c, PHASE_HOLDER,
		      redis_holder_round(&c->holder, &c->greeting_bytes));
}

static void stand_by(struct redis_conn *c)
{
	c->is_standing_by |= c->config.hold == STORE_HOLD_OR_WAIT;
	c->backoff_ms = BACKOFF_FIRST_MS;
	enter(c, PHASE_STANDBY, REDIS_HOLDER_PAUSE_MS);
}

/* Redis lacks confirmed writes: no more are made beside them. */
static void stand_off(struct redis_conn *c)
{
	snprintf(c->stale, sizeof(c->stale), "%s", c->holder.reason);
	enter(c, PHASE_STANDBY, REDIS_HOLDER_PAUSE_MS);
	schedule_flush(c);
	if (c->state == STORE_STALE)
		return;
	log_error("store: Redis at %s: %s", c->config.address, c->stale);
	set_state(c, STORE_STALE, c->stale);
}

/* A promoted replica lacks the last writes of its predecessor. Where nobody can have been
 * promoted the data was lost, and may come back. */
static bool may_go_on(struct redis_conn *c)
{
	uint64_t lost = c->holder.writes - c->holder.record.writes;
	bool had_gap = c->has_gap, has_all_before;

	if (!c->replay.is_on || !redis_holder_accept(&c->holder, &has_all_before))
		return false;
	c->has_gap |= !has_all_before ||
		      !redis_replay_reaches(&c->replay, c->holder.record.writes);
	if (c->has_gap && !had_gap)
		log_error("store: Redis at %s lacks the last %llu writes of the master "
			  "before it, and not all of them are known any more: they are "
			  "lost, and what it has is read anew",
			  c->config.address, (unsigned long long)lost);
	return true;
}

/* The same trouble at each try is told once. */
static void refused(struct redis_conn *c, const char *why)
{
	if (c->state != STORE_STARTING && !c->is_waiting_told)
		log_error("store: Redis at %s: %s; trying again", c->config.address, why);
	lose(c, true, "%s", why);
	c->is_waiting_told = true;
}

/* This Redis is no master, or not yet. */
static void wait_for_master(struct redis_conn *c, int64_t pause_ms)
{
	c->began_at_ms = uv_now(c->loop);
	drop_link(c);
	enter(c, PHASE_WAITING, pause_ms);
	tell_elsewhere(c);
}

static void on_holder_reply(struct redis_conn *c, const redisReply *reply)
{
	redis_holder_reply(&c->holder, c->greeting.answered - 1, reply);
	if (c->greeting.answered < c->greeting.replies)
		return;
	switch (redis_holder_judge(&c->holder)) {
	case REDIS_HOLDER_OURS:
		enter_up(c);
		break;
	case REDIS_HOLDER_MORE:
		send_holder_round(c);
		break;
	case REDIS_HOLDER_OTHER:
		stand_by(c);
		break;
	case REDIS_HOLDER_HELD:
		if (!c->is_waiting_told)
			log_warn("store: Redis at %s: %s; waiting", c->config.address,
				 redis_trouble_text(&c->trouble, STORE_TROUBLE_REPLICAS));
		c->is_waiting_told = true;
		stand_by(c);
		break;
	case REDIS_HOLDER_LOST:
		lose_for_good(c);
		break;
	case REDIS_HOLDER_STALE:
		if (may_go_on(c))
			send_holder_round(c);
		else
			stand_off(c);
		break;
	case REDIS_HOLDER_ELSEWHERE:
		wait_for_master(c, LOADING_RETRY_MS);
		break;
	case REDIS_HOLDER_REFUSED:
		refused(c, c->holder.reason);
		break;
	}
}

static void on_hello_reply(struct redis_conn *c, const redisReply *reply)
{
	struct redis_hello *h = &c->hello;

	redis_hello_reply(h, c->greeting.answered - 1, reply);
	if (c->greeting.answered < c->greeting.replies)
		return;
	redis_trouble_set_replicas(&c->trouble, h->replicas_min, h->replicas_good);
	if (h->verdict == REDIS_HELLO_OK && c->config.hold == STORE_HOLD_NONE) {
		enter_up(c);
	} else if (h->verdict == REDIS_HELLO_OK) {
		redis_holder_begin(&c->holder, (unsigned)atoi(h->version));
		send_holder_round(c);
	} else if (h->verdict == REDIS_HELLO_WAIT) {
		if (!c->is_waiting_told)
			log_info("store: Redis at %s: %s; waiting", c->config.address,
				 h->reason);
		c->is_waiting_told = true;
		wait_for_master(c,
				has_sentinel(c) ? SENTINEL_RETRY_MS : LOADING_RETRY_MS);
	} else if (h->verdict == REDIS_HELLO_CLUSTER) {
		drop_link(c);
		uv_timer_stop(&c->timer);
		c->phase = PHASE_FAILED;
		c->hooks.on_cluster(c->hooks.ctx);
	} else {
		refused(c, h->reason);
	}
}

static void on_link_connected(void *ctx)
{
	struct redis_conn *c = ctx;

	buf_clear(&c->greeting_bytes);
	send_greeting(c, PHASE_HELLO, redis_hello_begin(&c->hello, &c->greeting_bytes));
}

static void on_beat_reply(struct redis_conn *c, const redisReply *reply)
{
	c->is_beat_out = c->beat.answered < c->beat.replies;
	if (c->beat.answered == c->beat.replies && reply->type == REDIS_REPLY_STRING) {
		struct slice info = { reply->str, reply->len };

		redis_replay_info(&c->replay, info);
		redis_trouble_set_replicas(
			&c->trouble, c->hello.replicas_min,
			resp_info_number(info, "min_slaves_good_slaves"));
	}
	if (has_sentinel(c) && redis_trouble_is_elsewhere(reply)) {
		lose(c, false, "it is no master any more: %s", reply->str);
		return;
	}
	if (c->config.is_cluster && slots_bounce(reply) != BOUNCE_NONE) {
		tell_elsewhere(c);
		return;
	}
	redis_trouble_reply(&c->trouble, &c->beat, reply, uv_now(c->loop));
	/* A new link finds out what is so: the store may be ours to take again.
	 */
	if (c->beat.answered == 1 && !redis_holder_is_ours(&c->holder, reply))
		lose(c, false, "{tide}:holder does not name this broker any more");
}

static void on_link_count(void *ctx, struct redis_request *r, const redisReply *reply)
{
	struct redis_conn *c = ctx;

	r->number = reply->type == REDIS_REPLY_INTEGER ? (uint64_t)reply->integer : 0;
	/* Writes before the count may be lost with the former master. */
	if (has_sentinel(c) && redis_trouble_is_elsewhere(reply))
		lose(c, false, "it is no master any more: %s", reply->str);
	else if (c->config.is_cluster && slots_bounce(reply) != BOUNCE_NONE)
		tell_elsewhere(c); /* the record lies elsewhere now */
	else if (!redis_holder_is_counted(&c->holder, reply, c->stats.pending_requests))
		lose(c, false, "it lacks what it has confirmed");
}

static void on_link_bytes(void *ctx)
{
	struct redis_conn *c = ctx;

	c->silent_ticks = 0;
	redis_trouble_heard(&c->trouble, uv_now(c->loop));
	c->heard_ns = uv_hrtime();
	c->hooks.on_heard(c->hooks.ctx, c->heard_ns);
}

static void count_answered(struct redis_conn *c, struct redis_request *r)
{
	c->stats.pending_requests--;
	c->stats.pending_bytes -= r->bytes;
	if (r == c->suspect)
		forget_suspect(c);
}

static void answer(struct redis_conn *c, struct redis_request *r, const redisReply *reply)
{
	bool is_last = r->answered == r->replies;
	bool is_gap = is_last && r->is_replayed && r->is_refused;
	unsigned slot = r->slot;

	if (is_last) {
		tally_add(&c->stats.round_trip, tally_times_ns,
			  c->heard_ns - r->asked_ns);
		count_answered(c, r);
		if (r->count)
			redis_replay_add(&c->replay, r, r->number);
	}
	r->on_reply(r, reply);
	if (is_last && c->hooks.on_answered)
		c->hooks.on_answered(c->hooks.ctx, slot);
	close_if_idle(c);
	if (is_gap && c->link) {
		c->has_gap = true;
		lose(c, false,
		     "it refuses a write that the master before it has confirmed, which "
		     "is lost: what it has is read anew");
	}
}

/* Of a node of a Redis Cluster: a request that bounces is no longer this
 * connection's with its last reply. */
static bool may_answer(struct redis_conn *c, struct redis_request *r,
		       const redisReply *reply)
{
	bool is_last = r->answered == r->replies;

	if (c->hooks.may_answer(c->hooks.ctx, r, reply))
		return true;
	if (is_last) {
		count_answered(c, r);
		close_if_idle(c);
	}
	return false;
}

/* The first of those that are held is tried alone. */
static void try_held(struct redis_conn *c)
{
	struct redis_request *r = TAILQ_FIRST(&c->waiting);

	if (!r) {
		c->is_held = false;
		return;
	}
	TAILQ_REMOVE(&c->waiting, r, entry);
	give_to_link(c, r);
	redis_confirm_note(&c->confirm);
	schedule_flush(c);
	if (!uv_is_active((uv_handle_t *)&c->timer))
		start_ticks(c);
}

static void on_hold_over(uv_timer_t *timer)
{
	struct redis_conn *c = timer->data;

	if (c->is_held && !c->last_sent)
		try_held(c);
}

/* Redis lacks replicas. */
static void hold(struct redis_conn *c)
{
	c->hold_ms = c->is_held ? 2 * c->hold_ms : HOLD_FIRST_MS;
	if (c->hold_ms > HOLD_MAX_MS)
		c->hold_ms = HOLD_MAX_MS;
	c->is_held = c->is_dropping = true;
	/* Perhaps it was replaced. */
	tell_elsewhere(c);
}

/* Is the request to be sent again, so that its owner is not told the reply? */
static bool hold_back(struct redis_conn *c, struct redis_request *r,
		      const redisReply *reply)
{
	bool is_last = r->answered == r->replies;

	if (is_last && r == c->last_sent)
		c->last_sent = NULL;
	if (!c->is_dropping) {
		if (!redis_trouble_passes(r, reply))
			return false;
		redis_trouble_reply(&c->trouble, r, reply, uv_now(c->loop));
		if (r->is_replayed && !c->is_held)
			log_error("store: Redis at %s refuses a write that the master "
				  "before it has confirmed: it is tried again, and what "
				  "else is asked waits",
				  c->config.address);
		hold(c);
	}
	if (!is_last)
		return true;
	r->was_lost = true;
	TAILQ_INSERT_TAIL(&c->again, r, entry);
	if (c->last_sent)
		return true;
	c->is_dropping = false;
	TAILQ_CONCAT(&c->again, &c->waiting, entry);
	TAILQ_CONCAT(&c->waiting, &c->again, entry);
	uv_timer_start(&c->hold_timer, on_hold_over, c->hold_ms, 0);
	return true;
}

/* The request that was tried alone was not refused. One that only reads proves nothing.
 */
static void end_hold(struct redis_conn *c, bool is_write)
{
	if (!c->is_held || c->last_sent || !c->link)
		return;
	if (!is_write) {
		try_held(c);
		return;
	}
	c->is_held = false;
	send_waiting(c);
}

/* Replicas have all that was written before, or too few of them. */
static void on_confirm_reply(struct redis_conn *c, struct redis_request *wait,
			     const redisReply *reply)
{
	bool is_confirmed = redis_confirm_reply(&c->confirm, reply);
	struct redis_request *r;
	redisReply *held;

	redis_trouble_reply(&c->trouble, wait, reply, uv_now(c->loop));
	redis_trouble_unconfirmed(&c->trouble, !is_confirmed, uv_now(c->loop));
	if (is_confirmed)
		redis_holder_confirm(&c->holder);
	while (is_confirmed && (r = redis_confirm_take(&c->confirm, &held))) {
		answer(c, r, held);
		mem_free(held);
	}
	if (c->confirm.is_due)
		schedule_flush(c);
}

/* A Redis that is no master answered: the request counts as unanswered. */
static void return_request(struct redis_conn *c, struct redis_request *r,
			   const char *words)
{
	char why[ERROR_TEXT_MAX];

	snprintf(why, sizeof(why), "%s", words);
	/* With its last answer it has left the link. */
	if (r->answered == r->replies)
		redis_link_return(c->link, r);
	/* No request is to blame. */
	forget_suspect(c);
	lose(c, false, "it is no master any more: %s", why);
	forget_suspect(c);
}

static void answer_link(struct redis_conn *c, struct redis_request *r,
			const redisReply *reply)
{
	if (c->hooks.may_answer && !may_answer(c, r, reply))
		return;
	note_refusal(c, r, reply);
	if (redis_trouble_reply(&c->trouble, r, reply, uv_now(c->loop)))
		ask(c, &c->trouble.key.request);
	if (!c->config.confirm->is_begun || !redis_confirm_hold(&c->confirm, r, reply))
		answer(c, r, reply);
}

static void on_request_reply(struct redis_conn *c, struct redis_request *r,
			     const redisReply *reply)
{
	bool is_tried, is_write;

	if (hold_back(c, r, reply))
		return;
	is_tried = c->is_held && r->answered == r->replies;
	is_write = r->is_write;
	answer_link(c, r, reply);
	if (is_tried)
		end_hold(c, is_write);
}

static void on_link_reply(void *ctx, struct redis_request *r, const redisReply *reply)
{
	struct redis_conn *c = ctx;

	if (r == &c->greeting && c->phase == PHASE_HELLO)
		on_hello_reply(c, reply);
	else if (r == &c->greeting)
		on_holder_reply(c, reply);
	else if (r == &c->beat)
		on_beat_reply(c, reply);
	else if (r == &c->watch)
		c->is_watch_out = redis_cells_answer(&c->config.self->cells, r, reply,
						     c->config.url->db);
	else if (r == &c->trouble.key.request)
		redis_trouble_key_reply(&c->trouble, reply, uv_now(c->loop));
	else if (r == &c->confirm.request && r->answered < r->replies)
		return; /* WAIT, before WAITAOF */
	else if (r == &c->confirm.request)
		on_confirm_reply(c, r, reply);
	else if (has_sentinel(c) && redis_trouble_is_elsewhere(reply))
		return_request(c, r, reply->str);
	else
		on_request_reply(c, r, reply);
}

static void on_link_lost(void *ctx, const char *why)
{
	struct redis_conn *c = ctx;
	/* Redis tells why it hangs up in a reply to whatever was asked first. */
	bool has_reason = c->phase == PHASE_HELLO && c->hello.complaint[0];

	lose(c, false, "%s%s%s", why, has_reason ? ": " : "",
	     has_reason ? c->hello.complaint : "");
}

static void on_part_closed(void *ctx)
{
	struct redis_conn *c = ctx;

	if (--c->open_count > 0)
		return;
	redis_holder_deinit(&c->holder);
	redis_trouble_deinit(&c->trouble);
	redis_replay_deinit(&c->replay);
	buf_deinit(&c->greeting_bytes);
	buf_deinit(&c->watch_bytes);
	c->on_closed(c->closed_ctx);
	mem_free(c);
}

static void on_handle_closed(uv_handle_t *handle)
{
	on_part_closed(handle->data);
}

static void try_connect(struct redis_conn *c)
{
	c->phase = PHASE_ASKING;
	c->hooks.before_connect(c->hooks.ctx);
}

void redis_conn_connect(struct redis_conn *c, struct tls_context *tls)
{
	static const struct redis_link_ops ops = {
		.on_connected = on_link_connected,
		.on_bytes = on_link_bytes,
		.on_count = on_link_count,
		.on_reply = on_link_reply,
		.on_lost = on_link_lost,
		.on_closed = on_part_closed,
	};
	int rc;

	if (c->phase != PHASE_ASKING)
		return;
	c->link = redis_link_create(c->loop, &c->config.url->at, tls, &ops, c);
	c->open_count++;
	enter(c, PHASE_CONNECTING, c->config.connect_timeout_ms);
	rc = redis_link_connect(c->link);
	if (rc < 0)
		lose(c, false, "%s", uv_strerror(rc));
}

void redis_conn_cannot_connect(struct redis_conn *c, const char *why, const char *unfit)
{
	if (c->phase != PHASE_ASKING)
		return;
	if (!unfit) {
		lose(c, true, "%s", why);
		return;
	}
	forget_redis(c);
	redis_hello_refuse(&c->hello, unfit);
	refused(c, why);
}

void redis_conn_leave(struct redis_conn *c, const char *why)
{
	/* No request is to blame. */
	forget_suspect(c);
	c->is_leaving = true;
	if (c->link)
		lose(c, false, "%s", why);
	c->is_leaving = false;
	forget_suspect(c);
	if (c->phase == PHASE_WAITING)
		enter(c, PHASE_WAITING, 0);
}

void redis_conn_set_record(struct redis_conn *c, const char *key, const char *probe)
{
	redis_conn_leave(c, "its slots are others now");
	redis_holder_set_key(&c->holder, key, probe);
	c->holder.is_guest = c->is_record_new = true;
	point_at_commands(c);
}

void redis_conn_move_record(struct redis_conn *from, struct redis_conn *to)
{
	redis_conn_leave(to, "{tide}:holder has moved to it");
	redis_conn_leave(from, "{tide}:holder has moved from it");
	redis_holder_move(&from->holder, &to->holder);
	from->is_record_new = to->is_record_new = true;
	point_at_commands(to);
}

void redis_conn_take_all(struct redis_conn *c, struct redis_requests *out)
{
	struct redis_request *r;

	drop_link(c);
	uv_timer_stop(&c->timer);
	c->phase = PHASE_FAILED;
	forget_suspect(c);
	while ((r = TAILQ_FIRST(&c->waiting)) != NULL) {
		take_waiting(c, r);
		TAILQ_INSERT_TAIL(out, r, entry);
	}
}

static void init_holder(struct redis_conn *c)
{
	c->holder.hold = c->config.hold;
	c->holder.node = c->config.node;
	c->holder.db = c->config.url->db;
	c->holder.is_sole = c->config.is_sole;
	c->holder.is_confirmed_late = c->config.confirm->is.replicas > 0;
	c->holder.self = c->config.self;
	c->holder.has_slots = c->config.is_cluster;
	redis_holder_set_key(&c->holder, LAYOUT_HOLDER_KEY, LAYOUT_PROBE_KEY);
	point_at_commands(c);
	c->beat.parts = &c->beat_part;
	c->beat.part_count = 1;
	c->beat.replies = REDIS_HOLDER_BEAT_REPLIES;
	c->watch.parts = &c->watch_part;
	c->watch.part_count = 1;
}

struct redis_conn *redis_conn_create(uv_loop_t *loop,
				     const struct redis_conn_config *config,
				     const struct redis_conn_hooks *hooks)
{
	struct redis_conn *c = mem_zalloc(sizeof(*c));

	c->loop = loop;
	c->config = *config;
	c->hooks = *hooks;
	c->state = STORE_STARTING;
	c->backoff_ms = BACKOFF_FIRST_MS;
	c->began_at_ms = uv_now(loop);
	c->hello.url = config->url;
	c->hello.set_fsync = config->set_fsync;
	c->hello.confirm = config->confirm;
	c->hello.is_cluster = config->is_cluster;
	init_holder(c);
	redis_confirm_init(&c->confirm, config->confirm);
	redis_replay_init(&c->replay);
	redis_trouble_init(&c->trouble, config->address, c->stats.refused);
	TAILQ_INIT(&c->waiting);
	TAILQ_INIT(&c->again);
	uv_timer_init(loop, &c->timer);
	uv_timer_init(loop, &c->grace);
	uv_timer_init(loop, &c->beat_timer);
	uv_timer_init(loop, &c->hold_timer);
	uv_prepare_init(loop, &c->prepare);
	uv_idle_init(loop, &c->idle);
	c->timer.data = c->grace.data = c->prepare.data = c->idle.data = c;
	c->beat_timer.data = c->hold_timer.data = c;
	c->open_count = 6;
	enter(c, PHASE_WAITING, 0);
	return c;
}

void redis_conn_send(struct redis_conn *c, struct redis_request *r)
{
	count_sent(c, r);
	if (c->stats.pending_requests == 1 && c->phase == PHASE_UP &&
	    !uv_is_active((uv_handle_t *)&c->timer))
		start_ticks(c);
	if (c->phase == PHASE_UP && !c->is_held) {
		give_to_link(c, r);
		if (r->is_write)
			redis_confirm_note(&c->confirm);
		schedule_flush(c);
		r->asked_ns = c->asked_ns;
	} else {
		r->asked_ns = uv_hrtime();
		TAILQ_INSERT_TAIL(&c->waiting, r, entry);
		if (c->state == STORE_STALE)
			schedule_flush(c);
	}
}

/* End: no answer is waited for any more. */
static void finish(struct redis_conn *c)
{
	struct redis_request *r;

	drop_link(c);
	c->phase = PHASE_CLOSED;
	while ((r = TAILQ_FIRST(&c->waiting))) {
		take_waiting(c, r);
		r->on_reply(r, NULL);
	}
	uv_close((uv_handle_t *)&c->timer, on_handle_closed);
	uv_close((uv_handle_t *)&c->grace, on_handle_closed);
	uv_close((uv_handle_t *)&c->beat_timer, on_handle_closed);
	uv_close((uv_handle_t *)&c->hold_timer, on_handle_closed);
	uv_close((uv_handle_t *)&c->prepare, on_handle_closed);
	uv_close((uv_handle_t *)&c->idle, on_handle_closed);
}

static void on_grace_over(uv_timer_t *timer)
{
	finish(timer->data);
}

void redis_conn_close(struct redis_conn *c, int64_t grace_ms,
		      void (*on_closed)(void *ctx), void *ctx)
{
	bool is_idle = c->stats.pending_requests == 0 || c->phase == PHASE_FAILED;

	c->is_closing = true;
	c->on_closed = on_closed;
	c->closed_ctx = ctx;
	uv_timer_start(&c->grace, on_grace_over, is_idle ? 0 : (uint64_t)grace_ms, 0);
}

void redis_conn_hurry(struct redis_conn *c)
{
	if (c->is_closing && c->phase != PHASE_CLOSED)
		uv_timer_start(&c->grace, on_grace_over, 0, 0);
}
