#include "history.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/container.h"
#include "base/id.h"
#include "base/mem.h"
#include "host/log.h"
#include "base/waiter.h"
#include "rules/engine/reload.h"

#define HASH_PREFIX_MIN 4

#define DOC_LAST "rules:last"
#define DOC_LOG "rules:log"
#define DOC_GEN "rules:gen:"
#define GEN_NAME_SIZE (sizeof(DOC_GEN) + ID_HEX_LEN)

/* An entry is kept as it is shown, so that nobody has to read it back. */
struct entry_text {
	uint64_t number;
	char *json;
};

struct kept {
	struct bundle *files;
	uint64_t hash;
	bool has_passed; /* the gate */
};

struct history {
	struct broker *broker;
	struct entry_text entries[HISTORY_ENTRIES]; /* the oldest first */
	size_t count;
	uint64_t last_number;
	struct kept kept[HISTORY_KEPT]; /* the newest first; NULL files: not read yet */
	size_t kept_count;
	uint64_t last;    /* hash of the rules that were active last; 0 = nothing */
	uint64_t passed;  /* the gate last; 0 = nothing. It may not be kept yet */
	uint64_t died_of; /* being loaded when a broker ended; 0 = nothing */
	bool is_loading;  /* Redis names what is being loaded */
	unsigned notes;   /* since the start */
	struct waiter loading;
	store_done_fn on_loaded;
	void *loaded_ctx;
};

static void on_waited(struct waiter *w)
{
	struct history *h = container_of(w, struct history, loading);

	h->on_loaded(h->loaded_ctx, w->status, w->text);
}

struct history *history_create(struct broker *b)
{
	struct history *h = mem_zalloc(sizeof(*h));

	h->broker = b;
	return h;
}

void history_destroy(struct history *h)
{
	if (!h)
		return;
	for (size_t i = 0; i < h->count; i++)
		mem_free(h->entries[i].json);
	for (size_t i = 0; i < h->kept_count; i++)
		bundle_unref(h->kept[i].files);
	mem_free(h);
}

/* NULL when there is none to write to, or not any more. */
static struct store *store_of(const struct history *h)
{
	return h->broker->is_closing ? NULL : h->broker->env.store;
}

static void on_written(void *ctx, int status, const char *text)
{
	if (status < 0 && status != TIDE_ESHUTDOWN)
		log_error("rules: cannot write the history to Redis: %s",
			  text ? text : error_text(status));
}

/* Hashes are written like ids. */
static void gen_name(uint64_t hash, char out[GEN_NAME_SIZE])
{
	snprintf(out, GEN_NAME_SIZE, DOC_GEN "%016" PRIx64, hash);
}

static void append_hash(struct buf *list, uint64_t hash)
{
	buf_printf(list, "%s%016" PRIx64, buf_len(list) ? " " : "", hash);
}

static void change_document(struct history *h, const char *name,
			    const struct store_field *changes, size_t count)
{
	if (store_of(h))
		store_document_change(store_of(h), name, changes, count, on_written,
				      NULL);
}

static void store_files(struct history *h, const struct kept *k)
{
	char name[GEN_NAME_SIZE];
	struct store_field *fields;

	if (k->files->count == 0)
		return;
	fields = mem_alloc(k->files->count * sizeof(*fields));
	for (size_t i = 0; i < k->files->count; i++)
		fields[i] = (struct store_field){
			.name = slice_from(k->files->files[i].path),
			.value = { k->files->files[i].text, k->files->files[i].len },
		};
	gen_name(k->hash, name);
	change_document(h, name, fields, k->files->count);
	mem_free(fields);
}

static void forget_files(struct history *h, uint64_t hash)
{
	char name[GEN_NAME_SIZE];

	gen_name(hash, name);
	if (store_of(h))
		store_document_remove(store_of(h), name, on_written, NULL);
}

/* Store which generation is the last, and which are kept, in one command. */
static void store_last(struct history *h)
{
	struct buf last = { 0 }, kept = { 0 }, passed = { 0 }, died_of = { 0 };

	append_hash(&last, h->last);
	append_hash(&died_of, h->died_of);
	for (size_t i = 0; i < h->kept_count; i++) {
		append_hash(&kept, h->kept[i].hash);
		if (h->kept[i].has_passed)
			append_hash(&passed, h->kept[i].hash);
	}
	struct store_field fields[] = {
		{ SLICE("hash"), buf_slice(&last) },
		/* Empty when there is none, but never a removal. */
		{ SLICE("kept"), slice_from(buf_cstr(&kept)) },
		{ SLICE("passed"), slice_from(buf_cstr(&passed)) },
		{ SLICE("loading"), SLICE("") },
		{ SLICE("died_of"), buf_slice(&died_of) },
	};
	h->is_loading = false;
	change_document(h, DOC_LAST, fields, 5);
	buf_deinit(&died_of);
	buf_deinit(&last);
	buf_deinit(&kept);
	buf_deinit(&passed);
}

/* @param json  NULL: the entry is removed */
static void store_entry(struct history *h, uint64_t number, const char *json)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, number);
	struct store_field field = { slice_from(text), slice_from(json) };
	change_document(h, DOC_LOG, &field, 1);
}

static void add_entry(struct history *h, uint64_t number, char *json_take)
{
	if (h->count == HISTORY_ENTRIES) {
		store_entry(h, h->entries[0].number, NULL);
		mem_free(h->entries[0].json);
		h->count--;
		memmove(h->entries, h->entries + 1, h->count * sizeof(*h->entries));
	}
	h->entries[h->count++] = (struct entry_text){ number, json_take };
	if (number > h->last_number)
		h->last_number = number;
}

static int compare_entries(const void *a, const void *b)
{
	uint64_t x = ((const struct entry_text *)a)->number;
	uint64_t y = ((const struct entry_text *)b)->number;

	return x < y ? -1 : x > y;
}

static void on_log(void *ctx, int status, const char *text,
		   const struct store_field *fields, size_t count)
{
	struct history *h = ctx;
	uint64_t number;

	for (size_t i = 0; i < count && h->count < HISTORY_ENTRIES; i++)
		if (slice_to_uint(fields[i].name, UINT64_MAX / 2, &number))
			add_entry(h, number,
				  mem_strndup(fields[i].value.data, fields[i].value.len));
	qsort(h->entries, h->count, sizeof(*h->entries), compare_entries);
	waiter_done(&h->loading, status, text);
}

static void forget_loading(struct history *h)
{
	const struct store_field none = { SLICE("loading"), SLICE("") };

	if (h->is_loading)
		change_document(h, DOC_LAST, &none, 1);
	h->is_loading = false;
}

void history_note_loading(struct history *h, uint64_t hash, store_done_fn on_done,
			  void *ctx)
{
	struct buf text = { 0 };
	struct store *store = store_of(h);

	/* Rules may be repaired while Redis is away. */
	if (!store || store_state(store) != STORE_UP) {
		on_done(ctx, TIDE_OK, NULL);
		return;
	}
	h->is_loading = true;
	append_hash(&text, hash);
	const struct store_field field = { SLICE("loading"), buf_slice(&text) };
	store_document_change(store, DOC_LAST, &field, 1, on_done, ctx);
	buf_deinit(&text);
}

/* Redis takes changes in their order: one that changes nothing is the last of them. */
void history_flush(struct history *h, store_done_fn on_done, void *ctx)
{
	struct buf last = { 0 };
	struct store *store = store_of(h);

	if (!store || store_state(store) != STORE_UP) {
		on_done(ctx, TIDE_OK, NULL);
		return;
	}
	append_hash(&last, h->last);
	const struct store_field field = { SLICE("hash"), buf_slice(&last) };
	store_document_change(store, DOC_LAST, &field, 1, on_done, ctx);
	buf_deinit(&last);
}

static void drop_kept(struct history *h, size_t i)
{
	bundle_unref(h->kept[i].files);
	h->kept_count--;
	memmove(&h->kept[i], &h->kept[i + 1], (h->kept_count - i) * sizeof(*h->kept));
}

/* Answers come in the order of the questions; the one that is read is the first of
 * those that have no files yet. */
static void on_files(void *ctx, int status, const char *text,
		     const struct store_field *fields, size_t count)
{
	struct history *h = ctx;
	struct bundle *files = bundle_create();
	size_t i = 0;

	while (h->kept[i].files)
		i++;
	for (size_t f = 0; f < count; f++) {
		char *path = mem_strndup(fields[f].name.data, fields[f].name.len);

		bundle_add(files, path, fields[f].value);
		mem_free(path);
	}
	h->kept[i].files = files;
	if (status == TIDE_OK && bundle_hash(files) != h->kept[i].hash) {
		log_warn("rules: generation %016" PRIx64
			 " in Redis does not match its hash; ignoring it",
			 h->kept[i].hash);
		drop_kept(h, i);
	}
	waiter_done(&h->loading, status, text);
}

static void ask_for_kept(struct history *h, struct slice list)
{
	char name[GEN_NAME_SIZE];
	uint64_t hash;

	while (h->kept_count < HISTORY_KEPT &&
	       id_parse(slice_cut(&list, ' '), &hash) == TIDE_OK) {
		h->kept[h->kept_count++] = (struct kept){ .hash = hash };
		gen_name(hash, name);
		waiter_add(&h->loading);
		store_document_read(store_of(h), name, on_files, h);
	}
}

static void mark_passed(struct history *h, struct slice list)
{
	uint64_t hash;

	while (id_parse(slice_cut(&list, ' '), &hash) == TIDE_OK)
		for (size_t i = 0; i < h->kept_count; i++)
			h->kept[i].has_passed |= h->kept[i].hash == hash;
}

static void on_last(void *ctx, int status, const char *text,
		    const struct store_field *fields, size_t count)
{
	struct history *h = ctx;
	struct slice passed = SLICE("");
	uint64_t loading = 0;

	for (size_t i = 0; i < count; i++) {
		if (slice_is(fields[i].name, "kept"))
			ask_for_kept(h, fields[i].value);
		else if (slice_is(fields[i].name, "passed"))
			passed = fields[i].value;
		else if (slice_is(fields[i].name, "loading"))
			(void)!id_parse(fields[i].value, &loading);
		else if (slice_is(fields[i].name, "died_of"))
			(void)!id_parse(fields[i].value, &h->died_of);
		else if (slice_is(fields[i].name, "hash") &&
			 id_parse(fields[i].value, &h->last) < 0)
			log_warn("rules: {tide}:" DOC_LAST
				 " in Redis does not name a generation");
	}
	/* Rules that were active before are no worse for it: anything may have ended
	 * the broker. */
	if (loading != 0 && loading != h->last)
		h->died_of = loading;
	mark_passed(h, passed);
	waiter_done(&h->loading, status, text);
}

void history_load(struct history *h, store_done_fn on_done, void *ctx)
{
	h->on_loaded = on_done;
	h->loaded_ctx = ctx;
	waiter_init(&h->loading, on_waited);
	waiter_add(&h->loading);
	store_document_read(store_of(h), DOC_LAST, on_last, h);
	store_document_read(store_of(h), DOC_LOG, on_log, h);
}

unsigned history_notes(const struct history *h)
{
	return h->notes;
}

void history_adopt_take(struct history *h, struct history *fresh)
{
	struct history before = *h;
	/* What another owner loads now is no rule that a broker has died of. */
	uint64_t died_of = h->died_of;

	*h = *fresh;
	h->died_of = died_of;
	h->passed = before.passed;
	h->is_loading = before.is_loading;
	h->notes = before.notes;
	*fresh = before;
	history_destroy(fresh);
}

struct change_list {
	struct json *out;
	enum bundle_change change; /* the only one that is listed */
	size_t count;
};

static void on_change(void *ctx, enum bundle_change change, const char *path)
{
	struct change_list *l = ctx;

	if (change == l->change && l->count++ < HISTORY_NAMES)
		json_text(l->out, path);
}

static void write_changes(struct json *j, const struct bundle *from,
			  const struct bundle *to)
{
	static const char *const names[] = { "added", "changed", "removed" };
	char count[32];

	for (int i = 0; i < 3; i++) {
		struct change_list list = { j, (enum bundle_change)i, 0 };

		json_member_array(j, names[i]);
		bundle_compare(from, to, on_change, &list);
		json_array_end(j);
		if (list.count > HISTORY_NAMES) {
			snprintf(count, sizeof(count), "%s_count", names[i]);
			json_member_int(j, count, (int64_t)list.count);
		}
	}
}

/* @param refusal  NULL: the files `after` have become the active rules */
static void note(struct history *h, enum engine_origin origin,
		 const struct error *refusal, const struct bundle *before,
		 const struct bundle *after)
{
	const struct engine *e = h->broker->engine;
	const char *by = reload_last(e)->asked_by;
	uint64_t number = h->last_number + 1;
	struct buf text = { 0 };
	struct json j = { .out = &text };

	/* A change of files has no author. */
	if (!by[0] && origin == ENGINE_FILES)
		by = "files changed";
	json_object_begin(&j);
	json_member_int(&j, "number", (int64_t)number);
	json_member_int(&j, "loaded_ms", h->broker->now_ms);
	json_member_text(&j, "origin", engine_origin_name(origin));
	if (by[0])
		json_member_text(&j, "by", by);
	json_member_text(&j, "result", refusal ? "refused" : "accepted");
	if (refusal) {
		json_member_text(&j, "error", refusal->text);
	} else {
		json_member_hex(&j, "hash", bundle_hash(after));
		json_member_int(&j, "generation", (int64_t)engine_epoch(e));
		json_member_int(&j, "files", (int64_t)after->count);
	}
	write_changes(&j, before, after);
	json_object_end(&j);
	add_entry(h, number, mem_strdup(buf_cstr(&text)));
	store_entry(h, number, buf_cstr(&text));
	buf_deinit(&text);
}

static size_t find_kept(const struct history *h, uint64_t hash)
{
	size_t i = 0;

	while (i < h->kept_count && h->kept[i].hash != hash)
		i++;
	return i;
}

static struct bundle *files_of(const struct history *h, uint64_t hash)
{
	size_t i = find_kept(h, hash);

	return i < h->kept_count ? h->kept[i].files : NULL;
}

/* Make room for one more: what falls out is not needed any more. */
static void bound(struct history *h, size_t bytes)
{
	for (size_t i = 0; i < h->kept_count; i++) {
		bytes += h->kept[i].files->bytes;
		if (i < HISTORY_KEPT - 1 && bytes <= HISTORY_KEPT_BYTES)
			continue;
		forget_files(h, h->kept[i].hash);
		drop_kept(h, i--);
	}
}

/* A generation from files comes first in the order, as the newest; one that was
 * gone back to keeps its place, so that the next step back leads further. */
static void keep(struct history *h, struct bundle *files, uint64_t hash,
		 bool is_going_back)
{
	size_t i = find_kept(h, hash);
	struct kept k;

	if (files->bytes > HISTORY_KEPT_BYTES) {
		log_warn("rules: generation %016" PRIx64
			 " is too large to be kept: %zu bytes, %zu at most",
			 hash, files->bytes, HISTORY_KEPT_BYTES);
		return;
	}
	h->last = hash;
	if (i < h->kept_count && is_going_back)
		return;
	if (i == h->kept_count) {
		bound(h, files->bytes);
		i = h->kept_count++;
		h->kept[i] = (struct kept){ .files = bundle_ref(files),
					    .hash = hash,
					    .has_passed = hash == h->passed };
		store_files(h, &h->kept[i]);
	}
	k = h->kept[i];
	memmove(&h->kept[1], &h->kept[0], i * sizeof(*h->kept));
	h->kept[0] = k;
}

/* At the start the rules of the other owners come next. */
static bool is_to_follow(const struct history *h)
{
	return !h->broker->is_started && store_of(h) && store_has_others(store_of(h));
}

void history_note(struct history *h, const struct error *result)
{
	const struct engine *e = h->broker->engine;
	struct bundle *files = engine_files(e), *refused = reload_last(e)->refused;
	enum engine_origin origin = engine_origin(e);

	h->notes++;
	if (result->code == TIDE_OK && is_to_follow(h)) {
		forget_loading(h);
		return;
	}
	if (result->code == TIDE_OK) {
		if (h->died_of == engine_hash(e))
			h->died_of = 0;
		note(h, origin, NULL, files_of(h, h->last), files);
		keep(h, files, engine_hash(e),
		     origin == ENGINE_ROLLBACK || origin == ENGINE_LAST_GOOD);
		store_last(h);
		if (origin != ENGINE_CELL && store_of(h))
			store_count_rules(store_of(h));
		return;
	}
	refused = refused ? bundle_ref(refused)
			  : rules_dir_scan(h->broker->config.rules_dir, files);
	note(h, reload_last(e)->origin, result, files, refused);
	bundle_unref(refused);
	forget_loading(h);
}

void history_note_start(struct history *h, const struct error *refusal)
{
	struct bundle *last = history_last_good(h);
	struct bundle *found = rules_dir_scan(h->broker->config.rules_dir, last);

	note(h, ENGINE_START, refusal, last, found);
	bundle_unref(found);
}

struct bundle *history_last_good(const struct history *h)
{
	return files_of(h, h->last);
}

int history_check_loading(const struct history *h, uint64_t hash, struct error *err)
{
	if (hash != h->died_of || hash == h->last || !history_last_good(h))
		return TIDE_OK;
	return error_set(err, TIDE_ERULE,
			 "the broker ended while it loaded these rules (%016" PRIx64
			 "); they are loaded again when they change, or by RULES reload",
			 hash);
}

static int refuse_unknown(const struct history *h, const char *what, struct slice hash,
			  struct error *err)
{
	struct buf kept = { 0 };

	for (size_t i = 0; i < h->kept_count; i++)
		buf_printf(&kept, " %016" PRIx64 "%s", h->kept[i].hash,
			   h->kept[i].hash == engine_hash(h->broker->engine) ? " (active)"
									     : "");
	error_set(err, TIDE_ENOTFOUND,
		  "%s%" SLICE_FMT "; kept generations, newest first:%s", what,
		  SLICE_ARG(hash), buf_cstr(&kept));
	buf_deinit(&kept);
	return TIDE_ENOTFOUND;
}

static int find_previous(const struct history *h, struct bundle **out, struct error *err)
{
	size_t i = find_kept(h, engine_hash(h->broker->engine));

	/* One too large to be kept is newer than all that are. */
	i = i == h->kept_count ? 0 : i + 1;
	if (i >= h->kept_count)
		return refuse_unknown(h, "there is no generation before the active one",
				      SLICE(""), err);
	*out = h->kept[i].files;
	return TIDE_OK;
}

/* The kept one of that hash, or of the only one that begins so. */
static int find_by_hash(const struct history *h, struct slice hash, size_t *out,
			struct error *err)
{
	char text[ID_HEX_LEN + 1];
	size_t count = 0;

	for (size_t i = 0; i < h->kept_count; i++) {
		snprintf(text, sizeof(text), "%016" PRIx64, h->kept[i].hash);
		if (hash.len <= ID_HEX_LEN && memcmp(text, hash.data, hash.len) == 0) {
			*out = i;
			count++;
		}
	}
	if (hash.len < HASH_PREFIX_MIN)
		return refuse_unknown(h, "a hash needs at least 4 digits, not ", hash,
				      err);
	if (count != 1)
		return refuse_unknown(h,
				      count ? "more than one generation begins with "
					    : "no kept generation begins with ",
				      hash, err);
	return TIDE_OK;
}

int history_files(const struct history *h, struct slice hash, struct bundle **out,
		  struct error *err)
{
	size_t found;
	int rc = hash.len ? find_by_hash(h, hash, &found, err) : TIDE_OK;

	if (rc == TIDE_OK)
		*out = hash.len ? h->kept[found].files : engine_files(h->broker->engine);
	return rc;
}

int history_find(const struct history *h, struct slice hash, struct bundle **out,
		 struct error *err)
{
	size_t found;

	if (hash.len == 0)
		return find_previous(h, out, err);
	if (find_by_hash(h, hash, &found, err) < 0)
		return err->code;
	if (h->kept[found].hash == engine_hash(h->broker->engine))
		return error_set(err, TIDE_EEXISTS,
				 "generation %016" PRIx64 " is active already",
				 h->kept[found].hash);
	*out = h->kept[found].files;
	return TIDE_OK;
}

void history_note_passed(struct history *h, uint64_t hash)
{
	size_t i = find_kept(h, hash);

	h->passed = hash;
	if (i == h->kept_count || h->kept[i].has_passed)
		return;
	h->kept[i].has_passed = true;
	store_last(h);
}

bool history_has_passed(const struct history *h, uint64_t hash)
{
	size_t i = find_kept(h, hash);

	return hash == h->passed || (i < h->kept_count && h->kept[i].has_passed);
}

void history_write(const struct history *h, struct json *out)
{
	json_array_begin(out);
	for (size_t i = h->count; i > 0; i--) {
		if (out->need_comma)
			buf_append_char(out->out, ',');
		buf_append_text(out->out, h->entries[i - 1].json);
		out->need_comma = true;
	}
	json_array_end(out);
}
