/* Three connections of the line protocol. Whatever they send, the client library can read
 * what the broker says. */
#include "client/decoder.h"
#include "fuzz_peers.h"

static const struct protocol_kind *kind_of(unsigned i)
{
	(void)i;
	return &line_protocol;
}

static void read_answers(struct peer *p)
{
	struct tidemq_error err;
	struct decoder d;
	struct decoder_item item;
	int status;

	peer_collect(p);
	decoder_init(&d, SIZE_MAX / 2);
	buf_append_slice(&d.in, buf_slice(&p->sent));
	while ((status = decoder_next(&d, &item, &err)) == 0)
		if (item.kind == ITEM_MSG)
			tidemq_msg_free(item.msg);
	if (status != TIDE_AGAIN || buf_len(&d.in) > 0) {
		fprintf(stderr, "what the broker said cannot be read: %.*s\n",
			(int)buf_len(&p->sent), buf_slice(&p->sent).data);
		abort();
	}
	decoder_deinit(&d);
	buf_clear(&p->sent);
}
