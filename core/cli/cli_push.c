#include "cli_push.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/mem.h"
#include "base/percent.h"
#include "cli_table.h"
#include "rollout/upload.h"
#include "rules/engine/script_kind.h"
#include "rules/sandbox/source.h"

#define PART_BYTES 8192 /* of a file: a line of the protocol has room for it */
#define DEPTH_MAX 16    /* of the walk; files as deep as that are refused */
#define LOOK_MS 200     /* between two looks at the shadow */
#define FOR_DEFAULT_MS 60000
#define PROGRESS_MS 10000 /* between two lines of progress where there is no terminal */

extern char **environ;

struct push {
	struct cli *cli;
	size_t script_count, module_count, bytes;
	bool has_specs;
	bool has_progress; /* a line on the terminal, that has not ended */
	int64_t progress_ms;
};

/* ---- an end in between ------------------------------------------------------------ */

static volatile sig_atomic_t is_interrupted;

static void on_interrupt(int number)
{
	is_interrupted = 1;
}

/* The second one ends the process. */
static void catch_interrupts(void)
{
	struct sigaction action = { .sa_handler = on_interrupt,
				    .sa_flags = (int)SA_RESETHAND };

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

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
	if (is_interrupted)
		return cli_failure("interrupted: nothing is pushed");
	return cli_failure("nothing is pushed: tidemq %s %s does not pass", verb, dir);
}

/* ---- the files -------------------------------------------------------------------- */

static char *read_file(const char *path, size_t *len)
{
	FILE *in = fopen(path, "re");
	char *text;

	if (!in)
		return NULL;
	text = mem_alloc(SOURCE_MAX_BYTES + 1);
	*len = fread(text, 1, SOURCE_MAX_BYTES + 1, in);
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
	if (cli->status == CLI_DONE && is_interrupted)
		cli->status = cli_failure("interrupted: nothing is pushed");
	return cli->status;
}

/* Files that the broker would refuse are told of before anything else is done. */
static int count_file(struct push *p, const char *name, const struct stat *st)
{
	struct error err;

	if (script_kind_is_path(name))
		p->script_count++;
	else
		p->module_count++;
	p->bytes += (size_t)st->st_size;
	if (upload_check_path(slice_from(name), &err) < 0)
		return cli_failure("nothing is pushed: %s", err.text);
	if (st->st_size > SOURCE_MAX_BYTES)
		return cli_failure(
			"nothing is pushed: '%s' has %lld bytes; a rules file has at "
			"most %d",
			name, (long long)st->st_size, SOURCE_MAX_BYTES);
	return CLI_DONE;
}

static int check_count(const struct push *p)
{
	size_t file_count = p->script_count + p->module_count;

	if (file_count == 0)
		return cli_failure("nothing is pushed: there are no scripts in '%s'",
				   p->cli->words[1]);
	if (file_count > UPLOAD_FILES_MAX || p->bytes > UPLOAD_BYTES_MAX)
		return cli_failure("nothing is pushed: '%s' has %zu files of %zu bytes; "
				   "a push has at most %d files of %zu bytes together",
				   p->cli->words[1], file_count, p->bytes,
				   UPLOAD_FILES_MAX, UPLOAD_BYTES_MAX);
	return CLI_DONE;
}

static int is_entry(const struct dirent *entry)
{
	return entry->d_name[0] != '.' && entry->d_name[0] != '#';
}

/* A file or folder of the directory. `is_sending` false: it is only looked at. */
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
	if (S_ISDIR(st.st_mode) && depth_of(name) >= DEPTH_MAX)
		return cli_failure("nothing is pushed: '%s' is a folder at a depth of %d",
				   name, DEPTH_MAX);
	if (S_ISDIR(st.st_mode))
		return take_folder(p, dir, name, is_sending);
	if (!slice_has_suffix(slice_from(name), ".lua"))
		return CLI_DONE;
	if (slice_has_suffix(slice_from(name), "_spec.lua")) {
		p->has_specs = true;
		return CLI_DONE;
	}
	return is_sending ? send_file(p, path, name) : count_file(p, name, &st);
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

/* The permission is asked for before anything that takes time. */
static int ask_whether(struct push *p)
{
	struct cli *cli = p->cli;
	json_t *document = ask(p, "RULES upload begin");

	if (!document)
		return cli->status;
	if (!cli_is_given(cli, "transient") &&
	    !json_is_true(json_object_get(document, "writable")))
		cli->status = cli_failure(
			"nothing has changed: the broker does not write its rules "
			"directory (serve --rules-writable); with --transient the rules "
			"are active until its next restart, or change of that directory");
	json_decref(document);
	/* The broker might end a connection that is silent while specs run. */
	tidemq_disconnect(cli->client);
	cli->client = NULL;
	return cli->status;
}

/* Where the broker has put the files; NULL after a message. */
static char *upload(struct push *p)
{
	struct cli *cli = p->cli;
	char *dir = NULL;

	cli->status = take_folder(p, cli->words[1], "", true);
	json_t *document = cli->status == CLI_DONE ? ask(p, "RULES upload done") : NULL;
	const json_t *check = json_object_get(document, "check");
	if (!document)
		return NULL;
	if (!json_is_true(json_object_get(check, "fit"))) {
		tell_findings(check);
		cli->status =
			cli_failure("nothing has changed: the broker's check fails");
	} else {
		dir = mem_strdup(cli_table_text(document, "dir", ""));
	}
	json_decref(document);
	return dir;
}

/* ---- the trial on live traffic ---------------------------------------------------- */

static const struct difference {
	const char *word, *count, *figures;
} differences[] = {
#define X(word, count, figures) { word, count, figures },
	CLI_PUSH_DIFFERENCES(X)
#undef X
};
#define DIFFERENCE_COUNT (sizeof(differences) / sizeof(differences[0]))

static bool is_named(struct slice word, const struct difference *d)
{
	return slice_is(word, d->word) || (d->count && slice_is(word, d->count));
}

static bool is_allowed(const struct cli *cli, const struct difference *d)
{
	const char *allow = cli_get(cli, "allow");
	struct slice rest = allow ? slice_from(allow) : SLICE("");

	while (rest.len > 0) {
		struct slice word = slice_cut(&rest, ',');

		if (slice_is(word, "all") || is_named(word, d))
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
			is_known = is_known || is_named(word, &differences[i]);
		if (!is_known)
			return cli_usage_error(
				cli, "--allow takes " CLI_PUSH_ALLOWED ", not '%.*s'",
				SLICE_HEAD(word, 40));
	}
	return CLI_DONE;
}

static int check_share(const struct cli *cli)
{
	const char *share = cli_get(cli, "share");
	double ignored;

	if (!share || slice_to_share(slice_from(share), &ignored))
		return CLI_DONE;
	return cli_usage_error(
		cli, "--share must be a percentage above 0, up to 100, not '%s'", share);
}

static uint64_t count_of(const json_t *object, const char *name)
{
	return (uint64_t)json_integer_value(json_object_get(object, name));
}

static uint64_t count_difference(const json_t *shadow, const struct difference *d)
{
	if (d->figures)
		return count_of(json_object_get(shadow, d->figures), "differing");
	return count_of(json_object_get(shadow, "differences"), d->count);
}

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000) + t.tv_nsec / 1000000;
}

/* A line that is rewritten on a terminal; elsewhere one from time to time. */
static void show_progress(struct push *p, const json_t *shadow, int64_t left_ms)
{
	bool is_terminal = isatty(STDERR_FILENO);
	uint64_t messages = cli_number(p->cli, "messages");
	uint64_t compared = count_of(shadow, "compared");
	char left[DURATION_TEXT_MAX];

	if (!is_terminal && now_ms() < p->progress_ms)
		return;
	p->progress_ms = now_ms() + PROGRESS_MS;
	p->has_progress = is_terminal;
	fprintf(stderr, "%strying: %" PRIu64, is_terminal ? "\r\33[K" : "", compared);
	if (messages > 0)
		fprintf(stderr, " of %" PRIu64, messages);
	fprintf(stderr, " publish%s compared, %" PRIu64 " differ",
		(messages ? messages : compared) == 1 ? "" : "es",
		count_of(shadow, "differing"));
	if (left_ms > 0) {
		duration_format((left_ms + 999) / 1000 * 1000, left);
		fprintf(stderr, ", %s left", left);
	}
	if (!is_terminal)
		fputc('\n', stderr);
	fflush(stderr);
}

static void end_progress(struct push *p)
{
	if (p->has_progress)
		fputs("\r\33[K", stderr);
	p->has_progress = false;
}

/* The differences that are not allowed, as words for a sentence; empty if all is
 * right. */
static void list_refused(const struct push *p, const json_t *shadow, struct buf *out)
{
	for (size_t i = 0; i < DIFFERENCE_COUNT; i++) {
		const struct difference *d = &differences[i];
		uint64_t count = count_difference(shadow, d);

		if (count > 0 && !is_allowed(p->cli, d))
			buf_printf(out, "%s%s (%" PRIu64 ")",
				   buf_len(out) ? ", " : "decisions differ in ", d->word,
				   count);
	}
}

static void show_samples(json_t *figures, const char *columns)
{
	const struct cli_table_view view = { .columns = columns, .array = "samples" };

	if (json_array_size(json_object_get(figures, "samples")) > 0)
		cli_table_print_take(json_incref(figures), &view);
}

static int refuse(struct push *p, json_t *shadow, const char *what)
{
	if (p->cli->json) {
		json_dumpf(shadow, stdout, JSON_COMPACT);
	} else {
		show_samples(shadow, "differs exchange key headers live:decision "
				     "shadow:decision changes");
		for (size_t i = 0; i < DIFFERENCE_COUNT; i++)
			if (differences[i].figures)
				show_samples(
					json_object_get(shadow, differences[i].figures),
					CLI_PUSH_COLUMNS);
	}
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
	if (buf_len(&refused) > 0 || json_is_true(json_object_get(shadow, "stopped")))
		end_progress(p);
	if (buf_len(&refused) > 0) {
		buf_append_text(&refused, "; --allow lists what may");
		status = refuse(p, shadow, buf_cstr(&refused));
	} else if (json_is_true(json_object_get(shadow, "stopped"))) {
		status = refuse(p, shadow, "they are too slow");
	}
	buf_deinit(&refused);
	return status;
}

static bool is_enough(const struct cli *cli, const json_t *shadow, int64_t left_ms)
{
	uint64_t messages = cli_number(cli, "messages");

	return cli_is_given(cli, "now") || left_ms == 0 ||
	       (messages > 0 && count_of(shadow, "compared") >= messages);
}

static int drop(struct push *p)
{
	struct tidemq_reply reply;

	buf_clear(&p->cli->request);
	buf_append_text(&p->cli->request, "RULES shadow drop");
	end_progress(p);
	return cli_ask(p->cli, &reply) == CLI_DONE
		       ? cli_failure("interrupted: nothing has changed, the candidate "
				     "rules are dropped")
		       : p->cli->status;
}

/* Until enough has been compared. The last document; NULL after a message. */
static json_t *wait_for_traffic(struct push *p)
{
	struct cli *cli = p->cli;
	int64_t for_ms = (int64_t)cli_number(cli, "for"), until_ms, left_ms;
	json_t *shadow;

	if (for_ms == 0 && cli_number(cli, "messages") == 0)
		for_ms = FOR_DEFAULT_MS;
	until_ms = now_ms() + for_ms;
	while ((shadow = ask(p, "RULES shadow status")) != NULL) {
		left_ms = for_ms == 0 ? -1 : until_ms - now_ms();
		if (for_ms > 0 && left_ms < 0)
			left_ms = 0;
		if (!cli_is_given(cli, "now")) {
			show_progress(p, shadow, left_ms);
			cli->status = look(p, shadow);
		}
		if (cli->status == CLI_DONE && is_interrupted)
			cli->status = drop(p);
		if (cli->status == CLI_DONE && is_enough(cli, shadow, left_ms))
			break;
		json_decref(shadow);
		shadow = NULL;
		if (cli->status != CLI_DONE)
			break;
		usleep(LOOK_MS * 1000);
	}
	end_progress(p);
	return shadow;
}

static bool is_compared(const json_t *shadow)
{
	uint64_t count = count_of(shadow, "compared");

	for (size_t i = 0; i < DIFFERENCE_COUNT; i++)
		if (differences[i].figures)
			count += count_of(json_object_get(shadow, differences[i].figures),
					  "compared");
	return count > 0;
}

#define NOTHING_COMPARED "nothing was compared, since no message came meanwhile"

static bool is_yes(void)
{
	char answer[16];

	fputs("tidemq: " NOTHING_COMPARED "; make the rules active all the same? [y/N] ",
	      stderr);
	fflush(stderr);
	return fgets(answer, sizeof(answer), stdin) &&
	       (strcasecmp(answer, "y\n") == 0 || strcasecmp(answer, "yes\n") == 0);
}

/* A trial without traffic has shown nothing. */
static int ask_if_untried(const struct cli *cli, const json_t *shadow)
{
	bool is_terminal = isatty(STDIN_FILENO) && isatty(STDERR_FILENO);

	if (cli_is_given(cli, "now") || cli_is_given(cli, "yes") || is_compared(shadow))
		return CLI_DONE;
	if (is_terminal && is_yes())
		return CLI_DONE;
	return cli_failure("nothing has changed, the candidate rules are dropped%s",
			   is_terminal ? ""
				       : ": " NOTHING_COMPARED
					 "; --yes makes them active all the same");
}

static int promote(struct push *p, const json_t *shadow)
{
	uint64_t compared = count_of(shadow, "compared");
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
		printf("active: %zu script%s, ", p->script_count,
		       p->script_count == 1 ? "" : "s");
		if (p->module_count > 0)
			printf("%zu module%s, ", p->module_count,
			       p->module_count == 1 ? "" : "s");
		printf("hash %s: %" PRIu64 " publish%s compared, %" PRIu64 " differ\n",
		       cli_table_text(status, "hash", ""), compared,
		       compared == 1 ? "" : "es", count_of(shadow, "differing"));
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
	int status = ask_if_untried(p->cli, document);
	if (status == CLI_DONE)
		status = promote(p, document);
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
		cli->status = check_share(cli);
	catch_interrupts();
	if (cli->status == CLI_DONE)
		cli->status = take_folder(&p, dir, "", false);
	if (cli->status == CLI_DONE)
		cli->status = check_count(&p);
	if (cli->status == CLI_DONE)
		cli->status = ask_whether(&p);
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
