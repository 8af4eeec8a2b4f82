#include <stdio.h>

#include "service.h"
#include "host/log.h"
#include "base/mem.h"
#include "broker/turn.h"
#include "rollout/trials.h"
#include "rollout/history.h"
#include "follow/recent.h"
#include "rollout/replay.h"
#include "rollout/shadow.h"
#include "rollout/upload.h"
#include "rules/sandbox/bundle.h"
#include "rules/sandbox/script.h"
#include "schedule/scheduler.h"
#include "samples.h"
#include "service_events.h"
#include "service_users.h"
#include "service_start.h"
#include "session_private.h"
#include "warnings.h"

static struct service *create(uv_loop_t *loop, const struct broker_config *config,
			      const struct service_hooks *hooks)
{
	struct service *s = mem_zalloc(sizeof(*s));
	struct broker *b = s->broker = broker_create(loop, config);

	s->loop = loop;
	s->hooks = *hooks;
	s->scheduler = scheduler_create(b);
	TAILQ_INIT(&s->sessions);
	TAILQ_INIT(&s->members);
	TAILQ_INIT(&s->settling);
	TAILQ_INIT(&s->transactions.committing);
	TAILQ_INIT(&s->receiving.line);
	pool_init(&s->replies, sizeof(struct reply), 16384);
	rollout_init(&s->rollout, b);
	service_users_init(s);
	s->samples = samples_create(s);
	s->warnings = warnings_create(s);
	return s;
}

static void destroy(struct service *s)
{
	struct broker *b = s->broker;

	samples_destroy(s->samples);
	warnings_destroy(s->warnings);
	service_users_deinit(s);
	tracer_destroy(s->tracer);
	scheduler_destroy(s->scheduler);
	rollout_deinit(&s->rollout);
	bundle_unref(s->directory);
	broker_destroy(b);
	pool_deinit(&s->replies);
	mem_free(s);
}

static void on_timer(uv_timer_t *handle)
{
	struct service *s = handle->data;

	/* The turn comes next. Within this callback it could set the timer anew, and
	 * libuv would call it again and again without ever looking at a socket. */
	s->timer_due_ms = 0;
}

static void on_idle(uv_idle_t *handle)
{
	/* An idle handle keeps the loop from waiting; the turn does the work. */
}

static int64_t next_due_ms(const struct service *s)
{
	const int64_t others[] = {
		scheduler_due_ms(s->scheduler),  service_users_due_ms(s),
		service_users_recheck_due_ms(s), session_allowance_due_ms(s),
		samples_due_ms(s->samples),      tracer_due_ms(s->tracer),
		warnings_due_ms(s->warnings)
	};
	int64_t due_ms = turn_due_ms(s->broker);

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (!due_ms || (others[i] && others[i] < due_ms))
			due_ms = others[i];
	return due_ms;
}

static void arm(struct service *s)
{
	int64_t now_ms = s->broker->now_ms;
	int64_t due_ms = next_due_ms(s);
	bool is_due = due_ms != 0 && due_ms <= now_ms;
	bool is_busy = is_due || turn_is_busy(s->broker) || !TAILQ_EMPTY(&s->settling) ||
		       !TAILQ_EMPTY(&s->transactions.committing) ||
		       service_events_are_due(s);

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

static void enter(struct broker *b, enum turn_part part)
{
	turn_time_enter(&b->turn_time, part, 0, uv_hrtime());
}

/* Describe the time of scripts, of which the parts of the turn have their share. */
static void describe_scripts(const struct script_recent *recent, struct buf *out)
{
	if (recent->sum_ns > 0)
		buf_printf(out, "; scripts in all %.1f ms", (double)recent->sum_ns / 1e6);
	if (recent->longest[0])
		buf_printf(out, ", a call of %s %.1f ms", recent->longest,
			   (double)recent->longest_ns / 1e6);
}

static void end_turn(struct service *s)
{
	struct broker *b = s->broker;
	struct script_recent scripts = { 0 };
	bool is_slow = turn_time_end(&b->turn_time, uv_hrtime());
	struct buf text = { 0 };

	if (b->is_closing || !b->is_started)
		return;
	engine_take_recent(b->engine, &scripts);
	if (!is_slow)
		return;
	turn_time_describe(&b->turn_time, &text);
	describe_scripts(&scripts, &text);
	log_warn("loop: a turn took %.1f ms: %s",
		 (double)turn_time_took_ns(&b->turn_time) / 1e6, buf_cstr(&text));
	buf_deinit(&text);
}

void service_turn(struct service *s)
{
	struct broker *b = s->broker;

	broker_begin(b);
	turn_time_enter(&b->turn_time, TURN_TIMEOUTS, 0, b->pace.began_ns);
	service_users_turn(s);
	session_allowance_turn(s);
	service_users_recheck_turn(s);
	session_settle_turn(s);
	session_transaction_turn(s);
	tracer_turn(s->tracer);
	samples_turn(s->samples);
	warnings_turn(s->warnings);
	rollout_turn(&s->rollout);
	rollout_cells_turn(&s->rollout);
	service_users_follow(s);
	turn_tick(b);
	scheduler_turn(s->scheduler);
	service_events_turn(s);
	enter(b, TURN_DELIVERIES);
	turn_deal(b);
	enter(b, TURN_SENDING);
	s->hooks.on_turn(s->hooks.ctx);
	if (b->is_closing)
		return; /* it was the last turn */
	enter(b, TURN_WRITING);
	turn_flush(b);
	service_pressure_check(s);
	service_pressure_lanes(s);
	arm(s);
}

static void on_prepare(uv_prepare_t *handle)
{
	struct service *s = handle->data;

	service_turn(s);
	end_turn(s);
	/* The loop reads before on_check what was sent by now. */
	s->polled_ms = s->broker->mono_ms;
}

static void on_check(uv_check_t *handle)
{
	struct service *s = handle->data;

	s->broker->heard_ms = s->polled_ms;
	service_turn(s);
	enter(s->broker, TURN_OTHER);
	turn_time_check(&s->broker->turn_time, uv_now(s->loop));
}

static void start_turns(struct service *s)
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

static void stop_turns(struct service *s)
{
	uv_prepare_stop(&s->prepare);
	uv_check_stop(&s->check);
	uv_timer_stop(&s->timer);
	uv_idle_stop(&s->idle);
}

int service_create(struct service **out, uv_loop_t *loop,
		   const struct broker_config *config, const struct service_hooks *hooks,
		   struct error *err)
{
	struct service *s = create(loop, config, hooks);
	int rc = service_start(s, err);

	if (rc < 0) {
		broker_clear(s->broker);
		destroy(s);
		return rc;
	}
	start_turns(s);
	*out = s;
	return TIDE_OK;
}

void service_drain(struct service *s)
{
	broker_drain(s->broker);
}

void service_refuse_publishes(struct service *s, bool is_on, const char *who)
{
	if (s->broker->refuses_publishes == is_on)
		return;
	s->broker->refuses_publishes = is_on;
	service_pressure_hold(s);
	log_info("%s: %s", who,
		 is_on ? "draining: publishes are refused, the rest is served"
		       : "draining ends: publishes are taken again");
}

bool service_is_idle(const struct service *s)
{
	return broker_is_idle(s->broker) &&
	       (!s->broker->env.store || scheduler_is_idle(s->scheduler));
}

static void on_handle_closed(uv_handle_t *handle)
{
	struct service *s = handle->data;
	struct service_hooks hooks = s->hooks;

	if (--s->handles > 0)
		return;
	destroy(s);
	hooks.on_closed(hooks.ctx);
}

static void on_users_closed(void *ctx)
{
	struct service *s = ctx;

	uv_close((uv_handle_t *)&s->timer, on_handle_closed);
	uv_close((uv_handle_t *)&s->prepare, on_handle_closed);
	uv_close((uv_handle_t *)&s->check, on_handle_closed);
	uv_close((uv_handle_t *)&s->idle, on_handle_closed);
}

static void on_engine_closed(void *ctx)
{
	service_users_close(ctx, on_users_closed);
}

/* The answers to what was under way have been given: nothing refers to the
 * model any more. */
static void on_store_closed(void *ctx)
{
	struct service *s = ctx;
	struct broker *b = s->broker;

	broker_set_store(b, NULL);
	broker_clear(b);
	if (b->engine)
		engine_close(b->engine, on_engine_closed, s);
	else
		on_engine_closed(s);
}

void service_close(struct service *s, int64_t grace_ms)
{
	struct broker *b = s->broker;

	if (b->is_closing)
		return;
	id_lease_end(b, service_is_idle(s));
	b->is_closing = b->is_draining = true;
	s->user_changes.is_closing = true;
	stop_turns(s);
	rollout_close(&s->rollout);
	store_close(b->store, grace_ms, on_store_closed, s);
}

void service_close_now(struct service *s)
{
	service_close(s, 0);
	if (s->broker->store)
		store_hurry(s->broker->store);
}

void service_reload_rules(struct service *s)
{
	rollout_reload(&s->rollout);
}

size_t service_body_max(const struct service *s)
{
	return store_body_max(s->broker->store);
}
