#include "gate.h"

#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <sys/queue.h>

#include "../base/log.h"
#include "../base/mem.h"
#include "../rules/bundle.h"

#define OUTPUT_MAX ((size_t)64 * 1024)
#define OUTPUT_LINES 40 /* of it that are logged */
#define SPEC_END "_spec.lua"
#define DEPTH_MAX 8
#define ROUNDS_MAX 5 /* of a directory that changes while its specs run */

struct ask {
	STAILQ_ENTRY(ask) link;
	gate_answer_fn on_answer;
	void *ctx;
};
STAILQ_HEAD(asks, ask);

/* A child under way; freed when its handles are closed. */
struct run {
	struct gate *gate; /* NULL: nobody waits any more */
	uv_process_t process;
	uv_pipe_t pipe;
	uv_timer_t timer;
	unsigned handles; /* not yet closed */
	struct buf output;
	char chunk[4096];
	int64_t status;
	bool has_ended, is_read, is_late;
};

struct gate {
	struct broker *broker;
	struct asks current; /* whom the run under way answers */
	struct asks next;
	struct run *run;
	uint64_t hash; /* of the scripts that it runs for */
	unsigned rounds;
};

/* ---- asking ----------------------------------------------------------------------- */

struct gate *gate_create(struct broker *b)
{
	struct gate *g = mem_zalloc(sizeof(*g));

	g->broker = b;
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
		mem_free(a);
	}
}

static uint64_t scan(const struct gate *g)
{
	const struct engine *e = g->broker->engine;
	struct bundle *files =
		bundle_scan(g->broker->config.rules_dir, e ? engine_files(e) : NULL);
	uint64_t hash = bundle_hash(files);

	bundle_unref(files);
	return hash;
}

/* nftw has no context; this is asked from one thread. */
static int on_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	size_t len = strlen(path), end = strlen(SPEC_END);

	return type == FTW_F && len > end && strcmp(path + len - end, SPEC_END) == 0;
}

static bool has_specs(const char *dir)
{
	return nftw(dir, on_file, DEPTH_MAX, 0) == 1;
}

/* ---- a run ------------------------------------------------------------------------ */

static void start(struct gate *g);

static void on_closed(uv_handle_t *handle)
{
	struct run *r = handle->data;

	if (--r->handles > 0)
		return;
	buf_deinit(&r->output);
	mem_free(r);
}

static void close_run(struct run *r)
{
	uv_close((uv_handle_t *)&r->pipe, on_closed);
	uv_close((uv_handle_t *)&r->timer, on_closed);
	uv_close((uv_handle_t *)&r->process, on_closed);
}

/* What a person needs first: the first failure, or how the output ends. */
static void describe(const struct run *r, struct error *err)
{
	struct slice all = buf_slice(&r->output), first = { NULL, 0 }, last = { "", 0 };

	while (all.len > 0) {
		const char *end = memchr(all.data, '\n', all.len);
		struct slice line = { all.data,
				      end ? (size_t)(end - all.data) : all.len };

		all = slice_skip(all, end ? line.len + 1 : line.len);
		if (!first.data && (slice_has_prefix(line, "Failure ") ||
				    slice_has_prefix(line, "Error ")))
			first = line;
		if (line.len > 0)
			last = line;
	}
	if (first.data)
		last = first;
	if (r->is_late)
		error_set(err, TIDE_ERULE, "the specs have not ended within %d s",
			  GATE_TIMEOUT_MS / 1000);
	else
		error_set(err, TIDE_ERULE, "the specs fail: %" SLICE_FMT,
			  (int)(last.len < 300 ? last.len : 300), last.data);
}

static void log_output(const struct run *r)
{
	struct slice all = buf_slice(&r->output);

	for (int i = 0; i < OUTPUT_LINES && all.len > 0; i++) {
		const char *end = memchr(all.data, '\n', all.len);
		size_t len = end ? (size_t)(end - all.data) : all.len;

		if (len > 0)
			log_warn("rules: specs: %.*s", (int)(len < 400 ? len : 400),
				 all.data);
		all = slice_skip(all, end ? len + 1 : len);
	}
}

static void finish(struct run *r)
{
	struct gate *g = r->gate;
	struct error result = { .code = TIDE_OK };
	bool is_again = false;

	if (!g || !r->has_ended || !r->is_read)
		return;
	g->run = NULL;
	if (r->status != 0) {
		describe(r, &result);
		log_output(r);
	} else if (scan(g) != g->hash) {
		/* Those were the specs of what is not there any more. */
		is_again = ++g->rounds < ROUNDS_MAX;
		if (!is_again)
			error_set(&result, TIDE_ERULE,
				  "the directory keeps changing while its specs run");
	}
	close_run(r);
	if (!is_again) {
		g->rounds = 0;
		answer(&g->current, &result);
	}
	if (!g->run && (is_again || !STAILQ_EMPTY(&g->next)))
		start(g);
}

static void on_exit_status(uv_process_t *process, int64_t status, int signal_number)
{
	struct run *r = process->data;

	r->has_ended = true;
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
	r->is_read = true;
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

static void start(struct gate *g)
{
	struct broker *b = g->broker;
	struct run *r = mem_zalloc(sizeof(*r));
	struct error err;
	int rc;

	STAILQ_CONCAT(&g->current, &g->next);
	g->hash = scan(g);
	g->run = r;
	r->gate = g;
	r->handles = 3;
	buf_init(&r->output);
	uv_pipe_init(b->loop, &r->pipe, 0);
	uv_timer_init(b->loop, &r->timer);
	rc = spawn(r, b->loop, b->config.rules_dir);
	if (rc < 0) {
		error_set(&err, TIDE_ERULE, "the specs cannot be run: %s",
			  uv_strerror(rc));
		g->run = NULL;
		close_run(r);
		answer(&g->current, &err);
		return;
	}
	uv_read_start((uv_stream_t *)&r->pipe, on_alloc, on_read);
	uv_timer_start(&r->timer, on_timeout, GATE_TIMEOUT_MS, 0);
}

void gate_ask(struct gate *g, gate_answer_fn on_answer, void *ctx)
{
	const struct error yes = { .code = TIDE_OK };
	struct ask *a;

	if (!g || !g->broker->config.has_rules_gate ||
	    !has_specs(g->broker->config.rules_dir)) {
		on_answer(ctx, &yes);
		return;
	}
	a = mem_zalloc(sizeof(*a));
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
	if (g->run) {
		g->run->gate = NULL;
		uv_kill(-g->run->process.pid, SIGKILL);
		close_run(g->run);
	}
	answer(&g->current, &err);
	answer(&g->next, &err);
	mem_free(g);
}
