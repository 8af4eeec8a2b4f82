#include "store/store_log.h"

#include "harness.h"

struct outcome {
	unsigned calls;
	int status;
	char text[256];
};

static void on_done(void *ctx, int status, const char *text)
{
	struct outcome *o = ctx;
	o->calls++;
	o->status = status;
	snprintf(o->text, sizeof(o->text), "%s", text ? text : "");
}

static void set_topic(struct harness *h, const char *name, unsigned partitions,
		      const char *value)
{
	const struct store_queue topic = { SLICE("/"), slice_from(name), partitions };
	struct outcome o = { 0 };
	store_definition_set_topic(h->store, &topic, slice_from(value), on_done, &o);
	WAIT(h, o.calls == 1);
	if (o.status < 0)
		fail_msg("%s", o.text);
}

static void on_appended(void *ctx, int status, const char *text, bool is_unsure)
{
	assert_int_equal(status, TIDE_OK);
}

static void append(struct harness *h, const char *name, unsigned index, uint32_t day)
{
	struct store_shard *log = store_shard_create(SLICE("/"), slice_from(name), index);
	const struct store_log_batch batch = { 0, SLICE("a") };
	const struct store_log_group group = { SLICE("billing"), 1 };
	const struct store_log_commit commit = { &group, 1, false };
	struct outcome o = { 0 };
	store_log_append(
		h->store, log,
		&(struct store_log_append){
			.day = day, .batches = &batch, .count = 1, .is_new_day = true },
		on_appended, NULL);
	store_log_commit(h->store, log, &commit, on_done, &o);
	WAIT(h, o.calls == 1);
	store_shard_destroy(log);
}

STORE_TEST(a_topic_is_declared_with_its_sets)
{
	set_topic(h, "events", 8, "partitions=8");
	set_topic(h, "audit", 1, "partitions=1");
	assert_int_equal(ask_int(h, "HLEN {tide}:/:topic-options"), 2);
	assert_int_equal(ask_int(h, "SISMEMBER {tide}:/:topics events"), 1);
	assert_int_equal(ask_int(h, "SCARD {tide}:/:topics"), 2);
	assert_int_equal(ask_int(h, "SCARD {tide}:/:topic:events"), 8);
	assert_int_equal(ask_int(h, "SISMEMBER {tide}:/:topic:events 0"), 1);
	assert_int_equal(ask_int(h, "SISMEMBER {tide}:/:topic:events 7"), 1);
	set_topic(h, "events", 3, "partitions=3");
	assert_int_equal(ask_int(h, "SCARD {tide}:/:topic:events"), 3);
	assert_int_equal(ask_int(h, "SCARD {tide}:/:topic:audit"), 1);
}

STORE_TEST(a_declaration_that_redis_refuses_leaves_nothing)
{
	const struct store_queue topic = { SLICE("/"), SLICE("events"), 2 };
	struct outcome o = { 0 };
	tell(h, "CONFIG SET maxmemory 1");
	store_definition_set_topic(h->store, &topic, SLICE("partitions=2"), on_done, &o);
	WAIT(h, o.calls == 1);
	assert_int_equal(o.status, TIDE_ESTORE);
	assert_int_equal(strncmp(o.text, "OOM ", 4), 0);
	tell(h, "CONFIG SET maxmemory 0");
	assert_int_equal(ask_int(h, "DBSIZE"), 0);
	/* What it refuses within the EXEC is told, too. */
	tell(h, "SET {tide}:/:topics x");
	store_definition_set_topic(h->store, &topic, SLICE("partitions=2"), on_done, &o);
	WAIT(h, o.calls == 2);
	assert_int_equal(o.status, TIDE_ESTORE);
	assert_int_equal(strncmp(o.text, "WRONGTYPE", 9), 0);
}

/* Also while memory is out. */
STORE_TEST(erase_removes_a_topic_and_no_other)
{
	const struct store_queue topic = { SLICE("/"), SLICE("events"), 2 };
	struct outcome o = { 0 };
	set_topic(h, "events", 2, "partitions=2");
	set_topic(h, "events2", 1, "partitions=1");
	append(h, "events", 0, 20261122);
	append(h, "events", 0, 20261123);
	append(h, "events", 1, 20261123);
	append(h, "events2", 0, 20261123);
	store_definition_set(h->store, STORE_PAUSES, SLICE("/"), SLICE("in events"),
			     SLICE("0"), on_done, &o);
	WAIT(h, o.calls == 1);
	tell(h, "SET tide:{//events#1}:log:start kept");
	assert_int_equal(ask_int(h, "DBSIZE"), 16);
	tell(h, "CONFIG SET maxmemory 1");
	for (int i = 0; i < 2; i++) { /* the second time as after a reconnect */
		store_erase_begin(h->store, STORE_TOPICS, &topic, on_done, &o);
		WAIT(h, o.calls == 2u + 2 * (unsigned)i);
		if (o.status < 0)
			fail_msg("%s", o.text);
		store_erase_finish(h->store, STORE_TOPICS, &topic, on_done, &o);
		WAIT(h, o.calls == 3u + 2 * (unsigned)i);
		if (o.status < 0)
			fail_msg("%s", o.text);
	}
	tell(h, "CONFIG SET maxmemory 0");
	assert_int_equal(ask_int(h, "DBSIZE"), 7);
	assert_int_equal(ask_int(h, "HLEN {tide}:/:topic-options"), 1);
	assert_int_equal(ask_int(h, "SCARD {tide}:/:topics"), 1);
	assert_int_equal(ask_int(h, "SCARD {tide}:/:topic:events2"), 1);
	assert_int_equal(ask_int(h, "ZCARD tide:{//events2#0}:log:20261123"), 1);
}

/* ---- load -------------------------------------------------------------------------- */

struct loaded {
	unsigned ends;
	char text[512];
};

static void on_definition(void *ctx, const struct store_definition *d)
{
	struct loaded *l = ctx;
	size_t len = strlen(l->text);
	snprintf(l->text + len, sizeof(l->text) - len, "%d %.*s %.*s; ", (int)d->table,
		 SLICE_ARG(d->name), SLICE_ARG(d->value));
}

static void on_load_end(void *ctx, int status, const char *text)
{
	assert_int_equal(status, TIDE_OK);
	((struct loaded *)ctx)->ends++;
}

/* The sets are for people: what they name alone is no topic. */
STORE_TEST(topics_are_told_behind_queues_by_their_options)
{
	struct slice root = SLICE("/"), none = SLICE("");
	struct loaded l = { 0 };
	set_topic(h, "events", 2, "partitions=2");
	store_definition_set(h->store, STORE_BINDINGS, root, SLICE("b"), none, NULL,
			     NULL);
	store_definition_set(h->store, STORE_QUEUES, root, SLICE("jobs"),
			     SLICE("shards=1"), NULL, NULL);
	store_definition_set(h->store, STORE_VHOSTS, none, root, none, NULL, NULL);
	tell(h, "SADD {tide}:/:topics ghost");
	tell(h, "DEL {tide}:/:topic:events");
	store_definition_load(h->store, on_definition, on_load_end, &l);
	WAIT(h, l.ends == 1);
	assert_string_equal(l.text,
			    "0 / ; 2 jobs shards=1; 3 events partitions=2; 4 b ; ");
}

RUN_TESTS(.setup = harness_setup, .teardown = harness_teardown)
