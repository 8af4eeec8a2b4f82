#include "hidden.h"

#include <string.h>

#include "base/mem.h"

static void forget(struct slice *text)
{
	char *data = (char *)(uintptr_t)text->data;

	if (data)
		explicit_bzero(data, text->len);
	mem_free(data);
	*text = (struct slice){ 0 };
}

void hidden_deinit(struct hidden *h)
{
	for (size_t i = 0; i < h->count; i++)
		forget(&h->texts[i]);
	h->count = h->next = 0;
}

void hidden_add(struct hidden *h, struct slice text)
{
	if (text.len == 0)
		return;
	for (size_t i = 0; i < h->count; i++)
		if (slice_is_equal(h->texts[i], text))
			return;
	forget(&h->texts[h->next]);
	h->texts[h->next] = (struct slice){ mem_strndup(text.data, text.len), text.len };
	h->next = (h->next + 1) % HIDDEN_MAX;
	if (h->count < HIDDEN_MAX)
		h->count++;
}

static bool has(struct slice text, struct slice part)
{
	return text.len >= part.len && memmem(text.data, text.len, part.data, part.len);
}

bool hidden_is_shown(struct slice secret, struct slice text)
{
	struct slice part = { NULL, HIDDEN_PART_MAX };

	if (text.len > HIDDEN_LINE_MAX)
		text.len = HIDDEN_LINE_MAX;
	if (secret.len <= HIDDEN_PART_MAX)
		return secret.len > 0 && has(text, secret);
	for (size_t i = 0; i + HIDDEN_PART_MAX <= text.len; i++) {
		part.data = text.data + i;
		if (has(secret, part))
			return true;
	}
	return false;
}

bool hidden_is_in(const struct hidden *h, struct slice text)
{
	for (size_t i = 0; h && i < h->count; i++)
		if (hidden_is_shown(h->texts[i], text))
			return true;
	return false;
}
