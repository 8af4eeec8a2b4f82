#include "redis_link.h"

#include <assert.h>
#include <string.h>

#include "base/container.h"
#include "base/mem.h"
#include "resp.h"
#include "tls/dial.h"
#include "tls/tls.h"

/* The reader's buffer above this is given back when it runs empty. */
#define READER_KEEP_BYTES (1024 * 1024)
#define READ_BYTES (64 * 1024)
/* Pieces of one system call; Linux takes no more than 1,024. */
#define WRITE_PARTS (2 * REDIS_REQUEST_PARTS_MAX)
#define KEEPALIVE_SECONDS 30
/* With TLS: what is encrypted before some of it is written. */
#define CIPHER_BYTES ((size_t)256 * 1024)

struct redis_link {
	const struct redis_link_ops *ops;
	void *ctx;
	struct dial dial;
	bool is_connected; /* requests may be sent */
	bool is_shaking;   /* connected, with TLS; before and after `is_connected` */
	bool is_closing;
	bool is_lost;
	bool is_writing;
	bool is_deaf; /* Redis reads no more; what it said last is still to be read */
	uv_write_t write;
	redisReader *reader;
	struct resp_arena replies;          /* the reader's */
	redisReply *held;                   /* the last of a request; its count is next */
	struct redis_requests requests;     /* unanswered, in order */
	struct redis_request *next;         /* the first that the kernel has not seen */
	struct redis_request *last_written; /* NULL: it is marked so */
	struct tls *tls;                    /* NULL: none */
	struct buf cipher;                  /* of TLS; libuv has it */
	unsigned part_first; /* with TLS: those of `parts` from here on are not */
	unsigned part_count; /* encrypted yet, up to here */
	uv_buf_t parts[WRITE_PARTS];
	char input[READ_BYTES];
};

static struct redis_link *link_of(struct dial *d)
{
	return container_of(d, struct redis_link, dial);
}

static void link_lost(struct redis_link *l, const char *why)
{
	if (l->is_closing || l->is_lost)
		return;
	l->is_lost = true;
	l->ops->on_lost(l->ctx, why);
}

/* Give the replies that are complete to their requests, in order. */
static void answer(struct redis_link *l)
{
	while (!l->is_closing && !l->is_lost) {
		void *parsed = NULL;
		struct redis_request *r = TAILQ_FIRST(&l->requests);

		/* A reply can overtake the callback of the write that asked for
		 * it, but libuv holds the request's bytes until then. */
		if (r && !r->is_sent && l->is_writing)
			return;
		if (redisReaderGetReply(l->reader, &parsed) != REDIS_OK) {
			link_lost(l, l->reader->errstr);
			return;
		}
		redisReply *reply = parsed;
		if (!reply)
			return;
		if (!r || !r->is_sent) {
			/* Redis says why it hangs up, unasked: -ERR max number of ... */
			link_lost(l, reply->type == REDIS_REPLY_ERROR
					     ? reply->str
					     : "a reply to no request");
			return;
		}
		if (r->count && !l->held && r->answered + 1 == r->replies) {
			l->held = reply;
			continue;
		}
		if (l->held) {
			l->ops->on_count(l->ctx, r, reply);
			if (l->is_closing)
				return;
			reply = l->held;
			l->held = NULL;
		}
		if (++r->answered == r->replies)
			TAILQ_REMOVE(&l->requests, r, entry);
		l->ops->on_reply(l->ctx, r, reply);
		resp_arena_reset(&l->replies);
	}
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
	struct redis_link *l = link_of(handle->data);

	*buf = uv_buf_init(l->input, READ_BYTES);
}

static void feed(struct redis_link *l, const char *data, size_t len)
{
	if (redisReaderFeed(l->reader, data, len) != REDIS_OK)
		link_lost(l, l->reader->errstr);
	else
		answer(l);
}

static int push(struct redis_link *l);

/* Take the plaintext of what has come. */
static void feed_tls(struct redis_link *l)
{
	char plain[TLS_RECORD_BYTES];
	ssize_t len = TIDE_AGAIN;

	while (!l->is_closing && !l->is_lost) {
		len = tls_read(l->tls, plain, sizeof(plain));
		if (!l->is_connected && tls_is_open(l->tls)) {
			l->is_connected = true;
			l->ops->on_connected(l->ctx);
		}
		if (len <= 0)
			break;
		feed(l, plain, (size_t)len);
	}
	if (l->is_closing || l->is_lost)
		return;
	if (push(l) < 0)
		l->is_deaf = true;
	if (len == TIDE_EMPTY)
		link_lost(l, "Redis closed the connection");
	else if (len != TIDE_AGAIN)
		link_lost(l, tls_error(l->tls));
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buf)
{
	struct redis_link *l = link_of(stream->data);

	if (count == 0 || l->is_closing)
		return;
	if (count < 0) {
		link_lost(l, count != UV_EOF            ? uv_strerror((int)count)
			     : redis_link_is_shaking(l) ? "Redis closed the connection "
							  "instead of answering to TLS"
							: "Redis closed the connection");
		return;
	}
	l->ops->on_bytes(l->ctx);
	if (l->tls) {
		tls_feed(l->tls, buf->base, (size_t)count);
		feed_tls(l);
	} else {
		feed(l, buf->base, (size_t)count);
	}
}

static void on_connected(struct dial *d, int status)
{
	struct redis_link *l = link_of(d);

	if (status == 0)
		status = uv_read_start(&d->socket.stream, on_alloc, on_read);
	if (status < 0) {
		link_lost(l, uv_strerror(status));
		return;
	}
	l->is_shaking = l->tls != NULL;
	if (l->tls) {
		feed_tls(l);
		return;
	}
	l->is_connected = true;
	l->ops->on_connected(l->ctx);
}

static void on_link_closed(struct dial *d)
{
	struct redis_link *l = link_of(d);

	redisReaderFree(l->reader);
	resp_arena_deinit(&l->replies);
	tls_destroy(l->tls);
	buf_deinit(&l->cipher);
	l->ops->on_closed(l->ctx);
	mem_free(l);
}

struct redis_link *redis_link_create(uv_loop_t *loop, const struct url *at,
				     struct tls_context *tls,
				     const struct redis_link_ops *ops, void *ctx)
{
	struct redis_link *l = mem_alloc(sizeof(*l));

	memset(l, 0, offsetof(struct redis_link, parts));
	l->ops = ops;
	l->ctx = ctx;
	resp_arena_init(&l->replies);
	l->reader = resp_arena_reader(&l->replies);
	l->reader->maxbuf = READER_KEEP_BYTES;
	TAILQ_INIT(&l->requests);
	if (tls)
		l->tls = tls_create_client(tls, at->host);
	l->dial = (struct dial){ .loop = loop,
				 .at = at,
				 .keepalive_s = KEEPALIVE_SECONDS,
				 .on_done = on_connected,
				 .on_closed = on_link_closed };
	return l;
}

int redis_link_connect(struct redis_link *l)
{
	return dial_start(&l->dial);
}

void redis_link_close(struct redis_link *l, struct redis_requests *unanswered)
{
	struct redis_request *r;

	for (r = TAILQ_FIRST(&l->requests); r && r != l->next; r = TAILQ_NEXT(r, entry))
		r->was_lost = true;
	TAILQ_CONCAT(unanswered, &l->requests, entry);
	l->next = NULL;
	l->is_closing = true;
	dial_close(&l->dial);
}

void redis_link_send(struct redis_link *l, struct redis_request *r)
{
	assert(r->part_count > 0 && r->part_count <= REDIS_REQUEST_PARTS_MAX);
	r->answered = 0;
	r->is_sent = false;
	TAILQ_INSERT_TAIL(&l->requests, r, entry);
	if (!l->next)
		l->next = r;
}

void redis_link_return(struct redis_link *l, struct redis_request *r)
{
	r->answered = 0;
	TAILQ_INSERT_HEAD(&l->requests, r, entry);
}

/* Up to `last` everything is with the kernel. */
static void mark_sent(struct redis_link *l, struct redis_request *last)
{
	struct redis_request *r = last;

	while (r && !r->is_sent) {
		r->is_sent = true;
		r = TAILQ_PREV(r, redis_requests, entry);
	}
	l->last_written = NULL;
}

/* Whoever hung up may have said why before; the end of the stream follows. */
static void write_failed(struct redis_link *l, int status)
{
	l->is_deaf = true;
	if (status != UV_EPIPE && status != UV_ECONNRESET)
		link_lost(l, uv_strerror(status));
}

static int write_parts(struct redis_link *l);

static void on_written(uv_write_t *request, int status)
{
	struct redis_link *l = request->data;

	if (l->is_closing)
		return;
	l->is_writing = false;
	buf_deinit(&l->cipher);
	/* With TLS there may be more of the same requests. */
	if (status == 0 && l->tls)
		status = write_parts(l);
	if (status < 0) {
		write_failed(l, status);
		return;
	}
	if (l->is_writing)
		return;
	mark_sent(l, l->last_written);
	answer(l);
	if (!l->is_closing && !l->is_lost)
		redis_link_flush(l);
}

/* The pieces of the next requests, whole requests only. */
static void gather(struct redis_link *l)
{
	unsigned count = 0;
	struct redis_request *r = l->next;

	for (; r && r->part_count < WRITE_PARTS - count; r = TAILQ_NEXT(r, entry)) {
		memcpy(l->parts + count, r->parts, r->part_count * sizeof(uv_buf_t));
		count += r->part_count;
		if (r->count)
			l->parts[count++] = *r->count;
		l->last_written = r;
	}
	l->next = r;
	l->part_first = 0;
	l->part_count = count;
}

/* `len` bytes of the parts are done with. */
static void skip_parts(struct redis_link *l, size_t len)
{
	while (l->part_first < l->part_count && len >= l->parts[l->part_first].len)
		len -= l->parts[l->part_first++].len;
	if (l->part_first == l->part_count)
		return;
	l->parts[l->part_first].base += len;
	l->parts[l->part_first].len -= len;
}

/* Write what the socket takes; libuv takes charge of the rest. */
static int write_plain(struct redis_link *l)
{
	uv_buf_t *parts = l->parts;
	int written = uv_try_write(&l->dial.socket.stream, parts, l->part_count);
	int rc;

	if (written < 0 && written != UV_EAGAIN)
		return written;
	skip_parts(l, written > 0 ? (size_t)written : 0);
	if (l->part_first == l->part_count)
		return TIDE_OK;
	l->write.data = l;
	rc = uv_write(&l->write, &l->dial.socket.stream, parts + l->part_first,
		      l->part_count - l->part_first, on_written);
	l->is_writing = rc == 0;
	return rc;
}

/* The same for what TLS has to send. */
static int push(struct redis_link *l)
{
	struct buf *out = tls_out(l->tls);
	uv_buf_t bytes;
	int written, rc;

	if (l->is_writing || buf_len(out) == 0)
		return TIDE_OK;
	bytes = redis_request_part(buf_slice(out));
	written = uv_try_write(&l->dial.socket.stream, &bytes, 1);
	if (written < 0 && written != UV_EAGAIN)
		return written;
	buf_consume(out, written > 0 ? (size_t)written : 0);
	if (buf_len(out) == 0)
		return TIDE_OK;
	l->cipher = *out;
	*out = (struct buf){ 0 };
	bytes = redis_request_part(buf_slice(&l->cipher));
	l->write.data = l;
	rc = uv_write(&l->write, &l->dial.socket.stream, &bytes, 1, on_written);
	l->is_writing = rc == 0;
	return rc;
}

static int write_tls(struct redis_link *l)
{
	int rc = push(l);

	while (rc == TIDE_OK && !l->is_writing && l->part_first < l->part_count) {
		/* A uv_buf_t is a struct iovec, says libuv. */
		ssize_t n = tls_write(l->tls, (struct iovec *)(l->parts + l->part_first),
				      l->part_count - l->part_first, CIPHER_BYTES);

		if (n < 0)
			return (int)n;
		skip_parts(l, (size_t)n);
		rc = push(l);
	}
	return rc;
}

static int write_parts(struct redis_link *l)
{
	return l->tls ? write_tls(l) : write_plain(l);
}

bool redis_link_is_shaking(const struct redis_link *l)
{
	return l->is_shaking && !l->is_connected;
}

void redis_link_flush(struct redis_link *l)
{
	while (l->next && l->is_connected && !l->is_writing && !l->is_deaf &&
	       !l->is_closing && !l->is_lost) {
		int rc;

		gather(l);
		rc = write_parts(l);
		if (rc < 0)
			write_failed(l, rc);
		else if (!l->is_writing)
			mark_sent(l, l->last_written);
	}
}
