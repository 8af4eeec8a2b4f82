/* cli_bench.c: bench, the load generator.
 *
 * Producers and consumers are clients of the library on one loop. Each message carries
 * its sender, its number and the time at which it was due. The consumers check by these
 * that every message arrives once and in order. A latency counts from the due time, not
 * from the moment a busy sender came to it (coordinated omission). */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <uv.h>

#include "base/tally.h"
#include "base/mem.h"
#include "cli.h"
#include "host/machine.h"

#define BENCH_SIZE_MIN 24
#define BENCH_WORKERS_MAX 1024

#define NS UINT64_C(1000000000)
#define PROGRESS_MS 1000

/* The start of a payload; the rest of it is filler. */
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
	/* The request of the user. */
	const char *url;
	const char *queue; /* names are this, a dash and a number from 1 */
	unsigned producer_count;
	unsigned consumer_count;
	unsigned queues;
	unsigned size;     /* of a payload, BENCH_SIZE_MIN at least */
	unsigned window;   /* unconfirmed messages of a producer */
	unsigned prefetch; /* unacknowledged ones of a consumer */
	uint64_t count;    /* messages in all */
	uint64_t rate;     /* a second, in all; 0 = as fast as it goes */
	bool is_auto_ack;
	bool is_topic;    /* topics instead of queues; what follows is for them */
	unsigned readers; /* how often each message is to be received; 1 for queues */
	bool has_groups;  /* the consumers form `readers` groups; else each is a reader */
	const char *from; /* where they begin */
	bool is_drain;    /* consume what an earlier run left: nothing is known of it */
	bool has_progress; /* a line on standard error now and then */

	/* The results. */
	uint64_t sent;
	uint64_t confirmed;
	uint64_t received;
	uint64_t duplicates;
	uint64_t missing;
	uint64_t disordered;      /* came after a later one of the same sender */
	double publish_seconds;   /* from the first send to the last confirm */
	double deliver_seconds;   /* from the first send to the last receipt */
	struct histogram confirm; /* from due to confirmed, ns */
	struct histogram deliver; /* from due to received, ns */
	char error[640];

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

static void end_run(struct bench *b)
{

	if (b->is_over)
		return;
	b->is_over = true;
	close_handle((uv_handle_t *)&b->check);
	close_handle((uv_handle_t *)&b->progress);
	for (int i = 0; i < 2; i++)
		close_handle((uv_handle_t *)&b->interrupts[i]);
	if (b->pacer_fd >= 0)
		close_handle((uv_handle_t *)&b->pacer);
	for (unsigned i = 0; i < b->consumer_count + b->producer_count; i++)
		if (b->consumers[i].client)
			tidemq_close(b->consumers[i].client, NULL, NULL);
}

static void fail_run(struct bench *b, const char *what, const char *why)
{
	if (!b->is_over && !b->error[0])
		snprintf(b->error, sizeof(b->error), "%s: %s", what, why);
	end_run(b);
}

/* The run is over; its queues are deleted as at any end. */
static void on_interrupt(uv_signal_t *handle, int signal)
{
	fail_run(handle->data, "interrupted",
		 "the run did not end, so there are no figures");
}

static void check_end(struct bench *b)
{

	if (b->producer_count && b->confirmed < b->count)
		return;
	if (b->consumer_count && b->received - b->duplicates < b->count * b->readers)
		return;
	end_run(b);
}

static void produce_more(struct worker *p, uint64_t now);

static void on_confirm(struct tidemq_client *c, const struct tidemq_reply *reply,
		       void *ctx)
{
	struct worker *p = ctx;
	struct bench *b = p->bench;
	uint64_t now = about_now_ns(b);

	if (b->is_over)
		return;
	if (reply->status != TIDEMQ_OK) {
		fail_run(b, "a publish was refused", reply->text);
		return;
	}
	histogram_add(&b->confirm, now - p->due_ns[p->confirmed++ % b->window]);
	p->in_flight--;
	b->confirmed++;
	b->last_confirm_ns = now;
	if (!b->rate)
		produce_more(p, now);
	check_end(b);
}

static int send_one(struct worker *p, uint64_t due_ns)
{
	struct bench *b = p->bench;
	struct stamp stamp = { b->run, p->number, p->sent, due_ns };
	struct tidemq_publication pub = { .key = p->queue,
					  .payload = b->payload,
					  .payload_len = b->size };
	int status;

	memcpy(b->payload, &stamp, sizeof(stamp));
	status = tidemq_send_publication(p->client, 0, &pub, on_confirm, p);
	if (status != TIDEMQ_OK)
		return status;
	p->due_ns[p->sent++ % b->window] = due_ns;
	p->in_flight++;
	b->sent++;
	return TIDEMQ_OK;
}

static void produce_more(struct worker *p, uint64_t now)
{
	struct bench *b = p->bench;

	while (!b->is_over && p->in_flight < b->window && p->sent < p->quota) {
		int status = send_one(p, now);

		if (status == TIDEMQ_EBUSY)
			return;
		if (status != TIDEMQ_OK)
			fail_run(b, "cannot publish", tidemq_status_text(status));
	}
}

/* The n-th message of the run, all producers taking turns. */
static uint64_t due_of(const struct bench *b, uint64_t n)
{
	return b->start_ns + n * NS / b->rate;
}

static void arm_pacer(struct bench *b)
{
	uint64_t due = due_of(b, b->sent);
	struct itimerspec spec = { .it_value = { (time_t)(due / NS), (long)(due % NS) } };

	timerfd_settime(b->pacer_fd, TFD_TIMER_ABSTIME, &spec, NULL);
}

static void on_pace(uv_poll_t *handle, int status, int events)
{
	struct bench *b = handle->data;
	uint64_t expirations;
	ssize_t n = read(b->pacer_fd, &expirations, sizeof(expirations));

	if (n < 0 && errno != EAGAIN) {
		fail_run(b, "timerfd", strerror(errno));
		return;
	}
	while (!b->is_over && b->sent < b->count) {
		uint64_t due = due_of(b, b->sent);
		struct worker *p = &b->producers[b->sent % b->producer_count];

		/* A full window makes it late; its latency still counts from `due`. */
		if (due > now_ns() || p->in_flight >= b->window ||
		    send_one(p, due) != TIDEMQ_OK)
			break;
	}
	if (!b->is_over && b->sent < b->count)
		arm_pacer(b);
}

static size_t seen_words(const struct worker *p)
{
	return p->quota / 64 + 1;
}

static void count_receipt(struct worker *c, const struct stamp *s, uint64_t now)
{
	struct bench *b = c->bench;
	struct worker *p = &b->producers[s->producer];
	uint64_t *seen = &p->seen[c->reader * seen_words(p) + s->number / 64];
	uint64_t bit = UINT64_C(1) << (s->number % 64);

	if (*seen & bit) {
		b->duplicates++;
		return;
	}
	*seen |= bit;
	if (s->number < c->next[s->producer])
		b->disordered++;
	c->next[s->producer] = s->number + 1;
	histogram_add(&b->deliver, now - s->due_ns);
}

static void count_message(struct worker *c, const struct tidemq_msg *m)
{
	struct bench *b = c->bench;
	uint64_t now = about_now_ns(b);
	struct stamp s = { 0 };

	if (m->payload_len >= sizeof(s))
		memcpy(&s, m->payload, sizeof(s));
	if (!b->is_drain && (s.run != b->run || s.producer >= b->producer_count ||
			     s.number >= b->producers[s.producer].quota))
		return;
	b->received++;
	b->last_receipt_ns = now;
	if (!b->is_drain)
		count_receipt(c, &s, now);
	else if (!b->start_ns)
		b->start_ns = now;
}

static void on_msg(struct tidemq_client *client, struct tidemq_msg *m, void *ctx)
{
	struct worker *c = ctx;

	if (m->tag && !c->first_tag)
		c->first_tag = m->tag;
	if (m->tag)
		c->last_tag = m->tag;
	count_message(c, m);
	tidemq_msg_free(m);
}

static void on_acked(struct tidemq_client *c, const struct tidemq_reply *reply, void *ctx)
{
	struct worker *consumer = ctx;

	if (!consumer->bench->is_over && reply->status != TIDEMQ_OK)
		fail_run(consumer->bench, "an ack was refused", reply->text);
}

/* Once a turn: what has been received is acknowledged as one range. */
static void on_check(uv_check_t *handle)
{
	struct bench *b = handle->data;

	b->clock_uses = 0;
	for (unsigned i = 0; i < b->consumer_count && !b->is_over; i++) {
		struct worker *c = &b->consumers[i];
		char line[64];

		if (!c->first_tag)
			continue;
		snprintf(line, sizeof(line), "ACK %" PRIu64 "-%" PRIu64, c->first_tag,
			 c->last_tag);
		if (tidemq_send(c->client, line, NULL, 0, on_acked, c) == TIDEMQ_OK)
			c->first_tag = 0;
	}
	if (b->is_running && !b->is_over)
		check_end(b);
}

static void start_run(struct bench *b)
{
	b->is_running = true;
	if (b->producer_count)
		b->start_ns = now_ns();
	if (b->rate && b->producer_count) {
		arm_pacer(b);
		return;
	}
	for (unsigned i = 0; i < b->producer_count; i++)
		produce_more(&b->producers[i], b->start_ns);
}

static void one_is_ready(struct bench *b)
{
	if (--b->waiting == 0 && !b->is_over)
		start_run(b);
}

static void on_subscribed(struct tidemq_client *c, const struct tidemq_reply *reply,
			  void *ctx)
{
	struct worker *consumer = ctx;

	if (reply->status != TIDEMQ_OK)
		fail_run(consumer->bench, "cannot subscribe", reply->text);
	else
		one_is_ready(consumer->bench);
}

static void on_connected(struct tidemq_client *client, const struct tidemq_error *why,
			 void *ctx)
{
	struct worker *w = ctx;
	struct bench *b = w->bench;
	char line[600], group[32] = "";

	if (why->status != TIDEMQ_OK) {
		fail_run(b, "cannot connect", why->text);
		return;
	}
	if (w >= b->producers) {
		one_is_ready(b);
		return;
	}
	if (b->has_groups)
		snprintf(group, sizeof(group), " group=bench-%u", w->reader + 1);
	snprintf(line, sizeof(line), "SUB %s bench prefetch=%u ack=%s%s%s%s", w->queue,
		 b->prefetch, b->is_auto_ack ? "auto" : "manual", group,
		 b->is_topic ? " from=" : "", b->is_topic ? b->from : "");
	if (tidemq_send(client, line, NULL, 0, on_subscribed, w) != TIDEMQ_OK)
		fail_run(b, "cannot subscribe", "the request could not be sent");
}

static void on_lost(struct tidemq_client *c, const struct tidemq_error *why, void *ctx)
{
	fail_run(((struct worker *)ctx)->bench, "connection lost", why->text);
}

static void connect_workers(struct bench *b)
{
	const struct tidemq_options options = {
		.name = "bench",
		.window = b->window + 16 < 256 ? 256 : b->window + 16,
	};
	struct tidemq_error err;

	b->waiting = b->producer_count + b->consumer_count;
	for (unsigned i = 0; i < b->consumer_count + b->producer_count; i++) {
		const struct tidemq_handlers h = { &b->consumers[i], on_connected, on_msg,
						   NULL, on_lost };

		b->consumers[i].client =
			tidemq_start(&b->loop, b->url, &options, &h, &err);
		if (!b->consumers[i].client) {
			fail_run(b, "cannot connect", err.text);
			return;
		}
	}
}

static void on_progress(uv_timer_t *timer)
{
	struct bench *b = timer->data;
	uint64_t done = b->consumer_count ? b->received : b->confirmed;

	fprintf(stderr, "\r%" PRIu64 " of %" PRIu64 " messages, %" PRIu64 " a second ",
		done, b->count * b->readers, (done - b->last_shown) * 1000 / PROGRESS_MS);
	fflush(stderr);
	b->last_shown = done;
}

static void make_workers(struct bench *b)
{

	b->consumers = mem_zalloc((b->consumer_count + b->producer_count) *
				  sizeof(*b->consumers));
	b->producers = b->consumers + b->consumer_count;
	for (unsigned i = 0; i < b->producer_count; i++) {
		struct worker *p = &b->producers[i];

		p->bench = b;
		p->number = i;
		p->quota =
			b->count / b->producer_count + (i < b->count % b->producer_count);
		p->due_ns = mem_zalloc(b->window * sizeof(uint64_t));
		p->seen = mem_zalloc(b->readers * seen_words(p) * sizeof(uint64_t));
		snprintf(p->queue, sizeof(p->queue), "%s-%u", b->queue,
			 i % b->queues + 1);
	}
	for (unsigned i = 0; i < b->consumer_count; i++) {
		struct worker *c = &b->consumers[i];
		unsigned together = b->consumer_count / b->readers;

		c->bench = b;
		c->reader = i / together;
		c->next = mem_zalloc((b->producer_count + 1) * sizeof(uint64_t));
		snprintf(c->queue, sizeof(c->queue), "%s-%u", b->queue,
			 i % together % b->queues + 1);
	}
	b->payload = mem_alloc(b->size);
	memset(b->payload, 'x', b->size);
}

static void free_workers(struct bench *b)
{
	for (unsigned i = 0; i < b->consumer_count + b->producer_count; i++) {
		mem_free(b->consumers[i].due_ns);
		mem_free(b->consumers[i].seen);
		mem_free(b->consumers[i].next);
	}
	mem_free(b->consumers);
	mem_free(b->payload);
}

/* `verb` is "DECLARE" or "DELETE". */
static void each_queue(struct bench *b, const char *verb, const char *more)
{
	struct tidemq_error err;
	struct tidemq_client *c = tidemq_connect(b->url, NULL, &err);
	char line[1024];
	int status = TIDEMQ_OK;

	if (!c) {
		snprintf(b->error, sizeof(b->error), "%s", err.text);
		return;
	}
	for (unsigned i = 1; i <= b->queues && status == TIDEMQ_OK; i++) {
		snprintf(line, sizeof(line), "%s %s %s-%u%s", verb,
			 b->is_topic ? "topic" : "queue", b->queue, i, more);
		status = tidemq_request(c, line, NULL, 0, NULL);
	}
	if (status != TIDEMQ_OK && !b->error[0])
		snprintf(b->error, sizeof(b->error), "%s", tidemq_last_error(c)->text);
	tidemq_disconnect(c);
}

static void run_loop(struct bench *b)
{

	uv_loop_init(&b->loop);
	uv_check_init(&b->loop, &b->check);
	uv_timer_init(&b->loop, &b->progress);
	b->check.data = b->progress.data = b->pacer.data = b;
	uv_check_start(&b->check, on_check);
	b->pacer_fd = -1;
	if (b->rate && b->producer_count) {
		b->pacer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
		uv_poll_init(&b->loop, &b->pacer, b->pacer_fd);
		uv_poll_start(&b->pacer, UV_READABLE, on_pace);
	}
	for (int i = 0; i < 2; i++) {
		uv_signal_init(&b->loop, &b->interrupts[i]);
		b->interrupts[i].data = b;
		uv_signal_start(&b->interrupts[i], on_interrupt, i ? SIGTERM : SIGINT);
	}
	if (b->has_progress)
		uv_timer_start(&b->progress, on_progress, PROGRESS_MS, PROGRESS_MS);
	connect_workers(b);
	uv_run(&b->loop, UV_RUN_DEFAULT);
	uv_loop_close(&b->loop);
	if (b->pacer_fd >= 0)
		close(b->pacer_fd);
	if (b->has_progress)
		fputs("\r\033[K", stderr);
}

/* 0: it never came. */
static double seconds_until(const struct bench *b, uint64_t ns)
{
	return ns ? (double)(ns - b->start_ns) / (double)NS : 0;
}

/* The figures, or an error, are in b-> */
static void run_load(struct bench *b, const char *declare)
{

	if (!b->is_drain)
		each_queue(b, "DECLARE", declare);
	if (b->error[0])
		return;
	b->run = (uint32_t)(now_ns() ^ (uint64_t)getpid() << 20);
	make_workers(b);
	run_loop(b);
	free_workers(b);
	b->publish_seconds = seconds_until(b, b->last_confirm_ns);
	b->deliver_seconds = seconds_until(b, b->last_receipt_ns);
	if (b->consumer_count && !b->is_drain)
		b->missing = b->count * b->readers - (b->received - b->duplicates);
	if (b->consumer_count)
		each_queue(b, "DELETE", "");
}

#define FIELD(field)                             \
	.offset = offsetof(struct bench, field), \
	.size = sizeof(((struct bench *)0)->field)

/* clang-format off */
static const struct option_row options[] = {
	{ COMMAND_NUMBER("producers", "1", "connections that publish; none with --drain", 0, BENCH_WORKERS_MAX), FIELD(producer_count) },
	{ COMMAND_NUMBER("consumers", "1", "connections that consume, in each group", 0, BENCH_WORKERS_MAX), FIELD(consumer_count) },
	{ COMMAND_NUMBER("queues", "1", "queues; producers and consumers spread over them", 1, 1000000), FIELD(queues) },
	{ COMMAND_NUMBER("count", "200000", "messages in all", 1, UINT32_MAX), FIELD(count) },
	{ COMMAND_BYTES("size", "128", "bytes of a payload", BENCH_SIZE_MIN, 1 << 24), FIELD(size) },
	{ COMMAND_NUMBER("window", "1000", "unconfirmed messages of a producer", 1, 1000000), FIELD(window) },
	{ COMMAND_NUMBER("prefetch", "1000", "unacknowledged messages of a consumer", 1, 65535), FIELD(prefetch) },
	{ COMMAND_NUMBER("rate", "0", "messages a second in all; 0 = unlimited", 0, 100000000), FIELD(rate) },
	{ COMMAND_FLAG("topic", "topics instead of queues"), FIELD(is_topic) },
	{ COMMAND_NUMBER("groups", "1", "groups that each receive all of a topic; 0: each consumer does", 0, BENCH_WORKERS_MAX) },
	{ COMMAND_TEXT("from", "POSITION", "first", "where groups and readers of a topic begin") },
	{ COMMAND_CHOICE("ack", "manual|auto", "manual", "who acknowledges"), FIELD(is_auto_ack) },
	{ COMMAND_TEXT("queue", "NAME", "bench", "prefix of the names of the queues") },
	{ COMMAND_FLAG("fill", "publish only, and keep the messages") },
	{ COMMAND_FLAG("drain", "consume only: what --fill left"), FIELD(is_drain) },
	{ COMMAND_FLAG("chart", "draw the distribution of latencies") },
	{ .name = NULL },
};
/* clang-format on */

/* Each message of a topic is received by each group, or by each consumer. */
static bool set_readers(const struct cli *cli, struct bench *b)
{
	unsigned groups = (unsigned)cli_number(cli, "groups");

	b->has_groups = groups > 0;
	if (b->consumer_count == 0)
		return true;
	if (!groups && b->queues > 1) {
		cli_usage_error(cli, "--groups 0 wants one topic, not --queues %u",
				b->queues);
		return false;
	}
	b->readers = groups ? groups : b->consumer_count;
	if (groups && b->consumer_count > BENCH_WORKERS_MAX / groups) {
		cli_usage_error(cli, "--groups times --consumers is at most %d",
				BENCH_WORKERS_MAX);
		return false;
	}
	if (groups)
		b->consumer_count *= groups;
	return true;
}

static int read_options(const struct cli *cli, struct bench *b)
{
	bool is_fill = cli_is_given(cli, "fill");

	*b = (struct bench){
		.url = cli->url,
		.queue = cli_get(cli, "queue"),
		.readers = 1,
		.from = cli_get(cli, "from"),
		.has_progress = isatty(STDERR_FILENO) && !cli->json,
	};
	for (const struct option_row *row = options; row->name; row++)
		if (row->size)
			option_set_field(row, b, cli_number(cli, row->name));
	if (b->is_drain)
		b->producer_count = 0;
	if (is_fill)
		b->consumer_count = 0;
	if (!b->is_topic && (cli_is_given(cli, "groups") || cli_is_given(cli, "from")))
		return cli_usage_error(cli, "--groups and --from are for --topic");
	if (b->is_topic && !set_readers(cli, b))
		return CLI_USAGE;
	if (is_fill && b->is_drain)
		return cli_usage_error(cli, "use --fill and --drain in separate runs");
	if (b->producer_count + b->consumer_count == 0)
		return cli_usage_error(
			cli, "nothing to do: there are no producers and no consumers");
	if (b->producer_count == 0 && !b->is_drain)
		return cli_usage_error(cli,
				       "for consumers without producers use --drain");
	return CLI_DONE;
}

#define PERCENTILES 5
static const struct {
	const char *name;
	double share;
} percentiles[PERCENTILES] = {
	{ "p50", 0.5 }, { "p90", 0.9 }, { "p99", 0.99 }, { "p999", 0.999 }, { "max", 1 },
};

static double per_second(uint64_t n, double seconds)
{
	return seconds > 0 ? (double)n / seconds : 0;
}

static void print_latency(const char *name, const struct histogram *h)
{
	if (!h->total)
		return;
	printf("%-10s", name);
	for (size_t i = 0; i < PERCENTILES; i++)
		printf("  %s %.0f us", percentiles[i].name,
		       (double)histogram_at(h, percentiles[i].share) / 1000);
	putchar('\n');
}

#define CHART_WIDTH 50

/* A row for each doubling of the latency. */
static void print_chart(const char *name, const struct histogram *h)
{
	uint64_t counts[64] = { 0 }, most = 0;
	int first = 63, last = 0;

	if (!h->total)
		return;
	for (int i = 0; i < 64; i++) {
		counts[i] = histogram_between(h, UINT64_C(1) << i, UINT64_C(2) << i);
		if (counts[i] > most)
			most = counts[i];
		if (counts[i] && i < first)
			first = i;
		if (counts[i])
			last = i;
	}
	printf("\n%s, from\n", name);
	for (int i = first; i <= last; i++)
		printf("%10.1f us  %-*.*s %5.1f %%\n", (double)(UINT64_C(1) << i) / 1000,
		       CHART_WIDTH, (int)(counts[i] * CHART_WIDTH / most),
		       "##################################################",
		       (double)counts[i] * 100 / (double)h->total);
}

static void print_text(const struct bench *b)
{
	if (b->producer_count)
		printf("published   %" PRIu64 " of %u bytes in %.3f s: %.0f a second\n",
		       b->confirmed, b->size, b->publish_seconds,
		       per_second(b->confirmed, b->publish_seconds));
	if (b->consumer_count)
		printf("delivered   %" PRIu64 " in %.3f s: %.0f a second\n", b->received,
		       b->deliver_seconds, per_second(b->received, b->deliver_seconds));
	print_latency("confirm", &b->confirm);
	print_latency("deliver", &b->deliver);
	if (b->consumer_count && !b->is_drain)
		printf("checked     missing %" PRIu64 ", duplicates %" PRIu64
		       ", out of order %" PRIu64 "\n",
		       b->missing, b->duplicates, b->disordered);
}

static void json_latency(const char *name, const struct histogram *h)
{
	printf(",\"%s_us\":{", name);
	for (size_t i = 0; i < PERCENTILES; i++)
		printf("%s\"%s\":%.1f", i ? "," : "", percentiles[i].name,
		       (double)histogram_at(h, percentiles[i].share) / 1000);
	putchar('}');
}

static void print_json(const struct bench *b)
{
	const struct {
		const char *name;
		uint64_t value;
	} numbers[] = {
		{ "producers", b->producer_count },
		{ "consumers", b->consumer_count },
		{ "queues", b->queues },
		{ "size", b->size },
		{ "window", b->window },
		{ "prefetch", b->prefetch },
		{ "count", b->count },
		{ "rate", b->rate },
		{ "readers", b->readers },
		{ "confirmed", b->confirmed },
		{ "received", b->received },
		{ "missing", b->missing },
		{ "duplicates", b->duplicates },
		{ "disordered", b->disordered },
	};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		printf("%c\"%s\":%" PRIu64, i ? ',' : '{', numbers[i].name,
		       numbers[i].value);
	printf(",\"publish_seconds\":%.6f,\"deliver_seconds\":%.6f"
	       ",\"published_per_second\":%.0f,\"delivered_per_second\":%.0f",
	       b->publish_seconds, b->deliver_seconds,
	       per_second(b->confirmed, b->publish_seconds),
	       per_second(b->received, b->deliver_seconds));
	json_latency("confirm", &b->confirm);
	json_latency("deliver", &b->deliver);
	puts("}");
}

static int run_bench(struct cli *cli)
{
	struct bench b;
	struct buf declare = { 0 };
	int status = read_options(cli, &b);

	if (status != CLI_DONE)
		return status;
	for (int i = 0; i < cli->word_count; i++)
		buf_printf(&declare, " %s", cli->words[i]);
	histogram_init(&b.confirm);
	histogram_init(&b.deliver);
	run_load(&b, buf_cstr(&declare));
	if (b.error[0])
		status = cli_failure("%s", b.error);
	else if (cli->json)
		print_json(&b);
	else
		print_text(&b);
	if (status == CLI_DONE && cli_is_given(cli, "chart") && !cli->json) {
		print_chart("confirm", &b.confirm);
		print_chart("deliver", &b.deliver);
	}
	if (b.missing || b.duplicates)
		status = CLI_FAILED;
	histogram_deinit(&b.confirm);
	histogram_deinit(&b.deliver);
	buf_deinit(&declare);
	return status;
}

const struct cli_verb cli_bench_verbs[] = {
	{ .name = "bench",
	  .summary = "measure throughput and latency, and check every message",
	  .usage = "[options] [NAME=VALUE...]",
	  .details =
		  "NAME=VALUE are options of the queues or topics, which it declares and "
		  "deletes at the\n"
		  "end. It checks that every message arrives once and in order. A "
		  "latency\n"
		  "counts from when its message was due: with --rate, a stall shows "
		  "in all\n"
		  "that it delays.",
	  .examples = "  tidemq bench --count 10000\n"
		      "  tidemq bench --count 10000 --rate 5000 --chart\n"
		      "  tidemq bench --count 10000 --topic partitions=4\n",
	  .options = options,
	  .words_max = 32,
	  .run = run_bench },
	{ .name = NULL },
};
