/* RULES: the generations that there are, were and may be; uploads, and the shadow of a
 * session (`tidemq rules push`).
 *
 * What takes many turns is answered when it has ended; the session may be gone by
 * then, the reply is there until it is answered. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "follow/recent.h"
#include "rollout/history.h"
#include "rollout/replay.h"
#include "rollout/shadow.h"
#include "rollout/upload.h"
#include "rules/engine/engine_status.h"
#include "rules/spec/evaluate.h"
#include "rules/spec/simulate_retry.h"
#include "service_start.h"
#include "session_private.h"

_Static_assert(SESSION_RECENT_MAX == RECENT_MAX, "RULES recent may show all");

static void reply_status(struct reply *r)
{
	const struct broker *b = r->service->broker;
	struct json j;

	reply_json(r, &j);
	engine_status(b->engine, &j);
	reply_data(r);
}

int session_rules_status(struct session *s, struct reply *r, struct error *err)
{
	reply_status(r);
	return TIDE_OK;
}

int session_rules_show(struct session *s, const struct rules_spec *spec, struct reply *r,
		       struct error *err)
{
	struct json j;
	int rc = spec->has_source
			 ? session_access_check_admin(s, "RULES show source", err)
			 : session_access_check_monitor(s, "RULES show", err);

	if (rc < 0)
		return rc;
	reply_json(r, &j);
	rc = engine_status_scripts(s->broker->engine, spec->name, spec->has_source, &j,
				   err);
	if (rc == TIDE_OK)
		reply_data(r);
	return rc;
}

int session_rules_evaluate(struct session *s, struct slice text, struct reply *r,
			   struct error *err)
{
	const struct evaluate_spec spec = { .text = text,
					    .vhost = slice_from(s->vhost->name),
					    .is_dry = true };
	struct buf values = { 0 };
	struct json j;
	int rc = evaluate_line(s->broker->engine, &spec, &values, NULL, err);

	if (rc == TIDE_OK) {
		reply_json(r, &j);
		json_object_begin(&j);
		json_member_string(&j, "values", buf_slice(&values));
		json_object_end(&j);
		reply_data(r);
	}
	buf_deinit(&values);
	return rc;
}

static void on_changed(void *ctx, const struct error *result)
{
	if (result->code < 0)
		reply_error(ctx, result);
	else
		reply_status(ctx);
}

static void change(struct session *s, enum engine_origin origin, struct bundle *files,
		   const char *specs_dir, struct reply *r)
{
	char by[SESSION_AUTHOR_MAX];
	const struct rollout_change spec = { .origin = origin,
					     .files = files,
					     .specs_dir = specs_dir,
					     .by = by,
					     .on_done = on_changed,
					     .ctx = r };

	session_format_author(s, by);
	rollout_begin(&s->service->rollout, &spec);
}

int session_rules_reload(struct session *s, struct reply *r, struct error *err)
{
	change(s, ENGINE_RELOAD, NULL, NULL, r);
	return TIDE_OK;
}

int session_rules_rollback(struct session *s, struct slice hash, struct reply *r,
			   struct error *err)
{
	struct bundle *files;
	int rc = history_find(s->service->rollout.history, hash, &files, err);

	if (rc == TIDE_OK)
		change(s, ENGINE_ROLLBACK, files, s->broker->config.rules_dir, r);
	return rc;
}

int session_rules_log(struct session *s, struct reply *r, struct error *err)
{
	struct json j;

	reply_json(r, &j);
	history_write(s->service->rollout.history, &j);
	reply_data(r);
	return TIDE_OK;
}

static void reply_shadow(struct reply *r)
{
	struct json j;

	reply_json(r, &j);
	shadow_write(&r->service->rollout, r->channel ? r->channel->session->vhost : NULL,
		     &j);
	reply_data(r);
}

int session_rules_shadow_status(struct session *s, struct reply *r, struct error *err)
{
	reply_shadow(r);
	return TIDE_OK;
}

static void on_shadow(void *ctx, const struct error *result)
{
	struct reply *r = ctx;

	if (result->code < 0)
		reply_error(r, result);
	else
		reply_shadow(r);
}

int session_rules_shadow(struct session *s, const struct rules_spec *spec,
			 struct reply *r, struct error *err)
{
	char by[SESSION_AUTHOR_MAX];
	struct shadow_spec what = { spec->name,
				    spec->share ? spec->share : SHADOW_SHARE_DEFAULT,
				    spec->apply, spec->is_exclusive ? s->number : 0, by };

	session_format_author(s, by);
	return shadow_start(&s->service->rollout, &what, on_shadow, r, err);
}

static int check_shadow(const struct session *s, struct error *err)
{
	return s->service->rollout.shadow
		       ? TIDE_OK
		       : error_set(err, TIDE_ENOTFOUND, "nothing is in the shadow");
}

int session_rules_shadow_promote(struct session *s, struct reply *r, struct error *err)
{
	const struct rollout *rollout = &s->service->rollout;

	if (check_shadow(s, err) < 0)
		return err->code;
	if (!shadow_files(rollout))
		return error_set(err, TIDE_EBUSY,
				 "the shadow is being loaded; try again");
	change(s, ENGINE_PROMOTE, shadow_files(rollout), shadow_dir(rollout), r);
	return TIDE_OK;
}

int session_rules_shadow_drop(struct session *s, struct reply *r, struct error *err)
{
	if (check_shadow(s, err) < 0)
		return err->code;
	shadow_drop(&s->service->rollout);
	reply_ok(r);
	return TIDE_OK;
}

int session_rules_recent(struct session *s, size_t max, struct reply *r,
			 struct error *err)
{
	struct json j;

	reply_json(r, &j);
	recent_write(s->service->rollout.recent, s->vhost, max, &j);
	reply_data(r);
	return TIDE_OK;
}

static void on_document(void *ctx, struct buf *document_take, const struct error *failure)
{
	if (failure)
		reply_error(ctx, failure);
	else
		reply_data_take(ctx, document_take);
}

static void on_uploaded(void *ctx, const char *dir, struct buf *document_take,
			const struct error *failure)
{
	on_document(ctx, document_take, failure);
}

int session_rules_replay(struct session *s, struct slice dir, struct reply *r,
			 struct error *err)
{
	const struct replay_spec what = { dir, s->vhost };

	return replay_start(&s->service->rollout, &what, on_document, r, err);
}

/* Options that a queue has, and options of the script. */
static int read_retry(const struct retry_spec *spec, struct args *script,
		      struct config *queue, struct error *err)
{
	static const char prefix[] = "retry.";
	struct args options = { 0 };
	int rc = TIDE_OK;

	for (size_t i = 0; i < spec->options->count && rc == TIDE_OK; i++) {
		const struct arg *o = &spec->options->items[i];
		bool is_long = slice_has_prefix(slice_from(o->name), prefix);

		rc = args_add(script,
			      slice_from(o->name + (is_long ? sizeof(prefix) - 1 : 0)),
			      (struct slice){ o->value, o->value_len });
		if (rc < 0)
			error_set(err, TIDE_ESYNTAX, "option '%s' appears twice",
				  o->name + (is_long ? sizeof(prefix) - 1 : 0));
	}
	if (spec->delivery_limit.data && rc == TIDE_OK)
		rc = args_add(&options, SLICE("delivery-limit"), spec->delivery_limit);
	if (spec->ack_timeout.data && rc == TIDE_OK)
		rc = args_add(&options, SLICE("ack-timeout"), spec->ack_timeout);
	if (rc == TIDE_OK)
		rc = config_parse(queue, CONFIG_QUEUE, &options, err);
	args_deinit(&options);
	return rc < 0 ? err->code : TIDE_OK;
}

int session_rules_simulate(struct session *s, const struct retry_spec *spec,
			   struct reply *r, struct error *err)
{
	static const char *const reasons[] = { "nack", "timeout", "gone" };
	struct args script = { 0 };
	struct simulate_spec what = {
		.name = spec->name,
		.options = &script,
		.reason = reasons[spec->reason],
		.failures_max = (unsigned)spec->failures_max,
	};
	struct config queue;
	struct json j;
	int rc = read_retry(spec, &script, &queue, err);

	if (rc == TIDE_OK) {
		what.delivery_limit = queue.delivery_limit;
		/* A NACK comes when the consumer likes, and here at once. */
		if (strcmp(what.reason, "timeout") == 0)
			what.held_ms = queue.ack_timeout_ms;
		config_deinit(&queue);
		reply_json(r, &j);
		rc = simulate_retry(s->broker->engine, &what, &j, err);
	}
	if (rc == TIDE_OK)
		reply_data(r);
	args_deinit(&script);
	return rc;
}

int session_rules_files(struct session *s, struct slice hash, struct reply *r,
			struct error *err)
{
	struct bundle *files;
	struct json j;

	if (slice_is(hash, "active"))
		hash = SLICE("");
	if (history_files(s->service->rollout.history, hash, &files, err) < 0)
		return err->code;
	reply_json(r, &j);
	json_object_begin(&j);
	json_member_hex(&j, "hash", bundle_hash(files));
	json_member_bool(&j, "active",
			 bundle_hash(files) == engine_hash(s->broker->engine));
	json_member_object(&j, "files");
	for (size_t i = 0; i < files->count; i++)
		json_member_string(
			&j, files->files[i].path,
			(struct slice){ files->files[i].text, files->files[i].len });
	json_object_end(&j);
	json_member_object(&j, "shipped");
	engine_status_shipped(s->broker->engine, &j);
	json_object_end(&j);
	json_object_end(&j);
	reply_data(r);
	return TIDE_OK;
}

static int read_files(const struct rules_file *files, size_t count, struct bundle *out,
		      struct error *err)
{
	char path[UPLOAD_PATH_MAX + 1];

	for (size_t i = 0; i < count; i++) {
		if (upload_check_path(files[i].path, err) < 0)
			return err->code;
		snprintf(path, sizeof(path), "%" SLICE_FMT, SLICE_ARG(files[i].path));
		bundle_add(out, path, files[i].text);
	}
	return TIDE_OK;
}

int session_rules_upload(struct session *s, const struct rules_file *files, size_t count,
			 struct reply *r, struct error *err)
{
	char by[SESSION_AUTHOR_MAX];
	struct bundle *bundle;
	int rc = session_access_check_admin(s, "RULES", err);

	if (rc < 0)
		return rc;
	bundle = bundle_create();
	session_format_author(s, by);
	const struct upload_spec what = { .files = bundle, .by = by };
	rc = read_files(files, count, bundle, err);
	if (rc == TIDE_OK)
		rc = upload_start(&s->service->rollout, &what, on_uploaded, r, err);
	bundle_unref(bundle);
	return rc;
}

/* Uploads, and rules that are installed. */

/* The outcome of an upload. */
struct session_upload {
	struct bundle *files;
	char path[UPLOAD_PATH_MAX + 1]; /* of the file under way; "" for none */
	struct buf text;
};

static void drop_upload(struct session *s)
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
	drop_upload(s);
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
		drop_upload(s);
	return rc;
}

static void remove_uploaded(struct session *s)
{
	if (s->uploaded)
		upload_remove(&s->service->rollout, s->uploaded);
	mem_free(s->uploaded);
	s->uploaded = NULL;
}

static void on_parts_uploaded(void *ctx, const char *dir, struct buf *document_take,
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
	rc = upload_start(&s->service->rollout, &what, on_parts_uploaded, r, err);
	drop_upload(s);
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
	drop_upload(s);
	remove_uploaded(s);
	if (shadow_owner(&s->service->rollout) == s->number)
		shadow_drop(&s->service->rollout);
}
