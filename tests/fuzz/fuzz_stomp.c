/* Two connections of STOMP and one of the line protocol, whose messages and names may be
 * anything. Whatever they send, what the broker says to the former is frames. */
#include "fuzz_peers.h"
#include "proto/stomp/stomp.h"

static const struct protocol_kind *kind_of(unsigned i)
{
	return i < PEERS - 1 ? &stomp_protocol : &line_protocol;
}

static void refuse(struct slice all, const char *why)
{
	fprintf(stderr, "what the broker said is no frame (%s): %.*s\n", why,
		(int)all.len, all.data);
	abort();
}

static bool is_command(struct slice line)
{
	return slice_is(line, "CONNECTED") || slice_is(line, "MESSAGE") ||
	       slice_is(line, "RECEIPT") || slice_is(line, "ERROR");
}

/* The headers, and the length of the body. */
static size_t read_head(struct slice all, struct slice *rest)
{
	uint64_t body_len = 0;

	if (!is_command(slice_cut(rest, '\n')))
		refuse(all, "its command");
	for (;;) {
		struct slice line = slice_cut(rest, '\n'), value = line, name;

		if (line.len == 0)
			return (size_t)body_len;
		name = slice_cut(&value, ':');
		if (name.len == line.len || memchr(line.data, '\0', line.len) ||
		    memchr(line.data, '\r', line.len))
			refuse(all, "a header");
		if (slice_is(name, "content-length") &&
		    !slice_to_uint(value, SIZE_MAX / 2, &body_len))
			refuse(all, "its length");
	}
}

static void read_frames(struct slice all)
{
	struct slice rest = all;

	while (rest.len > 0) {
		size_t body_len;

		if (rest.data[0] == '\n') {
			rest = slice_skip(rest, 1);
			continue;
		}
		body_len = read_head(all, &rest);
		if (body_len >= rest.len || rest.data[body_len] != '\0')
			refuse(all, "its end");
		rest = slice_skip(rest, body_len + 1);
	}
}

static void read_answers(struct peer *p)
{
	peer_collect(p);
	if (p->protocol->kind == &stomp_protocol)
		read_frames(buf_slice(&p->sent));
	buf_clear(&p->sent);
}
