#include "cli_url.h"

#include <ctype.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"

#define SCHEME_UNIX "tide+unix:"

/* All that may have a meaning in a URL. */
static void append_encoded(struct buf *out, const char *text)
{
	for (; *text; text++)
		if (isalnum((unsigned char)*text) || strchr("-._~", *text))
			buf_append_char(out, *text);
		else
			buf_printf(out, "%%%02X", (unsigned char)*text);
}

/* In the query of a socket the last vhost counts.
 *
 * @param vhost  NULL: the cell */
static void append_with(struct buf *out, struct slice url, const char *vhost,
			unsigned cell)
{
	const char *scheme = memmem(url.data, url.len, "://", 3);
	bool is_socket = slice_has_prefix(url, SCHEME_UNIX);
	struct slice host = slice_skip(url, scheme ? (size_t)(scheme - url.data) + 3 : 0);
	size_t len = slice_find(host, '/');

	if (is_socket) {
		buf_append_slice(out, url);
		buf_append_char(out, memchr(url.data, '?', url.len) ? '&' : '?');
		buf_append_text(out, vhost ? "vhost=" : "");
	} else {
		buf_append(out, url.data, (size_t)(host.data - url.data) + len);
		buf_append_char(out, '/');
	}
	if (vhost)
		append_encoded(out, vhost);
	else
		buf_printf(out, is_socket ? "cell=%u" : "?cell=%u", cell);
}

static char *url_with(const char *urls, const char *vhost, unsigned cell)
{
	struct buf out = { 0 };
	const char *next;
	char *text;

	for (;; urls = next + 1) {
		next = strstr(urls, ",tide");
		append_with(&out,
			    (struct slice){ urls,
					    next ? (size_t)(next - urls) : strlen(urls) },
			    vhost, cell);
		if (!next)
			break;
		buf_append_char(&out, ',');
	}
	text = mem_strdup(buf_cstr(&out));
	buf_deinit(&out);
	return text;
}

char *cli_url_with(const char *urls, const char *vhost)
{
	return url_with(urls, vhost, 0);
}

char *cli_url_of_cell(const char *urls, unsigned cell)
{
	return url_with(urls, NULL, cell);
}
