#include "sentinel.h"

#include <stdio.h>
#include <string.h>

#include "base/container.h"
#include "base/mem.h"
#include "inquiry.h"
#include "resp.h"

/* Once somebody has answered, nobody is waited for any longer. */
#define LIMIT_MS 300
/* An answer of before counts no more: three periods. */
#define LATELY_MS (3 * SENTINEL_PERIOD_MS)
#define PEERS_MAX 32
#define ID_MAX 41

enum command { ASK_AUTH, ASK_ID, ASK_ADDRESS, ASK_MASTER, ASK_OTHERS };

/* One Sentinel. A slot without a host is free. */
struct peer {
	struct respondent node;
	bool is_learned;                /* another one told of it */
	char id[ID_MAX];                /* its own; "": not known */
	char why[160];                  /* there is no answer of it; "": there is one */
	bool is_fresh;                  /* it has answered in this round */
	uint64_t asked_ms, answered_ms; /* 0: never, or it has failed since */
	uint64_t listed_ms;             /* when another one has told of it */
	/* The last answer. */
	char host[256]; /* "": it knows none */
	unsigned port;
	uint64_t epoch;
};

struct sentinel {
	struct inquiry inquiry; /* its timer: the end of a round, or of a pause */
	const struct redis_url *url;
	uint64_t patience_ms;
	struct sentinel_hooks hooks;
	struct peer peers[PEERS_MAX];
	/* A round is under way; it has taken longer than LIMIT_MS; its end is an answer
	 * to sentinel_ask. */
	bool is_round, is_late, is_wanted;
	char host[256]; /* the master that was told; "": none so far */
	unsigned port;
};

static void begin_round(struct sentinel *s);
static void end_round_if_over(struct sentinel *s);

#define EACH_PEER(s, p)                                                    \
	for (struct peer *p = (s)->peers; p < (s)->peers + PEERS_MAX; p++) \
		if (p->node.at.host)

/* Peers. */

static void forget_peer(struct peer *p)
{
	inquiry_drop(&p->node);
	url_deinit(&p->node.at);
	*p = (struct peer){ .node.inquiry = p->node.inquiry };
}

static void fail_peer(struct peer *p, const char *why)
{
	inquiry_drop(&p->node);
	p->answered_ms = 0;
	snprintf(p->why, sizeof(p->why), "%s", why);
}

static uint64_t now_ms(const struct sentinel *s)
{
	return uv_now(s->inquiry.loop);
}

static struct peer *find_peer(struct sentinel *s, const char *id, const char *host,
			      unsigned port)
{
	EACH_PEER(s, p)
	if ((id[0] && strcmp(p->id, id) == 0) ||
	    (p->node.at.port == port && strcmp(p->node.at.host, host) == 0))
		return p;
	return NULL;
}

/* A slot for one more: a free one, or that of one which was learned and is silent. */
static struct peer *take_slot(struct sentinel *s)
{
	struct peer *silent = NULL;

	for (struct peer *p = s->peers; p < s->peers + PEERS_MAX; p++) {
		if (!p->node.at.host)
			return p;
		if (p->is_learned && p->why[0] && !p->node.is_asked)
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
	p->node.at.host = mem_strdup(host);
	p->node.at.port = port;
	p->is_learned = is_learned;
	p->listed_ms = now_ms(s);
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
	/* A Sentinel in a container that was started again has another address. */
	if (known && known->is_learned && known->why[0] && !known->node.is_asked &&
	    strcmp(known->node.at.host, host) != 0) {
		forget_peer(known);
		known = NULL;
	}
	if (known)
		known->listed_ms = now_ms(s);
	else
		add_peer(s, host, port, true);
}

/* The URL may have a name where the others tell the address. */
static void read_id(struct sentinel *s, struct peer *p, const char *id)
{
	snprintf(p->id, sizeof(p->id), "%s", id);
	EACH_PEER(s, other)
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
static void read_error(struct peer *p, enum command command, const char *text)
{
	if (p->why[0] || command == ASK_ID || command == ASK_MASTER)
		return;
	if (strncmp(text, "NOAUTH", 6) == 0)
		text = "it requires a password: ?sentinel-password=… in --store";
	snprintf(p->why, sizeof(p->why), "%s", text);
}

static void on_reply(struct respondent *r, unsigned command, const redisReply *reply)
{
	struct sentinel *s = container_of(r->inquiry, struct sentinel, inquiry);
	struct peer *p = container_of(r, struct peer, node);
	uint64_t epoch;

	if (r->request.answered == 1) {
		p->why[0] = p->host[0] = '\0';
		p->epoch = 0;
	}
	if (reply->type == REDIS_REPLY_ERROR)
		read_error(p, command, reply->str);
	else if (command == ASK_ID)
		read_id(s, p, text_of(reply));
	else if (command == ASK_ADDRESS)
		read_address(p, reply);
	else if (command == ASK_MASTER &&
		 slice_to_uint(slice_from(find_field(reply, "config-epoch")), INT64_MAX,
			       &epoch))
		p->epoch = epoch;
	else if (command == ASK_OTHERS)
		for (size_t i = 0; i < reply->elements; i++)
			learn_other(s, reply->element[i]);
}

static void on_answered(struct respondent *r, const redisReply *last)
{
	struct sentinel *s = container_of(r->inquiry, struct sentinel, inquiry);
	struct peer *p = container_of(r, struct peer, node);

	p->is_fresh = true;
	p->answered_ms = p->host[0] ? now_ms(s) : 0;
	end_round_if_over(s);
}

static void on_lost(struct respondent *r, const char *why)
{
	fail_peer(container_of(r, struct peer, node), why);
	end_round_if_over(container_of(r->inquiry, struct sentinel, inquiry));
}

/* Rounds. */

static void ask_peer(struct sentinel *s, struct peer *p)
{
	int rc;

	p->is_fresh = false;
	/* One that is slow is given its time, over several rounds. */
	if (p->node.is_asked && now_ms(s) - p->asked_ms < s->patience_ms)
		return;
	if (p->node.is_asked)
		fail_peer(p, "no answer");
	p->asked_ms = now_ms(s);
	rc = inquiry_ask(&s->inquiry, &p->node);
	if (rc < 0)
		fail_peer(p, uv_strerror(rc));
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
		   "no Sentinel names a master for '%s': start Sentinels that monitor "
		   "it (",
		   s->url->name);
	EACH_PEER(s, p)
	{
		url_address(&p->node.at, address);
		buf_printf(&text, "%s%s: %s", between, address,
			   p->node.is_asked || !p->why[0] ? "no answer" : p->why);
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
	if (p->is_learned && p->why[0] && now_ms(s) - p->listed_ms > LATELY_MS)
		forget_peer(p);
}

static void on_timer(uv_timer_t *timer);

static void end_round(struct sentinel *s)
{
	const struct peer *newest = find_newest(s);
	bool is_wanted = s->is_wanted, is_other;

	s->is_round = s->is_wanted = false;
	uv_timer_start(&s->inquiry.timer, on_timer, SENTINEL_PERIOD_MS, 0);
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
	is_waiting |= p->node.is_asked;
	if (s->is_round && (!is_waiting || (s->is_late && find_newest(s))))
		end_round(s);
}

static void on_timer(uv_timer_t *timer)
{
	struct sentinel *s = container_of(timer->data, struct sentinel, inquiry);

	if (!s->is_round) {
		begin_round(s);
	} else if (s->is_late || find_newest(s)) {
		end_round(s);
	} else {
		s->is_late = true;
		uv_timer_start(&s->inquiry.timer, on_timer,
			       s->patience_ms > LIMIT_MS ? s->patience_ms - LIMIT_MS : 0,
			       0);
	}
}

static void begin_round(struct sentinel *s)
{
	s->is_round = true;
	s->is_late = false;
	uv_timer_start(&s->inquiry.timer, on_timer, LIMIT_MS, 0);
	EACH_PEER(s, p)
	ask_peer(s, p);
	end_round_if_over(s);
}

static void on_inquiry_closed(struct inquiry *inquiry)
{
	struct sentinel *s = container_of(inquiry, struct sentinel, inquiry);

	EACH_PEER(s, p)
	url_deinit(&p->node.at);
	mem_free(s);
}

struct sentinel *sentinel_create(uv_loop_t *loop, const struct redis_url *url,
				 int64_t patience_ms, const struct sentinel_hooks *hooks)
{
	struct sentinel *s = mem_zalloc(sizeof(*s));

	s->inquiry = (struct inquiry){ .loop = loop,
				       .on_reply = on_reply,
				       .on_answered = on_answered,
				       .on_lost = on_lost,
				       .on_closed = on_inquiry_closed };
	inquiry_init(&s->inquiry, url->sentinel_user, url->sentinel_password);
	inquiry_add(&s->inquiry, "SENTINEL MYID");
	inquiry_add(&s->inquiry, "SENTINEL get-master-addr-by-name %s", url->name);
	inquiry_add(&s->inquiry, "SENTINEL master %s", url->name);
	inquiry_add(&s->inquiry, "SENTINEL sentinels %s", url->name);
	s->url = url;
	s->patience_ms = (uint64_t)patience_ms;
	s->hooks = *hooks;
	for (unsigned i = 0; i < url->host_count; i++)
		add_peer(s, url->hosts[i].host, url->hosts[i].port, false);
	return s;
}

void sentinel_ask(struct sentinel *s, struct tls_context *tls)
{
	s->inquiry.tls = tls;
	s->is_wanted = true;
	if (!s->is_round)
		uv_timer_start(&s->inquiry.timer, on_timer, 0, 0);
}

/* One that was not asked yet, or a moment ago for the first time, is not missed. */
static bool is_missed(const struct sentinel *s, const struct peer *p)
{
	uint64_t since_ms = p->answered_ms ? p->answered_ms : p->asked_ms;

	return p->why[0] || (since_ms && now_ms(s) - since_ms >= LATELY_MS);
}

void sentinel_count(struct sentinel *s, unsigned *answering, unsigned *known)
{
	*answering = *known = 0;
	EACH_PEER(s, p)
	{
		*answering += !is_missed(s, p);
		++*known;
	}
}

void sentinel_close(struct sentinel *s, void (*on_closed)(void *ctx), void *ctx)
{
	EACH_PEER(s, p)
	inquiry_drop(&p->node);
	inquiry_close(&s->inquiry, on_closed, ctx);
}
