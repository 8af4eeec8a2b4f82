/* SEEK and DELETE group: where the groups of topics are. */
#include "verb.h"

#include "line.h"

COMMAND(topic_seek)
{
	struct group_spec spec = { .topic = request_name(q, 0, "a topic") };

	spec.group = request_name(q, 1, "a group");
	if (q->rc == TIDE_OK)
		q->rc = position_parse(q->words[2], &spec.to, q->err);
	if (q->rc == TIDE_OK && spec.to.kind == POSITION_COMMITTED)
		q->rc = error_set(
			q->err, TIDE_ESYNTAX,
			"SEEK moves what is committed: expected first, last, an "
			"offset or a time");
	spec.partition = request_int(q, "partition", 0, REQUEST_PARTITIONS_MAX - 1, -1);
	if (q->rc < 0)
		return q->rc;
	return session_group_seek(l->base.session, &spec, r, q->err);
}

COMMAND(topic_delete_group)
{
	struct group_spec spec = { .topic = request_name(q, 1, "a topic") };

	if (q->word_count < 3)
		return error_set(q->err, TIDE_ESYNTAX,
				 "DELETE group needs a topic and a group");
	spec.group = request_name(q, 2, "a group");
	if (q->rc == TIDE_OK && q->flag_count > 0)
		return error_set(q->err, TIDE_ESYNTAX,
				 "DELETE group takes no flag but quiet: a group with "
				 "members is never deleted");
	if (q->rc < 0)
		return q->rc;
	return session_group_delete(l->base.session, &spec, r, q->err);
}
