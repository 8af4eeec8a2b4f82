#include "check.h"

#include "http/http_request.h"

static const uint64_t key[2] = { 17, 4711 };

TEST_THAT(a_receipt_is_read_back)
{
	const struct http_receipt cases[] = { { 1, 1 },
					      { 4711, 1234567890 },
					      { UINT64_MAX, UINT64_MAX - 1 } };
	char text[HTTP_RECEIPT_SIZE];
	struct http_receipt out;

	for (size_t i = 0; i < COUNT(cases); i++) {
		http_receipt_format(&cases[i], key, SLICE("jobs"), text);
		assert_int_equal(
			http_receipt_parse(slice_from(text), key, SLICE("jobs"), &out),
			HTTP_RECEIPT_GOOD);
		assert_int_equal(out.session, cases[i].session);
		assert_int_equal(out.tag, cases[i].tag);
	}
}

TEST_THAT(what_was_not_signed_so_is_foreign)
{
	const struct http_receipt receipt = { 7, 3 };
	const uint64_t other_key[2] = { 17, 4712 };
	char text[HTTP_RECEIPT_SIZE];
	struct http_receipt out;

	http_receipt_format(&receipt, key, SLICE("jobs"), text);
	assert_int_equal(http_receipt_parse(slice_from(text), key, SLICE("job"), &out),
			 HTTP_RECEIPT_FOREIGN);
	assert_int_equal(
		http_receipt_parse(slice_from(text), other_key, SLICE("jobs"), &out),
		HTTP_RECEIPT_FOREIGN);
	text[0] = '8'; /* another session */
	assert_int_equal(http_receipt_parse(slice_from(text), key, SLICE("jobs"), &out),
			 HTTP_RECEIPT_FOREIGN);
	text[0] = '7';
	text[2] = '4'; /* another tag */
	assert_int_equal(http_receipt_parse(slice_from(text), key, SLICE("jobs"), &out),
			 HTTP_RECEIPT_FOREIGN);
}

TEST_THAT(other_texts_are_malformed)
{
	static const char *const texts[] = { "",
					     "x",
					     "1.2",
					     "1.2.3",
					     "1..0123456789abcdef",
					     "..",
					     "1.2.0123456789ABCDEF",
					     "-1.2.0123456789abcdef",
					     "1.2.0123456789abcdef0",
					     "1.2.0123456789abcde",
					     " 1.2.0123456789abcdef" };
	struct http_receipt out;

	for (size_t i = 0; i < COUNT(texts); i++)
		assert_int_equal(http_receipt_parse(slice_from(texts[i]), key,
						    SLICE("jobs"), &out),
				 HTTP_RECEIPT_MALFORMED);
}

RUN_TESTS()
