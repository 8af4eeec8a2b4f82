/* MessagePack: what is read is written, and read again as the same. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/msgpack.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_node(const struct json_tape *t, uint32_t i, struct buf *out)
{
	const struct json_node *n = &t->nodes[i];
	uint32_t at = json_tape_first(t, i);

	switch ((enum json_tape_kind)n->kind) {
	case JSON_TAPE_OBJECT:
		msgpack_put_map(out, n->len);
		break;
	case JSON_TAPE_ARRAY:
		msgpack_put_array(out, n->len);
		break;
	case JSON_TAPE_TEXT:
		msgpack_put_text(out, json_tape_text(n));
		return;
	case JSON_TAPE_INTEGER:
		msgpack_put_integer(out, n->integer);
		return;
	case JSON_TAPE_NUMBER:
		msgpack_put_number(out, n->number);
		return;
	case JSON_TAPE_TRUE:
	case JSON_TAPE_FALSE:
		msgpack_put_boolean(out, n->kind == JSON_TAPE_TRUE);
		return;
	case JSON_TAPE_NULL:
		msgpack_put_nil(out);
		return;
	case JSON_TAPE_CURSOR:
		abort();
	}
	for (; at < n->end; at = json_tape_behind(t, at))
		write_node(t, at, out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *copy = mem_alloc(size ? size : 1);
	struct json_tape tape = { 0 }, again = { 0 };
	struct buf out = { 0 }, twice = { 0 };
	struct error err = { 0 };

	memcpy(copy, data, size);
	if (msgpack_read(&tape, (struct slice){ copy, size }, 32, &err) == TIDE_OK) {
		write_node(&tape, 0, &out);
		if (msgpack_read(&again, buf_slice(&out), 32, &err) != TIDE_OK ||
		    again.count != tape.count)
			abort();
		write_node(&again, 0, &twice);
		if (!slice_is_equal(buf_slice(&out), buf_slice(&twice)))
			abort();
	} else if (err.text[0] == '\0') {
		abort();
	}
	json_tape_deinit(&tape);
	json_tape_deinit(&again);
	buf_deinit(&out);
	buf_deinit(&twice);
	mem_free(copy);
	return 0;
}
