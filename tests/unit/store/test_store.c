#include "harness.h"

/* ---- completions as values ------------------------------------------------- */

struct outcome {
	unsigned calls;
	int removed, written;
	int status;
	char text[256];
	uint64_t number, ids;
	struct store_counts counts;
};

static void on_batch(void *ctx, const struct batch_result *result)
{
	struct outcome *o = ctx;
	o->calls++;
	o->removed = result->removed;
	o->written = result->written;
	snprintf(o->text, sizeof(o->text), "%s", result->text ? result->text : "");
}

static void on_done(void *ctx, int status, const char *text)
{
	struct outcome *o = ctx;
	o->calls++;
	o->status = status;
	snprintf(o->text, sizeof(o->text), "%s", text ? text : "");
}

static void on_purged(void *ctx, int status, const char *text, uint64_t removed,
		      const uint64_t *ids, size_t id_count)
{
	on_done(ctx, status, text);
	((struct outcome *)ctx)->number = removed;
	((struct outcome *)ctx)->ids = id_count;
	for (size_t i = 1; i < id_count; i++)
		assert_true(ids[i - 1] < ids[i]);
}

static void purge(struct harness *h, int64_t start, unsigned count, struct outcome *o)
{
	const struct store_purge purge = { STORE_READY, start, count, true };

	store_purge(h->store, h->shard, &purge, on_purged, o);
	WAIT(h, o->calls == 1);
}

static void on_counts(void *ctx, int status, const char *text,
		      const struct store_counts *counts)
{
	on_done(ctx, status, text);
	if (counts)
		((struct outcome *)ctx)->counts = *counts;
}

struct rows {
	unsigned calls;
	int status;
	size_t count;
	struct store_row rows[4096]; /* each with a reference to its message */
};

static struct rows got;

static void forget_rows(void)
{
	for (size_t i = 0; i < got.count; i++)
		msg_unref(got.rows[i].msg);
	memset(&got, 0, sizeof(got));
}

static void on_rows(void *ctx, int status, const char *text, struct store_row *rows,
		    size_t count)
{
	got.calls++;
	got.status = status;
	got.count = count;
	for (size_t i = 0; i < count; i++) {
		got.rows[i] = rows[i];
		if (rows[i].msg)
			msg_ref(rows[i].msg);
	}
}

static void read_rows(struct harness *h, const struct store_read *read)
{
	forget_rows();
	store_read(h->store, h->shard, read, on_rows, NULL);
	WAIT(h, got.calls == 1);
	assert_int_equal(got.status, TIDE_OK);
}

static void read_set(struct harness *h, enum store_set set, int64_t start, unsigned count,
		     size_t max_bytes, bool ids_only)
{
	read_rows(h, &(struct store_read){ .set = set,
					   .start = start,
					   .count = count,
					   .max_bytes = max_bytes,
					   .ids_only = ids_only });
}

static struct store_counts count_all(struct harness *h)
{
	struct outcome o = { 0 };
	store_read_counts(h->store, h->shard, on_counts, &o);
	WAIT(h, o.calls == 1);
	assert_int_equal(o.status, TIDE_OK);
	return o.counts;
}

static void commit(struct harness *h, struct batch *b, struct outcome *o)
{
	memset(o, 0, sizeof(*o));
	store_batch_commit_take(b, on_batch, o);
	assert_int_equal(o->calls, 0);
	WAIT(h, o->calls == 1);
}

static void commit_ok(struct harness *h, struct batch *b)
{
	struct outcome o;
	commit(h, b, &o);
	if (o.removed || o.written)
		fail_msg("%s", o.text);
}

static void insert(struct batch *b, uint64_t id, enum store_set set, double score)
{
	char payload[32];
	int len = snprintf(payload, sizeof(payload), "payload %llu",
			   (unsigned long long)id);
	struct msg *m = make_msg(id, "eu.new", payload, (size_t)len);
	batch_insert(b, &(struct store_insert){ m, (double)id / 4, m->expires_unix_ms,
						set, score });
	msg_unref(m);
}

static void insert_range(struct harness *h, uint64_t from, uint64_t to)
{
	struct batch *b = store_batch_begin(h->store, h->shard);
	for (uint64_t id = from; id <= to; id++)
		insert(b, id, STORE_READY, 0);
	commit_ok(h, b);
}

static int teardown(void **state)
{
	struct harness *h = *state;
	forget_rows();
	harness_close(h);
	harness_deinit(h);
	return 0;
}

/* ---- what is written is there ------------------------------------------------- */

STORE_TEST(inserted_messages_are_read_in_order_of_score_then_id)
{
	struct batch *b = store_batch_begin(h->store, h->shard);
	insert(b, 3, STORE_READY, 1);
	insert(b, 1, STORE_READY, 1);
	insert(b, 2, STORE_READY, -0.5);
	assert_true(batch_bytes(b) > 0);
	commit_ok(h, b);
	read_set(h, STORE_READY, 0, 10, 1 << 20, false);
	assert_int_equal(got.count, 3);
	assert_int_equal(got.rows[0].id, 2);
	assert_int_equal(got.rows[1].id, 1);
	assert_int_equal(got.rows[2].id, 3);
	assert_true(got.rows[0].score == -0.5);
	assert_true(got.rows[0].rank == 0.5);
	struct msg *m = got.rows[2].msg;
	assert_true(slice_is((struct slice){ m->payload, m->payload_len }, "payload 3"));
	assert_true(slice_is(m->exchange, "orders"));
	assert_true(slice_is(m->key, "eu.new"));
	assert_true(slice_is(msg_header(m, SLICE("tier")), "gold"));
	assert_int_equal(m->priority, 7);
	assert_int_equal(got.rows[2].deliveries, 0);
	assert_string_equal(got.rows[2].reason, "");
}

STORE_TEST(moves_tries_and_removals_change_exactly_what_they_name)
{
	insert_range(h, 1, 4);
	struct batch *b = store_batch_begin(h->store, h->shard);
	batch_move(b, 1, STORE_READY, STORE_UNACK, 1790000005000.0);
	batch_tries(b, 1, &(struct store_tries){ 3, 2, "timeout", { 0 } });
	batch_move(b, 2, STORE_READY, STORE_BURIED, 1790000006000.0);
	batch_move(b, 3, STORE_READY, STORE_READY, 17.25);
	batch_remove(b, 4, STORE_READY, false, false);
	commit_ok(h, b);
	struct store_counts counts = count_all(h);
	assert_int_equal(counts.bodies, 3);
	assert_int_equal(counts.sets[STORE_READY], 1);
	assert_int_equal(counts.sets[STORE_UNACK], 1);
	assert_int_equal(counts.sets[STORE_BURIED], 1);
	assert_int_equal(counts.sets[STORE_DELAYED], 0);
	read_set(h, STORE_UNACK, 0, 10, 1 << 20, true);
	assert_int_equal(got.count, 1);
	assert_null(got.rows[0].msg);
	assert_true(got.rows[0].score == 1790000005000.0);
	assert_int_equal(got.rows[0].deliveries, 3);
	assert_int_equal(got.rows[0].failures, 2);
	assert_string_equal(got.rows[0].reason, "timeout");
	read_set(h, STORE_READY, 0, 10, 1 << 20, false);
	assert_true(got.rows[0].score == 17.25);
	b = store_batch_begin(h->store, h->shard);
	batch_remove(b, 1, STORE_UNACK, true, false);
	batch_remove(b, 2, STORE_BURIED, false, false);
	batch_remove(b, 3, STORE_READY, false, false);
	commit_ok(h, b);
	assert_int_equal(ask_int(h, "DBSIZE"), 0);
}

STORE_TEST(expiring_messages_are_in_the_expiry_set_until_they_are_removed)
{
	struct msg spec = { .id = 9, .expires_unix_ms = 1790000000123, .payload = "" };
	struct msg *m = msg_create(&spec);
	struct batch *b = store_batch_begin(h->store, h->shard);
	batch_insert(b, &(struct store_insert){ m, 0, m->expires_unix_ms, STORE_DELAYED,
						1790000000001.0 });
	msg_unref(m);
	commit_ok(h, b);
	redisReply *reply = ask(h, "ZSCORE tide:{//jobs#0}:expiry 0000000000000009");
	assert_string_equal(reply->str, "1790000000123");
	freeReplyObject(reply);
	b = store_batch_begin(h->store, h->shard);
	batch_remove(b, 9, STORE_DELAYED, false, true);
	commit_ok(h, b);
	assert_int_equal(ask_int(h, "DBSIZE"), 0);
}

STORE_TEST(empty_batch_completes_from_the_loop)
{
	commit_ok(h, store_batch_begin(h->store, h->shard));
}

static const char *hex_id(uint64_t id)
{
	static char text[17];
	snprintf(text, sizeof(text), "%016llx", (unsigned long long)id);
	return text;
}

STORE_TEST(reads_honour_start_count_and_bytes)
{
	insert_range(h, 1, 2500);
	read_set(h, STORE_READY, 0, 4096, 64 << 20, false);
	assert_int_equal(got.count, 2500);
	for (size_t i = 0; i < got.count; i++) {
		assert_int_equal(got.rows[i].id, i + 1);
		assert_non_null(got.rows[i].msg);
	}
	read_set(h, STORE_READY, 100, 50, 1 << 20, false);
	assert_int_equal(got.count, 50);
	assert_int_equal(got.rows[0].id, 101);
	read_set(h, STORE_READY, -3, 10, 1 << 20, false);
	assert_int_equal(got.count, 3);
	assert_int_equal(got.rows[0].id, 2498);
	read_set(h, STORE_READY, 0, 4096, 1, false);
	assert_int_equal(got.count, 1);
	read_set(h, STORE_READY, 0, 4096, 1000, false);
	assert_in_range(got.count, 5, 50);
	read_set(h, STORE_READY, 5000, 10, 1000, false);
	assert_int_equal(got.count, 0);
	read_set(h, STORE_BURIED, 0, 10, 1000, false);
	assert_int_equal(got.count, 0);
}

static void read_from(struct harness *h, double score, uint64_t id, unsigned count)
{
	read_rows(h, &(struct store_read){ .set = STORE_READY,
					   .has_place = true,
					   .score = score,
					   .id = id,
					   .count = count,
					   .max_bytes = 1 << 20 });
}

STORE_TEST(a_read_from_a_place_begins_at_the_first_that_is_not_before_it)
{
	struct batch *b = store_batch_begin(h->store, h->shard);

	/* Even ids by three scores, of which one needs all its digits. */
	for (uint64_t id = 2; id <= 300; id += 2)
		insert(b, id, STORE_READY, id <= 100 ? -7 : id <= 200 ? 1.0 / 3 : 5);
	commit_ok(h, b);
	for (uint64_t id = 1; id <= 301; id++) {
		double score = id <= 100 ? -7 : id <= 200 ? 1.0 / 3 : 5;
		uint64_t first = id + id % 2;

		read_from(h, score, id, 2);
		assert_int_equal(got.count, first > 300 ? 0 : first == 300 ? 1 : 2);
		if (got.count == 0)
			continue;
		assert_int_equal(got.rows[0].id, first);
		assert_non_null(got.rows[0].msg);
	}
	read_from(h, -1.7976931348623157e308, 0, 4096);
	assert_int_equal(got.count, 150);
	read_from(h, -6.5, 4, 1);
	assert_int_equal(got.rows[0].id, 102);
	read_from(h, -7, 0xffff, 1);
	assert_int_equal(got.rows[0].id, 102);
	read_from(h, 5.5, 0, 1);
	assert_int_equal(got.count, 0);
}

/* Every size of what fits, around the few bodies that Redis looks up at a time. */
STORE_TEST(a_read_ends_before_the_body_that_is_too_large)
{
	insert_range(h, 1, 100);
	for (int large = 1; large <= 40; large++) {
		tell(h, "EVAL %s 1 tide:{//jobs#0}:msg %s",
		     "return redis.call('HSET', KEYS[1], ARGV[1], "
		     "string.rep('x', 100000))",
		     hex_id((uint64_t)large));
		/* All before it, and not it, unless it is the first. */
		read_set(h, STORE_READY, 0, 4096, 90000, false);
		assert_int_equal(got.count, large == 1 ? 1 : large - 1);
		insert_range(h, (uint64_t)large, (uint64_t)large);
	}
	/* Of large ones behind each other: those that fit. */
	for (int large = 21; large <= 60; large++)
		tell(h, "EVAL %s 1 tide:{//jobs#0}:msg %s",
		     "return redis.call('HSET', KEYS[1], ARGV[1], "
		     "string.rep('x', 100000))",
		     hex_id((uint64_t)large));
	for (int fit = 1; fit < 40; fit++) {
		read_set(h, STORE_READY, 0, 4096, (size_t)fit * 100000 + 50000, false);
		assert_int_equal(got.count, 20 + fit);
	}
}

STORE_TEST(missing_and_corrupt_bodies_are_told_apart)
{
	insert_range(h, 1, 3);
	tell(h, "HDEL tide:{//jobs#0}:msg 0000000000000001");
	tell(h, "HSET tide:{//jobs#0}:msg 0000000000000002 nonsense");
	tell(h, "ZADD tide:{//jobs#0}:ready 0 zzz");
	read_set(h, STORE_READY, 0, 10, 1 << 20, false);
	assert_int_equal(got.count, 3);
	assert_null(got.rows[0].msg);
	assert_false(got.rows[0].is_corrupt);
	assert_null(got.rows[1].msg);
	assert_true(got.rows[1].is_corrupt);
	assert_non_null(got.rows[2].msg);
}

struct has {
	unsigned calls;
	int status;
	bool found[8];
};

static void on_has(void *ctx, int status, const bool *found, unsigned count)
{
	struct has *has = ctx;
	has->calls++;
	has->status = status;
	for (unsigned i = 0; status == TIDE_OK && i < count; i++)
		has->found[i] = found[i];
}

STORE_TEST(messages_are_found_whatever_their_state)
{
	static const uint64_t ids[] = { 7, 8, 9 };
	struct msg *m = make_msg(8, "k", "p", 1);
	struct has has = { 0 };
	struct batch *b = store_batch_begin(h->store, h->shard);
	batch_insert(
		b, &(struct store_insert){ m, 0, m->expires_unix_ms, STORE_DELAYED, 1 });
	store_batch_commit_take(b, NULL, NULL);
	store_read_has(h->store, h->shard, ids, 3, on_has, &has);
	WAIT(h, has.calls == 1);
	assert_int_equal(has.status, TIDE_OK);
	assert_false(has.found[0]);
	assert_true(has.found[1]);
	assert_false(has.found[2]);
	msg_unref(m);
}

STORE_TEST(purge_removes_with_all_that_belongs_to_a_message)
{
	struct outcome o = { 0 };
	insert_range(h, 1, 3000);
	struct batch *b = store_batch_begin(h->store, h->shard);
	for (uint64_t id = 1; id <= 3000; id++)
		batch_tries(b, id, &(struct store_tries){ 1, 1, "nack", { 0 } });
	commit_ok(h, b);
	purge(h, 500, 2400, &o);
	assert_int_equal(o.status, TIDE_OK);
	assert_int_equal(o.number, 2400);
	assert_int_equal(o.ids, 2400);
	read_set(h, STORE_READY, 0, 4096, 64 << 20, false);
	assert_int_equal(got.count, 600);
	assert_int_equal(got.rows[499].id, 500);
	assert_int_equal(got.rows[500].id, 2901);
	memset(&o, 0, sizeof(o));
	purge(h, 0, 4096, &o);
	assert_int_equal(o.number, 600);
	memset(&o, 0, sizeof(o));
	purge(h, 0, 4096, &o);
	assert_int_equal(o.number, 0);
	assert_int_equal(ask_int(h, "DBSIZE"), 0);
}

STORE_TEST(erase_removes_a_queue_and_no_other)
{
	struct outcome o = { 0 };
	struct slice none = { "", 0 }, root = SLICE("/");
	struct store_shard *other = store_shard_create(root, SLICE("jobs2"), 0);
	struct store_shard *second = store_shard_create(root, SLICE("jobs"), 1);
	const struct store_queue queue = { root, SLICE("jobs"), 2 };
	struct batch *b = store_batch_begin(h->store, other);
	insert_range(h, 1, 10);
	insert(b, 1, STORE_READY, 0);
	commit_ok(h, b);
	b = store_batch_begin(h->store, second);
	insert(b, 1, STORE_READY, 0);
	commit_ok(h, b);
	store_shard_destroy(other);
	store_shard_destroy(second);
	store_definition_set(h->store, STORE_QUEUES, root, SLICE("jobs"), none, NULL,
			     NULL);
	store_definition_set(h->store, STORE_QUEUES, root, SLICE("jobs2"), none, NULL,
			     NULL);
	store_erase_begin(h->store, STORE_QUEUES, &queue, on_done, &o);
	WAIT(h, o.calls == 1);
	assert_int_equal(o.status, TIDE_OK);
	assert_int_equal(ask_int(h, "HLEN {tide}:/:queues"), 1);
	assert_int_equal(ask_int(h, "HLEN {tide}:erasing"), 1);
	assert_int_equal(count_all(h).bodies, 10);
	store_erase_finish(h->store, STORE_QUEUES, &queue, on_done, &o);
	WAIT(h, o.calls == 2);
	assert_int_equal(o.status, TIDE_OK);
	assert_int_equal(count_all(h).bodies, 0);
	assert_int_equal(ask_int(h, "DBSIZE"), 3);
	assert_int_equal(ask_int(h, "HLEN {tide}:/:queues"), 1);
}

/* ---- definitions ------------------------------------------------------------------ */

struct loaded {
	char lines[16][80];
	unsigned count;
};

static void on_definition(void *ctx, const struct store_definition *d)
{
	struct loaded *l = ctx;
	assert_true(l->count < 16);
	snprintf(l->lines[l->count++], 80, "%d %.*s %.*s %.*s", d->table,
		 SLICE_ARG(d->vhost), SLICE_ARG(d->name), SLICE_ARG(d->value));
}

static struct loaded loaded;
static struct outcome load_end;

static void on_load_end(void *ctx, int status, const char *text)
{
	on_done(&load_end, status, text);
}

static void load(struct harness *h)
{
	memset(&loaded, 0, sizeof(loaded));
	memset(&load_end, 0, sizeof(load_end));
	store_definition_load(h->store, on_definition, on_load_end, &loaded);
	WAIT(h, load_end.calls == 1);
	assert_int_equal(load_end.status, TIDE_OK);
}

/* Without it the messages would be there when a queue of that name is declared again. */
STORE_TEST(a_load_finishes_what_a_delete_has_begun)
{
	const struct store_queue queue = { SLICE("a"), SLICE("b/c"), 2 };
	struct outcome o = { 0 };
	tell(h, "ZADD tide:{a/b/c#1}:ready 1 x");
	tell(h, "ZADD tide:{a/b/c#2}:ready 1 x");
	tell(h, "HSET tide:{//t#0}:log 20261123 x start 1");
	tell(h, "ZADD tide:{//t#0}:log:20261123 1 x");
	tell(h, "CONFIG SET maxmemory 1");
	store_erase_begin(h->store, STORE_QUEUES, &queue, on_done, &o);
	store_erase_begin(h->store, STORE_TOPICS,
			  &(struct store_queue){ SLICE("/"), SLICE("t"), 1 }, on_done,
			  &o);
	WAIT(h, o.calls == 2);
	assert_int_equal(o.status, TIDE_OK);
	assert_int_equal(ask_int(h, "HLEN {tide}:erasing"), 2);
	tell(h, "CONFIG SET maxmemory 0");
	tell(h, "HSET {tide}:erasing nonsense 1");
	load(h);
	assert_int_equal(ask_int(h, "HLEN {tide}:erasing"), 1);
	assert_int_equal(ask_int(h, "EXISTS tide:{a/b/c#2}:ready"), 1);
	assert_int_equal(ask_int(h, "DBSIZE"), 2);
}

#define SADD(key, member) "*3\r\n$4\r\nSADD\r\n$1\r\n" key "\r\n$1\r\n" member "\r\n"

static uint64_t refused_for_memory(const struct harness *h)
{
	struct store_stats stats;

	store_stats(h->store, &stats);
	return stats.refused[STORE_TROUBLE_MEMORY];
}

/* A Redis that was a cluster, say: all slots are its own. */
STORE_TEST(a_load_carries_out_commits_that_a_crash_has_cut_short)
{
	static const char *const damaged[] = { "",
					       "x",
					       SADD("c", "1") "*1\r\n$9\r\nx\r\n",
					       "*1\r\n$3\r\nabc",
					       "*0\r\n",
					       "SADD c 1\r\n" };

	tell(h, "HSET {tide}:commits %s %s", "5-1 0", SADD("a", "1") SADD("a", "2"));
	tell(h, "HSET {tide}:commits %s %s", "5-1 16383", SADD("b", "1"));
	tell(h, "SADD a 1");
	tell(h, "HSET {tide}:commits %s %s", "5-1 16384", SADD("c", "1"));
	for (unsigned i = 0; i < sizeof(damaged) / sizeof(damaged[0]); i++)
		tell(h, "HSET {tide}:commits damaged-%u %s", i, damaged[i]);
	for (unsigned i = 0; i < sizeof(damaged) / sizeof(damaged[0]); i++) {
		char name[32];

		snprintf(name, sizeof(name), "damaged-%u 1", i);
		tell(h, "HSET {tide}:commits %s %s", name, damaged[i]);
	}
	tell(h, "CONFIG SET maxmemory 1");
	memset(&load_end, 0, sizeof(load_end));
	store_definition_load(h->store, on_definition, on_load_end, &loaded);
	WAIT(h, refused_for_memory(h) > 0);
	assert_int_equal(load_end.calls, 0);
	tell(h, "CONFIG SET maxmemory 0");
	WAIT(h, load_end.calls == 1);
	assert_int_equal(load_end.status, TIDE_OK);
	assert_int_equal(ask_int(h, "SCARD a"), 2);
	assert_int_equal(ask_int(h, "SCARD b"), 1);
	assert_int_equal(ask_int(h, "EXISTS c"), 0);
	assert_int_equal(ask_int(h, "HLEN {tide}:commits"),
			 1 + 2 * sizeof(damaged) / sizeof(damaged[0]));
}

STORE_TEST(definitions_come_back_after_a_restart)
{
	struct slice none = { "", 0 };
	struct slice root = SLICE("/");
	struct outcome o = { 0 };
	store_definition_set(h->store, STORE_USERS, none, SLICE("bob"), SLICE("{}"), NULL,
			     NULL);
	store_definition_set(h->store, STORE_VHOSTS, none, root, none, NULL, NULL);
	store_definition_set(h->store, STORE_EXCHANGES, root, SLICE("orders"),
			     SLICE("topic"), NULL, NULL);
	store_definition_set(h->store, STORE_QUEUES, root, SLICE("jobs"),
			     SLICE("shards=1"), NULL, NULL);
	store_definition_set(h->store, STORE_QUEUES, root, SLICE("jobs"),
			     SLICE("shards=2"), NULL, NULL);
	store_definition_set(h->store, STORE_QUEUES, root, SLICE("old"), SLICE("-"), NULL,
			     NULL);
	store_definition_remove(h->store, STORE_QUEUES, root, SLICE("old"), NULL, NULL);
	store_definition_set(h->store, STORE_BINDINGS, root, SLICE("jobs orders #"), none,
			     on_done, &o);
	WAIT(h, o.calls == 1);
	assert_int_equal(o.status, TIDE_OK);
	harness_close(h);
	harness_open_up(h);
	load(h);
	assert_int_equal(loaded.count, 5);
	assert_string_equal(loaded.lines[0], "7  bob {}");
	assert_string_equal(loaded.lines[1], "0  / ");
	assert_string_equal(loaded.lines[2], "1 / orders topic");
	assert_string_equal(loaded.lines[3], "2 / jobs shards=2");
	assert_string_equal(loaded.lines[4], "4 / jobs orders # ");
	store_definition_remove(h->store, STORE_BINDINGS, root, SLICE("jobs orders #"),
				NULL, NULL);
	load(h);
	assert_int_equal(loaded.count, 4);
}

STORE_TEST(errors_of_redis_reach_the_completion_with_their_text)
{
	struct outcome o = { 0 };
	tell(h, "SET {tide}:/:queues x");
	tell(h, "SET tide:{//jobs#0}:ready x");
	store_definition_set(h->store, STORE_QUEUES, SLICE("/"), SLICE("q"), SLICE("v"),
			     on_done, &o);
	WAIT(h, o.calls == 1);
	assert_int_equal(o.status, TIDE_ESTORE);
	assert_non_null(strstr(o.text, "WRONGTYPE"));
	struct batch *b = store_batch_begin(h->store, h->shard);
	insert(b, 1, STORE_READY, 0);
	batch_remove(b, 2, STORE_BURIED, false, false);
	commit(h, b, &o);
	assert_int_equal(o.written, TIDE_ESTORE);
	assert_int_equal(o.removed, TIDE_OK);
	assert_non_null(strstr(o.text, "WRONGTYPE"));
}

/* ---- Redis dies, hangs, is full ------------------------------------------------------
 */

#define KILL_BATCHES 400

STORE_TEST(requests_survive_the_death_of_redis_and_complete_once)
{
	static struct outcome outcomes[KILL_BATCHES];
	memset(outcomes, 0, sizeof(outcomes));
	long pid = harness_redis_pid(h);
	for (unsigned i = 0; i < KILL_BATCHES; i++) {
		struct batch *b = store_batch_begin(h->store, h->shard);
		for (unsigned j = 1; j <= 10; j++)
			insert(b, i * 10 + j, STORE_READY, 0);
		store_batch_commit_take(b, on_batch, &outcomes[i]);
		if (i == KILL_BATCHES / 2) {
			WAIT(h, outcomes[10].calls == 1);
			assert_int_equal(kill((pid_t)pid, SIGKILL), 0);
		}
	}
	for (unsigned i = 0; i < KILL_BATCHES; i++) {
		WAIT(h, outcomes[i].calls > 0);
		assert_int_equal(outcomes[i].calls, 1);
		assert_int_equal(outcomes[i].written, TIDE_OK);
	}
	assert_int_equal(h->downs, 1);
	assert_int_equal(h->ups, 2);
	assert_int_equal(count_all(h).sets[STORE_READY], KILL_BATCHES * 10);
	assert_int_equal(count_all(h).bodies, KILL_BATCHES * 10);
	struct store_stats stats;
	store_stats(h->store, &stats);
	assert_int_equal(stats.reconnects, 1);
	assert_int_equal(stats.pending_requests, 0);
	assert_int_equal(stats.pending_bytes, 0);
	assert_string_equal(stats.kind, "embedded");
}

STORE_TEST(removals_pass_while_memory_is_out)
{
	struct outcome o;
	struct outcome purged = { 0 };
	struct store_stats stats;
	insert_range(h, 1, 10);
	tell(h, "CONFIG SET maxmemory 1");
	struct batch *b = store_batch_begin(h->store, h->shard);
	insert(b, 11, STORE_READY, 0);
	batch_remove(b, 1, STORE_READY, true, true);
	batch_remove(b, 2, STORE_READY, true, true);
	commit(h, b, &o);
	assert_int_equal(o.written, TIDE_ESTORE);
	assert_int_equal(o.removed, TIDE_OK);
	assert_int_equal(strncmp(o.text, "OOM ", 4), 0);
	b = store_batch_begin(h->store, h->shard);
	batch_tries(b, 3, &(struct store_tries){ 1, 1, "nack", { 0 } });
	commit(h, b, &o);
	assert_int_equal(o.written, TIDE_ESTORE);
	assert_int_equal(strncmp(o.text, "OOM ", 4), 0);
	purge(h, 0, 3, &purged);
	assert_int_equal(purged.number, 3);
	assert_int_equal(count_all(h).bodies, 5);
	tell(h, "CONFIG SET maxmemory 0");
	insert_range(h, 12, 12);
	assert_int_equal(h->downs, 0);
	store_stats(h->store, &stats);
	assert_int_equal(stats.refused[STORE_TROUBLE_MEMORY], 2);
	assert_int_equal(stats.refused[STORE_TROUBLE_OTHER], 0);
	assert_string_equal(store_trouble_name(STORE_TROUBLE_MEMORY), "memory");
}

STORE_TEST(round_trips_are_timed)
{
	struct store_stats before, after;

	store_stats(h->store, &before);
	insert_range(h, 1, 10);
	store_stats(h->store, &after);
	assert_int_equal(after.requests, before.requests + 1);
	assert_true(after.commands > before.commands + 2);
	assert_int_equal(after.round_trip.count, before.round_trip.count + 1);
	/* Redis is asleep. */
	tell(h, "CLIENT PAUSE 100 ALL");
	insert_range(h, 11, 11);
	store_stats(h->store, &after);
	assert_true(after.round_trip.max > 50 * UINT64_C(1000000));
	assert_true(after.round_trip.sum >= after.round_trip.max);
}

static uint64_t memory_of(struct harness *h)
{
	struct store_stats stats;

	store_stats(h->store, &stats);
	return stats.memory_bytes;
}

STORE_TEST(redis_tells_its_memory_to_those_who_ask)
{
	struct store_stats stats;
	uint64_t asked;

	assert_int_equal(memory_of(h), 0);
	tell(h, "CONFIG SET maxmemory 2gb");
	store_memory_ask(h->store);
	store_memory_ask(h->store);
	WAIT(h, memory_of(h) > 100000);
	store_stats(h->store, &stats);
	assert_int_equal(stats.memory_max_bytes, UINT64_C(2) << 30);
	asked = stats.requests;
	store_memory_ask(h->store);
	store_stats(h->store, &stats);
	assert_int_equal(stats.requests, asked + 1);
}

STORE_TEST(silent_redis_is_left_and_asked_again)
{
	struct outcome o = { 0 };
	long pid = harness_redis_pid(h);
	assert_int_equal(kill((pid_t)pid, SIGSTOP), 0);
	struct batch *b = store_batch_begin(h->store, h->shard);
	insert(b, 1, STORE_READY, 0);
	store_batch_commit_take(b, on_batch, &o);
	WAIT(h, h->downs == 1);
	assert_non_null(strstr(h->why, harness_too_long("no reply")));
	assert_int_equal(o.calls, 0);
	assert_int_equal(kill((pid_t)pid, SIGCONT), 0);
	WAIT(h, o.calls == 1);
	assert_int_equal(o.written, TIDE_OK);
	assert_int_equal(count_all(h).bodies, 1);
}

STORE_TEST(large_requests_and_replies_pass)
{
	size_t len = 16 << 20;
	char *payload = malloc(len);
	memset(payload, 'x', len);
	struct batch *b = store_batch_begin(h->store, h->shard);
	for (uint64_t id = 1; id <= 3; id++) {
		struct msg *m = make_msg(id, "k", payload, len);
		batch_insert(b, &(struct store_insert){ m, 0, m->expires_unix_ms,
							STORE_READY, 0 });
		msg_unref(m);
	}
	free(payload);
	commit_ok(h, b);
	read_set(h, STORE_READY, 0, 10, 40 << 20, false);
	assert_int_equal(got.count, 2);
	assert_int_equal(got.rows[1].msg->payload_len, len);
	read_set(h, STORE_READY, 0, 10, 1024, false);
	assert_int_equal(got.count, 1);
}

STORE_TEST(closing_tells_those_who_still_wait)
{
	struct outcome o = { 0 };
	struct outcome counted = { 0 };
	long pid = harness_redis_pid(h);
	assert_int_equal(kill((pid_t)pid, SIGSTOP), 0);
	struct batch *b = store_batch_begin(h->store, h->shard);
	insert(b, 1, STORE_READY, 0);
	store_batch_commit_take(b, on_batch, &o);
	store_read_counts(h->store, h->shard, on_counts, &counted);
	store_shard_destroy(h->shard);
	store_close(h->store, 50, harness_on_closed, h);
	assert_int_equal(o.calls, 0);
	WAIT(h, o.calls == 1);
	assert_int_equal(kill((pid_t)pid, SIGCONT), 0);
	WAIT(h, h->is_closed);
	assert_int_equal(o.calls, 1);
	assert_int_equal(o.removed, TIDE_ESHUTDOWN);
	assert_int_equal(o.written, TIDE_ESHUTDOWN);
	assert_int_equal(counted.calls, 1);
	assert_int_equal(counted.status, TIDE_ESHUTDOWN);
	harness_open_up(h);
}

RUN_TESTS(.setup = harness_setup, .teardown = teardown)
