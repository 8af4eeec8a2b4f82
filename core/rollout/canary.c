#include "canary.h"

#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/wait.h>

#include "base/id.h"
#include "base/mem.h"
#include "child.h"
#include "gate_dir.h"
#include "install.h"
#include "rules/engine/rules_dir.h"
#include "rules/engine/trial.h"
#include "rules/sandbox/source.h"

#define PASSED_MAX 32 /* remembered */
#define ROUNDS_MAX 5  /* of a directory that changes all the time */

/* What a child has said of a file. */
struct seen_file {
	uint64_t hash;
	char *path;
};

struct canary_trial {
	STAILQ_ENTRY(canary_trial) link;
	struct canary *canary; /* NULL: it is gone */
	uv_work_t work;
	canary_done_fn *on_done; /* NULL: nobody wants to know */
	void *ctx;
	/* What to try. The thread only reads the bundles: they are not counted there. */
	char *dir, *within;
	struct bundle *files, *known, *framework;
	bool is_install;
	const char *program, *rules_dir, *lua_dir, *secrets_dir; /* the configuration's */
	size_t memory_bytes;
	int64_t budget_ms;
	/* What the child says. */
	struct seen_file *seen;
	size_t seen_count;
	bool is_done;
	/* The outcome. */
	struct canary_result result;
	struct buf unread;
	uv_mutex_t lock; /* of the pid */
	pid_t pid;
	bool is_ended; /* no child is wanted any more */
};

STAILQ_HEAD(trials, canary_trial);

struct canary {
	struct broker *broker;
	struct trials trials; /* the first one is under way */
	bool is_closing;
	uint64_t passed[PASSED_MAX]; /* hashes of files; a ring */
	size_t passed_count;
};

struct canary *canary_create(struct broker *b)
{
	struct canary *c = mem_zalloc(sizeof(*c));

	c->broker = b;
	STAILQ_INIT(&c->trials);
	return c;
}

static bool has_passed(const struct canary *c, uint64_t hash)
{
	for (size_t i = 0; i < c->passed_count && i < PASSED_MAX; i++)
		if (c->passed[i] == hash)
			return true;
	return false;
}

static void note_passed(struct canary *c, const struct bundle *files)
{
	uint64_t hash = bundle_hash(files);

	if (!has_passed(c, hash))
		c->passed[c->passed_count++ % PASSED_MAX] = hash;
}

static struct bundle *ref(struct bundle *b)
{
	return b ? bundle_ref(b) : NULL;
}

static struct canary_trial *create(struct canary *c, const struct canary_spec *spec,
				   canary_done_fn *on_done, void *ctx)
{
	const struct broker_config *config = &c->broker->config;
	struct canary_trial *t = mem_zalloc(sizeof(*t));

	t->canary = c;
	t->on_done = on_done;
	t->ctx = ctx;
	t->dir = mem_strdup(spec->dir);
	t->within = mem_strdup(spec->within ? spec->within : "");
	t->files = ref(spec->files);
	t->known = ref(spec->known);
	t->framework = ref(spec->framework);
	t->is_install = spec->is_install;
	t->program = config->program;
	t->rules_dir = config->rules_dir;
	t->lua_dir = config->lua_dir;
	t->secrets_dir = config->secrets_dir ? config->secrets_dir : "";
	t->memory_bytes = config->rules_memory_bytes;
	t->budget_ms = config->rules_budget_ms;
	t->result.unread = "";
	t->work.data = t;
	uv_mutex_init(&t->lock);
	return t;
}

static void forget_seen(struct canary_trial *t)
{
	for (size_t i = 0; i < t->seen_count; i++)
		mem_free(t->seen[i].path);
	t->seen_count = 0;
	t->is_done = false;
}

static void free_trial(struct canary_trial *t)
{
	forget_seen(t);
	mem_free(t->seen);
	mem_free(t->dir);
	mem_free(t->within);
	bundle_unref(t->files);
	bundle_unref(t->known);
	bundle_unref(t->framework);
	bundle_unref(t->result.files);
	buf_deinit(&t->unread);
	uv_mutex_destroy(&t->lock);
	mem_free(t);
}

/* From here to try_rules: on the thread. */

static void on_line(void *ctx, struct slice line)
{
	struct canary_trial *t = ctx;
	struct slice verb = slice_cut(&line, ' ');
	uint64_t hash;

	if (slice_is(verb, "done")) {
		t->is_done = true;
	} else if (slice_is(verb, "error")) {
		error_set(&t->result.error, TIDE_ERULE, "%" SLICE_FMT, SLICE_ARG(line));
	} else if (slice_is(verb, "file") &&
		   id_parse(slice_cut(&line, ' '), &hash) == TIDE_OK) {
		t->seen = mem_realloc(t->seen, (t->seen_count + 1) * sizeof(*t->seen));
		t->seen[t->seen_count++] =
			(struct seen_file){ hash, mem_strndup(line.data, line.len) };
	}
}

static void on_pid(void *ctx, pid_t pid)
{
	struct canary_trial *t = ctx;

	uv_mutex_lock(&t->lock);
	t->pid = pid;
	if (pid && t->is_ended)
		kill(-pid, SIGKILL);
	uv_mutex_unlock(&t->lock);
}

/* The child has died of the rules, or was ended. */
static void describe_end(struct canary_trial *t, const struct child_end *end)
{
	const char *file =
		t->seen_count ? t->seen[t->seen_count - 1].path : "the rules directory";
	int signal_number = WIFSIGNALED(end->status) ? WTERMSIG(end->status) : 0;

	if (end->is_late || signal_number == SIGXCPU)
		error_set(&t->result.error, TIDE_ERULE,
			  "%s: does not finish loading: a trial in a process of its own "
			  "was ended after %d s",
			  file, TRIAL_FILE_S + (int)(t->budget_ms / 1000));
	else if (signal_number)
		error_set(
			&t->result.error, TIDE_ERULE,
			"%s: crashes the process that loads it: a trial in a process of "
			"its own ended with signal %d (%s)",
			file, signal_number, strsignal(signal_number));
	else
		error_set(&t->result.error, TIDE_ERULE,
			  "%s: ends the process that loads it: a trial in a process of "
			  "its own ended with status %d",
			  file, WEXITSTATUS(end->status));
}

static int run_child(struct canary_trial *t, const char *dir)
{
	char memory[24], budget[24];
	const char *args[] = { "trial",   dir,          t->lua_dir,     memory, budget,
			       t->within, t->rules_dir, t->secrets_dir, NULL };
	const struct child_spec spec = {
		.program = t->program,
		.args = args,
		.silence_ms = TRIAL_FILE_S * 1000 + t->budget_ms,
		.on_line = on_line,
		.on_pid = on_pid,
		.ctx = t,
	};
	struct child_end end;

	snprintf(memory, sizeof(memory), "%zu", t->memory_bytes);
	snprintf(budget, sizeof(budget), "%" PRId64, t->budget_ms);
	forget_seen(t);
	t->result.error.code = TIDE_OK;
	if (child_run(&spec, &end, &t->result.error) == TIDE_OK && !t->is_done &&
	    t->result.error.code == TIDE_OK)
		describe_end(t, &end);
	return t->result.error.code;
}

/* What the child has loaded, as it was then; NULL: it has changed meanwhile. */
static struct bundle *read_seen(const struct canary_trial *t)
{
	struct bundle *files = bundle_create();
	char path[PATH_MAX];
	struct source source;
	struct error ignored;
	bool is_same = true;

	for (size_t i = 0; i < t->seen_count && is_same; i++) {
		const struct seen_file *f = &t->seen[i];

		snprintf(path, sizeof(path), "%s/%s", t->dir, f->path);
		is_same = bundle_read(NULL, files, &source, path, f->path, &ignored) ==
				  TIDE_OK &&
			  source.hash == f->hash;
		source_free(&source);
	}
	if (is_same)
		return files;
	bundle_unref(files);
	return NULL;
}

static void try_directory(struct canary_trial *t)
{
	for (int i = 0; i < ROUNDS_MAX && !t->result.files; i++) {
		if (run_child(t, t->dir) < 0) {
			t->result.files = rules_dir_scan(t->dir, t->known);
			return;
		}
		t->result.files = read_seen(t);
	}
	if (!t->result.files)
		error_set(&t->result.error, TIDE_ERULE,
			  "the directory keeps changing while it is tried");
}

static void try_files(struct canary_trial *t)
{
	char dir[PATH_MAX];

	if (gate_dir_create(t->files, NULL, dir, &t->result.error) == TIDE_OK) {
		run_child(t, dir);
		gate_dir_remove(dir);
	}
}

static void try_rules(struct canary_trial *t)
{
	t->result.error.code = TIDE_OK;
	if (t->is_install) {
		t->result.error.code = install_files(t->dir, t->files, &t->result.error);
		return;
	}
	if (!t->files && strcmp(t->dir, t->rules_dir) == 0 &&
	    install_finish(t->dir, &t->result.error) < 0)
		return;
	if (!t->program)
		return;
	if (t->files)
		try_files(t);
	else if (t->known && rules_dir_is_current(t->dir, t->known) &&
		 (!t->framework || bundle_is_current(t->framework, t->lua_dir)))
		t->result.is_known = true;
	else
		try_directory(t);
	if (t->result.error.code == TIDE_OK && !t->files) {
		rules_dir_describe_unread(t->dir,
					  t->result.is_known ? t->known : t->result.files,
					  &t->unread);
		t->result.unread = buf_cstr(&t->unread);
	}
}

/* Back on the loop. Free the trial, then tell. */
static void finish(struct canary_trial *t)
{
	struct canary_result *result = &t->result;

	if (t->files)
		result->files = bundle_ref(t->files);
	else if (result->is_known)
		result->files = bundle_ref(t->known);
	if (t->canary && result->error.code == TIDE_OK && result->files)
		note_passed(t->canary, result->files);
	if (t->on_done)
		t->on_done(t->ctx, result);
	free_trial(t);
}

static void work_try(uv_work_t *work)
{
	try_rules(work->data);
}

static void start_first(struct canary *c);

static void on_tried(uv_work_t *work, int status)
{
	struct canary_trial *t = work->data;
	struct canary *c = t->canary;

	if (c) {
		STAILQ_REMOVE_HEAD(&c->trials, link);
		start_first(c);
	}
	finish(t);
}

static void start_first(struct canary *c)
{
	struct canary_trial *t = STAILQ_FIRST(&c->trials);

	if (t)
		uv_queue_work(c->broker->loop, &t->work, work_try, on_tried);
}

struct canary_trial *canary_ask(struct canary *c, const struct canary_spec *spec,
				canary_done_fn *on_done, void *ctx)
{
	struct canary_trial *t = create(c, spec, on_done, ctx);
	bool is_first = STAILQ_EMPTY(&c->trials);

	if (t->files && !t->is_install && has_passed(c, bundle_hash(t->files))) {
		finish(t);
		return NULL;
	}
	STAILQ_INSERT_TAIL(&c->trials, t, link);
	if (is_first)
		start_first(c);
	return t;
}

void canary_ask_now(struct canary *c, const struct canary_spec *spec,
		    canary_done_fn *on_done, void *ctx)
{
	struct canary_trial *t = create(c, spec, on_done, ctx);

	try_rules(t);
	finish(t);
}

void canary_forget(struct canary_trial *t)
{
	if (t)
		t->on_done = NULL;
}

static void end_child(struct canary_trial *t)
{
	uv_mutex_lock(&t->lock);
	t->is_ended = true;
	if (t->pid)
		kill(-t->pid, SIGKILL);
	uv_mutex_unlock(&t->lock);
}

void canary_destroy(struct canary *c)
{
	struct canary_result result = { .unread = "" };
	struct canary_trial *t, *first;

	if (!c)
		return;
	error_set(&result.error, TIDE_ESHUTDOWN, "the broker is stopping");
	first = STAILQ_FIRST(&c->trials);
	while ((t = STAILQ_FIRST(&c->trials))) {
		STAILQ_REMOVE_HEAD(&c->trials, link);
		t->canary = NULL;
		if (t->on_done)
			t->on_done(t->ctx, &result);
		t->on_done = NULL;
		if (t == first)
			end_child(t);
		else
			free_trial(t);
	}
	mem_free(c);
}
