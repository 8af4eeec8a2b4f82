/* option_costs: what each option adds to a message, in instructions that callgrind
 * counts. `make bench-options` runs it (tests/bench/options/run.lua).
 *
 * Each case is the way of OPS messages through a queue: bytes of PUB, OK, MSG, bytes of
 * ACK, OK; with durable=0 and with durable=1, on a broker of its own. A case differs
 * from the first one, `plain`, in one option. It runs once before it is counted. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <valgrind/callgrind.h>

#include "guard/redis_stand_in.h"
#include "guard/rig.h"
#include "session/session_private.h"

#define OPS 1000
#define PAYLOAD_BYTES 128
#define RANGE 50 /* messages of one ACK */
#define TURNS 4  /* more than any round needs; one without work costs nothing */

/* callgrind counts what functions of such names do (--toggle-collect). */
#define SECTION __attribute__((noinline)) static void

struct option_case {
	const char *name;
	const char *publish; /* options of PUB; # is another number for each message */
	const char *queue;   /* options of DECLARE */
	const char *sub;     /* options of SUB */
	const char *nack;    /* options of a NACK of each message, before its ACK */
	unsigned per_commit; /* publishes of a transaction */
	bool is_auto;        /* there is nothing to acknowledge */
};

static const struct option_case cases[] = {
	{ .name = "plain" },
	{ .name = "pub_quiet", .publish = "quiet" },
	{ .name = "pub_must", .publish = "must" },
	{ .name = "pub_header", .publish = "h:trace=4bf92f" },
	{ .name = "pub_5_headers", .publish = "h:a=1 h:b=22 h:c=333 h:d=4444 h:e=55555" },
	{ .name = "pub_pri", .publish = "pri=5" },
	{ .name = "pub_ttl", .publish = "ttl=1h" },
	{ .name = "pub_ack_timeout", .publish = "ack-timeout=5m" },
	{ .name = "pub_id_window", .publish = "id=#" },
	{ .name = "pub_id_queued", .publish = "id=#", .queue = "dedupe=queued" },
	{ .name = "ttl", .queue = "ttl=1h" },
	{ .name = "max_length", .queue = "max-length=1000000" },
	{ .name = "max_bytes", .queue = "max-bytes=1000000000" },
	{ .name = "rate", .queue = "rate=1000000/s" },
	{ .name = "expires", .queue = "expires=1d" },
	{ .name = "single_active", .queue = "single-active" },
	{ .name = "order_by_key", .queue = "order-by=key inflight=65535" },
	{ .name = "order_by_header",
	  .publish = "h:group=#",
	  .queue = "order-by=h:group" },
	{ .name = "pub_header_unique", .publish = "h:group=#" },
	{ .name = "priority_strict", .publish = "pri=5", .queue = "priority=strict" },
	{ .name = "priority_aging", .publish = "pri=5", .queue = "priority=aging" },
	{ .name = "priority_fair",
	  .publish = "h:tenant=acme",
	  .queue = "priority=fair priority.by=tenant" },
	{ .name = "shards", .queue = "shards=4 sharding=round_robin" },
	{ .name = "sub_auto", .sub = "ack=auto", .is_auto = true },
	{ .name = "sub_priority", .sub = "priority=5" },
	{ .name = "sub_ack_timeout", .sub = "ack-timeout=5m" },
	{ .name = "sub_notify_lease", .sub = "notify-lease=10s" },
	{ .name = "nack", .nack = "requeue" },
	{ .name = "nack_pri", .nack = "requeue pri=9" },
	{ .name = "tx_1", .per_commit = 1 },
	{ .name = "tx_10", .per_commit = 10 },
	{ .name = "tx_100", .per_commit = 100 },
};

static const char *text(const char *options)
{
	return options ? options : "";
}

static void die(const struct option_case *c, const char *what)
{
	fprintf(stderr, "option_costs: %s: %s\n", c->name, what);
	abort();
}

/* ---- the requests of a round ------------------------------------------------------ */

/* " " and the options, if there are any. */
static void add_options(struct buf *out, const char *options, unsigned number)
{
	if (!options)
		return;
	buf_append_char(out, ' ');
	for (const char *p = options; *p; p++)
		if (*p == '#')
			buf_printf(out, "%u", number);
		else
			buf_append_char(out, *p);
}

static void make_publishes(const struct option_case *c, struct buf *out)
{
	static unsigned number;

	*out = (struct buf){ 0 };
	for (unsigned i = 0; i < OPS; i++) {
		if (c->per_commit && i % c->per_commit == 0)
			buf_append_text(out, "BEGIN\r\n");
		buf_append_text(out, "PUB - q");
		add_options(out, c->publish, number++);
		buf_printf(out, " %d\r\n", PAYLOAD_BYTES);
		memset(buf_reserve(out, PAYLOAD_BYTES), 'x', PAYLOAD_BYTES);
		buf_grow(out, PAYLOAD_BYTES);
		buf_append_text(out, "\r\n");
		if (c->per_commit && (i + 1) % c->per_commit == 0)
			buf_append_text(out, "COMMIT\r\n");
	}
}

static void settle(struct rig *rig, const char *verb, const char *options)
{
	uint64_t first = rig_channel(rig)->held.last_tag - OPS + 1;

	for (uint64_t tag = first; tag < first + OPS; tag += RANGE) {
		char line[128];
		int len = snprintf(line, sizeof(line),
				   "%s %" PRIu64 "-%" PRIu64 "%s%s\r\n", verb, tag,
				   tag + RANGE - 1, *options ? " " : "", options);

		rig_feed(&rig->line, line, (size_t)len);
	}
}

static void turn(struct rig *rig)
{
	for (int i = 0; i < TURNS; i++) {
		service_turn(rig->service);
		redis_stand_in_answer();
	}
	rig_send(&rig->line);
}

SECTION section_round(const struct option_case *c, struct rig *rig, struct buf *publishes)
{
	rig_feed(&rig->line, (char *)buf_slice(publishes).data, buf_len(publishes));
	turn(rig);
	if (c->nack) {
		settle(rig, "NACK", c->nack);
		turn(rig);
	}
	if (!c->is_auto) {
		settle(rig, "ACK", "");
		turn(rig);
	}
}

/* ---- running ------------------------------------------------------------------------
 */

static void round_of(const struct option_case *c, struct rig *rig)
{
	struct queue *q = rig_queue(rig, "q");
	uint64_t acked = q->counters.acked;
	struct buf publishes;

	make_publishes(c, &publishes);
	section_round(c, rig, &publishes);
	buf_deinit(&publishes);
	rig_settle(rig);
	rig_send(&rig->line);
	if (q->counters.acked != acked + OPS)
		die(c, "not every message has been acknowledged");
}

static void measure(const struct option_case *c, bool is_durable)
{
	struct rig rig;
	struct buf line = { 0 };
	char name[64];

	rig_init(&rig);
	buf_printf(&line, "DECLARE queue q durable=%d", is_durable);
	add_options(&line, c->queue, 0);
	buf_append_char(&line, '\0');
	rig_ask(&rig, (const char *)buf_slice(&line).data);
	buf_deinit(&line);
	line = (struct buf){ 0 };
	buf_append_text(&line, "SUB q s prefetch=65535");
	add_options(&line, c->sub, 0);
	buf_append_char(&line, '\0');
	rig_ask(&rig, (const char *)buf_slice(&line).data);
	buf_deinit(&line);
	round_of(c, &rig);
	snprintf(name, sizeof(name), "%s.%s", c->name, is_durable ? "durable" : "memory");
	CALLGRIND_DUMP_STATS_AT("warm-up");
	round_of(c, &rig);
	CALLGRIND_DUMP_STATS_AT(name);
	printf("section %s %d\n", name, OPS);
	printf("option %s publish=%s queue=%s sub=%s nack=%s commit=%u\n", name,
	       text(c->publish), text(c->queue), text(c->sub), text(c->nack),
	       c->per_commit);
	rig_deinit(&rig);
}

int main(void)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		measure(&cases[i], false);
		measure(&cases[i], true);
	}
	return 0;
}
