#include "subject.h"

#include "base/bytes.h"
#include "base/mem.h"

#define MEMORY_NAMES 64

struct subject_memory {
	uint64_t version; /* of the environment, when it was empty */
	struct subject_slot {
		char *name; /* NULL: free */
		size_t len;
		uint8_t action, kind;
	} slots[MEMORY_NAMES];
};

void subject_init(struct subject *s, const struct subject_env *env, struct slice vhost)
{
	*s = (struct subject){ .env = env, .vhost = mem_strndup(vhost.data, vhost.len) };
}

static void forget(struct subject_memory *m)
{
	for (unsigned i = 0; i < MEMORY_NAMES; i++)
		mem_free(m->slots[i].name);
	memset(m->slots, 0, sizeof(m->slots));
}

static void drop_memory(struct subject *s)
{
	if (s->memory)
		forget(s->memory);
	mem_free(s->memory);
	s->memory = NULL;
}

void subject_deinit(struct subject *s)
{
	drop_memory(s);
	user_unref(s->user);
	mem_free(s->vhost);
	mem_free(s->peer);
}

void subject_copy(struct subject *to, const struct subject *from)
{
	subject_init(to, from->env, slice_from(from->vhost));
	subject_set_user(to, from->user);
	subject_set_peer(to, from->peer);
}

void subject_set_vhost(struct subject *s, struct slice vhost)
{
	char *name = mem_strndup(vhost.data, vhost.len);

	drop_memory(s);
	mem_free(s->vhost);
	s->vhost = name;
}

void subject_set_user(struct subject *s, struct user *user)
{
	drop_memory(s);
	if (user)
		user_ref(user);
	user_unref(s->user);
	s->user = user;
}

void subject_set_peer(struct subject *s, const char *peer)
{
	char *copy = peer ? mem_strdup(peer) : NULL;

	mem_free(s->peer);
	s->peer = copy;
}

/* ---- what was allowed ------------------------------------------------------------ */

static struct subject_slot *find_slot(struct subject_memory *m, enum user_action action,
				      enum subject_kind kind, struct slice name)
{
	uint32_t hash = bytes_hash(name.data, name.len) + 7 * (uint32_t)action +
			31 * (uint32_t)kind;

	return &m->slots[hash % MEMORY_NAMES];
}

static bool is_remembered(struct subject *s, enum user_action action,
			  enum subject_kind kind, struct slice name)
{
	struct subject_memory *m = s->memory;
	const struct subject_slot *slot;

	if (!m)
		return false;
	if (m->version != s->env->version) {
		forget(m);
		m->version = s->env->version;
		return false;
	}
	slot = find_slot(m, action, kind, name);
	return slot->name && slot->action == action && slot->kind == kind &&
	       slot->len == name.len && bytes_is_equal(slot->name, name.data, name.len);
}

static void remember(struct subject *s, enum user_action action, enum subject_kind kind,
		     struct slice name)
{
	struct subject_slot *slot;

	if (!s->memory) {
		s->memory = mem_zalloc(sizeof(*s->memory));
		s->memory->version = s->env->version;
	}
	slot = find_slot(s->memory, action, kind, name);
	mem_free(slot->name);
	*slot = (struct subject_slot){ .name = mem_strndup(name.data, name.len),
				       .len = name.len,
				       .action = (uint8_t)action,
				       .kind = (uint8_t)kind };
}

/* ---- deciding -------------------------------------------------------------------- */

/* "user 'bob' may not write to exchange 'orders' in vhost '/'". Whether it is a queue or
 * a topic, or is there at all, is nothing that it may know. */
static int deny(const struct subject *s, enum user_action action, enum subject_kind kind,
		struct slice name, struct error *err)
{
	static const char *const verbs[] = { [USER_CONFIGURE] = "configure",
					     [USER_WRITE] = "write to",
					     [USER_READ] = "read from" };
	static const char *const kinds[] = { [SUBJECT_EXCHANGE] = "exchange",
					     [SUBJECT_QUEUE] = "queue or topic",
					     [SUBJECT_TOPIC] = "queue or topic",
					     [SUBJECT_LOCK] = "lock" };

	return error_set(err, TIDE_EDENIED,
			 "%s%s%s may not %s %s '%" SLICE_FMT "' in vhost '%s'",
			 s->user ? "user '" : "a client without login",
			 s->user ? s->user->name : "", s->user ? "'" : "", verbs[action],
			 kinds[kind], SLICE_ARG(name), s->vhost);
}

static int ask_table(const struct subject *s, enum user_action action,
		     enum subject_kind kind, struct slice name, struct error *err)
{
	const struct user_grant *grant;

	if (!s->user)
		return TIDE_OK;
	if (s->user->is_deleted)
		return error_set(err, TIDE_EDENIED, "user '%s' was deleted",
				 s->user->name);
	grant = user_grant_find(s->user, slice_from(s->vhost));
	if (grant && user_grant_allows(grant, action, name))
		return TIDE_OK;
	return deny(s, action, kind, name, err);
}

int subject_ask(struct subject *s, enum user_action action, enum subject_kind kind,
		struct slice name, struct error *err)
{
	int rc;

	if (is_remembered(s, action, kind, name))
		return TIDE_OK;
	rc = ask_table(s, action, kind, name, err);
	if (rc == TIDE_OK)
		remember(s, action, kind, name);
	return rc;
}

bool subject_may_all(const struct subject *s, enum user_action action)
{
	const struct user_grant *grant;

	if (subject_is_free(s))
		return true;
	if (s->env->scripts || s->user->is_deleted)
		return false;
	grant = user_grant_find(s->user, slice_from(s->vhost));
	return grant && grant->patterns[action].is_all;
}

int subject_check_tag(const struct subject *s, enum user_tag tag, const char *what,
		      struct error *err)
{
	if (!s->user || (user_has_tag(s->user, tag) && !s->user->is_deleted))
		return TIDE_OK;
	return error_set(err, TIDE_EDENIED,
			 "%s needs a user with the tag %s, and user '%s' has not", what,
			 user_tag_name(tag), s->user->name);
}
