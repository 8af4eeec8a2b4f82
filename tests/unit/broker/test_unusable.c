#include "check.h"

#include "base/json.h"
#include "base/mem.h"
#include "broker/unusable.h"

/* A vhost with an exchange x that leads to the exchange y and to the queue q. */
struct model {
	struct broker broker;
	struct vhost vhost;
	struct exchange x, y;
	struct queue q;
	struct binding to_y, to_q;
};

static void add_exchange(struct model *m, struct exchange *x, char *name)
{
	x->definition.table = STORE_EXCHANGES;
	x->vhost = &m->vhost;
	x->name = name;
	x->name_len = strlen(name);
	TAILQ_INIT(&x->incoming);
	HASH_ADD_KEYPTR(hh, m->vhost.exchanges, x->name, x->name_len, x);
}

static struct model *model_create(void)
{
	static char slash[] = "/", x[] = "x", y[] = "y", q[] = "q";
	struct model *m = mem_zalloc(sizeof(*m));
	struct vhost *v = &m->vhost;
	struct queue *queue = &m->q;

	v->broker = &m->broker;
	v->name = slash;
	v->name_len = 1;
	HASH_ADD_KEYPTR(hh, m->broker.vhosts, v->name, v->name_len, v);
	add_exchange(m, &m->x, x);
	add_exchange(m, &m->y, y);
	queue->definition.table = STORE_QUEUES;
	queue->vhost = v;
	queue->name = q;
	queue->name_len = 1;
	TAILQ_INIT(&queue->incoming);
	HASH_ADD_KEYPTR(hh, v->queues, queue->name, queue->name_len, queue);
	m->to_y = (struct binding){ .source = &m->x, .exchange = &m->y };
	m->to_q = (struct binding){ .source = &m->x, .queue = queue };
	m->x.binding_count = 2;
	TAILQ_INSERT_TAIL(&m->y.incoming, &m->to_y, dest_link);
	TAILQ_INSERT_TAIL(&queue->incoming, &m->to_q, dest_link);
	return m;
}

static void model_destroy(struct model *m)
{
	unusable_clear(&m->x.definition);
	unusable_clear(&m->y.definition);
	unusable_clear(&m->q.definition);
	assert_int_equal(0, m->broker.unusable);
	HASH_CLEAR(hh, m->vhost.queues);
	HASH_CLEAR(hh, m->vhost.exchanges);
	HASH_CLEAR(hh, m->broker.vhosts);
	mem_free(m);
}

static const char *explain(int code, const char *text)
{
	static struct error why;
	struct error cause;

	error_set(&cause, code, "%s", text);
	assert_int_equal(code, unusable_explain(SCRIPT_RETRY, "o", &cause, &why));
	return why.text;
}

TEST_THAT(the_reason_names_the_script)
{
	assert_string_equal("uses retry/o.lua, which is missing",
			    explain(TIDE_ENOTFOUND, "there is no retry script 'o'"));
	assert_string_equal("uses retry/o.lua, which refuses its options: no option 'a'",
			    explain(TIDE_EMISMATCH, "no option 'a'"));
	assert_string_equal("uses retry/o.lua, which fails: retry/o.lua:3: oh",
			    explain(TIDE_ERULE, "retry/o.lua:3: oh"));
}

TEST_THAT(a_request_is_refused_with_the_reason)
{
	struct model *m = model_create();
	struct error err;

	unusable_set(&m->q.definition, "uses retry/o.lua, which is missing");
	assert_int_equal(TIDE_ERULE, unusable_check(&m->q.definition, &err));
	assert_string_equal(
		"queue 'q' cannot be used: it uses retry/o.lua, which is missing",
		err.text);
	unusable_set(&m->y.definition, "is odd");
	assert_int_equal(TIDE_ERULE, unusable_check(&m->y.definition, &err));
	assert_string_equal("exchange 'y' cannot be used: it is odd", err.text);
	model_destroy(m);
}

TEST_THAT(a_queue_that_is_being_read_is_asked_for_again)
{
	struct model *m = model_create();
	struct error err;

	unusable_set(&m->q.definition, "is being read");
	m->q.definition.is_recovering = true;
	assert_int_equal(TIDE_EBUSY, unusable_check(&m->q.definition, &err));
	model_destroy(m);
}

TEST_THAT(bindings_are_counted_once)
{
	struct model *m = model_create();
	struct unusable_count n;

	unusable_count(&m->broker, &n);
	assert_int_equal(0, n.exchanges + n.queues + n.bindings);
	assert_int_equal(TIDE_OK, n.first.code);
	unusable_set(&m->q.definition, "is odd");
	unusable_set(&m->q.definition, "is very odd");
	unusable_count(&m->broker, &n);
	assert_int_equal(1, m->broker.unusable);
	assert_int_equal(0, n.exchanges);
	assert_int_equal(1, n.queues);
	assert_int_equal(1, n.bindings);
	assert_string_equal("queue 'q' of vhost '/' is very odd", n.first.text);
	unusable_set(&m->y.definition, "is odd");
	unusable_count(&m->broker, &n);
	assert_int_equal(2, n.bindings);
	unusable_set(&m->x.definition, "is odd");
	unusable_count(&m->broker, &n);
	assert_int_equal(2, n.exchanges);
	assert_int_equal(2, n.bindings);
	model_destroy(m);
}

TEST_THAT(what_can_be_used_again_makes_routes_old)
{
	struct model *m = model_create();
	uint64_t version;

	unusable_set(&m->q.definition, "is odd");
	version = m->broker.route_version;
	unusable_clear(&m->q.definition);
	assert_true(m->broker.route_version > version);
	assert_null(m->q.definition.unusable);
	model_destroy(m);
}

TEST_THAT(both_ends_of_a_binding_are_looked_at)
{
	struct model *m = model_create();
	struct buf text = { 0 };
	struct json j;

	unusable_set(&m->q.definition, "is odd");
	j = (struct json){ .out = &text };
	json_object_begin(&j);
	unusable_write_binding(&m->to_y, &j);
	unusable_write_binding(&m->to_q, &j);
	json_object_end(&j);
	assert_string_equal("{\"unusable\":\"queue 'q' cannot be used: it is odd\"}",
			    buf_cstr(&text));
	buf_deinit(&text);
	model_destroy(m);
}

TEST_THAT(the_status_has_each_with_its_reason)
{
	struct model *m = model_create();
	struct buf text = { 0 };
	struct json j;

	unusable_set(&m->y.definition, "is odd");
	j = (struct json){ .out = &text };
	json_object_begin(&j);
	unusable_write(&m->broker, &j);
	json_object_end(&j);
	assert_string_equal("{\"unusable\":[{\"kind\":\"exchange\",\"vhost\":\"/\","
			    "\"name\":\"y\",\"reason\":\"is odd\"}]}",
			    buf_cstr(&text));
	buf_deinit(&text);
	model_destroy(m);
}

RUN_TESTS()
