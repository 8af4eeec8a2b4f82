#include "publish_ids.h"

#include <assert.h>

#include "base/bytes.h"
#include "base/container.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/msg.h"
#include "host/log.h"

#define ALLOC_OVERHEAD 16 /* of malloc, about */

void dedupe_table_init(struct dedupe_table *t, enum dedupe_table_kind kind)
{
	*t = (struct dedupe_table){ .kind = kind };
	TAILQ_INIT(&t->ages);
	TAILQ_INIT(&t->leaving);
}

static size_t record_size(const struct dedupe_table *t, size_t len)
{
	size_t offset = t->kind == DEDUPE_TABLE_OFFSETS ? sizeof(uint64_t) : 0;

	return sizeof(struct dedupe_record) + len + offset;
}

/* The cost of a record with an id of that length, its part of the table included. */
static size_t dedupe_table_record_bytes(const struct dedupe_table *t, size_t len)
{
	size_t bytes = record_size(t, len) + ALLOC_OVERHEAD + sizeof(void *);

	return t->kind == DEDUPE_TABLE_MESSAGES ? bytes + ID_TABLE_ITEM_BYTES : bytes;
}

static uint32_t hash_key(const struct dedupe_key *key)
{
	return bytes_hash(key->publish_id.data, key->publish_id.len) + key->copy;
}

static size_t hash_record(const struct growing_item *item)
{
	return ((const struct dedupe_record *)item)->hash;
}

struct dedupe_record *dedupe_table_find(const struct dedupe_table *t,
					const struct dedupe_key *key)
{
	uint32_t hash = hash_key(key);
	struct growing_item *i = growing_first(&t->records, hash);

	for (; i; i = i->chain) {
		struct dedupe_record *r = (struct dedupe_record *)i;

		if (r->hash == hash && r->copy == key->copy &&
		    slice_is_equal(dedupe_record_id(r), key->publish_id))
			return r;
	}
	return NULL;
}

struct dedupe_record *dedupe_table_add(struct dedupe_table *t,
				       const struct dedupe_key *key, uint64_t msg_id,
				       bool is_leaving)
{
	size_t len = key->publish_id.len;
	struct dedupe_record *r = mem_zalloc(record_size(t, len));

	assert(len > 0 && len <= MSG_DEDUPE_ID_MAX);
	r->len = (uint8_t)len;
	r->msg_id = msg_id;
	r->copy = (uint16_t)key->copy;
	memcpy(r->publish_id, key->publish_id.data, len);
	r->hash = hash_key(key);
	r->is_leaving = is_leaving;
	if (is_leaving) {
		TAILQ_INSERT_TAIL(&t->leaving, r, age_link);
	} else {
		growing_add(&t->records, &r->item, hash_record);
		TAILQ_INSERT_TAIL(&t->ages, r, age_link);
	}
	if (t->kind == DEDUPE_TABLE_MESSAGES)
		id_table_add(&t->messages, msg_id, r);
	return r;
}

struct dedupe_record *dedupe_table_of_message(const struct dedupe_table *t,
					      uint64_t msg_id)
{
	return id_table_find(&t->messages, msg_id);
}

static void unlink_key(struct dedupe_table *t, struct dedupe_record *r)
{
	growing_remove(&t->records, &r->item, hash_record);
	TAILQ_REMOVE(&t->ages, r, age_link);
}

void dedupe_table_leave(struct dedupe_table *t, struct dedupe_record *r)
{
	unlink_key(t, r);
	r->is_leaving = true;
	TAILQ_INSERT_TAIL(&t->leaving, r, age_link);
}

void dedupe_table_remove(struct dedupe_table *t, struct dedupe_record *r)
{
	if (r->is_leaving)
		TAILQ_REMOVE(&t->leaving, r, age_link);
	else
		unlink_key(t, r);
	if (t->kind == DEDUPE_TABLE_MESSAGES)
		id_table_remove(&t->messages, r->msg_id);
	mem_free(r);
}

#define READ_ROWS 4096
#define TRIM_ROWS 4096
#define REST_MS 1000 /* between two rounds of an owner, so that a round is worth it */

void publish_ids_init(struct publish_ids *ids, struct publish_ids_env *env,
		      const struct publish_ids_ops *ops, enum dedupe_table_kind kind)
{
	*ids = (struct publish_ids){ .env = env, .ops = ops, .refs = 1 };
	ids->is_queued = kind == DEDUPE_TABLE_MESSAGES;
	dedupe_table_init(&ids->table, kind);
}

static void unref(struct publish_ids *ids)
{
	if (--ids->refs == 0)
		ids->ops->free(ids);
}

struct publish_ids_wait {
	struct waiter *waiter;
	struct publish_ids_wait *next;
};

void publish_ids_wait_for(struct publish_ids_wait **waits, struct waiter *waiter)
{
	struct publish_ids_wait *wait;

	if (!waiter)
		return;
	waiter_add(waiter);
	wait = mem_alloc(sizeof(*wait));
	*wait = (struct publish_ids_wait){ waiter, *waits };
	*waits = wait;
}

void publish_ids_tell(struct publish_ids_wait *waits, int status, const char *text)
{
	for (struct publish_ids_wait *wait = waits, *next; wait; wait = next) {
		next = wait->next;
		waiter_done(wait->waiter, status, text);
		mem_free(wait);
	}
}

void publish_ids_drop(struct publish_ids *ids)
{
	ids->is_dropped = true;
	heap_remove(&ids->env->due, &ids->due);
	TAILQ_INSERT_TAIL(&ids->env->dropped, ids, dropped_link);
}

static struct store_shard *keys_of(const struct publish_ids *ids, unsigned part)
{
	return ids->is_dropped ? NULL : ids->ops->keys(ids, part);
}

bool publish_ids_is_unused(const struct publish_ids *ids)
{
	return ids->table.records.count == 0 && !ids->stale && !ids->trimming;
}

/* ---- records */

/* Over, and nobody waits for what becomes of it. */
static bool is_over(const struct dedupe_record *r, int64_t now_ms)
{
	return r->until_unix_ms <= now_ms && !r->pending;
}

struct dedupe_record *publish_ids_find(const struct publish_ids *ids,
				       const struct dedupe_key *key)
{
	struct dedupe_record *r = dedupe_table_find(&ids->table, key);

	return r && !is_over(r, ids->env->env->now_ms) ? r : NULL;
}

/* Of a record that has just entered the table. */
static struct dedupe_record *remember(struct publish_ids *ids, struct dedupe_record *r,
				      unsigned part, int64_t until_unix_ms)
{
	r->until_unix_ms = until_unix_ms;
	r->shard = (uint8_t)part;
	ids->env->bytes += dedupe_table_record_bytes(&ids->table, r->len);
	if (!heap_has(&ids->due) && !ids->is_queued)
		heap_set(&ids->env->due, &ids->due, until_unix_ms + REST_MS);
	return r;
}

struct dedupe_record *publish_ids_add(struct publish_ids *ids,
				      const struct dedupe_key *key, uint64_t msg_id,
				      unsigned part, int64_t window_ms)
{
	struct dedupe_record *r = dedupe_table_find(&ids->table, key);
	int64_t end_ms = ids->env->env->now_ms + window_ms;

	if (r)
		publish_ids_forget(ids, r); /* it is over */
	return remember(ids, dedupe_table_add(&ids->table, key, msg_id, false), part,
			ids->is_queued ? PUBLISH_IDS_QUEUED_MS : end_ms);
}

void publish_ids_forget(struct publish_ids *ids, struct dedupe_record *r)
{
	if (!ids->is_queued && keys_of(ids, r->shard))
		ids->stale |= UINT64_C(1) << r->shard;
	ids->env->bytes -= dedupe_table_record_bytes(&ids->table, r->len);
	dedupe_table_remove(&ids->table, r);
}

struct store_seen publish_ids_seen(const struct publish_ids *ids,
				   const struct dedupe_record *r)
{
	bool has_offset = ids->table.kind == DEDUPE_TABLE_OFFSETS;

	return (struct store_seen){
		.publish_id = dedupe_record_id(r),
		.msg_id = r->msg_id,
		.copy = r->copy,
		.has_offset = has_offset,
		.offset = has_offset ? dedupe_record_offset(r) : 0,
		.until_unix_ms = r->until_unix_ms,
	};
}

void publish_ids_remove(struct publish_ids *ids, unsigned part,
			struct dedupe_record **records, size_t count)
{
	struct store_seen *seen;

	if (count == 0)
		return;
	seen = mem_alloc(count * sizeof(*seen));
	for (size_t i = 0; i < count; i++)
		seen[i] = publish_ids_seen(ids, records[i]);
	store_dedupe_remove(ids->env->env->store, keys_of(ids, part), seen, count, NULL,
			    NULL);
	for (size_t i = 0; i < count; i++)
		publish_ids_forget(ids, records[i]);
	mem_free(seen);
}

/* ---- room */

size_t publish_ids_wanted(const struct publish_ids *ids, const struct dedupe_key *key)
{
	return publish_ids_find(ids, key)
		       ? 0
		       : dedupe_table_record_bytes(&ids->table, key->publish_id.len);
}

static bool has_room(const struct publish_ids_env *env, size_t bytes)
{
	return bytes == 0 ||
	       (env->bytes <= env->max_bytes && bytes <= env->max_bytes - env->bytes);
}

int publish_ids_admit(const struct publish_ids_env *env, size_t bytes, struct error *err)
{
	if (has_room(env, bytes))
		return TIDE_OK;
	return error_set(err, TIDE_EFULL,
			 "remembered publish ids fill their limit of %zu KiB "
			 "(--max-dedupe-bytes); room returns as their windows end, or as "
			 "their messages leave queues with dedupe=queued",
			 env->bytes >> 10);
}

bool publish_ids_is_pending(const struct publish_ids *ids, const struct dedupe_key *key)
{
	const struct dedupe_record *seen = publish_ids_find(ids, key);

	return seen && seen->pending;
}

static void explain_first(const struct publish_ids *ids, const struct dedupe_record *r,
			  struct json *j)
{
	json_member_hex(j, "first", r->msg_id);
	if (ids->table.kind == DEDUPE_TABLE_OFFSETS) {
		json_member_int(j, "first_partition", r->shard);
		json_member_int(j, "first_offset", (int64_t)dedupe_record_offset(r));
	}
	if (!ids->is_queued)
		json_member_int(j, "remembered_until", r->until_unix_ms);
}

void publish_ids_explain(const struct publish_ids *ids, const struct dedupe_key *key,
			 int64_t window_ms, struct json *j)
{
	const struct dedupe_record *seen = publish_ids_find(ids, key);

	if (window_ms == 0)
		json_member_text(j, "dedupe", "off");
	else if (seen)
		json_member_text(j, "dedupe", "duplicate");
	else if (has_room(ids->env,
			  dedupe_table_record_bytes(&ids->table, key->publish_id.len)))
		json_member_text(j, "dedupe", "new");
	else
		json_member_text(j, "dedupe", "full");
	if (ids->is_queued)
		json_member_text(j, "dedupe_window", "queued");
	else
		json_member_int(j, "dedupe_window", window_ms);
	if (window_ms > 0 && seen)
		explain_first(ids, seen, j);
}

size_t publish_ids_count(const struct publish_ids *ids)
{
	return ids->table.records.count;
}

/* ---- recovery */

struct publish_ids_recovery {
	struct publish_ids *ids;
	unsigned part;
	struct waiter *waiter;
	int64_t start;
	bool is_last;
	uint64_t *msgs; /* of ids with is_queued: of the rows that were read */
};

static struct dedupe_record *add_row(struct publish_ids *ids, unsigned part,
				     const struct store_seen *row, bool is_leaving)
{
	const struct dedupe_key key = { row->publish_id, row->copy };
	struct dedupe_record *r =
		dedupe_table_add(&ids->table, &key, row->msg_id, is_leaving);

	if (ids->table.kind == DEDUPE_TABLE_OFFSETS)
		dedupe_record_set_offset(r, row->offset);
	return remember(ids, r, part, row->until_unix_ms);
}

static void recover_row(struct publish_ids *ids, unsigned part,
			const struct store_seen *row)
{
	const struct dedupe_key key = { row->publish_id, row->copy };
	int64_t now_ms = ids->env->env->now_ms;
	struct dedupe_record *r;

	if (row->until_unix_ms <= now_ms) {
		ids->stale |= UINT64_C(1) << part;
		heap_set(&ids->env->due, &ids->due, now_ms);
		return;
	}
	r = dedupe_table_find(&ids->table, &key);
	if (r && r->until_unix_ms >= row->until_unix_ms)
		return;
	if (r)
		publish_ids_forget(ids, r);
	add_row(ids, part, row, false);
}

/* Two messages may have one publish id: the older was done with before the newer came,
 * and only its removal is missing in Redis. */
static void recover_queued_row(struct publish_ids *ids, unsigned part,
			       const struct store_seen *row)
{
	const struct dedupe_key key = { row->publish_id, row->copy };
	struct dedupe_record *older = dedupe_table_find(&ids->table, &key), *r;
	bool is_older = older && older->msg_id > row->msg_id;

	if (older && !is_older)
		dedupe_table_leave(&ids->table, older);
	r = add_row(ids, part, row, is_older);
	if (older)
		ids->ops->on_older(ids, is_older ? r : older);
}

static void recovery_next(struct publish_ids_recovery *r);

static void recovery_end(struct publish_ids_recovery *r, int status, const char *text)
{
	waiter_done(r->waiter, status, text);
	unref(r->ids);
	mem_free(r->msgs);
	mem_free(r);
}

/* An id whose message is gone is left of a removal that a crash has cut short. */
static void on_has(void *ctx, int status, const bool *found, unsigned count)
{
	struct publish_ids_recovery *r = ctx;
	struct dedupe_record **gone;
	size_t gone_count = 0;

	if (status < 0 || r->ids->is_dropped) {
		recovery_end(r, status, NULL);
		return;
	}
	gone = mem_alloc(count * sizeof(struct dedupe_record *));
	for (unsigned i = 0; i < count; i++)
		if (!found[i] && (gone[gone_count] = dedupe_table_of_message(
					  &r->ids->table, r->msgs[i])) != NULL)
			gone_count++;
	publish_ids_remove(r->ids, r->part, gone, gone_count);
	mem_free(gone);
	recovery_next(r);
}

static void on_rows(void *ctx, int status, const char *text,
		    const struct store_seen *rows, size_t count, size_t total)
{
	struct publish_ids_recovery *r = ctx;

	if (status < 0 || r->ids->is_dropped) {
		recovery_end(r, status, text);
		return;
	}
	r->start += (int64_t)total;
	r->is_last = total < READ_ROWS;
	for (size_t i = 0; i < count; i++)
		if (r->msgs) {
			recover_queued_row(r->ids, r->part, &rows[i]);
			r->msgs[i] = rows[i].msg_id;
		} else {
			recover_row(r->ids, r->part, &rows[i]);
		}
	if (r->msgs && count > 0)
		store_read_has(r->ids->env->env->store, keys_of(r->ids, r->part), r->msgs,
			       (unsigned)count, on_has, r);
	else
		recovery_next(r);
}

static void recovery_next(struct publish_ids_recovery *r)
{
	struct store_shard *keys = keys_of(r->ids, r->part);

	if (keys && !r->is_last)
		store_dedupe_read(r->ids->env->env->store, keys, r->start, READ_ROWS,
				  on_rows, r);
	else
		recovery_end(r, TIDE_OK, NULL);
}

void publish_ids_recover(struct publish_ids *ids, unsigned part, struct waiter *waiter)
{
	struct publish_ids_recovery *r = mem_zalloc(sizeof(*r));

	r->ids = ids;
	r->part = part;
	r->waiter = waiter;
	if (ids->is_queued)
		r->msgs = mem_alloc(READ_ROWS * sizeof(*r->msgs));
	ids->refs++;
	waiter_add(waiter);
	recovery_next(r);
}

/* ---- forgetting */

struct publish_ids_trim {
	struct publish_ids *ids;
	unsigned part;
};

static void on_trimmed(void *ctx, int status, const char *text, uint64_t removed)
{
	struct publish_ids_trim *t = ctx;
	struct publish_ids *ids = t->ids;
	uint64_t bit = UINT64_C(1) << t->part;

	ids->trimming &= ~bit;
	if (status < 0 && status != TIDE_ESHUTDOWN)
		log_warn("cannot remove expired publish ids from Redis: %s", text);
	if (status < 0 || removed >= TRIM_ROWS)
		ids->stale |= bit;
	if ((ids->stale & bit) && !ids->is_dropped)
		heap_set(&ids->env->due, &ids->due,
			 ids->env->env->now_ms + (status < 0 ? REST_MS : 0));
	unref(ids);
	mem_free(t);
}

/* Ids that memory has forgotten leave Redis too, in pieces. */
static void trim(struct publish_ids *ids, unsigned part)
{
	struct store_shard *keys = keys_of(ids, part);
	struct publish_ids_trim *t;

	ids->stale &= ~(UINT64_C(1) << part);
	if (!keys)
		return;
	t = mem_alloc(sizeof(*t));
	*t = (struct publish_ids_trim){ ids, part };
	ids->refs++;
	ids->trimming |= UINT64_C(1) << part;
	store_dedupe_trim(ids->env->env->store, keys, ids->env->env->now_ms, TRIM_ROWS,
			  on_trimmed, t);
}

static void trim_all(struct publish_ids *ids)
{
	uint64_t left = ids->stale & ~ids->trimming;

	for (; left; left &= left - 1)
		trim(ids, (unsigned)__builtin_ctzll(left));
}

static void set_due(struct publish_ids *ids, bool is_cut_short)
{
	const struct dedupe_record *r = dedupe_table_oldest(&ids->table);
	int64_t now_ms = ids->env->env->now_ms;
	int64_t due_ms = now_ms;

	if (!r) {
		heap_remove(&ids->env->due, &ids->due);
		return;
	}
	/* One that is pending yet, though its time is over, keeps those behind it. */
	if (!is_cut_short)
		due_ms =
			REST_MS + (r->until_unix_ms > now_ms ? r->until_unix_ms : now_ms);
	heap_set(&ids->env->due, &ids->due, due_ms);
}

static void forget_due(struct publish_ids *ids, unsigned *budget)
{
	int64_t now_ms = ids->env->env->now_ms;
	struct dedupe_record *r;

	while ((r = dedupe_table_oldest(&ids->table)) != NULL && is_over(r, now_ms) &&
	       *budget > 0) {
		(*budget)--;
		publish_ids_forget(ids, r);
	}
	trim_all(ids);
	/* Owners cost something too, however little they have to forget. */
	set_due(ids, *budget == 0);
	if (*budget > 0)
		(*budget)--;
}

void publish_ids_free_dropped(struct publish_ids_env *env, unsigned *budget)
{
	struct publish_ids *ids;
	struct dedupe_record *r;

	while ((ids = TAILQ_FIRST(&env->dropped)) != NULL && *budget > 0) {
		while (((r = dedupe_table_oldest(&ids->table)) != NULL ||
			(r = TAILQ_FIRST(&ids->table.leaving)) != NULL) &&
		       *budget > 0) {
			(*budget)--;
			publish_ids_forget(ids, r);
		}
		if (r)
			return;
		TAILQ_REMOVE(&env->dropped, ids, dropped_link);
		unref(ids);
	}
}

void publish_ids_turn(struct publish_ids_env *env, unsigned *budget)
{
	struct heap_node *n;

	while ((n = heap_min(&env->due)) != NULL && n->key <= env->env->now_ms &&
	       *budget > 0)
		forget_due(container_of(n, struct publish_ids, due), budget);
	publish_ids_free_dropped(env, budget);
}

int64_t publish_ids_due_ms(const struct publish_ids_env *env)
{
	const struct heap_node *n = heap_min(&env->due);

	if (!TAILQ_EMPTY(&env->dropped))
		return env->env->now_ms;
	return n ? n->key : 0;
}
