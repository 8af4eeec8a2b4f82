#include "check.h"

#include "proto/peer.h"
#include "proto/stomp/stomp.h"
#include "session/service.h"

#define PAYLOAD_MAX 40000

static struct rig rig;

/* Frames, and what they lead to. '^' is the NUL. */
static const char opening[] = "\r\n\nCONNECT\r\naccept-version:1.2\r\n\r\n^\n\n"
			      "SUBSCRIBE\nid:a\\cb\ndestination:/queue/q\nack:client\n"
			      "x-durable:0\nx-auto-delete:1\nreceipt:r1\n\n^"
			      "SEND\ndestination:/queue/q\nx\\c:\\n\\\\\n\nhello^"
			      "SEND\r\ndestination:/queue/q\r\ncontent-length:4\r\n\r\n"
			      "1^2^^\r\n\r\n"
			      "SEND\ndestination:/queue/q\nreceipt:r2\n\n^";
/* With the id of the second message. */
static const char closing[] = "BEGIN\ntransaction:t\n\n^"
			      "SEND\ndestination:/queue/q\ntransaction:t\n\nin t^"
			      "ACK\nid:%.*s\ntransaction:t\n\n^"
			      "COMMIT\ntransaction:t\nreceipt:r3\n\n^\n"
			      "UNSUBSCRIBE\nid:a\\cb\n\n^"
			      "DISCONNECT\nreceipt:bye\n\n^"
			      "SEND\ndestination:/queue/q\n\ntoo late^";
#define TEXT_MAX (sizeof(opening) + sizeof(closing) + 64)

/* The answers, without what differs: ids, times, and the number of the connection. The
 * id of the second message is in `ack`. */
static void add_answers(struct peer *p, struct buf *out, struct buf *ack)
{
	struct slice rest;

	peer_collect(p);
	rest = buf_slice(&p->sent);
	while (rest.len > 0) {
		struct slice line = slice_cut(&rest, '\n');

		if (slice_has_prefix(line, "ack:")) {
			line = slice_skip(line, strlen("ack:"));
			if (line.data[line.len - 1] == '2')
				buf_append_slice(ack, line);
		} else if (!slice_has_prefix(line, "message-id:") &&
			   !slice_has_prefix(line, "timestamp:") &&
			   !slice_has_prefix(line, "session:")) {
			buf_append_slice(out, line);
		}
		buf_append_char(out, '\n');
	}
	buf_clear(&p->sent);
}

/* Pieces of so many bytes; or two, cut there, of the text from `from` on. */
static void say(struct peer *p, char *text, size_t from, size_t piece, size_t cut)
{
	size_t len = strlen(text), n;

	for (size_t i = 0; i < len; i++)
		text[i] = text[i] == '^' ? '\0' : text[i];
	for (size_t at = 0; at < len; at += n) {
		n = from + at < cut && cut < from + len ? cut - from - at : len - at;
		n = n < piece ? n : piece;
		peer_say(p, text + at, n);
	}
}

/* What is acknowledged comes in a turn before that, whatever the pieces are. */
static void converse(size_t piece, size_t cut, struct buf *out)
{
	struct peer *p = peer_create_of(&rig, &stomp_protocol, PAYLOAD_MAX);
	struct buf ack = { 0 };
	char text[TEXT_MAX];

	snprintf(text, sizeof(text), "%s", opening);
	say(p, text, 0, piece, cut);
	add_answers(p, out, &ack);
	assert_true(buf_len(&ack) > 0);
	snprintf(text, sizeof(text), closing, SLICE_ARG(buf_slice(&ack)));
	say(p, text, strlen(opening), piece, cut);
	add_answers(p, out, &ack);
	assert_true(p->is_finished);
	buf_deinit(&ack);
	peer_destroy(p);
	rig_settle(&rig);
}

TEST_THAT(input_is_taken_in_any_split)
{
	struct buf wanted = { 0 }, got = { 0 };

	/* Where a message comes among receipts depends on turns: each byte is one. */
	converse(1, 0, &wanted);
	assert_non_null(memmem(wanted.data, buf_len(&wanted), "receipt-id:r3", 13));
	assert_non_null(memmem(wanted.data, buf_len(&wanted), "receipt-id:bye", 14));
	assert_non_null(memmem(wanted.data, buf_len(&wanted), "1\0002\0\0", 5));
	assert_null(memmem(wanted.data, buf_len(&wanted), "ERROR", 5));
	for (size_t piece = 2; piece < 9; piece++) {
		size_t frames = 0, wanted_frames = 0;

		buf_clear(&got);
		converse(piece, 0, &got);
		for (size_t i = 0; i < buf_len(&got); i++)
			frames += got.data[i] == '\0';
		for (size_t i = 0; i < buf_len(&wanted); i++)
			wanted_frames += wanted.data[i] == '\0';
		assert_int_equal(frames, wanted_frames);
		assert_int_equal(buf_len(&got), buf_len(&wanted));
	}
	for (size_t cut = 1; cut < TEXT_MAX; cut++) {
		buf_clear(&got);
		converse(TEXT_MAX, cut, &got);
		assert_null(memmem(got.data, buf_len(&got), "ERROR", 5));
		assert_non_null(memmem(got.data, buf_len(&got), "receipt-id:r3", 13));
		assert_non_null(memmem(got.data, buf_len(&got), "receipt-id:bye", 14));
	}
	buf_deinit(&wanted);
	buf_deinit(&got);
}

TEST_THAT(the_first_line_says_whose_connection_it_is)
{
	static const struct {
		const char *text;
		int claim;
	} cases[] = {
		{ "CONNECT\n", 1 },        { "CONNECT\r\n", 1 },
		{ "STOMP\nx", 1 },         { "C", TIDE_AGAIN },
		{ "STOM", TIDE_AGAIN },    { "STOMP\r", TIDE_AGAIN },
		{ "CONNECT", TIDE_AGAIN }, { "CONNECTED\n", 0 },
		{ "CONNECT x\n", 0 },      { "connect\n", 0 },
		{ "PING\n", 0 },           { "S\n", 0 },
		{ "STOMP\rx", 0 },         { "SEND\n", 0 },
	};

	for (size_t i = 0; i < COUNT(cases); i++)
		if (stomp_claim(cases[i].text, strlen(cases[i].text)) != cases[i].claim)
			fail_msg("%s", cases[i].text);
}

TEST_THAT(a_large_body_is_read_to_its_place)
{
	static const char head[] =
		"CONNECT\naccept-version:1.2\n\n\0"
		"SEND\ndestination:/queue/large\ncontent-length:40000\n\n";
	struct peer *p = peer_create_of(&rig, &stomp_protocol, PAYLOAD_MAX);
	char *body = mem_zalloc(PAYLOAD_MAX);
	size_t room;

	p->is_direct = true;
	peer_say(p, head, sizeof(head) - 1);
	assert_non_null(protocol_direct(p->protocol, &room));
	assert_int_equal(room, PAYLOAD_MAX);
	peer_say(p, body, PAYLOAD_MAX);
	assert_null(protocol_direct(p->protocol, &room));
	assert_non_null(p->protocol->msg);
	peer_say(p, "\0", 1);
	assert_null(p->protocol->msg);
	assert_false(p->is_finished);
	mem_free(body);
	peer_destroy(p);
}

TEST_THAT(what_is_half_received_counts_as_memory)
{
	static const char head[] = "CONNECT\naccept-version:1.2\n\n\0"
				   "SEND\ndestination:/queue/half\n\n";
	struct peer *p = peer_create_of(&rig, &stomp_protocol, PAYLOAD_MAX);
	size_t before = service_pressure_memory(rig.service);
	char *body = mem_alloc(30000);

	memset(body, 'x', 30000);
	peer_say(p, head, sizeof(head) - 1);
	peer_say(p, body, 30000);
	assert_true(service_pressure_memory(rig.service) >= before + 30000);
	peer_destroy(p);
	rig_settle(&rig);
	assert_int_equal(service_pressure_memory(rig.service), before);
	mem_free(body);
}

static int start(void **state)
{
	struct broker_config config;

	rig_config_init(&config);
	rig_init(&rig, &config);
	return 0;
}

static int stop(void **state)
{
	rig_deinit(&rig);
	return 0;
}

RUN_TESTS(.begin = start, .end = stop)
