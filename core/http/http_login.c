#include "http_login.h"

#include <strings.h>

#include "base/base64.h"
#include "base/mem.h"
#include "http_engine.h"

/* ---- what the header says ---- */

struct credentials {
	char *room;
	size_t room_len;
	struct slice user, password; /* data == NULL: not given */
};

/* The rest behind "Basic ". */
static bool has_scheme(struct slice text, const char *scheme, struct slice *rest)
{
	size_t len = strlen(scheme);

	if (text.len <= len || strncasecmp(text.data, scheme, len) != 0 ||
	    text.data[len] != ' ')
		return false;
	*rest = slice_skip(text, len + 1);
	while (slice_has_prefix(*rest, " "))
		*rest = slice_skip(*rest, 1);
	return true;
}

static int read_basic(struct slice text, struct credentials *out, struct error *err)
{
	struct slice both;
	size_t len;

	out->room_len = text.len;
	out->room = mem_alloc(text.len + 1);
	if (!base64_decode(text, BASE64_STANDARD, out->room, &len))
		return error_set(err, TIDE_EDENIED,
				 "Authorization: Basic needs base64 of user:password");
	both = (struct slice){ out->room, len };
	if (slice_find(both, ':') == len)
		return error_set(err, TIDE_EDENIED,
				 "Authorization: Basic needs a ':' between user and "
				 "password");
	out->user = slice_cut(&both, ':');
	out->password = both;
	/* As a client of the line protocol leaves it out. */
	if (out->user.len == 0)
		out->user.data = NULL;
	return TIDE_OK;
}

static int read_credentials(struct slice text, struct credentials *out, struct error *err)
{
	struct slice rest;

	*out = (struct credentials){ 0 };
	if (!text.data)
		return TIDE_OK;
	if (has_scheme(text, "Basic", &rest))
		return read_basic(rest, out, err);
	if (has_scheme(text, "Bearer", &rest)) {
		out->password = rest; /* a token, for a script of auth/ */
		return TIDE_OK;
	}
	return error_set(err, TIDE_EDENIED,
			 "Authorization must be Basic with user and password, or Bearer "
			 "with a token");
}

static void forget(struct credentials *c)
{
	if (c->room)
		explicit_bzero(c->room, c->room_len);
	mem_free(c->room);
}

/* ---- the session ---- */

static bool is_same(const struct buf *kept, struct slice now)
{
	return slice_is_equal(buf_slice(kept), now);
}

static bool is_in(const struct http_conn *c, const struct http_login *l)
{
	struct error ignored;

	return c->is_in && is_same(&c->authorization, l->authorization) &&
	       (!l->vhost.data || is_same(&c->vhost, l->vhost)) &&
	       session_login_check(c->base.session, &ignored) == TIDE_OK;
}

static void keep(struct buf *to, struct slice text)
{
	buf_clear(to);
	buf_append_slice(to, text);
}

static void on_done(void *ctx, struct reply *r, const struct error *refusal)
{
	struct http_conn *c = ctx;

	c->is_deciding = false;
	c->is_in = !refusal;
	if (refusal)
		c->refusal = *refusal;
	else
		keep(&c->vhost, session_facts(c->base.session).vhost);
	c->is_shut_out = session_is_shut_out(c->base.session);
	/* The reply is that of the login alone. */
	reply_ok(r);
	if (c->request)
		http_engine_queue(c->request);
}

/* Another client, for all that the broker knows. */
static void replace_session(struct http_conn *c)
{
	struct protocol *p = &c->base;

	session_destroy(p->session);
	p->session = session_create(c->spec.service, c->session_ops, p);
	session_allowance_set_address(p->session, c->spec.address);
	session_publish_hold_never(p->session);
}

/* A session that nobody has tried to log in. */
static void renew(struct http_conn *c, const struct http_login *l)
{
	if (c->is_used)
		replace_session(c);
	c->is_used = true;
	c->is_in = false;
	keep(&c->authorization, l->authorization);
	keep(&c->vhost, l->vhost.data ? l->vhost : SLICE("/"));
}

static void start(struct http_conn *c, const struct http_login *l,
		  const struct credentials *who)
{
	struct reply *r;
	struct session_login login = {
		.on_done = on_done,
		.ctx = c,
		.user = who->user,
		.password = who->password,
		.must_exist = l->must_exist,
		.is_any_vhost = !l->vhost.data,
	};

	renew(c, l);
	login.vhost = buf_slice(&c->vhost);
	c->is_deciding = true;
	r = reply_create(session_channel(c->base.session, 0), true);
	if (session_login_start(c->base.session, &login, r, &c->refusal) == TIDE_OK)
		return;
	c->is_deciding = false;
	reply_ok(r);
}

void http_login_start(struct http_conn *c, const struct http_login *l)
{
	struct credentials who;

	if (is_in(c, l))
		return;
	c->is_shut_out = false;
	if (read_credentials(l->authorization, &who, &c->refusal) == TIDE_OK)
		start(c, l, &who);
	forget(&who);
}
