/* command_rules.c: RULES and its words. */
#include "command.h"
#include "line.h"
#include "verb.h"

#define RECENT_DEFAULT 20

#define RULES_WORD(name)                                                          \
	static int run_##name(struct line *l, struct request *q, struct reply *r, \
			      struct error *err)

struct rules_word {
	const char *name;
	unsigned words_max; /* after it */
	unsigned words_min;
	const char *option; /* the only one; NULL: none; "*": it looks at them itself */
	int (*run)(struct line *l, struct request *q, struct reply *r, struct error *err);
};

RULES_WORD(reload)
{
	session_rules_reload(l->session, r);
	return TIDE_OK;
}

RULES_WORD(status)
{
	session_rules_status(l->session, r);
	return TIDE_OK;
}

RULES_WORD(log)
{
	session_rules_log(l->session, r);
	return TIDE_OK;
}

RULES_WORD(rollback)
{
	session_rules_rollback(l->session, q->word_count > 1 ? q->words[1] : SLICE(""),
			       r);
	return TIDE_OK;
}

/* A percentage: "10%", "0.5%", or the number alone. */
static int read_share(struct slice s, double *out, struct error *err)
{
	struct slice number = s;
	uint64_t whole = 0, part = 0;
	double unit = 1;
	const char *dot;

	*out = 0; /* the default */
	if (!s.data)
		return TIDE_OK;
	if (number.len && number.data[number.len - 1] == '%')
		number.len--;
	dot = number.len ? memchr(number.data, '.', number.len) : NULL;
	if (dot) {
		struct slice rest = slice_skip(number, (size_t)(dot - number.data) + 1);

		for (size_t i = 0; i < rest.len; i++)
			unit *= 10;
		number.len = (size_t)(dot - number.data);
		if (rest.len > 6 || !slice_to_uint(rest, 999999, &part))
			whole = 101;
	}
	if (whole == 0 && slice_to_uint(number, 100, &whole))
		*out = ((double)whole + (double)part / unit) / 100;
	else
		*out = 0;
	if (*out > 0 && *out <= 1)
		return TIDE_OK;
	return error_set(err, TIDE_ESYNTAX,
			 "share=%.*s: wanted is a percentage above 0, up to 100",
			 SLICE_HEAD(s, 64));
}

RULES_WORD(shadow)
{
	struct slice dir = q->words[1];
	double share;
	int rc = TIDE_OK;

	if (slice_is(dir, "status"))
		session_rules_shadow_status(l->session, r);
	else if (slice_is(dir, "promote"))
		session_rules_shadow_promote(l->session, r);
	else if (slice_is(dir, "drop"))
		session_rules_shadow_drop(l->session, r);
	else if ((rc = read_share(request_option(q, "share"), &share, err)) == TIDE_OK)
		session_rules_shadow(l->session, dir, share, r);
	return rc;
}

RULES_WORD(recent)
{
	uint64_t max = RECENT_DEFAULT;

	if (q->word_count > 1 &&
	    (!slice_to_uint(q->words[1], SESSION_RECENT_MAX, &max) || max == 0))
		return request_refuse(NULL, q->words[1], err, "a number from 1 to %d",
				      SESSION_RECENT_MAX);
	session_rules_recent(l->session, (size_t)max, r);
	return TIDE_OK;
}

RULES_WORD(replay)
{
	session_rules_replay(l->session, q->words[1], r);
	return TIDE_OK;
}

static const struct rules_word words[] = {
	/* clang-format off */
	{ "reload",   0, 0, NULL,    run_reload },
	{ "status",   0, 0, NULL,    run_status },
	{ "log",      0, 0, NULL,    run_log },
	{ "rollback", 1, 0, NULL,    run_rollback },
	{ "shadow",   1, 1, "share", run_shadow },
	{ "recent",   1, 0, NULL,    run_recent },
	{ "replay",   1, 1, NULL,    run_replay },
	{ "simulate", 2, 0, "*",     command_simulate },
	/* clang-format on */
};
#define WORD_COUNT (sizeof(words) / sizeof(words[0]))

static int refuse_extra(const struct rules_word *w, struct slice extra, struct error *err)
{
	return error_set(err, TIDE_ESYNTAX, "RULES does not understand '%.*s' behind %s",
			 SLICE_HEAD(extra, 40), w->name);
}

static int check(const struct rules_word *w, const struct request *q, struct error *err)
{
	unsigned more = q->word_count - 1;

	if (more > w->words_max)
		return refuse_extra(w, q->words[1 + w->words_max], err);
	if (more < w->words_min)
		return error_set(err, TIDE_ESYNTAX, "RULES %s needs a word behind it",
				 w->name);
	for (unsigned i = 0; i < q->option_count; i++) {
		struct slice name = q->options[i].name;

		if (!w->option ||
		    (strcmp(w->option, "*") != 0 && !slice_is(name, w->option)))
			return refuse_extra(w, name, err);
	}
	return TIDE_OK;
}

COMMAND(rules)
{
	for (size_t i = 0; i < WORD_COUNT; i++) {
		int rc;

		if (!slice_is(q->words[0], words[i].name))
			continue;
		rc = check(&words[i], q, err);
		return rc < 0 ? rc : words[i].run(l, q, r, err);
	}
	return error_set(err, TIDE_ESYNTAX,
			 "RULES knows reload, status, log, rollback, shadow, recent, "
			 "replay and simulate");
}
