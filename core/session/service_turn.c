#include "service_turn.h"

#include "broker/turn.h"
#include "schedule/scheduler.h"
#include "session_private.h"

static void on_timer(uv_timer_t *handle)
{
	struct service *s = handle->data;

	/* The turn comes next. Within this callback it could set the timer anew, and
	 * libuv would call it again and again without ever looking at a socket. */
	s->timer_due_ms = 0;
}

static void on_idle(uv_idle_t *handle)
{
	/* It keeps the loop from waiting; the turn does the work. */
}

static int64_t next_due_ms(const struct service *s)
{
	int64_t due_ms = turn_due_ms(s->broker);
	int64_t schedule_ms = scheduler_due_ms(s->scheduler);

	return !due_ms || (schedule_ms && schedule_ms < due_ms) ? schedule_ms : due_ms;
}

static void arm(struct service *s)
{
	int64_t now_ms = s->broker->now_ms;
	int64_t due_ms = next_due_ms(s);
	bool is_due = due_ms != 0 && due_ms <= now_ms;
	bool is_busy = is_due || turn_is_busy(s->broker) || !TAILQ_EMPTY(&s->settling);

	if (is_busy && !uv_is_active((uv_handle_t *)&s->idle))
		uv_idle_start(&s->idle, on_idle);
	else if (!is_busy && uv_is_active((uv_handle_t *)&s->idle))
		uv_idle_stop(&s->idle);
	if (is_due)
		due_ms = 0; /* the next turn comes without a timer */
	if (due_ms == s->timer_due_ms)
		return;
	s->timer_due_ms = due_ms;
	if (due_ms == 0)
		uv_timer_stop(&s->timer);
	else
		uv_timer_start(&s->timer, on_timer, (uint64_t)(due_ms - now_ms), 0);
}

void service_turn(struct service *s)
{
	struct broker *b = s->broker;

	broker_begin(b);
	session_settle_turn(s);
	turn_tick(b);
	scheduler_turn(s->scheduler);
	turn_deal(b);
	s->hooks.on_turn(s->hooks.ctx);
	if (b->is_closing)
		return; /* it was the last turn */
	turn_flush(b);
	service_check_pressure(s);
	arm(s);
}

static void on_prepare(uv_prepare_t *handle)
{
	service_turn(handle->data);
}

static void on_check(uv_check_t *handle)
{
	service_turn(handle->data);
}

void service_turn_start(struct service *s)
{
	uv_timer_init(s->loop, &s->timer);
	uv_prepare_init(s->loop, &s->prepare);
	uv_check_init(s->loop, &s->check);
	uv_idle_init(s->loop, &s->idle);
	s->timer.data = s->prepare.data = s->check.data = s->idle.data = s;
	s->handles = 4;
	uv_prepare_start(&s->prepare, on_prepare);
	uv_check_start(&s->check, on_check);
}

void service_turn_stop(struct service *s)
{
	uv_prepare_stop(&s->prepare);
	uv_check_stop(&s->check);
	uv_timer_stop(&s->timer);
	uv_idle_stop(&s->idle);
}

static void on_handle_closed(uv_handle_t *handle)
{
	struct service *s = handle->data;

	if (--s->handles == 0)
		s->on_turns_closed(s);
}

void service_turn_close(struct service *s, void (*on_closed)(struct service *s))
{
	s->on_turns_closed = on_closed;
	uv_close((uv_handle_t *)&s->timer, on_handle_closed);
	uv_close((uv_handle_t *)&s->prepare, on_handle_closed);
	uv_close((uv_handle_t *)&s->check, on_handle_closed);
	uv_close((uv_handle_t *)&s->idle, on_handle_closed);
}
