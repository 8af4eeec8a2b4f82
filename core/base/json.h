/* json.h: a JSON writer into a buf; commas and quoting are its job.
 *
 * Calls nest as the document does. Bytes that are not UTF-8 become U+FFFD, so
 * that what comes out is always valid JSON. */
#ifndef TIDE_BASE_JSON_H
#define TIDE_BASE_JSON_H

#include "buf.h"

/* libjansson, which the command line reads JSON with, has functions of these
 * two names: without symbols of their own, each would be called for the other.
 * A file cannot include both headers. */
#define JSON_SYMBOL(name) __asm__("tide_" #name)

struct json {
	struct buf *out;
	bool need_comma;
};

void json_init(struct json *j, struct buf *out);
void json_object_begin(struct json *j);
void json_object_end(struct json *j);
void json_array_begin(struct json *j);
void json_array_end(struct json *j);
void json_key(struct json *j, const char *key);
void json_key_slice(struct json *j, struct slice key);
void json_string(struct json *j, struct slice s) JSON_SYMBOL(json_string);
void json_text(struct json *j, const char *text);
void json_int(struct json *j, int64_t n);
void json_uint(struct json *j, uint64_t n);
void json_number(struct json *j, double n);
void json_bool(struct json *j, bool b);
void json_null(struct json *j) JSON_SYMBOL(json_null);

/* A member of an object in one call. */
void json_member_string(struct json *j, const char *key, struct slice s);
void json_member_text(struct json *j, const char *key, const char *text);
void json_member_int(struct json *j, const char *key, int64_t n);
void json_member_bool(struct json *j, const char *key, bool b);

#endif
