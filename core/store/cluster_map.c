#include "cluster_map.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "redis_link.h"
#include "resp.h"

#define NODES_MAX 256

enum question { ASK_AUTH, ASK_INFO, ASK_SLOTS, QUESTIONS };

struct cluster {
	uv_loop_t *loop;
	const struct redis_url *url;
	struct tls_context *tls;
	uint64_t patience_ms;
	struct cluster_hooks hooks;
	struct url nodes[NODES_MAX]; /* the first is that of the URL */
	unsigned node_count, next;
	unsigned tries;          /* nodes that were asked so far */
	struct redis_link *link; /* to the one that is asked; NULL: none is */
	struct redis_request request;
	struct buf bytes;
	uv_buf_t part;
	enum question questions[QUESTIONS];
	bool is_cut_off;      /* the node says so of itself */
	bool is_answered;     /* by the node that is asked */
	uint64_t epoch;       /* of its answer */
	uint64_t known_epoch; /* of the last map that was told */
	struct cluster_map map;
	char why[ERROR_TEXT_MAX]; /* the first reason why there is no map; "" */
	uv_timer_t timer;         /* the end of the patience with one node */
	unsigned open_count;
	bool is_asked;
	/* Of the answers of this round that others may know better than. */
	unsigned second_best; /* whose it is; NODES_MAX: there is none */
	uint64_t second_rank;
	bool is_settling; /* nobody has: it is asked again, and counts */
	void (*on_closed)(void *ctx);
	void *closed_ctx;
};

static void ask_next(struct cluster *c);

/* The map. */

static unsigned find_master(struct cluster_map *map, const char *host, unsigned port)
{
	struct cluster_master *m;

	for (size_t i = 0; i < map->count; i++)
		if (map->masters[i].port == port &&
		    strcmp(map->masters[i].host, host) == 0)
			return (unsigned)i;
	MEM_GROW(map->masters, map->count, map->cap, 4);
	m = &map->masters[map->count];
	*m = (struct cluster_master){ .port = port };
	snprintf(m->host, sizeof(m->host), "%s", host);
	return (unsigned)map->count++;
}

/* Host and port of a node in a range; false: it has none, or an unknown one. */
static bool read_node(const redisReply *node, const char *asked, const char **host,
		      unsigned *port)
{
	if (node->type != REDIS_REPLY_ARRAY || node->elements < 2 ||
	    node->element[1]->type != REDIS_REPLY_INTEGER)
		return false;
	*host = node->element[0]->type == REDIS_REPLY_STRING ? node->element[0]->str : "";
	if (!**host)
		*host = asked;
	if (node->element[1]->integer <= 0 || node->element[1]->integer > 65535)
		return false;
	*port = (unsigned)node->element[1]->integer;
	return strcmp(*host, "?") != 0;
}

static bool read_range(struct cluster_map *map, const redisReply *range,
		       const char *asked)
{
	const char *host;
	unsigned port, master;
	long long first, last;

	if (range->type != REDIS_REPLY_ARRAY || range->elements < 3 ||
	    range->element[0]->type != REDIS_REPLY_INTEGER ||
	    range->element[1]->type != REDIS_REPLY_INTEGER)
		return false;
	first = range->element[0]->integer;
	last = range->element[1]->integer;
	if (first < 0 || last < first || last >= LAYOUT_SLOTS)
		return false;
	if (!read_node(range->element[2], asked, &host, &port))
		return true;
	master = find_master(map, host, port);
	map->masters[master].replicas = (unsigned)range->elements - 3;
	for (long long i = first; i <= last; i++) {
		map->covered += map->owner[i] == CLUSTER_NO_MASTER;
		map->owner[i] = (uint16_t)master;
		map->masters[master].slots++;
	}
	return true;
}

/* Read the answer to CLUSTER SLOTS of the node at `host`, which may name itself by no
 * host. False: it is none. */
static bool read_map(struct cluster_map *map, const redisReply *reply, const char *host)
{
	map->count = 0;
	map->covered = 0;
	for (unsigned i = 0; i < LAYOUT_SLOTS; i++)
		map->owner[i] = CLUSTER_NO_MASTER;
	if (reply->type != REDIS_REPLY_ARRAY)
		return false;
	for (size_t i = 0; i < reply->elements; i++)
		if (!read_range(map, reply->element[i], host))
			return false;
	return map->count > 0;
}

/* Nodes. */

static void add_node(struct cluster *c, const char *host, unsigned port)
{
	for (unsigned i = 0; i < c->node_count; i++)
		if (c->nodes[i].port == port && strcmp(c->nodes[i].host, host) == 0)
			return;
	if (c->node_count == NODES_MAX)
		return;
	c->nodes[c->node_count++] =
		(struct url){ .host = mem_strdup(host), .port = port };
}

/* Nodes come and go, with other addresses each time. */
static void forget_nodes(struct cluster *c)
{
	while (c->node_count > c->url->host_count)
		url_deinit(&c->nodes[--c->node_count]);
}

static void learn_nodes(struct cluster *c, const redisReply *reply, const char *asked)
{
	const char *host;
	unsigned port;

	for (size_t i = 0; i < reply->elements; i++)
		for (size_t n = 2; n < reply->element[i]->elements; n++)
			if (read_node(reply->element[i]->element[n], asked, &host, &port))
				add_node(c, host, port);
}

/* Asking. */

static void drop_link(struct cluster *c)
{
	struct redis_requests unanswered = TAILQ_HEAD_INITIALIZER(unanswered);

	if (c->link)
		redis_link_close(c->link, &unanswered);
	c->link = NULL;
}

static void give_up(struct cluster *c)
{
	if (c->second_best < NODES_MAX && !c->is_settling) {
		c->is_settling = true;
		c->next = c->second_best;
		ask_next(c);
		return;
	}
	c->is_asked = false;
	uv_timer_stop(&c->timer);
	c->hooks.on_failed(c->hooks.ctx, c->why);
}

static void fail(struct cluster *c, const char *why)
{
	const struct url *node = &c->nodes[c->next];
	char address[URL_ADDRESS_MAX];

	drop_link(c);
	url_address(node, address);
	if (!c->why[0])
		snprintf(c->why, sizeof(c->why), "the cluster node at %.200s: %s",
			 address, why);
	c->next = (c->next + 1) % c->node_count;
	if (++c->tries >= c->node_count || c->is_settling)
		give_up(c);
	else
		ask_next(c);
}

static void on_timer(uv_timer_t *timer)
{
	fail(timer->data, "no answer");
}

/* The majority may be away, or who knew more. */
static void note_second_best(struct cluster *c)
{
	uint64_t rank = 2 * c->epoch + !c->is_cut_off;

	if (c->second_best < NODES_MAX && c->second_rank >= rank)
		return;
	c->second_best = c->next;
	c->second_rank = rank;
}

static void end_question(struct cluster *c, const redisReply *slots)
{
	char asked[sizeof(((struct cluster_master *)0)->host)];

	if (!c->is_answered) {
		fail(c, c->why[0] ? c->why : "it tells no slots");
		return;
	}
	if ((c->epoch < c->known_epoch || c->is_cut_off) && !c->is_settling) {
		note_second_best(c);
		fail(c, "it is cut off from the majority");
		return;
	}
	drop_link(c);
	uv_timer_stop(&c->timer);
	c->is_asked = false;
	c->known_epoch = c->epoch;
	snprintf(asked, sizeof(asked), "%s", c->nodes[c->next].host);
	forget_nodes(c);
	learn_nodes(c, slots, asked);
	/* Another one next time: one that is wrong is not asked for ever. */
	c->next = (c->next + 1) % c->node_count;
	c->hooks.on_map(c->hooks.ctx, &c->map);
}

static void read_answer(struct cluster *c, enum question question,
			const redisReply *reply)
{
	const char *host = c->nodes[c->next].host;
	struct slice info = { reply->str, reply->len };

	if (reply->type == REDIS_REPLY_ERROR) {
		if (!c->why[0])
			snprintf(c->why, sizeof(c->why), "%s", reply->str);
	} else if (question == ASK_INFO && reply->type == REDIS_REPLY_STRING) {
		c->is_cut_off = !slice_is(resp_info_value(info, "cluster_state"), "ok");
		c->epoch = resp_info_number(info, "cluster_current_epoch");
	} else if (question == ASK_SLOTS) {
		c->is_answered = read_map(&c->map, reply, host);
		if (c->is_answered)
			learn_nodes(c, reply, host);
	}
}

static void on_link_reply(void *ctx, struct redis_request *r, const redisReply *reply)
{
	struct cluster *c = ctx;

	read_answer(c, c->questions[r->answered - 1], reply);
	if (r->answered == r->replies)
		end_question(c, reply);
}

static void on_link_connected(void *ctx)
{
	struct cluster *c = ctx;

	redis_link_flush(c->link);
}

static void on_link_lost(void *ctx, const char *why)
{
	fail(ctx, why);
}

static void on_link_bytes(void *ctx)
{
}

static void on_link_count(void *ctx, struct redis_request *r, const redisReply *reply)
{
}

static void on_part_closed(void *ctx)
{
	struct cluster *c = ctx;

	if (--c->open_count > 0)
		return;
	for (unsigned i = 0; i < c->node_count; i++)
		url_deinit(&c->nodes[i]);
	buf_deinit(&c->bytes);
	mem_free(c->map.masters);
	c->on_closed(c->closed_ctx);
	mem_free(c);
}

static void ask_next(struct cluster *c)
{
	static const struct redis_link_ops ops = {
		.on_connected = on_link_connected,
		.on_bytes = on_link_bytes,
		.on_count = on_link_count,
		.on_reply = on_link_reply,
		.on_lost = on_link_lost,
		.on_closed = on_part_closed,
	};

	c->is_cut_off = c->is_answered = false;
	c->epoch = 0;
	uv_timer_start(&c->timer, on_timer, c->patience_ms, 0);
	c->link = redis_link_create(c->loop, &c->nodes[c->next], c->tls, &ops, c);
	c->open_count++;
	c->request.parts = &c->part;
	c->request.part_count = 1;
	c->request.replies = QUESTIONS - (c->questions[0] != ASK_AUTH);
	redis_link_send(c->link, &c->request);
	/* One that fails at once waits for the timer, so that nobody is called here. */
	if (redis_link_connect(c->link) < 0)
		uv_timer_start(&c->timer, on_timer, 0, 0);
}

TIDE_PRINTF(3, 4)
static void add_question(struct cluster *c, enum question question, const char *format,
			 ...)
{
	va_list args;

	va_start(args, format);
	resp_command(&c->bytes, format, args);
	va_end(args);
	c->questions[c->request.replies++] = question;
}

static void add_questions(struct cluster *c)
{
	const struct url *at = &c->url->at;

	if (at->password && at->user)
		add_question(c, ASK_AUTH, "AUTH %s %s", at->user, at->password);
	else if (at->password)
		add_question(c, ASK_AUTH, "AUTH %s", at->password);
	add_question(c, ASK_INFO, "CLUSTER INFO");
	add_question(c, ASK_SLOTS, "CLUSTER SLOTS");
	c->part =
		uv_buf_init(c->bytes.data + c->bytes.start, (unsigned)buf_len(&c->bytes));
}

struct cluster *cluster_create(uv_loop_t *loop, const struct redis_url *url,
			       int64_t patience_ms, const struct cluster_hooks *hooks)
{
	struct cluster *c = mem_zalloc(sizeof(*c));

	c->loop = loop;
	c->url = url;
	c->patience_ms = (uint64_t)patience_ms;
	c->hooks = *hooks;
	add_questions(c);
	for (unsigned i = 0; i < url->host_count; i++)
		add_node(c, url->hosts[i].host, url->hosts[i].port);
	uv_timer_init(loop, &c->timer);
	c->timer.data = c;
	c->open_count = 1;
	return c;
}

void cluster_ask(struct cluster *c, struct tls_context *tls)
{
	if (c->is_asked)
		return;
	c->tls = tls;
	c->is_asked = true;
	c->tries = 0;
	c->second_best = NODES_MAX;
	c->is_settling = false;
	c->why[0] = '\0';
	ask_next(c);
}

static void on_timer_closed(uv_handle_t *handle)
{
	on_part_closed(handle->data);
}

void cluster_close(struct cluster *c, void (*on_closed)(void *ctx), void *ctx)
{
	c->on_closed = on_closed;
	c->closed_ctx = ctx;
	drop_link(c);
	uv_close((uv_handle_t *)&c->timer, on_timer_closed);
}
