#include "address.h"

#include "queue.h"

enum subject_kind address_kind(struct vhost *v, struct slice name)
{
	const struct queue *q = queue_find(v, name);

	return q && q->topic ? SUBJECT_TOPIC : SUBJECT_QUEUE;
}

int address_check(struct subject *s, struct vhost *v, struct slice exchange,
		  struct slice key, struct error *err)
{
	if (subject_is_free(s))
		return TIDE_OK;
	if (exchange.len > 0)
		return subject_ask(s, USER_WRITE, SUBJECT_EXCHANGE, exchange, err);
	return subject_ask(s, USER_WRITE, address_kind(v, key), key, err);
}
