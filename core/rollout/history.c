#include "history.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/container.h"
#include "base/mem.h"
#include "host/log.h"
#include "base/waiter.h"
#include "rules/engine/reload.h"

#define HASH_LEN 16
#define HASH_PREFIX_MIN 4

#define DOC_LAST "rules:last"
#define DOC_LOG "rules:log"
#define DOC_GEN "rules:gen:"

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
	uint64_t last;   /* hash of the rules that were active last; 0 = nothing */
	uint64_t passed; /* the gate last; 0 = nothing. It may not be kept yet */
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

static void format_hash(uint64_t hash, char out[HASH_LEN + 1])
{
	snprintf(out, HASH_LEN + 1, "%016" PRIx64, hash);
}

static bool parse_hash(struct slice s, uint64_t *out)
{
	*out = 0;
	if (s.len == 0 || s.len > HASH_LEN)
		return false;
	for (size_t i = 0; i < s.len; i++) {
		const char *digits = "0123456789abcdef";
		const char *at = s.data[i] ? strchr(digits, s.data[i]) : NULL;

		if (!at)
			return false;
		*out = *out << 4 | (uint64_t)(at - digits);
	}
	return true;
}

/* NULL when there is none to write to, or not any more. */
static struct store *store_of(const struct history *h)
{
	return h->broker->is_closing ? NULL : h->broker->env.store;
}

static void on_written(void *ctx, int status, const char *text)
{
	if (status < 0 && status != TIDE_ESHUTDOWN)
		log_error("rules: the history is not kept: %s",
			  text ? text : error_text(status));
}

static void gen_name(uint64_t hash, char out[sizeof(DOC_GEN) + HASH_LEN])
{
	snprintf(out, sizeof(DOC_GEN) + HASH_LEN, DOC_GEN "%016" PRIx64, hash);
}

static void store_files(struct history *h, const struct kept *k)
{
	char name[sizeof(DOC_GEN) + HASH_LEN];
	struct store_field *fields;

	if (!store_of(h) || k->files->count == 0)
		return;
	fields = mem_alloc(k->files->count * sizeof(*fields));
	for (size_t i = 0; i < k->files->count; i++)
		fields[i] = (struct store_field){
			.name = slice_from(k->files->files[i].path),
			.value = { k->files->files[i].text, k->files->files[i].len },
		};
	gen_name(k->hash, name);
	store_document_change(store_of(h), name, fields, k->files->count, on_written,
			      NULL);
	mem_free(fields);
}

static void forget_files(struct history *h, uint64_t hash)
{
	char name[sizeof(DOC_GEN) + HASH_LEN];

	gen_name(hash, name);
	if (store_of(h))
		store_document_remove(store_of(h), name, on_written, NULL);
}

/* Which is the last, and which are kept, in one command. */
static void store_last(struct history *h)
{
	char hash[HASH_LEN + 1];
	struct buf kept = { 0 }, passed = { 0 };

	if (!store_of(h))
		return;
	for (size_t i = 0; i < h->kept_count; i++) {
		format_hash(h->kept[i].hash, hash);
		buf_printf(&kept, "%s%s", i ? " " : "", hash);
		if (h->kept[i].has_passed)
			buf_printf(&passed, "%s%s", buf_len(&passed) ? " " : "", hash);
	}
	format_hash(h->last, hash);
	struct store_field fields[] = {
		{ SLICE("hash"), slice_from(hash) },
		/* Empty when there is none, but never a removal. */
		{ SLICE("kept"), slice_from(buf_cstr(&kept)) },
		{ SLICE("passed"), slice_from(buf_cstr(&passed)) },
	};
	store_document_change(store_of(h), DOC_LAST, fields, 3, on_written, NULL);
	buf_deinit(&kept);
	buf_deinit(&passed);
}

static void store_entry(struct history *h, const struct entry_text *e)
{
	char number[24];

	if (!store_of(h))
		return;
	snprintf(number, sizeof(number), "%" PRIu64, e->number);
	struct store_field field = { slice_from(number), slice_from(e->json) };
	store_document_change(store_of(h), DOC_LOG, &field, 1, on_written, NULL);
}

static void forget_entry(struct history *h, uint64_t number)
{
	char text[24];

	if (!store_of(h))
		return;
	snprintf(text, sizeof(text), "%" PRIu64, number);
	struct store_field removal = { slice_from(text), { NULL, 0 } };
	store_document_change(store_of(h), DOC_LOG, &removal, 1, on_written, NULL);
}

static void add_entry(struct history *h, uint64_t number, char *json)
{
	if (h->count == HISTORY_ENTRIES) {
		forget_entry(h, h->entries[0].number);
		mem_free(h->entries[0].json);
		h->count--;
		memmove(h->entries, h->entries + 1, h->count * sizeof(*h->entries));
	}
	h->entries[h->count++] = (struct entry_text){ number, json };
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

static void drop_kept(struct history *h, size_t i)
{
	bundle_unref(h->kept[i].files);
	h->kept_count--;
	memmove(&h->kept[i], &h->kept[i + 1], (h->kept_count - i) * sizeof(*h->kept));
}

/* They come in the order in which they were asked for; the one that is read is
 * the first of those that have no files yet. */
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
			 " is not in Redis as it was kept, and left out",
			 h->kept[i].hash);
		drop_kept(h, i);
	}
	waiter_done(&h->loading, status, text);
}

/* The next hash of a list; false at its end, or where it cannot be read. */
static bool next_hash(struct slice *list, uint64_t *hash)
{
	if (list->len < HASH_LEN ||
	    !parse_hash((struct slice){ list->data, HASH_LEN }, hash))
		return false;
	*list = slice_skip(*list, list->len > HASH_LEN ? HASH_LEN + 1 : HASH_LEN);
	return true;
}

static void ask_for_kept(struct history *h, struct slice list)
{
	char name[sizeof(DOC_GEN) + HASH_LEN];
	uint64_t hash;

	while (h->kept_count < HISTORY_KEPT && next_hash(&list, &hash)) {
		h->kept[h->kept_count++] = (struct kept){ .hash = hash };
		gen_name(hash, name);
		waiter_add(&h->loading);
		store_document_read(store_of(h), name, on_files, h);
	}
}

static void mark_passed(struct history *h, struct slice list)
{
	uint64_t hash;

	while (next_hash(&list, &hash))
		for (size_t i = 0; i < h->kept_count; i++)
			h->kept[i].has_passed |= h->kept[i].hash == hash;
}

static void on_last(void *ctx, int status, const char *text,
		    const struct store_field *fields, size_t count)
{
	struct history *h = ctx;
	struct slice passed = SLICE("");

	for (size_t i = 0; i < count; i++) {
		if (slice_is(fields[i].name, "kept"))
			ask_for_kept(h, fields[i].value);
		else if (slice_is(fields[i].name, "passed"))
			passed = fields[i].value;
		else if (slice_is(fields[i].name, "hash") &&
			 !parse_hash(fields[i].value, &h->last))
			log_warn("rules: tide:" DOC_LAST " in Redis names no generation");
	}
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

struct file_changes {
	struct buf names[3]; /* by enum bundle_change: the members of an array */
	size_t count[3];
};

static void on_change(void *ctx, enum bundle_change change, const char *path)
{
	struct file_changes *c = ctx;
	struct json j = { &c->names[change], c->count[change] > 0 };

	if (c->count[change]++ < HISTORY_NAMES)
		json_text(&j, path);
}

static void write_changes(struct json *j, const struct bundle *from,
			  const struct bundle *to)
{
	static const char *const names[] = { "added", "changed", "removed" };
	struct file_changes c = { .count = { 0 } };
	char count[32];

	bundle_compare(from, to, on_change, &c);
	for (int i = 0; i < 3; i++) {
		json_member_list(j, names[i], buf_slice(&c.names[i]));
		buf_deinit(&c.names[i]);
		if (c.count[i] > HISTORY_NAMES) {
			snprintf(count, sizeof(count), "%s_count", names[i]);
			json_member_int(j, count, (int64_t)c.count[i]);
		}
	}
}

struct note {
	enum engine_origin origin;
	const char *by;              /* who asked for it; "" nobody */
	const struct error *refusal; /* NULL: accepted */
	uint64_t generation;         /* 0: there is no engine yet */
	const struct bundle *before, *after;
};

static void note(struct history *h, const struct note *n)
{
	char hash[HASH_LEN + 1];
	struct buf text = { 0 };
	struct json j = { .out = &text };

	json_object_begin(&j);
	json_member_int(&j, "number", (int64_t)h->last_number + 1);
	json_member_int(&j, "loaded_ms", h->broker->now_ms);
	json_member_text(&j, "origin", engine_origin_name(n->origin));
	if (n->by[0])
		json_member_text(&j, "by", n->by);
	json_member_text(&j, "result", n->refusal ? "refused" : "accepted");
	if (n->refusal) {
		json_member_text(&j, "error", n->refusal->text);
	} else {
		format_hash(bundle_hash(n->after), hash);
		json_member_text(&j, "hash", hash);
		json_member_int(&j, "generation", (int64_t)n->generation);
		json_member_int(&j, "files", (int64_t)n->after->count);
	}
	write_changes(&j, n->before, n->after);
	json_object_end(&j);
	add_entry(h, h->last_number + 1,
		  mem_strndup(buf_slice(&text).data, buf_len(&text)));
	store_entry(h, &h->entries[h->count - 1]);
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

/* Files that changed have been asked for by nobody. */
static const char *author(const struct engine *e, enum engine_origin origin)
{
	const char *by = reload_asked_by(e);

	return !by[0] && origin == ENGINE_FILES ? "files changed" : by;
}

static void note_accepted(struct history *h)
{
	const struct engine *e = h->broker->engine;
	enum engine_origin origin = engine_origin(e);
	struct bundle *files = engine_files(e);

	note(h, &(struct note){ .origin = origin,
				.by = author(e, origin),
				.generation = engine_epoch(e),
				.before = files_of(h, h->last),
				.after = files });
	keep(h, files, engine_hash(e),
	     origin == ENGINE_ROLLBACK || origin == ENGINE_LAST_GOOD);
	store_last(h);
}

void history_note(struct history *h, const struct error *result)
{
	const struct engine *e = h->broker->engine;
	struct bundle *found;

	if (result->code == TIDE_OK) {
		note_accepted(h);
		return;
	}
	found = reload_refused_files(e);
	found = found ? bundle_ref(found)
		      : rules_dir_scan(h->broker->config.rules_dir, engine_files(e));
	note(h, &(struct note){ .origin = reload_attempt(e),
				.by = author(e, reload_attempt(e)),
				.refusal = result,
				.before = engine_files(e),
				.after = found });
	bundle_unref(found);
}

void history_note_start(struct history *h, const struct error *refusal)
{
	struct bundle *last = history_last_good(h), *found;

	found = rules_dir_scan(h->broker->config.rules_dir, last);
	note(h, &(struct note){ .origin = ENGINE_START,
				.by = "",
				.refusal = refusal,
				.before = last,
				.after = found });
	bundle_unref(found);
}

struct bundle *history_last_good(const struct history *h)
{
	return files_of(h, h->last);
}

static int refuse_unknown(const struct history *h, const char *what, struct slice hash,
			  struct error *err)
{
	char text[HASH_LEN + 1];
	struct buf kept = { 0 };

	for (size_t i = 0; i < h->kept_count; i++) {
		format_hash(h->kept[i].hash, text);
		buf_printf(&kept, " %s%s", text,
			   h->kept[i].hash == engine_hash(h->broker->engine)
				   ? " (in force)"
				   : "");
	}
	error_set(err, TIDE_ENOTFOUND, "%s%" SLICE_FMT "; kept are, the newest first:%s",
		  what, SLICE_ARG(hash), buf_cstr(&kept));
	buf_deinit(&kept);
	return TIDE_ENOTFOUND;
}

static int find_previous(const struct history *h, struct bundle **out, struct error *err)
{
	size_t i = find_kept(h, engine_hash(h->broker->engine));

	/* One too large to be kept is newer than all that are. */
	i = i == h->kept_count ? 0 : i + 1;
	if (i >= h->kept_count)
		return refuse_unknown(h, "there is no generation before the one in force",
				      SLICE(""), err);
	*out = h->kept[i].files;
	return TIDE_OK;
}

int history_find(const struct history *h, struct slice hash, struct bundle **out,
		 struct error *err)
{
	char text[HASH_LEN + 1];
	size_t found = 0, count = 0;

	if (hash.len == 0)
		return find_previous(h, out, err);
	for (size_t i = 0; i < h->kept_count; i++) {
		format_hash(h->kept[i].hash, text);
		if (hash.len <= HASH_LEN && strncmp(text, hash.data, hash.len) == 0) {
			found = i;
			count++;
		}
	}
	if (count != 1 || hash.len < HASH_PREFIX_MIN)
		return refuse_unknown(h,
				      count ? "more than one generation, or too few "
					      "digits: "
					    : "no generation is kept under ",
				      hash, err);
	if (h->kept[found].hash == engine_hash(h->broker->engine))
		return error_set(err, TIDE_EEXISTS,
				 "generation %016" PRIx64 " is in force already",
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
