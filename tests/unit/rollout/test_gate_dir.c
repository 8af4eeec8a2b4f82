/* The directory in which the specs of files in memory run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rollout/gate_dir.h"

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

static void it_has_the_files_and_what_is_no_script(void **state)
{
	char specs[] = "/tmp/tide-gate-XXXXXX", dir[PATH_MAX];
	struct bundle *files = bundle_create();
	struct error err;

	assert_non_null(mkdtemp(specs));
	assert_false(gate_dir_has_specs(specs));
	write_file(specs, "retry/mine.lua", "now");
	write_file(specs, "retry/late.lua", "now");
	write_file(specs, "retry/mine_spec.lua", "spec");
	write_file(specs, "retry/lib/part.lua", "now");
	write_file(specs, "lib/part.lua", "now");
	write_file(specs, "lib/help.lua", "help");
	write_file(specs, ".hidden", "x");
	assert_true(gate_dir_has_specs(specs));
	bundle_add(files, "retry/mine.lua", SLICE("then"));
	bundle_add(files, "lib/part.lua", SLICE("then"));
	assert_int_equal(gate_dir_create(files, specs, dir, &err), TIDE_OK);
	assert_string_equal(read_file(dir, "retry/mine.lua"), "then");
	assert_string_equal(read_file(dir, "retry/late.lua"), "");
	assert_string_equal(read_file(dir, "retry/mine_spec.lua"), "spec");
	assert_string_equal(read_file(dir, "retry/lib/part.lua"), "now");
	assert_string_equal(read_file(dir, "lib/part.lua"), "then");
	assert_string_equal(read_file(dir, "lib/help.lua"), "help");
	assert_string_equal(read_file(dir, ".hidden"), "");
	assert_true(gate_dir_has_specs(dir));
	gate_dir_remove(dir);
	assert_int_equal(access(dir, F_OK), -1);
	assert_string_equal(read_file(specs, "lib/help.lua"), "help");
	gate_dir_remove(specs);
	bundle_unref(files);
}

static void without_a_directory_of_specs_there_is_none(void **state)
{
	struct bundle *files = bundle_create();
	struct error err;
	char dir[PATH_MAX];

	assert_int_equal(gate_dir_create(files, "/nowhere", dir, &err), TIDE_ERULE);
	assert_string_equal(dir, "");
	bundle_unref(files);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_has_the_files_and_what_is_no_script),
		cmocka_unit_test(without_a_directory_of_specs_there_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
