#include "decoder.h"

#include "base/container.h"
#include "base/mem.h"
#include "base/percent.h"
#include "client.h"

#define CHANNEL_MAX 65535

void decoder_init(struct decoder *d, size_t body_max)
{
	*d = (struct decoder){ .body_max = body_max };
}

void decoder_deinit(struct decoder *d)
{
	buf_deinit(&d->in);
}

/* Take the last word, a number, off `line`. */
static bool take_len(struct slice *line, uint64_t *out)
{
	const char *space = line->len ? memrchr(line->data, ' ', line->len) : NULL;
	size_t at = space ? (size_t)(space - line->data) : 0;
	struct slice word = slice_skip(*line, space ? at + 1 : 0);

	line->len = at;
	return slice_to_uint(word, SIZE_MAX / 2, out);
}

static int refuse_line(struct tidemq_error *err, struct slice line)
{
	return client_fail(err, TIDEMQ_EPROTOCOL,
			   "not a reply from a tidemq broker: '%" SLICE_FMT "'",
			   SLICE_HEAD(line, 80));
}

void tidemq_msg_free(struct tidemq_msg *m)
{
	if (m)
		mem_free(container_of(m, struct msg_box, msg));
}

const char *tidemq_msg_header(const struct tidemq_msg *m, const char *name)
{
	for (size_t i = 0; i < m->header_count; i++)
		if (strcmp(m->headers[i].name, name) == 0)
			return m->headers[i].value;
	return NULL;
}

static size_t count_headers(struct slice line)
{
	size_t count = 0;

	/* Most messages have none. */
	if (!memmem(line.data, line.len, " h:", 3))
		return 0;
	while (line.len > 0)
		count += slice_has_prefix(slice_cut(&line, ' '), "h:");
	return count;
}

/* The word, which lies in the message's own copy of the line, as a text: the
 * space after it has room for the zero. `-` is the empty text. */
static const char *word_text(struct slice word)
{
	char *text = (char *)(uintptr_t)word.data;

	text[word.len] = 0;
	return slice_is(word, "-") ? "" : text;
}

/* h:name=value */
static bool parse_header(struct slice word, struct tidemq_header *h)
{
	word = slice_skip(word, 2);
	char *name = (char *)(uintptr_t)word.data;
	char *equals = memchr(name, '=', word.len);
	if (!equals)
		return false;
	*equals = 0;
	struct slice value = slice_skip(word, (size_t)(equals - name) + 1);
	if (percent_decode(value, equals + 1, &h->value_len) != TIDE_OK)
		return false;
	equals[1 + h->value_len] = 0;
	h->name = name;
	h->value = equals + 1;
	return true;
}

static bool parse_option(struct slice word, struct tidemq_msg *m)
{
	struct slice value = word, name = slice_cut(&value, '=');
	uint64_t n = 0;
	bool is_good = true;

	if (slice_is(name, "id")) {
		is_good = value.len == sizeof(m->id) - 1;
		if (is_good)
			memcpy(m->id, value.data, value.len);
	} else if (slice_is(name, "ts")) {
		is_good = slice_to_uint(value, INT64_MAX, &n);
		m->ts_unix_ms = (int64_t)n;
	} else if (slice_is(name, "pri")) {
		is_good = slice_to_uint(value, UINT32_MAX, &n);
		m->priority = (unsigned)n;
	} else if (slice_is(name, "partition")) {
		is_good = slice_to_uint(value, UINT32_MAX, &n);
		m->partition = (unsigned)n;
	} else if (slice_is(name, "offset")) {
		is_good = slice_to_uint(value, INT64_MAX, &m->offset);
		m->has_offset = true;
	} else if (slice_is(word, "redelivered")) {
		m->redelivered = true;
	}
	/* Words of later protocol versions are passed over. */
	return is_good;
}

/* Fill `m` from the words after MSG, which lie in its own memory. */
static bool parse_msg(struct slice line, struct tidemq_msg *m,
		      struct tidemq_header *headers)
{
	struct slice sid = slice_cut(&line, ' ');
	struct slice tag = slice_cut(&line, ' ');
	uint64_t attempt = 0;

	if (sid.len == 0 || !slice_to_uint(slice_cut(&line, ' '), UINT32_MAX, &attempt))
		return false;
	if (!slice_is(tag, "-") && !slice_to_uint(tag, UINT64_MAX, &m->tag))
		return false;
	struct slice exchange = slice_cut(&line, ' ');
	struct slice key = slice_cut(&line, ' ');
	if (exchange.len == 0 || key.len == 0)
		return false;
	m->attempt = (unsigned)attempt;
	while (line.len > 0) {
		struct slice word = slice_cut(&line, ' ');

		if (slice_has_prefix(word, "h:")) {
			if (!parse_header(word, &headers[m->header_count++]))
				return false;
		} else if (!parse_option(word, m)) {
			return false;
		}
	}
	m->sid = slice_is(sid, "-") ? "-" : word_text(sid);
	m->exchange = word_text(exchange);
	m->key = word_text(key);
	return true;
}

/* A message of its own memory: the struct, the headers, the line, the payload. */
static int build_msg(struct slice line, struct slice body, unsigned channel,
		     struct tidemq_msg **out, struct tidemq_error *err)
{
	size_t header_count = count_headers(line);
	size_t headers_size = header_count * sizeof(struct tidemq_header);
	struct msg_box *box =
		mem_try_alloc(sizeof(*box) + headers_size + line.len + 1 + body.len + 1);

	if (!box)
		return client_fail(err, TIDEMQ_ENOMEM,
				   "no memory for a message of %zu bytes", body.len);
	memset(box, 0, sizeof(*box));
	struct tidemq_msg *m = &box->msg;
	struct tidemq_header *headers = (struct tidemq_header *)(box + 1);
	char *text = (char *)(box + 1) + headers_size;
	char *payload = text + line.len + 1;
	memcpy(text, line.data, line.len);
	text[line.len] = 0;
	if (body.len)
		memcpy(payload, body.data, body.len);
	payload[body.len] = 0;

	m->channel = channel;
	m->headers = headers;
	m->payload = payload;
	m->payload_len = body.len;
	if (!parse_msg((struct slice){ text, line.len }, m, headers)) {
		tidemq_msg_free(m);
		return refuse_line(err, line);
	}
	*out = m;
	return TIDEMQ_OK;
}

/* The content of a line: an item without its message or document, and the length of
 * what follows the line. */
struct decoded_line {
	struct decoder_item item;
	bool has_body;
	size_t body_len;
};

static bool parse_kind(struct slice word, struct decoded_line *out)
{
	static const struct {
		const char *word;
		enum decoder_item_kind kind;
		bool has_body;
	} kinds[] = {
		{ "OK", ITEM_OK, false },     { "MSG", ITEM_MSG, true },
		{ "ERR", ITEM_ERR, false },   { "DATA", ITEM_DATA, true },
		{ "EVT", ITEM_EVENT, false },
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (slice_is(word, kinds[i].word)) {
			out->item.kind = kinds[i].kind;
			out->has_body = kinds[i].has_body;
			return true;
		}
	}
	return false;
}

/* Read a line without its end; its text is what stands between the first word, an
 * error's code, and the length of a body. */
static int parse_line(const struct decoder *d, struct slice line,
		      struct decoded_line *out, struct tidemq_error *err)
{
	struct slice whole = line, word = slice_cut(&line, ' ');
	uint64_t n = 0;

	*out = (struct decoded_line){ .has_body = false };
	if (slice_has_prefix(word, "@")) {
		if (!slice_to_uint(slice_skip(word, 1), CHANNEL_MAX, &n))
			return refuse_line(err, whole);
		out->item.channel = (unsigned)n;
		word = slice_cut(&line, ' ');
	}
	if (!parse_kind(word, out))
		return refuse_line(err, whole);
	if (out->item.kind == ITEM_ERR)
		out->item.word = slice_cut(&line, ' ');
	if (out->has_body && !take_len(&line, &n))
		return refuse_line(err, whole);
	if (out->has_body && n > d->body_max)
		return client_fail(err, TIDEMQ_EPROTOCOL,
				   "the broker sends %llu bytes at once, more than "
				   "this client's limit of %zu",
				   (unsigned long long)n, d->body_max);
	out->body_len = out->has_body ? (size_t)n : 0;
	out->item.text = line;
	return TIDEMQ_OK;
}

/* Find the line end, and what comes behind it. */
static int find_line(struct decoder *d, struct slice *line, struct tidemq_error *err)
{
	struct slice all = buf_slice(&d->in);

	*line = (struct slice){ all.data, 0 };
	line->len = d->scanned + slice_find(slice_skip(all, d->scanned), '\n');
	d->scanned = line->len;
	if (line->len < all.len)
		return TIDEMQ_OK;
	if (all.len > DECODE_LINE_MAX)
		return client_fail(err, TIDEMQ_EPROTOCOL,
				   "the broker sent a line of more than %d bytes",
				   DECODE_LINE_MAX);
	return TIDE_AGAIN;
}

/* The length of the body with its line end: TIDE_AGAIN while it is not whole. */
static int measure_body(struct decoder *d, struct slice rest, size_t len, size_t *out,
			struct tidemq_error *err)
{
	bool has_return = rest.len > len && rest.data[len] == '\r';

	*out = len + has_return + 1;
	if (rest.len < *out) {
		if (buf_try_reserve(&d->in,
				    len + 2 - (rest.len < len ? rest.len : len)) !=
		    TIDE_OK)
			return client_fail(err, TIDEMQ_ENOMEM, "no memory for %zu bytes",
					   len);
		return TIDE_AGAIN;
	}
	if (rest.data[*out - 1] != '\n')
		return client_fail(err, TIDEMQ_EPROTOCOL,
				   "no line end follows the broker's %zu bytes", len);
	return TIDEMQ_OK;
}

int decoder_next(struct decoder *d, struct decoder_item *out, struct tidemq_error *err)
{
	struct decoded_line found;
	struct slice line, body;
	size_t body_and_end = 0;
	int rc;

	buf_consume(&d->in, d->done);
	d->done = 0;
	rc = find_line(d, &line, err);
	if (rc != TIDEMQ_OK)
		return rc;
	body = slice_skip(buf_slice(&d->in), line.len + 1);
	if (slice_has_suffix(line, "\r"))
		line.len--;
	rc = parse_line(d, line, &found, err);
	if (rc == TIDEMQ_OK && found.has_body)
		rc = measure_body(d, body, found.body_len, &body_and_end, err);
	if (rc != TIDEMQ_OK)
		return rc;
	d->done = d->scanned + 1 + body_and_end;
	d->scanned = 0;
	body.len = found.body_len;
	*out = found.item;
	if (out->kind == ITEM_MSG)
		return build_msg(out->text, body, out->channel, &out->msg, err);
	if (out->kind == ITEM_DATA)
		out->text = body;
	((char *)(uintptr_t)out->text.data)[out->text.len] = 0;
	return TIDEMQ_OK;
}
