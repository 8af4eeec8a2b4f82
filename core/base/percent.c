#include "percent.h"

#include <stdio.h>
#include <string.h>

#include "bytes.h"
#include "mem.h"

size_t percent_encoded_len(struct slice value)
{
	size_t len = 0, run;

	while ((run = percent_plain_len(value)) < value.len) {
		len += run + 3;
		value = slice_skip(value, run + 1);
	}
	return len + value.len;
}

void percent_encode(struct buf *out, struct slice value)
{
	static const char digits[] = "0123456789ABCDEF";
	size_t run;

	while ((run = percent_plain_len(value)) < value.len) {
		unsigned char c = (unsigned char)value.data[run];
		const char code[3] = { '%', digits[c >> 4], digits[c & 0xf] };

		buf_append(out, value.data, run);
		buf_append(out, code, sizeof(code));
		value = slice_skip(value, run + 1);
	}
	buf_append_slice(out, value);
}

int percent_decode(struct slice value, char *out, size_t *out_len)
{
	size_t len = 0;

	for (size_t i = 0; i < value.len; i++) {
		char c = value.data[i];

		if (c == '%') {
			if (value.len - i < 3)
				return TIDE_ESYNTAX;
			int high = hex_value(value.data[i + 1]);
			int low = hex_value(value.data[i + 2]);
			if (high < 0 || low < 0)
				return TIDE_ESYNTAX;
			c = (char)(high << 4 | low);
			i += 2;
		}
		out[len++] = c;
	}
	*out_len = len;
	return TIDE_OK;
}

/* The parts that URLs of a broker and of a Redis share.
 *
 *   [user[:password]@]host[:port][/rest]     an IPv6 address in [ ]
 *   [user[:password]@]path[?rest]
 *
 * All parts but the rest are percent-decoded. An error never shows a password. */

int url_decode(struct slice part, const char *what, char **out, struct error *err)
{
	char *text = mem_strndup(part.data, part.len);
	size_t len = 0;

	mem_free(*out);
	*out = NULL;
	if (percent_decode(part, text, &len) != TIDE_OK || memchr(text, '\0', len)) {
		mem_free(text);
		return error_set(err, TIDE_ESYNTAX,
				 "the %s has a %% that is not followed by two hex digits",
				 what);
	}
	text[len] = '\0';
	*out = text;
	return TIDE_OK;
}

/* A password may hold an @, a host may not: the last one separates. */
static int take_user(struct slice *authority, struct url *out, struct error *err)
{
	const char *at =
		authority->len ? memrchr(authority->data, '@', authority->len) : NULL;
	struct slice password = { authority->data, 0 };
	struct slice user;
	int rc;

	if (!at)
		return TIDE_OK;
	password.len = (size_t)(at - authority->data);
	*authority = slice_skip(*authority, password.len + 1);
	user = slice_cut(&password, ':');
	rc = url_decode(user, "user", &out->user, err);
	if (rc == TIDE_OK && user.data + user.len != at)
		rc = url_decode(password, "password", &out->password, err);
	return rc;
}

static int parse_port(struct slice text, struct url *out, struct error *err)
{
	uint64_t port;

	if (!slice_to_uint(text, 65535, &port) || port == 0)
		/* The text may be a password with a / in it. */
		return error_set(err, TIDE_ESYNTAX, "the port must be 1-65535");
	out->port = (unsigned)port;
	return TIDE_OK;
}

/* An IPv6 address. The % before its zone is written %25 or, as everywhere else, bare. */
static char *copy_address(struct slice text)
{
	size_t zone = slice_find(text, '%');
	char *copy = mem_strndup(text.data, text.len);

	if (slice_has_prefix(slice_skip(text, zone), "%25") && text.len > zone + 3)
		memmove(copy + zone + 1, copy + zone + 3, text.len - zone - 2);
	return copy;
}

int url_parse_host(struct slice text, unsigned port_default, struct url *out,
		   struct slice *rest, struct error *err)
{
	struct slice authority = slice_cut(&text, '/');
	bool is_bracketed;
	struct slice host;
	int rc = take_user(&authority, out, err);

	*rest = text;
	if (rc < 0)
		return rc;
	is_bracketed = authority.len > 0 && authority.data[0] == '[';
	if (is_bracketed && !memchr(authority.data, ']', authority.len))
		return error_set(err, TIDE_ESYNTAX, "the [ of the host has no ]");
	if (is_bracketed)
		authority = slice_skip(authority, 1);
	host = authority;
	host.len = slice_find(authority, is_bracketed ? ']' : ':');
	authority = slice_skip(authority, host.len + is_bracketed);
	if (host.len == 0)
		return error_set(err, TIDE_ESYNTAX, "no host");
	if (is_bracketed)
		out->host = copy_address(host);
	else
		rc = url_decode(host, "host", &out->host, err);
	out->port = port_default;
	if (rc < 0 || authority.len == 0)
		return rc;
	if (authority.data[0] != ':')
		return error_set(err, TIDE_ESYNTAX, "expected :port after the host");
	return parse_port(slice_skip(authority, 1), out, err);
}

int url_parse_path(struct slice text, struct url *out, struct slice *rest,
		   struct error *err)
{
	struct slice authority = { text.data, slice_find(text, '/') };
	size_t before = authority.len;
	int rc = TIDE_OK;

	if (before < text.len)
		rc = take_user(&authority, out, err);
	if (rc < 0)
		return rc;
	*rest = slice_skip(text, before - authority.len);
	return url_decode(slice_cut(rest, '?'), "path", &out->path, err);
}

void url_deinit(struct url *u)
{
	mem_free(u->host);
	mem_free(u->path);
	mem_free(u->user);
	if (u->password)
		explicit_bzero(u->password, strlen(u->password));
	mem_free(u->password);
	*u = (struct url){ 0 };
}

void url_address(const struct url *u, char out[URL_ADDRESS_MAX])
{
	if (u->path)
		snprintf(out, URL_ADDRESS_MAX, "%s", u->path);
	else
		snprintf(out, URL_ADDRESS_MAX, strchr(u->host, ':') ? "[%s]:%u" : "%s:%u",
			 u->host, u->port);
}
