#include "store_dedupe.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "host/log.h"
#include "resp.h"
#include "redis_script.h"
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
	out[len++] = ' ';
	return len;
}

int store_dedupe_parse_member(struct slice member, struct store_seen *out)
{
	const char *space = memchr(member.data, ' ', member.len);
	struct slice head = { member.data,
			      space ? (size_t)(space - member.data) : member.len };
	uint64_t copy = 0;

	if (!space || head.len < ID_HEX_LEN ||
	    id_parse((struct slice){ head.data, ID_HEX_LEN }, &out->msg_id) != TIDE_OK)
		return TIDE_ESYNTAX;
	if (head.len > ID_HEX_LEN &&
	    (head.data[ID_HEX_LEN] != '+' ||
	     !slice_to_uint(slice_skip(head, ID_HEX_LEN + 1), COPY_MAX, &copy)))
		return TIDE_ESYNTAX;
	out->copy = (unsigned)copy;
	out->publish_id = slice_skip(member, head.len + 1);
	if (out->publish_id.len == 0 || out->publish_id.len > MSG_DEDUPE_ID_MAX)
		return TIDE_ESYNTAX;
	return TIDE_OK;
}

struct seen_call {
	struct store_call call;
	store_seen_fn on_rows;
	void *ctx;
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

static void on_seen_reply(struct redis_request *request, const redisReply *reply)
{
	struct seen_call *r = container_of(request, struct seen_call, call.request);
	struct store_seen *rows = NULL;
	const char *text;
	size_t total = 0, count = 0;
	int rc = store_reply_status(reply, &text);

	if (rc == TIDE_OK && reply->type != REDIS_REPLY_ARRAY) {
		rc = TIDE_ESTORE;
		text = "an unexpected reply to a read";
	} else if (rc == TIDE_OK) {
		total = reply->elements / 2;
		rows = mem_alloc((total ? total : 1) * sizeof(*rows));
	}
	for (size_t i = 0; i < total; i++)
		if (read_seen(reply->element[2 * i], reply->element[2 * i + 1],
			      &rows[count]))
			count++;
	r->on_rows(r->ctx, rc, text, rows, count, total);
	mem_free(rows);
	store_call_destroy(&r->call);
}

void store_dedupe_read(struct store *s, const struct store_shard *shard, int64_t start,
		       unsigned count, store_seen_fn on_rows, void *ctx)
{
	struct seen_call *r = store_call_create(s, sizeof(*r));
	struct buf *out = &r->call.bytes;

	r->on_rows = on_rows;
	r->ctx = ctx;
	resp_array(out, 5);
	resp_text(out, "ZRANGE");
	layout_resp_key(out, shard_prefix(shard), LAYOUT_DEDUPE);
	resp_int(out, start);
	resp_int(out, start + (int64_t)store_clamp_count(count) - 1);
	resp_text(out, "WITHSCORES");
	store_call_send(&r->call, 1, on_seen_reply);
}

struct trim_call {
	struct store_call call;
	store_purged_fn on_trimmed;
	void *ctx;
};

static void on_trim_reply(struct redis_request *request, const redisReply *reply)
{
	struct trim_call *t = container_of(request, struct trim_call, call.request);
	const char *text;
	int rc = store_reply_status(reply, &text);
	bool has_count = rc == TIDE_OK && reply->type == REDIS_REPLY_INTEGER;

	t->on_trimmed(t->ctx, rc, text, has_count ? (uint64_t)reply->integer : 0);
	store_call_destroy(&t->call);
}

void store_dedupe_trim(struct store *s, const struct store_shard *shard,
		       int64_t until_unix_ms, unsigned count, store_purged_fn on_trimmed,
		       void *ctx)
{
	struct trim_call *t = store_call_create(s, sizeof(*t));
	struct buf *out = &t->call.bytes;

	t->on_trimmed = on_trimmed;
	t->ctx = ctx;
	resp_array(out, 6);
	resp_text(out, "EVAL");
	resp_bulk(out, redis_script_trim);
	resp_text(out, "1");
	layout_resp_key(out, shard_prefix(shard), LAYOUT_DEDUPE);
	resp_int(out, until_unix_ms);
	resp_int(out, store_clamp_count(count));
	store_call_send(&t->call, 1, on_trim_reply);
}
