/* json.h: a JSON writer into a buf; commas and quoting are its job.
 *
 * Calls nest as the document does. Bytes that are not UTF-8 become U+FFFD, so
 * that what comes out is always valid JSON. */
#pragma once

#include "buf.h"

/* struct json j = { .out = &buf }; */
struct json {
	struct buf *out;
	bool need_comma;
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
