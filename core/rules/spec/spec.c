#include "spec.h"

#include <lauxlib.h>
#include <lualib.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "host/machine.h"
#include "spec_field.h"
#include "spec_files.h"

/* The message of the specs' process to this one: the test that runs. */
#define RUNNING_MAX 512

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
	spec_field_set_text(L, "dir", r->options->dir);
	spec_field_set_text(L, "here", here);
	spec_field_set_text(L, "filter", r->options->filter);
	spec_field_set_list(L, "files", (const char *const *)r->files.paths,
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

	if (spec_files_find(options->dir, options->follows_links, &r.files, &err) !=
	    TIDE_OK) {
		fprintf(stderr, "tidemq: %s\n", err.text);
		return 1;
	}
	if (r.files.count == 0) {
		fprintf(stderr, "tidemq: there is no *_spec.lua in '%s'\n", options->dir);
		return 1;
	}
	r.running = mmap(NULL, RUNNING_MAX, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (r.running == MAP_FAILED) {
		perror("tidemq: mmap");
	} else {
		status = run_apart(&r);
		munmap(r.running, RUNNING_MAX);
	}
	spec_files_free(&r.files);
	return status;
}

static int l_prompt(lua_State *L)
{
	const char *const *dirs = lua_touserdata(L, 1);

	push_program(L, dirs[0], dirs[1], "repl.lua");
	lua_newtable(L);
	spec_field_set_text(L, "dir", dirs[0]);
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
