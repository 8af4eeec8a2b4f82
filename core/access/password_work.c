#include "password_work.h"

#include <stdio.h>

#include "base/mem.h"

struct password_job {
	STAILQ_ENTRY(password_job) link;
	uv_work_t work;
	struct password_work *owner;
	password_work_fn on_done; /* NULL: nobody waits for it any more */
	void *ctx;
	bool is_hash;
	/* Of the thread, while it runs. */
	char text[PASSWORD_TEXT_MAX];
	struct error err;
	bool is_right;
	size_t password_len;
	char password[];
};

void password_work_init(struct password_work *w, uv_loop_t *loop)
{
	*w = (struct password_work){ .loop = loop };
	STAILQ_INIT(&w->waiting);
}

static void destroy(struct password_job *job)
{
	password_wipe(job->password, job->password_len);
	mem_free(job);
}

/* On a thread. */
static void on_work(uv_work_t *work)
{
	struct password_job *job = work->data;
	struct slice password = { job->password, job->password_len };

	if (!job->is_hash)
		job->is_right = password_is_right(password, job->text);
	else if (password_hash(password, job->text, &job->err) == TIDE_OK)
		job->err.code = TIDE_OK;
}

static void run_next(struct password_work *w);

static void on_after(uv_work_t *work, int status)
{
	struct password_job *job = work->data;
	struct password_work *w = job->owner;
	const struct password_result result = {
		.status = job->err.code,
		.why = job->err.text,
		.is_right = job->is_right,
		.text = job->text,
	};

	w->running--;
	if (w->on_closed && w->running == 0) {
		destroy(job);
		w->on_closed(w->ctx);
		return;
	}
	run_next(w);
	if (job->on_done)
		job->on_done(job->ctx, &result);
	destroy(job);
}

static void run_next(struct password_work *w)
{
	struct password_job *job;

	while (w->running < PASSWORD_WORK_MAX &&
	       (job = STAILQ_FIRST(&w->waiting)) != NULL) {
		STAILQ_REMOVE_HEAD(&w->waiting, link);
		if (!job->on_done) {
			destroy(job);
			continue;
		}
		w->running++;
		w->count++;
		/* It fails without a callback alone. */
		uv_queue_work(w->loop, &job->work, on_work, on_after);
	}
}

static struct password_job *begin(struct password_work *w, struct slice password,
				  const char *text, password_work_fn on_done, void *ctx)
{
	struct password_job *job = mem_zalloc(sizeof(*job) + password.len);

	job->owner = w;
	job->on_done = on_done;
	job->ctx = ctx;
	job->work.data = job;
	job->is_hash = !text;
	if (text)
		snprintf(job->text, sizeof(job->text), "%s", text);
	job->password_len = password.len;
	memcpy(job->password, password.data, password.len);
	STAILQ_INSERT_TAIL(&w->waiting, job, link);
	run_next(w);
	return job;
}

struct password_job *password_work_hash(struct password_work *w, struct slice password,
					password_work_fn on_done, void *ctx)
{
	return begin(w, password, NULL, on_done, ctx);
}

struct password_job *password_work_verify(struct password_work *w, struct slice password,
					  const char *text, password_work_fn on_done,
					  void *ctx)
{
	return begin(w, password, text, on_done, ctx);
}

void password_work_cancel(struct password_job *job)
{
	job->on_done = NULL;
}

void password_work_close(struct password_work *w, void (*on_closed)(void *ctx), void *ctx)
{
	struct password_job *job;

	while ((job = STAILQ_FIRST(&w->waiting)) != NULL) {
		STAILQ_REMOVE_HEAD(&w->waiting, link);
		destroy(job);
	}
	w->on_closed = on_closed;
	w->ctx = ctx;
	if (w->running == 0)
		on_closed(ctx);
}
