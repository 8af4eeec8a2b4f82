#include "service_health.h"

#include <stdarg.h>
#include <stdio.h>

#include "rules/engine/reload.h"

static void TIDE_PRINTF(4, 5) note(struct service_note *list, unsigned *count,
				   const char *code, const char *format, ...)
{
	struct service_note *n = &list[(*count)++];
	va_list ap;

	n->code = code;
	va_start(ap, format);
	vsnprintf(n->text, sizeof(n->text), format, ap);
	va_end(ap);
}

#define REASON(out, ...) note((out)->reasons, &(out)->reason_count, __VA_ARGS__)
#define WARNING(out, ...) note((out)->warnings, &(out)->warning_count, __VA_ARGS__)

static void check_store(const struct service *s, struct service_health *out)
{
	const struct broker *b = s->broker;
	enum store_state state = store_state(b->store);

	if (state == STORE_STALE)
		REASON(out, "store", "%s", s->store_state_why);
	else if (state == STORE_DOWN || state == STORE_FAILED)
		REASON(out, "store", "Redis is away: durable changes wait for it");
	else if (journal_stats(b->journal)->last_error[0])
		WARNING(out, "store",
			"Redis refused what was written last: store.last_error in STATS "
			"says why");
}

/* The text of an error names files and shows code: it is for those who log in. */
static void check_rules(const struct broker *b, struct service_health *out)
{
	const struct error *refusal = reload_refusal(b->engine);

	if (refusal->code < 0)
		WARNING(out, "rules",
			"the rules that were loaded last were refused, and generation "
			"%016llx serves: RULES status says why",
			(unsigned long long)engine_hash(b->engine));
	if (b->unusable > 0)
		WARNING(out, "unusable",
			"%u definitions cannot be used with these rules: see the log",
			b->unusable);
}

void service_health(const struct service *s, struct service_health *out)
{
	const struct broker *b = s->broker;

	*out = (struct service_health){ 0 };
	if (b->is_draining)
		REASON(out, "shutdown", "the broker is stopping");
	if (!b->is_started) {
		REASON(out, "starting", "the broker is starting");
		return;
	}
	check_store(s, out);
	if (s->is_blocked)
		REASON(out, "blocked", "publishers are held back: %s", s->blocked_why);
	if (b->refuses_publishes)
		REASON(out, "draining", "publishes are refused (DRAIN)");
	check_rules(b, out);
}
