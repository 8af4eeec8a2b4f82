/* beanstalkd: put; as many `reserve`s on their way as the prefetch says. */
#include <stdlib.h>
#include <string.h>

#include "peer.h"

static void setup(struct link *l)
{
	(void)l; /* a new server has an empty default tube */
}

static void reserve(struct link *l, unsigned n)
{
	while (n-- > 0)
		buf_append(&l->out, "reserve\r\n", 9);
}

static void open_link(struct link *l)
{
	if (l->role == LINK_CONSUMER)
		reserve(l, l->load->options->prefetch);
}

static void publish(struct link *l, const char *payload, size_t len)
{
	buf_append(&l->out, "put 0 0 60 ", 11);
	buf_append_uint(&l->out, len);
	buf_append(&l->out, "\r\n", 2);
	buf_append(&l->out, payload, len);
	buf_append(&l->out, "\r\n", 2);
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
		if (strncmp(s.data, "RESERVED ", 9) == 0) {
			char *rest;
			unsigned long long id = strtoull(s.data + 9, &rest, 10);
			size_t len = strtoull(rest, NULL, 10);

			if (s.len < used + len + 2)
				return;
			load_received(l, s.data + used, len);
			used += len + 2;
			buf_append(&l->out, "delete ", 7);
			buf_append_uint(&l->out, id);
			buf_append(&l->out, "\r\n", 2);
			reserve(l, 1);
		} else if (strncmp(s.data, "INSERTED", 8) == 0) {
			load_confirmed(l, 1);
		} else if (strncmp(s.data, "DELETED", 7) != 0) {
			die("beanstalkd: %.*s", (int)used, s.data);
		}
		buf_consume(&l->in, used);
	}
}

static void settle(struct link *l)
{
	(void)l; /* done with each message */
}

const struct driver driver_beanstalkd = { "beanstalkd", 11300, setup, open_link,
					  publish,      input, settle };
