#include "shadow.h"

#include <stdio.h>

#include "../base/log.h"
#include "../base/mem.h"
#include "candidate.h"
#include "recent.h"

/* A publish on which the two disagree. */
struct sample {
	struct msg *msg;
	struct vhost *vhost;
	unsigned difference;
	struct verdict live, shadow;
	char *live_error, *shadow_error; /* NULL where there is none */
};

struct shadow {
	struct broker *broker;
	struct candidate *candidate;
	double share;
	uint64_t threshold; /* of random numbers, below which a publish is taken */
	uint64_t random;
	int64_t started_unix_ms;
	uint64_t seen, compared, differing;
	uint64_t differences[4]; /* by the bits of enum verdict_difference */
	uint64_t time_ns, time_max_ns;
	unsigned slow;
	bool is_stopped;
	struct sample samples[SHADOW_SAMPLES]; /* a ring: the last ones */
	uint64_t sample_count;                 /* ever */
};

/* ---- life ------------------------------------------------------------------------- */

int shadow_start(struct broker *b, struct slice dir, double share, struct error *err)
{
	struct candidate *c;
	struct shadow *s;
	int rc;

	if (b->shadow)
		return error_set(err, TIDE_EEXISTS,
				 "'%s' is in the shadow already; promote or drop it "
				 "first",
				 candidate_dir(b->shadow->candidate));
	rc = candidate_create(&c, b, dir, err);
	if (rc < 0)
		return rc;
	s = mem_zalloc(sizeof(*s));
	s->broker = b;
	s->candidate = c;
	s->share = share;
	s->threshold = share >= 1 ? UINT64_MAX : (uint64_t)(share * 0x1p64);
	s->random = uv_hrtime() | 1;
	s->started_unix_ms = b->now_ms;
	b->shadow = s;
	log_info("rules: '%s' decides in the shadow on %g%% of the publishes",
		 candidate_dir(c), share * 100);
	return TIDE_OK;
}

static void free_sample(struct sample *sample)
{
	msg_unref(sample->msg);
	mem_free(sample->live_error);
	mem_free(sample->shadow_error);
}

void shadow_drop(struct broker *b)
{
	struct shadow *s = b->shadow;

	if (!s)
		return;
	b->shadow = NULL;
	log_info("rules: '%s' is out of the shadow", candidate_dir(s->candidate));
	for (size_t i = 0; i < SHADOW_SAMPLES; i++)
		free_sample(&s->samples[i]);
	candidate_destroy(s->candidate);
	mem_free(s);
}

struct bundle *shadow_files(const struct broker *b)
{
	return b->shadow ? candidate_files(b->shadow->candidate) : NULL;
}

/* ---- looking ---------------------------------------------------------------------- */

/* xorshift64*: the share is of publishes taken at random, so that no pattern in
 * the traffic meets a pattern of ours. */
static bool is_taken(struct shadow *s)
{
	s->random ^= s->random >> 12;
	s->random ^= s->random << 25;
	s->random ^= s->random >> 27;
	return s->random * UINT64_C(0x2545f4914f6cdd1d) <= s->threshold;
}

static char *copy_error(const struct verdict *v, const struct error *err)
{
	return v->status == TIDE_OK ? NULL : mem_strdup(err->text);
}

static void count_difference(struct shadow *s, unsigned difference)
{
	s->differing++;
	for (int i = 0; i < 4; i++)
		s->differences[i] += difference >> i & 1;
}

static void count_time(struct shadow *s, uint64_t ns)
{
	s->time_ns += ns;
	if (ns > s->time_max_ns)
		s->time_max_ns = ns;
	if (ns < SHADOW_SLOW_NS || ++s->slow < SHADOW_SLOW_MAX)
		return;
	s->is_stopped = true;
	log_warn("rules: '%s' in the shadow has held up the broker %d times, for up to "
		 "%llu ms, and is stopped",
		 candidate_dir(s->candidate), SHADOW_SLOW_MAX,
		 (unsigned long long)(s->time_max_ns / 1000000));
}

void shadow_look(struct shadow *s, struct vhost *v, struct msg *m,
		 const struct verdict *live, const struct error *why)
{
	struct verdict verdict;
	struct error err;
	struct sample *sample;
	unsigned difference;
	uint64_t start;

	s->seen++;
	if (s->is_stopped || !is_taken(s))
		return;
	start = uv_hrtime();
	candidate_decide(s->candidate, v, m, &verdict, &err);
	count_time(s, uv_hrtime() - start);
	s->compared++;
	difference = verdict_compare(live, &verdict);
	if (difference == VERDICT_SAME)
		return;
	count_difference(s, difference);
	sample = &s->samples[s->sample_count++ % SHADOW_SAMPLES];
	free_sample(sample);
	*sample = (struct sample){
		.msg = msg_ref(m),
		.vhost = v,
		.difference = difference,
		.live = *live,
		.shadow = verdict,
		.live_error = copy_error(live, why),
		.shadow_error = copy_error(&verdict, &err),
	};
}

/* ---- telling ---------------------------------------------------------------------- */

static void write_sample(const struct sample *sample, struct broker *b, struct json *out)
{
	json_object_begin(out);
	json_key(out, "differs");
	verdict_write_difference(sample->difference, out);
	recent_write_publish(sample->vhost, sample->msg, sample->msg->payload_len, out);
	json_key(out, "live");
	verdict_write(&sample->live, b, sample->live_error, out);
	json_key(out, "shadow");
	verdict_write(&sample->shadow, b, sample->shadow_error, out);
	json_object_end(out);
}

static void write_samples(const struct shadow *s, struct json *out)
{
	uint64_t first =
		s->sample_count > SHADOW_SAMPLES ? s->sample_count - SHADOW_SAMPLES : 0;

	json_key(out, "samples");
	json_array_begin(out);
	for (uint64_t i = s->sample_count; i > first; i--)
		write_sample(&s->samples[(i - 1) % SHADOW_SAMPLES], s->broker, out);
	json_array_end(out);
}

static void write_counts(const struct shadow *s, struct json *out)
{
	static const char *const names[] = { "errors", "queues", "shards", "ranks" };

	json_member_int(out, "seen", (int64_t)s->seen);
	json_member_int(out, "compared", (int64_t)s->compared);
	json_member_int(out, "differing", (int64_t)s->differing);
	json_key(out, "differences");
	json_object_begin(out);
	for (int i = 0; i < 4; i++)
		json_member_int(out, names[i], (int64_t)s->differences[i]);
	json_object_end(out);
	json_member_int(out, "time_us", (int64_t)(s->time_ns / 1000));
	json_member_int(out, "time_max_us", (int64_t)(s->time_max_ns / 1000));
}

void shadow_write(const struct broker *b, struct json *out)
{
	const struct shadow *s = b->shadow;

	json_object_begin(out);
	json_member_bool(out, "active", s != NULL);
	if (s) {
		candidate_write(s->candidate, out);
		json_key(out, "share");
		json_number(out, s->share);
		json_member_int(out, "started_ms", s->started_unix_ms);
		json_member_bool(out, "stopped", s->is_stopped);
		write_counts(s, out);
		write_samples(s, out);
	}
	json_object_end(out);
}
