/* fake_redis.h: a server on the test's loop that gives the answers it was
 * told to, one text for each run of bytes that it reads. */
#ifndef TIDE_TESTS_STORE_FAKE_REDIS_H
#define TIDE_TESTS_STORE_FAKE_REDIS_H

#include "harness.h"

#define FAKE_CLIENTS_MAX 16

struct fake_redis {
	uv_pipe_t listener;
	uv_pipe_t clients[FAKE_CLIENTS_MAX];
	unsigned client_count;
	const char *const *answers; /* NULL in it: hang up; the last one is repeated */
	unsigned answer_count;
	unsigned next;
	const char *greeting; /* said before anything is asked; or NULL */
	char path[160];
	char input[4096];
};

static void fake_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
	struct fake_redis *f = handle->data;
	*buf = uv_buf_init(f->input, sizeof(f->input));
}

static void fake_say(uv_stream_t *stream, const char *text)
{
	uv_buf_t out = uv_buf_init((char *)(uintptr_t)text, (unsigned)strlen(text));
	uv_try_write(stream, &out, 1);
}

static void fake_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buf)
{
	struct fake_redis *f = stream->data;
	if (count == 0)
		return;
	const char *answer = NULL;
	if (count > 0)
		answer = f->answers[f->next < f->answer_count ? f->next++
							      : f->answer_count - 1];
	if (!answer) {
		uv_close((uv_handle_t *)stream, NULL);
		return;
	}
	fake_say(stream, answer);
}

static void fake_connection(uv_stream_t *listener, int status)
{
	struct fake_redis *f = listener->data;
	assert_true(f->client_count < FAKE_CLIENTS_MAX);
	uv_pipe_t *client = &f->clients[f->client_count++];
	uv_pipe_init(listener->loop, client, 0);
	client->data = f;
	uv_accept(listener, (uv_stream_t *)client);
	if (f->greeting)
		fake_say((uv_stream_t *)client, f->greeting);
	uv_read_start((uv_stream_t *)client, fake_alloc, fake_read);
}

static inline void fake_open(struct fake_redis *f, struct harness *h,
			     const char *const *answers, unsigned count)
{
	memset(f, 0, sizeof(*f));
	f->answers = answers;
	f->answer_count = count;
	snprintf(f->path, sizeof(f->path), "%s/fake.sock", h->dir);
	uv_pipe_init(&h->loop, &f->listener, 0);
	f->listener.data = f;
	assert_int_equal(uv_pipe_bind(&f->listener, f->path), 0);
	assert_int_equal(uv_listen((uv_stream_t *)&f->listener, 16, fake_connection), 0);
}

/* The same, and a store that connects to it. */
static inline void fake_start(struct fake_redis *f, struct harness *h,
			      const char *const *answers, unsigned count)
{
	char url[200];
	fake_open(f, h, answers, count);
	snprintf(url, sizeof(url), "redis+unix:%s", f->path);
	harness_open(h, url);
}

static inline void fake_close(struct fake_redis *f)
{
	uv_close((uv_handle_t *)&f->listener, NULL);
	for (unsigned i = 0; i < f->client_count; i++)
		if (!uv_is_closing((uv_handle_t *)&f->clients[i]))
			uv_close((uv_handle_t *)&f->clients[i], NULL);
}

/* The same of fake_start. */
static inline void fake_end(struct fake_redis *f, struct harness *h)
{
	harness_close(h);
	fake_close(f);
}

#endif
