/* The small grammars: options, durations, positions of a topic, percent-encoding, names,
 * networks, cron, files of time zones, Redis's and the client's addresses. What can be
 * read is written and read again. */
#include <stdlib.h>
#include <string.h>

#include "base/args.h"
#include "rules/api/cidr.h"
#include "base/calendar.h"
#include "base/duration.h"
#include "base/mem.h"
#include "base/percent.h"
#include "base/topic_pattern.h"
#include "client/encode.h"
#include "store/store.h"
#include "store/redis_url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_args(struct slice text)
{
	struct args a, again;
	struct buf out = { 0 };

	if (args_parse(&a, text) < 0)
		return;
	args_format(&a, &out);
	if (args_parse(&again, buf_slice(&out)) < 0 || again.count != a.count)
		abort();
	for (size_t i = 0; i < a.count; i++) {
		const char *value = args_get(&again, a.items[i].name);

		if (!value || strcmp(value, a.items[i].value) != 0)
			abort();
	}
	args_deinit(&a);
	args_deinit(&again);
	buf_deinit(&out);
}

static void try_duration(struct slice text)
{
	char shown[DURATION_TEXT_MAX];
	int64_t ms = -1, again;

	if (duration_parse(text, &ms) < 0)
		return;
	if (ms < 0 || ms > DURATION_MAX_MS)
		abort();
	duration_format(ms, shown);
	if (duration_parse(slice_from(shown), &again) < 0 || again != ms)
		abort();
}

static void try_position(struct slice text)
{
	const int64_t now_ms = 1795428000000;
	struct error err = { 0 };
	struct position at;

	if (position_parse(text, &at, &err) < 0) {
		if (err.text[0] == '\0')
			abort();
		return;
	}
	if (at.kind == POSITION_NONE || at.offset > POSITION_OFFSET_MAX || at.ms < 0)
		abort();
	if (at.kind == POSITION_AGO && position_time(&at, now_ms) > now_ms)
		abort();
}

static void try_percent(struct slice text)
{
	char *out = mem_alloc(text.len ? text.len : 1);
	struct buf coded = { 0 };
	size_t len;

	(void)(percent_decode(text, out, &len) < 0);
	percent_encode(&coded, text);
	out = mem_realloc(out, buf_len(&coded) ? buf_len(&coded) : 1);
	if (percent_decode(buf_slice(&coded), out, &len) < 0 ||
	    !slice_is_equal((struct slice){ out, len }, text))
		abort();
	mem_free(out);
	buf_deinit(&coded);
}

static void try_seen(struct slice text)
{
	struct store_seen seen, again;
	char head[STORE_DEDUPE_HEAD_MAX];
	struct buf out = { 0 };

	if (store_dedupe_parse_member(text, &seen) < 0)
		return;
	buf_append_slice(&out,
			 (struct slice){ head, store_dedupe_format_head(&seen, head) });
	buf_append_slice(&out, seen.publish_id);
	if (store_dedupe_parse_member(buf_slice(&out), &again) < 0 ||
	    again.msg_id != seen.msg_id || again.copy != seen.copy ||
	    !slice_is_equal(again.publish_id, seen.publish_id))
		abort();
	buf_deinit(&out);
}

static void try_name(struct slice text)
{
	if (slice_is_name(text) &&
	    (!slice_is_utf8(text) || memchr(text.data, ' ', text.len)))
		abort();
}

/* An address is in the network that is named by it. */
static void try_cidr(struct slice text)
{
	struct cidr_address address;
	struct cidr network;
	struct error err = { 0 };

	if (cidr_parse(text, &network, &err) != TIDE_OK) {
		if (err.text[0] == '\0')
			abort();
		return;
	}
	if (network.bits > 128 || (cidr_read_address(slice_cut(&text, '/'), &address) &&
				   !cidr_has(&network, &address)))
		abort();
}

/* In a zone with any rules, ticks go on, and are found again. */
static void try_ticks(const struct zone *zone, struct slice cron)
{
	int64_t tick = 1795428000000;
	struct error err;
	struct cron c;

	if (cron_parse(cron, &c, &err) != TIDE_OK)
		return;
	for (int i = 0; i < 20; i++) {
		int64_t next = cron_next(&c, zone, tick);

		if (next == 0)
			return;
		if (next <= tick || cron_prev(&c, zone, next) != next)
			abort();
		tick = next;
	}
}

static void try_zone(struct slice text)
{
	struct zone *zone;
	struct error err;

	try_ticks(NULL, text);
	if (zone_parse(text, &zone, &err) != TIDE_OK)
		return;
	for (int64_t at = -3000000000; at < 5000000000; at += 97000001) {
		int32_t seconds = zone_offset_at(zone, at).seconds;

		if (seconds < -26 * 3600 || seconds > 26 * 3600)
			abort();
		zone_utc_of(zone, at);
	}
	zone_destroy(zone);
}

static void try_pattern(struct slice text)
{
	if (!topic_pattern_fault(text))
		topic_pattern_matches(text, text);
}

static void try_redis_url(struct slice text)
{
	char *copy = mem_strndup(text.data, text.len);
	struct error err = { 0 };
	struct redis_url url;

	if (redis_url_parse(copy, &url, &err) == TIDE_OK)
		redis_url_deinit(&url);
	else if (err.text[0] == '\0')
		abort();
	mem_free(copy);
}

static void try_client_url(struct slice text)
{
	char *copy = mem_strndup(text.data, text.len);
	struct tidemq_error err;
	struct client_url *urls;
	size_t count;

	if (client_url_parse(copy, &urls, &count, &err) == 0) {
		char address[URL_ADDRESS_MAX];

		for (size_t i = 0; i < count; i++)
			url_address(&urls[i].at, address);
		client_url_free(urls, count);
	}
	mem_free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *copy = mem_alloc(size ? size : 1);
	struct slice text = { copy, size };

	memcpy(copy, data, size);
	try_args(text);
	try_duration(text);
	try_position(text);
	try_seen(text);
	try_percent(text);
	try_name(text);
	try_cidr(text);
	try_zone(text);
	try_pattern(text);
	try_redis_url(text);
	try_client_url(text);
	mem_free(copy);
	return 0;
}
