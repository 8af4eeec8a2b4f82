#include "check.h"

#include "broker/config.h"

#define DAY_MS (INT64_C(24) * 3600 * 1000)

/* "a=1 b=2" as what DECLARE hands over; values percent-encoded. */
static int parse_by(enum config_kind kind, struct config *c, const char *text,
		    struct error *err)
{
	struct args args;
	int rc;

	assert_int_equal(args_parse(&args, slice_from(text)), TIDE_OK);
	rc = config_parse(c, kind, &args, err);
	args_deinit(&args);
	return rc;
}

static int parse(struct config *c, const char *text, struct error *err)
{
	return parse_by(CONFIG_QUEUE, c, text, err);
}

static void parse_good_topic(struct config *c, const char *text)
{
	struct error err = { 0 };

	if (parse_by(CONFIG_TOPIC, c, text, &err) < 0)
		fail_msg("'%s' is refused: %s", text, err.text);
}

static void parse_good(struct config *c, const char *text)
{
	struct error err = { 0 };

	if (parse(c, text, &err) < 0)
		fail_msg("'%s' is refused: %s", text, err.text);
}

TEST_THAT(what_is_not_said_has_its_default)
{
	struct config c;
	struct buf text = { 0 };

	parse_good(&c, "");
	assert_true(c.is_durable);
	assert_false(c.is_exclusive);
	assert_false(c.is_auto_delete);
	assert_int_equal(c.shards, 1);
	assert_int_equal(c.ack_timeout_ms, 60000);
	assert_int_equal(c.delivery_limit, 20);
	assert_null(c.dead_exchange);
	assert_null(c.dead_key);
	assert_int_equal(c.dedupe_ms, -1);
	assert_string_equal(c.scripts[SCRIPT_SHARDING], "hash");
	assert_string_equal(c.scripts[SCRIPT_PRIORITY], "fifo");
	assert_string_equal(c.scripts[SCRIPT_RETRY], "immediate");
	args_format(&c.canonical, &text);
	assert_buf(&text,
		   "ack-timeout=60s ack-timeout-max=1d auto-delete=0 dead-letter= "
		   "death-limit=100 dedupe= "
		   "delivery-limit=20 durable=1 exclusive=0 expires=0 "
		   "expires-if=unused inflight= "
		   "max-bytes=0 max-length=0 order-by= overflow=reject priority=fifo "
		   "rate=0 reshard=0 retry=immediate sharding=hash shards=1 "
		   "single-active=0 ttl=0");
	assert_int_equal(c.order_by, ORDER_NONE);
	config_deinit(&c);
	buf_deinit(&text);
}

TEST_THAT(every_option_is_read)
{
	struct config c;

	parse_good(&c, "durable=0 exclusive=1 auto-delete=1 shards=64 ack-timeout=5m "
		       "delivery-limit=0 dead-letter=x/k.dead sharding=round_robin "
		       "priority=strict retry=exponential retry.base=500ms retry.max=5 "
		       "sharding.by=header dedupe=10m");
	assert_int_equal(c.dedupe_ms, 600000);
	assert_false(c.is_durable);
	assert_true(c.is_exclusive);
	assert_true(c.is_auto_delete);
	assert_int_equal(c.shards, 64);
	assert_int_equal(c.ack_timeout_ms, 300000);
	assert_int_equal(c.delivery_limit, 0);
	assert_string_equal(c.dead_exchange, "x");
	assert_string_equal(c.dead_key, "k.dead");
	assert_string_equal(c.scripts[SCRIPT_RETRY], "exponential");
	assert_string_equal(args_get(&c.script_args[SCRIPT_RETRY], "base"), "500ms");
	assert_string_equal(args_get(&c.script_args[SCRIPT_RETRY], "max"), "5");
	assert_string_equal(args_get(&c.script_args[SCRIPT_SHARDING], "by"), "header");
	assert_int_equal(c.script_args[SCRIPT_PRIORITY].count, 0);
	assert_string_equal(args_get(&c.canonical, "retry.base"), "500ms");
	config_deinit(&c);
	parse_good(&c, "order-by=h:tenant inflight=7");
	assert_int_equal(c.order_by, ORDER_HEADER);
	assert_string_equal(c.order_header, "tenant");
	assert_int_equal(c.inflight, 7);
	config_deinit(&c);
	parse_good(&c, "order-by=key shards=2 sharding=consistent sharding.by=key");
	assert_int_equal(c.order_by, ORDER_KEY);
	assert_int_equal(c.inflight, 1);
	config_deinit(&c);
	parse_good(&c, "expires=1h expires-if=empty max-length=9 overflow=drop-lowest");
	assert_int_equal(c.expires_if, QUEUE_EXPIRES_EMPTY);
	assert_int_equal(c.overflow, QUEUE_OVERFLOW_DROP_LOWEST);
	config_deinit(&c);
}

TEST_THAT(bytes_have_units_and_are_kept_as_a_number)
{
	struct config c;

	parse_good(&c, "max-bytes=64M");
	assert_int_equal(c.max_bytes, 64 << 20);
	assert_string_equal(args_get(&c.canonical, "max-bytes"), "67108864");
	config_deinit(&c);
}

TEST_THAT(the_ends_of_each_range_are_good)
{
	struct config c;

	parse_good(&c, "ack-timeout=10ms delivery-limit=1000000 shards=1");
	assert_int_equal(c.ack_timeout_ms, 10);
	assert_int_equal(c.delivery_limit, 1000000);
	config_deinit(&c);
	parse_good(&c, "ack-timeout=1d");
	assert_int_equal(c.ack_timeout_ms, DAY_MS);
	config_deinit(&c);
}

TEST_THAT(what_is_wrong_is_refused_and_named)
{
	/* The text says what was wrong. */
	static const struct {
		const char *args, *says;
	} cases[] = {
		{ "durable=2", "durable=2" },
		{ "durable=", "durable=" },
		{ "durable=true", "durable=true" },
		{ "exclusive=-1", "exclusive=-1" },
		{ "shards=0", "1 to 64" },
		{ "shards=65", "1 to 64" },
		{ "shards=4294967297", "1 to 64" },
		{ "shards=1.5", "shards=1.5" },
		{ "delivery-limit=1000001", "0 to 1000000" },
		{ "death-limit=0", "1 to 1000000" },
		{ "death-limit=1000001", "1 to 1000000" },
		{ "delivery-limit=4294967296", "0 to 1000000" },
		{ "ack-timeout=9ms", "10ms to 1d" },
		{ "ack-timeout-max=2d", "10ms to 1d" },
		{ "ack-timeout=2m ack-timeout-max=1m",
		  "ack-timeout=2m is longer than ack-timeout-max=1m" },
		{ "ack-timeout-max=30s",
		  "ack-timeout=60s is longer than ack-timeout-max=30s" },
		{ "ack-timeout=86400001", "10ms to 1d" },
		{ "ack-timeout=soon", "10ms to 1d" },
		{ "ack-timeout=", "10ms to 1d" },
		{ "retry=", "a script in retry/" },
		{ "retry=a%20b", "a script in retry/" },
		{ "colour=red", "no option 'colour'; it takes: durable" },
		{ "retry.=1", "no option 'retry.'" },
		{ "colour.base=1", "no option 'colour.base'" },
		{ "durable.x=1", "no option 'durable.x'" },
		{ "retryx=1", "no option 'retryx'" },
		{ "Durable=1", "no option 'Durable'" },
		{ "order-by=header", "key, shard, or h:<name>" },
		{ "order-by=h:", "key, shard, or h:<name>" },
		{ "order-by=h:a%20b", "key, shard, or h:<name>" },
		{ "order-by=key inflight=0", "1 to 65535" },
		{ "order-by=key inflight=65536", "1 to 65535" },
		{ "inflight=1", "needs order-by=key" },
		{ "order-by=key shards=2 sharding=random", "in one shard" },
		{ "order-by=h:a shards=2 sharding.by=b", "sharding.by=a" },
		{ "dead-letter=-", "needs a key" },
		{ "dead-letter=-/", "needs a key" },
		{ "dead-letter=/k", "<exchange>/<key>" },
		{ "dead-letter=x/a%20b", "<exchange>/<key>" },
		{ "dead-letter=a%20b/k", "<exchange>/<key>" },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct config c;
		struct error err = { 0 };

		if (parse(&c, cases[i].args, &err) != TIDE_ESYNTAX)
			fail_msg("'%s' was taken, or refused in another way",
				 cases[i].args);
		if (!strstr(err.text, cases[i].says))
			fail_msg("'%s': %s", cases[i].args, err.text);
	}
}

TEST_THAT(a_target_is_an_exchange_with_or_without_a_key)
{
	static const struct {
		const char *value, *exchange, *key;
	} cases[] = {
		{ "dead-letter=-/q", "", "q" },  { "dead-letter=x", "x", NULL },
		{ "dead-letter=x/", "x", NULL }, { "dead-letter=x/a/b", "x", "a/b" },
		{ "dead-letter=", NULL, NULL },  { "dead-letter=x/-", "x", "-" },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct config c;

		parse_good(&c, cases[i].value);
		if (cases[i].exchange)
			assert_string_equal(c.dead_exchange, cases[i].exchange);
		else
			assert_null(c.dead_exchange);
		if (cases[i].key)
			assert_string_equal(c.dead_key, cases[i].key);
		else
			assert_null(c.dead_key);
		config_deinit(&c);
	}
}

TEST_THAT(too_many_options_are_refused)
{
	struct config c;
	struct buf text = { 0 };
	struct error err;

	for (int i = 0; i < ARGS_MAX; i++)
		buf_printf(&text, "%sretry.o%d=1", i ? " " : "", i);
	assert_int_equal(parse(&c, buf_cstr(&text), &err), TIDE_ETOOLONG);
	buf_deinit(&text);
}

#define HINT "; the option update changes that"

/* As DECLARE compares: what is given first. */
static int compare_configs(const struct config *a, const struct config *b,
			   struct error *err)
{
	int rc = config_compare(a, b, true, 120000, err);

	return rc == TIDE_OK ? config_compare(a, b, false, 120000, err) : rc;
}

/* What the comparison of two declarations says; NULL when they are the same. */
static void compare(const char *has, const char *wanted, const char *says)
{
	struct config a, b;
	struct error err = { 0 };
	int rc;

	parse_good(&a, has);
	parse_good(&b, wanted);
	rc = compare_configs(&a, &b, &err);
	assert_int_equal(rc, says ? TIDE_EMISMATCH : TIDE_OK);
	if (says)
		assert_string_equal(err.text, says);
	config_deinit(&a);
	config_deinit(&b);
}

TEST_THAT(declarations_that_mean_the_same_are_the_same)
{
	compare("", "", NULL);
	compare("", "durable=1 shards=1 retry=immediate ack-timeout=60s", NULL);
	compare("shards=4 durable=0", "durable=0 shards=4", NULL);
	compare("ack-timeout=60s", "ack-timeout=1m", NULL);
	compare("ack-timeout=60000", "", NULL);
	compare("delivery-limit=20", "delivery-limit=020", NULL);
	compare("dead-letter=orders", "dead-letter=orders/", NULL);
	compare("dedupe=2m", "", NULL);
	compare("dedupe=120s", "dedupe=120000", NULL);
}

TEST_THAT(the_first_difference_is_named)
{
	compare("", "shards=2", "it has shards=1, not shards=2" HINT);
	compare("durable=0", "", "it has durable=0, not durable=1");
	compare("ack-timeout=1m", "ack-timeout=2m",
		"it has ack-timeout=1m, not ack-timeout=2m" HINT);
	compare("retry=fixed", "", "it has retry=fixed, not retry=immediate" HINT);
	compare("dead-letter=-/q", "",
		"it has dead-letter=-/q, not dead-letter=(none)" HINT);
	compare("", "dedupe=1m", "it has dedupe=2m, not dedupe=1m" HINT);
	compare("dedupe=0", "dedupe=1s", "it has dedupe=0s, not dedupe=1s" HINT);
	/* What is given comes before what is left out. */
	compare("durable=0 ttl=1m", "ttl=2m", "it has ttl=1m, not ttl=2m" HINT);
	compare("durable=0 dedupe=1m", "dedupe=2m",
		"it has dedupe=1m, not dedupe=2m" HINT);
}

/* What an update makes of the options; NULL: it is refused. */
static void merge(const char *has, const char *given, const char *makes)
{
	struct config c;
	struct args args, out;
	struct buf text = { 0 };
	struct error err;
	int rc;

	parse_good(&c, has);
	assert_int_equal(args_parse(&args, slice_from(given)), TIDE_OK);
	rc = config_merge(&c, &args, &out, &err);
	assert_int_equal(rc, makes ? TIDE_OK : TIDE_ESYNTAX);
	args_format(&out, &text);
	if (makes)
		assert_buf(&text, makes);
	args_deinit(&out);
	args_deinit(&args);
	config_deinit(&c);
	buf_deinit(&text);
}

TEST_THAT(an_update_keeps_what_it_does_not_name)
{
	merge("ttl=1h retry=fixed retry.delay=5s", "",
	      "retry=fixed retry.delay=5s ttl=1h");
	merge("ttl=1h", "max-length=5", "max-length=5 ttl=1h");
	merge("ttl=1h", "ttl=2h", "ttl=2h");
	merge("ttl=1h dead-letter=-/q", "ttl= dead-letter=", "");
	merge("retry=fixed retry.delay=5s", "retry.delay=", "retry=fixed");
	merge("", "ttl=0 rate=", "ttl=0");
	merge("", "ttll=", NULL);
}

TEST_THAT(the_options_of_a_script_go_with_it)
{
	merge("retry=fixed retry.delay=5s retry.max=3", "retry=exponential retry.max=4",
	      "retry=exponential retry.max=4");
	merge("retry=fixed retry.delay=5s", "retry=", "");
	merge("retry=fixed retry.delay=5s", "retry=fixed", "retry=fixed retry.delay=5s");
	merge("retry.max=3 sharding.by=k", "retry=immediate ttl=1s",
	      "retry=immediate retry.max=3 sharding.by=k ttl=1s");
}

/* Why an option cannot change; NULL: it can. */
static void change(enum config_kind kind, const char *has, const char *wanted,
		   const char *says)
{
	struct config a, b;
	struct error err = { 0 };
	int rc;

	assert_int_equal(parse_by(kind, &a, has, &err), TIDE_OK);
	assert_int_equal(parse_by(kind, &b, wanted, &err), TIDE_OK);
	rc = config_check_change(&a, &b, false, &err);
	assert_int_equal(rc, says ? TIDE_EMISMATCH : TIDE_OK);
	if (says && !strstr(err.text, says))
		fail_msg("'%s' is not in '%s'", says, err.text);
	config_deinit(&a);
	config_deinit(&b);
}

TEST_THAT(what_cannot_change_says_why)
{
	static const char *const can[] = {
		"ttl=1h rate=5/s expires=1d",
		"retry=fixed priority=aging sharding=random shards=4",
		"max-length=5 overflow=drop-head max-bytes=1000",
		"ack-timeout=1s ack-timeout-max=2s delivery-limit=3 death-limit=4",
		"dead-letter=-/q dedupe=5m auto-delete=1 single-active=1",
	};

	for (size_t i = 0; i < COUNT(can); i++) {
		change(CONFIG_QUEUE, "", can[i], NULL);
		change(CONFIG_QUEUE, can[i], "", NULL);
	}
	change(CONFIG_QUEUE, "", "durable=0",
	       "it keeps durable=1, because messages do not move between memory and "
	       "Redis");
	change(CONFIG_QUEUE, "", "exclusive=1", "it keeps exclusive=0, because ");
	change(CONFIG_QUEUE, "", "order-by=key", "it keeps order-by=(none), because ");
	change(CONFIG_QUEUE, "order-by=key inflight=2", "order-by=key",
	       "it keeps inflight=2, because ");
	change(CONFIG_QUEUE, "order-by=key", "order-by=key shards=2",
	       "it keeps shards=1, because ");
	change(CONFIG_QUEUE, "dedupe=queued", "", "it keeps dedupe=queued, because ");
	change(CONFIG_QUEUE, "", "dedupe=queued", "it keeps dedupe=(none), because ");
	change(CONFIG_TOPIC, "",
	       "retention=2d retention-bytes=5 retention-count=6 keep-unread=a "
	       "retry=fixed",
	       NULL);
	change(CONFIG_TOPIC, "", "partitions=9", NULL);
	change(CONFIG_TOPIC, "", "partitions=7", "it keeps partitions=8, because ");
	change(CONFIG_TOPIC, "", "sharding=random", "it keeps sharding=hash, because ");
	change(CONFIG_TOPIC, "", "order=0", "it keeps order=1, because ");
	change(CONFIG_TOPIC, "", "compact=key retention=1d",
	       "it keeps compact=(none), because ");
}

static void expect_shards(const struct config *c, const char *shards, const char *reshard)
{
	assert_string_equal(args_get(&c->canonical, "shards"), shards);
	assert_string_equal(args_get(&c->canonical, "reshard"), reshard);
}

TEST_THAT(a_reshard_keeps_the_shards_that_there_are)
{
	struct config c;

	parse_good(&c, "shards=4");
	assert_int_equal(config_shards(&c), 4);
	config_reshard(&c, 6);
	expect_shards(&c, "6", "6");
	config_reshard(&c, 2);
	expect_shards(&c, "2", "6");
	assert_int_equal(c.shards, 2);
	assert_int_equal(config_shards(&c), 6);
	config_reshard(&c, 64);
	assert_int_equal(config_shards(&c), 64);
	config_deinit(&c);
}

TEST_THAT(reshard_is_a_flag_and_no_part_of_the_queue)
{
	struct config c;
	struct error err = { 0 };
	bool is_given;

	parse_good(&c, "shards=4 reshard=1");
	assert_int_equal(config_take_reshard(&c, &is_given, &err), TIDE_OK);
	assert_true(is_given);
	expect_shards(&c, "4", "0");
	assert_int_equal(config_take_reshard(&c, &is_given, &err), TIDE_OK);
	assert_false(is_given);
	config_deinit(&c);
	parse_good(&c, "reshard=5");
	assert_int_equal(config_take_reshard(&c, &is_given, &err), TIDE_ESYNTAX);
	assert_string_equal(err.text, "reshard=5: expected 0 or 1");
	config_deinit(&c);
}

TEST_THAT(what_a_topic_does_not_say_has_its_default)
{
	struct config c;
	struct buf text = { 0 };

	parse_good_topic(&c, "");
	assert_true(c.kind == CONFIG_TOPIC);
	assert_true(c.is_durable);
	assert_true(c.keeps_order);
	assert_false(c.compacts);
	assert_int_equal(c.shards, 8);
	assert_int_equal(config_shards(&c), 8);
	assert_int_equal(c.retention_ms, DAY_MS);
	assert_int_equal(c.retention_bytes, 0);
	assert_int_equal(c.retention_count, 0);
	assert_string_equal(c.keep_unread, "");
	assert_null(c.scripts[SCRIPT_PRIORITY]);
	args_format(&c.canonical, &text);
	assert_buf(&text,
		   "ack-timeout=60s ack-timeout-max=1d compact= dead-letter= "
		   "death-limit=100 dedupe= delivery-limit=20 durable=1 keep-unread= "
		   "order=1 partitions=8 retention=1d retention-bytes=0 "
		   "retention-count=0 retry=immediate sharding=hash");
	for (size_t i = 0; i < c.canonical.count; i++)
		assert_true(config_is_default(&c, &c.canonical.items[i]));
	config_deinit(&c);
	buf_deinit(&text);
}

TEST_THAT(every_option_of_a_topic_is_read)
{
	struct config c;

	parse_good_topic(&c, "partitions=64 durable=0 order=0 retention=0 "
			     "retention-bytes=1000 retention-count=1000000000000 "
			     "keep-unread=a,b.c sharding=consistent "
			     "sharding.by=k retry.x=1 dedupe=1m dead-letter=-/q");
	assert_int_equal(c.shards, 64);
	assert_false(c.is_durable);
	assert_false(c.keeps_order);
	assert_false(c.compacts);
	assert_int_equal(c.retention_ms, 0);
	assert_int_equal(c.retention_bytes, 1000);
	assert_int_equal(c.retention_count, 1000000000000);
	assert_string_equal(c.keep_unread, "a,b.c");
	assert_string_equal(c.dead_key, "q");
	assert_int_equal(c.dedupe_ms, 60000);
	assert_string_equal(args_get(&c.script_args[SCRIPT_RETRY], "x"), "1");
	config_deinit(&c);
}

TEST_THAT(what_is_compacted_is_kept_for_ever_unless_it_says_else)
{
	struct config c;

	parse_good_topic(&c, "compact=key");
	assert_true(c.compacts);
	assert_int_equal(c.retention_ms, 0);
	assert_string_equal(args_get(&c.canonical, "retention"), "0");
	config_deinit(&c);
	parse_good_topic(&c, "compact=key retention=1d");
	assert_true(c.compacts);
	assert_int_equal(c.retention_ms, DAY_MS);
	config_deinit(&c);
	parse_good_topic(&c, "compact=");
	assert_false(c.compacts);
	assert_int_equal(c.retention_ms, DAY_MS);
	config_deinit(&c);
}

TEST_THAT(what_a_topic_does_not_take_is_refused_and_named)
{
	static const struct {
		const char *args, *says;
	} cases[] = {
		{ "shards=2", "'shards' is an option of queues: a topic takes durable" },
		{ "exclusive=1", "'exclusive' is an option of queues" },
		{ "priority=strict", "'priority' is an option of queues" },
		{ "priority.x=1", "'priority.x' is an option of queues" },
		{ "ttl=1s", "'ttl' is an option of queues" },
		{ "colour=red", "a topic has no option 'colour'; it takes: durable" },
		{ "compact=key durable=0", "compact=key is for durable topics" },
		{ "partitions=0", "1 to 64" },
		{ "partitions=65", "1 to 64" },
		{ "retention=4000d", "1ms to 3660d, or 0 for ever" },
		{ "retention-bytes=1000000000001", "or 0 for no limit" },
		{ "keep-unread=a,", "each once" },
		{ "keep-unread=,a", "each once" },
		{ "keep-unread=a,b,a", "each once" },
		{ "keep-unread=a%20b", "each once" },
		{ "compact=all", "key, or nothing" },
		{ "dedupe=queued", "a duration up to 1d; 0 remembers" },
		{ "order=2", "0 or 1" },
	};
	struct config c;
	struct error err = { 0 };

	for (size_t i = 0; i < COUNT(cases); i++) {
		if (parse_by(CONFIG_TOPIC, &c, cases[i].args, &err) != TIDE_ESYNTAX)
			fail_msg("'%s' was taken, or refused in another way",
				 cases[i].args);
		if (!strstr(err.text, cases[i].says))
			fail_msg("'%s': %s", cases[i].args, err.text);
	}
	assert_int_equal(parse(&c, "retention=1d", &err), TIDE_ESYNTAX);
	assert_non_null(
		strstr(err.text, "'retention' is an option of topics: a queue takes"));
}

TEST_THAT(the_first_difference_of_topics_is_named)
{
	static const struct {
		const char *has, *wanted, *says;
	} cases[] = {
		{ "", "partitions=8 retention=24h", NULL },
		{ "", "partitions=9", "it has partitions=8, not partitions=9" HINT },
		{ "keep-unread=a", "",
		  "it has keep-unread=a, not keep-unread=(none)" HINT },
		{ "keep-unread=a,b,c", "keep-unread=c,a,b", NULL },
		{ "keep-unread=a,b", "keep-unread=a,c",
		  "it has keep-unread=a,b, not keep-unread=a,c" HINT },
		{ "compact=key", "retention=0",
		  "it has compact=key, not compact=(none)" },
		{ "", "order=0", "it has order=1, not order=0" },
		{ "", "retention-count=5",
		  "it has retention-count=0, not "
		  "retention-count=5" HINT },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct config a, b;
		struct error err = { 0 };
		int rc;

		parse_good_topic(&a, cases[i].has);
		parse_good_topic(&b, cases[i].wanted);
		rc = compare_configs(&a, &b, &err);
		assert_int_equal(rc, cases[i].says ? TIDE_EMISMATCH : TIDE_OK);
		if (cases[i].says)
			assert_string_equal(err.text, cases[i].says);
		config_deinit(&a);
		config_deinit(&b);
	}
}

RUN_TESTS()
