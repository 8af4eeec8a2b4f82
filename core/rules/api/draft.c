#include "draft.h"

#include <lauxlib.h>
#include <math.h>

#include "base/duration.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/percent.h"
#include "decision_context.h"
#include "document.h"
#include "rules/sandbox/field.h"
#include "rules/sandbox/safe_lib.h"
#include "view.h"

static const struct view_type headers_type;

static const struct msg *message(const void *subject)
{
	return ((const struct api_msg *)subject)->msg;
}

static void push_exchange(lua_State *L, const void *subject)
{
	field_push(L, msg_exchange_word(message(subject)));
}

static void push_key(lua_State *L, const void *subject)
{
	field_push(L, message(subject)->key);
}

/* The size of a payload that the message has lost; 0 when it has none. */
static size_t absent_bytes(lua_State *L, const struct msg *m)
{
	const struct decision_context *c = decision_context_of(L);

	return c && m->payload_len == 0 ? c->absent_bytes : 0;
}

/* Raises when the message has lost it. */
static struct slice payload(lua_State *L, const void *subject, const char *field)
{
	const struct msg *m = message(subject);

	if (absent_bytes(L, m) > 0) {
		decision_context_of(L)->was_absent_read = true;
		luaL_error(L,
			   "%s is no longer kept; start the broker with "
			   "--replay-payloads",
			   field);
	}
	return (struct slice){ m->payload, m->payload_len };
}

static void push_payload(lua_State *L, const void *subject)
{
	field_push(L, payload(L, subject, "msg.payload"));
}

static void push_json(lua_State *L, const void *subject)
{
	const struct decision_context *c = decision_context_of(L);

	document_push(L, payload(L, subject, "msg.json"), c ? c->unread : NULL);
}

static void push_json_error(lua_State *L, const void *subject)
{
	document_push_error(L, payload(L, subject, "msg.json_error"));
}

static void push_size(lua_State *L, const void *subject)
{
	const struct msg *m = message(subject);

	lua_pushinteger(L, (lua_Integer)(m->payload_len + absent_bytes(L, m)));
}

static void push_priority(lua_State *L, const void *subject)
{
	lua_pushinteger(L, message(subject)->priority);
}

static void push_id(lua_State *L, const void *subject)
{
	char hex[ID_HEX_LEN];

	id_format(message(subject)->id, hex);
	lua_pushlstring(L, hex, sizeof(hex));
}

static void push_ts(lua_State *L, const void *subject)
{
	lua_pushinteger(L, message(subject)->ts_unix_ms);
}

static void push_delay(lua_State *L, const void *subject)
{
	const struct msg *m = message(subject);
	int64_t delay_ms = m->due_unix_ms - m->ts_unix_ms;

	lua_pushinteger(L, m->due_unix_ms && delay_ms > 0 ? delay_ms : 0);
}

/* The life of a message from when it is due; 0: for ever. */
static int64_t ttl_of(const struct msg *m)
{
	int64_t from_ms = m->due_unix_ms ? m->due_unix_ms : m->ts_unix_ms;

	return m->expires_unix_ms ? m->expires_unix_ms - from_ms : 0;
}

static void push_ttl(lua_State *L, const void *subject)
{
	const struct msg *m = message(subject);

	if (m->expires_unix_ms)
		lua_pushinteger(L, ttl_of(m));
	else
		lua_pushnil(L);
}

static void push_dedupe_id(lua_State *L, const void *subject)
{
	const struct slice id = msg_dedupe_id(message(subject));

	view_push_optional(L, &id);
}

static void push_attempt(lua_State *L, const void *subject)
{
	lua_pushinteger(L, ((const struct api_msg *)subject)->attempt);
}

static void push_in_topic(lua_State *L, const struct api_msg *m, uint64_t n)
{
	if (m->has_place)
		lua_pushinteger(L, (lua_Integer)n);
	else
		lua_pushnil(L);
}

static void push_partition(lua_State *L, const void *subject)
{
	const struct api_msg *m = subject;

	push_in_topic(L, m, m->partition);
}

static void push_offset(lua_State *L, const void *subject)
{
	const struct api_msg *m = subject;

	push_in_topic(L, m, m->offset);
}

static void push_headers(lua_State *L, const void *subject)
{
	view_push(L, &headers_type, subject);
}

/* All but the headers, which filters write to. */
static const struct view_field api_msg_fields[] = {
	{ .name = "attempt", .push = push_attempt },
	{ .name = "dedupe_id", .push = push_dedupe_id },
	{ .name = "delay", .push = push_delay },
	{ .name = "exchange", .push = push_exchange, .is_pure = true },
	{ .name = "id", .push = push_id },
	{ .name = "json", .push = push_json },
	{ .name = "json_error", .push = push_json_error },
	{ .name = "key", .push = push_key, .is_pure = true },
	{ .name = "offset", .push = push_offset },
	{ .name = "partition", .push = push_partition },
	{ .name = "payload", .push = push_payload },
	{ .name = "priority", .push = push_priority },
	{ .name = "size", .push = push_size },
	{ .name = "ts", .push = push_ts },
	{ .name = "ttl", .push = push_ttl },
	{ .name = NULL },
};
static const struct view_field headers_field[] = {
	{ .name = "headers", .push = push_headers }, { .name = NULL }
};
static const struct view_type msg_type = {
	.number = VIEW_MSG, .name = "msg", .fields = headers_field, .more = api_msg_fields
};

static struct slice api_msg_header_name(lua_State *L, int idx)
{
	if (lua_type(L, idx) != LUA_TSTRING)
		luaL_error(L, "a header's name must be a text, not a %s",
			   luaL_typename(L, idx));
	return field_slice(L, idx);
}

static int api_msg_header(lua_State *L)
{
	const struct msg *m = message(view_self(L));
	struct slice value = msg_header(m, api_msg_header_name(L, 2));

	if (!value.data)
		return 0;
	field_push(L, value);
	return 1;
}

/* Upvalues: the view, the number of the next header. */
static int l_next_header(lua_State *L)
{
	const struct msg *m = message(view_check(L, lua_upvalueindex(1), &headers_type));
	lua_Integer i = lua_tointeger(L, lua_upvalueindex(2));

	while (i < m->header_count && msg_header_is_hidden(m->headers[i].name))
		i++;
	if (i >= m->header_count)
		return 0;
	lua_pushinteger(L, i + 1);
	lua_replace(L, lua_upvalueindex(2));
	field_push(L, m->headers[i].name);
	field_push(L, m->headers[i].value);
	return 2;
}

static int l_headers(lua_State *L)
{
	view_self(L);
	lua_settop(L, 1);
	lua_pushinteger(L, 0);
	lua_pushcclosure(L, l_next_header, 2);
	return 1;
}

static const struct view_type headers_type = { .number = VIEW_MSG_HEADERS,
					       .name = "msg.headers",
					       .index = api_msg_header,
					       .pairs = l_headers };

void api_msg_open(lua_State *L)
{
	view_open(L, &msg_type);
	view_open(L, &headers_type);
}

void api_msg_push(lua_State *L, const struct api_msg *m)
{
	view_push(L, &msg_type, m);
}

static const struct view_type draft_type, draft_headers_type;

void draft_init(struct draft *d, const struct msg *m, int64_t now_unix_ms,
		struct draft_copies *copies)
{
	memset(d, 0, offsetof(struct draft, headers));
	d->view = (struct api_msg){ .msg = &d->now };
	d->now = *m;
	d->now.pool = NULL;
	d->now_unix_ms = now_unix_ms;
	d->copies = copies;
}

static void free_scratch(struct draft *d)
{
	if (!d->scratch)
		return;
	draft_deinit(d->scratch);
	mem_free(d->scratch);
	d->scratch = NULL;
}

void draft_deinit(struct draft *d)
{
	free_scratch(d);
	mem_free(d->exchange);
	mem_free(d->key);
	mem_free(d->payload);
	mem_free(d->dedupe_id);
	for (unsigned i = 0; d->has_own_headers && i < d->now.header_count; i++)
		mem_free(d->header_texts[i]);
}

struct msg *draft_build(const struct draft *d)
{
	return msg_create(&d->now);
}

struct msg *draft_build_head(const struct draft *d)
{
	struct msg like = d->now;

	like.payload = "";
	like.payload_len = 0;
	like.dedupe_len = like.user_len = 0;
	return msg_create(&like);
}

/* Refuse the value on the top, in the words of its writer. */
static int refuse(lua_State *L, const char *field, const char *wanted)
{
	const char *value = safe_lib_tolstring(L, -1, NULL);

	return luaL_error(L, "msg.%s must be %s, not '%s'", field, wanted, value);
}

/* A copy in the place of an earlier one; may raise before anything has changed. */
static struct slice keep(lua_State *L, char **place, struct slice text)
{
	char *own = mem_try_alloc(text.len + 1);

	if (!own)
		luaL_error(L, "out of memory for %I bytes", (lua_Integer)text.len);
	memcpy(own, text.data, text.len);
	mem_free(*place);
	*place = own;
	return (struct slice){ own, text.len };
}

static struct slice read_text(lua_State *L, const char *field)
{
	if (lua_type(L, -1) != LUA_TSTRING)
		refuse(L, field, "a text");
	return field_slice(L, -1);
}

/* A name, where '-' is the empty one as on the wire. */
static struct slice read_word(lua_State *L, const char *field)
{
	struct slice text = read_text(L, field);

	if (text.len == 0 || slice_is(text, "-"))
		return SLICE("");
	if (!slice_is_name(text))
		refuse(L, field,
		       "1-255 bytes of UTF-8 without white space and control characters");
	return text;
}

/* A number of milliseconds or the text of a duration. */
static int64_t read_ms(lua_State *L, const char *field, int64_t min_ms)
{
	double number = lua_tonumber(L, -1);
	int64_t ms = -1;

	if (lua_type(L, -1) == LUA_TSTRING) {
		if (duration_parse(field_slice(L, -1), &ms) != TIDE_OK)
			ms = -1;
	} else if (lua_type(L, -1) == LUA_TNUMBER && number >= 0 &&
		   number <= (double)DURATION_MAX_MS) {
		ms = llround(number);
	}
	if (ms < min_ms)
		refuse(L, field,
		       min_ms > 0 ? "milliseconds from 1, a duration like '30s', or nil"
				  : "milliseconds from 0, or a duration like '30s'");
	return ms;
}

/* Write a name where the draft has it now: `*now`, whose own copy is `*own`. */
static void set_word(lua_State *L, struct draft *d, const char *field, struct slice *now,
		     char **own, uint32_t *changes)
{
	struct slice word = read_word(L, field);

	if (slice_is_equal(word, *now))
		return;
	*now = keep(L, own, word);
	++*changes;
	d->is_changed = true;
}

static void set_exchange(lua_State *L, struct draft *d)
{
	set_word(L, d, "exchange", &d->now.exchange, &d->exchange, &d->exchange_changes);
}

static void set_key(lua_State *L, struct draft *d)
{
	set_word(L, d, "key", &d->now.key, &d->key, &d->key_changes);
}

static void take_payload(lua_State *L, struct draft *d, struct slice payload)
{
	if (payload.len > DRAFT_PAYLOAD_MAX)
		luaL_error(L, "msg.payload has %I bytes; %I are allowed",
			   (lua_Integer)payload.len, (lua_Integer)DRAFT_PAYLOAD_MAX);
	d->now.payload = keep(L, &d->payload, payload).data;
	d->now.payload_len = payload.len;
	d->is_changed = true;
}

static void set_payload(lua_State *L, struct draft *d)
{
	take_payload(L, d, read_text(L, "payload"));
}

/* The value is written now: the script may change it later. */
static void set_json(lua_State *L, struct draft *d)
{
	if (lua_isnil(L, -1))
		luaL_error(L, "msg.json cannot be nil; tide.json.null writes a null");
	take_payload(L, d, document_json_text(L, -1));
}

static void set_priority(lua_State *L, struct draft *d)
{
	int is_integer = 0;
	lua_Integer n = lua_tointegerx(L, -1, &is_integer);

	if (!is_integer || lua_type(L, -1) != LUA_TNUMBER || n < 0 ||
	    n > MSG_PRIORITY_MAX)
		refuse(L, "priority", "an integer from 0 to 255");
	d->now.priority = (uint8_t)n;
	d->is_changed = true;
}

static void set_dedupe_id(lua_State *L, struct draft *d)
{
	struct slice id = { "", 0 };

	if (!lua_isnil(L, -1))
		id = read_text(L, "dedupe_id");
	if (id.len > MSG_DEDUPE_ID_MAX)
		luaL_error(L, "msg.dedupe_id has %I bytes; %d are allowed",
			   (lua_Integer)id.len, MSG_DEDUPE_ID_MAX);
	d->now.dedupe_id = keep(L, &d->dedupe_id, id).data;
	d->now.dedupe_len = (uint8_t)id.len;
	d->is_changed = true;
}

static void set_times(struct draft *d, int64_t due_unix_ms, int64_t ttl_ms)
{
	int64_t from_ms = due_unix_ms ? due_unix_ms : d->now_unix_ms;

	d->now.due_unix_ms = due_unix_ms;
	d->now.expires_unix_ms = ttl_ms ? from_ms + ttl_ms : 0;
	d->is_changed = true;
}

static void set_delay(lua_State *L, struct draft *d)
{
	int64_t delay_ms = read_ms(L, "delay", 0);

	set_times(d, delay_ms ? d->now_unix_ms + delay_ms : 0, ttl_of(&d->now));
}

static void set_ttl(lua_State *L, struct draft *d)
{
	int64_t ttl_ms = lua_isnil(L, -1) ? 0 : read_ms(L, "ttl", 1);

	set_times(d, d->now.due_unix_ms, ttl_ms);
}

/* The fields of `msg`; without `set`, scripts only read them. */
static const struct field {
	const char *name;
	void (*set)(lua_State *L, struct draft *d);
} fields[] = {
	{ "dedupe_id", set_dedupe_id },
	{ "delay", set_delay },
	{ "exchange", set_exchange },
	{ "json", set_json },
	{ "key", set_key },
	{ "payload", set_payload },
	{ "priority", set_priority },
	{ "ttl", set_ttl },
	{ "attempt", NULL },
	{ "copy", NULL },
	{ "headers", NULL },
	{ "id", NULL },
	{ "json_error", NULL },
	{ "offset", NULL },
	{ "partition", NULL },
	{ "size", NULL },
	{ "ts", NULL },
	{ "user", NULL },
	{ "vhost", NULL },
	{ NULL, NULL },
};
#define FIELD_NAMES "dedupe_id delay exchange json key payload priority ttl"

/* NULL: there is none, or the value at `idx` is no text. */
static const struct field *find_field(lua_State *L, int idx)
{
	const char *name = lua_type(L, idx) == LUA_TSTRING ? lua_tostring(L, idx) : NULL;

	for (const struct field *f = fields; name && f->name; f++)
		if (strcmp(f->name, name) == 0)
			return f;
	return NULL;
}

static const char *const may_write[] = {
	[DRAFT_DELIVER] = "a deliver script may write headers.<name>, for this delivery",
	[DRAFT_SETTLED] = "a settled script may publish a copy: msg:copy { … }",
	[DRAFT_RETRY] = "a retry script may write headers.<name>, publish a copy "
			"(msg:copy { … }) and return tide.dead_letter(exchange, key)",
};

/* msg.<field> = value */
static int l_set_field(lua_State *L)
{
	struct draft *d = (struct draft *)view_self(L);
	const struct field *field = find_field(L, 2);

	lua_settop(L, 3);
	if (d->use != DRAFT_FILTER)
		return luaL_error(L, "'msg.%s' is read-only; %s",
				  safe_lib_tolstring(L, 2, NULL), may_write[d->use]);
	if (!field || !field->set)
		return luaL_error(L,
				  "%s'msg.%s'%s; a filter may write " FIELD_NAMES
				  " and headers.<name>",
				  field ? "" : "there is no ",
				  safe_lib_tolstring(L, 2, NULL),
				  field ? " is read-only" : "");
	field->set(L, d);
	return 0;
}

static void own_headers(struct draft *d)
{
	if (d->has_own_headers)
		return;
	for (unsigned i = 0; i < d->now.header_count; i++) {
		d->headers[i] = d->now.headers[i];
		d->header_texts[i] = NULL;
	}
	d->now.headers = d->headers;
	d->has_own_headers = true;
}

/* " h:name=value" */
static size_t wire_len(const struct msg_header *h)
{
	return strlen(" h:=") + h->name.len + percent_encoded_len(h->value);
}

static unsigned find_header(const struct draft *d, struct slice name)
{
	unsigned i = 0;

	while (i < d->now.header_count && !slice_is_equal(d->now.headers[i].name, name))
		i++;
	return i;
}

static void remove_header(struct draft *d, unsigned at)
{
	if (at == d->now.header_count)
		return;
	own_headers(d);
	mem_free(d->header_texts[at]);
	for (d->now.header_count--; at < d->now.header_count; at++) {
		d->headers[at] = d->headers[at + 1];
		d->header_texts[at] = d->header_texts[at + 1];
	}
	d->is_changed = true;
}

static void check_header(lua_State *L, const struct draft *d, unsigned at,
			 const struct msg_header *h)
{
	size_t len = wire_len(h);
	unsigned count = 1;

	if (!slice_is_name(h->name) || memchr(h->name.data, '=', h->name.len))
		luaL_error(L,
			   "a header's name must be 1-255 bytes of UTF-8 without white "
			   "space, control characters and '='");
	if (msg_header_is_death(h->name))
		luaL_error(L, "a header whose name begins with " MSG_DEATH_PREFIX
			      " is the broker's: a filter may remove it, not write it");
	for (unsigned i = 0; i < d->now.header_count; i++) {
		if (i == at || msg_header_is_death(d->now.headers[i].name) ||
		    msg_header_is_hidden(d->now.headers[i].name))
			continue;
		len += wire_len(&d->now.headers[i]);
		count++;
	}
	if (count > MSG_HEADERS_MAX)
		luaL_error(L, "a message has at most %d headers", MSG_HEADERS_MAX);
	if (len > DRAFT_HEADERS_MAX)
		luaL_error(L, "the headers of a message have at most %I bytes in all",
			   (lua_Integer)DRAFT_HEADERS_MAX);
}

/* Write the value on the top. */
static void set_header(lua_State *L, struct draft *d, struct slice name)
{
	unsigned at = find_header(d, name);

	if (lua_isnil(L, -1)) {
		remove_header(d, at);
		return;
	}
	struct msg_header h = { .name = name };
	if (lua_type(L, -1) != LUA_TSTRING && lua_type(L, -1) != LUA_TNUMBER)
		luaL_error(L,
			   "a header's value must be a text, a number or nil, not a %s",
			   luaL_typename(L, -1));
	h.value = field_slice(L, -1);
	check_header(L, d, at, &h);
	char *text = mem_try_alloc(name.len + h.value.len);
	if (!text)
		luaL_error(L, "out of memory for a header");
	own_headers(d);
	memcpy(text, name.data, name.len);
	memcpy(text + name.len, h.value.data, h.value.len);
	if (at == d->now.header_count) {
		d->header_texts[at] = NULL;
		d->now.header_count++;
	}
	mem_free(d->header_texts[at]);
	d->header_texts[at] = text;
	d->headers[at] = (struct msg_header){ { text, name.len },
					      { text + name.len, h.value.len } };
	d->is_changed = true;
}

/* msg.headers.<name> = value */
static int l_set_header(lua_State *L)
{
	struct draft *d = (struct draft *)view_self(L);

	lua_settop(L, 3);
	if (d->use == DRAFT_SETTLED)
		return luaL_error(L, "'msg.headers' is read-only; %s", may_write[d->use]);
	if (d->use == DRAFT_RETRY && d->view.has_place)
		return luaL_error(L,
				  "'msg.headers' is read-only: what is in a topic does "
				  "not change; publish a copy: msg:copy { … }");
	set_header(L, d, api_msg_header_name(L, 2));
	return 0;
}

/* The headers are gone through as they are now, so that the loop may write them. */
static int l_draft_headers(lua_State *L)
{
	const struct draft *d = view_self(L);

	lua_pushcfunction(L, safe_lib_next);
	lua_createtable(L, 0, d->now.header_count);
	for (unsigned i = 0; i < d->now.header_count; i++) {
		const struct msg_header *h = &d->now.headers[i];

		if (msg_header_is_hidden(h->name))
			continue;
		field_push(L, h->name);
		field_push(L, h->value);
		lua_rawset(L, -3);
	}
	return 2;
}

static void set_copy_headers(lua_State *L, struct draft *copy)
{
	int headers = lua_gettop(L);

	if (!lua_istable(L, headers))
		luaL_error(L, "the headers of a copy must be a table, not a %s",
			   luaL_typename(L, headers));
	safe_lib_unfold(L, headers);
	for (lua_pushnil(L); lua_next(L, headers) != 0; lua_settop(L, headers + 1)) {
		struct slice name = api_msg_header_name(L, headers + 1);
		/* A nil would not be in the table. */
		if (lua_isboolean(L, -1) && !lua_toboolean(L, -1)) {
			lua_pushnil(L);
			lua_replace(L, -2);
		}
		set_header(L, copy, name);
	}
}

/* The fields of the table at 2. */
static void set_copy_fields(lua_State *L, struct draft *copy)
{
	for (lua_pushnil(L); lua_next(L, 2) != 0; lua_settop(L, 3)) {
		const struct field *field = find_field(L, 3);

		if (field && strcmp(field->name, "headers") == 0)
			set_copy_headers(L, copy);
		else if (field && field->set)
			field->set(L, copy);
		else
			luaL_error(L, "msg:copy takes " FIELD_NAMES " headers, not '%s'",
				   safe_lib_tolstring(L, 3, NULL));
	}
}

/* A new message like one that is settled or has failed: of its own time, and of no
 * publisher. */
static void renew(struct draft *copy)
{
	struct msg *m = &copy->now;

	m->ts_unix_ms = copy->now_unix_ms;
	m->due_unix_ms = m->expires_unix_ms = 0;
	m->dedupe_len = m->user_len = 0;
}

/* msg:copy { exchange =, key =, headers = { name = text or false }, ... } */
static int l_copy(lua_State *L)
{
	struct draft *d;

	if (lua_istable(L, 1) && lua_isnoneornil(L, 2))
		return luaL_error(L, "write msg:copy { … }, with a colon");
	d = (struct draft *)view_check(L, 1, &draft_type);
	luaL_checktype(L, 2, LUA_TTABLE);
	lua_settop(L, 2);
	safe_lib_unfold(L, 2);
	if (!d->copies)
		return luaL_error(L, "a deliver script publishes no copies");
	if (d->copies->count >= d->copies->max)
		return luaL_error(L, "a %s makes at most %d copies",
				  d->use == DRAFT_FILTER ? "publish" : "message",
				  DRAFT_COPIES_MAX);
	free_scratch(d);
	d->scratch = mem_alloc(sizeof(*d->scratch));
	draft_init(d->scratch, &d->now, d->now_unix_ms, NULL);
	if (d->use == DRAFT_SETTLED || d->use == DRAFT_RETRY)
		renew(d->scratch);
	set_copy_fields(L, d->scratch);
	struct msg *copy = draft_build(d->scratch);
	if (!copy)
		return luaL_error(L, "out of memory for a copy");
	d->copies->items[d->copies->count++] = copy;
	free_scratch(d);
	return 0;
}

static void push_draft_headers(lua_State *L, const void *subject)
{
	struct draft *d = (struct draft *)subject;

	view_push_kept(L, &draft_headers_type, d, &d->has_headers_view);
}

static void push_vhost(lua_State *L, const void *subject)
{
	field_push(L, ((const struct draft *)subject)->vhost);
}

static void push_user(lua_State *L, const void *subject)
{
	const struct slice user = msg_user(&((const struct draft *)subject)->now);

	view_push_optional(L, &user);
}

static void push_copy(lua_State *L, const void *subject)
{
	lua_pushcfunction(L, l_copy);
}

static const struct view_field draft_fields[] = {
	{ .name = "headers", .push = push_draft_headers },
	{ .name = "copy", .push = push_copy },
	{ .name = "user", .push = push_user },
	{ .name = "vhost", .push = push_vhost },
	{ .name = NULL },
};
static const struct view_type draft_type = { .number = VIEW_DRAFT,
					     .name = "msg",
					     .fields = draft_fields,
					     .more = api_msg_fields,
					     .newindex = l_set_field };
static const struct view_type draft_headers_type = { .number = VIEW_DRAFT_HEADERS,
						     .name = "msg.headers",
						     .index = api_msg_header,
						     .newindex = l_set_header,
						     .pairs = l_draft_headers };

void draft_open(lua_State *L)
{
	view_open(L, &draft_type);
	view_open(L, &draft_headers_type);
}

void draft_push(lua_State *L, struct draft *d)
{
	view_push_kept(L, &draft_type, d, &d->has_view);
}
