#include "front.h"

#include <stdio.h>
#include <sys/socket.h>

#include "base/mem.h"
#include "conn.h"
#include "host/log.h"
#include "http/http.h"
#include "proto/amqp/amqp.h"
#include "proto/stomp/stomp.h"
#include "stranger.h"
#include "uplink.h"

/* Between two tries to reach an owner that could not be reached. */
#define RETRY_MS 250

struct relay {
	TAILQ_ENTRY(relay) entry;
	struct front *front;
	struct conn *conn;
	struct uplink *up; /* NULL: it waits */
	int64_t since_ms;
	bool is_joined; /* the owner knows the client */
};

TAILQ_HEAD(relay_list, relay);

struct front {
	struct server *server;
	unsigned cell;
	struct tls_context *tls; /* NULL: no owner was at tls: so far */
	char what[32];           /* "the store", "cell 2" */
	/* Of store_membership, as it was in the last turn. */
	char owner[40];
	char at[NET_ADDRESS_MAX];
	struct relay_list waiting; /* without an uplink; the first to come is the first */
	struct relay_list others;
	struct uplink *member;     /* NULL: none */
	bool is_member;            /* the owner knows us */
	struct net_member vacancy; /* that the cell has no owner */
	bool is_unreachable; /* one client tries, the others wait for what it finds */
	int64_t tried_ms, member_tried_ms;
};

static int64_t now_ms(const struct front *f)
{
	return (int64_t)uv_now(f->server->loop);
}

/* The log is told once of each owner. */
static void note_unreachable(struct front *f, const struct error *why)
{
	f->tried_ms = now_ms(f);
	if (!f->is_unreachable)
		log_warn("broker: the owner of %s at %s cannot be reached: %s", f->what,
			 f->at, why->text);
	f->is_unreachable = true;
}

/* The owner is at a listener with TLS: its certificate is verified as clients' ones are.
 */
static int begin_tls(struct front *f, struct error *err)
{
	if (strncmp(f->at, "tls:", 4) != 0 || f->tls)
		return TIDE_OK;
	return tls_context_create_client(&f->server->config.tls, &f->tls, err);
}

static struct uplink *dial(struct front *f, struct uplink_spec *spec, struct error *err)
{
	struct net_membership m = service_net_membership(f->server->service, f->cell);

	if (begin_tls(f, err) < 0)
		return NULL;
	spec->at = f->at;
	spec->tls = f->tls;
	spec->secret = m.secret;
	spec->hello.node = f->server->config.node;
	if (f->server->cells > 1) {
		spec->hello.is_of_cells = true;
		spec->hello.cell = f->cell;
	}
	spec->hello.is_exposed = f->server->config.is_exposed;
	snprintf(spec->hello.broker, sizeof(spec->hello.broker), "%s", m.self);
	return uplink_open(f->server, spec, err);
}

/* ---- clients ---------------------------------------------------------------------- */

static void forget(struct relay *r)
{
	struct front *f = r->front;

	if (r->up) {
		uplink_close(r->up);
		TAILQ_REMOVE(&f->others, r, entry);
	} else {
		TAILQ_REMOVE(&f->waiting, r, entry);
	}
	r->conn->relay = NULL;
	mem_free(r);
}

void relay_destroy(struct relay *r)
{
	if (r)
		forget(r);
}

typedef int claim_fn(const char *data, size_t len);

/* The client has sent something, and little of it was read. */
static bool is_claimed(const struct conn *c, claim_fn *claim)
{
	char head[64];
	uv_os_fd_t fd;
	ssize_t n;

	if (buf_len(&c->in) > 0)
		return claim(c->in.data + c->in.start, buf_len(&c->in)) == 1;
	if (c->tls || uv_fileno(&c->socket.handle, &fd) < 0)
		return false;
	n = recv(fd, head, sizeof(head), MSG_PEEK | MSG_DONTWAIT);
	return n > 0 && claim(head, (size_t)n) == 1;
}

/* Tell the client in its own language. */
static void refuse(struct relay *r, int code, const char *why)
{
	struct conn *c = r->conn;
	const char *word = error_wire_code(code);
	struct buf line = { 0 };

	forget(r);
	if (c->is_http) {
		http_answer_whole(&c->out, 503, word, why);
	} else if (is_claimed(c, stomp_claim)) {
		stomp_answer_whole(&c->out, word, why);
	} else if (is_claimed(c, amqp_claim)) {
		amqp_answer_whole(&c->out, why);
	} else {
		buf_printf(&line, "ERR %s %s\r\n", word, why);
		out_append_slice(&c->out, buf_slice(&line));
		buf_deinit(&line);
	}
	conn_finish(c);
}

static void refuse_late(struct front *f, struct relay *r)
{
	char why[ERROR_TEXT_MAX];

	if (f->owner[0] && !f->at[0])
		snprintf(why, sizeof(why),
			 "the broker that owns %s lets no other in: start it with "
			 "--cluster",
			 f->what);
	else
		snprintf(why, sizeof(why),
			 "no broker owns %s at the moment, or it cannot be "
			 "reached: try again",
			 f->what);
	refuse(r, TIDE_EBUSY, why);
}

/* The client waits again, before those that came later. */
static void wait_again(struct relay *r)
{
	struct relay *before;

	uplink_close(r->up);
	TAILQ_REMOVE(&r->front->others, r, entry);
	r->up = NULL;
	TAILQ_FOREACH_REVERSE(before, &r->front->waiting, relay_list, entry)
	if (before->since_ms <= r->since_ms)
		break;
	if (before)
		TAILQ_INSERT_AFTER(&r->front->waiting, before, r, entry);
	else
		TAILQ_INSERT_HEAD(&r->front->waiting, r, entry);
}

static void on_joined(void *ctx)
{
	struct relay *r = ctx;

	r->is_joined = true;
	r->front->is_unreachable = false;
	server_due(r->conn->server, r->conn);
}

static void on_bytes(void *ctx, const char *data, size_t len)
{
	struct relay *r = ctx;
	struct conn *c = r->conn;

	out_append(&c->out, data, len);
	if (c->out.bytes > c->server->config.output_high_bytes)
		uplink_pause(r->up);
	server_due(c->server, c);
}

static void on_drained(void *ctx)
{
	struct relay *r = ctx;

	server_due(r->conn->server, r->conn);
}

static void on_end(void *ctx, const struct error *why)
{
	struct relay *r = ctx;
	struct conn *c = r->conn;

	if (r->is_joined) {
		/* What the owner has said is still sent. */
		forget(r);
		conn_finish(c);
	} else if (why->code == TIDE_ELIMIT) {
		refuse(r, TIDE_ELIMIT, why->text);
	} else {
		note_unreachable(r->front, why);
		wait_again(r);
	}
}

static const struct uplink_ops client_ops = { on_joined, on_bytes, on_drained, on_end };

static void join(struct relay *r)
{
	struct front *f = r->front;
	struct conn *c = r->conn;
	struct uplink_spec spec = {
		.hello.role = c->is_http ? LINK_HTTP : LINK_LINE,
		.hello.is_local = c->is_local,
		.ops = &client_ops,
		.ctx = r,
	};
	struct link_hello *h = &spec.hello;
	const char *name = c->tls ? tls_peer_name(c->tls) : NULL;
	struct error err;

	snprintf(h->peer, sizeof(h->peer), "%s", c->peer);
	if (c->tls) {
		snprintf(h->tls, sizeof(h->tls), "%s", tls_version(c->tls));
		snprintf(h->cipher, sizeof(h->cipher), "%s", tls_cipher(c->tls));
		snprintf(h->certificate, sizeof(h->certificate), "%s", name ? name : "");
	}
	r->up = dial(f, &spec, &err);
	if (!r->up) {
		note_unreachable(f, &err);
		return;
	}
	TAILQ_REMOVE(&f->waiting, r, entry);
	TAILQ_INSERT_TAIL(&f->others, r, entry);
}

struct relay *relay_create(struct front *f, struct conn *c)
{
	struct relay *r = mem_zalloc(sizeof(*r));

	r->front = f;
	r->conn = c;
	r->since_ms = now_ms(f);
	TAILQ_INSERT_TAIL(&f->waiting, r, entry);
	return r;
}

bool relay_is_held(const struct relay *r)
{
	return !r->is_joined || uplink_is_full(r->up);
}

/* A client with TLS may have sent some behind its handshake. */
size_t relay_feed(struct relay *r, const char *data, size_t len)
{
	if (relay_is_held(r))
		return 0;
	uplink_write(r->up, data, len);
	return len;
}

void relay_end(struct relay *r)
{
	if (r->is_joined)
		uplink_end(r->up);
}

void relay_drained(struct relay *r)
{
	if (r->is_joined)
		uplink_resume(r->up);
}

/* ---- the front itself ---------------------------------------------------------------
 */

static void drop_member(struct front *f)
{
	if (f->member)
		uplink_close(f->member);
	f->member = NULL;
	f->is_member = false;
}

static void say_clients(struct front *f)
{
	struct buf line = { 0 };

	buf_printf(&line, "CLIENTS %llu\n", (unsigned long long)f->server->self.clients);
	uplink_write(f->member, line.data, buf_len(&line));
	buf_deinit(&line);
}

static void on_member(void *ctx)
{
	struct front *f = ctx;

	f->is_member = true;
	f->is_unreachable = false;
	log_info("broker: clients are passed through to the owner of %s at %s", f->what,
		 f->at);
	say_clients(f);
}

static void on_member_bytes(void *ctx, const char *data, size_t len)
{
	struct front *f = ctx;

	log_warn("broker: the owner at %s says: %.*s", f->at,
		 (int)(len < 200 ? len : 200), data);
}

static void on_member_drained(void *ctx)
{
}

static void on_member_end(void *ctx, const struct error *why)
{
	struct front *f = ctx;

	if (!f->is_member)
		note_unreachable(f, why);
	drop_member(f);
}

static const struct uplink_ops member_ops = { on_member, on_member_bytes,
					      on_member_drained, on_member_end };

static void announce(struct front *f)
{
	struct uplink_spec spec = {
		.hello.role = LINK_MEMBER,
		.ops = &member_ops,
		.ctx = f,
	};
	struct link_hello *h = &spec.hello;
	struct error err;

	f->member_tried_ms = now_ms(f);
	snprintf(h->release, sizeof(h->release), "%s", TIDE_VERSION);
	snprintf(h->at, sizeof(h->at), "%s", f->server->config.at);
	h->since_unix_ms = (uint64_t)f->server->self.since_unix_ms;
	if (f->server->is_owner) {
		h->has_own = true;
		h->own = f->server->self.cell;
	}
	f->member = dial(f, &spec, &err);
	if (!f->member)
		note_unreachable(f, &err);
}

/* Nothing that the owner before knew of is of use. */
static void change_owner(struct front *f, const struct net_membership *m)
{
	struct relay *r, *next;

	snprintf(f->owner, sizeof(f->owner), "%s", m->owner);
	snprintf(f->at, sizeof(f->at), "%s", m->at);
	f->is_unreachable = false;
	f->tried_ms = f->member_tried_ms = 0;
	drop_member(f);
	for (r = TAILQ_FIRST(&f->others); r; r = next) {
		struct conn *c = r->conn;

		next = TAILQ_NEXT(r, entry);
		if (!r->is_joined) {
			wait_again(r);
			continue;
		}
		forget(r);
		conn_finish(c);
	}
	if (f->owner[0] && !f->at[0])
		log_warn("broker: node %llu, which owns %s, was started without "
			 "--cluster: clients cannot be passed through to it",
			 (unsigned long long)m->node, f->what);
}

/* Those who look at the list see that a broker is missing. */
static void note_vacancy(struct front *f)
{
	bool is_vacant = !f->owner[0] && f->server->cells > 1;

	if (is_vacant && !f->vacancy.has_joined)
		service_net_join(f->server->service, &f->vacancy);
	else if (!is_vacant && f->vacancy.has_joined)
		service_net_part(f->server->service, &f->vacancy);
}

static bool is_due(const struct front *f, int64_t tried_ms)
{
	return tried_ms == 0 || now_ms(f) - tried_ms >= RETRY_MS;
}

static bool is_late(const struct relay *r)
{
	return now_ms(r->front) - r->since_ms > FRONT_PATIENCE_MS;
}

void front_turn(struct front *f)
{
	struct net_membership m;
	struct relay *r;

	if (!f)
		return;
	m = service_net_membership(f->server->service, f->cell);
	if (strcmp(m.owner, f->owner) != 0)
		change_owner(f, &m);
	note_vacancy(f);
	while ((r = TAILQ_FIRST(&f->waiting)) != NULL && is_late(r))
		refuse_late(f, r);
	if (!f->at[0] || !m.secret[0] || f->server->is_draining)
		return;
	if (!f->member && is_due(f, f->member_tried_ms))
		announce(f);
	while (!f->is_unreachable && (r = TAILQ_FIRST(&f->waiting)) != NULL)
		join(r);
	if (f->is_unreachable && is_due(f, f->tried_ms) &&
	    (r = TAILQ_FIRST(&f->waiting)) != NULL) {
		f->tried_ms = now_ms(f);
		join(r);
	}
}

void front_announce(struct front *f)
{
	drop_member(f);
	f->member_tried_ms = 0;
}

void front_tick(struct front *f)
{
	struct relay *r, *next;

	if (!f)
		return;
	/* An owner that stands still takes connections, and says nothing. */
	for (r = TAILQ_FIRST(&f->others); r; r = next) {
		next = TAILQ_NEXT(r, entry);
		if (!r->is_joined && is_late(r))
			refuse_late(f, r);
	}
	if (f->is_member)
		say_clients(f);
}

void front_drain(struct front *f)
{
	struct relay *r, *next;

	if (f->is_member)
		uplink_write(f->member, "LEAVE\n", 6);
	for (r = TAILQ_FIRST(&f->others); r; r = next) {
		next = TAILQ_NEXT(r, entry);
		if (!r->is_joined)
			wait_again(r);
		else if (!f->is_member)
			relay_end(r);
	}
	while ((r = TAILQ_FIRST(&f->waiting)) != NULL)
		refuse(r, TIDE_ESHUTDOWN, "the broker is stopping");
}

struct front *front_create(struct server *s, unsigned cell)
{
	struct front *f = mem_zalloc(sizeof(*f));

	f->server = s;
	f->cell = cell;
	snprintf(f->what, sizeof(f->what), "the store");
	if (s->cells > 1)
		snprintf(f->what, sizeof(f->what), "cell %u", cell);
	f->vacancy = (struct net_member){
		.at = "", .release = "", .cell = cell, .is_vacant = true
	};
	TAILQ_INIT(&f->waiting);
	TAILQ_INIT(&f->others);
	return f;
}

void front_end(struct front *f)
{
	const struct net_membership nobody = { .owner = "", .at = "" };
	struct relay *r;

	change_owner(f, &nobody);
	service_net_part(f->server->service, &f->vacancy);
	while ((r = TAILQ_FIRST(&f->waiting)) != NULL) {
		struct conn *c = r->conn;

		forget(r);
		if (!f->server->is_closing) {
			conn_begin(c);
			stranger_add(c);
		}
		server_due(c->server, c);
	}
	tls_context_unref(f->tls);
	mem_free(f);
}
