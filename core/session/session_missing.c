/* What a `not-found` says: the vhost, and another one that has what is missing. */
#include "session_private.h"

#include "base/mem.h"

#define NAMED_MAX 5 /* vhosts that an error names */
#define NAMED_BYTES 200

static bool may_use(struct subject *s, enum subject_kind kind, struct slice name)
{
	static const enum user_action actions[] = { USER_WRITE, USER_READ,
						    USER_CONFIGURE };
	struct error ignored;

	for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++)
		if (subject_ask(s, actions[i], kind, name, &ignored) == TIDE_OK)
			return true;
	return false;
}

/* Who may do nothing with the name there is not told that it is there. */
static bool may_know(const struct session *s, const struct vhost *v,
		     enum subject_kind kind, struct slice name)
{
	struct subject there;
	bool may;

	if (subject_is_free(&s->subject))
		return true;
	if (!s->subject.user || !session_access_may_enter(s, vhost_slice(v)))
		return false;
	if (s->subject.user->tags && !s->subject.user->is_deleted)
		return true;
	subject_copy(&there, &s->subject);
	subject_set_vhost(&there, vhost_slice(v));
	may = may_use(&there, kind, name);
	subject_deinit(&there);
	return may;
}

static bool has_thing(struct vhost *v, enum subject_kind kind, struct slice name)
{
	const struct queue *q;

	if (kind == SUBJECT_EXCHANGE)
		return exchange_find(v, name) != NULL;
	q = queue_find(v, name);
	return q && (kind == SUBJECT_QUEUE || q->topic);
}

int session_missing(const struct session *s, enum subject_kind kind, struct slice name,
		    struct error *err)
{
	static const char *const kinds[] = { [SUBJECT_EXCHANGE] = "exchange",
					     [SUBJECT_QUEUE] = "queue",
					     [SUBJECT_TOPIC] = "topic" };

	int rc = vhost_refuse(s->vhost, kinds[kind], name, err);

	for (struct vhost *v = s->broker->vhosts; v; v = v->hh.next)
		if (v != s->vhost && has_thing(v, kind, name) &&
		    may_know(s, v, kind, name))
			return error_set(err, rc, "%s; vhost '%s' has one", err->text,
					 v->name);
	return rc;
}

/* "'/', 'shop' and 3 more" */
static void name_vhosts(const struct session *s, struct buf *out)
{
	unsigned named = 0, others = 0;

	for (const struct vhost *v = s->broker->vhosts; v; v = v->hh.next) {
		if (!session_access_may_enter(s, vhost_slice(v)))
			continue;
		if (named == NAMED_MAX || buf_len(out) + v->name_len > NAMED_BYTES) {
			others++;
			continue;
		}
		buf_printf(out, "%s'%s'", named++ ? ", " : "", v->name);
	}
	if (others)
		buf_printf(out, " and %u more", others);
}

int session_missing_vhost(const struct session *s, struct slice name, struct error *err)
{
	struct buf names = { 0 };

	name_vhosts(s, &names);
	error_set(err, TIDE_ENOTFOUND,
		  "there is no vhost '%.*s', only %s; DECLARE vhost %.*s makes it",
		  SLICE_HEAD(name, 64), buf_len(&names) ? buf_cstr(&names) : "others",
		  SLICE_HEAD(name, 64));
	buf_deinit(&names);
	return err->code;
}
