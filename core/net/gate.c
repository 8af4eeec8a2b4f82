#include "gate.h"

#include <stdio.h>

#include "base/mem.h"
#include "conn.h"
#include "host/log.h"
#include "session/service_users.h"
#include "stranger.h"

/* A front is heard once a second. */
#define SILENT_MS 5000

static void refuse(struct gate *g, const struct error *err)
{
	struct conn *c = g->conn;
	struct buf line = { 0 };

	log_warn("%s: closed: %s", c->peer, err->text);
	buf_printf(&line, "ERR %s %s\n", error_wire_code(err->code), err->text);
	out_append_slice(&c->out, buf_slice(&line));
	buf_deinit(&line);
	c->is_brief = true;
	conn_end(c);
}

struct gate *gate_create(struct conn *c)
{
	struct gate *g = mem_zalloc(sizeof(*g));
	struct buf line = { 0 };
	struct error err;

	g->conn = c;
	if (!c->server->is_owner) {
		/* It may be on its way to be the owner, and others know already. */
		out_append_slice(&c->out, SLICE("ERR busy this broker does not own the "
						"store\n"));
		c->is_brief = true;
		conn_end(c);
		return g;
	}
	if (secret_make(LINK_NONCE_BYTES, g->nonce, &err) < 0) {
		refuse(g, &err);
		return g;
	}
	link_write_greeting(&line, g->nonce);
	out_append_slice(&c->out, buf_slice(&line));
	buf_deinit(&line);
	server_due(c->server, c);
	return g;
}

void gate_destroy(struct gate *g)
{
	if (!g)
		return;
	if (g->member.has_joined) {
		log_info("broker: node %llu at %s leaves",
			 (unsigned long long)g->hello.node, g->hello.at);
		service_net_part(g->conn->server->service, &g->member);
	}
	mem_free(g);
}

static void enlist(struct gate *g)
{
	struct net_member *m = &g->member;

	m->node = g->hello.node;
	m->at = g->hello.at;
	m->release = g->hello.release;
	m->is_front = !g->hello.has_own;
	m->cell = g->hello.has_own ? (unsigned)g->hello.own : NET_NO_CELL;
	service_net_join(g->conn->server->service, m);
	if (g->hello.since_unix_ms)
		m->since_unix_ms = (int64_t)g->hello.since_unix_ms;
	log_info("broker: node %llu at %s joins", (unsigned long long)m->node, m->at);
	if (m->node == g->conn->server->config.node)
		log_warn("broker: node %llu is this broker's number too: give each a "
			 "--node of its own, so that LIST brokers tells them apart",
			 (unsigned long long)m->node);
}

static int read_hello(struct gate *g, struct slice line, struct error *err)
{
	struct server *s = g->conn->server;
	struct net_membership m = service_net_membership(s->service, 0);
	int rc = link_read_hello(line, g->nonce, m.secret, &g->hello, err);

	if (rc < 0)
		return rc;
	if (g->hello.is_of_cells && g->hello.cell != s->self.cell)
		return error_set(err, TIDE_EBUSY, "this broker does not own cell %llu",
				 (unsigned long long)g->hello.cell);
	if (g->hello.is_exposed && service_users_is_open(s->service) &&
	    !s->config.is_anonymous)
		return error_set(err, TIDE_EDENIED,
				 "others can reach the front, and no user is defined: "
				 "add one (tidemq user add NAME --tags admin), or say "
				 "--anonymous, so that they may do everything");
	return TIDE_OK;
}

static void take_hello(struct gate *g, struct slice line)
{
	struct conn *c = g->conn;
	struct net_membership m = service_net_membership(c->server->service, 0);
	struct buf answer = { 0 };
	struct error err;

	if (read_hello(g, line, &err) < 0) {
		refuse(g, &err);
		return;
	}
	link_write_answer(&answer, &g->hello, m.secret);
	out_append_slice(&c->out, buf_slice(&answer));
	buf_deinit(&answer);
	g->nonce[0] = '\0';
	server_due(c->server, c);
	if (g->hello.role == LINK_MEMBER) {
		stranger_remove(c);
		enlist(g);
		return;
	}
	snprintf(c->peer, sizeof(c->peer), "%s", g->hello.peer);
	c->is_local = g->hello.is_local;
	c->is_http = g->hello.role == LINK_HTTP;
	conn_begin(c);
}

/* The front ends in order: its clients are told, and what they hold has not failed. */
static void leave(struct gate *g)
{
	struct conn *c;

	TAILQ_FOREACH (c, &g->conn->server->conns, link)
		if (c->gate && c->protocol && !c->is_finishing &&
		    strcmp(c->gate->hello.broker, g->hello.broker) == 0) {
			session_end_waits(c->protocol->session);
			conn_close_with(c, "shutdown the broker is stopping");
		}
}

static void take_line(struct gate *g, struct slice line)
{
	struct slice words = line, word = slice_cut(&words, ' ');
	struct error err;

	if (g->nonce[0])
		take_hello(g, line);
	else if (slice_is(word, "CLIENTS") &&
		 slice_to_uint(words, UINT32_MAX, &g->member.clients))
		return;
	else if (slice_is(word, "LEAVE"))
		leave(g);
	else {
		error_set(&err, TIDE_ESYNTAX, "expected CLIENTS <n> or LEAVE");
		refuse(g, &err);
	}
}

size_t gate_feed(struct gate *g, const char *data, size_t len)
{
	struct conn *c = g->conn;
	const char *eol;
	struct error err;
	size_t at = 0;

	while (!c->protocol && !c->is_finishing && !c->is_closing) {
		eol = memchr(data + at, '\n', len - at);
		if (eol) {
			take_line(g,
				  (struct slice){ data + at, (size_t)(eol - data) - at });
			at = (size_t)(eol - data) + 1;
			continue;
		}
		if (len - at > LINK_LINE_MAX) {
			error_set(&err, TIDE_ETOOLONG,
				  "a line of a broker has at most %d bytes",
				  LINK_LINE_MAX);
			refuse(g, &err);
		}
		break;
	}
	return at;
}

void gate_tick(struct gate *g, int64_t now_ms)
{
	struct conn *c = g->conn;
	struct error err;

	if (c->is_finishing || c->is_closing)
		return;
	if (g->nonce[0] &&
	    now_ms - c->accepted_ms > c->server->config.handshake_timeout_ms) {
		error_set(&err, TIDE_EBUSY,
			  "no broker has said hello within --handshake-timeout");
		refuse(g, &err);
	} else if (g->member.has_joined && now_ms - c->last_read_ms > SILENT_MS) {
		log_warn("broker: node %llu at %s is silent",
			 (unsigned long long)g->hello.node, g->hello.at);
		conn_close(c);
	}
}

void gate_describe(const struct gate *g, struct json *out)
{
	json_member_int(out, "via", (int64_t)g->hello.node);
	if (!g->hello.tls[0])
		return;
	json_member_text(out, "tls", g->hello.tls);
	json_member_text(out, "cipher", g->hello.cipher);
	if (g->hello.certificate[0])
		json_member_text(out, "certificate", g->hello.certificate);
}

void gate_facts(const struct gate *g, struct session_peer *out)
{
	if (!g->hello.tls[0])
		return;
	out->is_tls = true;
	out->certificate = g->hello.certificate[0] ? g->hello.certificate : NULL;
	out->is_certificate_user = g->conn->server->config.is_tls_user;
}
