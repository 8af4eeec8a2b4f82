/* disk_fault.c: LD_PRELOAD: $TIDE_TEST_DISK is "kill PATH": the process ends instead of a
 * rename to that path; or "full DIR": no file can be created there. See disk_fault.lua.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What is after the word; NULL: it is another. */
static const char *after(const char *word)
{
	const char *text = getenv("TIDE_TEST_DISK");
	size_t len = strlen(word);

	return text && strncmp(text, word, len) == 0 ? text + len : NULL;
}

static bool is_full(const char *path, int flags)
{
	const char *dir = after("full ");

	errno = ENOSPC;
	return flags & O_CREAT && dir && strncmp(path, dir, strlen(dir)) == 0;
}

static int open_real(const char *path, int flags, va_list args)
{
	int (*real)(const char *, int, ...);
	mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;

	*(void **)&real = dlsym(RTLD_NEXT, "open");
	return is_full(path, flags) ? -1 : real(path, flags, mode);
}

int open(const char *path, int flags, ...)
{
	va_list args;

	va_start(args, flags);
	int fd = open_real(path, flags, args);
	va_end(args);
	return fd;
}

int open64(const char *path, int flags, ...)
{
	va_list args;

	va_start(args, flags);
	int fd = open_real(path, flags | O_LARGEFILE, args);
	va_end(args);
	return fd;
}

int rename(const char *from, const char *to)
{
	int (*real)(const char *, const char *);
	const char *path = after("kill ");

	if (path && strcmp(path, to) == 0)
		raise(SIGKILL);
	*(void **)&real = dlsym(RTLD_NEXT, "rename");
	return real(from, to);
}
