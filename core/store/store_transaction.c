/* store_transaction.c: the batches of several shards in one MULTI ... EXEC. */
#include "store_private.h"

struct store_transaction {
	struct store_call call;
	batch_done_fn on_done;
};

static void on_reply(struct store_call *call, const redisReply *reply, bool is_last)
{
	struct store_transaction *t = container_of(call, struct store_transaction, call);
	struct batch_result result;

	if (!is_last)
		return;
	if (reply)
		store_call_check_exec(call, reply);
	result = (struct batch_result){
		.removed = call->err.code,
		.written = call->err.code,
		.text = store_call_text(call),
		.is_unsure = call->request.was_lost || call->err.code == TIDE_ESHUTDOWN,
	};
	t->on_done(call->ctx, &result);
}

struct store_transaction *store_transaction_begin(struct store *s)
{
	struct store_transaction *t =
		store_call_create(s, NULL, sizeof(*t), on_reply, NULL);

	t->call.request.is_write = true;
	store_call_add(&t->call, "MULTI");
	return t;
}

struct store_call *store_transaction_call(struct store_transaction *t)
{
	return &t->call;
}

void store_transaction_add_take(struct store_transaction *t, struct batch *b)
{
	t->call.request.replies += batch_append(b, &t->call.bytes);
	store_give_back_batch(b);
}

void store_transaction_commit_take(struct store_transaction *t, batch_done_fn on_done,
				   void *ctx)
{
	t->on_done = on_done;
	t->call.ctx = ctx;
	store_call_add(&t->call, "EXEC");
	t->call.store->transactions++;
	store_call_send(&t->call, 0);
}
