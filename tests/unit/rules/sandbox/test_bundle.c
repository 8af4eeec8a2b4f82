#include "check.h"

#include <stdlib.h>
#include <sys/stat.h>

#include <stdio.h>

#include "rules/sandbox/bundle.h"
#include "rules/engine/rules_dir.h"
#include "rules/sandbox/source.h"

static struct bundle *make(const char *const files[][2], size_t count)
{
	struct bundle *b = bundle_create();

	for (size_t i = 0; i < count; i++)
		bundle_add(b, files[i][0], slice_from(files[i][1]));
	return b;
}

TEST_THAT(the_hash_is_of_the_content_and_not_of_the_order)
{
	static const char *const one[][2] = { { "a", "1" }, { "b", "2" } };
	static const char *const two[][2] = { { "b", "2" }, { "a", "1" } };
	static const char *const other[][2] = { { "a", "2" }, { "b", "1" } };
	struct bundle *a = make(one, 2), *b = make(two, 2), *c = make(other, 2);

	assert_true(bundle_hash(a) == bundle_hash(b));
	assert_true(bundle_hash(a) != bundle_hash(c));
	bundle_unref(a);
	bundle_unref(b);
	bundle_unref(c);
}

static void note_change(void *ctx, enum bundle_change change, const char *path)
{
	buf_printf(ctx, "%c%s ", "+~-"[change], path);
}

TEST_THAT(the_way_from_one_to_another_is_told)
{
	static const char *const one[][2] = { { "a", "1" }, { "b", "2" }, { "d", "4" } };
	static const char *const two[][2] = { { "b", "3" }, { "c", "3" }, { "d", "4" } };
	struct bundle *a = make(one, 3), *b = make(two, 3);
	struct buf out = { 0 };

	bundle_compare(a, b, note_change, &out);
	assert_buf(&out, "-a ~b +c ");
	buf_clear(&out);
	bundle_compare(NULL, a, note_change, &out);
	assert_buf(&out, "+a +b +d ");
	buf_clear(&out);
	bundle_compare(a, NULL, note_change, &out);
	assert_buf(&out, "-a -b -d ");
	buf_deinit(&out);
	bundle_unref(a);
	bundle_unref(b);
}

TEST_THAT(what_is_read_from_one_is_noted_in_the_other)
{
	static const char *const files[][2] = { { "routing/x.lua", "return 1" } };
	struct bundle *from = make(files, 1), *into = bundle_create();
	struct source source;
	struct error err;

	assert_int_equal(
		bundle_read(from, into, &source, "/nowhere", "routing/x.lua", &err),
		TIDE_OK);
	assert_string_equal(source.data, "return 1");
	source_free(&source);
	assert_true(bundle_hash(from) == bundle_hash(into));
	assert_int_equal(bundle_read(from, into, &source, "/nowhere", "y.lua", &err),
			 TIDE_ENOTFOUND);
	assert_non_null(strstr(err.text, "y.lua"));
	assert_non_null(bundle_find(into, "routing/x.lua"));
	assert_null(bundle_find(into, "y.lua"));
	bundle_unref(from);
	bundle_unref(into);
}

TEST_THAT(a_path_stays_as_it_was_first)
{
	static const char *const files[][2] = { { "a", "1" }, { "a", "2" } };
	struct bundle *b = make(files, 2);

	assert_int_equal(b->count, 1);
	assert_string_equal(bundle_find(b, "a")->text, "1");
	assert_int_equal(b->bytes, 2);
	bundle_unref(b);
}

TEST_THAT(modules_are_what_is_no_script)
{
	static const char *const one[][2] = { { "retry/a.lua", "1" },
					      { "lib/b.lua", "1" },
					      { "retry/lib/c.lua", "1" } };
	static const char *const script[][2] = { { "retry/a.lua", "2" },
						 { "priority/new.lua", "2" },
						 { "lib/b.lua", "1" },
						 { "retry/lib/c.lua", "1" } };
	static const char *const module[][2] = { { "retry/a.lua", "1" },
						 { "lib/b.lua", "1" },
						 { "retry/lib/c.lua", "2" } };
	struct bundle *a = make(one, 3), *b = make(script, 4), *c = make(module, 3);

	assert_false(rules_dir_compare(a, a).modules);
	assert_false(rules_dir_compare(a, b).modules);
	assert_true(rules_dir_compare(a, c).modules);
	assert_true(rules_dir_compare(a, NULL).modules);
	assert_true(rules_dir_compare(a, b).scripts[SCRIPT_PRIORITY]);
	assert_false(rules_dir_compare(a, b).scripts[SCRIPT_DELIVER]);
	assert_false(rules_dir_compare(a, c).scripts[SCRIPT_RETRY]);
	bundle_unref(a);
	bundle_unref(b);
	bundle_unref(c);
}

static void touch(const char *dir, const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	fputs("1", file);
	fclose(file);
}

TEST_THAT(a_file_takes_the_place_of_the_folder_of_its_name)
{
	static const char *const files[][2] = { { "lib/init.lua", "1" } };
	struct bundle *b = make(files, 1);
	char dir[] = "/tmp/test_bundle.XXXXXX", command[64];

	assert_non_null(mkdtemp(dir));
	snprintf(command, sizeof(command), "%s/lib", dir);
	assert_int_equal(mkdir(command, 0700), 0);
	touch(dir, "lib/init.lua");
	assert_true(bundle_is_current(b, dir));
	assert_true(rules_dir_is_current(dir, b));
	touch(dir, "lib.lua");
	assert_false(bundle_is_current(b, dir));
	assert_false(rules_dir_is_current(dir, b));
	snprintf(command, sizeof(command), "rm -r %s", dir);
	assert_int_equal(system(command), 0);
	bundle_unref(b);
}

RUN_TESTS()
