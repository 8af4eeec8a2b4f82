/* Random appends, trims, faults, crashes and readers over a real Redis, compared with
 * what was confirmed. TIDE_TEST_SEED repeats a run, TIDE_TEST_ROUNDS makes more of them.
 */
#include "partition_rig.h"

#define READERS 6
#define STEPS 3000

struct reader {
	struct cursor *cursor;
	uint64_t next; /* the offset that it must see next, if it is kept */
};

static struct reader readers[READERS];
static bool is_trouble;
static unsigned crashes, cuts;
static uint64_t seen, jumps;

/* ---- readers
 * --------------------------------------------------------------------------- */

static void check_record(struct reader *reader, const struct record *record)
{
	uint64_t start = partition_start(r.p);

	if (record->offset != reader->next && record->offset != start)
		fail_msg("offset %llu after %llu, the log begins at %llu",
			 (unsigned long long)record->offset,
			 (unsigned long long)reader->next, (unsigned long long)start);
	assert_true(record->offset >= reader->next);
	jumps += record->offset > reader->next;
	if (record->offset >= r.stored_count)
		fail_msg("offset %llu was never confirmed",
			 (unsigned long long)record->offset);
	assert_int_equal(rig_serial(record), r.stored[record->offset]->serial);
	reader->next = record->offset + 1;
	seen++;
}

/* What it can read now, `count` records at most. */
static void read_some(struct reader *reader, unsigned count)
{
	struct record record;
	struct record_batch *batch;
	int rc = TIDE_OK;

	while (count-- > 0 &&
	       (rc = cursor_next(reader->cursor, &record, &batch)) == TIDE_OK)
		check_record(reader, &record);
	if (rc == TIDE_EMPTY)
		assert_true(reader->next >= r.stored_count ||
			    partition_start(r.p) == r.stored_count);
}

static void read_to_end(struct reader *reader)
{
	struct record record;

	while (rig_next(reader->cursor, &record) == TIDE_OK)
		check_record(reader, &record);
	assert_int_equal(cursor_offset(reader->cursor), r.stored_count);
}

static void open_reader(struct reader *reader, uint64_t offset)
{
	cursor_destroy(reader->cursor);
	reader->cursor = cursor_create(r.p, offset);
	reader->next = offset;
}

static void move_reader(struct reader *reader)
{
	reader->next = pick((unsigned)r.stored_count + 1);
	cursor_seek(reader->cursor, reader->next);
}

/* ---- faults
 * ------------------------------------------------------------------------------ */

static void trouble(void)
{
	switch (pick(5)) {
	case 0:
		tell(&r.h, "CONFIG SET maxmemory 1");
		break;
	case 1:
		/* What is sent again is refused, and may have been carried out. */
		tell(&r.h, "CLIENT PAUSE 3 WRITE");
		rig_turn();
		tell(&r.h, "CONFIG SET maxmemory 1");
		tell(&r.h, "CLIENT KILL TYPE normal SKIPME yes");
		cuts++;
		break;
	case 2:
		tell(&r.h, "CONFIG SET maxmemory 0");
		break;
	default:
		tell(&r.h, "CLIENT KILL TYPE normal SKIPME yes");
		cuts++;
	}
}

static struct pub *pub_of(uint32_t serial)
{
	struct pub *pub = r.pubs;

	while (pub && pub->serial != serial)
		pub = pub->next;
	assert_non_null(pub);
	return pub;
}

/* Nobody was told that it was taken, but it was. */
static void adopt(void)
{
	struct cursor *c = cursor_create(r.p, r.stored_count);
	struct record record;

	while (rig_next(c, &record) == TIDE_OK) {
		struct pub *pub = pub_of(rig_serial(&record));

		assert_int_equal(pub->offset, record.offset);
		assert_int_not_equal(pub->status, TIDE_OK);
		rig_store(pub);
	}
	cursor_destroy(c);
}

/* The batches in Redis with offsets from `start` on. */
struct held {
	uint64_t bytes;
	struct record_batch first, second;
	size_t first_bytes;
	uint64_t end; /* where the last of them ends, counted in bytes */
	unsigned count;
};

static void hold(struct held *held, struct slice bytes, uint64_t start)
{
	struct record_batch head;

	assert_true(record_peek(bytes, &head));
	if (head.end <= start)
		return;
	held->bytes += bytes.len;
	if (head.position + bytes.len > held->end)
		held->end = head.position + bytes.len;
	if (held->count++ == 0 || head.base < held->first.base) {
		held->second = held->first;
		held->first = head;
		held->first_bytes = bytes.len;
	} else if (held->count == 2 || head.base < held->second.base) {
		held->second = head;
	}
}

static struct held find_held(uint64_t start)
{
	struct held held = { 0 };
	redisReply *days =
		ask(&r.h, "KEYS %slog:*", store_shard_prefix(partition_keys(r.p)));

	assert_int_equal(days->type, REDIS_REPLY_ARRAY);
	for (size_t i = 0; i < days->elements; i++) {
		redisReply *rows = ask(&r.h, "ZRANGE %s 0 -1", days->element[i]->str);

		assert_int_equal(rows->type, REDIS_REPLY_ARRAY);
		for (size_t j = 0; j < rows->elements; j++)
			hold(&held,
			     (struct slice){ rows->element[j]->str,
					     rows->element[j]->len },
			     start);
		freeReplyObject(rows);
	}
	freeReplyObject(days);
	return held;
}

/* From where the first batch begins to where the last one ends: no less than what Redis
 * has. It may be more than what was known before: of the batch that has the start, all
 * counts that was appended in it. */
static void check_bytes(uint64_t start, uint64_t bytes_before)
{
	const struct held held = find_held(start);
	uint64_t bytes = partition_bytes(r.p);
	uint64_t first = held.count > 1 ? held.second.position - held.first.position
					: held.first_bytes;

	assert_true(bytes >= held.bytes);
	assert_true(bytes <= bytes_before + first);
	assert_int_equal(bytes, held.end - held.first.position);
}

static void crash(void)
{
	uint64_t start = partition_start(r.p), bytes = partition_bytes(r.p);
	int64_t last_ms = partition_last_ms(r.p);
	size_t confirmed = r.stored_count;

	assert_int_equal(rig_recover(), TIDE_OK);
	assert_int_equal(partition_start(r.p), start);
	assert_true(partition_readable(r.p) >= confirmed);
	adopt();
	assert_int_equal(partition_readable(r.p), r.stored_count);
	assert_int_equal(partition_end(r.p), r.stored_count);
	if (!is_trouble && r.stored_count == confirmed) {
		check_bytes(start, bytes);
		if (r.stored_count > start)
			assert_int_equal(partition_last_ms(r.p), last_ms);
	}
	for (unsigned i = 0; i < READERS; i++)
		open_reader(&readers[i], readers[i].next);
	crashes++;
}

/* ---- the run
 * ------------------------------------------------------------------------------ */

static void pass_time(void)
{
	switch (pick(20)) {
	case 0:
		r.env.now_ms += DAY_MS * pick(3);
		break;
	case 1:
		r.env.now_ms -= pick(100) * MINUTE_MS;
		break;
	default:
		r.env.now_ms += pick(200);
	}
}

/* The store may be down: it says when it is done. */
static unsigned trims_told;
static void on_trimmed(void *ctx, int status, const char *text)
{
	trims_told++;
	if (!is_trouble && status != TIDE_ENOTFOUND)
		assert_int_equal(status, TIDE_OK);
}

static void trim(void)
{
	uint64_t readable = partition_readable(r.p), start = partition_start(r.p);
	uint64_t to = start + pick((unsigned)(readable - start) + 1);

	if (pick(10) > 0)
		to = start + (to - start) / 8;
	partition_trim(r.p, to, on_trimmed, NULL);
}

static void step(void)
{
	switch (pick(16)) {
	case 0 ... 3:
		for (unsigned n = pick(6) ? pick(10) : pick(200); n > 0; n--)
			rig_publish(4 + pick(pick(30) ? 1000 : 100000));
		break;
	case 4 ... 6:
		read_some(&readers[pick(READERS)], pick(2) ? pick(10) : pick(2000));
		break;
	case 7:
		pass_time();
		break;
	case 8:
		if (pick(4) == 0)
			trim();
		break;
	case 9:
		r.env.tail_max_bytes = pick(2) ? pick(1 << 16) : pick(1 << 22);
		break;
	case 10:
		if (pick(20) == 0)
			move_reader(&readers[pick(READERS)]);
		if (is_trouble && pick(4) == 0)
			trouble();
		break;
	case 11:
		if (pick(40) == 0)
			crash();
		else if (is_trouble && pick(10) == 0)
			tell(&r.h, "CONFIG SET maxmemory 0");
		break;
	default:
		r.env.now_ms += pick(4);
		rig_turn();
		if (pick(4) == 0)
			usleep(200);
	}
}

static void finish(void)
{
	struct reader *reader = &readers[0];

	tell(&r.h, "CONFIG SET maxmemory 0");
	rig_settle();
	for (unsigned i = 0; i < READERS; i++)
		read_to_end(&readers[i]);
	is_trouble = false;
	crash();
	cursor_seek(reader->cursor, 0);
	reader->next = 0;
	read_to_end(reader);
	for (unsigned i = 0; i < READERS; i++) {
		cursor_destroy(readers[i].cursor);
		readers[i].cursor = NULL;
	}
}

static unsigned long number_from_env(const char *name, unsigned long otherwise)
{
	const char *text = getenv(name);

	return text ? strtoul(text, NULL, 10) : otherwise;
}

static void run(unsigned long seed, bool has_trouble)
{
	rig_init(true);
	r.random ^= seed * UINT64_C(0x9E3779B97F4A7C15);
	is_trouble = has_trouble;
	crashes = cuts = 0;
	seen = jumps = 0;
	for (unsigned i = 0; i < READERS; i++)
		open_reader(&readers[i], 0);
	for (unsigned i = 0; i < STEPS; i++)
		step();
	finish();
	print_message(
		"seed %lu: %zu confirmed, %llu refused, %llu read, %llu jumps, %llu "
		"batches from Redis, %u crashes, %u cuts\n",
		seed, r.stored_count, (unsigned long long)r.refused,
		(unsigned long long)seen, (unsigned long long)jumps,
		(unsigned long long)r.env.stats.read_batches, crashes, cuts);
	assert_true(r.stored_count > 100);
	rig_deinit();
}

static void run_rounds(bool has_trouble)
{
	unsigned long seed = number_from_env("TIDE_TEST_SEED", 0);
	unsigned long rounds = number_from_env("TIDE_TEST_ROUNDS", 2);

	if (seed)
		rounds = 1;
	for (unsigned long i = 0; i < rounds; i++)
		run(seed ? seed : i + 1, has_trouble);
}

TEST_THAT(readers_see_what_was_confirmed)
{
	run_rounds(false);
}

TEST_THAT(readers_see_what_was_confirmed_whatever_redis_does)
{
	run_rounds(true);
}

RUN_TESTS()
