/* What reads a request: the same comes of it in one piece, in two, and byte by byte. */
#include <stdio.h>

#include "http/reading.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect_same(const struct reading *one, const struct reading *other)
{
	bool is_whole = reading_is_whole(one);

	/* The sentences are constants. */
	if (one->why == other->why && is_whole == reading_is_whole(other) &&
	    slice_is_equal(buf_slice(&one->content), buf_slice(&other->content)) &&
	    (!is_whole || strcmp(one->head.target, other->head.target) == 0))
		return;
	fprintf(stderr, "in one piece: %s; in others: %s\n",
		one->why ? one->why : "taken", other->why ? other->why : "taken");
	abort();
}

/* It ends where it says, and nothing in it could be read otherwise. */
static void check(const struct reading *r, size_t used)
{
	const struct http_head *h = &r->head;

	if (!reading_is_whole(r))
		return;
	if (!h->is_chunked && buf_len(&r->content) + r->scan.at > used)
		abort();
	if (h->is_chunked && (h->length || http_head_field(h, "Content-Length")))
		abort();
	if (strlen(h->method) == 0 || strpbrk(h->target, " \t\r\n") ||
	    (!h->is_old && !http_head_field(h, "Host")))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct slice all = { (const char *)data, size };
	const size_t sizes[] = { 1, 7, size / 2 + 1 };
	struct reading whole, other;

	size_t left = reading_pieces(&whole, all, SIZE_MAX);

	check(&whole, size - left);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		reading_pieces(&other, all, sizes[i]);
		expect_same(&whole, &other);
		reading_forget(&other);
	}
	reading_forget(&whole);
	return 0;
}
