/* fuzz_peers.h: three connections to a broker that keeps nothing. The input is what they
 * send; bytes that are in no UTF-8 text say what happens in between.
 *
 * A fuzzer that includes it says which protocol each speaks, and reads what the broker
 * says. */
#ifndef TIDE_FUZZ_PEERS_H
#define TIDE_FUZZ_PEERS_H

#include "proto/peer.h"

#include <time.h>

#define PEERS 3
#define PAYLOAD_MAX 40000
#define SECOND_MS 1000
#define HOUR_MS (3600 * SECOND_MS)

enum {
	OP_TURN = 0xff,
	OP_NEXT = 0xfe,   /* connection */
	OP_CLOSE = 0xfd,  /* it, and make another */
	OP_SECOND = 0xfc, /* passes */
	OP_HOUR = 0xfb,
	OP_FULL = 0xfa,  /* its output is full, or is so no longer */
	OP_BYTES = 0xf9, /* its input comes byte by byte, or does so no longer */
	OP_FIRST = OP_BYTES
};

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int __real_clock_gettime(clockid_t clock, struct timespec *out);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out);

static struct rig rig;
static struct peer *peers[PEERS];
/* The fuzzer's: which protocol, and whether what the broker said can be read. */
static const struct protocol_kind *kind_of(unsigned i);
static void read_answers(struct peer *p);

static bool is_bytewise[PEERS];
static int64_t passed_ms;

int __wrap_clock_gettime(clockid_t clock, struct timespec *out)
{
	int rc = __real_clock_gettime(clock, out);

	if (clock == CLOCK_REALTIME)
		out->tv_sec += passed_ms / 1000;
	return rc;
}

/* ---- what happens
 * ----------------------------------------------------------------------
 */

static void open_peer(unsigned i)
{
	peers[i] = peer_create_of(&rig, kind_of(i), PAYLOAD_MAX);
	peers[i]->is_direct = i > 0;
	is_bytewise[i] = false;
}

static void close_peer(unsigned i)
{
	read_answers(peers[i]);
	peer_destroy(peers[i]);
}

static void toggle_full(struct peer *p)
{
	p->is_full = !p->is_full;
	if (!p->is_full)
		session_drained(p->protocol->session);
}

static void happen(uint8_t op, unsigned *current)
{
	switch (op) {
	case OP_NEXT:
		*current = (*current + 1) % PEERS;
		break;
	case OP_CLOSE:
		close_peer(*current);
		open_peer(*current);
		break;
	case OP_SECOND:
		passed_ms += SECOND_MS;
		break;
	case OP_HOUR:
		passed_ms += HOUR_MS;
		break;
	case OP_FULL:
		toggle_full(peers[*current]);
		break;
	case OP_BYTES:
		is_bytewise[*current] = !is_bytewise[*current];
		break;
	default:
		rig_settle(&rig);
		/* What was held back goes on. */
		peer_feed(peers[*current], NULL, 0);
		break;
	}
}

static void say(unsigned current, const uint8_t *data, size_t size)
{
	size_t piece = is_bytewise[current] ? 1 : size;

	for (size_t at = 0; at < size; at += piece)
		peer_feed(peers[current], (const char *)data + at, piece);
}

/* ---- one run
 * ------------------------------------------------------------------------------
 */

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct broker_config config;

	(void)argc;
	(void)argv;
	rig_config_init(&config);
	config.window_messages = 64;
	config.memory_max_bytes = 2 << 10;
	config.vhosts_max = 3;
	config.channels_max = 4;
	config.replies_max = 16;
	/* A slow machine is no reason for another course of events. */
	config.rules_budget_ms = 5000;
	rig_init(&rig, &config);
	return 0;
}

static void forget_everything(void)
{
	struct vhost *v, *next;
	struct error err;

	HASH_ITER (hh, rig.service->broker->vhosts, v, next)
		vhost_destroy(v);
	if (vhost_open(rig.service->broker, SLICE("/"), &v, &err) < 0)
		abort();
	rig_settle(&rig);
	if (rig.service->broker->env.memory_bytes != 0) {
		fprintf(stderr, "%zu bytes of messages are left over\n",
			rig.service->broker->env.memory_bytes);
		abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned current = 0;
	size_t from = 0;

	passed_ms = 0;
	for (unsigned i = 0; i < PEERS; i++)
		open_peer(i);
	for (size_t i = 0; i <= size; i++) {
		if (i < size && data[i] < OP_FIRST)
			continue;
		say(current, data + from, i - from);
		happen(i < size ? data[i] : OP_TURN, &current);
		from = i + 1;
	}
	for (unsigned i = 0; i < PEERS; i++) {
		close_peer(i);
		rig_settle(&rig);
	}
	forget_everything();
	return 0;
}

#endif
