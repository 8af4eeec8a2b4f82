#include "resp.h"

#include <hiredis/hiredis.h>
#include <math.h>
#include <stdio.h>

#include "base/mem.h"

/* Doubles hold each integer up to 2^53. */
#define EXACT_INTEGER_MAX 9007199254740992.0

void resp_array(struct buf *out, size_t words)
{
	buf_append_char(out, '*');
	buf_append_uint(out, words);
	buf_append(out, "\r\n", 2);
}

void resp_command(struct buf *out, const char *format, va_list args)
{
	char *bytes;
	int len = redisvFormatCommand(&bytes, format, args);

	if (len < 0)
		mem_fail(strlen(format));
	buf_append(out, bytes, (size_t)len);
	redisFreeCommand(bytes);
}

char *resp_array_before(char *end, uint32_t words)
{
	char *start = end - decimal_len(words) - 3;

	*start = '*';
	resp_put_end(decimal_put(start + 1, words));
	return start;
}

void resp_pair(struct buf *out, struct slice a, struct slice b)
{
	char *to = buf_reserve(out, RESP_BULK_HEAD_MAX);

	buf_grow(out, (size_t)(resp_put_bulk_head(to, a.len + b.len) - to));
	buf_append_slice(out, a);
	buf_append_slice(out, b);
	buf_append(out, "\r\n", 2);
}

void resp_bulk(struct buf *out, struct slice word)
{
	resp_pair(out, word, SLICE(""));
}

void resp_text(struct buf *out, const char *word)
{
	resp_bulk(out, slice_from(word));
}

void resp_number(struct buf *out, uint64_t n)
{
	char text[DECIMAL_MAX];

	resp_bulk(out, (struct slice){ text, (size_t)(decimal_put(text, n) - text) });
}

void resp_score(struct buf *out, double score)
{
	char *to = buf_reserve(out, RESP_SCORE_MAX);

	buf_grow(out, (size_t)(resp_put_score(to, score) - to));
}

char *resp_put_score(char *to, double score)
{
	char text[RESP_SCORE_TEXT_MAX];
	size_t len;

	if (isnan(score))
		score = 0;
	/* Not snprintf: it is most of what a score costs. */
	if (score >= -EXACT_INTEGER_MAX && score <= EXACT_INTEGER_MAX &&
	    score == (double)(int64_t)score)
		len = (size_t)(decimal_put_int(text, (int64_t)score) - text);
	else
		len = (size_t)snprintf(text, sizeof(text), "%.17g", score);
	to = resp_put_bulk_head(to, len);
	memcpy(to, text, len);
	return resp_put_end(to + len);
}
