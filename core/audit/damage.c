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
	return kinds[kind].look;
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
}

void damage_tables_deinit(struct damage_tables *t)
{
	buf_deinit(&t->vhosts);
	buf_deinit(&t->exchanges);
	buf_deinit(&t->queues);
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

void damage_ask(const struct damage *d, const struct damage_tables *tables,
		struct store_walk_question out[DAMAGE_QUESTIONS])
{
	struct slice key = damage_key_slice(d->key), member = member_of(d);
	struct slice queues = buf_slice(&tables->queues),
		     exchanges = buf_slice(&tables->exchanges);
	struct binding_words b = read_binding(d);

	for (int i = 0; i < DAMAGE_QUESTIONS; i++)
		out[i] = (struct store_walk_question){ "EXISTS", key, SLICE("") };
	if (d->kind == DAMAGE_VHOST) {
		out[1] = (struct store_walk_question){ "SISMEMBER",
						       buf_slice(&tables->vhosts),
						       d->key->name.vhost };
	} else if (d->kind == DAMAGE_QUEUE) {
		out[1] = (struct store_walk_question){ "HGET", queues,
						       d->key->name.queue };
	} else if (d->kind == DAMAGE_PAUSE) {
		out[0] = (struct store_walk_question){ "HGET", key, member };
		out[1] = (struct store_walk_question){ "HGET", queues, paused_queue(d) };
	} else {
		out[0] = (struct store_walk_question){ "SISMEMBER", key, member };
		out[1] = (struct store_walk_question){ "HGET", exchanges, b.source };
		out[2] = (struct store_walk_question){ "HGET",
						       b.is_queue ? queues : exchanges,
						       b.dest };
	}
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

static void set_detail(struct damage *d, const char *text)
{
	mem_free(d->detail);
	d->detail = mem_strdup(text);
}

static bool is_lost_binding(struct damage *d, const struct store_walk_row *answers)
{
	bool has_source = answers[1].value.data, has_dest = answers[2].value.data;

	if (has_source && has_dest)
		return false;
	set_detail(d, !has_source                ? "its exchange does not exist"
		      : read_binding(d).is_queue ? "its queue does not exist"
						 : "its destination does not exist");
	/* Perhaps the exchange goes with it. */
	d->is_left = has_source && read_option(answers[1].value, "auto-delete", 0);
	return true;
}

bool damage_is_answered(struct damage *d, const struct store_walk_row *answers)
{
	bool has = answers[1].value.data;

	if (!answers[0].value.data)
		return false;
	if (d->kind == DAMAGE_BINDING)
		return is_lost_binding(d, answers);
	if (d->kind != DAMAGE_QUEUE)
		return !has;
	if (has && d->key->name.shard < read_option(answers[1].value, "shards", 1))
		return false;
	set_detail(d, has ? "its queue has fewer" : "its queue does not exist");
	return true;
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
		return one_edit(d, "SREM", key, out);
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
