#include "changes.h"

#include <stdio.h>

/* False when it is counted only. */
static bool begin(struct changes *c, const char *field)
{
	c->count++;
	if (!c->out)
		return false;
	json_object_begin(c->out);
	if (c->copy > 0)
		json_member_int(c->out, "copy", c->copy);
	json_member_text(c->out, "field", field);
	return true;
}

static void add_text(struct changes *c, const char *field, struct slice one,
		     struct slice other)
{
	if (slice_is_equal(one, other) || !begin(c, field))
		return;
	json_member_string(c->out, c->one, one);
	json_member_string(c->out, c->other, other);
	json_object_end(c->out);
}

void changes_add_int(struct changes *c, const char *field, int64_t one, int64_t other)
{
	if (one == other || !begin(c, field))
		return;
	json_member_int(c->out, c->one, one);
	json_member_int(c->out, c->other, other);
	json_object_end(c->out);
}

static void add_value(struct json *out, const char *key, struct slice value)
{
	json_key(out, key);
	if (value.data)
		json_slice(out, value);
	else
		json_nil(out);
}

static void add_header(struct changes *c, struct slice name, struct slice one,
		       struct slice other)
{
	if (!begin(c, "header"))
		return;
	json_member_string(c->out, "name", name);
	add_value(c->out, c->one, one);
	add_value(c->out, c->other, other);
	json_object_end(c->out);
}

void changes_add_headers(struct changes *c, const struct msg *one,
			 const struct msg *other)
{
	for (unsigned i = 0; i < one->header_count; i++) {
		const struct msg_header *h = &one->headers[i];
		struct slice value = msg_header(other, h->name);

		if (!value.data || !slice_is_equal(value, h->value))
			add_header(c, h->name, h->value, value);
	}
	for (unsigned i = 0; i < other->header_count; i++) {
		const struct msg_header *h = &other->headers[i];

		if (!msg_header(one, h->name).data)
			add_header(c, h->name, (struct slice){ NULL, 0 }, h->value);
	}
}

static void add_bytes(struct changes *c, const char *key, const struct msg *m)
{
	char text[32];

	snprintf(text, sizeof(text), "%s_bytes", key);
	json_member_int(c->out, text, (int64_t)m->payload_len);
}

static struct slice payload_of(const struct msg *m)
{
	return (struct slice){ m->payload, m->payload_len };
}

static void add_payload(struct changes *c, const struct msg *one, const struct msg *other)
{
	if (slice_is_equal(payload_of(one), payload_of(other)) || !begin(c, "payload"))
		return;
	add_bytes(c, c->one, one);
	add_bytes(c, c->other, other);
	json_object_end(c->out);
}

void changes_add(struct changes *c, const struct msg *one, const struct msg *other)
{
	if (one == other)
		return;
	add_text(c, "exchange", msg_exchange_word(one), msg_exchange_word(other));
	add_text(c, "key", one->key, other->key);
	add_text(c, "dedupe_id", msg_dedupe_id(one), msg_dedupe_id(other));
	changes_add_int(c, "priority", one->priority, other->priority);
	changes_add_int(c, "due", one->due_unix_ms, other->due_unix_ms);
	changes_add_int(c, "expires", one->expires_unix_ms, other->expires_unix_ms);
	changes_add_headers(c, one, other);
	add_payload(c, one, other);
}
