#include "bundle.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "source.h"

struct bundle *bundle_create(void)
{
	struct bundle *b = mem_zalloc(sizeof(*b));

	b->refs = 1;
	return b;
}

void bundle_unref(struct bundle *b)
{
	if (!b || --b->refs > 0)
		return;
	for (size_t i = 0; i < b->count; i++) {
		mem_free(b->files[i].path);
		mem_free(b->files[i].text);
	}
	mem_free(b->files);
	mem_free(b);
}

/* The place of the path, or where it would be. */
static size_t place_of(const struct bundle *b, const char *path)
{
	size_t from = 0, to = b->count;

	while (from < to) {
		size_t at = from + (to - from) / 2;

		if (strcmp(b->files[at].path, path) < 0)
			from = at + 1;
		else
			to = at;
	}
	return from;
}

const struct bundle_file *bundle_find(const struct bundle *b, const char *path)
{
	size_t at = place_of(b, path);

	return at < b->count && strcmp(b->files[at].path, path) == 0 ? &b->files[at]
								     : NULL;
}

void bundle_add(struct bundle *b, const char *path, struct slice text)
{
	size_t at = place_of(b, path);

	if (bundle_find(b, path))
		return;
	b->files = mem_realloc(b->files, (b->count + 1) * sizeof(*b->files));
	memmove(&b->files[at + 1], &b->files[at], (b->count - at) * sizeof(*b->files));
	b->files[at] = (struct bundle_file){
		.path = mem_strdup(path),
		.text = mem_strndup(text.data, text.len),
		.len = text.len,
	};
	b->count++;
	b->bytes += strlen(path) + text.len;
}

uint64_t bundle_hash(const struct bundle *b)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < b->count; i++) {
		const struct bundle_file *f = &b->files[i];
		hash = (hash ^ source_hash(f->path, strlen(f->path))) *
		       UINT64_C(0x100000001b3);
		hash = (hash ^ source_hash(f->text, f->len)) * UINT64_C(0x100000001b3);
	}
	return hash;
}

bool bundle_is_outranked(const char *dir, const char *path)
{
	static const char init[] = "/init.lua";
	char other[PATH_MAX];
	size_t len = strlen(path);

	if (!slice_has_suffix(slice_from(path), init))
		return false;
	snprintf(other, sizeof(other), "%s/%.*s.lua", dir, (int)(len - strlen(init)),
		 path);
	return access(other, F_OK) == 0;
}

bool bundle_is_current(const struct bundle *b, const char *dir)
{
	bool is_same = true;

	for (size_t i = 0; i < b->count && is_same; i++) {
		const struct bundle_file *f = &b->files[i];
		char path[PATH_MAX];
		struct source now = { .data = NULL };
		struct error ignored;
		snprintf(path, sizeof(path), "%s/%s", dir, f->path);
		is_same = !bundle_is_outranked(dir, f->path) &&
			  source_read(&now, path, f->path, &ignored) == TIDE_OK &&
			  slice_is_equal((struct slice){ now.data, now.len },
					 (struct slice){ f->text, f->len });
		source_free(&now);
	}
	return is_same;
}

void bundle_compare(const struct bundle *from, const struct bundle *to,
		    bundle_change_fn on_change, void *ctx)
{
	size_t from_count = from ? from->count : 0, to_count = to ? to->count : 0;

	for (size_t i = 0, j = 0; i < from_count || j < to_count;) {
		const struct bundle_file *old = i < from_count ? &from->files[i] : NULL;
		const struct bundle_file *new = j < to_count ? &to->files[j] : NULL;
		int order = !old ? 1 : !new ? -1 : strcmp(old->path, new->path);
		if (order < 0)
			on_change(ctx, BUNDLE_REMOVED, old->path);
		else if (order > 0)
			on_change(ctx, BUNDLE_ADDED, new->path);
		else if (old->len != new->len ||
			 memcmp(old->text, new->text, old->len) != 0)
			on_change(ctx, BUNDLE_CHANGED, new->path);
		i += order <= 0;
		j += order >= 0;
	}
}

int bundle_read(const struct bundle *from, struct bundle *into, struct source *out,
		const char *path, const char *name, struct error *err)
{
	const struct bundle_file *f = from ? bundle_find(from, name) : NULL;
	int rc = TIDE_OK;

	*out = (struct source){ .data = NULL };
	if (f)
		*out = (struct source){ .data = mem_strndup(f->text, f->len),
					.len = f->len,
					.hash = source_hash(f->text, f->len) };
	else if (from)
		rc = error_set(err, TIDE_ENOTFOUND,
			       "%s: is not a file of that generation", name);
	else
		rc = source_read(out, path, name, err);
	if (rc == TIDE_OK && into)
		bundle_add(into, name, (struct slice){ out->data, out->len });
	return rc;
}
