#include "command.h"

#include "base/duration.h"
#include "session/session.h"
#include "line.h"
#include "request.h"

#define FAILURES_DEFAULT 100
#define FAILURES_MAX 1000
/* What a queue has when nobody says otherwise; see queue_config.c. */
#define DELIVERY_LIMIT_DEFAULT 20
#define DELIVERY_LIMIT_MAX 1000000
#define ACK_TIMEOUT_DEFAULT_MS 60000
#define ACK_TIMEOUT_MIN_MS 10
#define ACK_TIMEOUT_MAX_MS (24 * 3600 * 1000)

struct simulate_words {
	struct retry_spec spec;
	struct args args;
	int64_t ack_timeout_ms;
};

#define SHORTENED(s) (int)((s).len < 64 ? (s).len : 64), (s).data

static int read_number(const struct request_option *o, unsigned min, unsigned max,
		       unsigned *out, struct error *err)
{
	uint64_t n;

	if (!slice_to_uint(o->value, max, &n) || n < min)
		return error_set(err, TIDE_ESYNTAX,
				 "%.*s=%.*s: wanted is a number from %u to %u",
				 SHORTENED(o->name), SHORTENED(o->value), min, max);
	*out = (unsigned)n;
	return TIDE_OK;
}

static int read_reason(const struct request_option *o, const char **out,
		       struct error *err)
{
	static const char *const reasons[] = { "nack", "timeout", "gone" };

	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
		if (slice_is(o->value, reasons[i])) {
			*out = reasons[i];
			return TIDE_OK;
		}
	}
	return error_set(err, TIDE_ESYNTAX,
			 "reason=%.*s: wanted is nack, timeout or gone",
			 SHORTENED(o->value));
}

static int read_ack_timeout(const struct request_option *o, int64_t *out,
			    struct error *err)
{
	if (duration_parse(o->value, out) == TIDE_OK && *out >= ACK_TIMEOUT_MIN_MS &&
	    *out <= ACK_TIMEOUT_MAX_MS)
		return TIDE_OK;
	return error_set(err, TIDE_ESYNTAX,
			 "ack-timeout=%.*s: wanted is a duration from 10ms to 1d",
			 SHORTENED(o->value));
}

/* An option of the script, written as in DECLARE ("retry.base") or bare. */
static int read_script_option(const struct request_option *o, struct args *out,
			      struct error *err)
{
	static const char prefix[] = "retry.";
	struct slice name = o->name;
	int rc;

	if (slice_has_prefix(name, prefix))
		name = slice_skip(name, sizeof(prefix) - 1);
	rc = args_add(out, name, o->value);
	if (rc == TIDE_EEXISTS)
		return error_set(err, TIDE_ESYNTAX, "option '%.*s' is there twice",
				 SHORTENED(name));
	if (rc < 0)
		return error_set(err, TIDE_ESYNTAX,
				 "option '%.*s' has a name or value that cannot be kept",
				 SHORTENED(name));
	return TIDE_OK;
}

static int read_option(struct simulate_words *in, const struct request_option *o,
		       struct error *err)
{
	if (slice_is(o->name, "failures"))
		return read_number(o, 1, FAILURES_MAX, &in->spec.failures_max, err);
	if (slice_is(o->name, "delivery-limit"))
		return read_number(o, 0, DELIVERY_LIMIT_MAX, &in->spec.delivery_limit,
				   err);
	if (slice_is(o->name, "reason"))
		return read_reason(o, &in->spec.reason, err);
	if (slice_is(o->name, "ack-timeout"))
		return read_ack_timeout(o, &in->ack_timeout_ms, err);
	return read_script_option(o, &in->args, err);
}

static int read_request(struct simulate_words *in, const struct request *q,
			struct error *err)
{
	int rc = TIDE_OK;

	if (q->word_count < 3 || !slice_is(q->words[1], "retry") ||
	    !slice_is_name(q->words[2]))
		return error_set(err, TIDE_ESYNTAX,
				 "wanted is RULES simulate retry <name> [options]");
	in->spec.name = q->words[2];
	for (unsigned i = 0; i < q->option_count && rc == TIDE_OK; i++)
		rc = read_option(in, &q->options[i], err);
	/* A NACK comes when the consumer likes, and here at once. */
	if (strcmp(in->spec.reason, "timeout") == 0)
		in->spec.held_ms = in->ack_timeout_ms;
	return rc;
}

COMMAND(simulate)
{
	struct simulate_words in = { .spec = { .reason = "nack",
					       .failures_max = FAILURES_DEFAULT,
					       .delivery_limit = DELIVERY_LIMIT_DEFAULT },
				     .ack_timeout_ms = ACK_TIMEOUT_DEFAULT_MS };
	struct error err;

	args_init(&in.args);
	in.spec.options = &in.args;
	if (read_request(&in, q, &err) < 0)
		reply_error(r, &err);
	else
		session_rules_simulate(l->session, &in.spec, r);
	args_deinit(&in.args);
}
