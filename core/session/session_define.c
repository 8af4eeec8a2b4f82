/* The commands that change definitions: DECLARE, DELETE, BIND, UNBIND. A
 * durable definition is answered when Redis has it. */
#include <stdio.h>

#include "base/container.h"
#include "base/mem.h"
#include "host/log.h"
#include "session_private.h"
#include "broker/declare.h"
#include "broker/unusable.h"
#include "broker/vhost.h"

#define QUEUE_NAME_CHOSEN "gen-"

/* A new thing must find room; what is in Redis comes back at a start whatever the
 * limits are. */
static int check_room(size_t count, unsigned max, const char *what, struct error *err)
{
	if (count < max)
		return TIDE_OK;
	return error_set(err, TIDE_ELIMIT, "the limit of %zu %s is reached", count, what);
}

static int find_exchange(struct session *s, enum user_action action, struct slice name,
			 struct exchange **out, struct error *err)
{
	if (session_access_check(s, action, SUBJECT_EXCHANGE, name, err) < 0)
		return err->code;
	*out = exchange_find(s->vhost, name);
	if (*out)
		return TIDE_OK;
	return session_missing(s, SUBJECT_EXCHANGE, name, err);
}

/* Messages that go on from it by themselves: its user may read there and send here. */
static int check_access(struct session *s, const struct declare_spec *spec,
			struct slice name, struct error *err)
{
	static const enum subject_kind kinds[] = { [DEFINE_EXCHANGE] = SUBJECT_EXCHANGE,
						   [DEFINE_QUEUE] = SUBJECT_QUEUE,
						   [DEFINE_TOPIC] = SUBJECT_TOPIC };
	enum subject_kind kind = kinds[spec->kind];
	const char *target = args_get(
		spec->args, spec->kind == DEFINE_EXCHANGE ? "alternate" : "dead-letter");
	struct slice exchange = slice_from(target), key = SLICE("");
	int rc = session_access_check(s, USER_CONFIGURE, kind, name, err);

	/* A malformed value is refused later. */
	if (rc < 0 || !target ||
	    (spec->kind != DEFINE_EXCHANGE &&
	     !config_read_target(slice_from(target), &exchange, &key)))
		return rc;
	rc = session_access_check(s, USER_READ, kind, name, err);
	return rc < 0 ? rc : session_access_check_write(s, exchange, key, err);
}

/* Does what a queue's dead letters are for exist? It may be declared later. */
static int check_target(const struct queue *q, struct error *warning)
{
	const struct config *c =
		q->definition.next_terms ? &q->definition.next_terms->config : &q->config;
	const char *exchange = c->dead_exchange, *key = c->dead_key;

	if (!exchange || (exchange[0] && exchange_find(q->vhost, slice_from(exchange))) ||
	    (!exchange[0] && queue_find(q->vhost, slice_from(key))))
		return TIDE_OK;
	if (!exchange[0])
		return error_set(warning, TIDE_ENOTFOUND,
				 "dead-letter=-/%s: there is no queue '%s'; until it is "
				 "declared, dead messages are buried",
				 key, key);
	return error_set(warning, TIDE_ENOTFOUND,
			 "dead-letter=%s%s%s: there is no exchange '%s' (a queue is "
			 "written -/%s); until it is declared, dead messages are buried",
			 exchange, key ? "/" : "", key ? key : "", exchange, exchange);
}

static int check_alternate(const struct exchange *x, struct error *warning)
{
	const struct config *c =
		x->definition.next_terms ? &x->definition.next_terms->config : &x->config;
	const char *name = c->alternate;

	if (!name || exchange_find(x->vhost, slice_from(name)))
		return TIDE_OK;
	return error_set(warning, TIDE_ENOTFOUND,
			 "alternate=%s: there is no exchange '%s'; until it is declared, "
			 "what no queue takes is dropped",
			 name, name);
}

/* @param name     what the broker chose; empty: the client knows it
 * @param warning  it is done, but may not be what was meant; or NULL */
static void finish_declare(struct reply *r, struct slice name,
			   const struct error *warning)
{
	char text[NAME_LEN_MAX + ERROR_TEXT_MAX];

	snprintf(text, sizeof(text), "%" SLICE_FMT "%s%s%s", SLICE_ARG(name),
		 name.len && warning ? " " : "", warning ? "warning " : "",
		 warning ? warning->text : "");
	if (text[0])
		reply_text(r, text);
	else
		reply_ok(r);
}

/* A name that no queue has had: of the id of a message that will never be. */
static int choose_name(struct broker *b, const char *prefix, char name[NAME_LEN_MAX],
		       struct error *err)
{
	uint64_t id = broker_next_id(b);

	if (!id)
		return id_lease_check(b, err);
	strcpy(name, prefix);
	id_format(id, name + strlen(prefix));
	name[strlen(prefix) + ID_HEX_LEN] = '\0';
	return TIDE_OK;
}

/* A queue or a topic.
 *
 * @param is_its_turn  it has waited for others; so of exchanges */
static int make_queue(struct session *s, const struct declare_spec *spec,
		      bool is_its_turn, struct reply *r, struct error *err)
{
	struct broker *b = s->broker;
	bool is_named = !slice_is(spec->name, "-");
	struct terms_spec what = { .kind = spec->kind == DEFINE_TOPIC ? CONFIG_TOPIC
								      : CONFIG_QUEUE,
				   .name = spec->name,
				   .args = spec->args,
				   .user = slice_from(s->user ? s->user : ""),
				   .owner = &s->exclusive,
				   .is_its_turn = is_its_turn };
	char chosen[NAME_LEN_MAX];
	struct definition *made;
	struct queue *q;
	int rc;

	do {
		if (!is_named &&
		    choose_name(b, spec->prefix ? spec->prefix : QUEUE_NAME_CHOSEN,
				chosen, err) < 0)
			return err->code;
		if (!is_named)
			what.name = slice_from(chosen);
		q = queue_find(s->vhost, what.name);
	} while (q && !is_named);
	if (check_access(s, spec, what.name, err) < 0)
		return err->code;
	if (q && q->owner && q->owner != &s->exclusive)
		return error_set(err, TIDE_EDENIED,
				 "queue '%s' belongs to another connection", q->name);
	rc = q ? TIDE_OK : declare_check_room(b, err);
	if (rc == TIDE_OK)
		rc = declare_one(s->vhost, &what, &made, &r->waiter, err);
	if (rc < 0)
		return rc;
	q = container_of(made, struct queue, definition);
	definition_send(&q->definition, &r->waiter);
	finish_declare(r, is_named ? SLICE("") : queue_slice(q),
		       check_target(q, err) < 0 ? err : NULL);
	return TIDE_OK;
}

static int make_exchange(struct session *s, const struct declare_spec *spec,
			 bool is_its_turn, struct reply *r, struct error *err)
{
	const struct broker *b = s->broker;
	const struct terms_spec what = {
		.kind = CONFIG_EXCHANGE,
		.name = spec->name,
		.type = spec->type,
		.args = spec->args,
		.user = slice_from(s->user ? s->user : ""),
		.is_its_turn = is_its_turn,
	};
	struct definition *made;
	int rc = check_access(s, spec, spec->name, err);

	if (rc == TIDE_OK && !exchange_find(s->vhost, spec->name))
		rc = check_room(b->exchange_count, b->config.exchanges_max, "exchanges",
				err);
	if (rc == TIDE_OK)
		rc = declare_one(s->vhost, &what, &made, &r->waiter, err);
	if (rc < 0)
		return rc;
	definition_send(made, &r->waiter);
	rc = check_alternate(container_of(made, struct exchange, definition), err);
	finish_declare(r, SLICE(""), rc < 0 ? err : NULL);
	return TIDE_OK;
}

/* May its user do anything with the name? The error is that of the last right. */
static int check_any_right(struct session *s, enum define_kind kind, struct slice name,
			   struct error *err)
{
	static const enum user_action actions[] = { USER_WRITE, USER_READ,
						    USER_CONFIGURE };
	int rc = TIDE_EDENIED;

	for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]) && rc < 0; i++)
		rc = kind == DEFINE_EXCHANGE
			     ? session_access_check(s, actions[i], SUBJECT_EXCHANGE, name,
						    err)
			     : session_access_check_queue(s, actions[i], name, err);
	return rc;
}

bool session_define_exists(struct session *s, struct slice name)
{
	struct error ignored;

	return check_any_right(s, DEFINE_QUEUE, name, &ignored) == TIDE_OK &&
	       queue_find(s->vhost, name) != NULL;
}

static int look_at_exchange(struct session *s, struct slice name,
			    struct define_facts *out, struct error *err)
{
	struct exchange *x = exchange_find(s->vhost, name);

	if (!x)
		return session_missing(s, SUBJECT_EXCHANGE, name, err);
	out->type = x->type;
	config_options(terms_own(&x->terms), &out->options);
	return TIDE_OK;
}

int session_define_look(struct session *s, enum define_kind kind, struct slice name,
			struct define_facts *out, struct error *err)
{
	struct queue *q;
	int rc = check_any_right(s, kind, name, err);

	*out = (struct define_facts){ .is_topic = false };
	if (rc < 0)
		return rc;
	if (kind == DEFINE_EXCHANGE)
		return look_at_exchange(s, name, out, err);
	q = queue_find(s->vhost, name);
	if (!q)
		return session_missing(s, SUBJECT_QUEUE, name, err);
	out->is_topic = q->topic != NULL;
	out->is_locked = q->owner && q->owner != &s->exclusive;
	out->has_lease = config_is_given(&q->config, "ack-timeout");
	out->ready = q->topic ? 0 : queue_count(q, ENTRY_READY);
	out->consumers = q->consumer_count;
	config_options(terms_own(&q->terms), &out->options);
	return TIDE_OK;
}

static int declare(struct session *s, const struct declare_spec *spec, bool is_its_turn,
		   struct reply *r, struct error *err)
{
	if (s->broker->is_draining)
		return error_set(err, TIDE_ESHUTDOWN, "the broker is stopping");
	if (spec->kind == DEFINE_EXCHANGE && slice_is(spec->name, "-"))
		return error_set(
			err, TIDE_ESYNTAX,
			"'-' stands for the default exchange and cannot be declared");
	if (spec->kind == DEFINE_TOPIC && slice_is(spec->name, "-"))
		return error_set(err, TIDE_ESYNTAX,
				 "a topic needs a name: the broker chooses those of "
				 "queues alone");
	return spec->kind == DEFINE_EXCHANGE ? make_exchange(s, spec, is_its_turn, r, err)
					     : make_queue(s, spec, is_its_turn, r, err);
}

/* One that waits for those before it. */

struct waiting_declare {
	struct definition_wait wait;
	struct declare_spec spec; /* of what is here: */
	struct args args;
	char *name, *type;
	struct reply *reply;
};

static void free_waiting(struct waiting_declare *w)
{
	args_deinit(&w->args);
	mem_free(w->name);
	mem_free(w->type);
	mem_free(w);
}

static void on_turn(struct definition_wait *wait, struct definition *d)
{
	struct waiting_declare *w = container_of(wait, struct waiting_declare, wait);
	struct reply *r = w->reply;
	struct error err = { .code = TIDE_OK };

	if (!r->channel)
		error_set(&err, TIDE_ESHUTDOWN, "the connection has ended");
	else if (!d)
		error_set(&err, TIDE_ENOTFOUND, "'%s' was deleted before it could change",
			  w->name);
	else
		err.code = declare(r->channel->session, &w->spec, true, r, &err);
	if (err.code < 0)
		reply_error(r, &err);
	free_waiting(w);
}

static struct definition *find_definition(const struct session *s,
					  const struct declare_spec *spec)
{
	struct exchange *x;
	struct queue *q;

	if (spec->kind == DEFINE_EXCHANGE) {
		x = exchange_find(s->vhost, spec->name);
		return x ? &x->definition : NULL;
	}
	q = queue_find(s->vhost, spec->name);
	return q ? &q->definition : NULL;
}

static int wait_turn(struct session *s, const struct declare_spec *spec, struct reply *r,
		     struct error *err)
{
	struct waiting_declare *w = mem_zalloc(sizeof(*w));
	struct definition *d = find_definition(s, spec);

	w->wait.run = on_turn;
	w->reply = r;
	args_copy(&w->args, spec->args);
	w->name = mem_strndup(spec->name.data, spec->name.len);
	w->type = mem_strndup(spec->type.data, spec->type.len);
	w->spec = (struct declare_spec){ .kind = spec->kind,
					 .name = slice_from(w->name),
					 .type = slice_from(w->type),
					 .args = &w->args };
	if (d && definition_wait(d, &w->wait))
		return TIDE_OK;
	free_waiting(w);
	return err->code;
}

/* In which cell it is to be. Only the owner of the cell where it would be gives it away.
 */
static int place_vhost(struct session *s, const struct declare_spec *spec,
		       struct reply *r, struct error *err)
{
	bool is_inside = slice_is_equal(vhost_slice(s->vhost), spec->name);

	if (spec->cell != store_cell(s->broker->store) && spec->on_demand >= 0)
		return error_set(err, TIDE_ESYNTAX,
				 "'on-demand' is for the owner of cell %lld: declare the "
				 "vhost again, there",
				 (long long)spec->cell);
	if (vhost_place(s->broker, spec->name, spec->cell, is_inside, &r->waiter, err) <
	    0)
		return err->code;
	s->is_visitor |= is_inside && spec->cell != store_cell(s->broker->store);
	return TIDE_OK;
}

static int declare_vhost(struct session *s, const struct declare_spec *spec,
			 struct reply *r, struct error *err)
{
	int rc = session_check_cell(s, spec->name, err);

	if (s->broker->is_draining)
		return error_set(err, TIDE_ESHUTDOWN, "the broker is stopping");
	if (rc == TIDE_OK && spec->cell >= 0)
		rc = place_vhost(s, spec, r, err);
	if (rc == TIDE_OK && store_has_vhost(s->broker->store, spec->name))
		rc = vhost_keep_declare(s->broker, spec->name, (int)spec->on_demand,
					&r->waiter, err);
	if (rc == TIDE_OK)
		reply_ok(r);
	return rc;
}

static int delete_vhost(struct session *s, const struct delete_spec *spec,
			struct reply *r, struct error *err)
{
	struct vhost *v = vhost_find(s->broker, spec->name);

	if (session_check_cell(s, spec->name, err) < 0)
		return err->code;
	return v && !v->is_deleted
		       ? vhost_keep_delete(v, spec->with_contents, &r->waiter, err)
		       : session_missing_vhost(s, spec->name, err);
}

int session_define_declare(struct session *s, const struct declare_spec *spec,
			   struct reply *r, struct error *err)
{
	struct args more = { 0 };
	struct declare_spec updating = *spec;
	int rc;

	if (spec->kind == DEFINE_VHOST)
		return declare_vhost(s, spec, r, err);
	if (r->is_quiet && spec->kind == DEFINE_QUEUE && slice_is(spec->name, "-"))
		return error_set(err, TIDE_ESYNTAX,
				 "DECLARE queue - is answered with the name: it takes no "
				 "'quiet'");
	if (spec->update) {
		updating.update = false;
		updating.args = &more;
		args_copy(&more, spec->args);
		rc = args_add(&more, SLICE("update"), SLICE("1"));
		rc = rc < 0 ? error_set(err, rc,
					"'update' belongs beside 'options', once")
			    : session_define_declare(s, &updating, r, err);
		args_deinit(&more);
		return rc;
	}
	rc = declare(s, spec, false, r, err);
	return rc == TIDE_EBUSY ? wait_turn(s, spec, r, err) : rc;
}

static int delete_queue(struct session *s, const struct delete_spec *spec,
			struct reply *r, struct error *err)
{
	struct queue *q;
	int rc =
		spec->kind == DEFINE_TOPIC
			? session_queue_find_topic(s, USER_CONFIGURE, spec->name, &q, err)
			: session_queue_find(s, USER_CONFIGURE, spec->name, &q, err);

	if (rc < 0)
		return rc;
	/* The messages have not been counted. */
	if (spec->if_empty && unusable_check(&q->definition, err) < 0)
		return err->code;
	if (spec->if_unused && q->consumer_count)
		return error_set(
			err, TIDE_EEXISTS, "%s '%s' is in use: it has %u consumers",
			definition_kind(q->definition.table), q->name, q->consumer_count);
	for (int state = ENTRY_READY; spec->if_empty && state <= ENTRY_UNACKED; state++)
		if (queue_count(q, (enum entry_state)state))
			return error_set(err, TIDE_EEXISTS, "queue '%s' is not empty",
					 q->name);
	queue_erase(q, &r->waiter);
	queue_destroy(q);
	return TIDE_OK;
}

static int delete_exchange(struct session *s, const struct delete_spec *spec,
			   struct reply *r, struct error *err)
{
	struct exchange *x;

	if (find_exchange(s, USER_CONFIGURE, spec->name, &x, err) < 0)
		return err->code;
	if (exchange_is_predeclared(x))
		return error_set(err, TIDE_EDENIED,
				 "exchange '%s' is there in each vhost and cannot be "
				 "deleted; UNBIND takes its bindings away",
				 x->name);
	if (spec->if_unused && x->binding_count)
		return error_set(err, TIDE_EEXISTS,
				 "exchange '%s' is in use: it has %u binding%s", x->name,
				 x->binding_count, x->binding_count == 1 ? "" : "s");
	exchange_erase(x, &r->waiter);
	exchange_destroy(x);
	return TIDE_OK;
}

int session_define_delete(struct session *s, const struct delete_spec *spec,
			  struct reply *r, struct error *err)
{
	int rc;

	if (spec->kind == DEFINE_VHOST)
		rc = delete_vhost(s, spec, r, err);
	else
		rc = spec->kind == DEFINE_EXCHANGE ? delete_exchange(s, spec, r, err)
						   : delete_queue(s, spec, r, err);
	if (rc == TIDE_OK)
		reply_ok(r);
	return rc;
}

static int resolve(struct session *s, const struct bind_spec *spec,
		   struct binding_spec *out, struct error *err)
{
	*out = (struct binding_spec){ .pattern = spec->pattern, .args = spec->args };
	if (spec->exchange.len == 0 || slice_is(spec->exchange, "-"))
		return error_set(
			err, TIDE_EDENIED,
			"the default exchange routes to the queue that the key names and "
			"takes no bindings");
	if (find_exchange(s, USER_READ, spec->exchange, &out->source, err) < 0)
		return err->code;
	return spec->to == BIND_TO_EXCHANGE
		       ? find_exchange(s, USER_WRITE, spec->dest, &out->exchange, err)
		       : session_queue_any(s, USER_WRITE, spec->dest, &out->queue, err);
}

static int check_usable(const struct binding_spec *spec, struct error *err)
{
	int rc = unusable_check(&spec->source->definition, err);

	if (rc == TIDE_OK)
		rc = unusable_check(spec->queue ? &spec->queue->definition
						: &spec->exchange->definition,
				    err);
	return rc;
}

int session_define_bind(struct session *s, const struct bind_spec *spec, struct reply *r,
			struct error *err)
{
	struct binding_spec binding;
	struct binding *b;

	if (resolve(s, spec, &binding, err) < 0 || check_usable(&binding, err) < 0)
		return err->code;
	b = binding_find(&binding);
	if (!b && (check_room(s->broker->binding_count, s->broker->config.bindings_max,
			      "bindings", err) < 0 ||
		   binding_create(&binding, &b, err) < 0))
		return err->code;
	definition_send(&b->definition, &r->waiter);
	reply_ok(r);
	return TIDE_OK;
}

int session_define_unbind(struct session *s, const struct bind_spec *spec,
			  struct reply *r, struct error *err)
{
	struct binding_spec binding;
	struct binding *b;
	struct exchange *source;

	if (resolve(s, spec, &binding, err) < 0)
		return err->code;
	b = binding_find(&binding);
	if (!b)
		return error_set(err, TIDE_ENOTFOUND, "there is no such binding");
	definition_remove(&b->definition, &r->waiter);
	source = b->source;
	binding_destroy(b);
	/* A script may have refused that one. */
	unusable_retry(&source->definition, NULL);
	exchange_collect(source, &r->waiter);
	reply_ok(r);
	return TIDE_OK;
}
