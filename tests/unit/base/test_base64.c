#include "check.h"

#include "base/base64.h"

TEST_THAT(texts_of_the_rfc_are_encoded_and_decoded)
{
	static const struct {
		const char *bytes;
		const char *standard;
		const char *url;
	} cases[] = {
		{ "", "", "" },
		{ "f", "Zg==", "Zg" },
		{ "fo", "Zm8=", "Zm8" },
		{ "foo", "Zm9v", "Zm9v" },
		{ "foob", "Zm9vYg==", "Zm9vYg" },
		{ "fooba", "Zm9vYmE=", "Zm9vYmE" },
		{ "foobar", "Zm9vYmFy", "Zm9vYmFy" },
		{ "\xff\xfe\xfd\xff", "//79/w==", "__79_w" },
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		char out[32];
		size_t len;
		struct slice bytes = slice_from(cases[i].bytes);
		len = base64_encode(bytes, BASE64_STANDARD, out);
		assert_slice(((struct slice){ out, len }), cases[i].standard);
		len = base64_encode(bytes, BASE64_URL, out);
		assert_slice(((struct slice){ out, len }), cases[i].url);
		assert_true(base64_decode(slice_from(cases[i].standard), BASE64_STANDARD,
					  out, &len));
		assert_slice(((struct slice){ out, len }), cases[i].bytes);
		assert_true(
			base64_decode(slice_from(cases[i].url), BASE64_URL, out, &len));
		assert_slice(((struct slice){ out, len }), cases[i].bytes);
	}
}

TEST_THAT(any_bytes_of_any_length_read_back)
{
	char bytes[256], text[344], back[344];
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)(i * 7 + i / 3);
	for (size_t n = 0; n <= sizeof(bytes); n++) {
		for (int a = BASE64_STANDARD; a <= BASE64_URL; a++) {
			size_t len = base64_encode((struct slice){ bytes, n },
						   (enum base64_alphabet)a, text);
			size_t back_len = 0;
			assert_true(len <= base64_encoded_max(n));
			assert_true(base64_decode((struct slice){ text, len },
						  (enum base64_alphabet)a, back,
						  &back_len));
			assert_int_equal(back_len, n);
			assert_memory_equal(back, bytes, n);
		}
	}
}

TEST_THAT(what_has_another_form_is_refused)
{
	static const char *const standard[] = {
		"Z",     "Zg",   "Zg=",  "Zg===",  "Zh==",
		"Zm9v=", "====", "Zm-_", "Zm9v\n", "=Zm9"
	};
	static const char *const url[] = {
		"Z", "Zh", "Zg=", "Zm+/", "Zg==Zg==", "Zm9vZ"
	};
	char out[16];
	size_t len;
	for (size_t i = 0; i < COUNT(standard); i++)
		assert_false(base64_decode(slice_from(standard[i]), BASE64_STANDARD, out,
					   &len));
	for (size_t i = 0; i < COUNT(url); i++)
		assert_false(base64_decode(slice_from(url[i]), BASE64_URL, out, &len));
	/* A zero is of no alphabet. */
	assert_false(base64_decode((struct slice){ "Zm9\0", 4 }, BASE64_URL, out, &len));
}

RUN_TESTS()
