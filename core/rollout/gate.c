#include "gate.h"

#include <signal.h>
#include <stdio.h>
#include <sys/queue.h>

#include "base/mem.h"
#include "host/log.h"
#include "gate_dir.h"
#include "history.h"

#define OUTPUT_MAX ((size_t)64 * 1024)
#define OUTPUT_LINES 40  /* of it that are logged */
#define ROUNDS_MAX 5     /* of a directory that changes while its specs run */
#define PIPE_REST_MS 500 /* for what a child has written when it ended */

struct ask {
	STAILQ_ENTRY(ask) link;
	struct bundle *files; /* a reference */
	char *specs_dir;
	gate_answer_fn on_answer;
	void *ctx;
};
STAILQ_HEAD(asks, ask);

/* A child under way; freed when its handles are closed. It has first a directory made for
 * the files, and removed at the end, by a thread. */
struct gate_run {
	struct gate_lane *lane; /* NULL: nobody waits any more */
	uv_loop_t *loop;
	uv_work_t work;
	struct bundle *files; /* a reference */
	char *specs_dir;
	char *other_specs_dir; /* when there are no specs in the first */
	bool has_specs;
	int64_t timeout_ms;
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
	bool has_ended; /* the process; its group was ended too */
	bool is_late;
};

/* Runs that follow each other. */
struct gate_lane {
	struct gate *gate;
	struct asks current; /* whom the run under way answers */
	struct asks next;
	struct gate_run *run;
	unsigned rounds; /* in which newer files have ended a run */
};

/* Kept files and candidates do not wait for the specs of the directory. */
enum { LANE_DIRECTORY, LANE_FILES, LANE_COUNT };

struct gate {
	struct broker *broker;
	struct history *history;
	struct gate_lane lanes[LANE_COUNT];
};

struct gate *gate_create(struct broker *b, struct history *history)
{
	struct gate *g = mem_zalloc(sizeof(*g));

	g->broker = b;
	g->history = history;
	for (int i = 0; i < LANE_COUNT; i++) {
		g->lanes[i].gate = g;
		STAILQ_INIT(&g->lanes[i].current);
		STAILQ_INIT(&g->lanes[i].next);
	}
	return g;
}

/* @param files  those that were tried; NULL: each asker's own */
static void answer(struct asks *asks, struct bundle *files, const struct error *result)
{
	struct asks list = STAILQ_HEAD_INITIALIZER(list);
	struct ask *a;

	STAILQ_CONCAT(&list, asks);
	while ((a = STAILQ_FIRST(&list)) != NULL) {
		STAILQ_REMOVE_HEAD(&list, link);
		a->on_answer(a->ctx, files ? files : a->files, result);
		bundle_unref(a->files);
		mem_free(a->specs_dir);
		mem_free(a);
	}
}

static void start(struct gate_lane *l);

static void free_run(struct gate_run *r)
{
	buf_deinit(&r->output);
	bundle_unref(r->files);
	mem_free(r->specs_dir);
	mem_free(r->other_specs_dir);
	mem_free(r);
}

static void work_remove(uv_work_t *work)
{
	gate_dir_remove(((struct gate_run *)work->data)->dir);
}

static void on_removed(uv_work_t *work, int status)
{
	free_run(work->data);
}

static void end_run(struct gate_run *r)
{
	if (!r->dir[0])
		free_run(r);
	else
		uv_queue_work(r->loop, &r->work, work_remove, on_removed);
}

static void on_closed(uv_handle_t *handle)
{
	struct gate_run *r = handle->data;

	if (--r->handles == 0)
		end_run(r);
}

static void close_run(struct gate_run *r)
{
	uv_close((uv_handle_t *)&r->pipe, on_closed);
	uv_close((uv_handle_t *)&r->timer, on_closed);
	uv_close((uv_handle_t *)&r->process, on_closed);
}

/* What a person needs first: the first failure as one line (where it is,
 * the test's name, what was expected and what came), or how the output ends. */
static void describe(const struct gate_run *r, struct error *err)
{
	struct slice all = buf_slice(&r->output);
	bool is_failure = false;
	struct buf text = { 0 };

	while (all.len > 0 && !(is_failure && buf_len(&text) >= ERROR_TEXT_MAX)) {
		struct slice line = slice_cut(&all, '\n');

		if (line.len == 0)
			continue;
		if (is_failure && line.data[0] != ' ')
			break; /* the text of a failure is indented: lua/test/output.lua
				*/
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
	if (r->is_late)
		error_set(err, TIDE_ERULE,
			  "the specs did not finish within %g s "
			  "(--rules-gate-timeout)",
			  (double)r->timeout_ms / 1000);
	else
		error_set(err, TIDE_ERULE, "the specs fail: %s", buf_cstr(&text));
	buf_deinit(&text);
}

/* Nobody knows the directory that was made: paths are said to be in the rules'. */
static void hide_dir(struct gate_run *r)
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

static void log_output(const struct gate_run *r)
{
	struct slice all = buf_slice(&r->output);

	for (int i = 0; i < OUTPUT_LINES && all.len > 0; i++) {
		struct slice line = slice_cut(&all, '\n');

		if (line.len > 0)
			log_write_each(LOG_WARN, "rules: specs: %" SLICE_FMT,
				       SLICE_HEAD(line, 400));
	}
}

/* The run is over: go on with those who have asked meanwhile, and answer. That comes
 * last: who is told may stop the broker, and the gate is gone. */
static void conclude(struct gate_lane *l, const struct error *result)
{
	struct asks answered = STAILQ_HEAD_INITIALIZER(answered);
	struct bundle *files = bundle_ref(l->run->files);
	bool has_specs = l->run->has_specs;

	l->run = NULL;
	l->rounds = 0;
	if (result->code == TIDE_OK && has_specs)
		history_note_passed(l->gate->history, bundle_hash(files));
	STAILQ_CONCAT(&answered, &l->current);
	if (!STAILQ_EMPTY(&l->next))
		start(l);
	answer(&answered, files, result);
	bundle_unref(files);
}

/* Its process has ended, and its output is read. */
static void finish(struct gate_run *r)
{
	struct gate_lane *l = r->lane;
	struct error result = { .code = TIDE_OK };

	if (!l) {
		close_run(r);
		return;
	}
	hide_dir(r);
	if (r->status != 0 || r->is_late) {
		describe(r, &result);
		log_output(r);
	}
	close_run(r);
	conclude(l, &result);
}

static void finish_part(struct gate_run *r)
{
	if (--r->pending == 0)
		finish(r);
}

static void on_timeout(uv_timer_t *timer);

/* What a spec has started ends too. Output that another holds open is not waited for. */
static void on_exit_status(uv_process_t *process, int64_t status, int signal_number)
{
	struct gate_run *r = process->data;

	r->status = signal_number ? -signal_number : status;
	r->has_ended = true;
	uv_kill(-process->pid, SIGKILL);
	if (!uv_is_closing((uv_handle_t *)&r->timer))
		uv_timer_start(&r->timer, on_timeout, PIPE_REST_MS, 0);
	finish_part(r);
}

static void on_alloc(uv_handle_t *handle, size_t size, uv_buf_t *out)
{
	struct gate_run *r = handle->data;

	*out = uv_buf_init(r->chunk, sizeof(r->chunk));
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *data)
{
	struct gate_run *r = stream->data;

	if (n > 0 && buf_len(&r->output) < OUTPUT_MAX)
		buf_append(&r->output, data->base, (size_t)n);
	if (n >= 0)
		return;
	uv_read_stop(stream);
	finish_part(r);
}

static void on_timeout(uv_timer_t *timer)
{
	struct gate_run *r = timer->data;

	if (r->has_ended) {
		uv_read_stop((uv_stream_t *)&r->pipe);
		finish(r);
		return;
	}
	r->is_late = true;
	uv_kill(-r->process.pid, SIGKILL);
}

static int spawn(struct gate_run *r, uv_loop_t *loop, const char *dir)
{
	char name[] = "tidemq", verb[] = "test", timeout[] = "--timeout=0";
	char links[] = "--follow-links"; /* gate_dir.h */
	char *args[] = { name, verb, timeout, links, (char *)(uintptr_t)dir, NULL };
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

static void run_child(struct gate_run *r)
{
	struct gate_lane *l = r->lane;
	struct error err;
	int rc;

	r->handles = 3;
	r->pending = 2;
	uv_pipe_init(r->loop, &r->pipe, 0);
	uv_timer_init(r->loop, &r->timer);
	rc = spawn(r, r->loop, r->dir);
	if (rc < 0) {
		error_set(&err, TIDE_ERULE, "the specs cannot be run: %s",
			  uv_strerror(rc));
		close_run(r);
		conclude(l, &err);
		return;
	}
	uv_read_start((uv_stream_t *)&r->pipe, on_alloc, on_read);
	uv_timer_start(&r->timer, on_timeout, (uint64_t)r->timeout_ms, 0);
}

static void work_make(uv_work_t *work)
{
	struct gate_run *r = work->data;
	const char *specs_dir = r->specs_dir;

	r->failure.code = TIDE_OK;
	if (!gate_dir_has_specs(specs_dir))
		specs_dir = r->other_specs_dir;
	r->has_specs = gate_dir_has_specs(specs_dir);
	if (r->has_specs &&
	    gate_dir_create(r->files, specs_dir, r->dir, &r->failure) == TIDE_OK)
		r->failure.code = TIDE_OK;
}

static void on_made(uv_work_t *work, int status)
{
	struct gate_run *r = work->data;

	if (r->lane && r->has_specs && r->failure.code == TIDE_OK) {
		run_child(r);
		return;
	}
	if (r->lane)
		conclude(r->lane, &r->failure);
	end_run(r);
}

/* Those that ask about the directory have one run together, for what came last. */
static void take_asks(struct gate_lane *l)
{
	struct ask *a;

	if (l == &l->gate->lanes[LANE_DIRECTORY]) {
		STAILQ_CONCAT(&l->current, &l->next);
		return;
	}
	a = STAILQ_FIRST(&l->next);
	STAILQ_REMOVE_HEAD(&l->next, link);
	STAILQ_INSERT_TAIL(&l->current, a, link);
}

static void start(struct gate_lane *l)
{
	const struct broker *b = l->gate->broker;
	struct gate_run *r = mem_zalloc(sizeof(*r));
	const struct ask *a, *last = NULL;

	take_asks(l);
	STAILQ_FOREACH (a, &l->current, link)
		last = a;
	l->run = r;
	r->lane = l;
	r->loop = b->loop;
	r->work.data = r;
	r->timeout_ms = b->config.rules_gate_timeout_ms;
	r->files = bundle_ref(last->files);
	r->specs_dir = mem_strdup(last->specs_dir);
	r->other_specs_dir = mem_strdup(b->config.rules_dir);
	uv_queue_work(r->loop, &r->work, work_make, on_made);
}

/* One without a process has its directory made, and ends after that. The others end with
 * their process, which must be waited for. */
static void end_early(struct gate_lane *l)
{
	struct gate_run *r = l->run;

	if (!r)
		return;
	l->run = NULL;
	r->lane = NULL;
	if (r->handles > 0)
		uv_kill(-r->process.pid, SIGKILL);
}

void gate_ask(struct gate *g, const struct gate_question *q, gate_answer_fn on_answer,
	      void *ctx)
{
	const struct error yes = { .code = TIDE_OK };
	struct gate_lane *l;
	struct ask *a;

	if (!g || !g->broker->config.has_rules_gate || !q->files ||
	    (!q->is_directory && history_has_passed(g->history, bundle_hash(q->files)))) {
		on_answer(ctx, q->files, &yes);
		return;
	}
	l = &g->lanes[q->is_directory ? LANE_DIRECTORY : LANE_FILES];
	a = mem_zalloc(sizeof(*a));
	a->files = bundle_ref(q->files);
	a->specs_dir =
		mem_strdup(q->specs_dir ? q->specs_dir : g->broker->config.rules_dir);
	a->on_answer = on_answer;
	a->ctx = ctx;
	STAILQ_INSERT_TAIL(&l->next, a, link);
	/* The specs of files that are no longer there need not end. */
	if (l->run && q->is_directory && l->rounds < ROUNDS_MAX) {
		l->rounds++;
		end_early(l);
	}
	if (!l->run)
		start(l);
}

void gate_supersede(struct gate *g, const struct error *why)
{
	struct gate_lane *l = g ? &g->lanes[LANE_DIRECTORY] : NULL;

	if (!l)
		return;
	end_early(l);
	l->rounds = 0;
	STAILQ_CONCAT(&l->current, &l->next);
	answer(&l->current, NULL, why);
}

void gate_destroy(struct gate *g)
{
	struct error err;

	if (!g)
		return;
	error_set(&err, TIDE_ESHUTDOWN, "the broker is stopping");
	for (int i = 0; i < LANE_COUNT; i++) {
		end_early(&g->lanes[i]);
		answer(&g->lanes[i].current, NULL, &err);
		answer(&g->lanes[i].next, NULL, &err);
	}
	mem_free(g);
}
