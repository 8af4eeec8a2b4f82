#include "resp.h"

#include <math.h>
#include <stdio.h>

/* Doubles hold each integer up to 2^53. */
#define EXACT_INTEGER_MAX 9007199254740992.0
/* Of -2^63. */
#define INT_TEXT_MAX 20

void resp_array(struct buf *out, size_t words)
{
	buf_append_char(out, '*');
	buf_append_uint(out, words);
	buf_append(out, "\r\n", 2);
}

char *resp_array_before(char *end, uint32_t words)
{
	*--end = '\n';
	*--end = '\r';
	do {
		*--end = (char)('0' + words % 10);
		words /= 10;
	} while (words > 0);
	*--end = '*';
	return end;
}

void resp_bulk_begin(struct buf *out, size_t len)
{
	buf_append_char(out, '$');
	buf_append_uint(out, len);
	buf_append(out, "\r\n", 2);
}

void resp_bulk_end(struct buf *out)
{
	buf_append(out, "\r\n", 2);
}

void resp_bulk(struct buf *out, struct slice word)
{
	resp_bulk_begin(out, word.len);
	buf_append_slice(out, word);
	resp_bulk_end(out);
}

void resp_text(struct buf *out, const char *word)
{
	resp_bulk(out, slice_from(word));
}

/* Not snprintf: it is most of what a score costs. */
static size_t format_int(int64_t n, char out[INT_TEXT_MAX])
{
	char text[INT_TEXT_MAX];
	size_t i = sizeof(text);
	uint64_t rest = n < 0 ? -(uint64_t)n : (uint64_t)n;
	do {
		text[--i] = (char)('0' + rest % 10);
		rest /= 10;
	} while (rest > 0);
	if (n < 0)
		text[--i] = '-';
	memcpy(out, text + i, sizeof(text) - i);
	return sizeof(text) - i;
}

void resp_int(struct buf *out, int64_t n)
{
	char text[INT_TEXT_MAX];
	size_t len = format_int(n, text);
	resp_bulk(out, (struct slice){ text, len });
}

void resp_id(struct buf *out, uint64_t id)
{
	char *to = buf_reserve(out, RESP_ID_LEN);
	memcpy(to, "$16\r\n", 5);
	id_format(id, to + 5);
	memcpy(to + 5 + ID_HEX_LEN, "\r\n", 2);
	buf_grow(out, RESP_ID_LEN);
}

size_t resp_score_format(double score, char out[RESP_SCORE_TEXT_MAX])
{
	if (isnan(score))
		score = 0;
	if (score >= -EXACT_INTEGER_MAX && score <= EXACT_INTEGER_MAX &&
	    score == (double)(int64_t)score)
		return format_int((int64_t)score, out);
	return (size_t)snprintf(out, RESP_SCORE_TEXT_MAX, "%.17g", score);
}

void resp_score(struct buf *out, double score)
{
	char text[RESP_SCORE_TEXT_MAX];
	size_t len = resp_score_format(score, text);
	resp_bulk(out, (struct slice){ text, len });
}
