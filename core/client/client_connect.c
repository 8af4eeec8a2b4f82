#include "client_connect.h"

#include <inttypes.h>
#include <sys/random.h>

#include "base/mem.h"
#include "base/percent.h"
#include "base/random.h"
#include "client_request.h"

/* The pause before a round of attempts: doubled each time, and a random part of it taken
 * off, so that the clients of a broker that starts do not all come at once. */
#define PAUSE_MIN_MS 100
#define PAUSE_MAX_MS 5000
#define ATTEMPT_MIN_MS 100
/* A connection that lasted as long was a good one: the pauses begin anew. */
#define LASTING_MS 10000
/* Of half a heartbeat each, without a byte from the broker. It promises one in two. */
#define SILENT_TICKS_MAX 4

/* ---- the end ---- */

static void end(struct tidemq_client *c)
{
	struct tidemq_error why;

	c->state = CLIENT_LOST;
	if (c->was_up && c->options.reconnect)
		c->loss.status = TIDEMQ_ECLOSED;
	why = c->loss;
	client_request_fail_all(c);
	if (c->state == CLIENT_LOST && c->was_up && c->options.reconnect)
		client_tell(c, TIDEMQ_GAVE_UP, &why);
	if (c->state != CLIENT_LOST)
		return;
	if (c->was_up)
		c->handlers.on_lost(c, &why, c->handlers.ctx);
	else
		c->handlers.on_connected(c, &why, c->handlers.ctx);
}

/* ---- what the link tells ---- */

static void on_up(void *ctx);

static void on_input(void *ctx)
{
	struct tidemq_client *c = ctx;

	c->silent_ticks = 0;
	if (c->state == CLIENT_CLOSING)
		buf_clear(&c->decoder.in);
	else
		client_dispatch(c);
}

static void on_down(void *ctx, const struct tidemq_error *why)
{
	struct tidemq_client *c = ctx;

	if (c->state == CLIENT_CLOSING) {
		client_leave(c);
		return;
	}
	c->loss = c->farewell.status != TIDEMQ_OK ? c->farewell : *why;
	client_connect_lose(c);
}

static void on_link_closed(void *ctx)
{
	struct tidemq_client *c = ctx;

	c->links--;
	client_finish(c);
}

static void on_connect_timeout(uv_timer_t *timer)
{
	struct tidemq_client *c = timer->data;
	char address[URL_ADDRESS_MAX];

	url_address(&c->urls[c->url_index].at, address);
	client_fail(&c->loss, TIDEMQ_ETIMEDOUT, "no answer from %s in time", address);
	client_connect_lose(c);
}

int client_connect_read_tls(struct tidemq_client *c, struct tidemq_error *err)
{
	const struct tls_files files = { c->tls_cert, c->tls_key, c->tls_ca };
	struct tls_context *fresh;
	struct error why;

	if (tls_context_create_client(&files, &fresh, &why) < 0)
		return client_fail(err, TIDEMQ_EINVAL, "TLS: %s", why.text);
	tls_context_unref(c->tls);
	c->tls = fresh;
	return TIDEMQ_OK;
}

/* Other files may lie there by now. What the system trusts is read once: it takes long.
 */
static void refresh_tls(struct tidemq_client *c)
{
	int kept = c->was_up && c->tls_ca ? client_connect_read_tls(c, NULL) : TIDEMQ_OK;

	(void)kept;
}

/* How long this attempt may take. */
static uint64_t attempt_ms(const struct tidemq_client *c)
{
	int64_t most = c->options.connect_timeout_ms, left;

	if (!c->was_up || c->options.reconnect_for_ms <= 0)
		return (uint64_t)most;
	left = c->options.reconnect_for_ms - (int64_t)(uv_now(c->loop) - c->lost_at_ms);
	if (left < ATTEMPT_MIN_MS)
		left = ATTEMPT_MIN_MS;
	return (uint64_t)(left < most ? left : most);
}

void client_connect_start(struct tidemq_client *c)
{
	const struct client_url *url = &c->urls[c->url_index];
	const struct client_link_owner owner = { .ctx = c,
						 .in = &c->decoder.in,
						 .out = &c->out,
						 .on_up = on_up,
						 .on_input = on_input,
						 .on_down = on_down,
						 .on_closed = on_link_closed };

	if (url->is_tls)
		refresh_tls(c);
	decoder_deinit(&c->decoder);
	decoder_init(&c->decoder, c->options.payload_max_bytes);
	c->farewell.status = TIDEMQ_OK;
	uv_timer_start(&c->timer, on_connect_timeout, attempt_ms(c), 0);
	c->links++;
	c->link = client_link_open(c->loop, url, url->is_tls ? c->tls : NULL, &owner);
}

/* ---- losing a connection ---- */

static void on_pause_over(uv_timer_t *timer)
{
	client_connect_start(timer->data);
}

static uint64_t pause_ms(struct tidemq_client *c)
{
	uint64_t round = c->attempts / c->url_count, most = PAUSE_MIN_MS;

	if (c->attempts % c->url_count != 0)
		return 0;
	while (round-- > 0 && most < PAUSE_MAX_MS)
		most *= 2;
	if (most > PAUSE_MAX_MS)
		most = PAUSE_MAX_MS;
	/* The first attempt comes soon: most losses are of one connection. */
	return c->attempts == 0 ? random_up_to(&c->random, most)
				: most / 2 + random_up_to(&c->random, most / 2);
}

/* The same broker is tried first: most of those that went come back. But one that does
 * not answer may have lost its store to another one. */
static void try_again(struct tidemq_client *c)
{
	uint64_t pause = pause_ms(c);

	if (c->attempts > 0 || c->loss.status == TIDEMQ_ETIMEDOUT)
		c->url_index = (c->url_index + 1) % c->url_count;
	c->attempts++;
	c->state = CLIENT_CONNECTING;
	uv_timer_start(&c->timer, on_pause_over, pause, 0);
}

/* A wrong password stays wrong. */
static bool is_denied(const struct tidemq_client *c)
{
	return c->loss.status == TIDEMQ_EREFUSED && strcmp(c->loss.word, "denied") == 0;
}

/* The first connection: each URL is tried once. */
static bool has_another(const struct tidemq_client *c)
{
	return !c->was_up && c->url_index + 1 < c->url_count && !is_denied(c);
}

static bool is_out_of_time(struct tidemq_client *c)
{
	int64_t limit_ms = c->options.reconnect_for_ms;
	struct tidemq_error why = c->loss;

	if (limit_ms <= 0 || uv_now(c->loop) - c->lost_at_ms < (uint64_t)limit_ms)
		return false;
	client_fail(&c->loss, TIDEMQ_ECLOSED,
		    "gave up after %" PRId64 " ms without a connection: %s", limit_ms,
		    why.text);
	return true;
}

/* What is no tidemq broker does not become one. */
static bool is_final(const struct tidemq_client *c)
{
	return c->is_quitting || is_denied(c) || c->loss.status == TIDEMQ_EPROTOCOL ||
	       c->loss.status == TIDEMQ_ENOMEM;
}

static void close_link(struct tidemq_client *c)
{
	uv_timer_stop(&c->timer);
	uv_prepare_stop(&c->flusher);
	if (c->link)
		client_link_close(c->link);
	c->link = NULL;
	buf_clear(&c->out);
}

/* A connection that was up has ended, and another one is tried. */
static void lose_session(struct tidemq_client *c)
{
	const struct tidemq_error why = c->loss;
	uint64_t now_ms = uv_now(c->loop);

	c->lost_at_ms = now_ms;
	if (now_ms - c->up_at_ms >= LASTING_MS)
		c->attempts = 0;
	try_again(c);
	client_request_lose(c);
	if (c->state == CLIENT_CONNECTING && c->on_stale)
		c->on_stale(c);
	if (c->state == CLIENT_CONNECTING)
		client_tell(c, TIDEMQ_LOST, &why);
}

void client_connect_lose(struct tidemq_client *c)
{
	bool was_up = c->state == CLIENT_UP;

	if (c->state >= CLIENT_LOST)
		return;
	close_link(c);
	if (has_another(c)) {
		client_request_lose(c);
		c->url_index++;
		c->state = CLIENT_CONNECTING;
		uv_timer_start(&c->timer, on_pause_over, 0, 0);
	} else if (!c->was_up || !c->options.reconnect || is_final(c)) {
		end(c);
	} else if (was_up) {
		lose_session(c);
	} else if (is_out_of_time(c)) {
		end(c);
	} else {
		client_request_lose(c);
		try_again(c);
	}
}

/* ---- a new connection ---- */

static void on_heartbeat(uv_timer_t *timer)
{
	struct tidemq_client *c = timer->data;

	if (++c->silent_ticks > SILENT_TICKS_MAX) {
		client_fail(&c->loss, TIDEMQ_ECLOSED,
			    "the connection has ended: nothing came from the broker for "
			    "%" PRId64 " ms",
			    2 * c->options.heartbeat_ms);
		client_connect_lose(c);
		return;
	}
	buf_append_text(&c->out, "\r\n");
	client_link_flush(c->link);
}

static void start_heartbeat(struct tidemq_client *c)
{
	/* Twice as often as promised: the broker need not be patient. */
	uint64_t every = (uint64_t)c->options.heartbeat_ms / 2;

	c->silent_ticks = 0;
	if (every > 0)
		uv_timer_start(&c->timer, on_heartbeat, every, every);
	else
		uv_timer_stop(&c->timer);
}

static void on_hello(struct tidemq_client *c, const struct tidemq_reply *reply, void *ctx)
{
	const struct tidemq_error fine = { 0 };

	if (reply->status != TIDEMQ_OK) {
		client_fail_remote(&c->loss, TIDEMQ_EREFUSED, slice_from(reply->word),
				   (struct slice){ reply->text, reply->len });
		client_connect_lose(c);
		return;
	}
	mem_free(c->server_info);
	c->server_info = mem_strndup(reply->text, reply->len);
	start_heartbeat(c);
	if (c->was_up) {
		c->state = CLIENT_RESTORING;
		/* With heartbeats a broker that says nothing is noticed by itself. */
		if (c->options.heartbeat_ms == 0)
			uv_timer_start(&c->timer, on_connect_timeout, attempt_ms(c), 0);
		client_restore_begin(c);
		return;
	}
	c->was_up = true;
	c->up_at_ms = uv_now(c->loop);
	c->state = CLIENT_UP;
	c->handlers.on_connected(c, &fine, c->handlers.ctx);
	if (c->state == CLIENT_UP)
		client_tell(c, TIDEMQ_CONNECTED, &fine);
}

void client_connect_resume(struct tidemq_client *c)
{
	c->up_at_ms = uv_now(c->loop);
	c->state = CLIENT_UP;
	if (c->options.heartbeat_ms == 0)
		uv_timer_stop(&c->timer);
	client_restore_subscribe(c);
}

static void append_option(struct buf *out, const char *name, const char *value)
{
	if (!value)
		return;
	buf_append_char(out, ' ');
	buf_append_text(out, name);
	buf_append_char(out, '=');
	percent_encode(out, slice_from(value));
}

static void on_up(void *ctx)
{
	struct tidemq_client *c = ctx;
	const struct client_url *url = &c->urls[c->url_index];
	struct buf line = { 0 };

	c->state = CLIENT_GREETING;
	buf_append_text(&line, "HELLO");
	append_option(&line, "user", url->at.user);
	append_option(&line, "pass", url->at.password);
	append_option(&line, "vhost", url->vhost);
	append_option(&line, "name", c->name);
	if (c->options.heartbeat_ms > 0)
		buf_printf(&line, " heartbeat=%" PRId64, c->options.heartbeat_ms);
	if (c->options.prefetch > 0)
		buf_printf(&line, " prefetch=%u", c->options.prefetch);
	client_request_send_own(c, 0, &line, on_hello, NULL);
	buf_deinit(&line);
}
