/* RULES simulate: who would decide what, and why. Nothing is done. */
#include "access/user.h"
#include "broker/decide.h"
#include "broker/declare.h"
#include "session_private.h"
#include "follow/explanation.h"
#include "rules/engine/auth.h"
#include "rules/engine/policy.h"

/* Login, access. */

/* The script, with the line that decided; a model has that line in a file of its own.
 *
 * @param line  of its function, or where it uses a model */
static void write_by(struct json *j, const char *file, int line, const char *model,
		     const struct line_trace *trace)
{
	struct buf place = { 0 };

	buf_printf(&place, "%s:%d", file, trace->line && !model ? trace->line : line);
	json_member_text(j, "by", buf_cstr(&place));
	buf_deinit(&place);
	if (model)
		json_member_text(j, "model", model);
	explanation_write_lines(j, trace);
}

/* The members "verdict", "by" and "reason" of what a script says. */
static void write_script(struct json *j, int rc, const struct auth_decision *d,
			 const struct line_trace *trace, const struct error *err)
{
	json_member_text(j, "verdict", auth_verdict_name(d->verdict));
	write_by(j, d->file, d->line, d->model, trace);
	if (rc < 0)
		json_member_text(j, "error", err->text);
	else if (d->verdict == AUTH_REFUSE)
		json_member_text(j, "reason", d->reason);
}

static void write_table(struct json *j, const char *verdict, const char *reason)
{
	json_member_text(j, "verdict", verdict);
	json_member_text(j, "by", "table");
	json_member_text(j, "reason", reason);
}

/* An administrator who asks about logins before there are users must not read that
 * all are refused. */
static bool write_open(struct json *j, const struct session *s)
{
	if (s->broker->subjects.must_log_in)
		return false;
	json_member_text(j, "verdict", "allow");
	json_member_text(j, "by", "open");
	json_member_text(j, "reason", "nobody has to log in, since there are no users");
	return true;
}

static void write_limit(struct json *j, const char *name, uint32_t value)
{
	if (value)
		json_member_int(j, name, value);
}

static void write_limits(struct json *j, const struct auth_limits *l)
{
	json_member_object(j, "limits");
	write_limit(j, "max_connections", l->connections);
	write_limit(j, "max_channels", l->channels);
	write_limit(j, "publish_rate", l->publish_rate);
	write_limit(j, "publish_bytes", l->publish_bytes);
	json_object_end(j);
}

static void write_identity(struct json *j, const struct auth_identity *i)
{
	static const char *const names[] = { "configure", "write", "read" };

	json_member_object(j, "user");
	json_member_text(j, "name", i->name);
	json_member_array(j, "tags");
	if (i->tags & AUTH_ADMIN)
		json_text(j, "admin");
	if (i->tags & AUTH_MONITOR)
		json_text(j, "monitor");
	json_array_end(j);
	for (int p = 0; p < AUTH_PATTERN_COUNT; p++)
		json_member_text(j, names[p], i->patterns[p] ? i->patterns[p] : "");
	write_limits(j, &i->limits);
	json_object_end(j);
}

static struct slice vhost_of(const struct session *s, struct slice given)
{
	return given.data ? given : vhost_slice(s->vhost);
}

/* The table's answer to a login that no script has decided, or to `is_let_in`. */
static void write_table_login(struct json *j, const struct session *s, struct slice name,
			      struct slice vhost, bool is_let_in)
{
	const struct user *u = users_find(&s->broker->users, name);

	if (!is_let_in && write_open(j, s))
		return;
	if (!u)
		write_table(j, "refuse", "there is no such user");
	else if (u->unreadable)
		write_table(j, "refuse", u->unreadable);
	else if (!u->tags && !user_grant_find(u, vhost))
		write_table(j, "refuse", "it may not enter the vhost");
	else if (!is_let_in && !u->password)
		write_table(j, "refuse", "it has no password");
	else if (!is_let_in)
		write_table(j, "password", "its password is asked");
}

/* The answer of the scripts of connect/ to a client that is let in. */
static void write_connect(struct json *j, struct engine *e,
			  const struct auth_login *login, struct slice user)
{
	struct auth_login client = *login;
	struct connect_decision d;
	struct error why;
	int rc;

	client.user = user;
	rc = auth_connect(e, &client, &d, &why);
	if (!d.file)
		return;
	json_member_object(j, "connect");
	json_member_text(j, "verdict", d.is_refused ? "refuse" : "allow");
	write_by(j, d.file, d.line, d.model, login->context->trace);
	if (rc < 0)
		json_member_text(j, "error", why.text);
	else if (d.is_refused)
		json_member_text(j, "reason", d.reason);
	if (!d.is_refused && d.name[0])
		json_member_text(j, "name", d.name);
	if (!d.is_refused && d.vhost[0])
		json_member_text(j, "vhost", d.vhost);
	if (!d.is_refused && d.has_limits)
		write_limits(j, &d.limits);
	json_object_end(j);
}

int session_simulate_login(struct session *s, const struct simulate_login *what,
			   struct reply *r, struct error *err)
{
	struct line_trace trace = { 0 };
	struct decision_context context = { .is_dry = true, .trace = &trace };
	struct slice vhost = vhost_of(s, what->vhost);
	static const char *const protocols[] = { "line", "stomp", "amqp", "http" };
	const struct auth_login login = {
		.user = what->user,
		.password = what->password,
		.vhost = vhost,
		.name = what->name,
		.address = what->address,
		.certificate = what->certificate,
		.protocol = protocols[what->protocol],
		.is_tls = what->is_tls,
		.is_local = what->is_local,
		.context = &context,
	};
	struct auth_decision d;
	struct error why;
	struct json j;
	int rc = auth_authenticate(s->broker->engine, &login, &d, &why);

	reply_json(r, &j);
	json_object_begin(&j);
	json_member_string(&j, "vhost", vhost);
	if (rc < 0 || d.verdict != AUTH_NONE)
		write_script(&j, rc, &d, &trace, &why);
	if (rc == TIDE_OK && d.has_identity)
		write_identity(&j, &d.identity);
	else if (rc == TIDE_OK && d.verdict != AUTH_REFUSE)
		write_table_login(&j, s, what->user, vhost, d.verdict == AUTH_ALLOW);
	if (rc == TIDE_OK && d.verdict != AUTH_REFUSE)
		write_connect(&j, s->broker->engine, &login,
			      d.has_identity ? slice_from(d.identity.name) : what->user);
	json_object_end(&j);
	reply_data(r);
	if (rc == TIDE_OK)
		auth_decision_deinit(&d);
	return TIDE_OK;
}

static unsigned tags_of(const struct user *u)
{
	if (!u)
		return 0;
	return (u->tags & USER_ADMIN ? AUTH_ADMIN : 0u) |
	       (u->tags & USER_MONITOR ? AUTH_MONITOR : 0u);
}

static void write_table_access(struct json *j, const struct user *u,
			       const struct simulate_access *what, struct slice vhost)
{
	enum user_action action = (enum user_action)what->action;
	const struct user_grant *grant = u ? user_grant_find(u, vhost) : NULL;

	if (!u)
		write_table(j, "refuse", "there is no such user");
	else if (!grant)
		write_table(j, "refuse", "it has no rights in the vhost");
	else
		write_table(j,
			    user_grant_allows(grant, action, what->name) ? "allow"
									 : "refuse",
			    "its pattern");
	if (grant)
		json_member_text(j, "pattern", grant->patterns[action].text);
}

int session_simulate_access(struct session *s, const struct simulate_access *what,
			    struct reply *r, struct error *err)
{
	static const char *const kinds[] = { "exchange", "queue", "topic", "lock" };
	struct line_trace trace = { 0 };
	struct decision_context context = { .is_dry = true, .trace = &trace };
	struct slice vhost = vhost_of(s, what->vhost);
	const struct user *u = users_find(&s->broker->users, what->user);
	const struct auth_question question = {
		.user = what->user,
		.vhost = vhost,
		.address = what->address,
		.tags = tags_of(u),
		.action = user_action_name((enum user_action)what->action),
		.kind = kinds[what->kind],
		.name = what->name,
		.context = &context,
	};
	struct auth_decision d;
	struct error why;
	struct json j;
	int rc = auth_authorize(s->broker->engine, &question, &d, &why);

	reply_json(r, &j);
	json_object_begin(&j);
	json_member_string(&j, "user", what->user);
	json_member_string(&j, "vhost", vhost);
	json_member_text(&j, "action", question.action);
	json_member_text(&j, "kind", question.kind);
	json_member_string(&j, "name", what->name);
	if (rc < 0 || d.verdict != AUTH_NONE)
		write_script(&j, rc, &d, &trace, &why);
	else if (!write_open(&j, s))
		write_table_access(&j, u, what, vhost);
	json_object_end(&j);
	reply_data(r);
	if (rc == TIDE_OK)
		auth_decision_deinit(&d);
	return TIDE_OK;
}

/* Declare: what policies would make of a DECLARE, and which line says so. */

/* The steps of the policies, as they are told. */
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
