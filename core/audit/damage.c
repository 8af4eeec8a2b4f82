#include "damage.h"

#include <stdio.h>

#include "base/args.h"
#include "base/mem.h"

#define BIT(key) (1u << (key))
#define SET_BITS (((1u << STORE_SET_COUNT) - 1) << LAYOUT_SETS)

/* Of a topic that does not say how many. */
#define PARTITIONS 8

/* The key that a question names, and the member of it. */
enum place {
	SELF,
	VHOSTS,
	EXCHANGES,
	QUEUES,
	TOPICS,
	NAMES,       /* the set of topics */
	SET,         /* of the partitions of the topic that is the member */
	STATE,       /* of the partition */
	DESTS,       /* of a binding to a queue: queues; else exchanges */
	OTHER_DESTS, /* likewise topics, or exchanges */
	ERASING,
};
enum word {
	NO_WORD,
	MEMBER,
	VHOST,
	QUEUE,
	TOPIC,           /* that a member of one of the sets stands for */
	DAY,             /* with which the key ends */
	PAUSED,          /* the queue of a pause */
	DEST,            /* of a binding */
	EXCHANGE,        /* of a binding */
	LAST,            /* partition */
	RANGE,           /* of a batch */
	NEXT,            /* to the batch */
	REST,            /* behind that */
	TOMBSTONE,       /* of a queue that is being deleted */
	TOPIC_TOMBSTONE, /* likewise */
};

static const struct {
	const char *what;
	/* --repair ...; NULL: it leaves this to a person. A row tells these kinds. */
	const char *would;
	const char *did;
	struct {
		const char *verb; /* of the first NULL: nothing is asked */
		enum place place;
		enum word word;
	} questions[DAMAGE_QUESTIONS];
} kinds[DAMAGE_KIND_COUNT] = {
	[DAMAGE_KEY] = { .what = "the broker knows no such key" },
	[DAMAGE_TYPE] = { .what = "wrong type" },
	[DAMAGE_READ] = { .what = "cannot be checked" },
	[DAMAGE_TTL] = { .what = "has a TTL: Redis will remove it" },
	[DAMAGE_VALUE] = { .what = "cannot be read" },
	[DAMAGE_LOST] = { "the message is in no set", "makes it ready", "made it ready" },
	[DAMAGE_SETS] = { "the message is in", "leaves it in", "left it in" },
	[DAMAGE_GONE] = { "there is no message with this id", "removes the member",
			  "removed the member" },
	[DAMAGE_EXPIRY] = { "the message expires and is not in expiry", "adds it there",
			    "added it there" },
	[DAMAGE_VHOST] = { .what = "{tide}:vhosts does not name its vhost",
			   .questions = { { "EXISTS", SELF, NO_WORD },
					  { "SISMEMBER", VHOSTS, VHOST } } },
	[DAMAGE_QUEUE] = { .what = "there is no such shard",
			   .questions = { { "EXISTS", SELF, NO_WORD },
					  { "HGET", QUEUES, QUEUE },
					  { "HGET", TOPICS, QUEUE },
					  { "HGET", ERASING, TOMBSTONE },
					  { "HGET", ERASING, TOPIC_TOMBSTONE } } },
	[DAMAGE_PARTITION] = { .what = "there is no such partition",
			       .questions = { { "EXISTS", SELF, NO_WORD },
					      { "HGET", TOPICS, QUEUE },
					      { "HGET", ERASING, TOPIC_TOMBSTONE } } },
	[DAMAGE_DAY] = { .what = "the log of its partition does not name the day",
			 .questions = { { "EXISTS", SELF, NO_WORD },
					{ "HGET", STATE, DAY } } },
	[DAMAGE_BATCH] = { .what = "the batch does not fit",
			   .questions = { { "HGET", TOPICS, QUEUE },
					  { "ZCOUNT", SELF, RANGE },
					  { "ZCOUNT", SELF, NEXT },
					  { "ZCOUNT", SELF, REST } } },
	[DAMAGE_BINDING] = { .what = "it leads nowhere",
			     .questions = { { "SISMEMBER", SELF, MEMBER },
					    { "HGET", EXCHANGES, EXCHANGE },
					    { "HGET", DESTS, DEST },
					    { "HGET", OTHER_DESTS, DEST } } },
	[DAMAGE_PAUSE] = { .what = "a pause of a queue that does not exist",
			   .questions = { { "HGET", SELF, MEMBER },
					  { "HGET", QUEUES, PAUSED },
					  { "HGET", TOPICS, PAUSED } } },
	[DAMAGE_TOPIC] = { .what = "topic-options does not have it",
			   .questions = { { "SISMEMBER", SELF, MEMBER },
					  { "HGET", TOPICS, TOPIC } } },
	[DAMAGE_TOPIC_NAME] = { .what = "the set of topics does not name it",
				.questions = { { "HGET", SELF, MEMBER },
					       { "SISMEMBER", NAMES, MEMBER } } },
	[DAMAGE_TOPIC_SET] = { .what = "the set of its partitions is not whole",
			       .questions = { { "HGET", SELF, MEMBER },
					      { "SISMEMBER", SET, LAST } } },
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
	unsigned count = read_option(definition, "partitions", PARTITIONS);

	d->first = count > 0 ? count - 1 : 0;
	return d;
}

void damage_destroy(struct damage *d)
{
	damage_key_unref(d->key);
	mem_free(d->detail);
	mem_free(d);
}

static struct slice member_of(const struct damage *d)
{
	return (struct slice){ d->member, d->member_len };
}

enum damage_look damage_look(enum damage_kind kind)
{
	if (kinds[kind].questions[0].verb)
		return DAMAGE_LOOK_ASK;
	return kinds[kind].would ? DAMAGE_LOOK_ROW : DAMAGE_LOOK_NONE;
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

/* A binding is "queue|exchange DESTINATION EXCHANGE PATTERN ...". */
static bool binds_queue(const struct damage *d)
{
	return slice_has_prefix(member_of(d), "queue ");
}

static void append_place(const struct damage *d, enum place place, struct buf *out)
{
	static const enum store_table tables[] = { [VHOSTS] = STORE_VHOSTS,
						   [EXCHANGES] = STORE_EXCHANGES,
						   [QUEUES] = STORE_QUEUES,
						   [TOPICS] = STORE_TOPICS };
	const struct layout_name *name = &d->key->name;

	if (place == DESTS || place == OTHER_DESTS)
		place = !binds_queue(d) ? EXCHANGES : place == DESTS ? QUEUES : TOPICS;
	switch (place) {
	case SELF:
		buf_append_slice(out, damage_key_slice(d->key));
		break;
	case NAMES:
		layout_topic_key(out, name->vhost, LAYOUT_ALL_TOPICS);
		break;
	case SET:
		layout_topic_key(out, name->vhost, member_of(d));
		break;
	case ERASING:
		buf_append_text(out, LAYOUT_META LAYOUT_ERASING_NAME);
		break;
	case STATE:
		layout_shard_prefix(out, name->vhost, name->queue, name->shard);
		buf_append_text(out, layout_partition_suffix(LAYOUT_STATE));
		break;
	default:
		layout_table_key(out, tables[place], name->vhost);
	}
}

static void append_word(const struct damage *d, enum word word, struct buf *out)
{
	const struct layout_name *name = &d->key->name;
	unsigned long long first = d->first, end = d->end;
	struct slice rest = member_of(d), key = damage_key_slice(d->key);
	int cuts = word == EXCHANGE ? 2 : 1;

	switch (word) {
	case NO_WORD:
		break;
	case PAUSED:
	case DEST:
	case EXCHANGE:
		while (cuts-- > 0)
			slice_cut(&rest, ' ');
		buf_append_slice(out, slice_cut(&rest, ' '));
		break;
	case VHOST:
		buf_append_slice(out, name->vhost);
		break;
	case DAY:
		buf_append_slice(out, slice_skip(key, key.len - LAYOUT_DAY_LEN));
		break;
	case LAST:
		buf_append_uint(out, first);
		break;
	case RANGE:
		buf_printf(out, "%llu (%llu", first, end);
		break;
	case NEXT:
		buf_printf(out, "%llu %llu", end, end);
		break;
	case TOMBSTONE:
	case TOPIC_TOMBSTONE:
		buf_printf(out, "%s %" SLICE_FMT "/%" SLICE_FMT,
			   word == TOMBSTONE ? "queue" : "topic", SLICE_ARG(name->vhost),
			   SLICE_ARG(name->queue));
		break;
	case REST:
		buf_printf(out, "(%llu +inf", end);
		break;
	default:
		buf_append_slice(out, word == QUEUE || (word == TOPIC &&
							name->kind == LAYOUT_TOPIC)
					      ? name->queue
					      : rest);
	}
}

void damage_ask(const struct damage *d, struct store_walk_question out[DAMAGE_QUESTIONS],
		struct buf texts[DAMAGE_QUESTIONS])
{
	for (int i = 0; i < DAMAGE_QUESTIONS; i++) {
		int q = kinds[d->kind].questions[i].verb ? i : 0;
		size_t len;

		append_place(d, kinds[d->kind].questions[q].place, &texts[i]);
		len = buf_len(&texts[i]);
		append_word(d, kinds[d->kind].questions[q].word, &texts[i]);
		out[i].verb = kinds[d->kind].questions[q].verb;
		out[i].key = (struct slice){ buf_slice(&texts[i]).data, len };
		out[i].member = slice_skip(buf_slice(&texts[i]), len);
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
	set_detail(d, !has_source      ? "its exchange does not exist"
		      : binds_queue(d) ? "its queue does not exist"
				       : "its destination does not exist");
	/* Perhaps the exchange goes with it. */
	d->is_left = has_source && read_option(answers[1].value, "auto-delete", 0);
	return true;
}

static bool has_partition(struct slice definition, unsigned index)
{
	return definition.data &&
	       index < read_option(definition, "partitions", PARTITIONS);
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
	case DAMAGE_QUEUE: /* the next start removes what is being deleted */
		return !answers[3].value.data && !answers[4].value.data &&
		       is_lost_shard(d, answers);
	case DAMAGE_PARTITION:
		return !answers[2].value.data && is_lost_partition(d, answer);
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

size_t damage_edits(const struct damage *d, struct store_walk_edit *out,
		    struct buf keys[DAMAGE_EDITS_MAX])
{
	size_t count = 0;
	const char *verb = "ZADD";
	struct slice key = damage_key_slice(d->key);

	if (!kinds[d->kind].would)
		return 0;
	for (int i = 0; d->kind == DAMAGE_SETS && i < STORE_SET_COUNT; i++) {
		enum layout_key set = layout_set_key((enum store_set)i);

		if (!(d->found & BIT(set)) || i == (int)set_to_keep(d->found))
			continue;
		key = shard_key(d, set, &keys[count]);
		out[count++] = (struct store_walk_edit){ "ZREM", key, member_of(d), 0 };
	}
	if (d->kind != DAMAGE_SETS) {
		if (d->kind == DAMAGE_LOST)
			key = shard_key(d, layout_set_key(STORE_READY), &keys[0]);
		else if (d->kind == DAMAGE_EXPIRY)
			key = shard_key(d, LAYOUT_EXPIRY, &keys[0]);
		else
			verb = d->key->name.type[0] == 'h' ? "HDEL" : "ZREM";
		out[count++] =
			(struct store_walk_edit){ verb, key, member_of(d), d->score };
	}
	/* The sizes of the shard may be wrong, too: without them the next start of a
	 * broker reads its messages. */
	key = shard_key(d, LAYOUT_SIZE, &keys[count]);
	out[count++] = (struct store_walk_edit){ "HDEL", key, SLICE("before"), 0 };
	out[count++] = (struct store_walk_edit){ "HDEL", key, SLICE("after"), 0 };
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
	else if (!kinds[d->kind].would)
		buf_append_text(out, "; --repair leaves it as it is");
	else
		buf_printf(out, "; %s%s%s%s",
			   fate == DAMAGE_MENDED ? "repaired: " : "--repair ",
			   fate == DAMAGE_MENDED ? kinds[d->kind].did
						 : kinds[d->kind].would,
			   is_sets ? " " : "", is_sets ? kept : "");
	buf_append_char(out, '\n');
}
