#include "gate.h"

#include <signal.h>
#include <stdio.h>
#include <sys/queue.h>

#include "base/mem.h"
#include "host/log.h"
#include "gate_dir.h"
#include "history.h"

#define OUTPUT_MAX ((size_t)64 * 1024)
#define OUTPUT_LINES 40 /* of it that are logged */
#define ROUNDS_MAX 5    /* of a directory that changes while its specs run */

struct ask {
	STAILQ_ENTRY(ask) link;
	struct bundle *files; /* a reference; NULL: the directory */
	char *specs_dir;
	gate_answer_fn on_answer;
	void *ctx;
};
STAILQ_HEAD(asks, ask);

/* A child under way; freed when its handles are closed. One for files has first a
 * directory made for them, and removed at the end, by a thread. */
struct run {
	struct gate *gate; /* NULL: nobody waits any more */
	uv_loop_t *loop;
	uv_work_t work;
	struct bundle *files; /* a reference; NULL: the directory */
	char *specs_dir;
	char dir[PATH_MAX];   /* made for the files; "" when there is none */
	struct error failure; /* of the making */
	uv_process_t process;
	uv_pipe_t pipe;
	uv_timer_t timer;
	unsigned handles; /* not yet closed */
	struct buf output;
	char chunk[4096];
	unsigned pending; /* until it has ended, and its output is read */
	int64_t status;
	bool is_late;
};

struct gate {
	struct broker *broker;
	struct history *history;
	struct asks current; /* whom the run under way answers */
	struct asks next;
	struct run *run;
	uint64_t hash; /* of the files that it runs for */
	unsigned rounds;
};

struct gate *gate_create(struct broker *b, struct history *history)
{
	struct gate *g = mem_zalloc(sizeof(*g));

	g->broker = b;
	g->history = history;
	STAILQ_INIT(&g->current);
	STAILQ_INIT(&g->next);
	return g;
}

static void answer(struct asks *asks, const struct error *result)
{
	struct asks list = STAILQ_HEAD_INITIALIZER(list);
	struct ask *a;

	STAILQ_CONCAT(&list, asks);
	while ((a = STAILQ_FIRST(&list)) != NULL) {
		STAILQ_REMOVE_HEAD(&list, link);
		a->on_answer(a->ctx, result);
		bundle_unref(a->files);
		mem_free(a->specs_dir);
		mem_free(a);
	}
}

static uint64_t scan(const struct gate *g)
{
	const struct engine *e = g->broker->engine;
	struct bundle *files =
		rules_dir_scan(g->broker->config.rules_dir, e ? engine_files(e) : NULL);
	uint64_t hash = bundle_hash(files);

	bundle_unref(files);
	return hash;
}

static void start(struct gate *g);

static void free_run(struct run *r)
{
	buf_deinit(&r->output);
	bundle_unref(r->files);
	mem_free(r->specs_dir);
	mem_free(r);
}

static void work_remove(uv_work_t *work)
{
	gate_dir_remove(((struct run *)work->data)->dir);
}

static void on_removed(uv_work_t *work, int status)
{
	free_run(work->data);
}

static void end_run(struct run *r)
{
	if (!r->dir[0])
		free_run(r);
	else
		uv_queue_work(r->loop, &r->work, work_remove, on_removed);
}

static void on_closed(uv_handle_t *handle)
{
	struct run *r = handle->data;

	if (--r->handles == 0)
		end_run(r);
}

static void close_run(struct run *r)
{
	uv_close((uv_handle_t *)&r->pipe, on_closed);
	uv_close((uv_handle_t *)&r->timer, on_closed);
	uv_close((uv_handle_t *)&r->process, on_closed);
}

static bool begins_failure(struct slice line)
{
	return slice_has_prefix(line, "Failure ") || slice_has_prefix(line, "Error ");
}

/* What a person needs first: the first failure up to its stack, as one line (where it is,
 * the test's name, what was expected and what came), or how the output ends. */
static void describe(const struct run *r, struct error *err)
{
	struct slice all = buf_slice(&r->output);
	bool is_failure = false;
	struct buf text = { 0 };

	while (all.len > 0 && !(is_failure && buf_len(&text) >= ERROR_TEXT_MAX)) {
		struct slice line = slice_cut(&all, '\n');

		while (is_failure && line.len > 0 && line.data[0] == ' ')
			line = slice_skip(line, 1);
		if (line.len == 0)
			continue;
		if (is_failure &&
		    (begins_failure(line) || slice_has_prefix(line, "stack traceback")))
			break;
		if (!is_failure)
			buf_clear(&text);
		else
			buf_append_text(&text, slice_has_suffix(buf_slice(&text), ":")
						       ? " "
						       : "; ");
		is_failure |= begins_failure(line);
		buf_append_slice(&text, line);
	}
	if (r->is_late)
		error_set(err, TIDE_ERULE, "the specs did not finish within %d s",
			  GATE_TIMEOUT_MS / 1000);
	else
		error_set(err, TIDE_ERULE, "the specs fail: %s", buf_cstr(&text));
	buf_deinit(&text);
}

/* Nobody knows the directory that was made: paths are said to be in the rules'. */
static void hide_dir(struct run *r)
{
	struct slice all = buf_slice(&r->output);
	size_t len = strlen(r->dir);
	struct buf out = { 0 };
	const char *at;

	if (len == 0 || all.len == 0)
		return;
	while ((at = memmem(all.data, all.len, r->dir, len)) != NULL) {
		size_t before = (size_t)(at - all.data);

		buf_append(&out, all.data, before);
		all = slice_skip(all, before + len);
		if (all.len > 0 && all.data[0] == '/')
			all = slice_skip(all, 1);
	}
	buf_append_slice(&out, all);
	buf_deinit(&r->output);
	r->output = out;
}

static void log_output(const struct run *r)
{
	struct slice all = buf_slice(&r->output);

	for (int i = 0; i < OUTPUT_LINES && all.len > 0; i++) {
		struct slice line = slice_cut(&all, '\n');

		if (line.len > 0)
			log_warn("rules: specs: %" SLICE_FMT, SLICE_HEAD(line, 400));
	}
}

/* The run is over: go on with those who have asked meanwhile, and answer. That comes
 * last: who is told may stop the broker, and the gate is gone. */
static void conclude(struct gate *g, const struct error *result)
{
	struct asks answered = STAILQ_HEAD_INITIALIZER(answered);

	g->run = NULL;
	g->rounds = 0;
	if (result->code == TIDE_OK)
		history_note_passed(g->history, g->hash);
	STAILQ_CONCAT(&answered, &g->current);
	if (!STAILQ_EMPTY(&g->next))
		start(g);
	answer(&answered, result);
}

/* The specs have passed. Were they those of what is there now? */
static bool has_changed(const struct run *r)
{
	return !r->files && scan(r->gate) != r->gate->hash;
}

static void finish(struct run *r)
{
	struct gate *g = r->gate;
	struct error result = { .code = TIDE_OK };

	if (--r->pending > 0 || !g)
		return;
	hide_dir(r);
	close_run(r);
	if (r->status != 0) {
		describe(r, &result);
		log_output(r);
	} else if (has_changed(r)) {
		if (++g->rounds < ROUNDS_MAX) {
			start(g);
			return;
		}
		error_set(&result, TIDE_ERULE,
			  "the directory keeps changing while its specs run");
	}
	conclude(g, &result);
}

static void on_exit_status(uv_process_t *process, int64_t status, int signal_number)
{
	struct run *r = process->data;

	r->status = signal_number ? -signal_number : status;
	finish(r);
}

static void on_alloc(uv_handle_t *handle, size_t size, uv_buf_t *out)
{
	struct run *r = handle->data;

	*out = uv_buf_init(r->chunk, sizeof(r->chunk));
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *data)
{
	struct run *r = stream->data;

	if (n > 0 && buf_len(&r->output) < OUTPUT_MAX)
		buf_append(&r->output, data->base, (size_t)n);
	if (n >= 0)
		return;
	uv_read_stop(stream);
	finish(r);
}

static void on_timeout(uv_timer_t *timer)
{
	struct run *r = timer->data;

	r->is_late = true;
	uv_kill(-r->process.pid, SIGKILL);
}

static int spawn(struct run *r, uv_loop_t *loop, const char *dir)
{
	char name[] = "tidemq", verb[] = "test";
	char *args[] = { name, verb, (char *)(uintptr_t)dir, NULL };
	uv_stdio_container_t streams[] = {
		{ .flags = UV_IGNORE },
		{ .flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE,
		  .data.stream = (uv_stream_t *)&r->pipe },
		{ .flags = UV_INHERIT_FD, .data.fd = 2 },
	};
	uv_process_options_t options = {
		.exit_cb = on_exit_status,
		/* A group of its own, so that what a spec starts ends with it. */
		.flags = UV_PROCESS_DETACHED,
		.file = "/proc/self/exe",
		.args = args,
		.stdio = streams,
		.stdio_count = 3,
	};

	r->process.data = r->pipe.data = r->timer.data = r;
	return uv_spawn(loop, &r->process, &options);
}

static void run_child(struct run *r, const char *dir)
{
	struct error err;
	int rc;

	r->handles = 3;
	r->pending = 2;
	uv_pipe_init(r->loop, &r->pipe, 0);
	uv_timer_init(r->loop, &r->timer);
	rc = spawn(r, r->loop, dir);
	if (rc < 0) {
		error_set(&err, TIDE_ERULE, "the specs cannot be run: %s",
			  uv_strerror(rc));
		close_run(r);
		conclude(r->gate, &err);
		return;
	}
	uv_read_start((uv_stream_t *)&r->pipe, on_alloc, on_read);
	uv_timer_start(&r->timer, on_timeout, GATE_TIMEOUT_MS, 0);
}

static void work_make(uv_work_t *work)
{
	struct run *r = work->data;

	if (gate_dir_create(r->files, r->specs_dir, r->dir, &r->failure) == TIDE_OK)
		r->failure.code = TIDE_OK;
}

static void on_made(uv_work_t *work, int status)
{
	struct run *r = work->data;

	if (r->gate && r->failure.code == TIDE_OK) {
		run_child(r, r->dir);
		return;
	}
	if (r->gate)
		conclude(r->gate, &r->failure);
	end_run(r);
}

/* Those that ask about the directory have one run together. */
static void take_asks(struct gate *g)
{
	struct ask *a, *next;

	if (STAILQ_EMPTY(&g->current)) {
		a = STAILQ_FIRST(&g->next);
		STAILQ_REMOVE_HEAD(&g->next, link);
		STAILQ_INSERT_TAIL(&g->current, a, link);
	}
	if (STAILQ_FIRST(&g->current)->files)
		return;
	for (a = STAILQ_FIRST(&g->next); a; a = next) {
		next = STAILQ_NEXT(a, link);
		if (a->files)
			continue;
		STAILQ_REMOVE(&g->next, a, ask, link);
		STAILQ_INSERT_TAIL(&g->current, a, link);
	}
}

static void start(struct gate *g)
{
	struct run *r = mem_zalloc(sizeof(*r));
	struct ask *first;

	take_asks(g);
	first = STAILQ_FIRST(&g->current);
	g->run = r;
	r->gate = g;
	r->loop = g->broker->loop;
	r->work.data = r;
	if (!first->files) {
		g->hash = scan(g);
		run_child(r, first->specs_dir);
		return;
	}
	g->hash = bundle_hash(first->files);
	r->files = bundle_ref(first->files);
	r->specs_dir = mem_strdup(first->specs_dir);
	uv_queue_work(r->loop, &r->work, work_make, on_made);
}

void gate_ask(struct gate *g, struct bundle *files, const char *specs_dir,
	      gate_answer_fn on_answer, void *ctx)
{
	const struct error yes = { .code = TIDE_OK };
	struct ask *a;

	if (g && (!files || !gate_dir_has_specs(specs_dir)))
		specs_dir = g->broker->config.rules_dir;
	if (!g || !g->broker->config.has_rules_gate || !gate_dir_has_specs(specs_dir) ||
	    (files && history_has_passed(g->history, bundle_hash(files)))) {
		on_answer(ctx, &yes);
		return;
	}
	a = mem_zalloc(sizeof(*a));
	a->files = files ? bundle_ref(files) : NULL;
	a->specs_dir = mem_strdup(specs_dir);
	a->on_answer = on_answer;
	a->ctx = ctx;
	STAILQ_INSERT_TAIL(&g->next, a, link);
	if (!g->run)
		start(g);
}

void gate_destroy(struct gate *g)
{
	struct error err;

	if (!g)
		return;
	error_set(&err, TIDE_ESHUTDOWN, "the broker is stopping");
	if (g->run)
		g->run->gate = NULL;
	/* One without handles has its directory made, and ends after that. */
	if (g->run && g->run->handles > 0) {
		uv_kill(-g->run->process.pid, SIGKILL);
		close_run(g->run);
	}
	answer(&g->current, &err);
	answer(&g->next, &err);
	mem_free(g);
}
