#include "id_lease.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/decimal.h"
#include "host/log.h"
#include "broker.h"

#define DOC_IDS "ids"
/* A field of it that is there while no broker runs: the last one ended cleanly. Each cell
 * has its own. */
#define FIELD_CLEAN "clean"

/* How far the mark is ahead of the clock. Ids are so far from it after a kill and a
 * restart. */
#define LEASE_MS 10000
/* No number of kills leaves a mark that is further ahead: the clock was set back. */
#define LEAD_MAX_MS (2 * LEASE_MS)
/* How far the mark is ahead of ids that are ahead of the clock: two million of them. */
#define STEP_MS 500
/* Of what is left to LEAD_MAX_MS a start takes this part. So one start after the other
 * adds no more than it lasts. */
#define STEP_PART 16
/* The mark moves when it is no further ahead than this, or half of it is used. */
#define RENEW_MS 5000
/* Ids below the mark that are kept for the time when Redis does not answer: 4,096 for
 * each of these milliseconds, more than publishers are let send in that time. */
#define RESERVE_MS 4000
#define REFUSED_REST_MS 500
/* Ids have 42 bits of milliseconds. A mark that leaves less than ten years of them
 * is nobody's clock. */
#define MARK_MAX ((INT64_C(1) << 42) - INT64_C(3660) * 24 * 3600 * 1000)

void id_lease_init(struct id_lease *l, unsigned node)
{
	*l = (struct id_lease){ .due_ms = INT64_MAX };
	id_source_init(&l->source, node);
}

/* The first mark of this start has been answered. */
static void end_loading(struct id_lease *l, int status, const char *text)
{
	store_done_fn on_loaded = l->on_loaded;

	l->on_loaded = NULL;
	if (on_loaded)
		on_loaded(l->ctx, status, text);
}

static void on_confirmed(struct id_lease *l)
{
	if (l->is_refused)
		log_info("Redis has taken the mark of message ids: new messages are "
			 "accepted again");
	l->is_refused = false;
	id_source_limit(&l->source, l->sent_ms - RESERVE_MS, l->sent_ms);
}

static void on_refused(struct broker *b, const char *why)
{
	struct id_lease *l = &b->ids;

	if (!l->is_refused)
		log_error("cannot write the mark of message ids to Redis ({tide}:ids), "
			  "trying again: %s",
			  why);
	l->is_refused = true;
	l->due_ms = b->now_ms + REFUSED_REST_MS;
	snprintf(l->why, sizeof(l->why), "%s", why);
}

static void on_written(void *ctx, int status, const char *text)
{
	struct broker *b = ctx;
	struct id_lease *l = &b->ids;

	l->is_sent = false;
	if (status == TIDE_ESHUTDOWN) {
		end_loading(l, status, text);
		return;
	}
	if (b->is_closing)
		return;
	if (status == TIDE_OK)
		on_confirmed(l);
	else
		on_refused(b, text ? text : error_text(status));
	end_loading(l, TIDE_OK, NULL);
}

static struct slice decimal(char text[DECIMAL_MAX], uint64_t n)
{
	return (struct slice){ text, (size_t)(decimal_put(text, n) - text) };
}

/* @param is_clean  it is the last thing that this broker writes: nothing that consumers
 *                  have held is unwritten */
static void write_mark(struct broker *b, int64_t mark_ms, bool is_clean,
		       store_done_fn on_done)
{
	char node[DECIMAL_MAX], mark[DECIMAL_MAX], exposed[DECIMAL_MAX];
	char clean[STORE_CELL_NAME_MAX];
	struct store_field changes[] = {
		{ decimal(node, b->config.node), decimal(mark, (uint64_t)mark_ms) },
		{ SLICE(""), { NULL, 0 } },
	};

	store_cell_name(b->store, FIELD_CLEAN, clean);
	changes[1].name = slice_from(clean);
	if (is_clean)
		changes[1].value =
			decimal(exposed, (uint64_t)id_unix_ms(b->env.exposed_id));
	store_document_change(b->store, DOC_IDS, changes, 2, on_done, b);
}

/* A clock of the next century moves nothing. */
static int64_t follow_clock(const struct broker *b, int64_t ms, int64_t ahead_ms)
{
	if (b->now_ms <= MARK_MAX && b->now_ms + ahead_ms > ms)
		ms = b->now_ms + ahead_ms;
	return ms < MARK_MAX ? ms : MARK_MAX;
}

static int64_t next_mark(const struct broker *b)
{
	int64_t last_ms = b->ids.source.last_ms;
	int64_t left_ms = b->now_ms + LEAD_MAX_MS - last_ms;
	int64_t step_ms = STEP_MS;

	if (left_ms > 0 && left_ms / STEP_PART < step_ms)
		step_ms = left_ms / STEP_PART + 1;
	return follow_clock(b, last_ms + step_ms, LEASE_MS);
}

/* Soon, while a start after a kill waits for the clock: it has little left. */
static int64_t rest_ms(const struct broker *b)
{
	const struct id_lease *l = &b->ids;
	bool is_short = l->sent_ms - l->source.last_ms < RENEW_MS;

	return is_short && l->sent_ms <= b->now_ms + LEAD_MAX_MS ? STEP_MS
								 : LEASE_MS - RENEW_MS;
}

static void renew(struct broker *b)
{
	struct id_lease *l = &b->ids;

	l->is_sent = true;
	l->sent_ms = next_mark(b);
	l->half_ms = (follow_clock(b, l->source.last_ms, 0) + l->sent_ms) / 2;
	l->due_ms = b->now_ms + rest_ms(b);
	write_mark(b, l->sent_ms, false, on_written);
}

void id_lease_turn(struct broker *b)
{
	const struct id_lease *l = &b->ids;
	int64_t left_ms = l->due_ms - b->now_ms;

	if (l->is_sent || l->due_ms == INT64_MAX || b->is_closing)
		return;
	/* Longer than any rest: the clock was set back. */
	if (left_ms <= 0 || left_ms > LEASE_MS ||
	    (!l->is_refused && l->source.last_ms > l->half_ms))
		renew(b);
}

int64_t id_lease_due_ms(const struct broker *b)
{
	const struct id_lease *l = &b->ids;

	return l->is_sent || l->due_ms == INT64_MAX ? 0 : l->due_ms;
}

void id_lease_hurry(struct broker *b)
{
	if (b->ids.due_ms != INT64_MAX)
		b->ids.due_ms = b->now_ms;
}

int id_lease_check(const struct broker *b, struct error *err)
{
	struct id_source next = b->ids.source;

	if (id_next(&next, b->now_ms) != 0)
		return TIDE_OK;
	if (b->ids.is_refused)
		return error_set(err, TIDE_ESTORE,
				 "there is no id for a new message until Redis takes a "
				 "mark in {tide}:ids; it says: %s",
				 b->ids.why);
	return error_set(err, TIDE_ESTORE,
			 "there is no id for a new message until Redis confirms a mark "
			 "in {tide}:ids; the one before is used up");
}

void id_lease_end(struct broker *b, bool is_clean)
{
	struct id_lease *l = &b->ids;

	if (!b->env.store || !b->is_started)
		return;
	id_source_limit(&l->source, l->source.last_ms, l->source.last_ms);
	write_mark(b, l->source.last_ms, is_clean, NULL);
}

static void go_on_from(struct broker *b, int64_t mark_ms)
{
	id_source_advance(&b->ids.source, id_at_unix_ms(mark_ms));
	if (mark_ms > b->now_ms + LEAD_MAX_MS)
		log_warn("the clock is %lld s behind {tide}:ids; it may have been set "
			 "back. Ids continue from {tide}:ids",
			 (long long)(mark_ms - b->now_ms) / 1000);
}

/* The ids that exist are unknown: to begin at the clock may repeat some. */
static int refuse_mark(const struct broker *b, struct slice value, struct error *err)
{
	return error_set(
		err, TIDE_ESTORE,
		"field %u of {tide}:ids in Redis is '%" SLICE_FMT
		"', and should be the time that the ids of messages have reached, "
		"in ms since 1970; set it to the current time, or to that of the "
		"newest message if the clock was ahead",
		b->config.node, SLICE_ARG(value));
}

static int read_mark(struct broker *b, const struct store_field *fields, size_t count,
		     struct error *err)
{
	uint64_t node, mark;

	for (size_t i = 0; i < count; i++) {
		if (!slice_to_uint(fields[i].name, ID_NODE_MAX, &node) ||
		    node != b->config.node)
			continue;
		if (!slice_to_uint(fields[i].value, MARK_MAX, &mark))
			return refuse_mark(b, fields[i].value, err);
		go_on_from(b, (int64_t)mark);
	}
	return TIDE_OK;
}

/* After an unclean end any message of any node may have been handed out, if it was due.
 */
static void read_exposed(struct broker *b, const struct store_field *fields, size_t count)
{
	struct shard_env *env = &b->env;
	uint64_t ms, last_ms = (uint64_t)b->now_ms;
	bool is_clean = false;
	char clean[STORE_CELL_NAME_MAX];

	store_cell_name(b->store, FIELD_CLEAN, clean);
	for (size_t i = 0; i < count && !is_clean; i++) {
		if (!slice_to_uint(fields[i].value, MARK_MAX, &ms))
			continue;
		is_clean = slice_is(fields[i].name, clean);
		if (is_clean || ms > last_ms)
			last_ms = ms;
	}
	env->exposed_id = id_at_unix_ms((int64_t)last_ms + 1) - 1;
	env->exposed_ms = is_clean ? (int64_t)last_ms : b->now_ms;
}

uint64_t id_lease_next_token(struct broker *b)
{
	struct id_lease *l = &b->ids;
	uint64_t at_ms = l->token - l->token_lead;

	if (b->env.store && at_ms >= (uint64_t)l->source.end_ms)
		return 0;
	return ++l->token;
}

void id_lease_raise_token(struct broker *b, uint64_t token)
{
	struct id_lease *l = &b->ids;

	if (token <= l->token)
		return;
	l->token_lead += token - l->token;
	l->token = token;
}

static void begin_tokens(struct broker *b)
{
	struct id_lease *l = &b->ids;
	int64_t from_ms = l->source.last_ms;

	l->token = (uint64_t)(from_ms > b->now_ms ? from_ms : b->now_ms);
}

static void on_fields(void *ctx, int status, const char *text,
		      const struct store_field *fields, size_t count)
{
	struct broker *b = ctx;
	struct error err;

	read_exposed(b, fields, count);
	if (status == TIDE_OK)
		status = read_mark(b, fields, count, &err);
	else
		error_set(&err, status, "{tide}:ids in Redis: %s",
			  text ? text : error_text(status));
	begin_tokens(b);
	if (status < 0)
		end_loading(&b->ids, status, err.text);
	else
		renew(b);
}

void id_lease_load(struct broker *b, store_done_fn on_loaded, void *ctx)
{
	b->ids.on_loaded = on_loaded;
	b->ids.ctx = ctx;
	id_source_limit(&b->ids.source, 0, 0);
	store_document_read(b->store, DOC_IDS, on_fields, b);
}
