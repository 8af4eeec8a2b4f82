#include "shared.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/container.h"
#include "base/heap.h"
#include "base/mem.h"
#include "base/table.h"

static void shared_text_write(struct buf *out, int64_t expires_unix_ms,
			      const struct shared_value *v)
{
	buf_printf(out, "%" PRId64 " ", expires_unix_ms);
	switch (v->type) {
	case SHARED_TEXT:
		buf_append_char(out, 's');
		buf_append_slice(out, v->text);
		break;
	case SHARED_INTEGER:
		buf_printf(out, "i%" PRId64, v->integer);
		break;
	case SHARED_NUMBER:
		buf_printf(out, "n%.17g", v->number);
		break;
	case SHARED_BOOLEAN:
		buf_append_text(out, v->boolean ? "b1" : "b0");
		break;
	}
}

/* A number that is the whole of the text, which is no longer than any of ours. */
static bool decode_number(struct slice text, struct shared_value *out)
{
	char digits[64], *end;

	if (text.len == 0 || text.len >= sizeof(digits))
		return false;
	memcpy(digits, text.data, text.len);
	digits[text.len] = '\0';
	if (out->type == SHARED_INTEGER)
		out->integer = strtoll(digits, &end, 10);
	else
		out->number = strtod(digits, &end);
	return *end == '\0';
}

/* False for other texts. A value of type s points into `text`. */
static bool shared_text_read(struct slice text, int64_t *expires_unix_ms,
			     struct shared_value *out)
{
	const char *space = memchr(text.data, ' ', text.len);
	uint64_t expires;
	size_t head = space ? (size_t)(space - text.data) : 0;

	if (!space || text.len < head + 2 ||
	    !slice_to_uint((struct slice){ text.data, head }, INT64_MAX, &expires))
		return false;
	*expires_unix_ms = (int64_t)expires;
	struct slice value = slice_skip(text, head + 2);
	switch (text.data[head + 1]) {
	case 's':
		*out = (struct shared_value){ .type = SHARED_TEXT, .text = value };
		return true;
	case 'i':
		*out = (struct shared_value){ .type = SHARED_INTEGER };
		return decode_number(value, out);
	case 'n':
		*out = (struct shared_value){ .type = SHARED_NUMBER };
		return decode_number(value, out);
	case 'b':
		*out = (struct shared_value){ .type = SHARED_BOOLEAN,
					      .boolean = slice_is(value, "1") };
		return value.len == 1;
	default:
		return false;
	}
}

/* Each new entry removes so many expired ones. With one alone they would never become
 * fewer. */
#define RECLAIM_PER_SET 2

#define ENTRY_KEY_MAX (2 + SHARED_SERIES_MAX) /* "k:" and the key */

/* How far an entry is with being stored. */
enum home { HOME_CLEAN, HOME_DIRTY, HOME_SENT };

/* Counters that differ in their labels alone, as in `orders{tenant="a"}`. */
struct shared_family {
	UT_hash_handle hh;
	size_t count;
	size_t name_len;
	char name[];
};

struct shared_entry {
	UT_hash_handle hh;
	struct payer *payer;            /* NULL: nobody */
	TAILQ_ENTRY(shared_entry) link; /* of the dirty ones or those sent */
	TAILQ_ENTRY(shared_entry) counter_link;
	struct heap_node expiry;
	struct shared_value value;
	int64_t expires_unix_ms;
	enum home home;
	bool is_changed; /* since it was sent */
	bool is_kept;    /* an older state of it may be kept elsewhere */
	bool is_gone;    /* what is kept elsewhere is to be removed */
	size_t key_len;
	char key[];
};

TAILQ_HEAD(shared_entries, shared_entry);

/* A holder of entries: a script in a vhost, or the whole of a script. Without entries it
 * is forgotten. */
struct payer {
	UT_hash_handle hh;
	struct payer *whole; /* the script, for all vhosts; NULL: it is that */
	size_t entries, bytes;
	size_t key_len;
	char key[]; /* the file; and a zero, the vhost */
};

#define PAYER_KEY_MAX 512

struct shared {
	struct shared_entry *entries;   /* uthash by key */
	struct payer *payers;           /* uthash */
	struct shared_family *families; /* uthash */
	size_t labelled;                /* counters of all families */
	size_t count, count_max;
	size_t bytes, bytes_max;
	struct heap expiries;
	struct shared_entries dirty, sent, counters;
	size_t unwritten;
	bool is_kept;
};

static struct slice payer_vhost(const struct payer *p)
{
	size_t file_len = strlen(p->key) + 1;

	return (struct slice){ p->key + file_len, p->key_len - file_len };
}

/* A script for all vhosts has no zero at the end. */
static size_t make_payer_key(char out[PAYER_KEY_MAX], const struct shared_op *op)
{
	size_t len = strlen(op->file) + 1;

	memcpy(out, op->file, len);
	if (op->vhost.len)
		memcpy(out + len, op->vhost.data, op->vhost.len);
	return len + op->vhost.len;
}

static struct payer *find_payer(const struct shared *s, const char *key, size_t len)
{
	struct payer *p;

	HASH_FIND(hh, s->payers, key, len, p);
	return p;
}

static struct payer *obtain_payer(struct shared *s, const char *key, size_t len)
{
	struct payer *p = find_payer(s, key, len);

	if (p)
		return p;
	p = mem_zalloc(sizeof(*p) + len + 1);
	p->key_len = len;
	memcpy(p->key, key, len);
	HASH_ADD_KEYPTR(hh, s->payers, p->key, p->key_len, p);
	return p;
}

/* The payer and its script hold so many more bytes, or fewer, and an entry more, as many
 * or fewer. */
static void add_to_payer(struct shared *s, struct payer *p, int entries, int64_t bytes)
{
	for (struct payer *whole; p; p = whole) {
		whole = p->whole;
		p->entries += (size_t)entries;
		p->bytes += (size_t)bytes;
		if (p->entries > 0)
			continue;
		HASH_DELETE(hh, s->payers, p);
		mem_free(p);
	}
}

/* Of entries, or of bytes: what a script holds for a vhost, and what it may hold. */
struct shared_room {
	size_t held, share;
};

/* All but one part of so many, rounded up: all of a tiny one. */
static size_t all_but_one(size_t n, size_t parts)
{
	return n / parts * (parts - 1) + n % parts;
}

static struct shared_room room_of(size_t held, size_t by_script, size_t used, size_t max)
{
	size_t others = used - by_script, other_vhosts = by_script - held;
	size_t of_script = max > others ? all_but_one(max - others, 8) : 0;

	return (struct shared_room){ held,
				     of_script > other_vhosts
					     ? all_but_one(of_script - other_vhosts, 7)
					     : 0 };
}

static void read_rooms(const struct shared *s, const struct shared_op *op,
		       struct shared_room *entries, struct shared_room *bytes)
{
	static const struct payer none;
	char key[PAYER_KEY_MAX];
	const struct payer *p = find_payer(s, key, make_payer_key(key, op));
	const struct payer *whole = p ? p->whole : find_payer(s, key, strlen(key));

	p = p ? p : &none;
	whole = whole ? whole : &none;
	*entries = room_of(p->entries, whole->entries, s->count, s->count_max);
	*bytes = room_of(p->bytes, whole->bytes, s->bytes, s->bytes_max);
}

/* The key as it is kept, in `out`. */
static struct slice make_entry_key(char out[ENTRY_KEY_MAX], const struct shared_op *op)
{
	out[0] = (char)op->space;
	out[1] = ':';
	memcpy(out + 2, op->key.data, op->key.len);
	return (struct slice){ out, 2 + op->key.len };
}

struct shared *shared_create(size_t entries_max, size_t bytes_max)
{
	struct shared *s = mem_zalloc(sizeof(*s));

	s->count_max = entries_max ? entries_max : SHARED_ENTRIES_DEFAULT;
	s->bytes_max = bytes_max ? bytes_max : SHARED_BYTES_DEFAULT;
	TAILQ_INIT(&s->dirty);
	TAILQ_INIT(&s->sent);
	TAILQ_INIT(&s->counters);
	return s;
}

static struct slice text_of(const struct shared_value *value)
{
	return value->type == SHARED_TEXT ? value->text : (struct slice){ "", 0 };
}

static size_t entry_bytes(size_t key_len, const struct shared_value *value)
{
	return sizeof(struct shared_entry) + key_len + text_of(value).len;
}

static struct slice key_of(const struct shared_entry *e)
{
	return (struct slice){ e->key, e->key_len };
}

static size_t bytes_of(const struct shared_entry *e)
{
	return entry_bytes(e->key_len, &e->value);
}

/* From now on this one pays for the entry; NULL for nobody. */
static void charge(struct shared *s, struct shared_entry *e, struct payer *to)
{
	struct payer *from = e->payer;

	if (from == to)
		return;
	e->payer = to;
	if (to)
		add_to_payer(s, to, 1, (int64_t)bytes_of(e));
	if (from)
		add_to_payer(s, from, -1, -(int64_t)bytes_of(e));
}

/* The value may point into the one that it takes the place of. */
static void assign(struct shared *s, struct shared_entry *e,
		   const struct shared_value *value)
{
	struct shared_value copy = *value;
	struct slice old = text_of(&e->value);

	if (copy.type == SHARED_TEXT)
		copy.text.data = mem_strndup(value->text.data, value->text.len);
	s->bytes += text_of(&copy).len;
	s->bytes -= old.len;
	if (e->payer)
		add_to_payer(s, e->payer, 0,
			     (int64_t)text_of(&copy).len - (int64_t)old.len);
	if (e->value.type == SHARED_TEXT)
		mem_free((char *)old.data);
	e->value = copy;
}

/* The name of a counter with labels, as it is kept; empty for others. */
static struct slice family_name(struct slice key)
{
	const char *end =
		key.data[0] == SHARED_COUNTERS ? memchr(key.data, '{', key.len) : NULL;

	return (struct slice){ key.data, end ? (size_t)(end - key.data) : 0 };
}

static struct shared_family *find_family(const struct shared *s, struct slice name)
{
	struct shared_family *f;

	HASH_FIND(hh, s->families, name.data, name.len, f);
	return f;
}

static void enter_family(struct shared *s, struct slice name)
{
	struct shared_family *f = find_family(s, name);

	if (!f) {
		f = mem_zalloc(sizeof(*f) + name.len);
		f->name_len = name.len;
		memcpy(f->name, name.data, name.len);
		HASH_ADD_KEYPTR(hh, s->families, f->name, f->name_len, f);
	}
	f->count++;
	s->labelled++;
}

static void leave_family(struct shared *s, struct slice name)
{
	struct shared_family *f = find_family(s, name);

	s->labelled--;
	if (--f->count > 0)
		return;
	HASH_DEL(s->families, f);
	mem_free(f);
}

static struct shared_entry *create(struct shared *s, struct slice key)
{
	struct shared_entry *e = mem_zalloc(sizeof(*e) + key.len);

	e->key_len = key.len;
	memcpy(e->key, key.data, key.len);
	e->value.type = SHARED_BOOLEAN;
	HASH_ADD_KEYPTR(hh, s->entries, e->key, e->key_len, e);
	if (e->key[0] == SHARED_COUNTERS)
		TAILQ_INSERT_TAIL(&s->counters, e, counter_link);
	if (family_name(key).len)
		enter_family(s, family_name(key));
	s->count++;
	s->bytes += entry_bytes(key.len, &e->value);
	return e;
}

static void forget(struct shared *s, struct shared_entry *e)
{
	charge(s, e, NULL);
	HASH_DEL(s->entries, e);
	heap_remove(&s->expiries, &e->expiry);
	if (e->key[0] == SHARED_COUNTERS)
		TAILQ_REMOVE(&s->counters, e, counter_link);
	if (family_name(key_of(e)).len)
		leave_family(s, family_name(key_of(e)));
	s->count--;
	s->bytes -= entry_bytes(e->key_len, &e->value);
	if (e->value.type == SHARED_TEXT)
		mem_free((char *)e->value.text.data);
	mem_free(e);
}

void shared_destroy(struct shared *s)
{
	struct shared_entry *e, *next;

	if (!s)
		return;
	HASH_ITER (hh, s->entries, e, next)
		forget(s, e);
	heap_deinit(&s->expiries);
	mem_free(s);
}

static void set_dirty(struct shared *s, struct shared_entry *e)
{
	if (!s->is_kept)
		return;
	if (e->home == HOME_SENT) {
		e->is_changed = true;
	} else if (e->home == HOME_CLEAN) {
		e->home = HOME_DIRTY;
		TAILQ_INSERT_TAIL(&s->dirty, e, link);
		s->unwritten++;
	}
}

static void set_expiry(struct shared *s, struct shared_entry *e, int64_t expires_unix_ms)
{
	e->expires_unix_ms = expires_unix_ms;
	if (expires_unix_ms)
		heap_set(&s->expiries, &e->expiry, expires_unix_ms);
	else
		heap_remove(&s->expiries, &e->expiry);
}

/* Remove a living entry. One that is kept elsewhere stays, without a value,
 * until it has been removed there. */
static void drop(struct shared *s, struct shared_entry *e)
{
	if (!e->is_kept && e->home != HOME_SENT) {
		if (e->home == HOME_DIRTY) {
			TAILQ_REMOVE(&s->dirty, e, link);
			s->unwritten--;
		}
		forget(s, e);
		return;
	}
	assign(s, e, &(struct shared_value){ .type = SHARED_BOOLEAN });
	set_expiry(s, e, 0);
	e->is_gone = true;
	set_dirty(s, e);
}

static struct shared_entry *find_entry(const struct shared *s, struct slice key)
{
	struct shared_entry *e;

	HASH_FIND(hh, s->entries, key.data, key.len, e);
	return e;
}

static void describe(const struct shared_entry *e, struct shared_info *out)
{
	*out = (struct shared_info){
		.key = { e->key + 2, e->key_len - 2 },
		.value = e->value,
		.expires_unix_ms = e->expires_unix_ms,
		.bytes = bytes_of(e),
		.file = e->payer ? e->payer->key : NULL,
	};
	if (e->payer)
		out->vhost = payer_vhost(e->payer);
}

static bool is_alive(const struct shared_entry *e, int64_t now_ms)
{
	return e && !e->is_gone && (!e->expires_unix_ms || e->expires_unix_ms > now_ms);
}

static struct shared_entry *find_alive(const struct shared *s, const struct shared_op *op)
{
	char key[ENTRY_KEY_MAX];
	struct shared_entry *e = find_entry(s, make_entry_key(key, op));

	return is_alive(e, op->now_ms) ? e : NULL;
}

static bool reclaim_one(struct shared *s, int64_t now_ms)
{
	struct heap_node *n = heap_min(&s->expiries);

	if (!n || n->key > now_ms)
		return false;
	drop(s, container_of(n, struct shared_entry, expiry));
	return true;
}

void shared_expire(struct shared *s, int64_t now_ms, unsigned max)
{
	while (max-- > 0 && reclaim_one(s, now_ms))
		;
}

/* The additions of an operation. */
struct growth {
	const struct shared_op *op;
	size_t entries, bytes;
};

static bool is_over_share(const struct shared *s, const struct growth *g)
{
	struct shared_room entries, bytes;

	if (!g->op->file)
		return false;
	read_rooms(s, g->op, &entries, &bytes);
	return (g->entries > 0 && entries.held + g->entries > entries.share) ||
	       (g->bytes > 0 && bytes.held + g->bytes > bytes.share);
}

static bool is_full(const struct shared *s, const struct growth *g)
{
	return s->count + g->entries > s->count_max || s->bytes + g->bytes > s->bytes_max;
}

static int refuse_share(const struct shared *s, const struct growth *g, struct error *err)
{
	struct shared_room entries, bytes;

	read_rooms(s, g->op, &entries, &bytes);
	return error_set(
		err, TIDE_ELIMIT,
		"tide.shared is full for %s%s%" SLICE_FMT
		"%s: it holds %zu of %zu entries, its share is %zu (--max-shared), "
		"and %zu of %zu bytes, its share is %zu (--max-shared-bytes)",
		g->op->file, g->op->vhost.len ? " in vhost '" : "",
		SLICE_ARG(g->op->vhost), g->op->vhost.len ? "'" : "", entries.held,
		s->count_max, entries.share, bytes.held, s->bytes_max, bytes.share);
}

/* Room for what is added, in all and for the payer. */
static int make_room(struct shared *s, const struct growth *g, struct error *err)
{
	shared_expire(s, g->op->now_ms, RECLAIM_PER_SET);
	while ((is_full(s, g) || is_over_share(s, g)) && reclaim_one(s, g->op->now_ms))
		;
	if (s->count + g->entries > s->count_max)
		return error_set(err, TIDE_ELIMIT,
				 "tide.shared is full: %zu entries (--max-shared)",
				 s->count);
	if (s->bytes + g->bytes > s->bytes_max)
		return error_set(
			err, TIDE_ELIMIT,
			"tide.shared is full: %zu more bytes do not fit into %zu "
			"(--max-shared-bytes)",
			g->bytes, s->bytes_max);
	return is_over_share(s, g) ? refuse_share(s, g, err) : TIDE_OK;
}

/* An entry that was restored is its next writer's. */
static void pay(struct shared *s, struct shared_entry *e, const struct shared_op *op)
{
	char key[PAYER_KEY_MAX];
	struct payer *p;

	if (e->payer || !op->file)
		return;
	p = obtain_payer(s, key, make_payer_key(key, op));
	if (!p->whole)
		p->whole = obtain_payer(s, key, strlen(key));
	charge(s, e, p);
}

/* The entry of the key with room for the value, dead or alive. */
static int obtain_entry(struct shared *s, const struct shared_op *op,
			const struct shared_value *value, struct shared_entry **out,
			struct error *err)
{
	char text[ENTRY_KEY_MAX];
	struct slice key = make_entry_key(text, op);
	struct shared_entry *e = find_entry(s, key);
	size_t old = e ? text_of(&e->value).len : 0;
	size_t new = text_of(value).len;
	size_t more = e ? 0 : entry_bytes(key.len, value);
	if (e && new > old)
		more = new - old;
	const struct growth growth = { op, !e, more };
	int rc = make_room(s, &growth, err);
	if (rc != TIDE_OK)
		return rc;
	/* An expired entry may have been forgotten on the way. */
	e = find_entry(s, key);
	*out = e ? e : create(s, key);
	pay(s, *out, op);
	return TIDE_OK;
}

int shared_get(const struct shared *s, const struct shared_op *op,
	       struct shared_value *out)
{
	const struct shared_entry *e = find_alive(s, op);

	if (!e)
		return TIDE_EMPTY;
	*out = e->value;
	return TIDE_OK;
}

int shared_read(const struct shared *s, const struct shared_op *op,
		struct shared_info *out)
{
	const struct shared_entry *e = find_alive(s, op);

	if (!e)
		return TIDE_EMPTY;
	describe(e, out);
	return TIDE_OK;
}

int shared_set(struct shared *s, const struct shared_op *op,
	       const struct shared_value *value, struct error *err)
{
	struct shared_entry *e;

	if (op->is_dry)
		return TIDE_OK;
	int rc = obtain_entry(s, op, value, &e, err);
	if (rc != TIDE_OK)
		return rc;
	assign(s, e, value);
	set_expiry(s, e, op->expires_unix_ms);
	e->is_gone = false;
	set_dirty(s, e);
	return TIDE_OK;
}

int shared_add(struct shared *s, const struct shared_op *op,
	       const struct shared_value *value, struct error *err)
{
	if (find_alive(s, op))
		return TIDE_EEXISTS;
	return shared_set(s, op, value, err);
}

static double as_double(const struct shared_value *v)
{
	return v->type == SHARED_INTEGER ? (double)v->integer : v->number;
}

static bool sum(const struct shared_value *a, const struct shared_value *b,
		struct shared_value *out)
{
	if (a->type == SHARED_INTEGER && b->type == SHARED_INTEGER) {
		*out = (struct shared_value){ .type = SHARED_INTEGER };
		return !__builtin_add_overflow(a->integer, b->integer, &out->integer);
	}
	*out = (struct shared_value){ .type = SHARED_NUMBER,
				      .number = as_double(a) + as_double(b) };
	return true;
}

int shared_incr(struct shared *s, const struct shared_op *op,
		const struct shared_value *by, struct shared_value *out,
		struct error *err)
{
	const struct shared_value zero = { .type = SHARED_INTEGER };
	struct shared_entry *e = find_alive(s, op);
	const struct shared_value *old = e ? &e->value : &zero;

	if (!e && op->must_exist)
		return TIDE_EMPTY;

	if (old->type != SHARED_INTEGER && old->type != SHARED_NUMBER)
		return error_set(err, TIDE_EMISMATCH,
				 "'%" SLICE_FMT "' is not a number but a %s",
				 SLICE_ARG(op->key),
				 old->type == SHARED_TEXT ? "string" : "boolean");
	bool has_sum = sum(old, by, out);
	if (out->type == SHARED_NUMBER && !isfinite(out->number))
		return error_set(err, TIDE_EMISMATCH,
				 "'%" SLICE_FMT "' plus this is not a finite number",
				 SLICE_ARG(op->key));
	if (!has_sum)
		return error_set(err, TIDE_EMISMATCH,
				 "'%" SLICE_FMT "' would overflow an integer",
				 SLICE_ARG(op->key));
	if (!e)
		return shared_set(s, op, out, err);
	if (op->is_dry)
		return TIDE_OK;
	pay(s, e, op);
	e->value = *out;
	set_dirty(s, e);
	return TIDE_OK;
}

bool shared_touch(struct shared *s, const struct shared_op *op)
{
	struct shared_entry *e = find_alive(s, op);

	if (e && !op->is_dry) {
		set_expiry(s, e, op->expires_unix_ms);
		set_dirty(s, e);
	}
	return e != NULL;
}

bool shared_remove(struct shared *s, const struct shared_op *op)
{
	struct shared_entry *e = find_alive(s, op);

	if (e && !op->is_dry)
		drop(s, e);
	return e != NULL;
}

void shared_stats(const struct shared *s, struct shared_stats *out)
{
	*out = (struct shared_stats){ .entries = s->count,
				      .entries_max = s->count_max,
				      .bytes = s->bytes,
				      .bytes_max = s->bytes_max,
				      .unwritten = s->unwritten };
}

size_t shared_count_family(const struct shared *s, struct slice name)
{
	char key[ENTRY_KEY_MAX];
	const struct shared_op op = { .space = SHARED_COUNTERS, .key = name };
	const struct shared_family *f = find_family(s, make_entry_key(key, &op));

	return f ? f->count : 0;
}

size_t shared_count_labelled(const struct shared *s)
{
	return s->labelled;
}

void shared_each_payer(const struct shared *s, shared_payer_fn fn, void *ctx)
{
	for (const struct payer *p = s->payers; p; p = p->hh.next) {
		if (!p->whole)
			continue;
		const struct shared_payer_stats stats = {
			.file = p->key,
			.vhost = payer_vhost(p),
			.entries = p->entries,
			.bytes = p->bytes,
		};

		fn(ctx, &stats);
	}
}

/* A scan goes from bucket to bucket of the hash table, in the order of their numbers read
 * backwards: when the table has grown meanwhile, each bucket that was visited has become
 * such whose turn is over. */

static uint32_t reverse(uint32_t n)
{
	uint32_t out = 0;

	for (int i = 0; i < 32; i++, n >>= 1)
		out = out << 1 | (n & 1);
	return out;
}

static uint32_t bucket_after(uint32_t number, uint32_t mask)
{
	return reverse(reverse(number | ~mask) + 1);
}

static bool is_scanned(const struct shared_entry *e, const struct shared_scan *scan)
{
	struct slice key = { e->key + 2, e->key_len - 2 };

	return e->key[0] == (char)scan->space && is_alive(e, scan->now_ms) &&
	       key.len >= scan->prefix.len &&
	       memcmp(key.data, scan->prefix.data, scan->prefix.len) == 0;
}

/* The next entry of the bucket from `hh` on that the scan is about; NULL: none. */
static struct shared_entry *scan_bucket(const struct shared *s, struct shared_scan *scan,
					struct UT_hash_handle **hh)
{
	while (*hh) {
		struct shared_entry *e = ELMT_FROM_HH(s->entries->hh.tbl, *hh);

		*hh = (*hh)->hh_next;
		scan->looks++;
		if (is_scanned(e, scan))
			return e;
	}
	return NULL;
}

void shared_scan(struct shared *s, struct shared_scan *scan, shared_info_fn fn, void *ctx)
{
	scan->looks = scan->found = 0;
	while (s->entries && scan->looks < SHARED_SCAN_LOOKS &&
	       scan->found < SHARED_SCAN_FOUND) {
		const UT_hash_table *t = s->entries->hh.tbl;
		uint32_t mask = t->num_buckets - 1;
		struct UT_hash_handle *hh = t->buckets[scan->cursor & mask].hh_head;
		struct shared_entry *e;
		struct shared_info info;

		while (s->entries && (e = scan_bucket(s, scan, &hh)) != NULL) {
			scan->found++;
			if (!fn) {
				drop(s, e);
				continue;
			}
			describe(e, &info);
			fn(ctx, &info);
		}
		scan->looks++;
		scan->cursor = bucket_after(scan->cursor & mask, mask);
		if (scan->cursor == 0)
			return;
	}
	if (!s->entries)
		scan->cursor = 0;
}

void shared_each_counter(const struct shared *s, int64_t now_ms, unsigned max,
			 shared_info_fn fn, void *ctx)
{
	const struct shared_entry *e;
	struct shared_info info;

	TAILQ_FOREACH (e, &s->counters, counter_link) {
		if (!is_alive(e, now_ms))
			continue;
		if (max-- == 0)
			return;
		describe(e, &info);
		fn(ctx, &info);
	}
}

static bool is_kept_key(struct slice key)
{
	return key.len > 2 && key.len <= ENTRY_KEY_MAX && key.data[1] == ':' &&
	       (key.data[0] == SHARED_KEYS || key.data[0] == SHARED_COUNTERS ||
		key.data[0] == SHARED_BUCKETS);
}

int shared_restore(struct shared *s, struct slice key, struct slice text)
{
	struct shared_value value;
	int64_t expires_unix_ms;

	if (!is_kept_key(key) || !shared_text_read(text, &expires_unix_ms, &value))
		return TIDE_ESYNTAX;
	struct shared_entry *e = find_entry(s, key);
	if (!e) {
		e = create(s, key);
		assign(s, e, &value);
		set_expiry(s, e, expires_unix_ms);
	}
	e->is_kept = true;
	return TIDE_OK;
}

void shared_keep(struct shared *s)
{
	s->is_kept = true;
}

bool shared_is_dirty(const struct shared *s)
{
	return !TAILQ_EMPTY(&s->dirty);
}

bool shared_is_written(const struct shared *s)
{
	return TAILQ_EMPTY(&s->dirty) && TAILQ_EMPTY(&s->sent);
}

size_t shared_send(struct shared *s, size_t max, shared_change_fn fn, void *ctx)
{
	const struct slice gone = { NULL, 0 };
	struct shared_entry *e;
	struct buf text = { 0 };
	size_t n = 0;

	while (n < max && (e = TAILQ_FIRST(&s->dirty)) != NULL) {
		TAILQ_REMOVE(&s->dirty, e, link);
		TAILQ_INSERT_TAIL(&s->sent, e, link);
		e->home = HOME_SENT;
		e->is_changed = false;
		buf_clear(&text);
		shared_text_write(&text, e->expires_unix_ms, &e->value);
		fn(ctx, (struct slice){ e->key, e->key_len },
		   e->is_gone ? gone : buf_slice(&text));
		n++;
	}
	buf_deinit(&text);
	return n;
}

static void settle(struct shared *s, struct shared_entry *e, bool is_kept)
{
	e->home = HOME_CLEAN;
	s->unwritten--;
	if (is_kept && e->is_gone && !e->is_changed) {
		forget(s, e);
		return;
	}
	/* Refused or not, something of it may have been kept. */
	e->is_kept = true;
	if (!is_kept || e->is_changed)
		set_dirty(s, e);
}

void shared_sent(struct shared *s, bool is_kept)
{
	struct shared_entry *e;

	while ((e = TAILQ_FIRST(&s->sent)) != NULL) {
		TAILQ_REMOVE(&s->sent, e, link);
		settle(s, e, is_kept);
	}
}
