#include "verb.h"

#include <string.h>

/* clang-format off */
#define PUB_OPTIONS "pri delay ttl id"

/* The verbs of every message come first: they are searched from the front. */
static const struct verb verbs[] = {
	/* name     words  features                       options and flags                command */
	{ "PUB",     2, 2, VERB_PAYLOAD | VERB_HEADERS,      PUB_OPTIONS, "must",          command_publish },
	{ "ACK",     0, 0, VERB_TAGS,                        NULL, NULL,                   command_ack },
	{ "HELLO",   0, 0, VERB_ANSWERS,   "user pass vhost name heartbeat", NULL,         command_hello },
	{ "PING",    0, 0, 0,                                NULL, NULL,                   command_ping },
	{ "QUIT",    0, 0, 0,                                NULL, NULL,                   command_quit },
	{ "OPEN",    0, 0, VERB_NO_CHANNEL,                  NULL, NULL,                   command_open },
	{ "CLOSE",   0, 0, VERB_NO_CHANNEL,                  NULL, NULL,                   command_close },
	{ "DECLARE", 2, 3, VERB_ANY_OPTIONS,                 NULL, NULL,                   command_declare },
	{ "DELETE",  2, 2, 0,                                NULL, "if-empty if-unused",   command_delete },
	{ "BIND",    3, 3, VERB_ANY_OPTIONS,                 NULL, NULL,                   command_bind },
	{ "UNBIND",  3, 3, VERB_ANY_OPTIONS,                 NULL, NULL,                   command_unbind },
	{ "SUB",     2, 2, 0,                                "prefetch ack", NULL,         command_subscribe },
	{ "UNSUB",   1, 1, 0,                                NULL, NULL,                   command_unsubscribe },
	{ "GET",     1, 1, VERB_ANSWERS,                     "max wait ack", NULL,         command_get },
	{ "NACK",    0, 0, VERB_TAGS,                        "delay", "dead requeue",      command_nack },
	{ "TOUCH",   0, 0, VERB_TAGS,                        "for", NULL,                  command_touch },
	{ "PEEK",    1, 2, VERB_DOCUMENT | VERB_ANSWERS,        "state", NULL,                command_peek },
	{ "PURGE",   1, 1, 0,                                NULL, NULL,                   command_purge },
	{ "KICK",    1, 2, 0,                                NULL, NULL,                   command_kick },
	{ "LIST",    1, 1, VERB_DOCUMENT | VERB_ANSWERS,        NULL, NULL,                   command_list },
	{ "STATS",   0, 1, VERB_DOCUMENT | VERB_ANSWERS,        NULL, NULL,                   command_stats },
	{ "RULES",   1, 3, VERB_DOCUMENT | VERB_ANSWERS | VERB_ANY_OPTIONS, "share", NULL,                command_rules },
	{ "EXPLAIN", 2, 2, VERB_DOCUMENT | VERB_ANSWERS | VERB_HEADERS, PUB_OPTIONS " payload", NULL, command_explain },
	{ "", 0, 0, 0, NULL, NULL, NULL },
};
/* clang-format on */

const struct verb *verb_table(void)
{
	return verbs;
}

/* Verbs are letters. Apart from its other case, a letter has no other byte that is the
 * same without that bit. */
#define CASE_BIT 0x20

const struct verb *verb_find(struct slice name)
{
	char word[VERB_NAME_MAX + 1] = { 0 };

	if (name.len == 0 || name.len > VERB_NAME_MAX)
		return NULL;
	for (size_t i = 0; i < name.len; i++) {
		word[i] = (char)(name.data[i] & ~CASE_BIT);
		if (!word[i])
			return NULL; /* not the zero after a verb */
	}
	/* Eight bytes at once. */
	for (const struct verb *v = verbs; v->name[0]; v++)
		if (memcmp(v->name, word, sizeof(word)) == 0)
			return v;
	return NULL;
}
