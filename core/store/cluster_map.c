#include "cluster_map.h"

#include <stdio.h>
#include <string.h>

#include "base/container.h"
#include "base/mem.h"
#include "inquiry.h"
#include "resp.h"

#define NODES_MAX 256

/* The number of CLUSTER INFO among the commands. */
#define ASK_INFO 1

struct cluster {
	struct inquiry inquiry;
	const struct redis_url *url;
	uint64_t patience_ms;
	struct cluster_hooks hooks;
	struct respondent nodes[NODES_MAX]; /* the first ones are those of the URL */
	unsigned node_count, next;
	unsigned tries;       /* nodes that were asked so far */
	bool is_cut_off;      /* the node says so of itself */
	uint64_t epoch;       /* of its answer */
	uint64_t known_epoch; /* of the last map that was told */
	struct cluster_map map;
	char refusal[128];        /* the node's first error; "" */
	char why[ERROR_TEXT_MAX]; /* the first reason why there is no map; "" */
	bool is_asked;
	/* Of the answers of this round that others may know better than. */
	unsigned second_best; /* whose it is; NODES_MAX: there is none */
	uint64_t second_rank;
	bool is_settling; /* nobody has: it is asked again, and counts */
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
		if (c->nodes[i].at.port == port && strcmp(c->nodes[i].at.host, host) == 0)
			return;
	if (c->node_count == NODES_MAX)
		return;
	c->nodes[c->node_count++].at =
		(struct url){ .host = mem_strdup(host), .port = port };
}

/* Nodes come and go, with other addresses each time. */
static void forget_nodes(struct cluster *c)
{
	while (c->node_count > c->url->host_count)
		url_deinit(&c->nodes[--c->node_count].at);
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

static struct cluster *cluster_of(const struct respondent *node)
{
	return container_of(node->inquiry, struct cluster, inquiry);
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
	uv_timer_stop(&c->inquiry.timer);
	c->hooks.on_failed(c->hooks.ctx, c->why);
}

static void fail(struct cluster *c, const char *why)
{
	char address[URL_ADDRESS_MAX];

	inquiry_drop(&c->nodes[c->next]);
	url_address(&c->nodes[c->next].at, address);
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
	fail(container_of(timer->data, struct cluster, inquiry), "no answer");
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

static void on_answered(struct respondent *node, const redisReply *slots)
{
	struct cluster *c = cluster_of(node);
	char asked[sizeof(((struct cluster_master *)0)->host)];

	snprintf(asked, sizeof(asked), "%s", node->at.host);
	if (!read_map(&c->map, slots, asked)) {
		fail(c, c->refusal[0] ? c->refusal : "it tells no slots");
		return;
	}
	if ((c->epoch < c->known_epoch || c->is_cut_off) && !c->is_settling) {
		note_second_best(c);
		learn_nodes(c, slots, asked);
		fail(c, "it is cut off from the majority");
		return;
	}
	inquiry_drop(node);
	uv_timer_stop(&c->inquiry.timer);
	c->is_asked = false;
	c->known_epoch = c->epoch;
	forget_nodes(c);
	learn_nodes(c, slots, asked);
	/* Another one next time: one that is wrong is not asked for ever. */
	c->next = (c->next + 1) % c->node_count;
	c->hooks.on_map(c->hooks.ctx, &c->map);
}

static void on_reply(struct respondent *node, unsigned command, const redisReply *reply)
{
	struct cluster *c = cluster_of(node);
	struct slice info = { reply->str, reply->len };

	if (reply->type == REDIS_REPLY_ERROR && !c->refusal[0]) {
		snprintf(c->refusal, sizeof(c->refusal), "%s", reply->str);
	} else if (command == ASK_INFO && reply->type == REDIS_REPLY_STRING) {
		c->is_cut_off = !slice_is(resp_info_value(info, "cluster_state"), "ok");
		c->epoch = resp_info_number(info, "cluster_current_epoch");
	}
}

static void on_lost(struct respondent *node, const char *why)
{
	fail(cluster_of(node), why);
}

static void on_inquiry_closed(struct inquiry *inquiry)
{
	struct cluster *c = container_of(inquiry, struct cluster, inquiry);

	for (unsigned i = 0; i < c->node_count; i++)
		url_deinit(&c->nodes[i].at);
	mem_free(c->map.masters);
	mem_free(c);
}

static void ask_next(struct cluster *c)
{
	int rc = inquiry_ask(&c->inquiry, &c->nodes[c->next]);

	c->is_cut_off = false;
	c->refusal[0] = '\0';
	c->epoch = 0;
	/* One that fails at once waits for the timer, so that nobody is called here. */
	uv_timer_start(&c->inquiry.timer, on_timer, rc < 0 ? 0 : c->patience_ms, 0);
}

struct cluster *cluster_create(uv_loop_t *loop, const struct redis_url *url,
			       int64_t patience_ms, const struct cluster_hooks *hooks)
{
	struct cluster *c = mem_zalloc(sizeof(*c));

	c->inquiry = (struct inquiry){ .loop = loop,
				       .on_reply = on_reply,
				       .on_answered = on_answered,
				       .on_lost = on_lost,
				       .on_closed = on_inquiry_closed };
	inquiry_init(&c->inquiry, url->at.user, url->at.password);
	inquiry_add(&c->inquiry, "CLUSTER INFO");
	inquiry_add(&c->inquiry, "CLUSTER SLOTS");
	c->url = url;
	c->patience_ms = (uint64_t)patience_ms;
	c->hooks = *hooks;
	for (unsigned i = 0; i < url->host_count; i++)
		add_node(c, url->hosts[i].host, url->hosts[i].port);
	return c;
}

void cluster_ask(struct cluster *c, struct tls_context *tls)
{
	if (c->is_asked)
		return;
	c->inquiry.tls = tls;
	c->is_asked = true;
	c->tries = 0;
	c->second_best = NODES_MAX;
	c->is_settling = false;
	c->why[0] = '\0';
	ask_next(c);
}

void cluster_close(struct cluster *c, void (*on_closed)(void *ctx), void *ctx)
{
	inquiry_drop(&c->nodes[c->next]);
	inquiry_close(&c->inquiry, on_closed, ctx);
}
