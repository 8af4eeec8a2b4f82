#include "http_body.h"

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
