#include "chooser.h"

#include "base/percent.h"
#include "proto/amqp/amqp.h"
#include "proto/stomp/stomp.h"

#define API_VHOSTS "/api/vhosts/"

static void choose(struct choice *out, enum choice_kind kind)
{
	*out = (struct choice){ .kind = kind };
}

/* A name that cannot be one is nobody's. */
static void choose_vhost(struct choice *out, struct slice text)
{
	char name[3 * NAME_LEN_MAX];

	choose(out, CHOICE_NONE);
	if (text.len > sizeof(name) || percent_decode(text, name, &out->vhost_len) < 0 ||
	    out->vhost_len == 0 || out->vhost_len > NAME_LEN_MAX)
		return;
	memcpy(out->vhost, name, out->vhost_len);
	out->kind = CHOICE_VHOST;
}

static void choose_default(struct choice *out)
{
	choose_vhost(out, SLICE("/"));
}

static void choose_cell(struct choice *out, struct slice text)
{
	uint64_t cell;

	choose(out, CHOICE_NONE);
	if (!slice_to_uint(text, UINT32_MAX, &cell))
		return;
	out->kind = CHOICE_CELL;
	out->cell = (unsigned)cell;
}

/* The first option of that name of "a=1 b=2", with `separator` between them. */
static bool find_option(struct slice rest, char separator, const char *name,
			struct slice *out)
{
	while (rest.len > 0) {
		struct slice value = slice_cut(&rest, separator);

		if (!slice_is(slice_cut(&value, '='), name))
			continue;
		*out = value;
		return true;
	}
	return false;
}

static struct slice cut_line(struct slice *rest)
{
	struct slice line = slice_cut(rest, '\n');

	line.len -= slice_has_suffix(line, "\r");
	return line;
}

static bool has_line(struct slice data)
{
	return slice_find(data, '\n') < data.len;
}

static struct slice trim(struct slice s)
{
	while (s.len > 0 && (s.data[0] == ' ' || s.data[0] == '\t'))
		s = slice_skip(s, 1);
	while (s.len > 0 && (s.data[s.len - 1] == ' ' || s.data[s.len - 1] == '\t'))
		s.len--;
	return s;
}

/* An address, as STOMP wants it there, is the default vhost. */
static void choose_host(struct choice *out, struct slice host)
{
	if (host.len == 0 || stomp_host_is_address(host))
		return;
	choose(out, host.len > NAME_LEN_MAX ? CHOICE_NONE : CHOICE_VHOST);
	if (out->kind == CHOICE_NONE)
		return;
	memcpy(out->vhost, host.data, host.len);
	out->vhost_len = host.len;
}

/* The head of CONNECT, which has no escapes. The first header of a name counts. */
static void read_stomp(struct slice data, struct choice *out)
{
	bool has_host = false;

	choose_default(out);
	cut_line(&data);
	while (has_line(data)) {
		struct slice value = cut_line(&data), name;

		if (value.len == 0)
			return;
		name = slice_cut(&value, ':');
		if (has_host || !slice_is(trim(name), "host"))
			continue;
		has_host = true;
		choose_host(out, trim(value));
	}
	choose(out, CHOICE_MORE);
}

static void read_line(struct slice line, struct choice *out)
{
	struct slice value;

	if (slice_has_prefix(line, "@"))
		slice_cut(&line, ' ');
	if (!slice_is(slice_cut(&line, ' '), "HELLO"))
		line = SLICE("");
	if (find_option(line, ' ', "cell", &value))
		choose_cell(out, value);
	else if (find_option(line, ' ', "vhost", &value))
		choose_vhost(out, value);
	else
		choose_default(out);
}

void chooser_read(struct slice data, struct choice *out)
{
	bool is_long = data.len >= CHOOSER_MAX;
	int claim;

	while (data.len > 0 && (data.data[0] == '\n' || data.data[0] == '\r'))
		data = slice_skip(data, 1);
	claim = data.len > 0 ? stomp_claim(data.data, data.len) : 0;
	choose(out, CHOICE_MORE);
	/* AMQP says its vhost when it has logged in: the broker that it has reached. */
	if (data.len > 0 && amqp_claim(data.data, data.len) == 1)
		choose(out, CHOICE_NONE);
	else if (claim == 1)
		read_stomp(data, out);
	else if (has_line(data))
		read_line(cut_line(&data), out);
	if (out->kind == CHOICE_MORE && is_long)
		choose(out, CHOICE_NONE);
}

/* "http://host/path" is said to proxies. */
static struct slice skip_host(struct slice target)
{
	size_t at;

	if (!slice_has_prefix(target, "http://") && !slice_has_prefix(target, "https://"))
		return target;
	target = slice_skip(target, slice_find(target, '/') + 2);
	at = slice_find(target, '/');
	return slice_skip(target, at);
}

void chooser_read_target(struct slice target, struct choice *out)
{
	struct slice query = skip_host(target), path = slice_cut(&query, '?'), value;

	if (find_option(query, '&', "cell", &value)) {
		choose_cell(out, value);
	} else if (slice_has_prefix(path, API_VHOSTS)) {
		path = slice_skip(path, sizeof(API_VHOSTS) - 1);
		choose_vhost(out, slice_cut(&path, '/'));
	} else if (find_option(query, '&', "vhost", &value)) {
		choose_vhost(out, value);
	} else {
		choose(out, CHOICE_NONE);
	}
}

void chooser_read_http(struct slice data, struct choice *out)
{
	bool is_long = data.len >= CHOOSER_MAX;
	struct slice line;

	while (data.len > 0 && (data.data[0] == '\n' || data.data[0] == '\r'))
		data = slice_skip(data, 1);
	if (!has_line(data)) {
		choose(out, is_long ? CHOICE_NONE : CHOICE_MORE);
		return;
	}
	line = cut_line(&data);
	slice_cut(&line, ' ');
	chooser_read_target(slice_cut(&line, ' '), out);
}
