/* redis_stand_in.h: what the guard has in the place of store/redis_conn.c.
 *
 * It takes requests as the connection does and answers them when it is told
 * to, with an empty array each: to the broker's start a Redis without
 * definitions, to a batch one that has taken everything. So all of the store
 * above the connection is the real one, and no byte leaves the process. There
 * is one at a time. */
#ifndef TIDE_GUARD_REDIS_STAND_IN_H
#define TIDE_GUARD_REDIS_STAND_IN_H

/* Answer every request so far, and those that the answers lead to. */
void redis_stand_in_answer(void);

#endif
