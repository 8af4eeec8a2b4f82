#include <inttypes.h>
#include <strings.h>

#include "base/mem.h"
#include "client.h"

enum record_kind { RECORD_OPEN, RECORD_DECLARE, RECORD_BIND, RECORD_SUB };

/* Where a reader of a topic has got to in a partition.
 *
 * The broker forgets a reader with its connection. Over the next one it is told where to
 * begin: an offset, if the reader has one partition. Else the time of the last message,
 * that of the partition that is furthest behind; what the other partitions send again is
 * passed over. */
struct reader_position {
	unsigned partition;
	uint64_t next;      /* the offset behind the last message */
	uint64_t repeat_to; /* below it, what comes came before */
	int64_t ts_unix_ms; /* of the last message: never goes back in a partition */
};

/* The line of a request, with its words. */
struct restore_record {
	enum record_kind kind;
	unsigned channel;
	bool is_exclusive; /* a queue that ends with its connection */
	char *line;
	struct slice words[3]; /* those behind the verb, as far as there are any */
	struct slice options;  /* what follows them */
	struct reader_position *positions; /* of a subscription to a topic */
	size_t position_count;
	/* The channel, and the line; of a subscription its name behind a ">". */
	struct buf key;
	UT_hash_handle hh;
};

static void free_record(struct restore_record *record)
{
	mem_free(record->positions);
	buf_deinit(&record->key);
	mem_free(record->line);
	mem_free(record);
}

static void unlink_record(struct client_restore *r, struct restore_record *record)
{
	HASH_DEL(r->records, record);
	r->exclusives -= record->is_exclusive;
	r->reader = NULL;
}

static void remove_record(struct client_restore *r, struct restore_record *record)
{
	unlink_record(r, record);
	free_record(record);
}

void client_restore_deinit(struct client_restore *r)
{
	struct restore_record *record, *next;

	HASH_ITER (hh, r->records, record, next)
		remove_record(r, record);
}

static bool has_word(struct slice words, const char *word)
{
	while (words.len > 0)
		if (slice_is(slice_cut(&words, ' '), word))
			return true;
	return false;
}

/* A subscription is found by its name, the others by their lines. */
static void append_key(struct buf *key, enum record_kind kind, unsigned channel,
		       struct slice text)
{
	buf_printf(key, "%s%u %" SLICE_FMT, kind == RECORD_SUB ? ">" : "", channel,
		   SLICE_ARG(text));
}

static struct restore_record *find_record(struct client_restore *r, enum record_kind kind,
					  unsigned channel, struct slice text)
{
	struct restore_record *record = NULL;
	struct buf key = { 0 };
	struct slice bytes;

	append_key(&key, kind, channel, text);
	bytes = buf_slice(&key);
	HASH_FIND(hh, r->records, bytes.data, bytes.len, record);
	buf_deinit(&key);
	return record;
}

static struct restore_record *create_record(enum record_kind kind, unsigned channel,
					    struct slice line)
{
	struct restore_record *record = mem_zalloc(sizeof(*record));

	record->kind = kind;
	record->channel = channel;
	record->line = mem_strndup(line.data, line.len);
	line.data = record->line;
	slice_cut(&line, ' ');
	for (size_t i = 0; i < 2 + (kind == RECORD_BIND); i++)
		record->words[i] = slice_cut(&line, ' ');
	record->options = line;
	record->is_exclusive = kind == RECORD_DECLARE && (has_word(line, "exclusive") ||
							  has_word(line, "exclusive=1"));
	append_key(&record->key, kind, channel,
		   kind == RECORD_SUB ? record->words[1] : slice_from(record->line));
	return record;
}

static void add_record(struct client_restore *r, enum record_kind kind, unsigned channel,
		       struct slice line)
{
	struct restore_record *record = create_record(kind, channel, line);
	struct slice key = buf_slice(&record->key);
	struct restore_record *old;

	HASH_FIND(hh, r->records, key.data, key.len, old);
	if (old && kind != RECORD_SUB) {
		free_record(record);
		return;
	}
	if (old)
		remove_record(r, old);
	HASH_ADD_KEYPTR(hh, r->records, key.data, key.len, record);
	r->exclusives += record->is_exclusive;
}

void client_restore_cancel(struct client_restore *r, unsigned channel, struct slice sid)
{
	struct restore_record *record = find_record(r, RECORD_SUB, channel, sid);

	if (record)
		remove_record(r, record);
}

/* Selects the records that go. */
typedef bool (*is_undone_fn)(const struct restore_record *record, unsigned channel,
			     const struct slice *words);

static void undo_records(struct client_restore *r, is_undone_fn is_undone,
			 unsigned channel, const struct slice *words)
{
	struct restore_record *record, *next;

	HASH_ITER (hh, r->records, record, next)
		if (is_undone(record, channel, words))
			remove_record(r, record);
}

static bool is_in_channel(const struct restore_record *record, unsigned channel,
			  const struct slice *words)
{
	return record->channel == channel &&
	       (record->kind == RECORD_OPEN || record->kind == RECORD_SUB);
}

/* words[0] is the kind of what is deleted, words[1] its name. */
static bool is_deleted(const struct restore_record *record, unsigned channel,
		       const struct slice *words)
{
	bool is_exchange = slice_is(words[0], "exchange");

	if (record->kind == RECORD_DECLARE)
		return slice_is_equal(record->words[0], words[0]) &&
		       slice_is_equal(record->words[1], words[1]);
	if (record->kind != RECORD_BIND || slice_is(words[0], "group"))
		return false;
	if (is_exchange && slice_is_equal(record->words[1], words[1]))
		return true;
	return has_word(record->options, "dest=exchange") == is_exchange &&
	       slice_is_equal(record->words[0], words[1]);
}

/* A former declaration holds no more. One that goes with the connection is
 * remembered, since it is not declared again. */
static bool is_updated(const struct restore_record *record, unsigned channel,
		       const struct slice *words)
{
	return record->kind == RECORD_DECLARE && !record->is_exclusive &&
	       is_deleted(record, channel, words);
}

/* words[0] is what BIND said after its verb. */
static bool is_unbound(const struct restore_record *record, unsigned channel,
		       const struct slice *words)
{
	struct slice line = slice_from(record->line);

	slice_cut(&line, ' ');
	return record->kind == RECORD_BIND && slice_is_equal(line, words[0]);
}

/* DECLARE queue - ...: the name that the broker has chosen is what can be declared
 * again. */
static void add_declaration(struct client_restore *r, struct slice line,
			    struct slice reply)
{
	struct slice rest = line, verb = slice_cut(&rest, ' ');
	struct slice kind = slice_cut(&rest, ' '), name = slice_cut(&rest, ' ');
	struct buf named = { 0 };

	if (slice_is(name, "-"))
		name = slice_cut(&reply, ' ');
	buf_append_slice(&named, verb);
	buf_append_char(&named, ' ');
	buf_append_slice(&named, kind);
	buf_append_char(&named, ' ');
	buf_append_slice(&named, name);
	if (rest.len > 0)
		buf_append_char(&named, ' ');
	buf_append_slice(&named, rest);
	add_record(r, RECORD_DECLARE, 0, buf_slice(&named));
	buf_deinit(&named);
}

static bool is_verb(struct slice verb, const char *name)
{
	return verb.len == strlen(name) && strncasecmp(verb.data, name, verb.len) == 0;
}

void client_restore_note(struct client_restore *r, unsigned channel, struct slice line,
			 struct slice reply)
{
	struct slice rest = line, verb = slice_cut(&rest, ' '), all = rest;
	struct slice words[2] = { slice_cut(&rest, ' '), { 0 } };

	words[1] = slice_cut(&rest, ' ');
	if (is_verb(verb, "OPEN"))
		add_record(r, RECORD_OPEN, channel, line);
	else if (is_verb(verb, "DECLARE") &&
		 (has_word(rest, "update") || has_word(rest, "update=1")))
		undo_records(r, is_updated, channel, words);
	else if (is_verb(verb, "DECLARE"))
		add_declaration(r, line, reply);
	else if (is_verb(verb, "BIND"))
		add_record(r, RECORD_BIND, 0, line);
	else if (is_verb(verb, "SUB"))
		add_record(r, RECORD_SUB, channel, line);
	else if (is_verb(verb, "CLOSE"))
		undo_records(r, is_in_channel, channel, NULL);
	else if (is_verb(verb, "DELETE"))
		undo_records(r, is_deleted, channel, words);
	else if (is_verb(verb, "UNBIND"))
		undo_records(r, is_unbound, channel, &all);
	else if (is_verb(verb, "UNSUB"))
		client_restore_cancel(r, channel, words[0]);
}

static bool has_option(struct slice options, const char *prefix)
{
	while (options.len > 0)
		if (slice_has_prefix(slice_cut(&options, ' '), prefix))
			return true;
	return false;
}

static struct reader_position *position_of(struct restore_record *r, unsigned partition)
{
	for (size_t i = 0; i < r->position_count; i++)
		if (r->positions[i].partition == partition)
			return &r->positions[i];
	r->positions = mem_realloc(r->positions,
				   (r->position_count + 1) * sizeof(*r->positions));
	r->positions[r->position_count] =
		(struct reader_position){ .partition = partition };
	return &r->positions[r->position_count++];
}

static bool see_position(struct restore_record *r, const struct tidemq_msg *m)
{
	struct reader_position *at = position_of(r, m->partition);

	if (m->offset < at->repeat_to)
		return false;
	/* From here on a lower offset is a message that the reader has refused. */
	at->repeat_to = 0;
	if (m->offset >= at->next) {
		at->next = m->offset + 1;
		at->ts_unix_ms = m->ts_unix_ms;
	}
	return true;
}

static void unsee_position(struct restore_record *r, const struct tidemq_msg *m)
{
	struct reader_position *at = position_of(r, m->partition);

	if (m->offset >= at->next)
		return;
	at->next = m->offset;
	at->ts_unix_ms = m->ts_unix_ms;
}

/* Append the option from= of the next connection. */
static void append_from(struct restore_record *r, bool is_single, struct buf *line)
{
	int64_t ts_unix_ms = INT64_MAX;

	for (size_t i = 0; i < r->position_count; i++) {
		struct reader_position *at = &r->positions[i];

		at->repeat_to = at->next;
		if (at->ts_unix_ms < ts_unix_ms)
			ts_unix_ms = at->ts_unix_ms;
	}
	if (r->position_count > 0 && is_single)
		buf_printf(line, " from=%" PRIu64, r->positions[0].next);
	else if (r->position_count > 0)
		buf_printf(line, " from=@%" PRId64, ts_unix_ms);
}

/* The reader that the message is for. NULL: it is that of a group. */
static struct restore_record *find_reader(struct client_restore *r,
					  const struct tidemq_msg *m)
{
	struct restore_record *record = r->reader;

	if (!record || record->channel != m->channel ||
	    !slice_is(record->words[1], m->sid))
		record = find_record(r, RECORD_SUB, m->channel, slice_from(m->sid));
	r->reader = record;
	return record && !has_option(record->options, "group=") ? record : NULL;
}

bool client_restore_see(struct client_restore *r, const struct tidemq_msg *m)
{
	struct restore_record *reader = find_reader(r, m);

	return !reader || see_position(reader, m);
}

void client_restore_unsee(struct client_restore *r, const struct tidemq_msg *m)
{
	struct restore_record *reader = find_reader(r, m);

	if (reader)
		unsee_position(reader, m);
}

/* Has the record to do with an exclusive queue? It is not made again. */
static bool is_lost(const struct client_restore *r, const struct restore_record *record)
{
	const struct restore_record *other, *next;

	if (record->is_exclusive)
		return true;
	if (r->exclusives == 0 || record->kind < RECORD_BIND ||
	    has_word(record->options, "dest=exchange"))
		return false;
	HASH_ITER (hh, r->records, other, next)
		if (other->is_exclusive &&
		    slice_is_equal(other->words[1], record->words[0]))
			return true;
	return false;
}

/* The broker may do later what it cannot do now. */
static bool is_passing(const struct tidemq_reply *reply)
{
	static const char *const words[] = { "busy", "store", "shutdown" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcmp(reply->word, words[i]) == 0)
			return true;
	return false;
}

static void keep_refusal(struct client_restore *r, const struct restore_record *record,
			 const struct tidemq_reply *reply)
{
	struct buf text = { 0 };

	if (r->refusal.status != TIDEMQ_OK)
		return;
	buf_printf(&text, "%s: %s", record->line, reply->text);
	client_fail_remote(&r->refusal, TIDEMQ_EREFUSED, slice_from(reply->word),
			   buf_slice(&text));
	buf_deinit(&text);
}

static void tell_cancelled(struct tidemq_client *c, const struct restore_record *record,
			   const char *why)
{
	struct buf text = { 0 };

	buf_printf(&text, "cancelled %" SLICE_FMT " %s", SLICE_ARG(record->words[1]),
		   why);
	client_event(c, record->channel, buf_cstr(&text));
	buf_deinit(&text);
}

static void finish_step(struct tidemq_client *c)
{
	struct client_restore *r = &c->restore;

	if (r->awaited > 0)
		return;
	if (c->state == CLIENT_RESTORING)
		client_connect_resume(c);
	else if (c->state == CLIENT_UP)
		client_tell(c, TIDEMQ_RESTORED, &r->refusal);
}

static void on_restored(struct tidemq_client *c, const struct tidemq_reply *reply,
			void *ctx)
{
	struct client_restore *r = &c->restore;
	struct restore_record *record = ctx;

	if (reply->status != TIDEMQ_OK && is_passing(reply)) {
		client_fail(&c->loss, TIDEMQ_ECLOSED,
			    "the broker cannot restore the connection yet: %s",
			    reply->text);
		client_connect_lose(c);
		return;
	}
	if (reply->status != TIDEMQ_OK)
		keep_refusal(r, record, reply);
	r->awaited--;
	if (reply->status != TIDEMQ_OK && record->kind == RECORD_SUB) {
		unlink_record(r, record);
		tell_cancelled(c, record, reply->word);
		free_record(record);
	}
	finish_step(c);
}

/* The line of a reader, with another place to begin. */
static void append_reader(struct restore_record *record, struct buf *line)
{
	struct slice options = record->options;

	buf_printf(line, "SUB %" SLICE_FMT " %" SLICE_FMT, SLICE_ARG(record->words[0]),
		   SLICE_ARG(record->words[1]));
	while (options.len > 0) {
		struct slice word = slice_cut(&options, ' ');

		if (!slice_has_prefix(word, "from="))
			buf_printf(line, " %" SLICE_FMT, SLICE_ARG(word));
	}
	append_from(record, has_option(record->options, "partition="), line);
}

static void send_record(struct tidemq_client *c, struct restore_record *record)
{
	struct buf line = { 0 };

	if (record->channel > 0)
		buf_printf(&line, "@%u ", record->channel);
	if (record->position_count > 0)
		append_reader(record, &line);
	else
		buf_append_text(&line, record->line);
	c->restore.awaited++;
	client_request_send_own(c, record->channel, &line, on_restored, record);
	buf_deinit(&line);
}

void client_restore_begin(struct tidemq_client *c)
{
	struct client_restore *r = &c->restore;
	struct restore_record *record, *next;

	r->awaited = 0;
	r->refusal = (struct tidemq_error){ 0 };
	HASH_ITER (hh, r->records, record, next)
		if (record->kind != RECORD_SUB && !is_lost(r, record))
			send_record(c, record);
	finish_step(c);
}

/* Forget the exclusive queues and their bindings, and move their subscriptions. */
static struct restore_record *take_lost(struct client_restore *r)
{
	struct restore_record *record, *next, *lost = NULL;

	HASH_ITER (hh, r->records, record, next) {
		struct slice key = buf_slice(&record->key);

		if (!is_lost(r, record) || record->is_exclusive)
			continue;
		unlink_record(r, record);
		if (record->kind == RECORD_SUB)
			HASH_ADD_KEYPTR(hh, lost, key.data, key.len, record);
		else
			free_record(record);
	}
	HASH_ITER (hh, r->records, record, next)
		if (record->is_exclusive)
			remove_record(r, record);
	return lost;
}

void client_restore_subscribe(struct tidemq_client *c)
{
	struct client_restore *r = &c->restore;
	struct restore_record *lost = take_lost(r), *record, *next;

	HASH_ITER (hh, r->records, record, next)
		if (record->kind == RECORD_SUB)
			send_record(c, record);
	client_request_send_kept(c);
	/* The owner may close the client meanwhile. */
	HASH_ITER (hh, lost, record, next) {
		HASH_DEL(lost, record);
		if (c->state == CLIENT_UP)
			tell_cancelled(c, record, "queue-deleted");
		free_record(record);
	}
	finish_step(c);
}
