/* partition_trim.c: the front of a partition goes. */
#include "base/mem.h"
#include "host/log.h"
#include "partition_private.h"

/* ---- how many bytes are left ----------------------------------------------------- */

struct log_measure {
	struct partition *partition;
	store_done_fn on_done;
	void *ctx;
};

static void on_first(void *ctx, int status, const char *text,
		     const struct store_log_batch *rows, size_t count)
{
	struct log_measure *m = ctx;
	struct partition *p = m->partition;
	struct record_batch head;

	if (count > 0 && record_peek(rows[0].bytes, &head) && head.end > p->start)
		p->first_position = head.position;
	if (m->on_done)
		m->on_done(m->ctx, status, text);
	partition_unref(p);
	mem_free(m);
}

static void read_first(struct partition *p, uint32_t day, store_done_fn on_done,
		       void *ctx)
{
	struct log_measure *m = mem_alloc(sizeof(*m));

	*m = (struct log_measure){ partition_ref(p), on_done, ctx };
	store_log_read(p->env->store, p->keys, day, p->start, 1, on_first, m);
}

void partition_trim_measure(struct partition *p, store_done_fn on_done, void *ctx)
{
	const struct partition_day *day = partition_day_of(p, p->start);
	const struct record_batch *first = tail_first(&p->tail);

	if (first && first->base <= p->start) {
		p->first_position =
			tail_at(&p->tail, tail_find(&p->tail, p->start))->position;
	} else if (p->start == p->readable || !day) {
		p->first_position = p->position;
	} else if (day->base >= p->start) {
		p->first_position = day->position;
	} else {
		p->first_position = day->position;
		if (!p->is_closed) {
			read_first(p, day->day, on_done, ctx);
			return;
		}
	}
	if (on_done)
		on_done(ctx, TIDE_OK, NULL);
}

/* ---- trimming -------------------------------------------------------------------- */

struct log_trim {
	struct partition *partition;
	store_done_fn on_done;
	void *ctx;
	uint32_t *days; /* that are removed whole */
	unsigned day_count;
};

static bool is_named(const struct log_trim *t, uint32_t day)
{
	for (unsigned i = 0; i < t->day_count; i++)
		if (t->days[i] == day)
			return true;
	return false;
}

/* They are gone; or they stay, and the next trim names them again. */
static void settle_days(const struct log_trim *t, bool is_done)
{
	struct partition *p = t->partition;
	unsigned kept = 0;

	for (unsigned i = 0; i < p->day_count; i++) {
		struct partition_day *day = &p->days[i];
		bool is_ours = day->is_going && is_named(t, day->day);

		if (is_ours && is_done)
			continue;
		if (is_ours)
			day->is_going = false;
		p->days[kept++] = *day;
	}
	p->day_count = (uint16_t)kept;
}

static void send_trim(struct partition *p, store_done_fn on_done, void *ctx);

/* `left`: batches that another trim has to remove. */
static void on_trimmed(void *ctx, int status, const char *text, uint64_t left)
{
	struct log_trim *t = ctx;
	struct partition *p = t->partition;

	settle_days(t, status == TIDE_OK);
	if (status < 0)
		p->is_trim_refused = true;
	if (status < 0 && !t->on_done && status != TIDE_ESHUTDOWN)
		log_warn("%slog cannot be trimmed: %s", store_log_prefix(p->keys), text);
	if (status == TIDE_OK && left > 0 && !p->is_closed)
		send_trim(p, t->on_done, t->ctx);
	else if (status == TIDE_OK)
		partition_trim_measure(p, t->on_done, t->ctx);
	else if (t->on_done)
		t->on_done(t->ctx, status, text);
	partition_unref(p);
	mem_free(t->days);
	mem_free(t);
}

/* Nothing is left in the last day, and nothing is on its way there. */
static bool is_emptied(const struct partition *p)
{
	const struct append *first = STAILQ_FIRST(&p->appends);

	return p->start == p->readable && !(first && first->is_flying);
}

/* Days that end before the start. */
static void name_days(struct log_trim *t)
{
	struct partition *p = t->partition;

	t->days = mem_alloc((p->day_count + 1u) * sizeof(*t->days));
	for (unsigned i = 0; i < p->day_count; i++) {
		bool is_last = i + 1 == p->day_count;
		bool is_below = is_last ? is_emptied(p) : p->days[i + 1].base <= p->start;

		if (!is_below || p->days[i].is_going)
			continue;
		p->days[i].is_going = true;
		t->days[t->day_count++] = p->days[i].day;
	}
}

static void send_trim(struct partition *p, store_done_fn on_done, void *ctx)
{
	struct log_trim *t = mem_zalloc(sizeof(*t));
	const struct partition_day *day = partition_day_of(p, p->start);
	struct store_log_trim trim = { .start = p->start };

	*t = (struct log_trim){ partition_ref(p), on_done, ctx, NULL, 0 };
	name_days(t);
	p->is_trim_refused = false;
	trim.days = t->days;
	trim.day_count = t->day_count;
	if (day && !day->is_going && day->base < p->start)
		trim.day = day->day;
	store_log_trim(p->env->store, p->keys, &trim, on_trimmed, t);
}

bool partition_trim_failed(const struct partition *p)
{
	return p->is_trim_refused;
}

static void move_start(struct partition *p, uint64_t start)
{
	const struct record_batch *first;

	p->start = start;
	while ((first = tail_first(&p->tail)) != NULL && first->end <= start)
		tail_drop_first(p);
	if (!p->keys)
		p->first_position = first ? first->position : p->position;
	p->env->ops->on_news(p);
}

void partition_trim(struct partition *p, uint64_t start, store_done_fn on_done, void *ctx)
{
	bool has_more;

	if (start > p->readable)
		start = p->readable;
	has_more = start > p->start && !p->is_closed;
	if (has_more)
		move_start(p, start);
	if (p->keys && !p->is_closed && (has_more || p->is_trim_refused))
		send_trim(p, on_done, ctx);
	else
		partition_done_later(p, on_done, ctx);
}
