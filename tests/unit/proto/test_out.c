#include "check.h"

#include "base/mem.h"
#include "proto/out.h"

static struct pool pool;

/* Bytes that say where they belong. */
static char pattern(size_t i)
{
	return (char)(i * 7 + i / 251);
}

static struct msg *make_msg(size_t len, size_t from)
{
	struct msg spec = { .exchange = SLICE("x"),
			    .key = SLICE("k"),
			    .payload_len = len };
	struct msg *m = msg_create(&spec);

	assert_non_null(m);
	for (size_t i = 0; i < len; i++)
		msg_payload_room(m)[i] = pattern(from + i);
	return m;
}

/* The next `len` bytes of the pattern, in one append. */
static void append(struct out *o, size_t *at, size_t len)
{
	char *bytes = mem_alloc(len ? len : 1);

	for (size_t i = 0; i < len; i++)
		bytes[i] = pattern(*at + i);
	out_append(o, bytes, len);
	*at += len;
	mem_free(bytes);
}

static void append_payload(struct out *o, size_t *at, size_t len)
{
	struct msg *m = make_msg(len, *at);

	out_append_payload(o, m);
	msg_unref(m); /* the chain keeps it, if it needs it */
	*at += len;
}

/* Whether the iovecs show `want` bytes of the pattern from `from`. */
static void check(const struct out *o, size_t from, size_t want)
{
	struct iovec vec[64];
	unsigned count = out_iovecs(o, vec, 64);
	size_t seen = 0;

	assert_int_equal(o->bytes, want);
	for (unsigned i = 0; i < count; i++) {
		const char *bytes = vec[i].iov_base;

		assert_true(vec[i].iov_len > 0);
		for (size_t k = 0; k < vec[i].iov_len; k++)
			if (bytes[k] != pattern(from + seen + k))
				fail_msg("byte %zu is another one", from + seen + k);
		seen += vec[i].iov_len;
	}
	assert_int_equal(seen, want);
}

/* A chain with every kind of neighbours: small pieces, a piece over a chunk's
 * end, references at the front, beside each other and at the end. */
static size_t build(struct out *o)
{
	size_t at = 0;

	append_payload(o, &at, OUT_REFER_BYTES);
	append(o, &at, 10);
	append_payload(o, &at, OUT_REFER_BYTES - 1);
	append(o, &at, OUT_CHUNK_BYTES);
	append_payload(o, &at, OUT_REFER_BYTES + 1);
	append_payload(o, &at, 3 * OUT_CHUNK_BYTES);
	append(o, &at, 1);
	append(o, &at, 0);
	append(o, &at, OUT_CHUNK_BYTES - 1);
	append_payload(o, &at, 0);
	append_payload(o, &at, OUT_REFER_BYTES);
	return at;
}

TEST_THAT(what_is_written_is_what_is_sent)
{
	struct out o;
	size_t len;

	out_init(&o, &pool);
	assert_int_equal(out_iovecs(&o, NULL, 0), 0);
	len = build(&o);
	check(&o, 0, len);
	out_consume(&o, len);
	check(&o, len, 0);
	assert_null(o.first);
	out_deinit(&o);
}

TEST_THAT(consume_at_every_boundary_leaves_the_rest)
{
	static const int near[] = { -1, 0, 1 };
	struct iovec vec[64];
	struct out o;
	size_t edges[64], len, edge = 0;
	unsigned count;

	out_init(&o, &pool);
	len = build(&o);
	count = out_iovecs(&o, vec, 64);
	for (unsigned i = 0; i < count; i++)
		edges[i] = edge += vec[i].iov_len;
	out_deinit(&o);
	for (unsigned i = 0; i < count; i++) {
		for (size_t k = 0; k < COUNT(near); k++) {
			size_t cut = edges[i] + (size_t)near[k];

			if (cut > len)
				continue;
			out_init(&o, &pool);
			build(&o);
			out_consume(&o, cut);
			check(&o, cut, len - cut);
			out_consume(&o, len - cut);
			check(&o, len, 0);
			out_deinit(&o);
		}
	}
}

TEST_THAT(any_steps_of_consume_lead_to_the_end)
{
	static const size_t steps[] = { 1000, 4095, 4096, 4097, 16383, 16384, 16385 };

	for (size_t s = 0; s < COUNT(steps); s++) {
		struct out o;
		size_t len, at = 0;

		out_init(&o, &pool);
		len = build(&o);
		while (at < len) {
			size_t step = len - at < steps[s] ? len - at : steps[s];

			out_consume(&o, step);
			at += step;
			check(&o, at, len - at);
		}
		assert_null(o.first);
		assert_null(o.last);
		out_deinit(&o);
	}
}

/* What a connection does: it writes on while the front is being sent. */
TEST_THAT(writing_goes_on_behind_what_was_sent)
{
	struct out o;
	size_t from = 0, at = 0;

	out_init(&o, &pool);
	for (unsigned i = 0; i < 300; i++) {
		if (i % 7 == 3)
			append_payload(&o, &at, OUT_REFER_BYTES + i);
		append(&o, &at, (i * 37) % 900);
		if (i % 3 == 0) {
			out_consume(&o, (at - from) / 2);
			from += (at - from) / 2;
		}
		check(&o, from, at - from);
	}
	out_deinit(&o);
	assert_int_equal(o.bytes, 0);
}

TEST_THAT(a_large_payload_is_held_and_a_small_one_is_copied)
{
	struct msg *small = make_msg(OUT_REFER_BYTES - 1, 0);
	struct msg *large = make_msg(OUT_REFER_BYTES, OUT_REFER_BYTES - 1);
	struct iovec vec[4];
	struct out o;

	out_init(&o, &pool);
	out_append_payload(&o, small);
	out_append_payload(&o, large);
	assert_int_equal(small->refs, 1);
	assert_int_equal(large->refs, 2);
	assert_int_equal(out_iovecs(&o, vec, 4), 2);
	assert_ptr_equal(vec[1].iov_base, large->payload);
	out_consume(&o, 2 * OUT_REFER_BYTES - 2);
	assert_int_equal(large->refs, 2);
	out_consume(&o, 1);
	assert_int_equal(large->refs, 1);
	/* One that is not sent is let go with the chain. */
	out_append_payload(&o, large);
	assert_int_equal(large->refs, 2);
	out_deinit(&o);
	assert_int_equal(large->refs, 1);
	msg_unref(small);
	msg_unref(large);
}

TEST_THAT(no_more_iovecs_than_asked_for)
{
	struct iovec vec[3] = { { 0 } };
	struct out o;
	size_t at = 0;

	out_init(&o, &pool);
	for (int i = 0; i < 5; i++)
		append_payload(&o, &at, OUT_REFER_BYTES);
	assert_int_equal(out_iovecs(&o, vec, 2), 2);
	assert_null(vec[2].iov_base);
	out_deinit(&o);
}

TEST_THAT(a_reservation_is_in_one_piece)
{
	struct out o;
	size_t at = 0;

	out_init(&o, &pool);
	append(&o, &at, OUT_CHUNK_BYTES - 10);
	for (size_t len = 1; len <= OUT_CHUNK_BYTES; len = len * 3 + 8) {
		char *room = out_reserve(&o, len);

		for (size_t i = 0; i < len; i++)
			room[i] = pattern(at + i);
		out_grow(&o, len);
		at += len;
		check(&o, 0, at);
	}
	/* One that is not used leaves nothing behind. */
	out_reserve(&o, OUT_CHUNK_BYTES);
	check(&o, 0, at);
	out_consume(&o, at);
	assert_null(o.first);
	out_deinit(&o);
}

static int make_pool(void **state)
{
	out_pool_init(&pool);
	return 0;
}

static int drop_pool(void **state)
{
	pool_deinit(&pool);
	return 0;
}

RUN_TESTS(.begin = make_pool, .end = drop_pool)
