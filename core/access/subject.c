#include "subject.h"

#include "base/bytes.h"
#include "base/mem.h"
#include "network.h"
#include "rules/engine/auth.h"

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
	mem_free(s->address);
}

void subject_copy(struct subject *to, const struct subject *from)
{
	subject_init(to, from->env, slice_from(from->vhost));
	subject_set_user(to, from->user);
	if (from->address)
		to->address = mem_strdup(from->address);
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

void subject_set_address(struct subject *s, const char *address)
{
	struct slice host = network_host(address);
	char *copy = host.data ? mem_strndup(host.data, host.len) : NULL;

	mem_free(s->address);
	s->address = copy;
}

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

_Static_assert((int)USER_MONITOR == (int)AUTH_MONITOR &&
		       (int)USER_ADMIN == (int)AUTH_ADMIN,
	       "tags are passed on as they are");

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
			 "user '%s' may not %s %s '%" SLICE_FMT "' in vhost '%s'",
			 s->user->name, verbs[action], kinds[kind], SLICE_ARG(name),
			 s->vhost);
}

/* TIDE_EMPTY: none has an opinion. */
static int ask_scripts(const struct subject *s, enum user_action action,
		       enum subject_kind kind, struct slice name, struct error *err)
{
	static const char *const kinds[] = { [SUBJECT_EXCHANGE] = "exchange",
					     [SUBJECT_QUEUE] = "queue",
					     [SUBJECT_TOPIC] = "topic",
					     [SUBJECT_LOCK] = "lock" };
	const struct auth_question question = { .user = slice_from(s->user->name),
						.vhost = slice_from(s->vhost),
						.address = slice_from(s->address),
						.tags = s->user->tags,
						.action = user_action_name(action),
						.kind = kinds[kind],
						.name = name };
	struct auth_decision d;
	struct error why;
	int rc = auth_authorize(s->env->scripts, &question, &d, &why);

	if (rc == TIDE_OK && d.verdict != AUTH_REFUSE) {
		rc = d.verdict == AUTH_ALLOW ? TIDE_OK : TIDE_EMPTY;
		auth_decision_deinit(&d);
		return rc;
	}
	/* RULES status shows the error of the script. */
	deny(s, action, kind, name, err);
	error_set(err, TIDE_EDENIED, "%s: %s (%s)", err->text,
		  rc == TIDE_OK ? d.reason : "a script has failed", d.file);
	if (rc == TIDE_OK)
		auth_decision_deinit(&d);
	return TIDE_EDENIED;
}

static int ask_table(const struct subject *s, enum user_action action,
		     enum subject_kind kind, struct slice name, struct error *err)
{
	const struct user_grant *grant = user_grant_find(s->user, slice_from(s->vhost));

	if (grant && user_grant_allows(grant, action, name))
		return TIDE_OK;
	return deny(s, action, kind, name, err);
}

/* Protocols ask before: nobody comes here who has not logged in. */
static int refuse_stranger(struct error *err)
{
	return error_set(err, TIDE_EDENIED, "log in first");
}

int subject_ask(struct subject *s, enum user_action action, enum subject_kind kind,
		struct slice name, struct error *err)
{
	int rc = TIDE_EMPTY;

	if (!s->user)
		return refuse_stranger(err);
	if (s->user->is_deleted)
		return error_set(err, TIDE_EDENIED, "user '%s' was deleted",
				 s->user->name);
	if (is_remembered(s, action, kind, name))
		return TIDE_OK;
	if (s->env->scripts)
		rc = ask_scripts(s, action, kind, name, err);
	if (rc == TIDE_EMPTY)
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
	if (s->env->scripts || !s->user || s->user->is_deleted)
		return false;
	grant = user_grant_find(s->user, slice_from(s->vhost));
	return grant && grant->patterns[action].is_all;
}

int subject_check_tag(const struct subject *s, enum user_tag tag, const char *what,
		      struct error *err)
{
	if (subject_is_free(s))
		return TIDE_OK;
	if (!s->user)
		return refuse_stranger(err);
	if (user_has_tag(s->user, tag) && !s->user->is_deleted)
		return TIDE_OK;
	return error_set(err, TIDE_EDENIED,
			 "%s needs a user with the tag %s, and user '%s' has not", what,
			 user_tag_name(tag), s->user->name);
}
