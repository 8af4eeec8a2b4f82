#include "service_net.h"

#include <assert.h>
#include <string.h>

#include "service.h"

struct net_figures *service_net_figures(struct service *s)
{
	return &s->net;
}

int64_t service_net_heard_ms(const struct service *s)
{
	return s->broker->heard_ms;
}

static struct net_protocol *protocol_of(struct service *s, const char *name)
{
	struct net_protocol *p = s->protocols;

	while (p->name && strcmp(p->name, name) != 0)
		p++;
	assert(p < s->protocols + NET_PROTOCOLS_MAX);
	p->name = name;
	return p;
}

void service_net_enter(struct service *s, const char *name)
{
	protocol_of(s, name)->open++;
}

void service_net_leave(struct service *s, const char *name)
{
	protocol_of(s, name)->open--;
}
