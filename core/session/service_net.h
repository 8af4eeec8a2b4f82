/* service_net.h: what the network side and the service know of each other: what is
 * counted for STATS and /metrics, and since when every client has been heard. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/slice.h"

struct service;

struct net_figures {
	unsigned limit;    /* of open connections */
	uint64_t accepted; /* connections */
	uint64_t refused;  /* of these, at a limit */
	uint64_t bytes_in, bytes_out;
	uint64_t tls_handshakes;   /* that succeeded */
	int64_t tls_until_unix_ms; /* when the certificate ends; 0: there is none */
	uint64_t tls_failures; /* connections that TLS ended, in a handshake or later */
};

/* Sessions of a protocol. Those behind the last one have no name. */
#define NET_PROTOCOLS_MAX 8
struct net_protocol {
	const char *name;
	unsigned open;
};

/* Connections count there themselves. */
struct net_figures *service_net_figures(struct service *s);

/* A broker of the store, for LIST brokers: this one, and those that pass their clients
 * through to it. */
struct net_member {
	TAILQ_ENTRY(net_member) entry;
	uint64_t node;
	const char *at; /* where other brokers reach it; "": nowhere */
	const char *release;
	uint64_t clients; /* connections to its listeners */
	int64_t since_unix_ms;
	unsigned cell; /* that it owns; NET_NO_CELL: none */
	bool is_front;
	bool is_vacant; /* no broker: the cell has no owner */
	bool has_joined;
};
TAILQ_HEAD(net_member_list, net_member);
/* `m` is the caller's. Since when is filled in. */
void service_net_join(struct service *s, struct net_member *m);
/* Does nothing for one that has not joined. */
void service_net_part(struct service *s, struct net_member *m);

#define NET_ADDRESS_MAX 256

/* As store_membership. */
struct net_membership {
	const char *self, *secret;
	const char *owner, *at; /* of the broker that holds the store, if it is another */
	uint64_t node;          /* likewise */
};
struct net_membership service_net_membership(const struct service *s, unsigned cell);
/* As store_cells, store_cell and store_cell_of. */
#define NET_NO_CELL UINT32_MAX
unsigned service_net_cells(const struct service *s);
unsigned service_net_cell(const struct service *s);
unsigned service_net_cell_of(const struct service *s, struct slice vhost);

/* The time up to which everything that clients sent has been read: silence is judged
 * by this. Monotonic, in milliseconds, as uv_now. */
int64_t service_net_heard_ms(const struct service *s);

/* A session of that protocol begins, or ends. `name` lives for ever. */
void service_net_enter(struct service *s, const char *name);
void service_net_leave(struct service *s, const char *name);
