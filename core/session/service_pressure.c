/* The figures of the service of addresses and protocols, whether publishers are held
 * back, and what it says of its health. */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "access/network.h"
#include "base/mem.h"
#include "broker/turn.h"
#include "host/log.h"
#include "host/machine.h"
#include "schedule/scheduler.h"
#include "session_private.h"
#include "service_events.h"
#include "warnings.h"

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

void service_net_join(struct service *s, struct net_member *m)
{
	m->since_unix_ms = machine_clock_ms(CLOCK_REALTIME);
	if (!m->has_joined)
		TAILQ_INSERT_TAIL(&s->members, m, entry);
	m->has_joined = true;
}

void service_net_part(struct service *s, struct net_member *m)
{
	if (m->has_joined)
		TAILQ_REMOVE(&s->members, m, entry);
	m->has_joined = false;
}

unsigned service_net_cells(const struct service *s)
{
	return store_cells(s->broker->store);
}

unsigned service_net_cell(const struct service *s)
{
	return store_cell(s->broker->store);
}

unsigned service_net_cell_of(const struct service *s, struct slice vhost)
{
	return store_cell_of(s->broker->store, vhost);
}

struct net_membership service_net_membership(const struct service *s, unsigned cell)
{
	struct store_membership m;

	store_membership(s->broker->env.store, cell, &m);
	return (struct net_membership){ m.self, m.secret, m.owner, m.owner_at,
					m.owner_node };
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

void service_pressure_hold(struct service *s)
{
	scheduler_hold(s->scheduler, s->is_blocked || s->broker->refuses_publishes);
}

/* Below these shares of a limit, publishers who were held back go on. */
#define RELIEF(limit) ((limit) / 4 * 3)

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
	service_events_alarms(s);
}

size_t service_pressure_memory(const struct service *s)
{
	return s->broker->env.memory_bytes + s->receiving.bytes + s->answer_bytes;
}

void service_pressure_check(struct service *s)
{
	const struct broker *b = s->broker;
	size_t all = b->env.unstored_bytes + b->partitions.unstored_bytes;
	size_t unstored = all > s->away_bytes ? all - s->away_bytes : 0;
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

#define LANES_LOOK_MS 100

/* Messages that wait for a Redis of several that is away hold nobody else up. They may
 * take its share of the limit; more are refused. */
void service_pressure_lanes(struct service *s)
{
	struct broker *b = s->broker;
	unsigned lanes = b->store ? store_lanes(b->store) : 0;
	bool *full = NULL;

	if (lanes < 2 || b->mono_ms - s->lanes_looked_ms < LANES_LOOK_MS)
		return;
	s->lanes_looked_ms = b->mono_ms;
	s->away_bytes = 0;
	for (unsigned i = 0; i < lanes; i++) {
		size_t bytes;

		if (!store_lane_is_away(b->store, i))
			continue;
		bytes = journal_waiting_bytes(b->journal, i) +
			partition_waiting_bytes(&b->partitions, i);
		s->away_bytes += bytes;
		if (bytes <= b->config.unstored_max_bytes / lanes)
			continue;
		if (!full)
			full = mem_zalloc(lanes * sizeof(*full));
		full[i] = true;
	}
	b->guarded += (full != NULL) - (b->full_lanes != NULL);
	mem_free(b->full_lanes);
	b->full_lanes = full;
	b->full_lane_count = full ? lanes : 0;
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

/* Name the masters of a Redis Cluster that are away, or count them. False: none is. */
static bool check_masters(const struct store *store, bool has_names, struct reasons *r)
{
	struct store_master one;
	unsigned place = 0, count = 0, away = 0, slots = 0;
	char names[200];
	size_t len = 0;

	while (store_master_next(store, &place, &one)) {
		count++;
		if (!one.is_away)
			continue;
		away++;
		slots += one.slots;
		if (len < sizeof(names))
			len += (size_t)snprintf(names + len, sizeof(names) - len, "%s%s",
						away > 1 ? ", " : "", one.address);
	}
	if (away == 0 || slots == 0)
		return false;
	if (has_names)
		add(r, "store",
		    "the Redis at %s is away: what belongs to its %u slots waits; see "
		    "whether it runs, or promote a replica (CLUSTER FAILOVER FORCE)",
		    names, slots);
	else
		add(r, "store",
		    "%u of %u masters of the Redis Cluster %s away: what belongs to %u "
		    "slots waits; see whether %s, the log says more",
		    away, count, away > 1 ? "are" : "is", slots,
		    away > 1 ? "they run" : "it runs");
	return true;
}

static void check_slots(const struct store *store, struct reasons *r)
{
	struct store_stats st;

	store_stats(store, &st);
	if (st.slots_without_master > 0)
		add(r, "store",
		    "slots of the Redis Cluster without a master: %u; what belongs to "
		    "them waits: start the masters",
		    st.slots_without_master);
}

/* The reason for a connection that was lost has an address in it. */
static void check_store(const struct service *s, bool has_names, struct reasons *r)
{
	const struct store *store = s->broker->store;
	enum store_state state = store_state(store);
	bool is_named = check_masters(store, has_names, r);

	check_slots(store, r);

	if (state == STORE_STALE)
		add(r, "store", "%s", s->store_state_why);
	for (int kind = 0; kind < STORE_TROUBLES; kind++)
		if (store_has_trouble(store, (enum store_trouble)kind) &&
		    store_trouble_is_total((enum store_trouble)kind) &&
		    !(kind == STORE_TROUBLE_SILENT && is_named))
			add(r, kind == STORE_TROUBLE_UNCONFIRMED ? "replicas" : "store",
			    "%s", store_trouble_text(store, (enum store_trouble)kind));
	if (store_unfit(store))
		add(r, "store", "Redis cannot be used now: %s", store_unfit(store));
	else if ((state == STORE_DOWN || state == STORE_FAILED) && r->count == 0)
		add(r, "store",
		    "Redis is away: durable changes wait for it; see whether it runs, "
		    "the log says more");
}

static void find_reasons(const struct service *s, bool has_names, struct reasons *r)
{
	const struct broker *b = s->broker;

	r->count = 0;
	if (!b->is_started) {
		add(r, "starting", "the broker is starting");
		return;
	}
	check_store(s, has_names, r);
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

	find_reasons(s, false, &r);
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

	find_reasons(s, has_names, &r);
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

void service_health_each(const struct service *s,
			 void (*tell)(void *ctx, const char *code, const char *text),
			 void *ctx)
{
	struct reasons r;

	find_reasons(s, true, &r);
	for (unsigned i = 0; i < r.count; i++)
		tell(ctx, r.items[i].code, r.items[i].text);
	warnings_each(s->warnings, true, tell, ctx);
}
