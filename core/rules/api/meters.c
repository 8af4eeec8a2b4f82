#include "meters.h"

#include <math.h>
#include <string.h>
#include <sys/queue.h>

#include "base/mem.h"
#include "base/table.h"
#include "base/utf8.h"

struct meter_series {
	UT_hash_handle hh;
	struct meter *meter;
	STAILQ_ENTRY(meter_series) link;
	double value;
	uint64_t *counts; /* of a histogram */
	size_t text_len;
	char text[];
};

struct meter {
	UT_hash_handle hh;
	enum meter_type type;
	uint64_t load;
	char *file;
	unsigned bucket_count;
	double *buckets;
	unsigned count; /* of series */
	STAILQ_HEAD(, meter_series) series;
	size_t name_len;
	char name[];
};

struct meters {
	struct meter *by_name;        /* uthash */
	struct meter_series *by_text; /* uthash */
	size_t lines;                 /* that all series have */
};

struct meters *meters_create(void)
{
	return mem_zalloc(sizeof(struct meters));
}

/* In /metrics: the buckets, the last one, the sum and the count. */
static size_t lines_of(const struct meter *meter)
{
	return meter->type == METER_GAUGE ? 1 : meter->bucket_count + 3;
}

static void empty(struct meters *m, struct meter *meter)
{
	struct meter_series *s;

	m->lines -= meter->count * lines_of(meter);
	while ((s = STAILQ_FIRST(&meter->series)) != NULL) {
		STAILQ_REMOVE_HEAD(&meter->series, link);
		HASH_DEL(m->by_text, s);
		mem_free(s->counts);
		mem_free(s);
	}
	meter->count = 0;
	mem_free(meter->buckets);
	mem_free(meter->file);
	meter->buckets = NULL;
	meter->file = NULL;
}

void meters_destroy(struct meters *m)
{
	struct meter *meter, *next;

	if (!m)
		return;
	HASH_ITER (hh, m->by_name, meter, next) {
		empty(m, meter);
		HASH_DEL(m->by_name, meter);
		mem_free(meter);
	}
	mem_free(m);
}

static struct meter *find(const struct meters *m, struct slice name)
{
	struct meter *meter;

	HASH_FIND(hh, m->by_name, name.data, name.len, meter);
	return meter;
}

bool meters_has(const struct meters *m, struct slice name)
{
	return find(m, name) != NULL;
}

static struct slice name_of(const struct meter_handle *h)
{
	return (struct slice){ h->text.data, h->name_len };
}

static bool is_like(const struct meter *meter, const struct meter_handle *h)
{
	return meter->type == h->type && meter->bucket_count == h->bucket_count &&
	       (h->bucket_count == 0 ||
		memcmp(meter->buckets, h->buckets,
		       h->bucket_count * sizeof(*h->buckets)) == 0);
}

static void set_file(struct meter *meter, const struct meter_handle *h)
{
	meter->load = h->load;
	mem_free(meter->file);
	meter->file = mem_strdup(h->file);
}

/* The meter of a handle, without series. */
static void begin(struct meter *meter, const struct meter_handle *h)
{
	meter->type = h->type;
	set_file(meter, h);
	meter->bucket_count = h->bucket_count;
	meter->buckets = NULL;
	if (h->bucket_count == 0)
		return;
	meter->buckets = mem_alloc(h->bucket_count * sizeof(*h->buckets));
	memcpy(meter->buckets, h->buckets, h->bucket_count * sizeof(*h->buckets));
}

/* Make room: forget the metric that nothing has written for the most generations. The
 * newest generation's stay. */
static bool forget_former(struct meters *m, uint64_t load)
{
	struct meter *oldest = m->by_name;

	for (struct meter *meter = oldest; meter; meter = meter->hh.next)
		if (meter->load < oldest->load)
			oldest = meter;
	if (!oldest || oldest->load >= load)
		return false;
	empty(m, oldest);
	HASH_DEL(m->by_name, oldest);
	mem_free(oldest);
	return true;
}

static int make(struct meters *m, const struct meter_handle *h, struct meter **out,
		struct error *err)
{
	struct meter *meter;

	if (HASH_COUNT(m->by_name) >= METERS_MAX)
		forget_former(m, h->load);
	if (HASH_COUNT(m->by_name) >= METERS_MAX)
		return error_set(err, TIDE_ELIMIT,
				 "there are %d gauges and histograms, as many as there "
				 "may be; what differs from message to message is a "
				 "label, not a name",
				 METERS_MAX);
	meter = mem_zalloc(sizeof(*meter) + h->name_len);
	meter->name_len = h->name_len;
	memcpy(meter->name, h->text.data, h->name_len);
	STAILQ_INIT(&meter->series);
	begin(meter, h);
	HASH_ADD_KEYPTR(hh, m->by_name, meter->name, meter->name_len, meter);
	*out = meter;
	return TIDE_OK;
}

/* The declaration of the newest generation counts. */
static int agree(struct meters *m, struct meter *meter, const struct meter_handle *h,
		 struct error *err)
{
	if (is_like(meter, h)) {
		if (h->load > meter->load)
			set_file(meter, h);
		return TIDE_OK;
	}
	if (h->load <= meter->load)
		return error_set(err, TIDE_EMISMATCH, "'%" SLICE_FMT "' is a %s%s in %s",
				 SLICE_ARG(name_of(h)),
				 meter->type == METER_GAUGE ? "gauge" : "histogram",
				 meter->type == h->type ? " with other buckets" : "",
				 meter->file);
	empty(m, meter);
	begin(meter, h);
	return TIDE_OK;
}

static struct meter_series *find_series(const struct meters *m, struct slice text)
{
	struct meter_series *s;

	HASH_FIND(hh, m->by_text, text.data, text.len, s);
	return s;
}

static struct meter_series *add_series(struct meters *m, struct meter *meter,
				       struct slice text)
{
	struct meter_series *s = mem_zalloc(sizeof(*s) + text.len);

	s->meter = meter;
	s->text_len = text.len;
	memcpy(s->text, text.data, text.len);
	if (meter->type == METER_HISTOGRAM)
		s->counts = mem_zalloc((meter->bucket_count + 1) * sizeof(*s->counts));
	HASH_ADD_KEYPTR(hh, m->by_text, s->text, s->text_len, s);
	STAILQ_INSERT_TAIL(&meter->series, s, link);
	meter->count++;
	m->lines += lines_of(meter);
	return s;
}

static bool has_room(const struct meters *m, const struct meter *meter, unsigned times)
{
	return meter->count < times * SERIES_PER_METRIC &&
	       m->lines + lines_of(meter) <= (size_t)times * SERIES_IN_ALL;
}

/* Make a new series. When there are too many, use the series `other`, of which there is
 * one for each set of label names. When there are too many of these too, use the series
 * without labels. */
static struct meter_series *make_series(struct meters *m, struct meter *meter,
					struct slice text)
{
	char other[SERIES_TEXT_MAX];
	struct meter_series *s;

	while (m->lines + lines_of(meter) > SERIES_IN_ALL &&
	       forget_former(m, meter->load))
		;
	if (has_room(m, meter, 1))
		return add_series(m, meter, text);
	text = (struct slice){ other, series_write_other(other, text) };
	s = find_series(m, text);
	if (s || has_room(m, meter, 2))
		return s ? s : add_series(m, meter, text);
	text = (struct slice){ meter->name, meter->name_len };
	s = find_series(m, text);
	return s ? s : add_series(m, meter, text);
}

static int obtain(struct meters *m, const struct meter_handle *h,
		  struct meter_series **out, struct error *err)
{
	struct meter_series *s = find_series(m, h->text);
	struct meter *meter = s ? s->meter : find(m, name_of(h));
	int rc = meter ? agree(m, meter, h, err) : make(m, h, &meter, err);

	if (rc < 0)
		return rc;
	/* If they did not agree, it is gone. */
	if (s && meter->count == 0)
		s = NULL;
	*out = s ? s : make_series(m, meter, h->text);
	return TIDE_OK;
}

int meters_set(struct meters *m, const struct meter_handle *h, double value,
	       struct error *err)
{
	struct meter_series *s;
	int rc = obtain(m, h, &s, err);

	if (rc == TIDE_OK)
		s->value = value;
	return rc;
}

/* Infinity is no number in STATS, and never ends. */
static int check_sum(const struct meter_series *s, double by, struct error *err)
{
	if (isfinite(s->value + by))
		return TIDE_OK;
	return error_set(err, TIDE_EMISMATCH,
			 "'%" SLICE_FMT "' plus this is not a finite number",
			 (int)s->text_len, s->text);
}

int meters_add(struct meters *m, const struct meter_handle *h, double by,
	       struct error *err)
{
	struct meter_series *s;
	int rc = obtain(m, h, &s, err);

	if (rc == TIDE_OK)
		rc = check_sum(s, by, err);
	if (rc == TIDE_OK)
		s->value += by;
	return rc;
}

int meters_observe(struct meters *m, const struct meter_handle *h, double value,
		   struct error *err)
{
	struct meter_series *s;
	int rc = obtain(m, h, &s, err);
	unsigned i = 0;

	if (rc == TIDE_OK)
		rc = check_sum(s, value, err);
	if (rc < 0)
		return rc;
	while (i < h->bucket_count && value > h->buckets[i])
		i++;
	s->counts[i]++;
	s->value += value;
	return TIDE_OK;
}

double meters_get(const struct meters *m, const struct meter_handle *h)
{
	const struct meter_series *s = find_series(m, h->text);

	return s ? s->value : 0;
}

void meters_each(const struct meters *m, meters_fn fn, void *ctx)
{
	for (const struct meter *meter = m->by_name; meter; meter = meter->hh.next) {
		const struct meter_series *s;

		STAILQ_FOREACH (s, &meter->series, link) {
			const struct meter_view v = {
				.type = meter->type,
				.text = { s->text, s->text_len },
				.name = { meter->name, meter->name_len },
				.file = meter->file,
				.value = s->value,
				.bucket_count = meter->bucket_count,
				.buckets = meter->buckets,
				.counts = s->counts,
			};

			fn(ctx, &v);
		}
	}
}

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

/* There are few. */
static void sort(struct series_label *labels, unsigned count)
{
	for (unsigned i = 1; i < count; i++) {
		struct series_label one = labels[i];
		unsigned at = i;

		for (; at > 0 && slice_compare(one.name, labels[at - 1].name) < 0; at--)
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
