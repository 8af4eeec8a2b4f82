/* document.h: JSON as scripts see it: values of Lua, and views of a text read once.
 *
 * A state remembers the last payloads that its scripts looked into, by their bytes. All
 * scripts that decide about a message share what was read of it, whatever has become of
 * the message in between. A view is a read-only table at all depths, good for the call in
 * which it is made.
 *
 * All functions that take a lua_State may raise. */
#pragma once

#include <lua.h>

#include "base/json.h"
#include "base/slice.h"

#define DOCUMENT_BYTES_MAX ((size_t)1 << 20)
#define DOCUMENT_DEPTH_MAX 32
/* Different ones that a call may look into. */
#define DOCUMENTS_MAX 8
/* Beside one that is larger, no others are kept. */
#define DOCUMENT_SMALL_BYTES ((size_t)64 << 10)
/* Documents kept between calls are beside the memory of the state. Of more than this,
 * only the text that was read last stays, for the scripts that come next. */
#define DOCUMENTS_KEPT_BYTES ((size_t)1 << 20)

struct documents {
	struct document {
		struct buf source; /* its own copy, with a zero behind it */
		struct json_tape tape;
		bool is_front;      /* the text of a payload that is longer */
		struct error wrong; /* why it is not read whole; code 0: it is */
		uint64_t used;      /* the serial of the last call that looked into it */
		uint64_t order;
	} items[DOCUMENTS_MAX];
	uint64_t order;
	/* For the call under way: what tide.json.decode reads, what .encode writes,
	 * and the names of the tables that it is in. */
	struct json_tape tape;
	struct buf out;
	struct document_name {
		struct slice name;
		uint32_t node; /* of a view, else 0 */
	} * names;
	size_t name_count, name_cap;
	size_t held_bytes; /* by all of these, as document_measure has found */
};

void document_deinit(struct documents *d);
/* After a call that has left more than DOCUMENTS_KEPT_BYTES. */
void document_trim(struct documents *d);

/* Make views known to a state, whose script_state has `documents`. */
void document_open(lua_State *L);

/* Push what the text says; nil, when it is null, or no JSON. What is unreadable in it is
 * nil; of more than DOCUMENT_BYTES_MAX only the front is read.
 * @param unread  receives why it is not read whole, unless it has an error; may be NULL
 */
void document_push(lua_State *L, struct slice text, struct error *unread);
/* Push why it is not read whole; nil when it is. */
void document_push_error(lua_State *L, struct slice text);

/* Add the table `json` to the one on the top. May raise, as do all. */
void document_add_json(lua_State *L);
/* The value at `idx` as JSON of up to DOCUMENT_BYTES_MAX, good until the next call of a
 * function of tide.json. */
struct slice document_json_text(lua_State *L, int idx);
