#include "redis_holder.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "host/log.h"
#include "host/machine.h"
#include "layout.h"
#include "redis_trouble.h"
#include "resp.h"
#include "scripts.h"
#include "slots.h"
#include "tls/secret.h"

#define NAME "tidemq"
/* Connections of a holder are named NAME_HELD<incarnation>. */
#define NAME_HELD NAME ":"
#define STORE_SECRET_BYTES 32
/* Redis counts whole seconds: less than two of them. A holder is heard more often. */
#define ALIVE_IDLE_SECONDS 1
#define LAPSED_LOOKS 8
/* In so many looks a connection that is alive must have been heard of since the first. */
#define ALIVE_LOOKS 10

/* Redis may be out of memory, and what frees some are the acks that the holder takes. */
#define TAKE_FLAGS "#!lua flags=allow-oom\n"

TIDE_PRINTF(2, 3)
static void add(struct buf *out, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	resp_command(out, format, args);
	va_end(args);
}

void redis_self_init(struct redis_self *self)
{
	snprintf(self->incarnation, sizeof(self->incarnation), "%016llx",
		 (unsigned long long)machine_random());
	process_self(&self->process);
	self->epoch = 0;
}

static void forget_record(struct redis_holder *h)
{
	h->has_held = h->has_taken = false;
	h->writes = h->confirmed = 0;
	h->last_seen[0] = h->taken_from[0] = '\0';
}

void redis_holder_set_key(struct redis_holder *h, const char *key, const char *probe)
{
	size_t key_len = strlen(key);

	forget_record(h);
	snprintf(h->key, sizeof(h->key), "%s", key);
	snprintf(h->count, sizeof(h->count),
		 "*4\r\n$7\r\nHINCRBY\r\n$%zu\r\n%s\r\n$6\r\nwrites\r\n$1\r\n1\r\n",
		 key_len, key);
	snprintf(h->beat, sizeof(h->beat),
		 "*3\r\n$4\r\nHGET\r\n$%zu\r\n%s\r\n$11\r\nincarnation\r\n"
		 "*5\r\n$4\r\nZADD\r\n$%zu\r\n%s\r\n$2\r\nXX\r\n$1\r\n0\r\n"
		 "$5\r\nprobe\r\n"
		 "*2\r\n$4\r\nINFO\r\n$11\r\nreplication\r\n",
		 key_len, key, strlen(probe), probe);
}

void redis_holder_move(struct redis_holder *from, struct redis_holder *to)
{
	to->has_held = from->has_held;
	to->has_taken = from->has_taken;
	to->writes = from->writes;
	to->confirmed = from->confirmed;
	to->taken_at = from->taken_at;
	memcpy(to->taken_from, from->taken_from, sizeof(to->taken_from));
	to->is_guest = from->is_guest;
	memcpy(to->key, from->key, sizeof(to->key));
	memcpy(to->count, from->count, sizeof(to->count));
	memcpy(to->beat, from->beat, sizeof(to->beat));
	forget_record(from);
}

void redis_holder_deinit(struct redis_holder *h)
{
	buf_deinit(&h->fence);
}

void redis_holder_begin(struct redis_holder *h, unsigned redis_major)
{
	h->has_flags = redis_major >= 7;
	h->step = HOLDER_LOOK;
	h->alive_looks = h->lapsed_looks = 0;
	if (h->is_confirmed_late)
		h->writes = h->confirmed;
}

/* Its record is {tide}:holder, and {tide}:cluster in the same slot has the secret. */
static bool has_secret(const struct redis_holder *h)
{
	return h->self->at && !h->is_guest;
}

static unsigned add_look(struct redis_holder *h, struct buf *out)
{
	unsigned count = 4;

	h->record = (struct redis_holder_record){ .is_released = true };
	h->is_old = !h->has_slots;
	h->is_locked = h->has_slots;
	h->reason[0] = '\0';
	h->is_other_alive = h->is_elsewhere = h->lacks_replicas = false;
	buf_clear(&h->fence);
	h->fence_count = 0;
	add(out, "CLIENT SETNAME %s%s", h->has_taken ? NAME_HELD : NAME,
	    h->has_taken ? h->self->incarnation : "");
	add(out, "CLIENT ID");
	add(out, "HGETALL %s", h->key);
	add(out, "CLIENT LIST TYPE normal");
	if (!h->has_slots) {
		add(out, "HGETALL " LAYOUT_OLD_HOLDER_KEY);
		count++;
	}
	if (has_secret(h)) {
		add(out, "HGET " LAYOUT_CLUSTER_KEY " secret");
		h->secret_index = count++;
	}
	return count;
}

static unsigned add_take(struct redis_holder *h, struct buf *out)
{
	const struct process *self = &h->self->process;
	long long now_ms = (long long)machine_clock_ms(CLOCK_REALTIME);
	const char *key = h->is_old ? LAYOUT_OLD_HOLDER_KEY : h->key;
	char secret[SECRET_MAX] = "";
	struct error err;

	/* Without one no other broker is let in. */
	if (has_secret(h) && secret_make(STORE_SECRET_BYTES, secret, &err) < 0)
		log_error("store: no other broker is let in: %s", err.text);
	snprintf(h->taken_from, sizeof(h->taken_from), "%s", h->record.incarnation);

	add(out,
	    "EVAL %s%s 2 %s %s %s %s %s incarnation %s node %u host %s pid %lld boot %s "
	    "pids %llu start %llu since %lld epoch %llu",
	    h->has_flags ? TAKE_FLAGS : "", script_holder_take.data, key,
	    has_secret(h) ? LAYOUT_CLUSTER_KEY : key, h->record.incarnation, secret,
	    secret[0] ? h->self->at : "", h->self->incarnation, h->node, self->host,
	    (long long)self->pid, self->boot, (unsigned long long)self->pids,
	    (unsigned long long)self->start_tick, now_ms,
	    (unsigned long long)(h->is_guest ? h->self->epoch : h->record.epoch + 1));
	return 1;
}

static unsigned add_migrate(const struct redis_holder *h, struct buf *out)
{
	add(out,
	    "EVAL %s%s 4 " LAYOUT_OLD_HOLDER_KEY " " LAYOUT_HOLDER_KEY
	    " " LAYOUT_CLUSTER_KEY " " LAYOUT_OLD_IDS_KEY " %s %s",
	    h->has_flags ? TAKE_FLAGS : "", script_holder_migrate.data,
	    h->self->incarnation, LAYOUT_LOCK);
	return 1;
}

/* The first ends nothing: it tells whether Redis lets us. */
static unsigned add_fence(struct redis_holder *h, struct buf *out)
{
	add(out, "CLIENT KILL ID %llu SKIPME yes", (unsigned long long)h->connection);
	buf_append(out, buf_cstr(&h->fence), buf_len(&h->fence));
	return 1 + h->fence_count;
}

unsigned redis_holder_round(struct redis_holder *h, struct buf *out)
{
	switch (h->step) {
	case HOLDER_TAKE:
		return add_take(h, out);
	case HOLDER_FENCE:
		return add_fence(h, out);
	case HOLDER_MIGRATE:
		return add_migrate(h, out);
	default:
		return add_look(h, out);
	}
}

static void copy_word(char *out, size_t size, struct slice word)
{
	snprintf(out, size, "%" SLICE_FMT, SLICE_HEAD(word, size - 1));
}

static struct slice text_of(const redisReply *reply)
{
	if (reply->type != REDIS_REPLY_STRING)
		return SLICE("");
	return (struct slice){ reply->str, reply->len };
}

static void read_field(struct redis_holder_record *r, struct slice name,
		       struct slice value)
{
	uint64_t number = 0;
	bool is_number = slice_to_uint(value, INT64_MAX, &number);

	if (slice_is(name, "incarnation"))
		copy_word(r->incarnation, sizeof(r->incarnation), value);
	else if (slice_is(name, "host"))
		copy_word(r->process.host, sizeof(r->process.host), value);
	else if (slice_is(name, "boot"))
		copy_word(r->process.boot, sizeof(r->process.boot), value);
	else if (slice_is(name, "at"))
		copy_word(r->at, sizeof(r->at), value);
	else if (slice_is(name, "pid"))
		r->is_released = false;
	if (!is_number)
		return;
	if (slice_is(name, "pid"))
		r->process.pid = (int64_t)number;
	else if (slice_is(name, "node"))
		r->node = number;
	else if (slice_is(name, "pids"))
		r->process.pids = number;
	else if (slice_is(name, "start"))
		r->process.start_tick = number;
	else if (slice_is(name, "since"))
		r->since_unix_ms = number;
	else if (slice_is(name, "writes"))
		r->writes = number;
	else if (slice_is(name, "epoch"))
		r->epoch = number;
}

static bool is_recorded(const struct redis_holder *h)
{
	return strcmp(h->record.incarnation, h->self->incarnation) == 0;
}

/* A connection of a broker that holds or held the store, in a line of CLIENT LIST. */
static void read_connection(struct redis_holder *h, struct slice line)
{
	struct slice name = SLICE("");
	uint64_t id = 0, idle = UINT64_MAX, db = UINT64_MAX;

	while (line.len > 0) {
		struct slice value = slice_cut(&line, ' ');
		struct slice field = slice_cut(&value, '=');

		if (slice_is(field, "id"))
			slice_to_uint(value, INT64_MAX, &id);
		else if (slice_is(field, "name"))
			name = value;
		else if (slice_is(field, "idle"))
			slice_to_uint(value, INT64_MAX, &idle);
		else if (slice_is(field, "db"))
			slice_to_uint(value, INT64_MAX, &db);
	}
	if (!slice_has_prefix(name, NAME_HELD) || db != h->db || id == h->connection)
		return;
	add(&h->fence, "CLIENT KILL ID %llu", (unsigned long long)id);
	h->fence_count++;
	h->is_other_alive |=
		idle <= ALIVE_IDLE_SECONDS &&
		!slice_is(slice_skip(name, strlen(NAME_HELD)), h->self->incarnation);
}

static void read_record(struct redis_holder *h, const redisReply *reply)
{
	for (size_t i = 0; i + 1 < reply->elements; i += 2)
		read_field(&h->record, text_of(reply->element[i]),
			   text_of(reply->element[i + 1]));
}

static void read_look(struct redis_holder *h, unsigned index, const redisReply *reply)
{
	struct slice list = text_of(reply);

	if (index == 1 && reply->type == REDIS_REPLY_INTEGER)
		h->connection = (uint64_t)reply->integer;
	if (index == 2 || (index == 4 && h->is_old))
		read_record(h, reply);
	/* One that only counts is what was on its way to a Redis that was emptied. */
	if (index == 2 && reply->elements > 0)
		h->is_old = false;
	if (has_secret(h) && index == h->secret_index)
		copy_word(h->self->secret, sizeof(h->self->secret), text_of(reply));
	while (index == 3 && list.len > 0)
		read_connection(h, slice_cut(&list, '\n'));
}

static void refuse(struct redis_holder *h, unsigned index, const char *text)
{
	const char *what = h->step == HOLDER_TAKE    ? "write "
			   : h->step == HOLDER_FENCE ? "run CLIENT KILL"
			   : index == 2              ? "read "
			   : index == 4              ? "read " LAYOUT_OLD_HOLDER_KEY
			   : index == 3              ? "run CLIENT LIST"
						     : "name its connection";
	bool has_key = h->step == HOLDER_TAKE || (h->step == HOLDER_LOOK && index == 2);

	if (!h->reason[0])
		snprintf(h->reason, sizeof(h->reason),
			 "the broker cannot %s%s, which keeps a second broker away: %s",
			 what, has_key ? h->key : "", text);
}

void redis_holder_reply(struct redis_holder *h, unsigned index, const redisReply *reply)
{
	/* The lock that keeps older brokers out: the store has layout 2. */
	bool is_lock = h->step == HOLDER_LOOK && index == 4 &&
		       reply->type == REDIS_REPLY_ERROR &&
		       strncmp(reply->str, "WRONGTYPE", 9) == 0;

	if (slots_bounce(reply) != BOUNCE_NONE && !redis_trouble_is_elsewhere(reply))
		h->is_elsewhere = true;
	else if (reply->type == REDIS_REPLY_ERROR &&
		 redis_trouble_kind(reply->str) == STORE_TROUBLE_REPLICAS)
		h->lacks_replicas = true;
	else if (is_lock)
		h->is_locked = true;
	else if (reply->type == REDIS_REPLY_ERROR && h->step == HOLDER_MIGRATE)
		snprintf(h->reason, sizeof(h->reason),
			 "the broker cannot rename the keys of an older version: %s",
			 reply->str);
	else if (reply->type == REDIS_REPLY_ERROR)
		refuse(h, index, reply->str);
	else if (h->step == HOLDER_MIGRATE)
		h->moved = reply->integer;
	else if (h->step == HOLDER_LOOK)
		read_look(h, index, reply);
	else if (h->step == HOLDER_TAKE && reply->integer > 0) {
		h->has_taken = true;
		h->writes = h->taken_at = (uint64_t)reply->integer;
		if (h->confirmed > h->writes)
			h->confirmed = h->writes;
	}
}

static void describe(const struct redis_holder_record *r, char *out, size_t size)
{
	time_t since = (time_t)(r->since_unix_ms / 1000);
	struct tm tm;
	char text[32] = "?";

	if (gmtime_r(&since, &tm))
		strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
	if (r->incarnation[0])
		snprintf(out, size, "node %llu, pid %lld on %s, since %s",
			 (unsigned long long)r->node, (long long)r->process.pid,
			 r->process.host, text);
	else
		snprintf(out, size, "one that " LAYOUT_HOLDER_KEY " does not name");
}

/* Is the holder another one than in the look before? */
static bool count_look(struct redis_holder *h)
{
	bool is_new = strcmp(h->last_seen, h->record.incarnation) != 0;

	if (is_new)
		h->alive_looks = h->lapsed_looks = 0;
	copy_word(h->last_seen, sizeof(h->last_seen), slice_from(h->record.incarnation));
	h->alive_looks = h->is_other_alive ? h->alive_looks + 1 : 0;
	h->lapsed_looks = h->is_other_alive ? 0 : h->lapsed_looks + 1;
	return is_new;
}

static bool may_take(const struct redis_holder *h)
{
	if (h->is_sole || h->lapsed_looks >= LAPSED_LOOKS)
		return true;
	if (h->record.is_released)
		return !h->is_other_alive;
	return process_has_ended(&h->record.process);
}

static enum redis_holder_verdict lose(struct redis_holder *h, const char *who)
{
	snprintf(h->reason, sizeof(h->reason),
		 "another broker has taken the store over: %s", who);
	return REDIS_HOLDER_LOST;
}

/* A replica was promoted that never had our name, of which nobody was told. */
static bool is_taken_back(const struct redis_holder *h)
{
	return h->is_confirmed_late && h->confirmed == 0 &&
	       strcmp(h->record.incarnation, h->taken_from) == 0;
}

/* A copy that is older than this start names a holder of before. */
static bool is_stale(const struct redis_holder *h)
{
	if (!h->has_held || is_taken_back(h))
		return false;
	return !h->record.incarnation[0] ||
	       (h->record.writes < h->writes && (is_recorded(h) || !h->is_other_alive));
}

/* Others are kept away as before: what is there is not theirs to go on with. */
static enum redis_holder_verdict stand_off(struct redis_holder *h)
{
	static const char until[] =
		"; nothing is stored until the data is back, or the broker is restarted, "
		"which goes on with what is there";

	if (!h->record.incarnation[0])
		snprintf(h->reason, sizeof(h->reason),
			 "Redis has lost all that it kept: it was emptied, or is another "
			 "one%s",
			 until);
	else
		snprintf(h->reason, sizeof(h->reason),
			 "Redis has lost the last %" PRIu64
			 " writes: it was restored from an older copy, or is another "
			 "one%s",
			 h->writes - h->record.writes, until);
	return REDIS_HOLDER_STALE;
}

static enum redis_holder_verdict judge_other(struct redis_holder *h)
{
	bool is_new = count_look(h);
	bool is_standby = h->hold == STORE_HOLD_OR_WAIT;
	char who[160];

	h->has_taken = false;
	describe(&h->record, who, sizeof(who));
	if (h->has_held && !is_taken_back(h))
		return lose(h, who);
	if (may_take(h)) {
		if (!h->record.is_released && !h->is_sole)
			log_info("store: taking over from a broker that ended or is "
				 "silent: %s",
				 who);
		h->step = HOLDER_TAKE;
		h->self->owner.incarnation[0] = '\0';
		return REDIS_HOLDER_MORE;
	}
	h->self->owner = h->record;
	if (!is_standby && h->alive_looks >= ALIVE_LOOKS) {
		snprintf(h->reason, sizeof(h->reason),
			 "another broker holds this store: %s; with --standby this one "
			 "waits and takes over when it ends, with --cluster it serves "
			 "clients meanwhile",
			 who);
		return REDIS_HOLDER_REFUSED;
	}
	if (is_new)
		log_info("store: another broker holds it: %s; %s", who,
			 is_standby ? "standing by" : "waiting to see whether it lives");
	return REDIS_HOLDER_OTHER;
}

/* A broker with a newer epoch took over {tide}:holder from us. */
static enum redis_holder_verdict judge_guest(struct redis_holder *h)
{
	char who[160];

	describe(&h->record, who, sizeof(who));
	/* We are not known to hold {tide}:holder yet. */
	if (h->self->epoch == 0)
		return REDIS_HOLDER_ELSEWHERE;
	if (h->record.epoch >= h->self->epoch)
		return lose(h, who);
	h->step = HOLDER_TAKE;
	return REDIS_HOLDER_MORE;
}

static enum redis_holder_verdict judge_look(struct redis_holder *h)
{
	bool is_named = h->has_taken;

	h->is_old &= !h->is_locked;
	if (is_stale(h))
		return stand_off(h);
	if (h->is_old && h->record.incarnation[0] && h->hold == STORE_HOLD_AS_IS) {
		snprintf(h->reason, sizeof(h->reason), "%s", LAYOUT_OLD_TEXT);
		return REDIS_HOLDER_REFUSED;
	}
	if (!is_recorded(h))
		return h->is_guest ? judge_guest(h) : judge_other(h);
	if (!h->is_guest)
		h->self->epoch = h->record.epoch;
	h->has_taken = true;
	/* A record that was read before the connection had its name proves nothing. */
	h->step = is_named ? HOLDER_FENCE : HOLDER_LOOK;
	return REDIS_HOLDER_MORE;
}

enum redis_holder_verdict redis_holder_judge(struct redis_holder *h)
{
	if (h->is_elsewhere)
		return REDIS_HOLDER_ELSEWHERE;
	if (h->lacks_replicas) {
		h->step = HOLDER_LOOK;
		return REDIS_HOLDER_HELD;
	}
	if (h->reason[0])
		return REDIS_HOLDER_REFUSED;
	if (h->step == HOLDER_LOOK)
		return judge_look(h);
	if (h->step == HOLDER_FENCE && h->is_locked) {
		h->has_held = true;
		return REDIS_HOLDER_OURS;
	}
	if (h->step == HOLDER_MIGRATE && h->moved > 1)
		log_info("store: it was written by an older version, which cannot use it "
			 "any more: %" PRId64 " keys have other names now",
			 h->moved);
	/* The look behind a migration finds the holder by its other name. */
	h->step = h->step == HOLDER_FENCE ? HOLDER_MIGRATE : HOLDER_LOOK;
	return REDIS_HOLDER_MORE;
}

/* A copy from before this start: nobody has taken it since. */
static bool is_from_before(const struct redis_holder *h)
{
	return h->taken_from[0] && strcmp(h->record.incarnation, h->taken_from) == 0 &&
	       (!h->is_guest || h->record.epoch < h->self->epoch);
}

bool redis_holder_accept(struct redis_holder *h, bool *has_all_before)
{
	bool is_ours = is_recorded(h);

	*has_all_before = is_ours || h->record.writes + 1 == h->taken_at;
	if (!is_ours && !is_from_before(h))
		return false;
	h->reason[0] = '\0';
	/* What is known stays until it is ours: this may be the first of several tries.
	 */
	if (!is_ours) {
		h->step = HOLDER_TAKE;
		return true;
	}
	h->writes = h->record.writes;
	if (h->is_confirmed_late)
		h->confirmed = h->writes;
	return true;
}

struct slice redis_holder_beat(const struct redis_holder *h)
{
	return slice_from(h->beat);
}

bool redis_holder_is_ours(const struct redis_holder *h, const redisReply *reply)
{
	return reply->type == REDIS_REPLY_ERROR ||
	       slice_is(text_of(reply), h->self->incarnation);
}

struct slice redis_holder_count(const struct redis_holder *h)
{
	return slice_from(h->count);
}

bool redis_holder_is_counted(struct redis_holder *h, const redisReply *reply,
			     uint64_t under_way)
{
	uint64_t writes = (uint64_t)reply->integer;

	/* A Redis that takes no writes has none to count. */
	if (reply->type != REDIS_REPLY_INTEGER)
		return true;
	if (writes > h->writes) {
		h->writes = writes;
		return true;
	}
	/* Writes under way count on from here, and must not look like lost ones. */
	if (h->writes < writes + under_way)
		h->writes = writes + under_way;
	/* The same connection: no replica was promoted. */
	h->confirmed = h->writes;
	return false;
}

void redis_holder_confirm(struct redis_holder *h)
{
	h->confirmed = h->writes;
}

void redis_holder_release(const struct redis_holder *h, struct buf *out)
{
	add(out, "EVAL %s 1 %s %s", script_holder_release.data, h->key,
	    h->self->incarnation);
}
