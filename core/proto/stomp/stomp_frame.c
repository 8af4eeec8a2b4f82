#include "stomp_frame.h"

#include <stdarg.h>
#include <stdio.h>
#include <strings.h>

#include "base/duration.h"

#define NAME_MAX_SHOWN 64

const char *stomp_frame_version(enum stomp_version version)
{
	static const char *const names[] = { "1.0", "1.1", "1.2" };

	return names[version];
}

#define VERB(name) [STOMP_##name] = { #name, sizeof(#name) - 1 }

static const struct slice verbs[STOMP_VERB_COUNT] = {
	VERB(CONNECT), VERB(SEND),  VERB(SUBSCRIBE), VERB(UNSUBSCRIBE), VERB(ACK),
	VERB(NACK),    VERB(BEGIN), VERB(COMMIT),    VERB(ABORT),       VERB(DISCONNECT),
};

const char *stomp_frame_verb(enum stomp_verb verb)
{
	return verbs[verb].data;
}

/* ---- the end of a head ------------------------------------------------------------ */

/* The end of the head, or 0. */
static size_t find_end(const char *data, size_t len, size_t *scanned)
{
	size_t at = *scanned;
	const char *end;

	while ((end = memchr(data + at, '\n', len - at)) != NULL) {
		size_t next = (size_t)(end - data) + 1;

		if (next < len && data[next] == '\n')
			return next + 1;
		if (next + 1 < len && data[next] == '\r' && data[next + 1] == '\n')
			return next + 2;
		if (next == len || (next + 1 == len && data[next] == '\r'))
			return 0;
		*scanned = at = next;
	}
	*scanned = len;
	return 0;
}

size_t stomp_frame_find_end(const char *data, size_t len, size_t *scanned)
{
	size_t from = *scanned, end = find_end(data, len, scanned),
	       stop = end ? end : len;

	return memchr(data + from, '\0', stop - from) ? SIZE_MAX : end;
}

/* ---- commands and headers that are known ------------------------------------------- */

static struct slice first_line(struct slice head)
{
	struct slice line = slice_cut(&head, '\n');

	if (line.len > 0 && line.data[line.len - 1] == '\r')
		line.len--;
	return line;
}

static enum stomp_verb find_verb(struct slice name)
{
	for (int verb = 0; verb < STOMP_VERB_COUNT; verb++)
		if (slice_is_equal(name, verbs[verb]))
			return (enum stomp_verb)verb;
	return slice_is(name, "STOMP") ? STOMP_CONNECT : STOMP_VERB_COUNT;
}

bool stomp_frame_is_send(struct slice head)
{
	return slice_has_prefix(head, "SEND\n") || slice_has_prefix(head, "SEND\r\n");
}

static struct slice trim(struct slice s)
{
	while (s.len > 0 && (s.data[0] == ' ' || s.data[0] == '\t'))
		s = slice_skip(s, 1);
	while (s.len > 0 && (s.data[s.len - 1] == ' ' || s.data[s.len - 1] == '\t'))
		s.len--;
	return s;
}

/* memmem would prepare a table first, which costs more than a few lines. */
bool stomp_frame_has_length(struct slice head, enum stomp_version version)
{
	while (head.len > 0) {
		struct slice line;

		slice_cut(&head, '\n');
		if (head.len > 0 && head.data[0] == 'c' &&
		    slice_has_prefix(head, "content-length:"))
			return true;
		if (version != STOMP_1_0)
			continue;
		/* With blanks around the name, as read_escapes takes it. */
		line = first_line(head);
		if (slice_is(trim(slice_cut(&line, ':')), "content-length"))
			return true;
	}
	return false;
}

#define IN(verb) (1u << STOMP_##verb)
#define IN_ALL ((1u << STOMP_VERB_COUNT) - 1)
#define IN_SUBSCRIPTION (IN(SUBSCRIBE) | IN(UNSUBSCRIBE))
#define IN_SETTLE (IN(ACK) | IN(NACK))
#define IN_END (IN(BEGIN) | IN(COMMIT) | IN(ABORT))
#define KNOWN_LEN_MAX 14

struct known_header {
	char name[KNOWN_LEN_MAX + 1];
	uint8_t header; /* enum stomp_header */
	uint16_t verbs; /* that know it */
};

/* By their length. */
static const struct known_header known[KNOWN_LEN_MAX + 1][6] = {
	[2] = { { "id", STOMP_H_ID, IN(SUBSCRIBE) | IN(UNSUBSCRIBE) | IN_SETTLE } },
	[3] = { { "ack", STOMP_H_ACK, IN(SUBSCRIBE) } },
	[4] = { { "host", STOMP_H_HOST, IN(CONNECT) },
		{ "from", STOMP_H_FROM, IN(SUBSCRIBE) },
		{ "must", STOMP_H_MUST, IN(SEND) } },
	[5] = { { "delay", STOMP_H_DELAY, IN(SEND) | IN(NACK) },
		{ "login", STOMP_H_LOGIN, IN(CONNECT) },
		{ "group", STOMP_H_GROUP, IN(SUBSCRIBE) } },
	[6] = { { "reason", STOMP_H_REASON, IN(NACK) } },
	[7] = { { "receipt", STOMP_H_RECEIPT, IN_ALL },
		{ "durable", STOMP_H_DURABLE, IN(SEND) | IN_SUBSCRIPTION },
		{ "requeue", STOMP_H_REQUEUE, IN(NACK) } },
	[8] = { { "priority", STOMP_H_PRIORITY, IN(SEND) },
		{ "reply-to", STOMP_H_REPLY_TO, IN(SEND) },
		{ "passcode", STOMP_H_PASSCODE, IN(CONNECT) },
		{ "selector", STOMP_H_SELECTOR, IN(SUBSCRIBE) } },
	[9] = { { "exclusive", STOMP_H_EXCLUSIVE, IN(SEND) | IN(SUBSCRIBE) },
		{ "partition", STOMP_H_PARTITION, IN(SUBSCRIBE) },
		{ "client-id", STOMP_H_CLIENT_ID, IN(CONNECT) } },
	[10] = { { "message-id", STOMP_H_MESSAGE_ID, IN(SEND) | IN_SETTLE },
		 { "persistent", STOMP_H_DURABLE, IN_SUBSCRIPTION },
		 { "expiration", STOMP_H_EXPIRATION, IN(SEND) },
		 { "publish-id", STOMP_H_PUBLISH_ID, IN(SEND) },
		 { "heart-beat", STOMP_H_HEART_BEAT, IN(CONNECT) } },
	[11] = { { "destination", STOMP_H_DESTINATION,
		   IN(SEND) | IN(SUBSCRIBE) | IN(UNSUBSCRIBE) },
		 { "transaction", STOMP_H_TRANSACTION, IN(SEND) | IN_SETTLE | IN_END },
		 { "ack-timeout", STOMP_H_ACK_TIMEOUT, IN(SEND) | IN(SUBSCRIBE) },
		 { "auto-delete", STOMP_H_AUTO_DELETE, IN(SEND) | IN(SUBSCRIBE) } },
	[12] = { { "subscription", STOMP_H_SUBSCRIPTION, IN_SETTLE } },
	[14] = { { "content-length", STOMP_H_CONTENT_LENGTH, IN_ALL },
		 { "accept-version", STOMP_H_ACCEPT_VERSION, IN(CONNECT) },
		 { "prefetch-count", STOMP_H_PREFETCH_COUNT, IN(SUBSCRIBE) } },
};

static const char *header_name(enum stomp_header header)
{
	for (size_t len = 0; len <= KNOWN_LEN_MAX; len++)
		for (const struct known_header *k = known[len]; k->name[0]; k++)
			if (k->header == header)
				return k->name;
	return "?";
}

static const struct known_header *find_known(const struct stomp_frame *f,
					     struct slice name)
{
	if (name.len > KNOWN_LEN_MAX)
		return NULL;
	for (const struct known_header *k = known[name.len]; k->name[0]; k++)
		if (memcmp(k->name, name.data, name.len) == 0)
			return k->verbs & 1u << f->verb ? k : NULL;
	return NULL;
}

/* ---- escapes ----------------------------------------------------------------------- */

/* The escape of a byte that a header cannot hold; NULL: the byte stands for itself.
 * In 1.0 no byte can be escaped, and in no version a NUL. */
const char *stomp_frame_escape_of(unsigned char c, enum stomp_version version)
{
	bool can_escape = version != STOMP_1_0;

	if (c > '\\' || (c > ':' && c < '\\'))
		return NULL;
	switch (c) {
	case '\n':
		return can_escape ? "\\n" : " ";
	case '\r':
		return version == STOMP_1_2 ? "\\r" : " ";
	case '\0':
		return " ";
	case ':':
		return can_escape ? "\\c" : NULL;
	case '\\':
		return can_escape ? "\\\\" : NULL;
	default:
		return NULL;
	}
}

void stomp_frame_escape(struct buf *out, struct slice value, enum stomp_version version)
{
	for (size_t i = 0; i < value.len; i++) {
		const char *code =
			stomp_frame_escape_of((unsigned char)value.data[i], version);

		if (code)
			buf_append_text(out, code);
		else
			buf_append_char(out, value.data[i]);
	}
}

/* ---- taking a head apart ----------------------------------------------------------- */

/* Decode the escapes in place. */
static bool unescape(struct slice *s, enum stomp_version version)
{
	size_t run = slice_find(*s, '\\');
	char *to = (char *)s->data + run;

	if (run == s->len)
		return true;
	for (const char *from = to, *end = s->data + s->len; from < end; from++) {
		if (*from != '\\') {
			*to++ = *from;
			continue;
		}
		if (++from == end)
			return false;
		if (*from == 'n')
			*to++ = '\n';
		else if (*from == 'c')
			*to++ = ':';
		else if (*from == '\\')
			*to++ = '\\';
		else if (*from == 'r' && version == STOMP_1_2)
			*to++ = '\r';
		else
			return false;
	}
	s->len = (size_t)(to - s->data);
	return true;
}

static int read_escapes(struct stomp_frame *f, struct msg_header *h,
			enum stomp_version version)
{
	struct slice line = h->name;

	if (version == STOMP_1_0) {
		h->name = trim(h->name);
		h->value = trim(h->value);
		return TIDE_OK;
	}
	/* CONNECT has none, so that clients of 1.0 may send it. */
	if (f->verb == STOMP_CONNECT || !f->has_backslash ||
	    (unescape(&h->name, version) && unescape(&h->value, version)))
		return TIDE_OK;
	return error_set(f->err, TIDE_ESYNTAX,
			 "the header '%.*s' has a backslash that begins no escape; "
			 "STOMP %s has \\n, \\c%s and \\\\",
			 SLICE_HEAD(line, NAME_MAX_SHOWN), stomp_frame_version(version),
			 version == STOMP_1_2 ? ", \\r" : "");
}

static bool has_other(const struct stomp_frame *f, struct slice name)
{
	for (unsigned i = 0; i < f->count; i++)
		if (slice_is_equal(f->others[i].name, name))
			return true;
	return false;
}

static int add_header(struct stomp_frame *f, const struct msg_header *h)
{
	const struct known_header *k = find_known(f, h->name);

	if (k && f->has & 1u << k->header)
		return TIDE_OK;
	if (k) {
		f->has |= 1u << k->header;
		f->known[k->header] = h->value;
		return TIDE_OK;
	}
	if (has_other(f, h->name))
		return TIDE_OK;
	if (f->count == MSG_HEADERS_MAX)
		return error_set(f->err, TIDE_ETOOLONG,
				 "a frame has at most %d headers besides those of STOMP",
				 MSG_HEADERS_MAX);
	f->others[f->count++] = *h;
	return TIDE_OK;
}

static int read_header(struct stomp_frame *f, struct slice line,
		       enum stomp_version version)
{
	struct msg_header h = { .value = line };

	h.name = slice_cut(&h.value, ':');
	if (h.name.len == line.len || h.name.len == 0)
		return error_set(f->err, TIDE_ESYNTAX,
				 "'%.*s' is not a header: expected name:value",
				 SLICE_HEAD(line, NAME_MAX_SHOWN));
	if (read_escapes(f, &h, version) < 0)
		return f->err->code;
	return add_header(f, &h);
}

int stomp_frame_parse(struct stomp_frame *f, char *head, size_t len,
		      enum stomp_version version, struct error *err)
{
	struct slice rest = { head, len }, line = first_line(rest);

	f->verb = find_verb(line);
	f->has = 0;
	f->count = 0;
	f->rc = TIDE_OK;
	f->err = err;
	f->is_told = false;
	f->word = NULL;
	f->sentence = (struct slice){ NULL, 0 };
	if (f->verb == STOMP_VERB_COUNT)
		return f->rc = error_set(
			       err, TIDE_EVERB,
			       "'%.*s' is not a command: expected SEND, SUBSCRIBE, "
			       "UNSUBSCRIBE, ACK, NACK, BEGIN, COMMIT, ABORT or "
			       "DISCONNECT",
			       SLICE_HEAD(line, NAME_MAX_SHOWN));
	slice_cut(&rest, '\n');
	f->has_backslash = memchr(rest.data, '\\', rest.len) != NULL;
	while (f->rc == TIDE_OK) {
		line = slice_cut(&rest, '\n');
		if (line.len > 0 && line.data[line.len - 1] == '\r')
			line.len--;
		if (line.len == 0)
			break;
		f->rc = read_header(f, line, version);
	}
	return f->rc;
}

int stomp_frame_explain(struct stomp_frame *f, const char *word, const char *sentence,
			...)
{
	va_list args;
	int len;

	if (f->word)
		return f->rc;
	f->word = word;
	if (!sentence)
		return f->rc;
	va_start(args, sentence);
	len = vsnprintf(f->theirs, sizeof(f->theirs), sentence, args);
	va_end(args);
	if (len < STOMP_SENTENCE_MAX)
		f->sentence = (struct slice){ f->theirs, (size_t)len };
	return f->rc;
}

/* ---- values ------------------------------------------------------------------------ */

struct slice stomp_frame_other(const struct stomp_frame *f, const char *name)
{
	for (unsigned i = 0; i < f->count; i++)
		if (slice_is(f->others[i].name, name))
			return f->others[i].value;
	return (struct slice){ NULL, 0 };
}

void stomp_frame_refuse(struct stomp_frame *f, enum stomp_header header,
			const char *expected, ...)
{
	struct slice value = stomp_frame_header(f, header);
	char text[160];
	va_list args;

	if (f->rc < 0)
		return;
	va_start(args, expected);
	vsnprintf(text, sizeof(text), expected, args);
	va_end(args);
	f->rc = error_set(f->err, TIDE_ESYNTAX, "header %s:%.*s: expected %s",
			  header_name(header), SLICE_HEAD(value, NAME_MAX_SHOWN), text);
	stomp_frame_explain(f, "Invalid header", NULL);
}

struct slice stomp_frame_need(struct stomp_frame *f, enum stomp_header header)
{
	struct slice value = stomp_frame_header(f, header);

	if (value.len > 0 || f->rc < 0)
		return value;
	f->rc = error_set(f->err, TIDE_ESYNTAX, "%s needs a header '%s'",
			  stomp_frame_verb(f->verb), header_name(header));
	if (header == STOMP_H_DESTINATION)
		stomp_frame_explain(f, "Missing destination", NULL);
	else if (header == STOMP_H_TRANSACTION)
		stomp_frame_explain(f, "Missing transaction", NULL);
	else
		stomp_frame_explain(f, "Missing header", NULL);
	return value;
}

uint64_t stomp_frame_uint(struct stomp_frame *f, enum stomp_header header,
			  struct number_limits limits, uint64_t fallback)
{
	struct slice value = stomp_frame_header(f, header);
	uint64_t n = fallback;

	if (value.data && (!slice_to_uint(value, limits.max, &n) || n < limits.min))
		stomp_frame_refuse(f, header, "a number from %llu to %llu",
				   (unsigned long long)limits.min,
				   (unsigned long long)limits.max);
	return n;
}

int64_t stomp_frame_duration(struct stomp_frame *f, enum stomp_header header,
			     struct number_limits limits)
{
	struct slice value = stomp_frame_header(f, header);
	char range[DURATION_RANGE_MAX];
	int64_t ms = 0;

	if (value.data && !duration_is_within(value, limits, &ms))
		stomp_frame_refuse(f, header, "milliseconds, or a duration like 30s, %s",
				   duration_format_range(limits, range));
	return ms;
}

static bool is_word(struct slice value, const char *word)
{
	return value.len == strlen(word) && strncasecmp(value.data, word, value.len) == 0;
}

/* Python writes True, others TRUE. */
bool stomp_frame_read_flag(struct slice value, bool *flag)
{
	*flag = is_word(value, "true");
	return *flag || is_word(value, "false");
}

bool stomp_frame_flag(struct stomp_frame *f, enum stomp_header header, bool fallback)
{
	struct slice value = stomp_frame_header(f, header);

	bool flag = fallback;

	if (value.data && !stomp_frame_read_flag(value, &flag))
		stomp_frame_refuse(f, header, "true or false");
	return flag;
}
