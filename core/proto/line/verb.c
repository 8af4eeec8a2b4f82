#include "verb.h"

#include <string.h>

#include "base/bytes.h"

/* clang-format off */
#define PUB_OPTIONS "pri delay ttl id ack-timeout"

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
	{ "SUB",     2, 2, "queue sid",                0,                                "prefetch ack priority rank notify-lease ack-timeout group from partition", NULL, command_subscribe },
	{ "UNSUB",   1, 1, "sid",                      0,                                NULL, NULL,                   command_unsubscribe },
	{ "GET",     1, 1, "queue",                    VERB_ANSWERS | VERB_LIST,         "max wait ack id match ack-timeout group from partition offset", NULL, command_get },
	{ "NACK",    0, 0, NULL,                       VERB_TAGS | VERB_TRANSACTED,      "delay pri reason", "bury dead requeue", command_nack },
	{ "TOUCH",   0, 0, NULL,                       VERB_TAGS,                        "for", NULL,                  command_touch },
	{ "EXPLAIN", 2, 2, "exchange key",             VERB_DOCUMENT | VERB_ANSWERS | VERB_HEADERS, PUB_OPTIONS " payload", NULL, command_explain },
	{ "BEGIN",   0, 0, NULL,                       0,                                NULL, NULL,                   command_transaction_begin },
	{ "COMMIT",  0, 0, NULL,                       0,                                NULL, NULL,                   command_transaction_commit },
	{ "ROLLBACK", 0, 0, NULL,                      0,                                NULL, NULL,                   command_transaction_rollback },
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

unsigned verb_features(const struct operation *o)
{
	return (o->features & OPERATION_DOCUMENT ? VERB_DOCUMENT : 0u) |
	       (o->features & OPERATION_ANSWERS ? VERB_ANSWERS : 0u) |
	       (operation_parameter(o, PARAMETER_IDS) ? VERB_IDS : 0u) |
	       (operation_parameter(o, PARAMETER_OPTIONS) ? VERB_ANY_OPTIONS : 0u);
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
		struct slice name = slice_cut(&words, ' ');

		buf_printf(out, " <%" SLICE_FMT ">", SLICE_ARG(name));
	}
	if (v->features & VERB_LIST)
		buf_append_text(out, "...");
	if (v->features & VERB_TAGS)
		buf_append_text(out, " <tag|first-last>...");
	add_optional(words.data, "", out);
	add_optional(v->options, "=", out);
	add_optional(v->flags, "", out);
	if (v->features & VERB_HEADERS)
		buf_append_text(out, " [h:name=value]...");
	if (v->features & VERB_PAYLOAD)
		buf_append_text(out, " <length>, then a line with the payload");
	buf_append_text(out, "\r\n");
}

void verb_help(struct buf *out)
{
	const struct operation *o;

	for (const struct verb *v = verbs; v->name[0]; v++)
		add_usage(v, out);
	for (size_t i = 0; (o = operation_at(i)) != NULL; i++) {
		if (!o->line)
			continue;
		operation_write_usage(o, out);
		buf_append_text(out, "\r\n");
	}
	buf_append_text(out,
			"'-' stands for an empty word; single spaces separate words; "
			"the full text is docs/protocol.md\r\n");
}
