#include "check.h"
#include "cases.h"

#include "base/mem.h"
#include "proto/line/request.h"

static void show_pair(const char *prefix, struct slice name, struct slice value,
		      struct buf *out)
{
	buf_printf(out, " %s%" SLICE_FMT "=[", prefix, SLICE_ARG(name));
	buf_append_slice(out, value);
	buf_append_text(out, "]");
}

static void show(const struct request *q, struct buf *out)
{
	buf_printf(out, "@%u %s", q->channel, q->name);
	for (unsigned i = 0; i < q->word_count; i++)
		buf_printf(out, " [%" SLICE_FMT "]", SLICE_ARG(q->words[i]));
	if (q->tags.data)
		buf_printf(out, " {%" SLICE_FMT "}", SLICE_ARG(q->tags));
	for (unsigned i = 0; i < q->option_count; i++)
		show_pair("", q->options[i].name, q->options[i].value, out);
	for (unsigned i = 0; i < q->header_count; i++)
		show_pair("h:", q->headers[i].name, q->headers[i].value, out);
	for (unsigned i = 0; i < q->flag_count; i++)
		buf_printf(out, " +%" SLICE_FMT, SLICE_ARG(q->flags[i]));
	if (q->is_quiet)
		buf_append_text(out, " +quiet");
	if (q->features & VERB_PAYLOAD)
		buf_printf(out, " #%llu", (unsigned long long)q->payload_len);
}

/* What the parser makes of a line, in the form of requests.txt. */
static void parse(const char *text, struct buf *out)
{
	struct request *q = mem_alloc(sizeof(*q));
	struct buf line = { 0 };
	struct error err;
	bool is_lost = true;
	char *bytes;
	size_t len;

	cases_bytes(text, &line);
	len = buf_len(&line);
	/* Of exactly the right size, so that a look beyond it is seen. */
	bytes = mem_alloc(len ? len : 1);
	if (len > 0)
		memcpy(bytes, buf_slice(&line).data, len);
	if (request_parse(q, bytes, len, &is_lost, &err) == TIDE_OK) {
		buf_append_text(out, "= ");
		show(q, out);
	} else {
		assert_true(strlen(err.text) > 0);
		buf_printf(out, "! %s", error_wire_code(err.code));
		if (is_lost)
			buf_append_text(out, " lost");
		else if (q->features & VERB_PAYLOAD)
			buf_printf(out, " #%llu", (unsigned long long)q->payload_len);
	}
	mem_free(bytes);
	mem_free(q);
	buf_deinit(&line);
}

TEST_THAT(every_line_of_the_cases_is_taken_apart_as_they_say)
{
	struct cases c;
	struct buf got = { 0 }, wanted = { 0 }, shown = { 0 };
	unsigned count = 0;

	cases_open(&c, "requests.txt");
	while (cases_next(&c)) {
		buf_clear(&got);
		buf_clear(&wanted);
		buf_clear(&shown);
		assert_memory_equal(c.line, "> ", 2);
		parse(c.line + 2, &got);
		assert_true(cases_next(&c));
		cases_bytes(c.line, &wanted);
		cases_escape(buf_slice(&got), &shown);
		if (!slice_is_equal(buf_slice(&got), buf_slice(&wanted)))
			fail_msg("requests.txt:%u: %s\nbut it is: %s", c.number, c.line,
				 buf_cstr(&shown));
		count++;
	}
	cases_close(&c);
	assert_true(count > 100);
	buf_deinit(&got);
	buf_deinit(&wanted);
	buf_deinit(&shown);
}

TEST_THAT(options_and_flags_are_found_by_name)
{
	char line[] = "PUB - jobs pri=9 delay= must 5";
	struct request q;
	struct error err;
	bool is_lost;

	assert_int_equal(request_parse(&q, line, strlen(line), &is_lost, &err), TIDE_OK);
	assert_slice(request_option(&q, "pri"), "9");
	assert_slice(request_option(&q, "delay"), "");
	assert_non_null(request_option(&q, "delay").data);
	assert_null(request_option(&q, "ttl").data);
	assert_true(request_has_flag(&q, "must"));
	assert_false(request_has_flag(&q, "quiet"));
}

/* A parsed request is used again for the next line. */
TEST_THAT(nothing_of_the_line_before_remains)
{
	char before[] = "@9 PUB - jobs pri=9 h:a=b must quiet 5";
	char tags[] = "@2 ACK 1-3";
	char after[] = "PING";
	struct request q;
	struct error err;
	struct buf out = { 0 };
	bool is_lost;

	assert_int_equal(request_parse(&q, before, strlen(before), &is_lost, &err),
			 TIDE_OK);
	assert_int_equal(request_parse(&q, tags, strlen(tags), &is_lost, &err), TIDE_OK);
	assert_int_equal(request_parse(&q, after, strlen(after), &is_lost, &err),
			 TIDE_OK);
	show(&q, &out);
	assert_buf(&out, "@0 PING");
	assert_int_equal(q.payload_len, 0);
	buf_deinit(&out);
}

/* Every line, cut off anywhere: no answer is wrong as long as nothing is read
 * that is not there, and a refusal is a sentence. */
TEST_THAT(cut_lines_are_parsed_or_refused)
{
	struct cases c;
	struct buf out = { 0 };

	cases_open(&c, "requests.txt");
	while (cases_next(&c)) {
		size_t len = strlen(c.line);

		if (c.line[0] != '>' || strchr(c.line, '\\'))
			continue;
		while (--len >= 2) {
			c.line[len] = '\0';
			buf_clear(&out);
			parse(c.line + 2, &out);
		}
	}
	cases_close(&c);
	buf_deinit(&out);
}

TEST_THAT(each_verb_is_found_in_any_case_and_nothing_else_is)
{
	for (const struct verb *v = verb_table(); v->name[0]; v++) {
		char lower[16];
		size_t len = strlen(v->name);

		for (size_t i = 0; i <= len; i++)
			lower[i] = v->name[i] ? (char)(v->name[i] | 0x20) : '\0';
		assert_ptr_equal(verb_find(slice_from(v->name)), v);
		assert_ptr_equal(verb_find(slice_from(lower)), v);
		/* With the zero byte behind it, it is another word. */
		assert_null(verb_find((struct slice){ lower, len + 1 }));
		assert_null(verb_find((struct slice){ lower, len - 1 }));
		assert_in_range(v->count, 0, REQUEST_WORDS_MAX);
	}
	assert_null(verb_find(SLICE("")));
}

RUN_TESTS()
