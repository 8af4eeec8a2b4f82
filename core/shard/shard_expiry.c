/* shard_expiry.c: messages in windows expire in time, though nobody asks for them.
 *
 * They are in a heap of the broker. Those in Redis alone are taken out of it by
 * shard_take.c. What is held or buried does not expire; a message that comes back from
 * there may do so at once. */
#include "base/container.h"
#include "shard.h"

struct shard_expiring {
	struct heap_node node; /* in the heap of the environment */
	struct entry *entry;
};

void shard_expiry_enter(const struct stage *st, struct entry *e)
{
	struct shard_env *env = e->shard->env;
	struct shard_expiring *x;

	if (st->set == STORE_BURIED)
		return;
	x = pool_take(&env->expirings);
	*x = (struct shard_expiring){ .entry = e };
	e->expiring = x;
	heap_set(&env->expiries, &x->node, e->expires_unix_ms);
}

void shard_expiry_leave(const struct stage *st, struct entry *e)
{
	struct shard_env *env = e->shard->env;

	if (st->set == STORE_BURIED)
		return;
	heap_remove(&env->expiries, &e->expiring->node);
	pool_give(&env->expirings, e->expiring);
	e->expiring = NULL;
}

void shard_expiry_init(struct shard_env *env)
{
	pool_init(&env->expirings, sizeof(struct shard_expiring), 4096);
}

void shard_expiry_deinit(struct shard_env *env)
{
	heap_deinit(&env->expiries);
	pool_deinit(&env->expirings);
}

void shard_expiry_turn(struct shard_env *env)
{
	struct heap_node *n;

	while ((n = heap_min(&env->expiries)) != NULL && n->key <= env->now_ms) {
		struct entry *e = container_of(n, struct shard_expiring, node)->entry;

		if (!env->ops->on_expired(e->shard, e))
			return;
	}
}

int64_t shard_expiry_due_ms(const struct shard_env *env)
{
	const struct heap_node *n = heap_min(&env->expiries);

	return n ? n->key : 0;
}
