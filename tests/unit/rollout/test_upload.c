#include "check.h"

#include "rollout/upload.h"

TEST_THAT(rules_files_may_be_uploaded)
{
	static const char *const paths[] = { "filters/vip.lua", "routing/by-tenant_2.lua",
					     "top.lua", "a/b/c/d.lua" };
	struct error err;

	for (size_t i = 0; i < COUNT(paths); i++)
		assert_int_equal(upload_check_path(slice_from(paths[i]), &err), TIDE_OK);
}

TEST_THAT(other_paths_are_refused)
{
	static const char *const paths[] = {
		"",         "/etc/x.lua",  "../x.lua",      "a/../x.lua",
		"a//x.lua", ".luacheckrc", "a/.hidden.lua", "a/x.txt",
		"a/x.lua/", "a/x y.lua",   "a/b/c/d/e.lua", "a\\x.lua"
	};
	char long_path[UPLOAD_PATH_MAX + 2];
	struct error err;

	for (size_t i = 0; i < COUNT(paths); i++)
		assert_int_equal(upload_check_path(slice_from(paths[i]), &err),
				 TIDE_ESYNTAX);
	memset(long_path, 'a', sizeof(long_path));
	memcpy(long_path + UPLOAD_PATH_MAX - 3, ".lua", 5);
	assert_int_equal(upload_check_path(slice_from(long_path), &err), TIDE_ESYNTAX);
	assert_int_equal(upload_check_path((struct slice){ "a\0b.lua", 7 }, &err),
			 TIDE_ESYNTAX);
}

/* The gate would run it, outside of the sandbox. */
TEST_THAT(a_spec_is_refused)
{
	struct error err;

	assert_int_equal(upload_check_path(SLICE("filters/vip_spec.lua"), &err),
			 TIDE_EDENIED);
	assert_int_equal(upload_check_path(SLICE("_spec.lua"), &err), TIDE_EDENIED);
}

RUN_TESTS()
