#include "user_change.h"

#include "base/mem.h"
#include "host/log.h"
#include "store/store.h"

struct user_change {
	STAILQ_ENTRY(user_change) link;
	struct user_changes *owner;
	struct user_change_spec spec; /* its texts are copies */
	char *copies[4 + USER_ACTION_COUNT];
	struct user *author; /* a reference */
	struct user *made;   /* what the user is to be; NULL of one to be deleted */
	bool is_begun;
};

void user_change_init(struct user_changes *cs, struct users *users,
		      struct password_work *work)
{
	*cs = (struct user_changes){ .users = users, .work = work };
	STAILQ_INIT(&cs->list);
}

static struct slice keep(struct user_change *c, int i, struct slice text)
{
	c->copies[i] = text.data ? mem_strndup(text.data, text.len) : NULL;
	return (struct slice){ c->copies[i], text.len };
}

static struct user_change *create(struct user_changes *cs,
				  const struct user_change_spec *spec)
{
	struct user_change *c = mem_zalloc(sizeof(*c));

	c->owner = cs;
	c->spec = *spec;
	c->spec.password = keep(c, 0, spec->password);
	c->spec.name = keep(c, 1, spec->name);
	c->spec.tags = keep(c, 2, spec->tags);
	c->spec.vhost = keep(c, 3, spec->vhost);
	for (int i = 0; i < USER_ACTION_COUNT; i++)
		c->spec.patterns[i] = keep(c, 4 + i, spec->patterns[i]);
	c->author = spec->author ? user_ref(spec->author) : NULL;
	return c;
}

static void destroy(struct user_change *c)
{
	if (c->spec.password.data)
		password_wipe(c->copies[0], c->spec.password.len);
	for (size_t i = 0; i < sizeof(c->copies) / sizeof(c->copies[0]); i++)
		mem_free(c->copies[i]);
	user_unref(c->author);
	user_unref(c->made);
	mem_free(c);
}

/* The author may have been deleted since, or somebody may have become the first user. */
static int check_author(const struct user_change *c, struct error *err)
{
	const struct user *a = c->author;

	if (a ? !a->is_deleted && user_has_tag(a, USER_ADMIN)
	      : users_count(c->owner->users) == 0)
		return TIDE_OK;
	return error_set(err, TIDE_EDENIED, "USER needs a user with the tag admin");
}

static int find(const struct user_change *c, const struct user **out, struct error *err)
{
	const struct user *u = users_find(c->owner->users, c->spec.name);

	*out = u;
	if (!u)
		return error_set(err, TIDE_ENOTFOUND, "there is no user '%" SLICE_FMT "'",
				 SLICE_ARG(c->spec.name));
	if (u->unreadable && c->spec.kind != USER_CHANGE_DELETE)
		return error_set(err, TIDE_EDENIED,
				 "what Redis has of user '%s' cannot be read; delete and "
				 "add it again",
				 u->name);
	return TIDE_OK;
}

static bool is_last_admin(const struct user_change *c, const struct user *u)
{
	return !u->unreadable && user_has_tag(u, USER_ADMIN) &&
	       users_count_admins(c->owner->users) == 1;
}

static int check_delete(const struct user_change *c, const struct user *u,
			struct error *err)
{
	bool is_last = users_count(c->owner->users) == 1;

	if (is_last && c->owner->must_have_users)
		return error_set(err, TIDE_EDENIED,
				 "user '%s' is the last one, and a listener of this "
				 "broker can be reached by others: everybody could do "
				 "everything",
				 u->name);
	if (!is_last && is_last_admin(c, u))
		return error_set(err, TIDE_EDENIED,
				 "user '%s' is the last one with the tag admin; delete "
				 "the other users first",
				 u->name);
	return TIDE_OK;
}

static void set_limits(struct user_change *c)
{
	for (unsigned i = 0; user_limit_name(i); i++) {
		struct slice name = slice_from(user_limit_name(i));

		if (c->spec.has_limit & 1u << i)
			*user_limit(&c->made->limits, name) =
				*user_limit(&c->spec.limits, name);
	}
}

static int make_new(struct user_change *c, struct error *err)
{
	static const struct slice everything[USER_ACTION_COUNT] = { SLICE(".*"),
								    SLICE(".*"),
								    SLICE(".*") };
	const struct users *us = c->owner->users;
	bool is_first = users_count(us) == 0;
	unsigned tags = 0;

	if (users_find(us, c->spec.name))
		return error_set(err, TIDE_EEXISTS,
				 "there is a user '%" SLICE_FMT "' already",
				 SLICE_ARG(c->spec.name));
	if (user_parse_tags(c->spec.tags, &tags, err) < 0)
		return err->code;
	if (is_first && !(tags & USER_ADMIN && c->spec.password.data))
		return error_set(err, TIDE_EDENIED,
				 "the first user needs the tag admin and a password: "
				 "USER add <name> pass=<password> tags=admin");
	c->made = user_create(c->spec.name);
	c->made->tags = tags;
	set_limits(c);
	/* A client without a login could do everything, and goes on so. */
	return is_first ? user_grant_set(c->made, SLICE("/"), everything, err) : TIDE_OK;
}

static int set_all(struct user_change *c, const struct user *u, struct error *err)
{
	unsigned tags = u->tags;

	if (c->spec.tags.data && user_parse_tags(c->spec.tags, &tags, err) < 0)
		return err->code;
	if (!(tags & USER_ADMIN) && is_last_admin(c, u))
		return error_set(err, TIDE_EDENIED,
				 "user '%s' is the last one with the tag admin, and "
				 "keeps it",
				 u->name);
	c->made->tags = tags;
	set_limits(c);
	return TIDE_OK;
}

static int take_grant(struct user_change *c, struct error *err)
{
	if (user_grant_remove(c->made, c->spec.vhost))
		return TIDE_OK;
	return error_set(err, TIDE_ENOTFOUND,
			 "user '%s' has no grant for vhost '%" SLICE_FMT "'",
			 c->made->name, SLICE_ARG(c->spec.vhost));
}

/* Make what the user is to be, but for a password. */
static int make(struct user_change *c, struct error *err)
{
	const struct user *u;
	int rc = check_author(c, err);

	if (rc < 0)
		return rc;
	if (c->spec.kind == USER_CHANGE_ADD)
		return make_new(c, err);
	rc = find(c, &u, err);
	if (rc == TIDE_OK && c->spec.kind == USER_CHANGE_DELETE)
		return check_delete(c, u, err);
	if (rc < 0)
		return rc;
	c->made = user_copy(u);
	if (c->spec.kind == USER_CHANGE_SET)
		return set_all(c, u, err);
	if (c->spec.kind == USER_CHANGE_GRANT)
		return user_grant_set(c->made, c->spec.vhost, c->spec.patterns, err);
	return c->spec.kind == USER_CHANGE_REVOKE ? take_grant(c, err) : TIDE_OK;
}

static void run(struct user_changes *cs);

static void end(struct user_change *c, struct user *user, int status, const char *text)
{
	struct user_changes *cs = c->owner;

	STAILQ_REMOVE_HEAD(&cs->list, link);
	cs->is_closing |= status == TIDE_ESHUTDOWN;
	c->spec.on_done(c->spec.ctx, user, status, text);
	destroy(c);
	run(cs);
}

static void apply(struct user_change *c)
{
	struct users *us = c->owner->users;
	struct user *u = users_find(us, c->spec.name);

	u = user_ref(u ? u : c->made);
	if (c->made)
		users_put_take(us, user_ref(c->made));
	else
		users_remove(us, c->spec.name);
	end(c, u, TIDE_OK, NULL);
	user_unref(u);
}

static void on_stored(void *ctx, int status, const char *text)
{
	struct user_change *c = ctx;

	if (status < 0)
		end(c, NULL, status, text);
	else
		apply(c);
}

static void write_user(struct store *store, const struct user *u, store_done_fn on_done,
		       void *ctx)
{
	struct buf text = { 0 };

	user_format(u, &text);
	store_definition_set(store, STORE_USERS, SLICE(""), slice_from(u->name),
			     buf_slice(&text), on_done, ctx);
	password_wipe(text.data, text.cap);
	buf_deinit(&text);
}

static void on_rewritten(void *ctx, int status, const char *text)
{
	if (status < 0 && status != TIDE_ESHUTDOWN)
		log_error("Redis lacks a user, who cannot be written again: %s",
			  text ? text : error_text(status));
}

void user_change_write_all(const struct users *us, struct store *store)
{
	struct user *u, *next;

	HASH_ITER (hh, us->by_name, u, next)
		if (!u->unreadable)
			write_user(store, u, on_rewritten, NULL);
}

static void keep_in_redis(struct user_change *c)
{
	struct store *store = c->owner->store;

	if (!store) {
		apply(c);
	} else if (c->made) {
		write_user(store, c->made, on_stored, c);
	} else {
		store_definition_remove(store, STORE_USERS, SLICE(""), c->spec.name,
					on_stored, c);
	}
}

static void on_hashed(void *ctx, const struct password_result *result)
{
	struct user_change *c = ctx;

	if (result->status < 0 || c->owner->is_closing) {
		end(c, NULL, result->status < 0 ? result->status : TIDE_ESHUTDOWN,
		    result->status < 0 ? result->why : NULL);
		return;
	}
	mem_free(c->made->password);
	c->made->password = mem_strdup(result->text);
	keep_in_redis(c);
}

static void begin(struct user_change *c)
{
	struct user_changes *cs = c->owner;
	struct error err;

	c->is_begun = true;
	if (make(c, &err) < 0)
		end(c, NULL, err.code, err.text);
	else if (c->spec.password.data)
		password_work_hash(cs->work, c->spec.password, on_hashed, c);
	else
		keep_in_redis(c);
}

/* Many may end at once: they do not call each other. */
static void run(struct user_changes *cs)
{
	struct user_change *c;

	if (cs->is_running)
		return;
	cs->is_running = true;
	while (!cs->is_closing && (c = STAILQ_FIRST(&cs->list)) != NULL && !c->is_begun)
		begin(c);
	cs->is_running = false;
}

void user_change_start(struct user_changes *cs, const struct user_change_spec *spec)
{
	struct user_change *c = create(cs, spec);

	STAILQ_INSERT_TAIL(&cs->list, c, link);
	run(cs);
}

void user_change_deinit(struct user_changes *cs)
{
	struct user_change *c;

	while ((c = STAILQ_FIRST(&cs->list)) != NULL) {
		STAILQ_REMOVE_HEAD(&cs->list, link);
		c->spec.on_done(c->spec.ctx, NULL, TIDE_ESHUTDOWN,
				"the broker is stopping");
		destroy(c);
	}
}
