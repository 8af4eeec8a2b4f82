#include "canary.h"

#include "base/bytes.h"
#include "broker.h"
#include "host/log.h"

bool canary_takes(const struct canary *c, const struct msg *m)
{
	struct slice by = c->header ? msg_header(m, slice_from(c->header)) : m->key;

	return by.data && !canary_is_stopped(c) &&
	       bytes_hash(by.data, by.len) < c->share * 0x1p32;
}

void canary_choose(struct canary *c, struct decide_spec *spec)
{
	if (spec->is_fallen_back || !canary_takes(c, spec->msg))
		return;
	spec->rules = c->rules;
	spec->is_canary = true;
	if (!spec->context)
		spec->context = &c->context;
	else if (!spec->context->shared)
		spec->context->shared = c->context.shared;
}

void canary_fall_back(struct canary *c, struct decide_spec *spec, const struct error *err)
{
	c->failed++;
	if (spec) {
		spec->rules = &c->broker->active_rules;
		spec->is_canary = false;
		spec->is_fallen_back = true;
		if (spec->context == &c->context)
			spec->context = NULL;
	}
	if (c->failed == 1 || canary_is_stopped(c))
		log_warn(
			"rules: the canary has failed %llu times%s, and the active rules "
			"decide instead: %s",
			(unsigned long long)c->failed,
			canary_is_stopped(c) ? " and decides no more" : "", err->text);
}
