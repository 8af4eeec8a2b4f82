/* RULES simulate declare: what the policies of declare/ would make of a DECLARE, and
 * which line says so. Nothing is declared. */
#include "broker/declare.h"
#include "broker/decide.h"
#include "rules/engine/policy.h"
#include "exchange_document.h"
#include "follow/explanation.h"
#include "queue_document.h"
#include "session_private.h"

/* What the policies did, as it is told. */
struct steps {
	struct line_trace trace;
	struct buf text;
	struct json items;
};

/* NULL is null: the default. */
static void add_value(struct json *j, const char *name, const char *value)
{
	json_key(j, name);
	if (value)
		json_text(j, value);
	else
		json_nil(j);
}

static void add_change(struct json *j, const char *name, const char *from, const char *to)
{
	json_object_begin(j);
	json_member_text(j, "option", name);
	add_value(j, "from", from);
	add_value(j, "to", to);
	json_object_end(j);
}

static void add_changes(struct json *j, const struct args *from, const struct args *to)
{
	json_member_array(j, "changes");
	for (size_t i = 0; i < from->count; i++) {
		const struct arg *had = &from->items[i];
		const char *now = args_get(to, had->name);

		if (!now || strcmp(now, had->value) != 0)
			add_change(j, had->name, had->value, now);
	}
	for (size_t i = 0; i < to->count; i++) {
		const struct arg *now = &to->items[i];

		if (!args_get(from, now->name))
			add_change(j, now->name, NULL, now->value);
	}
	json_array_end(j);
}

static void on_step(void *ctx, const struct policy_step *step)
{
	struct steps *s = ctx;
	struct json *j = &s->items;

	json_object_begin(j);
	json_member_text(j, "script", step->file);
	if (step->model)
		json_member_text(j, "model", step->model);
	explanation_write_lines(j, &s->trace);
	if (step->rejected)
		json_member_text(j, "rejected", step->rejected);
	add_changes(j, step->before, step->after);
	json_object_end(j);
}

static int ask_terms(struct vhost *v, const struct simulate_declare *what,
		     const struct policy_watch *w, struct json *j, struct error *err)
{
	static const enum config_kind kinds[] = { [DEFINE_EXCHANGE] = CONFIG_EXCHANGE,
						  [DEFINE_QUEUE] = CONFIG_QUEUE,
						  [DEFINE_TOPIC] = CONFIG_TOPIC };
	const struct terms_spec spec = { .kind = kinds[what->kind],
					 .name = what->name,
					 .type = what->type,
					 .args = what->args,
					 .user = what->user,
					 .watch = w };
	struct terms terms;
	int rc = declare_ask(v, &spec, &terms, err);

	if (rc < 0)
		return rc;
	config_write("declared", terms_own(&terms), j);
	config_write("options", &terms.config, j);
	if (v->broker->engine && what->kind != DEFINE_EXCHANGE)
		rc = queue_check_scripts(v->broker->engine, &terms.config, err);
	terms_deinit(&terms);
	return rc;
}

static bool does_exist(struct vhost *v, const struct simulate_declare *what)
{
	return what->kind == DEFINE_EXCHANGE ? exchange_find(v, what->name) != NULL
					     : queue_find(v, what->name) != NULL;
}

static void add_members(struct vhost *v, const struct simulate_declare *what,
			struct json *j, struct error *err)
{
	static const char *const kinds[] = { [DEFINE_EXCHANGE] = "exchange",
					     [DEFINE_QUEUE] = "queue",
					     [DEFINE_TOPIC] = "topic" };
	struct steps steps = { .items = { .out = &steps.text } };
	struct decision_context context = { .is_dry = true, .trace = &steps.trace };
	const struct policy_watch watch = { &context, on_step, &steps };
	int rc;

	json_member_text(j, "kind", kinds[what->kind]);
	json_member_string(j, "name", what->name);
	json_member_string(j, "vhost", vhost_slice(v));
	json_member_bool(j, "exists", does_exist(v, what));
	rc = ask_terms(v, what, &watch, j, err);
	json_member_list(j, "policies", buf_slice(&steps.text));
	if (rc < 0)
		json_member_text(j, rc == TIDE_EREJECTED ? "rejected" : "error",
				 err->text);
	buf_deinit(&steps.text);
}

int session_simulate_declare(struct session *s, const struct simulate_declare *what,
			     struct reply *r, struct error *err)
{
	struct vhost *v =
		what->vhost.data ? vhost_find(s->broker, what->vhost) : s->vhost;
	struct json j;

	if ((what->kind == DEFINE_EXCHANGE) != (what->type.data != NULL))
		return error_set(err, TIDE_ESYNTAX,
				 "an exchange needs a type, and nothing else has one");
	if (!v)
		return session_missing_vhost(s, what->vhost, err);
	reply_json(r, &j);
	json_object_begin(&j);
	add_members(v, what, &j, err);
	json_object_end(&j);
	reply_data(r);
	return TIDE_OK;
}
