#include "store_dedupe.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/position.h"
#include "host/log.h"
#include "store_private.h"

#define COPY_MAX UINT16_MAX

size_t store_dedupe_format_head(const struct store_seen *seen,
				char out[STORE_DEDUPE_HEAD_MAX])
{
	size_t len = ID_HEX_LEN;

	id_format(seen->msg_id, out);
	if (seen->copy > 0)
		len += (size_t)snprintf(out + len, STORE_DEDUPE_HEAD_MAX - len, "+%u",
					seen->copy);
	if (seen->has_offset)
		len += (size_t)snprintf(out + len, STORE_DEDUPE_HEAD_MAX - len, "@%llu",
					(unsigned long long)seen->offset);
	out[len++] = ' ';
	return len;
}

void store_dedupe_add_words(struct buf *out, const struct store_seen *seen)
{
	char head[STORE_DEDUPE_HEAD_MAX];
	size_t len = store_dedupe_format_head(seen, head);

	resp_score(out, (double)seen->until_unix_ms);
	resp_pair(out, (struct slice){ head, len }, seen->publish_id);
}

/* "", "+<copy>", "@<offset>" or "+<copy>@<offset>" */
static bool parse_place(struct slice text, struct store_seen *out)
{
	struct slice offset = text, copy = slice_cut(&offset, '@');
	uint64_t n = 0;

	out->has_offset = copy.len < text.len;
	out->offset = 0;
	if (copy.len > 0 &&
	    (copy.data[0] != '+' || !slice_to_uint(slice_skip(copy, 1), COPY_MAX, &n)))
		return false;
	out->copy = (unsigned)n;
	return !out->has_offset ||
	       slice_to_uint(offset, POSITION_OFFSET_MAX, &out->offset);
}

int store_dedupe_parse_member(struct slice member, struct store_seen *out)
{
	const char *space = memchr(member.data, ' ', member.len);
	struct slice head = { member.data,
			      space ? (size_t)(space - member.data) : member.len };

	if (!space || head.len < ID_HEX_LEN ||
	    id_parse((struct slice){ head.data, ID_HEX_LEN }, &out->msg_id) != TIDE_OK)
		return TIDE_ESYNTAX;
	if (!parse_place(slice_skip(head, ID_HEX_LEN), out))
		return TIDE_ESYNTAX;
	out->publish_id = slice_skip(member, head.len + 1);
	if (out->publish_id.len == 0 || out->publish_id.len > MSG_DEDUPE_ID_MAX)
		return TIDE_ESYNTAX;
	return TIDE_OK;
}

struct seen_call {
	struct store_call call;
	store_seen_fn on_rows;
};

static bool read_seen(const redisReply *member, const redisReply *score,
		      struct store_seen *out)
{
	if (member->type != REDIS_REPLY_STRING || score->type != REDIS_REPLY_STRING)
		return false;
	if (store_dedupe_parse_member((struct slice){ member->str, member->len }, out) <
	    0) {
		log_error("store: a member of a dedupe set cannot be read: %.60s",
			  member->str);
		return false;
	}
	double until = strtod(score->str, NULL);
	out->until_unix_ms = until > 0 && until < 1e15 ? (int64_t)until : 0;
	return true;
}

static void on_seen_reply(struct store_call *call, const redisReply *reply, bool is_last)
{
	struct seen_call *r = container_of(call, struct seen_call, call);
	size_t total = reply ? reply->elements / 2 : 0, count = 0;
	struct store_seen *rows = mem_alloc((total + 1) * sizeof(*rows));

	for (size_t i = 0; i < total; i++)
		if (read_seen(reply->element[2 * i], reply->element[2 * i + 1],
			      &rows[count]))
			count++;
	r->on_rows(call->ctx, call->err.code, store_call_text(call), rows, count, total);
	mem_free(rows);
}

void store_dedupe_read(struct store *s, struct store_shard *shard, int64_t start,
		       unsigned count, store_seen_fn on_rows, void *ctx)
{
	struct seen_call *r = store_call_create(s, shard, sizeof(*r), on_seen_reply, ctx);

	r->on_rows = on_rows;
	store_call_add(&r->call, "ZRANGE %s%s %lld %lld WITHSCORES",
		       STORE_KEY(shard, LAYOUT_DEDUPE), (long long)start,
		       store_last_index(start, count));
	store_call_send(&r->call, REDIS_REPLY_ARRAY);
}

void store_dedupe_trim(struct store *s, struct store_shard *shard, int64_t until_unix_ms,
		       unsigned count, store_purged_fn on_trimmed, void *ctx)
{
	struct store_call *call = store_count_call_create(s, shard, on_trimmed, ctx);

	store_call_add(call, "EVAL %b 1 %s%s %lld %u", script_dedupe_trim.data,
		       script_dedupe_trim.len, STORE_KEY(shard, LAYOUT_DEDUPE),
		       (long long)until_unix_ms, store_clamp_count(count));
	store_call_send(call, REDIS_REPLY_INTEGER);
}

void store_dedupe_remove(struct store *s, struct store_shard *shard,
			 const struct store_seen *seen, size_t count,
			 store_done_fn on_done, void *ctx)
{
	struct store_call *call = store_done_call_create(s, shard, on_done, ctx);
	struct buf *out = store_call_add_words(call, 2 + count);
	char head[STORE_DEDUPE_HEAD_MAX];

	resp_text(out, "ZREM");
	layout_resp_key(out, shard_prefix(shard), LAYOUT_DEDUPE);
	for (size_t i = 0; i < count; i++) {
		size_t len = store_dedupe_format_head(&seen[i], head);

		resp_pair(out, (struct slice){ head, len }, seen[i].publish_id);
	}
	store_call_send(call, 0);
}
