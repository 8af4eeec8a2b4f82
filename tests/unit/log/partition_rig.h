/* partition_rig.h: a partition over a real embedded Redis, or over none, and a model of
 * what it should have: which message has which offset, once it was confirmed. */
#ifndef TIDE_TESTS_LOG_PARTITION_RIG_H
#define TIDE_TESTS_LOG_PARTITION_RIG_H

#include "store/harness.h"

#include "base/mem.h"
#include "log/cursor.h"
#include "log/partition.h"

#define MINUTE_MS (INT64_C(60) * 1000)
#define DAY_MS (24 * 60 * MINUTE_MS)
#define NOON_MS (INT64_C(1795392000000) + DAY_MS / 2) /* 2026-11-23T12:00:00Z */

/* A publish: its message names it. */
struct pub {
	struct waiter waiter;
	struct pub *next;
	uint64_t offset;
	uint32_t serial;
	int64_t ms; /* when it was published */
	int status; /* 1: not told yet */
	bool is_told;
};

struct rig {
	struct harness h;
	struct partition_env env;
	struct partition *p;
	unsigned news;
	struct pub *pubs; /* the newest first */
	uint32_t serials;
	/* By offset. */
	struct pub **stored;
	size_t stored_count, stored_cap;
	uint64_t told, refused;
	uint64_t random;
};

static struct rig r;

static inline uint64_t random_next(void)
{
	r.random ^= r.random << 13;
	r.random ^= r.random >> 7;
	r.random ^= r.random << 17;
	return r.random >> 11;
}

static inline unsigned pick(unsigned n)
{
	return (unsigned)(random_next() % n);
}

static inline void rig_on_news(struct partition *p)
{
	assert_ptr_equal(partition_owner(p), &r);
	r.news++;
}

static const struct partition_ops rig_ops = { .on_news = rig_on_news };

static inline void rig_new_partition(void)
{
	struct store_shard *keys =
		r.h.store ? store_shard_create(SLICE("/"), SLICE("orders"), 3) : NULL;

	r.p = partition_create(&r.env, &r, 3, keys);
}

static inline void rig_init(bool has_redis)
{
	memset(&r, 0, sizeof(r));
	r.random = 88172645463325252;
	harness_init(&r.h);
	if (has_redis)
		harness_open_up(&r.h);
	partition_env_init(&r.env);
	r.env.ops = &rig_ops;
	r.env.store = r.h.store;
	r.env.now_ms = NOON_MS;
	r.env.tail_max_bytes = (size_t)64 << 20;
	rig_new_partition();
}

static inline void rig_turn(void)
{
	partition_flush(&r.env);
	uv_run(&r.h.loop, UV_RUN_NOWAIT);
}

/* Turns until nothing is under way. */
static inline void rig_settle(void)
{
	uint64_t late = patience_end_ns();

	uv_timer_start(&r.h.waker, harness_wake, 1, 1);
	while (!partition_is_idle(&r.env) && uv_hrtime() < late) {
		r.env.now_ms++;
		partition_flush(&r.env);
		uv_run(&r.h.loop, r.h.store ? UV_RUN_ONCE : UV_RUN_NOWAIT);
	}
	uv_timer_stop(&r.h.waker);
	assert_true(partition_is_idle(&r.env));
}

static unsigned flights(const struct partition_env *env)
{
	return env->lane_count && !TAILQ_EMPTY(&env->lanes[0]->flying);
}

static inline void rig_deinit(void)
{
	struct pub *pub;

	partition_close(r.p);
	if (r.h.store)
		harness_close(&r.h);
	harness_deinit(&r.h);
	assert_int_equal(flights(&r.env), 0);
	assert_int_equal(r.env.unstored_bytes, 0);
	assert_int_equal(r.env.tail_bytes, 0);
	assert_int_equal(r.env.memory_bytes, 0);
	assert_int_equal(r.env.reading_bytes, 0);
	partition_env_deinit(&r.env);
	while ((pub = r.pubs) != NULL) {
		r.pubs = pub->next;
		mem_free(pub);
	}
	mem_free(r.stored);
}

static inline int rig_setup(void **state)
{
	rig_init(true);
	return 0;
}

static inline int rig_setup_unkept(void **state)
{
	rig_init(false);
	return 0;
}

static inline int rig_teardown(void **state)
{
	rig_deinit();
	return 0;
}

/* Of a partition without keys. */
#define UNKEPT_TEST(name) TEST_WITH(name, rig_setup_unkept, rig_teardown)

/* ---- publishes ------------------------------------------------------------------- */

static inline void rig_store(struct pub *pub)
{
	if (pub->offset != r.stored_count)
		fail_msg("offset %llu is confirmed after %zu",
			 (unsigned long long)pub->offset, r.stored_count);
	if (r.stored_count == r.stored_cap) {
		r.stored_cap = r.stored_cap ? r.stored_cap * 2 : 1024;
		r.stored = mem_realloc(r.stored, r.stored_cap * sizeof(*r.stored));
	}
	r.stored[r.stored_count++] = pub;
}

static inline void rig_on_told(struct waiter *w)
{
	struct pub *pub = (struct pub *)((char *)w - offsetof(struct pub, waiter));

	assert_false(pub->is_told);
	pub->is_told = true;
	pub->status = w->status;
	r.told++;
	if (w->status == TIDE_OK)
		rig_store(pub);
	else
		r.refused++;
}

static inline struct pub *rig_publish(size_t len)
{
	static char payload[256 * 1024];
	struct pub *pub = mem_zalloc(sizeof(*pub));
	struct msg_header header = { SLICE("n"), SLICE("v") };
	struct msg m = { .exchange = pick(4) ? SLICE("orders") : SLICE("other"),
			 .key = pick(4) ? SLICE("eu.new") : SLICE("eu.paid"),
			 .payload = payload,
			 .payload_len = len };

	assert_true(len >= sizeof(pub->serial) && len <= sizeof(payload));
	pub->next = r.pubs;
	r.pubs = pub;
	pub->serial = r.serials++;
	pub->ms = r.env.now_ms;
	pub->status = 1;
	memcpy(payload, &pub->serial, sizeof(pub->serial));
	memset(payload + sizeof(pub->serial), (int)pub->serial,
	       len - sizeof(pub->serial));
	m.id = 1000 + pub->serial;
	if (pick(8) == 0) {
		m.headers = &header;
		m.header_count = 1;
		m.priority = 7;
	}
	waiter_init(&pub->waiter, rig_on_told);
	pub->offset = partition_end(r.p);
	assert_int_equal(partition_append(r.p, &m, &pub->waiter), pub->offset);
	assert_int_equal(partition_end(r.p), pub->offset + 1);
	waiter_done(&pub->waiter, TIDE_OK, NULL);
	assert_false(pub->is_told);
	return pub;
}

static inline void rig_publish_all(unsigned count, size_t len)
{
	while (count-- > 0)
		rig_publish(len);
	rig_settle();
}

static inline uint32_t rig_serial(const struct record *record)
{
	uint32_t serial;

	assert_true(record->msg.payload_len >= sizeof(serial));
	memcpy(&serial, record->msg.payload, sizeof(serial));
	assert_int_equal(record->msg.id, 1000 + serial);
	for (size_t i = sizeof(serial); i < record->msg.payload_len;
	     i += 1 + record->msg.payload_len / 16)
		assert_int_equal((uint8_t)record->msg.payload[i], (uint8_t)serial);
	return serial;
}

/* ---- cursors --------------------------------------------------------------------- */

/* The next record; it waits for it. TIDE_EMPTY: that was all. */
static inline int rig_next(struct cursor *c, struct record *out)
{
	uint64_t late = patience_end_ns();
	struct record_batch *batch = NULL;
	int rc;

	while ((rc = cursor_next(c, out, &batch)) == TIDE_AGAIN || rc == TIDE_ESTORE) {
		r.env.now_ms++;
		uv_timer_start(&r.h.waker, harness_wake, 1, 1);
		partition_flush(&r.env);
		uv_run(&r.h.loop, UV_RUN_ONCE);
		if (uv_hrtime() > late)
			fail_msg("offset %llu is not read within the deadline",
				 (unsigned long long)cursor_offset(c));
	}
	uv_timer_stop(&r.h.waker);
	if (rc == TIDE_OK) {
		assert_non_null(batch);
		assert_true(out->offset >= batch->base && out->offset < batch->end);
		assert_int_equal(cursor_offset(c), out->offset + 1);
	}
	return rc;
}

static inline void rig_expect(struct cursor *c, uint64_t offset)
{
	struct record record;

	assert_int_equal(rig_next(c, &record), TIDE_OK);
	assert_int_equal(record.offset, offset);
	assert_true(offset < r.stored_count);
	assert_int_equal(rig_serial(&record), r.stored[offset]->serial);
}

/* From `offset` on a new cursor sees each offset once, and nothing else. */
static inline void rig_expect_all_from(uint64_t offset)
{
	struct cursor *c = cursor_create(r.p, offset);
	struct record record;

	for (; offset < r.stored_count; offset++)
		rig_expect(c, offset);
	assert_int_equal(rig_next(c, &record), TIDE_EMPTY);
	cursor_destroy(c);
}

/* ---- a new process ----------------------------------------------------------------- */

struct rig_recovery {
	struct waiter waiter;
	bool is_done;
	int status;
	char text[512];
	unsigned groups;
	uint64_t committed;
};

static struct rig_recovery recovery;

static inline void rig_on_group(struct partition *p, struct slice group,
				uint64_t committed)
{
	assert_true(slice_is(group, "billing"));
	recovery.groups++;
	recovery.committed = committed;
}

static inline void rig_on_recovered(struct waiter *w)
{
	recovery.is_done = true;
	recovery.status = w->status;
	snprintf(recovery.text, sizeof(recovery.text), "%s", w->text ? w->text : "");
}

/* The partition is closed, and read again by a new one. */
static inline int rig_recover(void)
{
	partition_close(r.p);
	WAIT(&r.h, flights(&r.env) == 0);
	rig_new_partition();
	memset(&recovery, 0, sizeof(recovery));
	waiter_init(&recovery.waiter, rig_on_recovered);
	partition_recover(r.p, rig_on_group, &recovery.waiter);
	waiter_done(&recovery.waiter, TIDE_OK, NULL);
	WAIT(&r.h, recovery.is_done);
	return recovery.status;
}

#endif
