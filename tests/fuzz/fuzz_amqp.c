/* Two connections of AMQP and one of the line protocol, whose messages and names may be
 * anything. Whatever they send, what the broker says to the former is frames. */
#include "fuzz_peers.h"
#include "proto/amqp/amqp.h"

static const struct protocol_kind *kind_of(unsigned i)
{
	return i < PEERS - 1 ? &amqp_protocol : &line_protocol;
}

static void refuse(const char *why)
{
	fprintf(stderr, "what the broker said is no frame: %s\n", why);
	abort();
}

static void read_method(struct slice bytes)
{
	struct amqp_value values[AMQP_FIELDS_MAX];
	enum amqp_method method;

	if (bytes.len < 4)
		refuse("its method");
	method = amqp_codec_find_method((unsigned)amqp_get_number(bytes.data, 2),
					(unsigned)amqp_get_number(bytes.data + 2, 2));
	if (method == AMQP_METHOD_COUNT ||
	    !amqp_codec_read(amqp_codec_method(method)->fields, slice_skip(bytes, 4),
			     values))
		refuse("its fields");
}

static void read_frame(enum amqp_frame type, struct slice bytes)
{
	struct amqp_properties properties;

	if (type == AMQP_FRAME_METHOD)
		read_method(bytes);
	else if (type == AMQP_FRAME_HEADER &&
		 (bytes.len < 12 ||
		  !amqp_properties_read(slice_skip(bytes, 12), &properties)))
		refuse("its properties");
	else if (type == AMQP_FRAME_HEARTBEAT && bytes.len > 0)
		refuse("a heartbeat");
}

static void read_frames(struct slice rest)
{
	while (rest.len > 0) {
		size_t len;

		/* Another version of the protocol is answered with the one that is
		 * spoken. */
		if (slice_has_prefix(rest, "AMQP")) {
			if (rest.len < 8)
				refuse("the header of the protocol");
			rest = slice_skip(rest, 8);
			continue;
		}
		if (rest.len < AMQP_FRAME_HEAD + 1)
			refuse("its head");
		len = (size_t)amqp_get_number(rest.data + 3, 4);
		if (len > rest.len - AMQP_FRAME_HEAD - 1 ||
		    rest.data[AMQP_FRAME_HEAD + len] != (char)AMQP_FRAME_END)
			refuse("its end");
		read_frame((enum amqp_frame)rest.data[0],
			   (struct slice){ rest.data + AMQP_FRAME_HEAD, len });
		rest = slice_skip(rest, AMQP_FRAME_HEAD + len + 1);
	}
}

static void read_answers(struct peer *p)
{
	peer_collect(p);
	if (p->protocol->kind == &amqp_protocol)
		read_frames(buf_slice(&p->sent));
	buf_clear(&p->sent);
}
