#include "skeleton.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "rules/engine/script_kind.h"
#include "rules/sandbox/source.h"

#define MARK "@NAME@"

static int refuse_kind(const char *kind, struct error *err)
{
	struct buf names = { 0 };

	for (unsigned i = 0; i < script_kind_count; i++)
		buf_printf(&names, " %s", script_kind_name((enum script_kind)i));
	error_set(err, TIDE_ENOTFOUND, "there is no kind '%s' of scripts; there are:%s",
		  kind, buf_cstr(&names));
	buf_deinit(&names);
	return TIDE_ENOTFOUND;
}

static int check(const struct skeleton *s, struct error *err)
{
	unsigned kind = 0;

	while (kind < script_kind_count &&
	       strcmp(script_kind_name((enum script_kind)kind), s->kind) != 0)
		kind++;
	if (kind == script_kind_count)
		return refuse_kind(s->kind, err);
	if (!script_kind_is_name((enum script_kind)kind, slice_from(s->name)) ||
	    slice_has_suffix(slice_from(s->name), "_spec"))
		return error_set(err, TIDE_ESYNTAX,
				 "'%.64s' cannot be the name of a script: a letter%s, "
				 "then letters, digits, '_' and '-', at most %d in all, "
				 "without '_spec' at the end",
				 s->name,
				 script_kind_is_ordered((enum script_kind)kind)
					 ? " or a digit"
					 : "",
				 SCRIPT_NAME_MAX);
	return TIDE_OK;
}

/* The text with the name in it. */
static void fill_in(const struct source *text, const char *name, struct buf *out)
{
	struct slice rest = { text->data, text->len };
	const char *mark;

	while ((mark = memmem(rest.data, rest.len, MARK, strlen(MARK))) != NULL) {
		size_t before = (size_t)(mark - rest.data);

		buf_append(out, rest.data, before);
		buf_append_text(out, name);
		rest = slice_skip(rest, before + strlen(MARK));
	}
	buf_append_slice(out, rest);
}

static int create(const char *path, const struct buf *text, struct error *err)
{
	FILE *out = fopen(path, "wx");

	if (!out && errno == EEXIST)
		return error_set(err, TIDE_EEXISTS, "'%s' is there already", path);
	bool is_written = out && fwrite(buf_slice(text).data, 1, buf_len(text), out) ==
					 buf_len(text);
	if (out && fclose(out) != 0)
		is_written = false;
	return is_written ? TIDE_OK
			  : error_set(err, TIDE_ERULE, "cannot write '%s': %s", path,
				      strerror(errno));
}

/* @param end  "" or "_spec"; `path` receives the file's */
static int write_one(const struct skeleton *s, const char *end, char path[PATH_MAX],
		     struct error *err)
{
	char from[PATH_MAX];
	struct source text;
	struct buf filled = { 0 };

	if (snprintf(from, PATH_MAX, "%s/new/%s%s.lua", s->lua_dir, s->kind, end) >=
		    PATH_MAX ||
	    snprintf(path, PATH_MAX, "%s/%s/%s%s.lua", s->rules_dir, s->kind, s->name,
		     end) >= PATH_MAX)
		return error_set(err, TIDE_ERULE, "the path is too long");
	int rc = source_read(&text, from, from, err);
	if (rc != TIDE_OK)
		return rc;
	fill_in(&text, s->name, &filled);
	rc = create(path, &filled, err);
	buf_deinit(&filled);
	source_free(&text);
	return rc;
}

int skeleton_write(const struct skeleton *s, struct error *err)
{
	char folder[PATH_MAX], script[PATH_MAX], spec[PATH_MAX];
	int rc = check(s, err);

	if (rc != TIDE_OK)
		return rc;
	snprintf(folder, sizeof(folder), "%s/%s", s->rules_dir, s->kind);
	if (mkdir(folder, 0777) != 0 && errno != EEXIST)
		return error_set(err, TIDE_ERULE, "cannot create '%s': %s", folder,
				 strerror(errno));
	/* The spec first: a broker that watches loads the script. */
	rc = write_one(s, "_spec", spec, err);
	if (rc != TIDE_OK)
		return rc;
	rc = write_one(s, "", script, err);
	if (rc != TIDE_OK)
		unlink(spec);
	return rc;
}
