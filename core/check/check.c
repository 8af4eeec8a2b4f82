#include "check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "ask.h"
#include "host/log.h"
#include "broker/exchange.h"
#include "broker/queue.h"
#include "lint.h"
#include "model.h"
#include "rules/engine/inspect.h"

#define DEFINITIONS_MAX_BYTES ((size_t)64 << 20)

struct check {
	const struct check_options *options;
	struct findings findings;
	struct inspection rules;
	struct model model;
	bool has_model;
};

/* ---- definitions ----------------------------------------------------------------------
 */

static int read_file(const char *path, struct buf *out)
{
	FILE *file = fopen(path, "r");
	size_t n = 1;

	while (file && n > 0 && buf_len(out) < DEFINITIONS_MAX_BYTES) {
		n = fread(buf_reserve(out, 4096), 1, 4096, file);
		buf_grow(out, n);
	}
	int rc = !file || ferror(file) ? -1 : 0;
	if (file)
		fclose(file);
	return rc;
}

/* A broker that cannot be asked is a finding: there is no telling whether the rules
 * fit. */
static bool ask(struct check *c, struct buf *lines)
{
	struct error err;

	if (!c->options->url || ask_broker(c->options->url, lines, &err) == TIDE_OK)
		return true;
	c->findings.dir = NULL;
	findings_add(&c->findings, "broker", 0, "%s", err.text);
	c->findings.dir = c->options->dir;
	return false;
}

static void open_model(struct check *c, struct slice definitions, struct slice of_broker)
{
	struct error err;

	c->model.findings = &c->findings;
	if (model_open(&c->model, c->options->dir, c->options->lua_dir, &err) < 0) {
		findings_add_error(&c->findings, "", err.text);
		return;
	}
	c->has_model = true;
	c->model.file = c->options->definitions;
	model_read(&c->model, definitions);
	c->model.file = NULL;
	model_read(&c->model, of_broker);
	model_check(&c->model);
}

static void check_definitions(struct check *c, struct slice definitions)
{
	struct buf lines;

	if (!c->options->url && !c->options->definitions)
		return;
	buf_init(&lines);
	if (!c->rules.is_complete)
		findings_note(&c->findings, "", 0,
			      "not held against the definitions, since not every script "
			      "loads");
	else if (ask(c, &lines))
		open_model(c, definitions, buf_slice(&lines));
	buf_deinit(&lines);
}

/* ---- all of it
 * ------------------------------------------------------------------------- */

static int conclude(struct check *c)
{
	size_t problems = c->findings.problems;

	findings_print(&c->findings, stdout);
	if (problems)
		printf("%s: not fit to go live\n", c->options->dir);
	else
		printf("%s: nothing is wrong\n", c->options->dir);
	return problems ? 1 : 0;
}

static int check_with(struct check *c, struct slice definitions)
{
	const struct check_options *o = c->options;
	int status;

	findings_init(&c->findings, o->dir);
	c->rules = (struct inspection){ .findings = &c->findings,
					.rules_dir = o->dir,
					.lua_dir = o->lua_dir };
	log_configure(LOG_WARN, false);
	inspect_rules(&c->rules);
	lint_rules(o->dir, &c->findings);
	/* What scripts log of messages that were made up is of no interest. */
	log_configure(LOG_NONE, false);
	check_definitions(c, definitions);
	status = conclude(c);
	if (c->has_model)
		model_close(&c->model);
	bundle_unref(c->rules.good);
	findings_deinit(&c->findings);
	return status;
}

int check_run(const struct check_options *o)
{
	struct check *c = mem_zalloc(sizeof(*c));
	struct buf definitions;
	int status = 2;

	c->options = o;
	buf_init(&definitions);
	if (o->definitions && read_file(o->definitions, &definitions) < 0)
		fprintf(stderr, "tidemq: '%s' cannot be read: %s\n", o->definitions,
			strerror(errno));
	else
		status = check_with(c, buf_slice(&definitions));
	buf_deinit(&definitions);
	mem_free(c);
	return status;
}
