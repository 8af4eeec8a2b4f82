#include "terms.h"

#include <stdio.h>

#include "base/mem.h"
#include "broker.h"
#include "rules/engine/policy.h"
#include "vhost.h"

void terms_deinit(struct terms *t)
{
	config_deinit(&t->config);
	if (t->own)
		config_deinit(t->own);
	mem_free(t->own);
	mem_free(t->policy);
	*t = (struct terms){ 0 };
}

int terms_blame(const char *policy, struct error *err)
{
	const struct error cause = *err;

	return policy ? error_set(err, TIDE_ERULE, "%s: %s", policy, cause.text)
		      : err->code;
}

static const char *kind_name(enum config_kind kind)
{
	return kind == CONFIG_EXCHANGE ? "exchange"
	       : kind == CONFIG_TOPIC  ? "topic"
				       : "queue";
}

int terms_check_option(const char *kind, const struct arg *option, struct error *err)
{
	enum config_kind kinds[] = { CONFIG_QUEUE, CONFIG_TOPIC, CONFIG_EXCHANGE };
	unsigned i = 0;

	while (i < 2 && strcmp(kind, kind_name(kinds[i])) != 0)
		i++;
	return config_check_policy(kinds[i], option, err);
}

static bool has_all_of_place(const struct args *has, const struct args *wanted)
{
	for (size_t i = 0; i < wanted->count; i++) {
		const char *value = args_get(has, wanted->items[i].name);

		if (config_is_of_place(&wanted->items[i]) &&
		    (!value || strcmp(value, wanted->items[i].value) != 0))
			return false;
	}
	return true;
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

/* Is that what a policy may decide?
 * @param own, options  what it was given, and what it makes of it */
static int check_policy(const struct config *has, const struct config *next,
			const struct args *own, const struct args *options,
			struct error *err)
{
	static const char instead[] = "a policy can only refuse that";
	struct error why;

	if (has->kind == CONFIG_EXCHANGE)
		return has->is_durable == next->is_durable &&
				       has_same_args(&has->script_args[SCRIPT_ROUTING],
						     &next->script_args[SCRIPT_ROUTING])
			       ? TIDE_OK
			       : error_set(err, TIDE_ERULE, CONFIG_EXCHANGE_POLICY);
	if (!has_all_of_place(own, options) || !has_all_of_place(options, own))
		return error_set(err, TIDE_ERULE,
				 "it keeps its shards and its sharding, because messages "
				 "are found by them; %s",
				 instead);
	if (config_check_change(has, next, false, &why) == TIDE_OK)
		return TIDE_OK;
	return error_set(err, TIDE_ERULE, "%s; %s", why.text, instead);
}

static int adopt_policy(struct terms *t, const struct args *own,
			const struct policy_call *c, struct error *err)
{
	struct config config;
	struct error why;
	int rc = config_parse(&config, t->config.kind, &c->options, &why);

	if (rc == TIDE_OK) {
		rc = check_policy(&t->config, &config, own, &c->options, &why);
		if (rc < 0)
			config_deinit(&config);
	}
	if (rc < 0)
		return error_set(err, TIDE_ERULE, "%s: %s '%" SLICE_FMT "': %s", c->files,
				 c->kind, SLICE_ARG(c->name), why.text);
	if (t->config.reshard) {
		config.reshard = t->config.reshard;
		config_reshard(&config, config.shards);
	}
	t->own = mem_alloc(sizeof(*t->own));
	*t->own = t->config;
	t->config = config;
	t->policy = mem_strdup(c->files);
	return TIDE_OK;
}

static int ask_policies(const struct vhost *v, const struct terms_spec *spec,
			struct terms *t, struct error *err)
{
	char type[NAME_LEN_MAX + 1];
	struct policy_call c = { .kind = kind_name(t->config.kind),
				 .type = t->config.kind == CONFIG_EXCHANGE ? type : NULL,
				 .vhost = vhost_slice(v),
				 .name = spec->name,
				 .user = spec->user,
				 .watch = spec->watch };
	struct step step = { .kind = STEP_ASK, .script = SCRIPT_DECLARE, .policy = &c };
	struct args own;
	int rc;

	snprintf(type, sizeof(type), "%" SLICE_FMT, SLICE_ARG(spec->type));
	config_options(&t->config, &own);
	args_copy(&c.options, &own);
	step_tell(&v->broker->followers, &step);
	rc = policy_ask(v->broker->engine, &c, err);
	step.kind = STEP_ANSWERED;
	step.error = rc < 0 ? err : NULL;
	step_tell(&v->broker->followers, &step);
	if (rc == TIDE_OK && c.files[0])
		rc = adopt_policy(t, &own, &c, err);
	args_deinit(&c.options);
	args_deinit(&own);
	return rc;
}

int terms_make(const struct vhost *v, const struct terms_spec *spec,
	       struct config *own_take, struct terms *out, struct error *err)
{
	int rc;

	*out = (struct terms){ .config = *own_take };
	if (!broker_has_hook(v->broker, SCRIPT_DECLARE))
		return TIDE_OK;
	rc = ask_policies(v, spec, out, err);
	if (rc < 0)
		terms_deinit(out);
	return rc;
}

int terms_read(const struct vhost *v, const struct terms_spec *spec, struct terms *out,
	       struct error *err)
{
	struct config own;
	bool ignored;
	int rc = config_parse(&own, spec->kind, spec->args, err);

	if (rc == TIDE_OK)
		rc = config_take_reshard(&own, &ignored, err);
	return rc == TIDE_OK ? terms_make(v, spec, &own, out, err) : rc;
}

int terms_merge(const struct vhost *v, const struct terms_spec *spec,
		const struct config *own, struct terms *out, struct error *err)
{
	struct config next;
	struct args args;
	bool ignored;
	int rc = config_merge(own, spec->args, &args, err);

	if (rc < 0)
		return rc;
	rc = config_parse(&next, own->kind, &args, err);
	args_deinit(&args);
	if (rc == TIDE_OK)
		rc = config_take_reshard(&next, &ignored, err);
	if (rc < 0)
		return rc;
	if (own->reshard) {
		next.reshard = own->reshard;
		config_reshard(&next, next.shards);
	}
	return terms_make(v, spec, &next, out, err);
}
