/* publish_consume.c [HOST [PORT]]: a blocking client with the C library.
 *
 *     cc publish_consume.c $(pkg-config --cflags --libs tidemq) -o publish_consume
 *
 * or from the source tree, after `make`:
 *
 *     cc -Iinclude examples/c/publish_consume.c build/libtidemq.a \
 *         $(pkg-config --libs libuv openssl) -o publish_consume */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include <tidemq/client.h>

#define QUEUE "example.c"
#define JOBS 3

static void die(struct tidemq_client *c, const char *what)
{
	const struct tidemq_error *err = tidemq_last_error(c);
	fprintf(stderr, "%s: %s %s\n", what, err->word, err->text);
	tidemq_disconnect(c);
	exit(1);
}

static void request(struct tidemq_client *c, const char *line)
{
	if (tidemq_request(c, line, NULL, 0, NULL) != TIDEMQ_OK)
		die(c, line);
}

/* Many publishes are on their way at once. tidemq_flush waits for all confirms. */
static void publish(struct tidemq_client *c)
{
	const struct tidemq_header header = { "type", "text/plain", 10 };
	for (int i = 1; i <= JOBS; i++) {
		char payload[32];
		int len = snprintf(payload, sizeof(payload), "job %d", i);
		const struct tidemq_publication p = { .key = QUEUE,
						      .payload = payload,
						      .payload_len = (size_t)len,
						      .headers = &header,
						      .header_count = 1,
						      .must = true };
		if (tidemq_publish_pipelined(c, &p) != TIDEMQ_OK)
			die(c, "publish");
	}
	if (tidemq_flush(c) != TIDEMQ_OK)
		die(c, "publish");
	printf("published %d messages\n", JOBS);
}

static void consume(struct tidemq_client *c)
{
	struct tidemq_subscription s = { .queue = QUEUE, .sid = "worker", .prefetch = 1 };
	if (tidemq_subscribe(c, &s) != TIDEMQ_OK)
		die(c, "subscribe");
	for (int done = 0; done < JOBS; done++) {
		struct tidemq_msg *m;
		if (tidemq_next(c, 10000, &m) != TIDEMQ_OK)
			die(c, "next");
		printf("got '%s', type %s, attempt %u\n", m->payload,
		       tidemq_msg_header(m, "type"), m->attempt);
		if (tidemq_ack(c, m) != TIDEMQ_OK)
			die(c, "ack");
		tidemq_msg_free(m);
	}
}

int main(int argc, char **argv)
{
	char url[300];
	struct tidemq_error err;
	signal(SIGPIPE, SIG_IGN);
	snprintf(url, sizeof(url), "tide://%s:%s/", argc > 1 ? argv[1] : "127.0.0.1",
		 argc > 2 ? argv[2] : "7310");
	struct tidemq_client *c = tidemq_connect(url, NULL, &err);
	if (!c) {
		fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	request(c, "DECLARE queue " QUEUE " durable=0");
	publish(c);
	consume(c);
	request(c, "DELETE queue " QUEUE);
	tidemq_disconnect(c);
	return 0;
}
