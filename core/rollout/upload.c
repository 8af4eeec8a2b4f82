#include "upload.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/container.h"
#include "base/json.h"
#include "base/mem.h"
#include "candidate.h"
#include "files.h"
#include "runner.h"
#include "rules/sandbox/source.h"
#include "shadow.h"

#define FOLDER "uploads"
#define TEMPORARY ".push" /* how the names of such directories end */
#define CHECK_SILENCE_MS 30000
#define FINDINGS_MAX ((size_t)256 * 1024)
#define ENTRIES_MAX 1000 /* in the folder, that are looked at */

struct upload {
	struct rollout *rollout; /* NULL: nobody wants to know any more */
	struct runner runner;
	upload_done_fn *on_done;
	void *ctx;
	struct bundle *files; /* the thread only reads it */
	const char *program;  /* the configuration's */
	char *by;
	int64_t since_ms;
	char within[PATH_MAX], dir[PATH_MAX];
	char *in_use; /* it is not removed: a path, or NULL */
	char name[64];
	/* The outcome. */
	struct error failure;
	struct buf findings; /* elements of an array */
	bool is_fit;
	bool is_writable; /* the rules directory, by a push */
};

/* ---- what is uploaded ------------------------------------------------------------- */

static bool is_segment(struct slice s)
{
	if (s.len == 0 || s.data[0] == '.')
		return false;
	for (size_t i = 0; i < s.len; i++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456"
			    "789_.-",
			    s.data[i]) ||
		    !s.data[i])
			return false;
	return true;
}

int upload_check_path(struct slice path, struct error *err)
{
	struct slice rest = path;
	unsigned depth = 0;
	bool is_good = path.len > 0 && path.len <= UPLOAD_PATH_MAX &&
		       path.data[path.len - 1] != '/';

	while (is_good && rest.len > 0)
		is_good = is_segment(slice_cut(&rest, '/')) && ++depth <= 4;
	if (!is_good || !slice_has_suffix(path, ".lua"))
		return error_set(
			err, TIDE_ESYNTAX,
			"'%.*s' is no path of a rules file: expected a name like "
			"filter/10-vip.lua, of letters, digits, '_', '-' and '.', "
			"at most four deep and %d bytes",
			SLICE_HEAD(path, 100), UPLOAD_PATH_MAX);
	if (slice_has_suffix(path, "_spec.lua"))
		return error_set(err, TIDE_EDENIED,
				 "'%.*s' is a spec: specs run with the broker's rights "
				 "and are not uploaded",
				 SLICE_HEAD(path, 100));
	return TIDE_OK;
}

static int check_sizes(const struct bundle *files, struct error *err)
{
	if (files->count == 0)
		return error_set(err, TIDE_ESYNTAX, "there are no files");
	if (files->count > UPLOAD_FILES_MAX || files->bytes > UPLOAD_BYTES_MAX)
		return error_set(err, TIDE_ETOOLARGE,
				 "%zu files of %zu bytes are too many: at most %d files "
				 "of %zu bytes together",
				 files->count, files->bytes, UPLOAD_FILES_MAX,
				 UPLOAD_BYTES_MAX);
	for (size_t i = 0; i < files->count; i++)
		if (files->files[i].len > SOURCE_MAX_BYTES)
			return error_set(err, TIDE_ETOOLARGE,
					 "'%s' has %zu bytes; a rules file has at most "
					 "%d",
					 files->files[i].path, files->files[i].len,
					 SOURCE_MAX_BYTES);
	return TIDE_OK;
}

/* ---- on the thread ---------------------------------------------------------------- */

/* The names begin with the time, so that the oldest comes first. */
static int is_upload(const struct dirent *entry)
{
	return entry->d_name[0] >= '0' && entry->d_name[0] <= '9';
}

static void remove_old(const struct upload *u, const char *folder)
{
	struct dirent **entries;
	int count = scandir(folder, &entries, is_upload, alphasort);
	char path[PATH_MAX];

	for (int i = 0; i < count; i++) {
		int len =
			snprintf(path, sizeof(path), "%s/%s", folder, entries[i]->d_name);

		if (i + UPLOAD_KEPT <= count && i < ENTRIES_MAX &&
		    len < (int)sizeof(path) &&
		    !(u->in_use && strcmp(path, u->in_use) == 0))
			files_remove(path);
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
}

static bool write_files(struct upload *u, char dir[PATH_MAX])
{
	char folder[PATH_MAX];

	if (snprintf(folder, sizeof(folder), "%s/" FOLDER, u->within) >=
		    (int)sizeof(folder) ||
	    snprintf(dir, PATH_MAX, "%s/%s", u->within, u->name) >= PATH_MAX) {
		errno = ENAMETOOLONG;
		return false;
	}
	if (!files_make_folder(folder, 0700))
		return false;
	remove_old(u, folder);
	if (mkdir(dir, 0700) != 0)
		return false;
	if (files_write(u->files, dir))
		return true;

	int error = errno;
	files_remove(dir);
	errno = error;
	return false;
}

static void on_line(void *ctx, struct slice line)
{
	struct upload *u = ctx;

	if (line.len == 0 || line.data[0] != '{' ||
	    buf_len(&u->findings) + line.len > FINDINGS_MAX)
		return;
	if (buf_len(&u->findings) > 0)
		buf_append_char(&u->findings, ',');
	buf_append_slice(&u->findings, line);
}

/* The process says nothing of its own end. */
static void add_finding(struct upload *u, const char *text)
{
	struct json j = { .out = &u->findings, .need_comma = buf_len(&u->findings) > 0 };

	json_object_begin(&j);
	json_member_text(&j, "file", "");
	json_member_bool(&j, "note", false);
	json_member_text(&j, "text", text);
	json_object_end(&j);
}

static void check(struct upload *u, const char *dir)
{
	const char *args[] = { "check", "--json", dir, NULL };
	struct runner_child child = {
		.program = u->program,
		.args = args,
		.silence_ms = CHECK_SILENCE_MS,
		.on_line = on_line,
		.ctx = u,
	};
	struct error err;

	if (!u->program)
		return;
	if (runner_run(&u->runner, &child, &err) < 0)
		add_finding(u, err.text);
	else if (child.is_late || !WIFEXITED(child.status) ||
		 WEXITSTATUS(child.status) > 1)
		add_finding(u, "the check did not come to its end");
	else
		u->is_fit = WEXITSTATUS(child.status) == 0;
}

static void work_upload(struct runner *j)
{
	struct upload *u = container_of(j, struct upload, runner);

	if (write_files(u, u->dir))
		check(u, u->dir);
	else
		error_set(&u->failure, TIDE_EDENIED,
			  "the files cannot be written below '%s' "
			  "(serve --rules-candidates): %s",
			  u->within, files_explain(errno));
}

/* ---- back on the loop ------------------------------------------------------------- */

/* Told in the answer to those who come meanwhile. */
static int refuse_second(const struct rollout *r, struct error *err)
{
	const struct upload *u = r->upload;

	return error_set(err, TIDE_EBUSY,
			 "another upload is under way, by %s, for %" PRId64
			 " s; try again",
			 u->by, (r->broker->now_ms - u->since_ms) / 1000);
}

static void write_document(const struct upload *u, struct buf *out)
{
	struct json j = { .out = out };

	json_object_begin(&j);
	json_member_text(&j, "dir", u->name);
	json_member_hex(&j, "hash", bundle_hash(u->files));
	json_member_int(&j, "files", (int64_t)u->files->count);
	json_member_bool(&j, "writable", u->is_writable);
	json_member_object(&j, "check");
	json_member_bool(&j, "fit", u->is_fit);
	json_member_list(&j, "findings", buf_slice(&u->findings));
	json_object_end(&j);
	json_object_end(&j);
}

static void free_upload(struct upload *u)
{
	bundle_unref(u->files);
	mem_free(u->by);
	buf_deinit(&u->findings);
	mem_free(u->in_use);
	mem_free(u);
}

static void on_worked(struct runner *runner)
{
	struct upload *u = container_of(runner, struct upload, runner);
	struct buf document = { 0 };

	if (u->rollout) {
		u->rollout->upload = NULL;
		if (u->failure.code < 0) {
			u->on_done(u->ctx, NULL, NULL, &u->failure);
		} else {
			write_document(u, &document);
			u->on_done(u->ctx, u->dir, &document, NULL);
			buf_deinit(&document);
		}
	}
	free_upload(u);
}

int upload_check(const struct rollout *r, struct error *err)
{
	if (!r->broker->config.rules_candidates)
		return error_set(err, TIDE_EDENIED,
				 "rules are uploaded only to a broker that was started "
				 "with --rules-candidates DIR%s",
				 r->broker->config.is_rules_dir_writable
					 ? ""
					 : ", and with --rules-writable if they are to "
					   "stay after a restart");
	return r->upload ? refuse_second(r, err) : TIDE_OK;
}

int upload_start(struct rollout *r, const struct upload_spec *spec,
		 upload_done_fn *on_done, void *ctx, struct error *err)
{
	const struct broker_config *config = &r->broker->config;
	char within[PATH_MAX];
	struct upload *u;

	if (upload_check(r, err) < 0 || check_sizes(spec->files, err) < 0 ||
	    candidate_base(config, within, err) < 0)
		return err->code;
	u = mem_zalloc(sizeof(*u));
	u->rollout = r;
	u->on_done = on_done;
	u->ctx = ctx;
	u->files = bundle_ref(spec->files);
	u->by = mem_strdup(spec->by);
	u->since_ms = r->broker->now_ms;
	u->program = config->program;
	u->is_writable = config->is_rules_dir_writable;
	memcpy(u->within, within, sizeof(within));
	if (r->shadow)
		u->in_use = mem_strdup(shadow_dir(r));
	snprintf(u->name, sizeof(u->name), FOLDER "/%013" PRId64 "-%016" PRIx64 "%s",
		 r->broker->now_ms, bundle_hash(spec->files),
		 spec->is_temporary ? TEMPORARY : "");
	runner_init(&u->runner, work_upload, on_worked);
	r->upload = u;
	runner_start(&u->runner, r->broker->loop);
	return TIDE_OK;
}

void upload_cancel(struct rollout *r)
{
	static const struct error stopping = { TIDE_ESHUTDOWN, "the broker is stopping" };
	struct upload *u = r->upload;

	if (!u)
		return;
	r->upload = NULL;
	u->rollout = NULL;
	runner_end(&u->runner);
	u->on_done(u->ctx, NULL, NULL, &stopping);
}

/* ---- directories that nobody needs any more --------------------------------------- */

struct upload_removal {
	uv_work_t work;
	char *dir;
};

static void work_remove(uv_work_t *work)
{
	files_remove(((struct upload_removal *)work->data)->dir);
}

static void on_removed(uv_work_t *work, int status)
{
	struct upload_removal *removal = work->data;

	mem_free(removal->dir);
	mem_free(removal);
}

void upload_remove(struct rollout *r, const char *dir)
{
	struct upload_removal *removal = mem_zalloc(sizeof(*removal));

	removal->work.data = removal;
	removal->dir = mem_strdup(dir);
	uv_queue_work(r->broker->loop, &removal->work, work_remove, on_removed);
}

static int is_temporary(const struct dirent *entry)
{
	return is_upload(entry) && slice_has_suffix(slice_from(entry->d_name), TEMPORARY);
}

void upload_remove_left(const struct broker_config *config)
{
	char within[PATH_MAX], path[2 * PATH_MAX];
	struct dirent **entries;
	struct error ignored;
	struct stat st;
	int count;

	if (!config->rules_candidates || candidate_base(config, within, &ignored) < 0)
		return;
	snprintf(path, sizeof(path), "%s/" FOLDER, within);
	if (lstat(path, &st) != 0 || !S_ISDIR(st.st_mode))
		return;
	count = scandir(path, &entries, is_temporary, NULL);
	for (int i = 0; i < count; i++) {
		snprintf(path, sizeof(path), "%s/" FOLDER "/%s", within,
			 entries[i]->d_name);
		files_remove(path);
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
}
