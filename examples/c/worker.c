/* worker.c [URL[,URL...]]: a worker that survives restarts of the broker.
 *
 *     cc worker.c $(pkg-config --cflags --libs tidemq) -o worker
 *
 * or from the source tree, after `make`:
 *
 *     cc -Iinclude examples/c/worker.c build/libtidemq.a \
 *         $(pkg-config --libs libuv openssl) -o worker
 *
 * It takes jobs from the queue example.jobs and puts a result of each into
 * example.results. While it runs, kill the broker and start it again: every job has one
 * result. End it with SIGTERM or Ctrl-C: what it holds then goes back to the queue, and
 * does not count as failed. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <tidemq/client.h>

#define JOBS "example.jobs"
#define RESULTS "example.results"

static volatile sig_atomic_t is_over;

static void on_signal(int number)
{
	(void)number;
	is_over = 1;
}

/* The library connects again by itself. This only says so. */
static void on_state(struct tidemq_client *c, enum tidemq_state state,
		     const struct tidemq_error *why, void *ctx)
{
	static const char *const words[] = { [TIDEMQ_CONNECTED] = "connected",
					     [TIDEMQ_LOST] = "connection lost",
					     [TIDEMQ_RESTORED] = "connected again",
					     [TIDEMQ_GAVE_UP] = "gave up" };
	(void)c;
	(void)ctx;
	fprintf(stderr, "%s%s%s\n", words[state], why->text[0] ? ": " : "", why->text);
}

/* The broker gives a job again when the worker dies, or the connection is lost, before
 * the ack. The result has the id of its job: however often the job is done, the queue
 * takes one result. */
static int publish_result(struct tidemq_client *c, const struct tidemq_msg *job)
{
	char result[200];
	int len = snprintf(result, sizeof(result), "%.100s is done", job->payload);
	const struct tidemq_publication p = { .key = RESULTS,
					      .payload = result,
					      .payload_len = (size_t)len,
					      .dedupe_id = job->id,
					      .must = true };
	return tidemq_publish(c, &p, NULL);
}

/* Did the ack come too late? Then the job is somebody else's, or comes again: this one
 * goes on with the next. */
static int is_late(struct tidemq_client *c, int status)
{
	if (status != TIDEMQ_ELOST && status != TIDEMQ_ELEASELOST)
		return 0;
	fprintf(stderr, "late: %s\n", tidemq_last_error(c)->text);
	return 1;
}

static int work(struct tidemq_client *c)
{
	struct tidemq_msg *job;
	int status = tidemq_next(c, 500, &job);
	if (status == TIDEMQ_ETIMEDOUT)
		return TIDEMQ_OK;
	if (status != TIDEMQ_OK)
		return status;
	status = publish_result(c, job);
	if (status == TIDEMQ_OK)
		status = tidemq_ack(c, job);
	else if (status == TIDEMQ_EREFUSED)
		status = tidemq_nack(c, job, TIDEMQ_NACK_RETRY);
	tidemq_msg_free(job);
	return is_late(c, status) ? TIDEMQ_OK : status;
}

static int run(struct tidemq_client *c)
{
	const struct tidemq_subscription s = { .queue = JOBS, .sid = "worker" };
	int status = tidemq_request(c, "DECLARE queue " JOBS, NULL, 0, NULL);
	if (status == TIDEMQ_OK)
		status = tidemq_request(c, "DECLARE queue " RESULTS, NULL, 0, NULL);
	if (status == TIDEMQ_OK)
		status = tidemq_subscribe(c, &s);
	while (status == TIDEMQ_OK && !is_over)
		status = work(c);
	return status;
}

int main(int argc, char **argv)
{
	/* How long a call waits: longer than the broker may be away. */
	const struct tidemq_options options = { .name = "worker",
						.reconnect = true,
						.request_timeout_ms = 600000,
						.on_state = on_state };
	struct tidemq_error err;
	signal(SIGPIPE, SIG_IGN);
	signal(SIGTERM, on_signal);
	signal(SIGINT, on_signal);
	struct tidemq_client *c =
		tidemq_connect(argc > 1 ? argv[1] : "tide://127.0.0.1/", &options, &err);
	if (!c) {
		fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	int status = run(c);
	if (status != TIDEMQ_OK)
		fprintf(stderr, "%s %s\n", tidemq_last_error(c)->word,
			tidemq_last_error(c)->text);
	tidemq_disconnect(c);
	return status == TIDEMQ_OK ? 0 : 1;
}
