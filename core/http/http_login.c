#include "http_login.h"

#include <strings.h>

#include "base/base64.h"
#include "base/mem.h"

/* ---- what the header says ------------------------------------------------------------
 */

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

/* ---- the session ---------------------------------------------------------------------
 */

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
	struct http_login login = c->login;

	c->is_in = !refusal;
	if (c->is_in)
		keep(&c->vhost, session_facts(c->base.session).vhost);
	c->is_shut_out = session_is_shut_out(c->base.session);
	/* The reply is that of the login alone. */
	reply_ok(r);
	if (c->is_login_late) {
		login.on_done(login.ctx, refusal);
		return;
	}
	c->login.on_done = NULL;
	c->login_refusal = refusal ? *refusal : (struct error){ .code = TIDE_OK };
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
	c->is_in = c->is_login_late = false;
	c->login = *l;
	keep(&c->authorization, l->authorization);
	keep(&c->vhost, l->vhost.data ? l->vhost : SLICE("/"));
}

int http_login_start(struct http_conn *c, const struct http_login *l, struct error *err)
{
	struct session_login login = { .on_done = on_done, .ctx = c };
	struct credentials who;
	struct reply *r;
	int rc;

	if (is_in(c, l))
		return TIDE_OK;
	c->is_shut_out = false;
	rc = read_credentials(l->authorization, &who, err);
	if (rc < 0) {
		forget(&who);
		return rc;
	}
	renew(c, l);
	login.user = who.user;
	login.password = who.password;
	login.vhost = buf_slice(&c->vhost);
	login.must_exist = l->must_exist;
	login.is_any_vhost = !l->vhost.data;
	r = reply_create(session_channel(c->base.session, 0), true);
	rc = session_login_start(c->base.session, &login, r, err);
	forget(&who);
	if (rc < 0) {
		reply_ok(r);
		return rc;
	}
	if (c->login.on_done) {
		c->is_login_late = true;
		return TIDE_AGAIN;
	}
	rc = c->login_refusal.code;
	return rc < 0 ? error_set(err, rc, "%s", c->login_refusal.text) : TIDE_OK;
}
