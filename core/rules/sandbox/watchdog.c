#include "watchdog.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "base/mem.h"
#include "host/machine.h"

/* glibc keeps the first two for itself; the rest are the application's. */
#define WATCHDOG_SIGNAL (SIGRTMIN + 5)
#define LOOKS_PER_BUDGET 4

struct watchdog {
	/* Odd inside a call; every call has two numbers of its own. */
	_Atomic uint64_t sequence;
	_Atomic uint64_t overrun;    /* the sequence of the call that has overrun */
	_Atomic bool is_parked;      /* the thread sleeps until it is told */
	volatile sig_atomic_t fired; /* of the loop's thread, as is L */
	lua_State *L;
	lua_Hook hook;

	int64_t budget_ms;
	pthread_t watched;
	clockid_t watched_clock;
	uv_thread_t thread;
	uv_mutex_t mutex;
	uv_cond_t wake;
	bool is_stopping; /* under the mutex */
};

static void on_signal(int number, siginfo_t *info, void *context)
{
	/* A signal from another process carries no watchdog of ours. */
	if (info->si_code != SI_QUEUE || info->si_pid != getpid())
		return;
	struct watchdog *w = info->si_value.sival_ptr;
	if (atomic_load(&w->sequence) != atomic_load(&w->overrun))
		return; /* the call has ended meanwhile */
	w->fired = 1;
	lua_sethook(w->L, w->hook, LUA_MASKCOUNT, 1);
}

/* Sleep until a call begins. The order matters: the flag is set before the
 * sequence is read again, and watchdog_enter does it the other way round, so
 * that one of the two sees the other. */
static void park(struct watchdog *w, uint64_t seen)
{
	atomic_store(&w->is_parked, true);
	if (atomic_load(&w->sequence) != seen)
		atomic_store(&w->is_parked, false);
	while (atomic_load(&w->is_parked) && !w->is_stopping)
		uv_cond_wait(&w->wake, &w->mutex);
}

/* lua_sethook marks each frame of the call chain: milliseconds, when a script has
 * recursed to the limit of Lua's stack. Signals at a fixed interval would leave it no
 * time to meet the hook. They come when it has used a quarter more than at the one
 * before. */
static void watch(void *arg)
{
	struct watchdog *w = arg;
	const int64_t budget_ns = w->budget_ms * 1000000;
	uint64_t seen = 0;
	int64_t since_ns = 0, due_ns = 0;

	uv_mutex_lock(&w->mutex);
	while (!w->is_stopping) {
		uint64_t now = atomic_load(&w->sequence);
		bool is_inside = (now & 1) != 0;
		if (now == seen && !is_inside) {
			park(w, seen);
			continue;
		}
		int64_t used_ns = machine_clock_ns(w->watched_clock) - since_ns;
		if (now != seen) {
			seen = now;
			since_ns += used_ns;
			due_ns = budget_ns;
		} else if (used_ns >= due_ns) {
			atomic_store(&w->overrun, now);
			pthread_sigqueue(w->watched, WATCHDOG_SIGNAL,
					 (union sigval){ .sival_ptr = w });
			due_ns = used_ns + used_ns / LOOKS_PER_BUDGET;
		}
		uv_cond_timedwait(&w->wake, &w->mutex,
				  (uint64_t)(budget_ns / LOOKS_PER_BUDGET));
	}
	uv_mutex_unlock(&w->mutex);
}

static int handle_signal(void)
{
	struct sigaction action = { .sa_sigaction = on_signal,
				    .sa_flags = SA_SIGINFO | SA_RESTART };

	sigset_t set;
	sigemptyset(&action.sa_mask);
	sigemptyset(&set);
	sigaddset(&set, WATCHDOG_SIGNAL);
	if (sigaction(WATCHDOG_SIGNAL, &action, NULL) != 0)
		return uv_translate_sys_error(errno);
	return -pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

int watchdog_create(struct watchdog **out, int64_t budget_ms, lua_Hook hook)
{
	struct watchdog *w = mem_zalloc(sizeof(*w));

	w->budget_ms = budget_ms;
	w->hook = hook;
	w->watched = pthread_self();
	int rc = -pthread_getcpuclockid(w->watched, &w->watched_clock);
	if (rc == 0)
		rc = handle_signal();
	if (rc != 0)
		goto fail_memory;
	rc = uv_mutex_init(&w->mutex);
	if (rc != 0)
		goto fail_memory;
	rc = uv_cond_init(&w->wake);
	if (rc != 0)
		goto fail_mutex;
	rc = uv_thread_create(&w->thread, watch, w);
	if (rc != 0)
		goto fail_cond;
	*out = w;
	return TIDE_OK;

fail_cond:
	uv_cond_destroy(&w->wake);
fail_mutex:
	uv_mutex_destroy(&w->mutex);
fail_memory:
	mem_free(w);
	return rc;
}

void watchdog_destroy(struct watchdog *w)
{
	if (!w)
		return;
	uv_mutex_lock(&w->mutex);
	w->is_stopping = true;
	uv_cond_signal(&w->wake);
	uv_mutex_unlock(&w->mutex);
	/* A signal that is on its way arrives before the join returns here. */
	uv_thread_join(&w->thread);
	uv_cond_destroy(&w->wake);
	uv_mutex_destroy(&w->mutex);
	mem_free(w);
}

void watchdog_enter(struct watchdog *w, lua_State *L)
{
	w->L = L;
	atomic_fetch_add(&w->sequence, 1);
	if (!atomic_load(&w->is_parked))
		return;
	uv_mutex_lock(&w->mutex);
	atomic_store(&w->is_parked, false);
	uv_cond_signal(&w->wake);
	uv_mutex_unlock(&w->mutex);
}

bool watchdog_leave(struct watchdog *w)
{
	uint64_t sequence = atomic_load_explicit(&w->sequence, memory_order_relaxed);
	/* The thread may see the end late: the handler, which runs in this one, sees it.
	 * `fired` is read behind it. */
	atomic_store_explicit(&w->sequence, sequence + 1, memory_order_release);
	atomic_signal_fence(memory_order_seq_cst);
	if (!w->fired)
		return false;
	lua_sethook(w->L, NULL, 0, 0);
	w->fired = 0;
	return true;
}

int64_t watchdog_budget_ms(const struct watchdog *w)
{
	return w->budget_ms;
}

bool watchdog_has_fired(const struct watchdog *w)
{
	return w->fired != 0;
}
