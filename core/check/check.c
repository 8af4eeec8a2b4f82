#include "check.h"

#include <errno.h>
#include <stdio.h>

#include "broker/terms.h"
#include "host/log.h"
#include "steps.h"

#define DEFINITIONS_MAX_BYTES ((size_t)64 << 20)

static int read_file(const char *path, struct buf *out)
{
	FILE *file = fopen(path, "r");
	size_t n = 1;
	int rc;

	while (file && n > 0 && buf_len(out) < DEFINITIONS_MAX_BYTES) {
		n = fread(buf_reserve(out, 4096), 1, 4096, file);
		buf_grow(out, n);
	}
	rc = !file || ferror(file) ? -1 : 0;
	if (file)
		fclose(file);
	return rc;
}

static void on_error(void *ctx, const char *text)
{
	findings_add_error(ctx, text);
}

static void check_model(const struct check_options *o, const struct survey *s,
			struct slice definitions, struct slice of_broker,
			struct findings *f)
{
	struct model m;
	struct error err;

	if (model_open(&m, o, f, &err) < 0) {
		findings_add_error(f, err.text);
		return;
	}
	model_read(&m, definitions, o->definitions);
	model_read(&m, of_broker, NULL);
	targets_check(&m, s);
	circles_check(&m);
	model_close(&m);
}

static void check_definitions(const struct check_options *o, const struct survey *s,
			      struct slice definitions, struct findings *f)
{
	struct buf of_broker = { 0 };
	struct error err;

	if (!o->url && !o->definitions)
		return;
	if (!survey_is_complete(s)) {
		findings_note(f, "", 0,
			      "not compared with the definitions, because not every "
			      "script loads");
		return;
	}
	/* Without an answer nobody knows whether the rules fit: that is a problem. */
	if (o->url && ask_broker(o->url, &of_broker, &err) < 0)
		findings_add_outside(f, "broker", 0, "%s", err.text);
	else
		check_model(o, s, definitions, buf_slice(&of_broker), f);
	buf_deinit(&of_broker);
}

static int check_with(const struct check_options *o, struct slice definitions)
{
	const struct survey_spec spec = { o->dir, o->lua_dir, o->settings,
					  terms_check_option };
	struct findings f;
	struct survey *s;
	int status;

	findings_init(&f, o->dir);
	log_configure(LOG_WARN, false);
	s = survey_open(&spec, on_error, &f);
	scripts_check(s, &f);
	lint_rules(o->dir, &f);
	/* Filters see made-up dead letters; what they log about those helps nobody. */
	log_configure(LOG_NONE, false);
	check_definitions(o, s, definitions, &f);
	status = f.problems ? 1 : 0;
	if (o->is_json) {
		findings_print_json(&f, stdout);
	} else {
		findings_print(&f, stdout);
		printf("%s: %s\n", o->dir,
		       status ? "not fit to go live" : "nothing is wrong");
	}
	survey_close(s);
	findings_deinit(&f);
	return status;
}

int check_run(const struct check_options *o)
{
	struct buf definitions = { 0 };
	int status = 2;

	if (o->definitions && read_file(o->definitions, &definitions) < 0)
		fprintf(stderr, "tidemq: cannot read '%s': %s\n", o->definitions,
			strerror(errno));
	else
		status = check_with(o, buf_slice(&definitions));
	buf_deinit(&definitions);
	return status;
}
