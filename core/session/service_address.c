#include "service_address.h"

#include "access/network.h"

static bool has_limits(const struct user_limits *l)
{
	return l->connections || l->channels || l->publish_rate || l->publish_bytes;
}

int service_address_enter(struct service *s, const char *peer, struct allowance **out,
			  struct error *err)
{
	const struct user_limits *limits = &s->broker->config.address_limits;
	char name[NETWORK_TEXT_MAX];

	*out = NULL;
	if (!has_limits(limits))
		return TIDE_OK;
	network_name(peer, name);
	return allowance_enter(&s->allowances, ALLOWANCE_ADDRESS, slice_from(name),
			       limits, out, err);
}

void service_address_leave(struct service *s, struct allowance *a)
{
	allowance_leave(a, s->broker->mono_ms);
}
