/* cli_bench.c: bench. */
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench.h"
#include "cli.h"

static const struct command_option options[] = {
	{ COMMAND_NUMBER("producers", "1", "connections that publish; none with --drain",
			 0, BENCH_WORKERS_MAX) },
	{ COMMAND_NUMBER("consumers", "1", "connections that consume, in each group", 0,
			 BENCH_WORKERS_MAX) },
	{ COMMAND_NUMBER("queues", "1",
			 "queues; producers and consumers spread over them", 1,
			 1000000) },
	{ COMMAND_NUMBER("count", "200000", "messages in all", 1, UINT32_MAX) },
	{ COMMAND_BYTES("size", "128", "bytes of a payload", BENCH_SIZE_MIN, 1 << 24) },
	{ COMMAND_NUMBER("window", "1000", "unconfirmed messages of a producer", 1,
			 1000000) },
	{ COMMAND_NUMBER("prefetch", "1000", "unacknowledged messages of a consumer", 1,
			 65535) },
	{ COMMAND_NUMBER("rate", "0", "messages a second in all; 0 = unlimited", 0,
			 100000000) },
	{ COMMAND_FLAG("topic", "topics instead of queues") },
	{ COMMAND_NUMBER("groups", "1",
			 "groups that each receive all of a topic; 0: each consumer does",
			 0, BENCH_WORKERS_MAX) },
	{ COMMAND_TEXT("from", "POSITION", "first",
		       "where groups and readers of a topic begin") },
	{ COMMAND_CHOICE("ack", "manual|auto", "manual", "who acknowledges") },
	{ COMMAND_CHOICE("protocol", "line|stomp", "line", "what the workers speak") },
	{ COMMAND_TEXT("queue", "NAME", "bench", "prefix of the names of the queues") },
	{ COMMAND_FLAG("fill", "publish only, and keep the messages") },
	{ COMMAND_FLAG("drain", "consume only: what --fill left") },
	{ COMMAND_FLAG("chart", "draw the distribution of latencies") },
	{ .name = NULL },
};

/* Each message of a topic is received by each group, or by each consumer. */
static bool set_readers(const struct cli *cli, struct bench_options *o)
{
	unsigned groups = (unsigned)cli_number(cli, "groups");

	o->has_groups = groups > 0;
	if (o->consumers == 0)
		return true;
	if (!groups && o->queues > 1) {
		cli_usage_error(cli, "--groups 0 wants one topic, not --queues %u",
				o->queues);
		return false;
	}
	o->readers = groups ? groups : o->consumers;
	if (groups && o->consumers > BENCH_WORKERS_MAX / groups) {
		cli_usage_error(cli, "--groups times --consumers is at most %d",
				BENCH_WORKERS_MAX);
		return false;
	}
	if (groups)
		o->consumers *= groups;
	return true;
}

static int read_options(const struct cli *cli, struct bench_options *o)
{
	bool is_fill = cli_is_given(cli, "fill"), is_drain = cli_is_given(cli, "drain");

	*o = (struct bench_options){
		.url = cli->url,
		.queue = cli_get(cli, "queue"),
		.producers = is_drain ? 0 : (unsigned)cli_number(cli, "producers"),
		.consumers = is_fill ? 0 : (unsigned)cli_number(cli, "consumers"),
		.queues = (unsigned)cli_number(cli, "queues"),
		.size = (unsigned)cli_number(cli, "size"),
		.window = (unsigned)cli_number(cli, "window"),
		.prefetch = (unsigned)cli_number(cli, "prefetch"),
		.count = cli_number(cli, "count"),
		.rate = cli_number(cli, "rate"),
		.is_auto_ack = strcmp(cli_get(cli, "ack"), "auto") == 0,
		.is_stomp = strcmp(cli_get(cli, "protocol"), "stomp") == 0,
		.is_drain = is_drain,
		.is_topic = cli_is_given(cli, "topic"),
		.readers = 1,
		.from = cli_get(cli, "from"),
		.progress = isatty(STDERR_FILENO) && !cli->json ? stderr : NULL,
	};
	o->keep = o->consumers == 0;
	if (!o->is_topic && (cli_is_given(cli, "groups") || cli_is_given(cli, "from")))
		return cli_usage_error(cli, "--groups and --from are for --topic");
	if (o->is_topic && !set_readers(cli, o))
		return CLI_USAGE;
	if (is_fill && is_drain)
		return cli_usage_error(cli, "use --fill and --drain in separate runs");
	if (o->producers + o->consumers == 0)
		return cli_usage_error(
			cli, "nothing to do: there are no producers and no consumers");
	if (o->producers == 0 && !is_drain)
		return cli_usage_error(cli,
				       "for consumers without producers use --drain");
	return CLI_DONE;
}

static const struct {
	const char *name;
	double share;
} percentiles[] = {
	{ "p50", 0.5 }, { "p90", 0.9 }, { "p99", 0.99 }, { "p999", 0.999 }, { "max", 1 },
};
#define PERCENTILES (sizeof(percentiles) / sizeof(percentiles[0]))

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

static void print_text(const struct bench_options *o, const struct bench_result *r)
{
	if (o->producers)
		printf("published   %" PRIu64 " of %u bytes in %.3f s: %.0f a second\n",
		       r->confirmed, o->size, r->publish_seconds,
		       per_second(r->confirmed, r->publish_seconds));
	if (o->consumers)
		printf("delivered   %" PRIu64 " in %.3f s: %.0f a second\n", r->received,
		       r->deliver_seconds, per_second(r->received, r->deliver_seconds));
	print_latency("confirm", &r->confirm);
	print_latency("deliver", &r->deliver);
	if (o->consumers && !o->is_drain)
		printf("checked     missing %" PRIu64 ", duplicates %" PRIu64
		       ", out of order %" PRIu64 "\n",
		       r->missing, r->duplicates, r->disordered);
}

static void json_latency(const char *name, const struct histogram *h)
{
	printf(",\"%s_us\":{", name);
	for (size_t i = 0; i < PERCENTILES; i++)
		printf("%s\"%s\":%.1f", i ? "," : "", percentiles[i].name,
		       (double)histogram_at(h, percentiles[i].share) / 1000);
	putchar('}');
}

static void print_json(const struct bench_options *o, const struct bench_result *r)
{
	printf("{\"producers\":%u,\"consumers\":%u,\"queues\":%u,\"size\":%u,\"window\":%"
	       "u,"
	       "\"prefetch\":%u,\"count\":%" PRIu64 ",\"rate\":%" PRIu64
	       ",\"readers\":%u",
	       o->producers, o->consumers, o->queues, o->size, o->window, o->prefetch,
	       o->count, o->rate, o->readers);
	printf(",\"confirmed\":%" PRIu64 ",\"received\":%" PRIu64 ",\"missing\":%" PRIu64
	       ",\"duplicates\":%" PRIu64 ",\"disordered\":%" PRIu64,
	       r->confirmed, r->received, r->missing, r->duplicates, r->disordered);
	printf(",\"publish_seconds\":%.6f,\"deliver_seconds\":%.6f,\"published_per_"
	       "second\":%.0f,"
	       "\"delivered_per_second\":%.0f",
	       r->publish_seconds, r->deliver_seconds,
	       per_second(r->confirmed, r->publish_seconds),
	       per_second(r->received, r->deliver_seconds));
	json_latency("confirm", &r->confirm);
	json_latency("deliver", &r->deliver);
	puts("}");
}

static int run_bench(struct cli *cli)
{
	struct bench_options o;
	struct bench_result r;
	struct buf declare = { 0 };
	int status = read_options(cli, &o);

	if (status != CLI_DONE)
		return status;
	for (int i = 0; i < cli->word_count; i++)
		buf_printf(&declare, " %s", cli->words[i]);
	o.declare = buf_cstr(&declare);
	if (bench_run(&o, &r) < 0)
		status = cli_failure("%s", r.error);
	else if (cli->json)
		print_json(&o, &r);
	else
		print_text(&o, &r);
	if (status == CLI_DONE && cli_is_given(cli, "chart") && !cli->json) {
		print_chart("confirm", &r.confirm);
		print_chart("deliver", &r.deliver);
	}
	if (r.missing || r.duplicates)
		status = CLI_FAILED;
	bench_result_deinit(&r);
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
