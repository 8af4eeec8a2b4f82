/* commands_rules.c: RULES and its words. */
#include "commands.h"
#include "line.h"
#include "simulate.h"
#include "verbs.h"

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

static void run_simulate(struct line *l, struct request *q, struct reply *r)
{
	rules_simulate(l, q, r);
}

static const struct rules_word words[] = {
	{ "reload", 0, 0, NULL, run_reload },    { "status", 0, 0, NULL, run_status },
	{ "log", 0, 0, NULL, run_log },          { "rollback", 1, 0, NULL, run_rollback },
	{ "simulate", 2, 0, "*", run_simulate },
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

static int check(const struct rules_word *w, const struct request *q, struct error *err)
{
	unsigned more = q->word_count - 1;

	if (more < w->words_min || more > w->words_max)
		return error_set(err, TIDE_ESYNTAX,
				 "RULES %s takes %u to %u words behind it, not %u",
				 w->name, w->words_min, w->words_max, more);
	for (unsigned i = 0; i < q->option_count; i++) {
		struct slice name = q->options[i].name;

		if (!w->option ||
		    (strcmp(w->option, "*") != 0 && !slice_is(name, w->option)))
			return error_set(err, TIDE_ESYNTAX,
					 "RULES %s does not understand '%.*s'", w->name,
					 (int)(name.len < 40 ? name.len : 40), name.data);
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
