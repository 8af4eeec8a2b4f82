#include "redis_hello.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "resp.h"

enum hello_step {
	STEP_AUTH,
	STEP_SELECT,
	STEP_NAME,
	STEP_SET_FSYNC,
	STEP_FSYNC,
	STEP_WORD_MAX,
	STEP_INFO
};
#define STEP_COUNT (STEP_INFO + 1)

/* Which steps a connection needs, in order; how many. */
static unsigned steps_of(const struct redis_hello *h, enum hello_step steps[STEP_COUNT])
{
	unsigned count = 0;

	if (h->url->at.password)
		steps[count++] = STEP_AUTH;
	if (h->url->db)
		steps[count++] = STEP_SELECT;
	steps[count++] = STEP_NAME;
	if (h->set_fsync)
		steps[count++] = STEP_SET_FSYNC;
	steps[count++] = STEP_FSYNC;
	steps[count++] = STEP_WORD_MAX;
	steps[count++] = STEP_INFO;
	return count;
}

static void write_words(struct buf *out, const char *const *words)
{
	size_t count = 0;

	while (words[count])
		count++;
	resp_array(out, count);
	for (size_t i = 0; i < count; i++)
		resp_text(out, words[i]);
}

#define WORDS(...)                      \
	(const char *const[])           \
	{                               \
		__VA_ARGS__, NULL, NULL \
	}

static void write_step(const struct redis_hello *h, enum hello_step step, struct buf *out)
{
	switch (step) {
	case STEP_AUTH:
		if (h->url->at.user)
			write_words(out,
				    WORDS("AUTH", h->url->at.user, h->url->at.password));
		else
			write_words(out, WORDS("AUTH", h->url->at.password));
		break;
	case STEP_SELECT:
		resp_array(out, 2);
		resp_text(out, "SELECT");
		resp_int(out, h->url->db);
		break;
	case STEP_NAME:
		write_words(out, WORDS("CLIENT", "SETNAME", "tidemq"));
		break;
	case STEP_SET_FSYNC:
		write_words(out, WORDS("CONFIG", "SET", "appendfsync", h->set_fsync));
		break;
	case STEP_FSYNC:
		write_words(out, WORDS("CONFIG", "GET", "appendfsync"));
		break;
	case STEP_WORD_MAX:
		write_words(out, WORDS("CONFIG", "GET", "proto-max-bulk-len"));
		break;
	case STEP_INFO:
		write_words(out, WORDS("INFO"));
		break;
	}
}

unsigned redis_hello_begin(struct redis_hello *h, struct buf *out)
{
	enum hello_step steps[STEP_COUNT];
	unsigned count = steps_of(h, steps);

	h->version[0] = h->fsync[0] = '\0';
	h->is_append_only = false;
	h->process_id = 0;
	if (h->word_max == 0)
		h->word_max = REDIS_WORD_MAX;
	h->complaint[0] = '\0';
	h->verdict = REDIS_HELLO_OK;
	for (unsigned i = 0; i < count; i++)
		write_step(h, steps[i], out);
	return count;
}

/* The first reason stands: what follows is mostly its consequence. */
static void judge(struct redis_hello *h, enum redis_hello_verdict verdict,
		  const char *sentence)
{
	if (h->verdict != REDIS_HELLO_OK)
		return;
	h->verdict = verdict;
	error_set(&h->err, TIDE_ESTORE, "%s", sentence);
}

static void judge_error(struct redis_hello *h, enum hello_step step, const char *text)
{
	static const char *const what[STEP_COUNT] = {
		[STEP_AUTH] = "Redis does not accept the password",
		[STEP_SELECT] = "Redis does not select the database",
		[STEP_SET_FSYNC] = "Redis does not take appendfsync",
		[STEP_INFO] = "Redis does not answer INFO",
	};
	struct error err;

	if (!h->complaint[0])
		snprintf(h->complaint, sizeof(h->complaint), "%s", text);
	if (strncmp(text, "LOADING", 7) == 0 || strncmp(text, "MASTERDOWN", 10) == 0) {
		judge(h, REDIS_HELLO_WAIT, "Redis is loading its data set");
	} else if (strncmp(text, "NOAUTH", 6) == 0) {
		judge(h, REDIS_HELLO_REFUSED,
		      "Redis wants a password; write redis://:password@host:port");
	} else if (what[step]) {
		error_set(&err, TIDE_ESTORE, "%s: %s", what[step], text);
		judge(h, REDIS_HELLO_REFUSED, err.text);
	}
}

/* The value of "name:value" in what INFO told; empty when it is not there. */
static struct slice info_value(struct slice info, const char *name)
{
	size_t name_len = strlen(name);

	while (info.len > 0) {
		const char *end = memchr(info.data, '\n', info.len);
		size_t len = end ? (size_t)(end - info.data) : info.len;
		struct slice line = { info.data, len };

		info = slice_skip(info, end ? len + 1 : len);
		if (line.len && line.data[line.len - 1] == '\r')
			line.len--;
		if (line.len > name_len && line.data[name_len] == ':' &&
		    memcmp(line.data, name, name_len) == 0)
			return slice_skip(line, name_len + 1);
	}
	return (struct slice){ "", 0 };
}

static void judge_version(struct redis_hello *h, struct slice version)
{
	struct error err;
	size_t len =
		version.len < sizeof(h->version) ? version.len : sizeof(h->version) - 1;

	memcpy(h->version, version.data, len);
	h->version[len] = '\0';
	if (strtol(h->version, NULL, 10) >= REDIS_VERSION_MIN_MAJOR)
		return;
	error_set(&err, TIDE_ESTORE, "Redis %d.0 or newer is needed, this one is %s",
		  REDIS_VERSION_MIN_MAJOR, len ? h->version : "of no known version");
	judge(h, REDIS_HELLO_REFUSED, err.text);
}

/* Also with maxmemory 0: a limit that is set later would lose messages. */
static void judge_policy(struct redis_hello *h, struct slice policy)
{
	struct error err;

	if (policy.len == 0 || slice_is(policy, "noeviction"))
		return;
	error_set(&err, TIDE_ESTORE,
		  "this Redis may evict messages: its maxmemory-policy is %" SLICE_FMT
		  "; tell it CONFIG SET maxmemory-policy noeviction",
		  SLICE_ARG(policy));
	judge(h, REDIS_HELLO_REFUSED, err.text);
}

static void read_info(struct redis_hello *h, struct slice info)
{
	uint64_t pid = 0;

	if (slice_is(info_value(info, "loading"), "1"))
		judge(h, REDIS_HELLO_WAIT, "Redis is loading its data set");
	judge_version(h, info_value(info, "redis_version"));
	judge_policy(h, info_value(info, "maxmemory_policy"));
	if (slice_is(info_value(info, "role"), "slave"))
		judge(h, REDIS_HELLO_REFUSED,
		      "this Redis is a replica and takes no writes");
	if (slice_is(info_value(info, "cluster_enabled"), "1"))
		judge(h, REDIS_HELLO_REFUSED,
		      "this Redis is a cluster node; a single Redis is needed");
	h->is_append_only = slice_is(info_value(info, "aof_enabled"), "1");
	if (slice_to_uint(info_value(info, "process_id"), INT32_MAX, &pid))
		h->process_id = (int64_t)pid;
}

/* What CONFIG GET tells of one parameter; empty when it tells nothing. */
static struct slice config_value(const redisReply *reply)
{
	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
	    reply->element[1]->type != REDIS_REPLY_STRING)
		return (struct slice){ "", 0 };
	return (struct slice){ reply->element[1]->str, reply->element[1]->len };
}

static void read_fsync(struct redis_hello *h, struct slice value)
{
	if (value.len >= sizeof(h->fsync))
		return;
	memcpy(h->fsync, value.data, value.len);
	h->fsync[value.len] = '\0';
}

static void read_word_max(struct redis_hello *h, struct slice value)
{
	uint64_t bytes;

	if (slice_to_uint(value, SIZE_MAX, &bytes) && bytes > 0)
		h->word_max = (size_t)bytes;
}

void redis_hello_reply(struct redis_hello *h, unsigned index, const redisReply *reply)
{
	enum hello_step steps[STEP_COUNT];

	if (index >= steps_of(h, steps))
		return;
	if (reply->type == REDIS_REPLY_ERROR)
		judge_error(h, steps[index], reply->str);
	else if (steps[index] == STEP_FSYNC)
		read_fsync(h, config_value(reply));
	else if (steps[index] == STEP_WORD_MAX)
		read_word_max(h, config_value(reply));
	else if (steps[index] == STEP_INFO && reply->type == REDIS_REPLY_STRING)
		read_info(h, (struct slice){ reply->str, reply->len });
}

enum redis_hello_verdict redis_hello_end(const struct redis_hello *h, struct error *err)
{
	if (h->verdict != REDIS_HELLO_OK)
		*err = h->err;
	return h->verdict;
}
