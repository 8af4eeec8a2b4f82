/* RULES simulate: the timetable of a retry script's attempts. */
#include "rules/spec/simulate_retry.h"
#include "broker/broker.h"
#include "session.h"

void session_simulate_retry(struct session *s, const struct simulate_spec *spec,
			    struct reply *r)
{
	struct error err;
	struct buf text;
	struct json j;

	buf_init(&text);
	json_init(&j, &text);
	if (simulate_retry(s->broker->engine, spec, &j, &err) < 0) {
		buf_deinit(&text);
		reply_error(r, &err);
	} else {
		reply_data_take(r, &text);
	}
}
