/* A message as it lies in Redis: codec_decode. What can be read is written and
 * read again, and is the same. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "store/codec_encode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_same(const struct msg *a, const struct msg *b)
{
	if (a->priority != b->priority || a->header_count != b->header_count ||
	    a->ts_unix_ms != b->ts_unix_ms || a->due_unix_ms != b->due_unix_ms ||
	    a->expires_unix_ms != b->expires_unix_ms ||
	    !slice_is_equal(a->exchange, b->exchange) ||
	    !slice_is_equal(a->key, b->key) ||
	    !slice_is_equal((struct slice){ a->payload, a->payload_len },
			    (struct slice){ b->payload, b->payload_len }))
		abort();
	for (unsigned i = 0; i < a->header_count; i++)
		if (!slice_is_equal(a->headers[i].name, b->headers[i].name) ||
		    !slice_is_equal(a->headers[i].value, b->headers[i].value))
			abort();
}

static void write_and_read(const struct msg *m, double rank)
{
	struct msg known = { .id = m->id };
	struct msg *again;
	struct error err;
	struct buf body = { 0 };
	double rank_again;

	codec_encode(&body, m, rank);
	if (codec_decode(buf_slice(&body), &known, &again, &rank_again, &err) < 0)
		abort();
	if (memcmp(&rank, &rank_again, sizeof(rank)) != 0 && rank != rank_again)
		abort();
	check_same(m, again);
	msg_unref(again);
	buf_deinit(&body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *body = mem_alloc(size ? size : 1);
	struct msg known = { .id = 1 };
	struct error err = { 0 };
	struct msg *m;
	double rank;
	int rc;

	memcpy(body, data, size);
	rc = codec_decode((struct slice){ body, size }, &known, &m, &rank, &err);
	if (rc == TIDE_OK) {
		write_and_read(m, rank);
		msg_unref(m);
	} else if (err.text[0] == '\0') {
		abort();
	}
	mem_free(body);
	return 0;
}
