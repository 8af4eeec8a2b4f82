/* cli_user.c: users are added, changed, deleted and listed. */
#include <inttypes.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "cli_table.h"

#define PASSWORD_MAX 1024

/* ---- passwords: of a terminal, typed twice and not shown; else a line of input */

/* Without its line end. */
static bool read_line(char text[PASSWORD_MAX + 2])
{
	size_t len;

	if (!fgets(text, PASSWORD_MAX + 2, stdin))
		return false;
	len = strcspn(text, "\r\n");
	/* What is too long has no end. */
	if (text[len] == '\0' && len > PASSWORD_MAX)
		return false;
	text[len] = '\0';
	return len > 0;
}

static bool type(const char *prompt, char text[PASSWORD_MAX + 2])
{
	struct termios shown, hidden;
	bool is_read;

	if (tcgetattr(STDIN_FILENO, &shown) < 0)
		return false;
	hidden = shown;
	hidden.c_lflag &= ~(tcflag_t)ECHO;
	/* Before it is asked for: what is typed earlier is not read. */
	tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden);
	fputs(prompt, stderr);
	is_read = read_line(text);
	tcsetattr(STDIN_FILENO, TCSADRAIN, &shown);
	fputc('\n', stderr);
	return is_read;
}

static int read_password(struct cli *cli, char text[PASSWORD_MAX + 2])
{
	char again[PASSWORD_MAX + 2];
	bool is_same;

	if (!isatty(STDIN_FILENO))
		return read_line(text)
			       ? CLI_DONE
			       : cli_usage_error(
					 cli,
					 "a password of 1-%d bytes is expected on "
					 "standard input",
					 PASSWORD_MAX);
	if (!type("password: ", text) || !type("again: ", again))
		return cli_failure("that is no password");
	is_same = strcmp(text, again) == 0;
	explicit_bzero(again, sizeof(again));
	return is_same ? CLI_DONE : cli_failure("the two passwords differ");
}

static void add_password(struct cli *cli)
{
	char text[PASSWORD_MAX + 2];

	if (cli->status != CLI_DONE || cli_is_given(cli, "no-password"))
		return;
	cli->status = read_password(cli, text);
	if (cli->status == CLI_DONE)
		cli_add_value(cli, SLICE("pass"), text);
	explicit_bzero(text, sizeof(text));
}

/* ---- requests */

static void add_options(struct cli *cli)
{
	static const char *const texts[] = { "tags", "configure", "write", "read" };
	static const char *const numbers[] = { "max-connections", "max-channels",
					       "publish-rate", "publish-bytes" };

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (cli_is_given(cli, texts[i]))
			cli_add_value(cli, slice_from(texts[i]), cli_get(cli, texts[i]));
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (cli_is_given(cli, numbers[i]))
			buf_printf(&cli->request, " %s=%" PRIu64, numbers[i],
				   cli_number(cli, numbers[i]));
}

static int change(struct cli *cli)
{
	struct tidemq_reply reply;
	const char *what = cli->words[0];

	for (int i = 1; i < cli->word_count; i++)
		cli_add_word(cli, cli->words[i]);
	if (strcmp(what, "add") == 0 || strcmp(what, "passwd") == 0)
		add_password(cli);
	add_options(cli);
	cli_ask(cli, &reply);
	explicit_bzero(cli->request.data, cli->request.cap);
	if (cli->status == CLI_DONE && cli->json)
		puts("{\"ok\":true}");
	return cli->status;
}

static json_t *join_tags(const json_t *user)
{
	const json_t *tags = json_object_get(user, "tags");
	struct buf text = { 0 };
	json_t *joined;

	for (size_t i = 0; i < json_array_size(tags); i++) {
		buf_append_text(&text, i ? "," : "");
		buf_append_text(&text, json_string_value(json_array_get(tags, i)));
	}
	joined = json_string(buf_cstr(&text));
	buf_deinit(&text);
	return joined;
}

/* A row for each vhost that the user may enter, or one. */
static void add_rows(json_t *rows, const json_t *user)
{
	json_t *vhosts = json_object_get(user, "vhosts"), *grant, *row;
	const char *vhost;
	size_t first = json_array_size(rows);

	json_object_foreach(vhosts, vhost, grant)
	{
		row = json_copy(grant);
		json_object_set_new(row, "vhost", json_string(vhost));
		json_array_append_new(rows, row);
	}
	if (json_object_size(vhosts) == 0)
		json_array_append_new(rows, json_object());
	for (size_t i = first; i < json_array_size(rows); i++)
		json_object_set(json_array_get(rows, i), "name",
				json_object_get(user, "name"));
}

static int list(struct cli *cli)
{
	static const struct cli_table_view view = {
		.columns = "name tags connections vhost configure write read "
			   "max-connections? "
			   "max-channels? publish-rate? publish-bytes? unreadable?"
	};
	json_t *users = cli_table_ask_document(cli), *table;
	size_t first = 0;

	if (!users)
		return cli->status;
	table = json_array();
	for (size_t i = 0; i < json_array_size(users); i++) {
		json_t *user = json_array_get(users, i), *row;

		add_rows(table, user);
		row = json_array_get(table, first);
		first = json_array_size(table);
		json_object_update(row, json_object_get(user, "limits"));
		json_object_set_new(row, "tags", join_tags(user));
		json_object_set(row, "connections", json_object_get(user, "connections"));
		if (json_object_get(user, "unreadable"))
			json_object_set(row, "unreadable",
					json_object_get(user, "unreadable"));
	}
	json_decref(users);
	return cli_table_print_take(table, &view);
}

static int run_user(struct cli *cli)
{
	buf_printf(&cli->request, "USER");
	cli_add_word(cli, cli->words[0]);
	return strcmp(cli->words[0], "list") == 0 && cli->word_count == 1 ? list(cli)
									  : change(cli);
}

static const struct option_row options[] = {
	{ COMMAND_TEXT("tags", "TAGS", NULL,
		       "add, set: admin, monitor, both with a comma, or ''") },
	{ COMMAND_FLAG("no-password",
		       "add: the user logs in by a certificate or a script alone") },
	{ COMMAND_TEXT("configure", "PATTERN", NULL,
		       "grant: names that the user may declare and delete") },
	{ COMMAND_TEXT("write", "PATTERN", NULL, "grant: to which it may publish") },
	{ COMMAND_TEXT("read", "PATTERN", NULL, "grant: from which it may consume") },
	{ COMMAND_NUMBER("max-connections", NULL, "set: 0 is no limit", 0, 1000000000) },
	{ COMMAND_NUMBER("max-channels", NULL, "set: likewise", 0, 1000000000) },
	{ COMMAND_NUMBER("publish-rate", NULL, "set: messages a second, likewise", 0,
			 1000000000) },
	{ COMMAND_BYTES("publish-bytes", NULL,
			"set: bytes a second, likewise; may end in K, M or G", 0,
			UINT64_C(1) << 40) },
	{ .name = NULL },
};

const struct cli_verb cli_user_verbs[] = {
	{ .name = "user",
	  .summary = "add, change, delete and list users",
	  .usage = "[options] add|passwd|delete|grant|revoke|set|list [NAME [VHOST]]",
	  .details =
		  "  add NAME            with the password that is typed, or that is the "
		  "first\n"
		  "                      line of standard input if that is no terminal\n"
		  "  passwd NAME         a new password, likewise\n"
		  "  grant NAME VHOST    what the user may do there; the pattern of what "
		  "is\n"
		  "                      not given matches nothing\n"
		  "  revoke NAME VHOST   it may not enter the vhost any more\n"
		  "  set NAME            tags and limits\n"
		  "  delete NAME         its connections end\n"
		  "  list                all users\n\n"
		  "PATTERN is an extended regular expression that matches anywhere in "
		  "the\n"
		  "name: '^orders' is what begins with it, '.*' is everything.\n"
		  "The first user needs --tags admin. From then on everybody must log "
		  "in:\n"
		  "tide://NAME:PASSWORD@HOST/, in $TIDEMQ_URL and not in --url.",
	  .examples = "  tidemq user add alice --tags admin\n"
		      "  tidemq user grant bob shop --write '^orders' --read '.*'\n"
		      "  tidemq user set bob --publish-rate 1000\n",
	  .options = options,
	  .words_min = 1,
	  .words_max = 3,
	  .run = run_user },
	{ .name = NULL },
};
