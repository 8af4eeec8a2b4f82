/* command_simulate.c: RULES simulate: its words and options. */
#include "command.h"
#include "line.h"
#include "request.h"

#define FAILURES_DEFAULT 100
#define FAILURES_MAX 1000

struct simulate_words {
	struct retry_spec spec;
	struct args queue_options, options;
};

/* The options of the queue, and those of the script, which are written as in DECLARE
 * ("retry.base") or bare. */
static int read_option(struct simulate_words *in, const struct request_option *o,
		       struct error *err)
{
	static const char prefix[] = "retry.";
	bool is_queue =
		slice_is(o->name, "delivery-limit") || slice_is(o->name, "ack-timeout");
	struct slice name = o->name;
	int rc;

	if (slice_is(name, "failures") || slice_is(name, "reason"))
		return TIDE_OK;
	if (slice_has_prefix(name, prefix))
		name = slice_skip(name, sizeof(prefix) - 1);
	rc = args_add(is_queue ? &in->queue_options : &in->options, name, o->value);
	if (rc == TIDE_EEXISTS)
		return error_set(err, TIDE_ESYNTAX, "option '%.*s' appears twice",
				 SLICE_HEAD(name, 64));
	if (rc < 0)
		return error_set(
			err, TIDE_ESYNTAX,
			"option '%.*s' has a name or value that cannot be stored",
			SLICE_HEAD(name, 64));
	return TIDE_OK;
}

static int read_words(struct simulate_words *in, struct request *q, struct error *err)
{
	static const char *const reasons[] = { "nack", "timeout", "gone" };
	const struct request_limits failures = { 1, FAILURES_MAX };

	if (q->word_count < 3 || !slice_is(q->words[1], "retry") ||
	    !slice_is_name(q->words[2]))
		return error_set(err, TIDE_ESYNTAX,
				 "usage: RULES simulate retry <name> [options]");
	in->spec.name = q->words[2];
	in->spec.failures_max =
		(unsigned)request_uint(q, "failures", failures, FAILURES_DEFAULT);
	in->spec.reason = reasons[request_choice(q, "reason", "nack, timeout or gone")];
	for (unsigned i = 0; i < q->option_count && q->rc == TIDE_OK; i++)
		q->rc = read_option(in, &q->options[i], err);
	return q->rc;
}

COMMAND(simulate)
{
	struct simulate_words in = { .spec = { .options = &in.options,
					       .queue_options = &in.queue_options } };
	int rc = read_words(&in, q, err);

	if (rc == TIDE_OK)
		rc = session_rules_simulate(l->session, &in.spec, r, err);
	args_deinit(&in.options);
	args_deinit(&in.queue_options);
	return rc;
}
