#include "verbs.h"

#include <strings.h>

#include "commands.h"

/* clang-format off */
#define PUB_OPTIONS "pri delay ttl id"

static const struct verb verbs[] = {
	/* name     words  features                       options and flags                command */
	{ "HELLO",   0, 0, VERB_ANSWERS,   "user pass vhost name heartbeat", NULL,         command_hello },
	{ "PING",    0, 0, 0,                                NULL, NULL,                   command_ping },
	{ "QUIT",    0, 0, 0,                                NULL, NULL,                   command_quit },
	{ "OPEN",    0, 0, VERB_NO_CHANNEL,                  NULL, NULL,                   command_open },
	{ "CLOSE",   0, 0, VERB_NO_CHANNEL,                  NULL, NULL,                   command_close },
	{ "DECLARE", 2, 3, VERB_ANY_OPTIONS,                 NULL, NULL,                   command_declare },
	{ "DELETE",  2, 2, 0,                                NULL, "if-empty if-unused",   command_delete },
	{ "BIND",    3, 3, VERB_ANY_OPTIONS,                 NULL, NULL,                   command_bind },
	{ "UNBIND",  3, 3, VERB_ANY_OPTIONS,                 NULL, NULL,                   command_unbind },
	{ "PUB",     2, 2, VERB_PAYLOAD | VERB_HEADERS,      PUB_OPTIONS, "must",          command_publish },
	{ "SUB",     2, 2, 0,                                "prefetch ack", NULL,         command_subscribe },
	{ "UNSUB",   1, 1, 0,                                NULL, NULL,                   command_unsubscribe },
	{ "GET",     1, 1, VERB_ANSWERS,                     "max wait ack", NULL,         command_get },
	{ "ACK",     0, 0, VERB_TAGS,                        NULL, NULL,                   command_ack },
	{ "NACK",    0, 0, VERB_TAGS,                        "delay", "dead requeue",      command_nack },
	{ "TOUCH",   0, 0, VERB_TAGS,                        "for", NULL,                  command_touch },
	{ "PEEK",    1, 2, VERB_ANSWERS,                     "state", NULL,                command_peek },
	{ "PURGE",   1, 1, 0,                                NULL, NULL,                   command_purge },
	{ "KICK",    1, 2, 0,                                NULL, NULL,                   command_kick },
	{ "LIST",    1, 1, VERB_ANSWERS,                     NULL, NULL,                   command_list },
	{ "STATS",   0, 1, VERB_ANSWERS,                     NULL, NULL,                   command_stats },
	{ "RULES",   1, 3, VERB_ANSWERS | VERB_ANY_OPTIONS,  "share", NULL,                command_rules },
	{ "EXPLAIN", 2, 2, VERB_ANSWERS | VERB_HEADERS,      PUB_OPTIONS " payload", NULL, command_explain },
	{ NULL, 0, 0, 0, NULL, NULL, NULL },
};
/* clang-format on */

const struct verb *verb_table(void)
{
	return verbs;
}

const struct verb *verb_find(struct slice name)
{
	/* The word may hold a zero byte, at which strncasecmp would stop. */
	for (const struct verb *v = verbs; v->name; v++)
		if (strlen(v->name) == name.len &&
		    strncasecmp(v->name, name.data, name.len) == 0)
			return v;
	return NULL;
}
