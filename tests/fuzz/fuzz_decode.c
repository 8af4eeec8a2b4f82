/* What a client reads from a broker: the decoder gives the same items however
 * the bytes are cut. */
#include <stdlib.h>
#include <string.h>

#include "client/decoder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BODY_MAX 4096

static void show(const struct decoder_item *item, struct buf *out)
{
	buf_printf(out, "%d %u ", (int)item->kind, item->channel);
	if (item->kind != ITEM_MSG) {
		buf_append_slice(out, item->text);
		return;
	}
	buf_printf(out, "%s %llu %u %s %s ", item->msg->sid,
		   (unsigned long long)item->msg->tag, item->msg->attempt,
		   item->msg->exchange, item->msg->key);
	for (size_t i = 0; i < item->msg->header_count; i++)
		buf_append(out, item->msg->headers[i].value,
			   item->msg->headers[i].value_len);
	buf_append(out, item->msg->payload, item->msg->payload_len);
	tidemq_msg_free(item->msg);
}

static int decode(const uint8_t *data, size_t size, size_t piece, struct buf *out)
{
	int status = TIDE_AGAIN;
	struct tidemq_error err;
	struct decoder d;
	struct decoder_item item;

	decoder_init(&d, BODY_MAX);
	for (size_t at = 0; at < size && status == TIDE_AGAIN; at += piece) {
		buf_append(&d.in, data + at, size - at < piece ? size - at : piece);
		while ((status = decoder_next(&d, &item, &err)) == TIDEMQ_OK)
			show(&item, out);
	}
	decoder_deinit(&d);
	return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf whole = { 0 }, pieces = { 0 };

	if (decode(data, size, size, &whole) != decode(data, size, 1, &pieces) ||
	    !slice_is_equal(buf_slice(&whole), buf_slice(&pieces)))
		abort();
	buf_deinit(&whole);
	buf_deinit(&pieces);
	return 0;
}
