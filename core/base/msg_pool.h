/* msg_pool.h: free lists for the memory of small messages, by size.
 *
 * Each message is made and dropped once, in an order that malloc has no short way
 * for: its own lists of small blocks hold seven of a size. */
#ifndef TIDE_BASE_MSG_POOL_H
#define TIDE_BASE_MSG_POOL_H

#include <stddef.h>

#define MSG_POOL_STEP 64                      /* sizes are multiples of this */
#define MSG_POOL_BLOCK_MAX 1024               /* larger ones are malloc's */
#define MSG_POOL_KEEP_BYTES ((size_t)1 << 20) /* of free blocks, of all sizes */

#define MSG_POOL_SIZES (MSG_POOL_BLOCK_MAX / MSG_POOL_STEP + 1)

struct msg_pool {
	void *free_lists[MSG_POOL_SIZES]; /* by the size in steps */
	size_t kept_bytes;
};

void msg_pool_init(struct msg_pool *p);
/* Frees the free blocks; those in use must have been given back. */
void msg_pool_deinit(struct msg_pool *p);
/* At least `*bytes`, which is set to how many they are; NULL when memory is out. */
void *msg_pool_try_take(struct msg_pool *p, size_t *bytes);
/* `bytes` as it was set. */
void msg_pool_give(struct msg_pool *p, void *memory, size_t bytes);

#endif
