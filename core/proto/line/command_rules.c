/* command_rules.c: RULES and its words. */
#include "line.h"
#include "verb.h"

#define RECENT_DEFAULT 20
#define FAILURES_DEFAULT 100
#define FAILURES_MAX 1000

#define RULES_WORD(name) \
	static int run_##name(struct line *l, struct request *q, struct reply *r)

struct rules_word {
	const char *name;
	unsigned words_max; /* after it */
	unsigned words_min;
	const char *options; /* NULL: none; "*": it looks at them itself */
	/* Of a word that stands alone. */
	int (*ask)(struct session *s, struct reply *r, struct error *err);
	int (*run)(struct line *l, struct request *q, struct reply *r);
};

RULES_WORD(rollback)
{
	return session_rules_rollback(
		l->base.session, q->word_count > 1 ? q->words[1] : SLICE(""), r, q->err);
}

RULES_WORD(shadow)
{
	struct slice dir = q->words[1];
	double share;
	int rc = TIDE_OK;

	if (q->word_count > 2) {
		if (!slice_is(dir, "promote") || !slice_is(q->words[2], "install"))
			return error_set(q->err, TIDE_ESYNTAX,
					 "usage: RULES shadow promote [install]");
		return session_push_install(l->base.session, r, q->err);
	}
	if (slice_is(dir, "status"))
		rc = session_rules_shadow_status(l->base.session, r, q->err);
	else if (slice_is(dir, "promote"))
		rc = session_rules_shadow_promote(l->base.session, r, q->err);
	else if (slice_is(dir, "drop"))
		rc = session_rules_shadow_drop(l->base.session, r, q->err);
	else if ((rc = session_rules_read_share(request_option(q, "share"), &share,
						q->err)) == TIDE_OK)
		rc = request_option(q, "exclusive").data
			     ? session_push_shadow(l->base.session, dir, share, r, q->err)
			     : session_rules_shadow(l->base.session, dir, share, r,
						    q->err);
	return rc;
}

RULES_WORD(upload)
{
	struct slice text = request_option(q, "text");

	if (slice_is(q->words[1], "begin"))
		return session_push_begin(l->base.session, r, q->err);
	if (slice_is(q->words[1], "done"))
		return session_push_upload(l->base.session, r, q->err);
	if (!text.data)
		return error_set(q->err, TIDE_ESYNTAX,
				 "usage: RULES upload begin, RULES upload <path> "
				 "text=<text>, or RULES upload done");
	return session_push_part(l->base.session, q->words[1], text, r, q->err);
}

RULES_WORD(show)
{
	bool has_source = q->word_count > 2;

	if (has_source && !slice_is(q->words[2], "source"))
		return error_set(q->err, TIDE_ESYNTAX,
				 "usage: RULES show <name> [source]");
	return session_rules_show(l->base.session, q->words[1], has_source, r, q->err);
}

RULES_WORD(eval)
{
	struct slice code = request_option(q, "code");

	if (!code.data)
		return error_set(q->err, TIDE_ESYNTAX, "usage: RULES eval code=<Lua>");
	return session_rules_evaluate(l->base.session, code, r, q->err);
}

RULES_WORD(recent)
{
	uint64_t max = request_count(q, 1, SESSION_RECENT_MAX, RECENT_DEFAULT);

	if (q->rc < 0)
		return q->rc;
	return session_rules_recent(l->base.session, (size_t)max, r, q->err);
}

RULES_WORD(replay)
{
	return session_rules_replay(l->base.session, q->words[1], r, q->err);
}

struct simulate_words {
	struct retry_spec spec;
	struct args queue_options, options;
};

/* The options of the queue, and those of the script, which are written as in DECLARE
 * ("retry.base") or bare. */
static void read_option(struct simulate_words *in, struct request *q,
			const struct request_option *o)
{
	static const char prefix[] = "retry.";
	bool is_queue =
		slice_is(o->name, "delivery-limit") || slice_is(o->name, "ack-timeout");
	struct slice name = o->name;

	if (slice_is(name, "failures") || slice_is(name, "reason"))
		return;
	if (slice_has_prefix(name, prefix))
		name = slice_skip(name, sizeof(prefix) - 1);
	command_add_arg(q, is_queue ? &in->queue_options : &in->options, name, o->value);
}

static int read_words(struct simulate_words *in, struct request *q)
{
	static const char *const reasons[] = { "nack", "timeout", "gone" };
	const struct request_limits failures = { 1, FAILURES_MAX };

	if (q->word_count < 3 || !slice_is(q->words[1], "retry") ||
	    !slice_is_name(q->words[2]))
		return error_set(q->err, TIDE_ESYNTAX,
				 "usage: RULES simulate retry <name> [options], or "
				 "login, access or declare [options]");
	in->spec.name = q->words[2];
	in->spec.failures_max =
		(unsigned)request_uint(q, "failures", failures, FAILURES_DEFAULT);
	in->spec.reason = reasons[request_choice(q, "reason", "nack, timeout or gone")];
	for (unsigned i = 0; i < q->option_count && q->rc == TIDE_OK; i++)
		read_option(in, q, &q->options[i]);
	return q->rc;
}

/* Refuse an option that is not among these words. */
static int check_options(const struct request *q, const char *names)
{
	unsigned index;

	for (unsigned i = 0; i < q->option_count; i++)
		if (!request_find(names, q->options[i].name, &index))
			return error_set(q->err, TIDE_ESYNTAX,
					 "RULES simulate %.*s has no option '%.*s'; it "
					 "has %s",
					 SLICE_HEAD(q->words[1], 20),
					 SLICE_HEAD(q->options[i].name, 40), names);
	return TIDE_OK;
}

/* A name, which must be given. */
static struct slice read_name(struct request *q, const char *option)
{
	struct slice name = request_option(q, option);

	request_check_name(q, name, option);
	return name;
}

static struct slice read_vhost(struct request *q)
{
	struct slice vhost = request_option(q, "vhost");

	if (vhost.data)
		request_check_name(q, vhost, "vhost");
	return vhost;
}

/* RULES simulate login [user=] [pass=] [vhost=] … */
static int simulate_login(struct line *l, struct request *q, struct reply *r)
{
	struct simulate_login what = {
		.user = request_option(q, "user"),
		.password = request_option(q, "pass"),
		.vhost = read_vhost(q),
		.name = request_option(q, "name"),
		.address = request_option(q, "address"),
		.certificate = request_option(q, "certificate"),
		.is_tls = request_choice(q, "tls", "no or yes") == 1,
		.is_local = request_choice(q, "local", "no or yes") == 1,
	};
	static const char *const protocols[] = { "line", "stomp" };

	what.protocol =
		slice_from(protocols[request_choice(q, "protocol", "line or stomp")]);
	if (q->rc == TIDE_OK)
		q->rc = check_options(
			q, "user, pass, vhost, name, address, certificate, protocol, "
			   "tls or local");
	if (q->rc == TIDE_OK)
		q->rc = session_simulate_login(l->base.session, &what, r, q->err);
	return q->rc;
}

static bool has_options(struct request *q, const char *const *names)
{
	while (*names && request_option(q, *names).data)
		names++;
	return !*names;
}

/* RULES simulate access user= action= kind= name= [vhost=] [address=] */
static int simulate_access(struct line *l, struct request *q, struct reply *r)
{
	static const char *const kinds[] = { "exchange", "queue", "topic", "lock" };
	static const char *const needed[] = { "user", "action", "kind", "name", NULL };
	struct simulate_access what = { .address = request_option(q, "address") };

	if (!has_options(q, needed))
		return error_set(q->err, TIDE_ESYNTAX,
				 "RULES simulate access needs user=, action=, kind= and "
				 "name=");
	what.user = read_name(q, "user");
	what.vhost = read_vhost(q);
	what.name = read_name(q, "name");
	what.action = (enum simulate_action)request_choice(q, "action",
							   "configure, write or read");
	what.kind = kinds[request_choice(q, "kind", "exchange, queue, topic or lock")];
	if (q->rc == TIDE_OK)
		q->rc = check_options(q, "user, action, kind, name, vhost or address");
	if (q->rc == TIDE_OK)
		q->rc = session_simulate_access(l->base.session, &what, r, q->err);
	return q->rc;
}

static bool is_of_declare(struct slice option)
{
	return !slice_is(option, "kind") && !slice_is(option, "name") &&
	       !slice_is(option, "type") && !slice_is(option, "user") &&
	       !slice_is(option, "vhost");
}

/* RULES simulate declare kind= name= [type=] [vhost=] [user=] [options of DECLARE] */
static int simulate_declare(struct line *l, struct request *q, struct reply *r)
{
	struct args args = { 0 };
	struct simulate_declare what = { .name = read_name(q, "name"),
					 .type = request_option(q, "type"),
					 .vhost = read_vhost(q),
					 .user = request_option(q, "user"),
					 .args = &args };

	what.kind =
		(enum define_kind)request_choice(q, "kind", "exchange, queue or topic");
	if (q->rc == TIDE_OK && !request_option(q, "kind").data)
		q->rc = error_set(q->err, TIDE_ESYNTAX,
				  "RULES simulate declare needs kind= and name=");
	if (what.type.data)
		request_check_name(q, what.type, "type");
	if (what.user.data)
		request_check_name(q, what.user, "user");
	for (unsigned i = 0; i < q->option_count && q->rc == TIDE_OK; i++)
		if (is_of_declare(q->options[i].name))
			command_add_arg(q, &args, q->options[i].name,
					q->options[i].value);
	if (q->rc == TIDE_OK)
		q->rc = session_simulate_declare(l->base.session, &what, r, q->err);
	args_deinit(&args);
	return q->rc;
}

/* RULES simulate retry <name> [failures=] [reason=] [delivery-limit=] [ack-timeout=]
 * [options of the script] */
static int simulate_retry(struct line *l, struct request *q, struct reply *r)
{
	struct simulate_words in = { .spec = { .options = &in.options,
					       .queue_options = &in.queue_options } };
	int rc = read_words(&in, q);

	if (rc == TIDE_OK)
		rc = session_rules_simulate(l->base.session, &in.spec, r, q->err);
	args_deinit(&in.options);
	args_deinit(&in.queue_options);
	return rc;
}

RULES_WORD(simulate)
{
	bool is_short = q->word_count == 2;

	if (is_short && slice_is(q->words[1], "login"))
		return simulate_login(l, q, r);
	if (is_short && slice_is(q->words[1], "access"))
		return simulate_access(l, q, r);
	if (is_short && slice_is(q->words[1], "declare"))
		return simulate_declare(l, q, r);
	return simulate_retry(l, q, r);
}

static const struct rules_word words[] = {
	/* clang-format off */
	{ "reload",   0, 0, NULL,    session_rules_reload, NULL },
	{ "status",   0, 0, NULL,    session_rules_status, NULL },
	{ "log",      0, 0, NULL,    session_rules_log, NULL },
	{ "rollback", 1, 0, NULL,    NULL, run_rollback },
	{ "show",     2, 1, NULL,    NULL, run_show },
	{ "eval",     0, 0, "code",  NULL, run_eval },
	{ "shadow",   2, 1, "share exclusive", NULL, run_shadow },
	{ "recent",   1, 0, NULL,    NULL, run_recent },
	{ "replay",   1, 1, NULL,    NULL, run_replay },
	{ "simulate", 2, 0, "*",     NULL, run_simulate },
	{ "upload",   1, 1, "text",  NULL, run_upload },
	/* clang-format on */
};
#define WORD_COUNT (sizeof(words) / sizeof(words[0]))

static int refuse_extra(const struct rules_word *w, struct slice extra, struct error *err)
{
	return error_set(err, TIDE_ESYNTAX, "RULES %s does not take '%.*s'", w->name,
			 SLICE_HEAD(extra, 40));
}

static bool takes(const struct rules_word *w, struct slice option)
{
	struct slice rest = w->options ? slice_from(w->options) : SLICE("");

	while (rest.len > 0) {
		struct slice name = slice_cut(&rest, ' ');

		if (slice_is(name, "*") || slice_is_equal(name, option))
			return true;
	}
	return false;
}

static int check(const struct rules_word *w, const struct request *q)
{
	unsigned more = q->word_count - 1;

	if (more > w->words_max)
		return refuse_extra(w, q->words[1 + w->words_max], q->err);
	if (more < w->words_min)
		return error_set(q->err, TIDE_ESYNTAX, "RULES %s needs an argument",
				 w->name);
	for (unsigned i = 0; i < q->option_count; i++) {
		struct slice name = q->options[i].name;

		if (!takes(w, name))
			return refuse_extra(w, name, q->err);
	}
	return TIDE_OK;
}

COMMAND(rules)
{
	for (size_t i = 0; i < WORD_COUNT; i++) {
		int rc;

		if (!slice_is(q->words[0], words[i].name))
			continue;
		rc = check(&words[i], q);
		if (rc < 0)
			return rc;
		return words[i].run ? words[i].run(l, q, r)
				    : words[i].ask(l->base.session, r, q->err);
	}
	return error_set(q->err, TIDE_ESYNTAX,
			 "RULES takes reload, status, show, eval, log, rollback, shadow, "
			 "recent, replay, simulate and upload");
}
