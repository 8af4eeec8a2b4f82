#include "check.h"

#include "access/password.h"

/* RFC 7914, section 12. */
TEST_THAT(a_text_of_the_standard_is_verified)
{
	const char *text = "$scrypt$ln=14,r=8,p=1$U29kaXVtQ2hsb3JpZGU$"
			   "cCO9yzr9c0hGHAbNgf046/2o+7qQT44+qbVD9lRdofI";

	assert_true(password_is_readable(slice_from(text)));
	assert_true(password_is_right(SLICE("pleaseletmein"), text));
	assert_false(password_is_right(SLICE("pleaseletmeiN"), text));
	assert_false(password_is_right(SLICE(""), text));
}

TEST_THAT(a_password_is_right_for_its_own_hash_alone)
{
	char first[PASSWORD_TEXT_MAX], second[PASSWORD_TEXT_MAX];
	struct error err;

	assert_int_equal(password_hash(SLICE("se cret"), first, &err), TIDE_OK);
	assert_int_equal(password_hash(SLICE("se cret"), second, &err), TIDE_OK);
	assert_string_not_equal(first, second);
	assert_true(password_is_readable(slice_from(first)));
	assert_true(password_is_right(SLICE("se cret"), first));
	assert_true(password_is_right(SLICE("se cret"), second));
	assert_false(password_is_right(SLICE("se cres"), first));
	assert_false(password_is_right(SLICE("se cret "), first));
}

TEST_THAT(nobody_has_the_password_of_nobody)
{
	assert_true(password_is_readable(slice_from(password_of_nobody)));
	assert_false(password_is_right(SLICE(""), password_of_nobody));
	assert_false(password_is_right(SLICE("guest"), password_of_nobody));
}

TEST_THAT(a_text_that_is_damaged_or_too_dear_is_refused)
{
	static const char *const texts[] = {
		"",
		"secret",
		"$scrypt$",
		"$scrypt$ln=14,r=8,p=1$U29kaXVt",
		"$scrypt$ln=14,r=8,p=1$U29kaXVt$cCO9",
		"$scrypt$ln=14,r=8,p=1$U29kaX*t$cCO9yzr9c0hGHAbNgf045/2o+7qQT44+",
		"$scrypt$ln=18,r=8,p=1$U29kaXVt$cCO9yzr9c0hGHAbNgf045/2o+7qQT44+",
		"$scrypt$ln=17,r=16,p=1$U29kaXVt$cCO9yzr9c0hGHAbNgf045/2o+7qQT44+",
		"$scrypt$ln=14,r=8,p=99$U29kaXVt$cCO9yzr9c0hGHAbNgf045/2o+7qQT44+",
		"$scrypt$ln=14,r=8$U29kaXVt$cCO9yzr9c0hGHAbNgf045/2o+7qQT44+",
		"$argon2id$ln=14,r=8,p=1$U29kaXVt$cCO9yzr9c0hGHAbNgf045/2o+7qQT44+",
	};

	for (size_t i = 0; i < COUNT(texts); i++) {
		assert_false(password_is_readable(slice_from(texts[i])));
		assert_false(password_is_right(SLICE("pleaseletmein"), texts[i]));
	}
}

TEST_THAT(a_password_has_a_length)
{
	char longest[PASSWORD_LEN_MAX + 1] = { 0 };
	struct error err;

	assert_int_equal(password_check(SLICE(""), &err), TIDE_ESYNTAX);
	assert_int_equal(
		password_check((struct slice){ longest, PASSWORD_LEN_MAX }, &err),
		TIDE_OK);
	assert_int_equal(
		password_check((struct slice){ longest, PASSWORD_LEN_MAX + 1 }, &err),
		TIDE_ESYNTAX);
	assert_string_equal(err.text, "a password has 1 to 1024 bytes");
}

RUN_TESTS()
