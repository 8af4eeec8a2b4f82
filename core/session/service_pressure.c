#include "service_pressure.h"

#include <stdio.h>

#include "host/log.h"
#include "schedule/scheduler.h"
#include "session_private.h"

/* Below these shares of a limit, publishers who were held back go on. */
#define RELIEF(limit) ((limit) / 4 * 3)

void service_pressure_hold(struct service *s)
{
	scheduler_hold(s->scheduler, s->is_blocked || s->broker->refuses_publishes);
}

static void set_blocked(struct service *s, bool is_blocked)
{
	struct session *peer, *next;

	s->is_blocked = is_blocked;
	service_pressure_hold(s);
	if (is_blocked)
		log_warn("publishers and schedules are held back: %s", s->blocked_why);
	else
		log_info("publishers and schedules are no longer held back");
	for (peer = TAILQ_FIRST(&s->sessions); peer; peer = next) {
		next = TAILQ_NEXT(peer, link);
		if (peer->has_published)
			peer->ops->on_blocked(peer->ctx, is_blocked, s->blocked_why);
	}
	if (!is_blocked)
		session_receive_resume(s);
}

size_t service_pressure_memory(const struct service *s)
{
	return s->broker->env.memory_bytes + s->receiving.bytes + s->answer_bytes;
}

void service_pressure_check(struct service *s)
{
	const struct broker *b = s->broker;
	size_t unstored = b->env.unstored_bytes + b->partitions.unstored_bytes;
	size_t unstored_max = b->config.unstored_max_bytes;
	size_t memory = service_pressure_memory(s) - s->receiving.bytes;
	size_t memory_max = b->config.memory_max_bytes;

	if (!s->is_blocked && unstored > unstored_max) {
		snprintf(s->blocked_why, sizeof(s->blocked_why),
			 "%zu MiB are waiting to be written to Redis", unstored >> 20);
		set_blocked(s, true);
	} else if (!s->is_blocked && memory > memory_max) {
		snprintf(s->blocked_why, sizeof(s->blocked_why),
			 "messages fill %zu MiB of memory", memory >> 20);
		set_blocked(s, true);
	} else if (s->is_blocked && unstored <= RELIEF(unstored_max) &&
		   memory <= RELIEF(memory_max)) {
		set_blocked(s, false);
	}
}
