#include "msg_match.h"

#include "mem.h"
#include "topic_pattern.h"

static bool take_prefix(struct slice *text, const char *prefix)
{
	if (!slice_has_prefix(*text, prefix))
		return false;
	*text = slice_skip(*text, strlen(prefix));
	return true;
}

static void parse(struct msg_match *match, struct slice text)
{
	size_t name_len;

	match->kind = MSG_MATCH_TEXT;
	if (take_prefix(&text, "key:")) {
		match->kind = MSG_MATCH_KEY;
	} else if (take_prefix(&text, "h:")) {
		match->kind = MSG_MATCH_HEADER;
		name_len = slice_find(text, '=');
		if (name_len < text.len)
			match->value = slice_skip(text, name_len + 1);
		text.len = name_len;
	} else {
		take_prefix(&text, "text:");
	}
	match->text = text;
}

int msg_match_init(struct msg_match *match, struct slice option, struct error *err)
{
	*match = (struct msg_match){ .kind = MSG_MATCH_ALL };
	if (!option.data)
		return TIDE_OK;
	match->owned = mem_strndup(option.data, option.len);
	parse(match, (struct slice){ match->owned, option.len });
	if (match->text.len > 0 &&
	    (match->kind == MSG_MATCH_TEXT || slice_is_name(match->text)))
		return TIDE_OK;
	msg_match_deinit(match);
	return error_set(err, TIDE_ESYNTAX,
			 "match=%.*s: expected <text>, text:<text>, key:<pattern>, "
			 "h:<name> or h:<name>=<value>",
			 SLICE_HEAD(option, 64));
}

void msg_match_deinit(struct msg_match *match)
{
	mem_free(match->owned);
	*match = (struct msg_match){ .kind = MSG_MATCH_ALL };
}

static bool has_text(const char *data, size_t len, struct slice text)
{
	return len >= text.len && memmem(data, len, text.data, text.len) != NULL;
}

static bool is_in_content(const struct msg *m, struct slice text)
{
	for (unsigned i = 0; i < m->header_count; i++)
		if (has_text(m->headers[i].value.data, m->headers[i].value.len, text))
			return true;
	return has_text(m->payload, m->payload_len, text);
}

bool msg_match_has(const struct msg_match *match, const struct msg *m)
{
	struct slice value;

	switch (match->kind) {
	case MSG_MATCH_ALL:
		return true;
	case MSG_MATCH_TEXT:
		return is_in_content(m, match->text);
	case MSG_MATCH_KEY:
		return topic_pattern_matches(match->text, m->key);
	case MSG_MATCH_HEADER:
		value = msg_header(m, match->text);
		return value.data &&
		       (!match->value.data || slice_is_equal(value, match->value));
	}
	return false;
}
