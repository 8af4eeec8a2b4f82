#include "stomp.h"

#include "base/container.h"
#include "base/mem.h"
#include "stomp_connect.h"
#include "stomp_reply.h"
#include "stomp_send.h"
#include "stomp_settle.h"
#include "stomp_subscribe.h"
#include "stomp_transaction.h"

#define RECEIPT_MAX 1024

/* ---- whose connection it is
 * ------------------------------------------------------------ */

/* @return  as stomp_claim */
static int begins_with(struct slice data, const char *word)
{
	size_t len = strlen(word), n = data.len < len ? data.len : len;

	if (memcmp(data.data, word, n) != 0)
		return 0;
	data = slice_skip(data, n);
	if (data.len == 0 || slice_is(data, "\r"))
		return TIDE_AGAIN;
	return data.data[0] == '\n' || slice_has_prefix(data, "\r\n");
}

int stomp_claim(const char *data, size_t len)
{
	const struct slice text = { data, len };
	int is_connect = begins_with(text, "CONNECT");

	return is_connect ? is_connect : begins_with(text, "STOMP");
}

/* ---- frames ---------------------------------------------------------------------------
 */

static int (*const commands[])(struct stomp *l, struct stomp_frame *f) = {
	[STOMP_CONNECT] = stomp_connect,
	[STOMP_SUBSCRIBE] = stomp_subscribe,
	[STOMP_UNSUBSCRIBE] = stomp_subscribe_end,
	[STOMP_ACK] = stomp_settle,
	[STOMP_NACK] = stomp_settle,
	[STOMP_BEGIN] = stomp_transaction_begin,
	[STOMP_COMMIT] = stomp_transaction_commit,
	[STOMP_ABORT] = stomp_transaction_abort,
	[STOMP_DISCONNECT] = stomp_connect_end,
};

static void lose(struct stomp *l, int code, const char *why)
{
	struct error err;

	error_set(&err, code, "%s", why);
	stomp_reply_error(l, NULL, &err);
}

static int check_frame(const struct stomp *l, struct stomp_frame *f)
{
	if (l->has_connected == (f->verb == STOMP_CONNECT)) {
		f->rc = error_set(f->err, TIDE_EDENIED,
				  l->has_connected
					  ? "this connection has sent CONNECT already"
					  : "the first frame must be CONNECT or STOMP");
		return stomp_frame_explain(f, "Illegal command", NULL);
	}
	if (f->verb != STOMP_CONNECT && session_login_check(l->base.session, f->err) < 0)
		return f->rc = f->err->code;
	if (stomp_frame_header(f, STOMP_H_RECEIPT).len > RECEIPT_MAX)
		return f->rc = error_set(f->err, TIDE_ETOOLONG,
					 "a receipt has at most %d bytes", RECEIPT_MAX);
	return TIDE_OK;
}

/* The body of a SEND: what it says, or up to the NUL that was found. */
static int check_length(const struct stomp *l, struct stomp_frame *f, size_t *body_len)
{
	struct slice length = stomp_frame_header(f, STOMP_H_CONTENT_LENGTH);
	uint64_t n = *body_len;

	if (length.data && !slice_to_uint(length, UINT64_MAX, &n)) {
		stomp_frame_refuse(f, STOMP_H_CONTENT_LENGTH, "a number of bytes");
		return f->rc;
	}
	if (f->verb != STOMP_SEND && n > 0)
		return f->rc = error_set(f->err, TIDE_ESYNTAX, "%s has no body",
					 stomp_frame_verb(f->verb));
	if (n > l->base.payload_max)
		return f->rc = error_set(
			       f->err, TIDE_ETOOLARGE,
			       "the body of %llu bytes exceeds the limit of %zu",
			       (unsigned long long)n, l->base.payload_max);
	*body_len = (size_t)n;
	return TIDE_OK;
}

/* @param body_len  if the head does not say it */
static void run(struct stomp *l, char *head, size_t len, size_t body_len)
{
	struct stomp_frame f;
	struct error err;
	int rc = stomp_frame_parse(&f, head, len, (enum stomp_version)l->version, &err);

	if (rc == TIDE_OK)
		rc = check_frame(l, &f);
	if (rc == TIDE_OK)
		rc = check_length(l, &f, &body_len);
	if (rc == TIDE_OK)
		rc = f.verb == STOMP_SEND ? stomp_send(l, &f, body_len)
					  : commands[f.verb](l, &f);
	if (rc < 0 && f.is_told)
		l->state = STOMP_CLOSED;
	else if (rc < 0)
		stomp_reply_error(l, &f, &err);
	l->is_heavy = f.verb == STOMP_SUBSCRIBE || f.verb == STOMP_UNSUBSCRIBE;
}

/* A connection's first publish finds publishers held back. */
static bool must_wait(struct stomp *l)
{
	if (!session_publish_is_next_held(l->base.session))
		return false;
	session_publish_begin(l->base.session);
	return true;
}

/* The head is there; gives how much of it and of what follows was taken. */
static size_t feed_send(struct stomp *l, char *data, size_t head_len, size_t len)
{
	struct slice head = { data, head_len };
	const char *nul;

	if (must_wait(l))
		return 0;
	if (stomp_frame_has_length(head, (enum stomp_version)l->version)) {
		run(l, data, head_len, 0);
		return head_len;
	}
	nul = memchr(data + head_len, '\0', len - head_len);
	if (nul) {
		run(l, data, head_len, (size_t)(nul - data) - head_len);
		return head_len;
	}
	buf_append_slice(&l->head, head);
	l->state = STOMP_TEXT;
	return head_len;
}

static size_t feed_frame(struct stomp *l, char *data, size_t len)
{
	size_t head_len, end,
		most = len < PROTOCOL_UNREAD_MAX ? len : PROTOCOL_UNREAD_MAX;

	/* What stands between two frames, for one, as a heart-beat; or a NUL too many. */
	if (data[0] == '\n' || data[0] == '\0')
		return 1;
	if (data[0] == '\r' && (len < 2 || data[1] == '\n'))
		return len < 2 ? 0 : 2;
	head_len = stomp_frame_find_end(data, most, &l->scanned);
	if (head_len == SIZE_MAX) {
		lose(l, TIDE_ESYNTAX,
		     "a NUL is in the headers: an empty line ends them, the NUL ends the "
		     "body behind it");
		return 0;
	}
	if (head_len == 0 && most == PROTOCOL_UNREAD_MAX)
		lose(l, TIDE_ETOOLONG,
		     "the command and the headers of a frame have at most 65536 bytes");
	if (head_len == 0)
		return 0;
	if (stomp_frame_is_send((struct slice){ data, head_len })) {
		head_len = feed_send(l, data, head_len, len);
		l->scanned = head_len ? 0 : l->scanned;
		return head_len;
	}
	end = head_len;
	/* Line ends are no body. */
	while (end < most && (data[end] == '\n' || data[end] == '\r'))
		end++;
	if (end == len && end < PROTOCOL_UNREAD_MAX)
		return 0;
	l->scanned = 0;
	run(l, data, head_len, end == most || data[end] != '\0');
	return end + 1;
}

/* A body whose length is not known; the NUL is its end. */
static size_t feed_text(struct stomp *l, char *data, size_t len)
{
	const char *nul = memchr(data, '\0', len);
	size_t n = nul ? (size_t)(nul - data) : len;
	struct slice body;

	if (n > l->base.payload_max - buf_len(&l->body)) {
		lose(l, TIDE_ETOOLARGE,
		     "the body exceeds the limit of a payload, or no NUL ends it");
		return 0;
	}
	buf_append(&l->body, data, n);
	protocol_receive(
		&l->base, n,
		protocol_missing_unknown(buf_len(&l->body), l->base.payload_max));
	if (!nul)
		return len;
	protocol_received(&l->base);
	body = buf_slice(&l->body);
	l->state = STOMP_FRAME;
	run(l, l->head.data + l->head.start, buf_len(&l->head), body.len);
	if (l->state == STOMP_BODY && body.len > 0)
		protocol_fill(&l->base, body.data, body.len);
	if (l->state == STOMP_BODY)
		stomp_send_publish(l);
	buf_deinit(&l->head);
	buf_deinit(&l->body);
	return n + 1;
}

static size_t feed_body(struct stomp *l, char *data, size_t len)
{
	if (!protocol_is_filled(&l->base))
		return protocol_fill(&l->base, data, len);
	if (data[0] != '\0') {
		/* Its reply is owed already. */
		struct error err;

		error_set(&err, TIDE_ESYNTAX,
			  "no NUL follows the body of %zu bytes: check content-length",
			  l->base.msg->payload_len);
		l->state = STOMP_CLOSED;
		reply_error(reply_create(session_channel(l->base.session, 0), false),
			    &err);
		return 0;
	}
	stomp_send_publish(l);
	return 1;
}

static size_t feed(struct protocol *p, char *data, size_t len)
{
	struct stomp *l = container_of(p, struct stomp, base);
	size_t at = 0, n;

	p->is_paused = false;
	l->is_heavy = false;
	session_begin(p->session);
	while (at < len && l->state != STOMP_CLOSED) {
		if (l->state == STOMP_FRAME && at > 0 &&
		    session_is_spent(p->session, l->is_heavy)) {
			p->is_paused = true;
			break;
		}
		if (l->state == STOMP_FRAME && protocol_is_held(p))
			break;
		if (l->state == STOMP_FRAME)
			n = feed_frame(l, data + at, len - at);
		else if (l->state == STOMP_BODY)
			n = feed_body(l, data + at, len - at);
		else
			n = feed_text(l, data + at, len - at);
		if (n == 0)
			break;
		at += n;
	}
	protocol_count_payload(p);
	return l->state == STOMP_CLOSED ? len : at;
}

static void init(struct protocol *p, const struct protocol_spec *spec)
{
	struct stomp *l = container_of(p, struct stomp, base);

	*l = (struct stomp){ 0 };
	stomp_channel_init(l);
	protocol_init(p, &stomp_protocol, &stomp_reply_ops, spec);
	session_allowance_throttle(p->session);
}

static void deinit(struct protocol *p)
{
	struct stomp *l = container_of(p, struct stomp, base);

	l->state = STOMP_CLOSED;
	l->base.is_silent = true;
	protocol_deinit(p);
	stomp_channel_deinit(l);
	stomp_subscribe_deinit(l);
	stomp_transaction_deinit(l);
	mem_free(l->client_id);
	mem_free(l->login);
	mem_free(l->last_room);
	buf_deinit(&l->head);
	buf_deinit(&l->body);
	buf_deinit(&l->last_text);
	buf_deinit(&l->leaving);
}

static void tell_closed(struct protocol *p, const char *words)
{
	stomp_reply_closed(container_of(p, struct stomp, base), words);
}

static void heartbeat(struct protocol *p)
{
	out_append(p->out, "\n", 1);
	p->ops->wake(p->ctx);
}

const struct protocol_kind stomp_protocol = {
	.name = "stomp",
	.size = sizeof(struct stomp),
	.init = init,
	.deinit = deinit,
	.feed = feed,
	.tell_closed = tell_closed,
	.heartbeat = heartbeat,
};
