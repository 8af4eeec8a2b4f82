#include "spec_index.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/table.h"

struct spec_binding {
	UT_hash_handle hh;
	struct index_binding binding;
	struct args args;
	size_t text_len;
	char text[]; /* destination, pattern, options */
};

static bool next_binding(const void *ctx, struct index_binding *b)
{
	const struct spec_index *x = ctx;

	while (b->place < x->count && !x->places[b->place])
		b->place++;
	if (b->place == x->count)
		return false;
	*b = x->places[b->place]->binding;
	return true;
}

static bool is_dest(const void *ctx, uint32_t dest)
{
	const struct spec_index *x = ctx;
	struct index_binding b = { .place = 0 };

	/* As most specs have it. */
	if (dest < x->count && x->places[dest] && x->places[dest]->binding.dest == dest)
		return true;
	for (; next_binding(x, &b); b.place++)
		if (b.dest == dest)
			return true;
	return false;
}

int spec_index_create(struct engine *e, const struct index_spec *spec,
		      struct spec_index **out, struct error *err)
{
	struct spec_index *x = mem_zalloc(sizeof(*x));
	struct index_spec own = *spec;
	int rc;

	own.source = (struct index_source){ x, next_binding, is_dest };
	rc = index_create(e, &own, &x->index, err);
	if (rc < 0) {
		mem_free(x);
		return rc;
	}
	*out = x;
	return TIDE_OK;
}

static void free_binding(struct spec_index *x, struct spec_binding *b)
{
	HASH_DEL(x->by_text, b);
	args_deinit(&b->args);
	mem_free(b);
}

void spec_index_destroy(struct spec_index *x)
{
	if (!x)
		return;
	index_destroy(x->index);
	for (uint32_t i = 0; i < x->count; i++)
		if (x->places[i])
			free_binding(x, x->places[i]);
	mem_free(x->places);
	mem_free(x);
}

/* Format the binding in `text`, and find it. */
static struct spec_binding *find(const struct spec_index *x,
				 const struct index_binding *b, struct buf *text)
{
	struct spec_binding *found;

	buf_printf(text, "%lu ", (unsigned long)b->dest);
	buf_append_slice(text, b->pattern);
	buf_append_char(text, ' ');
	if (b->args)
		args_format(b->args, text);
	HASH_FIND(hh, x->by_text, buf_slice(text).data, buf_len(text), found);
	return found;
}

static void add(struct spec_index *x, const struct index_binding *b, struct slice text)
{
	struct spec_binding *added = mem_zalloc(sizeof(*added) + text.len);

	memcpy(added->text, text.data, text.len);
	added->text_len = text.len;
	added->binding = *b;
	added->binding.pattern.data = strchr(added->text, ' ') + 1;
	if (b->args)
		args_copy(&added->args, b->args);
	added->binding.args = &added->args;
	x->places =
		mem_realloc(x->places, (x->count + 1) * sizeof(struct spec_binding *));
	x->places[x->count++] = added;
	HASH_ADD_KEYPTR(hh, x->by_text, added->text, added->text_len, added);
}

int spec_index_bind(struct spec_index *x, const struct index_binding *b,
		    struct error *err)
{
	struct index_binding added = *b;
	struct buf text = { 0 };
	int rc = TIDE_OK;

	added.place = x->count;
	if (!find(x, b, &text)) {
		rc = index_bind(x->index, &added, err);
		if (rc == TIDE_OK)
			add(x, &added, buf_slice(&text));
	}
	buf_deinit(&text);
	return rc;
}

int spec_index_unbind(struct spec_index *x, const struct index_binding *b,
		      struct error *err)
{
	struct buf text = { 0 };

	struct spec_binding *gone = find(x, b, &text);
	buf_deinit(&text);
	if (!gone)
		return error_set(err, TIDE_ENOTFOUND, "there is no such binding");
	x->places[gone->binding.place] = NULL;
	int rc = index_unbind(x->index, &gone->binding, err);
	if (rc == TIDE_OK)
		free_binding(x, gone);
	else
		x->places[gone->binding.place] = gone;
	return rc;
}
