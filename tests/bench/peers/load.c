/* load.c: the same load for every server. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/tally.h"
#include "peer.h"

#define NS UINT64_C(1000000000)
#define READ_BYTES 262144
/* A payload begins with when it was due and, to a topic, its number: 8 bytes each. */
#define TOPIC_SIZE_MIN 16
/* What follows the number differs from message to message: some compress what they store,
 * and none of them looks back so far. */
#define NOISE_BYTES 131072

struct run {
	struct load load; /* first: links point here */
	struct load_options options;
	const struct driver *driver;
	struct link *links; /* producers, then consumers */
	unsigned link_count;
	int epoll;
	int pacer;
	uint64_t sent;
	uint64_t start_ns, confirmed_ns, received_ns;
	uint64_t turn_ns; /* when the bytes that are being looked at came */
	char *payload;
	char *noise; /* NOISE_BYTES, and a payload */
	struct histogram confirm, deliver;
};

void die(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NS + (uint64_t)ts.tv_nsec;
}

static struct run *run_of(struct link *l)
{
	return (struct run *)l->load;
}

/* ---- links ------------------------------------------------------------------- */

static void link_connect(struct link *l)
{
	struct sockaddr_in addr = { .sin_family = AF_INET };
	int one = 1;

	addr.sin_port = htons((uint16_t)run_of(l)->options.port);
	inet_pton(AF_INET, run_of(l)->options.host, &addr.sin_addr);
	l->fd = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(l->fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
		die("cannot connect to %s:%u: %s", run_of(l)->options.host,
		    run_of(l)->options.port, strerror(errno));
	setsockopt(l->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	l->in = (struct buf){ 0 };
	l->out = (struct buf){ 0 };
	l->scratch = (struct buf){ 0 };
}

/* Write what the socket takes; what is left goes when it is writable. */
static void link_write(struct link *l)
{
	while (buf_len(&l->out)) {
		struct slice s = buf_slice(&l->out);
		ssize_t n = send(l->fd, s.data, s.len, MSG_NOSIGNAL);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n < 0)
			die("send: %s", strerror(errno));
		buf_consume(&l->out, (size_t)n);
	}
}

void link_flush(struct link *l)
{
	link_write(l);
}

static bool link_receive(struct link *l)
{
	char *room = buf_reserve(&l->in, READ_BYTES);
	ssize_t n = recv(l->fd, room, READ_BYTES, 0);

	if (n == 0)
		die("the server has closed the connection");
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n < 0)
		die("recv: %s", strerror(errno));
	buf_grow(&l->in, (size_t)n);
	return true;
}

void link_read(struct link *l)
{
	link_receive(l);
}

const char *link_line(struct link *l)
{
	buf_clear(&l->scratch);
	for (;;) {
		struct slice s = buf_slice(&l->in);
		char *end = s.len ? memmem(s.data, s.len, "\r\n", 2) : NULL;

		if (end) {
			buf_append(&l->scratch, s.data, (size_t)(end - s.data));
			buf_consume(&l->in, (size_t)(end - s.data) + 2);
			return buf_cstr(&l->scratch);
		}
		link_read(l);
	}
}

/* ---- counting ------------------------------------------------------------------ */

/* Ten groups receive ten times what is published, so that a clock read for each message
 * would be a good part of the load. */
static uint64_t event_ns(const struct run *r)
{
	return r->options.is_topic && !r->options.rate ? r->turn_ns : now_ns();
}

static void count_confirm(struct link *l, uint64_t number)
{
	struct run *r = run_of(l);

	r->confirmed_ns = event_ns(r);
	histogram_add(&r->confirm,
		      r->confirmed_ns - l->due_ns[number % r->options.window]);
	l->confirmed++;
	r->load.confirmed++;
}

void load_confirmed(struct link *l, uint64_t n)
{
	while (n-- > 0)
		count_confirm(l, l->confirmed);
}

void load_confirmed_one(struct link *l, uint64_t number)
{
	count_confirm(l, number);
}

/* What a topic has is received in order, and once. */
static void check_number(const struct link *l, const char *payload, size_t len)
{
	uint64_t number;

	if (len < TOPIC_SIZE_MIN)
		die("consumer %u has received %zu bytes", l->number, len);
	memcpy(&number, payload + sizeof(uint64_t), sizeof(number));
	if (number != l->received)
		die("consumer %u has received message %" PRIu64 " instead of %" PRIu64,
		    l->number, number, l->received);
}

void load_received(struct link *l, const char *payload, size_t len)
{
	struct run *r = run_of(l);
	uint64_t due;

	r->received_ns = event_ns(r);
	if (r->options.is_drain && !r->start_ns)
		r->start_ns = r->received_ns;
	if (r->options.is_topic)
		check_number(l, payload, len);
	memcpy(&due, payload, sizeof(due));
	if (len >= sizeof(due) && !r->options.is_drain)
		histogram_add(&r->deliver, r->received_ns - due);
	l->received++;
	r->load.received++;
}

/* ---- producing ------------------------------------------------------------------- */

static void make_noise(struct run *r)
{
	uint64_t x = 88172645463325252u;

	r->noise = mem_alloc(NOISE_BYTES + r->options.size);
	for (size_t i = 0; i < NOISE_BYTES + r->options.size; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		r->noise[i] = (char)x;
	}
}

static void number_payload(const struct link *l, struct run *r)
{
	size_t len = r->options.size - TOPIC_SIZE_MIN;

	memcpy(r->payload + sizeof(uint64_t), &l->published, sizeof(l->published));
	memcpy(r->payload + TOPIC_SIZE_MIN, r->noise + l->published * len % NOISE_BYTES,
	       len);
}

static void publish_one(struct link *l, uint64_t due)
{
	struct run *r = run_of(l);

	l->due_ns[l->published % r->options.window] = due;
	memcpy(r->payload, &due, sizeof(due));
	if (r->options.is_topic)
		number_payload(l, r);
	r->driver->publish(l, r->payload, r->options.size);
	l->published++;
	r->sent++;
}

static void fill_window(struct link *l)
{
	struct run *r = run_of(l);
	uint64_t now = now_ns();

	while (r->sent < r->options.count &&
	       l->published - l->confirmed < r->options.window)
		publish_one(l, now);
}

static void arm_pacer(struct run *r)
{
	uint64_t due = r->start_ns + r->sent * NS / r->options.rate;
	struct itimerspec spec = { .it_value = { (time_t)(due / NS), (long)(due % NS) } };

	timerfd_settime(r->pacer, TFD_TIMER_ABSTIME, &spec, NULL);
}

static void pace(struct run *r)
{
	uint64_t expirations;

	if (read(r->pacer, &expirations, sizeof(expirations)) < 0 && errno != EAGAIN)
		die("timerfd: %s", strerror(errno));
	while (r->sent < r->options.count) {
		uint64_t due = r->start_ns + r->sent * NS / r->options.rate;
		struct link *l = &r->links[r->sent % r->options.producers];

		if (due > now_ns() || l->published - l->confirmed >= r->options.window)
			break;
		publish_one(l, due);
	}
	for (unsigned i = 0; i < r->options.producers; i++)
		link_write(&r->links[i]);
	if (r->sent < r->options.count)
		arm_pacer(r);
}

/* ---- the loop ---------------------------------------------------------------------- */

static void watch(struct run *r, struct link *l, bool has_output)
{
	struct epoll_event ev = { EPOLLIN | (has_output ? EPOLLOUT : 0u), { .ptr = l } };

	epoll_ctl(r->epoll, EPOLL_CTL_MOD, l->fd, &ev);
}

static void serve(struct run *r, struct link *l, uint32_t events)
{
	bool had_output = buf_len(&l->out) > 0;

	if (events & EPOLLIN && link_receive(l)) {
		r->turn_ns = now_ns();
		r->driver->input(l);
	}
	if (l->role == LINK_PRODUCER && !r->options.rate)
		fill_window(l);
	else if (l->role == LINK_CONSUMER)
		r->driver->settle(l);
	link_write(l);
	if (had_output != (buf_len(&l->out) > 0))
		watch(r, l, buf_len(&l->out) > 0);
}

static bool is_done(const struct run *r)
{
	const struct load_options *o = &r->options;

	if (o->producers && r->load.confirmed < o->count)
		return false;
	return !o->consumers ||
	       r->load.received >= o->count * (o->is_topic ? o->consumers : 1);
}

static void loop(struct run *r)
{
	struct epoll_event events[64];

	while (!is_done(r)) {
		int n = epoll_wait(r->epoll, events, 64, 30000);

		if (n == 0)
			die("nothing happened for 30 s: %" PRIu64 " confirmed, %" PRIu64
			    " received",
			    r->load.confirmed, r->load.received);
		for (int i = 0; i < n; i++) {
			if (events[i].data.ptr)
				serve(r, events[i].data.ptr, events[i].events);
			else
				pace(r);
		}
	}
	/* The last acknowledgements are part of the work. */
	for (unsigned i = 0; i < r->link_count; i++) {
		fcntl(r->links[i].fd, F_SETFL, 0);
		link_write(&r->links[i]);
	}
}

static void open_links(struct run *r)
{
	const struct load_options *o = &r->options;

	r->link_count = o->producers + o->consumers;
	r->links = mem_zalloc(r->link_count * sizeof(*r->links));
	r->epoll = epoll_create1(0);
	for (unsigned i = 0; i < r->link_count; i++) {
		struct link *l = &r->links[i];
		struct epoll_event ev = { EPOLLIN, { .ptr = l } };

		l->load = &r->load;
		l->driver = r->driver;
		l->role = i < o->producers ? LINK_PRODUCER : LINK_CONSUMER;
		l->number = i < o->producers ? i : i - o->producers;
		l->due_ns = mem_zalloc(o->window * sizeof(uint64_t));
		link_connect(l);
		r->driver->open(l);
		link_flush(l);
		fcntl(l->fd, F_SETFL, O_NONBLOCK);
		epoll_ctl(r->epoll, EPOLL_CTL_ADD, l->fd, &ev);
	}
}

static void start(struct run *r)
{
	struct epoll_event ev = { EPOLLIN, { .ptr = NULL } };

	r->turn_ns = now_ns();
	if (!r->options.is_drain || r->options.is_topic)
		r->start_ns = r->turn_ns;
	if (r->options.rate && r->options.producers) {
		r->pacer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
		epoll_ctl(r->epoll, EPOLL_CTL_ADD, r->pacer, &ev);
		arm_pacer(r);
	}
	for (unsigned i = 0; i < r->link_count; i++) {
		struct link *l = &r->links[i];

		/* What came with the greeting. */
		if (buf_len(&l->in))
			r->driver->input(l);
		if (l->role == LINK_PRODUCER && !r->options.rate)
			fill_window(l);
		else if (l->role == LINK_CONSUMER)
			r->driver->settle(l);
		link_write(l);
		watch(r, l, buf_len(&l->out) > 0);
	}
}

static void setup(struct run *r)
{
	struct link l = { .load = &r->load, .driver = r->driver, .role = LINK_SETUP };

	link_connect(&l);
	r->driver->setup(&l);
	close(l.fd);
}

static double us(const struct histogram *h, double share)
{
	return (double)histogram_at(h, share) / 1000;
}

static void report(const struct run *r)
{
	const struct load_options *o = &r->options;
	uint64_t end = o->consumers ? r->received_ns : r->confirmed_ns;
	double seconds;

	if (o->producers && r->confirmed_ns > end)
		end = r->confirmed_ns;
	seconds = (double)(end - r->start_ns) / (double)NS;
	printf("{\"server\":\"%s%s%s\",\"count\":%" PRIu64
	       ",\"size\":%zu,\"seconds\":%.4f,"
	       "\"per_second\":%.0f,\"confirm_us\":{\"p50\":%.1f,\"p99\":%.1f},"
	       "\"deliver_us\":{\"p50\":%.1f,\"p99\":%.1f}}\n",
	       r->driver->name, o->variant[0] ? "-" : "", o->variant, o->count, o->size,
	       seconds, (double)o->count / seconds, us(&r->confirm, 0.5),
	       us(&r->confirm, 0.99), us(&r->deliver, 0.5), us(&r->deliver, 0.99));
}

static const struct driver *find_driver(const char *name)
{
	static const struct driver *const all[] = { &driver_tidemq, &driver_redis,
						    &driver_nats, &driver_beanstalkd,
						    &driver_rabbitmq };

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (strcmp(all[i]->name, name) == 0)
			return all[i];
	die("no server '%s': tidemq redis nats beanstalkd rabbitmq", name);
}

static uint64_t number(const char *text)
{
	uint64_t n;

	if (!slice_to_uint(slice_from(text), UINT64_MAX, &n))
		die("'%s' is no number", text);
	return n;
}

static void parse(struct run *r, int argc, char **argv)
{
	static const struct option longs[] = {
		{ "port", 1, NULL, 'p' },      { "producers", 1, NULL, 'P' },
		{ "consumers", 1, NULL, 'C' }, { "window", 1, NULL, 'w' },
		{ "prefetch", 1, NULL, 'f' },  { "size", 1, NULL, 's' },
		{ "count", 1, NULL, 'n' },     { "rate", 1, NULL, 'r' },
		{ "fill", 0, NULL, 'F' },      { "drain", 0, NULL, 'D' },
		{ "variant", 1, NULL, 'v' },   { "topic", 0, NULL, 't' },
		{ "groups", 1, NULL, 'g' },    { "readers", 1, NULL, 'R' },
		{ NULL, 0, NULL, 0 },
	};
	struct load_options *o = &r->options;
	int c;

	*o = (struct load_options){ .host = "127.0.0.1",
				    .variant = "",
				    .queue = "bench",
				    .producers = 1,
				    .consumers = 1,
				    .window = 1000,
				    .prefetch = 1000,
				    .size = 128,
				    .count = 200000 };
	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		switch (c) {
		case 'p':
			o->port = (unsigned)number(optarg);
			break;
		case 'P':
			o->producers = (unsigned)number(optarg);
			break;
		case 'C':
			o->consumers = (unsigned)number(optarg);
			break;
		case 'w':
			o->window = (unsigned)number(optarg);
			break;
		case 'f':
			o->prefetch = (unsigned)number(optarg);
			break;
		case 's':
			o->size = number(optarg);
			break;
		case 'n':
			o->count = number(optarg);
			break;
		case 'r':
			o->rate = number(optarg);
			break;
		case 'F':
			o->is_fill = true;
			o->consumers = 0;
			break;
		case 'D':
			o->is_drain = true;
			o->producers = 0;
			break;
		case 'v':
			o->variant = optarg;
			break;
		case 't':
			o->is_topic = true;
			break;
		case 'g':
		case 'R':
			o->is_topic = true;
			o->is_reader = c == 'R';
			o->consumers = (unsigned)number(optarg);
			break;
		default:
			die("usage: load SERVER [options]; see tests/bench/peers/load.c");
		}
	}
	if (optind != argc - 1 || o->size < 8 || o->window == 0 || o->prefetch == 0)
		die("usage: load [options] SERVER");
	if (o->is_topic && (o->producers > 1 || o->size < TOPIC_SIZE_MIN))
		die("a topic is measured with one producer, and %d bytes or more",
		    TOPIC_SIZE_MIN);
	r->driver = find_driver(argv[optind]);
	if (!o->port)
		o->port = r->driver->default_port;
}

int main(int argc, char **argv)
{
	struct run r = { 0 };

	parse(&r, argc, argv);
	r.load.options = &r.options;
	histogram_init(&r.confirm);
	histogram_init(&r.deliver);
	r.payload = mem_zalloc(r.options.size);
	memset(r.payload, 'x', r.options.size);
	make_noise(&r);
	if (!r.options.is_drain)
		setup(&r);
	open_links(&r);
	start(&r);
	loop(&r);
	report(&r);
	return 0;
}
