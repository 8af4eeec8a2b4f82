#include "harness.h"

struct outcome {
	unsigned calls;
	int status;
	char text[256];
};

static void on_done(void *ctx, int status, const char *text)
{
	struct outcome *o = ctx;
	o->calls++;
	o->status = status;
	snprintf(o->text, sizeof(o->text), "%s", text ? text : "");
}

static void set_one(struct harness *h, const char *document, const char *name,
		    const char *value)
{
	struct outcome o = { 0 };
	struct store_field change = { slice_from(name), slice_from(value) };
	store_document_change(h->store, document, &change, 1, on_done, &o);
	WAIT(h, o.calls == 1);
	assert_int_equal(o.status, TIDE_OK);
}

struct reading {
	unsigned calls;
	int status;
	char fields[512];
};

static void on_fields(void *ctx, int status, const char *text,
		      const struct store_field *fields, size_t count)
{
	struct reading *r = ctx;
	r->calls++;
	r->status = status;
	for (size_t i = 0; i < count; i++) {
		size_t len = strlen(r->fields);
		snprintf(r->fields + len, sizeof(r->fields) - len, "%.*s=%.*s;",
			 SLICE_ARG(fields[i].name), SLICE_ARG(fields[i].value));
	}
}

static void assert_document(struct harness *h, const char *document, const char *expected)
{
	struct reading r = { 0 };
	store_document_read(h->store, document, on_fields, &r);
	WAIT(h, r.calls == 1);
	assert_int_equal(r.status, TIDE_OK);
	assert_string_equal(r.fields, expected);
}

STORE_TEST(what_is_set_is_read_and_what_is_removed_is_not)
{
	struct outcome o = { 0 };
	assert_document(h, "rules:shared", "");
	set_one(h, "rules:shared", "a", "1");
	set_one(h, "rules:shared", "b", "");
	set_one(h, "rules:schedule", "a", "x");
	assert_document(h, "rules:shared", "a=1;b=;");
	struct store_field changes[] = { { SLICE("a"), { NULL, 0 } },
					 { SLICE("c"), SLICE("3") },
					 { SLICE("d"), { NULL, 0 } } };
	store_document_change(h->store, "rules:shared", changes, 3, on_done, &o);
	WAIT(h, o.calls == 1);
	assert_int_equal(o.status, TIDE_OK);
	assert_document(h, "rules:shared", "b=;c=3;");
	assert_document(h, "rules:schedule", "a=x;");
}

STORE_TEST(a_refused_change_says_why_and_removals_pass)
{
	struct outcome o = { 0 };
	set_one(h, "rules:shared", "a", "1");
	tell(h, "CONFIG SET maxmemory 1");
	struct store_field changes[] = { { SLICE("a"), { NULL, 0 } },
					 { SLICE("b"), SLICE("2") } };
	store_document_change(h->store, "rules:shared", changes, 2, on_done, &o);
	WAIT(h, o.calls == 1);
	assert_int_equal(o.status, TIDE_ESTORE);
	assert_non_null(strstr(o.text, "OOM"));
	tell(h, "CONFIG SET maxmemory 0");
	assert_document(h, "rules:shared", "");
}

STORE_TEST(a_document_is_removed_and_no_other)
{
	struct outcome o = { 0 };
	set_one(h, "rules:gen:1", "a.lua", "return 1");
	set_one(h, "rules:gen:2", "a.lua", "");
	store_document_remove(h->store, "rules:gen:1", on_done, &o);
	WAIT(h, o.calls == 1);
	assert_int_equal(o.status, TIDE_OK);
	assert_document(h, "rules:gen:1", "");
	assert_document(h, "rules:gen:2", "a.lua=;");
	assert_int_equal(ask_int(h, "EXISTS {tide}:rules:gen:1"), 0);
	assert_int_equal(ask_int(h, "HLEN {tide}:rules:gen:2"), 1);
}

RUN_TESTS(.setup = harness_setup, .teardown = harness_teardown)
