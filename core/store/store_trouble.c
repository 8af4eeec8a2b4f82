#include "store_trouble.h"

#include <ctype.h>
#include <string.h>

#define WORDS_MAX 4

static const struct {
	const char *name;
	const char *words[WORDS_MAX]; /* what Redis 6 to 8 say, with a blank behind */
	bool is_total;
	const char *text;
} kinds[STORE_TROUBLES] = {
	[STORE_TROUBLE_MEMORY] = { "memory",
				   { "OOM " },
				   true,
				   "Redis is out of memory and refuses writes: raise its "
				   "maxmemory, or consume what is stored" },
	[STORE_TROUBLE_DISK] = { "disk",
				 { "MISCONF " },
				 true,
				 "Redis cannot write to its disk and refuses writes: "
				 "make "
				 "room there, and see the log of Redis" },
	[STORE_TROUBLE_READONLY] = { "readonly",
				     { "READONLY " },
				     true,
				     "Redis is a replica and refuses writes: promote it "
				     "(REPLICAOF NO ONE), or start the broker with the "
				     "--store of the primary" },
	[STORE_TROUBLE_REPLICAS] = { "replicas",
				     { "NOREPLICAS " },
				     true,
				     "Redis has too few replicas and refuses writes: "
				     "start "
				     "them, or lower its min-replicas-to-write" },
	[STORE_TROUBLE_BUSY] = { "busy",
				 { "BUSY ", "LOADING ", "MASTERDOWN " },
				 true,
				 "Redis is busy with a script or loads its data, and "
				 "refuses requests: wait, or end the script (SCRIPT "
				 "KILL)" },
	[STORE_TROUBLE_DENIED] = { "denied",
				   { "NOPERM ", "NOAUTH ", "WRONGPASS " },
				   true,
				   "Redis does not permit the broker what it needs: give "
				   "its user the permissions of docs/redis.md (ACL "
				   "SETUSER)" },
	[STORE_TROUBLE_TYPE] = { "type",
				 { "WRONGTYPE " },
				 false,
				 "a key in Redis has another type than the broker gave "
				 "it, and what needs the key waits: the log names the "
				 "key and what to do" },
	[STORE_TROUBLE_OTHER] = { "other",
				  { NULL },
				  false,
				  "Redis refuses requests: store.last_error in STATS and "
				  "the log say why" },
	[STORE_TROUBLE_SILENT] = { "silent",
				   { NULL },
				   true,
				   "Redis is connected and does not answer: see whether "
				   "it "
				   "is stopped, runs a long command, or waits for its "
				   "disk" },
};

const char *store_trouble_name(enum store_trouble kind)
{
	return kinds[kind].name;
}

bool store_trouble_is_total(enum store_trouble kind)
{
	return kinds[kind].is_total;
}

const char *store_trouble_text(enum store_trouble kind)
{
	return kinds[kind].text;
}

/* The error of a script or of EXEC has the word of its cause within. */
static bool has_word(const char *text, const char *word)
{
	const char *at = strstr(text, word);

	return at && (at == text || !isalnum((unsigned char)at[-1]));
}

enum store_trouble store_trouble_of(const char *text)
{
	for (int kind = 0; kind < STORE_REFUSALS; kind++)
		for (int i = 0; i < WORDS_MAX && kinds[kind].words[i]; i++)
			if (has_word(text, kinds[kind].words[i]))
				return (enum store_trouble)kind;
	return STORE_TROUBLE_OTHER;
}
