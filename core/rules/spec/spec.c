#include "spec.h"

#include <fts.h>
#include <limits.h>
#include <lualib.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "host/machine.h"
#include "spec_value.h"

/* The message of the specs' process to this one: the test that runs. */
#define RUNNING_MAX 512

#define SPEC_FILES_MAX 900 /* as many as busted takes */
#define LEVELS_MAX 8

/* The specs in a directory and below it. */
struct spec_files {
	char *paths[SPEC_FILES_MAX]; /* sorted, owned */
	size_t count;
};

static void free_files(struct spec_files *f)
{
	while (f->count > 0)
		mem_free(f->paths[--f->count]);
}

/* Does the path, which may be a link, end at a file below `root`? NULL: anywhere. */
static bool is_file_below(const char *path, const char *root)
{
	char real[PATH_MAX];
	size_t len = root ? strlen(root) : 0;
	struct stat st;

	return realpath(path, real) && stat(real, &st) == 0 && S_ISREG(st.st_mode) &&
	       (!root || (strncmp(real, root, len) == 0 && real[len] == '/'));
}

static int by_path(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* A symbolic link is followed to a file below `dir`, with `follows_links` to any file,
 * and never to a folder. */
static int find_files(const struct spec_options *options, struct spec_files *out,
		      struct error *err)
{
	char real[PATH_MAX];
	char *const roots[] = { (char *)(uintptr_t)options->dir, NULL };
	const char *root = options->follows_links ? NULL : real;
	FTS *tree = NULL;
	FTSENT *entry;
	int rc = TIDE_OK;

	if (realpath(options->dir, real))
		tree = fts_open(roots, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, NULL);
	if (!tree)
		return error_set(err, TIDE_ENOTFOUND, "'%s' is not a directory",
				 options->dir);
	while (rc == TIDE_OK && (entry = fts_read(tree))) {
		bool is_hidden = entry->fts_level > 0 && entry->fts_name[0] == '.';
		bool is_file = entry->fts_info == FTS_F || entry->fts_info == FTS_SL;

		if (is_hidden || (!is_file && entry->fts_level == LEVELS_MAX))
			fts_set(tree, entry, FTS_SKIP);
		else if (!is_file ||
			 !slice_has_suffix(slice_from(entry->fts_name), "_spec.lua") ||
			 !is_file_below(entry->fts_path, root))
			continue;
		else if (out->count == SPEC_FILES_MAX)
			rc = error_set(err, TIDE_ELIMIT, "more than %d specs in '%s'",
				       SPEC_FILES_MAX, real);
		else
			out->paths[out->count++] = mem_strdup(entry->fts_path);
	}
	fts_close(tree);
	qsort(out->paths, out->count, sizeof(out->paths[0]), by_path);
	return rc;
}

struct spec_process {
	const struct spec_options *options;
	struct spec_files files;
	char *running; /* in memory that both processes share */
};

/* running (text) */
static int l_running(lua_State *L)
{
	snprintf(lua_touserdata(L, lua_upvalueindex(1)), RUNNING_MAX, "%s",
		 luaL_checkstring(L, 1));
	return 0;
}

/* The argument of lua/test/run.lua. */
static void push_spec(lua_State *L, const struct spec_process *r, const char *here)
{
	lua_newtable(L);
	spec_value_set_text(L, "dir", r->options->dir);
	spec_value_set_text(L, "here", here);
	spec_value_set_text(L, "filter", r->options->filter);
	spec_value_set_list(L, "files", (const char *const *)r->files.paths,
			    r->files.count);
	lua_pushlightuserdata(L, r->running);
	lua_pushcclosure(L, l_running, 1);
	lua_setfield(L, -2, "running");
}

/* Open the state, and push the function of a file of lua/test. */
static void push_program(lua_State *L, const char *dir, const char *lua_dir,
			 const char *file)
{
	luaL_openlibs(L);
	lua_pushstring(L, dir);
	lua_setfield(L, LUA_REGISTRYINDEX, "rules");
	lua_pushstring(L, lua_dir);
	lua_setfield(L, LUA_REGISTRYINDEX, "lua");
	luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
	lua_pushcfunction(L, spec_module_open);
	lua_setfield(L, -2, "tidemq");
	if (luaL_loadfilex(L, lua_pushfstring(L, "%s/test/%s", lua_dir, file), "t") !=
	    LUA_OK)
		lua_error(L);
}

static int l_run(lua_State *L)
{
	const struct spec_process *r = lua_touserdata(L, 1);

	push_program(L, r->options->dir, r->options->lua_dir, "run.lua");
	push_spec(L, r, lua_pushfstring(L, "%s/test", r->options->lua_dir));
	lua_remove(L, -2);
	lua_call(L, 1, 1);
	return 1;
}

/* Call a function in a Lua state of its own: the exit status. */
static int call(lua_CFunction body, void *ctx)
{
	lua_State *L = luaL_newstate();

	if (!L) {
		fprintf(stderr, "tidemq: out of memory for a Lua state\n");
		return 1;
	}
	lua_pushcfunction(L, body);
	lua_pushlightuserdata(L, ctx);
	int rc = lua_pcall(L, 1, 1, 0);
	if (rc != LUA_OK)
		fprintf(stderr, "tidemq: %s\n", luaL_tolstring(L, -1, NULL));
	bool has_run = rc == LUA_OK && lua_toboolean(L, -1);
	lua_close(L);
	return has_run ? 0 : 1;
}

/* The process of the specs. Not the door of script.h: a spec is a program of its author,
 * not a rule. busted ends the process itself when a test fails. */
static int run(const struct spec_process *r)
{
	const struct rlimit memory = { r->options->memory_max_bytes,
				       r->options->memory_max_bytes };

#ifndef __SANITIZE_ADDRESS__ /* which reserves terabytes of addresses */
	if (memory.rlim_cur && setrlimit(RLIMIT_AS, &memory) != 0)
		perror("tidemq: setrlimit");
#else
	(void)memory;
#endif
	return call(l_run, (void *)(uintptr_t)r);
}

/* Wait for the child, whose SIGCHLD is blocked, until its time is over. */
static bool wait_for(pid_t child, int64_t timeout_ms, int *status)
{
	int64_t end_ms = machine_clock_ms(CLOCK_MONOTONIC) + timeout_ms;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	while (waitpid(child, status, WNOHANG) == 0) {
		int64_t left_ms =
			timeout_ms ? end_ms - machine_clock_ms(CLOCK_MONOTONIC) : 1000;
		const struct timespec left = { left_ms / 1000, left_ms % 1000 * 1000000 };

		if (left_ms <= 0)
			return false;
		sigtimedwait(&set, NULL, &left);
	}
	return true;
}

/* @return  the exit status */
static int tell_end(const struct spec_process *r, bool is_late, int status)
{
	const char *test = r->running[0] ? r->running : "no test";

	fflush(stdout);
	if (is_late)
		fprintf(stderr,
			"tidemq: the specs did not finish within %g s (--timeout); %s "
			"was running\n",
			(double)r->options->timeout_ms / 1000, test);
	else if (WIFSIGNALED(status))
		fprintf(stderr,
			"tidemq: the process of the specs was ended by signal %d (%s); "
			"%s was running\n",
			WTERMSIG(status), strsignal(WTERMSIG(status)), test);
	return !is_late && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static int run_apart(struct spec_process *r)
{
	sigset_t blocked, before;
	int status = 0;

	sigemptyset(&blocked);
	sigaddset(&blocked, SIGCHLD);
	sigprocmask(SIG_BLOCK, &blocked, &before);
	fflush(NULL);
	pid_t child = fork();
	if (child < 0) {
		perror("tidemq: fork");
		return 1;
	}
	if (child == 0) {
		sigprocmask(SIG_SETMASK, &before, NULL);
		exit(run(r));
	}
	bool is_late = !wait_for(child, r->options->timeout_ms, &status);
	if (is_late) {
		kill(child, SIGKILL);
		waitpid(child, &status, 0);
	}
	return tell_end(r, is_late, status);
}

int spec_run(const struct spec_options *options)
{
	struct spec_process r = { .options = options };
	struct error err;
	int status = 1;

	if (find_files(options, &r.files, &err) != TIDE_OK) {
		fprintf(stderr, "tidemq: %s\n", err.text);
	} else if (r.files.count == 0) {
		fprintf(stderr, "tidemq: there is no *_spec.lua in '%s'\n", options->dir);
	} else {
		r.running = mmap(NULL, RUNNING_MAX, PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		if (r.running == MAP_FAILED) {
			perror("tidemq: mmap");
		} else {
			status = run_apart(&r);
			munmap(r.running, RUNNING_MAX);
		}
	}
	free_files(&r.files);
	return status;
}

static int l_prompt(lua_State *L)
{
	const char *const *dirs = lua_touserdata(L, 1);

	push_program(L, dirs[0], dirs[1], "repl.lua");
	lua_newtable(L);
	spec_value_set_text(L, "dir", dirs[0]);
	lua_pushboolean(L, isatty(STDIN_FILENO) && isatty(STDOUT_FILENO));
	lua_setfield(L, -2, "is_terminal");
	lua_call(L, 1, 1);
	return 1;
}

int spec_prompt(const char *dir, const char *lua_dir)
{
	const char *dirs[] = { dir, lua_dir };

	return call(l_prompt, dirs);
}
