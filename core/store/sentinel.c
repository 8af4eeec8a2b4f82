#include "sentinel.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "redis_link.h"
#include "resp.h"

/* Once somebody has answered, nobody is waited for any longer. */
#define LIMIT_MS 300
/* An answer of before counts no more: three periods. */
#define LATELY_MS (3 * SENTINEL_PERIOD_MS)
#define PEERS_MAX 32
#define ID_MAX 41

enum question { ASK_AUTH, ASK_ID, ASK_ADDRESS, ASK_MASTER, ASK_OTHERS, QUESTIONS };

/* One Sentinel. A slot without a host is free. */
struct peer {
	struct sentinel *owner;
	struct url at;
	bool is_learned; /* another one told of it */
	char id[ID_MAX]; /* its own; "": not known */
	char why[160];   /* there is no answer of it; "": there is one */
	struct redis_link *link;
	struct redis_request request;
	uv_buf_t part;
	bool is_asked;                  /* and has not answered */
	bool is_fresh;                  /* it has answered in this round */
	uint64_t asked_ms, answered_ms; /* 0: never, or it has failed since */
	uint64_t listed_ms;             /* when another one has told of it */
	/* Its answer. */
	char host[256]; /* "": it knows none */
	unsigned port;
	uint64_t epoch;
};

struct sentinel {
	uv_loop_t *loop;
	const struct redis_url *url;
	struct tls_context *tls;
	uint64_t patience_ms;
	struct sentinel_hooks hooks;
	struct peer peers[PEERS_MAX];
	struct buf bytes; /* of the question, the same for all */
	enum question questions[QUESTIONS];
	unsigned question_count;
	uv_timer_t timer;    /* the end of a round, or of the pause before the next */
	unsigned open_count; /* links and the timer */
	/* A round is under way; it has taken longer than LIMIT_MS; its end is an answer
	 * to sentinel_ask. */
	bool is_round, is_late, is_wanted;
	char host[256]; /* the master that was told; "": none so far */
	unsigned port;
	void (*on_closed)(void *ctx);
	void *closed_ctx;
};

static void begin_round(struct sentinel *s);
static void end_round_if_over(struct sentinel *s);

#define EACH_PEER(s, p)                                                    \
	for (struct peer *p = (s)->peers; p < (s)->peers + PEERS_MAX; p++) \
		if (p->at.host)

/* Peers. */

static void drop_link(struct peer *p)
{
	struct redis_requests unanswered = TAILQ_HEAD_INITIALIZER(unanswered);

	if (p->link)
		redis_link_close(p->link, &unanswered);
	p->link = NULL;
	p->is_asked = false;
}

static void forget_peer(struct peer *p)
{
	drop_link(p);
	url_deinit(&p->at);
	*p = (struct peer){ .owner = p->owner };
}

static void fail_peer(struct peer *p, const char *why)
{
	drop_link(p);
	p->answered_ms = 0;
	snprintf(p->why, sizeof(p->why), "%s", why);
}

static struct peer *find_peer(struct sentinel *s, const char *id, const char *host,
			      unsigned port)
{
	EACH_PEER(s, p)
	if ((id[0] && strcmp(p->id, id) == 0) ||
	    (p->at.port == port && strcmp(p->at.host, host) == 0))
		return p;
	return NULL;
}

/* A slot for one more: a free one, or that of one which was learned and is silent. */
static struct peer *take_slot(struct sentinel *s)
{
	struct peer *silent = NULL;

	for (struct peer *p = s->peers; p < s->peers + PEERS_MAX; p++) {
		if (!p->at.host)
			return p;
		if (p->is_learned && p->why[0] && !p->is_asked)
			silent = p;
	}
	if (silent)
		forget_peer(silent);
	return silent;
}

static void add_peer(struct sentinel *s, const char *host, unsigned port, bool is_learned)
{
	struct peer *p = take_slot(s);

	if (!p)
		return;
	p->at.host = mem_strdup(host);
	p->at.port = port;
	p->is_learned = is_learned;
	p->listed_ms = uv_now(s->loop);
}

/* Answers. */

static const char *text_of(const redisReply *reply)
{
	return reply->type == REDIS_REPLY_STRING ? reply->str : "";
}

/* In the names and values that Sentinel tells of a Redis or a Sentinel. */
static const char *find_field(const redisReply *fields, const char *name)
{
	for (size_t i = 0; i + 1 < fields->elements; i += 2)
		if (strcmp(text_of(fields->element[i]), name) == 0)
			return text_of(fields->element[i + 1]);
	return "";
}

static unsigned read_port(const char *text)
{
	uint64_t port;

	return slice_to_uint(slice_from(text), 65535, &port) ? (unsigned)port : 0;
}

static void learn_other(struct sentinel *s, const redisReply *fields)
{
	const char *host = find_field(fields, "ip"), *id = find_field(fields, "runid");
	unsigned port = read_port(find_field(fields, "port"));
	struct peer *known;

	if (!host[0] || !port)
		return;
	known = find_peer(s, id, host, port);
	/* It has moved: a container that was started again has another address. */
	if (known && known->is_learned && known->why[0] && !known->is_asked &&
	    strcmp(known->at.host, host) != 0) {
		forget_peer(known);
		known = NULL;
	}
	if (known)
		known->listed_ms = uv_now(s->loop);
	else
		add_peer(s, host, port, true);
}

/* The URL may have a name where the others tell the address. */
static void read_id(struct peer *p, const char *id)
{
	snprintf(p->id, sizeof(p->id), "%s", id);
	EACH_PEER(p->owner, other)
	if (other != p && other->is_learned && id[0] && !strcmp(other->id, id))
		forget_peer(other);
}

static void read_address(struct peer *p, const redisReply *reply)
{
	p->host[0] = '\0';
	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2) {
		snprintf(p->why, sizeof(p->why), "it knows no such Redis");
		return;
	}
	snprintf(p->host, sizeof(p->host), "%s", text_of(reply->element[0]));
	p->port = read_port(text_of(reply->element[1]));
}

/* The first error stands: those that follow are its consequence. */
static void read_error(struct peer *p, enum question question, const char *text)
{
	if (p->why[0] || question == ASK_ID || question == ASK_MASTER)
		return;
	if (strncmp(text, "NOAUTH", 6) == 0)
		text = "it requires a password: ?sentinel-password=… in --store";
	snprintf(p->why, sizeof(p->why), "%s", text);
}

static void read_answer(struct peer *p, enum question question, const redisReply *reply)
{
	uint64_t epoch;

	if (reply->type == REDIS_REPLY_ERROR)
		read_error(p, question, reply->str);
	else if (question == ASK_ID)
		read_id(p, text_of(reply));
	else if (question == ASK_ADDRESS)
		read_address(p, reply);
	else if (question == ASK_MASTER &&
		 slice_to_uint(slice_from(find_field(reply, "config-epoch")), INT64_MAX,
			       &epoch))
		p->epoch = epoch;
	else if (question == ASK_OTHERS)
		for (size_t i = 0; i < reply->elements; i++)
			learn_other(p->owner, reply->element[i]);
}

static void on_link_reply(void *ctx, struct redis_request *r, const redisReply *reply)
{
	struct peer *p = ctx;
	struct sentinel *s = p->owner;

	if (r->answered == 1) {
		p->why[0] = p->host[0] = '\0';
		p->epoch = 0;
	}
	read_answer(p, s->questions[r->answered - 1], reply);
	if (r->answered < r->replies)
		return;
	p->is_asked = false;
	p->is_fresh = true;
	p->answered_ms = p->host[0] ? uv_now(s->loop) : 0;
	end_round_if_over(s);
}

static void on_link_connected(void *ctx)
{
	struct peer *p = ctx;

	redis_link_flush(p->link);
}

static void on_link_lost(void *ctx, const char *why)
{
	struct peer *p = ctx;

	fail_peer(p, why);
	end_round_if_over(p->owner);
}

static void on_link_bytes(void *ctx)
{
}

static void on_link_count(void *ctx, struct redis_request *r, const redisReply *reply)
{
}

static void on_part_closed(struct sentinel *s)
{
	if (--s->open_count > 0)
		return;
	EACH_PEER(s, p)
	url_deinit(&p->at);
	buf_deinit(&s->bytes);
	s->on_closed(s->closed_ctx);
	mem_free(s);
}

static void on_link_closed(void *ctx)
{
	struct peer *p = ctx;

	on_part_closed(p->owner);
}

/* Rounds. */

static void open_link(struct peer *p)
{
	static const struct redis_link_ops ops = {
		.on_connected = on_link_connected,
		.on_bytes = on_link_bytes,
		.on_count = on_link_count,
		.on_reply = on_link_reply,
		.on_lost = on_link_lost,
		.on_closed = on_link_closed,
	};
	struct sentinel *s = p->owner;
	int rc;

	p->link = redis_link_create(s->loop, &p->at, s->tls, &ops, p);
	s->open_count++;
	rc = redis_link_connect(p->link);
	if (rc < 0)
		fail_peer(p, uv_strerror(rc));
}

static void ask_peer(struct peer *p)
{
	struct sentinel *s = p->owner;

	p->is_fresh = false;
	/* One that is slow is given its time, over several rounds. */
	if (p->is_asked && uv_now(s->loop) - p->asked_ms < s->patience_ms)
		return;
	if (p->is_asked)
		fail_peer(p, "no answer");
	if (!p->link)
		open_link(p);
	if (!p->link)
		return;
	p->part =
		uv_buf_init(s->bytes.data + s->bytes.start, (unsigned)buf_len(&s->bytes));
	p->request = (struct redis_request){ .parts = &p->part,
					     .part_count = 1,
					     .replies = s->question_count };
	p->is_asked = true;
	p->asked_ms = uv_now(s->loop);
	redis_link_send(p->link, &p->request);
	redis_link_flush(p->link);
}

static const struct peer *find_newest(struct sentinel *s)
{
	const struct peer *newest = NULL;

	EACH_PEER(s, p)
	if (p->is_fresh && p->host[0] && p->port && (!newest || p->epoch > newest->epoch))
		newest = p;
	return newest;
}

static void tell_failed(struct sentinel *s)
{
	struct buf text = { 0 };
	char address[URL_ADDRESS_MAX];
	const char *between = "";

	buf_printf(&text,
		   "no Sentinel names a master for '%s': start Sentinels that monitor it "
		   "(",
		   s->url->name);
	EACH_PEER(s, p)
	{
		url_address(&p->at, address);
		buf_printf(&text, "%s%s: %s", between, address,
			   p->is_asked || !p->why[0] ? "no answer" : p->why);
		between = "; ";
	}
	buf_append_text(&text, ")");
	s->hooks.on_failed(s->hooks.ctx, buf_cstr(&text));
	buf_deinit(&text);
}

/* A Sentinel that is gone for good, as the others say. */
static void forget_gone(struct sentinel *s)
{
	EACH_PEER(s, p)
	if (p->is_learned && p->why[0] && uv_now(s->loop) - p->listed_ms > LATELY_MS)
		forget_peer(p);
}

static void on_timer(uv_timer_t *timer);

static void end_round(struct sentinel *s)
{
	const struct peer *newest = find_newest(s);
	bool is_wanted = s->is_wanted, is_other;

	s->is_round = s->is_wanted = false;
	uv_timer_start(&s->timer, on_timer, SENTINEL_PERIOD_MS, 0);
	if (!newest && is_wanted)
		tell_failed(s);
	if (!newest)
		return;
	forget_gone(s);
	is_other = s->port != newest->port || strcmp(s->host, newest->host) != 0;
	if (is_wanted) {
		snprintf(s->host, sizeof(s->host), "%s", newest->host);
		s->port = newest->port;
		s->hooks.on_found(s->hooks.ctx, s->host, s->port);
	} else if (is_other && s->host[0]) {
		s->hooks.on_moved(s->hooks.ctx, newest->host, newest->port);
	}
}

static void end_round_if_over(struct sentinel *s)
{
	bool is_waiting = false;

	EACH_PEER(s, p)
	is_waiting |= p->is_asked;
	if (s->is_round && (!is_waiting || (s->is_late && find_newest(s))))
		end_round(s);
}

static void on_timer(uv_timer_t *timer)
{
	struct sentinel *s = timer->data;

	if (!s->is_round) {
		begin_round(s);
	} else if (s->is_late || find_newest(s)) {
		end_round(s);
	} else {
		s->is_late = true;
		uv_timer_start(&s->timer, on_timer,
			       s->patience_ms > LIMIT_MS ? s->patience_ms - LIMIT_MS : 0,
			       0);
	}
}

static void begin_round(struct sentinel *s)
{
	s->is_round = true;
	s->is_late = false;
	uv_timer_start(&s->timer, on_timer, LIMIT_MS, 0);
	EACH_PEER(s, p)
	ask_peer(p);
	end_round_if_over(s);
}

TIDE_PRINTF(3, 4)
static void add_question(struct sentinel *s, enum question question, const char *format,
			 ...)
{
	va_list args;

	va_start(args, format);
	resp_command(&s->bytes, format, args);
	va_end(args);
	s->questions[s->question_count++] = question;
}

static void add_questions(struct sentinel *s)
{
	const struct redis_url *url = s->url;

	if (url->sentinel_user)
		add_question(s, ASK_AUTH, "AUTH %s %s", url->sentinel_user,
			     url->sentinel_password);
	else if (url->sentinel_password)
		add_question(s, ASK_AUTH, "AUTH %s", url->sentinel_password);
	add_question(s, ASK_ID, "SENTINEL MYID");
	add_question(s, ASK_ADDRESS, "SENTINEL get-master-addr-by-name %s", url->name);
	add_question(s, ASK_MASTER, "SENTINEL master %s", url->name);
	add_question(s, ASK_OTHERS, "SENTINEL sentinels %s", url->name);
}

struct sentinel *sentinel_create(uv_loop_t *loop, const struct redis_url *url,
				 int64_t patience_ms, const struct sentinel_hooks *hooks)
{
	struct sentinel *s = mem_zalloc(sizeof(*s));

	s->loop = loop;
	s->url = url;
	s->patience_ms = (uint64_t)patience_ms;
	s->hooks = *hooks;
	add_questions(s);
	for (unsigned i = 0; i < PEERS_MAX; i++)
		s->peers[i].owner = s;
	for (unsigned i = 0; i < url->host_count; i++)
		add_peer(s, url->hosts[i].host, url->hosts[i].port, false);
	uv_timer_init(loop, &s->timer);
	s->timer.data = s;
	s->open_count = 1;
	return s;
}

void sentinel_ask(struct sentinel *s, struct tls_context *tls)
{
	s->tls = tls;
	s->is_wanted = true;
	if (!s->is_round)
		uv_timer_start(&s->timer, on_timer, 0, 0);
}

/* One that was not asked yet, or a moment ago for the first time, is not missed. */
static bool is_missed(const struct peer *p, uint64_t now_ms)
{
	uint64_t since_ms = p->answered_ms ? p->answered_ms : p->asked_ms;

	return p->why[0] || (since_ms && now_ms - since_ms >= LATELY_MS);
}

void sentinel_count(struct sentinel *s, unsigned *answering, unsigned *known)
{
	*answering = *known = 0;
	EACH_PEER(s, p)
	{
		*answering += !is_missed(p, uv_now(s->loop));
		++*known;
	}
}

static void on_timer_closed(uv_handle_t *handle)
{
	on_part_closed(handle->data);
}

void sentinel_close(struct sentinel *s, void (*on_closed)(void *ctx), void *ctx)
{
	s->on_closed = on_closed;
	s->closed_ctx = ctx;
	EACH_PEER(s, p)
	drop_link(p);
	uv_close((uv_handle_t *)&s->timer, on_timer_closed);
}
