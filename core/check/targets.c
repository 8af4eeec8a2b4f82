#include "steps.h"

#include "base/mem.h"
#include "broker/exchange.h"
#include "broker/queue.h"
#include "rules/sandbox/bundle.h"
#include "text.h"

struct sender {
	struct model *model;
	const struct rule *script;
};

/* Of a filter: an exchange of its match. */
static bool is_matched(const struct rule *script, struct slice exchange)
{
	const struct rule_match *m = script->match;

	for (size_t i = 0; m && i < m->exchange.count; i++) {
		if (slice_is(exchange, m->exchange.items[i]))
			return true;
	}
	return false;
}

static void on_exchange(void *ctx, struct slice name, int line)
{
	const struct sender *sender = ctx;
	char *text = mem_strndup(name.data, name.len);

	/* What it matches is reported for the match. */
	if (!is_matched(sender->script, name) && !model_has_exchange(sender->model, text))
		findings_add(sender->model->findings, sender->script->file, line,
			     "sends to exchange '%s', which does not exist: the publish "
			     "fails",
			     text);
	mem_free(text);
}

static void check_matched(struct model *m, const struct rule *script)
{
	const struct match_words *w = &script->match->exchange;

	for (size_t i = 0; i < w->count; i++) {
		if (!model_has_exchange(m, w->items[i]))
			findings_add(m->findings, script->file, script->line,
				     "matches exchange '%s', which does not exist: the "
				     "filter is never called%s",
				     w->items[i], w->count > 1 ? " for it" : "");
	}
}

static void check_script(struct model *m, const struct rule *script,
			 const struct bundle *files)
{
	const struct bundle_file *file = bundle_find(files, script->file);
	struct sender sender = { m, script };

	if (!rule_is_active(script))
		return;
	if (script->kind == SCRIPT_FILTER)
		check_matched(m, script);
	if (file)
		text_each_exchange((struct slice){ file->text, file->len }, on_exchange,
				   &sender);
}

static void check_dead_letters(struct model *m, const struct queue *q)
{
	const char *exchange = q->config.dead_exchange, *problem = NULL;
	bool is_to_queue = exchange && !exchange[0];
	const char *name = is_to_queue ? q->config.dead_key : exchange;
	const struct exchange *x;
	struct buf text = { 0 };

	if (!exchange)
		return;
	/* NULL as well when its declaration was refused. */
	x = is_to_queue ? NULL : exchange_find(m->vhost, slice_from(name));
	if (!(is_to_queue ? model_has_queue(m, name) : model_has_exchange(m, name)))
		problem = "does not exist";
	else if (x && x->binding_count == 0)
		problem = "has no bindings";
	if (!problem)
		return;
	buf_printf(&text,
		   "%s '%s' dead-letters to %s '%s', which %s: its dead letters are %s",
		   definition_kind(q->definition.table), q->name,
		   is_to_queue ? "queue" : "exchange", name, problem,
		   q->topic ? "given up" : "buried");
	model_report(m, "queue", q->name, buf_cstr(&text));
	buf_deinit(&text);
}

static void check_alternate(struct model *m, const struct exchange *x)
{
	struct buf text = { 0 };

	if (!x->config.alternate || model_has_exchange(m, x->config.alternate))
		return;
	buf_printf(&text,
		   "exchange '%s' has the alternate '%s', which does not exist: what no "
		   "queue takes is dropped",
		   x->name, x->config.alternate);
	model_report(m, "exchange", x->name, buf_cstr(&text));
	buf_deinit(&text);
}

void targets_check(struct model *m, const struct survey *s)
{
	size_t count;
	struct rule *const *scripts = survey_scripts(s, &count);

	for (size_t i = 0; i < count; i++)
		check_script(m, scripts[i], survey_files(s));
	for (const struct queue *q = m->vhost->queues; q; q = q->hh.next)
		check_dead_letters(m, q);
	for (const struct exchange *x = m->vhost->exchanges; x; x = x->hh.next)
		check_alternate(m, x);
}
