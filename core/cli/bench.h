/* bench.h: the load generator behind `tidemq bench`.
 *
 * Producers and consumers are clients of the library on one loop. Each message
 * says who sent it, its number and when it was meant to be sent, so that the
 * consumers can check that everything came once and in order, and so that
 * latencies count from the time at which a message was due, not from when a
 * busy sender came to it (coordinated omission). */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/histogram.h"

struct bench_options {
	const char *url;
	const char *queue;   /* names are this, a dash and a number from 1 */
	const char *declare; /* further options of the queues, a space before each */
	unsigned producers;
	unsigned consumers;
	unsigned queues;
	unsigned size;     /* of a payload, BENCH_SIZE_MIN at least */
	unsigned window;   /* unconfirmed messages of a producer */
	unsigned prefetch; /* unacknowledged ones of a consumer */
	uint64_t count;    /* messages in all */
	uint64_t rate;     /* a second, in all; 0 = as fast as it goes */
	bool is_auto_ack;
	bool is_stomp;    /* the workers speak STOMP */
	bool is_topic;    /* topics instead of queues; what follows is for them */
	unsigned readers; /* how often each message is to be received; 1 for queues */
	bool has_groups;  /* the consumers form `readers` groups; else each is a reader */
	const char *from; /* where they begin */
	bool keep;        /* the queues, for a later run */
	bool is_drain;    /* consume what an earlier run left: nothing is known of it */
	FILE *progress;   /* a line now and then; NULL: none */
};
#define BENCH_SIZE_MIN 24
#define BENCH_WORKERS_MAX 1024

struct bench_result {
	uint64_t sent;
	uint64_t confirmed;
	uint64_t received;
	uint64_t duplicates;
	uint64_t missing;
	uint64_t disordered;      /* came after a later one of the same sender */
	double publish_seconds;   /* from the first send to the last confirm */
	double deliver_seconds;   /* from the first send to the last receipt */
	struct histogram confirm; /* from due to confirmed, ns */
	struct histogram deliver; /* from due to received, ns */
	char error[640];
};

/* 0, or -1 with result->error. Free the result's histograms in either case. */
int bench_run(const struct bench_options *options, struct bench_result *result);
void bench_result_deinit(struct bench_result *result);
