#include "allowance.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/mem.h"

#define MILLI 1000
/* A second's worth of more is more than what can be counted. */
#define RATE_MAX (UINT64_MAX / MILLI / 2)

enum limit { CONNECTIONS, CHANNELS, RATE, BYTES };

/* Users' are those of `USER set`, addresses' are options of serve, connections' are of a
 * script of connect/. */
static const char *const names[][3] = {
	[CONNECTIONS] = { "max-connections=", "--address-connections ", "" },
	[CHANNELS] = { "max-channels=", "--address-channels ", "max_channels = " },
	[RATE] = { "publish-rate=", "--address-publish-rate ", "publish_rate = " },
	[BYTES] = { "publish-bytes=", "--address-publish-bytes ", "publish_bytes = " },
};
static const char *const owners[] = { "user '", "address ", "connection " };

void allowance_init(struct allowances *as)
{
	*as = (struct allowances){ 0 };
	TAILQ_INIT(&as->idle);
}

static void forget(struct allowance *a)
{
	struct allowances *as = a->all;

	TAILQ_REMOVE(&as->idle, a, link);
	as->idle_count--;
	HASH_DEL(as->by_key, a);
	mem_free(a);
}

void allowance_deinit(struct allowances *as)
{
	struct allowance *a;

	while ((a = TAILQ_FIRST(&as->idle)) != NULL)
		forget(a);
}

static struct allowance *create(struct allowances *as, enum allowance_kind kind,
				struct slice name)
{
	struct allowance *a = mem_zalloc(sizeof(*a) + name.len + 2);

	a->all = as;
	a->kind = kind;
	a->name_len = name.len;
	a->key[0] = (char)kind;
	memcpy(a->key + 1, name.data, name.len);
	HASH_ADD_KEYPTR(hh, as->by_key, a->key, name.len + 1, a);
	TAILQ_INSERT_TAIL(&as->idle, a, link);
	as->idle_count++;
	return a;
}

static struct allowance *find(const struct allowances *as, enum allowance_kind kind,
			      struct slice name)
{
	struct buf key = { 0 };
	struct allowance *a;

	buf_append_char(&key, (char)kind);
	buf_append_slice(&key, name);
	HASH_FIND(hh, as->by_key, buf_slice(&key).data, buf_len(&key), a);
	buf_deinit(&key);
	return a;
}

static int refuse(const struct allowance *a, enum limit limit, uint64_t value,
		  int64_t wait_ms, struct error *err)
{
	bool is_user = a->kind == ALLOWANCE_USER;
	char wait[64] = "";

	if (wait_ms)
		snprintf(wait, sizeof(wait), "; try again in %" PRId64 " ms", wait_ms);
	return error_set(err, TIDE_ELIMIT, "%s%s%s has reached %s%" PRIu64 "%s",
			 owners[a->kind], a->key + 1, is_user ? "'" : "",
			 names[limit][a->kind], value, wait);
}

/* A debt takes as long as before to be made good. */
static void scale(struct allowance_bucket *b, uint64_t from, uint64_t to)
{
	b->used = from ? (uint64_t)((double)b->used * ((double)to / (double)from)) : 0;
}

static void set_limits(struct allowance *a, const struct user_limits *to)
{
	scale(&a->messages, a->limits.publish_rate, to->publish_rate);
	scale(&a->bytes, a->limits.publish_bytes, to->publish_bytes);
	a->limits = *to;
}

int allowance_enter(struct allowances *as, enum allowance_kind kind, struct slice name,
		    const struct user_limits *limits, struct allowance **out,
		    struct error *err)
{
	struct allowance *a = find(as, kind, name);
	uint64_t max = limits->connections;

	if (!a)
		a = create(as, kind, name);
	set_limits(a, limits);
	/* A limit is at least 1: who has no connection is not refused, and is not idle
	 * for ever. */
	if (max && a->connections >= max) {
		a->refused.connections++;
		as->refused.connections++;
		return refuse(a, CONNECTIONS, max, 0, err);
	}
	if (a->connections++ == 0) {
		TAILQ_REMOVE(&as->idle, a, link);
		as->idle_count--;
	}
	*out = a;
	return TIDE_OK;
}

static uint64_t bound(uint64_t rate)
{
	return rate < RATE_MAX ? rate : RATE_MAX;
}

static void fill(struct allowance_bucket *b, uint64_t rate, int64_t mono_ms)
{
	uint64_t passed_ms = mono_ms > b->at_ms ? (uint64_t)(mono_ms - b->at_ms) : 0;

	b->at_ms = mono_ms;
	b->used = passed_ms > b->used / rate ? 0 : b->used - passed_ms * rate;
}

/* How long until there is something in it; 0: there is now. */
static int64_t wait_ms(struct allowance_bucket *b, uint64_t rate, int64_t mono_ms)
{
	uint64_t full;

	if (!rate)
		return 0;
	rate = bound(rate);
	full = (rate - 1) * MILLI;
	fill(b, rate, mono_ms);
	return b->used > full ? (int64_t)((b->used - full + rate - 1) / rate) : 0;
}

/* Has more been published than allowed by now? */
static bool is_behind(struct allowance_bucket *b, uint64_t rate, int64_t mono_ms)
{
	if (!rate)
		return false;
	fill(b, bound(rate), mono_ms);
	return b->used > 0;
}

static void forget_idle(struct allowances *as, int64_t mono_ms)
{
	struct allowance *a;

	while ((a = TAILQ_FIRST(&as->idle)) != NULL &&
	       (as->idle_count > ALLOWANCE_IDLE_MAX ||
		(!is_behind(&a->messages, a->limits.publish_rate, mono_ms) &&
		 !is_behind(&a->bytes, a->limits.publish_bytes, mono_ms))))
		forget(a);
}

void allowance_leave(struct allowance *a, int64_t mono_ms)
{
	struct allowances *as;

	if (!a || --a->connections > 0)
		return;
	as = a->all;
	TAILQ_INSERT_TAIL(&as->idle, a, link);
	as->idle_count++;
	forget_idle(as, mono_ms);
}

void allowance_change(struct allowances *as, struct slice name,
		      const struct user_limits *limits)
{
	struct allowance *a = find(as, ALLOWANCE_USER, name);

	if (a)
		set_limits(a, limits);
}

int allowance_check_channels(struct allowance *a, uint64_t more, struct error *err)
{
	uint64_t max = a ? a->limits.channels : 0;

	if (!max || more == 0 || (a->channels < max && more <= max - a->channels))
		return TIDE_OK;
	a->refused.channels++;
	a->all->refused.channels++;
	return refuse(a, CHANNELS, max, 0, err);
}

void allowance_add_channels(struct allowance *a, uint64_t count)
{
	if (a)
		a->channels += count;
}

void allowance_remove_channels(struct allowance *a, uint64_t count)
{
	if (a)
		a->channels -= count;
}

bool allowance_is_metered(const struct allowance *a)
{
	return a && (a->limits.publish_rate || a->limits.publish_bytes);
}

int64_t allowance_wait_ms(struct allowance *a, int64_t mono_ms)
{
	int64_t rate_ms, bytes_ms;

	if (!allowance_is_metered(a))
		return 0;
	rate_ms = wait_ms(&a->messages, a->limits.publish_rate, mono_ms);
	bytes_ms = wait_ms(&a->bytes, a->limits.publish_bytes, mono_ms);
	return rate_ms > bytes_ms ? rate_ms : bytes_ms;
}

int allowance_check_publish(struct allowance *a, int64_t mono_ms, struct error *err)
{
	const struct user_limits *l;
	int64_t rate_ms, bytes_ms;

	if (!allowance_is_metered(a))
		return TIDE_OK;
	l = &a->limits;
	rate_ms = wait_ms(&a->messages, l->publish_rate, mono_ms);
	bytes_ms = wait_ms(&a->bytes, l->publish_bytes, mono_ms);
	if (!rate_ms && !bytes_ms)
		return TIDE_OK;
	a->refused.publishes++;
	a->all->refused.publishes++;
	return rate_ms >= bytes_ms ? refuse(a, RATE, l->publish_rate, rate_ms, err)
				   : refuse(a, BYTES, l->publish_bytes, bytes_ms, err);
}

static void count(struct allowance_bucket *b, uint64_t rate, uint64_t n, int64_t mono_ms)
{
	if (!rate)
		return;
	fill(b, bound(rate), mono_ms);
	b->used += n * MILLI;
}

void allowance_count_publish(struct allowance *a, size_t bytes, int64_t mono_ms)
{
	if (!a)
		return;
	count(&a->messages, a->limits.publish_rate, 1, mono_ms);
	count(&a->bytes, a->limits.publish_bytes, bytes, mono_ms);
}

void allowance_write(const struct allowance *a, struct json *out)
{
	struct user_limits l;
	const char *name;

	if (!a)
		return;
	l = a->limits;
	if (!l.connections && !l.channels && !l.publish_rate && !l.publish_bytes)
		return;
	json_member_object(out,
			   a->kind == ALLOWANCE_USER ? "user_limits" : "address_limits");
	json_member_text(out, a->kind == ALLOWANCE_USER ? "user" : "address", a->key + 1);
	json_member_int(out, "connections", (int64_t)a->connections);
	json_member_int(out, "channels", (int64_t)a->channels);
	json_member_int(out, "refused",
			(int64_t)(a->refused.connections + a->refused.channels +
				  a->refused.publishes));
	for (unsigned i = 0; (name = user_limit_name(i)) != NULL; i++)
		if (*user_limit(&l, slice_from(name)))
			json_member_int(out, name,
					(int64_t)*user_limit(&l, slice_from(name)));
	json_object_end(out);
}
