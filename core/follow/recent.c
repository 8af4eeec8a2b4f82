#include "recent.h"

#include "base/container.h"
#include "base/mem.h"
#include "broker/decide.h"
#include "broker/vhost.h"

struct recent {
	struct follower follower;
	struct recent_record ring[RECENT_MAX];
	size_t first, count;
	size_t bytes;
	uint64_t last_number;
	size_t whole_bytes;
	bool has_payloads;
};

struct recent *recent_create(bool with_payloads)
{
	struct recent *r = mem_zalloc(sizeof(*r));

	r->has_payloads = with_payloads;
	r->whole_bytes =
		with_payloads ? RECENT_WHOLE_BYTES_WITH_PAYLOADS : RECENT_WHOLE_BYTES;
	return r;
}

static void drop_first(struct recent *r)
{
	struct recent_record *record = &r->ring[r->first];

	r->bytes -= record->msg->bytes;
	msg_unref(record->msg);
	vhost_unref(record->vhost);
	if (record->error) {
		r->bytes -= strlen(record->error);
		mem_free(record->error);
		record->error = NULL;
	}
	r->first = (r->first + 1) % RECENT_MAX;
	r->count--;
}

void recent_destroy(struct recent *r)
{
	if (!r)
		return;
	while (r->count > 0)
		drop_first(r);
	mem_free(r);
}

static struct msg *strip(const struct msg *m)
{
	struct msg like = *m;

	like.payload = NULL;
	like.payload_len = 0;
	like.pool = NULL;
	return msg_create(&like);
}

static void add_publish(struct follower *f, struct step *p)
{
	struct recent *r = container_of(f, struct recent, follower);
	struct msg *m = p->spec->msg;
	struct msg *kept = m->bytes <= r->whole_bytes ? msg_ref(m) : strip(m);
	struct recent_record *record;

	/* Without memory for a copy the message itself has to do. */
	if (!kept)
		kept = msg_ref(m);
	if (r->count == RECENT_MAX)
		drop_first(r);
	while (r->count > 0 && r->bytes + kept->bytes > RECENT_BYTES)
		drop_first(r);
	record = &r->ring[(r->first + r->count++) % RECENT_MAX];
	record->msg = kept;
	record->vhost = vhost_ref(p->spec->vhost);
	record->number = ++r->last_number;
	record->size = m->payload_len;
	record->random_state = p->random_state;
	r->bytes += kept->bytes;
	if (p->error) {
		record->error = mem_strdup(p->error->text);
		r->bytes += strlen(record->error);
	}
	verdict_set(&record->verdict, p->decision, p->error ? p->error->code : TIDE_OK);
}

void recent_watch(struct recent *r, struct broker *b)
{
	r->follower = (struct follower){ .tell = add_publish,
					 .steps = STEP_BIT(STEP_DECIDED),
					 .role = FOLLOWER_RECENT };
	step_follow(&b->followers, &r->follower);
}

size_t recent_count(const struct recent *r)
{
	return r->count;
}

size_t recent_bytes(const struct recent *r)
{
	return r->bytes;
}

const struct recent_record *recent_get(const struct recent *r, size_t i)
{
	return &r->ring[(r->first + i) % RECENT_MAX];
}

struct recent_record *recent_copy(const struct recent *r, size_t *count)
{
	struct recent_record *copy = mem_alloc((r->count + 1) * sizeof(*copy));

	*count = 0;
	for (size_t i = 0; i < r->count; i++) {
		struct recent_record *to = &copy[*count];

		*to = *recent_get(r, i);
		to->msg = r->has_payloads || to->msg->payload_len == 0 ? msg_ref(to->msg)
								       : strip(to->msg);
		if (!to->msg)
			continue;
		vhost_ref(to->vhost);
		to->error = to->error ? mem_strdup(to->error) : NULL;
		++*count;
	}
	return copy;
}

void recent_free(struct recent_record *copy_take, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		msg_unref(copy_take[i].msg);
		vhost_unref(copy_take[i].vhost);
		mem_free(copy_take[i].error);
	}
	mem_free(copy_take);
}

bool recent_is_shown(const struct vhost *v, const struct vhost *viewer)
{
	return viewer && slice_is_equal(vhost_slice(v), vhost_slice(viewer));
}

static void write_content(const struct msg *m, struct json *out)
{
	json_member_string(out, "key", m->key);
	if (m->dedupe_len)
		json_member_string(out, "dedupe_id", msg_dedupe_id(m));
	if (m->user_len)
		json_member_string(out, "user", msg_user(m));
	msg_write_headers(m, out);
}

void recent_write_publish(const struct vhost *v, const struct msg *m, size_t size,
			  const struct vhost *viewer, struct json *out)
{
	json_member_hex(out, "id", m->id);
	json_member_int(out, "published_ms", m->ts_unix_ms);
	json_member_string(out, "vhost", vhost_slice(v));
	json_member_string(out, "exchange", msg_exchange_word(m));
	json_member_int(out, "priority", m->priority);
	if (m->due_unix_ms)
		json_member_int(out, "due_ms", m->due_unix_ms);
	json_member_int(out, "size", (int64_t)size);
	if (recent_is_shown(v, viewer))
		write_content(m, out);
}

void recent_write(const struct recent *r, const struct vhost *viewer, size_t max,
		  struct json *out)
{
	json_array_begin(out);
	for (size_t i = r->count; i > 0 && max > 0; i--) {
		const struct recent_record *record = recent_get(r, i - 1);
		const struct msg *m = record->msg;

		if (!recent_is_shown(record->vhost, viewer))
			continue;
		max--;
		json_object_begin(out);
		json_member_int(out, "number", (int64_t)record->number);
		recent_write_publish(record->vhost, m, record->size, viewer, out);
		if (r->has_payloads && m->payload_len == record->size)
			json_member_string(out, "payload",
					   (struct slice){ m->payload, m->payload_len });
		json_key(out, "decision");
		verdict_write(&record->verdict, viewer->broker, record->error, out);
		json_object_end(out);
	}
	json_array_end(out);
}
