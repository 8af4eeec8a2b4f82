#include "death.h"

#include <stdio.h>

#include "base/decimal.h"
#include "base/id.h"
#include "base/percent.h"

#define NAME(last) SLICE(MSG_DEATH_PREFIX last)
#define OTHERS SLICE("others:-")

uint32_t death_total(const struct msg *m)
{
	struct slice total = msg_header(m, NAME("total"));
	uint64_t n;

	if (total.data && slice_to_uint(total, UINT32_MAX - 1, &n))
		return (uint32_t)n;
	/* Version 0.1.0 told of the last death alone. */
	return msg_header(m, NAME("queue")).data != NULL;
}

static void add(struct death_headers *out, struct slice name, struct slice value)
{
	if (value.data && out->count < MSG_HEADERS_ALL)
		out->items[out->count++] = (struct msg_header){ name, value };
}

static struct slice put_number(char *at, uint64_t n)
{
	return (struct slice){ at, (size_t)(decimal_put(at, n) - at) };
}

static void copy_headers(const struct msg *m, struct death_headers *out)
{
	for (unsigned i = 0; i < m->header_count; i++)
		if (!msg_header_is_death(m->headers[i].name))
			add(out, m->headers[i].name, m->headers[i].value);
}

/* A fact of the first death. Who has died once, under a version that told of the last
 * death alone, has it under the name of the last one. */
struct fact {
	struct slice first, last; /* names */
	struct slice now;
};

static struct slice first_of(const struct msg *m, const struct fact *f)
{
	if (death_total(m) == 0)
		return f->now;
	return msg_header(m,
			  msg_header(m, NAME("first-queue")).data ? f->first : f->last);
}

/* The counts: "3:nack:orders 1:expired:orders 2:others:-". */
struct counts {
	char *at, *end;
	size_t wire_len; /* of what is written, percent-encoded */
	unsigned pairs;
	uint64_t others;
};

/* Room is kept for the others: a space, a number, and what follows. */
#define OTHERS_ROOM (3 + DECIMAL_MAX + 1 + sizeof("others:-"))

static void put_pair(struct counts *c, uint64_t n, struct slice pair)
{
	size_t len = decimal_len(n) + 1 + percent_encoded_len(pair) + (c->pairs ? 3 : 0);

	if (c->pairs == DEATH_PAIRS_MAX ||
	    c->wire_len + len > DEATH_COUNTS_MAX - OTHERS_ROOM) {
		c->others += n;
		return;
	}
	c->wire_len += len;
	if (c->pairs++)
		*c->at++ = ' ';
	c->at = decimal_put(c->at, n);
	*c->at++ = ':';
	memcpy(c->at, pair.data, pair.len);
	c->at += pair.len;
}

static void put_others(struct counts *c)
{
	if (c->others == 0)
		return;
	if (c->pairs)
		*c->at++ = ' ';
	c->at = decimal_put(c->at, c->others);
	*c->at++ = ':';
	memcpy(c->at, OTHERS.data, OTHERS.len);
	c->at += OTHERS.len;
}

/* "<reason>:<queue>" */
static struct slice put_name(char *at, size_t size, struct slice reason,
			     struct slice queue)
{
	int len = snprintf(at, size, "%" SLICE_FMT ":%" SLICE_FMT, SLICE_ARG(reason),
			   SLICE_ARG(queue));

	return (struct slice){ at, (size_t)len < size ? (size_t)len : size - 1 };
}

static struct slice count_deaths(const struct msg *m, const struct death *d, char *room)
{
	struct counts c = { .at = room };
	struct slice rest = msg_header(m, NAME("counts"));
	struct slice queue = msg_header(m, NAME("queue")),
		     reason = msg_header(m, NAME("reason"));
	char name[NAME_LEN_MAX + 64], old_name[NAME_LEN_MAX + 64];
	struct slice pair = put_name(name, sizeof(name), slice_from(d->reason), d->queue);
	bool is_counted = false;

	if (!rest.data && queue.data) {
		rest = put_name(old_name + 2, sizeof(old_name) - 2, reason, queue);
		memcpy(old_name, "1:", 2);
		rest = (struct slice){ old_name, rest.len + 2 };
	}
	while (rest.len > 0) {
		struct slice known = slice_cut(&rest, ' ');
		struct slice number = slice_cut(&known, ':');
		uint64_t n;

		if (!slice_to_uint(number, UINT64_MAX - 1, &n))
			continue;
		if (slice_is_equal(known, pair)) {
			is_counted = true;
			put_pair(&c, n + 1, known);
		} else if (slice_is_equal(known, OTHERS)) {
			c.others += n;
		} else {
			put_pair(&c, n, known);
		}
	}
	if (!is_counted)
		put_pair(&c, 1, pair);
	put_others(&c);
	return (struct slice){ room, (size_t)(c.at - room) };
}

void death_write(const struct msg *m, const struct death *d, struct death_headers *out)
{
	struct slice exchange = msg_exchange_word(m), reason = slice_from(d->reason),
		     time = put_number(out->time, (uint64_t)d->now_ms),
		     id = { out->id, ID_HEX_LEN };
	const struct fact facts[] = {
		{ NAME("first-reason"), NAME("reason"), reason },
		{ NAME("first-queue"), NAME("queue"), d->queue },
		{ NAME("first-exchange"), NAME("exchange"), exchange },
		{ NAME("first-key"), NAME("key"), m->key },
		{ NAME("first-time"), NAME("time"), time },
		{ NAME("first-id"), NAME("id"), id },
	};

	id_format(m->id, out->id);
	out->count = 0;
	copy_headers(m, out);
	add(out, NAME("reason"), reason);
	add(out, MSG_REASON_TEXT, msg_header(m, MSG_REASON_TEXT));
	add(out, NAME("queue"), d->queue);
	add(out, NAME("exchange"), exchange);
	add(out, NAME("key"), m->key);
	add(out, NAME("time"), time);
	add(out, NAME("attempts"), put_number(out->attempts, d->attempts));
	add(out, NAME("rule"), slice_from(d->rule));
	add(out, DEATH_PUBLISH_ID,
	    d->publish_id.len ? d->publish_id : msg_header(m, DEATH_PUBLISH_ID));
	for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]); i++)
		add(out, facts[i].first, first_of(m, &facts[i]));
	add(out, NAME("total"), put_number(out->total, (uint64_t)death_total(m) + 1));
	add(out, NAME("counts"), count_deaths(m, d, out->counts));
}
