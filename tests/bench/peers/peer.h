/* peer.h: a message server under measurement, spoken to in its own protocol.
 *
 * The load (load.c) is the same for all: producers with a window of unconfirmed
 * messages, consumers that acknowledge each message, one epoll loop. A driver
 * turns that into the server's bytes, as well as its protocol allows: pipelined,
 * acknowledgements in ranges or batches where there are such.
 *
 * With is_topic the messages stay when they are read. Each consumer then receives all of
 * them: it is the one member of a group of its own, g0, g1, ..., which acknowledges what
 * it receives; or, with is_reader, it reads without a group and acknowledges nothing. */
#ifndef TIDE_BENCH_PEER_H
#define TIDE_BENCH_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum link_role { LINK_SETUP, LINK_PRODUCER, LINK_CONSUMER };

struct load;

/* A connection to the server. */
struct link {
	struct load *load;
	const struct driver *driver;
	enum link_role role;
	unsigned number; /* among those of its role */
	int fd;
	struct buf in;
	struct buf out;
	uint64_t published; /* by this producer */
	uint64_t confirmed;
	uint64_t received;
	uint64_t *due_ns; /* of the unconfirmed, by number modulo the window */
	bool is_ready;    /* the driver's greeting is over */
	/* For the driver's use. */
	uint64_t state[4];
	struct buf scratch;
};

struct driver {
	const char *name;
	unsigned default_port;
	/* Make the empty queue, on a connection of its own, blocking. */
	void (*setup)(struct link *l);
	/* Say what a new connection says; may block on its answers. */
	void (*open)(struct link *l);
	void (*publish)(struct link *l, const char *payload, size_t len);
	/* Take what can be taken from l->in and call load_confirmed, load_received. */
	void (*input)(struct link *l);
	/* The end of a turn for a consumer: acknowledge what was received. */
	void (*settle)(struct link *l);
};

extern const struct driver driver_tidemq, driver_redis, driver_nats, driver_beanstalkd,
	driver_rabbitmq;

struct load_options {
	const char *host;
	unsigned port;
	const char *variant; /* of a driver: "quorum", ... or "" */
	const char *queue;
	unsigned producers, consumers;
	unsigned window, prefetch;
	size_t size;
	uint64_t count;
	uint64_t rate;
	bool is_fill, is_drain;
	bool is_topic, is_reader;
};

struct load {
	const struct load_options *options;
	uint64_t confirmed, received;
};

/* `n` more publishes of this producer are confirmed, in order. */
void load_confirmed(struct link *l, uint64_t n);
/* One that is confirmed out of order, by its number from 0. */
void load_confirmed_one(struct link *l, uint64_t number);
void load_received(struct link *l, const char *payload, size_t len);

/* For setup and open: send l->out, and read until something came. */
void link_flush(struct link *l);
void link_read(struct link *l);
/* A line of l->in without its CRLF, waiting for it; good until the next read. */
const char *link_line(struct link *l);

void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif
