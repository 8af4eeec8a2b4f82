#include "rules_check.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <uv.h>

#include "client/cli_check.h"
#include "rules/engine.h"

extern char **environ;

#define CHECK_MEMORY_BYTES ((size_t)64 << 20)
#define CHECK_BUDGET_MS 1000

/* Load it; `status` receives the engine's document when that goes well. */
static int load(const char *dir, const char *lua_dir, struct buf *status)
{
	struct engine_config config = { .rules_dir = dir,
					.lua_dir = lua_dir,
					.memory_max_bytes = CHECK_MEMORY_BYTES,
					.call_budget_ms = CHECK_BUDGET_MS };
	struct engine *e;
	struct error err;
	struct json j;
	uv_loop_t loop;
	int rc;

	uv_loop_init(&loop);
	rc = engine_create(&e, &loop, &config, NULL, &err);
	if (rc == TIDE_OK) {
		json_init(&j, status);
		engine_status(e, &j);
		engine_close(e, NULL, NULL);
	} else {
		printf("error: %s\n", err.text);
	}
	uv_run(&loop, UV_RUN_DEFAULT);
	uv_loop_close(&loop);
	return rc;
}

/* Whether luacheck found something; it prints that itself. */
static bool lint(const char *dir)
{
	const char *const argv[] = { "luacheck",
				     "--no-config",
				     "--std",
				     "lua54",
				     "--read-globals",
				     "tide",
				     "--no-max-line-length",
				     "--no-self",
				     "--no-color",
				     "--quiet",
				     "--exclude-files",
				     "**/*_spec.lua",
				     "--",
				     dir,
				     NULL };
	pid_t pid;
	int status;
	int rc = posix_spawnp(&pid, "luacheck", NULL, NULL, (char *const *)argv, environ);

	if (rc == ENOENT) {
		printf("note: luacheck is not installed; only what a broker checks was "
		       "checked\n");
		return false;
	}
	if (rc != 0 || waitpid(pid, &status, 0) < 0) {
		printf("error: luacheck could not be run: %s\n",
		       strerror(rc ? rc : errno));
		return true;
	}
	return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

int check_run(const char *dir, const char *lua_dir, const char *url)
{
	struct buf status;
	unsigned problems = 0;

	buf_init(&status);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (load(dir, lua_dir, &status) < 0)
		problems++;
	problems += lint(dir);
	if (url && buf_len(&status))
		problems += cli_check_definitions(url, buf_cstr(&status));
	buf_deinit(&status);
	if (problems)
		printf("%s: not fit to go live\n", dir);
	else
		printf("%s: nothing is wrong\n", dir);
	return problems ? 1 : 0;
}
