#include "protocol.h"

#include "session/service_net.h"

void protocol_init(struct protocol *p, const struct protocol_kind *kind,
		   const struct session_ops *ops, const struct protocol_spec *spec)
{
	*p = (struct protocol){
		.kind = kind,
		.out = spec->out,
		.ops = spec->ops,
		.ctx = spec->ctx,
		.payload_max = spec->payload_max,
	};
	p->session = session_create(spec->service, ops, p);
	session_allowance_set_address(p->session, spec->address);
	p->service = spec->service;
	service_net_enter(p->service, kind->name);
}

void protocol_deinit(struct protocol *p)
{
	protocol_received(p);
	msg_unref(p->msg);
	p->msg = NULL;
	session_destroy(p->session);
	p->session = NULL;
	service_net_leave(p->service, p->kind->name);
}

void protocol_receive(struct protocol *p, size_t bytes, size_t missing)
{
	p->received += !p->is_counted;
	p->is_counted = true;
	session_receive_add(p->session, bytes, missing);
}

void protocol_received(struct protocol *p)
{
	if (p->is_counted)
		session_receive_end(p->session);
	p->is_counted = false;
}

char *protocol_direct(struct protocol *p, size_t *len)
{
	if (!p->msg || protocol_missing(p) < PROTOCOL_DIRECT_BYTES)
		return NULL;
	*len = protocol_missing(p);
	return msg_payload_room(p->msg) + p->filled;
}

void protocol_on_progress(void *ctx)
{
	struct protocol *p = ctx;

	p->ops->wake(p->ctx);
}

bool protocol_can_take(void *ctx)
{
	struct protocol *p = ctx;

	return p->ops->can_take(p->ctx);
}

void protocol_describe(void *ctx, struct json *out)
{
	struct protocol *p = ctx;

	json_member_text(out, "protocol", p->kind->name);
	p->ops->describe(p->ctx, out);
}

void protocol_facts(void *ctx, struct session_peer *out)
{
	struct protocol *p = ctx;

	*out = (struct session_peer){ 0 };
	if (p->ops->facts)
		p->ops->facts(p->ctx, out);
	out->protocol = p->kind->name;
}
