#include "shadow_failures.h"

#include "base/mem.h"
#include "recent.h"

void shadow_failures_set(struct shadow_outcome *o, const struct error *err)
{
	o->error = err ? mem_strdup(err->text) : NULL;
}

static void free_errors(struct shadow_failure *f)
{
	mem_free(f->live.error);
	mem_free(f->shadow.error);
}

/* An expired message cannot be returned: a delay dead-letters it. */
static void settle(struct retry_decision *d, const char *reason)
{
	if (strcmp(reason, "expired") == 0 && d->action == RETRY_AFTER)
		d->action = RETRY_DEAD_LETTER;
}

static bool is_same(const struct shadow_outcome *a, const struct shadow_outcome *b)
{
	if (a->error || b->error)
		return a->error && b->error && strcmp(a->error, b->error) == 0;
	return a->decision.action == b->decision.action &&
	       (a->decision.action != RETRY_AFTER ||
		a->decision.delay_ms == b->decision.delay_ms);
}

static void free_sample(struct shadow_failure_sample *sample)
{
	free_errors(&sample->f);
	msg_unref(sample->f.msg);
}

void shadow_failures_add_take(struct shadow_failures *s, struct shadow_failure *f)
{
	struct shadow_failure_sample *sample;

	settle(&f->live.decision, f->failure.reason);
	settle(&f->shadow.decision, f->failure.reason);
	if (is_same(&f->live, &f->shadow)) {
		free_errors(f);
		return;
	}
	s->differing++;
	sample = &s->samples[s->sample_count++ % SHADOW_FAILURE_SAMPLES];
	free_sample(sample);
	sample->f = *f;
	msg_ref(f->msg);
	sample->queue_serial = f->queue->serial;
	sample->vhost = f->queue->vhost;
	sample->broker = f->queue->vhost->broker;
}

void shadow_failures_deinit(struct shadow_failures *s)
{
	for (size_t i = 0; i < SHADOW_FAILURE_SAMPLES; i++)
		free_sample(&s->samples[i]);
}

static void write_outcome(const char *name, const struct shadow_outcome *o,
			  struct json *out)
{
	static const char *const actions[] = {
		[RETRY_AFTER] = "retry",
		[RETRY_BURY] = "bury",
		[RETRY_DEAD_LETTER] = "dead-letter",
		[RETRY_DROP] = "drop",
	};

	json_member_object(out, name);
	if (o->error) {
		json_member_text(out, "code", error_wire_code(TIDE_ERULE));
		json_member_text(out, "error", o->error);
	} else {
		json_member_text(out, "action", actions[o->decision.action]);
	}
	if (!o->error && o->decision.action == RETRY_AFTER)
		json_member_int(out, "delay_ms", o->decision.delay_ms);
	json_object_end(out);
}

static void write_sample(const struct shadow_failure_sample *sample, struct json *out)
{
	const struct shadow_failure *f = &sample->f;
	struct queue *q;

	HASH_FIND(serial_hh, sample->broker->queues_by_serial, &sample->queue_serial,
		  sizeof(sample->queue_serial), q);
	json_object_begin(out);
	json_member_text(out, "queue", q ? q->name : "(deleted)");
	json_member_text(out, "reason", f->failure.reason);
	json_member_int(out, "attempts", f->failure.attempts);
	json_member_int(out, "failures", f->failure.failures);
	recent_write_publish(sample->vhost, f->msg, f->msg->payload_len, out);
	write_outcome("live", &f->live, out);
	write_outcome("shadow", &f->shadow, out);
	json_object_end(out);
}

void shadow_failures_write(const struct shadow_failures *s, struct json *out)
{
	uint64_t first = s->sample_count > SHADOW_FAILURE_SAMPLES
				 ? s->sample_count - SHADOW_FAILURE_SAMPLES
				 : 0;

	json_member_object(out, "failures");
	json_member_int(out, "seen", (int64_t)s->seen);
	json_member_int(out, "compared", (int64_t)s->compared);
	json_member_int(out, "differing", (int64_t)s->differing);
	json_member_array(out, "samples");
	for (uint64_t i = s->sample_count; i > first; i--)
		write_sample(&s->samples[(i - 1) % SHADOW_FAILURE_SAMPLES], out);
	json_array_end(out);
	json_object_end(out);
}
