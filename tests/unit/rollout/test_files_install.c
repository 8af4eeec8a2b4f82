/* Files go into the rules directory all or not at all, wherever the process ends or the
 * disk is full. Both are tried at each call that changes the disk. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rollout/files.h"

/* ---- a disk that fails ------------------------------------------------------------ */

enum fault { NO_FAULT, KILLED, FULL };

static struct {
	enum fault fault;
	int at, count;
} disk;

static void set_fault(enum fault fault, int at)
{
	disk.fault = fault;
	disk.at = at;
	disk.count = 0;
}

/* A full disk stays full. What only removes is still done. */
static bool fails(bool needs_room)
{
	if (disk.fault == NO_FAULT)
		return false;
	disk.count++;
	if (disk.fault == KILLED && disk.count == disk.at)
		raise(SIGKILL);
	errno = ENOSPC;
	return disk.fault == FULL && disk.count >= disk.at && needs_room;
}

int open(const char *path, int flags, ...)
{
	va_list args;

	va_start(args, flags);
	mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
	va_end(args);
	if (flags & O_CREAT && fails(true))
		return -1;
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

ssize_t write(int fd, const void *data, size_t len)
{
	return fails(true) ? -1 : syscall(SYS_write, fd, data, len);
}

/* A process that ends loses nothing that it has written, and no test ends the machine. */
int fsync(int fd)
{
	return fails(true) ? -1 : 0;
}

int mkdir(const char *path, mode_t mode)
{
	return fails(true) ? -1 : (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

int rename(const char *from, const char *to)
{
	return fails(true) ? -1
			   : (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int unlink(const char *path)
{
	return fails(false) ? -1 : (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

int remove(const char *path)
{
	if (fails(false))
		return -1;
	if (syscall(SYS_unlinkat, AT_FDCWD, path, 0) == 0)
		return 0;
	return errno == EISDIR ? (int)syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR)
			       : -1;
}

/* ---- a rules directory ------------------------------------------------------------ */

static const char *const names[] = { "filter/10-old.lua", "filter/20-new.lua",
				     "retry/mine.lua", "lib/a/part.lua",
				     "filter/10-old_spec.lua" };
#define OLD "old - r1 - spec "
#define NEW "- new r2 part spec "

static struct bundle *files; /* to be installed */

static void put(const char *dir, const char *name, const char *text)
{
	struct bundle *b = bundle_create();

	bundle_add(b, name, slice_from(text));
	assert_true(files_write(b, dir));
	bundle_unref(b);
}

static void make_dir(char dir[PATH_MAX])
{
	strcpy(dir, "/tmp/tide-install-XXXXXX");
	assert_non_null(mkdtemp(dir));
	put(dir, "filter/10-old.lua", "old");
	put(dir, "filter/10-old_spec.lua", "spec");
	put(dir, "retry/mine.lua", "r1");
}

static const char *contents(const char *dir)
{
	static char all[256];
	char path[PATH_MAX + 64], text[16];

	all[0] = '\0';
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		FILE *f = fopen(path, "r");
		text[f ? fread(text, 1, sizeof(text) - 1, f) : 0] = '\0';
		snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s ",
			 f ? text : "-");
		if (f)
			fclose(f);
	}
	return all;
}

static bool has_folder(const char *dir)
{
	char path[PATH_MAX + 64];

	snprintf(path, sizeof(path), "%s/%s", dir, FILES_FOLDER);
	return access(path, F_OK) == 0;
}

static int finish(const char *dir)
{
	struct error err;

	return files_finish(dir, &err);
}

/* In a process of its own, which ends at the n-th call. False: it has come to its end. */
static bool is_killed(const char *dir, bool is_finish, int at)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		struct error err;

		set_fault(KILLED, at);
		_exit(is_finish ? files_finish(dir, &err) < 0
				: files_install(dir, files, &err) < 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	if (WIFEXITED(status))
		assert_int_equal(WEXITSTATUS(status), 0);
	return WIFSIGNALED(status);
}

/* ---- tests ------------------------------------------------------------------------ */

static void all_files_take_their_places(void **state)
{
	struct error err;
	char dir[PATH_MAX];

	make_dir(dir);
	assert_string_equal(contents(dir), OLD);
	assert_int_equal(finish(dir), TIDE_OK);
	assert_string_equal(contents(dir), OLD);
	assert_int_equal(files_install(dir, files, &err), TIDE_OK);
	assert_string_equal(contents(dir), NEW);
	assert_false(has_folder(dir));
	files_remove(dir);
}

static void a_process_that_ends_leaves_all_or_nothing(void **state)
{
	int old = 0, new = 0;
	char dir[PATH_MAX];
	bool is_over = false;

	for (int at = 1; !is_over; at++) {
		make_dir(dir);
		is_over = !is_killed(dir, false, at);
		assert_int_equal(finish(dir), TIDE_OK);
		old += strcmp(contents(dir), OLD) == 0;
		new += strcmp(contents(dir), NEW) == 0;
		assert_int_equal(old + new, at);
		struct error err;
		assert_int_equal(files_install(dir, files, &err), TIDE_OK);
		assert_string_equal(contents(dir), NEW);
		assert_false(has_folder(dir));
		files_remove(dir);
	}
	assert_true(old > 10 && new > 10);
}

/* The next process may end, too. */
static void finishing_may_end_anywhere(void **state)
{
	char dir[PATH_MAX];
	bool is_over = false, is_finished;

	for (int at = 1; !is_over; at++) {
		is_finished = false;
		for (int next = 1; !is_finished; next++) {
			make_dir(dir);
			is_over = !is_killed(dir, false, at);
			is_finished = !is_killed(dir, true, next);
			assert_int_equal(finish(dir), TIDE_OK);
			assert_true(strcmp(contents(dir), OLD) == 0 ||
				    strcmp(contents(dir), NEW) == 0);
			files_remove(dir);
		}
	}
}

static void a_full_disk_leaves_all_or_nothing(void **state)
{
	int old = 0, begun = 0, rc = TIDE_EDENIED;
	char dir[PATH_MAX];

	for (int at = 1; rc < 0; at++) {
		struct error err;

		make_dir(dir);
		set_fault(FULL, at);
		rc = files_install(dir, files, &err);
		if (rc < 0) {
			assert_int_equal(rc, TIDE_EDENIED);
			assert_non_null(strstr(err.text, "No space left on device"));
			begun += strstr(err.text, "partly") != NULL;
			old += strcmp(contents(dir), OLD) == 0;
		}
		if (rc < 0 && strstr(err.text, "partly")) {
			set_fault(FULL, 1);
			assert_int_equal(files_finish(dir, &err), TIDE_ERULE);
		}
		set_fault(NO_FAULT, 0);
		assert_int_equal(finish(dir), TIDE_OK);
		if (rc == TIDE_OK || strstr(err.text, "partly"))
			assert_string_equal(contents(dir), NEW);
		else
			assert_string_equal(contents(dir), OLD);
		files_remove(dir);
	}
	assert_true(old > 5 && begun > 5);
}

static void what_stands_in_the_way_is_found_before_anything_changes(void **state)
{
	struct error err;
	char dir[PATH_MAX], path[PATH_MAX + 64];

	make_dir(dir);
	put(dir, "retry/mine.lua.d/x", "x");
	snprintf(path, sizeof(path), "%s/filter/20-new.lua", dir);
	mkdir(path, 0700);
	assert_int_equal(files_install(dir, files, &err), TIDE_EDENIED);
	assert_non_null(strstr(err.text,
			       "/filter/20-new.lua' cannot be written: Is a directory"));
	rmdir(path);
	assert_string_equal(contents(dir), OLD);
	put(dir, "lib", "no folder");
	assert_int_equal(files_install(dir, files, &err), TIDE_EDENIED);
	assert_non_null(strstr(err.text, "cannot be written: Not a directory"));
	assert_string_equal(contents(dir), OLD);
	assert_false(has_folder(dir));
	files_remove(dir);
}

static void a_list_leads_nowhere_else(void **state)
{
	static const char *const lists[] = { "../x.lua\n",      "/x.lua\n",
					     "a/../../x.lua\n", "a//x.lua\n",
					     ".push/list\n",    "\n" };
	struct error err;
	char dir[PATH_MAX];

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		make_dir(dir);
		put(dir, FILES_FOLDER "/list", lists[i]);
		put(dir, FILES_FOLDER "/0", "x");
		assert_int_equal(files_finish(dir, &err), TIDE_ERULE);
		assert_string_equal(contents(dir), OLD);
		files_remove(dir);
	}
}

static void no_link_is_followed(void **state)
{
	struct error err;
	char dir[PATH_MAX], other[PATH_MAX], path[PATH_MAX + 64];

	make_dir(dir);
	make_dir(other);
	snprintf(path, sizeof(path), "%s/lib", dir);
	assert_int_equal(symlink(other, path), 0);
	assert_int_equal(files_install(dir, files, &err), TIDE_EDENIED);
	assert_non_null(strstr(err.text, "/lib/a/part.lua' cannot be written: a folder "
					 "on the way is a symbolic link"));
	unlink(path);
	put(other, "list", "filter/20-new.lua\n");
	put(other, "0", "somebody else's");
	snprintf(path, sizeof(path), "%s/" FILES_FOLDER, dir);
	assert_int_equal(symlink(other, path), 0);
	assert_int_equal(files_finish(dir, &err), TIDE_OK);
	assert_string_equal(contents(dir), OLD);
	files_remove(dir);
	files_remove(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_files_take_their_places),
		cmocka_unit_test(a_process_that_ends_leaves_all_or_nothing),
		cmocka_unit_test(finishing_may_end_anywhere),
		cmocka_unit_test(a_full_disk_leaves_all_or_nothing),
		cmocka_unit_test(what_stands_in_the_way_is_found_before_anything_changes),
		cmocka_unit_test(a_list_leads_nowhere_else),
		cmocka_unit_test(no_link_is_followed),
	};

	files = bundle_create();
	bundle_add(files, "filter/20-new.lua", SLICE("new"));
	bundle_add(files, "retry/mine.lua", SLICE("r2"));
	bundle_add(files, "lib/a/part.lua", SLICE("part"));
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	bundle_unref(files);
	return failed;
}
