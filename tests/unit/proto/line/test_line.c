#include "check.h"
#include "cases.h"
#include "proto/peer.h"
#include "session/session_private.h"

#define PAYLOAD_MAX 1000
#define STEPS_MAX 256

static struct rig rig;

/* ---- the conversation of tests/cases/session.txt ----------------------------------- */

/* What is sent together, and where its answer ends. */
struct line_step {
	unsigned line;
	size_t end, answer_end;
};

struct conversation {
	struct buf input, answer;
	struct line_step steps[STEPS_MAX];
	unsigned count;
};

static void add_line(struct conversation *c, const char *line, bool begins, unsigned at)
{
	struct buf *to = line[0] == '>' ? &c->input : &c->answer;
	struct line_step *step;

	if (begins) {
		assert_true(c->count < STEPS_MAX);
		c->steps[c->count++].line = at;
	}
	step = &c->steps[c->count - 1];
	cases_bytes(strchr(line, ' ') + 1, to);
	if (line[1] != '-')
		buf_append_text(to, line[1] == 'n' ? "\n" : "\r\n");
	step->end = buf_len(&c->input);
	step->answer_end = buf_len(&c->answer);
}

static void read_conversation(struct conversation *c)
{
	struct cases file;
	bool was_answer = true;

	*c = (struct conversation){ 0 };
	cases_open(&file, "session.txt");
	while (cases_next(&file)) {
		add_line(c, file.line, was_answer && file.line[0] == '>', file.number);
		was_answer = file.line[0] == '<';
	}
	cases_close(&file);
	assert_true(c->count > 20);
}

static void free_conversation(struct conversation *c)
{
	buf_deinit(&c->input);
	buf_deinit(&c->answer);
}

/* No slice of a turn is ever over: which requests share one must not depend on the speed
 * of the machine. */
bool __wrap_pace_is_over(struct pace *p)
{
	return false;
}

/* ---- comparing ------------------------------------------------------------------------
 */

static size_t run_of(const char *at, const char *end, const char *set)
{
	size_t n = 0;

	while (at + n < end && at[n] && strchr(set, at[n]))
		n++;
	return n;
}

/* The number behind a word becomes <n>; NULL when another word is here. */
static const char *name_number(const char *at, const char *end, const char *word,
			       struct buf *out)
{
	if (!slice_has_prefix((struct slice){ at, (size_t)(end - at) }, word))
		return NULL;
	buf_append_text(out, word);
	buf_append_text(out, "<n>");
	at += strlen(word);
	return at + run_of(at, end, "0123456789.");
}

/* Ids and times, which are new every time, become <id> and <ts>; what EXPLAIN measured
 * and the number of the connection become <n>, and with it the length of documents. */
static void name_ids(struct slice s, struct buf *out)
{
	const char *at = s.data, *end = s.data + s.len, *behind;

	while (at < end) {
		behind = name_number(at, end, "\"us\":", out);
		if (!behind)
			behind = name_number(at, end, "\"connection\":", out);
		if (!behind && at + 6 < end && at[6] != '\r') /* not "DATA 2": [] */
			behind = name_number(at, end, "DATA ", out);
		if (behind) {
			at = behind;
			continue;
		}
		size_t hex = run_of(at, end, "0123456789abcdef");
		size_t digits = run_of(at, end, "0123456789");

		if (hex == 16)
			buf_append_text(out, "<id>");
		else if (digits == 13 && hex == 13)
			buf_append_text(out, "<ts>");
		else
			buf_append(out, at, hex ? hex : 1);
		at += hex ? hex : 1;
	}
}

/* Documents of more than two bytes, and the sentences of errors, which may
 * change, are left out. */
static void shorten(struct slice s, struct buf *out)
{
	while (s.len > 0) {
		const char *end = memchr(s.data, '\n', s.len);
		size_t len = end ? (size_t)(end - s.data) + 1 : s.len;
		size_t start = s.data[0] == '@'
				       ? run_of(s.data, s.data + len, "@0123456789") + 1
				       : 0;
		struct slice words = { s.data + start, len - start };

		buf_append(out, s.data, start);
		s = slice_skip(s, len);
		if (slice_has_prefix(words, "ERR ")) {
			const char *space = memchr(words.data + 4, ' ', words.len - 4);

			buf_append(out, words.data, (size_t)(space - words.data));
			buf_append_text(out, "\r\n");
		} else if (slice_has_prefix(words, "DATA ") &&
			   strtoul(words.data + 5, NULL, 10) > 2) {
			buf_append_text(out, "DATA\r\n");
			s = slice_skip(s, strtoul(words.data + 5, NULL, 10) + 2);
		} else {
			buf_append_slice(out, words);
		}
	}
}

static void assert_same(struct slice got, struct slice wanted, const char *what,
			unsigned number)
{
	struct buf a = { 0 }, b = { 0 };
	size_t same = 0;

	if (slice_is_equal(got, wanted))
		return;
	for (size_t i = 0; i < got.len && i < wanted.len && got.data[i] == wanted.data[i];
	     i++)
		same = i;
	cases_escape(slice_skip(got, same), &a);
	cases_escape(slice_skip(wanted, same), &b);
	fprintf(stderr, "from byte %zu on:\n%.300s\nwanted:\n%.300s\n", same,
		buf_cstr(&a), buf_cstr(&b));
	buf_deinit(&a);
	buf_deinit(&b);
	fail_msg("%s %u", what, number);
}

/* ---- running it
 * ------------------------------------------------------------------------ */

/* Send [from, to) in pieces of at most `piece` bytes, a turn after each. */
static void send_pieces(struct peer *p, struct slice input, size_t piece)
{
	while (input.len > 0) {
		size_t len = input.len < piece ? input.len : piece;

		peer_say(p, input.data, len);
		input = slice_skip(input, len);
	}
}

/* The conversation with each step sent in pieces, and cut in two at `cut`. */
static void converse(const struct conversation *c, size_t piece, size_t cut,
		     struct buf *answer)
{
	struct slice input = buf_slice(&c->input);
	struct peer *p;
	size_t from = 0;

	p = peer_create(&rig, PAYLOAD_MAX);
	p->is_direct = true;
	for (unsigned i = 0; i < c->count; i++) {
		size_t end = c->steps[i].end;

		if (cut > from && cut < end) {
			send_pieces(p, (struct slice){ input.data + from, cut - from },
				    piece);
			from = cut;
		}
		send_pieces(p, (struct slice){ input.data + from, end - from }, piece);
		from = end;
	}
	peer_collect(p);
	assert_true(p->is_finished);
	name_ids(buf_slice(&p->sent), answer);
	peer_destroy(p);
}

TEST_THAT(each_step_is_answered_as_the_cases_say)
{
	struct conversation c;
	struct buf short_answer = { 0 }, got = { 0 };
	struct peer *p;
	size_t from = 0, answer_from = 0;

	read_conversation(&c);
	p = peer_create(&rig, PAYLOAD_MAX);
	for (unsigned i = 0; i < c.count; i++) {
		const struct line_step *s = &c.steps[i];
		struct slice wanted = { c.answer.data + answer_from,
					s->answer_end - answer_from };

		peer_say(p, c.input.data + from, s->end - from);
		peer_collect(p);
		shorten(buf_slice(&p->sent), &short_answer);
		name_ids(buf_slice(&short_answer), &got);
		assert_same(buf_slice(&got), wanted, "session.txt, line", s->line);
		buf_clear(&p->sent);
		buf_clear(&short_answer);
		buf_clear(&got);
		from = s->end;
		answer_from = s->answer_end;
	}
	assert_true(p->is_finished);
	peer_destroy(p);
	buf_deinit(&short_answer);
	buf_deinit(&got);
	free_conversation(&c);
}

TEST_THAT(every_cut_in_two_gives_the_same_answer)
{
	struct conversation c;
	struct buf whole = { 0 }, got = { 0 };

	read_conversation(&c);
	converse(&c, SIZE_MAX, 0, &whole);
	for (size_t cut = 1; cut < buf_len(&c.input); cut++) {
		converse(&c, SIZE_MAX, cut, &got);
		assert_same(buf_slice(&got), buf_slice(&whole), "cut at", (unsigned)cut);
		buf_clear(&got);
	}
	buf_deinit(&whole);
	buf_deinit(&got);
	free_conversation(&c);
}

TEST_THAT(any_size_of_pieces_gives_the_same_answer)
{
	struct conversation c;
	struct buf whole = { 0 }, got = { 0 };

	read_conversation(&c);
	converse(&c, SIZE_MAX, 0, &whole);
	for (size_t piece = 1; piece < 40; piece++) {
		converse(&c, piece, 0, &got);
		assert_same(buf_slice(&got), buf_slice(&whole), "pieces of",
			    (unsigned)piece);
		buf_clear(&got);
	}
	buf_deinit(&whole);
	buf_deinit(&got);
	free_conversation(&c);
}

/* ---- single questions
 * -------------------------------------------------------------------- */

/* What the broker says to the text, as it is in session.txt. */
static void ask(struct peer *p, const char *text, struct buf *out)
{
	struct buf short_answer = { 0 };

	buf_clear(&p->sent);
	buf_clear(out);
	peer_say(p, text, strlen(text));
	peer_collect(p);
	shorten(buf_slice(&p->sent), &short_answer);
	name_ids(buf_slice(&short_answer), out);
	buf_deinit(&short_answer);
}

static void assert_answer_at(struct peer *p, const char *text, const char *wanted,
			     unsigned line)
{
	struct buf got = { 0 };

	ask(p, text, &got);
	assert_same(buf_slice(&got), slice_from(wanted), "line", line);
	buf_deinit(&got);
}

#define assert_answer(p, text, wanted) assert_answer_at(p, text, wanted, __LINE__)

TEST_THAT(after_an_unreadable_length_nothing_is_read)
{
	static const char *const texts[] = {
		"PUB - q x\r\nPING\r\n",
		"PUB - q\r\nPING\r\n",
		"PUB - q 9007199254740993\r\nPING\r\n",
		"@70000 PUB - q -1\r\nPING\r\n",
		"PUB - q 1\r\nab\r\nPING\r\n",
		"PUB - q 1\r\na\rb\nPING\r\n",
		"PUB nowhere q 1\r\nab\r\nPING\r\n",
	};

	for (size_t i = 0; i < COUNT(texts); i++) {
		bool is_refused = strstr(texts[i], "nowhere") != NULL;
		struct peer *p;

		p = peer_create(&rig, PAYLOAD_MAX);
		assert_answer(p, texts[i],
			      is_refused ? "ERR not-found\r\nERR syntax\r\n"
					 : "ERR syntax\r\n");
		assert_true(p->is_finished);
		assert_answer(p, "PING\r\n", "");
		peer_destroy(p);
	}
}

TEST_THAT(a_line_has_at_most_64_kib)
{
	size_t len = LINE_MAX_BYTES;
	char *line = mem_alloc(len + 1);
	struct peer *p;

	memset(line, 'x', len);
	line[len] = '\0';
	/* The longest that there may be, its end included. */
	line[len - 1] = '\n';
	p = peer_create(&rig, PAYLOAD_MAX);
	assert_answer(p, line, "ERR syntax\r\n");
	assert_answer(p, "PING\r\n", "OK\r\n");
	line[len - 2] = '\r';
	assert_answer(p, line, "ERR syntax\r\n");
	line[len - 2] = line[len - 1] = 'x';
	peer_feed(p, line, len - 1);
	assert_answer(p, "", "");
	assert_answer(p, "x", "ERR too-long\r\n");
	assert_true(p->is_finished);
	peer_destroy(p);
	mem_free(line);
}

/* Format with a name of `len` bytes in the place of %s. */
static void ask_named(struct peer *p, const char *format, size_t len, const char *wanted)
{
	char name[300];
	struct buf text = { 0 };

	memset(name, 'n', len);
	name[len] = '\0';
	while (*format) {
		if (*format == '%')
			buf_append_text(&text, name);
		else
			buf_append_char(&text, *format);
		format++;
	}
	assert_answer(p, buf_cstr(&text), wanted);
	buf_deinit(&text);
}

TEST_THAT(names_have_at_most_255_bytes)
{
	/* In this order: what is made is used below, and is gone at the end. */
	static const struct {
		const char *text, *good;
	} cases[] = {
		{ "DECLARE queue %\n", "OK\r\n" },
		{ "DECLARE exchange % topic\n", "OK\r\n" },
		{ "DECLARE exchange x %\n", "ERR not-found\r\n" },
		{ "BIND % news -\n", "ERR not-found\r\n" },
		{ "BIND news % -\n", "ERR not-found\r\n" },
		{ "BIND news news %\n", "ERR not-found\r\n" },
		{ "UNBIND news news %\n", "ERR not-found\r\n" },
		{ "PUB % key 0\n\n", "OK <id> 0\r\n" },
		{ "PUB - % quiet 0\n\n", "" },
		{ "PUB - % quiet h:%=1 0\n\n", "" },
		{ "EXPLAIN % key\n", "DATA\r\n" },
		{ "GET % ack=auto\n", NULL },
		{ "SUB % s1\n", NULL },
		{ "SUB news %\n", "ERR not-found\r\n" },
		{ "UNSUB %\n", "ERR not-found\r\n" },
		{ "PEEK %\n", "DATA\r\n" },
		{ "STATS %\n", "DATA\r\n" },
		{ "KICK %\n", "OK 0\r\n" },
		{ "PURGE %\n", "OK 2\r\n" },
		{ "DELETE exchange %\n", "OK\r\n" },
		{ "DELETE queue %\n", "OK\r\n" },
	};
	struct peer *p = peer_create(&rig, PAYLOAD_MAX);

	for (size_t i = 0; i < COUNT(cases); i++) {
		if (cases[i].good)
			ask_named(p, cases[i].text, 255, cases[i].good);
		ask_named(p, cases[i].text, 256, "ERR too-long\r\n");
	}
	peer_destroy(p);
}

TEST_THAT(a_large_payload_may_be_read_to_its_place)
{
	enum { LEN = 100000 };
	char *payload = mem_alloc(LEN + 3);
	struct buf named = { 0 };
	struct peer *p;

	for (size_t i = 0; i < LEN; i++)
		payload[i] = (char)('a' + i % 23);
	memcpy(payload + LEN, "\r\n", 3);
	for (unsigned direct = 0; direct < 2; direct++) {
		for (size_t piece = 1000; piece < 2 * LEN; piece = piece * 3 + 1) {
			p = peer_create(&rig, LEN);
			p->is_direct = direct;
			assert_answer(p, "DECLARE queue q exclusive\r\n", "OK\r\n");
			assert_answer(p, "PUB - q 100000\r\n", "");
			send_pieces(p, (struct slice){ payload, LEN + 2 }, piece);
			assert_answer(p, "", "OK <id> 1\r\n");
			ask(p, "GET q\r\n", &named);
			assert_non_null(strstr(buf_cstr(&named), payload));
			peer_destroy(p);
		}
	}
	buf_deinit(&named);
	mem_free(payload);
}

/* An error that ends the connection is not taken for the answer to a request
 * before it that has none yet. */
TEST_THAT(answers_keep_their_order)
{
	static const struct {
		const char *text, *answer;
	} cases[] = {
		{ "PUB - q x\r\n", "ERR syntax\r\n" },
		{ "CLOSE\r\n", "ERR denied\r\n" },
		{ "OPEN\r\n", "ERR exists\r\n" },
		{ "PUB nowhere k 1\r\nx\r\n", "ERR not-found\r\n" },
		{ "PUB - nobody 1\r\nx\r\n", "OK <id> 0\r\n" },
		{ "NONSENSE\r\n", "ERR unknown-verb\r\n" },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct peer *p, *other;
		char wanted[128];

		p = peer_create(&rig, PAYLOAD_MAX);
		other = peer_create(&rig, PAYLOAD_MAX);
		assert_answer(p, "DECLARE queue q\r\n", "OK\r\n");
		assert_answer(p, "GET q wait=1h ack=auto\r\n", "");
		assert_answer(p, cases[i].text, "");
		assert_answer(other, "PUB - q quiet 1\r\nx\r\n", "");
		snprintf(wanted, sizeof(wanted),
			 "OK 1\r\nMSG - - 1 - q id=<id> ts=<ts> 1\r\nx\r\n%s",
			 cases[i].answer);
		assert_answer(p, "", wanted);
		assert_answer(other, "DELETE queue q\r\n", "OK\r\n");
		peer_destroy(p);
		peer_destroy(other);
	}
}

/* The exchange is looked for when the line comes; others may delete it, and make
 * another of its name, before the payload does, or between two publishes. */
TEST_THAT(an_exchange_is_the_one_of_the_moment)
{
	struct peer *p = peer_create(&rig, PAYLOAD_MAX);
	struct peer *other = peer_create(&rig, PAYLOAD_MAX);

	assert_answer(p, "DECLARE queue q\r\nDECLARE exchange x fanout\r\nBIND q x -\r\n",
		      "OK\r\nOK\r\nOK\r\n");
	assert_answer(p, "PUB x k 1\r\na\r\nPUB x k 1\r\nb", "OK <id> 1\r\n");
	assert_answer(other, "DELETE exchange x\r\n", "OK\r\n");
	assert_answer(p, "\r\n", "ERR not-found\r\n");
	assert_answer(p, "PUB x k 1\r\nc\r\nPUB - q 1\r\nd\r\n",
		      "ERR not-found\r\nOK <id> 1\r\n");
	assert_answer(other, "DECLARE exchange x fanout\r\n", "OK\r\n");
	assert_answer(p, "PUB x k 1\r\ne\r\nPUB x k 1\r\nf", "OK <id> 0\r\n");
	assert_answer(other,
		      "DELETE exchange x\r\nDECLARE exchange x topic\r\nBIND q x #\r\n",
		      "OK\r\nOK\r\nOK\r\n");
	assert_answer(p, "\r\n", "OK <id> 1\r\n");
	assert_answer(p, "@1 OPEN\r\n@1 PUB - nobody 1\r\ng\r\nPUB x k 1\r\nh\r\n",
		      "@1 OK\r\n@1 OK <id> 0\r\nOK <id> 1\r\n");
	assert_answer(other, "DELETE exchange x\r\nDELETE queue q\r\n", "OK\r\nOK\r\n");
	peer_destroy(p);
	peer_destroy(other);
}

TEST_THAT(too_many_unanswered_requests_hold_the_input_back)
{
	struct broker_config *config = &rig.service->broker->config;
	unsigned replies_max = config->replies_max;
	struct peer *p;

	config->replies_max = 2;
	p = peer_create(&rig, PAYLOAD_MAX);
	assert_answer(p, "DECLARE queue q exclusive\r\n@1 OPEN\r\n", "OK\r\n@1 OK\r\n");
	assert_answer(p, "@1 GET q wait=1h\r\n@1 PING\r\nPUB - q 1\r\nx\r\n", "");
	assert_true(protocol_is_held(p->protocol));
	assert_int_equal(buf_len(&p->in), strlen("PUB - q 1\r\nx\r\n"));
	/* A drain answers what waits, which lets it go on. */
	service_drain(rig.service);
	rig_settle(&rig);
	rig.service->broker->is_draining = false;
	assert_false(protocol_is_held(p->protocol));
	assert_answer(p, "", "@1 OK 0\r\n@1 OK\r\nOK <id> 1\r\n");
	assert_int_equal(buf_len(&p->in), 0);
	peer_destroy(p);
	config->replies_max = replies_max;
}

TEST_THAT(hello_is_the_first_request_or_none)
{
	struct peer *p;

	p = peer_create(&rig, PAYLOAD_MAX);
	assert_answer(p, "DECLARE vhost v\r\n", "OK\r\n");
	peer_destroy(p);
	p = peer_create(&rig, PAYLOAD_MAX);
	assert_answer(p, "\r\n\nHELLO heartbeat=30s vhost=v name=n\r\n", "DATA\r\n");
	assert_int_equal(p->protocol->heartbeat_in_ms, 30000);
	assert_string_equal(p->protocol->session->vhost->name, "v");
	assert_string_equal(p->protocol->session->name, "n");
	assert_answer(p, "HELLO\r\n", "ERR denied\r\n");
	peer_destroy(p);

	p = peer_create(&rig, PAYLOAD_MAX);
	assert_answer(p, "HELLO heartbeat=999ms\r\n", "ERR syntax\r\n");
	assert_int_equal(p->protocol->heartbeat_in_ms, 0);
	assert_answer(p, "HELLO\r\n", "ERR denied\r\n");
	peer_destroy(p);
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
