#include "redis_holder.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "host/log.h"
#include "host/machine.h"
#include "layout.h"
#include "redis_trouble.h"
#include "resp.h"
#include "scripts.h"
#include "slots.h"
#include "tls/secret.h"

#define STORE_SECRET_BYTES 32
/* A record that becomes a string, or a hash, while it is looked at is no odd one. */
#define ODD_LOOKS 3

/* Redis may be out of memory, and what frees some are the acks that the holder takes. */
#define TAKE_FLAGS "#!lua flags=allow-oom\n"

TIDE_PRINTF(2, 3)
static void add(struct buf *out, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	resp_command(out, format, args);
	va_end(args);
}

void redis_self_init(struct redis_self *self, unsigned cells)
{
	snprintf(self->incarnation, sizeof(self->incarnation), "%016llx",
		 (unsigned long long)machine_random());
	process_self(&self->process);
	self->epoch = 0;
	redis_cells_init(&self->cells, cells);
}

static bool has_cell(const struct redis_holder *h)
{
	return h->self->cells.own != STORE_NO_CELL;
}

/* It is to own a cell, and owns none. */
static bool is_candidate(const struct redis_holder *h)
{
	return !h->is_guest && !has_cell(h) && h->self->cells.wanted > 1;
}

static void forget_record(struct redis_holder *h)
{
	h->has_held = h->has_taken = false;
	h->writes = h->confirmed = 0;
	h->watch = (struct redis_watch){ 0 };
	h->taken_from[0] = '\0';
}

void redis_holder_set_key(struct redis_holder *h, const char *key, const char *probe)
{
	size_t key_len;

	forget_record(h);
	snprintf(h->base, sizeof(h->base), "%s", key);
	if (has_cell(h))
		snprintf(h->key, sizeof(h->key), "%s:%u", key, h->self->cells.own);
	else
		snprintf(h->key, sizeof(h->key), "%s", key);
	key = h->key;
	key_len = strlen(key);
	snprintf(h->count, sizeof(h->count),
		 "*4\r\n$7\r\nHINCRBY\r\n$%zu\r\n%s\r\n$6\r\nwrites\r\n$1\r\n1\r\n",
		 key_len, key);
	snprintf(h->beat, sizeof(h->beat),
		 "*3\r\n$4\r\nHGET\r\n$%zu\r\n%s\r\n$11\r\nincarnation\r\n"
		 "*5\r\n$4\r\nZADD\r\n$%zu\r\n%s\r\n$2\r\nXX\r\n$1\r\n0\r\n"
		 "$5\r\nprobe\r\n"
		 "*2\r\n$4\r\nINFO\r\n$11\r\nreplication\r\n",
		 key_len, key, strlen(probe), probe);
}

void redis_holder_move(struct redis_holder *from, struct redis_holder *to)
{
	to->has_held = from->has_held;
	to->has_taken = from->has_taken;
	to->writes = from->writes;
	to->confirmed = from->confirmed;
	to->taken_at = from->taken_at;
	memcpy(to->taken_from, from->taken_from, sizeof(to->taken_from));
	to->is_guest = from->is_guest;
	memcpy(to->base, from->base, sizeof(to->base));
	memcpy(to->key, from->key, sizeof(to->key));
	memcpy(to->count, from->count, sizeof(to->count));
	memcpy(to->beat, from->beat, sizeof(to->beat));
	forget_record(from);
}

void redis_holder_deinit(struct redis_holder *h)
{
	buf_deinit(&h->fence);
}

void redis_holder_begin(struct redis_holder *h, unsigned redis_major)
{
	h->has_flags = redis_major >= 7;
	h->step = HOLDER_LOOK;
	h->watch.alive_looks = h->watch.lapsed_looks = 0;
	if (h->is_confirmed_late)
		h->writes = h->confirmed;
}

/* Its record is {tide}:holder, and {tide}:cluster in the same slot has the secret. */
static bool has_secret(const struct redis_holder *h)
{
	return h->self->at && !h->is_guest;
}

static void add_name(const struct redis_holder *h, struct buf *out)
{
	const struct redis_cells *cells = &h->self->cells;
	const char *incarnation = h->self->incarnation;

	if (!h->has_taken)
		add(out, "CLIENT SETNAME " REDIS_NAME);
	else if (!has_cell(h))
		add(out, "CLIENT SETNAME " REDIS_NAME_HELD "%s", incarnation);
	else
		add(out, "CLIENT SETNAME " REDIS_NAME_HELD "%llu.%u:%s",
		    (unsigned long long)cells->split, cells->own, incarnation);
}

static unsigned add_look(struct redis_holder *h, struct buf *out)
{
	bool has_cells = is_candidate(h) || (h->is_split && !h->is_guest && !has_cell(h));
	unsigned count = 4;

	h->record = (struct redis_holder_record){ .is_released = true };
	h->is_old = !h->has_slots;
	h->is_locked = h->has_slots;
	h->reason[0] = h->lock[0] = '\0';
	h->is_other_alive = h->is_elsewhere = h->lacks_replicas = false;
	h->is_split = h->is_lock_hash = false;
	h->cells_index = h->lock_index = h->old_index = 0;
	buf_clear(&h->fence);
	h->fence_count = 0;
	add_name(h, out);
	add(out, "CLIENT ID");
	add(out, "HGETALL %s", h->key);
	/* What connections of cells there are is noted while the records come. */
	if (has_cells) {
		h->cells_index = count - 1;
		h->cells_replies = redis_cells_look(&h->self->cells, out);
		count += h->cells_replies;
	}
	add(out, "CLIENT LIST TYPE normal");
	h->list_index = count - 1;
	if (!h->has_slots) {
		add(out, "HGETALL " LAYOUT_OLD_HOLDER_KEY);
		h->old_index = count++;
	}
	if (has_secret(h)) {
		add(out, "HGET " LAYOUT_CLUSTER_KEY " secret");
		h->secret_index = count++;
	}
	if (has_cell(h)) {
		add(out, "GET %s", h->base);
		h->lock_index = count++;
	}
	return count;
}

/* The command that runs a script, word by word. */
struct script_words {
	struct buf bytes;
	size_t count;
};

TIDE_PRINTF(2, 3)
static void put(struct script_words *w, const char *format, ...)
{
	char word[STORE_ADDRESS_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(word, sizeof(word), format, args);
	va_end(args);
	resp_text(&w->bytes, word);
	w->count++;
}

static struct script_words begin_script(const struct redis_holder *h, struct slice script,
					size_t keys)
{
	struct script_words w = { { 0 }, 0 };
	struct buf text = { 0 };

	put(&w, "EVAL");
	buf_append_text(&text, h->has_flags ? TAKE_FLAGS : "");
	buf_append_slice(&text, script);
	resp_bulk(&w.bytes, buf_slice(&text));
	w.count++;
	buf_deinit(&text);
	put(&w, "%zu", keys);
	return w;
}

static unsigned end_script(struct script_words *w, struct buf *out)
{
	resp_array(out, w->count);
	buf_append_slice(out, buf_slice(&w->bytes));
	buf_deinit(&w->bytes);
	return 1;
}

/* Without the node. */
static void put_process(struct script_words *w, const struct process *p)
{
	put(w, "host");
	put(w, "%s", p->host);
	put(w, "pid");
	put(w, "%lld", (long long)p->pid);
	put(w, "boot");
	put(w, "%s", p->boot);
	put(w, "pids");
	put(w, "%llu", (unsigned long long)p->pids);
	put(w, "start");
	put(w, "%llu", (unsigned long long)p->start_tick);
	put(w, "since");
	put(w, "%lld", (long long)machine_clock_ms(CLOCK_REALTIME));
}

static void put_number(struct script_words *w, const char *name, uint64_t n)
{
	put(w, "%s", name);
	put(w, "%llu", (unsigned long long)n);
}

static void put_incarnation(struct script_words *w, const struct redis_holder *h)
{
	put(w, "incarnation");
	put(w, "%s", h->self->incarnation);
}

/* Without a secret no other broker is let in. */
static void put_secret(struct script_words *w, const struct redis_holder *h)
{
	char secret[SECRET_MAX] = "";
	struct error err;

	if (has_secret(h) && secret_make(STORE_SECRET_BYTES, secret, &err) < 0)
		log_error("store: no other broker is let in: %s", err.text);
	put(w, "%s", secret);
	put(w, "%s", secret[0] ? h->self->at : "");
}

static unsigned add_take(struct redis_holder *h, struct buf *out)
{
	const char *key = h->is_old ? LAYOUT_OLD_HOLDER_KEY : h->key;
	struct script_words w = begin_script(h, script_holder_take, 2);

	snprintf(h->taken_from, sizeof(h->taken_from), "%s", h->record.incarnation);
	put(&w, "%s", key);
	put(&w, "%s", has_secret(h) ? LAYOUT_CLUSTER_KEY : key);
	put(&w, "%s", h->record.incarnation);
	put_secret(&w, h);
	put_incarnation(&w, h);
	put_number(&w, "node", h->node);
	put_process(&w, &h->self->process);
	put_number(&w, "epoch", h->is_guest ? h->self->epoch : h->record.epoch + 1);
	if (is_candidate(h))
		put_number(&w, "cells", h->self->cells.wanted);
	return end_script(&w, out);
}

static unsigned add_cell(struct redis_holder *h, struct buf *out)
{
	const struct redis_cells *cells = &h->self->cells;
	unsigned cell = has_cell(h) ? cells->own : cells->target;
	const struct redis_holder_record *r =
		has_cell(h) ? &h->record : &cells->cells[cell].record;
	uint64_t epoch = r->epoch > cells->split ? r->epoch : cells->split;
	struct script_words w = begin_script(h, script_holder_cell,
					     h->is_guest ? 3 : 2 + (size_t)cells->count);

	snprintf(h->taken_from, sizeof(h->taken_from), "%s", r->incarnation);
	put(&w, "%s:%u", h->base, cell);
	put(&w, "%s", h->base);
	put(&w, "%s", h->is_guest ? h->base : LAYOUT_CLUSTER_KEY);
	for (unsigned k = 0; !h->is_guest && k < cells->count; k++)
		if (k != cell)
			put(&w, "%s:%u", h->base, k);
	put(&w, "%s", r->incarnation);
	put(&w, "%s", cells->lock);
	put(&w, "%llu", (unsigned long long)cells->split);
	put_secret(&w, h);
	put(&w, "%u", h->node);
	put_incarnation(&w, h);
	put_process(&w, &h->self->process);
	put_number(&w, "epoch", h->is_guest ? h->self->epoch : epoch + 1);
	return end_script(&w, out);
}

static unsigned add_split(struct redis_holder *h, struct buf *out)
{
	struct script_words w = begin_script(h, script_holder_split, 1);

	put(&w, "%s", h->key);
	put(&w, "%s", h->self->incarnation);
	put(&w, "cells %u %llu", h->self->cells.wanted,
	    (unsigned long long)h->self->epoch);
	return end_script(&w, out);
}

static unsigned add_join(struct redis_holder *h, struct buf *out)
{
	const struct redis_cells *cells = &h->self->cells;
	unsigned count = h->is_guest ? 0 : cells->count;
	struct script_words w =
		begin_script(h, script_holder_join, h->is_guest ? 1 : 2 + count);
	uint64_t epoch = cells->split;

	for (unsigned k = 0; k < count; k++)
		if (cells->cells[k].record.epoch > epoch)
			epoch = cells->cells[k].record.epoch;
	h->taken_from[0] = '\0';
	put(&w, "%s", h->base);
	if (!h->is_guest)
		put(&w, LAYOUT_META "ids");
	for (unsigned k = 0; k < count; k++)
		put(&w, "%s:%u", h->base, k);
	put(&w, "%s", h->is_guest ? "" : cells->lock);
	put(&w, "%llu", (unsigned long long)(h->is_guest ? h->self->epoch : epoch + 1));
	for (unsigned k = 0; k < count; k++)
		put(&w, "%s", cells->cells[k].record.incarnation);
	put_incarnation(&w, h);
	put_number(&w, "node", h->node);
	put_process(&w, &h->self->process);
	put_number(&w, "cells", cells->wanted > 1 ? cells->wanted : 0);
	if (has_secret(h)) {
		put(&w, "at");
		put(&w, "%s", h->self->at);
	}
	return end_script(&w, out);
}

static unsigned add_migrate(const struct redis_holder *h, struct buf *out)
{
	add(out,
	    "EVAL %s%s 4 " LAYOUT_OLD_HOLDER_KEY " " LAYOUT_HOLDER_KEY
	    " " LAYOUT_CLUSTER_KEY " " LAYOUT_OLD_IDS_KEY " %s %s",
	    h->has_flags ? TAKE_FLAGS : "", script_holder_migrate.data,
	    h->self->incarnation, LAYOUT_LOCK);
	return 1;
}

/* The first ends nothing: it tells whether Redis lets us. */
static unsigned add_fence(struct redis_holder *h, struct buf *out)
{
	add(out, "CLIENT KILL ID %llu SKIPME yes", (unsigned long long)h->connection);
	buf_append(out, buf_cstr(&h->fence), buf_len(&h->fence));
	return 1 + h->fence_count;
}

unsigned redis_holder_round(struct redis_holder *h, struct buf *out)
{
	h->is_taken = h->was_raced = false;
	switch (h->step) {
	case HOLDER_TAKE:
		return add_take(h, out);
	case HOLDER_FENCE:
		return add_fence(h, out);
	case HOLDER_MIGRATE:
		return add_migrate(h, out);
	case HOLDER_SPLIT:
		return add_split(h, out);
	case HOLDER_JOIN:
		return add_join(h, out);
	case HOLDER_CELL:
		return add_cell(h, out);
	default:
		return add_look(h, out);
	}
}

static void copy_word(char *out, size_t size, struct slice word)
{
	snprintf(out, size, "%" SLICE_FMT, SLICE_HEAD(word, size - 1));
}

static struct slice text_of(const redisReply *reply)
{
	if (reply->type != REDIS_REPLY_STRING)
		return SLICE("");
	return (struct slice){ reply->str, reply->len };
}

static bool is_recorded(const struct redis_holder *h)
{
	return strcmp(h->record.incarnation, h->self->incarnation) == 0;
}

/* A connection of a broker that holds or held the store, in a line of CLIENT LIST. Who
 * owns a cell leaves the owners of others alone, but none of another split. */
static void read_connection(struct redis_holder *h, struct slice line)
{
	struct redis_cells *cells = &h->self->cells;
	struct redis_client c;
	bool is_ours = has_cell(h), is_rival;

	if (!redis_cells_read_client(line, &c) || c.db != h->db || c.id == h->connection)
		return;
	redis_cells_client(cells, &c);
	is_rival = !is_ours || (c.split == cells->split && c.cell == cells->own);
	if (!is_rival && c.split == cells->split)
		return;
	add(&h->fence, "CLIENT KILL ID %llu", (unsigned long long)c.id);
	h->fence_count++;
	h->is_other_alive |=
		is_rival && c.is_alive && !slice_is(c.incarnation, h->self->incarnation);
}

static bool is_of_cells(const struct redis_holder *h, unsigned index)
{
	return h->cells_index && index >= h->cells_index &&
	       index < h->cells_index + h->cells_replies;
}

static void read_look(struct redis_holder *h, unsigned index, const redisReply *reply)
{
	struct slice list = text_of(reply);

	if (index == 1 && reply->type == REDIS_REPLY_INTEGER)
		h->connection = (uint64_t)reply->integer;
	if (index == 2 || (h->old_index && index == h->old_index && h->is_old))
		redis_cells_read_record(&h->record, reply);
	/* One that only counts is what was on its way to a Redis that was emptied. */
	if (index == 2 && reply->elements > 0)
		h->is_old = false;
	if (has_secret(h) && index == h->secret_index)
		copy_word(h->self->secret, sizeof(h->self->secret), text_of(reply));
	if (h->lock_index && index == h->lock_index)
		copy_word(h->lock, sizeof(h->lock), text_of(reply));
	if (is_of_cells(h, index))
		redis_cells_reply(&h->self->cells, index - h->cells_index, reply);
	while (index == h->list_index && list.len > 0)
		read_connection(h, slice_cut(&list, '\n'));
}

/* Where a hash is looked for and a string found, or the other way round: it tells how the
 * store is split, or that its layout is 2. */
static bool read_wrong_type(struct redis_holder *h, unsigned index,
			    const redisReply *reply)
{
	if (h->step != HOLDER_LOOK || reply->type != REDIS_REPLY_ERROR ||
	    strncmp(reply->str, "WRONGTYPE", 9) != 0)
		return false;
	if (index == 2 && !has_cell(h))
		h->is_split = true;
	else if (h->old_index && index == h->old_index)
		h->is_locked = true;
	else if (h->lock_index && index == h->lock_index)
		h->is_lock_hash = true;
	else if (h->cells_index && index == h->cells_index + 1)
		redis_cells_reply(&h->self->cells, 1, reply);
	else
		return false;
	return true;
}

/* The record has become the string, or the other way round, since it was looked at. */
static bool read_race(struct redis_holder *h, const redisReply *reply)
{
	h->was_raced = (h->step == HOLDER_TAKE || h->step >= HOLDER_SPLIT) &&
		       reply->type == REDIS_REPLY_ERROR &&
		       strstr(reply->str, "WRONGTYPE") && ++h->odd_looks < ODD_LOOKS;
	return h->was_raced;
}

static void refuse(struct redis_holder *h, unsigned index, const char *text)
{
	bool is_look = h->step == HOLDER_LOOK;
	bool has_key = !is_look ? h->step != HOLDER_FENCE : index == 2;
	const char *what = h->step == HOLDER_FENCE ? "run CLIENT KILL"
			   : !is_look              ? "write "
			   : index == 2            ? "read "
			   : h->old_index && index == h->old_index
				   ? "read " LAYOUT_OLD_HOLDER_KEY
			   : is_of_cells(h, index)  ? "read the records of the cells"
			   : index == h->list_index ? "run CLIENT LIST"
						    : "name its connection";

	if (!h->reason[0])
		snprintf(h->reason, sizeof(h->reason),
			 "the broker cannot %s%s, which keeps a second broker away: %s",
			 what, has_key ? h->key : "", text);
}

static void take_reply(struct redis_holder *h, const redisReply *reply)
{
	char from[sizeof(h->taken_from)];

	if (reply->integer <= 0)
		return;
	h->is_taken = true;
	if (h->step == HOLDER_SPLIT) {
		h->has_taken = false;
		h->self->epoch = 0;
		return;
	}
	if (h->step == HOLDER_JOIN && h->is_guest)
		return;
	if (h->step == HOLDER_CELL && !has_cell(h)) {
		memcpy(from, h->taken_from, sizeof(from));
		h->self->cells.own = h->self->cells.target;
		redis_holder_set_key(h, LAYOUT_HOLDER_KEY, LAYOUT_PROBE_KEY);
		memcpy(h->taken_from, from, sizeof(from));
	}
	h->has_taken = true;
	h->writes = h->taken_at = (uint64_t)reply->integer;
	if (h->confirmed > h->writes)
		h->confirmed = h->writes;
}

void redis_holder_reply(struct redis_holder *h, unsigned index, const redisReply *reply)
{
	if (slots_bounce(reply) != BOUNCE_NONE && !redis_trouble_is_elsewhere(reply))
		h->is_elsewhere = true;
	else if (reply->type == REDIS_REPLY_ERROR &&
		 redis_trouble_kind(reply->str) == STORE_TROUBLE_REPLICAS)
		h->lacks_replicas = true;
	else if (read_wrong_type(h, index, reply) || read_race(h, reply))
		return;
	else if (reply->type == REDIS_REPLY_ERROR && h->step == HOLDER_MIGRATE)
		snprintf(h->reason, sizeof(h->reason),
			 "the broker cannot rename the keys of an older version: %s",
			 reply->str);
	else if (reply->type == REDIS_REPLY_ERROR)
		refuse(h, index, reply->str);
	else if (h->step == HOLDER_MIGRATE)
		h->moved = reply->integer;
	else if (h->step == HOLDER_LOOK)
		read_look(h, index, reply);
	else if (h->step != HOLDER_FENCE)
		take_reply(h, reply);
}

static void describe(const struct redis_holder_record *r, char *out, size_t size)
{
	time_t since = (time_t)(r->since_unix_ms / 1000);
	struct tm tm;
	char text[32] = "?";

	if (gmtime_r(&since, &tm))
		strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
	if (r->incarnation[0])
		snprintf(out, size, "node %llu, pid %lld on %s, since %s",
			 (unsigned long long)r->node, (long long)r->process.pid,
			 r->process.host, text);
	else
		snprintf(out, size, "one that " LAYOUT_HOLDER_KEY " does not name");
}

static bool may_take(const struct redis_holder *h)
{
	return h->is_sole ||
	       redis_cells_is_over(&h->watch, &h->record, h->is_other_alive);
}

static enum redis_holder_verdict lose(struct redis_holder *h, const char *who)
{
	snprintf(h->reason, sizeof(h->reason),
		 "another broker has taken the store over: %s", who);
	return REDIS_HOLDER_LOST;
}

/* A replica was promoted that never had our name, of which nobody was told. */
static bool is_taken_back(const struct redis_holder *h)
{
	return h->is_confirmed_late && h->confirmed == 0 &&
	       strcmp(h->record.incarnation, h->taken_from) == 0;
}

/* A copy that is older than this start names a holder of before. */
static bool is_stale(const struct redis_holder *h)
{
	if (!h->has_held || is_taken_back(h))
		return false;
	return !h->record.incarnation[0] ||
	       (h->record.writes < h->writes && (is_recorded(h) || !h->is_other_alive));
}

/* Others are kept away as before: what is there is not theirs to go on with. */
static enum redis_holder_verdict stand_off(struct redis_holder *h)
{
	static const char until[] =
		"; nothing is stored until the data is back, or the broker is restarted, "
		"which goes on with what is there";

	if (!h->record.incarnation[0])
		snprintf(h->reason, sizeof(h->reason),
			 "Redis has lost all that it kept: it was emptied, or is another "
			 "one%s",
			 until);
	else
		snprintf(h->reason, sizeof(h->reason),
			 "Redis has lost the last %" PRIu64
			 " writes: it was restored from an older copy, or is another "
			 "one%s",
			 h->writes - h->record.writes, until);
	return REDIS_HOLDER_STALE;
}

static enum redis_holder_step take_step(const struct redis_holder *h)
{
	return has_cell(h) ? HOLDER_CELL : HOLDER_TAKE;
}

static enum redis_holder_verdict go_on(struct redis_holder *h,
				       enum redis_holder_step step)
{
	h->step = step;
	return REDIS_HOLDER_MORE;
}

TIDE_PRINTF(2, 3)
static enum redis_holder_verdict give_up(struct redis_holder *h, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(h->reason, sizeof(h->reason), format, args);
	va_end(args);
	return REDIS_HOLDER_LOST;
}

static enum redis_holder_verdict judge_other(struct redis_holder *h)
{
	bool is_new = redis_cells_count_look(&h->watch, &h->record, h->is_other_alive);
	bool is_standby = h->hold == STORE_HOLD_OR_WAIT;
	bool is_there = h->watch.alive_looks >= REDIS_ALIVE_LOOKS;
	char who[160];

	h->has_taken = false;
	describe(&h->record, who, sizeof(who));
	if (h->has_held && !is_taken_back(h))
		return lose(h, who);
	if (may_take(h)) {
		if (!h->record.is_released && !h->is_sole)
			log_info("store: taking over from a broker that ended or is "
				 "silent: %s",
				 who);
		h->self->owner.incarnation[0] = '\0';
		return go_on(h, take_step(h));
	}
	if (is_candidate(h) && is_there && h->record.cells != h->self->cells.wanted)
		return give_up(h,
			       "another broker holds all of this store: %s; --cells %u "
			       "needs it to be stopped first",
			       who, h->self->cells.wanted);
	if (!is_candidate(h))
		h->self->owner = h->record;
	if (!is_standby && is_there) {
		snprintf(h->reason, sizeof(h->reason),
			 "another broker holds this store: %s; with --standby this one "
			 "waits and takes over when it ends, with --cluster it serves "
			 "clients meanwhile",
			 who);
		return REDIS_HOLDER_REFUSED;
	}
	if (is_new)
		log_info("store: another broker holds it: %s; %s", who,
			 is_standby ? "standing by" : "waiting to see whether it lives");
	return REDIS_HOLDER_OTHER;
}

/* Cells. */

/* The owner of a cell is in the way, and lives: `reason` tells of it. */
static enum redis_holder_verdict wait_for(struct redis_holder *h, unsigned cell,
					  const char *reason)
{
	const struct redis_cells *cells = &h->self->cells;
	const struct redis_cell *c = &cells->cells[cell];
	char who[160];

	if (c->watch.alive_looks < REDIS_ALIVE_LOOKS)
		return REDIS_HOLDER_OTHER;
	describe(&c->record, who, sizeof(who));
	return give_up(h, "cell %u of %u of this store has an owner: %s; %s", cell,
		       cells->count, who, reason);
}

/* The store is split otherwise than it is to be, or was to be whole. */
static enum redis_holder_verdict judge_join(struct redis_holder *h)
{
	const struct redis_cells *cells = &h->self->cells;

	for (unsigned k = 0; k < cells->count; k++)
		if (!cells->cells[k].is_free)
			return wait_for(h, k,
					"stop all of its brokers before you start one "
					"with another --cells, or without it");
	if (cells->count != cells->wanted)
		log_info("store: it was split into %u cells, and is joined",
			 cells->count);
	return go_on(h, HOLDER_JOIN);
}

/* A node that owns a cell already, and has not ended in order. */
static unsigned find_node(const struct redis_holder *h)
{
	const struct redis_cells *cells = &h->self->cells;
	unsigned k = 0;

	while (k < cells->count && (cells->cells[k].record.is_released ||
				    cells->cells[k].record.node != h->node))
		k++;
	return k;
}

/* Take the first cell without an owner. Who makes the message ids that we are to make has
 * to be fenced, and not only left alone. */
static enum redis_holder_verdict judge_vacant(struct redis_holder *h)
{
	struct redis_cells *cells = &h->self->cells;
	unsigned k = find_node(h);
	char who[160];

	if (k < cells->count && !cells->cells[k].is_free)
		return wait_for(h, k,
				"it has the --node of this broker, and both would make "
				"the same message ids: give each a number of its own");
	for (unsigned i = 0; k == cells->count && i < cells->count; i++)
		if (cells->cells[i].is_free)
			k = i;
	if (k == cells->count) {
		if (!h->is_full_told)
			log_info("store: each of its %u cells has an owner; standing by",
				 cells->count);
		h->is_full_told = true;
		return REDIS_HOLDER_OTHER;
	}
	describe(&cells->cells[k].record, who, sizeof(who));
	if (cells->cells[k].record.is_released)
		log_info("store: taking cell %u of %u", k, cells->count);
	else
		log_info("store: taking cell %u of %u over from a broker that ended or "
			 "is silent: %s",
			 k, cells->count, who);
	cells->target = k;
	return go_on(h, HOLDER_CELL);
}

static enum redis_holder_verdict judge_cells(struct redis_holder *h)
{
	struct redis_cells *cells = &h->self->cells;

	/* The look was for fewer, or for none. */
	if (!h->is_guest && (!h->cells_index || cells->count + 2 > h->cells_replies))
		return REDIS_HOLDER_MORE;
	if (!h->is_guest && cells->count == 0) {
		if (++h->odd_looks < ODD_LOOKS)
			return REDIS_HOLDER_OTHER;
		refuse(h, 2, "WRONGTYPE it is no hash, and does not tell of cells");
		return REDIS_HOLDER_REFUSED;
	}
	h->odd_looks = 0;
	if (h->has_held)
		return lose(h, "one that has split it into cells");
	h->has_taken = false;
	if (h->is_guest)
		return h->self->epoch ? go_on(h, HOLDER_JOIN) : REDIS_HOLDER_ELSEWHERE;
	redis_cells_judge(cells);
	return cells->count == cells->wanted ? judge_vacant(h) : judge_join(h);
}

/* Another broker has the cell that we were about to own: perhaps another cell is free. */
static bool drop_cell(struct redis_holder *h)
{
	if (h->is_guest || h->has_held || !has_cell(h))
		return false;
	h->self->cells.own = STORE_NO_CELL;
	redis_holder_set_key(h, LAYOUT_HOLDER_KEY, LAYOUT_PROBE_KEY);
	return true;
}

/* We own a cell, or were about to, and this Redis does not have our split. */
static enum redis_holder_verdict judge_lock(struct redis_holder *h)
{
	struct redis_cells *cells = &h->self->cells;
	uint64_t split = 0;
	unsigned count;
	bool is_newer = h->is_lock_hash ||
			(redis_cells_read_lock(slice_from(h->lock), &count, &split) &&
			 split > cells->split);

	if (h->has_held && is_newer)
		return lose(h, "one that has split the store anew, or holds all of it");
	if (h->has_held) {
		h->record = (struct redis_holder_record){ .is_released = true };
		return stand_off(h);
	}
	if (h->is_guest)
		return h->self->epoch ? go_on(h, HOLDER_CELL) : REDIS_HOLDER_ELSEWHERE;
	drop_cell(h);
	return REDIS_HOLDER_MORE;
}

/* A broker with a newer epoch took over {tide}:holder from us. */
static enum redis_holder_verdict judge_guest(struct redis_holder *h)
{
	char who[160];

	describe(&h->record, who, sizeof(who));
	/* We are not known to hold {tide}:holder yet. */
	if (h->self->epoch == 0)
		return REDIS_HOLDER_ELSEWHERE;
	if (h->record.epoch >= h->self->epoch)
		return lose(h, who);
	return go_on(h, take_step(h));
}

static enum redis_holder_verdict judge_look(struct redis_holder *h)
{
	bool is_named = h->has_taken;

	h->is_old &= !h->is_locked;
	if (h->is_split)
		return judge_cells(h);
	if (has_cell(h) && strcmp(h->lock, h->self->cells.lock) != 0)
		return judge_lock(h);
	if (is_stale(h))
		return stand_off(h);
	if (h->is_old && h->record.incarnation[0] && h->hold == STORE_HOLD_AS_IS) {
		snprintf(h->reason, sizeof(h->reason), "%s", LAYOUT_OLD_TEXT);
		return REDIS_HOLDER_REFUSED;
	}
	if (!is_recorded(h) && drop_cell(h))
		return REDIS_HOLDER_MORE;
	if (!is_recorded(h))
		return h->is_guest ? judge_guest(h) : judge_other(h);
	if (!h->is_guest)
		h->self->epoch = h->record.epoch;
	h->has_taken = true;
	/* A record that was read before the connection had its name proves nothing. */
	return go_on(h, is_named ? HOLDER_FENCE : HOLDER_LOOK);
}

/* Nobody else can write any more. */
static enum redis_holder_verdict judge_fenced(struct redis_holder *h)
{
	if (!h->is_locked)
		return go_on(h, HOLDER_MIGRATE);
	if (is_candidate(h))
		return go_on(h, HOLDER_SPLIT);
	h->has_held = true;
	return REDIS_HOLDER_OURS;
}

enum redis_holder_verdict redis_holder_judge(struct redis_holder *h)
{
	enum redis_holder_step step = h->step;

	if (h->is_elsewhere)
		return REDIS_HOLDER_ELSEWHERE;
	if (h->lacks_replicas) {
		h->step = HOLDER_LOOK;
		return REDIS_HOLDER_HELD;
	}
	if (h->reason[0])
		return REDIS_HOLDER_REFUSED;
	if (step == HOLDER_LOOK)
		return judge_look(h);
	if (step == HOLDER_FENCE)
		return judge_fenced(h);
	if (step == HOLDER_MIGRATE && h->moved > 1)
		log_info("store: it was written by an older version, which cannot use it "
			 "any more: %" PRId64 " keys have other names now",
			 h->moved);
	/* The look behind a migration finds the holder by its other name. */
	h->step = HOLDER_LOOK;
	/* Another broker was faster, or is the newer one. */
	return h->was_raced || (step >= HOLDER_SPLIT && !h->is_taken) ? REDIS_HOLDER_OTHER
								      : REDIS_HOLDER_MORE;
}

/* A copy from before this start: nobody has taken it since. */
static bool is_from_before(const struct redis_holder *h)
{
	return h->taken_from[0] && strcmp(h->record.incarnation, h->taken_from) == 0 &&
	       (!h->is_guest || h->record.epoch < h->self->epoch);
}

bool redis_holder_accept(struct redis_holder *h, bool *has_all_before)
{
	bool is_ours = is_recorded(h);

	*has_all_before = is_ours || h->record.writes + 1 == h->taken_at;
	if (!is_ours && !is_from_before(h))
		return false;
	h->reason[0] = '\0';
	/* What is known stays until it is ours: this may be the first of several tries.
	 */
	if (!is_ours) {
		h->step = take_step(h);
		return true;
	}
	h->writes = h->record.writes;
	if (h->is_confirmed_late)
		h->confirmed = h->writes;
	return true;
}

struct slice redis_holder_beat(const struct redis_holder *h)
{
	return slice_from(h->beat);
}

bool redis_holder_is_ours(const struct redis_holder *h, const redisReply *reply)
{
	return reply->type == REDIS_REPLY_ERROR ||
	       slice_is(text_of(reply), h->self->incarnation);
}

struct slice redis_holder_count(const struct redis_holder *h)
{
	return slice_from(h->count);
}

bool redis_holder_is_counted(struct redis_holder *h, const redisReply *reply,
			     uint64_t under_way)
{
	uint64_t writes = (uint64_t)reply->integer;

	/* A Redis that takes no writes has none to count. */
	if (reply->type != REDIS_REPLY_INTEGER)
		return true;
	if (writes > h->writes) {
		h->writes = writes;
		return true;
	}
	/* Writes under way count on from here, and must not look like lost ones. */
	if (h->writes < writes + under_way)
		h->writes = writes + under_way;
	/* The same connection: no replica was promoted. */
	h->confirmed = h->writes;
	return false;
}

void redis_holder_confirm(struct redis_holder *h)
{
	h->confirmed = h->writes;
}

void redis_holder_release(const struct redis_holder *h, struct buf *out)
{
	add(out, "EVAL %s 1 %s %s", script_holder_release.data, h->key,
	    h->self->incarnation);
}
