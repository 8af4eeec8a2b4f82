#include "damage.h"

#include <stdio.h>

#include "base/args.h"
#include "base/mem.h"

#define BIT(key) (1u << (key))
#define SET_BITS (((1u << STORE_SET_COUNT) - 1) << LAYOUT_SETS)

static const struct {
	enum damage_look look;
	const char *what;
	const char *would; /* --repair ...; NULL: it leaves this to a person */
	const char *did;
} kinds[DAMAGE_KIND_COUNT] = {
	[DAMAGE_KEY] = { DAMAGE_LOOK_NONE, "the broker knows no such key", NULL, NULL },
	[DAMAGE_TYPE] = { DAMAGE_LOOK_NONE, "wrong type", NULL, NULL },
	[DAMAGE_READ] = { DAMAGE_LOOK_NONE, "cannot be checked", NULL, NULL },
	[DAMAGE_TTL] = { DAMAGE_LOOK_NONE, "has a TTL: Redis will remove it",
			 "removes the TTL", "removed the TTL" },
	[DAMAGE_VHOST] = { DAMAGE_LOOK_ASK, "tide:vhosts does not name its vhost", NULL,
			   NULL },
	[DAMAGE_QUEUE] = { DAMAGE_LOOK_ASK, "there is no such shard", NULL, NULL },
	[DAMAGE_PARTITION] = { DAMAGE_LOOK_ASK, "there is no such partition", NULL,
			       NULL },
	[DAMAGE_DAY] = { DAMAGE_LOOK_ASK,
			 "the log of its partition does not name the day", NULL, NULL },
	[DAMAGE_BATCH] = { DAMAGE_LOOK_ASK, "the batch does not fit", NULL, NULL },
	[DAMAGE_VALUE] = { DAMAGE_LOOK_NONE, "cannot be read", NULL, NULL },
	[DAMAGE_LOST] = { DAMAGE_LOOK_ROW, "the message is in no set", "makes it ready",
			  "made it ready" },
	[DAMAGE_SETS] = { DAMAGE_LOOK_ROW, "the message is in", "leaves it in",
			  "left it in" },
	[DAMAGE_GONE] = { DAMAGE_LOOK_ROW, "there is no message with this id",
			  "removes the member", "removed the member" },
	[DAMAGE_EXPIRY] = { DAMAGE_LOOK_ROW, "the message expires and is not in expiry",
			    "adds it there", "added it there" },
	[DAMAGE_BINDING] = { DAMAGE_LOOK_ASK, "it leads nowhere", "removes the binding",
			     "removed the binding" },
	[DAMAGE_PAUSE] = { DAMAGE_LOOK_ASK, "a pause of a queue that does not exist",
			   "removes it", "removed it" },
	[DAMAGE_TOPIC] = { DAMAGE_LOOK_ASK, "topic-options does not have it",
			   "removes the member", "removed the member" },
	[DAMAGE_TOPIC_NAME] = { DAMAGE_LOOK_ASK, "the set of topics does not name it",
				"adds it there", "added it there" },
	[DAMAGE_TOPIC_SET] = { DAMAGE_LOOK_ASK, "the set of its partitions is not whole",
			       NULL, NULL },
};

/* In the order in which a broker would deliver a message from them: what is in `unack`
 * is ready again after its next start. */
static const enum store_set order[STORE_SET_COUNT] = { STORE_UNACK, STORE_READY,
						       STORE_DELAYED, STORE_BURIED };

struct damage_key *damage_key_create(struct slice name)
{
	struct damage_key *key = mem_zalloc(sizeof(*key) + name.len + 1);

	key->refs = 1;
	key->len = name.len;
	memcpy(key->text, name.data, name.len);
	layout_read(damage_key_slice(key), &key->name);
	return key;
}

void damage_key_unref(struct damage_key *key)
{
	if (key && --key->refs == 0)
		mem_free(key);
}

struct damage *damage_create(enum damage_kind kind, struct damage_key *key,
			     struct slice member, const char *detail)
{
	struct damage *d = mem_zalloc(sizeof(*d) + member.len + 1);

	key->refs++;
	d->kind = kind;
	d->key = key;
	d->detail = detail ? mem_strdup(detail) : NULL;
	d->member_len = member.len;
	if (member.len)
		memcpy(d->member, member.data, member.len);
	return d;
}

static unsigned read_option(struct slice definition, const char *name, unsigned otherwise)
{
	struct args args;
	const char *text;
	uint64_t n = otherwise;

	if (args_parse(&args, definition) < 0)
		return otherwise;
	text = args_get(&args, name);
	if (text)
		slice_to_uint(slice_from(text), UINT16_MAX, &n);
	args_deinit(&args);
	return (unsigned)n;
}

struct damage *damage_create_topic_set(struct damage_key *key, struct slice topic,
				       struct slice definition)
{
	struct damage *d = damage_create(DAMAGE_TOPIC_SET, key, topic, NULL);
	unsigned count = read_option(definition, "partitions", DAMAGE_PARTITIONS);

	layout_topic_key(&d->set, key->name.vhost, topic);
	buf_append_uint(&d->last, count > 0 ? count - 1 : 0);
	return d;
}

struct damage *damage_create_batch(struct damage_key *key, struct slice score,
				   uint64_t base, uint64_t end)
{
	struct damage *d = damage_create(DAMAGE_BATCH, key, score, NULL);

	buf_printf(&d->range, "%llu (%llu", (unsigned long long)base,
		   (unsigned long long)end);
	buf_printf(&d->next, "%llu %llu", (unsigned long long)end,
		   (unsigned long long)end);
	buf_printf(&d->rest, "(%llu +inf", (unsigned long long)end);
	return d;
}

void damage_destroy(struct damage *d)
{
	buf_deinit(&d->range);
	buf_deinit(&d->next);
	buf_deinit(&d->rest);
	damage_key_unref(d->key);
	buf_deinit(&d->set);
	buf_deinit(&d->last);
	mem_free(d->detail);
	mem_free(d);
}

static struct slice member_of(const struct damage *d)
{
	return (struct slice){ d->member, d->member_len };
}

enum damage_look damage_look(enum damage_kind kind)
{
	return kinds[kind].look;
}

bool damage_is_of_key(enum damage_kind kind, const struct layout_name *name)
{
	switch (kind) {
	case DAMAGE_QUEUE:
		return name->kind == LAYOUT_SHARD;
	case DAMAGE_PARTITION:
		return name->kind == LAYOUT_PARTITION;
	case DAMAGE_DAY:
		return name->kind == LAYOUT_PARTITION &&
		       name->partition_key == LAYOUT_DAY;
	case DAMAGE_VHOST:
		return name->kind == LAYOUT_TOPICS || name->kind == LAYOUT_TOPIC ||
		       (name->kind == LAYOUT_TABLE &&
			layout_table_has_vhost(name->table));
	default:
		return false;
	}
}

unsigned damage_wanted(enum layout_key key)
{
	return key == LAYOUT_MSG ? BIT(LAYOUT_MSG) | BIT(LAYOUT_EXPIRY) | SET_BITS
				 : BIT(LAYOUT_MSG) | BIT(key);
}

static unsigned count_sets(unsigned found)
{
	return (unsigned)__builtin_popcount(found & SET_BITS);
}

bool damage_is_in_row(enum damage_kind kind, enum layout_key key, unsigned found)
{
	bool has_body = found & BIT(LAYOUT_MSG);

	switch (kind) {
	case DAMAGE_LOST:
		return has_body && count_sets(found) == 0;
	case DAMAGE_SETS:
		return has_body && count_sets(found) > 1;
	case DAMAGE_GONE:
		return !has_body && (found & BIT(key));
	case DAMAGE_EXPIRY:
		return has_body && !(found & BIT(LAYOUT_EXPIRY)) &&
		       (found & SET_BITS) != BIT(layout_set_key(STORE_BURIED));
	default:
		return false;
	}
}

void damage_tables_init(struct damage_tables *t, const struct damage_key *key)
{
	*t = (struct damage_tables){ .vhosts = { 0 } };
	layout_table_key(&t->vhosts, STORE_VHOSTS, SLICE(""));
	layout_table_key(&t->exchanges, STORE_EXCHANGES, key->name.vhost);
	layout_table_key(&t->queues, STORE_QUEUES, key->name.vhost);
	layout_table_key(&t->topics, STORE_TOPICS, key->name.vhost);
	layout_topics_key(&t->names, key->name.vhost);
	layout_shard_prefix(&t->state, key->name.vhost, key->name.queue, key->name.shard);
	buf_append_text(&t->state, layout_partition_suffix(LAYOUT_STATE));
}

void damage_tables_deinit(struct damage_tables *t)
{
	buf_deinit(&t->vhosts);
	buf_deinit(&t->exchanges);
	buf_deinit(&t->queues);
	buf_deinit(&t->topics);
	buf_deinit(&t->names);
	buf_deinit(&t->state);
}

struct binding_words {
	bool is_queue;
	struct slice dest, source;
};

static struct binding_words read_binding(const struct damage *d)
{
	struct slice rest = member_of(d);
	struct binding_words b = { .is_queue = slice_is(slice_cut(&rest, ' '), "queue") };

	b.dest = slice_cut(&rest, ' ');
	b.source = slice_cut(&rest, ' ');
	return b;
}

static struct slice paused_queue(const struct damage *d)
{
	struct slice rest = member_of(d);

	slice_cut(&rest, ' ');
	return rest;
}

static struct store_walk_question question(const char *verb, const struct buf *key,
					   struct slice member)
{
	return (struct store_walk_question){ verb, buf_slice(key), member };
}

/* Its queue may be a topic. */
static void ask_about_binding(const struct damage *d, const struct damage_tables *t,
			      struct store_walk_question out[DAMAGE_QUESTIONS])
{
	struct binding_words b = read_binding(d);

	out[0] = (struct store_walk_question){ "SISMEMBER", damage_key_slice(d->key),
					       member_of(d) };
	out[1] = question("HGET", &t->exchanges, b.source);
	out[2] = question("HGET", b.is_queue ? &t->queues : &t->exchanges, b.dest);
	if (b.is_queue)
		out[3] = question("HGET", &t->topics, b.dest);
	else
		out[3] = out[2];
}

/* The topic that a member of one of the sets stands for. */
static struct slice topic_of(const struct damage *d)
{
	return d->key->name.kind == LAYOUT_TOPIC ? d->key->name.queue : member_of(d);
}

static void ask_about_topic(struct damage *d, const struct damage_tables *t,
			    struct store_walk_question out[DAMAGE_QUESTIONS])
{
	const char *verb = d->kind == DAMAGE_TOPIC ? "SISMEMBER" : "HGET";

	out[0] = (struct store_walk_question){ verb, damage_key_slice(d->key),
					       member_of(d) };
	if (d->kind == DAMAGE_TOPIC)
		out[1] = question("HGET", &t->topics, topic_of(d));
	else if (d->kind == DAMAGE_TOPIC_NAME)
		out[1] = question("SISMEMBER", &t->names, member_of(d));
	else
		out[1] = question("SISMEMBER", &d->set, buf_slice(&d->last));
}

static void ask_about_batch(const struct damage *d, const struct damage_tables *t,
			    struct store_walk_question out[DAMAGE_QUESTIONS])
{
	const struct slice key = damage_key_slice(d->key);

	out[0] = question("HGET", &t->topics, d->key->name.queue);
	out[1] = (struct store_walk_question){ "ZCOUNT", key, buf_slice(&d->range) };
	out[2] = (struct store_walk_question){ "ZCOUNT", key, buf_slice(&d->next) };
	out[3] = (struct store_walk_question){ "ZCOUNT", key, buf_slice(&d->rest) };
}

void damage_ask(struct damage *d, const struct damage_tables *tables,
		struct store_walk_question out[DAMAGE_QUESTIONS])
{
	const struct layout_name *name = &d->key->name;
	struct slice key = damage_key_slice(d->key);

	for (int i = 0; i < DAMAGE_QUESTIONS; i++)
		out[i] = (struct store_walk_question){ "EXISTS", key, SLICE("") };
	if (d->kind == DAMAGE_VHOST) {
		out[1] = question("SISMEMBER", &tables->vhosts, name->vhost);
	} else if (d->kind == DAMAGE_QUEUE) {
		out[1] = question("HGET", &tables->queues, name->queue);
		out[2] = question("HGET", &tables->topics, name->queue);
	} else if (d->kind == DAMAGE_PARTITION) {
		out[1] = question("HGET", &tables->topics, name->queue);
	} else if (d->kind == DAMAGE_DAY) {
		/* Its key ends with the day. */
		out[1] = question("HGET", &tables->state,
				  slice_skip(key, key.len - LAYOUT_DAY_LEN));
	} else if (d->kind == DAMAGE_PAUSE) {
		out[0] = (struct store_walk_question){ "HGET", key, member_of(d) };
		out[1] = question("HGET", &tables->queues, paused_queue(d));
		out[2] = question("HGET", &tables->topics, paused_queue(d));
	} else if (d->kind == DAMAGE_BINDING) {
		ask_about_binding(d, tables, out);
	} else if (d->kind == DAMAGE_BATCH) {
		ask_about_batch(d, tables, out);
	} else {
		ask_about_topic(d, tables, out);
	}
}

static void set_detail(struct damage *d, const char *text)
{
	mem_free(d->detail);
	d->detail = mem_strdup(text);
}

static bool is_lost_binding(struct damage *d, const struct store_walk_row *answers)
{
	bool has_source = answers[1].value.data;
	bool has_dest = answers[2].value.data || answers[3].value.data;

	if (has_source && has_dest)
		return false;
	set_detail(d, !has_source                ? "its exchange does not exist"
		      : read_binding(d).is_queue ? "its queue does not exist"
						 : "its destination does not exist");
	/* Perhaps the exchange goes with it. */
	d->is_left = has_source && read_option(answers[1].value, "auto-delete", 0);
	return true;
}

static bool has_partition(struct slice definition, unsigned index)
{
	return definition.data &&
	       index < read_option(definition, "partitions", DAMAGE_PARTITIONS);
}

static bool is_lost_shard(struct damage *d, const struct store_walk_row *answers)
{
	struct slice definition = answers[1].value;
	unsigned shard = d->key->name.shard;

	/* A partition has publish ids as well. */
	if (d->key->name.key == LAYOUT_DEDUPE && has_partition(answers[2].value, shard))
		return false;
	/* After a reshard the shards of before may have messages, too. */
	if (definition.data && (shard < read_option(definition, "shards", 1) ||
				shard < read_option(definition, "reshard", 0)))
		return false;
	set_detail(d,
		   definition.data ? "its queue has fewer" : "its queue does not exist");
	return true;
}

static bool is_lost_partition(struct damage *d, struct slice definition)
{
	if (has_partition(definition, d->key->name.shard))
		return false;
	set_detail(d,
		   definition.data ? "its topic has fewer" : "its topic does not exist");
	return true;
}

/* A member of the set of topics, or a number in the set of a topic's partitions. */
static bool is_lost_topic(const struct damage *d, struct slice definition)
{
	uint64_t n = 0;

	if (d->key->name.kind == LAYOUT_TOPIC)
		slice_to_uint(member_of(d), UINT16_MAX, &n);
	return !has_partition(definition, (unsigned)n);
}

static bool is_compacted(struct slice definition)
{
	struct args args;
	bool is_compacted;

	if (args_parse(&args, definition) < 0)
		return false;
	is_compacted = args_get(&args, "compact") && args_get(&args, "compact")[0];
	args_deinit(&args);
	return is_compacted;
}

/* Compaction removes batches; but two never have the same offset. */
static bool is_bad_batch(struct damage *d, const struct store_walk_row *answers)
{
	if (!answers[0].value.data || !answers[1].value.data)
		return false; /* it is gone */
	if (slice_is(answers[1].value, "2")) {
		set_detail(d, "another batch has some of its offsets");
		return true;
	}
	if (answers[2].value.data || !answers[3].value.data ||
	    is_compacted(answers[0].value))
		return false;
	set_detail(d, "the one behind it is missing");
	return true;
}

bool damage_is_answered(struct damage *d, const struct store_walk_row *answers)
{
	struct slice answer = answers[1].value;

	if (!answers[0].value.data)
		return false;
	switch (d->kind) {
	case DAMAGE_BINDING:
		return is_lost_binding(d, answers);
	case DAMAGE_PAUSE:
		return !answer.data && !answers[2].value.data;
	case DAMAGE_QUEUE:
		return is_lost_shard(d, answers);
	case DAMAGE_PARTITION:
		return is_lost_partition(d, answer);
	case DAMAGE_TOPIC:
		return is_lost_topic(d, answer);
	case DAMAGE_BATCH:
		return is_bad_batch(d, answers);
	default:
		return !answer.data;
	}
}

static enum store_set set_to_keep(unsigned found)
{
	int i = 0;

	while (i < STORE_SET_COUNT - 1 && !(found & BIT(layout_set_key(order[i]))))
		i++;
	return order[i];
}

static struct slice shard_key(const struct damage *d, enum layout_key key,
			      struct buf *text)
{
	const struct layout_name *name = &d->key->name;

	layout_shard_prefix(text, name->vhost, name->queue, name->shard);
	buf_append_text(text, layout_key_suffix(key));
	return buf_slice(text);
}

static size_t edits_of_sets(const struct damage *d, struct store_walk_edit *out,
			    struct buf keys[DAMAGE_EDITS_MAX])
{
	size_t count = 0;

	for (int set = 0; set < STORE_SET_COUNT; set++) {
		enum layout_key key = layout_set_key((enum store_set)set);

		if (!(d->found & BIT(key)) || set == (int)set_to_keep(d->found))
			continue;
		out[count] =
			(struct store_walk_edit){ "ZREM", shard_key(d, key, &keys[count]),
						  member_of(d), 0 };
		count++;
	}
	return count;
}

static size_t one_edit(const struct damage *d, const char *verb, struct slice key,
		       struct store_walk_edit *out)
{
	*out = (struct store_walk_edit){ verb, key, member_of(d), d->score };
	return 1;
}

/* The sizes of the shard may be wrong with it: without them the next start of a broker
 * reads its messages. */
static size_t forget_sizes(const struct damage *d, struct store_walk_edit *out,
			   struct buf *text)
{
	struct slice key = shard_key(d, LAYOUT_SIZE, text);

	out[0] = (struct store_walk_edit){ "HDEL", key, SLICE("before"), 0 };
	out[1] = (struct store_walk_edit){ "HDEL", key, SLICE("after"), 0 };
	return 2;
}

static bool can_mend(const struct damage *d)
{
	return kinds[d->kind].would && !d->is_left;
}

static size_t edits_of(const struct damage *d, struct store_walk_edit *out,
		       struct buf keys[DAMAGE_EDITS_MAX])
{
	struct slice key = damage_key_slice(d->key);

	switch (d->kind) {
	case DAMAGE_TTL:
		return one_edit(d, "PERSIST", key, out);
	case DAMAGE_LOST:
		key = shard_key(d, layout_set_key(STORE_READY), &keys[0]);
		return one_edit(d, "ZADD", key, out);
	case DAMAGE_EXPIRY:
		key = shard_key(d, LAYOUT_EXPIRY, &keys[0]);
		return one_edit(d, "ZADD", key, out);
	case DAMAGE_SETS:
		return edits_of_sets(d, out, keys);
	case DAMAGE_BINDING:
	case DAMAGE_TOPIC:
		return one_edit(d, "SREM", key, out);
	case DAMAGE_TOPIC_NAME:
		layout_topics_key(&keys[0], d->key->name.vhost);
		return one_edit(d, "SADD", buf_slice(&keys[0]), out);
	default:
		return one_edit(d, d->key->name.type[0] == 'h' ? "HDEL" : "ZREM", key,
				out);
	}
}

size_t damage_edits(const struct damage *d, struct store_walk_edit *out,
		    struct buf keys[DAMAGE_EDITS_MAX])
{
	size_t count;

	if (!can_mend(d))
		return 0;
	count = edits_of(d, out, keys);
	if (damage_look(d->kind) == DAMAGE_LOOK_ROW)
		count += forget_sizes(d, out + count, &keys[count]);
	return count;
}

/* Bytes that a terminal would take for its own, and what is no UTF-8, as %XX. */
static void append_visible(struct buf *out, struct slice text)
{
	bool is_text = slice_is_utf8(text);

	for (size_t i = 0; i < text.len; i++) {
		unsigned char c = (unsigned char)text.data[i];

		if (c < 0x20 || c == 0x7f || c == '%' || (c >= 0x80 && !is_text))
			buf_printf(out, "%%%02X", c);
		else
			buf_append_char(out, (char)c);
	}
}

static void append_what(const struct damage *d, struct buf *out)
{
	const char *separator = " ";

	buf_append_text(out, kinds[d->kind].what);
	for (int i = 0; d->kind == DAMAGE_SETS && i < STORE_SET_COUNT; i++) {
		enum layout_key key = layout_set_key(order[i]);

		if (!(d->found & BIT(key)))
			continue;
		buf_printf(out, "%s%s", separator, layout_key_suffix(key));
		separator = " and ";
	}
	if (d->detail) {
		buf_append_text(out, ": ");
		append_visible(out, slice_from(d->detail));
	}
}

void damage_print(const struct damage *d, enum damage_fate fate, const char *why,
		  struct buf *out)
{
	const char *kept = layout_key_suffix(layout_set_key(set_to_keep(d->found)));
	bool is_sets = d->kind == DAMAGE_SETS;

	append_visible(out, damage_key_slice(d->key));
	if (d->member_len) {
		buf_append_char(out, ' ');
		append_visible(out, member_of(d));
	}
	buf_append_text(out, ": ");
	append_what(d, out);
	if (fate == DAMAGE_REFUSED)
		buf_printf(out, "; not repaired: %s", why);
	else if (d->is_left)
		buf_append_text(out, "; the next start of a broker removes it");
	else if (!can_mend(d))
		buf_append_text(out, "; --repair leaves it as it is");
	else
		buf_printf(out, "; %s%s%s%s",
			   fate == DAMAGE_MENDED ? "repaired: " : "--repair ",
			   fate == DAMAGE_MENDED ? kinds[d->kind].did
						 : kinds[d->kind].would,
			   is_sets ? " " : "", is_sets ? kept : "");
	buf_append_char(out, '\n');
}
