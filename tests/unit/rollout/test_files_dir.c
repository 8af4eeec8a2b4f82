/* The directory in which the specs of files in memory run. */

#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rollout/files.h"

static void write_file(const char *dir, const char *name, const char *text)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	for (char *slash = path + strlen(dir) + 1; (slash = strchr(slash, '/'));
	     slash++) {
		*slash = '\0';
		mkdir(path, 0700);
		*slash = '/';
	}
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

/* What the file begins with; "" when there is none. */
static const char *read_file(const char *dir, const char *name)
{
	static char text[64];
	char path[PATH_MAX + 64];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	text[0] = '\0';
	f = fopen(path, "r");
	if (f) {
		text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
		fclose(f);
	}
	return text;
}

TEST_THAT(it_has_the_files_and_what_is_no_script)
{
	char specs[] = "/tmp/tide-gate-XXXXXX";
	struct files_dir made;
	const char *dir = made.path;
	struct bundle *files = bundle_create();
	struct error err;

	assert_non_null(mkdtemp(specs));
	assert_false(files_has_specs(specs));
	write_file(specs, "retry/mine.lua", "now");
	write_file(specs, "retry/late.lua", "now");
	write_file(specs, "retry/mine_spec.lua", "spec");
	write_file(specs, "retry/lib/part.lua", "now");
	write_file(specs, "lib/part.lua", "now");
	write_file(specs, "lib/help.lua", "help");
	write_file(specs, ".hidden", "x");
	assert_true(files_has_specs(specs));
	bundle_add(files, "retry/mine.lua", SLICE("then"));
	bundle_add(files, "lib/part.lua", SLICE("then"));
	assert_int_equal(files_create_dir(files, specs, &made, &err), TIDE_OK);
	assert_string_equal(read_file(dir, "retry/mine.lua"), "then");
	assert_string_equal(read_file(dir, "retry/late.lua"), "");
	assert_string_equal(read_file(dir, "retry/mine_spec.lua"), "spec");
	assert_string_equal(read_file(dir, "retry/lib/part.lua"), "now");
	assert_string_equal(read_file(dir, "lib/part.lua"), "then");
	assert_string_equal(read_file(dir, "lib/help.lua"), "help");
	assert_string_equal(read_file(dir, ".hidden"), "");
	assert_true(files_has_specs(dir));
	files_end_dir(&made);
	assert_int_equal(access(dir, F_OK), -1);
	assert_string_equal(read_file(specs, "lib/help.lua"), "help");
	files_remove(specs);
	bundle_unref(files);
}

TEST_THAT(without_a_directory_of_specs_there_is_none)
{
	struct bundle *files = bundle_create();
	struct error err;
	struct files_dir made;

	assert_int_equal(files_create_dir(files, "/nowhere", &made, &err), TIDE_ERULE);
	assert_int_equal(access(made.path, F_OK), -1);
	bundle_unref(files);
}

TEST_THAT(what_a_killed_process_leaves_goes)
{
	struct bundle *files = bundle_create();
	struct files_dir mine, left;
	struct error err;

	assert_int_equal(files_create_dir(files, NULL, &mine, &err), TIDE_OK);
	assert_int_equal(files_create_dir(files, NULL, &left, &err), TIDE_OK);
	close(left.lock); /* as its process ends */
	files_remove_left();
	assert_int_equal(access(left.path, F_OK), -1);
	assert_int_equal(access(mine.path, F_OK), 0);
	files_end_dir(&mine);
	bundle_unref(files);
}

RUN_TESTS()
