#include "removal.h"

#include "base/mem.h"
#include "base/waiter.h"
#include "host/log.h"
#include "broker.h"
#include "definition.h"

#define REST_MS 500   /* between two rounds */
#define ROUND_MAX 256 /* requests of a round */

struct removal {
	TAILQ_ENTRY(removal) link; /* in the broker's list, once it was refused */
	struct broker *broker;
	struct waiter *waiter;
	struct removal_spec spec; /* its texts are behind the structure */
	bool was_refused;
	bool is_sent;
	char texts[];
};

static void end(struct removal *r, int status, const char *text)
{
	struct removal_list *list = &r->broker->removals;

	if (r->was_refused) {
		TAILQ_REMOVE(list, r, link);
		if (TAILQ_EMPTY(list))
			log_info("nothing is left that Redis refused to delete");
	}
	if (r->waiter)
		waiter_done(r->waiter, status, text);
	mem_free(r);
}

/* What was declared meanwhile stays. Of a queue it has the old messages, too. */
static void end_as_back(struct removal *r, int status, const char *text)
{
	if (!definition_is_queue(r->spec.table)) {
		end(r, TIDE_OK, NULL);
		return;
	}
	log_error("Redis refused to delete %s '%" SLICE_FMT
		  "', which exists again: its old messages return with the next start",
		  r->spec.kind, SLICE_ARG(r->spec.name));
	end(r, status, text);
}

static void on_answer(void *ctx, int status, const char *text)
{
	struct removal *r = ctx;
	struct broker *b = r->broker;

	r->is_sent = false;
	if (status == TIDE_OK || status == TIDE_ESHUTDOWN) {
		end(r, status, text);
		return;
	}
	if (r->was_refused)
		return;
	if (r->spec.is_back(b, &r->spec)) {
		end_as_back(r, status, text);
		return;
	}
	if (TAILQ_EMPTY(&b->removals)) {
		b->removal_due_ms = b->now_ms + REST_MS;
		log_error("Redis refused to delete '%" SLICE_FMT "', trying again: %s",
			  SLICE_ARG(r->spec.name), text ? text : error_text(status));
	}
	r->was_refused = true;
	TAILQ_INSERT_TAIL(&b->removals, r, link);
}

static void ask(struct removal *r)
{
	const struct removal_spec *spec = &r->spec;
	const struct store_queue queue = { spec->vhost, spec->name, spec->shards };
	struct store *store = r->broker->store;

	r->is_sent = true;
	if (spec->table == STORE_QUEUES)
		store_definition_erase_queue(store, &queue, on_answer, r);
	else if (spec->table == STORE_TOPICS)
		store_definition_erase_topic(store, &queue, on_answer, r);
	else
		store_definition_remove(store, spec->table, spec->vhost, spec->name,
					on_answer, r);
}

void removal_send(struct broker *b, const struct removal_spec *spec,
		  struct waiter *waiter)
{
	size_t vhost_len = spec->vhost.len, name_len = spec->name.len;
	struct removal *r = mem_zalloc(sizeof(*r) + vhost_len + name_len);

	r->broker = b;
	r->spec = *spec;
	memcpy(r->texts, spec->vhost.data, vhost_len);
	memcpy(r->texts + vhost_len, spec->name.data, name_len);
	r->spec.vhost.data = r->texts;
	r->spec.name.data = r->texts + vhost_len;
	r->waiter = waiter;
	if (waiter)
		waiter_add(waiter);
	ask(r);
}

int removal_check(const struct broker *b, struct slice vhost, struct slice queue,
		  struct error *err)
{
	const struct removal *r;

	TAILQ_FOREACH (r, &b->removals, link)
		if (definition_is_queue(r->spec.table) &&
		    slice_is_equal(r->spec.vhost, vhost) &&
		    slice_is_equal(r->spec.name, queue))
			return error_set(err, TIDE_ESTORE,
					 "%s '%" SLICE_FMT
					 "' was deleted, and Redis refuses to delete it; "
					 "it is asked again",
					 r->spec.kind, SLICE_ARG(queue));
	return TIDE_OK;
}

void removal_turn(struct broker *b)
{
	int64_t rest_ms = b->removal_due_ms - b->now_ms;
	struct removal *r, *next;
	unsigned budget = ROUND_MAX;

	/* Longer than any rest: the clock was set back. */
	if (TAILQ_EMPTY(&b->removals) || (rest_ms > 0 && rest_ms <= REST_MS))
		return;
	b->removal_due_ms = b->now_ms + REST_MS;
	for (r = TAILQ_FIRST(&b->removals); r && budget > 0; r = next) {
		next = TAILQ_NEXT(r, link);
		if (r->is_sent)
			continue;
		budget--;
		if (r->spec.is_back(b, &r->spec))
			end_as_back(r, TIDE_OK, NULL);
		else
			ask(r);
	}
}

int64_t removal_due_ms(const struct broker *b)
{
	return TAILQ_EMPTY(&b->removals) ? 0 : b->removal_due_ms;
}

void removal_clear(struct broker *b)
{
	struct removal *r;

	while ((r = TAILQ_FIRST(&b->removals)) != NULL)
		end(r, TIDE_ESHUTDOWN, NULL);
}
