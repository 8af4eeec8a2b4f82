#include "redis_cells.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/mem.h"
#include "layout.h"
#include "resp.h"

/* Redis counts whole seconds: less than two of them. A holder is heard more often. */
#define ALIVE_IDLE_SECONDS 1
#define PLACE_PREFIX "cell:"

TIDE_PRINTF(2, 3)
static void add(struct buf *out, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	resp_command(out, format, args);
	va_end(args);
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

/* Records. */

static void read_field(struct redis_holder_record *r, struct slice name,
		       struct slice value)
{
	uint64_t number = 0;
	bool is_number = slice_to_uint(value, INT64_MAX, &number);

	if (slice_is(name, "incarnation"))
		copy_word(r->incarnation, sizeof(r->incarnation), value);
	else if (slice_is(name, "host"))
		copy_word(r->process.host, sizeof(r->process.host), value);
	else if (slice_is(name, "boot"))
		copy_word(r->process.boot, sizeof(r->process.boot), value);
	else if (slice_is(name, "at"))
		copy_word(r->at, sizeof(r->at), value);
	else if (slice_is(name, "pid"))
		r->is_released = false;
	if (!is_number)
		return;
	if (slice_is(name, "pid"))
		r->process.pid = (int64_t)number;
	else if (slice_is(name, "node"))
		r->node = number;
	else if (slice_is(name, "pids"))
		r->process.pids = number;
	else if (slice_is(name, "start"))
		r->process.start_tick = number;
	else if (slice_is(name, "since"))
		r->since_unix_ms = number;
	else if (slice_is(name, "writes"))
		r->writes = number;
	else if (slice_is(name, "epoch"))
		r->epoch = number;
	else if (slice_is(name, "cells"))
		r->cells = (unsigned)number;
}

void redis_cells_read_record(struct redis_holder_record *r, const redisReply *reply)
{
	for (size_t i = 0; i + 1 < reply->elements; i += 2)
		read_field(r, text_of(reply->element[i]), text_of(reply->element[i + 1]));
}

bool redis_cells_count_look(struct redis_watch *w, const struct redis_holder_record *r,
			    bool is_alive)
{
	bool is_new = strcmp(w->last_seen, r->incarnation) != 0;

	if (is_new)
		w->alive_looks = w->lapsed_looks = 0;
	copy_word(w->last_seen, sizeof(w->last_seen), slice_from(r->incarnation));
	w->alive_looks = is_alive ? w->alive_looks + 1 : 0;
	w->lapsed_looks = is_alive ? 0 : w->lapsed_looks + 1;
	return is_new;
}

bool redis_cells_is_over(const struct redis_watch *w, const struct redis_holder_record *r,
			 bool is_alive)
{
	if (w->lapsed_looks >= REDIS_LAPSED_LOOKS)
		return true;
	if (r->is_released)
		return !is_alive;
	return process_has_ended(&r->process);
}

/* Connections. */

/* "<incarnation>" or "<split>.<cell>:<incarnation>" */
static void read_name(struct slice name, struct redis_client *out)
{
	struct slice rest = name, split = slice_cut(&rest, '.'),
		     cell = slice_cut(&rest, ':');
	uint64_t n;

	out->incarnation = name;
	if (split.len == name.len || !slice_to_uint(split, INT64_MAX, &out->split) ||
	    !slice_to_uint(cell, STORE_CELLS_MAX - 1, &n))
		return;
	out->cell = (unsigned)n;
	out->incarnation = rest;
}

bool redis_cells_read_client(struct slice line, struct redis_client *out)
{
	uint64_t idle = UINT64_MAX;

	*out = (struct redis_client){ .name = SLICE(""), .db = UINT64_MAX };
	while (line.len > 0) {
		struct slice value = slice_cut(&line, ' ');
		struct slice field = slice_cut(&value, '=');

		if (slice_is(field, "id"))
			slice_to_uint(value, INT64_MAX, &out->id);
		else if (slice_is(field, "name"))
			out->name = value;
		else if (slice_is(field, "idle"))
			slice_to_uint(value, INT64_MAX, &idle);
		else if (slice_is(field, "db"))
			slice_to_uint(value, INT64_MAX, &out->db);
	}
	if (!slice_has_prefix(out->name, REDIS_NAME_HELD))
		return false;
	out->is_alive = idle <= ALIVE_IDLE_SECONDS;
	read_name(slice_skip(out->name, strlen(REDIS_NAME_HELD)), out);
	return true;
}

/* Looks. */

void redis_cells_init(struct redis_cells *cs, unsigned wanted)
{
	cs->wanted = wanted > 1 ? wanted : 1;
	cs->own = cs->target = STORE_NO_CELL;
}

void redis_cells_deinit(struct redis_cells *cs)
{
	buf_deinit(&cs->placed);
	buf_deinit(&cs->placed_next);
	for (size_t i = 0; i < cs->placing_count; i++)
		mem_free(cs->placing[i].vhost);
	mem_free(cs->placing);
}

/* Those of the split that is known, and of that which is wanted. */
static unsigned looked_at(const struct redis_cells *cs)
{
	return cs->count > cs->wanted ? cs->count : cs->wanted;
}

unsigned redis_cells_look(struct redis_cells *cs, struct buf *out)
{
	unsigned count = looked_at(cs);

	add(out, "HGETALL " LAYOUT_CLUSTER_KEY);
	add(out, "GET " LAYOUT_HOLDER_KEY);
	for (unsigned k = 0; k < count; k++) {
		add(out, "HGETALL " LAYOUT_HOLDER_KEY ":%u", k);
		cs->cells[k].is_alive = false;
	}
	return 2 + count;
}

bool redis_cells_read_lock(struct slice text, unsigned *count, uint64_t *split)
{
	struct slice rest = text;
	uint64_t n;

	if (!slice_is(slice_cut(&rest, ' '), "cells") ||
	    !slice_to_uint(slice_cut(&rest, ' '), STORE_CELLS_MAX, &n) || n < 2 ||
	    !slice_to_uint(rest, INT64_MAX, split))
		return false;
	*count = (unsigned)n;
	return true;
}

static void read_lock(struct redis_cells *cs, struct slice text)
{
	copy_word(cs->lock, sizeof(cs->lock), text);
	cs->split = 0;
	if (!redis_cells_read_lock(text, &cs->count, &cs->split))
		cs->count = 0;
}

static void read_shared(struct redis_cells *cs, struct slice name, struct slice value)
{
	uint64_t number = 0;
	bool is_number = slice_to_uint(value, INT64_MAX, &number);

	if (is_number && slice_is(name, "users"))
		cs->users = number;
	else if (is_number && slice_is(name, "rules"))
		cs->rules = number;
	else if (is_number && slice_has_prefix(name, PLACE_PREFIX))
		buf_printf(&cs->placed_next, "%" PRIu64 " %" SLICE_FMT "\n", number,
			   SLICE_ARG(slice_skip(name, strlen(PLACE_PREFIX))));
}

void redis_cells_reply(struct redis_cells *cs, unsigned index, const redisReply *reply)
{
	struct redis_holder_record *r;

	/* A hash at the second says that the store is not split. */
	if (reply->type == REDIS_REPLY_ERROR && index != 1)
		return;
	if (index == 0) {
		buf_clear(&cs->placed_next);
		for (size_t i = 0; i + 1 < reply->elements; i += 2)
			read_shared(cs, text_of(reply->element[i]),
				    text_of(reply->element[i + 1]));
	} else if (index == 1 && cs->own == STORE_NO_CELL) {
		read_lock(cs, text_of(reply));
	} else if (index >= 2 && index - 2 < STORE_CELLS_MAX) {
		r = &cs->cells[index - 2].record;
		*r = (struct redis_holder_record){ .is_released = true };
		redis_cells_read_record(r, reply);
	}
}

void redis_cells_client(struct redis_cells *cs, const struct redis_client *client)
{
	if (client->split > 0 && client->split == cs->split && client->is_alive)
		cs->cells[client->cell].is_alive = true;
}

static void swap_placed(struct redis_cells *cs)
{
	struct buf before = cs->placed;
	size_t kept = 0;

	cs->places +=
		!slice_is_equal(buf_slice(&cs->placed), buf_slice(&cs->placed_next));
	cs->placed = cs->placed_next;
	cs->placed_next = before;
	for (size_t i = 0; i < cs->placing_count; i++) {
		struct redis_placing *p = &cs->placing[i];

		if (p->looks == 0 || --p->looks > 0)
			cs->placing[kept++] = *p;
		else
			mem_free(p->vhost);
	}
	cs->placing_count = kept;
}

void redis_cells_judge(struct redis_cells *cs)
{
	uint64_t now_ms = (uint64_t)machine_clock_ms(CLOCK_MONOTONIC);

	swap_placed(cs);
	for (unsigned k = 0; k < cs->count; k++) {
		struct redis_cell *c = &cs->cells[k];

		redis_cells_count_look(&c->watch, &c->record, c->is_alive);
		c->is_free = redis_cells_is_over(&c->watch, &c->record, c->is_alive);
		if (!c->is_free || k == cs->own)
			c->free_since_ms = 0;
		else if (c->free_since_ms == 0)
			c->free_since_ms = now_ms;
	}
}

unsigned redis_cells_ask(struct redis_cells *cs, struct buf *out)
{
	unsigned count;

	if (cs->own == STORE_NO_CELL)
		return 0;
	count = redis_cells_look(cs, out);
	add(out, "CLIENT LIST TYPE normal");
	cs->is_refused = false;
	return count + 1;
}

bool redis_cells_answer(struct redis_cells *cs, const struct redis_request *r,
			const redisReply *reply, unsigned db)
{
	struct slice list = text_of(reply);
	struct redis_client client;

	cs->is_refused |= reply->type == REDIS_REPLY_ERROR;
	if (r->answered < r->replies) {
		redis_cells_reply(cs, r->answered - 1, reply);
		return true;
	}
	while (list.len > 0 && !cs->is_refused)
		if (redis_cells_read_client(slice_cut(&list, '\n'), &client) &&
		    client.db == db)
			redis_cells_client(cs, &client);
	if (!cs->is_refused)
		redis_cells_judge(cs);
	return false;
}

/* Vhosts. */

static struct slice cut_place(struct slice *lines, uint64_t *cell)
{
	struct slice line = slice_cut(lines, '\n');

	*cell = STORE_NO_CELL;
	slice_to_uint(slice_cut(&line, ' '), STORE_NO_CELL, cell);
	return line;
}

/* STORE_NO_CELL: it was not placed. */
static unsigned find_place(struct slice placed, struct slice vhost)
{
	uint64_t cell;

	while (placed.len > 0)
		if (slice_is_equal(cut_place(&placed, &cell), vhost))
			return (unsigned)cell;
	return STORE_NO_CELL;
}

unsigned redis_cells_place_of(const struct redis_cells *cs, struct slice vhost)
{
	size_t i = cs->placing_count;
	unsigned cell;

	/* The last one counts, of several with one name. */
	while (i > 0 && !slice_is(vhost, cs->placing[i - 1].vhost))
		i--;
	cell = i > 0 ? cs->placing[i - 1].cell
		     : find_place(buf_slice(&cs->placed), vhost);
	/* It may have been placed when there were more. */
	return cell < cs->wanted ? cell : STORE_NO_CELL;
}

unsigned redis_cells_of(const struct redis_cells *cs, struct slice vhost)
{
	unsigned cell = cs->wanted > 1 ? redis_cells_place_of(cs, vhost) : 0;

	return cell == STORE_NO_CELL ? layout_crc16(vhost) % cs->wanted : cell;
}

void redis_cells_place(struct redis_cells *cs, struct slice vhost, unsigned cell)
{
	MEM_GROW(cs->placing, cs->placing_count, cs->placing_cap, 4);
	cs->placing[cs->placing_count++] = (struct redis_placing){
		.vhost = mem_strndup(vhost.data, vhost.len),
		.cell = cell,
	};
}

void redis_cells_placed(struct redis_cells *cs)
{
	size_t i = 0;

	while (i < cs->placing_count && cs->placing[i].looks > 0)
		i++;
	/* The first may have been asked before, the second was asked behind it. */
	if (i < cs->placing_count)
		cs->placing[i].looks = 2;
}
