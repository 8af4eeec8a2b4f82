#include "login_delay.h"

#include "base/mem.h"
#include "network.h"

struct login_delay_entry {
	UT_hash_handle hh;
	TAILQ_ENTRY(login_delay_entry) link;
	int64_t delay_ms;
	int64_t until_ms; /* when the last failure is told */
	size_t key_len;
	char key[];
};

void login_delay_key(struct buf *out, const char *address, bool is_local,
		     struct slice user)
{
	char network[NETWORK_TEXT_MAX];

	network_name(address, network);
	buf_append_text(out, network);
	if (!is_local)
		return;
	buf_append_char(out, ' ');
	buf_append_slice(out, user);
}

void login_delay_init(struct login_delays *d)
{
	*d = (struct login_delays){ 0 };
	TAILQ_INIT(&d->list);
}

static void forget(struct login_delays *d, struct login_delay_entry *e)
{
	HASH_DEL(d->by_key, e);
	TAILQ_REMOVE(&d->list, e, link);
	mem_free(e);
}

void login_delay_deinit(struct login_delays *d)
{
	struct login_delay_entry *e;

	while ((e = TAILQ_FIRST(&d->list)) != NULL)
		forget(d, e);
}

static struct login_delay_entry *find(const struct login_delays *d, struct slice key)
{
	struct login_delay_entry *e;

	HASH_FIND(hh, d->by_key, key.data, key.len, e);
	return e;
}

static void forget_old(struct login_delays *d, int64_t mono_ms)
{
	struct login_delay_entry *e;

	while ((e = TAILQ_FIRST(&d->list)) != NULL &&
	       (e->until_ms + LOGIN_DELAY_FORGET_MS <= mono_ms ||
		HASH_COUNT(d->by_key) >= LOGIN_DELAY_ENTRIES_MAX))
		forget(d, e);
}

static struct login_delay_entry *create(struct login_delays *d, struct slice key)
{
	struct login_delay_entry *e = mem_zalloc(sizeof(*e) + key.len);

	e->key_len = key.len;
	memcpy(e->key, key.data, key.len);
	HASH_ADD_KEYPTR(hh, d->by_key, e->key, e->key_len, e);
	TAILQ_INSERT_TAIL(&d->list, e, link);
	return e;
}

int64_t login_delay_add(struct login_delays *d, struct slice key, int64_t mono_ms)
{
	struct login_delay_entry *e;

	forget_old(d, mono_ms);
	e = find(d, key);
	if (!e)
		e = create(d, key);
	e->delay_ms = e->delay_ms ? 2 * e->delay_ms : LOGIN_DELAY_FIRST_MS;
	if (e->delay_ms > LOGIN_DELAY_MAX_MS)
		e->delay_ms = LOGIN_DELAY_MAX_MS;
	e->until_ms = mono_ms + e->delay_ms;
	TAILQ_REMOVE(&d->list, e, link);
	TAILQ_INSERT_TAIL(&d->list, e, link);
	return e->delay_ms;
}

int64_t login_delay_until_ms(const struct login_delays *d, struct slice key,
			     int64_t mono_ms)
{
	const struct login_delay_entry *e = find(d, key);

	return e && e->until_ms > mono_ms ? e->until_ms : 0;
}
