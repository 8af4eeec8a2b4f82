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

static int setup(void **state)
{
	struct harness *h = calloc(1, sizeof(*h));
	harness_init(h);
	harness_open_up(h);
	*state = h;
	return 0;
}

static int teardown(void **state)
{
	struct harness *h = *state;
	harness_close(h);
	harness_deinit(h);
	free(h);
	return 0;
}

static void write_one(struct harness *h, enum store_hash hash, const char *name,
		      const char *value)
{
	struct outcome o = { 0 };
	struct store_change change = { slice_from(name), slice_from(value) };
	store_hash_write(h->store, hash, &change, 1, on_done, &o);
	WAIT(h, o.calls == 1);
	assert_int_equal(o.status, TIDE_OK);
}

static char fields[512];

static void on_field(void *ctx, struct slice name, struct slice value)
{
	size_t len = strlen(fields);
	snprintf(fields + len, sizeof(fields) - len, "%.*s=%.*s;", SLICE_ARG(name),
		 SLICE_ARG(value));
}

static const char *load(struct harness *h, enum store_hash hash)
{
	struct outcome o = { 0 };
	fields[0] = '\0';
	store_hash_load(h->store, hash, on_field, on_done, &o);
	WAIT(h, o.calls == 1);
	assert_int_equal(o.status, TIDE_OK);
	return fields;
}

static void what_is_written_is_loaded_and_what_is_removed_is_not(void **state)
{
	struct harness *h = *state;
	struct outcome o = { 0 };
	assert_string_equal(load(h, STORE_HASH_SHARED), "");
	write_one(h, STORE_HASH_SHARED, "a", "1");
	write_one(h, STORE_HASH_SHARED, "b", "");
	write_one(h, STORE_HASH_SCHEDULE, "a", "x");
	assert_string_equal(load(h, STORE_HASH_SHARED), "a=1;b=;");
	struct store_change changes[] = { { SLICE("a"), { NULL, 0 } },
					  { SLICE("c"), SLICE("3") },
					  { SLICE("d"), { NULL, 0 } } };
	store_hash_write(h->store, STORE_HASH_SHARED, changes, 3, on_done, &o);
	WAIT(h, o.calls == 1);
	assert_int_equal(o.status, TIDE_OK);
	assert_string_equal(load(h, STORE_HASH_SHARED), "b=;c=3;");
	assert_string_equal(load(h, STORE_HASH_SCHEDULE), "a=x;");
}

static void a_refused_write_says_why_and_removals_pass(void **state)
{
	struct harness *h = *state;
	struct outcome o = { 0 };
	redisContext *c = harness_redis(h);
	write_one(h, STORE_HASH_SHARED, "a", "1");
	freeReplyObject(ask(c, "CONFIG SET maxmemory 1"));
	struct store_change changes[] = { { SLICE("a"), { NULL, 0 } },
					  { SLICE("b"), SLICE("2") } };
	store_hash_write(h->store, STORE_HASH_SHARED, changes, 2, on_done, &o);
	WAIT(h, o.calls == 1);
	assert_int_equal(o.status, TIDE_ESTORE);
	assert_non_null(strstr(o.text, "OOM"));
	freeReplyObject(ask(c, "CONFIG SET maxmemory 0"));
	assert_string_equal(load(h, STORE_HASH_SHARED), "");
	redisFree(c);
}

struct has {
	unsigned calls;
	int status;
	bool found[8];
};

static void on_has(void *ctx, int status, const bool *found, unsigned count)
{
	struct has *has = ctx;
	has->calls++;
	has->status = status;
	for (unsigned i = 0; status == TIDE_OK && i < count; i++)
		has->found[i] = found[i];
}

static void messages_are_found_whatever_their_state(void **state)
{
	struct harness *h = *state;
	static const uint64_t ids[] = { 7, 8, 9 };
	struct msg *m = make_msg(8, "k", "p", 1);
	struct has has = { 0 };
	struct batch *b = store_batch_begin(h->store, h->shard);
	batch_insert(b, m, 0, STORE_DELAYED, 1);
	store_batch_commit_take(b, NULL, NULL);
	store_has(h->store, h->shard, ids, 3, on_has, &has);
	WAIT(h, has.calls == 1);
	assert_int_equal(has.status, TIDE_OK);
	assert_false(has.found[0]);
	assert_true(has.found[1]);
	assert_false(has.found[2]);
	msg_unref(m);
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	if (!getenv("TIDE_TEST_LOG"))
		log_configure(LOG_ERROR, false);
#define STORE_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		STORE_TEST(what_is_written_is_loaded_and_what_is_removed_is_not),
		STORE_TEST(a_refused_write_says_why_and_removals_pass),
		STORE_TEST(messages_are_found_whatever_their_state),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
