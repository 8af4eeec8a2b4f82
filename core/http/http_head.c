#include "http_head.h"

#include <strings.h>

#define ALPHA "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGIT "0123456789"
#define FRAMING \
	"a body has one Content-Length, or Transfer-Encoding: chunked and no length"

static unsigned refuse(struct error *err, const char *why)
{
	error_set(err, TIDE_ESYNTAX, "%s", why);
	return 400;
}

/* ---- where it ends ---- */

static unsigned refuse_length(const struct http_scan *s, size_t max, struct error *err)
{
	error_set(err, TIDE_ETOOLONG, "at most %zu bytes and %d headers are read here",
		  max, HTTP_FIELDS_MAX);
	return s->lines == 0 ? 414 : 431;
}

static bool is_control(char c)
{
	return ((unsigned char)c < ' ' && c != '\t') || c == 0x7f;
}

unsigned http_head_scan(struct http_scan *s, struct slice data, size_t max, size_t *len,
			struct error *err)
{
	*len = 0;
	while (s->at < data.len) {
		if (s->at >= max)
			return refuse_length(s, max, err);
		if (!is_control(data.data[s->at])) {
			s->at++;
			continue;
		}
		if (data.data[s->at] != '\r')
			return refuse(err, "a line ends with CR LF, and has no other "
					   "control characters");
		if (s->at + 1 == data.len)
			return 0;
		if (data.data[s->at + 1] != '\n')
			return refuse(err, "a CR stands without its LF");
		s->at += 2;
		if (s->at == s->line + 2) {
			*len = s->at;
			return 0;
		}
		s->line = s->at;
		s->lines++;
	}
	return 0;
}

/* ---- a header ---- */

size_t http_head_token(const char *text)
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

static char *trim(char *text)
{
	char *end = text + strlen(text);

	while (end > text && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	*end = '\0';
	return text + strspn(text, " \t");
}

/* "Name: value", of which the colon becomes a zero. */
static unsigned read_field(char *line, char **value, struct error *err)
{
	size_t len = http_head_token(line);

	if (*line == ' ' || *line == '\t')
		return refuse(err, "a header may not be folded: a line begins with a "
				   "blank");
	if (len == 0 || line[len] != ':')
		return refuse(err, "a header is a name and a colon, with no blank "
				   "between them");
	line[len] = '\0';
	*value = trim(line + len + 1);
	return 0;
}

static const char *next_field(const char *name)
{
	const char *value = name + strlen(name) + 1;

	return value + strlen(value) + 1;
}

/* Two of one of these would be read by one side as the first, by another as the last. */
static unsigned check_single(const struct http_head *h, const char *name,
			     struct error *err)
{
	static const struct {
		const char *name, *why;
	} rows[] = {
		{ "Content-Length", FRAMING },
		{ "Transfer-Encoding", FRAMING },
		{ "Host", "Host is given twice" },
		{ "Expect", "Expect is given twice" },
		{ "Authorization", "Authorization is given twice" },
		{ "Content-Type", "Content-Type is given twice" },
		{ "Origin", "Origin is given twice" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (strcasecmp(name, rows[i].name) == 0 && http_head_field(h, name))
			return refuse(err, rows[i].why);
	return 0;
}

/* Names and values move together to the front. */
static unsigned read_fields(struct http_head *h, char *rest, struct error *err)
{
	char *out = rest, *line, *value;
	unsigned status;

	h->fields = out;
	while (*(line = cut_line(&rest))) {
		if (h->field_count == HTTP_FIELDS_MAX)
			return refuse_length(&(struct http_scan){ .lines = 1 },
					     HTTP_HEAD_MAX, err);
		status = read_field(line, &value, err);
		if (status == 0)
			status = check_single(h, line, err);
		if (status)
			return status;
		memmove(out, line, strlen(line) + 1);
		out += strlen(out) + 1;
		memmove(out, value, strlen(value) + 1);
		out += strlen(out) + 1;
		h->field_count++;
	}
	return 0;
}

unsigned http_head_read_trailers(char *text, struct error *err)
{
	char *rest = text, *line, *value;
	unsigned status = 0;

	while (status == 0 && *(line = cut_line(&rest)))
		status = read_field(line, &value, err);
	return status;
}

const char *http_head_field(const struct http_head *h, const char *name)
{
	const char *at = h->fields;

	for (unsigned i = 0; i < h->field_count; i++, at = next_field(at))
		if (strcasecmp(at, name) == 0)
			return at + strlen(at) + 1;
	return NULL;
}

static bool is_word(struct slice word, const char *wanted, bool is_exact)
{
	return word.len == strlen(wanted) &&
	       (is_exact ? memcmp(word.data, wanted, word.len)
			 : strncasecmp(word.data, wanted, word.len)) == 0;
}

static bool has_word(const char *list, const char *word, bool is_exact)
{
	struct slice rest = slice_from(list);

	while (rest.len > 0) {
		struct slice one = slice_cut(&rest, ',');

		while (slice_has_prefix(one, " ") || slice_has_prefix(one, "\t"))
			one = slice_skip(one, 1);
		while (slice_has_suffix(one, " ") || slice_has_suffix(one, "\t"))
			one.len--;
		if (is_word(one, word, is_exact))
			return true;
	}
	return false;
}

bool http_head_has_word(const struct http_head *h, const char *name, const char *word,
			bool is_exact)
{
	const char *at = h->fields;

	for (unsigned i = 0; i < h->field_count; i++, at = next_field(at))
		if (strcasecmp(at, name) == 0 &&
		    has_word(at + strlen(at) + 1, word, is_exact))
			return true;
	return false;
}

/* ---- the first line ---- */

static bool is_host(const char *host)
{
	return strspn(host, ALPHA DIGIT "-._~%!$&'()*+;=:[]") == strlen(host);
}

/* "http://HOST/PATH": the host moves to the left, to have a zero behind it. */
static unsigned read_absolute(struct http_head *h, char *target, struct error *err)
{
	size_t scheme = strncasecmp(target, "http://", 7) == 0    ? 7
			: strncasecmp(target, "https://", 8) == 0 ? 8
								  : 0;
	char *host = target + scheme, *path;
	size_t len = strcspn(host, "/?");

	if (scheme == 0 || len == 0)
		return refuse(err, "a target begins with '/', or with http://HOST");
	path = host + len;
	memmove(host - 2, host, len);
	host[len - 2] = '\0';
	h->host = host - 2;
	h->target = *path == '/' ? path : "/";
	if (*path == '?') {
		path[-1] = '/';
		h->target = path - 1;
	}
	return is_host(h->host) ? 0 : refuse(err, "the target's host is none");
}

static unsigned read_target(struct http_head *h, char *target, struct error *err)
{
	for (const char *at = target; *at; at++)
		if (*at <= ' ' || *at > '~' || *at == '#')
			return refuse(err, "a target is ASCII without blanks and '#': "
					   "write others as %HH");
	h->target = target;
	if (*target == '/' ||
	    (strcmp(target, "*") == 0 && strcmp(h->method, "OPTIONS") == 0))
		return 0;
	return read_absolute(h, target, err);
}

static unsigned read_version(struct http_head *h, const char *text, struct error *err)
{
	bool is_version = strncmp(text, "HTTP/", 5) == 0 && strlen(text) == 8 &&
			  strchr(DIGIT, text[5]) && text[6] == '.' &&
			  strchr(DIGIT, text[7]);

	if (!is_version)
		return refuse(err, "the first line is METHOD TARGET HTTP/1.1, with one "
				   "blank between them");
	h->is_old = strcmp(text, "HTTP/1.0") == 0;
	if (h->is_old || strcmp(text, "HTTP/1.1") == 0)
		return 0;
	error_set(err, TIDE_ESYNTAX,
		  "the versions that are spoken here are HTTP/1.1 and "
		  "HTTP/1.0");
	return 505;
}

static unsigned read_first(struct http_head *h, char *line, struct error *err)
{
	size_t len = http_head_token(line);
	char *target = line + len + 1, *version;
	unsigned status;

	version = line[len] == ' ' ? strchr(target, ' ') : NULL;
	if (len == 0 || !version)
		return read_version(h, "", err);
	line[len] = *version++ = '\0';
	h->method = line;
	status = read_version(h, version, err);
	return status ? status : read_target(h, target, err);
}

/* ---- what the headers mean ---- */

static unsigned read_host(struct http_head *h, struct error *err)
{
	const char *host = http_head_field(h, "Host");

	if (!host && !h->is_old)
		return refuse(err, "HTTP/1.1 needs a Host");
	if (host && !is_host(host))
		return refuse(err, "Host must be a name or an address, and perhaps a "
				   "port");
	if (!h->host)
		h->host = host;
	return 0;
}

/* Whoever stands between must not see another end of the body than we do. */
static unsigned read_framing(struct http_head *h, struct error *err)
{
	const char *length = http_head_field(h, "Content-Length");
	const char *encoding = http_head_field(h, "Transfer-Encoding");

	h->is_chunked = encoding && strcasecmp(encoding, "chunked") == 0;
	if (encoding && (length || h->is_old || !h->is_chunked))
		return refuse(err, FRAMING);
	if (length && !slice_to_uint(slice_from(length), UINT64_MAX, &h->length))
		return refuse(err, "Content-Length must be a number of bytes");
	return 0;
}

static unsigned read_expectation(struct http_head *h, struct error *err)
{
	const char *expect = http_head_field(h, "Expect");

	h->is_expected = expect && !h->is_old;
	if (!h->is_expected || strcasecmp(expect, "100-continue") == 0)
		return 0;
	error_set(err, TIDE_ESYNTAX, "Expect must be 100-continue");
	return 417;
}

unsigned http_head_read(struct http_head *out, char *text, struct error *err)
{
	char *rest = text;
	unsigned status;

	*out = (struct http_head){ 0 };
	status = read_first(out, cut_line(&rest), err);
	if (status == 0)
		status = read_fields(out, rest, err);
	if (status == 0)
		status = read_host(out, err);
	if (status == 0)
		status = read_framing(out, err);
	if (status == 0)
		status = read_expectation(out, err);
	if (status)
		return status;
	out->is_last = http_head_has_word(out, "Connection", "close", false) ||
		       (out->is_old &&
			!http_head_has_word(out, "Connection", "keep-alive", false));
	return 0;
}
