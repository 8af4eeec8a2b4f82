/* One line of the protocol: request_parse. Everything that it gives lies within
 * the line. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "proto/line/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *start, *end;

static void check(struct slice s)
{
	if (s.len > 0 && (s.data < start || s.len > (size_t)(end - s.data)))
		abort();
}

static void check_request(const struct request *q)
{
	if (!q->name || q->channel > REQUEST_CHANNEL_MAX || q->word_count < q->min_words)
		abort();
	for (unsigned i = 0; i < q->word_count; i++)
		check(q->words[i]);
	for (unsigned i = 0; i < q->flag_count; i++)
		check(q->flags[i]);
	for (unsigned i = 0; i < q->header_count; i++) {
		check(q->headers[i].name);
		check(q->headers[i].value);
	}
	/* An option's value may be the constant "1". */
	for (unsigned i = 0; i < q->option_count; i++)
		check(q->options[i].name);
	check(q->tags);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct request *q = mem_alloc(sizeof(*q));
	char *line = mem_alloc(size ? size : 1);
	struct error err = { 0 };
	bool is_lost;
	int rc;

	memcpy(line, data, size);
	start = line;
	end = line + size;
	rc = request_parse(q, line, size, &is_lost, &err);
	if (rc == TIDE_OK)
		check_request(q);
	else if (err.code != rc || err.text[0] == '\0')
		abort();
	if (is_lost && rc == TIDE_OK)
		abort();
	mem_free(line);
	mem_free(q);
	return 0;
}
