#include "simulate_retry.h"

#include "base/duration.h"
#include "base/redelivery.h"
#include "rules/api/decision_context.h"
#include "rules/api/shared.h"
#include "rules/engine/strategy.h"

/* The event loop waits for it. */
#define SIMULATE_MAX_NS (UINT64_C(100) * 1000 * 1000)

struct simulation {
	const struct simulate_spec *spec;
	struct strategy *strategy;
	struct msg *msg;
	struct decision_context context;
	uint64_t end_ns;
	int64_t at_ms; /* of the attempt, from the publication */
	uint32_t attempt;
	struct json *out;
};

/* The consequence of a failure, as in core/broker/retry.c: the delivery limit comes
 * before the script. */
static const char *decide(struct simulation *sim, struct retry_decision *d)
{
	const struct simulate_spec *spec = sim->spec;
	struct failure_view failure = { .reason = spec->reason,
					.attempts = sim->attempt,
					.deliveries = sim->attempt,
					.failures = sim->attempt };
	struct script_question question = { sim->msg, &sim->context };
	struct error err;

	sim->context.now_ms = sim->msg->ts_unix_ms + sim->at_ms + spec->held_ms;
	if (spec->delivery_limit > 0 && sim->attempt >= spec->delivery_limit) {
		d->action = RETRY_DEAD_LETTER;
		json_member_text(sim->out, "by", "delivery-limit");
	} else if (strategy_decide(sim->strategy, &question, &failure, d, &err) !=
		   TIDE_OK) {
		json_member_text(sim->out, "error", err.text);
		return "error";
	}
	return strategy_action_names[d->action];
}

/* As in core/broker/retry.c: the delay that the broker makes of it. */
static int64_t pace(const struct simulation *sim, int64_t delay_ms)
{
	int64_t paced_ms = redelivery_gap_ms(sim->attempt) - sim->spec->held_ms;

	if (paced_ms <= delay_ms)
		return delay_ms;
	json_member_text(sim->out, "by", "pacing");
	return paced_ms;
}

/* The message goes on with the headers that the script wrote. */
static void take_extra(struct simulation *sim, const struct retry_extra *x)
{
	strategy_write_extra(x, sim->out);
	if (!x->msg)
		return;
	msg_unref(sim->msg);
	sim->msg = msg_ref(x->msg);
	msg_write_headers(sim->msg, sim->out);
}

/* One row. Gives how it all ends, or NULL when there is another attempt. */
static const char *attempt(struct simulation *sim)
{
	struct retry_decision d = { .action = RETRY_DROP };

	json_object_begin(sim->out);
	json_member_int(sim->out, "attempt", sim->attempt);
	json_member_int(sim->out, "at_ms", sim->at_ms);
	const char *happens = decide(sim, &d);
	json_member_text(sim->out, "happens", happens);
	if (d.action == RETRY_AFTER) {
		d.delay_ms = pace(sim, d.delay_ms);
		json_member_int(sim->out, "delay_ms", d.delay_ms);
	}
	if (d.extra)
		take_extra(sim, d.extra);
	strategy_extra_unref(d.extra);
	json_object_end(sim->out);
	if (d.action != RETRY_AFTER)
		return happens;
	sim->at_ms += sim->spec->held_ms + d.delay_ms;
	if (sim->at_ms > DURATION_MAX_MS || uv_hrtime() > sim->end_ns)
		return "time";
	return sim->attempt++ == sim->spec->failures_max ? "failures" : NULL;
}

static void simulate(struct simulation *sim)
{
	const char *end = NULL;

	json_object_begin(sim->out);
	json_member_text(sim->out, "script", strategy_script(sim->strategy));
	json_member_text(sim->out, "reason", sim->spec->reason);
	json_member_int(sim->out, "delivery_limit", sim->spec->delivery_limit);
	json_member_array(sim->out, "attempts");
	while (!end)
		end = attempt(sim);
	json_array_end(sim->out);
	json_member_text(sim->out, "end", end);
	json_member_int(sim->out, "end_ms", sim->at_ms);
	json_object_end(sim->out);
}

int simulate_retry(struct engine *e, const struct simulate_spec *spec, struct json *out,
		   struct error *err)
{
	struct simulation sim = { .spec = spec,
				  .end_ns = uv_hrtime() + SIMULATE_MAX_NS,
				  .attempt = 1,
				  .out = out };
	const struct msg msg = { .id = 1,
				 .ts_unix_ms = engine_now_ms(e),
				 .key = SLICE("simulation"),
				 .payload = "" };
	int rc = strategy_create(e,
				 &(struct strategy_spec){ .kind = SCRIPT_RETRY,
							  .name = spec->name,
							  .options = spec->options,
							  .user = "a simulation" },
				 &sim.strategy, err);

	if (rc != TIDE_OK)
		return rc;
	sim.msg = msg_create(&msg);
	if (sim.msg) {
		/* Values in tide.shared are simulated too. */
		sim.context = (struct decision_context){
			.has_random = true,
			.random_state = engine_random_state(e),
			.shared = shared_create(0, 0),
			.is_uncounted = true,
		};
		simulate(&sim);
		shared_destroy(sim.context.shared);
	} else {
		rc = error_set(err, TIDE_EBUSY, "out of memory for a message");
	}
	msg_unref(sim.msg);
	strategy_destroy(sim.strategy);
	return rc;
}
