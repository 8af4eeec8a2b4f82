#include "vhost_keep.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/waiter.h"
#include "queue.h"
#include "removal.h"
#include "vhost.h"

struct vhost_job {
	struct vhost *vhost; /* a reference */
	struct waiter *waiter;
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

int vhost_keep_declare(struct broker *b, struct slice name, struct waiter *waiter,
		       struct error *err)
{
	struct vhost_job *job;
	struct vhost *v;
	int rc = vhost_open(b, name, &v, err);

	if (rc < 0 || v->is_kept)
		return rc;
	v->is_kept = true;
	if (!b->env.store)
		return TIDE_OK;
	job = mem_zalloc(sizeof(*job));
	job->vhost = vhost_ref(v);
	job->waiter = waiter;
	waiter_add(waiter);
	store_definition_set(b->store, STORE_VHOSTS, SLICE(""), vhost_slice(v), SLICE(""),
			     on_stored, job);
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

int vhost_keep_delete(struct vhost *v, struct waiter *waiter, struct error *err)
{
	const struct removal_spec spec = { .table = STORE_VHOSTS,
					   .kind = "vhost",
					   .vhost = SLICE(""),
					   .name = vhost_slice(v),
					   .is_back = is_back };
	unsigned exchanges = vhost_count_exchanges(v);

	if (slice_is(vhost_slice(v), "/"))
		return error_set(err, TIDE_EDENIED,
				 "the default vhost '/' cannot be deleted");
	if (v->queues || exchanges || v->locks)
		return refuse_full(v, exchanges, err);
	v->is_kept = false;
	if (v->broker->env.store)
		removal_send(v->broker, &spec, waiter);
	vhost_check(v);
	return TIDE_OK;
}
