#include "client_positions.h"

#include <inttypes.h>

#include "base/mem.h"

struct client_position {
	unsigned partition;
	uint64_t next;      /* the offset behind the last message */
	uint64_t repeat_to; /* below it, what comes came before */
	int64_t ts_unix_ms; /* of the last message: never goes back in a partition */
};

void client_positions_deinit(struct client_positions *p)
{
	mem_free(p->list);
}

static struct client_position *get(struct client_positions *p, unsigned partition)
{
	for (size_t i = 0; i < p->count; i++)
		if (p->list[i].partition == partition)
			return &p->list[i];
	p->list = mem_realloc(p->list, (p->count + 1) * sizeof(*p->list));
	p->list[p->count] = (struct client_position){ .partition = partition };
	return &p->list[p->count++];
}

bool client_positions_see(struct client_positions *p, const struct tidemq_msg *m)
{
	struct client_position *at = get(p, m->partition);

	if (m->offset < at->repeat_to)
		return false;
	/* From here on a lower offset is a message that the reader has refused. */
	at->repeat_to = 0;
	if (m->offset >= at->next) {
		at->next = m->offset + 1;
		at->ts_unix_ms = m->ts_unix_ms;
	}
	return true;
}

void client_positions_unsee(struct client_positions *p, const struct tidemq_msg *m)
{
	struct client_position *at = get(p, m->partition);

	if (m->offset >= at->next)
		return;
	at->next = m->offset;
	at->ts_unix_ms = m->ts_unix_ms;
}

void client_positions_resume(struct client_positions *p, bool is_single, struct buf *line)
{
	int64_t ts_unix_ms = INT64_MAX;

	for (size_t i = 0; i < p->count; i++) {
		struct client_position *at = &p->list[i];

		at->repeat_to = at->next;
		if (at->ts_unix_ms < ts_unix_ms)
			ts_unix_ms = at->ts_unix_ms;
	}
	if (p->count > 0 && is_single)
		buf_printf(line, " from=%" PRIu64, p->list[0].next);
	else if (p->count > 0)
		buf_printf(line, " from=@%" PRId64, ts_unix_ms);
}
