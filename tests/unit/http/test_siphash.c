#include "check.h"

#include "http/siphash.h"

/* From the authors' reference vectors: the key is 00 01 02 … 0f, the text 00 01 02 …. */
static void the_authors_vectors_are_met(void **state)
{
	static const struct {
		size_t len;
		uint64_t hash;
	} cases[] = {
		{ 0, UINT64_C(0x726fdb47dd0e0e31) },  { 1, UINT64_C(0x74f839c593dc67fd) },
		{ 7, UINT64_C(0xab0200f58b01d137) },  { 8, UINT64_C(0x93f5f5799a932462) },
		{ 15, UINT64_C(0xa129ca6149be45e5) },
	};
	const uint64_t key[2] = { UINT64_C(0x0706050403020100),
				  UINT64_C(0x0f0e0d0c0b0a0908) };
	char text[16];

	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (char)i;
	for (size_t i = 0; i < COUNT(cases); i++)
		assert_int_equal(siphash(key, (struct slice){ text, cases[i].len }),
				 cases[i].hash);
}

static void another_key_gives_another_hash(void **state)
{
	const uint64_t a[2] = { 1, 2 }, b[2] = { 1, 3 };

	assert_int_not_equal(siphash(a, SLICE("text")), siphash(b, SLICE("text")));
	assert_int_not_equal(siphash(a, SLICE("text")), siphash(a, SLICE("texu")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_authors_vectors_are_met),
		cmocka_unit_test(another_key_gives_another_hash),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
