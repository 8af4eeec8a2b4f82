#include "vhost.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/waiter.h"
#include "exchange.h"
#include "host/log.h"
#include "queue.h"
#include "definition.h"

/* "/" or 1–255 bytes of a name without '/' and ':', which separate the parts
 * of Redis's keys. A new one has no braces: has_brace. */
static bool name_is_valid(struct slice name)
{
	if (slice_is(name, "/"))
		return true;
	return slice_is_name(name) && !memchr(name.data, '/', name.len) &&
	       !memchr(name.data, ':', name.len);
}

struct vhost *vhost_find(struct broker *b, struct slice name)
{
	struct vhost *v;

	HASH_FIND(hh, b->vhosts, name.data, name.len, v);
	return v;
}

int vhost_check_name(struct slice name, struct error *err)
{
	if (name_is_valid(name))
		return TIDE_OK;
	return error_set(err, TIDE_ESYNTAX,
			 "'%" SLICE_FMT "' is not a vhost: expected / or a name of 1-255 "
			 "bytes without white space, '/' and ':'",
			 SLICE_ARG(name));
}

static struct vhost *create(struct broker *b, struct slice name)
{
	struct vhost *v = mem_zalloc(sizeof(*v));

	v->broker = b;
	v->name = mem_strndup(name.data, name.len);
	v->name_len = name.len;
	v->refs = 1;
	v->is_kept = slice_is(name, "/") || store_is_placed(b->store, name);
	HASH_ADD_KEYPTR(hh, b->vhosts, v->name, v->name_len, v);
	EVENT_TELL(b, EVENT_VHOST_DECLARED, vhost_slice(v));
	return v;
}

/* Redis Cluster would see another hash tag than the broker in the keys of its shards. */
static bool has_brace(struct slice name)
{
	return memchr(name.data, '{', name.len) || memchr(name.data, '}', name.len);
}

void vhost_warn_name(struct slice name)
{
	if (name.len > 0 && memchr(name.data, '}', name.len))
		log_warn("vhost '%" SLICE_FMT
			 "' has a '}' in its name, which a Redis Cluster cannot keep: it "
			 "works on this store; before you move to a cluster, move its "
			 "messages to a vhost of another name and delete it",
			 SLICE_ARG(name));
}

int vhost_open(struct broker *b, struct slice name, struct vhost **out, struct error *err)
{
	if (!vhost_find(b, name) && name_is_valid(name) && has_brace(name))
		return error_set(err, TIDE_ESYNTAX,
				 "'%" SLICE_FMT
				 "' cannot be a new vhost: its name may not have '{' or "
				 "'}', which stand for the slot of a Redis Cluster",
				 SLICE_ARG(name));
	if (!vhost_find(b, name) && HASH_COUNT(b->vhosts) >= b->config.vhosts_max &&
	    name_is_valid(name))
		return error_set(err, TIDE_ELIMIT, "the limit of %u vhosts is reached",
				 HASH_COUNT(b->vhosts));
	if (vhost_recover(b, name, out, err) < 0)
		return err->code;
	if ((*out)->is_deleted)
		EVENT_TELL(b, EVENT_VHOST_DECLARED, name);
	(*out)->is_deleted = false;
	return TIDE_OK;
}

int vhost_recover(struct broker *b, struct slice name, struct vhost **out,
		  struct error *err)
{
	int rc;

	*out = vhost_find(b, name);
	if (*out)
		return TIDE_OK;
	rc = vhost_check_name(name, err);
	if (rc == TIDE_OK)
		*out = create(b, name);
	return rc;
}

int vhost_refuse(const struct vhost *v, const char *kind, struct slice name,
		 struct error *err)
{
	return error_set(err, TIDE_ENOTFOUND,
			 "there is no %s '%" SLICE_FMT "' in vhost '%s'", kind,
			 SLICE_ARG(name), v->name);
}

void vhost_unref(struct vhost *v)
{
	if (!v || --v->refs > 0)
		return;
	unroutable_deinit(&v->unroutable);
	mem_free(v->name);
	mem_free(v);
}

/* Predeclared exchanges count if something is bound to them. */
static unsigned count_exchanges(const struct vhost *v)
{
	unsigned count = 0;

	for (const struct exchange *x = v->exchanges; x; x = x->hh.next)
		count += !exchange_is_predeclared(x) || x->binding_count ||
			 !TAILQ_EMPTY(&x->incoming);
	return count;
}

static bool is_needed(const struct vhost *v)
{
	return v->is_kept || v->sessions || v->queues || v->locks || count_exchanges(v);
}

void vhost_enter(struct vhost *v)
{
	v->sessions++;
}

void vhost_leave(struct vhost *v)
{
	v->sessions--;
	vhost_check(v);
}

void vhost_check(struct vhost *v)
{
	if (v->is_idle || is_needed(v))
		return;
	v->is_idle = true;
	TAILQ_INSERT_TAIL(&v->broker->idle_vhosts, v, idle_link);
}

static void be_busy(struct vhost *v)
{
	if (v->is_idle)
		TAILQ_REMOVE(&v->broker->idle_vhosts, v, idle_link);
	v->is_idle = false;
}

void vhost_turn(struct broker *b)
{
	struct exchange *x;
	struct vhost *v;

	while ((v = TAILQ_FIRST(&b->idle_vhosts)) != NULL) {
		be_busy(v);
		if (is_needed(v))
			continue;
		/* It may have been placed in another cell. */
		for (x = v->exchanges; x && store_has_vhost(b->store, vhost_slice(v));
		     x = x->hh.next)
			exchange_erase(x, NULL);
		/* Whatever is defined in it from now on defines it anew before. */
		if (b->env.store && store_has_vhost(b->store, vhost_slice(v)))
			store_definition_remove(b->store, STORE_VHOSTS, SLICE(""),
						vhost_slice(v), NULL, NULL);
		vhost_destroy(v);
	}
}

void vhost_destroy(struct vhost *v)
{
	struct queue *q, *next_queue;

	HASH_ITER (hh, v->queues, q, next_queue)
		queue_destroy(q);
	while (v->exchanges)
		exchange_destroy(v->exchanges);
	be_busy(v);
	if (!v->is_deleted)
		EVENT_TELL(v->broker, EVENT_VHOST_DELETED, vhost_slice(v));
	HASH_DEL(v->broker->vhosts, v);
	vhost_unref(v);
}

void vhost_format_user(const struct vhost *v, const char *kind, struct slice name,
		       char out[VHOST_USER_MAX])
{
	bool is_default = slice_is(vhost_slice(v), "/");

	snprintf(out, VHOST_USER_MAX, "%s '%" SLICE_FMT "'%s%s%s", kind, SLICE_ARG(name),
		 is_default ? "" : " of vhost '", is_default ? "" : v->name,
		 is_default ? "" : "'");
}

/* Vhosts that are declared and deleted by a client.
 *
 * A vhost that Redis knows stays, empty too, until it is deleted here. */

struct vhost_job {
	struct vhost *vhost; /* a reference */
	struct waiter *waiter;
	bool was_on_demand;
};

static void on_stored(void *ctx, int status, const char *text)
{
	struct vhost_job *job = ctx;
	struct vhost *v = job->vhost;

	if (status < 0 && status != TIDE_ESHUTDOWN &&
	    vhost_find(v->broker, vhost_slice(v)) == v) {
		v->is_kept = false;
		vhost_check(v);
	}
	waiter_done(job->waiter, status, text);
	vhost_unref(v);
	mem_free(job);
}

void vhost_write_options(const struct vhost *v, store_done_fn on_done, void *ctx)
{
	struct store *s = v->broker->store;

	if (v->is_on_demand)
		store_definition_set(s, STORE_VHOST_OPTIONS, SLICE(""), vhost_slice(v),
				     SLICE(VHOST_ON_DEMAND), on_done, ctx);
	else
		store_definition_remove(s, STORE_VHOST_OPTIONS, SLICE(""), vhost_slice(v),
					on_done, ctx);
}

static struct vhost_job *begin_job(struct vhost *v, struct waiter *waiter)
{
	struct vhost_job *job = mem_zalloc(sizeof(*job));

	job->vhost = vhost_ref(v);
	job->waiter = waiter;
	waiter_add(waiter);
	return job;
}

static void on_options_stored(void *ctx, int status, const char *text)
{
	struct vhost_job *job = ctx;

	/* Redis has the others; the next change decides. */
	if (status < 0 && status != TIDE_ESHUTDOWN)
		job->vhost->is_on_demand = job->was_on_demand;
	waiter_done(job->waiter, status, text);
	vhost_unref(job->vhost);
	mem_free(job);
}

static void set_on_demand(struct vhost *v, bool on_demand, struct waiter *waiter)
{
	struct vhost_job *job;

	if (v->is_on_demand == on_demand)
		return;
	v->is_on_demand = on_demand;
	if (!v->broker->env.store)
		return;
	job = begin_job(v, waiter);
	job->was_on_demand = !on_demand;
	vhost_write_options(v, on_options_stored, job);
}

int vhost_keep_declare(struct broker *b, struct slice name, int on_demand,
		       struct waiter *waiter, struct error *err)
{
	struct vhost *v;
	int rc = vhost_open(b, name, &v, err);

	if (rc < 0)
		return rc;
	if (!v->is_kept && b->env.store)
		store_definition_set(b->store, STORE_VHOSTS, SLICE(""), vhost_slice(v),
				     SLICE(""), on_stored, begin_job(v, waiter));
	v->is_kept = true;
	if (on_demand >= 0)
		set_on_demand(v, on_demand, waiter);
	return TIDE_OK;
}

static int check_cell(const struct broker *b, int64_t cell, struct error *err)
{
	unsigned cells = store_cells(b->store);

	if (cells == 1)
		return error_set(err, TIDE_ENOTFOUND,
				 "this store is not split into cells (serve --cells)");
	if (cell < cells)
		return TIDE_OK;
	return error_set(err, TIDE_ENOTFOUND,
			 "there is no cell %lld: they are numbered from 0 to %u",
			 (long long)cell, cells - 1);
}

int vhost_place(struct broker *b, struct slice name, int64_t cell, unsigned own_sessions,
		struct waiter *waiter, struct error *err)
{
	int rc = check_cell(b, cell, err);
	struct vhost *v;
	bool is_there;

	/* The limit and the name are checked here, where the vhost is for now. */
	if (rc == TIDE_OK)
		rc = vhost_open(b, name, &v, err);
	if (rc < 0)
		return rc;
	vhost_check(v);
	is_there = v->is_kept || v->queues || v->locks || count_exchanges(v);
	if (cell != store_cell(b->store) && is_there)
		return error_set(err, TIDE_EEXISTS,
				 "vhost '%s' is in cell %u, and stays there: move its "
				 "messages to a vhost of another name",
				 v->name, store_cell(b->store));
	if (cell != store_cell(b->store) && v->sessions > own_sessions)
		return error_set(err, TIDE_EEXISTS,
				 "vhost '%s' cannot be placed while clients are in it",
				 v->name);
	store_vhost_place(b->store, name, (unsigned)cell, waiter_store_done, waiter);
	waiter_add(waiter);
	return TIDE_OK;
}

static bool is_back(struct broker *b, const struct removal_spec *spec)
{
	const struct vhost *v = vhost_find(b, spec->name);

	return v && v->is_kept;
}

static int refuse_full(const struct vhost *v, unsigned exchanges, struct error *err)
{
	struct buf text = { 0 };

	buf_append_count(&text, exchanges, "exchange");
	buf_append_text(&text, ", ");
	buf_append_count(&text, HASH_COUNT(v->queues) - v->topic_count, "queue");
	buf_append_text(&text, ", ");
	buf_append_count(&text, v->topic_count, "topic");
	error_set(err, TIDE_EEXISTS, "vhost '%s' is not empty: it has %s%s", v->name,
		  buf_cstr(&text), v->locks ? ", and locks that are held" : "");
	buf_deinit(&text);
	return err->code;
}

static void empty(struct vhost *v, struct waiter *waiter)
{
	struct exchange *x;
	struct queue *q;

	while ((q = v->queues) != NULL) {
		queue_erase(q, waiter);
		queue_destroy(q);
	}
	while ((x = v->exchanges) != NULL) {
		exchange_erase(x, waiter);
		exchange_destroy(x);
	}
}

int vhost_keep_delete(struct vhost *v, bool with_contents, struct waiter *waiter,
		      struct error *err)
{
	const struct removal_spec spec = { .table = STORE_VHOSTS,
					   .kind = "vhost",
					   .vhost = SLICE(""),
					   .name = vhost_slice(v),
					   .is_back = is_back };
	unsigned exchanges = count_exchanges(v);

	if (slice_is(vhost_slice(v), "/"))
		return error_set(err, TIDE_EDENIED,
				 "the default vhost '/' cannot be deleted");
	if (v->locks || (!with_contents && (v->queues || exchanges)))
		return refuse_full(v, exchanges, err);
	if (with_contents)
		empty(v, waiter);
	v->is_kept = false;
	set_on_demand(v, false, waiter);
	if (v->broker->env.store)
		removal_send(v->broker, &spec, waiter);
	v->is_deleted = true;
	EVENT_TELL(v->broker, EVENT_VHOST_DELETED, vhost_slice(v));
	/* What sessions remember of exchanges is void. */
	v->broker->route_version++;
	vhost_check(v);
	return TIDE_OK;
}
