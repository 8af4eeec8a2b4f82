#include "bench.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "tidemq/client.h"
#include "base/mem.h"
#include "bench_stomp.h"
#include "client/client_url.h"
#include "host/machine.h"

#define NS UINT64_C(1000000000)
#define PROGRESS_MS 1000

/* What a payload begins with; the rest of it is filler. */
struct stamp {
	uint32_t run; /* of this process: others' messages are not counted */
	uint32_t producer;
	uint64_t number;
	uint64_t due_ns;
};

struct bench;

/* A producer or a consumer. */
struct worker {
	struct bench *bench;
	struct tidemq_client *client;
	struct bench_stomp *stomp; /* instead of it */
	char queue[300];
	/* Of a producer. */
	unsigned number;
	uint64_t quota;
	uint64_t sent;
	uint64_t in_flight;
	uint64_t *due_ns; /* of the last `window` sent, by number */
	uint64_t confirmed;
	uint64_t *seen; /* a bit a message and reader: which have been received */
	/* Of a consumer. */
	unsigned reader; /* which of the readers of each message it belongs to */
	uint64_t first_tag, last_tag; /* received and not acknowledged */
	uint64_t *next; /* by producer: the number after the last one received */
};

struct bench {
	const struct bench_options *options;
	struct bench_result *result;
	uv_loop_t loop;
	uv_check_t check;
	uv_timer_t progress;
	uv_signal_t interrupts[2]; /* SIGINT, SIGTERM */
	uv_poll_t pacer; /* a timerfd: due times are finer than the loop's clock */
	int pacer_fd;
	struct worker *consumers;
	struct worker *producers; /* after the consumers */
	unsigned waiting;         /* for connections and subscriptions */
	uint32_t run;
	char *payload;
	uint64_t start_ns;
	uint64_t last_confirm_ns;
	uint64_t last_receipt_ns;
	uint64_t last_shown;
	uint64_t clock_ns;
	unsigned clock_uses; /* in this turn */
	bool is_running;
	bool is_over;
};

static uint64_t now_ns(void)
{
	return (uint64_t)machine_clock_ns(CLOCK_MONOTONIC);
}

/* For what comes many at a time: the clock is read for the first of a turn and
 * every eighth after it, which are some microseconds. */
static uint64_t about_now_ns(struct bench *b)
{
	if (b->clock_uses++ % 8 == 0)
		b->clock_ns = now_ns();
	return b->clock_ns;
}

static void close_handle(uv_handle_t *handle)
{
	if (!uv_is_closing(handle))
		uv_close(handle, NULL);
}

static void end(struct bench *b)
{
	const struct bench_options *o = b->options;

	if (b->is_over)
		return;
	b->is_over = true;
	close_handle((uv_handle_t *)&b->check);
	close_handle((uv_handle_t *)&b->progress);
	for (int i = 0; i < 2; i++)
		close_handle((uv_handle_t *)&b->interrupts[i]);
	if (b->pacer_fd >= 0)
		close_handle((uv_handle_t *)&b->pacer);
	for (unsigned i = 0; i < o->consumers + o->producers; i++) {
		if (b->consumers[i].client)
			tidemq_close(b->consumers[i].client, NULL, NULL);
		bench_stomp_close(b->consumers[i].stomp);
	}
}

static void fail(struct bench *b, const char *what, const char *why)
{
	if (!b->is_over && !b->result->error[0])
		snprintf(b->result->error, sizeof(b->result->error), "%s: %s", what, why);
	end(b);
}

/* The run is over; its queues are deleted as at any end. */
static void on_interrupt(uv_signal_t *handle, int signal)
{
	fail(handle->data, "interrupted", "the run did not end, so there are no figures");
}

static void check_end(struct bench *b)
{
	const struct bench_options *o = b->options;
	struct bench_result *r = b->result;

	if (o->producers && r->confirmed < o->count)
		return;
	if (o->consumers && r->received - r->duplicates < o->count * o->readers)
		return;
	end(b);
}

static void produce(struct worker *p, uint64_t now);

static void on_receipt(void *ctx)
{
	struct worker *p = ctx;
	struct bench *b = p->bench;
	uint64_t now = about_now_ns(b);

	if (b->is_over)
		return;
	histogram_add(&b->result->confirm,
		      now - p->due_ns[p->confirmed++ % b->options->window]);
	p->in_flight--;
	b->result->confirmed++;
	b->last_confirm_ns = now;
	if (!b->options->rate)
		produce(p, now);
	check_end(b);
}

static void on_confirm(struct tidemq_client *c, const struct tidemq_reply *reply,
		       void *ctx)
{
	struct worker *p = ctx;

	if (reply->status != TIDEMQ_OK)
		fail(p->bench, "a publish was refused", reply->text);
	else
		on_receipt(p);
}

static int send_one(struct worker *p, uint64_t due_ns)
{
	struct bench *b = p->bench;
	struct stamp stamp = { b->run, p->number, p->sent, due_ns };
	struct tidemq_publication pub = { .key = p->queue,
					  .payload = b->payload,
					  .payload_len = b->options->size };
	int status = TIDEMQ_OK;

	memcpy(b->payload, &stamp, sizeof(stamp));
	if (p->stomp)
		bench_stomp_send(p->stomp, p->queue,
				 (struct slice){ b->payload, b->options->size });
	else
		status = tidemq_send_publication(p->client, 0, &pub, on_confirm, p);
	if (status != TIDEMQ_OK)
		return status;
	p->due_ns[p->sent++ % b->options->window] = due_ns;
	p->in_flight++;
	b->result->sent++;
	return TIDEMQ_OK;
}

static void produce(struct worker *p, uint64_t now)
{
	struct bench *b = p->bench;

	while (!b->is_over && p->in_flight < b->options->window && p->sent < p->quota) {
		int status = send_one(p, now);

		if (status == TIDEMQ_EBUSY)
			return;
		if (status != TIDEMQ_OK)
			fail(b, "cannot publish", tidemq_status_text(status));
	}
}

/* The n-th message of the run, all producers taking turns. */
static uint64_t due_of(const struct bench *b, uint64_t n)
{
	return b->start_ns + n * NS / b->options->rate;
}

static void arm_pacer(struct bench *b)
{
	uint64_t due = due_of(b, b->result->sent);
	struct itimerspec spec = { .it_value = { (time_t)(due / NS), (long)(due % NS) } };

	timerfd_settime(b->pacer_fd, TFD_TIMER_ABSTIME, &spec, NULL);
}

static void on_pace(uv_poll_t *handle, int status, int events)
{
	struct bench *b = handle->data;
	uint64_t expirations;
	ssize_t n = read(b->pacer_fd, &expirations, sizeof(expirations));

	if (n < 0 && errno != EAGAIN) {
		fail(b, "timerfd", strerror(errno));
		return;
	}
	while (!b->is_over && b->result->sent < b->options->count) {
		uint64_t due = due_of(b, b->result->sent);
		struct worker *p = &b->producers[b->result->sent % b->options->producers];

		/* A full window makes it late; its latency still counts from `due`. */
		if (due > now_ns() || p->in_flight >= b->options->window ||
		    send_one(p, due) != TIDEMQ_OK)
			break;
	}
	if (!b->is_over && b->result->sent < b->options->count)
		arm_pacer(b);
}

static size_t seen_words(const struct worker *p)
{
	return p->quota / 64 + 1;
}

static void count_receipt(struct worker *c, const struct stamp *s, uint64_t now)
{
	struct bench *b = c->bench;
	struct bench_result *r = b->result;
	struct worker *p = &b->producers[s->producer];
	uint64_t *seen = &p->seen[c->reader * seen_words(p) + s->number / 64];
	uint64_t bit = UINT64_C(1) << (s->number % 64);

	if (*seen & bit) {
		r->duplicates++;
		return;
	}
	*seen |= bit;
	if (s->number < c->next[s->producer])
		r->disordered++;
	c->next[s->producer] = s->number + 1;
	histogram_add(&r->deliver, now - s->due_ns);
}

static void on_message(void *ctx, struct slice body)
{
	struct worker *c = ctx;
	struct bench *b = c->bench;
	uint64_t now = about_now_ns(b);
	struct stamp s = { 0 };

	if (body.len >= sizeof(s))
		memcpy(&s, body.data, sizeof(s));
	if (!b->options->is_drain &&
	    (s.run != b->run || s.producer >= b->options->producers ||
	     s.number >= b->producers[s.producer].quota))
		return;
	b->result->received++;
	b->last_receipt_ns = now;
	if (b->options->is_drain && !b->start_ns)
		b->start_ns = now;
	if (!b->options->is_drain)
		count_receipt(c, &s, now);
}

static void on_msg(struct tidemq_client *client, struct tidemq_msg *m, void *ctx)
{
	struct worker *c = ctx;

	if (m->tag && !c->first_tag)
		c->first_tag = m->tag;
	if (m->tag)
		c->last_tag = m->tag;
	on_message(c, (struct slice){ m->payload, m->payload_len });
	tidemq_msg_free(m);
}

static void on_acked(struct tidemq_client *c, const struct tidemq_reply *reply, void *ctx)
{
	struct worker *consumer = ctx;

	if (!consumer->bench->is_over && reply->status != TIDEMQ_OK)
		fail(consumer->bench, "an ack was refused", reply->text);
}

static void flush_stomp(struct bench *b)
{
	const struct bench_options *o = b->options;

	for (unsigned i = 0; i < o->consumers + o->producers && !b->is_over; i++) {
		bench_stomp_settle(b->consumers[i].stomp);
		bench_stomp_flush(b->consumers[i].stomp);
	}
}

/* Once a turn: what has been received is acknowledged as one range. */
static void on_check(uv_check_t *handle)
{
	struct bench *b = handle->data;

	b->clock_uses = 0;
	for (unsigned i = 0; i < b->options->consumers && !b->is_over; i++) {
		struct worker *c = &b->consumers[i];
		char line[64];

		if (!c->first_tag)
			continue;
		snprintf(line, sizeof(line), "ACK %" PRIu64 "-%" PRIu64, c->first_tag,
			 c->last_tag);
		if (tidemq_send(c->client, line, NULL, 0, on_acked, c) == TIDEMQ_OK)
			c->first_tag = 0;
	}
	if (b->options->is_stomp)
		flush_stomp(b);
	if (b->is_running && !b->is_over)
		check_end(b);
}

static void start(struct bench *b)
{
	b->is_running = true;
	if (b->options->producers)
		b->start_ns = now_ns();
	if (b->options->rate && b->options->producers) {
		arm_pacer(b);
		return;
	}
	for (unsigned i = 0; i < b->options->producers; i++)
		produce(&b->producers[i], b->start_ns);
}

static void one_is_ready(struct bench *b)
{
	if (--b->waiting == 0 && !b->is_over)
		start(b);
}

static void on_stomp_ready(void *ctx)
{
	one_is_ready(((struct worker *)ctx)->bench);
}

static void on_stomp_lost(void *ctx, const char *why)
{
	fail(((struct worker *)ctx)->bench, "connection lost", why);
}

static void open_stomp(struct bench *b, struct worker *w, const struct client_url *url)
{
	const struct bench_options *o = b->options;
	bool is_consumer = w < b->producers;
	char group[32];
	struct bench_stomp_spec spec = {
		.at = &url->at,
		.vhost = url->vhost,
		.queue = is_consumer ? w->queue : NULL,
		.prefetch = o->prefetch,
		.is_auto_ack = o->is_auto_ack,
		.from = o->is_topic ? o->from : NULL,
		.handlers = { w, on_stomp_ready, on_receipt, on_message, on_stomp_lost },
	};
	const char *why;

	snprintf(group, sizeof(group), "bench-%u", w->reader + 1);
	if (o->has_groups)
		spec.group = group;
	w->stomp = bench_stomp_open(&b->loop, &spec, &why);
	if (!w->stomp)
		fail(b, "cannot connect", why);
}

static void connect_stomp(struct bench *b)
{
	const struct bench_options *o = b->options;
	struct client_url *urls;
	struct tidemq_error err;
	size_t count;

	if (client_url_parse(o->url, &urls, &count, &err) != TIDEMQ_OK) {
		fail(b, "cannot connect", err.text);
		return;
	}
	if (urls[0].is_tls)
		fail(b, "cannot connect", "--protocol stomp does not speak TLS");
	for (unsigned i = 0; i < o->consumers + o->producers && !b->is_over; i++)
		open_stomp(b, &b->consumers[i], &urls[0]);
	client_url_free(urls, count);
}

static void on_subscribed(struct tidemq_client *c, const struct tidemq_reply *reply,
			  void *ctx)
{
	struct worker *consumer = ctx;

	if (reply->status != TIDEMQ_OK)
		fail(consumer->bench, "cannot subscribe", reply->text);
	else
		one_is_ready(consumer->bench);
}

static void on_connected(struct tidemq_client *client, const struct tidemq_error *why,
			 void *ctx)
{
	struct worker *w = ctx;
	struct bench *b = w->bench;
	const struct bench_options *o = b->options;
	char line[600], group[32] = "";

	if (why->status != TIDEMQ_OK) {
		fail(b, "cannot connect", why->text);
		return;
	}
	if (w >= b->producers) {
		one_is_ready(b);
		return;
	}
	if (o->has_groups)
		snprintf(group, sizeof(group), " group=bench-%u", w->reader + 1);
	snprintf(line, sizeof(line), "SUB %s bench prefetch=%u ack=%s%s%s%s", w->queue,
		 o->prefetch, o->is_auto_ack ? "auto" : "manual", group,
		 o->is_topic ? " from=" : "", o->is_topic ? o->from : "");
	if (tidemq_send(client, line, NULL, 0, on_subscribed, w) != TIDEMQ_OK)
		fail(b, "cannot subscribe", "the request could not be sent");
}

static void on_lost(struct tidemq_client *c, const struct tidemq_error *why, void *ctx)
{
	fail(((struct worker *)ctx)->bench, "connection lost", why->text);
}

static void connect_workers(struct bench *b)
{
	const struct bench_options *o = b->options;
	struct tidemq_options options = { .name = "bench", .window = o->window + 16 };
	struct tidemq_error err;

	if (options.window < 256)
		options.window = 256;
	b->waiting = o->producers + o->consumers;
	if (o->is_stomp) {
		connect_stomp(b);
		return;
	}
	for (unsigned i = 0; i < o->consumers + o->producers; i++) {
		struct worker *w = &b->consumers[i];
		struct tidemq_handlers h = { w, on_connected, on_msg, NULL, on_lost };

		w->client = tidemq_start(&b->loop, o->url, &options, &h, &err);
		if (!w->client) {
			fail(b, "cannot connect", err.text);
			return;
		}
	}
}

static void on_progress(uv_timer_t *timer)
{
	struct bench *b = timer->data;
	uint64_t done =
		b->options->consumers ? b->result->received : b->result->confirmed;

	fprintf(b->options->progress,
		"\r%" PRIu64 " of %" PRIu64 " messages, %" PRIu64 " a second ", done,
		b->options->count * b->options->readers,
		(done - b->last_shown) * 1000 / PROGRESS_MS);
	fflush(b->options->progress);
	b->last_shown = done;
}

static void make_workers(struct bench *b)
{
	const struct bench_options *o = b->options;

	b->consumers = mem_zalloc((o->consumers + o->producers) * sizeof(*b->consumers));
	b->producers = b->consumers + o->consumers;
	for (unsigned i = 0; i < o->producers; i++) {
		struct worker *p = &b->producers[i];

		p->bench = b;
		p->number = i;
		p->quota = o->count / o->producers + (i < o->count % o->producers);
		p->due_ns = mem_zalloc(o->window * sizeof(uint64_t));
		p->seen = mem_zalloc(o->readers * seen_words(p) * sizeof(uint64_t));
		snprintf(p->queue, sizeof(p->queue), "%s-%u", o->queue,
			 i % o->queues + 1);
	}
	for (unsigned i = 0; i < o->consumers; i++) {
		struct worker *c = &b->consumers[i];
		unsigned together = o->consumers / o->readers;

		c->bench = b;
		c->reader = i / together;
		c->next = mem_zalloc((o->producers + 1) * sizeof(uint64_t));
		snprintf(c->queue, sizeof(c->queue), "%s-%u", o->queue,
			 i % together % o->queues + 1);
	}
	b->payload = mem_alloc(o->size);
	memset(b->payload, 'x', o->size);
}

static void free_workers(struct bench *b)
{
	for (unsigned i = 0; i < b->options->consumers + b->options->producers; i++) {
		mem_free(b->consumers[i].due_ns);
		mem_free(b->consumers[i].seen);
		mem_free(b->consumers[i].next);
	}
	mem_free(b->consumers);
	mem_free(b->payload);
}

/* `verb` is "DECLARE" or "DELETE". */
static int each_queue(const struct bench_options *o, const char *verb, const char *more,
		      struct bench_result *r)
{
	struct tidemq_error err;
	struct tidemq_client *c = tidemq_connect(o->url, NULL, &err);
	char line[1024];
	int status = TIDEMQ_OK;

	if (!c) {
		snprintf(r->error, sizeof(r->error), "%s", err.text);
		return -1;
	}
	for (unsigned i = 1; i <= o->queues && status == TIDEMQ_OK; i++) {
		snprintf(line, sizeof(line), "%s %s %s-%u%s", verb,
			 o->is_topic ? "topic" : "queue", o->queue, i, more);
		status = tidemq_request(c, line, NULL, 0, NULL);
	}
	if (status != TIDEMQ_OK && !r->error[0])
		snprintf(r->error, sizeof(r->error), "%s", tidemq_last_error(c)->text);
	tidemq_disconnect(c);
	return status == TIDEMQ_OK ? 0 : -1;
}

static void run_loop(struct bench *b)
{
	const struct bench_options *o = b->options;

	uv_loop_init(&b->loop);
	uv_check_init(&b->loop, &b->check);
	uv_timer_init(&b->loop, &b->progress);
	b->check.data = b->progress.data = b->pacer.data = b;
	uv_check_start(&b->check, on_check);
	b->pacer_fd = -1;
	if (o->rate && o->producers) {
		b->pacer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
		uv_poll_init(&b->loop, &b->pacer, b->pacer_fd);
		uv_poll_start(&b->pacer, UV_READABLE, on_pace);
	}
	for (int i = 0; i < 2; i++) {
		uv_signal_init(&b->loop, &b->interrupts[i]);
		b->interrupts[i].data = b;
		uv_signal_start(&b->interrupts[i], on_interrupt, i ? SIGTERM : SIGINT);
	}
	if (o->progress)
		uv_timer_start(&b->progress, on_progress, PROGRESS_MS, PROGRESS_MS);
	connect_workers(b);
	uv_run(&b->loop, UV_RUN_DEFAULT);
	uv_loop_close(&b->loop);
	if (b->pacer_fd >= 0)
		close(b->pacer_fd);
	if (o->progress)
		fputs("\r\033[K", o->progress);
}

int bench_run(const struct bench_options *o, struct bench_result *r)
{
	struct bench b = { .options = o, .result = r };

	*r = (struct bench_result){ 0 };
	histogram_init(&r->confirm);
	histogram_init(&r->deliver);
	if (!o->is_drain && each_queue(o, "DECLARE", o->declare, r) < 0)
		return -1;
	b.run = (uint32_t)(now_ns() ^ (uint64_t)getpid() << 20);
	make_workers(&b);
	run_loop(&b);
	free_workers(&b);
	r->publish_seconds = (double)(b.last_confirm_ns - b.start_ns) / (double)NS;
	r->deliver_seconds = (double)(b.last_receipt_ns - b.start_ns) / (double)NS;
	if (o->consumers && !o->is_drain)
		r->missing = o->count * o->readers - (r->received - r->duplicates);
	if (!o->keep)
		each_queue(o, "DELETE", "", r);
	return r->error[0] ? -1 : 0;
}

void bench_result_deinit(struct bench_result *r)
{
	histogram_deinit(&r->confirm);
	histogram_deinit(&r->deliver);
}
