/* worker.c MODE URL QUEUE COUNT WORK_MS: a worker with the C library and its defaults.
 *
 *   sub    take COUNT messages of a subscription, one after the other, each with its ack
 *   get    the same with GET
 *   batch  take ten at a time, work on all, and acknowledge them together
 *   touch  take one message, work COUNT times, and ask for more time after each
 *
 * Each message takes WORK_MS. Prints "payload attempt" for what is done, "late payload"
 * for an ack that came too late. */
#define _DEFAULT_SOURCE
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tidemq/client.h>

#define BATCH 10

static struct tidemq_client *client;
static unsigned work_ms;

static int64_t wait_ms(void)
{
	const char *patience = getenv("TIDE_TEST_PATIENCE");

	return (int64_t)(60000 * (patience ? atof(patience) : 1));
}

static void check(int status, const char *what)
{
	if (status == TIDEMQ_OK)
		return;
	printf("%s: %d %s\n", what, status, tidemq_last_error(client)->text);
	exit(1);
}

static void work(void)
{
	usleep(work_ms * 1000);
}

static struct tidemq_msg *next_message(void)
{
	struct tidemq_msg *m;

	check(tidemq_next(client, wait_ms(), &m), "next");
	return m;
}

static void print_take(struct tidemq_msg *m, int status)
{
	if (status == TIDEMQ_ELEASELOST)
		printf("late %s\n", m->payload);
	else
		printf("%s %u\n", m->payload, m->attempt);
	tidemq_msg_free(m);
}

static void settle_take(struct tidemq_msg *m)
{
	int status = tidemq_ack(client, m);

	if (status != TIDEMQ_ELEASELOST)
		check(status, "ack");
	print_take(m, status);
}

static unsigned get(const char *queue, unsigned max)
{
	const struct tidemq_fetch fetch = {
		.queues = &queue, .queue_count = 1, .max = max, .wait_ms = wait_ms()
	};
	unsigned count;

	check(tidemq_get(client, &fetch, &count), "get");
	return count;
}

/* Tags of one GET follow each other. */
static unsigned do_batch(const char *queue)
{
	struct tidemq_msg *batch[BATCH];
	unsigned count = get(queue, BATCH);
	char line[80];
	int status;

	for (unsigned i = 0; i < count; i++) {
		batch[i] = next_message();
		work();
	}
	if (count == 0)
		return 0;
	snprintf(line, sizeof(line), "ACK %" PRIu64 "-%" PRIu64, batch[0]->tag,
		 batch[count - 1]->tag);
	status = tidemq_request(client, line, NULL, 0, NULL);
	if (status != TIDEMQ_ELEASELOST)
		check(status, "ack");
	for (unsigned i = 0; i < count; i++)
		print_take(batch[i], status);
	return count;
}

static unsigned do_one(void)
{
	struct tidemq_msg *m = next_message();

	work();
	settle_take(m);
	return 1;
}

static void do_long(const char *queue, int count)
{
	get(queue, 1);
	struct tidemq_msg *m = next_message();
	while (count-- > 0) {
		work();
		check(tidemq_touch(client, m, 0), "touch");
	}
	settle_take(m);
}

int main(int argc, char **argv)
{
	struct tidemq_error err;

	signal(SIGPIPE, SIG_IGN);
	if (argc != 6)
		return 2;
	const char *mode = argv[1], *queue = argv[3];
	int left = atoi(argv[4]);
	work_ms = (unsigned)atoi(argv[5]);
	client = tidemq_connect(argv[2], NULL, &err);
	if (!client) {
		printf("%s\n", err.text);
		return 1;
	}
	const struct tidemq_subscription s = { .queue = queue, .sid = "worker" };
	if (strcmp(mode, "sub") == 0)
		check(tidemq_subscribe(client, &s), "subscribe");
	if (strcmp(mode, "touch") == 0) {
		do_long(queue, left);
		left = 0;
	}
	while (left > 0) {
		if (strcmp(mode, "batch") == 0) {
			left -= (int)do_batch(queue);
			continue;
		}
		if (strcmp(mode, "get") == 0)
			get(queue, 1);
		left -= (int)do_one();
	}
	tidemq_disconnect(client);
	return 0;
}
