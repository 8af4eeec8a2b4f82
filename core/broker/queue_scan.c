#include "queue_scan.h"

#include "base/container.h"
#include "base/mem.h"
#include "queue.h"

#define CHUNK_ROWS 128                /* read at a time, of all shards */
#define CHUNK_ROWS_MIN 8              /* of each */
#define CHUNK_BYTES ((size_t)8 << 20) /* likewise */
#define HEAVY_BYTES 16384             /* a message that takes long to search by itself */

static void on_job(struct job *job);

static void on_filled(struct shard_scan *shard)
{
	struct queue_scan *scan = shard->ctx;

	if (shard->err.code < 0 && scan->err.code == TIDE_OK)
		scan->err = shard->err;
	if (--scan->asking == 0)
		job_add(scan->broker, &scan->job);
}

void queue_scan_init(struct queue_scan *scan, const struct queue *q,
		     enum entry_state state, unsigned rows)
{
	unsigned chunk = CHUNK_ROWS / (q->shard_count ? q->shard_count : 1);

	if (chunk > rows)
		chunk = rows;
	if (chunk < CHUNK_ROWS_MIN)
		chunk = rows < CHUNK_ROWS_MIN ? rows : CHUNK_ROWS_MIN;
	scan->job = (struct job){ .run = on_job };
	scan->broker = q->vhost->broker;
	scan->shard_count = q->shard_count;
	scan->chunk_bytes = CHUNK_BYTES / (q->shard_count ? q->shard_count : 1);
	scan->shards = mem_zalloc((q->shard_count + 1) * sizeof(*scan->shards));
	for (unsigned i = 0; i < q->shard_count; i++) {
		scan->shards[i].on_filled = on_filled;
		scan->shards[i].ctx = scan;
		shard_scan_init(&scan->shards[i], q->shards[i], state, chunk);
	}
}

void queue_scan_deinit(struct queue_scan *scan)
{
	for (unsigned i = 0; i < scan->shard_count; i++)
		shard_scan_deinit(&scan->shards[i]);
	mem_free(scan->shards);
}

/* The shard whose next row comes first; NULL: none has one, or one has to be read before
 * it is known (`*unread`). */
static struct shard_scan *first_shard(struct queue_scan *scan, bool *unread)
{
	struct shard_scan *first = NULL;

	*unread = false;
	for (unsigned i = 0; i < scan->shard_count; i++) {
		struct shard_scan *shard = &scan->shards[i];
		enum shard_scan_result result = SHARD_SCAN_ROWS;

		if (!shard_scan_row(shard))
			result = shard_scan_fill(shard, scan->chunk_bytes);
		scan->asking += result == SHARD_SCAN_ASKED;
		*unread |= result == SHARD_SCAN_ASKED || result == SHARD_SCAN_AGAIN;
		if (result == SHARD_SCAN_ROWS &&
		    (!first ||
		     place_is_before(place_of_row(&shard_scan_row(shard)->row),
				     place_of_row(&shard_scan_row(first)->row))))
			first = shard;
	}
	return *unread ? NULL : first;
}

/* Look at the next message. Does the search go on? */
static bool look(struct queue_scan *scan, struct shard_scan *shard)
{
	const struct shard_row *next = shard_scan_row(shard);
	const struct store_row *row = &next->row;
	const struct error *failure;
	bool goes_on = true;

	scan->next = (struct place){ row->score, row->id + 1 };
	scan->searched++;
	if (row->msg) {
		scan->bytes += row->msg->bytes;
		if (msg_match_has(scan->match, row->msg, row->failures + 1))
			goes_on = scan->ops->on_match(scan, shard->shard, next);
		failure = msg_match_error(scan->match);
		if (failure)
			scan->err = *failure;
	}
	shard_scan_take(shard);
	return goes_on && scan->searched < QUEUE_SCAN_MESSAGES_MAX &&
	       scan->bytes < QUEUE_SCAN_BYTES_MAX;
}

static bool is_whole(const struct queue_scan *scan)
{
	for (unsigned i = 0; i < scan->shard_count; i++)
		if (!scan->shards[i].is_end || shard_scan_row(&scan->shards[i]))
			return false;
	return true;
}

static void run(struct queue_scan *scan)
{
	struct pace *pace = &scan->broker->pace;
	struct shard_scan *shard;
	bool unread;

	for (unsigned i = 0; i < scan->shard_count; i++)
		shard_scan_renew(&scan->shards[i]);
	while (scan->err.code == TIDE_OK && !scan->broker->is_closing) {
		size_t before = scan->bytes;

		shard = first_shard(scan, &unread);
		if (scan->asking > 0)
			return; /* the answer of the last one goes on */
		if (!shard && !unread) {
			scan->is_whole = true;
			break;
		}
		if (shard && !look(scan, shard)) {
			scan->is_whole = is_whole(scan);
			break;
		}
		if (pace_is_spent(pace, unread || scan->match->script ||
						scan->bytes - before > HEAVY_BYTES)) {
			job_add(scan->broker, &scan->job);
			return;
		}
	}
	if (scan->broker->is_closing && scan->err.code == TIDE_OK)
		error_set(&scan->err, TIDE_ESHUTDOWN, "the broker is stopping");
	scan->ops->on_end(scan);
}

static void on_job(struct job *job)
{
	run(container_of(job, struct queue_scan, job));
}

void queue_scan_begin(struct queue_scan *scan, struct place from)
{
	scan->next = from;
	for (unsigned i = 0; i < scan->shard_count; i++)
		scan->shards[i].from = from;
	run(scan);
}
