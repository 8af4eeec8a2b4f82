/* msg_match.h: which messages a request means, as its option `match=` says.
 *
 *   <text>            bytes of the payload, or of a header's value
 *   text:<text>       the same, for a text that begins like one of those below
 *   key:<pattern>     the routing key, as a topic pattern
 *   h:<name>          a header of this name
 *   h:<name>=<value>  a header with exactly this value
 *
 * A match takes time that is linear in the message, or (words of the pattern) x (words
 * of the key). */
#pragma once

#include "error.h"
#include "msg.h"

enum msg_match_kind { MSG_MATCH_ALL, MSG_MATCH_TEXT, MSG_MATCH_KEY, MSG_MATCH_HEADER };

struct msg_match {
	enum msg_match_kind kind;
	char *owned;
	struct slice text;  /* the text, the pattern, or the name */
	struct slice value; /* of a header; data == NULL: any */
};

/* Copies `option`; without one (data == NULL) all messages match. */
TIDE_MUST_USE int msg_match_init(struct msg_match *match, struct slice option,
				 struct error *err);
void msg_match_deinit(struct msg_match *match);
bool msg_match_has(const struct msg_match *match, const struct msg *m);
