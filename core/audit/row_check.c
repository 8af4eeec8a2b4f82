#include "row_check.h"

#include <stdlib.h>

#include "entry_value.h"
#include "log/record.h"
#include "shard/dedupe.h"
#include "store/codec.h"
#include "store/store.h"

struct check {
	struct damage_key *key;
	struct store_walk_row row;
	row_check_fn on_damage;
	void *ctx;
};

static void tell(const struct check *c, enum damage_kind kind, const char *detail,
		 double score)
{
	struct damage *d = damage_create(kind, c->key, c->row.member, detail);

	d->score = score;
	d->found = c->row.found;
	c->on_damage(c->ctx, d);
}

static void tell_found(const struct check *c, enum damage_kind kind, double score)
{
	if (damage_is_in_row(kind, c->key->name.key, c->row.found))
		tell(c, kind, NULL, score);
}

static void check_message(struct check *c, uint64_t id)
{
	const struct msg known = { .id = id };
	struct msg *m = NULL;
	double rank = 0;
	struct error err;
	int rc = codec_decode(c->row.value, &known, &m, &rank, &err);

	if (rc < 0)
		tell(c, DAMAGE_VALUE, err.text, 0);
	c->row.found |= 1u << LAYOUT_MSG;
	tell_found(c, DAMAGE_LOST, rc < 0 ? 0 : rank);
	tell_found(c, DAMAGE_SETS, 0);
	if (rc == TIDE_OK && m->expires_unix_ms > 0)
		tell_found(c, DAMAGE_EXPIRY, (double)m->expires_unix_ms);
	msg_unref(m);
}

static void check_publish_id(const struct check *c)
{
	struct store_seen seen;

	if (store_dedupe_parse_member(c->row.member, &seen) < 0)
		tell(c, DAMAGE_VALUE, "should be <message id> <publish id>", 0);
	else if (strtod(c->row.value.data, NULL) >= (double)PUBLISH_IDS_QUEUED_MS)
		tell_found(c, DAMAGE_GONE, 0);
}

static void check_member(struct check *c)
{
	enum layout_key key = c->key->name.key;
	uint64_t id;

	if (key == LAYOUT_DEDUPE)
		check_publish_id(c);
	else if (id_parse(c->row.member, &id) < 0)
		tell(c, DAMAGE_VALUE, "should be an id: 16 hex digits", 0);
	else if (key == LAYOUT_MSG)
		check_message(c, id);
	else
		tell_found(c, DAMAGE_GONE, 0);
}

static void check_batch(struct check *c)
{
	struct slice bytes = c->row.member;
	struct record_batch *batch = NULL;
	struct error err;
	uint64_t base;

	c->row.member = c->row.value; /* what is said names the offset, not the bytes */
	if (!slice_to_uint(c->row.value, UINT64_MAX, &base))
		tell(c, DAMAGE_VALUE, "the score should be an offset", 0);
	else if (record_open(bytes, &batch, &err) < 0)
		tell(c, DAMAGE_VALUE, err.text, 0);
	else if (batch->base != base)
		tell(c, DAMAGE_VALUE, "the batch has another offset", 0);
	else
		c->on_damage(c->ctx, damage_create_batch(c->key, c->row.member, base,
							 batch->end));
	record_batch_unref(batch);
}

static void check_topic(const struct check *c)
{
	tell(c, DAMAGE_TOPIC_NAME, NULL, 0);
	c->on_damage(c->ctx,
		     damage_create_topic_set(c->key, c->row.member, c->row.value));
}

static void check_entry(const struct check *c)
{
	const struct layout_name *name = &c->key->name;
	bool is_table = name->kind == LAYOUT_TABLE;
	struct error err;

	if (entry_value_check(name, &c->row, &err) < 0)
		tell(c, DAMAGE_VALUE, err.text, 0);
	else if (is_table && name->table == STORE_BINDINGS)
		tell(c, DAMAGE_BINDING, NULL, 0);
	else if (is_table && name->table == STORE_PAUSES)
		tell(c, DAMAGE_PAUSE, NULL, 0);
	else if (is_table && name->table == STORE_TOPICS)
		check_topic(c);
	else if (name->kind == LAYOUT_TOPICS || name->kind == LAYOUT_TOPIC)
		tell(c, DAMAGE_TOPIC, NULL, 0);
}

void row_check(struct damage_key *key, const struct store_walk_row *row,
	       row_check_fn on_damage, void *ctx)
{
	struct check c = { key, *row, on_damage, ctx };

	if (layout_has_ids(&key->name))
		check_member(&c);
	else if (key->name.kind == LAYOUT_PARTITION &&
		 key->name.partition_key == LAYOUT_DAY)
		check_batch(&c);
	else
		check_entry(&c);
}
