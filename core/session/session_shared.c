/* SHARED: what scripts keep in tide.shared is listed, set and removed. */
#include <math.h>
#include <stdlib.h>

#include "base/utf8.h"
#include "host/log.h"
#include "rules/api/shared.h"
#include "session_private.h"

#define VALUE_SHOWN 256 /* bytes of a text, in a list */

static const enum shared_space spaces[] = { [SESSION_SHARED_KEYS] = SHARED_KEYS,
					    [SESSION_SHARED_COUNTERS] = SHARED_COUNTERS,
					    [SESSION_SHARED_BUCKETS] = SHARED_BUCKETS };

static const char *const types[] = { [SHARED_TEXT] = "string",
				     [SHARED_INTEGER] = "integer",
				     [SHARED_NUMBER] = "number",
				     [SHARED_BOOLEAN] = "boolean" };

static struct shared *shared_of(const struct session *s)
{
	return engine_shared(s->broker->engine);
}

static struct shared_op op_of(const struct session *s, const struct shared_spec *spec)
{
	return (struct shared_op){ .space = spaces[spec->of],
				   .key = spec->key,
				   .now_ms = engine_now_ms(s->broker->engine) };
}

/* Tell the log of a change. */
static void tell(const struct session *s, const char *what, struct slice key)
{
	char by[SESSION_AUTHOR_MAX];

	session_format_author(s, by);
	log_write_each(LOG_INFO, "tide.shared: '%" SLICE_FMT "' was %s, by %s",
		       SLICE_HEAD(key, 64), what, by);
}

/* Documents. */

struct shared_writer {
	struct json json;
	int64_t now_ms;
	bool is_list;
};

static void write_text(struct shared_writer *w, struct slice text)
{
	bool is_cut = w->is_list && text.len > VALUE_SHOWN;

	if (is_cut)
		text.len = utf8_whole(text.data, VALUE_SHOWN);
	json_member_string(&w->json, "value", text);
	if (is_cut)
		json_member_bool(&w->json, "is_cut", true);
}

static void write_value(struct shared_writer *w, const struct shared_value *v)
{
	json_member_text(&w->json, "type", types[v->type]);
	if (v->type == SHARED_TEXT)
		write_text(w, v->text);
	else if (v->type == SHARED_INTEGER)
		json_member_int(&w->json, "value", v->integer);
	else if (v->type == SHARED_NUMBER)
		json_member_number(&w->json, "value", v->number);
	else
		json_member_bool(&w->json, "value", v->boolean);
}

static void write_entry(void *ctx, const struct shared_info *info)
{
	struct shared_writer *w = ctx;

	json_object_begin(&w->json);
	json_member_string(&w->json, "key", info->key);
	write_value(w, &info->value);
	if (info->expires_unix_ms)
		json_member_int(&w->json, "ttl_ms", info->expires_unix_ms - w->now_ms);
	json_member_int(&w->json, "bytes", (int64_t)info->bytes);
	if (info->file)
		json_member_text(&w->json, "file", info->file);
	if (info->vhost.len)
		json_member_string(&w->json, "vhost", info->vhost);
	json_object_end(&w->json);
}

static void write_cursor(struct json *j, const struct shared_scan *scan)
{
	if (scan->cursor)
		json_member_int(j, "cursor", scan->cursor);
}

static struct shared_scan scan_of(const struct session *s, const struct shared_spec *spec)
{
	return (struct shared_scan){ .space = spaces[spec->of],
				     .prefix = spec->key.data ? spec->key : SLICE(""),
				     .now_ms = engine_now_ms(s->broker->engine),
				     .cursor = (uint32_t)spec->cursor };
}

int session_shared_list(struct session *s, const struct shared_spec *spec,
			struct reply *r, struct error *err)
{
	struct shared_scan scan = scan_of(s, spec);
	struct shared_writer w = { .now_ms = scan.now_ms, .is_list = true };

	reply_json(r, &w.json);
	json_object_begin(&w.json);
	json_member_array(&w.json, "entries");
	shared_scan(shared_of(s), &scan, write_entry, &w);
	json_array_end(&w.json);
	write_cursor(&w.json, &scan);
	json_object_end(&w.json);
	reply_data(r);
	return TIDE_OK;
}

static int refuse_missing(const struct shared_spec *spec, struct error *err)
{
	return error_set(err, TIDE_ENOTFOUND, "there is no '%" SLICE_FMT "'",
			 SLICE_HEAD(spec->key, 64));
}

int session_shared_get(struct session *s, const struct shared_spec *spec, struct reply *r,
		       struct error *err)
{
	const struct shared_op op = op_of(s, spec);
	struct shared_writer w = { .now_ms = op.now_ms };
	struct shared_info info;

	if (shared_read(shared_of(s), &op, &info) != TIDE_OK)
		return refuse_missing(spec, err);
	reply_json(r, &w.json);
	write_entry(&w, &info);
	reply_data(r);
	return TIDE_OK;
}

/* Changes. */

/* A number that is the whole of the text. */
static bool read_number(struct slice text, struct shared_value *out)
{
	char digits[64], *end;

	if (text.len == 0 || text.len >= sizeof(digits))
		return false;
	memcpy(digits, text.data, text.len);
	digits[text.len] = '\0';
	/* Neither "0x10" nor "nan", nor a zero and something behind it. */
	if (strspn(digits, "+-.eE0123456789") != text.len)
		return false;
	if (out->type == SHARED_NUMBER) {
		out->number = strtod(digits, &end);
		return *end == '\0' && isfinite(out->number);
	}
	errno = 0;
	out->integer = strtoll(digits, &end, 10);
	return *end == '\0' && errno == 0;
}

static bool read_value(struct slice text, enum shared_type type, struct shared_value *out)
{
	*out = (struct shared_value){ .type = type };
	if (type == SHARED_INTEGER || type == SHARED_NUMBER)
		return read_number(text, out);
	if (type == SHARED_BOOLEAN) {
		out->boolean = slice_is(text, "true");
		return out->boolean || slice_is(text, "false");
	}
	out->text = text;
	return text.len <= SHARED_TEXT_MAX;
}

/* Without a type it is that of the entry; a new one is a text. */
static enum shared_type type_of(const struct session *s, const struct shared_spec *spec)
{
	const struct shared_op op = op_of(s, spec);
	struct shared_value old;

	if (spec->type != SESSION_SHARED_AS_IT_IS)
		return (enum shared_type)(spec->type - 1);
	return shared_get(shared_of(s), &op, &old) == TIDE_OK ? old.type : SHARED_TEXT;
}

int session_shared_set(struct session *s, const struct shared_spec *spec, struct reply *r,
		       struct error *err)
{
	static const char *const wanted[] = {
		[SHARED_TEXT] = "a text of at most 65536 bytes",
		[SHARED_INTEGER] = "an integer of 64 bits",
		[SHARED_NUMBER] = "a finite number",
		[SHARED_BOOLEAN] = "true or false",
	};
	struct shared_op op = op_of(s, spec);
	struct shared_value value;

	enum shared_type type = type_of(s, spec);
	if (!read_value(spec->value, type, &value))
		return error_set(err, TIDE_ESYNTAX,
				 "value: expected %s, not '%" SLICE_FMT
				 "'; type= says another type",
				 wanted[type], SLICE_HEAD(spec->value, 64));
	op.expires_unix_ms = spec->ttl_ms ? op.now_ms + spec->ttl_ms : 0;
	if (shared_set(shared_of(s), &op, &value, err) < 0)
		return err->code;
	tell(s, "set", spec->key);
	reply_ok(r);
	return TIDE_OK;
}

int session_shared_delete(struct session *s, const struct shared_spec *spec,
			  struct reply *r, struct error *err)
{
	const struct shared_op op = op_of(s, spec);

	if (!shared_remove(shared_of(s), &op))
		return refuse_missing(spec, err);
	tell(s, "deleted", spec->key);
	reply_ok(r);
	return TIDE_OK;
}

int session_shared_clear(struct session *s, const struct shared_spec *spec,
			 struct reply *r, struct error *err)
{
	struct shared_scan scan = scan_of(s, spec);
	struct json j;

	shared_scan(shared_of(s), &scan, NULL, NULL);
	if (spec->cursor == 0)
		tell(s, "cleared, with all that begins so", spec->key);
	reply_json(r, &j);
	json_object_begin(&j);
	json_member_int(&j, "removed", (int64_t)scan.found);
	write_cursor(&j, &scan);
	json_object_end(&j);
	reply_data(r);
	return TIDE_OK;
}
