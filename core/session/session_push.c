/* session_push.c: RULES upload, and a shadow that lives as long as its session: what
 * `tidemq rules push` asks for. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "rollout/shadow.h"
#include "rollout/upload.h"
#include "rules/engine/engine_status.h"
#include "session_private.h"

/* What has come of an upload. */
struct session_upload {
	struct bundle *files;
	char path[UPLOAD_PATH_MAX + 1]; /* of the file under way; "" for none */
	struct buf text;
};

static void drop(struct session *s)
{
	struct session_upload *u = s->upload;

	if (!u)
		return;
	s->upload = NULL;
	bundle_unref(u->files);
	buf_deinit(&u->text);
	mem_free(u);
}

static void finish_file(struct session_upload *u)
{
	if (u->path[0])
		bundle_add(u->files, u->path, buf_slice(&u->text));
	u->path[0] = '\0';
	buf_clear(&u->text);
}

static int add_part(struct session *s, struct slice path, struct slice text,
		    struct error *err)
{
	struct session_upload *u = s->upload;

	if (upload_check_path(path, err) < 0)
		return err->code;
	if (!u) {
		u = s->upload = mem_zalloc(sizeof(*u));
		u->files = bundle_create();
	}
	if (!slice_is(path, u->path)) {
		finish_file(u);
		snprintf(u->path, sizeof(u->path), "%" SLICE_FMT, SLICE_ARG(path));
		if (bundle_find(u->files, u->path))
			return error_set(err, TIDE_EEXISTS,
					 "'%" SLICE_FMT
					 "' has been uploaded already; the "
					 "parts of a file follow each other",
					 SLICE_ARG(path));
	}
	if (u->files->count >= UPLOAD_FILES_MAX || text.len > UPLOAD_BYTES_MAX ||
	    u->files->bytes + buf_len(&u->text) > UPLOAD_BYTES_MAX - text.len)
		return error_set(err, TIDE_ETOOLARGE,
				 "an upload has at most %d files, and %zu bytes in all",
				 UPLOAD_FILES_MAX, UPLOAD_BYTES_MAX);
	buf_append_slice(&u->text, text);
	return TIDE_OK;
}

int session_push_begin(struct session *s, struct reply *r, struct error *err)
{
	int rc = session_access_check_admin(s, "RULES", err);
	struct json j;

	/* All that is needed, not one thing after the other. */
	if (rc < 0)
		return error_set(err, rc,
				 "%s; the broker needs serve --rules-candidates DIR, and "
				 "--rules-writable unless the push is --transient",
				 err->text);
	rc = upload_check(&s->service->rollout, err);
	if (rc < 0)
		return rc;
	drop(s);
	reply_json(r, &j);
	json_object_begin(&j);
	json_member_bool(&j, "writable", s->broker->config.is_rules_dir_writable);
	json_object_end(&j);
	reply_data(r);
	return TIDE_OK;
}

int session_push_part(struct session *s, const struct rules_spec *spec, struct reply *r,
		      struct error *err)
{
	int rc = add_part(s, spec->name, spec->text, err);

	if (rc == TIDE_OK)
		reply_ok(r);
	else
		drop(s);
	return rc;
}

static void remove_uploaded(struct session *s)
{
	if (s->uploaded)
		upload_remove(&s->service->rollout, s->uploaded);
	mem_free(s->uploaded);
	s->uploaded = NULL;
}

static void on_uploaded(void *ctx, const char *dir, struct buf *document_take,
			const struct error *failure)
{
	struct reply *r = ctx;
	struct session *s = r->channel ? r->channel->session : NULL;

	if (!failure && s) {
		remove_uploaded(s);
		s->uploaded = mem_strdup(dir);
	} else if (!failure) {
		upload_remove(&r->service->rollout, dir);
	}
	if (failure)
		reply_error(r, failure);
	else
		reply_data_take(r, document_take);
}

int session_push_upload(struct session *s, struct reply *r, struct error *err)
{
	char by[SESSION_AUTHOR_MAX];
	int rc;

	if (!s->upload)
		return error_set(err, TIDE_ENOTFOUND,
				 "nothing has been uploaded: RULES upload <path> "
				 "text=<text> comes before");
	const struct upload_spec what = { s->upload->files, by, true };

	finish_file(s->upload);
	session_format_author(s, by);
	rc = upload_start(&s->service->rollout, &what, on_uploaded, r, err);
	drop(s);
	return rc;
}

static void on_installed(void *ctx, const struct error *result)
{
	struct reply *r = ctx;
	struct json j;

	if (result->code < 0) {
		reply_error(r, result);
		return;
	}
	reply_json(r, &j);
	engine_status(r->service->broker->engine, &j);
	reply_data(r);
}

int session_push_install(struct session *s, struct reply *r, struct error *err)
{
	struct rollout *rollout = &s->service->rollout;
	struct bundle *files = shadow_files(rollout);
	char by[SESSION_AUTHOR_MAX];

	if (!s->broker->config.is_rules_dir_writable)
		return error_set(err, TIDE_EDENIED,
				 "the broker does not write its rules directory; it "
				 "would with serve --rules-writable");
	if (!files)
		return error_set(err, rollout->shadow ? TIDE_EBUSY : TIDE_ENOTFOUND,
				 rollout->shadow ? "the shadow is being loaded; try again"
						 : "nothing is in the shadow");
	session_format_author(s, by);
	const struct rollout_change what = { .origin = ENGINE_PROMOTE,
					     .files = files,
					     .specs_dir = shadow_dir(rollout),
					     .by = by,
					     .must_install = true,
					     .on_done = on_installed,
					     .ctx = r };
	rollout_begin(rollout, &what);
	return TIDE_OK;
}

void session_push_leave(struct session *s)
{
	drop(s);
	remove_uploaded(s);
	if (shadow_owner(&s->service->rollout) == s->number)
		shadow_drop(&s->service->rollout);
}
