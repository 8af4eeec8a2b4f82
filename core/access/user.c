#include "user.h"

#include <jansson.h>

#include "base/mem.h"
#include "password.h"

static const char *const action_names[USER_ACTION_COUNT] = {
	[USER_CONFIGURE] = "configure",
	[USER_WRITE] = "write",
	[USER_READ] = "read",
};

static const struct {
	enum user_tag tag;
	const char *name;
} tags[USER_TAG_COUNT] = { { USER_ADMIN, "admin" }, { USER_MONITOR, "monitor" } };

static const struct {
	const char *name;
	size_t offset;
} limits[] = {
	{ "max-connections", offsetof(struct user_limits, connections) },
	{ "max-channels", offsetof(struct user_limits, channels) },
	{ "publish-rate", offsetof(struct user_limits, publish_rate) },
	{ "publish-bytes", offsetof(struct user_limits, publish_bytes) },
};
#define LIMIT_COUNT (sizeof(limits) / sizeof(limits[0]))
/* JSON has no greater whole number. */
#define LIMIT_MAX (UINT64_C(1) << 53)

struct user *user_create(struct slice name)
{
	struct user *u = mem_zalloc(sizeof(*u));

	u->refs = 1;
	u->name = mem_strndup(name.data, name.len);
	return u;
}

struct user *user_ref(struct user *u)
{
	u->refs++;
	return u;
}

static void free_grant(struct user_grant *g)
{
	for (int i = 0; i < USER_ACTION_COUNT; i++)
		user_pattern_deinit(&g->patterns[i]);
	mem_free(g->vhost);
	mem_free(g);
}

void user_unref(struct user *u)
{
	struct user_grant *g;

	if (!u || --u->refs > 0)
		return;
	while ((g = u->grants) != NULL) {
		u->grants = g->next;
		free_grant(g);
	}
	if (u->password)
		password_wipe(u->password, strlen(u->password));
	mem_free(u->password);
	mem_free(u->unreadable);
	mem_free(u->name);
	mem_free(u);
}

struct user *user_copy(const struct user *u)
{
	struct user *copy = user_create(slice_from(u->name));
	struct slice patterns[USER_ACTION_COUNT];
	const struct user_grant *g;

	copy->password = u->password ? mem_strdup(u->password) : NULL;
	copy->tags = u->tags;
	copy->limits = u->limits;
	copy->unreadable = u->unreadable ? mem_strdup(u->unreadable) : NULL;
	for (g = u->grants; g; g = g->next) {
		for (int i = 0; i < USER_ACTION_COUNT; i++)
			patterns[i] = slice_from(g->patterns[i].text);
		/* The patterns have been compiled before. */
		if (user_grant_set(copy, slice_from(g->vhost), patterns, NULL) < 0)
			mem_fail(sizeof(regex_t));
	}
	return copy;
}

#define SWAP(type, a, b)       \
	do {                   \
		type t_ = (a); \
		(a) = (b);     \
		(b) = t_;      \
	} while (0)

/* `u` becomes what `other` is, but for its name and its references; `other` loses it. */
static void user_swap(struct user *u, struct user *other)
{
	SWAP(char *, u->password, other->password);
	SWAP(unsigned, u->tags, other->tags);
	SWAP(struct user_grant *, u->grants, other->grants);
	SWAP(struct user_limits, u->limits, other->limits);
	SWAP(char *, u->unreadable, other->unreadable);
}

const char *user_action_name(enum user_action action)
{
	return action_names[action];
}

const char *user_tag_name(enum user_tag tag)
{
	return tag == USER_ADMIN ? "admin" : "monitor";
}

static int find_tag(struct slice name, unsigned *bits, struct error *err)
{
	for (int i = 0; i < USER_TAG_COUNT; i++) {
		if (!slice_is(name, tags[i].name))
			continue;
		*bits |= tags[i].tag;
		return TIDE_OK;
	}
	return error_set(err, TIDE_ESYNTAX,
			 "'%.*s' is no tag: expected admin, monitor, or nothing",
			 SLICE_HEAD(name, 40));
}

int user_parse_tags(struct slice text, unsigned *out, struct error *err)
{
	struct slice rest = text;
	unsigned bits = 0;
	int rc = TIDE_OK;

	while (rest.len > 0 && rc == TIDE_OK)
		rc = find_tag(slice_cut(&rest, ','), &bits, err);
	if (rc == TIDE_OK)
		*out = bits;
	return rc;
}

bool user_has_tag(const struct user *u, enum user_tag tag)
{
	return u->tags & (tag | USER_ADMIN);
}

uint64_t *user_limit(struct user_limits *of, struct slice name)
{
	for (size_t i = 0; i < LIMIT_COUNT; i++)
		if (slice_is(name, limits[i].name))
			return (uint64_t *)((char *)of + limits[i].offset);
	return NULL;
}

const char *user_limit_name(unsigned index)
{
	return index < LIMIT_COUNT ? limits[index].name : NULL;
}

const struct user_grant *user_grant_find(const struct user *u, struct slice vhost)
{
	const struct user_grant *g = u->grants;

	while (g && !slice_is(vhost, g->vhost))
		g = g->next;
	return g;
}

/* Where the vhost is, or belongs. */
static struct user_grant **find_place(struct user *u, struct slice vhost)
{
	struct user_grant **at = &u->grants;

	while (*at && slice_compare(slice_from((*at)->vhost), vhost) < 0)
		at = &(*at)->next;
	return at;
}

int user_grant_set(struct user *u, struct slice vhost,
		   const struct slice patterns[USER_ACTION_COUNT], struct error *err)
{
	struct user_grant *g = mem_zalloc(sizeof(*g)), **at = find_place(u, vhost), *old;
	int rc = TIDE_OK;

	for (int i = 0; i < USER_ACTION_COUNT && rc == TIDE_OK; i++)
		rc = user_pattern_init(&g->patterns[i], patterns[i], err);
	if (rc < 0) {
		free_grant(g);
		return rc;
	}
	g->vhost = mem_strndup(vhost.data, vhost.len);
	old = *at && slice_is(vhost, (*at)->vhost) ? *at : NULL;
	g->next = old ? old->next : *at;
	*at = g;
	if (old)
		free_grant(old);
	return TIDE_OK;
}

bool user_grant_remove(struct user *u, struct slice vhost)
{
	struct user_grant **at = find_place(u, vhost), *g = *at;

	if (!g || !slice_is(vhost, g->vhost))
		return false;
	*at = g->next;
	free_grant(g);
	return true;
}

bool user_grant_allows(const struct user_grant *g, enum user_action action,
		       struct slice name)
{
	return user_pattern_matches(&g->patterns[action], name);
}

static int refuse(struct error *err, const char *should)
{
	return error_set(err, TIDE_ESYNTAX, "should be %s", should);
}

static struct slice string_slice(const json_t *string)
{
	return (struct slice){ json_string_value(string), json_string_length(string) };
}

static int read_password(struct user *u, const json_t *value, struct error *err)
{
	if (!json_is_string(value) || !password_is_readable(string_slice(value)))
		return refuse(err, "{\"password\":\"$scrypt$ln=…,r=…,p=…$…$…\",…}");
	u->password = mem_strdup(json_string_value(value));
	return TIDE_OK;
}

static int read_tags(struct user *u, const json_t *value, struct error *err)
{
	const json_t *tag;
	size_t i;
	int rc = json_is_array(value) ? TIDE_OK : refuse(err, "{\"tags\":[…],…}");

	for (i = 0; rc == TIDE_OK && i < json_array_size(value); i++) {
		tag = json_array_get(value, i);
		rc = find_tag(json_is_string(tag) ? string_slice(tag) : SLICE(""),
			      &u->tags, err);
	}
	return rc;
}

static int read_grant(struct user *u, const char *vhost, json_t *value, struct error *err)
{
	struct slice patterns[USER_ACTION_COUNT] = { { 0 } };
	size_t found = 0;

	for (int i = 0; i < USER_ACTION_COUNT; i++) {
		const json_t *pattern = json_object_get(value, action_names[i]);

		found += json_is_string(pattern);
		if (json_is_string(pattern))
			patterns[i] = string_slice(pattern);
	}
	if (!json_is_object(value) || found != json_object_size(value))
		return refuse(err, "{\"vhosts\":{\"/\":{\"configure\":\"…\","
				   "\"write\":\"…\",\"read\":\"…\"}},…}");
	return user_grant_set(u, slice_from(vhost), patterns, err);
}

static int read_vhosts(struct user *u, json_t *value, struct error *err)
{
	const char *vhost;
	json_t *grant;
	int rc = json_is_object(value) ? TIDE_OK : refuse(err, "{\"vhosts\":{…},…}");

	json_object_foreach(value, vhost, grant) if (rc == TIDE_OK) rc =
		read_grant(u, vhost, grant, err);
	return rc;
}

static int read_limits(struct user *u, json_t *value, struct error *err)
{
	const char *name;
	json_t *number;
	int rc = json_is_object(value) ? TIDE_OK : refuse(err, "{\"limits\":{…},…}");

	json_object_foreach(value, name, number)
	{
		uint64_t *place = user_limit(&u->limits, slice_from(name));
		json_int_t n = json_integer_value(number);

		if (!place || !json_is_integer(number) || n < 0 ||
		    n > (json_int_t)LIMIT_MAX)
			rc = refuse(err, "{\"limits\":{\"max-connections\":100,…},…}");
		else
			*place = (uint64_t)n;
	}
	return rc;
}

/* An unknown member is refused: it may be what keeps the user from doing something. */
static int read_member(struct user *u, const char *name, json_t *value, struct error *err)
{
	if (strcmp(name, "password") == 0)
		return read_password(u, value, err);
	if (strcmp(name, "tags") == 0)
		return read_tags(u, value, err);
	if (strcmp(name, "vhosts") == 0)
		return read_vhosts(u, value, err);
	if (strcmp(name, "limits") == 0)
		return read_limits(u, value, err);
	return error_set(err, TIDE_ESYNTAX, "has an unknown member '%.40s'", name);
}

int user_parse(struct slice name, struct slice text, struct user **out, struct error *err)
{
	json_t *document = json_loadb(text.data, text.len, JSON_REJECT_DUPLICATES, NULL);
	const char *member;
	struct user *u;
	json_t *value;
	int rc = TIDE_OK;

	if (!slice_is_name(name) || !json_is_object(document)) {
		json_decref(document);
		return refuse(err, slice_is_name(name) ? "a JSON object"
						       : "a field that is a name");
	}
	u = user_create(name);
	json_object_foreach(document, member, value) if (rc == TIDE_OK) rc =
		read_member(u, member, value, err);
	json_decref(document);
	if (rc < 0)
		user_unref(u);
	else
		*out = u;
	return rc;
}

static void write_limits(const struct user *u, struct json *j)
{
	struct user_limits of = u->limits;

	json_member_object(j, "limits");
	for (size_t i = 0; i < LIMIT_COUNT; i++) {
		uint64_t n = *user_limit(&of, slice_from(limits[i].name));

		if (n > 0)
			json_member_int(j, limits[i].name, (int64_t)n);
	}
	json_object_end(j);
}

void user_write(const struct user *u, struct json *j)
{
	json_member_array(j, "tags");
	for (int i = 0; i < USER_TAG_COUNT; i++)
		if (u->tags & tags[i].tag)
			json_text(j, tags[i].name);
	json_array_end(j);
	json_member_object(j, "vhosts");
	for (const struct user_grant *g = u->grants; g; g = g->next) {
		json_member_object(j, g->vhost);
		for (int i = 0; i < USER_ACTION_COUNT; i++)
			json_member_text(j, action_names[i], g->patterns[i].text);
		json_object_end(j);
	}
	json_object_end(j);
	write_limits(u, j);
}

void user_format(const struct user *u, struct buf *out)
{
	struct json j = { .out = out };

	json_object_begin(&j);
	if (u->password)
		json_member_text(&j, "password", u->password);
	user_write(u, &j);
	json_object_end(&j);
}

void users_deinit(struct users *us)
{
	struct user *u, *next;

	HASH_ITER (hh, us->by_name, u, next) {
		HASH_DEL(us->by_name, u);
		user_unref(u);
	}
}

struct user *users_find(const struct users *us, struct slice name)
{
	struct user *u;

	HASH_FIND(hh, us->by_name, name.data, name.len, u);
	return u;
}

unsigned users_count(const struct users *us)
{
	return HASH_COUNT(us->by_name);
}

unsigned users_count_admins(const struct users *us)
{
	unsigned count = 0;

	for (const struct user *u = us->by_name; u; u = u->hh.next)
		count += !u->unreadable && user_has_tag(u, USER_ADMIN);
	return count;
}

static void tell(struct users *us, struct user *changed)
{
	us->version++;
	if (us->on_change)
		us->on_change(us->ctx, changed);
}

static void add(struct users *us, struct user *u)
{
	HASH_ADD_KEYPTR(hh, us->by_name, u->name, strlen(u->name), u);
}

void users_put_take(struct users *us, struct user *u)
{
	struct user *old = users_find(us, slice_from(u->name));

	if (old) {
		user_swap(old, u);
		user_unref(u);
	} else {
		add(us, u);
	}
	tell(us, old ? old : u);
}

bool users_remove(struct users *us, struct slice name)
{
	struct user *u = users_find(us, name);

	if (!u)
		return false;
	HASH_DEL(us->by_name, u);
	u->is_deleted = true;
	tell(us, u);
	user_unref(u);
	return true;
}

int users_restore(struct users *us, struct slice name, struct slice text,
		  struct error *err)
{
	struct user *u;
	int rc = user_parse(name, text, &u, err);

	if (rc < 0) {
		u = user_create(name);
		u->unreadable = mem_strdup(err->text);
	}
	add(us, u);
	us->version++;
	return rc;
}
