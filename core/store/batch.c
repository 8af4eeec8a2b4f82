#include "batch.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "codec.h"
#include "resp.h"

/* A buffer above this is not kept for the next batch. */
#define KEEP_BYTES ((size_t)1024 * 1024)

struct kind_info {
	const char *verb;
	enum layout_key key;
	uint32_t words_per_entry;
};

#define ADD(set) [BATCH_ADD_TO + (set)] = { "ZADD", LAYOUT_SETS + (set), 2 }
#define LEAVE(first, set) [(first) + (set)] = { "ZREM", LAYOUT_SETS + (set), 1 }

static const struct kind_info kind_infos[BATCH_KIND_COUNT] = {
	[BATCH_SIZE_BEFORE] = { "HSET", LAYOUT_SIZE, 2 },
	[BATCH_REMOVE_TRIES] = { "HDEL", LAYOUT_TRIES, 1 },
	[BATCH_REMOVE_EXPIRY] = { "ZREM", LAYOUT_EXPIRY, 1 },
	[BATCH_REMOVE_MSG] = { "HDEL", LAYOUT_MSG, 1 },
	LEAVE(BATCH_REMOVE_FROM, STORE_READY),
	LEAVE(BATCH_REMOVE_FROM, STORE_DELAYED),
	LEAVE(BATCH_REMOVE_FROM, STORE_UNACK),
	LEAVE(BATCH_REMOVE_FROM, STORE_BURIED),
	[BATCH_REMOVE_DEDUPE] = { "ZREM", LAYOUT_DEDUPE, 1 },
	[BATCH_WRITE_MSG] = { "HSET", LAYOUT_MSG, 2 },
	[BATCH_WRITE_TRIES] = { "HSET", LAYOUT_TRIES, 2 },
	[BATCH_WRITE_EXPIRY] = { "ZADD", LAYOUT_EXPIRY, 2 },
	[BATCH_WRITE_DEDUPE] = { "ZADD", LAYOUT_DEDUPE, 2 },
	[BATCH_SIZE_AFTER] = { "HSET", LAYOUT_SIZE, 2 },
	ADD(STORE_READY),
	ADD(STORE_DELAYED),
	ADD(STORE_UNACK),
	ADD(STORE_BURIED),
	LEAVE(BATCH_LEAVE, STORE_READY),
	LEAVE(BATCH_LEAVE, STORE_DELAYED),
	LEAVE(BATCH_LEAVE, STORE_UNACK),
	LEAVE(BATCH_LEAVE, STORE_BURIED),
};

struct batch *batch_create(void)
{
	return mem_zalloc(sizeof(struct batch));
}

void batch_destroy(struct batch *b)
{
	for (int i = 0; i < BATCH_KIND_COUNT; i++)
		buf_deinit(&b->sections[i].bytes);
	mem_free(b);
}

void batch_reset(struct batch *b, struct slice prefix)
{
	b->prefix = prefix;
	for (int i = 0; i < BATCH_KIND_COUNT; i++) {
		struct batch_section *section = &b->sections[i];

		buf_clear(&section->bytes);
		if (section->bytes.cap > KEEP_BYTES)
			buf_shrink(&section->bytes);
		section->entries = 0;
	}
	b->bytes = 0;
	b->command_count = 0;
	b->has_size = false;
	b->result = (struct batch_result){ TIDE_OK, TIDE_OK, NULL, false };
}

static void open_command(struct batch *b, enum batch_kind kind)
{
	struct batch_section *section = &b->sections[kind];
	const struct kind_info *info = &kind_infos[kind];
	section->offset = buf_len(&section->bytes);
	memset(buf_reserve(&section->bytes, RESP_ARRAY_MAX), ' ', RESP_ARRAY_MAX);
	buf_grow(&section->bytes, RESP_ARRAY_MAX);
	resp_text(&section->bytes, info->verb);
	layout_resp_key(&section->bytes, b->prefix, info->key);
}

/* Write the command's head into the room in front of it. */
static void close_command(struct batch *b, enum batch_kind kind)
{
	struct batch_section *section = &b->sections[kind];
	uint32_t words = 2 + section->entries * kind_infos[kind].words_per_entry;
	char *base = section->bytes.data + section->bytes.start;
	char *head = resp_array_before(base + section->offset + RESP_ARRAY_MAX, words);
	struct batch_command *command = &b->commands[b->command_count++];

	command->kind = kind;
	command->offset = (size_t)(head - base);
	command->len = buf_len(&section->bytes) - command->offset;
	section->entries = 0;
}

/* Apart from entry(), which is called several times a message. */
__attribute__((noinline)) static void open_first_or_next(struct batch *b,
							 enum batch_kind kind)
{
	const struct batch_section *section = &b->sections[kind];
	bool may_close = b->command_count + BATCH_KIND_COUNT < BATCH_COMMANDS_MAX;

	if (section->entries > 0 && may_close)
		close_command(b, kind);
	if (section->entries == 0)
		open_command(b, kind);
}

/* Where the next entry of that kind goes. */
static struct buf *entry(struct batch *b, enum batch_kind kind)
{
	struct batch_section *section = &b->sections[kind];

	if (section->entries == 0 || section->entries >= BATCH_ENTRIES_MAX)
		open_first_or_next(b, kind);
	section->entries++;
	return &section->bytes;
}

/* Count the command that was written at the end of `out`. */
static void added(struct batch *b, struct buf *out, const char *end)
{
	size_t len = (size_t)(end - (out->data + out->end));

	buf_grow(out, len);
	b->bytes += len;
}

/* An id as a word: it stands in several commands and is formatted once. */
struct id_word {
	char text[RESP_ID_LEN];
};

static struct id_word id_word(uint64_t id)
{
	struct id_word word;

	resp_put_id(word.text, id);
	return word;
}

static char *put_id(char *to, const struct id_word *id)
{
	memcpy(to, id->text, RESP_ID_LEN);
	return to + RESP_ID_LEN;
}

static void add_id(struct batch *b, enum batch_kind kind, const struct id_word *id)
{
	struct buf *out = entry(b, kind);

	added(b, out, put_id(buf_reserve(out, RESP_ID_LEN), id));
}

static void add_scored(struct batch *b, enum batch_kind kind, double score,
		       const struct id_word *id)
{
	struct buf *out = entry(b, kind);
	char *to = buf_reserve(out, RESP_SCORE_MAX + RESP_ID_LEN);

	added(b, out, put_id(resp_put_score(to, score), id));
}

static void add_msg(struct batch *b, const struct store_insert *insert,
		    const struct id_word *id)
{
	const struct msg *m = insert->msg;
	struct buf *out = entry(b, BATCH_WRITE_MSG);
	size_t before = RESP_ID_LEN + RESP_BULK_HEAD_MAX;
	size_t head_max = codec_head_max(m);
	char *to = buf_reserve(out, before + head_max + m->payload_len + 2);
	char *head = to + before;
	size_t head_len =
		(size_t)(codec_put_head(head, m, insert->rank, insert->expires_unix_ms) -
			 head);

	/* The size stands before the head, which moves to the end of it. */
	to = resp_put_bulk_head(put_id(to, id), head_len + m->payload_len);
	memmove(to, head, head_len);
	memcpy(to + head_len, m->payload, m->payload_len);
	added(b, out, resp_put_end(to + head_len + m->payload_len));
}

void batch_insert(struct batch *b, const struct store_insert *insert)
{
	struct id_word id = id_word(insert->msg->id);

	add_msg(b, insert, &id);
	add_scored(b, (enum batch_kind)(BATCH_ADD_TO + (int)insert->set), insert->score,
		   &id);
	if (insert->expires_unix_ms)
		add_scored(b, BATCH_WRITE_EXPIRY, (double)insert->expires_unix_ms, &id);
}

void batch_move(struct batch *b, uint64_t id, enum store_set from, enum store_set to,
		double score)
{
	struct id_word word = id_word(id);

	if (from != to)
		add_id(b, (enum batch_kind)(BATCH_LEAVE + (int)from), &word);
	add_scored(b, (enum batch_kind)(BATCH_ADD_TO + (int)to), score, &word);
}

void batch_expiry(struct batch *b, uint64_t id, int64_t expires_unix_ms)
{
	struct id_word word = id_word(id);

	add_scored(b, BATCH_WRITE_EXPIRY, (double)expires_unix_ms, &word);
}

void batch_tries(struct batch *b, uint64_t id, const struct store_tries *tries)
{
	char text[STORE_TRIES_TEXT_MAX];
	struct id_word word = id_word(id);
	struct buf *out = entry(b, BATCH_WRITE_TRIES);
	size_t len = store_tries_format(tries, text);

	buf_append(out, word.text, RESP_ID_LEN);
	resp_bulk(out, (struct slice){ text, len });
	b->bytes += RESP_ID_LEN + len;
}

void batch_remove(struct batch *b, uint64_t id, enum store_set set, bool has_tries,
		  bool has_expiry)
{
	struct id_word word = id_word(id);

	if (has_tries)
		add_id(b, BATCH_REMOVE_TRIES, &word);
	if (has_expiry)
		add_id(b, BATCH_REMOVE_EXPIRY, &word);
	add_id(b, BATCH_REMOVE_MSG, &word);
	add_id(b, (enum batch_kind)(BATCH_REMOVE_FROM + (int)set), &word);
}

void batch_leave_others(struct batch *b, uint64_t id, enum store_set set)
{
	struct id_word word = id_word(id);

	for (int other = 0; other < STORE_SET_COUNT; other++)
		if (other != (int)set)
			add_id(b, (enum batch_kind)(BATCH_LEAVE + other), &word);
}

void batch_remove_everywhere(struct batch *b, uint64_t id)
{
	struct id_word word = id_word(id);

	for (int kind = BATCH_REMOVE_TRIES; kind < BATCH_REMOVE_DEDUPE; kind++)
		add_id(b, (enum batch_kind)kind, &word);
}

void batch_dedupe(struct batch *b, const struct store_seen *seen)
{
	store_dedupe_add_words(entry(b, BATCH_WRITE_DEDUPE), seen);
}

void batch_dedupe_remove(struct batch *b, const struct store_seen *seen)
{
	struct buf *out = entry(b, BATCH_REMOVE_DEDUPE);
	char head[STORE_DEDUPE_HEAD_MAX];
	size_t len = store_dedupe_format_head(seen, head);

	resp_pair(out, (struct slice){ head, len }, seen->publish_id);
}

static void add_size(struct batch *b, enum batch_kind kind, const char *field,
		     struct store_size size)
{
	struct buf *out = entry(b, kind);
	char text[2 * DECIMAL_MAX];
	char *end = decimal_put(text, size.messages);

	*end++ = ' ';
	end = decimal_put(end, size.bytes);
	resp_text(out, field);
	resp_bulk(out, (struct slice){ text, (size_t)(end - text) });
}

static bool is_same_size(struct store_size a, struct store_size b)
{
	return a.messages == b.messages && a.bytes == b.bytes;
}

void batch_size(struct batch *b, const struct store_sizes *sizes)
{
	add_size(b, BATCH_SIZE_BEFORE, "before", sizes->before);
	add_size(b, BATCH_SIZE_BEFORE, "after", sizes->left);
	b->has_size = true;
	if (is_same_size(sizes->left, sizes->after))
		return;
	add_size(b, BATCH_SIZE_AFTER, "before", sizes->after);
	add_size(b, BATCH_SIZE_AFTER, "after", sizes->after);
}

size_t batch_bytes(const struct batch *b)
{
	return b->bytes;
}

static void add_part(struct batch *b, const char *bytes, size_t len)
{
	b->parts[b->request.part_count++] =
		uv_buf_init((char *)(uintptr_t)bytes, (unsigned)len);
}

/* The closed commands of kinds [from, to), in the order of kinds. */
static unsigned add_commands(struct batch *b, int from, int to)
{
	unsigned count = 0;

	for (int kind = from; kind < to; kind++) {
		struct slice bytes = buf_slice(&b->sections[kind].bytes);

		for (unsigned i = 0; i < b->command_count; i++) {
			const struct batch_command *command = &b->commands[i];

			if ((int)command->kind != kind)
				continue;
			add_part(b, bytes.data + command->offset, command->len);
			count++;
		}
	}
	return count;
}

static void close_commands(struct batch *b)
{
	for (int kind = 0; kind < BATCH_KIND_COUNT; kind++)
		if (b->sections[kind].entries > 0)
			close_command(b, (enum batch_kind)kind);
	b->request.parts = b->parts;
	b->request.part_count = 0;
}

unsigned batch_append(struct batch *b, struct buf *out)
{
	unsigned count;

	close_commands(b);
	count = add_commands(b, 0, BATCH_KIND_COUNT);
	for (unsigned i = 0; i < count; i++)
		buf_append(out, b->parts[i].base, b->parts[i].len);
	return count;
}

void batch_seal(struct batch *b)
{
	static const char multi[] = "*1\r\n$5\r\nMULTI\r\n";
	static const char exec[] = "*1\r\n$4\r\nEXEC\r\n";

	close_commands(b);
	b->removal_replies = add_commands(b, 0, BATCH_WRITES);
	/* MULTI's place is kept until it is known whether it is needed. */
	unsigned multi_at = b->request.part_count;
	add_part(b, multi, sizeof(multi) - 1);
	unsigned writes = add_commands(b, BATCH_WRITES, BATCH_KIND_COUNT);
	b->has_exec = writes > 1;
	if (b->has_exec) {
		add_part(b, exec, sizeof(exec) - 1);
	} else {
		b->request.part_count--;
		b->parts[multi_at] = b->parts[multi_at + writes];
	}
	b->request.replies = b->removal_replies + writes + (b->has_exec ? 2 : 0);
}

static void refuse(struct batch *b, int *status, const char *text)
{
	/* The first error is the reason; EXECABORT that follows it is not. */
	if (!b->result.text) {
		snprintf(b->text, sizeof(b->text), "%s", text);
		b->result.text = b->text;
	}
	*status = TIDE_ESTORE;
}

static void check_exec(struct batch *b, const redisReply *reply)
{
	if (reply->type != REDIS_REPLY_ARRAY) {
		refuse(b, &b->result.written, "EXEC was not answered with an array");
		return;
	}
	for (size_t i = 0; i < reply->elements; i++)
		if (reply->element[i]->type == REDIS_REPLY_ERROR)
			refuse(b, &b->result.written, reply->element[i]->str);
}

void batch_reply(struct batch *b, const redisReply *reply)
{
	unsigned answered = b->request.answered;
	bool is_removal = answered <= b->removal_replies;
	bool is_exec = b->has_exec && answered == b->request.replies;

	if (answered == 1) /* perhaps for the second time, after a reconnect */
		b->result = (struct batch_result){ TIDE_OK, TIDE_OK, NULL, false };
	if (answered == 1 && b->has_size)
		return;
	if (reply->type == REDIS_REPLY_ERROR)
		refuse(b, is_removal ? &b->result.removed : &b->result.written,
		       reply->str);
	else if (is_exec)
		check_exec(b, reply);
}
