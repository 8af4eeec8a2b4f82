/* command_rules.c: RULES and its words. */
#include "command.h"
#include "line.h"
#include "verb.h"

#define RECENT_DEFAULT 20

struct rules_word {
	const char *name;
	unsigned words_max; /* after it */
	unsigned words_min;
	const char *option; /* the only one; NULL: none; "*": it looks at them itself */
	void (*run)(struct line *l, struct request *q, struct reply *r);
};

static void run_reload(struct line *l, struct request *q, struct reply *r)
{
	session_rules_reload(l->session, r);
}

static void run_status(struct line *l, struct request *q, struct reply *r)
{
	session_rules_status(l->session, r);
}

static void run_log(struct line *l, struct request *q, struct reply *r)
{
	session_rules_log(l->session, r);
}

static void run_rollback(struct line *l, struct request *q, struct reply *r)
{
	session_rules_rollback(l->session, q->word_count > 1 ? q->words[1] : SLICE(""),
			       r);
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
			 (int)(s.len < 64 ? s.len : 64), s.data);
}

static void run_shadow(struct line *l, struct request *q, struct reply *r)
{
	struct slice dir = q->words[1];
	double share;
	struct error err;

	if (slice_is(dir, "status"))
		session_rules_shadow_status(l->session, r);
	else if (slice_is(dir, "promote"))
		session_rules_shadow_promote(l->session, r);
	else if (slice_is(dir, "drop"))
		session_rules_shadow_drop(l->session, r);
	else if (read_share(request_option(q, "share"), &share, &err) < 0)
		reply_error(r, &err);
	else
		session_rules_shadow(l->session, dir, share, r);
}

static void run_recent(struct line *l, struct request *q, struct reply *r)
{
	uint64_t max = RECENT_DEFAULT;

	if (q->word_count > 1 &&
	    (!slice_to_uint(q->words[1], SESSION_RECENT_MAX, &max) || max == 0))
		reply_refuse(r, TIDE_ESYNTAX, "'%.*s': wanted is a number from 1 to %d",
			     (int)(q->words[1].len < 40 ? q->words[1].len : 40),
			     q->words[1].data, SESSION_RECENT_MAX);
	else
		session_rules_recent(l->session, (size_t)max, r);
}

static void run_replay(struct line *l, struct request *q, struct reply *r)
{
	session_rules_replay(l->session, q->words[1], r);
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

static void refuse_word(struct reply *r)
{
	struct buf names;

	buf_init(&names);
	for (size_t i = 0; i < WORD_COUNT; i++)
		buf_printf(&names, "%s%s",
			   i == 0                ? ""
			   : i == WORD_COUNT - 1 ? " and "
						 : ", ",
			   words[i].name);
	reply_refuse(r, TIDE_ESYNTAX, "RULES knows %s", buf_cstr(&names));
	buf_deinit(&names);
}

static int refuse_extra(const struct rules_word *w, struct slice extra, struct error *err)
{
	return error_set(err, TIDE_ESYNTAX, "RULES does not understand '%.*s' behind %s",
			 (int)(extra.len < 40 ? extra.len : 40), extra.data, w->name);
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
	struct error err;

	for (size_t i = 0; i < WORD_COUNT; i++) {
		if (!slice_is(q->words[0], words[i].name))
			continue;
		if (check(&words[i], q, &err) < 0)
			reply_error(r, &err);
		else
			words[i].run(l, q, r);
		return;
	}
	refuse_word(r);
}
