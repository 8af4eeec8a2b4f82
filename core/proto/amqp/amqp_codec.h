/* amqp_codec.h: AMQP 0-9-1 as bytes: methods, field tables, and the properties of a
 * message. All of it goes by the tables of amqp_methods.h; there is no I/O.
 *
 * Slices point into what is read. */
#pragma once

#include <stdbool.h>

#include "amqp_methods.h"
#include "base/buf.h"

#define X(name, text, class_id, method_id, has_content, fields) name,
enum amqp_method { AMQP_METHODS(X) AMQP_METHOD_COUNT };
#undef X
#define X(name, text, letter) name,
enum amqp_property { AMQP_PROPERTIES(X) AMQP_PROPERTY_COUNT };
#undef X
#define X(name, text, number, is_hard) name = (number),
enum amqp_code { AMQP_CODES(X) AMQP_NO_ROUTE = 312 };
#undef X

#define AMQP_FIELDS_MAX 9
#define AMQP_CLASS_BASIC 60

/* By the letter of the field: n of b, o, s, l, q; s of S, L, T. */
struct amqp_value {
	uint64_t n;
	struct slice s;
};

struct amqp_method_row {
	const char *name; /* "basic.publish" */
	uint16_t class_id, method_id;
	bool has_content;
	const char *fields;
};

const struct amqp_method_row *amqp_codec_method(enum amqp_method method);
/* AMQP_METHOD_COUNT: there is none. */
enum amqp_method amqp_codec_find_method(unsigned class_id, unsigned method_id);
/* "NOT_FOUND" */
const char *amqp_codec_code_name(enum amqp_code code);
/* Does the error end the connection, or a channel? */
bool amqp_codec_code_is_hard(enum amqp_code code);

/* The fields of a method, all of `bytes`. Tables are checked. False: they are not. */
TIDE_MUST_USE bool amqp_codec_read(const char *fields, struct slice bytes,
				   struct amqp_value *out);
/* How many bytes the method and its fields have at most. */
size_t amqp_codec_size(enum amqp_method method, const struct amqp_value *values);
/* Put them there; gives the place behind them. A short text is cut at 255 bytes. */
char *amqp_codec_put(char *at, enum amqp_method method, const struct amqp_value *values);

static inline char *amqp_put_number(char *at, uint64_t n, unsigned bytes)
{
	for (unsigned i = bytes; i-- > 0;)
		*at++ = (char)(n >> (8 * i));
	return at;
}

static inline uint64_t amqp_get_number(const char *at, unsigned bytes)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < bytes; i++)
		n = n << 8 | (uint8_t)at[i];
	return n;
}

/* ---- field tables ------------------------------------------------------------------ */

/* An item of a table. `bytes` are those of the value, behind the letter of its type. */
struct amqp_field {
	struct slice name;
	char type;
	struct slice bytes;
};

/* The next item of a table without its length. False: it ends. */
bool amqp_field_next(struct slice *rest, struct amqp_field *out);
/* The next item of an array without its length; its name is not set. */
bool amqp_field_next_item(struct slice *rest, struct amqp_field *out);
/* Is all of it well formed, and not too deep? */
bool amqp_field_is_table(struct slice table);
/* The item of that name; false: there is none. */
bool amqp_field_find(struct slice table, const char *name, struct amqp_field *out);

#define AMQP_TEXT_MAX 40
/* The value as a text: of a number its digits, of a boolean true or false. False: it has
 * none (a table, an array, nothing). */
bool amqp_field_text(const struct amqp_field *f, char room[AMQP_TEXT_MAX],
		     struct slice *out);
/* A boolean; false also where it is none. */
bool amqp_field_is_true(const struct amqp_field *f);

/* Append items of a table, whose length is put before them later. */
void amqp_field_add(struct buf *out, struct slice name, char type, struct slice bytes);
void amqp_field_add_text(struct buf *out, struct slice name, struct slice text);
void amqp_field_add_number(struct buf *out, struct slice name, char type, uint64_t n);

/* ---- properties -------------------------------------------------------------------- */

struct amqp_properties {
	uint16_t flags; /* 0x8000 >> enum amqp_property: it is there */
	struct amqp_value values[AMQP_PROPERTY_COUNT];
};

/* "content-type" */
const char *amqp_properties_name(enum amqp_property p);
char amqp_properties_letter(enum amqp_property p);
static inline bool amqp_properties_has(const struct amqp_properties *p,
				       enum amqp_property which)
{
	return p->flags & 0x8000u >> which;
}
/* From their flags on. False: these are none. */
TIDE_MUST_USE bool amqp_properties_read(struct slice bytes, struct amqp_properties *out);
void amqp_properties_write(const struct amqp_properties *p, struct buf *out);
