#include "service_health.h"

#include <stdarg.h>
#include <stdio.h>

#include "warnings.h"

#define REASONS_MAX 16

struct reasons {
	unsigned count;
	struct {
		const char *code; /* "store" */
		char text[ERROR_TEXT_MAX];
	} items[REASONS_MAX];
};

static void TIDE_PRINTF(3, 4)
	add(struct reasons *r, const char *code, const char *format, ...)
{
	va_list ap;

	r->items[r->count].code = code;
	va_start(ap, format);
	vsnprintf(r->items[r->count].text, sizeof(r->items[0].text), format, ap);
	va_end(ap);
	r->count++;
}

/* The reason for a connection that was lost has an address in it. */
static void check_store(const struct service *s, struct reasons *r)
{
	const struct store *store = s->broker->store;
	enum store_state state = store_state(store);

	if (state == STORE_STALE)
		add(r, "store", "%s", s->store_state_why);
	for (int kind = 0; kind < STORE_TROUBLES; kind++)
		if (store_has_trouble(store, (enum store_trouble)kind) &&
		    store_trouble_is_total((enum store_trouble)kind))
			add(r, "store", "%s",
			    store_trouble_text((enum store_trouble)kind));
	if (store_unfit(store))
		add(r, "store", "Redis cannot be used now: %s", store_unfit(store));
	else if ((state == STORE_DOWN || state == STORE_FAILED) && r->count == 0)
		add(r, "store",
		    "Redis is away: durable changes wait for it; see whether it runs, "
		    "the log says more");
}

static void find_reasons(const struct service *s, struct reasons *r)
{
	const struct broker *b = s->broker;

	r->count = 0;
	if (!b->is_started) {
		add(r, "starting", "the broker is starting");
		return;
	}
	check_store(s, r);
	if (b->is_draining)
		add(r, "shutdown", "the broker is stopping");
	if (s->is_blocked)
		add(r, "blocked", "publishers are held back: %s", s->blocked_why);
	if (b->refuses_publishes)
		add(r, "draining", "publishes are refused (DRAIN)");
}

bool service_health_is_ready(const struct service *s)
{
	struct reasons r;

	find_reasons(s, &r);
	return r.count == 0;
}

static void write_note(void *ctx, const char *code, const char *text)
{
	struct json *j = ctx;

	json_object_begin(j);
	json_member_text(j, "code", code);
	json_member_text(j, "text", text);
	json_object_end(j);
}

void service_health_write(const struct service *s, bool has_names, struct json *j)
{
	struct reasons r;

	find_reasons(s, &r);
	json_member_bool(j, "ready", r.count == 0);
	json_member_array(j, "reasons");
	for (unsigned i = 0; i < r.count; i++)
		write_note(j, r.items[i].code, r.items[i].text);
	json_array_end(j);
	json_member_array(j, "warnings");
	if (s->broker->is_started)
		warnings_each(s->warnings, has_names, write_note, j);
	json_array_end(j);
}
