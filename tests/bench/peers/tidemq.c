/* tidemq, and the fake server that speaks its protocol. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "peer.h"

static void ask(struct link *l, const char *line, const char *may_fail)
{
	const char *answer;

	buf_append_text(&l->out, line);
	link_flush(l);
	answer = link_line(l);
	if (strncmp(answer, "OK", 2) != 0 && !(may_fail && strstr(answer, may_fail)))
		die("%s -> %s", line, answer);
}

static void setup(struct link *l)
{
	if (l->load->options->is_topic) {
		ask(l, "DELETE topic facts\r\n", "not-found");
		ask(l, "DECLARE topic facts partitions=1\r\n", NULL);
		return;
	}
	ask(l, "DELETE queue bench\r\n", "not-found");
	ask(l, "DECLARE queue bench\r\n", NULL);
}

static void open_link(struct link *l)
{
	const struct load_options *o = l->load->options;
	char line[96];

	if (l->role != LINK_CONSUMER)
		return;
	if (o->is_reader)
		snprintf(line, sizeof(line),
			 "SUB facts s from=first prefetch=%u ack=auto\r\n", o->prefetch);
	else if (o->is_topic)
		snprintf(line, sizeof(line),
			 "SUB facts s group=g%u from=first prefetch=%u\r\n", l->number,
			 o->prefetch);
	else
		snprintf(line, sizeof(line), "SUB bench s prefetch=%u\r\n", o->prefetch);
	ask(l, line, NULL);
}

static void publish(struct link *l, const char *payload, size_t len)
{
	buf_append(&l->out, l->load->options->is_topic ? "PUB - facts " : "PUB - bench ",
		   12);
	buf_append_uint(&l->out, len);
	buf_append(&l->out, "\r\n", 2);
	buf_append(&l->out, payload, len);
	buf_append(&l->out, "\r\n", 2);
}

/* The length at the end of a MSG line, and the tag behind its second space; it is - when
 * there is nothing to acknowledge. */
static bool take_message(struct link *l, const char *data, size_t line_len, size_t have,
			 size_t *used)
{
	const char *at = data + line_len;
	size_t len = 0, unit = 1;

	while (at[-1] != ' ') {
		len += (size_t)(*--at - '0') * unit;
		unit *= 10;
	}
	if (have < line_len + 2 + len + 2)
		return false;
	at = memchr(data + 4, ' ', line_len);
	l->state[0] = strtoull(at + 1, NULL, 10);
	if (!l->state[1])
		l->state[1] = l->state[0];
	load_received(l, data + line_len + 2, len);
	*used = line_len + 2 + len + 2;
	return true;
}

static void input(struct link *l)
{
	for (;;) {
		struct slice s = buf_slice(&l->in);
		const char *end = s.len ? memchr(s.data, '\n', s.len) : NULL;
		size_t used;

		if (!end)
			return;
		used = (size_t)(end - s.data) + 1;
		if (s.data[0] == 'M') {
			if (!take_message(l, s.data, used - 2, s.len, &used))
				return;
		} else if (s.data[0] != 'O' &&
			   (used < 13 || memcmp(s.data, "EVT assigned ", 13) != 0)) {
			die("%.*s", (int)used, s.data);
		} else if (l->role == LINK_PRODUCER) {
			load_confirmed(l, 1);
		}
		buf_consume(&l->in, used);
	}
}

static void settle(struct link *l)
{
	if (!l->state[1])
		return;
	buf_printf(&l->out, "ACK %llu-%llu quiet\r\n", (unsigned long long)l->state[1],
		   (unsigned long long)l->state[0]);
	l->state[1] = 0;
}

const struct driver driver_tidemq = { "tidemq", 7310,  setup, open_link,
				      publish,  input, settle };
