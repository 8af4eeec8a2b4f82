/* store_memory.c: how much memory Redis has. Nobody asks unless somebody looks. */
#include "store_private.h"

/* The number of "name:number" in what INFO told; 0 when it is not there. */
static uint64_t info_number(struct slice info, const char *name)
{
	uint64_t n;

	while (info.len > 0) {
		struct slice line = slice_cut(&info, '\n');

		if (slice_is(slice_cut(&line, ':'), name))
			return slice_to_uint(slice_cut(&line, '\r'), UINT64_MAX, &n) ? n
										     : 0;
	}
	return 0;
}

static void on_info(struct store_call *call, const redisReply *reply, bool is_last)
{
	struct store *s = call->store;

	s->is_memory_asked = false;
	if (!reply)
		return;
	s->memory_bytes = info_number(store_reply_slice(reply), "used_memory");
	s->memory_max_bytes = info_number(store_reply_slice(reply), "maxmemory");
}

void store_memory_ask(struct store *s)
{
	struct store_call *call;

	if (!s->conn || s->state != STORE_UP || s->is_memory_asked || s->is_closing)
		return;
	s->is_memory_asked = true;
	call = store_call_create(s, NULL, sizeof(*call), on_info, NULL);
	store_call_add(call, "INFO memory");
	store_call_send(call, REDIS_REPLY_STRING);
}
