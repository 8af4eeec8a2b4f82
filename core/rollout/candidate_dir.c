#include "candidate_dir.h"

#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "host/trust.h"

int candidate_dir_base(const struct broker_config *config, char out[PATH_MAX],
		       struct error *err)
{
	char rules[PATH_MAX];
	const char *base = config->rules_candidates;

	if (!base) {
		snprintf(rules, sizeof(rules), "%s", config->rules_dir);
		base = dirname(rules);
	}
	return realpath(base, out) ? TIDE_OK
				   : error_set(err, TIDE_ENOTFOUND,
					       "the directory '%s' for candidate rules "
					       "(serve --rules-candidates): %s",
					       base, strerror(errno));
}

static int refuse(const char *path, const char *within, struct error *err)
{
	return error_set(err, TIDE_EDENIED,
			 "'%s' does not lie below '%s', where candidate rules are "
			 "(serve --rules-candidates)",
			 path, within);
}

/* The directory and those that it lies in, up to the configured one. */
static int check_trust(const struct broker_config *config, const char *path,
		       const char *within, struct error *err)
{
	char at[PATH_MAX];
	char *slash;
	int rc;

	snprintf(at, sizeof(at), "%s", path);
	while ((rc = trust_check(at, config->rules_dir, err)) == TIDE_OK &&
	       strcmp(at, within) != 0 && (slash = strrchr(at, '/')) && slash > at)
		*slash = '\0';
	return rc;
}

int candidate_dir_find(const struct broker_config *config, struct slice dir,
		       char out[PATH_MAX], char within[PATH_MAX], struct error *err)
{
	char path[PATH_MAX];
	struct stat st;
	bool is_absolute = dir.len > 0 && dir.data[0] == '/';
	int rc = candidate_dir_base(config, within, err), len;

	if (rc < 0)
		return rc;
	len = snprintf(path, sizeof(path), "%s%s%" SLICE_FMT, is_absolute ? "" : within,
		       is_absolute ? "" : "/", SLICE_ARG(dir));
	if (len >= PATH_MAX)
		return error_set(err, TIDE_ENOTFOUND, "the path is too long");
	if (!realpath(path, out)) {
		/* What there is elsewhere is not told. */
		if (!trust_is_within(path, within) || strstr(path, "/.."))
			return refuse(path, within, err);
		return error_set(err, TIDE_ENOTFOUND,
				 "there is no directory '%s' on the broker's machine",
				 path);
	}
	if (!trust_is_within(out, within))
		return refuse(path, within, err);
	if (stat(out, &st) != 0 || !S_ISDIR(st.st_mode))
		return error_set(err, TIDE_ENOTFOUND,
				 "there is no directory '%s' on the broker's machine",
				 path);
	return check_trust(config, out, within, err);
}
