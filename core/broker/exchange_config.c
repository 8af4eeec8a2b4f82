#include "exchange_config.h"

#include <stddef.h>

#include "base/mem.h"
#include "base/percent.h"

#define HINT "; the option update changes that"

static const struct flag {
	const char *name;
	const char *fallback;
	size_t offset;
	const char *hint;
} flags[] = {
	{ "durable", "1", offsetof(struct exchange_config, is_durable), "" },
	{ "auto-delete", "0", offsetof(struct exchange_config, is_auto_delete), HINT },
	{ "internal", "0", offsetof(struct exchange_config, is_internal), HINT },
};
#define FLAGS (sizeof(flags) / sizeof(flags[0]))

static bool *flag_of(const struct exchange_config *c, const struct flag *f)
{
	return (bool *)((char *)c + f->offset);
}

static const struct flag *find_flag(const char *name)
{
	for (size_t i = 0; i < FLAGS; i++)
		if (strcmp(flags[i].name, name) == 0)
			return &flags[i];
	return NULL;
}

static int read_flag(struct exchange_config *c, const struct flag *f, const char *value,
		     struct error *err)
{
	if (strcmp(value, "0") != 0 && strcmp(value, "1") != 0)
		return error_set(err, TIDE_ESYNTAX, "%s=%s: expected 0 or 1", f->name,
				 value);
	*flag_of(c, f) = value[0] == '1';
	return TIDE_OK;
}

static int read_alternate(struct exchange_config *c, const struct arg *a,
			  struct error *err)
{
	struct slice name = { a->value, a->value_len };

	if (!slice_is_name(name) || slice_is(name, "-"))
		return error_set(err, TIDE_ESYNTAX,
				 "alternate=%s: expected the name of an exchange other "
				 "than the default one",
				 a->value);
	c->alternate = mem_strndup(name.data, name.len);
	return TIDE_OK;
}

int exchange_config_parse(struct exchange_config *c, const struct args *args,
			  struct error *err)
{
	int rc = TIDE_OK;

	*c = (struct exchange_config){ .is_durable = true };
	for (size_t i = 0; i < args->count && rc == TIDE_OK; i++) {
		const struct arg *a = &args->items[i];
		const struct flag *f = find_flag(a->name);

		if (f)
			rc = read_flag(c, f, a->value, err);
		else if (strcmp(a->name, "alternate") == 0)
			rc = read_alternate(c, a, err);
		else if (args_add(&c->args, slice_from(a->name),
				  (struct slice){ a->value, a->value_len }) < 0)
			rc = error_set(err, TIDE_ESYNTAX, "option '%s' appears twice",
				       a->name);
	}
	args_sort(&c->args);
	if (rc < 0)
		exchange_config_deinit(c);
	return rc;
}

void exchange_config_deinit(struct exchange_config *c)
{
	args_deinit(&c->args);
	mem_free(c->alternate);
	*c = (struct exchange_config){ 0 };
}

/* There is room: they are what was read from as many. */
static void add(struct args *out, const char *name, struct slice value)
{
	int rc = args_add(out, slice_from(name), value);

	(void)rc;
}

void exchange_config_options(const struct exchange_config *c, struct args *out)
{
	*out = (struct args){ 0 };
	for (size_t i = 0; i < FLAGS; i++) {
		const char *value = *flag_of(c, &flags[i]) ? "1" : "0";

		if (strcmp(value, flags[i].fallback) != 0)
			add(out, flags[i].name, slice_from(value));
	}
	if (c->alternate)
		add(out, "alternate", slice_from(c->alternate));
	for (size_t i = 0; i < c->args.count; i++)
		add(out, c->args.items[i].name,
		    (struct slice){ c->args.items[i].value, c->args.items[i].value_len });
	args_sort(out);
}

static bool has_same_alternate(const struct exchange_config *a,
			       const struct exchange_config *b)
{
	return a->alternate && b->alternate ? strcmp(a->alternate, b->alternate) == 0
					    : a->alternate == b->alternate;
}

int exchange_config_compare(const struct exchange_config *has,
			    const struct exchange_config *wanted,
			    const struct args *given, bool is_given, struct error *err)
{
	for (size_t i = 0; i < FLAGS; i++) {
		const struct flag *f = &flags[i];
		bool is_set = *flag_of(has, f);

		if ((args_get(given, f->name) != NULL) == is_given &&
		    is_set != *flag_of(wanted, f))
			return error_set(err, TIDE_EMISMATCH, "it has %s=%d, not %s=%d%s",
					 f->name, is_set, f->name, !is_set, f->hint);
	}
	if ((args_get(given, "alternate") != NULL) != is_given ||
	    has_same_alternate(has, wanted))
		return TIDE_OK;
	return error_set(err, TIDE_EMISMATCH,
			 "it has alternate=%s, not alternate=%s" HINT,
			 has->alternate ? has->alternate : "(none)",
			 wanted->alternate ? wanted->alternate : "(none)");
}

bool exchange_config_is_same(const struct exchange_config *a,
			     const struct exchange_config *b)
{
	for (size_t i = 0; i < FLAGS; i++)
		if (*flag_of(a, &flags[i]) != *flag_of(b, &flags[i]))
			return false;
	return has_same_alternate(a, b);
}

int exchange_config_merge(const struct exchange_config *has, const struct args *given,
			  struct exchange_config *out, struct error *err)
{
	struct args old, all = { 0 };
	int rc = TIDE_OK;

	exchange_config_options(has, &old);
	for (size_t i = 0; i < old.count && rc == TIDE_OK; i++) {
		const struct arg *a = &old.items[i];

		if (!args_get(given, a->name))
			rc = args_add(&all, slice_from(a->name),
				      (struct slice){ a->value, a->value_len });
	}
	for (size_t i = 0; i < given->count && rc == TIDE_OK; i++) {
		const struct arg *a = &given->items[i];

		if (a->value_len > 0)
			rc = args_add(&all, slice_from(a->name),
				      (struct slice){ a->value, a->value_len });
	}
	if (rc < 0)
		error_set(err, rc, "too many options");
	else
		rc = exchange_config_parse(out, &all, err);
	args_deinit(&old);
	args_deinit(&all);
	return rc;
}

void exchange_config_format(const struct exchange_config *c, struct buf *out)
{
	buf_printf(out, "durable=%d auto-delete=%d", c->is_durable, c->is_auto_delete);
	if (c->is_internal)
		buf_append_text(out, " internal=1");
	if (c->alternate) {
		buf_append_text(out, " alternate=");
		percent_encode(out, slice_from(c->alternate));
	}
	if (c->args.count) {
		buf_append_char(out, ' ');
		args_format(&c->args, out);
	}
}
