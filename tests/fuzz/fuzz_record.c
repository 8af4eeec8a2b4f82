/* A batch of records as it lies in Redis: record_open. Its checksum is made right, since
 * no fuzzer finds one. What can be opened is read, written again, and is the same. */
#include <stdlib.h>
#include <string.h>

#include "log/record.h"
#include "log/record_seal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct record_writer writer;
static struct record_reader reader, reader_again;

static void check_same(const struct record *a, const struct record *b)
{
	if (a->offset != b->offset || a->msg.id != b->msg.id ||
	    a->msg.ts_unix_ms != b->msg.ts_unix_ms ||
	    a->msg.priority != b->msg.priority ||
	    a->msg.header_count != b->msg.header_count ||
	    !slice_is_equal(a->msg.exchange, b->msg.exchange) ||
	    !slice_is_equal(a->msg.key, b->msg.key) ||
	    !slice_is_equal((struct slice){ a->msg.payload, a->msg.payload_len },
			    (struct slice){ b->msg.payload, b->msg.payload_len }))
		abort();
	for (unsigned i = 0; i < a->msg.header_count; i++)
		if (!slice_is_equal(a->msg.headers[i].name, b->msg.headers[i].name) ||
		    !slice_is_equal(a->msg.headers[i].value, b->msg.headers[i].value))
			abort();
}

static struct record_batch *write_again(const struct record_batch *b)
{
	struct record r;

	record_begin(&writer, b->base, b->position);
	record_read(&reader, b);
	while (record_next(&reader, &r))
		record_add(&writer, r.offset, &r.msg, r.msg.ts_unix_ms);
	if (writer.count != b->count || writer.last_ms != b->last_ms)
		abort();
	return record_finish(&writer, b->end);
}

static void compare(const struct record_batch *a, const struct record_batch *b)
{
	struct record x, y;

	record_read(&reader, a);
	record_read(&reader_again, b);
	while (record_next(&reader, &x)) {
		if (!record_next(&reader_again, &y))
			abort();
		check_same(&x, &y);
	}
	if (record_next(&reader_again, &y))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *bytes = malloc(size ? size : 1);
	struct record_batch *b, *again, *opened;
	struct error err = { 0 };

	memcpy(bytes, data, size);
	if (size > 9)
		record_seal(bytes, size);
	if (record_open((struct slice){ bytes, size }, &b, &err) == TIDE_OK) {
		again = write_again(b);
		compare(b, again);
		if (record_open((struct slice){ again->bytes, again->len }, &opened,
				&err) != TIDE_OK)
			abort();
		record_batch_unref(opened);
		record_batch_unref(again);
		record_batch_unref(b);
	} else if (err.text[0] == '\0') {
		abort();
	}
	free(bytes);
	return 0;
}
