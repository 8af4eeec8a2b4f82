#include "http_head.h"

#include <strings.h>

#define ALPHA "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGIT "0123456789"
#define FRAMING                                                                 \
	"400 a body has one Content-Length, or Transfer-Encoding: chunked and " \
	"no length"

/* ---- where it ends ---- */

static const char *refuse_length(unsigned lines)
{
	return lines == 0 ? "414 the first line of a request is too long"
			  : "431 the headers of a request are too long, or too many";
}

static bool is_control(char c)
{
	return ((unsigned char)c < ' ' && c != '\t') || c == 0x7f;
}

const char *http_head_scan(struct http_scan *s, struct slice data, size_t max,
			   size_t *len)
{
	*len = 0;
	while (s->at < data.len) {
		const char *at = data.data + s->at;

		if (s->at >= max)
			return refuse_length(s->lines);
		if (!is_control(*at)) {
			s->at++;
			continue;
		}
		if (*at != '\r')
			return "400 a line has a control character, or does not end with "
			       "CR LF";
		if (s->at + 1 == data.len)
			return NULL;
		if (at[1] != '\n')
			return "400 a CR stands without its LF";
		s->at += 2;
		if (s->at == s->line + 2) {
			*len = s->at;
			return NULL;
		}
		s->line = s->at;
		s->lines++;
	}
	return NULL;
}

/* ---- a header ---- */

static size_t http_head_token(const char *text)
{
	return strspn(text, ALPHA DIGIT "!#$%&'*+-.^_`|~");
}

/* The line, without its CR LF: no CR is elsewhere. */
static char *cut_line(char **rest)
{
	char *line = *rest, *end = strchr(line, '\r');

	*end = '\0';
	*rest = end + 2;
	return line;
}

static struct slice trim(struct slice text)
{
	while (text.len > 0 && strchr(" \t", text.data[text.len - 1]))
		text.len--;
	while (text.len > 0 && strchr(" \t", text.data[0]))
		text = slice_skip(text, 1);
	return text;
}

/* "Name: value", of which the colon becomes a zero. */
static const char *read_field(char *line, struct slice *value)
{
	size_t len = http_head_token(line);

	if (*line == ' ' || *line == '\t')
		return "400 a line begins with a blank: a header may not be folded";
	if (len == 0 || line[len] != ':')
		return "400 a header is a name with a colon at its end";
	line[len] = '\0';
	*value = trim(slice_from(line + len + 1));
	return NULL;
}

static const char *next_field(const char *name)
{
	const char *value = name + strlen(name) + 1;

	return value + strlen(value) + 1;
}

/* Two of one of these would be read by one side as the first, by another as the last. */
static const char *check_single(const struct http_head *h, const char *name)
{
	static const char *const rows[][2] = {
		{ "Content-Length", FRAMING },
		{ "Transfer-Encoding", FRAMING },
		{ "Host", "400 Host is given twice" },
		{ "Authorization", "400 Authorization is given twice" },
		{ "Content-Type", "400 Content-Type is given twice" },
		{ "Origin", "400 Origin is given twice" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (strcasecmp(name, rows[i][0]) == 0 && http_head_field(h, name))
			return rows[i][1];
	return NULL;
}

/* Names and values move together to the front. */
static const char *read_fields(struct http_head *h, char *rest)
{
	const char *why = NULL;
	char *out = rest, *line;
	struct slice value;

	h->fields = out;
	while (*(line = cut_line(&rest))) {
		if (h->field_count == HTTP_FIELDS_MAX)
			return refuse_length(1);
		why = read_field(line, &value);
		if (!why)
			why = check_single(h, line);
		if (why)
			return why;
		memmove(out, line, strlen(line) + 1);
		out += strlen(out) + 1;
		memmove(out, value.data, value.len);
		out += value.len;
		*out++ = '\0';
		h->field_count++;
	}
	return NULL;
}

static const char *http_head_read_trailers(char *text)
{
	const char *why = NULL;
	struct slice value;
	char *line;

	while (!why && *(line = cut_line(&text)))
		why = read_field(line, &value);
	return why;
}

const char *http_head_field(const struct http_head *h, const char *name)
{
	const char *at = h->fields;

	for (unsigned i = 0; i < h->field_count; i++, at = next_field(at))
		if (strcasecmp(at, name) == 0)
			return at + strlen(at) + 1;
	return NULL;
}

static bool has_word(struct slice list, const char *word)
{
	while (list.len > 0) {
		struct slice one = trim(slice_cut(&list, ','));

		if (one.len == strlen(word) && strncasecmp(one.data, word, one.len) == 0)
			return true;
	}
	return false;
}

bool http_head_has_word(const struct http_head *h, const char *name, const char *word)
{
	const char *at = h->fields;

	for (unsigned i = 0; i < h->field_count; i++, at = next_field(at))
		if (strcasecmp(at, name) == 0 &&
		    has_word(slice_from(at + strlen(at) + 1), word))
			return true;
	return false;
}

/* ---- the first line ---- */

static bool is_host(const char *host)
{
	return strspn(host, ALPHA DIGIT "-._~%!$&'()*+;=:[]") == strlen(host);
}

/* "http://HOST/PATH": the host moves to the left, to have a zero behind it. */
static const char *read_absolute(struct http_head *h, char *target)
{
	size_t scheme = strncasecmp(target, "http://", 7) == 0 ? 7 : 0, len;
	char *host, *path;

	if (strncasecmp(target, "https://", 8) == 0)
		scheme = 8;
	host = target + scheme;
	len = strcspn(host, "/?");
	if (scheme == 0 || len == 0)
		return "400 a target begins with '/', or with http://HOST";
	path = host + len;
	memmove(host - 2, host, len);
	host[len - 2] = '\0';
	h->host = host - 2;
	h->target = *path == '/' ? path : "/";
	if (*path == '?') {
		path[-1] = '/';
		h->target = path - 1;
	}
	return is_host(h->host) ? NULL : "400 the host of the target is none";
}

static const char *read_target(struct http_head *h, char *target)
{
	for (const char *at = target; *at; at++)
		if (*at <= ' ' || *at > '~' || *at == '#')
			return "400 a target is ASCII without blanks and '#': write "
			       "others as "
			       "%HH";
	h->target = target;
	if (*target == '/' ||
	    (strcmp(target, "*") == 0 && strcmp(h->method, "OPTIONS") == 0))
		return NULL;
	return read_absolute(h, target);
}

static const char *read_version(struct http_head *h, const char *text)
{
	bool is_version = strncmp(text, "HTTP/", 5) == 0 && strlen(text) == 8 &&
			  strchr(DIGIT, text[5]) && text[6] == '.' &&
			  strchr(DIGIT, text[7]);

	if (!is_version)
		return "400 the first line is METHOD TARGET HTTP/1.1, with one blank "
		       "between them";
	h->is_old = strcmp(text, "HTTP/1.0") == 0;
	if (h->is_old || strcmp(text, "HTTP/1.1") == 0)
		return NULL;
	return "505 the versions that are spoken here are HTTP/1.1 and HTTP/1.0";
}

static const char *read_first(struct http_head *h, char *line)
{
	size_t len = http_head_token(line);
	char *target = line + len + 1, *version;
	const char *why;

	version = line[len] == ' ' ? strchr(target, ' ') : NULL;
	if (len == 0 || !version)
		return read_version(h, "");
	line[len] = *version++ = '\0';
	h->method = line;
	why = read_version(h, version);
	return why ? why : read_target(h, target);
}

/* ---- what the headers mean ---- */

static const char *read_host(struct http_head *h)
{
	const char *host = http_head_field(h, "Host");

	if (!host && !h->is_old)
		return "400 HTTP/1.1 needs a Host";
	if (host && !is_host(host))
		return "400 Host must be a name or an address, and perhaps a port";
	if (!h->host)
		h->host = host;
	return NULL;
}

/* Whoever stands between must not see another end of the body than we do. */
static const char *read_framing(struct http_head *h)
{
	const char *length = http_head_field(h, "Content-Length");
	const char *encoding = http_head_field(h, "Transfer-Encoding");

	h->is_chunked = encoding && strcasecmp(encoding, "chunked") == 0;
	if (encoding && (length || h->is_old || !h->is_chunked))
		return FRAMING;
	if (length && !slice_to_uint(slice_from(length), UINT64_MAX, &h->length))
		return "400 Content-Length must be a number of bytes";
	return NULL;
}

const char *http_head_read(struct http_head *out, char *text)
{
	const char *why;

	*out = (struct http_head){ 0 };
	why = read_first(out, cut_line(&text));
	if (!why)
		why = read_fields(out, text);
	if (!why)
		why = read_host(out);
	if (!why)
		why = read_framing(out);
	if (why)
		return why;
	out->is_expected =
		!out->is_old && http_head_has_word(out, "Expect", "100-continue");
	out->is_last =
		http_head_has_word(out, "Connection", "close") ||
		(out->is_old && !http_head_has_word(out, "Connection", "keep-alive"));
	return NULL;
}

/* The body of a request, as its pieces come: by a length, or in chunks.
 *
 * It refuses as http_head.h does. */

/* A length, and extensions that nobody sends. */
#define SIZE_LINE_MAX 256
#define SIZE_DIGITS_MAX 16 /* behind zeros */
#define TRAILERS_MAX ((size_t)8 << 10)

void http_body_init(struct http_body *b, const struct http_head *h)
{
	*b = (struct http_body){ .left = h->length };
	if (h->is_chunked)
		b->state = HTTP_BODY_SIZE;
	else if (h->length == 0)
		b->state = HTTP_BODY_DONE;
	b->scan.lines = 1; /* the first line of the request, for one */
}

/* ---- the line before a chunk ---- */

/* A value in quotes; gives what is behind it, or NULL. */
static const char *skip_quoted(const char *at)
{
	for (at++; *at != '"'; at++) {
		at += *at == '\\';
		if (*at == '\r')
			return NULL;
	}
	return at + 1;
}

/* ";name=value" of each; false: that is no extension. */
static bool has_extensions(const char *at)
{
	while (*at == ';') {
		size_t len = http_head_token(++at);

		at += len;
		if (len == 0)
			return false;
		if (*at != '=')
			continue;
		len = http_head_token(++at);
		if (len == 0 && *at != '"')
			return false;
		at = len ? at + len : skip_quoted(at);
		if (!at)
			return false;
	}
	return *at == '\r';
}

static const char *read_size(struct http_body *b, const char *line)
{
	size_t zeros = strspn(line, "0"),
	       digits = strspn(line + zeros, "0123456789abcdefABCDEF");
	const char *at = line + zeros;

	if (zeros + digits == 0 || digits > SIZE_DIGITS_MAX)
		return "400 a chunk begins with its length, in at most 16 "
		       "hexadecimal digits";
	if (!has_extensions(at + digits))
		return "400 CR LF follows the length of a chunk";
	for (b->left = 0; digits > 0; digits--, at++)
		b->left =
			b->left << 4 | (*at <= '9' ? *at - '0' : (*at | ' ') - 'a' + 10);
	b->state = b->left ? HTTP_BODY_CHUNK : HTTP_BODY_TRAILERS;
	return NULL;
}

static const char *feed_size(struct http_body *b, struct slice data, size_t *used)
{
	size_t len = 0;

	while (len < data.len && len < SIZE_LINE_MAX && data.data[len] >= ' ')
		len++;
	if (len == SIZE_LINE_MAX)
		return "400 the line before a chunk is too long";
	if (len == data.len || (data.data[len] == '\r' && len + 1 == data.len))
		return NULL;
	if (data.data[len] != '\r' || data.data[len + 1] != '\n')
		return "400 CR LF follows the length of a chunk";
	*used = len + 2;
	return read_size(b, data.data);
}

/* ---- what is behind it ---- */

static const char *feed_crlf(struct http_body *b, struct slice data, size_t *used)
{
	if (data.data[0] != '\r' || (data.len > 1 && data.data[1] != '\n'))
		return "400 CR LF follows a chunk";
	if (data.len == 1)
		return NULL;
	*used = 2;
	b->state = HTTP_BODY_SIZE;
	return NULL;
}

static const char *feed_trailers(struct http_body *b, char *data, size_t len,
				 size_t *used)
{
	const char *why =
		http_head_scan(&b->scan, (struct slice){ data, len }, TRAILERS_MAX, used);

	if (why || *used == 0)
		return why;
	b->state = HTTP_BODY_DONE;
	return http_head_read_trailers(data);
}

static void feed_bytes(struct http_body *b, struct slice data, size_t *used,
		       struct slice *piece)
{
	*used = data.len < b->left ? data.len : (size_t)b->left;
	*piece = (struct slice){ data.data, *used };
	b->left -= *used;
	if (b->left == 0)
		b->state = b->state == HTTP_BODY_CHUNK ? HTTP_BODY_CRLF : HTTP_BODY_DONE;
}

const char *http_body_feed(struct http_body *b, char *data, size_t len, size_t *used,
			   struct slice *piece)
{
	struct slice all = { data, len };

	*used = 0;
	*piece = (struct slice){ 0 };
	switch (b->state) {
	case HTTP_BODY_SIZE:
		return feed_size(b, all, used);
	case HTTP_BODY_CRLF:
		return feed_crlf(b, all, used);
	case HTTP_BODY_TRAILERS:
		return feed_trailers(b, data, len, used);
	default:
		feed_bytes(b, all, used, piece);
		return NULL;
	}
}
