/* exchange.* and queue.*: what is declared, deleted and bound. */
#include <stdio.h>

#include "amqp.h"
#include "base/mem.h"
#include "base/rabbit.h"

#define NO_TEXT ((struct slice){ NULL, 0 })

static bool is_reserved(struct slice name)
{
	return slice_has_prefix(name, "amq.");
}

/* An error of the session about a queue; one of another connection is locked. */
static void fail_queue(const struct amqp_request *q, struct slice queue,
		       const struct error *err)
{
	struct define_facts facts;
	struct error ignored;
	bool is_locked = false;

	if (err->code == TIDE_EDENIED &&
	    session_define_look(q->l->base.session, DEFINE_QUEUE, queue, &facts,
				&ignored) == TIDE_OK) {
		is_locked = facts.is_locked;
		args_deinit(&facts.options);
	}
	if (is_locked)
		amqp_fail(q->l, q->channel, q->method, AMQP_RESOURCE_LOCKED, "%s",
			  err->text);
	else
		amqp_fail_with(q, err);
}

bool amqp_queue_name(const struct amqp_request *q, unsigned field, struct slice *name)
{
	*name = q->v[field].s;
	if (name->len == 0)
		*name = slice_from(q->channel->last_queue);
	if (slice_is_name(*name) && !slice_is(*name, "-"))
		return true;
	if (name->len == 0)
		amqp_fail(q->l, q->channel, q->method, AMQP_NOT_FOUND,
			  "no queue was declared on this channel before");
	else
		amqp_fail(
			q->l, q->channel, q->method, AMQP_PRECONDITION_FAILED,
			"the name of a queue has no white space, no control characters, "
			"and is not '-'");
	return false;
}

/* The reply is finished with an error: the owed answer is that no more. */
static void give_up(const struct amqp_request *q, struct reply *r)
{
	struct amqp_channel *ch = q->channel;

	ch->owed[(ch->owed_first + ch->owed_count - 1) & (ch->owed_cap - 1)].kind =
		AMQP_OWED_NOTHING;
	reply_ok(r);
}

/* ---- arguments --------------------------------------------------------------------- */

static bool refuse_argument(const struct amqp_request *q, struct slice name,
			    const char *why)
{
	amqp_fail(q->l, q->channel, q->method, AMQP_PRECONDITION_FAILED,
		  "invalid arg '%.*s': %s", SLICE_HEAD(name, 64), why);
	return false;
}

static struct slice value_of(const void *table, const char *name)
{
	struct amqp_field f;

	if (!amqp_field_find(*(const struct slice *)table, name, &f) || f.type != 'S')
		return NO_TEXT;
	return slice_skip(f.bytes, 4);
}

/* Add an argument. RabbitMQ has no such one: it is an option of ours, behind "x-". */
static bool read_argument(const struct amqp_request *q, enum rabbit_kind kind,
			  const struct amqp_field *f, struct args *out)
{
	char room[AMQP_TEXT_MAX];
	struct slice text;

	if (!amqp_field_text(f, room, &text))
		return refuse_argument(q, f->name, "its value is a table, or none");
	if (rabbit_argument(kind, f->name, text, out))
		return true;
	if (!slice_has_prefix(f->name, "x-"))
		return refuse_argument(q, f->name, "there is no such argument");
	if (f->type == 't')
		text = amqp_field_is_true(f) ? SLICE("1") : SLICE("0");
	if (args_add(out, slice_skip(f->name, 2), text) == TIDE_OK)
		return true;
	return refuse_argument(q, f->name, "it is given twice, or cannot be kept");
}

static bool read_arguments(const struct amqp_request *q, enum rabbit_kind kind,
			   struct slice table, struct args *out)
{
	struct slice rest = table;
	struct amqp_field f;

	while (amqp_field_next(&rest, &f))
		if (!read_argument(q, kind, &f, out))
			return false;
	if (kind == RABBIT_QUEUE)
		rabbit_queue_ends(value_of, &table, out);
	return true;
}

static void set_flag(struct args *out, const char *name, bool value)
{
	/* The name is new: no argument is it. */
	if (args_add(out, slice_from(name), value ? SLICE("1") : SLICE("0")) < 0)
		args_set(out, name, value ? "1" : "0");
}

/* What exists may have options that AMQP has no words for: they are as they are. */
static void add_unsayable(struct args *out, const struct args *there)
{
	for (size_t i = 0; i < there->count; i++) {
		const struct arg *a = &there->items[i];
		bool is_strict = strcmp(a->name, "priority") == 0 &&
				 strcmp(a->value, "strict") == 0;
		bool is_said = rabbit_has_option(slice_from(a->name)) &&
			       (is_strict || strcmp(a->name, "priority") != 0) &&
			       strcmp(a->name, "ack-timeout") != 0;

		if (!is_said && !args_get(out, a->name) &&
		    args_add(out, slice_from(a->name),
			     (struct slice){ a->value, a->value_len }) < 0)
			return; /* then it is another declaration */
	}
}

/* ---- exchanges --------------------------------------------------------------------- */

static bool is_exchange_name(const struct amqp_request *q, struct slice name)
{
	if (name.len == 0)
		amqp_fail(q->l, q->channel, q->method, AMQP_ACCESS_REFUSED,
			  "operation not permitted on the default exchange");
	else if (!slice_is_name(name) || slice_is(name, "-"))
		amqp_fail(q->l, q->channel, q->method, AMQP_PRECONDITION_FAILED,
			  "the name of an exchange has no white space, no control "
			  "characters, and is not '-'");
	else
		return true;
	return false;
}

static void check_exchange(const struct amqp_request *q, struct slice name)
{
	struct define_facts facts;
	struct error err;

	if (name.len > 0 && session_define_look(q->l->base.session, DEFINE_EXCHANGE, name,
						&facts, &err) < 0) {
		amqp_fail_with(q, &err);
		return;
	}
	if (name.len > 0)
		args_deinit(&facts.options);
	amqp_answer_ok(q, q->v[AMQP_EXCHANGE_DECLARE_NO_WAIT].n, NO_TEXT, 0);
}

static void make_exchange(const struct amqp_request *q, struct slice name,
			  const char *type, struct args *args)
{
	const struct amqp_value *v = q->v;
	struct session *s = q->l->base.session;
	const struct declare_spec spec = { .kind = DEFINE_EXCHANGE,
					   .name = name,
					   .type = slice_from(type),
					   .args = args };
	struct define_facts facts;
	struct reply *r;
	struct error err;
	bool is_there =
		session_define_look(s, DEFINE_EXCHANGE, name, &facts, &err) == TIDE_OK;

	set_flag(args, "durable", v[AMQP_EXCHANGE_DECLARE_DURABLE].n);
	set_flag(args, "auto-delete", v[AMQP_EXCHANGE_DECLARE_AUTO_DELETE].n);
	set_flag(args, "internal", v[AMQP_EXCHANGE_DECLARE_INTERNAL].n);
	if (is_there) {
		add_unsayable(args, &facts.options);
		args_deinit(&facts.options);
	} else if (is_reserved(name)) {
		amqp_fail(q->l, q->channel, q->method, AMQP_ACCESS_REFUSED,
			  "exchange name '%.*s' contains reserved prefix 'amq.*'",
			  SLICE_HEAD(name, 64));
		return;
	}
	r = amqp_answer(q, v[AMQP_EXCHANGE_DECLARE_NO_WAIT].n, NO_TEXT, 0);
	if (session_define_declare(s, &spec, r, &err) == TIDE_OK)
		return;
	give_up(q, r);
	amqp_fail_with(q, &err);
}

static void declare_exchange(const struct amqp_request *q)
{
	const struct amqp_value *v = q->v;
	struct slice name = v[AMQP_EXCHANGE_DECLARE_EXCHANGE].s,
		     type = v[AMQP_EXCHANGE_DECLARE_TYPE].s;
	struct slice arguments = v[AMQP_EXCHANGE_DECLARE_ARGUMENTS].s;
	struct args args = { 0 };
	char word[256], delayed[256];
	const char *ours;

	if (v[AMQP_EXCHANGE_DECLARE_PASSIVE].n) {
		check_exchange(q, name);
		return;
	}
	if (!is_exchange_name(q, name))
		return;
	snprintf(word, sizeof(word), "%.*s", SLICE_HEAD(type, 255));
	snprintf(delayed, sizeof(delayed), "%.*s",
		 SLICE_HEAD(value_of(&arguments, "x-delayed-type"), 255));
	ours = rabbit_exchange_type(word, delayed);
	if (strcmp(ours, RABBIT_DELAYED) == 0)
		refuse_argument(
			q, SLICE("x-delayed-type"),
			"expected the type that the exchange has apart from delays");
	else if (strncmp(ours, "x-", 2) == 0)
		amqp_fail(q->l, q->channel, q->method, AMQP_NOT_IMPLEMENTED,
			  "there is no exchange type '%s'", ours);
	else if (read_arguments(q, RABBIT_EXCHANGE, arguments, &args))
		make_exchange(q, name, ours, &args);
	args_deinit(&args);
}

/* What is not there is deleted already. */
static void delete_thing(const struct amqp_request *q, struct delete_spec *spec,
			 bool is_quiet)
{
	struct session *s = q->l->base.session;
	struct define_facts facts;
	struct reply *r;
	struct error err;
	int rc = session_define_look(s, spec->kind, spec->name, &facts, &err);

	if (rc == TIDE_ENOTFOUND) {
		amqp_answer_ok(q, is_quiet, NO_TEXT, 0);
		return;
	}
	if (rc == TIDE_OK)
		args_deinit(&facts.options);
	if (rc == TIDE_OK && facts.is_topic)
		spec->kind = DEFINE_TOPIC;
	r = amqp_answer(q, is_quiet, NO_TEXT, rc == TIDE_OK ? facts.ready : 0);
	if (rc == TIDE_OK)
		rc = session_define_delete(s, spec, r, &err);
	if (rc == TIDE_OK)
		return;
	give_up(q, r);
	if (spec->kind == DEFINE_EXCHANGE)
		amqp_fail_with(q, &err);
	else
		fail_queue(q, spec->name, &err);
}

static void delete_exchange(const struct amqp_request *q)
{
	struct delete_spec spec = { .kind = DEFINE_EXCHANGE,
				    .name = q->v[AMQP_EXCHANGE_DELETE_EXCHANGE].s,
				    .if_unused = q->v[AMQP_EXCHANGE_DELETE_IF_UNUSED].n };

	if (is_exchange_name(q, spec.name))
		delete_thing(q, &spec, q->v[AMQP_EXCHANGE_DELETE_NO_WAIT].n);
}

/* ---- bindings ---------------------------------------------------------------------- */

/* Which arguments does the exchange look at? Those of RabbitMQ but headers look at none.
 */
enum binding_arguments { BINDING_NONE, BINDING_HEADERS, BINDING_OPTIONS };

static enum binding_arguments arguments_of(struct session *s, struct slice exchange)
{
	static const char *const without[] = { "direct", "fanout", "topic", "random",
					       "consistent-hash" };
	enum binding_arguments which = BINDING_OPTIONS;
	struct define_facts facts;
	struct error ignored;

	if (session_define_look(s, DEFINE_EXCHANGE, exchange, &facts, &ignored) < 0)
		return BINDING_NONE;
	for (size_t i = 0; i < sizeof(without) / sizeof(without[0]); i++)
		if (strcmp(facts.type, without[i]) == 0)
			which = BINDING_NONE;
	if (strcmp(facts.type, "headers") == 0)
		which = BINDING_HEADERS;
	args_deinit(&facts.options);
	return which;
}

/* A condition without a value is that the header is there. */
static bool add_condition(const struct amqp_field *f, bool is_header, struct args *out)
{
	char room[AMQP_TEXT_MAX];
	struct slice text = SLICE("1");
	struct buf name = { 0 };
	int rc;

	if (f->type != 'V' && !amqp_field_text(f, room, &text))
		return false;
	if (is_header && !slice_is(f->name, "x-match"))
		buf_append_text(&name, f->type == 'V' ? "h?" : "h:");
	buf_append_slice(&name, f->name);
	rc = args_add(out, buf_slice(&name), text);
	buf_deinit(&name);
	return rc == TIDE_OK;
}

static bool read_conditions(const struct amqp_request *q, struct slice exchange,
			    struct slice table, struct args *out)
{
	enum binding_arguments which = arguments_of(q->l->base.session, exchange);
	struct amqp_field f;

	while (which != BINDING_NONE && amqp_field_next(&table, &f))
		if (!add_condition(&f, which == BINDING_HEADERS, out))
			return refuse_argument(q, f.name, "it cannot be kept");
	return true;
}

typedef int bind_fn(struct session *s, const struct bind_spec *spec, struct reply *r,
		    struct error *err);

/* A binding that is not there is taken away already. */
static void run_binding(const struct amqp_request *q, struct bind_spec *spec,
			struct slice table, bool is_quiet)
{
	bool is_unbind =
		q->method == AMQP_QUEUE_UNBIND || q->method == AMQP_EXCHANGE_UNBIND;
	bind_fn *fn = is_unbind ? session_define_unbind : session_define_bind;
	struct args args = { 0 };
	struct reply *r;
	struct error err;
	int rc;

	if (spec->pattern.len > 0 && !slice_is_name(spec->pattern)) {
		amqp_fail(q->l, q->channel, q->method, AMQP_PRECONDITION_FAILED,
			  "a routing key has no white space and no control characters");
		return;
	}
	if (read_conditions(q, spec->exchange, table, &args)) {
		spec->args = &args;
		r = amqp_answer(q, is_quiet, NO_TEXT, 0);
		rc = fn(q->l->base.session, spec, r, &err);
		if (rc == TIDE_ENOTFOUND && is_unbind)
			reply_ok(r);
		else if (rc < 0) {
			give_up(q, r);
			fail_queue(q, spec->dest, &err);
		}
	}
	args_deinit(&args);
}

static void bind_exchange(const struct amqp_request *q)
{
	const struct amqp_value *v = q->v;
	/* The fields of exchange.unbind have the same places. */
	struct bind_spec spec = { .to = BIND_TO_EXCHANGE,
				  .dest = v[AMQP_EXCHANGE_BIND_DESTINATION].s,
				  .exchange = v[AMQP_EXCHANGE_BIND_SOURCE].s,
				  .pattern = v[AMQP_EXCHANGE_BIND_ROUTING_KEY].s };

	if (is_exchange_name(q, spec.dest) && is_exchange_name(q, spec.exchange))
		run_binding(q, &spec, v[AMQP_EXCHANGE_BIND_ARGUMENTS].s,
			    v[AMQP_EXCHANGE_BIND_NO_WAIT].n);
}

static void bind_queue(const struct amqp_request *q)
{
	const struct amqp_value *v = q->v;
	bool is_unbind = q->method == AMQP_QUEUE_UNBIND;
	/* queue.unbind has no no-wait. */
	struct slice table =
		v[is_unbind ? AMQP_QUEUE_UNBIND_ARGUMENTS : AMQP_QUEUE_BIND_ARGUMENTS].s;
	struct bind_spec spec = { .exchange = v[AMQP_QUEUE_BIND_EXCHANGE].s,
				  .pattern = v[AMQP_QUEUE_BIND_ROUTING_KEY].s };

	if (!amqp_queue_name(q, AMQP_QUEUE_BIND_QUEUE, &spec.dest) ||
	    !is_exchange_name(q, spec.exchange))
		return;
	/* Without a name of a queue an empty key is that of the last queue. */
	if (v[AMQP_QUEUE_BIND_QUEUE].s.len == 0 && spec.pattern.len == 0)
		spec.pattern = spec.dest;
	run_binding(q, &spec, table, !is_unbind && v[AMQP_QUEUE_BIND_NO_WAIT].n);
}

void amqp_exchange_request(const struct amqp_request *q)
{
	if (q->method == AMQP_EXCHANGE_DECLARE)
		declare_exchange(q);
	else if (q->method == AMQP_EXCHANGE_DELETE)
		delete_exchange(q);
	else if (q->method == AMQP_EXCHANGE_BIND || q->method == AMQP_EXCHANGE_UNBIND)
		bind_exchange(q);
	else
		amqp_fail(q->l, NULL, q->method, AMQP_COMMAND_INVALID,
			  "%s is not expected here", amqp_codec_method(q->method)->name);
}

/* ---- queues ------------------------------------------------------------------------ */

static void check_queue(const struct amqp_request *q)
{
	struct define_facts facts;
	struct slice name;
	struct error err;

	if (!amqp_queue_name(q, AMQP_QUEUE_DECLARE_QUEUE, &name))
		return;
	if (session_define_look(q->l->base.session, DEFINE_QUEUE, name, &facts, &err) <
	    0) {
		amqp_fail_with(q, &err);
		return;
	}
	args_deinit(&facts.options);
	if (facts.is_locked)
		amqp_fail(q->l, q->channel, q->method, AMQP_RESOURCE_LOCKED,
			  "queue '%.*s' belongs to another connection",
			  SLICE_HEAD(name, 64));
	else
		amqp_answer_ok(q, q->v[AMQP_QUEUE_DECLARE_NO_WAIT].n, name, 0);
}

static void make_queue(const struct amqp_request *q, struct slice name, struct args *args)
{
	const struct amqp_value *v = q->v;
	struct session *s = q->l->base.session;
	struct declare_spec spec = { .kind = DEFINE_QUEUE,
				     .name = name.len ? name : SLICE("-"),
				     .prefix = "amq.gen-",
				     .args = args };
	struct define_facts facts;
	struct reply *r;
	struct error err;

	set_flag(args, "durable", v[AMQP_QUEUE_DECLARE_DURABLE].n);
	set_flag(args, "exclusive", v[AMQP_QUEUE_DECLARE_EXCLUSIVE].n);
	set_flag(args, "auto-delete", v[AMQP_QUEUE_DECLARE_AUTO_DELETE].n);
	if (name.len &&
	    session_define_look(s, DEFINE_QUEUE, name, &facts, &err) == TIDE_OK) {
		add_unsayable(args, &facts.options);
		args_deinit(&facts.options);
	} else if (is_reserved(name)) {
		amqp_fail(q->l, q->channel, q->method, AMQP_ACCESS_REFUSED,
			  "queue name '%.*s' contains reserved prefix 'amq.*'",
			  SLICE_HEAD(name, 64));
		return;
	}
	r = amqp_answer(q, v[AMQP_QUEUE_DECLARE_NO_WAIT].n, name, 0);
	if (session_define_declare(s, &spec, r, &err) == TIDE_OK)
		return;
	give_up(q, r);
	fail_queue(q, name, &err);
}

static void declare_queue(const struct amqp_request *q)
{
	struct slice name = q->v[AMQP_QUEUE_DECLARE_QUEUE].s,
		     table = q->v[AMQP_QUEUE_DECLARE_ARGUMENTS].s;
	struct slice type = value_of(&table, "x-queue-type");
	struct args args = { 0 };

	if (q->v[AMQP_QUEUE_DECLARE_PASSIVE].n) {
		check_queue(q);
		return;
	}
	if (name.len && !amqp_queue_name(q, AMQP_QUEUE_DECLARE_QUEUE, &name))
		return;
	if (slice_is(type, "stream"))
		amqp_fail(q->l, q->channel, q->method, AMQP_NOT_IMPLEMENTED,
			  "x-queue-type stream: declare a topic by another protocol");
	else if (type.data && !slice_is(type, "classic") && !slice_is(type, "quorum"))
		refuse_argument(q, SLICE("x-queue-type"), "classic or quorum");
	else if (read_arguments(q, RABBIT_QUEUE, table, &args))
		make_queue(q, name, &args);
	args_deinit(&args);
}

static void purge_queue(const struct amqp_request *q)
{
	struct purge_spec spec = { .partition = -1 };
	struct queue *queue;
	struct reply *r;
	struct error err;

	if (!amqp_queue_name(q, AMQP_QUEUE_PURGE_QUEUE, &spec.queue))
		return;
	if (session_queue_find(q->l->base.session, USER_READ, spec.queue, &queue, &err) <
	    0) {
		fail_queue(q, spec.queue, &err);
		return;
	}
	r = amqp_answer(q, q->v[AMQP_QUEUE_PURGE_NO_WAIT].n, NO_TEXT, 0);
	if (session_purge(queue, &spec, r, &err) == TIDE_OK)
		return;
	give_up(q, r);
	amqp_fail_with(q, &err);
}

static void delete_queue(const struct amqp_request *q)
{
	struct delete_spec spec = { .kind = DEFINE_QUEUE,
				    .if_unused = q->v[AMQP_QUEUE_DELETE_IF_UNUSED].n,
				    .if_empty = q->v[AMQP_QUEUE_DELETE_IF_EMPTY].n };

	if (amqp_queue_name(q, AMQP_QUEUE_DELETE_QUEUE, &spec.name))
		delete_thing(q, &spec, q->v[AMQP_QUEUE_DELETE_NO_WAIT].n);
}

void amqp_queue_request(const struct amqp_request *q)
{
	if (q->method == AMQP_QUEUE_DECLARE)
		declare_queue(q);
	else if (q->method == AMQP_QUEUE_DELETE)
		delete_queue(q);
	else if (q->method == AMQP_QUEUE_PURGE)
		purge_queue(q);
	else if (q->method == AMQP_QUEUE_BIND || q->method == AMQP_QUEUE_UNBIND)
		bind_queue(q);
	else
		amqp_fail(q->l, NULL, q->method, AMQP_COMMAND_INVALID,
			  "%s is not expected here", amqp_codec_method(q->method)->name);
}
