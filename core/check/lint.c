#include "steps.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rules/engine/script_kind.h"
#include "rules/sandbox/hints.h"

#define WORDS_MAX 64

extern char **environ;

/* Scripts have Lua 5.4 and `tide`, without what the sandbox leaves out. */
static void set_words(const char *argv[WORDS_MAX], const char *dir)
{
	static const char *const words[] = {
		"luacheck",      "--no-config",    "--std",
		"lua54",         "--no-self",      "--no-max-line-length",
		"--codes",       "--no-color",     "--formatter",
		"plain",         "--read-globals", "tide",
		"--not-globals",
	};
	size_t count = sizeof(words) / sizeof(words[0]);
	const char *name;

	memcpy(argv, words, sizeof(words));
	for (size_t i = 0; (name = hints_absent(i)); i++) {
		assert(count < WORDS_MAX - 3);
		argv[count++] = name;
	}
	argv[count++] = "--";
	argv[count++] = dir;
	argv[count] = NULL;
}

static int start(const char *dir, int out, pid_t *pid)
{
	const char *argv[WORDS_MAX];
	posix_spawn_file_actions_t actions;
	int rc = posix_spawn_file_actions_init(&actions);

	set_words(argv, dir);
	if (rc == 0)
		rc = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	if (rc == 0)
		rc = posix_spawnp(pid, argv[0], &actions, NULL, (char *const *)argv,
				  environ);
	posix_spawn_file_actions_destroy(&actions);
	return rc;
}

/* Specs have other globals. Files that begin with '.' or '#' belong to an editor. */
static bool is_rule(const char *path)
{
	static const char spec[] = "_spec.lua";
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	size_t len = strlen(name), spec_len = strlen(spec);

	return name[0] != '.' && name[0] != '#' &&
	       (len < spec_len || strcmp(name + len - spec_len, spec) != 0);
}

/* By luacheck's codes: errors, globals, code that does something else than it seems to.
 * The rest is style: a script with an unused variable does its work. */
static bool is_problem(const char *code)
{
	static const char *const prefixes[] = { "E",   "W0",  "W1",  "W314", "W51",
						"W53", "W57", "W58", NULL };

	for (const char *const *prefix = prefixes; *prefix; prefix++)
		if (strncmp(code, *prefix, strlen(*prefix)) == 0)
			return true;
	return false;
}

/* What to use instead: "accessing undefined variable 'os'",
 * "accessing undefined field 'random' of global 'math'". NULL: nothing is known. */
static const char *instead_of(const char *text)
{
	char owner[32] = "", name[32];

	if (sscanf(text, "accessing undefined field '%31[^']' of global '%31[^']'", name,
		   owner) == 2 ||
	    sscanf(text, "accessing undefined variable '%31[^']'", name) == 1)
		return hints_instead(owner, name);
	return NULL;
}

/* A module is often somebody's library: its style is none of ours, and it asks for
 * globals that other versions of Lua have. */
static void add(struct findings *f, const char *path, int line, const char *code,
		const char *text)
{
	bool is_module = !script_kind_is_path(path);
	const char *instead = instead_of(text), *sep = instead ? "; " : "";

	if (!instead)
		instead = "";
	if (is_problem(code) && (!is_module || code[0] == 'E'))
		findings_add(f, path, line, "%s%s%s", text, sep, instead);
	else if (is_problem(code) || !is_module)
		findings_note(f, path, line, "%s%s%s", text, sep, instead);
}

/* "dir/filter/a.lua:3:7: (W211) unused variable x" */
static void take_line(const char *line, const char *dir, struct findings *f)
{
	size_t dir_len = strlen(dir);
	const char *file = line, *end = strstr(line, ".lua:"), *text;
	char path[512], code[8];
	int number, length = 0;

	if (!end)
		return;
	if (strncmp(file, dir, dir_len) == 0)
		file += dir_len;
	file += strspn(file, "/");
	end += strlen(".lua");
	snprintf(path, sizeof(path), "%.*s", (int)(end - file), file);
	if (sscanf(end, ":%d:%*d: (%7[A-Z0-9])%n", &number, code, &length) != 2 ||
	    length == 0)
		return;
	text = end + length + strspn(end + length, " ");
	/* That a file does not load is known already. */
	if (is_rule(path) && !findings_has(f, path, number))
		add(f, path, number, code, text);
}

static void take_output(int fd, const char *dir, struct findings *f)
{
	FILE *output = fdopen(fd, "r");
	char *line = NULL;
	size_t cap = 0;
	ssize_t len;

	while (output && (len = getline(&line, &cap, output)) > 0) {
		line[strcspn(line, "\n")] = '\0';
		take_line(line, dir, f);
	}
	free(line);
	if (output)
		fclose(output);
	else
		close(fd);
}

/* Give luacheck's exit status, and take in what it prints.
 *
 * @return  0, or an errno: ENOENT when it is not installed */
static int run(const char *dir, struct findings *f, int *status)
{
	int ends[2], rc;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return errno;
	rc = start(dir, ends[1], &pid);
	close(ends[1]);
	take_output(ends[0], dir, f);
	if (rc == 0 && waitpid(pid, status, 0) < 0)
		rc = errno;
	return rc;
}

void lint_rules(const char *dir, struct findings *f)
{
	char real[PATH_MAX]; /* luacheck writes ./rules as rules */
	int rc, status = 0;

	if (!realpath(dir, real))
		snprintf(real, sizeof(real), "%s", dir);
	rc = run(real, f, &status);
	if (rc == ENOENT)
		findings_note(f, "", 0,
			      "luacheck is not installed; only what a broker checks was "
			      "checked");
	else if (rc != 0)
		findings_add(f, "", 0, "luacheck cannot be run: %s", strerror(rc));
	/* Up to 2 it found something; higher values are failures of luacheck itself. */
	if (rc == 0 && (!WIFEXITED(status) || WEXITSTATUS(status) > 2))
		findings_add(f, "", 0, "luacheck failed with status %d",
			     WIFEXITED(status) ? WEXITSTATUS(status) : status);
}
