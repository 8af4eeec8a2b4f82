/* Redis Streams used directly: XADD; XREADGROUP; XACK and XDEL of what one read
 * brought. As a topic nothing is deleted, and a reader without a group asks with XREAD
 * for what follows the last id. */
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
	if (answer[0] == '-' && !(may_fail && strstr(answer, may_fail)))
		die("%s -> %s", line, answer);
}

static void setup(struct link *l)
{
	ask(l, "DEL bench\r\n", NULL);
	if (!l->load->options->is_topic)
		ask(l, "XGROUP CREATE bench g $ MKSTREAM\r\n", NULL);
}

/* Good until the next call. */
static const char *group(const struct link *l)
{
	static char name[16];

	if (!l->load->options->is_topic)
		return "g";
	snprintf(name, sizeof(name), "g%u", l->number);
	return name;
}

static void read_more(struct link *l)
{
	const struct load_options *o = l->load->options;

	if (o->is_reader)
		buf_printf(&l->out, "XREAD COUNT %u STREAMS bench %s\r\n", o->prefetch,
			   buf_cstr(&l->scratch));
	else
		buf_printf(&l->out,
			   "XREADGROUP GROUP %s c%u COUNT %u BLOCK 0 STREAMS bench >\r\n",
			   group(l), l->number, o->prefetch);
}

static void open_link(struct link *l)
{
	char line[64];

	if (l->role != LINK_CONSUMER)
		return;
	if (l->load->options->is_topic && !l->load->options->is_reader) {
		snprintf(line, sizeof(line), "XGROUP CREATE bench %s 0 MKSTREAM\r\n",
			 group(l));
		ask(l, line, "BUSYGROUP");
	}
	buf_clear(&l->scratch);
	buf_append_text(&l->scratch, "0");
	read_more(l);
}

static void publish(struct link *l, const char *payload, size_t len)
{
	buf_append_text(&l->out,
			"*5\r\n$4\r\nXADD\r\n$5\r\nbench\r\n$1\r\n*\r\n$1\r\np\r\n$");
	buf_append_uint(&l->out, len);
	buf_append(&l->out, "\r\n", 2);
	buf_append(&l->out, payload, len);
	buf_append(&l->out, "\r\n", 2);
}

/* The bytes that the reply at `at` takes, 0 when it is not all there. */
static size_t reply_len(const char *at, size_t have)
{
	const char *end = have ? memchr(at, '\n', have) : NULL;
	size_t used;
	long n;

	if (!end)
		return 0;
	used = (size_t)(end - at) + 1;
	if (at[0] == '-')
		die("redis: %.*s", (int)used, at);
	if (at[0] != '$' && at[0] != '*')
		return used;
	n = strtol(at + 1, NULL, 10);
	if (at[0] == '$')
		return n < 0                          ? used
		       : have >= used + (size_t)n + 2 ? used + (size_t)n + 2
						      : 0;
	for (long i = 0; i < n; i++) {
		size_t len = reply_len(at + used, have - used);

		if (len == 0)
			return 0;
		used += len;
	}
	return used;
}

/* Over the header of an array or bulk: gives its number. */
static long header(const char **at)
{
	long n = strtol(*at + 1, NULL, 10);

	*at = strchr(*at, '\n') + 1;
	return n;
}

static struct slice bulk(const char **at)
{
	long n = header(at);
	struct slice s = { *at, (size_t)n };

	*at += n + 2;
	return s;
}

/* Over an entry, [id, [field, payload]]. */
static struct slice entry(const char **at, struct slice *payload)
{
	struct slice id;

	header(at);
	id = bulk(at);
	header(at);
	bulk(at);
	*payload = bulk(at);
	return id;
}

/* The end of a command whose last arguments are the ids of n entries. */
static void put_ids(struct link *l, const char *at, long n)
{
	struct slice payload;

	while (n-- > 0) {
		struct slice id = entry(&at, &payload);

		buf_printf(&l->out, "$%zu\r\n%.*s\r\n", id.len, (int)id.len, id.data);
	}
}

/* [[stream, [[id, [field, payload]], ...]]] */
static void take_batch(struct link *l, const char *at)
{
	const struct load_options *o = l->load->options;
	struct slice id = { NULL, 0 }, payload;
	long n;

	header(&at);
	header(&at);
	bulk(&at);
	n = header(&at);
	if (!o->is_reader) {
		const char *name = group(l);

		buf_printf(&l->out, "*%ld\r\n$4\r\nXACK\r\n$5\r\nbench\r\n$%zu\r\n%s\r\n",
			   n + 3, strlen(name), name);
		put_ids(l, at, n);
	}
	if (!o->is_topic) {
		buf_printf(&l->out, "*%ld\r\n$4\r\nXDEL\r\n$5\r\nbench\r\n", n + 2);
		put_ids(l, at, n);
	}
	while (n-- > 0) {
		id = entry(&at, &payload);
		load_received(l, payload.data, payload.len);
	}
	buf_clear(&l->scratch);
	buf_append_slice(&l->scratch, id);
	read_more(l);
}

static void input(struct link *l)
{
	for (;;) {
		struct slice s = buf_slice(&l->in);
		size_t len;

		/* A batch comes in pieces, and its server waits for what is done with it:
		 * it is not looked through again with each of them. */
		if (l->role == LINK_CONSUMER && l->load->options->is_topic && s.len &&
		    s.data[s.len - 1] != '\n')
			return;
		len = reply_len(s.data, s.len);
		if (len == 0)
			return;
		if (l->role == LINK_PRODUCER)
			load_confirmed(l, 1);
		else if (s.data[0] == '*')
			take_batch(l, s.data);
		buf_consume(&l->in, len);
	}
}

static void settle(struct link *l)
{
	(void)l; /* done with each batch */
}

const struct driver driver_redis = { "redis", 6379,  setup, open_link,
				     publish, input, settle };
