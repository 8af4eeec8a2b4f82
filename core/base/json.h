/* json.h: a JSON writer into a buf; commas and quoting are its job.
 *
 * Calls nest as the document does. Bytes that are not UTF-8 become U+FFFD, so
 * that what comes out is always valid JSON. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "buf.h"

/* struct json j = { .out = &buf }; */
struct json {
	struct buf *out;
	bool need_comma;
};

enum json_tape_kind {
	JSON_TAPE_NULL,
	JSON_TAPE_FALSE,
	JSON_TAPE_TRUE,
	JSON_TAPE_INTEGER,
	JSON_TAPE_NUMBER,
	JSON_TAPE_TEXT, /* a name too */
	JSON_TAPE_ARRAY,
	JSON_TAPE_OBJECT,
	JSON_TAPE_UNREADABLE, /* with an `end`, as a container */
	JSON_TAPE_CURSOR,     /* behind each array: where json_tape_element was last */
};

struct json_node {
	uint32_t kind;
	uint32_t len; /* bytes; elements; members. Of a cursor: the element, from 1 */
	union {
		int64_t integer;
		double number;
		const char *text; /* in the source, or in the tape's `texts` */
		uint32_t end;     /* of a container: the node behind it */
		uint32_t at;      /* of a cursor: the element's node */
	};
};

/* Zeroed memory is an empty tape. */
struct json_tape {
	struct json_node *nodes; /* the first is the document */
	uint32_t count, cap;
	struct buf texts; /* those that had escapes */
	uint32_t *names;  /* of the object under way: a hash table */
	size_t name_cap;
};

void json_object_begin(struct json *j);
void json_object_end(struct json *j);
void json_array_begin(struct json *j);
void json_array_end(struct json *j);
void json_key(struct json *j, const char *key);
void json_key_slice(struct json *j, struct slice key);
void json_slice(struct json *j, struct slice s);
void json_text(struct json *j, const char *text);
void json_int(struct json *j, int64_t n);
void json_uint(struct json *j, uint64_t n);
void json_number(struct json *j, double n);
void json_nil(struct json *j);
/* A value that is written already. */
void json_written(struct json *j, struct slice value);

/* A member of an object in one call; the first two only begin one. */
void json_member_object(struct json *j, const char *key);
void json_member_array(struct json *j, const char *key);
/* An array whose elements, with their commas, are written already. */
void json_member_list(struct json *j, const char *key, struct slice elements);
void json_member_string(struct json *j, const char *key, struct slice s);
void json_member_text(struct json *j, const char *key, const char *text);
void json_member_int(struct json *j, const char *key, int64_t n);
void json_member_number(struct json *j, const char *key, double n);
/* 16 hexadecimal digits: an id or a hash. */
void json_member_hex(struct json *j, const char *key, uint64_t n);
void json_member_bool(struct json *j, const char *key, bool b);

void json_tape_deinit(struct json_tape *t);

/* Read a text that has a zero behind it, and that outlives what is read of it.
 * TIDE_ESYNTAX: a sentence with the byte, and nothing of the text, which may be a secret.
 * If the text is JSON with unreadable values, the tape has the others all the same, and
 * the sentence is about the first of them; else it is empty. TIDE_ELIMIT: the same for a
 * value deeper than `depth_max` containers; or the text is too long, or out of memory. */
TIDE_MUST_USE int json_tape_read(struct json_tape *t, struct slice source,
				 unsigned depth_max, struct error *err);
/* The same for the front of a longer text, which has a zero behind it too. An object that
 * goes on behind the front has the members that end in it; an array is left out. The tape
 * is empty if the front is not that of an object, or of no JSON. */
void json_tape_read_front(struct json_tape *t, struct slice source, unsigned depth_max);

static inline struct slice json_tape_text(const struct json_node *n)
{
	return (struct slice){ n->text, n->len };
}

/* The node behind the value at `i`. */
static inline uint32_t json_tape_behind(const struct json_tape *t, uint32_t i)
{
	return t->nodes[i].kind >= JSON_TAPE_ARRAY ? t->nodes[i].end : i + 1;
}

/* The first element of the array, or the first name of the object, if it has any. */
static inline uint32_t json_tape_first(const struct json_tape *t, uint32_t i)
{
	return t->nodes[i].kind == JSON_TAPE_ARRAY ? i + 2 : i + 1;
}

/* The value of that name in the object at `i`; 0: it has none. */
uint32_t json_tape_member(const struct json_tape *t, uint32_t i, struct slice name);
/* The n-th element, from 1, of the array at `i`; 0: it has none. Quick for the same and
 * the next elements. */
uint32_t json_tape_element(struct json_tape *t, uint32_t i, uint64_t n);
