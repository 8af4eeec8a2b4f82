#include "queue_terms.h"

#include "base/mem.h"
#include "broker.h"
#include "rules/engine/policy.h"
#include "vhost.h"

void queue_terms_deinit(struct queue_terms *t)
{
	queue_config_deinit(&t->config);
	if (t->own)
		queue_config_deinit(t->own);
	mem_free(t->own);
	mem_free(t->policy);
	*t = (struct queue_terms){ 0 };
}

int queue_terms_blame(const char *policy, struct error *err)
{
	const struct error cause = *err;

	return policy ? error_set(err, TIDE_ERULE, "%s: %s", policy, cause.text)
		      : err->code;
}

/* Where messages are said to lie: shards, sharding, sharding.*, reshard */
static bool is_of_place(const struct arg *a)
{
	return strncmp(a->name, "shard", strlen("shard")) == 0 ||
	       strcmp(a->name, "reshard") == 0;
}

int queue_terms_check_option(bool is_topic, const struct arg *option, struct error *err)
{
	const char *why = is_of_place(option)
				  ? "messages are found by it"
				  : queue_config_why_fixed(is_topic, option->name);
	int rc = queue_config_check_option(is_topic, option, err);

	if (rc == TIDE_OK && why)
		rc = error_set(err, TIDE_ESYNTAX,
			       "a policy cannot set %s, because %s; it can only refuse "
			       "what is declared",
			       option->name, why);
	return rc;
}

static bool has_all(const struct args *has, const struct args *wanted)
{
	for (size_t i = 0; i < wanted->count; i++) {
		const char *value = args_get(has, wanted->items[i].name);

		if (is_of_place(&wanted->items[i]) &&
		    (!value || strcmp(value, wanted->items[i].value) != 0))
			return false;
	}
	return true;
}

/* Is that what a policy may decide? */
static int check(const struct queue_terms *t, const struct queue_config *config,
		 const struct args *own, const struct args *options, struct error *err)
{
	static const char instead[] = "a policy can only refuse that";
	struct error why;

	if (!has_all(own, options) || !has_all(options, own))
		return error_set(err, TIDE_ERULE,
				 "it keeps its shards and its sharding, because messages "
				 "are found by them; %s",
				 instead);
	if (queue_config_check_change(&t->config, config, false, &why) == TIDE_OK)
		return TIDE_OK;
	return error_set(err, TIDE_ERULE, "%s; %s", why.text, instead);
}

static int adopt(struct queue_terms *t, const struct args *own,
		 const struct policy_call *c, struct error *err)
{
	struct queue_config config;
	struct error why;
	int rc = t->config.is_topic ? queue_config_parse_topic(&config, &c->options, &why)
				    : queue_config_parse(&config, &c->options, &why);

	if (rc == TIDE_OK) {
		rc = check(t, &config, own, &c->options, &why);
		if (rc < 0)
			queue_config_deinit(&config);
	}
	if (rc < 0)
		return error_set(err, TIDE_ERULE, "%s: %s '%" SLICE_FMT "': %s", c->files,
				 c->kind, SLICE_ARG(c->name), why.text);
	if (t->config.reshard) {
		config.reshard = t->config.reshard;
		queue_config_reshard(&config, config.shards);
	}
	t->own = mem_alloc(sizeof(*t->own));
	*t->own = t->config;
	t->config = config;
	t->policy = mem_strdup(c->files);
	return TIDE_OK;
}

static int ask(const struct vhost *v, const struct queue_terms_spec *spec,
	       struct queue_terms *t, struct error *err)
{
	const struct args none = { 0 };
	struct policy_call c = { .kind = t->config.is_topic ? "topic" : "queue",
				 .vhost = vhost_slice(v),
				 .name = spec->name,
				 .user = spec->user,
				 .watch = spec->watch };
	struct step step = { .kind = STEP_ASK, .script = SCRIPT_DECLARE, .policy = &c };
	struct args own;
	int rc = queue_config_merge(&t->config, &none, &own, err);

	if (rc < 0)
		return rc;
	args_copy(&c.options, &own);
	step_tell(&v->broker->followers, &step);
	rc = policy_ask(v->broker->engine, &c, err);
	step.kind = STEP_ANSWERED;
	step.error = rc < 0 ? err : NULL;
	step_tell(&v->broker->followers, &step);
	if (rc == TIDE_OK && c.files[0])
		rc = adopt(t, &own, &c, err);
	args_deinit(&c.options);
	args_deinit(&own);
	return rc;
}

int queue_terms_make(const struct vhost *v, const struct queue_terms_spec *spec,
		     struct queue_config *own_take, struct queue_terms *out,
		     struct error *err)
{
	int rc;

	*out = (struct queue_terms){ .config = *own_take };
	if (!broker_has_hook(v->broker, SCRIPT_DECLARE))
		return TIDE_OK;
	rc = ask(v, spec, out, err);
	if (rc < 0)
		queue_terms_deinit(out);
	return rc;
}
