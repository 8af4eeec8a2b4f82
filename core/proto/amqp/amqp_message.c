#include "amqp_message.h"

#include "base/decimal.h"

#define DEATH(last) SLICE(MSG_DEATH_PREFIX last)

/* ---- from properties to headers ---------------------------------------------------- */

static const struct msg_header *find_header(const struct msg_header *headers,
					    unsigned count, struct slice name)
{
	for (unsigned i = 0; i < count; i++)
		if (slice_is_equal(headers[i].name, name))
			return &headers[i];
	return NULL;
}

/* The property is a header of its name. The others are fields of the message, or say
 * nothing here. */
static bool is_header(enum amqp_property p)
{
	return p != AMQP_P_HEADERS && p != AMQP_P_DELIVERY_MODE && p != AMQP_P_PRIORITY &&
	       p != AMQP_P_EXPIRATION && p != AMQP_P_RESERVED;
}

struct adding {
	struct amqp_message *out;
	size_t bytes;
};

/* One place is kept for the bytes as they came. */
static bool has_room(const struct adding *a, struct slice name, struct slice value)
{
	return a->out->count < MSG_HEADERS_MAX - 1 &&
	       name.len + value.len <= AMQP_HEADERS_BYTES_MAX - a->bytes;
}

static void add(struct adding *a, struct slice name, struct slice value)
{
	if (!msg_is_header_name(name) || msg_header_is_death(name) ||
	    msg_header_is_hidden(name) || !has_room(a, name, value) ||
	    find_header(a->out->items, a->out->count, name))
		return;
	a->bytes += name.len + value.len;
	a->out->items[a->out->count++] = (struct msg_header){ name, value };
}

static char *room_of(const struct adding *a)
{
	return a->out->room + (size_t)a->out->count * AMQP_TEXT_MAX;
}

static void add_property(struct adding *a, const struct amqp_properties *p,
			 enum amqp_property which)
{
	const struct amqp_value *v = &p->values[which];
	struct slice text = v->s;

	if (!is_header(which) || !amqp_properties_has(p, which))
		return;
	if (amqp_properties_letter(which) != 'S') {
		text.data = room_of(a);
		text.len = (size_t)(decimal_put(room_of(a), v->n) - text.data);
	}
	add(a, slice_from(amqp_properties_name(which)), text);
}

static void read_headers(struct amqp_message *out, const struct amqp_properties *p)
{
	struct adding a = { .out = out };
	struct slice rest = p->values[AMQP_P_HEADERS].s, text;
	struct amqp_field f;

	out->count = 0;
	for (int i = 0; i < AMQP_PROPERTY_COUNT; i++)
		add_property(&a, p, (enum amqp_property)i);
	while (out->count < MSG_HEADERS_MAX - 1 && amqp_field_next(&rest, &f))
		if (amqp_field_text(&f, room_of(&a), &text))
			add(&a, f.name, text);
}

void amqp_message_read(struct amqp_message *out, const struct amqp_properties *p,
		       struct slice bytes)
{
	read_headers(out, p);
	out->items[out->count++] = (struct msg_header){ MSG_AMQP_HEADER, bytes };
}

/* ---- the history of a dead letter -------------------------------------------------- */

static struct slice their_reason(struct slice ours)
{
	if (slice_is(ours, "expired") || slice_is(ours, "maxlen") ||
	    slice_is(ours, "rejected"))
		return ours;
	return SLICE("delivery_limit");
}

static struct slice their_exchange(struct slice ours)
{
	return slice_is(ours, "-") ? SLICE("") : ours;
}

static void add_array_of_one(struct buf *out, struct slice name, struct slice text)
{
	struct buf bytes = { 0 };
	char *at = buf_reserve(&bytes, 9 + text.len);

	at = amqp_put_number(at, 5 + text.len, 4);
	*at++ = 'S';
	at = amqp_put_number(at, text.len, 4);
	buf_grow(&bytes, 9);
	buf_append_slice(&bytes, text);
	amqp_field_add(out, name, 'A', buf_slice(&bytes));
	buf_deinit(&bytes);
}

/* An item of the array: a table behind the letter of its type. */
static void add_death(struct buf *out, const struct msg *m, struct slice pair, uint64_t n,
		      bool is_last)
{
	struct slice queue = pair, reason = slice_cut(&queue, ':'), time;
	struct buf item = { 0 };
	uint64_t ms = 0;
	char len[4];

	time = msg_header(m, is_last ? DEATH("time") : DEATH("first-time"));
	if (!time.data || !slice_to_uint(time, INT64_MAX, &ms))
		ms = 0;
	amqp_field_add_number(&item, SLICE("count"), 'l', n);
	amqp_field_add_text(&item, SLICE("reason"), their_reason(reason));
	amqp_field_add_text(&item, SLICE("queue"), queue);
	amqp_field_add_number(&item, SLICE("time"), 'T', ms / 1000);
	amqp_field_add_text(
		&item, SLICE("exchange"),
		their_exchange(msg_header(m, is_last ? DEATH("exchange")
						     : DEATH("first-exchange"))));
	add_array_of_one(&item, SLICE("routing-keys"),
			 msg_header(m, is_last ? DEATH("key") : DEATH("first-key")));
	amqp_put_number(len, buf_len(&item), 4);
	buf_append_char(out, 'F');
	buf_append(out, len, 4);
	buf_append_slice(out, buf_slice(&item));
	buf_deinit(&item);
}

static bool is_last_death(const struct msg *m, struct slice pair)
{
	struct slice queue = pair, reason = slice_cut(&queue, ':');

	return slice_is_equal(reason, msg_header(m, DEATH("reason"))) &&
	       slice_is_equal(queue, msg_header(m, DEATH("queue")));
}

/* The pairs of reason and queue: at first the last one, then the others. */
static void add_deaths(struct buf *items, const struct msg *m, bool is_last)
{
	struct slice rest = msg_header(m, DEATH("counts"));
	uint64_t n;

	while (rest.len > 0) {
		struct slice pair = slice_cut(&rest, ' ');
		struct slice number = slice_cut(&pair, ':');

		if (slice_to_uint(number, INT64_MAX, &n) &&
		    is_last_death(m, pair) == is_last)
			add_death(items, m, pair, n, is_last);
	}
}

static bool has_died(const struct msg *head)
{
	return msg_header(head, DEATH("counts")).data != NULL;
}

static void add_history(struct buf *table, const struct msg *m)
{
	static const struct {
		const char *theirs, *ours;
	} facts[] = {
		{ "x-first-death-exchange", MSG_DEATH_PREFIX "first-exchange" },
		{ "x-first-death-queue", MSG_DEATH_PREFIX "first-queue" },
		{ "x-first-death-reason", MSG_DEATH_PREFIX "first-reason" },
		{ "x-last-death-exchange", MSG_DEATH_PREFIX "exchange" },
		{ "x-last-death-queue", MSG_DEATH_PREFIX "queue" },
		{ "x-last-death-reason", MSG_DEATH_PREFIX "reason" },
	};
	struct buf items = { 0 };
	char len[4];

	if (!has_died(m))
		return;
	add_deaths(&items, m, true);
	add_deaths(&items, m, false);
	amqp_put_number(len, buf_len(&items), 4);
	amqp_field_add(table, SLICE("x-death"), 'A', (struct slice){ len, 4 });
	buf_append_slice(table, buf_slice(&items));
	buf_deinit(&items);
	for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]); i++) {
		struct slice value = msg_header(m, slice_from(facts[i].ours));

		if (!value.data)
			continue;
		if (i % 3 == 0)
			value = their_exchange(value);
		if (i % 3 == 2)
			value = their_reason(value);
		amqp_field_add_text(table, slice_from(facts[i].theirs), value);
	}
}

/* A field that this delivery has anew. A client may publish a dead letter again as it
 * was: then its old history is a header like others, until it dies. */
static bool is_history(struct slice name, const struct msg *head, uint32_t failures)
{
	if (slice_is(name, "x-delivery-count"))
		return failures > 0;
	return has_died(head) &&
	       (slice_is(name, "x-death") || msg_header_is_death(name) ||
		slice_has_prefix(name, "x-first-death-") ||
		slice_has_prefix(name, "x-last-death-"));
}

/* ---- from headers to properties ---------------------------------------------------- */

/* The headers of the delivery are those that the properties gave. */
static bool is_unchanged(const struct amqp_message *was, const struct msg *head)
{
	unsigned at = 0;

	for (unsigned i = 0; i < head->header_count; i++) {
		const struct msg_header *h = &head->headers[i];

		if (msg_header_is_hidden(h->name))
			continue;
		if (at == was->count || !slice_is_equal(h->name, was->items[at].name) ||
		    !slice_is_equal(h->value, was->items[at].value))
			return false;
		at++;
	}
	return at == was->count;
}

static void set_property(struct amqp_properties *p, enum amqp_property which,
			 struct slice text)
{
	struct amqp_value *v = &p->values[which];
	bool is_text = amqp_properties_letter(which) == 'S';

	p->flags &= (uint16_t) ~(0x8000u >> which);
	if (!text.data ||
	    (is_text ? text.len > 255 : !slice_to_uint(text, UINT64_MAX, &v->n)))
		return;
	/* STOMP says so what AMQP has the name of a queue for. */
	if (which == AMQP_P_REPLY_TO && slice_has_prefix(text, "/reply-queue/"))
		text = slice_skip(text, strlen("/reply-queue/"));
	v->s = text;
	p->flags |= (uint16_t)(0x8000u >> which);
}

static void set_properties(struct amqp_properties *p, const struct msg *head)
{
	for (int i = 0; i < AMQP_PROPERTY_COUNT; i++) {
		enum amqp_property which = (enum amqp_property)i;

		if (is_header(which))
			set_property(p, which,
				     msg_header(head,
						slice_from(amqp_properties_name(which))));
	}
}

static bool is_property(const struct amqp_properties *p, struct slice name)
{
	for (int i = 0; i < AMQP_PROPERTY_COUNT; i++)
		if (is_header((enum amqp_property)i) &&
		    amqp_properties_has(p, (enum amqp_property)i) &&
		    slice_is(name, amqp_properties_name((enum amqp_property)i)))
			return true;
	return false;
}

/* What the table had, as far as it is still so. */
static void keep_fields(struct buf *table, struct slice rest,
			const struct amqp_message *was, const struct msg *head,
			uint32_t failures)
{
	struct amqp_field f;

	while (amqp_field_next(&rest, &f)) {
		const struct msg_header *before =
			find_header(was->items, was->count, f.name);
		struct slice now = msg_header(head, f.name);

		if (is_history(f.name, head, failures))
			continue;
		if (!before || (now.data && slice_is_equal(now, before->value)))
			amqp_field_add(table, f.name, f.type, f.bytes);
		else if (now.data)
			amqp_field_add_text(table, f.name, now);
	}
}

static void add_headers(struct buf *table, const struct amqp_properties *p,
			const struct amqp_message *was, const struct msg *head)
{
	for (unsigned i = 0; i < head->header_count; i++) {
		const struct msg_header *h = &head->headers[i];

		if (!msg_header_is_hidden(h->name) && !is_property(p, h->name) &&
		    !find_header(was->items, was->count, h->name))
			amqp_field_add_text(table, h->name, h->value);
	}
}

static void write_anew(struct buf *out, const struct amqp_properties *was_properties,
		       const struct amqp_message *was, const struct msg *head,
		       uint32_t failures)
{
	struct amqp_properties p = *was_properties;
	struct buf table = { 0 };

	set_properties(&p, head);
	keep_fields(&table, p.values[AMQP_P_HEADERS].s, was, head, failures);
	add_headers(&table, &p, was, head);
	/* The first death has ended its time: published again, it must not expire at
	 * once. */
	if (has_died(head))
		p.flags &= (uint16_t) ~(0x8000u >> AMQP_P_EXPIRATION);
	add_history(&table, head);
	if (failures > 0)
		amqp_field_add_number(&table, SLICE("x-delivery-count"), 'l', failures);
	p.values[AMQP_P_HEADERS].s = buf_slice(&table);
	if (buf_len(&table) > 0)
		p.flags |= 0x8000u >> AMQP_P_HEADERS;
	amqp_properties_write(&p, out);
	buf_deinit(&table);
}

void amqp_message_write(struct buf *out, const struct msg *m, const struct msg *head,
			uint32_t failures)
{
	struct slice bytes = msg_header(head, MSG_AMQP_HEADER);
	struct amqp_properties p;
	struct amqp_message was;

	if (bytes.data && amqp_properties_read(bytes, &p)) {
		read_headers(&was, &p);
		if (failures == 0 && is_unchanged(&was, head)) {
			buf_append_slice(out, bytes);
			return;
		}
	} else {
		memset(&p, 0, sizeof(p));
		was.count = 0;
		p.flags = 0x8000u >> AMQP_P_DELIVERY_MODE;
		p.values[AMQP_P_DELIVERY_MODE].n = 2;
		if (m->priority > 0) {
			p.flags |= 0x8000u >> AMQP_P_PRIORITY;
			p.values[AMQP_P_PRIORITY].n = m->priority;
		}
	}
	write_anew(out, &p, &was, head, failures);
}
