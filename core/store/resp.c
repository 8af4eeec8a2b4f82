#include "resp.h"

#include <math.h>
#include <stdio.h>

/* Doubles hold each integer up to 2^53. */
#define EXACT_INTEGER_MAX 9007199254740992.0

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

void resp_int(struct buf *out, int64_t n)
{
	char text[24];
	int len = snprintf(text, sizeof(text), "%lld", (long long)n);
	resp_bulk(out, (struct slice){ text, (size_t)len });
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
	int len;
	if (isnan(score))
		score = 0;
	if (score >= -EXACT_INTEGER_MAX && score <= EXACT_INTEGER_MAX &&
	    score == (double)(int64_t)score)
		len = snprintf(out, RESP_SCORE_TEXT_MAX, "%lld", (long long)score);
	else
		len = snprintf(out, RESP_SCORE_TEXT_MAX, "%.17g", score);
	return (size_t)len;
}

void resp_score(struct buf *out, double score)
{
	char text[RESP_SCORE_TEXT_MAX];
	size_t len = resp_score_format(score, text);
	resp_bulk(out, (struct slice){ text, len });
}
