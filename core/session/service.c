#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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
#include "service_users.h"
#include "service_start.h"
#include "session_private.h"
#include "warnings.h"
#include "access/network.h"
#include "service_net.h"

static struct service *create(uv_loop_t *loop, const struct broker_config *config,
			      const struct service_hooks *hooks)
{
	struct service *s = mem_zalloc(sizeof(*s));
	struct broker *b = s->broker = broker_create(loop, config);

	s->loop = loop;
	s->hooks = *hooks;
	s->scheduler = scheduler_create(b);
	TAILQ_INIT(&s->sessions);
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

static void hold_schedules(struct service *s)
{
	scheduler_hold(s->scheduler, s->is_blocked || s->broker->refuses_publishes);
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
	/* It keeps the loop from waiting; the turn does the work. */
}

static int64_t next_due_ms(const struct service *s)
{
	const int64_t others[] = {
		scheduler_due_ms(s->scheduler), service_users_due_ms(s),
		service_access_due_ms(s),       session_allowance_due_ms(s),
		samples_due_ms(s->samples),     tracer_due_ms(s->tracer),
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
		       !TAILQ_EMPTY(&s->transactions.committing);

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

/* What scripts took, of which the parts of the turn have their share. */
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
	service_access_turn(s);
	session_settle_turn(s);
	session_transaction_turn(s);
	tracer_turn(s->tracer);
	samples_turn(s->samples);
	warnings_turn(s->warnings);
	turn_tick(b);
	scheduler_turn(s->scheduler);
	enter(b, TURN_DELIVERIES);
	turn_deal(b);
	enter(b, TURN_SENDING);
	s->hooks.on_turn(s->hooks.ctx);
	if (b->is_closing)
		return; /* it was the last turn */
	enter(b, TURN_WRITING);
	turn_flush(b);
	service_pressure_check(s);
	arm(s);
}

static void on_prepare(uv_prepare_t *handle)
{
	struct service *s = handle->data;

	service_turn(s);
	end_turn(s);
	/* What has been sent by now, the loop reads before on_check. */
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
	hold_schedules(s);
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

static bool has_limits(const struct user_limits *l)
{
	return l->connections || l->channels || l->publish_rate || l->publish_bytes;
}

int service_address_enter(struct service *s, const char *peer, struct allowance **out,
			  struct error *err)
{
	const struct user_limits *limits = &s->broker->config.address_limits;
	char name[NETWORK_TEXT_MAX];

	*out = NULL;
	if (!has_limits(limits))
		return TIDE_OK;
	network_name(peer, name);
	return allowance_enter(&s->allowances, ALLOWANCE_ADDRESS, slice_from(name),
			       limits, out, err);
}

void service_address_leave(struct service *s, struct allowance *a)
{
	allowance_leave(a, s->broker->mono_ms);
}

struct net_figures *service_net_figures(struct service *s)
{
	return &s->net;
}

int64_t service_net_heard_ms(const struct service *s)
{
	return s->broker->heard_ms;
}

static struct net_protocol *protocol_of(struct service *s, const char *name)
{
	struct net_protocol *p = s->protocols;

	while (p->name && strcmp(p->name, name) != 0)
		p++;
	assert(p < s->protocols + NET_PROTOCOLS_MAX);
	p->name = name;
	return p;
}

void service_net_enter(struct service *s, const char *name)
{
	protocol_of(s, name)->open++;
}

void service_net_leave(struct service *s, const char *name)
{
	protocol_of(s, name)->open--;
}

/* Below these shares of a limit, publishers who were held back go on. */
#define RELIEF(limit) ((limit) / 4 * 3)

static void set_blocked(struct service *s, bool is_blocked)
{
	struct session *peer, *next;

	s->is_blocked = is_blocked;
	hold_schedules(s);
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

#define REASONS_MAX 16

struct reasons {
	unsigned count;
	struct {
		const char *code; /* "store" */
		char text[ERROR_TEXT_MAX];
	} items[REASONS_MAX];
};

static void TIDE_PRINTF(3, 4)
	add(struct reasons *r, const char *code, const char *format, ...)
{
	va_list ap;

	r->items[r->count].code = code;
	va_start(ap, format);
	vsnprintf(r->items[r->count].text, sizeof(r->items[0].text), format, ap);
	va_end(ap);
	r->count++;
}

/* The reason for a connection that was lost has an address in it. */
static void check_store(const struct service *s, struct reasons *r)
{
	const struct store *store = s->broker->store;
	enum store_state state = store_state(store);

	if (state == STORE_STALE)
		add(r, "store", "%s", s->store_state_why);
	for (int kind = 0; kind < STORE_TROUBLES; kind++)
		if (store_has_trouble(store, (enum store_trouble)kind) &&
		    store_trouble_is_total((enum store_trouble)kind))
			add(r, "store", "%s",
			    store_trouble_text((enum store_trouble)kind));
	if (store_unfit(store))
		add(r, "store", "Redis cannot be used now: %s", store_unfit(store));
	else if ((state == STORE_DOWN || state == STORE_FAILED) && r->count == 0)
		add(r, "store",
		    "Redis is away: durable changes wait for it; see whether it runs, "
		    "the log says more");
}

static void find_reasons(const struct service *s, struct reasons *r)
{
	const struct broker *b = s->broker;

	r->count = 0;
	if (!b->is_started) {
		add(r, "starting", "the broker is starting");
		return;
	}
	check_store(s, r);
	if (b->is_draining)
		add(r, "shutdown", "the broker is stopping");
	if (s->is_blocked)
		add(r, "blocked", "publishers are held back: %s", s->blocked_why);
	if (b->refuses_publishes)
		add(r, "draining", "publishes are refused (DRAIN)");
}

bool service_health_is_ready(const struct service *s)
{
	struct reasons r;

	find_reasons(s, &r);
	return r.count == 0;
}

static void write_note(void *ctx, const char *code, const char *text)
{
	struct json *j = ctx;

	json_object_begin(j);
	json_member_text(j, "code", code);
	json_member_text(j, "text", text);
	json_object_end(j);
}

void service_health_write(const struct service *s, bool has_names, struct json *j)
{
	struct reasons r;

	find_reasons(s, &r);
	json_member_bool(j, "ready", r.count == 0);
	json_member_array(j, "reasons");
	for (unsigned i = 0; i < r.count; i++)
		write_note(j, r.items[i].code, r.items[i].text);
	json_array_end(j);
	json_member_array(j, "warnings");
	if (s->broker->is_started)
		warnings_each(s->warnings, has_names, write_note, j);
	json_array_end(j);
}
