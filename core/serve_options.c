#include "serve_options.h"

#include <stddef.h>

#include "base/duration.h"
#include "base/id.h"
#include "base/mem.h"
#include "rules/sandbox/config_file.h"
#include "share.h"

enum type {
	TYPE_TEXT,
	TYPE_LISTEN,
	TYPE_UINT,
	TYPE_BYTES,
	TYPE_DURATION,
	TYPE_FSYNC,
	TYPE_LEVEL,
	TYPE_FLAG,
	TYPE_GATE,
	TYPE_HELP,
	TYPE_CONFIG
};

struct option_row {
	const char *name;
	const char *value; /* how it is called in the help; NULL: takes none */
	enum type type;
	size_t offset;
	uint64_t min, max;
	const char *help;
};

#define BROKER(field) offsetof(struct serve_options, broker.field)
#define SERVER(field) offsetof(struct serve_options, server.field)
#define KIB UINT64_C(1024)
#define GIB (KIB * KIB * KIB)
#define DAY_MS (UINT64_C(24) * 3600 * 1000)

static const struct option_row rows[] = {
	{ "listen", "ADDRESS", TYPE_LISTEN, 0, 0, 0,
	  "HOST:PORT, [IPv6]:PORT or unix:PATH; may be given several times; port 0 takes "
	  "a free one "
	  "(127.0.0.1:7310)" },
	{ "data", "DIR", TYPE_TEXT, BROKER(store.data_dir), 0, 0,
	  "where the embedded Redis keeps its files (./data)" },
	{ "rules", "DIR", TYPE_TEXT, BROKER(rules_dir), 0, 0,
	  "the rule scripts (./rules, or the installed ones)" },
	{ "store", "URL", TYPE_TEXT, BROKER(store.url), 0, 0,
	  "embedded, none, redis://[user:pass@]host[:port][/db] or redis+unix:PATH "
	  "(embedded)" },
	{ "fsync", "WHEN", TYPE_FSYNC, 0, 0, 0,
	  "always, everysec or no: when the embedded Redis syncs to disk (always)" },
	{ "node", "N", TYPE_UINT, BROKER(node), 0, ID_NODE_MAX,
	  "this broker's number in message ids, 0-1023 (0)" },
	{ "max-connections", "N", TYPE_UINT, SERVER(connections_max), 1, 1000000,
	  "more are answered ERR limit (20000)" },
	{ "max-payload", "BYTES", TYPE_BYTES, SERVER(payload_max), 1, 256 * KIB *KIB,
	  "of a message, 256M at most; K, M and G may follow the number (16M)" },
	{ "max-memory", "BYTES", TYPE_BYTES, BROKER(memory_max_bytes), KIB *KIB,
	  1024 * GIB, "of messages in memory, before publishers are held back (1G)" },
	{ "max-unstored", "BYTES", TYPE_BYTES, BROKER(unstored_max_bytes), KIB *KIB,
	  1024 * GIB,
	  "of messages not yet durable, before publishers are held back (64M)" },
	{ "max-channels", "N", TYPE_UINT, BROKER(channels_max), 1, 65535,
	  "of a connection, besides channel 0 (256)" },
	{ "max-consumers", "N", TYPE_UINT, BROKER(consumers_max), 1, 10000000,
	  "subscriptions of a connection (65535)" },
	{ "max-pending", "N", TYPE_UINT, BROKER(replies_max), 1, 1000000,
	  "unanswered requests of a connection, before it is not read (16384)" },
	{ "max-vhosts", "N", TYPE_UINT, BROKER(vhosts_max), 1, 100000, "(256)" },
	{ "max-queues", "N", TYPE_UINT, BROKER(queues_max), 1, 100000000,
	  "of all vhosts together (1000000)" },
	{ "max-exchanges", "N", TYPE_UINT, BROKER(exchanges_max), 1, 100000000,
	  "likewise (1000000)" },
	{ "max-bindings", "N", TYPE_UINT, BROKER(bindings_max), 1, 100000000,
	  "likewise (1000000)" },
	{ "window-messages", "N", TYPE_UINT, BROKER(window_messages), 16, 10000000,
	  "of a shard that are kept in memory; the rest is in Redis alone (16384)" },
	{ "window-bytes", "BYTES", TYPE_BYTES, BROKER(window_bytes), KIB * 64, 64 * GIB,
	  "likewise (16M)" },
	{ "idle-timeout", "TIME", TYPE_DURATION, SERVER(idle_timeout_ms), 0, DAY_MS,
	  "a connection silent for so long is closed; 0 = never (0)" },
	{ "write-timeout", "TIME", TYPE_DURATION, SERVER(write_timeout_ms), 0, DAY_MS,
	  "a connection that reads nothing of what waits for it for so long is closed; 0 "
	  "= never (5m)" },
	{ "drain-timeout", "TIME", TYPE_DURATION,
	  offsetof(struct serve_options, drain_timeout_ms), 0, DAY_MS,
	  "at SIGTERM, for answers still owed (5s)" },
	{ "rules-memory", "BYTES", TYPE_BYTES, BROKER(rules_memory_bytes), KIB *KIB,
	  64 * GIB, "of all scripts together, with what they keep of bindings (256M)" },
	{ "rules-budget", "TIME", TYPE_DURATION, BROKER(rules_budget_ms), 1, 60000,
	  "of one call into a script (50ms)" },
	{ "max-shared", "N", TYPE_BYTES, BROKER(shared_entries_max), 1, 100000000,
	  "entries that scripts keep in tide.shared, counters and buckets (100000)" },
	{ "max-shared-bytes", "BYTES", TYPE_BYTES, BROKER(shared_bytes_max), KIB * 64,
	  64 * GIB, "of these (16M)" },
	{ "dedupe-window", "TIME", TYPE_DURATION, BROKER(dedupe_window_ms), 0, DAY_MS,
	  "how long queues remember the ids of publishes (PUB id=); 0 = not (2m)" },
	{ "max-dedupe-bytes", "BYTES", TYPE_BYTES, BROKER(dedupe_max_bytes), KIB * 64,
	  1024 * GIB,
	  "of ids that are remembered; more publishes with one are refused (256M)" },
	{ "rules-gate", "WHAT", TYPE_GATE, 0, 0, 0,
	  "test: rules go in force when their specs pass (tidemq test); none (none)" },
	{ "replay-payloads", NULL, TYPE_FLAG, BROKER(replay_payloads), 0, 0,
	  "keep the payloads of the recent publishes, for RULES recent and RULES "
	  "replay" },
	{ "log", "LEVEL", TYPE_LEVEL, 0, 0, 0, "error, warn, info or debug (info)" },
	{ "config", "FILE", TYPE_CONFIG, 0, 0, 0,
	  "a Lua file that returns a table of these options, { fsync = \"no\", ... }; "
	  "the command "
	  "line has the last word" },
	{ "help", NULL, TYPE_HELP, 0, 0, 0, "this" },
};
#define ROW_COUNT (sizeof(rows) / sizeof(rows[0]))

static void set_defaults(struct serve_options *o)
{
	*o = (struct serve_options){ .drain_timeout_ms = 5000, .log_level = LOG_INFO };
	broker_config_init(&o->broker);
	server_config_init(&o->server);
	/* A checkout or a directory of one's own comes before what is installed. */
	o->broker.rules_dir = share_rules_dir();
	o->broker.lua_dir = share_lua_dir();
}

/* "16M" and the like. */
static bool read_bytes(struct slice s, uint64_t max, uint64_t *out)
{
	uint64_t unit = 1;

	if (s.len && strchr("KMG", s.data[s.len - 1])) {
		unit = s.data[s.len - 1] == 'K'   ? KIB
		       : s.data[s.len - 1] == 'M' ? KIB * KIB
						  : GIB;
		s.len--;
	}
	if (!slice_to_uint(s, max / unit, out))
		return false;
	*out *= unit;
	return true;
}

static int set_fsync(struct serve_options *o, const char *value, struct error *err)
{
	static const char *const names[] = {
		[STORE_FSYNC_ALWAYS] = "always",
		[STORE_FSYNC_EVERYSEC] = "everysec",
		[STORE_FSYNC_NO] = "no",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(value, names[i]) == 0) {
			o->broker.store.fsync = (enum store_fsync)i;
			return TIDE_OK;
		}
	}
	return error_set(err, TIDE_ESYNTAX,
			 "--fsync %s: wanted is always, everysec or no", value);
}

static int set_number(struct serve_options *o, const struct option_row *row,
		      const char *value, struct error *err)
{
	void *field = (char *)o + row->offset;
	struct slice s = slice_from(value);
	uint64_t n = 0;
	int64_t ms;
	bool is_good;

	if (row->type == TYPE_DURATION) {
		is_good = duration_parse(s, &ms) == TIDE_OK;
		n = is_good ? (uint64_t)ms : 0;
	} else {
		is_good = row->type == TYPE_BYTES ? read_bytes(s, row->max, &n)
						  : slice_to_uint(s, row->max, &n);
	}
	if (!is_good || n < row->min || n > row->max)
		return error_set(
			err, TIDE_ESYNTAX, "--%s %s: wanted is %s from %llu to %llu%s",
			row->name, value,
			row->type == TYPE_DURATION ? "a time like 250ms or 30s,"
						   : "a number",
			(unsigned long long)row->min, (unsigned long long)row->max,
			row->type == TYPE_DURATION ? " ms" : "");
	if (row->type == TYPE_DURATION)
		*(int64_t *)field = (int64_t)n;
	else if (row->type == TYPE_BYTES || row->offset == BROKER(window_messages))
		*(size_t *)field = (size_t)n;
	else
		*(unsigned *)field = (unsigned)n;
	return TIDE_OK;
}

/* On the command line a flag has no value, in a file it is true or false. */
static int set_flag(struct serve_options *o, const struct option_row *row,
		    const char *value, struct error *err)
{
	if (value && strcmp(value, "0") != 0 && strcmp(value, "1") != 0)
		return error_set(err, TIDE_ESYNTAX, "--%s %s: wanted is true or false",
				 row->name, value);
	*(bool *)((char *)o + row->offset) = !value || value[0] == '1';
	return TIDE_OK;
}

static int set_option(struct serve_options *o, const struct option_row *row,
		      const char *value, struct error *err)
{
	switch (row->type) {
	case TYPE_TEXT:
		*(const char **)((char *)o + row->offset) = value;
		return TIDE_OK;
	case TYPE_LISTEN:
		if (o->listen_count == SERVE_LISTEN_MAX)
			return error_set(err, TIDE_ESYNTAX,
					 "--listen may be given %d times",
					 SERVE_LISTEN_MAX);
		o->listen[o->listen_count++] = value;
		return TIDE_OK;
	case TYPE_FSYNC:
		return set_fsync(o, value, err);
	case TYPE_LEVEL:
		if (log_level_parse(slice_from(value), &o->log_level) < 0)
			return error_set(err, TIDE_ESYNTAX,
					 "--log %s: wanted is error, warn, info or debug",
					 value);
		return TIDE_OK;
	case TYPE_FLAG:
		return set_flag(o, row, value, err);
	case TYPE_GATE:
		if (strcmp(value, "test") != 0 && strcmp(value, "none") != 0)
			return error_set(err, TIDE_ESYNTAX,
					 "--rules-gate %s: wanted is test or none",
					 value);
		o->broker.has_rules_gate = value[0] == 't';
		return TIDE_OK;
	case TYPE_HELP:
		o->is_help = true;
		return TIDE_OK;
	case TYPE_CONFIG: /* read before all others */
		return TIDE_OK;
	case TYPE_UINT:
	case TYPE_BYTES:
	case TYPE_DURATION:
		return set_number(o, row, value, err);
	}
	return TIDE_OK;
}

static const struct option_row *find_row(const char *name, size_t len)
{
	for (size_t i = 0; i < ROW_COUNT; i++)
		if (strlen(rows[i].name) == len && strncmp(rows[i].name, name, len) == 0)
			return &rows[i];
	return NULL;
}

static int set_from_file(void *ctx, const char *name, const char *value,
			 struct error *err)
{
	struct serve_options *o = ctx;
	const struct option_row *row = find_row(name, strlen(name));

	/* A table's key may be written "rules.gate", as a part of the rules. */
	if (!row && strcmp(name, "rules.gate") == 0)
		row = find_row("rules-gate", strlen("rules-gate"));

	if (!row || row->type == TYPE_HELP || row->type == TYPE_CONFIG)
		return error_set(
			err, TIDE_ESYNTAX,
			"the configuration has no option '%s'; see tidemq help serve",
			name);
	if (o->from_file_count == SERVE_FILE_VALUES_MAX)
		return error_set(err, TIDE_ESYNTAX,
				 "the configuration has more than %d values",
				 SERVE_FILE_VALUES_MAX);
	o->from_file[o->from_file_count] = mem_strdup(value);
	return set_option(o, row, o->from_file[o->from_file_count++], err);
}

/* Split "--name=value" or "--name value"; `*i` moves on over the value. */
static int next_option(int argc, char **argv, int *i, const struct option_row **row,
		       const char **value, struct error *err)
{
	const char *arg = argv[*i];
	const char *equals = strchr(arg, '=');

	if (strncmp(arg, "--", 2) != 0)
		return error_set(
			err, TIDE_ESYNTAX,
			"serve takes options alone, not '%s'; see tidemq help serve",
			arg);
	*row = find_row(arg + 2, equals ? (size_t)(equals - arg - 2) : strlen(arg + 2));
	if (!*row)
		return error_set(err, TIDE_ESYNTAX,
				 "serve has no option '%s'; see tidemq help serve", arg);
	*value = NULL;
	if ((*row)->value)
		*value = equals ? equals + 1 : ++*i < argc ? argv[*i] : NULL;
	if ((*row)->value && !*value)
		return error_set(err, TIDE_ESYNTAX, "--%s needs a value: %s",
				 (*row)->name, (*row)->value);
	return TIDE_OK;
}

static int read_config(struct serve_options *o, int argc, char **argv, struct error *err)
{
	const struct option_row *row;
	const char *value;

	for (int i = 1; i < argc; i++) {
		int rc = next_option(argc, argv, &i, &row, &value, err);

		if (rc == TIDE_OK && row->type == TYPE_CONFIG)
			rc = config_file_read(value, set_from_file, o, err);
		if (rc < 0)
			return rc;
	}
	return TIDE_OK;
}

int serve_options_parse(struct serve_options *o, int argc, char **argv, struct error *err)
{
	const struct option_row *row;
	const char *value;
	bool has_listen = false;
	int rc;

	set_defaults(o);
	rc = read_config(o, argc, argv, err);
	for (int i = 1; i < argc && rc == TIDE_OK; i++) {
		rc = next_option(argc, argv, &i, &row, &value, err);
		/* Listeners of the command line replace those of the file. */
		if (rc == TIDE_OK && row->type == TYPE_LISTEN && !has_listen) {
			has_listen = true;
			o->listen_count = 0;
		}
		if (rc == TIDE_OK)
			rc = set_option(o, row, value, err);
	}
	if (rc == TIDE_OK && o->listen_count == 0)
		o->listen[o->listen_count++] = "127.0.0.1:7310";
	return rc;
}

void serve_options_deinit(struct serve_options *o)
{
	for (unsigned i = 0; i < o->from_file_count; i++)
		mem_free(o->from_file[i]);
	o->from_file_count = 0;
}

void serve_options_help(FILE *out)
{
	fputs("tidemq serve [options]: run a broker\n\n"
	      "Prints `listening on ADDRESS` on standard output for each listener. "
	      "SIGTERM or Ctrl-C\n"
	      "ends it in order, SIGHUP reloads the rules.\n\n",
	      out);
	for (size_t i = 0; i < ROW_COUNT; i++) {
		char head[48];

		snprintf(head, sizeof(head), "--%s%s%s", rows[i].name,
			 rows[i].value ? " " : "", rows[i].value ? rows[i].value : "");
		fprintf(out, "  %-24s %s\n", head, rows[i].help);
	}
}
