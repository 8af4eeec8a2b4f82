#include "check.h"
#include "failing_mem.h"
#include "client/decoder.h"

#define PAYLOAD_MAX 1000

/* One line of text an item, so that whole streams can be compared. */
static void describe(const struct decoder_item *item, struct buf *out)
{
	static const char *const names[] = { "ok", "err", "data", "msg", "event" };
	buf_printf(out, "%s %u", names[item->kind], item->channel);
	if (item->kind == ITEM_ERR)
		buf_printf(out, " <%" SLICE_FMT ">", SLICE_ARG(item->word));
	if (item->kind != ITEM_MSG) {
		assert_int_equal(item->text.data[item->text.len], 0);
		buf_printf(out, " <%" SLICE_FMT ">\n", SLICE_ARG(item->text));
		return;
	}
	const struct tidemq_msg *m = item->msg;
	assert_int_equal(m->payload[m->payload_len], 0);
	buf_printf(out, " sid=%s tag=%d attempt=%u <%s> <%s> id=%s ts=%d pri=%u%s",
		   m->sid, (int)m->tag, m->attempt, m->exchange, m->key, m->id,
		   (int)m->ts_unix_ms, m->priority, m->redelivered ? " redelivered" : "");
	if (m->has_offset)
		buf_printf(out, " at %u:%d", m->partition, (int)m->offset);
	for (size_t i = 0; i < m->header_count; i++) {
		buf_printf(out, " %s=<", m->headers[i].name);
		buf_append(out, m->headers[i].value, m->headers[i].value_len);
		buf_append_text(out, ">");
	}
	buf_append_text(out, " [");
	buf_append(out, m->payload, m->payload_len);
	buf_append_text(out, "]\n");
}

/* Feed the stream in pieces of `piece` bytes; returns the status at the end. */
static int decode(struct slice stream, size_t piece, struct buf *out,
		  struct tidemq_error *err)
{
	struct decoder d;
	decoder_init(&d, PAYLOAD_MAX);
	int status = TIDE_AGAIN;
	while (stream.len > 0 && status == TIDE_AGAIN) {
		size_t len = stream.len < piece ? stream.len : piece;
		buf_append(&d.in, stream.data, len);
		stream = slice_skip(stream, len);
		struct decoder_item item;
		while ((status = decoder_next(&d, &item, err)) == TIDEMQ_OK) {
			describe(&item, out);
			if (item.kind == ITEM_MSG)
				tidemq_msg_free(item.msg);
		}
	}
	decoder_deinit(&d);
	return status;
}

static const char stream[] =
	"OK\r\n"
	"OK 0c5e1f3a90001000 2\r\n"
	"@17 OK 1\n"
	"ERR not-found there is no queue 'x'\r\n"
	"@65535 ERR syntax\r\n"
	"DATA 0\r\n\r\n"
	"DATA 12\r\n{\"a\":\r\n\"OK\"}\r\n"
	"EVT blocked store\r\n"
	"@2 EVT cancelled s1 deleted\r\n"
	"MSG s1 7 1 orders a.b id=0c5e1f3a90001000 ts=1700 5\r\nhello\r\n"
	"@3 MSG - - 2 - - id=0c5e1f3a90001001 ts=1 pri=9 redelivered later=1 "
	"h:note=50%25%20off h:e= h:z=%00%0d%0A 4\n\r\n\r\n\n"
	"MSG s - 1 - q id=0c5e1f3a90001002 ts=2 0\r\n\r\n"
	"MSG s 1 1 - t id=0c5e1f3a90001003 ts=3 partition=7 offset=12 1\r\nx\r\n"
	"OK last\r\n";

static void check_stream(struct buf *out)
{
	static const char z[] = "z=<\0\r\n>";
	struct buf want = { 0 };
	buf_append_text(
		&want, "ok 0 <>\n"
		       "ok 0 <0c5e1f3a90001000 2>\n"
		       "ok 17 <1>\n"
		       "err 0 <not-found> <there is no queue 'x'>\n"
		       "err 65535 <syntax> <>\n"
		       "data 0 <>\n"
		       "data 0 <{\"a\":\r\n\"OK\"}>\n"
		       "event 0 <blocked store>\n"
		       "event 2 <cancelled s1 deleted>\n"
		       "msg 0 sid=s1 tag=7 attempt=1 <orders> <a.b> id=0c5e1f3a90001000 "
		       "ts=1700 pri=0 [hello]\n"
		       "msg 3 sid=- tag=0 attempt=2 <> <> id=0c5e1f3a90001001 ts=1 pri=9 "
		       "redelivered note=<50% off> e=<> ");
	buf_append(&want, z, sizeof(z) - 1);
	buf_append_text(&want,
			" [\r\n\r\n]\n"
			"msg 0 sid=s tag=0 attempt=1 <> <q> id=0c5e1f3a90001002 ts=2 "
			"pri=0 []\n"
			"msg 0 sid=s tag=1 attempt=1 <> <t> id=0c5e1f3a90001003 ts=3 "
			"pri=0 at 7:12 [x]\n"
			"ok 0 <last>\n");
	assert_int_equal(buf_len(out), buf_len(&want));
	assert_memory_equal(buf_slice(out).data, buf_slice(&want).data, buf_len(&want));
	buf_deinit(&want);
}

TEST_THAT(a_stream_reads_the_same_in_pieces_of_any_size)
{
	for (size_t piece = 1; piece <= sizeof(stream); piece++) {
		struct buf out = { 0 };
		struct tidemq_error err;
		assert_int_equal(decode(SLICE(stream), piece, &out, &err), TIDE_AGAIN);
		check_stream(&out);
		buf_deinit(&out);
	}
}

TEST_THAT(a_stream_reads_the_same_split_anywhere)
{
	for (size_t at = 1; at < sizeof(stream) - 1; at++) {
		struct decoder d;
		struct decoder_item item;
		struct tidemq_error err;
		struct buf out = { 0 };
		decoder_init(&d, PAYLOAD_MAX);
		struct slice parts[2] = { { stream, at },
					  { stream + at, sizeof(stream) - 1 - at } };
		for (int i = 0; i < 2; i++) {
			int status;
			buf_append_slice(&d.in, parts[i]);
			while ((status = decoder_next(&d, &item, &err)) == TIDEMQ_OK) {
				describe(&item, &out);
				if (item.kind == ITEM_MSG)
					tidemq_msg_free(item.msg);
			}
			assert_int_equal(status, TIDE_AGAIN);
		}
		check_stream(&out);
		decoder_deinit(&d);
		buf_deinit(&out);
	}
}

static void check_bad(const char *text, const char *sentence)
{
	struct buf out = { 0 };
	struct tidemq_error err = { 0 };
	assert_int_equal(decode(slice_from(text), 3, &out, &err), TIDEMQ_EPROTOCOL);
	assert_int_equal(err.status, TIDEMQ_EPROTOCOL);
	assert_non_null(strstr(err.text, sentence));
	buf_deinit(&out);
}

TEST_THAT(what_is_no_reply_ends_the_stream)
{
	check_bad("HTTP/1.1 400 Bad Request\r\n", "HTTP/1.1 400");
	check_bad("\r\n", "not a reply");
	check_bad("ok\r\n", "not a reply");
	check_bad("@x OK\r\n", "not a reply");
	check_bad("@65536 OK\r\n", "not a reply");
	check_bad("@1\r\n", "not a reply");
	check_bad("DATA\r\n", "not a reply");
	check_bad("DATA x\r\n", "not a reply");
	check_bad("DATA -1\r\n", "not a reply");
	check_bad("DATA 1001\r\n", "limit of 1000");
	check_bad("DATA 99999999999999999999999\r\n", "not a reply");
	check_bad("DATA 1\r\nxy\r\n", "no line end");
	check_bad("DATA 1\r\nx\rz", "no line end");
}

TEST_THAT(a_message_without_its_words_ends_the_stream)
{
	check_bad("MSG 0\r\n\r\n", "not a reply");
	check_bad("MSG s 1 1 - 0\r\n\r\n", "not a reply");
	check_bad("MSG s x 1 - q 0\r\n\r\n", "not a reply");
	check_bad("MSG s 1 x - q 0\r\n\r\n", "not a reply");
	check_bad("MSG s 1 1 - q id=12 0\r\n\r\n", "not a reply");
	check_bad("MSG s 1 1 - q ts=x 0\r\n\r\n", "not a reply");
	check_bad("MSG s 1 1 - q pri= 0\r\n\r\n", "not a reply");
	check_bad("MSG s 1 1 - t partition=x offset=1 0\r\n\r\n", "not a reply");
	check_bad("MSG s 1 1 - t partition=1 offset=-1 0\r\n\r\n", "not a reply");
	check_bad("MSG s 1 1 - q h:a 0\r\n\r\n", "not a reply");
	check_bad("MSG s 1 1 - q h:a=% 0\r\n\r\n", "not a reply");
	check_bad("MSG s 1 1 - q h:a=%0g 0\r\n\r\n", "not a reply");
}

TEST_THAT(a_line_without_end_is_not_gathered_for_ever)
{
	struct decoder d;
	struct decoder_item item;
	struct tidemq_error err;
	decoder_init(&d, PAYLOAD_MAX);
	int status = TIDE_AGAIN;
	size_t sent = 0;
	for (; status == TIDE_AGAIN && sent < 2 * DECODE_LINE_MAX; sent += 4096) {
		memset(buf_reserve(&d.in, 4096), 'x', 4096);
		buf_grow(&d.in, 4096);
		status = decoder_next(&d, &item, &err);
	}
	assert_int_equal(status, TIDEMQ_EPROTOCOL);
	assert_true(sent <= DECODE_LINE_MAX + 4096);
	decoder_deinit(&d);
}

static void check_no_memory(const char *text)
{
	struct decoder d;
	struct decoder_item item;
	struct tidemq_error err;
	decoder_init(&d, PAYLOAD_MAX);
	buf_append_text(&d.in, text);
	mem_fail_at = 1;
	assert_int_equal(decoder_next(&d, &item, &err), TIDEMQ_ENOMEM);
	assert_int_equal(mem_fail_at, 0);
	decoder_deinit(&d);
}

TEST_THAT(a_body_without_memory_is_an_error)
{
	check_no_memory("MSG s 1 1 - q 5\r\nhello\r\n");
	check_no_memory("DATA 900\r\n{");
}

TEST_THAT(headers_are_found_by_name)
{
	struct decoder d;
	struct decoder_item item;
	struct tidemq_error err;
	decoder_init(&d, PAYLOAD_MAX);
	buf_append_text(&d.in, "MSG s 1 1 - q h:a=1 h:b=2 0\r\n\r\n");
	assert_int_equal(decoder_next(&d, &item, &err), TIDEMQ_OK);
	assert_string_equal(tidemq_msg_header(item.msg, "b"), "2");
	assert_null(tidemq_msg_header(item.msg, "c"));
	tidemq_msg_free(item.msg);
	decoder_deinit(&d);
}

RUN_TESTS()
