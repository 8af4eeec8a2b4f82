#include "fake_node.h"

#include "store/cluster_map.h"

#define NODES 3

struct rig {
	struct harness h;
	struct fake fakes[NODES];
	struct redis_url url;
	struct cluster *cluster;
	struct cluster_map map; /* the last one; without its masters */
	struct cluster_master masters[4];
	unsigned maps, failures;
	char why[1024];
	bool is_closed;
};

/* The answers to CLUSTER INFO and CLUSTER SLOTS. */
static void say(struct fake *f, const char *state, unsigned epoch, const char *slots)
{
	char info[128];

	snprintf(info, sizeof(info),
		 "cluster_state:%s\r\ncluster_slots_assigned:16384\r\n"
		 "cluster_current_epoch:%u\r\n",
		 state, epoch);
	snprintf(f->answer, sizeof(f->answer), "$%zu\r\n%s\r\n%s", strlen(info), info,
		 slots);
}

/* All slots are of one master at 127.0.0.1. */
static void say_port(struct fake *f, const char *state, unsigned epoch, unsigned port)
{
	char slots[128];

	snprintf(slots, sizeof(slots),
		 "*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$9\r\n127.0.0.1\r\n:%u\r\n"
		 "$1\r\nx\r\n",
		 port);
	say(f, state, epoch, slots);
}

static void on_map(void *ctx, const struct cluster_map *map)
{
	struct rig *r = ctx;

	r->maps++;
	r->map = *map;
	r->map.masters = NULL;
	assert_in_range(map->count, 1, COUNT(r->masters));
	memcpy(r->masters, map->masters, map->count * sizeof(*map->masters));
}

static void on_failed(void *ctx, const char *why)
{
	struct rig *r = ctx;

	r->failures++;
	snprintf(r->why, sizeof(r->why), "%s", why);
}

static void on_closed(void *ctx)
{
	struct rig *r = ctx;

	r->is_closed = true;
}

/* The URL has the first so many nodes. */
static struct rig *begin(const char *login, unsigned count)
{
	static struct rig r;
	const struct cluster_hooks hooks = { &r, on_map, on_failed };
	char text[256];
	int len;
	struct error err;

	r = (struct rig){ 0 };
	harness_init(&r.h);
	len = snprintf(text, sizeof(text), "redis://%s", login);
	for (unsigned i = 0; i < NODES; i++)
		listen_as(&r.fakes[i], &r.h.loop);
	for (unsigned i = 0; i < count; i++)
		len += snprintf(text + len, sizeof(text) - (size_t)len, "%s127.0.0.1:%u",
				i ? "," : "", r.fakes[i].port);
	assert_int_equal(redis_url_parse(text, &r.url, &err), TIDE_OK);
	/* So long nobody waits in a test that passes, but where it says so. */
	r.cluster = cluster_create(&r.h.loop, &r.url, 300, &hooks);
	return &r;
}

static void end(struct rig *r)
{
	cluster_close(r->cluster, on_closed, r);
	WAIT(&r->h, r->is_closed);
	for (unsigned i = 0; i < NODES; i++)
		hang_up(&r->fakes[i]);
	uv_close((uv_handle_t *)&r->h.waker, NULL);
	uv_run(&r->h.loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&r->h.loop), 0);
	redis_url_deinit(&r->url);
	rmdir(r->h.dir);
}

static void ask_map(struct rig *r)
{
	unsigned maps = r->maps, failures = r->failures;

	cluster_ask(r->cluster, NULL);
	WAIT(&r->h, r->maps + r->failures > maps + failures);
}

static void expect_map(struct rig *r, unsigned port)
{
	unsigned failures = r->failures;

	ask_map(r);
	assert_int_equal(r->failures, failures);
	assert_int_equal(r->masters[0].port, port);
}

static void expect_no_map(const char *slots, const char *why)
{
	struct rig *r = begin("", 1);

	say(&r->fakes[0], "ok", 1, slots);
	ask_map(r);
	assert_int_equal(r->maps, 0);
	if (!strstr(r->why, why))
		fail_msg("%s", r->why);
	end(r);
}

TEST_THAT(masters_have_the_slots_of_all_their_ranges)
{
	struct rig *r = begin("", 1);

	say(&r->fakes[0], "ok", 1,
	    "*3\r\n"
	    "*4\r\n:0\r\n:99\r\n*3\r\n$8\r\n10.0.0.1\r\n:7000\r\n$1\r\na\r\n"
	    "*3\r\n$8\r\n10.0.0.3\r\n:7000\r\n$1\r\nc\r\n"
	    "*3\r\n:100\r\n:16000\r\n*3\r\n$8\r\n10.0.0.2\r\n:7000\r\n$1\r\nb\r\n"
	    "*4\r\n:16002\r\n:16383\r\n*3\r\n$8\r\n10.0.0.1\r\n:7000\r\n$1\r\na\r\n"
	    "*3\r\n$8\r\n10.0.0.3\r\n:7000\r\n$1\r\nc\r\n");
	/* The second time nothing of the first is left. */
	for (unsigned i = 0; i < 2; i++) {
		hang_up(&r->fakes[1]);
		ask_map(r);
		assert_int_equal(r->map.count, 2);
		assert_int_equal(r->map.covered, 16383);
		assert_int_equal(r->masters[0].slots, 482);
		assert_int_equal(r->masters[0].replicas, 1);
		assert_int_equal(r->masters[1].slots, 15901);
		assert_int_equal(r->masters[1].replicas, 0);
		assert_int_equal(r->map.owner[99], 0);
		assert_int_equal(r->map.owner[100], 1);
		assert_int_equal(r->map.owner[16001], CLUSTER_NO_MASTER);
		assert_int_equal(r->map.owner[16383], 0);
	}
	end(r);
}

static void expect_own_address(const char *host)
{
	struct rig *r = begin("", 1);
	char slots[128];

	snprintf(slots, sizeof(slots),
		 "*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n%s:7001\r\n$1\r\nx\r\n", host);
	say(&r->fakes[0], "ok", 0, slots);
	expect_map(r, 7001);
	assert_string_equal(r->masters[0].host, "127.0.0.1");
	end(r);
}

TEST_THAT(no_host_means_the_one_that_was_asked)
{
	expect_own_address("$0\r\n\r\n");
	expect_own_address("$-1\r\n");
}

TEST_THAT(a_master_without_a_usable_address_has_nothing)
{
	static const char *const nodes[] = {
		"*3\r\n$1\r\n?\r\n:7001\r\n$1\r\nx\r\n",
		"*3\r\n$8\r\n10.0.0.1\r\n:0\r\n$1\r\nx\r\n",
		"*3\r\n$8\r\n10.0.0.1\r\n:65536\r\n$1\r\nx\r\n",
		"*3\r\n$8\r\n10.0.0.1\r\n:4294967297\r\n$1\r\nx\r\n",
		"*3\r\n$8\r\n10.0.0.1\r\n$1\r\n1\r\n$1\r\nx\r\n",
		"*1\r\n$8\r\n10.0.0.1\r\n",
		"$4\r\nnode\r\n",
	};

	for (size_t i = 0; i < COUNT(nodes); i++) {
		struct rig *r = begin("", 1);
		char slots[256];

		snprintf(slots, sizeof(slots),
			 "*2\r\n*3\r\n:0\r\n:9\r\n%s"
			 "*3\r\n:10\r\n:10\r\n*2\r\n$8\r\n10.0.0.2\r\n:7002\r\n",
			 nodes[i]);
		say(&r->fakes[0], "ok", 1, slots);
		expect_map(r, 7002);
		assert_int_equal(r->map.count, 1);
		assert_int_equal(r->map.covered, 1);
		end(r);
	}
}

TEST_THAT(an_ipv6_address_is_taken_as_it_is)
{
	struct rig *r = begin("", 1);

	say(&r->fakes[0], "ok", 1,
	    "*1\r\n*3\r\n:5\r\n:5\r\n*3\r\n$8\r\nfd00::12\r\n:7001\r\n$1\r\nx\r\n");
	expect_map(r, 7001);
	assert_string_equal(r->masters[0].host, "fd00::12");
	end(r);
}

TEST_THAT(what_is_no_map_is_none)
{
	static const char *const odd[] = {
		"*0\r\n",
		"$2\r\nno\r\n",
		"*1\r\n:7\r\n",
		"*1\r\n*2\r\n:0\r\n:9\r\n",
		"*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n$1\r\na\r\n:1\r\n",
		"*1\r\n*3\r\n:-1\r\n:9\r\n*2\r\n$1\r\na\r\n:1\r\n",
		"*1\r\n*3\r\n:9\r\n:8\r\n*2\r\n$1\r\na\r\n:1\r\n",
		"*1\r\n*3\r\n$1\r\n0\r\n:8\r\n*2\r\n$1\r\na\r\n:1\r\n",
		"*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$1\r\n?\r\n:1\r\n",
	};

	for (size_t i = 0; i < COUNT(odd); i++)
		expect_no_map(odd[i], "it tells no slots");
	expect_no_map("-ERR This instance has cluster support disabled\r\n",
		      "ERR This instance has cluster support disabled");
}

TEST_THAT(a_wrong_password_is_the_reason)
{
	struct rig *r = begin("u:p@", 1);

	snprintf(r->fakes[0].answer, sizeof(r->fakes[0].answer),
		 "-WRONGPASS invalid username-password pair\r\n-NOAUTH Authentication "
		 "required.\r\n-NOAUTH Authentication required.\r\n");
	ask_map(r);
	assert_int_equal(r->maps, 0);
	assert_non_null(strstr(r->why, "the cluster node at 127.0.0.1:"));
	assert_non_null(strstr(r->why, ": WRONGPASS invalid"));
	assert_non_null(strstr(r->fakes[0].input, "AUTH"));
	end(r);
}

TEST_THAT(one_that_is_silent_or_gone_is_left_for_the_next)
{
	struct rig *r = begin("", 3);

	r->fakes[0].is_silent = true;
	hang_up(&r->fakes[1]);
	say_port(&r->fakes[2], "ok", 1, 7003);
	expect_map(r, 7003);
	assert_int_equal(r->fakes[0].asked, 1);
	end(r);
}

TEST_THAT(the_newest_epoch_counts_and_an_older_one_if_no_other_is_told)
{
	struct rig *r = begin("", 2);

	say_port(&r->fakes[0], "ok", 7, 7007);
	say_port(&r->fakes[1], "ok", 6, 7006);
	expect_map(r, 7007);
	expect_map(r, 7007);
	assert_int_equal(r->fakes[1].asked, 1);
	hang_up(&r->fakes[0]);
	expect_map(r, 7006);
	/* From there on it is the one that is known. */
	say_port(&r->fakes[1], "ok", 6, 7106);
	expect_map(r, 7106);
	end(r);
}

TEST_THAT(one_that_is_cut_off_counts_if_no_other_answers)
{
	struct rig *r = begin("", 2);

	say_port(&r->fakes[0], "fail", 1, 7000);
	say_port(&r->fakes[1], "ok", 1, 7001);
	expect_map(r, 7001);
	hang_up(&r->fakes[1]);
	expect_map(r, 7000);
	expect_map(r, 7000);
	end(r);
}

TEST_THAT(nodes_that_no_map_names_any_more_are_not_asked)
{
	struct rig *r = begin("", 1);

	say_port(&r->fakes[0], "ok", 1, r->fakes[1].port);
	expect_map(r, r->fakes[1].port);
	/* It is asked next, and names another. */
	say_port(&r->fakes[1], "ok", 2, r->fakes[2].port);
	expect_map(r, r->fakes[2].port);
	assert_int_equal(r->fakes[1].asked, 1);
	say_port(&r->fakes[0], "ok", 2, r->fakes[2].port);
	say_port(&r->fakes[2], "ok", 2, r->fakes[2].port);
	for (unsigned i = 0; i < 4; i++)
		expect_map(r, r->fakes[2].port);
	assert_int_equal(r->fakes[1].asked, 1);
	assert_true(r->fakes[2].asked > 0);
	end(r);
}

TEST_THAT(a_question_may_be_given_up_by_the_close)
{
	struct rig *r = begin("", 1);

	r->fakes[0].is_silent = true;
	cluster_ask(r->cluster, NULL);
	WAIT(&r->h, r->fakes[0].asked);
	end(r);
	assert_int_equal(r->maps + r->failures, 0);
}

RUN_TESTS()
