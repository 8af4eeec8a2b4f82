#include <inttypes.h>
#include <strings.h>

#include "base/mem.h"
#include "base/percent.h"
#include "client.h"

#define CHANNEL_MAX 65535
#define SCHEME_TCP "tide://"
#define SCHEME_TLS "tides://"
#define SCHEME_UNIX "tide+unix:"

int encode_inspect(struct slice text, struct encode_line *out, struct tidemq_error *err)
{
	struct slice rest = text, word = slice_cut(&rest, ' ');
	uint64_t n = 0;

	if (text.len == 0)
		return client_fail(err, TIDEMQ_EINVAL, "the request is empty");
	if (memchr(text.data, '\n', text.len) || memchr(text.data, '\r', text.len))
		return client_fail(err, TIDEMQ_EINVAL,
				   "the request contains a line break");
	if (slice_has_prefix(word, "@")) {
		if (!slice_to_uint(slice_skip(word, 1), CHANNEL_MAX, &n) ||
		    word.len == text.len)
			return client_fail(
				err, TIDEMQ_EINVAL,
				"a channel is written '@N VERB' with N up to %d",
				CHANNEL_MAX);
		word = slice_cut(&rest, ' ');
	}
	*out = (struct encode_line){
		.text = text,
		.channel = (unsigned)n,
		.verb = word,
		.words = rest,
		.is_pub = word.len == 3 && strncasecmp(word.data, "PUB", 3) == 0,
	};
	return TIDEMQ_OK;
}

int encode_request(struct buf *out, const struct encode_line *line, const char *id,
		   struct slice payload, struct tidemq_error *err)
{
	size_t line_len = line->text.len + (id ? strlen(id) + 4 : 0);

	if (payload.len > 0 && !line->is_pub)
		return client_fail(err, TIDEMQ_EINVAL, "only PUB has a payload");
	/* The longest length is 20 digits; with it come a space and the line end. */
	if (line_len > ENCODE_LINE_MAX - 23)
		return client_fail(err, TIDEMQ_EINVAL,
				   "the request is a line of more than %d bytes",
				   ENCODE_LINE_MAX);
	if (payload.len > SIZE_MAX / 2 ||
	    buf_try_reserve(out, line_len + payload.len + 25) != TIDE_OK)
		return client_fail(err, TIDEMQ_ENOMEM,
				   "no memory for a payload of %zu bytes", payload.len);
	buf_append_slice(out, line->text);
	if (id) {
		buf_append_text(out, " id=");
		buf_append_text(out, id);
	}
	if (line->is_pub) {
		buf_append_char(out, ' ');
		buf_append_uint(out, payload.len);
		buf_append_text(out, "\r\n");
		buf_append_slice(out, payload);
	}
	buf_append_text(out, "\r\n");
	return TIDEMQ_OK;
}

int encode_word(struct buf *out, const char *text, const char *what, bool may_be_empty,
		struct tidemq_error *err)
{
	struct slice s = slice_from(text);

	if (s.len == 0 && may_be_empty) {
		buf_append_char(out, '-');
		return TIDEMQ_OK;
	}
	if (!slice_is_name(s))
		return client_fail(
			err, TIDEMQ_EINVAL,
			"the %s must be 1-%d bytes of UTF-8 without white space", what,
			NAME_LEN_MAX);
	buf_append_slice(out, s);
	return TIDEMQ_OK;
}

static int header_encode(struct buf *out, const struct tidemq_header *h,
			 struct tidemq_error *err)
{
	buf_append_text(out, " h:");
	int rc = encode_word(out, h->name, "name of a header", false, err);
	if (rc != TIDEMQ_OK)
		return rc;
	if (strchr(h->name, '='))
		return client_fail(err, TIDEMQ_EINVAL,
				   "a header's name must not contain '='");
	buf_append_char(out, '=');
	percent_encode(out, (struct slice){ h->value, h->value_len });
	return TIDEMQ_OK;
}

void encode_number(struct buf *out, const char *option, int64_t value)
{
	if (value != 0)
		buf_printf(out, " %s=%" PRId64, option, value);
}

void encode_option(struct buf *out, const char *option, const char *value)
{
	if (!value)
		return;
	buf_printf(out, " %s=", option);
	percent_encode(out, slice_from(value));
}

/* A duration; negative is none. */
static void add_duration(struct buf *out, const char *option, int64_t ms)
{
	encode_number(out, option, ms > 0 ? ms : 0);
}

static int check_publication(const struct tidemq_publication *p, struct tidemq_error *err)
{
	size_t id_len = p->dedupe_id ? strlen(p->dedupe_id) : 1;

	if (p->priority > 255)
		return client_fail(err, TIDEMQ_EINVAL, "the priority must be 0-255");
	if (p->delay_ms < 0 || p->ttl_ms < 0 || p->ack_timeout_ms < 0)
		return client_fail(err, TIDEMQ_EINVAL,
				   "delay, ttl and ack-timeout must not be negative");
	if (id_len == 0 || id_len > ENCODE_DEDUPE_ID_MAX)
		return client_fail(err, TIDEMQ_EINVAL, "the dedupe id must be 1-%d bytes",
				   ENCODE_DEDUPE_ID_MAX);
	if (p->header_count > ENCODE_HEADERS_MAX)
		return client_fail(err, TIDEMQ_EINVAL, "a message has at most %d headers",
				   ENCODE_HEADERS_MAX);
	return TIDEMQ_OK;
}

int encode_publication(struct buf *out, unsigned channel,
		       const struct tidemq_publication *p, struct tidemq_error *err)
{
	int rc = check_publication(p, err);

	if (rc != TIDEMQ_OK)
		return rc;
	if (channel > 0)
		buf_printf(out, "@%u ", channel);
	buf_append_text(out, "PUB ");
	rc = encode_word(out, p->exchange, "exchange", true, err);
	if (rc != TIDEMQ_OK)
		return rc;
	buf_append_char(out, ' ');
	rc = encode_word(out, p->key, "key", true, err);
	encode_number(out, "pri", p->priority);
	encode_number(out, "delay", p->delay_ms);
	encode_number(out, "ttl", p->ttl_ms);
	encode_number(out, "ack-timeout", p->ack_timeout_ms);
	if (p->transient)
		buf_append_text(out, " durable=0");
	encode_option(out, "id", p->dedupe_id);
	if (p->has_expected_offset)
		buf_printf(out, " expect=%" PRIu64, p->expected_offset);
	if (p->must)
		buf_append_text(out, " must");
	for (size_t i = 0; i < p->header_count && rc == TIDEMQ_OK; i++)
		rc = header_encode(out, &p->headers[i], err);
	return rc;
}

/* Where a reader, or a group, begins. */
static void add_place(struct buf *out, const char *group, const char *from,
		      bool has_partition, unsigned partition)
{
	encode_option(out, "group", group);
	encode_option(out, "from", from);
	if (has_partition)
		buf_printf(out, " partition=%u", partition);
}

int encode_subscription(struct buf *out, const struct tidemq_subscription *s,
			struct tidemq_error *err)
{
	int rc;

	buf_append_text(out, "SUB ");
	rc = encode_word(out, s->queue, "queue", false, err);
	buf_append_char(out, ' ');
	if (rc == TIDEMQ_OK)
		rc = encode_word(out, s->sid, "subscription's name", false, err);
	encode_number(out, "prefetch", s->prefetch);
	encode_option(out, "ack", s->auto_ack ? "auto" : NULL);
	add_duration(out, "ack-timeout", s->ack_timeout_ms);
	encode_number(out, "priority", s->priority);
	encode_number(out, "rank", s->rank);
	add_duration(out, "notify-lease", s->notify_lease_ms);
	if (s->exclusive)
		buf_append_text(out, " exclusive");
	add_place(out, s->group, s->from, s->has_partition, s->partition);
	return rc;
}

/* In the middle of a line a name with a '=' would be an option. */
static int add_queues(struct buf *out, const struct tidemq_fetch *f,
		      struct tidemq_error *err)
{
	int rc = TIDEMQ_OK;

	if (f->queue_count == 0)
		return client_fail(err, TIDEMQ_EINVAL, "a GET needs a queue");
	for (size_t i = 0; i < f->queue_count && rc == TIDEMQ_OK; i++) {
		buf_append_char(out, ' ');
		rc = encode_word(out, f->queues[i], "queue", false, err);
		if (rc == TIDEMQ_OK && i > 0 && strchr(f->queues[i], '='))
			rc = client_fail(
				err, TIDEMQ_EINVAL,
				"a queue with '=' in its name must be the first");
	}
	return rc;
}

int encode_fetch(struct buf *out, const struct tidemq_fetch *f, struct tidemq_error *err)
{
	int rc;

	buf_append_text(out, "GET");
	rc = add_queues(out, f, err);
	encode_number(out, "max", f->max ? f->max : 1);
	add_duration(out, "wait", f->wait_ms);
	encode_option(out, "ack", f->auto_ack ? "auto" : NULL);
	add_duration(out, "ack-timeout", f->ack_timeout_ms);
	encode_option(out, "match", f->match);
	add_place(out, f->group, f->from, f->has_partition, f->partition);
	encode_option(out, "offset", f->offset);
	return rc;
}

static int parse_vhost(struct slice text, struct client_url *out, struct error *err)
{
	int rc = url_decode(text.len > 0 ? text : SLICE("/"), "vhost", &out->vhost, err);

	if (rc < 0 || strcmp(out->vhost, "/") == 0)
		return rc;
	if (!slice_is_name(slice_from(out->vhost)) || strpbrk(out->vhost, "/:"))
		return error_set(err, TIDE_ESYNTAX,
				 "the vhost '%s' must be / or 1-%d bytes without white "
				 "space, / and :",
				 out->vhost, NAME_LEN_MAX);
	return TIDE_OK;
}

static int parse_cell(struct slice text, struct client_url *out, struct error *err)
{
	uint64_t cell;

	if (!slice_to_uint(text, UINT32_MAX, &cell))
		return error_set(err, TIDE_ESYNTAX, "cell= must be a number");
	mem_free(out->cell);
	out->cell = mem_strndup(text.data, text.len);
	return TIDE_OK;
}

static int parse_query(struct slice query, struct client_url *out, struct error *err)
{
	int rc = parse_vhost(SLICE("/"), out, err);

	while (query.len > 0 && rc == TIDE_OK) {
		struct slice value = slice_cut(&query, '&');
		struct slice name = slice_cut(&value, '=');

		/* What stands last counts. */
		if (slice_is(name, "vhost")) {
			mem_free(out->cell);
			out->cell = NULL;
			rc = parse_vhost(value, out, err);
		} else if (slice_is(name, "cell")) {
			rc = parse_cell(value, out, err);
		} else if (slice_is(name, "user")) {
			rc = url_decode(value, "user", &out->at.user, err);
		} else if (slice_is(name, "pass")) {
			rc = url_decode(value, "password", &out->at.password, err);
		} else {
			rc = error_set(err, TIDE_ESYNTAX,
				       "the option '%.*s' is not one of vhost, cell, "
				       "user, pass",
				       SLICE_HEAD(name, 100));
		}
	}
	return rc;
}

static int parse_unix(struct slice text, struct client_url *out, struct error *err)
{
	struct slice path;
	int rc;

	/* Both tide+unix:/path and tide+unix:///path are written. */
	if (slice_has_prefix(text, "///"))
		text = slice_skip(text, 2);
	path = slice_cut(&text, '?');
	if (path.len == 0)
		return error_set(err, TIDE_ESYNTAX, "no socket");
	rc = url_decode(path, "path", &out->at.path, err);
	return rc < 0 ? rc : parse_query(text, out, err);
}

static int parse_host(struct slice text, struct client_url *out, struct error *err)
{
	struct slice vhost, cell;
	int rc = url_parse_host(text, CLIENT_URL_PORT_DEFAULT, &out->at, &vhost, err);

	cell = slice_skip(vhost, rc < 0 ? 0 : slice_find(vhost, '?'));
	if (rc == TIDE_OK && slice_has_prefix(cell, "?cell=")) {
		vhost.len -= cell.len;
		rc = parse_cell(slice_skip(cell, 6), out, err);
	}
	return rc < 0 ? rc : parse_vhost(vhost, out, err);
}

static int parse_url(struct slice text, struct client_url *out, struct error *err)
{
	int rc;

	if (slice_has_prefix(text, SCHEME_UNIX)) {
		rc = parse_unix(slice_skip(text, strlen(SCHEME_UNIX)), out, err);
	} else if (slice_has_prefix(text, SCHEME_TCP)) {
		rc = parse_host(slice_skip(text, strlen(SCHEME_TCP)), out, err);
	} else if (slice_has_prefix(text, SCHEME_TLS)) {
		out->is_tls = true;
		rc = parse_host(slice_skip(text, strlen(SCHEME_TLS)), out, err);
	} else {
		/* The rest behind the scheme may be a password. */
		text.len = slice_find(text, ':');
		rc = error_set(err, TIDE_ESYNTAX,
			       "'%.*s' must begin with " SCHEME_TCP ", " SCHEME_TLS
			       " or " SCHEME_UNIX,
			       SLICE_HEAD(text, 100));
	}
	if (rc == TIDE_OK && out->at.user && !out->at.user[0])
		rc = error_set(err, TIDE_ESYNTAX, "the user is empty");
	if (rc == TIDE_OK && out->at.password && !out->at.password[0])
		rc = error_set(err, TIDE_ESYNTAX, "the password is empty");
	return rc;
}

static bool has_scheme(struct slice text)
{
	return slice_has_prefix(text, SCHEME_TCP) || slice_has_prefix(text, SCHEME_TLS) ||
	       slice_has_prefix(text, SCHEME_UNIX);
}

/* Take the next URL off the list. */
static struct slice take_url(struct slice *rest)
{
	struct slice all = *rest;
	size_t at = 0;

	do {
		at += slice_find(slice_skip(all, at), ',');
		*rest = slice_skip(all, at < all.len ? at + 1 : at);
		at++;
	} while (rest->len > 0 && !has_scheme(*rest));
	return (struct slice){ all.data, at - 1 };
}

void client_url_free(struct client_url *urls, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		url_deinit(&urls[i].at);
		mem_free(urls[i].vhost);
		mem_free(urls[i].cell);
	}
	mem_free(urls);
}

int client_url_parse(const char *text, struct client_url **out, size_t *count,
		     struct tidemq_error *err)
{
	struct slice rest = slice_from(text);
	struct client_url *urls = NULL;
	struct error why;
	size_t n = 0;
	int rc;

	do {
		urls = mem_realloc(urls, (n + 1) * sizeof(*urls));
		urls[n] = (struct client_url){ 0 };
		rc = parse_url(take_url(&rest), &urls[n++], &why);
	} while (rest.len > 0 && rc == TIDE_OK);
	*out = urls;
	*count = n;
	if (rc == TIDE_OK)
		return TIDEMQ_OK;
	client_url_free(urls, n);
	*out = NULL;
	*count = 0;
	return client_fail(err, TIDEMQ_EINVAL, "the URL is wrong: %s", why.text);
}
