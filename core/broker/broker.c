#include "broker.h"

#include "base/mem.h"
#include "host/log.h"
#include "host/machine.h"
#include "pause.h"
#include "group_pause.h"
#include "delivery.h"
#include "lock.h"
#include "definition.h"
#include "declare.h"
#include "retention.h"
#include "route.h"
#include "rules/api/match_script.h"
#include "rules/api/shared.h"
#include "shard/commit.h"
#include "shard/dedupe.h"
#include "group.h"
#include "topic.h"

void broker_config_init(struct broker_config *c)
{
	*c = (struct broker_config){
		.rules_dir = "rules",
		.lua_dir = "lua",
		.store = { .url = "embedded",
			   .data_dir = "data",
			   .fsync = STORE_FSYNC_ALWAYS,
			   .connect_timeout_ms = 5000,
			   .command_timeout_ms = 30000 },
		.window_messages = 16384,
		.window_bytes = (size_t)16 << 20,
		.parked_messages = 1000000,
		.memory_max_bytes = (size_t)1 << 30,
		.dedupe_window_ms = 120000,
		.dedupe_max_bytes = (size_t)256 << 20,
		.unstored_max_bytes = (size_t)64 << 20,
		.tail_bytes = (size_t)64 << 20,
		.vhosts_max = 256,
		.locks_max = 100000,
		.queues_max = 1000000,
		.groups_max = 1000,
		.exchanges_max = 1000000,
		.bindings_max = 1000000,
		.channels_max = 256,
		.transaction_messages_max = 16384,
		.transaction_bytes_max = (size_t)32 << 20,
		.transactions_bytes_max = (size_t)256 << 20,
		.consumers_max = 65535,
		.replies_max = 16384,
		.rules_memory_bytes = ENGINE_MEMORY_DEFAULT,
		.rules_budget_ms = 50,
		.rules_debounce_ms = 100,
		.rules_watch = true,
		.shared_entries_max = SHARED_ENTRIES_DEFAULT,
		.shared_bytes_max = SHARED_BYTES_DEFAULT,
	};
}

/* Below this it was slewed, and times need not be so exact. */
#define STEP_MS 1000

static void step_wall_clock(struct broker *b, int64_t step_ms)
{
	struct vhost *v, *next_vhost;
	struct queue *q, *next;

	log_warn("the clock was set %s by %lld s: leases do not care, delays and "
		 "expiries do not",
		 step_ms < 0 ? "back" : "forward",
		 (long long)(step_ms < 0 ? -step_ms : step_ms) / 1000);
	lease_step_clock(b, step_ms);
	HASH_ITER (hh, b->vhosts, v, next_vhost)
		HASH_ITER (hh, v->queues, q, next) {
			for (unsigned i = 0; i < q->shard_count; i++)
				shard_step_clock(q->shards[i], step_ms);
			pause_tick(q);
			if (q->topic)
				group_pause_tick(q->topic);
		}
}

static void begin_second(struct broker *b)
{
	b->second = b->mono_ms / 1000;
	rate_begin(&b->in, b->counters.published, b->second);
	rate_begin(&b->out, b->counters.delivered, b->second);
}

/* Take the time. When the wall clock was set since the last call, do what follows from
 * that.
 *
 * The wall clock is in everything that outlives the broker or that a client names: ids,
 * times, delays, expiries, ack deadlines (which Redis keeps). What is waited for in
 * memory alone goes by the monotonic clock. When the wall clock is set, ack deadlines
 * move with it: a consumer has as long as it was given. */
static void update_clocks(struct broker *b)
{
	int64_t ahead_ms, step_ms;

	b->now_ms = b->env.now_ms = b->partitions.now_ms =
		machine_clock_ms(CLOCK_REALTIME);
	b->mono_ms = machine_clock_ms(CLOCK_MONOTONIC);
	if (b->mono_ms / 1000 != b->second)
		begin_second(b);
	ahead_ms = b->now_ms - b->mono_ms;
	step_ms = ahead_ms - b->clock_ahead_ms;
	b->clock_ahead_ms = ahead_ms;
	if (b->is_started && (step_ms > STEP_MS || step_ms < -STEP_MS))
		step_wall_clock(b, step_ms);
}

static void init_shard_env(struct broker *b)
{
	struct shard_env *env = &b->env;

	env->ops = &delivery_shard_ops;
	b->deal = delivery_turn;
	TAILQ_INIT(&env->closing);
	pool_init(&env->entries, sizeof(struct entry), 16384);
	pool_init(&env->lanes, sizeof(struct lane), 1024);
	shard_expiry_init(env);
	env->timers = &b->timers;
	env->window_messages = b->config.window_messages;
	env->window_bytes = b->config.window_bytes;
	env->parked_messages = b->config.parked_messages;
	env->memory_soft_bytes = b->config.memory_max_bytes / 4;
	b->journal = env->journal = journal_create(env);
	commit_init(env);
	update_clocks(b);
	b->dedupe = env->dedupe = dedupe_create(env, b->config.dedupe_max_bytes);
}

static const struct partition_ops partition_ops = { group_hear_news,
						    retention_on_growth };

static void on_topic_widen(struct topic *t, unsigned had)
{
	group_widen_all(t, had);
	retention_widen(t, had);
}

static void on_topic_close(struct topic *t)
{
	group_close_all(t);
	retention_forget(t);
}

static const struct topic_hooks topic_hooks = { group_restore, on_topic_widen,
						on_topic_close };

static void init_partition_env(struct broker *b)
{
	struct partition_env *env = &b->partitions;

	partition_env_init(env);
	env->ops = &partition_ops;
	topic_ids_init_pool(&b->id_appends);
	env->tail_max_bytes = b->config.tail_bytes;
	env->now_ms = b->now_ms;
	b->topic_hooks = &topic_hooks;
	TAILQ_INIT(&b->groups.dirty);
}

static const unsigned no_hooks[SCRIPT_KINDS_MAX];

struct broker *broker_create(uv_loop_t *loop, const struct broker_config *config)
{
	struct broker *b = mem_zalloc(sizeof(*b));
	struct vhost *v;
	struct error impossible; /* this name is valid, and it is the first */
	int rc;

	b->loop = loop;
	b->config = *config;
	b->hook_counts = b->tried_counts = no_hooks;
	id_lease_init(&b->ids, b->config.node);
	TAILQ_INIT(&b->active);
	TAILQ_INIT(&b->credits);
	TAILQ_INIT(&b->routes);
	TAILQ_INIT(&b->unbinding);
	TAILQ_INIT(&b->idle_vhosts);
	STAILQ_INIT(&b->ending_moves);
	TAILQ_INIT(&b->removals);
	TAILQ_INIT(&b->jobs);
	TAILQ_INIT(&b->topics);
	TAILQ_INIT(&b->walks);
	events_init(&b->events);
	LIST_INIT(&b->due_locks);
	b->retention = retention_create(b);
	b->policies = declare_policies_create(b);
	pace_init(&b->pace);
	b->turn_time.slow_ns = (uint64_t)config->slow_turn_ms * 1000000;
	pool_init(&b->get_leases, sizeof(struct lease), 4096);
	init_shard_env(b);
	init_partition_env(b);
	b->started_unix_ms = b->now_ms;
	b->ids.token = (uint64_t)b->now_ms;
	rc = vhost_open(b, SLICE("/"), &v, &impossible);
	(void)rc;
	return b;
}

void broker_destroy(struct broker *b)
{
	while (!TAILQ_EMPTY(&b->env.closing))
		shard_close_some(TAILQ_FIRST(&b->env.closing));
	pool_deinit(&b->env.entries);
	pool_deinit(&b->env.lanes);
	shard_expiry_deinit(&b->env);
	heap_deinit(&b->timers);
	heap_deinit(&b->waits);
	heap_deinit(&b->leases);
	pool_deinit(&b->get_leases);
	heap_deinit(&b->lock_lapses);
	heap_deinit(&b->lock_waits);
	heap_deinit(&b->wakes);
	heap_deinit(&b->groups.runs);
	heap_deinit(&b->groups.deaths);
	journal_destroy(b->journal);
	partition_env_deinit(&b->partitions);
	retention_destroy(b->retention);
	declare_policies_destroy(b->policies);
	users_deinit(&b->users);
	events_deinit(&b->events);
	pool_deinit(&b->id_appends);
	dedupe_destroy(b->dedupe);
	route_cache_free(b->route);
	msg_pool_deinit(&b->msgs);
	match_scripts_unref(b->match_scripts);
	mem_free(b->full_lanes);
	mem_free(b);
}

void broker_clear(struct broker *b)
{
	struct vhost *v, *next;

	job_end_all(b);
	removal_clear(b);
	commit_fail(&b->env, TIDE_ESHUTDOWN, NULL);
	HASH_ITER (hh, b->vhosts, v, next) {
		lock_free_all(v);
		vhost_destroy(v);
	}
	/* End the jobs that waited for what is closed now. */
	job_end_all(b);
}

void broker_set_engine(struct broker *b, struct engine *e)
{
	b->engine = b->active_rules.engine = e;
	b->hook_counts = e ? engine_hook_counts(e) : no_hooks;
	b->route_version++;
	pace_init(&b->pace);
	if (e)
		b->pace.calls = engine_call_count(e);
}

void broker_set_candidate(struct broker *b, enum ruleset_slot slot, struct ruleset *r)
{
	b->candidates[slot] = r;
	if (slot == RULESET_SHADOW)
		b->tried_counts = r ? engine_hook_counts(r->engine) : no_hooks;
}

void broker_set_store(struct broker *b, struct store *store)
{
	b->store = store;
	b->env.store = store && store_is_durable(store) ? store : NULL;
	b->partitions.store = b->env.store;
}

void broker_drain(struct broker *b)
{
	b->is_draining = true;
	lock_drain(b);
	b->groups.commit_due_ms = b->mono_ms;
	/* GETs that wait are answered with nothing, at the end of this turn. */
	heap_set_all(&b->waits, b->mono_ms);
}

bool broker_is_idle(const struct broker *b)
{
	return !b->env.store || (journal_is_idle(b->journal) && commit_is_idle(&b->env) &&
				 partition_is_idle(&b->partitions) &&
				 group_env_is_idle(&b->groups) && shared_sync_is_idle(b));
}

void broker_begin(struct broker *b)
{
	update_clocks(b);
	pace_begin(&b->pace);
}
