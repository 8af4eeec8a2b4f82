#include "serve.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "host/log.h"
#include "net/server.h"
#include "session/service.h"
#include "session/service_users.h"

static const int numbers[] = { SIGTERM, SIGINT, SIGHUP, SIGUSR1 };
#define SIGNALS (sizeof(numbers) / sizeof(numbers[0]))

struct serve {
	uv_loop_t loop;
	struct serve_options options;
	struct service *service;
	struct server *server;
	uv_signal_t signals[SIGNALS];
	uv_timer_t drain_timer;
	uv_timer_t log_timer; /* while lines of the log are held back */
	const char *exposed;  /* a listener that others can reach; NULL: there is none */
	char at[SERVER_ADDRESS_MAX]; /* where other brokers reach this one */
	bool is_draining;
	bool is_closing;
	bool is_hurried;     /* a second signal */
	uint64_t stop_by_ms; /* uv_now: Redis is not waited for any longer */
	int status;
};

static int64_t stop_left_ms(const struct serve *s)
{
	uint64_t now_ms = uv_now(&s->loop);

	return now_ms < s->stop_by_ms ? (int64_t)(s->stop_by_ms - now_ms) : 0;
}

/* The journal writes what connections gave back in the next turn. The end of the broker
 * waits for it, until the drain timer fires. */
static void close_service_when_idle(struct serve *s)
{
	if (s->is_hurried)
		service_close_now(s->service);
	else if (service_is_idle(s->service))
		service_close(s->service, stop_left_ms(s));
}

static void on_server_closed(void *ctx)
{
	struct serve *s = ctx;

	s->server = NULL;
	close_service_when_idle(s);
}

static void on_drain_timeout(uv_timer_t *timer);

static void close_server(struct serve *s)
{
	if (s->is_closing)
		return;
	s->is_closing = true;
	s->stop_by_ms = uv_now(&s->loop) + (uint64_t)s->options.stop_timeout_ms;
	uv_timer_start(&s->drain_timer, on_drain_timeout,
		       (uint64_t)s->options.stop_timeout_ms, 1000);
	server_close(s->server, on_server_closed, s);
}

static void on_drain_timeout(uv_timer_t *timer)
{
	struct serve *s = timer->data;

	if (!s->is_closing) {
		log_warn("some requests were not answered within the drain timeout");
		close_server(s);
	} else if (!s->server && s->service && !s->is_hurried) {
		log_warn("Redis did not store the returned messages and stop within "
			 "--stop-timeout");
		s->is_hurried = true;
		service_close_now(s->service);
	}
}

/* A second signal: wait for nothing. */
static void stop_at_once(struct serve *s)
{
	s->is_hurried = true;
	if (s->server)
		close_server(s);
	else if (s->service)
		service_close_now(s->service);
}

static void stop_serving(struct serve *s, const char *why)
{
	if (s->is_draining) {
		log_info("%s again: stopping at once", why);
		stop_at_once(s);
		return;
	}
	s->is_draining = true;
	log_info("%s: stopping", why);
	service_drain(s->service);
	if (!s->server) {
		service_close(s->service, 0);
		return;
	}
	server_drain(s->server);
	uv_timer_start(&s->drain_timer, on_drain_timeout,
		       (uint64_t)s->options.drain_timeout_ms, 1000);
}

static void on_service_closed(void *ctx)
{
	struct serve *s = ctx;

	s->service = NULL;
	for (size_t i = 0; i < SIGNALS; i++) {
		uv_close((uv_handle_t *)&s->signals[i], NULL);
		/* Everything is done: one that comes now must not change the status. */
		signal(numbers[i], SIG_IGN);
	}
	uv_close((uv_handle_t *)&s->drain_timer, NULL);
	uv_close((uv_handle_t *)&s->log_timer, NULL);
}

static void on_log_timer(uv_timer_t *timer)
{
	int64_t left_ms = log_tell_repeats(false);

	if (left_ms >= 0)
		uv_timer_start(timer, on_log_timer, (uint64_t)left_ms + 1, 0);
}

static void on_turn(void *ctx)
{
	struct serve *s = ctx;

	if (s->server)
		server_turn(s->server);
	if (s->is_draining && s->server && !s->is_closing && server_is_drained(s->server))
		close_server(s);
	else if (s->is_closing && !s->server && s->service)
		close_service_when_idle(s);
	if (log_has_repeats() && !uv_is_active((uv_handle_t *)&s->log_timer))
		on_log_timer(&s->log_timer);
}

static int listen_all(struct serve *s, struct error *err)
{
	char bound[SERVER_ADDRESS_MAX];

	for (unsigned i = 0; i < s->options.listen_count; i++) {
		int rc = server_listen(s->server, s->options.listen[i], bound, err);

		if (rc < 0)
			return rc;
		log_print(STDOUT_FILENO, "listening on %s", bound);
	}
	return TIDE_OK;
}

/* A second broker on a machine goes without, if nobody has asked for it. */
static int listen_http(struct serve *s, struct error *err)
{
	char bound[SERVER_ADDRESS_MAX];
	int rc;

	if (!s->options.http)
		return TIDE_OK;
	rc = server_listen_http(s->server, s->options.http, bound, err);
	if (rc < 0 && s->options.is_http_asked)
		return rc;
	if (rc < 0)
		log_warn("no HTTP: %s; choose where by --http", err->text);
	else
		log_print(STDOUT_FILENO, "http on %s", bound);
	return TIDE_OK;
}

static void fail_start(struct serve *s, const struct error *err)
{
	log_print(STDERR_FILENO, "tidemq: %s", err->text);
	s->status = 1;
	s->is_draining = s->is_closing = true;
	if (s->server)
		server_close(s->server, on_server_closed, s);
	else
		service_close(s->service, 0);
}

/* Clients have been told, and what they are owed is the other broker's to give. */
static void on_told(uv_timer_t *timer)
{
	close_server(timer->data);
}

static void on_lost(void *ctx, const struct error *err)
{
	struct serve *s = ctx;

	log_error("%s", err->text);
	s->status = 1;
	s->is_draining = s->is_hurried = true;
	if (!s->server) {
		service_close_now(s->service);
	} else if (!s->is_closing) {
		service_drain(s->service);
		server_drain(s->server);
		uv_timer_start(&s->drain_timer, on_told, 0, 0);
	}
}

static void check_payload_max(const struct serve *s)
{
	size_t body_max = service_body_max(s->service);

	if (s->options.server.payload_max > body_max)
		log_warn("--max-payload is %zu, and Redis takes %zu "
			 "(proto-max-bulk-len): larger messages to durable queues are "
			 "refused",
			 s->options.server.payload_max, body_max);
}

/* A sixteenth of --max-memory, and room for a few lines at least. */
static size_t unfinished_max(size_t memory_max)
{
	const size_t least = (size_t)1 << 20;

	return memory_max / 16 > least ? memory_max / 16 : least;
}

/* Whoever reaches a broker without users may do everything. */
static int check_exposed(const struct serve *s, struct error *err)
{
	if (!s->options.broker.must_log_in || service_users_has_any(s->service))
		return TIDE_OK;
	return error_set(err, TIDE_EDENIED,
			 "others can reach %s, and no user is defined: listen on "
			 "127.0.0.1 alone and add one (tidemq user add NAME --tags "
			 "admin), or say --anonymous, so that they may do everything",
			 s->exposed);
}

/* Other brokers dial an address, and none is that of all of a machine. */
static int check_at(const struct serve *s, struct error *err)
{
	const char *at = s->at + (strncmp(s->at, "tls:", 4) == 0 ? 4 : 0);

	if (strncmp(at, "0.0.0.0:", 8) != 0 && strncmp(at, "[::]:", 5) != 0)
		return TIDE_OK;
	return error_set(err, TIDE_ESYNTAX,
			 "--cluster %s is no address to connect to: say by --advertise "
			 "HOST:PORT where other brokers reach this one",
			 s->options.cluster);
}

/* Where other brokers come in. */
static int listen_gate(struct serve *s, struct error *err)
{
	const char *advertise = s->options.advertise;
	char bound[SERVER_ADDRESS_MAX];
	bool is_tls = false;
	int rc;

	if (!s->options.cluster)
		return TIDE_OK;
	rc = server_listen_gate(s->server, s->options.cluster, bound, err);
	if (rc < 0)
		return rc;
	is_tls = strncmp(bound, "tls:", 4) == 0;
	if (advertise)
		snprintf(s->at, sizeof(s->at), "%s%s", is_tls ? "tls:" : "", advertise);
	else
		snprintf(s->at, sizeof(s->at), "%s", bound);
	log_print(STDOUT_FILENO, "cluster on %s", bound);
	return check_at(s, err);
}

/* Clients that come from now on are served, or wait. */
static int open_server(struct serve *s, struct error *err)
{
	struct server_config *c = &s->options.server;
	unsigned wanted = c->connections_max;
	/* That of the client, and that to the owner of the store. */
	int rc = server_limit_connections(c, s->options.cluster ? 2 : 1, err);

	if (rc < 0)
		return rc;
	c->unfinished_max_bytes = unfinished_max(s->options.broker.memory_max_bytes);
	c->node = s->options.broker.node;
	c->at = s->options.cluster ? s->at : NULL;
	c->is_exposed = s->options.broker.must_log_in;
	c->is_anonymous = s->options.is_anonymous;
	s->server = server_create(&s->loop, s->service, c);
	if (s->options.cluster)
		server_be_front(s->server);
	rc = listen_gate(s, err);
	if (rc == TIDE_OK)
		rc = listen_all(s, err);
	if (rc == TIDE_OK)
		rc = listen_http(s, err);
	if (rc == TIDE_OK && c->connections_max < wanted)
		log_write(s->options.is_max_connections_asked ? LOG_WARN : LOG_INFO,
			  "--max-connections is %u, but the limit of open files leaves "
			  "room for %u; raise it (ulimit -n, LimitNOFILE=)",
			  wanted, c->connections_max);
	return rc;
}

static void on_started(void *ctx, const struct error *failed)
{
	struct serve *s = ctx;
	struct error err;
	int rc;

	if (s->is_draining)
		return;
	if (failed) {
		fail_start(s, failed);
		return;
	}
	check_payload_max(s);
	rc = check_exposed(s, &err);
	if (rc == TIDE_OK && s->server)
		server_be_owner(s->server);
	else if (rc == TIDE_OK)
		rc = open_server(s, &err);
	if (rc < 0)
		fail_start(s, &err);
}

static void reload_all(struct serve *s)
{
	service_reload_rules(s->service);
	if (s->server)
		server_reload_tls(s->server);
}

static void on_signal(uv_signal_t *handle, int number)
{
	struct serve *s = handle->data;

	if (number == SIGTERM || number == SIGINT)
		stop_serving(s, number == SIGTERM ? "SIGTERM" : "SIGINT");
	else if (s->service && number == SIGHUP)
		reload_all(s);
	else if (s->service)
		service_refuse_publishes(s->service, true, "SIGUSR1");
}

static void raise_file_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

static int make_dir(const char *path, const char *what, struct error *err)
{
	struct stat st;

	if (mkdir(path, 0700) == 0)
		return TIDE_OK;
	if (errno == EEXIST && (stat(path, &st) < 0 || !S_ISDIR(st.st_mode)))
		errno = ENOTDIR;
	if (errno != EEXIST)
		return error_set(err, -errno, "cannot make %s '%s': %s", what, path,
				 strerror(errno));
	return TIDE_OK;
}

static int make_dirs(const struct broker_config *c, struct error *err)
{
	int rc = TIDE_OK;

	if (strcmp(c->store.url, "embedded") == 0)
		rc = make_dir(c->store.data_dir, "the data directory", err);
	if (rc == TIDE_OK && c->rules_candidates)
		rc = make_dir(c->rules_candidates,
			      "the directory for candidate rules "
			      "(--rules-candidates)",
			      err);
	return rc;
}

/* Until their handlers are there they wait. */
static void mask_signals(int how)
{
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < SIGNALS; i++)
		sigaddset(&set, numbers[i]);
	sigprocmask(how, &set, NULL);
}

static void init_handles(struct serve *s)
{
	for (size_t i = 0; i < SIGNALS; i++) {
		uv_signal_init(&s->loop, &s->signals[i]);
		s->signals[i].data = s;
		uv_signal_start(&s->signals[i], on_signal, numbers[i]);
	}
	uv_timer_init(&s->loop, &s->drain_timer);
	uv_timer_init(&s->loop, &s->log_timer);
	s->drain_timer.data = s->log_timer.data = s;
	mask_signals(SIG_UNBLOCK);
}

/* Are all addresses good, and do others reach one of them? Before the service is made,
 * which is told. */
static int check_addresses(struct serve *s, struct error *err)
{
	struct serve_options *o = &s->options;
	int rc = TIDE_OK;

	if (o->cluster)
		rc = server_check_address(&s->loop, o->cluster, &o->server, err);
	for (unsigned i = 0; i <= o->listen_count && rc == TIDE_OK; i++) {
		const char *address = i < o->listen_count ? o->listen[i] : o->http;

		if (!address)
			continue;
		rc = server_check_address(&s->loop, address, &o->server, err);
		if (rc == TIDE_OK && server_is_exposed(&s->loop, address))
			s->exposed = address;
	}
	o->broker.must_log_in = s->exposed && !o->is_anonymous;
	return rc;
}

int serve_main(int argc, char **argv)
{
	struct serve s = { 0 };
	struct service_hooks hooks = { &s, on_started, on_lost, on_turn,
				       on_service_closed };
	struct error err;
	int rc;

	mem_join_early();
	mask_signals(SIG_BLOCK);
	log_unblock();
	if (serve_options_parse(&s.options, argc, argv, &err) < 0) {
		log_print(STDERR_FILENO, "tidemq serve: %s; see tidemq help serve",
			  err.text);
		serve_options_deinit(&s.options);
		return 2;
	}
	if (s.options.is_help) {
		serve_options_help(stdout);
		serve_options_deinit(&s.options);
		return 0;
	}
	log_configure(s.options.log_level, getenv("JOURNAL_STREAM") != NULL);
	log_set_format(s.options.log_format);
	log_limit_repeats();
	if (s.options.store_url)
		log_warn("the password of --store was on the command line, where every "
			 "user could read it: set TIDEMQ_STORE, or store in a --config");
	signal(SIGPIPE, SIG_IGN);
	raise_file_limit();
	uv_loop_init(&s.loop);
	rc = check_addresses(&s, &err);
	if (rc == TIDE_OK)
		rc = make_dirs(&s.options.broker, &err);
	if (s.options.cluster)
		s.options.broker.store.at = s.at;
	if (rc == TIDE_OK)
		rc = service_create(&s.service, &s.loop, &s.options.broker, &hooks, &err);
	if (rc < 0) {
		log_print(STDERR_FILENO, "tidemq: %s", err.text);
		s.status = 1;
	} else {
		init_handles(&s);
		if (s.options.cluster && open_server(&s, &err) < 0)
			fail_start(&s, &err);
	}
	uv_run(&s.loop, UV_RUN_DEFAULT);
	uv_loop_close(&s.loop);
	log_tell_repeats(true);
	serve_options_deinit(&s.options);
	return s.status;
}
