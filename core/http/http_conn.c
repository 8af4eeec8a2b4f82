#include "http_conn.h"

void http_conn_renew(struct http_conn *c)
{
	struct protocol *p = &c->base;

	session_destroy(p->session);
	p->session = session_create(c->spec.service, c->session_ops, p);
	session_allowance_set_address(p->session, c->spec.address);
	session_publish_hold_never(p->session);
}
