#include "damage.h"

#include <stdlib.h>

#include "access/user.h"
#include "broker/config.h"
#include "broker/vhost.h"
#include "log/record.h"
#include "shard/dedupe.h"
#include "store/codec.h"
#include "store/store.h"

/* The form of a row of a key without ids: words with a space between them.
 *
 *   N        a number
 *   D        a day
 *   W        a word
 *   a|b      one of these
 *   *        anything, or nothing, to the end */
static const struct form {
	enum layout_kind kind;
	int key; /* a partition_key, a table or a document; 0 for other kinds */
	const char *member, *value;
	const char *should;
} forms[] = {
	{ LAYOUT_SHARD, 0, "before|after", "N N",
	  "before|after, with <messages> <bytes>" },
	{ LAYOUT_PARTITION, LAYOUT_GROUPS, "*", "N", "an offset" },
	{ LAYOUT_PARTITION, LAYOUT_STATE, "start|largest", "N",
	  "start|largest, with a number, or a day, with <offset> <position> <time>" },
	{ LAYOUT_PARTITION, LAYOUT_STATE, "D", "N N N", NULL },
	{ LAYOUT_TABLE, STORE_BINDINGS, "queue|exchange W W W *", "*",
	  "queue|exchange DESTINATION EXCHANGE PATTERN ..." },
	{ LAYOUT_TABLE, STORE_PAUSES, "in|out W *", "N",
	  "in|out QUEUE or group TOPIC GROUP, with a time" },
	{ LAYOUT_TABLE, STORE_PAUSES, "group W W", "N", NULL },
	{ LAYOUT_TABLE, STORE_LOCKS, "*", "N N", "<token> <ttl in ms>" },
	{ LAYOUT_TABLE, STORE_VHOST_OPTIONS, "W", VHOST_ON_DEMAND, VHOST_ON_DEMAND },
	{ LAYOUT_TOPIC, 0, "N", "*", "the number of a partition" },
	{ LAYOUT_DOCUMENT, LAYOUT_COMMITS, "W N", "*",
	  "<time>-<number> <slot>, with commands" },
	{ LAYOUT_DOCUMENT, LAYOUT_IDS, "*", "N", "a time in ms" },
	{ LAYOUT_DOCUMENT, LAYOUT_SCHEDULE, "*", "N *", "the time of a tick" },
	{ LAYOUT_DOCUMENT, LAYOUT_LOG, "N", "*", "a number" },
};

static bool fits_word(struct slice word, struct slice pattern)
{
	uint64_t n;
	uint32_t day;

	if (slice_is(pattern, "N"))
		return slice_to_uint(word, UINT64_MAX, &n);
	if (slice_is(pattern, "D"))
		return layout_read_day(word, &day);
	if (slice_is(pattern, "W"))
		return word.len > 0;
	while (pattern.len > 0)
		if (slice_is_equal(slice_cut(&pattern, '|'), word))
			return true;
	return false;
}

static bool fits_form(struct slice text, const char *pattern)
{
	struct slice patterns = slice_from(pattern), word;

	while (patterns.len > 0) {
		word = slice_cut(&patterns, ' ');
		if (slice_is(word, "*"))
			return true;
		if (!fits_word(slice_cut(&text, ' '), word))
			return false;
	}
	return text.len == 0;
}

static int check_form(const struct layout_name *name, const struct store_walk_row *row,
		      struct error *err)
{
	int key = name->kind == LAYOUT_PARTITION  ? (int)name->partition_key
		  : name->kind == LAYOUT_TABLE    ? (int)name->table
		  : name->kind == LAYOUT_DOCUMENT ? (int)name->document
						  : 0;
	const char *should = NULL;

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		const struct form *f = &forms[i];

		if (f->kind != name->kind || f->key != key)
			continue;
		if (fits_form(row->member, f->member) && fits_form(row->value, f->value))
			return TIDE_OK;
		should = should ? should : f->should;
	}
	return should ? error_set(err, TIDE_ESYNTAX, "should be %s", should) : TIDE_OK;
}

/* Options of an exchange or, behind its words, of a binding. */
static int check_args(struct slice text, const char *needed, const char *should,
		      struct error *err)
{
	struct args args;
	bool is_good = args_parse(&args, text) == TIDE_OK;

	if (is_good) {
		is_good = !needed || args_get(&args, needed);
		args_deinit(&args);
	}
	return is_good ? TIDE_OK : error_set(err, TIDE_ESYNTAX, "should be %s", should);
}

/* Of a queue or a topic. */
static int check_config(struct slice value, enum config_kind kind, struct error *err)
{
	struct config config;
	struct args args;
	int rc;

	if (args_parse(&args, value) < 0)
		return error_set(err, TIDE_ESYNTAX, "should be name=value ...");
	rc = config_parse(&config, kind, &args, err);
	if (rc == TIDE_OK)
		config_deinit(&config);
	args_deinit(&args);
	return rc;
}

/* A user's error must not show a password. */
static int check_user(const struct store_walk_row *row, struct error *err)
{
	struct user *u;
	int rc = user_parse(row->member, row->value, &u, err);

	if (rc == TIDE_OK)
		user_unref(u);
	return rc;
}

static int check_shared(const struct store_walk_row *row, struct error *err)
{
	struct slice rest = row->value, expiry = slice_cut(&rest, ' ');
	bool is_name = row->member.len > 1 && row->member.data[1] == ':' &&
		       memchr("kcb", row->member.data[0], 3);

	if (is_name && fits_form(expiry, "N") && rest.len > 0 &&
	    memchr("sinb", rest.data[0], 4))
		return TIDE_OK;
	return error_set(
		err, TIDE_ESYNTAX,
		"should be k:, c: or b: and a name, with <expiry> <type><value>");
}

/* A row of a key without ids: TIDE_OK, or TIDE_ESYNTAX and what it should be. */
static int check_value(const struct layout_name *name, const struct store_walk_row *row,
		       struct error *err)
{
	bool is_table = name->kind == LAYOUT_TABLE;
	struct slice rest = row->member;
	int rc = check_form(name, row, err);

	if (rc < 0)
		return rc;
	if (name->kind == LAYOUT_DOCUMENT && name->document == LAYOUT_SHARED)
		return check_shared(row, err);
	if (is_table && name->table == STORE_QUEUES)
		return check_config(row->value, CONFIG_QUEUE, err);
	if (is_table && name->table == STORE_TOPICS)
		return check_config(row->value, CONFIG_TOPIC, err);
	if (is_table && name->table == STORE_USERS)
		return check_user(row, err);
	if (is_table && name->table == STORE_EXCHANGES)
		return check_args(row->value, "type", "type=... name=value ...", err);
	if (!is_table || name->table != STORE_BINDINGS)
		return TIDE_OK;
	for (int i = 0; i < 4; i++)
		slice_cut(&rest, ' ');
	return check_args(rest, NULL, "queue|exchange DESTINATION EXCHANGE PATTERN ...",
			  err);
}

struct check {
	struct damage_key *key;
	struct store_walk_row row;
	row_check_fn on_damage;
	void *ctx;
};

static void tell_damage(const struct check *c, enum damage_kind kind, const char *detail,
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
		tell_damage(c, kind, NULL, score);
}

static void check_message(struct check *c, uint64_t id)
{
	const struct msg known = { .id = id };
	struct msg *m = NULL;
	double rank = 0;
	struct error err;
	int rc = codec_decode(c->row.value, &known, &m, &rank, &err);

	if (rc < 0)
		tell_damage(c, DAMAGE_VALUE, err.text, 0);
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
		tell_damage(c, DAMAGE_VALUE, "should be <message id> <publish id>", 0);
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
		tell_damage(c, DAMAGE_VALUE, "should be an id: 16 hex digits", 0);
	else if (key == LAYOUT_MSG)
		check_message(c, id);
	else
		tell_found(c, DAMAGE_GONE, 0);
}

static void tell_batch(const struct check *c, const struct record_batch *batch)
{
	struct damage *d = damage_create(DAMAGE_BATCH, c->key, c->row.member, NULL);

	d->first = batch->base;
	d->end = batch->end;
	c->on_damage(c->ctx, d);
}

static void check_batch(struct check *c)
{
	struct slice bytes = c->row.member;
	struct record_batch *batch = NULL;
	struct error err;
	uint64_t base;

	c->row.member = c->row.value; /* what is said names the offset, not the bytes */
	if (!slice_to_uint(c->row.value, UINT64_MAX, &base))
		tell_damage(c, DAMAGE_VALUE, "the score should be an offset", 0);
	else if (record_open(bytes, &batch, &err) < 0)
		tell_damage(c, DAMAGE_VALUE, err.text, 0);
	else if (batch->base != base)
		tell_damage(c, DAMAGE_VALUE, "the batch has another offset", 0);
	else
		tell_batch(c, batch);
	record_batch_unref(batch);
}

static void check_topic(const struct check *c)
{
	tell_damage(c, DAMAGE_TOPIC_NAME, NULL, 0);
	c->on_damage(c->ctx,
		     damage_create_topic_set(c->key, c->row.member, c->row.value));
}

static void check_entry(const struct check *c)
{
	const struct layout_name *name = &c->key->name;
	bool is_table = name->kind == LAYOUT_TABLE;
	struct error err;

	if (check_value(name, &c->row, &err) < 0)
		tell_damage(c, DAMAGE_VALUE, err.text, 0);
	else if (is_table && name->table == STORE_BINDINGS)
		tell_damage(c, DAMAGE_BINDING, NULL, 0);
	else if (is_table && name->table == STORE_PAUSES)
		tell_damage(c, DAMAGE_PAUSE, NULL, 0);
	else if (is_table && name->table == STORE_TOPICS)
		check_topic(c);
	else if (name->kind == LAYOUT_TOPICS || name->kind == LAYOUT_TOPIC)
		tell_damage(c, DAMAGE_TOPIC, NULL, 0);
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
