#include "users.h"

#include "base/mem.h"

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
