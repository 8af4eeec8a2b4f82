/* fake_node.h: a server that the store asks beside Redis: a node of a Redis Cluster, a
 * Sentinel. Of a test: it may be stopped and told what to say while the loop runs. */
#pragma once

#include "harness.h"

#define CLIENTS_MAX 16

/* One on the test's loop, which answers each question with what it was told to. */
struct fake {
	uv_tcp_t listener;
	uv_tcp_t clients[CLIENTS_MAX];
	unsigned client_count;
	unsigned port;
	bool is_silent;
	unsigned asked;
	char answer[1024];
	char input[1024];
};

static void on_fake_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
	struct fake *f = handle->data;

	*buf = uv_buf_init(f->input, sizeof(f->input));
}

static void on_fake_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buf)
{
	struct fake *f = stream->data;
	uv_buf_t out = uv_buf_init(f->answer, (unsigned)strlen(f->answer));

	if (count < 0)
		uv_close((uv_handle_t *)stream, NULL);
	if (count <= 0)
		return;
	f->asked++;
	if (!f->is_silent)
		uv_try_write(stream, &out, 1);
}

static void on_fake_connection(uv_stream_t *listener, int status)
{
	struct fake *f = listener->data;
	uv_tcp_t *client = &f->clients[f->client_count++];

	assert_true(f->client_count <= CLIENTS_MAX);
	uv_tcp_init(listener->loop, client);
	client->data = f;
	uv_accept(listener, (uv_stream_t *)client);
	uv_read_start((uv_stream_t *)client, on_fake_alloc, on_fake_read);
}

static void listen_as(struct fake *f, uv_loop_t *loop)
{
	struct sockaddr_in any;
	int len = sizeof(any);

	uv_ip4_addr("127.0.0.1", 0, &any);
	uv_tcp_init(loop, &f->listener);
	f->listener.data = f;
	assert_int_equal(uv_tcp_bind(&f->listener, (struct sockaddr *)&any, 0), 0);
	assert_int_equal(uv_listen((uv_stream_t *)&f->listener, 16, on_fake_connection),
			 0);
	uv_tcp_getsockname(&f->listener, (struct sockaddr *)&any, &len);
	f->port = ntohs(any.sin_port);
}

static void hang_up(struct fake *f)
{
	if (!uv_is_closing((uv_handle_t *)&f->listener))
		uv_close((uv_handle_t *)&f->listener, NULL);
	for (unsigned i = 0; i < f->client_count; i++)
		if (!uv_is_closing((uv_handle_t *)&f->clients[i]))
			uv_close((uv_handle_t *)&f->clients[i], NULL);
}
