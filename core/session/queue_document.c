#include "queue_document.h"

#include "broker/pause.h"
#include "figures/figure.h"

void queue_document_pause(const struct queue *q, struct json *j)
{
	static const char *const words[] = { "no", "in", "out", "both" };
	static const char *const ends[QUEUE_DIRECTIONS] = { "paused_in_until",
							    "paused_out_until" };
	unsigned which = 0;

	for (int i = 0; i < QUEUE_DIRECTIONS; i++)
		which |= (unsigned)pause_is_on(q, (enum queue_direction)i) << i;
	json_member_text(j, "paused", words[which]);
	for (int i = 0; i < QUEUE_DIRECTIONS; i++)
		if (which & (1u << i) && q->paused_ms[i] != PAUSE_FOREVER)
			json_member_int(j, ends[i], q->paused_ms[i]);
}

void queue_document_rates(struct json *j, const struct rate *in, const struct rate *out)
{
	const struct {
		const char *name;
		const struct rate *rate;
		unsigned seconds;
	} rates[] = {
		{ "in_1s", in, 1 },   { "in_10s", in, 10 },   { "in_60s", in, 60 },
		{ "out_1s", out, 1 }, { "out_10s", out, 10 }, { "out_60s", out, 60 }
	};

	json_member_object(j, "rates");
	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++)
		json_member_number(
			j, rates[i].name,
			figure_round(rate_over(rates[i].rate, rates[i].seconds)));
	json_object_end(j);
}
