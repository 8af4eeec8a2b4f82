#include "http_engine.h"

#include <jansson.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/mem.h"
#include "http_lease.h"
#include "http_relay.h"
#include "http_wait.h"

/* Of a connection: the head of a request and of its answer. */
#define CONNECTION_BYTES ((size_t)32 << 10)
#define IDLE_SECONDS 120u

/* The address of a connection is a place in memory: its relay. */
static struct http_relay *relay_of(const struct sockaddr *address)
{
	const struct sockaddr_un *sun = (const struct sockaddr_un *)address;
	struct http_relay *r;

	memcpy(&r, sun->sun_path, sizeof(r));
	return r;
}

struct http_relay *http_engine_relay(struct MHD_Connection *c)
{
	return relay_of(MHD_get_connection_info(c, MHD_CONNECTION_INFO_CLIENT_ADDRESS)
				->client_addr);
}

static void on_connection(void *cls, struct MHD_Connection *c, void **context,
			  enum MHD_ConnectionNotificationCode code)
{
	struct http_relay *r = http_engine_relay(c);

	if (code == MHD_CONNECTION_NOTIFY_STARTED)
		r->refs++;
	else
		http_relay_unref(r);
}

/* Escapes are read by those who know what the parts are. */
static size_t leave_escapes(void *cls, struct MHD_Connection *c, char *text)
{
	return strlen(text);
}

struct http_release {
	STAILQ_ENTRY(http_release) link;
	struct MHD_UpgradeResponseHandle *handle;
};

void http_engine_release(struct http_engine *e, struct MHD_UpgradeResponseHandle *handle)
{
	struct http_release *r = mem_alloc(sizeof(*r));

	r->handle = handle;
	STAILQ_INSERT_TAIL(&e->released, r, link);
	http_engine_wake(e);
}

static void release(struct http_engine *e)
{
	struct http_release *r;

	while ((r = STAILQ_FIRST(&e->released)) != NULL) {
		STAILQ_REMOVE_HEAD(&e->released, link);
		MHD_upgrade_action(r->handle, MHD_UPGRADE_ACTION_CLOSE);
		mem_free(r);
	}
}

static void on_timer(uv_timer_t *timer);

static void check_ends(struct http_engine *e, bool is_idle)
{
	struct http_relay *r, *next;

	for (r = TAILQ_FIRST(&e->ending); r; r = next) {
		next = TAILQ_NEXT(r, ending_link);
		http_relay_check_end(r, is_idle);
	}
}

static void run(struct http_engine *e)
{
	MHD_UNSIGNED_LONG_LONG timeout_ms;
	bool has_timeout;

	release(e);
	http_wait_next(e);
	e->is_woken = false;
	e->run_ns = uv_hrtime();
	MHD_run(e->daemon);
	has_timeout = MHD_get_timeout(e->daemon, &timeout_ms) == MHD_YES;
	check_ends(e, !e->is_woken && !(has_timeout && timeout_ms == 0));
	if (e->is_woken)
		return;
	if (has_timeout)
		uv_timer_start(&e->timer, on_timer, timeout_ms, 0);
	else
		uv_timer_stop(&e->timer);
}

static void on_timer(uv_timer_t *timer)
{
	run(timer->data);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
	run(poll->data);
}

void http_engine_wake(struct http_engine *e)
{
	e->is_woken = true;
	uv_timer_start(&e->timer, on_timer, 0, 0);
}

static struct MHD_Daemon *start_daemon(struct http_engine *e,
				       const struct http_engine_hooks *hooks)
{
	return MHD_start_daemon(
		MHD_USE_NO_LISTEN_SOCKET | MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME |
			MHD_ALLOW_UPGRADE,
		0, NULL, NULL, hooks->step, e, MHD_OPTION_NOTIFY_CONNECTION,
		on_connection, e, MHD_OPTION_NOTIFY_COMPLETED, hooks->end, e,
		MHD_OPTION_URI_LOG_CALLBACK, hooks->begin, e,
		MHD_OPTION_UNESCAPE_CALLBACK, leave_escapes, e,
		MHD_OPTION_CONNECTION_LIMIT, e->config.connections_max,
		MHD_OPTION_CONNECTION_TIMEOUT, IDLE_SECONDS,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_BYTES, MHD_OPTION_END);
}

int http_engine_create(struct http_engine **out, uv_loop_t *loop,
		       const struct http_config *config,
		       const struct http_engine_hooks *hooks, struct error *err)
{
	struct http_engine *e = mem_zalloc(sizeof(*e));
	const union MHD_DaemonInfo *info;

	json_object_seed(0); /* before there are threads that make objects */
	e->loop = loop;
	e->config = *config;
	TAILQ_INIT(&e->ending);
	TAILQ_INIT(&e->waiting);
	STAILQ_INIT(&e->released);
	e->daemon = start_daemon(e, hooks);
	if (!e->daemon) {
		mem_free(e);
		return error_set(err, TIDE_ELIMIT,
				 "libmicrohttpd does not start: are descriptors left?");
	}
	info = MHD_get_daemon_info(e->daemon, MHD_DAEMON_INFO_EPOLL_FD);
	uv_poll_init(loop, &e->poll, info->epoll_fd);
	uv_timer_init(loop, &e->timer);
	e->poll.data = e->timer.data = e;
	e->leases = http_lease_open(loop);
	e->handles = 3;
	uv_poll_start(&e->poll, UV_READABLE, on_poll);
	*out = e;
	return TIDE_OK;
}

int http_engine_add(struct http_engine *e, int fd, struct http_relay *r)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	memcpy(address.sun_path, &r, sizeof(r));
	if (MHD_add_connection(e->daemon, fd, (struct sockaddr *)&address,
			       sizeof(address)) != MHD_YES)
		return TIDE_ELIMIT;
	http_engine_wake(e);
	return TIDE_OK;
}

static void on_part_closed(void *ctx)
{
	struct http_engine *e = ctx;

	if (--e->handles > 0)
		return;
	e->on_closed(e->ctx);
	mem_free(e);
}

static void on_handle_closed(uv_handle_t *handle)
{
	on_part_closed(handle->data);
}

void http_engine_close(struct http_engine *e, void (*on_closed)(void *ctx), void *ctx)
{
	e->on_closed = on_closed;
	e->ctx = ctx;
	uv_close((uv_handle_t *)&e->poll, on_handle_closed);
	uv_close((uv_handle_t *)&e->timer, on_handle_closed);
	http_lease_close(e->leases, on_part_closed, e);
	release(e);
	MHD_stop_daemon(e->daemon);
}
