#include "login_delay.h"

#include <arpa/inet.h>
#include <stdio.h>

#include "base/mem.h"

#define IPV6_NETWORK_BYTES 8

struct login_delay_entry {
	UT_hash_handle hh;
	TAILQ_ENTRY(login_delay_entry) link;
	int64_t delay_ms;
	int64_t until_ms; /* when the last failure is told */
	size_t key_len;
	char key[];
};

/* "[2001:db8::1]:50412" */
static bool add_network(struct buf *out, struct slice address)
{
	char text[INET6_ADDRSTRLEN];
	struct in6_addr ip;

	if (!slice_has_prefix(address, "["))
		return false;
	address = slice_skip(address, 1);
	address.len = slice_find(address, ']');
	snprintf(text, sizeof(text), "%.*s", SLICE_HEAD(address, sizeof(text) - 1));
	if (inet_pton(AF_INET6, text, &ip) != 1)
		return false;
	/* An IPv4 address in its place is one address, and no network. */
	buf_append(out, ip.s6_addr,
		   IN6_IS_ADDR_V4MAPPED(&ip) ? sizeof(ip.s6_addr) : IPV6_NETWORK_BYTES);
	return true;
}

void login_delay_key(struct buf *out, const char *address, bool is_local,
		     struct slice user)
{
	struct slice text = slice_from(address ? address : "");

	if (!add_network(out, text))
		buf_append_slice(out, slice_cut(&text, ':'));
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
