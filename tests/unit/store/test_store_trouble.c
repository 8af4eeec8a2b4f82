#include "capture.h"
#include "check.h"
#include "host/log.h"
#include "store/redis_trouble.h"

/* As Redis 6, 7 and 8 say it: alone, of a script, and of a transaction. */
TEST_THAT(each_kind_has_its_words)
{
	static const struct {
		const char *text;
		enum store_trouble kind;
	} cases[] = {
		{ "OOM command not allowed when used memory > 'maxmemory'.",
		  STORE_TROUBLE_MEMORY },
		{ "ERR Error running script (call to f_0a): @user_script:1: "
		  "@user_script: 1: -OOM command not allowed when used memory > "
		  "'maxmemory'.",
		  STORE_TROUBLE_MEMORY },
		{ "OOM command not allowed when used memory > 'maxmemory'. script: 0a, "
		  "on @user_script:1.",
		  STORE_TROUBLE_MEMORY },
		{ "EXECABORT Transaction discarded because of: OOM command not allowed",
		  STORE_TROUBLE_MEMORY },
		{ "MISCONF Errors writing to the AOF file: No space left on device",
		  STORE_TROUBLE_DISK },
		{ "READONLY You can't write against a read only replica.",
		  STORE_TROUBLE_READONLY },
		{ "NOREPLICAS Not enough good replicas to write.",
		  STORE_TROUBLE_REPLICAS },
		{ "BUSY Redis is busy running a script. You can only call SCRIPT KILL or "
		  "SHUTDOWN NOSAVE.",
		  STORE_TROUBLE_BUSY },
		{ "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is "
		  "set to 'no'.",
		  STORE_TROUBLE_BUSY },
		{ "NOPERM User anna has no permissions to run the 'hset' command",
		  STORE_TROUBLE_DENIED },
		{ "NOAUTH Authentication required.", STORE_TROUBLE_DENIED },
		{ "WRONGTYPE Operation against a key holding the wrong kind of value",
		  STORE_TROUBLE_TYPE },
		{ "BUSYKEY Target key name already exists.", STORE_TROUBLE_OTHER },
		{ "ERR value is NOOOM or out of range", STORE_TROUBLE_OTHER },
		{ "ERR unknown command 'ZADD'", STORE_TROUBLE_OTHER },
		{ "", STORE_TROUBLE_OTHER },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(redis_trouble_kind(cases[i].text), cases[i].kind);
}

TEST_THAT(each_kind_has_a_name_and_a_sentence)
{
	struct redis_trouble trouble;

	redis_trouble_init(&trouble, "", NULL);
	for (int kind = 0; kind < STORE_TROUBLES; kind++) {
		assert_non_null(store_trouble_name((enum store_trouble)kind));
		assert_non_null(redis_trouble_text(&trouble, (enum store_trouble)kind));
	}
}

TEST_THAT(the_end_of_a_trouble_names_the_redis_that_had_it)
{
	char address[] = "10.0.0.1:6379";
	struct redis_trouble trouble;
	struct capture c;

	redis_trouble_init(&trouble, address, NULL);
	capture_begin(&c);
	redis_trouble_silent(&trouble, 1000);
	address[7] = '2'; /* another one was promoted */
	redis_trouble_heard(&trouble, 1040);
	capture_end(&c);
	redis_trouble_deinit(&trouble);
	assert_non_null(strstr(c.text, "Redis at 10.0.0.1:6379: the trouble that was "
				       "logged 40 ms ago is over: silent"));
}

RUN_TESTS()
