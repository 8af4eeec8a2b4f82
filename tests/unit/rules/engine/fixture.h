/* fixture.h: a rules directory of a test's own, and an engine on it. */
#ifndef TIDE_TEST_RULES_FIXTURE_H
#define TIDE_TEST_RULES_FIXTURE_H

#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "check.h"
#include "patience.h"
#include "rules/engine/engine.h"
#include "rules/engine/engine_status.h"
#include "rules/engine/index.h"
#include "rules/engine/reload.h"
#include "rules/engine/strategy.h"

#define FRAMEWORK_DIR "lua" /* tests run in the top folder */

/* Not always "rules", where a user may have put more. */
static inline const char *shipped_rules(void)
{
	const char *dir = getenv("TIDE_TEST_RULES");
	return dir ? dir : "rules";
}

struct fixture {
	char dir[64];
	uv_loop_t loop;
	struct engine *engine;
	struct engine_config config;
	struct error err;
	bool is_closed;
	int reloads;
	struct error reload_result;
};

static inline void write_file(const struct fixture *f, const char *name, const char *text)
{
	char path[256];
	snprintf(path, sizeof(path), "%s/%s", f->dir, name);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
	assert_int_equal(fclose(file), 0);
}

static inline void remove_file(const struct fixture *f, const char *name)
{
	char path[256];
	snprintf(path, sizeof(path), "%s/%s", f->dir, name);
	assert_int_equal(unlink(path), 0);
}

static inline int remove_entry(const char *path, const struct stat *st, int type,
			       struct FTW *where)
{
	return remove(path);
}

static inline void remove_tree(const char *path)
{
	assert_int_equal(nftw(path, remove_entry, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static inline void copy_file(const char *from, const char *to)
{
	char data[65536];
	FILE *in = fopen(from, "r"), *out = fopen(to, "w");
	assert_non_null(in);
	assert_non_null(out);
	size_t len = fread(data, 1, sizeof(data), in);
	assert_int_equal(fwrite(data, 1, len, out), len);
	fclose(in);
	fclose(out);
}

static inline void on_fixture_reload(void *ctx, const struct error *result)
{
	struct fixture *f = ctx;
	f->reloads++;
	f->reload_result = *result;
}

/* A directory with the shipped scripts; the engine is not started yet. */
/* The budget of a call: what has another end comes to it first, in a sanitized build on a
 * slow machine too. A test whose script is endless starts with a short one. */
#define AMPLE_MS 10000

static inline int fixture_setup(void **state)
{
	static const char *const kinds[] = { "routing", "sharding", "priority", "retry" };
	struct fixture *f = calloc(1, sizeof(*f));
	strcpy(f->dir, "/tmp/tide-rules-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	for (size_t i = 0; i < 4; i++) {
		char from[512], to[512], shipped[256];
		snprintf(to, sizeof(to), "%s/%s", f->dir, kinds[i]);
		assert_int_equal(mkdir(to, 0700), 0);
		snprintf(shipped, sizeof(shipped), "%s/%s", shipped_rules(), kinds[i]);
		DIR *dir = opendir(shipped);
		struct dirent *entry;
		assert_non_null(dir);
		while ((entry = readdir(dir))) {
			if (entry->d_name[0] == '.')
				continue;
			snprintf(from, sizeof(from), "%s/%.100s", shipped, entry->d_name);
			snprintf(to, sizeof(to), "%s/%s/%.100s", f->dir, kinds[i],
				 entry->d_name);
			copy_file(from, to);
		}
		closedir(dir);
	}
	uv_loop_init(&f->loop);
	f->config = (struct engine_config){ .rules_dir = f->dir,
					    .lua_dir = FRAMEWORK_DIR,
					    .memory_max_bytes = 16 * 1024 * 1024,
					    .call_budget_ms = AMPLE_MS,
					    .debounce_ms = 20 };
	*state = f;
	return 0;
}

static inline int start_engine(struct fixture *f)
{
	struct engine_hooks hooks = { .ctx = f, .on_reload = on_fixture_reload };
	return engine_create(&f->engine, &f->loop, &f->config, &hooks, &f->err);
}

static inline void assert_no_time(const struct fixture *f)
{
	if (!strstr(f->err.text, "ran longer than its budget"))
		fail_msg("%s", f->err.text);
}

/* Start with the shortest budget for a call, of `least_ms` and its doubles, that this
 * machine needs to load the scripts. */
static inline void start_with_short_budget(struct fixture *f, int64_t least_ms)
{
	f->config.call_budget_ms = least_ms;
	while (start_engine(f) != TIDE_OK) {
		assert_no_time(f);
		f->config.call_budget_ms *= 2;
	}
}

/* After such a start; the budget may be too short for a file now and then. */
static inline void reload_in_budget(struct fixture *f)
{
	while (reload_now(f->engine, &f->err) != TIDE_OK)
		assert_no_time(f);
}

static inline void on_fixture_closed(void *ctx)
{
	((struct fixture *)ctx)->is_closed = true;
}

static inline int fixture_teardown(void **state)
{
	struct fixture *f = *state;
	if (f->engine) {
		engine_close(f->engine, on_fixture_closed, f);
		assert_false(f->is_closed);
		uv_run(&f->loop, UV_RUN_DEFAULT);
		assert_true(f->is_closed);
	}
	assert_int_equal(uv_loop_close(&f->loop), 0);
	remove_tree(f->dir);
	free(f);
	return 0;
}

#define assert_starts(f)                                         \
	do {                                                     \
		if (start_engine(f) != TIDE_OK)                  \
			fail_msg("no start: %s", (f)->err.text); \
	} while (0)

#define assert_contains(text, part)                                      \
	do {                                                             \
		if (!strstr(text, part))                                 \
			fail_msg("\"%s\" is not in \"%s\"", part, text); \
	} while (0)

/* A message of key, priority and "name=value" headers, ended by NULL. */
static inline struct msg *make_msg(const char *key, int priority, ...)
{
	struct msg_header headers[8];
	struct msg spec = { .id = 0x1234,
			    .ts_unix_ms = 1000000,
			    .priority = (uint8_t)priority,
			    .exchange = SLICE("shop"),
			    .key = slice_from(key),
			    .headers = headers,
			    .payload = "hello",
			    .payload_len = 5 };
	va_list list;
	const char *pair;
	va_start(list, priority);
	while ((pair = va_arg(list, const char *))) {
		const char *equals = strchr(pair, '=');
		headers[spec.header_count++] =
			(struct msg_header){ { pair, (size_t)(equals - pair) },
					     slice_from(equals + 1) };
	}
	va_end(list);
	struct msg *m = msg_create(&spec);
	assert_non_null(m);
	return m;
}

#endif
