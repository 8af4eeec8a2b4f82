#include "check.h"

#include <stdio.h>

#include "base/mem.h"
#include "proto/amqp/amqp_message.h"

#define TABLE                      \
	"\1aI\xff\xff\xff\xfb"     \
	"\1bS\0\0\0\2xy"           \
	"\1cF\0\0\0\7\1dF\0\0\0\0" \
	"\1eA\0\0\0\7S\0\0\0\1zV"

static const struct slice table = { TABLE, sizeof(TABLE) - 1 };

/* A value of each type that another place does not have. */
static struct amqp_value value_for(char letter, unsigned place)
{
	struct amqp_value v = { .n = place + 1 };

	if (letter == 'b')
		v.n = place & 1;
	if (letter == 'q')
		v.n = UINT64_C(0x0102030405060708) + place;
	if (letter == 'S' || letter == 'L')
		v.s = place & 1 ? SLICE("a\0b") : SLICE("");
	if (letter == 'T')
		v.s = table;
	return v;
}

static void check_same(char letter, const struct amqp_value *a,
		       const struct amqp_value *b)
{
	if (strchr("SLT", letter))
		assert_true(slice_is_equal(a->s, b->s));
	else
		assert_int_equal(a->n, b->n);
}

/* In a block of its own size, so that a read beyond its end is seen. */
static bool read_copy(const char *fields, const char *data, size_t len,
		      struct amqp_value *out)
{
	char *copy = mem_alloc(len + 1);
	bool is_good;

	memcpy(copy, data, len);
	copy = mem_realloc(copy, len ? len : 1);
	is_good = amqp_codec_read(fields, (struct slice){ copy, len }, out);
	mem_free(copy);
	return is_good;
}

TEST_THAT(each_method_is_read_as_it_was_written_and_no_part_of_it)
{
	for (int m = 0; m < AMQP_METHOD_COUNT; m++) {
		const struct amqp_method_row *row =
			amqp_codec_method((enum amqp_method)m);
		struct amqp_value in[AMQP_FIELDS_MAX], out[AMQP_FIELDS_MAX];
		unsigned count = (unsigned)strlen(row->fields);
		char bytes[512];
		size_t len;

		assert_true(count <= AMQP_FIELDS_MAX);
		for (unsigned i = 0; i < count; i++)
			in[i] = value_for(row->fields[i], i);
		len = (size_t)(amqp_codec_put(bytes, (enum amqp_method)m, in) - bytes);
		assert_true(len <= amqp_codec_size((enum amqp_method)m, in));
		assert_int_equal(
			amqp_codec_find_method((unsigned)amqp_get_number(bytes, 2),
					       (unsigned)amqp_get_number(bytes + 2, 2)),
			m);
		assert_true(amqp_codec_read(row->fields,
					    (struct slice){ bytes + 4, len - 4 }, out));
		for (unsigned i = 0; i < count; i++)
			check_same(row->fields[i], &in[i], &out[i]);
		for (size_t cut = 4; cut < len; cut++)
			assert_false(read_copy(row->fields, bytes + 4, cut - 4, out));
		bytes[len] = 0;
		assert_false(read_copy(row->fields, bytes + 4, len - 3, out));
	}
	assert_int_equal(amqp_codec_find_method(60, 1), AMQP_METHOD_COUNT);
}

TEST_THAT(a_short_text_that_is_too_long_is_cut)
{
	char text[300], bytes[400];
	const struct amqp_value in = { .s = { text, sizeof(text) } };
	struct amqp_value out;
	char *end;

	memset(text, 'x', sizeof(text));
	end = amqp_codec_put(bytes, AMQP_BASIC_CONSUME_OK, &in);
	assert_true(amqp_codec_read(
		"S", (struct slice){ bytes + 4, (size_t)(end - bytes) - 4 }, &out));
	assert_int_equal(out.s.len, 255);
}

TEST_THAT(tables_that_are_none_are_refused)
{
	static const struct slice bad[] = {
		{ "\1", 1 },
		{ "\1aZ\0", 4 },
		{ "\1aI\0\0\0", 6 },
		{ "\1aS\0\0\0\2x", 8 },
		{ "\1aF\0\0\0\1\1", 8 },
		{ "\1aA\0\0\0\1Q", 8 },
		{ "\5a", 2 },
		{ "\1aS\xff\xff\xff\xff", 7 },
	};

	assert_true(amqp_field_is_table(table));
	for (size_t i = 0; i < COUNT(bad); i++)
		assert_false(amqp_field_is_table(bad[i]));
	for (size_t cut = 1; cut < table.len; cut++) {
		struct slice part = { table.data, cut };
		/* Between two items: behind a, b, and c. */
		bool is_between = cut == 7 || cut == 16 || cut == 30;

		assert_int_equal(amqp_field_is_table(part), is_between);
	}
}

TEST_THAT(tables_in_tables_have_a_limit)
{
	for (unsigned depth = 30; depth < 36; depth++) {
		struct buf inner = { 0 };

		for (unsigned i = 0; i < depth; i++) {
			struct buf outer = { 0 };
			char len[4];

			amqp_put_number(len, buf_len(&inner), 4);
			amqp_field_add(&outer, SLICE("t"), 'F', (struct slice){ len, 4 });
			buf_append_slice(&outer, buf_slice(&inner));
			buf_deinit(&inner);
			inner = outer;
		}
		assert_int_equal(amqp_field_is_table(buf_slice(&inner)), depth <= 32);
		buf_deinit(&inner);
	}
}

TEST_THAT(values_have_texts_as_far_as_they_can)
{
	static const struct {
		char type;
		struct slice bytes;
		const char *text; /* NULL: it has none */
	} cases[] = {
		{ 't', { "\1", 1 }, "true" },
		{ 't', { "\0", 1 }, "false" },
		{ 'b', { "\xff", 1 }, "-1" },
		{ 'B', { "\xff", 1 }, "255" },
		{ 's', { "\xff\xfe", 2 }, "-2" },
		{ 'u', { "\xff\xfe", 2 }, "65534" },
		{ 'I', { "\x80\0\0\0", 4 }, "-2147483648" },
		{ 'i', { "\x80\0\0\0", 4 }, "2147483648" },
		{ 'l', { "\xff\xff\xff\xff\xff\xff\xff\xff", 8 }, "-1" },
		{ 'T', { "\0\0\0\0\x65\x53\xf1\0", 8 }, "1700000000" },
		{ 'f', { "\x3f\xc0\0\0", 4 }, "1.5" },
		{ 'd', { "\x3f\xb9\x99\x99\x99\x99\x99\x9a", 8 }, "0.10000000000000001" },
		{ 'D', { "\2\0\0\x30\x39", 5 }, "123.45" },
		{ 'D', { "\2\xff\xff\xff\xff", 5 }, "-0.01" },
		{ 'D', { "\0\0\0\0\7", 5 }, "7" },
		{ 'D', { "\x0a\0\0\0\7", 5 }, "7e-10" },
		{ 'S', { "\0\0\0\2xy", 6 }, "xy" },
		{ 'V', { "", 0 }, NULL },
		{ 'F', { "\0\0\0\0", 4 }, NULL },
		{ 'A', { "\0\0\0\0", 4 }, NULL },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		const struct amqp_field f = { .type = cases[i].type,
					      .bytes = cases[i].bytes };
		char room[AMQP_TEXT_MAX];
		struct slice text;

		assert_int_equal(amqp_field_text(&f, room, &text), cases[i].text != NULL);
		if (cases[i].text)
			assert_true(slice_is(text, cases[i].text));
	}
}

static void fill(struct amqp_properties *p)
{
	p->flags = 0;
	for (int i = 0; i < AMQP_PROPERTY_COUNT; i++) {
		p->flags |= (uint16_t)(0x8000u >> i);
		p->values[i] = value_for(amqp_properties_letter((enum amqp_property)i),
					 (unsigned)i | 1);
		if (amqp_properties_letter((enum amqp_property)i) == 'S')
			p->values[i].s =
				slice_from(amqp_properties_name((enum amqp_property)i));
	}
}

TEST_THAT(properties_are_read_as_they_were_written_and_no_part_of_them)
{
	struct amqp_properties in, out;
	struct buf bytes = { 0 };

	fill(&in);
	amqp_properties_write(&in, &bytes);
	assert_true(amqp_properties_read(buf_slice(&bytes), &out));
	assert_int_equal(in.flags, out.flags);
	for (int i = 0; i < AMQP_PROPERTY_COUNT; i++)
		check_same(amqp_properties_letter((enum amqp_property)i), &in.values[i],
			   &out.values[i]);
	for (size_t cut = 0; cut < buf_len(&bytes); cut++)
		assert_false(
			amqp_properties_read((struct slice){ bytes.data, cut }, &out));
	buf_append_char(&bytes, 0);
	assert_false(amqp_properties_read(buf_slice(&bytes), &out));
	buf_deinit(&bytes);
	assert_false(amqp_properties_read(SLICE("\0\2"), &out));
}

/* ---- a message, from a publish to a delivery ---- */

struct trip {
	struct buf sent, got;
	struct amqp_properties p;
	struct amqp_message headers;
	struct msg m;
};

static void publish(struct trip *t)
{
	fill(&t->p);
	amqp_properties_write(&t->p, &t->sent);
	amqp_message_read(&t->headers, &t->p, buf_slice(&t->sent));
	t->m.headers = t->headers.items;
	t->m.header_count = (uint8_t)t->headers.count;
}

static void end(struct trip *t)
{
	buf_deinit(&t->sent);
	buf_deinit(&t->got);
}

TEST_THAT(a_delivery_has_the_bytes_of_its_publish)
{
	struct trip t = { 0 };

	publish(&t);
	assert_true(slice_is(msg_header(&t.m, SLICE("content-type")), "content-type"));
	assert_true(slice_is(msg_header(&t.m, SLICE("a")), "-5"));
	assert_null(msg_header(&t.m, SLICE("c")).data);
	amqp_message_write(&t.got, &t.m, &t.m, 0);
	assert_true(slice_is_equal(buf_slice(&t.sent), buf_slice(&t.got)));
	end(&t);
}

/* What a filter has written is what a consumer gets; the rest stays as it was. */
TEST_THAT(headers_that_were_changed_are_delivered_so)
{
	struct amqp_properties p;
	struct amqp_field f;
	struct trip t = { 0 };

	publish(&t);
	for (unsigned i = 0; i < t.headers.count; i++) {
		struct msg_header *h = &t.headers.items[i];

		if (slice_is(h->name, "b"))
			h->value = SLICE("changed");
		if (slice_is(h->name, "type"))
			h->name = SLICE("new");
	}
	amqp_message_write(&t.got, &t.m, &t.m, 3);
	assert_true(amqp_properties_read(buf_slice(&t.got), &p));
	assert_false(amqp_properties_has(&p, AMQP_P_TYPE));
	assert_true(slice_is(p.values[AMQP_P_APP_ID].s, "app-id"));
	assert_true(amqp_field_find(p.values[AMQP_P_HEADERS].s, "a", &f));
	assert_int_equal(f.type, 'I');
	assert_true(amqp_field_find(p.values[AMQP_P_HEADERS].s, "b", &f));
	assert_true(slice_is(slice_skip(f.bytes, 4), "changed"));
	assert_true(amqp_field_find(p.values[AMQP_P_HEADERS].s, "c", &f));
	assert_true(amqp_field_find(p.values[AMQP_P_HEADERS].s, "new", &f));
	assert_true(amqp_field_find(p.values[AMQP_P_HEADERS].s, "x-delivery-count", &f));
	end(&t);
}

/* Anybody may publish a header of this name. */
TEST_THAT(properties_that_cannot_be_read_are_made_anew)
{
	const struct msg_header headers[] = { { SLICE("a"), SLICE("b") },
					      { MSG_AMQP_HEADER, SLICE("nonsense") } };
	const struct msg m = { .headers = headers, .header_count = 2, .priority = 2 };
	struct amqp_properties p;
	struct buf got = { 0 };
	struct amqp_field f;

	amqp_message_write(&got, &m, &m, 0);
	assert_true(amqp_properties_read(buf_slice(&got), &p));
	assert_int_equal(p.values[AMQP_P_PRIORITY].n, 2);
	assert_true(amqp_field_find(p.values[AMQP_P_HEADERS].s, "a", &f));
	buf_deinit(&got);
}

TEST_THAT(more_headers_than_a_message_has_stay_with_its_bytes)
{
	struct amqp_properties p = { .flags = 0x8000u >> AMQP_P_HEADERS };
	struct buf items = { 0 };
	struct amqp_message out;
	char name[8];

	for (unsigned i = 0; i < 200; i++) {
		snprintf(name, sizeof(name), "n%u", i);
		amqp_field_add_number(&items, slice_from(name), 'l', i);
	}
	p.values[AMQP_P_HEADERS].s = buf_slice(&items);
	amqp_message_read(&out, &p, SLICE("\0\0"));
	assert_int_equal(out.count, MSG_HEADERS_MAX);
	assert_true(slice_is_equal(out.items[out.count - 1].name, MSG_AMQP_HEADER));
	assert_true(slice_is(out.items[62].value, "62"));
	buf_deinit(&items);
}

RUN_TESTS()
