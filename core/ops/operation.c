#include "operation.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <strings.h>

#include "base/duration.h"
#include "base/id.h"
#include "base/mem.h"
#include "broker/unusable.h"

const struct operation *operation_at(size_t index)
{
	return operation_rows[index].name ? &operation_rows[index] : NULL;
}

const char *operation_line_name(const struct parameter *p)
{
	return p->line ? p->line : p->name;
}

static bool is_on_line(const struct parameter *p)
{
	return p->type != PARAMETER_FIXED && !(p->features & PARAMETER_HTTP_ONLY);
}

const struct parameter *operation_parameter(const struct operation *o,
					    enum parameter_type type)
{
	for (const struct parameter *p = o->parameters; p->name; p++)
		if (p->type == type && is_on_line(p))
			return p;
	return NULL;
}

const struct parameter *operation_word(const struct operation *o, unsigned index)
{
	for (const struct parameter *p = o->parameters; p->name; p++)
		if (p->features & PARAMETER_WORD && index-- == 0)
			return p;
	return NULL;
}

unsigned operation_words(const struct operation *o, bool is_needed)
{
	const struct parameter *p;
	unsigned count = 0;

	for (unsigned i = 0; (p = operation_word(o, i)) != NULL; i++)
		count += !is_needed ||
			 p->features & (PARAMETER_NEEDED | PARAMETER_LINE_NEEDED);
	return count;
}

/* ---- a line and its row ---- */

/* How many words of the row the line begins with; `rest` is what follows them. */
static unsigned count_common(const char *words, struct slice line, struct slice *rest)
{
	struct slice wanted = slice_from(words);
	unsigned count = 0;

	*rest = line;
	while (wanted.len > 0 && line.len > 0) {
		struct slice want = slice_cut(&wanted, ' '), word = slice_cut(&line, ' ');

		if (want.len != word.len ||
		    (count == 0 ? strncasecmp(want.data, word.data, want.len)
				: memcmp(want.data, word.data, want.len)) != 0)
			break;
		count++;
		*rest = line;
	}
	return count;
}

static unsigned count_words(struct slice text)
{
	unsigned count = 0;

	while (text.len > 0)
		count += slice_find(slice_cut(&text, ' '), '=') == 0 ? 0 : 1;
	return count;
}

/* The words that rows have behind the first `common` ones of the line, each once:
 * "queues, topics or rules". */
static void list_next(struct slice line, unsigned common, struct buf *out)
{
	struct slice last = { NULL, 0 }, rest;
	const struct operation *o;

	for (size_t i = 0; (o = operation_at(i)) != NULL; i++) {
		struct slice words, word;

		if (!o->line || count_common(o->line, line, &rest) < common)
			continue;
		words = slice_from(o->line);
		for (unsigned k = 0; k < common; k++)
			slice_cut(&words, ' ');
		word = slice_cut(&words, ' ');
		if (word.len == 0 || slice_is_equal(word, last))
			continue;
		if (last.data)
			buf_printf(out, "%s%" SLICE_FMT, buf_len(out) ? ", " : "",
				   SLICE_ARG(last));
		last = word;
	}
	buf_printf(out, "%s%" SLICE_FMT, buf_len(out) ? " or " : "", SLICE_ARG(last));
}

/* "LIST takes queues, topics or rules" */
static void refuse_word(struct slice line, unsigned common, struct error *err)
{
	struct buf begin = { 0 }, next = { 0 };
	const struct operation *o;
	struct slice words = { NULL, 0 }, rest;

	for (size_t i = 0; !words.data && (o = operation_at(i)) != NULL; i++)
		if (o->line && count_common(o->line, line, &rest) == common)
			words = slice_from(o->line);
	for (unsigned k = 0; k < common; k++) {
		struct slice word = slice_cut(&words, ' ');

		buf_printf(&begin, "%s%" SLICE_FMT, k ? " " : "", SLICE_ARG(word));
	}
	list_next(line, common, &next);
	error_set(err, TIDE_ESYNTAX, "%s takes %s", buf_cstr(&begin), buf_cstr(&next));
	buf_deinit(&begin);
	buf_deinit(&next);
}

/* STATS takes one name, or a kind of thing and a name. */
static bool has_unknown_kind(const struct operation *o, struct slice line,
			     struct slice rest, struct error *err)
{
	struct slice kind = slice_cut(&rest, ' '), name = slice_cut(&rest, ' ');
	struct buf kinds = { 0 };
	bool is_unknown;

	if (operation_words(o, false) != 1 || operation_words(o, true) > 0 ||
	    name.len == 0 || memchr(name.data, '=', name.len))
		return false;
	list_next(line, count_words(slice_from(o->line)), &kinds);
	is_unknown = buf_len(&kinds) > 0;
	if (is_unknown)
		error_set(err, TIDE_ESYNTAX, "'%.*s': expected %s before a name",
			  SLICE_HEAD(kind, 64), buf_cstr(&kinds));
	buf_deinit(&kinds);
	return is_unknown;
}

const struct operation *operation_find(struct slice line, struct slice *rest,
				       struct error *err)
{
	const struct operation *o, *best = NULL;
	unsigned best_rank = 0, most = 0;

	for (size_t i = 0; (o = operation_at(i)) != NULL; i++) {
		unsigned common, own, rank;
		struct slice after;

		if (!o->line)
			continue;
		common = count_common(o->line, line, &after);
		most = common > most ? common : most;
		own = count_words(slice_from(o->line));
		if (common == 0 || common < own)
			continue;
		/* "STATS queue" is a question about the queue of that name. */
		rank = own + (count_words(after) >= operation_words(o, true) ? 100 : 0);
		if (rank <= best_rank)
			continue;
		best = o;
		best_rank = rank;
		*rest = after;
	}
	if (best && has_unknown_kind(best, line, *rest, err))
		return NULL;
	if (!best && most > 0)
		refuse_word(line, most, err);
	else if (!best)
		err->code = TIDE_EVERB;
	return best;
}

/* ---- what a row takes ---- */

void operation_write_word(const struct parameter *p, struct buf *out)
{
	struct slice rest = slice_from(p->what);
	unsigned count = 0;

	if (p->type != PARAMETER_CHOICE) {
		buf_printf(out, "<%s>", operation_line_name(p));
		return;
	}
	while (rest.len > 0) {
		struct slice word = slice_cut(&rest, ' ');

		if (slice_is(word, "or"))
			continue;
		word.len -= slice_has_suffix(word, ",");
		buf_printf(out, "%s%" SLICE_FMT, count++ ? "|" : "", SLICE_ARG(word));
	}
}

static bool is_flag(const struct parameter *p)
{
	return p->type == PARAMETER_FLAG;
}

/* By its name on the line, as an option or a flag. */
static bool is_named_there(const struct parameter *p)
{
	return is_on_line(p) && !(p->features & PARAMETER_WORD) &&
	       p->type != PARAMETER_IDS && p->type != PARAMETER_OPTIONS;
}

static bool has_name(const struct operation *o, const struct parameter *p,
		     enum operation_names which)
{
	char place[NAME_LEN_MAX];

	if (which != OPERATION_HTTP)
		return is_named_there(p) && is_flag(p) == (which == OPERATION_LINE_FLAGS);
	snprintf(place, sizeof(place), "{%s}", p->name);
	return p->type != PARAMETER_FIXED && !(p->features & PARAMETER_LINE_ONLY) &&
	       !strstr(o->path, place);
}

bool operation_takes(const struct operation *o, struct slice name,
		     enum operation_names which)
{
	for (const struct parameter *p = o->parameters; p->name; p++)
		if (has_name(o, p, which) &&
		    (slice_is(name, which == OPERATION_HTTP ? p->name
							    : operation_line_name(p)) ||
		     (slice_is(name, p->name) &&
		      !operation_parameter(o, PARAMETER_OPTIONS))))
			return true;
	return false;
}

void operation_write_names(const struct operation *o, enum operation_names which,
			   struct buf *out)
{
	for (const struct parameter *p = o->parameters; p->name; p++)
		if (has_name(o, p, which))
			buf_printf(out, " %s",
				   which == OPERATION_HTTP ? p->name
							   : operation_line_name(p));
}

void operation_write_usage(const struct operation *o, struct buf *out)
{
	unsigned needed = operation_words(o, true);
	const struct parameter *p;

	buf_append_text(out, o->line);
	for (unsigned i = 0; i < needed; i++) {
		buf_append_char(out, ' ');
		operation_write_word(operation_word(o, i), out);
	}
	if (operation_parameter(o, PARAMETER_IDS))
		buf_append_text(out, " [<id>...]");
	for (unsigned i = needed; (p = operation_word(o, i)) != NULL; i++) {
		bool is_choice = p->type == PARAMETER_CHOICE;

		buf_append_text(out, " [");
		if (is_choice)
			operation_write_word(p, out);
		buf_printf(out, "%s]", is_choice ? "" : operation_line_name(p));
	}
	for (p = o->parameters; p->name; p++)
		if (is_named_there(p))
			buf_printf(out,
				   p->features & PARAMETER_NEEDED ? " %s%s" : " [%s%s]",
				   operation_line_name(p), is_flag(p) ? "" : "=");
	if (operation_parameter(o, PARAMETER_OPTIONS))
		buf_append_text(out, " [option=value]...");
}

static void write_parameter(const struct operation *o, const struct parameter *p,
			    struct json *j)
{
	static const char *const types[] = {
		"name",   "address", "text",   "uint", "int", "duration", "share",
		"choice", "flag",    "switch", "id",   "ids", "position", "options",
	};

	json_object_begin(j);
	json_member_text(j, "name", p->name);
	json_member_text(j, "type", types[p->type]);
	if (is_on_line(p))
		json_member_text(j, "line", operation_line_name(p));
	json_member_bool(j, "word", p->features & PARAMETER_WORD);
	json_member_bool(j, "http", o->path && !(p->features & PARAMETER_LINE_ONLY));
	json_member_bool(j, "needed", p->features & PARAMETER_NEEDED);
	if (p->what)
		json_member_text(j, "what", p->what);
	if (p->type == PARAMETER_UINT || p->type == PARAMETER_INT ||
	    p->type == PARAMETER_DURATION || p->type == PARAMETER_TEXT) {
		json_member_int(j, "min", p->min);
		if (p->max && p->max <= INT64_MAX)
			json_member_int(j, "max", (int64_t)p->max);
	}
	json_member_text(j, "help", p->help ? p->help : "");
	json_object_end(j);
}

void operation_write(const struct operation *o, struct json *j)
{
	static const char *const permissions[] = { "none",      "monitor", "admin",
						   "configure", "write",   "read" };
	struct buf usage = { 0 };

	json_member_text(j, "operation", o->name);
	if (o->line) {
		operation_write_usage(o, &usage);
		json_member_string(j, "line", buf_slice(&usage));
	}
	buf_deinit(&usage);
	if (o->path) {
		json_member_text(j, "method", o->method);
		json_member_text(j, "path", o->path);
		json_member_bool(j, "vhost", o->features & OPERATION_VHOST);
	}
	json_member_text(j, "permission", permissions[o->permission]);
	json_member_text(j, "help", o->help);
	json_member_text(j, "answer", o->answer ? o->answer : "Done");
	json_member_text(j, "errors", o->errors ? o->errors : "");
	json_member_text(j, "group", o->group);
	json_member_array(j, "takes");
	for (const struct parameter *p = o->parameters; p->name; p++)
		if (p->type != PARAMETER_FIXED)
			write_parameter(o, p, j);
	json_array_end(j);
}

/* ---- a request ---- */

struct operation_reading {
	const struct operation *operation;
	const struct operation_request *request;
	void *spec; /* where the offsets of the rows are */
	struct args args;
	uint64_t *ids;
	struct error *err;
	int rc;
};

static void refuse_value(struct operation_reading *q, const struct parameter *p,
			 struct slice value, const char *expected)
{
	if (q->rc < 0)
		return;
	if (!q->request->is_line)
		q->rc = error_set(q->err, TIDE_ESYNTAX, "%s: expected %s, not '%.*s'",
				  p->name, expected, SLICE_HEAD(value, 64));
	else if (p->features & PARAMETER_WORD || p->type == PARAMETER_IDS)
		q->rc = error_set(q->err, TIDE_ESYNTAX, "'%.*s': expected %s",
				  SLICE_HEAD(value, 64), expected);
	else
		q->rc = error_set(q->err, TIDE_ESYNTAX, "%s=%.*s: expected %s",
				  operation_line_name(p), SLICE_HEAD(value, 64),
				  expected);
}

/* The value that is expected, as a sentence goes on behind "expected". */
static const char *expect(const struct parameter *p, char out[ERROR_TEXT_MAX])
{
	const struct number_limits limits = { (uint64_t)p->min, p->max };
	char range[DURATION_RANGE_MAX];

	if (p->type == PARAMETER_NAME || p->type == PARAMETER_ADDRESS)
		snprintf(out, ERROR_TEXT_MAX,
			 "1-%d bytes of UTF-8 without white space and control characters",
			 NAME_LEN_MAX);
	else if (p->what)
		snprintf(out, ERROR_TEXT_MAX, "%s", p->what);
	else if (p->type == PARAMETER_TEXT && p->min)
		snprintf(out, ERROR_TEXT_MAX, "%" PRId64 " to %" PRIu64 " bytes", p->min,
			 p->max);
	else if (p->type == PARAMETER_TEXT)
		snprintf(out, ERROR_TEXT_MAX, "at most %" PRIu64 " bytes", p->max);
	else if (p->type == PARAMETER_DURATION)
		snprintf(out, ERROR_TEXT_MAX,
			 "a duration like 250ms, 30s, 5m, 2h or 1d, %s",
			 duration_format_range(limits, range));
	else if (p->type == PARAMETER_SHARE)
		snprintf(out, ERROR_TEXT_MAX, "a percentage above 0, up to 100");
	else if (p->type == PARAMETER_ID || p->type == PARAMETER_IDS)
		snprintf(out, ERROR_TEXT_MAX, "the id of a message, %d hex digits",
			 ID_HEX_LEN);
	else if (p->type == PARAMETER_FLAG || p->type == PARAMETER_SWITCH)
		snprintf(out, ERROR_TEXT_MAX, "true or false");
	else
		snprintf(out, ERROR_TEXT_MAX, "a number from %" PRId64 " to %" PRIu64,
			 p->min, p->max);
	return out;
}

static void refuse(struct operation_reading *q, const struct parameter *p,
		   struct slice value)
{
	char text[ERROR_TEXT_MAX];

	refuse_value(q, p, value, expect(p, text));
}

static void refuse_missing(struct operation_reading *q, const struct parameter *p)
{
	bool is_name = p->type == PARAMETER_NAME || p->type == PARAMETER_ADDRESS;
	char text[ERROR_TEXT_MAX];

	q->rc = error_set(q->err, TIDE_ESYNTAX, "%s%s is missing: expected %s",
			  q->request->is_line ? operation_line_name(p) : p->name,
			  q->request->is_line ? "=" : "",
			  is_name                               ? p->what
			  : p->type == PARAMETER_TEXT && p->max ? p->help
								: expect(p, text));
}

static void check_name(struct operation_reading *q, const struct parameter *p,
		       struct slice name)
{
	if (slice_is_name(name))
		return;
	if (!q->request->is_line)
		refuse(q, p, name);
	else
		q->rc = error_set(
			q->err, name.len > NAME_LEN_MAX ? TIDE_ETOOLONG : TIDE_ESYNTAX,
			"%s must be 1-%d bytes of UTF-8 without white space "
			"and control characters",
			p->features & PARAMETER_WORD ? p->what : operation_line_name(p),
			NAME_LEN_MAX);
}

static void read_ids(struct operation_reading *q, const struct parameter *p,
		     struct slice text, struct id_list *out)
{
	unsigned count = 1;

	for (size_t i = 0; i < text.len; i++)
		count += text.data[i] == ' ';
	q->ids = mem_alloc(count * sizeof(*q->ids));
	for (unsigned i = 0; i < count; i++) {
		struct slice word = slice_cut(&text, ' ');

		if (id_parse(word, &q->ids[i]) < 0)
			refuse(q, p, word);
	}
	*out = (struct id_list){ q->ids, count };
}

static bool read_switch(struct slice value, bool *out)
{
	*out = slice_is(value, "1") || slice_is(value, "true") || slice_is(value, "yes");
	return *out || slice_is(value, "0") || slice_is(value, "false") ||
	       slice_is(value, "no");
}

/* The default of a parameter that is not given, unless that is zero. */
static void read_default(const struct parameter *p, void *at)
{
	if (p->type == PARAMETER_INT || p->type == PARAMETER_UINT ||
	    (p->type == PARAMETER_DURATION && p->fallback))
		*(int64_t *)at = p->fallback;
	else if (p->type == PARAMETER_CHOICE || p->type == PARAMETER_FIXED)
		*(unsigned *)at = (unsigned)p->fallback;
}

static bool read_value(struct operation_reading *q, const struct parameter *p,
		       struct slice value, void *at)
{
	const struct number_limits limits = { (uint64_t)p->min, p->max };
	unsigned index;

	switch (p->type) {
	case PARAMETER_UINT:
		return slice_to_uint(value, p->max, at) &&
		       *(uint64_t *)at >= (uint64_t)p->min;
	case PARAMETER_INT:
		return slice_to_int(value, p->min, (int64_t)p->max, at);
	case PARAMETER_DURATION:
		return duration_is_within(value, limits, at);
	case PARAMETER_SHARE:
		return slice_to_share(value, at);
	case PARAMETER_CHOICE:
		if (!slice_is_choice(value, p->what, &index))
			return false;
		*(unsigned *)at = index + (unsigned)p->min;
		return true;
	case PARAMETER_FLAG:
	case PARAMETER_SWITCH:
		return read_switch(value, at);
	case PARAMETER_ID:
		return id_parse(value, at) == TIDE_OK;
	case PARAMETER_IDS:
		read_ids(q, p, value, at);
		return true;
	case PARAMETER_POSITION:
		q->rc = position_parse(value, at, q->err);
		return true;
	case PARAMETER_NAME:
	case PARAMETER_ADDRESS:
		*(struct slice *)at = value;
		if (p->type == PARAMETER_ADDRESS && slice_is(value, "-"))
			*(struct slice *)at = SLICE("");
		else if (p->type == PARAMETER_NAME || value.len > 0 ||
			 (p->features & PARAMETER_WORD && q->request->is_line))
			check_name(q, p, value);
		return true;
	default:
		*(struct slice *)at = value;
		return !p->max || (value.len >= (size_t)p->min && value.len <= p->max);
	}
}

static void read_parameter(struct operation_reading *q, const struct parameter *p)
{
	unsigned other = q->request->is_line ? PARAMETER_HTTP_ONLY : PARAMETER_LINE_ONLY;
	void *at = (char *)q->spec + p->offset;
	struct slice value = { NULL, 0 };

	if (p->type == PARAMETER_OPTIONS) {
		*(const struct args **)at = &q->args;
		q->rc = q->request->options(q->request->ctx, q->operation, p, &q->args,
					    q->err);
		return;
	}
	if (p->type != PARAMETER_FIXED && !(p->features & other)) {
		q->err->code = TIDE_OK;
		value = q->request->value(q->request->ctx, p, q->err);
		q->rc = q->err->code;
	}
	if (q->rc < 0)
		return;
	if (!value.data && p->features & PARAMETER_NEEDED)
		refuse_missing(q, p);
	else if (!value.data)
		read_default(p, at);
	else if (!read_value(q, p, value, at))
		refuse(q, p, value);
}

static int check_permission(const struct operation *o, const struct session *s,
			    struct error *err)
{
	const char *what = o->line ? o->line : o->name;

	if (o->features & OPERATION_CHECKS)
		return TIDE_OK;
	if (o->permission == PERMISSION_ADMIN)
		return session_access_check_admin(s, what, err);
	return o->permission == PERMISSION_MONITOR
		       ? session_access_check_monitor(s, what, err)
		       : TIDE_OK;
}

int operation_read(const struct parameter *rows, const struct operation_request *request,
		   void *spec, struct error *err)
{
	struct operation_reading q = { .request = request, .spec = spec, .err = err };

	for (const struct parameter *p = rows; p->name && q.rc == TIDE_OK; p++)
		read_parameter(&q, p);
	return q.rc;
}

/* The queue or the topic that the request names. */
static int find_object(const struct operation *o, struct operation_call *c,
		       struct error *err)
{
	static int (*const finders[])(struct session * s, enum user_action action,
				      struct slice name, struct queue * *out,
				      struct error * err) = {
		[OBJECT_ANY] = session_queue_any,
		[OBJECT_QUEUE] = session_queue_find,
		[OBJECT_TOPIC] = session_queue_find_topic,
	};
	const struct parameter *p = operation_parameter(o, PARAMETER_NAME);
	enum user_action action =
		o->permission == PERMISSION_CONFIGURE ? USER_CONFIGURE : USER_READ;
	struct slice name = { NULL, 0 };

	if (o->object != OBJECT_NONE)
		name = *(const struct slice *)((const char *)c->spec + p->offset);
	if (!name.data)
		return TIDE_OK;
	if (finders[o->object](c->session, action, name, &c->queue, err) < 0)
		return err->code;
	return o->features & OPERATION_UNUSABLE
		       ? TIDE_OK
		       : unusable_check(&c->queue->definition, err);
}

int operation_run(const struct operation *o, const struct operation_request *request,
		  const struct operation_call *call, struct reply *r, struct error *err)
{
	union operation_spec spec;
	struct operation_call c = *call;
	struct operation_reading q = {
		.operation = o, .request = request, .spec = &spec, .err = err
	};

	memset(&spec, 0, sizeof(spec));
	c.spec = &spec;
	c.queue = NULL;
	for (const struct parameter *p = o->parameters; p->name && q.rc == TIDE_OK; p++)
		read_parameter(&q, p);
	if (q.rc == TIDE_OK)
		q.rc = check_permission(o, c.session, err);
	if (q.rc == TIDE_OK)
		q.rc = find_object(o, &c, err);
	if (q.rc == TIDE_OK)
		q.rc = o->run(&c, r, err);
	args_deinit(&q.args);
	mem_free(q.ids);
	return q.rc;
}
