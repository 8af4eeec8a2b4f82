#include "event.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/msg.h"
#include "broker.h"
#include "exchange.h"

static const struct {
	const char *key, *fields, *when;
} kinds[EVENT_KINDS] = {
#define KIND_ROW(name, key, fields, when) { key, fields, when },
	EVENTS(KIND_ROW)
#undef KIND_ROW
};

void events_init(struct events *e)
{
	STAILQ_INIT(&e->waiting);
}

void events_deinit(struct events *e)
{
	struct event_message *one;

	while ((one = STAILQ_FIRST(&e->waiting)) != NULL) {
		STAILQ_REMOVE_HEAD(&e->waiting, link);
		msg_unref(one->msg);
		mem_free(one);
	}
}

bool event_is_wanted(const struct broker *b)
{
	const struct exchange *x = b->events.exchange;

	return x && x->binding_count > 0 && b->is_started && !b->is_draining &&
	       !b->refuses_publishes;
}

struct slice event_number(uint64_t n, char room[EVENT_NUMBER_MAX])
{
	snprintf(room, EVENT_NUMBER_MAX, "%" PRIu64, n);
	return slice_from(room);
}

static void write_field(struct json *j, struct slice name, struct slice value,
			bool is_number)
{
	json_key_slice(j, name);
	if (is_number)
		json_written(j, value);
	else
		json_slice(j, value);
}

/* NULL: out of memory. */
static struct msg *make(const struct broker *b, enum event_name kind,
			const struct slice *values)
{
	struct slice rest = slice_from(kinds[kind].fields), name;
	struct msg_header headers[EVENT_FIELDS_MAX];
	struct msg spec = { .ts_unix_ms = b->now_ms,
			    .exchange = SLICE(EVENT_EXCHANGE),
			    .key = slice_from(kinds[kind].key),
			    .headers = headers };
	struct buf body = { 0 };
	struct json j = { .out = &body };
	struct msg *m;

	json_object_begin(&j);
	json_member_string(&j, "event", spec.key);
	json_member_int(&j, "time_ms", b->now_ms);
	for (unsigned i = 0; rest.len > 0; i++) {
		bool is_number = rest.data[0] == '#';

		name = slice_cut(&rest, ' ');
		if (values[i].len == 0)
			continue;
		name = slice_skip(name, is_number);
		write_field(&j, name, values[i], is_number);
		headers[spec.header_count++] = (struct msg_header){ name, values[i] };
	}
	json_object_end(&j);
	spec.payload = buf_cstr(&body);
	spec.payload_len = buf_len(&body);
	m = msg_create(&spec);
	buf_deinit(&body);
	return m;
}

void event_tell(struct broker *b, enum event_name kind, const struct slice *values)
{
	struct events *e = &b->events;
	struct event_message *one;
	struct msg *m;

	if (!event_is_wanted(b))
		return;
	m = e->count < EVENTS_MAX ? make(b, kind, values) : NULL;
	if (!m) {
		e->lost++;
		return;
	}
	one = mem_alloc(sizeof(*one));
	one->msg = m;
	one->is_alarm = kind == EVENT_ALARM_BEGAN || kind == EVENT_ALARM_ENDED;
	e->count++;
	STAILQ_INSERT_TAIL(&e->waiting, one, link);
}

void event_document(struct buf *out)
{
	buf_append_text(out, "| key | fields | when |\n| --- | --- | --- |\n");
	for (unsigned i = 0; i < EVENT_KINDS; i++) {
		struct slice rest = slice_from(kinds[i].fields);
		const char *before = "";

		buf_printf(out, "| `%s` | ", kinds[i].key);
		for (; rest.len > 0; before = " ") {
			struct slice name = slice_cut(&rest, ' ');

			buf_printf(out, "%s`%" SLICE_FMT "`", before,
				   SLICE_ARG(slice_skip(name, name.data[0] == '#')));
		}
		buf_printf(out, " | %s |\n", kinds[i].when);
	}
}
