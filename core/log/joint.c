#include "joint.h"

#include "base/mem.h"
#include "partition_private.h"

struct joint *joint_create(struct partition *p)
{
	struct joint *j = mem_zalloc(sizeof(*j));

	j->partition = partition_ref(p);
	partition_close_append(p);
	p->joint = j;
	return j;
}

static void keep(struct joint *j, struct msg *m)
{
	MEM_GROW(j->messages, j->count, j->cap, 4);
	j->messages[j->count++] = msg_ref(m);
}

void joint_append(struct joint *j, struct msg *m)
{
	if (j->partition->keys)
		partition_append(j->partition, m, NULL);
	else
		keep(j, m);
}

void joint_seal(struct joint *j)
{
	partition_close_append(j->partition);
	j->partition->joint = NULL;
}

/* The first append of the partition, if it is the joint's. */
static struct append *first_of(const struct joint *j)
{
	struct append *a = STAILQ_FIRST(&j->partition->appends);

	return a && a->joint == j ? a : NULL;
}

int joint_status(const struct joint *j)
{
	return j->partition->is_closed ? TIDE_OK : j->status;
}

bool joint_is_ready(const struct joint *j)
{
	const struct partition *p = j->partition;

	return p->is_closed || !p->keys || first_of(j);
}

size_t joint_send(struct joint *j, struct store_transaction *t)
{
	struct partition *p = j->partition;
	struct store_log_batch batches[STORE_LOG_BATCHES_MAX];
	struct append *a = first_of(j), *before = NULL;
	size_t bytes = 0;

	for (; a && a->joint == j; before = a, a = STAILQ_NEXT(a, link)) {
		struct store_log_append append =
			partition_flush_form(p, a, batches, before);

		/* An upper bound of all of them. */
		if (before && before->largest > a->largest) {
			a->largest = before->largest;
			append.largest = 0;
		}
		a->is_flying = true;
		store_log_join(t, p->keys, &append);
		bytes += a->bytes;
	}
	return bytes;
}

/* Its appends, wherever they are, and all behind them. */
static void fail(struct joint *j, int status, const char *text)
{
	struct partition *p = j->partition;
	struct append *a;

	STAILQ_FOREACH (a, &p->appends, link)
		if (a->joint == j)
			break;
	if (a)
		partition_fail_from(p, a, status, text);
}

static void end_kept(struct joint *j, int status, const char *text)
{
	struct partition *p = j->partition;
	struct append *first = first_of(j);
	bool was_sent = first && first->is_flying;

	for (struct append *a = first; a && a->joint == j; a = STAILQ_NEXT(a, link))
		a->is_flying = false;
	if (p->is_closed)
		partition_fail(p, TIDE_ENOTFOUND, NULL);
	else if (status < 0 && was_sent)
		partition_flush_refuse(p, status, text, true);
	else if (status < 0)
		fail(j, status, text);
	else
		while (first_of(j))
			partition_flush_land(p);
	first = STAILQ_FIRST(&p->appends);
	partition_set_dirty(p, first && (!first->is_flying || STAILQ_NEXT(first, link)));
}

static void end_unkept(struct joint *j, int status)
{
	for (size_t i = 0; i < j->count; i++) {
		if (status == TIDE_OK && !j->partition->is_closed)
			partition_append(j->partition, j->messages[i], NULL);
		msg_unref(j->messages[i]);
	}
}

void joint_end_take(struct joint *j, int status, const char *text)
{
	if (j->partition->keys)
		end_kept(j, status, text);
	else
		end_unkept(j, status);
	partition_unref(j->partition);
	mem_free(j->messages);
	mem_free(j);
}
