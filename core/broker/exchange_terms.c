#include "exchange_terms.h"

#include <stdio.h>

#include "base/mem.h"
#include "broker.h"
#include "rules/engine/policy.h"
#include "vhost.h"

#define LIMITS                                                            \
	"a policy sets auto-delete, internal and alternate; it can only " \
	"refuse durable and the options of a type, because bindings are " \
	"kept and indexed by them"

void exchange_terms_deinit(struct exchange_terms *t)
{
	exchange_config_deinit(&t->config);
	if (t->own)
		exchange_config_deinit(t->own);
	mem_free(t->own);
	mem_free(t->policy);
	*t = (struct exchange_terms){ 0 };
}

static bool has_same_args(const struct args *a, const struct args *b)
{
	if (a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++)
		if (strcmp(a->items[i].name, b->items[i].name) != 0 ||
		    strcmp(a->items[i].value, b->items[i].value) != 0)
			return false;
	return true;
}

int exchange_terms_check_option(const struct arg *option, struct error *err)
{
	struct exchange_config config;
	struct args one = { (struct arg *)(uintptr_t)option, 1 };
	int rc = exchange_config_parse(&config, &one, err);

	if (rc == TIDE_OK &&
	    (config.args.count > 0 || strcmp(option->name, "durable") == 0))
		rc = error_set(err, TIDE_ESYNTAX, "%s: " LIMITS, option->name);
	exchange_config_deinit(&config);
	return rc;
}

static int adopt(struct exchange_terms *t, const struct policy_call *c, struct error *err)
{
	struct exchange_config config;
	struct error why;
	int rc = exchange_config_parse(&config, &c->options, &why);

	if (rc == TIDE_OK && (config.is_durable != t->config.is_durable ||
			      !has_same_args(&config.args, &t->config.args))) {
		rc = error_set(&why, TIDE_ERULE, LIMITS);
		exchange_config_deinit(&config);
	}
	if (rc < 0)
		return error_set(err, TIDE_ERULE, "%s: exchange '%" SLICE_FMT "': %s",
				 c->files, SLICE_ARG(c->name), why.text);
	t->own = mem_alloc(sizeof(*t->own));
	*t->own = t->config;
	t->config = config;
	t->policy = mem_strdup(c->files);
	return TIDE_OK;
}

static int ask(const struct vhost *v, const struct exchange_terms_spec *spec,
	       struct exchange_terms *t, struct error *err)
{
	char type[NAME_LEN_MAX + 1];
	struct policy_call c = { .kind = "exchange",
				 .type = type,
				 .vhost = vhost_slice(v),
				 .name = spec->name,
				 .user = spec->user,
				 .watch = spec->watch };
	struct step step = { .kind = STEP_ASK, .script = SCRIPT_DECLARE, .policy = &c };
	int rc;

	snprintf(type, sizeof(type), "%" SLICE_FMT, SLICE_ARG(spec->type));
	exchange_config_options(&t->config, &c.options);
	step_tell(&v->broker->followers, &step);
	rc = policy_ask(v->broker->engine, &c, err);
	step.kind = STEP_ANSWERED;
	step.error = rc < 0 ? err : NULL;
	step_tell(&v->broker->followers, &step);
	if (rc == TIDE_OK && c.files[0])
		rc = adopt(t, &c, err);
	args_deinit(&c.options);
	return rc;
}

int exchange_terms_make(const struct vhost *v, const struct exchange_terms_spec *spec,
			struct exchange_config *own_take, struct exchange_terms *out,
			struct error *err)
{
	int rc;

	*out = (struct exchange_terms){ .config = *own_take };
	if (!broker_has_hook(v->broker, SCRIPT_DECLARE))
		return TIDE_OK;
	rc = ask(v, spec, out, err);
	if (rc < 0)
		exchange_terms_deinit(out);
	return rc;
}
