/* hot_paths: what a message goes through, in sections whose instructions
 * callgrind counts. `make guard` runs it (tests/bench/guard/run.lua) and
 * compares; docs/performance.md, "The guard", says how to read the figures.
 *
 * Each section does the same `ops` operations whenever it runs. It is prepared
 * and finished outside of the count, and runs once before it, so that pools are
 * full and caches warm. Prints a line for each section and its operations. */
#include <gnu/libc-version.h>
#include <inttypes.h>
#include <lua.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>
#include <valgrind/callgrind.h>

#include "base/mem.h"
#include "bench.h"
#include "broker/decide.h"
#include "broker/group.h"
#include "hot_paths_stomp.h"
#include "proto/line/request.h"
#include "redis_stand_in.h"
#include "session/session_private.h"

#ifdef __clang__
#define COMPILER __VERSION__
#else
#define COMPILER "GCC " __VERSION__
#endif

/* Whatever the compiler might leave out depends on it. */
static volatile uint64_t sink;

/* ---- parse: a line, taken apart ------------------------------------------------- */

static void parse_lines(const char *const lines[4])
{
	/* Where memchr finds them aligned is a matter of some per cent. */
	static _Alignas(64) char copies[4][128];
	size_t lens[4];
	struct request r;
	struct error err;
	bool is_lost;

	for (int i = 0; i < 4; i++) {
		lens[i] = strlen(lines[i]);
		memcpy(copies[i], lines[i], lens[i]);
	}
	for (int i = 0; i < OPS; i++) {
		bench_must(request_parse(&r, copies[i % 4], lens[i % 4], &is_lost, &err),
			   "parse");
		sink += r.word_count;
	}
}

SECTION section_parse_pub(struct bench *b)
{
	static const char *const lines[] = {
		"PUB - jobs 128",
		"PUB orders orders.eu.paid 128",
		"PUB orders orders.eu.paid pri=5 ttl=30s must 1024",
		"@3 PUB orders orders.us.paid h:trace=4bf92f h:tenant=acme quiet 128",
	};

	parse_lines(lines);
}

SECTION section_parse_ack(struct bench *b)
{
	static const char *const lines[] = { "ACK 17", "ACK 100-199", "ACK 4711 quiet",
					     "@3 ACK 5 7 9-12" };

	parse_lines(lines);
}

/* ---- route ------------------------------------------------------------------------ */

/* The decision for all messages, each in its turn. */
struct routing {
	struct decide_spec spec;
	struct outcome outcome;
};

static struct routing route_begin(const struct bench *b)
{
	return (struct routing){
		.spec = { .rules = &b->topic->vhost->broker->active_rules,
			  .vhost = b->topic->vhost },
		.outcome = { .exchange = b->topic },
	};
}

static void route(struct routing *r, struct msg *m)
{
	const struct route *found;
	struct error err;

	r->outcome.msg = m;
	bench_must(route_find(&r->spec, &r->outcome, &found, &err), "route");
	sink += found->count;
}

SECTION section_route_remembered(struct bench *b)
{
	struct routing r = route_begin(b);

	for (int i = 0; i < OPS; i++)
		route(&r, b->msgs[i]);
}

/* The topic script is asked each time: what was remembered is out of date. */
SECTION section_route_script(struct bench *b)
{
	struct routing r = route_begin(b);

	for (int i = 0; i < OPS; i++) {
		b->rig.service->broker->route_version++;
		route(&r, b->msgs[i]);
	}
}

/* ---- enqueue: a message becomes an entry of a shard ---------------------------------
 */

SECTION section_enqueue_memory(struct bench *b)
{
	bench_publish_all(b, b->memory);
}

SECTION section_enqueue_durable(struct bench *b)
{
	bench_publish_all(b, b->durable);
}

/* ---- deliver: MSG lines into the connection's chunks ---------------------------------
 */

static void prepare_deliver_memory(struct bench *b)
{
	bench_make_msgs(b);
	bench_publish_all(b, b->memory);
}

SECTION section_deliver_memory(struct bench *b)
{
	bench_deal_all(b->memory);
}

static void prepare_deliver_durable(struct bench *b)
{
	bench_make_msgs(b);
	bench_publish_all(b, b->durable);
	bench_store_all(b);
}

SECTION section_deliver_durable(struct bench *b)
{
	bench_deal_all(b->durable);
}

/* ---- ack ----------------------------------------------------------------------------
 */

static void prepare_ack_memory(struct bench *b)
{
	prepare_deliver_memory(b);
	bench_deal_all(b->memory);
}

/* One request, and one OK, for each message. */
SECTION section_ack_single(struct bench *b)
{
	bench_settle_held(b, 1);
}

static void prepare_ack_durable(struct bench *b)
{
	prepare_deliver_durable(b);
	bench_deal_all(b->durable);
}

/* Of messages that Redis has: their removal becomes dirty. */
SECTION section_ack_range(struct bench *b)
{
	bench_settle_held(b, RANGE);
}

/* Of messages that Redis has not seen: they never get there. */
static void prepare_ack_elided(struct bench *b)
{
	bench_make_msgs(b);
	bench_publish_all(b, b->durable);
	bench_deal_all(b->durable);
}

SECTION section_ack_elided(struct bench *b)
{
	bench_settle_held(b, RANGE);
}

/* ---- batch encode: changes become RESP ------------------------------------------------
 */

static void prepare_batch(struct bench *b)
{
	bench_make_msgs(b);
	batch_reset(b->batch, SLICE("tide:{//durable#0}:"));
}

static void finish_batch(struct bench *b)
{
	sink += b->batch->request.part_count;
	bench_drop_msgs(b);
}

SECTION section_batch_insert(struct bench *b)
{
	for (int i = 0; i < OPS; i++)
		batch_insert(b->batch, &(struct store_insert){
					       b->msgs[i], 0, b->msgs[i]->expires_unix_ms,
					       STORE_READY, 0 });
	batch_seal(b->batch);
}

SECTION section_batch_remove(struct bench *b)
{
	for (int i = 0; i < OPS; i++)
		batch_remove(b->batch, b->msgs[i]->id, STORE_READY, false, false);
	batch_seal(b->batch);
}

/* ---- journal: dirty entries become a batch, its answer makes them clean
 * ---------------- */

static void prepare_flush(struct bench *b)
{
	bench_make_msgs(b);
	bench_publish_all(b, b->durable);
}

SECTION section_journal_flush(struct bench *b)
{
	journal_flush(b->rig.service->broker->journal);
}

static void prepare_land(struct bench *b)
{
	prepare_flush(b);
	journal_flush(b->rig.service->broker->journal);
}

SECTION section_journal_land(struct bench *b)
{
	redis_stand_in_answer();
}

/* ---- publish: from the bytes of a publish to those of its OK, either way to the
 * same queue, which nobody consumes. Their ratio is what routing costs. */

/* Lines for the exchange and the keys in turn, without their payloads. */
static void make_requests(struct buf *out, const char *exchange, const char *const *to,
			  unsigned keys_count)
{
	*out = (struct buf){ 0 };
	for (unsigned i = 0; i < OPS; i++) {
		buf_printf(out, "PUB %s %s %d\r\n", exchange, to[i % keys_count],
			   PAYLOAD_BYTES);
		bench_append_payload(out);
		buf_append_text(out, "\r\n");
	}
}

SECTION section_publish_queue(struct bench *b)
{
	bench_feed(&b->rig.line, &b->to_queue);
}

SECTION section_publish_topic(struct bench *b)
{
	bench_feed(&b->rig.line, &b->to_topic);
}

/* ---- rounds: from the bytes of a publish to those of the OK of its ACK
 * ------------------ */

static void acknowledge(struct bench *b)
{
	uint64_t first = rig_channel(&b->rig)->held.last_tag - OPS + 1;
	char line[64];

	for (uint64_t tag = first; tag < first + OPS; tag += RANGE) {
		int len = snprintf(line, sizeof(line), "ACK %" PRIu64 "-%" PRIu64 "\r\n",
				   tag, tag + RANGE - 1);

		rig_feed(&b->rig.line, line, (size_t)len);
	}
}

SECTION section_round_memory(struct bench *b)
{
	bench_feed(&b->rig.line, &b->publishes[0]);
	service_turn(b->rig.service);
	rig_send(&b->rig.line);
	acknowledge(b);
	service_turn(b->rig.service);
	rig_send(&b->rig.line);
}

/* Every message is written, confirmed and removed. */
SECTION section_round_durable(struct bench *b)
{
	bench_feed(&b->rig.line, &b->publishes[1]);
	service_turn(b->rig.service);
	redis_stand_in_answer();
	rig_send(&b->rig.line);
	acknowledge(b);
	service_turn(b->rig.service);
	redis_stand_in_answer();
	rig_send(&b->rig.line);
}

/* ---- topics: a publish from its bytes to those of its OK, what each group costs, and
 * what their acks do ---------------------------------------------------------------- */

/* What a group delivers is written to the connection, a chunk after the other. */
static void deal_topic(struct queue *q)
{
	while (group_deliver(q))
		;
}

static void append_all(struct bench *b, struct buf *bytes)
{
	bench_feed(&b->rig.line, bytes);
	service_turn(b->rig.service);
	redis_stand_in_answer();
}

SECTION section_log_publish(struct bench *b)
{
	append_all(b, &b->to_log);
}

static void prepare_log_deliver(struct bench *b)
{
	append_all(b, &b->to_log);
	rig_send(&b->rig.line);
}

SECTION section_log_deliver(struct bench *b)
{
	deal_topic(b->log);
}

static void prepare_log_deliver_ten(struct bench *b)
{
	append_all(b, &b->to_fan);
	rig_send(&b->rig.line);
}

/* Of a message, to all ten. */
SECTION section_log_deliver_ten(struct bench *b)
{
	deal_topic(b->fan);
}

static void prepare_log_ack(struct bench *b)
{
	prepare_log_deliver(b);
	deal_topic(b->log);
	rig_send(&b->rig.line);
}

SECTION section_log_ack(struct bench *b)
{
	acknowledge(b);
}

static void finish_log(struct bench *b)
{
	const struct holder *h = &rig_channel(&b->rig)->holder;
	const struct run *run;
	char line[64];

	rig_settle(&b->rig);
	rig_send(&b->rig.line);
	while ((run = run_from_tag(&h->runs, 0)) != NULL) {
		snprintf(line, sizeof(line), "ACK %" PRIu64 "-%" PRIu64, run->first_tag,
			 run->first_tag + run->count - 1);
		rig_ask(&b->rig, line);
	}
}

/* ---- running
 * ------------------------------------------------------------------------------ */

static const struct section sections[] = {
	{ "parse_pub", NULL, section_parse_pub, NULL },
	{ "parse_ack", NULL, section_parse_ack, NULL },
	{ "route_remembered", bench_make_msgs, section_route_remembered,
	  bench_drop_msgs },
	{ "route_script", bench_make_msgs, section_route_script, bench_drop_msgs },
	{ "enqueue_memory", bench_make_msgs, section_enqueue_memory, bench_finish },
	{ "enqueue_durable", bench_make_msgs, section_enqueue_durable, bench_finish },
	{ "deliver_memory", prepare_deliver_memory, section_deliver_memory,
	  bench_finish },
	{ "deliver_durable", prepare_deliver_durable, section_deliver_durable,
	  bench_finish },
	{ "ack_single", prepare_ack_memory, section_ack_single, bench_finish },
	{ "ack_range", prepare_ack_durable, section_ack_range, bench_finish },
	{ "ack_elided", prepare_ack_elided, section_ack_elided, bench_finish },
	{ "batch_insert", prepare_batch, section_batch_insert, finish_batch },
	{ "batch_remove", prepare_batch, section_batch_remove, finish_batch },
	{ "journal_flush", prepare_flush, section_journal_flush, bench_finish },
	{ "journal_land", prepare_land, section_journal_land, bench_finish },
	{ "publish_queue", NULL, section_publish_queue, bench_finish_publish },
	{ "publish_topic", NULL, section_publish_topic, bench_finish_publish },
	{ "round_memory", NULL, section_round_memory, bench_drain },
	{ "round_durable", NULL, section_round_durable, bench_drain },
	{ "log_publish", NULL, section_log_publish, finish_log },
	{ "log_deliver", prepare_log_deliver, section_log_deliver, finish_log },
	{ "log_deliver_ten", prepare_log_deliver_ten, section_log_deliver_ten,
	  finish_log },
	{ "log_ack", prepare_log_ack, section_log_ack, finish_log },
};

static void run_once(struct bench *b, const struct section *s, bool is_counted)
{
	if (s->prepare)
		s->prepare(b);
	if (is_counted)
		CALLGRIND_DUMP_STATS_AT("warm-up");
	s->run(b);
	if (is_counted) {
		CALLGRIND_DUMP_STATS_AT(s->name);
		printf("section %s %d\n", s->name, OPS);
	}
	if (s->finish)
		s->finish(b);
}

static void run(struct bench *b, const struct section *all, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		run_once(b, &all[i], false);
		run_once(b, &all[i], true);
	}
}

/* Groups without a name: one that has a name commits 100 ms later, and no time goes by.
 */
static void topics_init(struct bench *b)
{
	static const char *const log = "log", *const fan = "fan";
	char line[128];

	rig_ask(&b->rig, "DECLARE topic log partitions=1");
	rig_ask(&b->rig, "DECLARE topic fan partitions=1");
	rig_ask(&b->rig, "SUB log l prefetch=65535");
	for (int i = 0; i < 10; i++) {
		snprintf(line, sizeof(line), "SUB fan f%d prefetch=65535", i);
		rig_ask(&b->rig, line);
	}
	b->log = rig_queue(&b->rig, log);
	b->fan = rig_queue(&b->rig, fan);
	make_requests(&b->to_log, "-", &log, 1);
	make_requests(&b->to_fan, "-", &fan, 1);
}

static void bench_init(struct bench *b)
{
	static const char *const patterns[] = {
		"orders.#", "orders.eu.*",   "orders.*.paid",  "*.eu.#",       "#.failed",
		"stock.#",  "users.created", "orders.us.lost", "orders.*.*.*", "a.b.c.d",
	};
	/* Several keys of one length, so that remembering the last would not do. */
	static const char *const to_topic[] = { TARGET, "billing.us.paid",
						"billing.in.paid", "billing.jp.paid" };
	static const char *const memory = "memory", *const durable = "durable";
	char line[128];

	rig_init(&b->rig);
	rig_ask(&b->rig, "DECLARE queue memory durable=0");
	rig_ask(&b->rig, "DECLARE queue durable");
	rig_ask(&b->rig, "DECLARE exchange orders topic");
	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
		snprintf(line, sizeof(line), "BIND %s orders %s",
			 i % 2 ? "durable" : "memory", patterns[i]);
		rig_ask(&b->rig, line);
	}
	rig_ask(&b->rig, "SUB memory m prefetch=65535");
	rig_ask(&b->rig, "SUB durable d prefetch=65535");
	b->memory = rig_queue(&b->rig, "memory");
	b->durable = rig_queue(&b->rig, "durable");
	b->topic = exchange_find(b->rig.line.protocol->session->vhost, SLICE("orders"));
	b->batch = batch_create();
	make_requests(&b->publishes[0], "-", &memory, 1);
	make_requests(&b->publishes[1], "-", &durable, 1);
	rig_ask(&b->rig, "DECLARE queue " TARGET " durable=0");
	rig_ask(&b->rig, "DECLARE exchange billing topic");
	rig_ask(&b->rig, "BIND " TARGET " billing billing.*.paid");
	make_requests(&b->to_queue, "-", to_topic, 1);
	make_requests(&b->to_topic, "billing", to_topic, 4);
	topics_init(b);
	hot_paths_stomp_init(b);
}

static void bench_deinit(struct bench *b)
{
	buf_deinit(&b->publishes[0]);
	buf_deinit(&b->publishes[1]);
	buf_deinit(&b->to_queue);
	buf_deinit(&b->to_topic);
	buf_deinit(&b->to_log);
	buf_deinit(&b->to_fan);
	hot_paths_stomp_deinit(b);
	batch_destroy(b->batch);
	rig_deinit(&b->rig);
}

int main(int argc, char **argv)
{
	struct bench *b = mem_zalloc(sizeof(*b));
	struct utsname machine;

	uname(&machine);
	printf("machine %s\ncompiler %s\nlibc glibc %s\nlua %s\n", machine.machine,
	       COMPILER, gnu_get_libc_version(), LUA_RELEASE);
	bench_init(b);
	run(b, sections, sizeof(sections) / sizeof(sections[0]));
	run(b, hot_paths_stomp, HOT_PATHS_STOMP_COUNT);
	bench_deinit(b);
	mem_free(b);
	return 0;
}
