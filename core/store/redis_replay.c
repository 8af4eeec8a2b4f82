#include "redis_replay.h"

#include <string.h>

#include "base/container.h"
#include "base/mem.h"
#include "resp.h"

struct replayed_write {
	TAILQ_ENTRY(replayed_write) link;
	struct redis_request request; /* while it is sent again */
	uv_buf_t part;
	uint64_t number;
	unsigned replies, slot;
	size_t len;
	char bytes[];
};

void redis_replay_init(struct redis_replay *p)
{
	*p = (struct redis_replay){ 0 };
	TAILQ_INIT(&p->writes);
}

static void drop(struct redis_replay *p, struct replayed_write *w)
{
	TAILQ_REMOVE(&p->writes, w, link);
	p->bytes -= w->len;
	mem_free(w);
}

static void miss(struct redis_replay *p, uint64_t number)
{
	if (number > p->missing)
		p->missing = number;
}

void redis_replay_clear(struct redis_replay *p)
{
	while (!TAILQ_EMPTY(&p->writes))
		drop(p, TAILQ_FIRST(&p->writes));
	p->missing = p->last;
}

void redis_replay_deinit(struct redis_replay *p)
{
	redis_replay_clear(p);
}

void redis_replay_begin(struct redis_replay *p)
{
	p->mark_count = 0;
}

void redis_replay_restart(struct redis_replay *p, uint64_t number)
{
	struct replayed_write *w;

	/* Missing writes were made before the record was. */
	while (!TAILQ_EMPTY(&p->writes) && TAILQ_FIRST(&p->writes)->number <= p->missing)
		drop(p, TAILQ_FIRST(&p->writes));
	TAILQ_FOREACH (w, &p->writes, link)
		w->number = number + 1;
	p->missing = p->missing ? number : 0;
	p->last = number;
	p->mark_count = 0;
}

void redis_replay_add(struct redis_replay *p, const struct redis_request *r,
		      uint64_t number)
{
	struct replayed_write *w;
	size_t len = 0;

	if (number)
		p->last = number;
	if (!p->is_on || r->is_refused) {
		miss(p, p->last);
		return;
	}
	for (unsigned i = 0; i < r->part_count; i++)
		len += r->parts[i].len;
	w = mem_alloc(sizeof(*w) + len);
	*w = (struct replayed_write){ .number = number ? number : p->last + 1,
				      .replies = r->replies,
				      .slot = r->slot };
	for (unsigned i = 0; i < r->part_count; i++) {
		memcpy(w->bytes + w->len, r->parts[i].base, r->parts[i].len);
		w->len += r->parts[i].len;
	}
	TAILQ_INSERT_TAIL(&p->writes, w, link);
	p->bytes += len;
	while (p->bytes > REDIS_REPLAY_BYTES_MAX) {
		miss(p, TAILQ_FIRST(&p->writes)->number);
		drop(p, TAILQ_FIRST(&p->writes));
	}
}

/* The least offset of the replicas, in lines "slave<n>:ip=…,offset=<offset>,…", and how
 * many lines there are. `connected_slaves` also counts a replica whose connection has
 * just broken, of which there is no line. */
static uint64_t least_offset(struct slice info, uint64_t master, unsigned *replicas)
{
	uint64_t least = master;

	*replicas = 0;
	while (info.len > 0) {
		struct slice line = slice_cut(&info, '\n');
		uint64_t offset;

		if (!slice_has_prefix(line, "slave") || slice_find(line, '=') == line.len)
			continue;
		(*replicas)++;
		while (line.len > 0) {
			struct slice value = slice_cut(&line, ',');
			struct slice name = slice_cut(&value, '=');

			if (slice_is(name, "offset") &&
			    slice_to_uint(value, INT64_MAX, &offset) && offset < least)
				least = offset;
		}
	}
	return least;
}

/* All replicas have what was written up to `offset`. */
static void trim(struct redis_replay *p, uint64_t offset)
{
	uint64_t number = 0;
	unsigned done = 0;

	while (done < p->mark_count && p->marks[done].offset <= offset)
		number = p->marks[done++].number;
	miss(p, number);
	p->mark_count -= done;
	memmove(p->marks, p->marks + done, p->mark_count * sizeof(p->marks[0]));
	while (!TAILQ_EMPTY(&p->writes) && TAILQ_FIRST(&p->writes)->number <= number)
		drop(p, TAILQ_FIRST(&p->writes));
}

/* One that has left may be about to be promoted: what it lacks stays. So long, and it has
 * left for good. */
static bool has_lost_one(struct redis_replay *p)
{
	if (p->replicas >= p->replicas_known || ++p->looks_without > REPLAY_LOOKS_MAX) {
		p->replicas_known = p->replicas;
		p->looks_without = 0;
	}
	return p->replicas < p->replicas_known;
}

void redis_replay_info(struct redis_replay *p, struct slice info)
{
	uint64_t offset = resp_info_number(info, "master_repl_offset");
	uint64_t least = least_offset(info, offset, &p->replicas);

	p->lag = 0;
	if (p->replicas == 0)
		return;
	p->is_on = true;
	if (p->mark_count < REPLAY_MARKS_MAX && !TAILQ_EMPTY(&p->writes))
		p->marks[p->mark_count++] = (struct replay_mark){ p->last, offset };
	p->lag = offset - least;
	if (!has_lost_one(p))
		trim(p, least);
}

bool redis_replay_reaches(const struct redis_replay *p, uint64_t number)
{
	return p->missing <= number;
}

void redis_replay_keep(struct redis_replay *p, bool (*has)(void *ctx, unsigned slot),
		       void *ctx)
{
	struct replayed_write *w, *next;

	for (w = TAILQ_FIRST(&p->writes); w; w = next) {
		next = TAILQ_NEXT(w, link);
		if (!has(ctx, w->slot))
			drop(p, w);
	}
}

static void on_reply(struct redis_request *request, const redisReply *reply)
{
	/* The writer was told already; a write that is refused now was taken before. */
	if (!reply || request->answered == request->replies)
		mem_free(container_of(request, struct replayed_write, request));
}

bool redis_replay_has_above(const struct redis_replay *p, uint64_t number)
{
	struct replayed_write *last = TAILQ_LAST(&p->writes, replayed_writes);

	return last && last->number > number;
}

unsigned redis_replay_take(struct redis_replay *p, uint64_t number,
			   struct redis_requests *out)
{
	struct replayed_write *w, *next;
	unsigned count = 0;

	for (w = TAILQ_FIRST(&p->writes); w; w = next) {
		next = TAILQ_NEXT(w, link);
		if (w->number <= number)
			continue;
		TAILQ_REMOVE(&p->writes, w, link);
		p->bytes -= w->len;
		w->part = uv_buf_init(w->bytes, (unsigned)w->len);
		w->request = (struct redis_request){ .parts = &w->part,
						     .part_count = 1,
						     .replies = w->replies,
						     .slot = w->slot,
						     .is_write = true,
						     .is_replayed = true,
						     .on_reply = on_reply };
		TAILQ_INSERT_TAIL(out, &w->request, entry);
		count++;
	}
	p->last = number;
	return count;
}
