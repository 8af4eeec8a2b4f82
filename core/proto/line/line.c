#include "line.h"

#include "base/container.h"
#include "verb.h"

static void lose(struct line *l, unsigned channel, const struct error *err)
{
	line_reply_error(l, channel, err);
	l->state = LINE_CLOSED;
	l->base.ops->finish(l->base.ctx);
}

static void publish(struct line *l)
{
	struct channel *ch = session_channel(l->base.session, l->channel);
	struct msg *m = l->base.msg;

	protocol_received(&l->base);
	l->base.msg = NULL;
	l->state = LINE_COMMAND;
	if (!ch) {
		/* It was there when the line came; nothing can have closed it since. */
		msg_unref(m);
		return;
	}
	session_publish_take(l->base.session, m, &l->demand,
			     reply_create(ch, l->is_quiet));
}

/* The line end after a payload: how many bytes it has, 0 when more
 * must come, -1 when it is something else. */
static int line_end(const char *data, size_t len)
{
	size_t n = len > 0 && data[0] == '\r';

	if (n == len)
		return 0;
	return data[n] == '\n' ? (int)n + 1 : -1;
}

static size_t feed_ending(struct line *l, const char *data, size_t len)
{
	int n = line_end(data, len);
	struct error err;

	if (n < 0) {
		error_set(&err, TIDE_ESYNTAX,
			  "no line end follows the payload; check its length");
		lose(l, l->channel, &err);
		return 0;
	}
	if (n > 0 && l->state == LINE_PAYLOAD)
		publish(l);
	else if (n > 0)
		l->state = LINE_COMMAND;
	return (size_t)n;
}

static size_t feed_skip(struct line *l, size_t len)
{
	size_t n = len < l->skip ? len : (size_t)l->skip;

	l->skip -= n;
	if (l->skip == 0)
		l->state = LINE_SKIPPED;
	return n;
}

/* A transaction does without none of its requests, nor without one that cannot be read.
 */
static void refuse_transaction(struct line *l, const struct request *q,
			       const struct error *err)
{
	struct channel *ch = session_channel(l->base.session, q->channel);

	if (ch && (!q->name || q->features & VERB_TRANSACTED))
		session_transaction_refuse(ch, err);
}

static void refuse(struct line *l, const struct request *q, const struct error *err)
{
	refuse_transaction(l, q, err);
	line_reply_error(l, q->channel, err);
	if (q->features & VERB_PAYLOAD) {
		l->channel = q->channel;
		l->skip = q->payload_len;
		l->state = l->skip ? LINE_SKIPPING : LINE_SKIPPED;
	}
}

static int check_channel(struct line *l, const struct request *q, struct error *err)
{
	if (q->features & VERB_NO_CHANNEL || session_channel(l->base.session, q->channel))
		return TIDE_OK;
	return error_set(err, TIDE_ENOTFOUND,
			 "channel %u is not open: send @%u OPEN first", q->channel,
			 q->channel);
}

/* Once allowed, always: a session that may not go on is killed. */
static int check_login(struct line *l, const struct request *q, struct error *err)
{
	int rc;

	if (l->may_ask || q->features & VERB_NO_LOGIN)
		return TIDE_OK;
	rc = session_login_admit(l->base.session, err);
	l->may_ask = rc == TIDE_OK;
	return rc;
}

static int run(struct line *l, struct request *q)
{
	struct reply *r = NULL;
	int rc;

	/* A publish gets its reply when its payload is there. */
	if (!(q->features & (VERB_NO_CHANNEL | VERB_PAYLOAD)))
		r = reply_create(session_channel(l->base.session, q->channel),
				 q->is_quiet);
	if (q->features & VERB_DOCUMENT)
		reply_expect_document(r);
	l->is_heavy = q->features & (VERB_DOCUMENT | VERB_ANY_OPTIONS);
	if (l->is_heavy)
		session_name_request(l->base.session, NULL);
	rc = q->verb ? q->verb->run(l, q, r) : command_operation(l, q, r);
	if (l->is_heavy && l->state != LINE_CLOSED)
		session_name_request(l->base.session, q->name);
	if (rc < 0 && r) {
		refuse_transaction(l, q, q->err);
		reply_error(r, q->err);
		return TIDE_OK;
	}
	return rc;
}

/* "POST /path HTTP/1.1". A page in a browser can have such a request sent to this port;
 * the lines of its body are the page's. */
static bool is_http(struct slice line)
{
	struct slice whole = line, method = slice_cut(&line, ' '),
		     target = slice_cut(&line, ' '), rest;
	struct error ignored;
	bool is_ours = (verb_find(method) || operation_find(whole, &rest, &ignored)) &&
		       !memchr(target.data, '/', target.len);

	return slice_has_prefix(line, "HTTP/") && !is_ours;
}

static void command(struct line *l, char *line, size_t len)
{
	struct request q;
	struct error err;
	bool is_lost;
	int rc;

	if (len == 0)
		return; /* so that a person may press Enter */
	if (!l->has_asked && is_http((struct slice){ line, len })) {
		error_set(&err, TIDE_ESYNTAX,
			  "this port speaks the tidemq line protocol; HTTP is on that of "
			  "--http (by default 7311)");
		lose(l, 0, &err);
		return;
	}
	rc = request_parse(&q, line, len, &is_lost, &err);
	if (rc < 0 && is_lost) {
		lose(l, q.channel, &err);
		return;
	}
	if (rc == TIDE_OK)
		rc = check_login(l, &q, &err);
	if (rc == TIDE_OK)
		rc = check_channel(l, &q, &err);
	if (rc == TIDE_OK && q.payload_len > l->base.payload_max)
		rc = error_set(&err, TIDE_ETOOLARGE,
			       "the payload of %llu bytes exceeds the limit of %zu and "
			       "is skipped",
			       (unsigned long long)q.payload_len, l->base.payload_max);
	if (rc == TIDE_OK)
		rc = run(l, &q);
	if (rc < 0)
		refuse(l, &q, &err);
	l->has_asked = true;
}

/* A connection's first publish finds publishers held back, or a document comes too early.
 * Other requests do not wait. */
static bool must_wait(struct line *l, struct slice line)
{
	struct session *s = l->base.session;
	bool is_publish_held = session_publish_is_next_held(s);
	unsigned features;

	if (!is_publish_held && !session_answer_is_late(s))
		return false;
	features = request_features(line);
	if (features & VERB_DOCUMENT)
		return !session_answer_may_begin(s);
	if (!is_publish_held || !(features & VERB_PAYLOAD))
		return false;
	session_publish_begin(s);
	return true;
}

static size_t feed_command(struct line *l, char *data, size_t len)
{
	char *end = memchr(data, '\n', len < LINE_MAX_BYTES ? len : LINE_MAX_BYTES);
	size_t line_len;
	struct error err;

	if (!end && len >= LINE_MAX_BYTES) {
		error_set(&err, TIDE_ETOOLONG, "a line has at most %d bytes",
			  LINE_MAX_BYTES);
		lose(l, 0, &err);
		return 0;
	}
	if (!end)
		return 0;
	line_len = (size_t)(end - data);
	if (must_wait(l, (struct slice){ data, line_len }))
		return 0;
	command(l, data, line_len - (line_len > 0 && data[line_len - 1] == '\r'));
	return line_len + 1;
}

static size_t feed(struct protocol *p, char *data, size_t len)
{
	struct line *l = container_of(p, struct line, base);
	size_t at = 0;

	l->base.is_paused = false;
	l->is_heavy = false;
	session_begin(l->base.session);
	while (at < len && l->state != LINE_CLOSED) {
		size_t n;

		if (l->state == LINE_COMMAND && at > 0 &&
		    session_is_spent(p->session, l->is_heavy)) {
			l->base.is_paused = true;
			break;
		}
		if (l->state == LINE_COMMAND && protocol_is_held(p))
			break;
		if (l->state == LINE_COMMAND)
			n = feed_command(l, data + at, len - at);
		else if (l->state == LINE_PAYLOAD && !protocol_is_filled(p))
			n = protocol_fill(p, data + at, len - at);
		else if (l->state == LINE_SKIPPING)
			n = feed_skip(l, len - at);
		else
			n = feed_ending(l, data + at, len - at);
		if (n == 0)
			break;
		at += n;
	}
	protocol_count_payload(p);
	return at;
}

static void init(struct protocol *p, const struct protocol_spec *spec)
{
	struct line *l = container_of(p, struct line, base);

	*l = (struct line){ 0 };
	protocol_init(p, &line_protocol, &line_reply_ops, spec);
}

static void deinit(struct protocol *p)
{
	container_of(p, struct line, base)->state = LINE_CLOSED;
	protocol_deinit(p);
}

static void tell_closed(struct protocol *p, const char *words)
{
	line_reply_event(container_of(p, struct line, base), 0, "closed", words);
}

static void heartbeat(struct protocol *p)
{
	line_reply_event(container_of(p, struct line, base), 0, "heartbeat", "");
}

const struct protocol_kind line_protocol = {
	.name = "line",
	.size = sizeof(struct line),
	.init = init,
	.deinit = deinit,
	.feed = feed,
	.tell_closed = tell_closed,
	.heartbeat = heartbeat,
};
