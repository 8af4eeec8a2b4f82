#include "check.h"

#include <stdio.h>

#include "base/percent.h"
#include "broker/death.h"

#define MANY 200

static struct slice header(const struct death_headers *h, const char *name)
{
	for (unsigned i = 0; i < h->count; i++)
		if (slice_is(h->items[i].name, name))
			return h->items[i].value;
	return SLICE("(none)");
}

static void die_with(const struct msg *m, const char *queue, struct slice publish_id,
		     struct death_headers *out)
{
	const struct death d = { .queue = slice_from(queue),
				 .reason = "nack",
				 .rule = "consumer",
				 .publish_id = publish_id,
				 .attempts = 3,
				 .now_ms = 1700000000000 };

	death_write(m, &d, out);
}

static void die(const struct msg *m, const char *queue, struct death_headers *out)
{
	die_with(m, queue, SLICE(""), out);
}

/* A message with these headers, which are borrowed. */
static struct msg message(const struct msg_header *headers, unsigned count)
{
	return (struct msg){ .id = 0xabc,
			     .key = SLICE("k"),
			     .headers = headers,
			     .header_count = (uint8_t)count };
}

TEST_THAT(the_first_death_is_first_and_last)
{
	struct death_headers h;
	struct msg m = message(NULL, 0);

	assert_int_equal(death_total(&m), 0);
	die(&m, "q", &h);
	assert_int_equal(h.count, 15);
	assert_slice(header(&h, "x-death-queue"), "q");
	assert_slice(header(&h, "x-death-first-queue"), "q");
	assert_slice(header(&h, "x-death-exchange"), "-");
	assert_slice(header(&h, "x-death-first-id"), "0000000000000abc");
	assert_slice(header(&h, "x-death-first-time"), "1700000000000");
	assert_slice(header(&h, "x-death-total"), "1");
	assert_slice(header(&h, "x-death-counts"), "1:nack:q");
}

TEST_THAT(a_publish_id_stays_until_there_is_another)
{
	struct death_headers h, again, last;
	struct msg m = message(NULL, 0);

	die_with(&m, "q", SLICE("a"), &h);
	assert_slice(header(&h, "x-death-publish-id"), "a");
	m = message(h.items, h.count);
	die(&m, "dead", &again);
	assert_slice(header(&again, "x-death-publish-id"), "a");
	m = message(again.items, again.count);
	die_with(&m, "q", SLICE("b"), &last);
	assert_slice(header(&last, "x-death-publish-id"), "b");
	assert_int_equal(last.count, 16);
}

TEST_THAT(sixty_four_headers_are_kept)
{
	struct msg_header own[MSG_HEADERS_MAX];
	char names[MSG_HEADERS_MAX][16];
	struct death_headers h, again;
	struct msg m = message(own, MSG_HEADERS_MAX);

	for (int i = 0; i < MSG_HEADERS_MAX; i++) {
		snprintf(names[i], sizeof(names[i]), "n%d", i);
		own[i] = (struct msg_header){ slice_from(names[i]), SLICE("v") };
	}
	die(&m, "q", &h);
	assert_int_equal(h.count, MSG_HEADERS_MAX + 15);
	m = message(h.items, h.count);
	assert_int_equal(death_total(&m), 1);
	die(&m, "r", &again);
	assert_int_equal(again.count, MSG_HEADERS_MAX + 15);
	assert_slice(header(&again, "n63"), "v");
	assert_slice(header(&again, "x-death-first-queue"), "q");
	assert_slice(header(&again, "x-death-queue"), "r");
	assert_slice(header(&again, "x-death-counts"), "1:nack:q 1:nack:r");
}

/* No count is lost, and the bytes on the wire are bounded. */
TEST_THAT(many_queues_are_counted_together)
{
	static const int name_lens[] = { 1, 10, 100, 251 };

	for (size_t n = 0; n < COUNT(name_lens); n++) {
		struct death_headers h[2];
		struct msg m = message(NULL, 0);
		uint64_t sum = 0;

		for (int i = 0; i < MANY; i++) {
			char queue[NAME_LEN_MAX + 1];

			memset(queue, '%', sizeof(queue));
			snprintf(queue + name_lens[n], 5, "%d", i % 150);
			die(&m, queue, &h[i % 2]);
			m = message(h[i % 2].items, h[i % 2].count);
		}
		struct slice counts = msg_header(&m, SLICE("x-death-counts"));
		assert_true(percent_encoded_len(counts) <= DEATH_COUNTS_MAX);
		assert_true(slice_has_suffix(counts, ":others:-"));
		while (counts.len > 0) {
			struct slice pair = slice_cut(&counts, ' ');
			uint64_t count;

			assert_true(slice_to_uint(slice_cut(&pair, ':'), MANY, &count));
			sum += count;
		}
		assert_int_equal(sum, MANY);
		assert_int_equal(death_total(&m), MANY);
	}
}

/* What a filter has left of them, or somebody has written into Redis. */
TEST_THAT(headers_that_are_missing_or_wrong_do_no_harm)
{
	static const char *const wrong[] = {
		"",           " ",      "x",          "::",  "1",
		"7:others:-", "-1:a:b", " 3:nack:q ", ":::", "99999999999999999999:nack:q"
	};

	for (size_t i = 0; i < COUNT(wrong); i++) {
		const struct msg_header some[] = {
			{ SLICE("x-death-counts"), slice_from(wrong[i]) },
			{ SLICE("x-death-total"), slice_from(wrong[i]) },
			{ SLICE("x-death-queue"), SLICE("old") },
		};
		struct death_headers h;
		struct msg m = message(some, COUNT(some));

		die(&m, "q", &h);
		assert_true(h.count <= 15);
		assert_true(header(&h, "x-death-counts").len <= DEATH_COUNTS_MAX);
		assert_slice(header(&h, "x-death-queue"), "q");
		assert_slice(header(&h, "x-death-first-queue"), "old");
	}
}

RUN_TESTS()
