#include "record.h"

#include <assert.h>
#include <endian.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/bytes.h"
#include "base/duration.h"

enum {
	HAS_GAP = 0x01,
	HAS_ID = 0x02,
	HAS_TIME = 0x04,
	HAS_EXCHANGE = 0x08,
	HAS_KEY = 0x10,
	HAS_PRIORITY = 0x20,
	HAS_HEADERS = 0x40,
	FLAGS_ALL = 0x7f,
};

#define VARINT_MAX 10
#define SUM_AT 1    /* of the checksum */
#define SUMMED_AT 9 /* what it is of */
#define HEAD_MAX (SUMMED_AT + 5 * VARINT_MAX)
/* Of a record, besides the bytes of its texts and its payload: length, flags, gap, id,
 * time, lengths of exchange and key, priority, number of headers. */
#define RECORD_FIXED_MAX (2 + 7 * VARINT_MAX)
#define WRITER_KEEP_BYTES ((size_t)256 * 1024)

static uint64_t checksum(const char *bytes, size_t len)
{
	return XXH3_64bits(bytes + SUMMED_AT, len - SUMMED_AT);
}

/* ---- writing */

static inline char *put_varint(char *at, uint64_t n)
{
	for (; n >= 0x80; n >>= 7)
		*at++ = (char)(n | 0x80);
	*at = (char)n;
	return at + 1;
}

static inline size_t varint_len(uint64_t n)
{
	size_t len = 1;

	while (n >>= 7)
		len++;
	return len;
}

static inline char *put_text(char *at, struct slice s)
{
	at = put_varint(at, s.len);
	if (s.len > 0)
		memcpy(at, s.data, s.len);
	return at + s.len;
}

static size_t record_max(const struct msg *m)
{
	size_t max = RECORD_FIXED_MAX + m->exchange.len + m->key.len + m->payload_len;

	for (unsigned i = 0; i < m->header_count; i++)
		max += 2 * VARINT_MAX + m->headers[i].name.len + m->headers[i].value.len;
	return max;
}

void record_writer_deinit(struct record_writer *w)
{
	buf_deinit(&w->bytes);
	*w = (struct record_writer){ 0 };
}

void record_begin(struct record_writer *w, uint64_t base, uint64_t position)
{
	assert(w->count == 0);
	*w = (struct record_writer){
		.bytes = w->bytes, .base = base, .next = base, .position = position
	};
}

static inline bool is_last(const struct record_writer *w, size_t at, size_t len,
			   struct slice s)
{
	return s.len == len && bytes_is_equal(w->bytes.data + at, s.data, len);
}

/* Exchange and key, where they are not those of the record before; `at` is in the
 * writer's buffer. */
static inline char *put_names(struct record_writer *w, char *at, const struct msg *m,
			      uint8_t *flags)
{
	if (!is_last(w, w->exchange_at, w->exchange_len, m->exchange)) {
		*flags |= HAS_EXCHANGE;
		at = put_text(at, m->exchange);
		w->exchange_len = m->exchange.len;
		w->exchange_at = (size_t)(at - w->bytes.data) - w->exchange_len;
	}
	if (!is_last(w, w->key_at, w->key_len, m->key)) {
		*flags |= HAS_KEY;
		at = put_text(at, m->key);
		w->key_len = m->key.len;
		w->key_at = (size_t)(at - w->bytes.data) - w->key_len;
	}
	return at;
}

static char *put_headers(char *at, const struct msg *m)
{
	assert(m->header_count <= MSG_HEADERS_ALL);
	at = put_varint(at, m->header_count);
	for (unsigned i = 0; i < m->header_count; i++) {
		at = put_text(at, m->headers[i].name);
		at = put_text(at, m->headers[i].value);
	}
	return at;
}

/* Flags and fields, in front of the payload. */
static inline char *put_fields(struct record_writer *w, char *at, const struct msg *m,
			       uint64_t gap, uint64_t elapsed_ms)
{
	char *flags_at = at++;
	uint8_t flags = 0;

	if (gap > 0) {
		flags |= HAS_GAP;
		at = put_varint(at, gap);
	}
	if (m->id != w->last_id + 1) {
		uint64_t more = m->id - w->last_id;

		flags |= HAS_ID;
		at = put_varint(at, more << 1 ^ (more >> 63 ? UINT64_MAX : 0));
	}
	if (elapsed_ms > 0) {
		flags |= HAS_TIME;
		at = put_varint(at, elapsed_ms);
	}
	at = put_names(w, at, m, &flags);
	if (m->priority > 0) {
		flags |= HAS_PRIORITY;
		*at++ = (char)m->priority;
	}
	if (m->header_count > 0) {
		flags |= HAS_HEADERS;
		at = put_headers(at, m);
	}
	*flags_at = (char)flags;
	return at;
}

/* The fields were written where a length of `guess` bytes leaves off; it takes `len`. */
static void move_fields(struct record_writer *w, char *start, size_t guess, size_t len,
			size_t fields_len)
{
	uint8_t flags = (uint8_t)start[guess];

	memmove(start + len, start + guess, fields_len);
	if (flags & HAS_EXCHANGE)
		w->exchange_at += len - guess;
	if (flags & HAS_KEY)
		w->key_at += len - guess;
}

void record_add(struct record_writer *w, uint64_t offset, const struct msg *m, int64_t ms)
{
	char *start = buf_reserve(&w->bytes, record_max(m));
	size_t guess = varint_len(m->payload_len + 2), fields_len, len;

	if (w->count++ == 0)
		w->first_ms = w->last_ms = ms;
	assert(offset >= w->next && ms >= w->last_ms && ms >= 0);
	fields_len = (size_t)(put_fields(w, start + guess, m, offset - w->next,
					 (uint64_t)(ms - w->last_ms)) -
			      (start + guess));
	len = varint_len(fields_len + m->payload_len);
	if (len != guess)
		move_fields(w, start, guess, len, fields_len);
	put_varint(start, fields_len + m->payload_len);
	len += fields_len;
	if (m->payload_len > 0)
		memcpy(start + len, m->payload, m->payload_len);
	buf_grow(&w->bytes, len + m->payload_len);
	w->next = offset + 1;
	w->last_id = m->id;
	w->last_ms = ms;
}

size_t record_bytes_with(const struct record_writer *w, const struct msg *m)
{
	return HEAD_MAX + buf_len(&w->bytes) + record_max(m);
}

struct record_batch *record_finish(struct record_writer *w, uint64_t end)
{
	char head[HEAD_MAX] = { RECORD_VERSION }, *at = head + SUMMED_AT;
	size_t records_len = buf_len(&w->bytes), head_len;
	struct record_batch *b;
	uint64_t sum;

	assert(w->count > 0 && end >= w->next);
	at = put_varint(at, w->base);
	at = put_varint(at, end - w->base);
	at = put_varint(at, w->count);
	at = put_varint(at, w->position);
	at = put_varint(at, (uint64_t)w->first_ms);
	head_len = (size_t)(at - head);
	b = mem_alloc(sizeof(*b) + head_len + records_len);
	*b = (struct record_batch){ .refs = 1,
				    .count = w->count,
				    .base = w->base,
				    .end = end,
				    .position = w->position,
				    .first_ms = w->first_ms,
				    .last_ms = w->last_ms,
				    .head_len = (uint32_t)head_len,
				    .len = head_len + records_len };
	memcpy(b->bytes, head, head_len);
	memcpy(b->bytes + head_len, w->bytes.data + w->bytes.start, records_len);
	sum = htole64(checksum(b->bytes, b->len));
	memcpy(b->bytes + SUM_AT, &sum, sizeof(sum));
	w->count = 0;
	buf_clear(&w->bytes);
	if (w->bytes.cap > WRITER_KEEP_BYTES)
		buf_deinit(&w->bytes);
	return b;
}

/* ---- reading */

static bool take_long_varint(const char **at, const char *end, uint64_t *out)
{
	uint64_t n = 0;

	for (unsigned shift = 0; shift < 64 && *at < end; shift += 7) {
		uint8_t byte = (uint8_t)(*at)[0];

		*at += 1;
		if (shift == 63 && byte > 1)
			return false;
		n |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80) {
			*out = n;
			return true;
		}
	}
	return false;
}

/* False: it is not whole, or not of 64 bits. Most have one byte or two. */
static inline bool take_varint(const char **at, const char *end, uint64_t *out)
{
	const uint8_t *bytes = (const uint8_t *)*at;

	if (end - *at >= 2) {
		if (bytes[0] < 0x80) {
			*out = bytes[0];
			*at += 1;
			return true;
		}
		if (bytes[1] < 0x80) {
			*out = (uint64_t)(bytes[0] & 0x7f) | (uint64_t)bytes[1] << 7;
			*at += 2;
			return true;
		}
	}
	return take_long_varint(at, end, out);
}

static inline bool take_text(const char **at, const char *end, struct slice *out)
{
	uint64_t len;

	if (!take_varint(at, end, &len) || len > (size_t)(end - *at))
		return false;
	*out = (struct slice){ *at, (size_t)len };
	*at += len;
	return true;
}

/* A record up to its headers. */
struct record_front {
	const char *at, *end; /* of what is left */
	uint64_t offset, id;
	int64_t ms;
	struct slice exchange, key;
	uint8_t flags, priority;
};

static inline const char *take_numbers(const struct record_reader *r,
				       struct record_front *f)
{
	uint64_t n;

	if (f->flags & HAS_GAP) {
		if (!take_varint(&f->at, f->end, &n))
			return "the gap is not a number";
		if (n > r->batch->end - f->offset)
			return "the gap is longer than the span";
		f->offset += n;
	}
	if (f->offset >= r->batch->end)
		return "the span ends before the records";
	if (f->flags & HAS_ID) {
		if (!take_varint(&f->at, f->end, &n))
			return "the id is not a number";
		f->id = r->last_id + (n >> 1 ^ (n & 1 ? UINT64_MAX : 0));
	}
	if (f->flags & HAS_TIME) {
		if (!take_varint(&f->at, f->end, &n) || n > (uint64_t)(INT64_MAX - f->ms))
			return "the time is out of range";
		f->ms += (int64_t)n;
	}
	return NULL;
}

/* The fault of the front, or NULL. There is a record left. */
static inline const char *read_front(const struct record_reader *r,
				     struct record_front *f)
{
	const char *end = r->batch->bytes + r->batch->len, *wrong;
	uint64_t len;

	*f = (struct record_front){ .at = r->at,
				    .offset = r->next,
				    .id = r->last_id + 1,
				    .ms = r->last_ms,
				    .exchange = r->exchange,
				    .key = r->key };
	if (!take_varint(&f->at, end, &len) || len > (size_t)(end - f->at) || len == 0)
		return "the record is not whole";
	f->end = f->at + len;
	f->flags = (uint8_t)*f->at++;
	if (f->flags == 0 && f->offset < r->batch->end)
		return NULL;
	if (f->flags & ~FLAGS_ALL)
		return "the record has a flag that is not known";
	wrong = take_numbers(r, f);
	if (wrong)
		return wrong;
	if ((f->flags & HAS_EXCHANGE) && !take_text(&f->at, f->end, &f->exchange))
		return "the exchange is not whole";
	if ((f->flags & HAS_KEY) && !take_text(&f->at, f->end, &f->key))
		return "the key is not whole";
	if (f->flags & HAS_PRIORITY) {
		if (f->at == f->end)
			return "the priority is not whole";
		f->priority = (uint8_t)*f->at++;
	}
	return NULL;
}

/* Into the reader; the front goes on behind them. */
static const char *read_headers(struct record_reader *r, struct record_front *f,
				uint8_t *count)
{
	uint64_t n;

	if (!take_varint(&f->at, f->end, &n) || n > MSG_HEADERS_ALL)
		return "the number of headers is out of range";
	for (uint64_t i = 0; i < n; i++)
		if (!take_text(&f->at, f->end, &r->headers[i].name) ||
		    !take_text(&f->at, f->end, &r->headers[i].value))
			return "a header is not whole";
	*count = (uint8_t)n;
	return NULL;
}

static inline void go_on(struct record_reader *r, const struct record_front *f)
{
	r->at = f->end;
	r->next = f->offset + 1;
	r->left--;
	r->last_id = f->id;
	r->last_ms = f->ms;
	r->exchange = f->exchange;
	r->key = f->key;
}

void record_read(struct record_reader *r, const struct record_batch *batch)
{
	r->batch = batch;
	r->at = batch->bytes + batch->head_len;
	r->next = batch->base;
	r->left = batch->count;
	r->last_id = 0;
	r->last_ms = batch->first_ms;
	r->exchange = r->key = (struct slice){ "", 0 };
}

bool record_next(struct record_reader *r, struct record *out)
{
	const char *wrong;
	struct record_front f;
	uint8_t header_count = 0;

	if (r->left == 0)
		return false;
	wrong = read_front(r, &f);
	if (!wrong && (f.flags & HAS_HEADERS))
		wrong = read_headers(r, &f, &header_count);
	assert(!wrong);
	go_on(r, &f);
	out->offset = f.offset;
	/* In two halves: GCC zeroes a larger struct by `rep stos`, whose start takes
	 * longer than the stores. */
	memset(&out->msg, 0, offsetof(struct msg, exchange));
	memset(&out->msg.exchange, 0, sizeof(out->msg) - offsetof(struct msg, exchange));
	out->msg.priority = f.priority;
	out->msg.header_count = header_count;
	out->msg.id = f.id;
	out->msg.ts_unix_ms = f.ms;
	out->msg.exchange = f.exchange;
	out->msg.key = f.key;
	out->msg.headers = r->headers;
	out->msg.payload = f.at;
	out->msg.payload_len = (size_t)(f.end - f.at);
	return true;
}

void record_skip(struct record_reader *r, uint64_t offset)
{
	struct record_front f;

	while (r->left > 0) {
		const char *wrong = read_front(r, &f);

		assert(!wrong);
		if (f.offset >= offset)
			return;
		go_on(r, &f);
	}
}

/* ---- opening */

static const char *check_record(struct record_reader *r, struct record_front *f)
{
	uint8_t header_count = 0;
	const char *wrong = read_front(r, f);

	if (!wrong && (f->flags & HAS_HEADERS))
		wrong = read_headers(r, f, &header_count);
	if (wrong)
		return wrong;
	if ((f->flags & HAS_EXCHANGE) && !msg_is_word(f->exchange))
		return "the exchange is not a name";
	if ((f->flags & HAS_KEY) && !msg_is_word(f->key))
		return "the key is not a name";
	for (unsigned i = 0; i < header_count; i++)
		if (!msg_is_header_name(r->headers[i].name))
			return "the name of a header is not a name";
	return NULL;
}

/* All records; `at` is told where something is wrong. */
static const char *check_records(struct record_batch *b, size_t *at)
{
	struct record_reader r;
	struct record_front f;
	const char *wrong = NULL;

	record_read(&r, b);
	while (r.left > 0 && !wrong) {
		wrong = check_record(&r, &f);
		if (!wrong)
			go_on(&r, &f);
	}
	*at = (size_t)(r.at - b->bytes);
	if (!wrong && *at < b->len)
		return "bytes follow the last record";
	b->last_ms = r.last_ms;
	return wrong;
}

static const char *check_frame(struct slice bytes)
{
	if (bytes.len < SUMMED_AT)
		return "the head is not whole";
	return bytes.data[0] == RECORD_VERSION ? NULL : "not of version 1";
}

static bool has_checksum(struct slice bytes)
{
	uint64_t sum;

	memcpy(&sum, bytes.data + SUM_AT, sizeof(sum));
	return le64toh(sum) == checksum(bytes.data, bytes.len);
}

/* The fault of the head, or NULL: then all of `b` but refs, last_ms and the bytes is
 * there. */
static const char *read_head(struct slice bytes, struct record_batch *b)
{
	const char *at = bytes.data + SUMMED_AT, *end = bytes.data + bytes.len;
	uint64_t span, count, first_ms;

	if (!take_varint(&at, end, &b->base) || !take_varint(&at, end, &span) ||
	    !take_varint(&at, end, &count) || !take_varint(&at, end, &b->position) ||
	    !take_varint(&at, end, &first_ms))
		return "the head is not five numbers";
	if (b->base > POSITION_OFFSET_MAX || span > POSITION_OFFSET_MAX - b->base)
		return "the offsets are out of range";
	if (count == 0 || count > span || count > UINT32_MAX)
		return "the count is out of range";
	if (first_ms > INT64_MAX)
		return "the time is out of range";
	b->end = b->base + span;
	b->count = (uint32_t)count;
	b->first_ms = (int64_t)first_ms;
	b->head_len = (uint32_t)(at - bytes.data);
	b->len = bytes.len;
	return NULL;
}

bool record_peek(struct slice bytes, struct record_batch *head)
{
	return !check_frame(bytes) && !read_head(bytes, head);
}

int record_open(struct slice bytes, struct record_batch **out, struct error *err)
{
	struct record_batch head = { .refs = 1 }, *b = NULL;
	const char *wrong = check_frame(bytes);
	size_t at = 0;

	if (!wrong)
		wrong = has_checksum(bytes) ? read_head(bytes, &head)
					    : "the checksum is wrong";
	if (!wrong) {
		b = mem_try_alloc(sizeof(*b) + bytes.len);
		if (!b)
			return error_set(err, TIDE_ELIMIT,
					 "out of memory for a batch of %zu bytes",
					 bytes.len);
		*b = head;
		memcpy(b->bytes, bytes.data, bytes.len);
		wrong = check_records(b, &at);
	}
	if (wrong) {
		mem_free(b);
		return error_set(err, TIDE_ESTORE, "corrupt at byte %zu of %zu: %s", at,
				 bytes.len, wrong);
	}
	*out = b;
	return TIDE_OK;
}

int record_open_at(struct slice bytes, uint64_t base, struct record_batch **out,
		   struct error *err)
{
	int rc = record_open(bytes, out, err);

	if (rc == TIDE_OK && (*out)->base != base) {
		rc = error_set(err, TIDE_ESTORE, "it says that its offset is %llu",
			       (unsigned long long)(*out)->base);
		record_batch_unref(*out);
	}
	return rc;
}

void record_add_reason(struct record *r, struct slice text,
		       struct msg_header headers[MSG_HEADERS_ALL])
{
	r->msg.header_count = (uint8_t)msg_headers_with_reason(&r->msg, text, headers);
	r->msg.headers = headers;
}
