#include "verb.h"

#include <string.h>

#include "base/bytes.h"

/* clang-format off */
#define PUB_OPTIONS "pri delay ttl id ack-timeout"
#define USER_OPTIONS "pass tags configure write read " COMMAND_USER_LIMITS
#define LIST_WORDS "exchanges|queues|topics|groups|bindings|consumers|connections|locks|vhosts|history|now|rules"
#define RULES_WORDS \
	"reload|status|show|eval|log|rollback|shadow|recent|replay|simulate|upload " \
	"name|hash|dir|n|retry|path source|name|install"

/* The verbs of every message come first: they are searched from the front. */
static const struct verb verbs[] = {
	/* name     words  their names                 features                       options and flags                command */
	{ "PUB",     2, 2, "exchange key",             VERB_PAYLOAD | VERB_HEADERS | VERB_TRANSACTED,      PUB_OPTIONS " expect", "must",          command_publish },
	{ "ACK",     0, 0, NULL,                       VERB_TAGS | VERB_TRANSACTED,                        NULL, NULL,                   command_ack },
	{ "HELLO",   0, 0, NULL,                       VERB_ANSWERS | VERB_NO_LOGIN, "user pass vhost name heartbeat prefetch", NULL,         command_hello },
	{ "PING",    0, 0, NULL,                       VERB_NO_LOGIN,                                NULL, NULL,                   command_ping },
	{ "QUIT",    0, 0, NULL,                       VERB_NO_LOGIN,                                NULL, NULL,                   command_quit },
	{ "OPEN",    0, 0, NULL,                       VERB_NO_CHANNEL,                  "prefetch", NULL,             command_open },
	{ "CLOSE",   0, 0, NULL,                       VERB_NO_CHANNEL,                  NULL, NULL,                   command_close },
	{ "DECLARE", 2, 3, "exchange|queue|topic|vhost name type", VERB_ANY_OPTIONS,                 NULL, NULL,                   command_declare },
	{ "DELETE",  2, 3, "exchange|queue|topic|vhost|group name group", 0,                   NULL, "if-empty if-unused",   command_delete },
	{ "BIND",    3, 3, "queue exchange pattern",   VERB_ANY_OPTIONS,                 NULL, NULL,                   command_bind },
	{ "UNBIND",  3, 3, "queue exchange pattern",   VERB_ANY_OPTIONS,                 NULL, NULL,                   command_unbind },
	{ "SUB",     2, 2, "queue sid",                0,                                "prefetch ack priority rank notify-lease ack-timeout group from partition", NULL, command_subscribe },
	{ "SEEK",    3, 3, "topic group position",     0,                                "partition", NULL,            command_topic_seek },
	{ "UNSUB",   1, 1, "sid",                      0,                                NULL, NULL,                   command_unsubscribe },
	{ "GET",     1, 1, "queue",                    VERB_ANSWERS | VERB_LIST,         "max wait ack id match ack-timeout group from partition offset", NULL, command_get },
	{ "NACK",    0, 0, NULL,                       VERB_TAGS | VERB_TRANSACTED,      "delay pri reason", "bury dead requeue", command_nack },
	{ "TOUCH",   0, 0, NULL,                       VERB_TAGS,                        "for", NULL,                  command_touch },
	{ "PEEK",    1, 2, "queue n",                  VERB_DOCUMENT | VERB_ANSWERS,        "state match after partition offset", NULL, command_peek },
	{ "REDRIVE", 1, 2, "queue n",                  VERB_DOCUMENT,                    "match to", "routed",         command_redrive },
	{ "PURGE",   1, 1, "queue",                    0,                                "before partition", NULL,     command_purge },
	{ "KICK",    1, 2, "queue n",                  VERB_DOCUMENT,                    "id", NULL,                   command_kick },
	{ "FIND",    2, 2, "queue id",                 VERB_DOCUMENT | VERB_ANSWERS,     NULL, NULL,                   command_by_id_find },
	{ "REMOVE",  1, 1, "queue",                    VERB_IDS | VERB_DOCUMENT,         NULL, NULL,                   command_by_id_remove },
	{ "RESCHEDULE", 1, 1, "queue",                 VERB_IDS | VERB_DOCUMENT,         "delay", NULL,                command_by_id_reschedule },
	{ "PAUSE",   2, 2, "queue in|out|both",        0,                                "for", NULL,                  command_pause },
	{ "RESUME",  1, 2, "queue in|out|both",        0,                                NULL, NULL,                   command_pause_resume },
	{ "LIST",    1, 1, LIST_WORDS,                 VERB_DOCUMENT | VERB_ANSWERS,        "sort order max offset match exchange destination to queue", NULL, command_list },
	{ "STATS",   0, 2, "exchange|queue|topic name",         VERB_DOCUMENT | VERB_ANSWERS,        NULL, NULL,                   command_stats },
	{ "RULES",   1, 3, RULES_WORDS,                VERB_DOCUMENT | VERB_ANSWERS | VERB_ANY_OPTIONS, "code share text", "exclusive",           command_rules },
	{ "SHARED",  1, 1, "list|get|set|delete|clear", VERB_DOCUMENT | VERB_ANSWERS,       "key value type ttl of prefix cursor", NULL, command_shared },
	{ "EXPLAIN", 2, 2, "exchange key",             VERB_DOCUMENT | VERB_ANSWERS | VERB_HEADERS, PUB_OPTIONS " payload", NULL, command_explain },
	{ "BEGIN",   0, 0, NULL,                       0,                                NULL, NULL,                   command_transaction_begin },
	{ "COMMIT",  0, 0, NULL,                       0,                                NULL, NULL,                   command_transaction_commit },
	{ "ROLLBACK", 0, 0, NULL,                      0,                                NULL, NULL,                   command_transaction_rollback },
	{ "LOCK",    1, 1, "name",                     VERB_ANSWERS,                     "wait ttl token", NULL,       command_lock_take },
	{ "UNLOCK",  2, 2, "name token",               0,                                NULL, NULL,                   command_lock_release },
	{ "CHECK",   2, 2, "name token",               0,                                NULL, NULL,                   command_lock_check },
	{ "KILL",    2, 2, "|connection number",       0,                                NULL, NULL,                   command_operate_kill },
	{ "DRAIN",   0, 1, "off",                      0,                                NULL, NULL,                   command_operate_drain },
	{ "TRACE",   1, 2, "exchange key",             0,                                "sample for max", "payload",  command_operate_trace },
	{ "USER",    1, 3, "add|passwd|delete|list|grant|revoke|set name vhost", VERB_DOCUMENT | VERB_ANSWERS, USER_OPTIONS, NULL, command_user },
	{ "HELP",    0, 0, NULL,                       VERB_DOCUMENT | VERB_ANSWERS | VERB_NO_LOGIN, NULL, NULL,                   command_help },
	{ "", 0, 0, NULL, 0, NULL, NULL, NULL },
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
	uint64_t first = bytes_load_eight(word), second = bytes_load_eight(word + 8);

	for (const struct verb *v = verbs; v->name[0]; v++)
		if (bytes_load_eight(v->name) == first &&
		    bytes_load_eight(v->name + 8) == second)
			return v;
	return NULL;
}

/* "<queue>"; a choice of words, as "exchange|queue", stands for itself, and so does a
 * choice of one, "|connection". */
static void add_name(struct buf *out, struct slice name)
{
	bool is_choice = memchr(name.data, '|', name.len) != NULL;

	if (name.data[0] == '|')
		name = slice_skip(name, 1);
	buf_printf(out, is_choice ? "%" SLICE_FMT : "<%" SLICE_FMT ">", SLICE_ARG(name));
}

void verb_list_words(const struct verb *v, unsigned from, unsigned to, struct buf *out)
{
	struct slice rest = slice_from(v->words), name;

	for (unsigned i = 0; i < to; i++) {
		name = i < v->min_words ? slice_cut(&rest, ' ') : SLICE("length");
		if (i < from)
			continue;
		if (i > from)
			buf_append_text(out, i == to - 1 ? " and " : ", ");
		add_name(out, name);
	}
}

static void add_optional(const char *words, const char *end, struct buf *out)
{
	struct slice rest = slice_from(words);

	while (rest.len > 0) {
		struct slice word = slice_cut(&rest, ' ');

		buf_printf(out, " [%" SLICE_FMT "%s]", SLICE_ARG(word), end);
	}
}

static void add_usage(const struct verb *v, struct buf *out)
{
	struct slice words = slice_from(v->words);

	buf_append_text(out, v->name);
	for (unsigned i = 0; i < v->min_words; i++) {
		buf_append_char(out, ' ');
		add_name(out, slice_cut(&words, ' '));
	}
	if (v->features & VERB_LIST)
		buf_append_text(out, "...");
	if (v->features & VERB_TAGS)
		buf_append_text(out, " <tag|first-last>...");
	if (v->features & VERB_IDS)
		buf_append_text(out, " <id>...");
	add_optional(words.data, "", out);
	add_optional(v->options, "=", out);
	add_optional(v->flags, "", out);
	if (v->features & VERB_ANY_OPTIONS)
		buf_append_text(out, " [option=value]...");
	if (v->features & VERB_HEADERS)
		buf_append_text(out, " [h:name=value]...");
	if (v->features & VERB_PAYLOAD)
		buf_append_text(out, " <length>, then a line with the payload");
	buf_append_text(out, "\r\n");
}

void verb_help(struct buf *out)
{
	for (const struct verb *v = verbs; v->name[0]; v++)
		add_usage(v, out);
	buf_append_text(out,
			"'-' stands for an empty word; single spaces separate words; "
			"the full text is docs/protocol.md\r\n");
}
