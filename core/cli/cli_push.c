#include "cli_push.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/percent.h"
#include "cli_table.h"

#define PART_BYTES 8192 /* of a file: a line of the protocol has room for it */
#define FILE_BYTES_MAX ((size_t)1 << 20)
#define DEPTH_MAX 4
#define LOOK_MS 200 /* between two looks at the shadow */
#define FOR_DEFAULT_MS 60000

extern char **environ;

struct push {
	struct cli *cli;
	size_t file_count;
	bool has_specs;
};

/* ---- the sender's own trial ------------------------------------------------------- */

/* Run `tidemq <verb> <dir>`; what it says goes to standard error. */
static int run_local(const char *verb, const char *dir)
{
	char *args[] = { (char *)(uintptr_t) "tidemq", (char *)(uintptr_t)verb,
			 (char *)(uintptr_t)dir, NULL };
	posix_spawn_file_actions_t actions;
	int status = 0;
	pid_t child;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
	int rc = posix_spawn(&child, "/proc/self/exe", &actions, NULL, args, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (rc != 0)
		return cli_failure("cannot run tidemq %s: %s", verb, strerror(rc));
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return CLI_DONE;
	return cli_failure("nothing is pushed: tidemq %s %s does not pass", verb, dir);
}

/* ---- the files -------------------------------------------------------------------- */

static char *read_file(const char *path, size_t *len)
{
	FILE *in = fopen(path, "re");
	char *text = mem_alloc(FILE_BYTES_MAX);

	if (!in) {
		mem_free(text);
		return NULL;
	}
	*len = fread(text, 1, FILE_BYTES_MAX, in);
	bool is_whole = !ferror(in) && feof(in);
	fclose(in);
	if (is_whole)
		return text;
	mem_free(text);
	errno = EFBIG;
	return NULL;
}

static int send_file(struct push *p, const char *path, const char *name)
{
	struct tidemq_reply reply;
	struct cli *cli = p->cli;
	size_t len, sent = 0;
	char *text = read_file(path, &len);

	if (!text)
		return cli_failure("cannot read '%s': %s", path, strerror(errno));
	do {
		size_t part = len - sent < PART_BYTES ? len - sent : PART_BYTES;

		buf_clear(&cli->request);
		buf_append_text(&cli->request, "RULES upload ");
		buf_append_text(&cli->request, name);
		buf_append_text(&cli->request, " text=");
		percent_encode(&cli->request, (struct slice){ text + sent, part });
		sent += part;
	} while (cli_ask(cli, &reply) == CLI_DONE && sent < len);
	mem_free(text);
	p->file_count++;
	return cli->status;
}

static int is_entry(const struct dirent *entry)
{
	return entry->d_name[0] != '.' && entry->d_name[0] != '#';
}

/* A file or folder of the directory. `is_sending` false: look for specs alone. */
static int take_entry(struct push *p, const char *dir, const char *name, bool is_sending);

/* @param folder  relative to the directory; "" itself */
static int take_folder(struct push *p, const char *dir, const char *folder,
		       bool is_sending)
{
	char path[PATH_MAX], name[PATH_MAX];
	struct dirent **entries;
	int status = CLI_DONE;

	snprintf(path, sizeof(path), "%s/%s", dir, folder);
	int count = scandir(path, &entries, is_entry, alphasort);
	if (count < 0)
		return cli_failure("cannot read the directory '%s': %s", path,
				   strerror(errno));
	for (int i = 0; i < count; i++) {
		int len = snprintf(name, sizeof(name), "%s%s%s", folder,
				   folder[0] ? "/" : "", entries[i]->d_name);

		if (status == CLI_DONE && len < (int)sizeof(name))
			status = take_entry(p, dir, name, is_sending);
		free(entries[i]);
	}
	free(entries);
	return status;
}

static unsigned depth_of(const char *name)
{
	unsigned depth = 1;

	while ((name = strchr(name, '/')) != NULL) {
		name++;
		depth++;
	}
	return depth;
}

static int take_entry(struct push *p, const char *dir, const char *name, bool is_sending)
{
	char path[PATH_MAX];
	struct stat st;

	if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path) ||
	    stat(path, &st) != 0)
		return cli_failure("cannot read '%s/%s': %s", dir, name, strerror(errno));
	if (S_ISDIR(st.st_mode))
		return depth_of(name) < DEPTH_MAX ? take_folder(p, dir, name, is_sending)
						  : CLI_DONE;
	if (!slice_has_suffix(slice_from(name), ".lua"))
		return CLI_DONE;
	if (slice_has_suffix(slice_from(name), "_spec.lua")) {
		p->has_specs = true;
		return CLI_DONE;
	}
	return is_sending ? send_file(p, path, name) : CLI_DONE;
}

static json_t *ask(struct push *p, const char *request)
{
	struct tidemq_reply reply;
	struct cli *cli = p->cli;

	buf_clear(&cli->request);
	buf_append_text(&cli->request, request);
	return cli_ask(cli, &reply) == CLI_DONE ? cli_table_parse(cli, &reply) : NULL;
}

static void tell_findings(const json_t *check)
{
	size_t i;
	json_t *finding;

	json_array_foreach(json_object_get(check, "findings"), i, finding)
	{
		fprintf(stderr, "%s:%lld: %s\n", cli_table_text(finding, "file", ""),
			(long long)json_integer_value(json_object_get(finding, "line")),
			cli_table_text(finding, "text", ""));
	}
}

/* Where the broker has put the files; NULL after a message. */
static char *upload(struct push *p)
{
	struct cli *cli = p->cli;
	char *dir = NULL;

	cli->status = take_folder(p, cli->words[1], "", true);
	if (cli->status == CLI_DONE && p->file_count == 0)
		cli->status = cli_failure("there are no scripts in '%s'", cli->words[1]);
	json_t *document = cli->status == CLI_DONE ? ask(p, "RULES upload done") : NULL;
	const json_t *check = json_object_get(document, "check");
	if (!document)
		return NULL;
	if (!json_is_true(json_object_get(check, "fit"))) {
		tell_findings(check);
		cli->status =
			cli_failure("nothing has changed: the broker's check fails");
	} else if (!cli_is_given(cli, "transient") &&
		   !json_is_true(json_object_get(document, "writable"))) {
		cli->status = cli_failure(
			"nothing has changed: the broker does not write its rules "
			"directory (serve --rules-writable); with --transient the rules "
			"are active until its next restart, or change of that directory");
	} else {
		dir = mem_strdup(cli_table_text(document, "dir", ""));
	}
	json_decref(document);
	return dir;
}

/* ---- the trial on live traffic ---------------------------------------------------- */

static const char *const differences[] = { "errors", "queues",   "shards",
					   "ranks",  "messages", "retries" };
#define DIFFERENCE_COUNT (sizeof(differences) / sizeof(differences[0]))

/* One and many: "rank" and "ranks". */
static bool is_named(struct slice word, const char *difference)
{
	struct slice name = slice_from(difference);

	if (slice_is(word, "retry"))
		return strcmp(difference, "retries") == 0;
	return slice_is_equal(word, name) ||
	       slice_is_equal(word, (struct slice){ name.data, name.len - 1 });
}

static bool is_allowed(const struct cli *cli, const char *difference)
{
	const char *allow = cli_get(cli, "allow");
	struct slice rest = allow ? slice_from(allow) : SLICE("");

	while (rest.len > 0) {
		struct slice word = slice_cut(&rest, ',');

		if (slice_is(word, "all") || is_named(word, difference))
			return true;
	}
	return false;
}

static int check_allow(const struct cli *cli)
{
	const char *allow = cli_get(cli, "allow");
	struct slice rest = allow ? slice_from(allow) : SLICE("");

	while (rest.len > 0) {
		struct slice word = slice_cut(&rest, ',');
		bool is_known = slice_is(word, "all");

		for (size_t i = 0; i < DIFFERENCE_COUNT; i++)
			is_known = is_known || is_named(word, differences[i]);
		if (!is_known)
			return cli_usage_error(
				cli,
				"--allow takes error, queues, shard, rank, message, "
				"retry and all, not '%.*s'",
				SLICE_HEAD(word, 40));
	}
	return CLI_DONE;
}

static uint64_t count_of(const json_t *object, const char *name)
{
	return (uint64_t)json_integer_value(json_object_get(object, name));
}

static uint64_t count_difference(const json_t *shadow, const char *name)
{
	if (strcmp(name, "retries") == 0)
		return count_of(json_object_get(shadow, "failures"), "differing");
	return count_of(json_object_get(shadow, "differences"), name);
}

/* What differs and is not allowed: words for a sentence; nothing, if it is all right. */
static void list_refused(const struct push *p, const json_t *shadow, struct buf *out)
{
	for (size_t i = 0; i < DIFFERENCE_COUNT; i++) {
		uint64_t count = count_difference(shadow, differences[i]);

		if (count > 0 && !is_allowed(p->cli, differences[i]))
			buf_printf(out, "%s%" PRIu64 " %s", buf_len(out) ? ", " : "",
				   count, differences[i]);
	}
}

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000) + t.tv_nsec / 1000000;
}

static int refuse(struct push *p, json_t *shadow, const char *what)
{
	static const struct cli_table_view view = {
		.columns = "differs exchange key headers live:decision shadow:decision "
			   "changes",
		.array = "samples",
	};

	if (p->cli->json)
		json_dumpf(shadow, stdout, JSON_COMPACT);
	else if (json_array_size(json_object_get(shadow, "samples")) > 0)
		cli_table_print_take(json_incref(shadow), &view);
	return cli_failure("nothing has changed, the candidate rules are dropped: %s",
			   what);
}

/* One look: CLI_FAILED ends the push. */
static int look(struct push *p, json_t *shadow)
{
	struct buf refused = { 0 };
	int status = CLI_DONE;

	if (!json_is_true(json_object_get(shadow, "active")))
		return cli_failure("nothing has changed: somebody has dropped the "
				   "candidate rules");
	list_refused(p, shadow, &refused);
	if (buf_len(&refused) > 0) {
		buf_append_text(&refused, " of the decisions differ; --allow lists what "
					  "may");
		status = refuse(p, shadow, buf_cstr(&refused));
	} else if (json_is_true(json_object_get(shadow, "stopped"))) {
		status = refuse(p, shadow, "they are too slow");
	}
	buf_deinit(&refused);
	return status;
}

/* Until enough has been compared. The last document; NULL after a message. */
static json_t *wait_for_traffic(struct push *p)
{
	struct cli *cli = p->cli;
	uint64_t messages = cli_number(cli, "messages");
	int64_t for_ms = (int64_t)cli_number(cli, "for"), until_ms;

	if (for_ms == 0 && messages == 0)
		for_ms = FOR_DEFAULT_MS;
	if (cli_is_given(cli, "now"))
		for_ms = 1;
	until_ms = now_ms() + for_ms;
	for (;;) {
		json_t *shadow = ask(p, "RULES shadow status");
		bool is_over = for_ms > 0 && now_ms() >= until_ms;

		if (!shadow)
			return NULL;
		if (!cli_is_given(cli, "now"))
			cli->status = look(p, shadow);
		if (cli->status != CLI_DONE) {
			json_decref(shadow);
			return NULL;
		}
		if (is_over || cli_is_given(cli, "now") ||
		    (messages > 0 && count_of(shadow, "compared") >= messages))
			return shadow;
		json_decref(shadow);
		usleep(LOOK_MS * 1000);
	}
}

static int promote(struct push *p, const json_t *shadow)
{
	struct cli *cli = p->cli;
	json_t *status =
		ask(p, cli_is_given(cli, "transient") ? "RULES shadow promote"
						      : "RULES shadow promote install");

	if (!status)
		return cli->status;
	if (cli->json) {
		json_dumpf(status, stdout, JSON_COMPACT);
		putchar('\n');
	} else {
		printf("%zu files are active, hash %s: %" PRIu64
		       " publishes compared, %" PRIu64 " differ\n",
		       p->file_count, cli_table_text(status, "hash", ""),
		       count_of(shadow, "compared"), count_of(shadow, "differing"));
	}
	json_decref(status);
	return CLI_DONE;
}

/* The shadow is this connection's: whatever ends it drops the candidate rules. */
static int try_on_traffic(struct push *p, const char *dir)
{
	struct buf request = { 0 };
	json_t *document;

	buf_printf(&request, "RULES shadow %s share=%s exclusive", dir,
		   cli_get(p->cli, "share") ? cli_get(p->cli, "share") : "100%");
	document = ask(p, buf_cstr(&request));
	buf_deinit(&request);
	if (!document)
		return p->cli->status;
	json_decref(document);
	document = wait_for_traffic(p);
	if (!document)
		return p->cli->status;
	int status = promote(p, document);
	json_decref(document);
	return status;
}

int cli_push_run(struct cli *cli)
{
	struct push p = { .cli = cli };
	const char *dir = cli->words[1];
	char *uploaded;

	cli->status = check_allow(cli);
	if (cli->status == CLI_DONE)
		cli->status = take_folder(&p, dir, "", false);
	if (cli->status == CLI_DONE && !cli_is_given(cli, "no-test"))
		cli->status = run_local("check", dir);
	if (cli->status == CLI_DONE && !cli_is_given(cli, "no-test") && p.has_specs)
		cli->status = run_local("test", dir);
	if (cli->status != CLI_DONE)
		return cli->status;
	uploaded = upload(&p);
	if (!uploaded)
		return cli->status;
	cli->status = try_on_traffic(&p, uploaded);
	mem_free(uploaded);
	return cli->status;
}
