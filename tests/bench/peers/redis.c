/* Redis Streams used directly: XADD; XREADGROUP; XACK and XDEL of what one read
 * brought. */
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
	ask(l, "XGROUP CREATE bench g $ MKSTREAM\r\n", NULL);
}

static void read_more(struct link *l)
{
	buf_printf(&l->out, "XREADGROUP GROUP g c%u COUNT %u BLOCK 0 STREAMS bench >\r\n",
		   l->number, l->load->options->prefetch);
}

static void open_link(struct link *l)
{
	if (l->role == LINK_CONSUMER) {
		read_more(l);
		l->scratch = (struct buf){ 0 };
	}
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

/* [[stream, [[id, [field, payload]], ...]]] */
static void take_batch(struct link *l, const char *at)
{
	long n;

	header(&at);
	header(&at);
	bulk(&at);
	n = header(&at);
	for (int pass = 0; pass < 2; pass++) {
		const char *entry = at;

		buf_printf(&l->out,
			   pass == 0 ? "*%ld\r\n$4\r\nXACK\r\n$5\r\nbench\r\n$1\r\ng\r\n"
				     : "*%ld\r\n$4\r\nXDEL\r\n$5\r\nbench\r\n",
			   pass == 0 ? n + 3 : n + 2);
		for (long i = 0; i < n; i++) {
			struct slice id, payload;

			header(&entry);
			id = bulk(&entry);
			header(&entry);
			bulk(&entry);
			payload = bulk(&entry);
			buf_printf(&l->out, "$%zu\r\n%.*s\r\n", id.len, (int)id.len,
				   id.data);
			if (pass == 0)
				load_received(l, payload.data, payload.len);
		}
	}
	read_more(l);
}

static void input(struct link *l)
{
	for (;;) {
		struct slice s = buf_slice(&l->in);
		size_t len;

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
