/* cli_definition.h: what LIST says of exchanges, queues, topics and bindings, as the
 * requests that would make them. */
#pragma once

#include <jansson.h>

#include "base/buf.h"

#define CLI_DEFINITION_KINDS 4 /* in the order in which they can be made */

/* The kind of that number, as LIST names it: "exchanges". */
const char *cli_definition_member(size_t kind);
/* Append the line that declares an item of LIST, as it was declared: policies own the
 * options that they make. */
void cli_definition_append(struct buf *lines, size_t kind, const json_t *item);
