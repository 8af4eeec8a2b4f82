#include "http_request.h"

#include <inttypes.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/buf.h"
#include "base/id.h"
#include "base/mem.h"

/* ---- receipts ---- */

static uint64_t sign(const struct http_receipt *r, const uint64_t key[2],
		     struct slice queue)
{
	unsigned char sum[EVP_MAX_MD_SIZE];
	struct buf text = { 0 };
	uint64_t signature;

	buf_printf(&text, "%" PRIu64 ".%" PRIu64 ".%" SLICE_FMT, r->session, r->tag,
		   SLICE_ARG(queue));
	if (!HMAC(EVP_sha256(), key, 2 * sizeof(*key),
		  (const unsigned char *)buf_cstr(&text), buf_len(&text), sum, NULL))
		abort();
	memcpy(&signature, sum, sizeof(signature));
	buf_deinit(&text);
	return signature;
}

void http_receipt_format(const struct http_receipt *r, const uint64_t key[2],
			 struct slice queue, char out[HTTP_RECEIPT_SIZE])
{
	snprintf(out, HTTP_RECEIPT_SIZE, "%" PRIu64 ".%" PRIu64 ".%016" PRIx64,
		 r->session, r->tag, sign(r, key, queue));
}

enum http_receipt_verdict http_receipt_parse(struct slice text, const uint64_t key[2],
					     struct slice queue, struct http_receipt *out)
{
	struct slice rest = text;
	struct slice session = slice_cut(&rest, '.'), tag = slice_cut(&rest, '.');
	uint64_t signature;

	if (!slice_to_uint(session, UINT64_MAX, &out->session) ||
	    !slice_to_uint(tag, UINT64_MAX - 1, &out->tag) || rest.len != ID_HEX_LEN ||
	    id_parse(rest, &signature) < 0)
		return HTTP_RECEIPT_MALFORMED;
	return signature == sign(out, key, queue) ? HTTP_RECEIPT_GOOD
						  : HTTP_RECEIPT_FOREIGN;
}

#define IDLE_MS 60000
#define LOOK_MS 10000
/* Of the messages of an answer: the rest goes back, to be asked for again. */
#define ANSWER_BYTES_MAX ((size_t)16 << 20)

/* ACKs and the like. */
struct http_settle_op {
	STAILQ_ENTRY(http_settle_op) link;
	struct settle_spec spec; /* session_settle_own */
	struct reply *answer;
};
STAILQ_HEAD(http_settle_ops, http_settle_op);

struct http_lease {
	TAILQ_ENTRY(http_lease) link;
	struct http_leases *all;
	struct session *session;
	struct http_settle_ops settles; /* that wait for one that goes on */
	uint64_t used_ms;
	unsigned pulls; /* GETs that wait */
	char *address;  /* of the one that came first */
	bool is_dead;   /* killed: it ends in the next turn */
};

struct http_leases {
	TAILQ_HEAD(http_lease_list, http_lease) list; /* those used last come last */
	uv_timer_t timer;
	unsigned count;
	uint64_t key[2]; /* of the receipts */
	bool is_closing;
	void (*on_closed)(void *ctx);
	void *ctx;
};

/* ---- the sessions ---- */

static void on_timer(uv_timer_t *timer);

static void watch(struct http_leases *all, uint64_t ms)
{
	if (!all->is_closing)
		uv_timer_start(&all->timer, on_timer, ms, LOOK_MS);
}

static void op_reply(void *ctx, unsigned channel, struct reply *r)
{
	/* The replies are all aside. */
}

static void op_deliver(void *ctx, unsigned channel, struct slice sid,
		       const struct delivery *d)
{
}

static void op_event(void *ctx, unsigned channel, const char *what, const char *words)
{
	/* "skipped": the offsets of what follows tell it, too. */
}

static bool op_can_take(void *ctx)
{
	return true;
}

static void op_blocked(void *ctx, bool is_blocked, const char *why)
{
}

static void op_kill(void *ctx, const char *why)
{
	struct http_lease *l = ctx;

	l->is_dead = true;
	watch(l->all, 0);
}

static void op_describe(void *ctx, struct json *out)
{
	const struct http_lease *l = ctx;

	json_member_text(out, "protocol", "http leases");
	json_member_text(out, "peer", l->address ? l->address : "");
	json_member_int(out, "bytes_in", 0);
	json_member_int(out, "bytes_out", 0);
	json_member_int(out, "output", 0);
	json_member_bool(out, "held_back", false);
}

static void op_facts(void *ctx, struct session_peer *out)
{
	const struct http_lease *l = ctx;

	*out = (struct session_peer){ .address = l->address, .protocol = "http" };
}

static void op_progress(void *ctx);
static void refuse_settles(struct http_lease *l);

static const struct session_ops ops = {
	.on_reply = op_reply,
	.on_deliver = op_deliver,
	.on_event = op_event,
	.on_progress = op_progress,
	.can_take = op_can_take,
	.on_blocked = op_blocked,
	.on_kill = op_kill,
	.describe = op_describe,
	.facts = op_facts,
};

/* Refuse the GETs of a lease, and return its messages. */
static void end(struct http_lease *l)
{
	TAILQ_REMOVE(&l->all->list, l, link);
	l->all->count--;
	refuse_settles(l);
	session_destroy(l->session);
	mem_free(l->address);
	mem_free(l);
}

static bool is_idle(const struct http_lease *l)
{
	return l->pulls == 0 && STAILQ_EMPTY(&l->settles) &&
	       session_is_answered(l->session) && !session_beside_is_holding(l->session);
}

static void on_timer(uv_timer_t *timer)
{
	struct http_leases *all = timer->data;
	uint64_t now_ms = uv_now(timer->loop);
	struct http_lease *l, *next;

	for (l = TAILQ_FIRST(&all->list); l; l = next) {
		next = TAILQ_NEXT(l, link);
		if (l->is_dead || (is_idle(l) && now_ms - l->used_ms >= IDLE_MS))
			end(l);
	}
	if (all->count == 0)
		uv_timer_stop(timer);
	else
		watch(all, LOOK_MS);
}

static void use(struct http_lease *l)
{
	l->used_ms = uv_now(l->all->timer.loop);
	TAILQ_REMOVE(&l->all->list, l, link);
	TAILQ_INSERT_TAIL(&l->all->list, l, link);
}

/* The one that was not used for the longest time and holds nothing. */
static bool make_room(struct http_leases *all)
{
	struct http_lease *l;

	TAILQ_FOREACH (l, &all->list, link)
		if (is_idle(l)) {
			end(l);
			return true;
		}
	return false;
}

static struct http_lease *create(struct http_leases *all, const struct session *s)
{
	struct http_lease *l = mem_zalloc(sizeof(*l));
	struct session_peer peer = session_beside_peer(s);

	l->all = all;
	STAILQ_INIT(&l->settles);
	l->address = peer.address ? mem_strdup(peer.address) : NULL;
	l->session = session_beside_create(s, &ops, l);
	TAILQ_INSERT_TAIL(&all->list, l, link);
	if (all->count++ == 0)
		watch(all, LOOK_MS);
	return l;
}

/* The one that holds for `s`. */
static int find_or_create(struct http_leases *all, const struct session *s,
			  struct http_lease **out, struct error *err)
{
	struct http_lease *l;

	TAILQ_FOREACH_REVERSE(l, &all->list, http_lease_list, link)
	if (!l->is_dead && session_beside_is_same(l->session, s))
		break;
	if (!l && all->count >= HTTP_LEASE_MAX && !make_room(all))
		return error_set(err, TIDE_ELIMIT,
				 "%d users hold messages over HTTP, which is the limit",
				 HTTP_LEASE_MAX);
	*out = l ? l : create(all, s);
	use(*out);
	return TIDE_OK;
}

/* ---- GET ---- */

struct http_pull {
	struct http_leases *all;
	struct http_lease *lease; /* NULL: what it gives out is acknowledged by that */
	struct reply *answer;     /* to the request; NULL: it was refused */
	struct reply *guard;      /* of the request's session: tells its end */
	struct reply *got;
	bool is_left; /* the client has ended its side */
	char queue[NAME_LEN_MAX + 1];
};

static void write_messages(const struct http_pull *p, const struct reply *got,
			   uint64_t count, struct buf *out)
{
	struct json j = { .out = out };
	char text[HTTP_RECEIPT_SIZE];

	json_object_begin(&j);
	json_member_array(&j, "messages");
	for (uint64_t i = 0; i < count; i++) {
		const struct delivery *d = &got->deliveries[i];

		if (p->lease && d->tag)
			http_receipt_format(
				&(struct http_receipt){
					session_facts(p->lease->session).number, d->tag },
				p->all->key, slice_from(p->queue), text);
		http_message_write(d, p->lease && d->tag ? text : NULL, &j);
	}
	json_array_end(&j);
	json_object_end(&j);
}

/* How many fit into an answer; one in any case. */
static uint64_t count_fitting(const struct reply *got)
{
	size_t left = ANSWER_BYTES_MAX;
	uint64_t count = 0;

	while (count < got->count &&
	       (count == 0 || got->deliveries[count].msg->bytes <= left)) {
		size_t bytes = got->deliveries[count++].msg->bytes;

		left -= bytes < left ? bytes : left;
	}
	return count;
}

static void answer(struct http_pull *p, const struct reply *got)
{
	struct reply *r = p->answer;
	uint64_t count = got->kind == REPLY_MESSAGES ? got->count : 0;
	struct buf text = { 0 };
	struct error err;

	if (got->kind == REPLY_ERROR) {
		error_set(&err, got->error, "%s", got->text);
		reply_error(r, &err);
		return;
	}
	if (p->lease)
		count = r->channel && !p->is_left ? count_fitting(got) : 0;
	if (p->lease)
		session_beside_return(p->lease->session, got->deliveries + count,
				      got->count - count);
	write_messages(p, got, count, &text);
	reply_data_take(r, &text);
}

static void on_got(void *ctx, struct reply *got)
{
	struct http_pull *p = ctx;
	struct reply *guard = p->guard;

	p->guard = NULL;
	if (p->lease)
		p->lease->pulls--;
	if (p->answer)
		answer(p, got);
	mem_free(p);
	if (guard)
		reply_ok(guard);
}

/* The session of the request is gone, or this was the pull's own end. */
static void on_guard(void *ctx, struct reply *r)
{
	struct http_pull *p = ctx;
	struct reply *guard;

	if (r->kind != REPLY_ERROR)
		return; /* the pull is gone */
	guard = p->guard;
	p->guard = NULL;
	reply_ok(guard);
	if (p->lease)
		session_beside_end_wait(p->lease->session, p->got);
}

static void on_left(void *ctx)
{
	struct http_pull *p = ctx;

	p->is_left = true;
	session_beside_end_wait(p->lease->session, p->got);
}

int http_lease_get(struct http_leases *all, struct http_request *q,
		   const struct get_spec *spec, struct reply *r, struct error *err)
{
	struct channel *own = http_request_channel(q), *ch = own;
	struct http_lease *l = NULL;
	struct http_pull *p;
	int rc;

	if (!spec->is_auto_ack) {
		if (find_or_create(all, http_request_session(q), &l, err) < 0)
			return err->code;
		if (session_is_held(l->session, false))
			return error_set(err, TIDE_EBUSY,
					 "this user has too many unanswered requests");
		ch = session_channel(l->session, 0);
	}
	p = mem_zalloc(sizeof(*p));
	p->all = all;
	p->lease = l;
	p->answer = r;
	memcpy(p->queue, spec->queues[0].data, spec->queues[0].len);
	if (l) {
		l->pulls++;
		p->guard = reply_create_aside(own, on_guard, p);
		reply_aside_watch(p->guard, on_left);
	}
	p->got = reply_create_aside(ch, on_got, p);
	rc = session_consume_get(ch, spec, p->got, err);
	if (rc < 0) {
		p->answer = NULL;
		reply_error(p->got, err);
	}
	return rc;
}

/* ---- settling ---- */

/* A client has receipts: it does not know the tags that errors of a session name. */
static const struct error lost = {
	TIDE_ELEASE,
	"a receipt is no longer good: its message was settled or timed out, or "
	"its queue was deleted; nothing was settled"
};

static void refuse_settle(struct reply *r, const struct error *err)
{
	reply_error(r, err->code == TIDE_ELEASE ? &lost : err);
}

static void on_settled(void *ctx, struct reply *got)
{
	struct reply *r = ctx;
	struct error err;

	if (got->kind != REPLY_ERROR) {
		reply_count(r, got->count);
		return;
	}
	error_set(&err, got->error, "%s", got->text);
	refuse_settle(r, &err);
}

static void free_settle(struct http_settle_op *s)
{
	mem_free((struct tag_range *)s->spec.ranges);
	mem_free(s);
}

/* Free it, then answer. */
static void run(struct http_lease *l, struct http_settle_op *s)
{
	struct channel *ch = session_channel(l->session, 0);
	struct reply *got = reply_create_aside(ch, on_settled, s->answer);
	struct error err;

	if (session_settle(ch, &s->spec, got, &err) < 0)
		reply_error(got, &err);
	free_settle(s);
}

static void op_progress(void *ctx)
{
	struct http_lease *l = ctx;
	struct http_settle_op *s;

	while (!l->is_dead && (s = STAILQ_FIRST(&l->settles)) != NULL &&
	       !session_is_held(l->session, false)) {
		STAILQ_REMOVE_HEAD(&l->settles, link);
		run(l, s);
	}
}

static void refuse_settles(struct http_lease *l)
{
	struct http_settle_op *s;

	while ((s = STAILQ_FIRST(&l->settles)) != NULL) {
		STAILQ_REMOVE_HEAD(&l->settles, link);
		reply_error(s->answer, &lost);
		free_settle(s);
	}
}

static int refuse(struct slice receipt, struct slice queue, struct error *err)
{
	return error_set(err, TIDE_ELEASE,
			 "receipt '%.*s' is none of queue '%.*s' that is still held: its "
			 "message was settled or timed out, or the broker has started "
			 "anew",
			 SLICE_HEAD(receipt, HTTP_RECEIPT_SIZE), SLICE_HEAD(queue, 64));
}

static struct http_lease *find_by_number(struct http_leases *all, struct session *s,
					 uint64_t number)
{
	struct http_lease *l;

	TAILQ_FOREACH (l, &all->list, link)
		if (session_facts(l->session).number == number)
			return !l->is_dead && session_beside_may_act(l->session, s)
				       ? l
				       : NULL;
	return NULL;
}

/* Read the tags of receipts; all are of one lease. */
static int read_receipts(struct http_leases *all, const struct http_settle *what,
			 struct tag_range *out, uint64_t *number, struct error *err)
{
	for (size_t i = 0; i < what->count; i++) {
		struct http_receipt receipt;
		enum http_receipt_verdict verdict = http_receipt_parse(
			what->receipts[i], all->key, what->queue, &receipt);

		if (verdict == HTTP_RECEIPT_MALFORMED)
			return error_set(
				err, TIDE_ESYNTAX,
				"'%.*s' is no receipt: expected that of a "
				"message, as a GET gave it",
				SLICE_HEAD(what->receipts[i], HTTP_RECEIPT_SIZE));
		if (verdict == HTTP_RECEIPT_FOREIGN)
			return refuse(what->receipts[i], what->queue, err);
		if (i > 0 && receipt.session != *number)
			return error_set(err, TIDE_ESYNTAX,
					 "the receipts are of different holders: those "
					 "of a request begin with the same number");
		*number = receipt.session;
		out[i].first = out[i].last = receipt.tag;
	}
	return TIDE_OK;
}

int http_lease_settle(struct http_leases *all, struct http_request *q,
		      const struct http_settle *what, struct reply *r, struct error *err)
{
	struct tag_range *ranges = mem_alloc(what->count * sizeof(*ranges));
	struct http_lease *l = NULL;
	struct http_settle_op *s;
	uint64_t number = 0;
	int rc = read_receipts(all, what, ranges, &number, err);

	if (rc == TIDE_OK)
		l = find_by_number(all, http_request_session(q), number);
	if (rc == TIDE_OK && !l)
		rc = refuse(what->receipts[0], what->queue, err);
	if (rc < 0) {
		mem_free(ranges);
		return rc;
	}
	s = mem_zalloc(sizeof(*s));
	s->spec = what->spec;
	s->spec.ranges = ranges;
	s->spec.count = what->count;
	session_settle_own(&s->spec);
	mem_free(ranges);
	s->answer = r;
	STAILQ_INSERT_TAIL(&l->settles, s, link);
	use(l);
	op_progress(l);
	return TIDE_OK;
}

/* ---- all of them ---- */

struct http_leases *http_lease_open(uv_loop_t *loop)
{
	struct http_leases *all = mem_zalloc(sizeof(*all));

	TAILQ_INIT(&all->list);
	if (getrandom(all->key, sizeof(all->key), 0) != sizeof(all->key))
		abort(); /* the kernel always has 16 bytes */
	uv_timer_init(loop, &all->timer);
	all->timer.data = all;
	return all;
}

static void on_timer_closed(uv_handle_t *handle)
{
	struct http_leases *all = handle->data;

	all->on_closed(all->ctx);
	mem_free(all);
}

void http_lease_close(struct http_leases *all, void (*on_closed)(void *ctx), void *ctx)
{
	struct http_lease *l;

	all->is_closing = true;
	all->on_closed = on_closed;
	all->ctx = ctx;
	while ((l = TAILQ_FIRST(&all->list)) != NULL)
		end(l);
	uv_close((uv_handle_t *)&all->timer, on_timer_closed);
}
