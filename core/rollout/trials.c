#include "trials.h"

#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/wait.h>

#include "base/container.h"
#include "base/id.h"
#include "base/mem.h"
#include "files.h"
#include "history.h"
#include "host/log.h"
#include "runner.h"
#include "rules/engine/rules_dir.h"
#include "rules/engine/survey.h"
#include "rules/sandbox/source.h"

#define PASSED_MAX 32 /* remembered */
#define ROUNDS_MAX 5  /* of a directory that changes all the time */
#define OUTPUT_MAX ((size_t)64 * 1024)
#define OUTPUT_LINES 40 /* of it that are logged */

/* A file as a child has loaded it. */
struct seen_file {
	uint64_t hash;
	char *path;
};

/* Rules that are loaded in a child. */
struct trial {
	struct runner runner;
	STAILQ_ENTRY(trial) link;
	struct trials *trials;  /* NULL: they are gone */
	trial_done_fn *on_done; /* NULL: nobody wants to know */
	void *ctx;
	/* The files to try. The thread only reads the bundles: they are not counted
	 * there. */
	char *dir, *within;
	struct bundle *files, *known, *framework;
	bool is_install;
	struct broker_config config; /* texts are the broker's */
	/* The answer of the child. */
	struct seen_file *seen;
	size_t seen_count;
	bool is_done;
	/* The outcome. */
	struct trial_result result;
	struct buf unread;
};

STAILQ_HEAD(trial_list, trial);

/* The asker whether specs pass. */
struct ask {
	STAILQ_ENTRY(ask) link;
	struct bundle *files; /* a reference */
	char *specs_dir;
	spec_done_fn *on_done;
	void *ctx;
};

STAILQ_HEAD(asks, ask);

/* Specs under way, in a directory that is made for the files, and removed at the end. */
struct spec_run {
	struct runner runner;
	struct spec_lane *lane; /* NULL: nobody waits any more */
	struct bundle *files;   /* a reference */
	char *specs_dir;
	const char *other_specs_dir; /* when there are no specs in the first */
	bool has_specs;
	int64_t timeout_ms;
	struct files_dir dir;
	struct error result;
	struct buf output;
};

/* Runs of specs that follow each other. */
struct spec_lane {
	struct trials *trials;
	struct asks current; /* whom the run under way answers */
	struct asks next;
	struct spec_run *run;
	unsigned rounds; /* in which newer files have ended a run */
};

/* Kept files and candidates do not wait for the specs of the directory. */
enum { LANE_DIRECTORY, LANE_FILES, LANE_COUNT };

struct trials {
	struct broker *broker;
	struct history *history;
	struct trial_list list;      /* the first one is under way */
	uint64_t passed[PASSED_MAX]; /* hashes of files; a ring */
	size_t passed_count;
	struct spec_lane lanes[LANE_COUNT];
};

struct trials *trials_create(struct broker *b, struct history *history)
{
	struct trials *t = mem_zalloc(sizeof(*t));

	t->broker = b;
	t->history = history;
	STAILQ_INIT(&t->list);
	for (int i = 0; i < LANE_COUNT; i++) {
		t->lanes[i].trials = t;
		STAILQ_INIT(&t->lanes[i].current);
		STAILQ_INIT(&t->lanes[i].next);
	}
	return t;
}

/* Rules are loaded in a child. */

static bool has_passed(const struct trials *t, uint64_t hash)
{
	for (size_t i = 0; i < t->passed_count && i < PASSED_MAX; i++)
		if (t->passed[i] == hash)
			return true;
	return false;
}

static void note_passed(struct trials *t, const struct bundle *files)
{
	uint64_t hash = bundle_hash(files);

	if (!has_passed(t, hash))
		t->passed[t->passed_count++ % PASSED_MAX] = hash;
}

static struct bundle *ref_bundle(struct bundle *b)
{
	return b ? bundle_ref(b) : NULL;
}

static void work_load(struct runner *j);
static void on_loaded(struct runner *j);

static struct trial *create_trial(struct trials *trials, const struct trial_question *q,
				  trial_done_fn *on_done, void *ctx)
{
	struct trial *t = mem_zalloc(sizeof(*t));

	runner_init(&t->runner, work_load, on_loaded);
	t->trials = trials;
	t->on_done = on_done;
	t->ctx = ctx;
	t->dir = mem_strdup(q->dir);
	t->within = mem_strdup(q->within ? q->within : "");
	t->files = ref_bundle(q->files);
	t->known = ref_bundle(q->known);
	t->framework = ref_bundle(q->framework);
	t->is_install = q->is_install;
	t->config = trials->broker->config;
	t->result.unread = "";
	return t;
}

static void forget_seen(struct trial *t)
{
	for (size_t i = 0; i < t->seen_count; i++)
		mem_free(t->seen[i].path);
	t->seen_count = 0;
	t->is_done = false;
}

static void free_trial(struct trial *t)
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
	mem_free(t);
}

/* From here to work_load: on the thread. */

static void on_trial_line(void *ctx, struct slice line)
{
	struct trial *t = ctx;
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

/* The child has died of the rules, or was ended. */
static void describe_end(struct trial *t, const struct runner_child *end)
{
	const char *file =
		t->seen_count ? t->seen[t->seen_count - 1].path : "the rules directory";
	int signal_number = WIFSIGNALED(end->status) ? WTERMSIG(end->status) : 0;

	if (end->is_late || signal_number == SIGXCPU)
		error_set(&t->result.error, TIDE_ERULE,
			  "%s: does not finish loading: a trial in a process of its own "
			  "was ended after %d s",
			  file, SURVEY_FILE_S + (int)(t->config.rules_budget_ms / 1000));
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

static int run_child(struct trial *t, const char *dir)
{
	const struct broker_config *config = &t->config;
	char memory[24], budget[24];
	const char *args[] = { "trial",
			       dir,
			       config->lua_dir,
			       memory,
			       budget,
			       t->within,
			       config->rules_dir,
			       config->secrets_dir ? config->secrets_dir : "",
			       NULL };
	struct runner_child child = {
		.program = config->program,
		.args = args,
		.silence_ms = SURVEY_FILE_S * 1000 + config->rules_budget_ms,
		.on_line = on_trial_line,
		.ctx = t,
	};

	snprintf(memory, sizeof(memory), "%zu", config->rules_memory_bytes);
	snprintf(budget, sizeof(budget), "%" PRId64, config->rules_budget_ms);
	forget_seen(t);
	t->result.error.code = TIDE_OK;
	if (runner_run(&t->runner, &child, &t->result.error) == TIDE_OK && !t->is_done &&
	    t->result.error.code == TIDE_OK)
		describe_end(t, &child);
	return t->result.error.code;
}

/* The files that the child has loaded, as they were then; NULL: they have changed
 * meanwhile. */
static struct bundle *read_seen(const struct trial *t)
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

static void try_directory(struct trial *t)
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

static void try_files(struct trial *t)
{
	struct files_dir dir;

	if (files_create_dir(t->files, NULL, &dir, &t->result.error) == TIDE_OK) {
		run_child(t, dir.path);
		files_end_dir(&dir);
	}
}

static void try_rules(struct trial *t)
{
	t->result.error.code = TIDE_OK;
	if (t->is_install) {
		t->result.error.code = files_install(t->dir, t->files, &t->result.error);
		return;
	}
	if (!t->files && strcmp(t->dir, t->config.rules_dir) == 0 &&
	    files_finish(t->dir, &t->result.error) < 0)
		return;
	if (!t->config.program)
		return;
	if (t->files)
		try_files(t);
	else if (t->known && rules_dir_is_current(t->dir, t->known) &&
		 (!t->framework || bundle_is_current(t->framework, t->config.lua_dir)))
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

static void work_load(struct runner *j)
{
	try_rules(container_of(j, struct trial, runner));
}

/* Back on the loop. Free the trial, then tell. */
static void finish_trial(struct trial *t)
{
	struct trial_result *result = &t->result;

	if (t->files)
		result->files = bundle_ref(t->files);
	else if (result->is_known)
		result->files = bundle_ref(t->known);
	if (t->trials && result->error.code == TIDE_OK && result->files)
		note_passed(t->trials, result->files);
	if (t->on_done)
		t->on_done(t->ctx, result);
	free_trial(t);
}

static void start_first(struct trials *trials)
{
	struct trial *t = STAILQ_FIRST(&trials->list);

	if (t)
		runner_start(&t->runner, trials->broker->loop);
}

static void on_loaded(struct runner *j)
{
	struct trial *t = container_of(j, struct trial, runner);

	if (t->trials) {
		STAILQ_REMOVE_HEAD(&t->trials->list, link);
		start_first(t->trials);
	}
	finish_trial(t);
}

struct trial *trials_load(struct trials *trials, const struct trial_question *q,
			  trial_done_fn *on_done, void *ctx)
{
	struct trial *t = create_trial(trials, q, on_done, ctx);
	bool is_first = STAILQ_EMPTY(&trials->list);

	if (t->files && !t->is_install && has_passed(trials, bundle_hash(t->files))) {
		runner_deinit(&t->runner);
		finish_trial(t);
		return NULL;
	}
	STAILQ_INSERT_TAIL(&trials->list, t, link);
	if (is_first)
		start_first(trials);
	return t;
}

void trials_load_now(struct trials *trials, const struct trial_question *q,
		     trial_done_fn *on_done, void *ctx)
{
	struct trial *t = create_trial(trials, q, on_done, ctx);

	files_remove_left();
	try_rules(t);
	runner_deinit(&t->runner);
	finish_trial(t);
}

void trials_forget(struct trial *t)
{
	if (t)
		t->on_done = NULL;
}

static void end_trials(struct trials *trials, const struct error *stopping)
{
	const struct trial_result result = { .error = *stopping, .unread = "" };
	struct trial *t, *first = STAILQ_FIRST(&trials->list);

	while ((t = STAILQ_FIRST(&trials->list))) {
		STAILQ_REMOVE_HEAD(&trials->list, link);
		t->trials = NULL;
		if (t->on_done)
			t->on_done(t->ctx, &result);
		t->on_done = NULL;
		if (t == first) {
			runner_end(&t->runner);
		} else {
			runner_deinit(&t->runner);
			free_trial(t);
		}
	}
}

/* The specs of the rules run in a child. */

/* @param files  those that were tried; NULL: each asker's own */
static void answer_asks(struct asks *asks, struct bundle *files,
			const struct error *result)
{
	struct asks list = STAILQ_HEAD_INITIALIZER(list);
	struct ask *a;

	STAILQ_CONCAT(&list, asks);
	while ((a = STAILQ_FIRST(&list)) != NULL) {
		STAILQ_REMOVE_HEAD(&list, link);
		a->on_done(a->ctx, files ? files : a->files, result);
		bundle_unref(a->files);
		mem_free(a->specs_dir);
		mem_free(a);
	}
}

/* From here to work_test: on the thread. */

/* The line that a person needs first: the first failure (where it is, the test's
 * name, what was expected and what came), or how the output ends. */
static void describe_failure(struct spec_run *r, bool is_late)
{
	struct error *err = &r->result;
	struct slice all = buf_slice(&r->output);
	bool is_failure = false;
	struct buf text = { 0 };

	while (all.len > 0 && !(is_failure && buf_len(&text) >= ERROR_TEXT_MAX)) {
		struct slice line = slice_cut(&all, '\n');

		if (line.len == 0)
			continue;
		if (is_failure && line.data[0] != ' ')
			break; /* its text is indented: lua/test/output.lua */
		while (is_failure && line.len > 0 && line.data[0] == ' ')
			line = slice_skip(line, 1);
		if (!is_failure)
			buf_clear(&text);
		else
			buf_append_text(&text, slice_has_suffix(buf_slice(&text), ":")
						       ? " "
						       : "; ");
		is_failure |= slice_has_prefix(line, "Failure ");
		buf_append_slice(&text, line);
	}
	if (is_late)
		error_set(err, TIDE_ERULE,
			  "the specs did not finish within %g s "
			  "(--rules-gate-timeout)",
			  (double)r->timeout_ms / 1000);
	else
		error_set(err, TIDE_ERULE, "the specs fail: %s", buf_cstr(&text));
	buf_deinit(&text);
}

/* The directory that was made is private: paths are said to be in the rules'. */
static void on_spec_line(void *ctx, struct slice line)
{
	struct spec_run *r = ctx;
	size_t len = strlen(r->dir.path);
	const char *at;

	if (buf_len(&r->output) >= OUTPUT_MAX)
		return;
	while ((at = memmem(line.data, line.len, r->dir.path, len)) != NULL) {
		size_t before = (size_t)(at - line.data);

		buf_append(&r->output, line.data, before);
		line = slice_skip(line, before + len);
		if (line.len > 0 && line.data[0] == '/')
			line = slice_skip(line, 1);
	}
	buf_append_slice(&r->output, line);
	buf_append_char(&r->output, '\n');
}

static void run_specs(struct spec_run *r)
{
	/* files.h makes links. */
	const char *args[] = { "test", "--timeout=0", "--follow-links", r->dir.path,
			       NULL };
	struct runner_child child = {
		.program = "/proc/self/exe",
		.args = args,
		.limit_ms = r->timeout_ms,
		.on_line = on_spec_line,
		.ctx = r,
	};
	struct error err;

	if (runner_run(&r->runner, &child, &err) < 0)
		error_set(&r->result, TIDE_ERULE, "the specs cannot be run: %s",
			  err.text);
	else if (child.status != 0 || child.is_late)
		describe_failure(r, child.is_late);
}

static void work_test(struct runner *j)
{
	struct spec_run *r = container_of(j, struct spec_run, runner);
	const char *specs_dir = r->specs_dir;

	r->result.code = TIDE_OK;
	if (!files_has_specs(specs_dir))
		specs_dir = r->other_specs_dir;
	r->has_specs = files_has_specs(specs_dir);
	if (!r->has_specs ||
	    files_create_dir(r->files, specs_dir, &r->dir, &r->result) < 0)
		return;
	r->result.code = TIDE_OK;
	run_specs(r);
	files_end_dir(&r->dir);
}

static void log_output(const struct spec_run *r)
{
	struct slice all = buf_slice(&r->output);

	for (int i = 0; i < OUTPUT_LINES && all.len > 0; i++) {
		struct slice line = slice_cut(&all, '\n');

		if (line.len > 0)
			log_write_each(LOG_WARN, "rules: specs: %" SLICE_FMT,
				       SLICE_HEAD(line, 400));
	}
}

static void start_specs(struct spec_lane *l);

/* Go on with those who have asked meanwhile, and answer. That comes last: who is told may
 * stop the broker, and the trials are gone. */
static void conclude_specs(struct spec_lane *l, struct spec_run *r)
{
	struct asks answered = STAILQ_HEAD_INITIALIZER(answered);

	l->run = NULL;
	l->rounds = 0;
	if (r->result.code < 0)
		log_output(r);
	else if (r->has_specs)
		history_note_passed(l->trials->history, bundle_hash(r->files));
	STAILQ_CONCAT(&answered, &l->current);
	if (!STAILQ_EMPTY(&l->next))
		start_specs(l);
	answer_asks(&answered, r->files, &r->result);
}

static void on_tested(struct runner *j)
{
	struct spec_run *r = container_of(j, struct spec_run, runner);

	if (r->lane)
		conclude_specs(r->lane, r);
	buf_deinit(&r->output);
	bundle_unref(r->files);
	mem_free(r->specs_dir);
	mem_free(r);
}

/* Take the askers about the directory: they have one run together, for what came last. */
static void take_asks(struct spec_lane *l)
{
	struct ask *a;

	if (l == &l->trials->lanes[LANE_DIRECTORY]) {
		STAILQ_CONCAT(&l->current, &l->next);
		return;
	}
	a = STAILQ_FIRST(&l->next);
	STAILQ_REMOVE_HEAD(&l->next, link);
	STAILQ_INSERT_TAIL(&l->current, a, link);
}

static void start_specs(struct spec_lane *l)
{
	const struct broker_config *config = &l->trials->broker->config;
	struct spec_run *r = mem_zalloc(sizeof(*r));
	const struct ask *a, *last = NULL;

	take_asks(l);
	STAILQ_FOREACH (a, &l->current, link)
		last = a;
	l->run = r;
	r->lane = l;
	r->timeout_ms = config->rules_gate_timeout_ms;
	r->files = bundle_ref(last->files);
	r->specs_dir = mem_strdup(last->specs_dir);
	r->other_specs_dir = config->rules_dir;
	runner_init(&r->runner, work_test, on_tested);
	runner_start(&r->runner, l->trials->broker->loop);
}

static void end_early(struct spec_lane *l)
{
	if (!l->run)
		return;
	l->run->lane = NULL;
	runner_end(&l->run->runner);
	l->run = NULL;
}

void trials_test(struct trials *t, const struct spec_question *q, spec_done_fn *on_done,
		 void *ctx)
{
	const struct error yes = { .code = TIDE_OK };
	struct spec_lane *l;
	struct ask *a;

	if (!t || !t->broker->config.has_rules_gate || !q->files ||
	    (!q->is_directory && history_has_passed(t->history, bundle_hash(q->files)))) {
		on_done(ctx, q->files, &yes);
		return;
	}
	l = &t->lanes[q->is_directory ? LANE_DIRECTORY : LANE_FILES];
	a = mem_zalloc(sizeof(*a));
	a->files = bundle_ref(q->files);
	a->specs_dir =
		mem_strdup(q->specs_dir ? q->specs_dir : t->broker->config.rules_dir);
	a->on_done = on_done;
	a->ctx = ctx;
	STAILQ_INSERT_TAIL(&l->next, a, link);
	/* The specs of files that are no longer there need not end. */
	if (l->run && q->is_directory && l->rounds < ROUNDS_MAX) {
		l->rounds++;
		end_early(l);
	}
	if (!l->run)
		start_specs(l);
}

void trials_supersede(struct trials *t, const struct error *why)
{
	struct spec_lane *l = t ? &t->lanes[LANE_DIRECTORY] : NULL;

	if (!l)
		return;
	end_early(l);
	l->rounds = 0;
	STAILQ_CONCAT(&l->current, &l->next);
	answer_asks(&l->current, NULL, why);
}

void trials_destroy(struct trials *t)
{
	struct error stopping;

	if (!t)
		return;
	error_set(&stopping, TIDE_ESHUTDOWN, "the broker is stopping");
	end_trials(t, &stopping);
	for (int i = 0; i < LANE_COUNT; i++) {
		end_early(&t->lanes[i]);
		answer_asks(&t->lanes[i].current, NULL, &stopping);
		answer_asks(&t->lanes[i].next, NULL, &stopping);
	}
	mem_free(t);
}
