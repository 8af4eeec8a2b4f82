#include "trial.h"

#include <lauxlib.h>
#include <time.h>

#include "base/mem.h"
#include "engine_private.h"
#include "lexer.h"
#include "sample.h"
#include "topic.h"
#include "trail.h"

#define TRIAL_BUDGET_MS 50 /* as a broker's */
#define RUNS_MAX 50000
#define IDLE_RUNS_MAX 15000 /* without anything new */
#define TIME_MAX_MS 2000    /* of processor time: for filters that are slow */
#define CORPUS_MAX 1024
#define EXCHANGES_MAX 500
#define COVERAGE_BITS (1u << 16)
#define BASE_UNIX_MS INT64_C(1790000000000)
#define HOUR_MS INT64_C(3600000)

/* What is known of a filter. */
struct subject {
	struct rule *rule;
	uint64_t calls, failures;
	uint64_t missed;           /* messages that match it and did not reach it */
	const struct rule *before; /* the filter that kept them from it */
	bool has_other_before;     /* more than one did */
};

struct search {
	const struct trial *trial;
	struct engine *engine;
	struct subject *subjects;
	struct rule **filters;
	size_t count;
	struct sample_pool pool;
	struct sample *corpus;
	size_t corpus_count;
	uint8_t seen[COVERAGE_BITS / 8];
	int last_line;
	bool has_news; /* the run under way reached something new */
	struct trail trail;
	struct words reported;
	int64_t started_ms;
	unsigned run_count;
	bool is_late;
};

/* ---- what a run reaches ---------------------------------------------------------- */

static const char search_key; /* of the search in the registry */

static void note_seen(struct search *s, uint64_t hash)
{
	uint32_t bit = (uint32_t)hash % COVERAGE_BITS;
	if (s->seen[bit / 8] >> bit % 8 & 1)
		return;
	s->seen[bit / 8] |= (uint8_t)(1u << bit % 8);
	s->has_news = true;
}

/* A line, and from which line it was come to. */
static void note_line(lua_State *L, lua_Debug *at, struct search *s)
{
	int32_t lines[2] = { at->currentline, s->last_line };
	lua_getinfo(L, "S", at);
	uint64_t file = source_hash(at->short_src, strlen(at->short_src));
	note_seen(s, file ^ source_hash((const char *)lines, sizeof(lines)));
	s->last_line = at->currentline;
}

/* msg.headers.<name> is read: the next messages may have it. */
static void note_header(struct search *s, struct slice name)
{
	bool is_new;
	if (!slice_is_name(name) || memchr(name.data, '=', name.len))
		return;
	words_add(&s->pool.names, name, &is_new);
	s->has_news |= is_new;
}

/* A function of C is called: is it the index of a message or of its headers? What
 * comes behind an `and` is read only when what stands before it was true. */
static void note_call(lua_State *L, lua_Debug *at, struct search *s)
{
	int top = lua_gettop(L);
	struct slice name;
	lua_getinfo(L, "S", at);
	if (at->what[0] == 'C' && lua_getlocal(L, at, 1) &&
	    lua_type(L, -1) == LUA_TUSERDATA && luaL_getmetafield(L, -1, "__name") &&
	    lua_getlocal(L, at, 2) && lua_type(L, -1) == LUA_TSTRING) {
		name.data = lua_tolstring(L, -1, &name.len);
		note_seen(s, source_hash(name.data, name.len) + (uint64_t)s->last_line);
		if (strcmp(lua_tostring(L, -2), "msg.headers") == 0)
			note_header(s, name);
	}
	lua_settop(L, top);
}

static void on_event(lua_State *L, lua_Debug *at)
{
	lua_rawgetp(L, LUA_REGISTRYINDEX, &search_key);
	struct search *s = lua_touserdata(L, -1);
	lua_pop(L, 1);
	if (at->event == LUA_HOOKLINE)
		note_line(L, at, s);
	else
		note_call(L, at, s);
}

static int l_register(lua_State *L)
{
	lua_rawsetp(L, LUA_REGISTRYINDEX, &search_key);
	return 0;
}

/* ---- findings --------------------------------------------------------------------- */

static struct subject *subject_of(struct search *s, const char *file)
{
	for (size_t i = 0; i < s->count; i++)
		if (strcmp(s->filters[i]->file, file) == 0)
			return &s->subjects[i];
	return NULL;
}

/* Once for the same circle, whatever message shows it. */
static void tell_circle(struct search *s, const struct sample *sample, int last)
{
	struct findings *f = s->trial->rules->findings;
	struct trail_circle circle;
	struct buf path, id, message;
	bool is_new, is_circle = trail_find_circle(&s->trail, last, &circle);
	buf_init(&path);
	buf_init(&id);
	buf_init(&message);
	trail_describe(&s->trail, &circle, &path, &id);
	sample_describe(sample, &message);
	words_add(&s->reported, buf_slice(&id), &is_new);
	if (is_new && is_circle)
		findings_add(f, circle.file, circle.line,
			     "filters send messages in a circle: %s; a broker refuses "
			     "such a publish after %d rounds; let one of them leave "
			     "alone what it has sent before (seen with: %s)",
			     buf_cstr(&path), FILTER_HOPS_MAX, buf_cstr(&message));
	else if (is_new)
		findings_add(f, circle.file, circle.line,
			     "a message is sent on more than %d times, which a broker "
			     "refuses: %s (seen with: %s)",
			     FILTER_HOPS_MAX, buf_cstr(&path), buf_cstr(&message));
	buf_deinit(&path);
	buf_deinit(&id);
	buf_deinit(&message);
}

static void tell_failure(struct search *s, const struct sample *sample,
			 const struct error *err)
{
	struct buf message;
	bool is_new;
	struct subject *failed =
		s->trail.last_file ? subject_of(s, s->trail.last_file) : NULL;
	if (failed)
		failed->failures++;
	words_add(&s->reported, slice_from(err->text), &is_new);
	if (!is_new || !failed || failed->failures > 3)
		return;
	buf_init(&message);
	sample_describe(sample, &message);
	/* Its own place, and then the message that it was. */
	struct buf text;
	buf_init(&text);
	buf_printf(&text, "%s (for a message with: %s)", err->text, buf_cstr(&message));
	findings_note_error(s->trial->rules->findings, failed->rule->file,
			    buf_cstr(&text));
	buf_deinit(&text);
	buf_deinit(&message);
}

/* ---- a run --------------------------------------------------------------------------
 */

static bool is_match(const struct rule *r, const struct sample *sample)
{
	return (strcmp(r->match_exchange, "*") == 0 ||
		strcmp(r->match_exchange, sample->exchange) == 0) &&
	       topic_matches(slice_from(r->match_key), slice_from(sample->key));
}

static void count_missed(struct search *s, const struct sample *sample)
{
	const struct subject *before =
		s->trail.first_end ? subject_of(s, s->trail.first_end) : NULL;
	for (size_t i = 0; i < s->count; i++) {
		struct subject *missed = &s->subjects[i];
		if (trail_has_called(&s->trail, missed->rule->file) ||
		    !is_match(missed->rule, sample))
			continue;
		missed->missed++;
		if (!before || (missed->before && missed->before != before->rule))
			missed->has_other_before = true;
		else
			missed->before = before->rule;
	}
}

static bool is_literal(const struct words *literals, const char *text)
{
	for (size_t i = 0; i < literals->count; i++)
		if (strcmp(literals->items[i], text) == 0)
			return true;
	return false;
}

static void tell_target(struct search *s, const struct hop *hop)
{
	struct subject *sender = subject_of(s, hop->file);
	struct trial_target target = { .file = hop->file,
				       .line = hop->line,
				       .exchange = hop->exchange,
				       .key = hop->key };
	struct buf id;
	bool is_new;
	if (s->pool.exchanges.count < EXCHANGES_MAX)
		words_add(&s->pool.exchanges, slice_from(hop->exchange), NULL);
	if (!sender || !s->trial->on_target)
		return;
	target.is_own_key = hop->has_new_key &&
			    is_literal(&s->pool.literals[sender - s->subjects], hop->key);
	buf_init(&id);
	buf_printf(&id, "%s\n%s\n%s", hop->file, hop->exchange,
		   target.is_own_key ? hop->key : "");
	words_add(&s->reported, buf_slice(&id), &is_new);
	buf_deinit(&id);
	if (is_new)
		trial_tell(s->trial, target);
}

static void run(struct search *s, const struct sample *sample)
{
	struct dry_run dry;
	struct error err;
	int circle;
	int64_t now_ms = BASE_UNIX_MS + (int64_t)(sample->seed % 168) * HOUR_MS;
	struct msg *m = sample_message(sample, now_ms);
	if (!m)
		return;
	s->has_news = false;
	s->last_line = 0;
	engine_seed(s->engine, sample->seed);
	engine_set_clock(s->engine, now_ms);
	engine_dry_run_begin(s->engine, &dry);
	lua_sethook(s->engine->current->script.L, on_event, LUA_MASKLINE | LUA_MASKCALL,
		    0);
	int status = trail_walk_take(&s->trail, s->engine, m, now_ms, &err);
	lua_sethook(s->engine->current->script.L, NULL, 0, 0);
	engine_dry_run_end(s->engine);
	for (size_t i = 0; i < s->trail.called_count; i++)
		subject_of(s, s->trail.called[i])->calls++;
	circle = s->trail.circle_at;
	if (circle >= 0)
		tell_circle(s, sample, circle);
	else if (status == TIDE_ERULE)
		tell_failure(s, sample, &err);
	for (size_t i = 0; i < s->trail.count; i++)
		tell_target(s, &s->trail.hops[i]);
	count_missed(s, sample);
}

/* ---- the search
 * ------------------------------------------------------------------------
 */

static void keep(struct search *s, const struct sample *sample)
{
	size_t at = s->corpus_count < CORPUS_MAX ? s->corpus_count++
						 : sample_random(&s->pool, CORPUS_MAX);
	s->corpus[at] = *sample;
}

static int64_t processor_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Whether there is time for one run more. */
static bool may_run(struct search *s)
{
	if (s->run_count++ % 16 == 0 && processor_ms() - s->started_ms > TIME_MAX_MS)
		s->is_late = true;
	return !s->is_late;
}

static void run_first(struct search *s)
{
	struct sample sample;
	for (size_t i = 0; i < s->count; i++) {
		for (size_t n = 0;
		     sample_first(&s->pool, s->filters[i], n, &sample) && may_run(s);
		     n++) {
			run(s, &sample);
			if (s->has_news || n == 0)
				keep(s, &sample);
		}
	}
}

static void run_changed(struct search *s)
{
	unsigned idle = 0;
	while (s->corpus_count && idle < IDLE_RUNS_MAX && s->run_count < RUNS_MAX &&
	       may_run(s)) {
		struct sample sample =
			s->corpus[sample_random(&s->pool, s->corpus_count)];
		sample_mutate(&s->pool, &sample);
		run(s, &sample);
		idle = s->has_news ? 0 : idle + 1;
		if (s->has_news)
			keep(s, &sample);
	}
}

/* Nothing in the text makes a choice, so that what was seen is all there is. */
static bool is_without_choice(const struct bundle *files, const char *path)
{
	static const char *const choices[] = { "if",     "and",  "or",    "while", "for",
					       "repeat", "goto", "pcall", "xpcall" };
	const struct bundle_file *file = bundle_find(files, path);
	bool has_constant = false;
	struct token t, before = { .kind = TOKEN_END };
	struct lexer l;
	lexer_init(&l, (struct slice){ file->text, file->len });
	for (t = lexer_next(&l); t.kind != TOKEN_END; before = t, t = lexer_next(&l)) {
		for (size_t i = 0; i < sizeof(choices) / sizeof(choices[0]); i++)
			if (token_is(&t, TOKEN_NAME, choices[i]))
				return false;
		/* return false, or msg.exchange = "archive" */
		has_constant |= token_is(&before, TOKEN_NAME, "return") &&
				token_is(&t, TOKEN_NAME, "false");
		has_constant |=
			token_is(&before, TOKEN_SYMBOL, "=") && t.kind == TOKEN_STRING;
	}
	return has_constant;
}

static void conclude(struct search *s)
{
	struct findings *f = s->trial->rules->findings;
	if (s->is_late)
		findings_note(f, "filter", 0,
			      "the filters are slow: they were tried with %u messages "
			      "alone",
			      s->run_count);
	for (size_t i = 0; i < s->count; i++) {
		const struct subject *one = &s->subjects[i];
		if (one->calls > 0 && one->failures == one->calls)
			findings_add(f, one->rule->file, one->rule->decide_line,
				     "fails for each of the %llu messages that it was "
				     "tried with",
				     (unsigned long long)one->calls);
		if (one->calls > 0 || one->missed == 0 || one->has_other_before ||
		    !is_without_choice(s->trial->rules->good, one->before->file))
			continue;
		findings_add(f, one->rule->file, one->rule->decide_line,
			     "is never called: %s, which comes before it, refuses or "
			     "sends elsewhere whatever this one matches; put this one "
			     "before it, or take one of the two away",
			     one->before->file);
	}
}

/* Filters for exchanges that there are not. */
static void check_exchanges(const struct search *s)
{
	const struct trial *t = s->trial;
	for (size_t i = 0; i < s->count && t->knows_exchanges; i++) {
		const struct rule *r = s->filters[i];
		const char *name = r->match_exchange;
		bool is_known = !name[0] || strcmp(name, "*") == 0;
		for (size_t j = 0; j < t->exchange_count && !is_known; j++)
			is_known = strcmp(t->exchanges[j], name) == 0;
		if (!is_known)
			findings_add(t->rules->findings, r->file, r->decide_line,
				     "matches exchange '%s', which does not exist: the "
				     "filter is never called",
				     name);
	}
}

static void search_open(struct search *s, const struct trial *t, struct engine *e)
{
	const struct generation *g = e->current;
	struct sample_source source = { .files = t->rules->good,
					.exchanges = t->exchanges,
					.exchange_count = t->exchange_count };
	struct error err;
	s->trial = t;
	s->engine = e;
	s->started_ms = processor_ms();
	s->subjects = mem_zalloc((g->rule_count + 1) * sizeof(*s->subjects));
	s->filters = mem_zalloc((g->rule_count + 1) * sizeof(*s->filters));
	s->corpus = mem_zalloc(CORPUS_MAX * sizeof(*s->corpus));
	for (size_t i = 0; i < g->rule_count; i++) {
		if (!g->rules[i]->match_exchange)
			continue;
		s->filters[s->count] = g->rules[i];
		s->subjects[s->count++].rule = g->rules[i];
	}
	source.filters = s->filters;
	source.filter_count = s->count;
	sample_pool_init(&s->pool, &source);
	struct script_call call = { .file = "rules", .body = l_register, .ctx = s };
	if (script_enter(&e->current->script, &call, &err) != TIDE_OK)
		s->count = 0;
}

static void search_close(struct search *s)
{
	sample_pool_deinit(&s->pool);
	words_deinit(&s->reported);
	trail_deinit(&s->trail);
	mem_free(s->subjects);
	mem_free(s->filters);
	mem_free(s->corpus);
	mem_free(s);
}

/* ---- engines ----------------------------------------------------------------------- */

struct engine *trial_open(const struct trial *t, uv_loop_t *loop)
{
	const struct error none = { .code = TIDE_OK };
	const struct engine_config config = {
		.rules_dir = t->rules->rules_dir,
		.lua_dir = t->rules->lua_dir,
		.memory_max_bytes = ENGINE_MEMORY_DEFAULT,
		.call_budget_ms = TRIAL_BUDGET_MS,
		.last_good = t->rules->good,
		.refusal = &none,
	};
	struct engine *e;
	struct error err;
	uv_loop_init(loop);
	if (engine_create(&e, loop, &config, NULL, &err) == TIDE_OK)
		return e;
	findings_add_error(t->rules->findings, "", err.text);
	uv_loop_close(loop);
	return NULL;
}

void trial_close(struct engine *e)
{
	uv_loop_t *loop = e->loop;
	engine_close(e, NULL, NULL);
	uv_run(loop, UV_RUN_DEFAULT);
	uv_loop_close(loop);
}

void trial_filters(const struct trial *t)
{
	uv_loop_t loop;
	struct engine *e = trial_open(t, &loop);
	if (!e)
		return;
	if (engine_filter_count(e) > 0) {
		struct search *s = mem_zalloc(sizeof(*s));
		search_open(s, t, e);
		run_first(s);
		run_changed(s);
		conclude(s);
		check_exchanges(s);
		for (size_t i = 0; i < s->count; i++)
			trial_tell_literals(t, s->filters[i]);
		search_close(s);
	}
	trial_close(e);
}
