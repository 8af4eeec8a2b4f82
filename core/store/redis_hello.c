#include "redis_hello.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/log.h"
#include "resp.h"

/* The commands need HSET and ZADD with many members, UNLINK, HSTRLEN in scripts that
 * write after they have read, and AUTH with a user name. */
#define VERSION_MIN_MAJOR 6
/* Redis's own default of proto-max-bulk-len, for when it does not tell. */
#define WORD_MAX ((size_t)512 << 20)

static void add_step(struct redis_hello *h, enum redis_hello_step step, struct buf *out,
		     const char *format, ...)
{
	va_list args;

	va_start(args, format);
	resp_command(out, format, args);
	va_end(args);
	h->steps[h->step_count++] = step;
}

unsigned redis_hello_begin(struct redis_hello *h, struct buf *out)
{
	const struct url *at = &h->url->at;

	*h = (struct redis_hello){
		.url = h->url,
		.set_fsync = h->set_fsync,
		.confirm = h->confirm,
		.is_cluster = h->is_cluster,
		.word_max = h->word_max ? h->word_max : WORD_MAX,
	};
	if (at->password && at->user)
		add_step(h, HELLO_AUTH, out, "AUTH %s %s", at->user, at->password);
	else if (at->password)
		add_step(h, HELLO_AUTH, out, "AUTH %s", at->password);
	if (h->url->db)
		add_step(h, HELLO_SELECT, out, "SELECT %u", h->url->db);
	add_step(h, HELLO_NAME, out, "CLIENT SETNAME tidemq");
	if (h->set_fsync)
		add_step(h, HELLO_SET_FSYNC, out, "CONFIG SET appendfsync %s",
			 h->set_fsync);
	add_step(h, HELLO_FSYNC, out, "CONFIG GET appendfsync");
	add_step(h, HELLO_WORD_MAX, out, "CONFIG GET proto-max-bulk-len");
	add_step(h, HELLO_REPLICAS_MIN, out, "CONFIG GET min-replicas-to-write");
	if (h->is_cluster) {
		add_step(h, HELLO_COVERAGE, out,
			 "CONFIG GET cluster-require-full-coverage");
		add_step(h, HELLO_MIGRATION, out,
			 "CONFIG GET cluster-allow-replica-migration");
	}
	add_step(h, HELLO_INFO, out, "INFO");
	return h->step_count;
}

/* The first reason stands: what follows is mostly its consequence. */
TIDE_PRINTF(3, 4)
static void judge(struct redis_hello *h, enum redis_hello_verdict verdict,
		  const char *format, ...)
{
	va_list args;

	if (h->verdict != REDIS_HELLO_OK)
		return;
	h->verdict = verdict;
	va_start(args, format);
	vsnprintf(h->reason, sizeof(h->reason), format, args);
	va_end(args);
}

static void judge_error(struct redis_hello *h, enum redis_hello_step step,
			const char *text)
{
	static const char *const refusals[HELLO_STEP_COUNT] = {
		[HELLO_AUTH] = "Redis does not accept the password",
		[HELLO_SELECT] = "Redis does not select the database",
		[HELLO_SET_FSYNC] = "Redis does not accept appendfsync",
		[HELLO_INFO] = "Redis does not answer INFO",
	};

	if (!h->complaint[0])
		snprintf(h->complaint, sizeof(h->complaint), "%s", text);
	if (strncmp(text, "LOADING", 7) == 0 || strncmp(text, "MASTERDOWN", 10) == 0)
		judge(h, REDIS_HELLO_WAIT, "Redis is loading its data set");
	else if (strncmp(text, "NOAUTH", 6) == 0)
		judge(h, REDIS_HELLO_REFUSED,
		      "Redis requires a password; write redis://:password@host:port");
	else if (step == HELLO_SELECT && strstr(text, "cluster mode"))
		judge(h, REDIS_HELLO_REFUSED,
		      "a Redis Cluster has database 0 alone: leave out the number in "
		      "--store");
	else if (refusals[step])
		judge(h, REDIS_HELLO_REFUSED, "%s: %s", refusals[step], text);
}

/* WAITAOF is of 7.2, and 0 for ever of a Redis that leaves syncing to the kernel. */
static void judge_synced(struct redis_hello *h)
{
	unsigned long major, minor = 0;
	char *end;

	major = strtoul(h->version, &end, 10);
	if (*end == '.')
		minor = strtoul(end + 1, NULL, 10);
	if (major < 7 || (major == 7 && minor < 2))
		judge(h, REDIS_HELLO_REFUSED,
		      "--confirm %s needs Redis 7.2 or newer, this one is %s; "
		      "--confirm replicas=%u needs none",
		      h->confirm->text, h->version, h->confirm->is.replicas);
	else if (!h->is_append_only)
		judge(h, REDIS_HELLO_REFUSED,
		      "--confirm %s needs an append-only file: run CONFIG SET appendonly "
		      "yes, on the replicas too",
		      h->confirm->text);
	else if (strcmp(h->fsync, "no") == 0)
		judge(h, REDIS_HELLO_REFUSED,
		      "--confirm %s needs appendfsync always or everysec: run CONFIG SET "
		      "appendfsync always, on the replicas too",
		      h->confirm->text);
}

static void judge_cluster(struct redis_hello *h, bool is_cluster)
{
	if (is_cluster && !h->is_cluster && h->url->kind == REDIS_URL_TCP)
		judge(h, REDIS_HELLO_CLUSTER, "this Redis is a cluster node");
	else if (is_cluster && !h->is_cluster)
		judge(h, REDIS_HELLO_REFUSED,
		      "this Redis is a cluster node: give redis://host:port of one or "
		      "more nodes");
	else if (!is_cluster && h->url->kind == REDIS_URL_TCP && h->url->host_count > 1)
		judge(h, REDIS_HELLO_REFUSED,
		      "this Redis is no cluster node: give one host, or nodes of a Redis "
		      "Cluster");
	else if (!is_cluster && h->is_cluster)
		judge(h, REDIS_HELLO_REFUSED, "this Redis is no cluster node any more");
}

static void read_info(struct redis_hello *h, struct slice info)
{
	struct slice version = resp_info_value(info, "redis_version");
	struct slice policy = resp_info_value(info, "maxmemory_policy");

	snprintf(h->version, sizeof(h->version), "%" SLICE_FMT, SLICE_ARG(version));
	h->is_append_only = slice_is(resp_info_value(info, "aof_enabled"), "1");
	h->process_id = (int64_t)resp_info_number(info, "process_id");
	if (slice_is(resp_info_value(info, "redis_mode"), "sentinel"))
		judge(h, REDIS_HELLO_REFUSED,
		      "this is a Sentinel, which stores nothing: use "
		      "redis%s+sentinel://HOST:PORT/NAME, with the name that it has for "
		      "the master",
		      h->url->is_tls ? "s" : "");
	/* INFO has this field only if there is a minimum. */
	h->has_min_replicas = resp_info_value(info, "min_slaves_good_slaves").len > 0;
	h->replicas_good = resp_info_number(info, "min_slaves_good_slaves");
	judge_cluster(h, slice_is(resp_info_value(info, "cluster_enabled"), "1"));
	if (slice_is(resp_info_value(info, "loading"), "1"))
		judge(h, REDIS_HELLO_WAIT, "Redis is loading its data set");
	if (strtol(h->version, NULL, 10) < VERSION_MIN_MAJOR)
		judge(h, REDIS_HELLO_REFUSED,
		      "Redis %d.0 or newer is needed, this one is %s", VERSION_MIN_MAJOR,
		      version.len ? h->version : "of no known version");
	/* Also with maxmemory 0: whoever sets a limit later would lose messages.
	 */
	if (policy.len > 0 && !slice_is(policy, "noeviction"))
		judge(h, REDIS_HELLO_REFUSED,
		      "this Redis may evict messages: its maxmemory-policy is "
		      "%" SLICE_FMT "; run CONFIG SET maxmemory-policy noeviction",
		      SLICE_ARG(policy));
	/* With others behind it, it is promoted soon, or another one is. */
	if (slice_is(resp_info_value(info, "role"), "slave"))
		judge(h,
		      h->url->kind == REDIS_URL_SENTINEL || h->is_cluster
			      ? REDIS_HELLO_WAIT
			      : REDIS_HELLO_REFUSED,
		      "this Redis is a replica and does not accept writes");
	if (h->confirm->is.is_synced)
		judge_synced(h);
}

/* The value of one parameter in the answer to CONFIG GET; empty when there is
 * none. */
static struct slice config_value(const redisReply *reply)
{
	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
	    reply->element[1]->type != REDIS_REPLY_STRING)
		return SLICE("");
	return (struct slice){ reply->element[1]->str, reply->element[1]->len };
}

void redis_hello_reply(struct redis_hello *h, unsigned index, const redisReply *reply)
{
	enum redis_hello_step step = h->steps[index];
	struct slice value = config_value(reply);
	uint64_t bytes;

	if (reply->type == REDIS_REPLY_ERROR)
		judge_error(h, step, reply->str);
	else if (step == HELLO_FSYNC && value.len < sizeof(h->fsync))
		snprintf(h->fsync, sizeof(h->fsync), "%" SLICE_FMT, SLICE_ARG(value));
	else if (step == HELLO_WORD_MAX && slice_to_uint(value, SIZE_MAX, &bytes) &&
		 bytes)
		h->word_max = (size_t)bytes;
	else if (step == HELLO_REPLICAS_MIN)
		slice_to_uint(value, INT64_MAX, &h->replicas_min);
	else if (step == HELLO_COVERAGE)
		h->has_full_coverage = slice_is(value, "yes");
	else if (step == HELLO_MIGRATION)
		h->has_replica_migration = slice_is(value, "yes");
	else if (step == HELLO_INFO && reply->type == REDIS_REPLY_STRING)
		read_info(h, (struct slice){ reply->str, reply->len });
}

void redis_hello_refuse(struct redis_hello *h, const char *why)
{
	judge(h, REDIS_HELLO_REFUSED, "%s", why);
}

void redis_hello_tell(const struct redis_hello *h, const char *what, const char *address,
		      bool has_sentinel)
{
	if (!h->is_append_only)
		log_warn("store: %s: confirmed messages may be lost if it dies", what);
	if (h->confirm->is.replicas > 0)
		log_info("store: %s; --confirm %s", what, h->confirm->text);
	else if (has_sentinel && !h->has_min_replicas)
		log_warn("store: %s has min-replicas-to-write 0: if it is cut off from "
			 "its replicas and the Sentinels, it goes on confirming "
			 "messages, which are lost when it comes back as a "
			 "replica",
			 address);
}

bool redis_hello_warn(const struct redis_hello *h, const char *address)
{
	bool is_synced = !h->fsync[0] || strcmp(h->fsync, "always") == 0;

	if (is_synced && !h->has_full_coverage && !h->has_replica_migration)
		return false;
	log_warn("store: the Redis at %s has%s%s%s%s: see docs/high-availability.md, "
		 "and set it on all nodes",
		 address,
		 h->has_full_coverage ? " cluster-require-full-coverage yes (one slot "
					"without a master stops all of them)"
				      : "",
		 h->has_replica_migration ? " cluster-allow-replica-migration yes (a "
					    "replica may leave a master for another)"
					  : "",
		 is_synced ? "" : " appendfsync ", is_synced ? "" : h->fsync);
	return true;
}
