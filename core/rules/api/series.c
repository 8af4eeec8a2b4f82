#include "series.h"

#include <string.h>

#include "base/utf8.h"

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_word(struct slice s, size_t max)
{
	if (s.len == 0 || s.len > max || !is_letter(s.data[0]))
		return false;
	for (size_t i = 1; i < s.len; i++)
		if (!is_letter(s.data[i]) && !(s.data[i] >= '0' && s.data[i] <= '9'))
			return false;
	return true;
}

bool series_is_name(struct slice name)
{
	static const char *const endings[] = { "_total", "_bucket",  "_sum",
					       "_count", "_created", "_info" };

	for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++)
		if (slice_has_suffix(name, endings[i]))
			return false;
	return is_word(name, SERIES_NAME_MAX);
}

bool series_is_label(struct slice name)
{
	return is_word(name, SERIES_LABEL_MAX) && !slice_has_prefix(name, "__") &&
	       !slice_is(name, "le");
}

static int compare(struct slice a, struct slice b)
{
	size_t len = a.len < b.len ? a.len : b.len;
	int order = memcmp(a.data, b.data, len);

	return order ? order : (a.len > b.len) - (a.len < b.len);
}

/* There are few. */
static void sort(struct series_label *labels, unsigned count)
{
	for (unsigned i = 1; i < count; i++) {
		struct series_label one = labels[i];
		unsigned at = i;

		for (; at > 0 && compare(one.name, labels[at - 1].name) < 0; at--)
			labels[at] = labels[at - 1];
		labels[at] = one;
	}
}

static size_t write_slice(char *out, struct slice s)
{
	memcpy(out, s.data, s.len);
	return s.len;
}

/* One character of a value, which is at `data`. */
static size_t write_char(char *out, const char *data, size_t len, size_t *used)
{
	uint32_t point;
	size_t n = utf8_decode(data, len, &point);

	*used = n ? n : 1;
	if (n == 0) {
		*out = '?';
		return 1;
	}
	if (*data != '"' && *data != '\\' && *data != '\n')
		return write_slice(out, (struct slice){ data, n });
	out[0] = '\\';
	out[1] = *data == '\n' ? 'n' : *data;
	return 2;
}

static size_t write_value(char *out, struct slice value)
{
	size_t len = value.len, used, at = 0;

	if (len > SERIES_VALUE_MAX) {
		len = utf8_whole(value.data, SERIES_VALUE_MAX);
		if (len == 0)
			len = SERIES_VALUE_MAX;
	}
	for (size_t i = 0; i < len; i += used)
		at += write_char(out + at, value.data + i, len - i, &used);
	return at;
}

size_t series_write(char out[SERIES_TEXT_MAX], struct slice name,
		    struct series_label *labels, unsigned count)
{
	size_t at = write_slice(out, name), begin = at;

	sort(labels, count);
	for (unsigned i = 0; i < count; i++) {
		if (labels[i].value.len == 0)
			continue;
		out[at] = at == begin ? '{' : ',';
		at++;
		at += write_slice(out + at, labels[i].name);
		at += write_slice(out + at, SLICE("=\""));
		at += write_value(out + at, labels[i].value);
		out[at++] = '"';
	}
	if (at > begin)
		out[at++] = '}';
	return at;
}

size_t series_write_other(char out[SERIES_TEXT_MAX], struct slice text)
{
	struct series s;

	if (!series_read(text, &s))
		return write_slice(out, text);
	for (unsigned i = 0; i < s.count; i++)
		s.labels[i].value = SLICE("other");
	return series_write(out, s.name, s.labels, s.count);
}

/* Read a value up to its quote into `out`, and skip the quote. */
static bool read_value(struct slice *rest, char **out, struct slice *value)
{
	*value = (struct slice){ *out, 0 };
	while (rest->len > 0 && rest->data[0] != '"') {
		bool is_escaped = rest->data[0] == '\\';

		if (is_escaped)
			*rest = slice_skip(*rest, 1);
		if (rest->len == 0)
			return false;
		*(*out)++ = is_escaped && rest->data[0] == 'n' ? '\n' : rest->data[0];
		value->len++;
		*rest = slice_skip(*rest, 1);
	}
	if (rest->len == 0)
		return false;
	*rest = slice_skip(*rest, 1);
	return true;
}

static bool read_label(struct slice *rest, char **out, struct series *s)
{
	struct series_label *label = &s->labels[s->count];

	if (s->count == SERIES_LABELS_MAX)
		return false;
	label->name = slice_cut(rest, '=');
	if (!series_is_label(label->name) || rest->len == 0 || rest->data[0] != '"')
		return false;
	*rest = slice_skip(*rest, 1);
	s->count++;
	return read_value(rest, out, &label->value);
}

bool series_read(struct slice text, struct series *out)
{
	char *values = out->values;
	struct slice rest = text;

	out->count = 0;
	if (text.len >= SERIES_TEXT_MAX)
		return false;
	out->name = slice_cut(&rest, '{');
	if (!series_is_name(out->name))
		return false;
	if (out->name.len == text.len)
		return true;
	do {
		if (!read_label(&rest, &values, out) || rest.len == 0)
			return false;
		if (rest.data[0] == '}')
			return rest.len == 1;
	} while (slice_cut(&rest, ',').len == 0);
	return false;
}
