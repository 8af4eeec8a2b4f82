/* lua_bug.c: a Lua with bugs, for LD_PRELOAD: the name of a file says what befalls the
 * process that loads it. See lua_bug.lua. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <lua.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_verb(const char *verb)
{
	char line[4096] = "";
	int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, line, sizeof(line) - 1);

	if (fd >= 0)
		close(fd);
	return n > 0 && memmem(line, (size_t)n, verb, strlen(verb) + 1);
}

/* Each trial leaves a byte. */
__attribute__((constructor)) static void note_trial(void)
{
	const char *path = getenv("TIDE_TEST_TRIALS");
	int fd = path && is_verb("trial")
			 ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)
			 : -1;

	if (fd >= 0 && write(fd, "x", 1) == 1)
		close(fd);
}

int lua_load(lua_State *L, lua_Reader reader, void *data, const char *name,
	     const char *mode)
{
	int (*load)(lua_State *, lua_Reader, void *, const char *, const char *);

	if (strstr(name, "/crash.lua"))
		raise(SIGSEGV);
	if (strstr(name, "/late_crash.lua") && is_verb("serve"))
		raise(SIGSEGV);
	while (strstr(name, "/hang.lua"))
		pause();
	*(void **)&load = dlsym(RTLD_NEXT, "lua_load");
	return load(L, reader, data, name, mode);
}
