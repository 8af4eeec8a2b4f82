/* service.h: a broker at work: the model with its rules, its schedules and its clients.
 *
 * A turn of the loop ends with service_turn: ready messages are dealt out to
 * consumers, the network (through on_turn) sends what was written, and the
 * journal sends its batches. Timers run between turns and lead to one too. */
#pragma once

#include "base/json.h"
#include "access/allowance.h"
#include "access/login.h"
#include "access/user_change.h"
#include "rollout/rollout.h"
#include "service_net.h"

struct samples;
struct session_transaction;
struct scheduler;
struct session;
struct settle_job;
struct tracer;
struct warnings;

TAILQ_HEAD(session_list, session);
TAILQ_HEAD(settle_list, settle_job);
TAILQ_HEAD(transaction_list, session_transaction);

/* Payloads on their way: session_receive.c. */
struct receiving {
	size_t bytes;          /* that have come of all */
	size_t promised_bytes; /* what is missing of those that have a place */
	unsigned places;
	bool is_short;            /* memory for them is */
	struct session_list line; /* without a place; the first to begin comes first */
};

/* Of all sessions. */
struct transactions {
	struct transaction_list committing; /* COMMITs that go on in the next turn */
	unsigned open;
	size_t bytes; /* that they keep */
	uint64_t committed;
	uint64_t failed; /* whose COMMIT was refused */
	uint64_t rolled_back;
};

struct service_hooks {
	void *ctx;
	/* The service has recovered and may serve; or the start failed. */
	void (*on_started)(void *ctx, const struct error *err);
	/* Another broker has taken the store over: close. */
	void (*on_lost)(void *ctx, const struct error *err);
	/* The end of a turn: send what was written. */
	void (*on_turn)(void *ctx);
	/* service_close is done. */
	void (*on_closed)(void *ctx);
};

#define ALARMS_MAX 32

/* The codes of /health/ready that EVENT_ALARM_BEGAN has told of. */
struct alarms {
	const char *codes[ALARMS_MAX];
	unsigned count;
};

struct service {
	uv_loop_t *loop;
	struct service_hooks hooks;
	struct broker *broker;
	struct scheduler *scheduler;
	struct rollout rollout;
	struct session_list sessions;
	uint64_t last_session;
	struct net_figures net;
	struct net_protocol protocols[NET_PROTOCOLS_MAX];
	struct net_member_list members;
	struct samples *samples; /* of the last hour */
	struct warnings *warnings;
	struct alarms alarms;
	struct password_work password_work;
	struct login login;
	struct user_changes user_changes;
	struct allowances allowances;
	struct heap throttled; /* sessions that are held for a rate */
	bool was_open;         /* nobody had to log in */
	/* With cells: what other owners write. */
	uint64_t users_seen, users_asked; /* changes of users */
	bool is_reading_users, is_reading_vhosts;
	int64_t users_rest_ms;              /* by mono_ms: not before then */
	uint64_t places_seen, places_asked; /* changes of where vhosts are */
	struct session
		*recheck;   /* the next one of service_users_recheck_turn; NULL: none */
	int64_t recheck_ms; /* when that began last */
	struct transactions transactions;
	struct tracer *tracer;       /* NULL: nobody has followed a message yet */
	struct settle_list settling; /* requests that go on in the next turn */
	struct pool replies;

	/* The turns. */
	uv_timer_t timer;
	uv_prepare_t prepare;
	uv_check_t check;
	uv_idle_t idle;
	unsigned handles;     /* not yet closed */
	int64_t timer_due_ms; /* what the uv timer is set to; 0 = stopped */
	int64_t polled_ms;    /* mono_ms before the loop looked at the sockets last */

	/* The start. */
	bool is_loading;            /* it reads what is in the store */
	struct bundle *directory;   /* what the rules directory has; until it is loaded */
	struct error rules_refusal; /* of the rules directory; code 0 = accepted */
	struct error start_refusal; /* what Redis said, while it is asked for more */
	char store_state_why[256];

	/* Publishers and schedules are held back while memory or the store is full. */
	bool is_blocked;
	char blocked_why[128];
	/* See service_pressure_lanes. */
	int64_t lanes_looked_ms;
	size_t away_bytes;
	struct receiving receiving;
	/* Of answers that are being written, or that clients have not taken. */
	size_t answer_bytes;
};

/* Begin to start: on_started tells the outcome. An error here is a wrong
 * configuration or broken rules. */
TIDE_MUST_USE int service_create(struct service **out, uv_loop_t *loop,
				 const struct broker_config *config,
				 const struct service_hooks *hooks, struct error *err);
/* No new work: publishes and subscriptions are refused with TIDE_ESHUTDOWN. */
void service_drain(struct service *s);
/* Refuse publishes and hold schedules, and serve what is there; or take them again.
 *
 * @param who  asks for it, for the log */
void service_refuse_publishes(struct service *s, bool is_on, const char *who);
/* An operator wants the rules directory loaded. The outcome is logged. */
void service_reload_rules(struct service *s);
/* Has the store answered all that was asked of it? */
bool service_is_idle(const struct service *s);
/* Close the store and free everything; sessions must be closed before. */
void service_close(struct service *s, int64_t grace_ms);
/* Likewise, or hurry a close under way: Redis is not waited for. */
void service_close_now(struct service *s);

/* A turn: take the time, and do what has been gathered. Handles of the loop drive it. */
void service_turn(struct service *s);

/* The size of a message that Redis takes at most. */
size_t service_body_max(const struct service *s);

/* The allowance of one address (config.address_limits).
 *
 * A connection enters before anything is read of it, and leaves when it ends. */

/* TIDE_ELIMIT: the address has as many connections as it may.
 *
 * @param peer  "127.0.0.1:50412", "[2001:db8::1]:50412", "unix"
 * @param out   NULL: there are no limits; untouched on failure */
TIDE_MUST_USE int service_address_enter(struct service *s, const char *peer,
					struct allowance **out, struct error *err);
/* The session of the address has ended. Accepts NULL. */
void service_address_leave(struct service *s, struct allowance *a);

/* Publishers and schedules wait while memory or the store is full. */

/* Of messages, of what has come of those that are half received, and of answers that
 * have not been taken. */
size_t service_pressure_memory(const struct service *s);
/* Stop or resume publishers as memory and the store demand. */
void service_pressure_check(struct service *s);
/* Refuse publishes to what a Redis keeps that is away and has its share of what waits. */
void service_pressure_lanes(struct service *s);
/* Call when the reason to hold schedules may have changed. */
void service_pressure_hold(struct service *s);

/* Whether the broker may be given work, and what somebody should look
 * after. */

/* "ready", "reasons" and "warnings", as members of an object that is open.
 *
 * @param has_names  of queues and so on: not for those who ask without a login */
bool service_health_is_ready(const struct service *s);
void service_health_write(const struct service *s, bool has_names, struct json *j);
/* All reasons and warnings, with names; `code` is a constant. */
void service_health_each(const struct service *s,
			 void (*tell)(void *ctx, const char *code, const char *text),
			 void *ctx);
