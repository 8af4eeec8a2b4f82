/* fake_server.c PORT: parses the line protocol and echoes messages to the last
 * subscriber, or to all of those that name a group. It stores nothing, checks nothing and
 * forgets everything: what is slower than this is the price of being a broker. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"

struct peer {
	int fd;
	struct buf in, out;
};

#define SUBSCRIBERS_MAX 64
static struct peer *subscribers[SUBSCRIBERS_MAX];
static unsigned subscriber_count;
static unsigned long long next_tag;

static void send_out(struct peer *p)
{
	while (buf_len(&p->out)) {
		struct slice s = buf_slice(&p->out);
		ssize_t n = send(p->fd, s.data, s.len, MSG_NOSIGNAL);

		if (n < 0)
			return; /* blocking sockets: only a lost peer */
		buf_consume(&p->out, (size_t)n);
	}
}

static void subscribe(struct peer *p, const char *line, size_t len)
{
	if (!memmem(line, len, " group=", 7))
		subscriber_count = 0;
	if (subscriber_count < SUBSCRIBERS_MAX)
		subscribers[subscriber_count++] = p;
}

static void forget(const struct peer *p)
{
	for (unsigned i = subscriber_count; i-- > 0;)
		if (subscribers[i] == p)
			subscribers[i] = subscribers[--subscriber_count];
}

static void echo(const char *payload, size_t len)
{
	next_tag++;
	for (unsigned i = 0; i < subscriber_count; i++) {
		struct buf *out = &subscribers[i]->out;

		buf_append(out, "MSG s ", 6);
		buf_append_uint(out, next_tag);
		buf_append_text(out, " 1 - bench id=0000000000000000 ts=1795257280582 ");
		buf_append_uint(out, len);
		buf_append(out, "\r\n", 2);
		buf_append(out, payload, len);
		buf_append(out, "\r\n", 2);
	}
}

static size_t take(struct peer *p, struct slice s)
{
	const char *end = memchr(s.data, '\n', s.len);
	size_t line, len;

	if (!end)
		return 0;
	line = (size_t)(end - s.data) + 1;
	if (s.data[0] != 'P' || s.data[1] != 'U') {
		if (s.data[0] == 'S')
			subscribe(p, s.data, line);
		if (s.data[0] != 'A')
			buf_append(&p->out, "OK\r\n", 4);
		return line;
	}
	len = strtoul((char *)memrchr(s.data, ' ', line) + 1, NULL, 10);
	if (s.len < line + len + 2)
		return 0;
	echo(s.data + line, len);
	buf_append(&p->out, "OK 0000000000000000 1\r\n", 23);
	return line + len + 2;
}

static void serve(struct peer *p)
{
	char *room = buf_reserve(&p->in, 262144);
	ssize_t n = recv(p->fd, room, 262144, 0);
	size_t used;

	if (n <= 0) {
		forget(p);
		close(p->fd);
		buf_deinit(&p->in);
		buf_deinit(&p->out);
		mem_free(p);
		return;
	}
	buf_grow(&p->in, (size_t)n);
	while (buf_len(&p->in) && (used = take(p, buf_slice(&p->in))) > 0)
		buf_consume(&p->in, used);
	for (unsigned i = 0; i < subscriber_count; i++)
		send_out(subscribers[i]);
	send_out(p);
}

int main(int argc, char **argv)
{
	struct sockaddr_in addr = { .sin_family = AF_INET };
	int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0), epoll = epoll_create1(0);
	struct epoll_event ev = { EPOLLIN, { .ptr = NULL } }, events[64];

	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	addr.sin_port = htons((uint16_t)(argc > 1 ? atoi(argv[1]) : 0));
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(listener, (struct sockaddr *)&addr, sizeof(addr)) < 0 ||
	    listen(listener, 64) < 0) {
		perror("fake_server");
		return 1;
	}
	epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &ev);
	for (;;) {
		int n = epoll_wait(epoll, events, 64, -1);

		for (int i = 0; i < n; i++) {
			struct peer *p = events[i].data.ptr;

			if (p) {
				serve(p);
				continue;
			}
			p = mem_zalloc(sizeof(*p));
			p->fd = accept(listener, NULL, NULL);
			setsockopt(p->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
			ev.data.ptr = p;
			epoll_ctl(epoll, EPOLL_CTL_ADD, p->fd, &ev);
		}
	}
}
