#include "serve.h"

#include <stddef.h>
#include <stdlib.h>

#include "base/option.h"
#include "base/id.h"
#include "base/mem.h"
#include "http/http.h"
#include "rules/sandbox/config_file.h"
#include "settings.h"
#include "share.h"

#define FIELD(field)                                     \
	.offset = offsetof(struct serve_options, field), \
	.size = sizeof(((struct serve_options *)0)->field)
#define BROKER(field) FIELD(broker.field)
#define SERVER(field) FIELD(server.field)
#define KIB UINT64_C(1024)
#define MIB (KIB * KIB)
#define GIB (KIB * MIB)
#define DAY_MS (UINT64_C(24) * 3600 * 1000)
#define LISTEN_DEFAULT "127.0.0.1:7310"
#define HTTP_DEFAULT "127.0.0.1:7311"

/* The words of a choice are in the order of their enum. Options without a field are
 * handled in set_option. */
/* clang-format off */
static const struct option_row rows[] = {
	{ COMMAND_TEXT("listen", "ADDRESS", LISTEN_DEFAULT, "HOST:PORT, [IPv6]:PORT, tls:HOST:PORT or unix:PATH; may be repeated; port 0 takes a free one") },
	{ COMMAND_TEXT("http", "ADDRESS", HTTP_DEFAULT, "where the dashboard, the API, metrics and health are, in the same forms; none = nowhere"), FIELD(http) },
	{ COMMAND_TEXT("http-host", "NAME", NULL, "a name that HTTP may be asked by while nobody must log in, besides localhost and addresses; may be repeated") },
	{ COMMAND_TEXT("http-origin", "ORIGIN", NULL, "whose pages browsers may let ask, besides those of the broker: https://app.example:8443, or * for all; may be repeated") },
	{ COMMAND_DURATION("http-timeout", "20s", "close a connection whose HTTP request has not come by then; a long body has more time", 100, DAY_MS), SERVER(http_timeout_ms) },
	{ COMMAND_TEXT("socket-mode", "MODE", "0600", "who may connect to a unix:PATH: 0660 owner and group, 0666 all") },
	{ COMMAND_TEXT("socket-group", "GROUP", "that of the process", "the group of a unix:PATH"), SERVER(socket_group) },
	{ COMMAND_FLAG("anonymous", "listen on addresses that others reach, although no user is defined: they may do everything"), FIELD(is_anonymous) },
	{ COMMAND_TEXT("tls-cert", "FILE", NULL, "the certificate of tls:HOST:PORT, then those that lead to its root; PEM"), SERVER(tls.cert) },
	{ COMMAND_TEXT("tls-key", "FILE", NULL, "its key, not encrypted; PEM"), SERVER(tls.key) },
	{ COMMAND_TEXT("tls-ca", "FILE", NULL, "whom to trust with clients' certificates; PEM"), SERVER(tls.ca) },
	{ COMMAND_CHOICE("tls-client", "none|wanted|required", "none", "whether clients are asked for a certificate"), SERVER(tls_client) },
	{ COMMAND_FLAG("tls-user", "the common name in a client's certificate is its user; no password is asked for"), SERVER(is_tls_user) },
	{ COMMAND_DURATION("handshake-timeout", "10s", "close a connection whose TLS is not agreed upon by then", 100, DAY_MS), SERVER(handshake_timeout_ms) },
	{ COMMAND_TEXT("data", "DIR", "./data", "where the embedded Redis keeps its files"), BROKER(store.data_dir) },
	{ COMMAND_TEXT("rules", "DIR", "./rules, or the installed ones", "the rules directory"), BROKER(rules_dir) },
	{ COMMAND_TEXT("store", "URL", "embedded", "embedded, none, redis://[user:pass@]host[:port][/db] (nodes of a Redis Cluster with commas), rediss:// with TLS and ?ca=FILE, redis+unix:PATH, or redis+sentinel://host,host,host/name[/db]; $TIDEMQ_STORE keeps a password out of sight"), BROKER(store.url) },
	{ COMMAND_FLAG("standby", "wait while another broker holds the store, and take over when it ends; with a Redis of your own"), FIELD(is_standby) },
	{ COMMAND_TEXT("cluster", "ADDRESS", NULL, "where other brokers of the store come in, in the forms of --listen; while another broker owns the store, this one passes its clients through to it, and takes over when it ends"), FIELD(cluster) },
	{ COMMAND_NUMBER("cells", "1", "split the vhosts of the store into so many cells, each with an owner of its own; the same at all brokers, with --cluster", 1, STORE_CELLS_MAX), BROKER(store.cells) },
	{ COMMAND_TEXT("advertise", "ADDRESS", NULL, "HOST:PORT that other brokers connect to, if it is not the address of --cluster"), FIELD(advertise) },
	{ COMMAND_TEXT("confirm", "LEVEL", "master", "what OK means: master, Redis has it; replicas=N, so many replicas of it too; synced=N, these on disk (Redis 7.2)") },
	{ COMMAND_CHOICE("fsync", "always|everysec|no", "always", "when the embedded Redis syncs to disk"), BROKER(store.fsync) },
	{ COMMAND_NUMBER("node", "0", "the number of this broker in message ids, 0-1023", 0, ID_NODE_MAX), BROKER(node) },
	{ COMMAND_NUMBER("max-connections", "20000", "clients; further ones get ERR limit", 1, 1000000), SERVER(connections_max) },
	{ COMMAND_NUMBER("max-unauthenticated", "0", "of these, those that must log in and have not; above it the oldest of them is closed; 0 = a quarter of --max-connections", 0, 1000000), SERVER(strangers_max) },
	{ COMMAND_DURATION("login-timeout", "10s", "time to log in, where that is needed; 0 = for ever", 0, DAY_MS), SERVER(login_timeout_ms) },
	{ COMMAND_NUMBER("address-connections", "0", "connections of one address, further ones get ERR limit; 0 = no limit, as for the next three", 0, 1000000), BROKER(address_limits.connections) },
	{ COMMAND_NUMBER("address-channels", "0", "channels of all connections of an address", 0, 1000000000), BROKER(address_limits.channels) },
	{ COMMAND_NUMBER("address-publish-rate", "0", "messages a second that an address may publish", 0, 1000000000), BROKER(address_limits.publish_rate) },
	{ COMMAND_BYTES("address-publish-bytes", "0", "bytes a second that an address may publish", 0, 1024 * GIB), BROKER(address_limits.publish_bytes) },
	{ COMMAND_BYTES("max-payload", "16M", "payload of a message, at most 256M; numbers may end in K, M or G", 1, 256 * MIB), SERVER(payload_max) },
	{ COMMAND_BYTES("max-memory", "1G", "memory for messages; at the limit publishers and schedules are held back", MIB, 1024 * GIB), BROKER(memory_max_bytes) },
	{ COMMAND_BYTES("max-unstored", "64M", "messages not yet durable; at the limit publishers and schedules are held back", MIB, 1024 * GIB), BROKER(unstored_max_bytes) },
	{ COMMAND_BYTES("topic-memory", "64M", "the newest messages of all topics, for readers at their ends", MIB, 1024 * GIB), BROKER(tail_bytes) },
	{ COMMAND_NUMBER("max-channels", "256", "channels of a connection, without channel 0", 1, 65535), BROKER(channels_max) },
	{ COMMAND_NUMBER("max-consumers", "65535", "subscriptions of a connection", 1, 10000000), BROKER(consumers_max) },
	{ COMMAND_NUMBER("max-pending", "16384", "unanswered requests of a connection; at the limit it is not read", 1, 1000000), BROKER(replies_max) },
	{ COMMAND_NUMBER("max-transaction-messages", "16384", "messages that one transaction publishes and settles", 1, 1000000), BROKER(transaction_messages_max) },
	{ COMMAND_BYTES("max-transaction-bytes", "32M", "memory for the requests of one transaction", 64 * KIB, 1024 * GIB), BROKER(transaction_bytes_max) },
	{ COMMAND_BYTES("max-transactions-bytes", "256M", "memory for those of all open transactions; at the limit further requests of a transaction are refused", 64 * KIB, 1024 * GIB), BROKER(transactions_bytes_max) },
	{ COMMAND_NUMBER("max-locks", "100000", "locks that are held", 1, 10000000), BROKER(locks_max) },
	{ COMMAND_NUMBER("max-vhosts", "256", "vhosts", 1, 100000), BROKER(vhosts_max) },
	{ COMMAND_NUMBER("max-queues", "1000000", "queues in all vhosts", 1, 100000000), BROKER(queues_max) },
	{ COMMAND_NUMBER("max-exchanges", "1000000", "exchanges in all vhosts", 1, 100000000), BROKER(exchanges_max) },
	{ COMMAND_NUMBER("max-bindings", "1000000", "bindings in all vhosts", 1, 100000000), BROKER(bindings_max) },
	{ COMMAND_NUMBER("max-groups", "1000", "groups of a topic", 1, 100000), BROKER(groups_max) },
	{ COMMAND_NUMBER("window-messages", "16384", "messages of a shard in memory; further ones stay in Redis", 16, 10000000), BROKER(window_messages) },
	{ COMMAND_BYTES("window-bytes", "16M", "memory for the messages of a shard", 64 * KIB, 64 * GIB), BROKER(window_bytes) },
	{ COMMAND_NUMBER("parked-messages", "1000000", "messages of a shard that wait behind others of their group, and such groups (order-by)", 16, 100000000), BROKER(parked_messages) },
	{ COMMAND_DURATION("idle-timeout", "0", "close a connection after this long without input; 0 = never", 0, DAY_MS), SERVER(idle_timeout_ms) },
	{ COMMAND_DURATION("write-timeout", "5m", "close a connection that reads no output for this long; 0 = never", 0, DAY_MS), SERVER(write_timeout_ms) },
	{ COMMAND_DURATION("drain-timeout", "5s", "time at SIGTERM to answer what was asked", 0, DAY_MS), FIELD(drain_timeout_ms) },
	{ COMMAND_DURATION("stop-timeout", "5s", "time after that for Redis to store what was returned, and to stop; then it is not waited for", 0, DAY_MS), FIELD(stop_timeout_ms) },
	{ COMMAND_BYTES("rules-memory", "256M", "memory for all scripts, with what they keep of bindings", MIB, 64 * GIB), BROKER(rules_memory_bytes) },
	{ COMMAND_DURATION("rules-budget", "50ms", "processor time of a call of a script", 1, 60000), BROKER(rules_budget_ms) },
	{ COMMAND_NUMBER("max-shared", "100000", "entries in tide.shared, counters and buckets", 1, 100000000), BROKER(shared_entries_max) },
	{ COMMAND_BYTES("max-shared-bytes", "16M", "memory for tide.shared, counters and buckets", 64 * KIB, 64 * GIB), BROKER(shared_bytes_max) },
	{ COMMAND_DURATION("dedupe-window", "2m", "how long queues remember publish ids (PUB id=); 0 = never", 0, DAY_MS), BROKER(dedupe_window_ms) },
	{ COMMAND_BYTES("max-dedupe-bytes", "256M", "memory for these ids; at the limit publishes with an id are refused", 64 * KIB, 1024 * GIB), BROKER(dedupe_max_bytes) },
	{ COMMAND_CHOICE("rules-gate", "none|test", "none", "test: rules become active only when their specs pass"), BROKER(has_rules_gate) },
	{ COMMAND_DURATION("rules-gate-timeout", "15s", "with --rules-gate test: specs that take longer fail", 100, DAY_MS), BROKER(rules_gate_timeout_ms) },
	{ COMMAND_NUMBER("rules-rollback", "0", "go back to the rules before when the first N publishes by new rules all fail; 0 = never", 0, 1000000), BROKER(rules_rollback) },
	{ COMMAND_TEXT("rules-candidates", "DIR", "where the rules directory is", "RULES shadow and RULES replay take directories below this one alone"), BROKER(rules_candidates) },
	{ COMMAND_FLAG("rules-writable", "rules push writes what it activates into the rules directory"), BROKER(is_rules_dir_writable) },
	{ COMMAND_TEXT("rules-set", "NAME=VALUE", NULL, "what tide.setting gives to scripts; NAME alone takes it from the environment; may be repeated") },
	{ COMMAND_TEXT("secrets", "DIR", "none", "tide.secret of a script reads files of this directory"), BROKER(secrets_dir) },
	{ COMMAND_FLAG("replay-payloads", "keep the payloads of recent publishes for RULES recent and replay"), BROKER(replay_payloads) },
	{ COMMAND_CHOICE("log", "error|warn|info|debug", "info", "the least severe lines that are logged"), FIELD(log_level) },
	{ COMMAND_CHOICE("log-format", "text|json", "text", "json: each line is an object with time, level, component and message"), FIELD(log_format) },
	{ COMMAND_DURATION("slow-turn", "100ms", "log what a turn of the event loop did that took longer; 0 = never", 0, 60000), BROKER(slow_turn_ms) },
	{ COMMAND_TEXT("config", "FILE", NULL, "a Lua file that returns a table of these options, { fsync = \"no\", ... }; the command line overrides it") },
	{ COMMAND_FLAG("help", "print this page") },
	{ .name = NULL },
};
/* clang-format on */

static void set_field(struct serve_options *o, const struct option_row *row,
		      const char *text, uint64_t value)
{
	if (row->type == OPTION_TEXT && row->arg)
		*(const char **)(void *)((char *)o + row->offset) = text;
	else
		option_set_field(row, o, value);
}

static void set_defaults(struct serve_options *o)
{
	uint64_t value;

	*o = (struct serve_options){ 0 };
	broker_config_init(&o->broker);
	server_config_init(&o->server);
	for (const struct option_row *row = rows; row->name; row++)
		if (row->type != OPTION_TEXT &&
		    option_value(row, row->fallback, &value, NULL) == TIDE_OK)
			set_field(o, row, row->fallback, value);
	if (getenv("TIDEMQ_STORE"))
		o->broker.store.url = getenv("TIDEMQ_STORE");
	o->broker.program = "/proc/self/exe";
	/* A checkout or a directory of one's own comes before what is installed. */
	o->broker.rules_dir = share_rules_dir();
	o->broker.lua_dir = share_lua_dir();
}

static int set_socket_mode(struct serve_options *o, const char *text, struct error *err)
{
	size_t digits = strspn(text, "01234567");

	if (digits < 3 || digits > 4 || text[digits] || strtoul(text, NULL, 8) > 0777)
		return error_set(err, TIDE_ESYNTAX,
				 "--socket-mode must be three octal digits like 660, not "
				 "'%s'",
				 text);
	o->server.socket_mode = (unsigned)strtoul(text, NULL, 8);
	return TIDE_OK;
}

/* An option that may be repeated. */
static int add_text(const char **list, unsigned *count, unsigned max,
		    const struct option_row *row, const char *text, struct error *err)
{
	if (*count == max)
		return error_set(err, TIDE_ESYNTAX, "--%s may be given %u times",
				 row->name, max);
	list[(*count)++] = text;
	return TIDE_OK;
}

static int set_option(struct serve_options *o, const struct option_row *row,
		      const char *text, uint64_t value, struct error *err)
{
	struct server_config *c = &o->server;

	o->is_max_connections_asked |= strcmp(row->name, "max-connections") == 0;
	if (row->size)
		set_field(o, row, text, value);
	else if (strcmp(row->name, "help") == 0)
		o->is_help = true;
	else if (strcmp(row->name, "socket-mode") == 0)
		return set_socket_mode(o, text, err);
	else if (strcmp(row->name, "confirm") == 0)
		return store_confirm_parse(text, &o->broker.store.confirm, err);
	else if (strcmp(row->name, "rules-set") == 0)
		return settings_add(&o->settings, text, err);
	else if (strcmp(row->name, "http-host") == 0)
		return add_text(c->http_hosts, &c->http_host_count, SERVER_HTTP_HOSTS_MAX,
				row, text, err);
	else if (strcmp(row->name, "listen") == 0)
		return add_text(o->listen, &o->listen_count, SERVE_LISTEN_MAX, row, text,
				err);
	else if (strcmp(row->name, "http-origin") != 0)
		return TIDE_OK;
	else if (!http_is_origin(text))
		return error_set(err, TIDE_ESYNTAX,
				 "--http-origin must be like https://app.example:8443, "
				 "without a path, or *; not '%s'",
				 text);
	else
		return add_text(c->http_origins, &c->http_origin_count,
				SERVER_HTTP_HOSTS_MAX, row, text, err);
	return TIDE_OK;
}

/* A flag is true or false in a file: "1" or "0". */
static int read_file_value(const struct option_row *row, const char *text, uint64_t *out,
			   struct error *err)
{
	if (row->arg)
		return option_value(row, text, out, err);
	*out = text[0] == '1';
	if (strcmp(text, "0") != 0 && strcmp(text, "1") != 0)
		return error_set(err, TIDE_ESYNTAX,
				 "--%s must be true or false, not '%s'", row->name, text);
	return TIDE_OK;
}

static int set_from_file(void *ctx, const char *name, const char *value,
			 struct error *err)
{
	struct serve_options *o = ctx;
	const struct option_row *row = option_find(rows, name);
	uint64_t number;
	char *text;
	int rc;

	/* A key of the table may be written "rules.gate", as a part of the rules. */
	if (strcmp(name, "rules.gate") == 0)
		row = option_find(rows, "rules-gate");
	if (!row || strcmp(name, "help") == 0 || strcmp(name, "config") == 0)
		return error_set(err, TIDE_ESYNTAX,
				 "the configuration has no option '%s'", name);
	if (o->from_file_count == SERVE_FILE_VALUES_MAX)
		return error_set(err, TIDE_ESYNTAX,
				 "the configuration has more than %d values",
				 SERVE_FILE_VALUES_MAX);
	text = o->from_file[o->from_file_count++] = mem_strdup(value);
	rc = read_file_value(row, text, &number, err);
	return rc < 0 ? rc : set_option(o, row, text, number, err);
}

/* Other brokers dial HOST:PORT or [IPv6]:PORT, and no port 0. */
static bool is_dialable(const char *at)
{
	const char *colon = strrchr(at, ':');
	uint64_t port;

	return colon && colon > at && (at[0] == '[' || strchr(at, ':') == colon) &&
	       slice_to_uint(slice_from(colon + 1), 65535, &port) && port > 0;
}

static int set_hold(struct serve_options *o, struct error *err)
{
	struct store_config *store = &o->broker.store;

	store->node = o->broker.node;
	store->hold =
		o->is_standby || o->cluster ? STORE_HOLD_OR_WAIT : STORE_HOLD_OR_FAIL;
	if ((o->is_standby || o->cluster) && strncmp(store->url, "redis", 5) != 0)
		return error_set(err, TIDE_ESYNTAX,
				 "--%s needs a Redis that %s brokers reach, "
				 "--store redis://HOST, not --store %s",
				 o->cluster ? "cluster" : "standby",
				 o->cluster ? "all" : "both", store->url);
	if (store->cells > 1 && !o->cluster)
		return error_set(err, TIDE_ESYNTAX,
				 "--cells %u needs --cluster: brokers pass clients on to "
				 "each other",
				 store->cells);
	if (o->advertise && !o->cluster)
		return error_set(err, TIDE_ESYNTAX, "--advertise needs --cluster");
	if (o->advertise && !is_dialable(o->advertise))
		return error_set(err, TIDE_ESYNTAX,
				 "--advertise must be HOST:PORT or [IPv6]:PORT, not '%s'",
				 o->advertise);
	if (store->confirm.replicas > 0 && strncmp(store->url, "redis", 5) != 0)
		return error_set(err, TIDE_ESYNTAX,
				 "--confirm above master needs a Redis with replicas, "
				 "--store redis://HOST, not --store %s",
				 store->url);
	return TIDE_OK;
}

/* The command line overrides the files: these are read first, and its listeners
 * replace theirs. */
static int apply_line(struct serve_options *o, const struct command_line *line,
		      struct error *err)
{
	int rc = TIDE_OK;

	for (int i = 0; i < line->given_count && rc == TIDE_OK; i++)
		if (strcmp(line->given[i].option->name, "config") == 0)
			rc = config_file_read(line->given[i].text, set_from_file, o, err);
	if (option_given(line, "listen"))
		o->listen_count = 0;
	for (int i = 0; i < line->given_count && rc == TIDE_OK; i++)
		rc = set_option(o, line->given[i].option, line->given[i].text,
				line->given[i].value, err);
	if (rc == TIDE_OK && o->listen_count == 0)
		o->listen[o->listen_count++] = LISTEN_DEFAULT;
	o->is_http_asked = o->http != NULL;
	if (!o->http)
		o->http = HTTP_DEFAULT;
	else if (strcmp(o->http, "none") == 0)
		o->http = NULL;
	return rc < 0 ? rc : set_hold(o, err);
}

/* Every user of the machine can read the command line of a process. */
static void hide_password(struct serve_options *o, const struct command_line *line)
{
	for (int i = 0; i < line->given_count; i++) {
		char *text = (char *)(uintptr_t)line->given[i].text;
		char *at = strrchr(text, '@');
		char *of_sentinels = strstr(text, "sentinel-password=");

		if (strcmp(line->given[i].option->name, "store") != 0 ||
		    (!at && !of_sentinels))
			continue;
		mem_free(o->store_url);
		o->broker.store.url = o->store_url = mem_strdup(text);
		if (at)
			memset(text, '*', (size_t)(at - text));
		if (of_sentinels)
			memset(of_sentinels, '*', strlen(of_sentinels));
	}
}

int serve_options_parse(struct serve_options *o, int argc, char **argv, struct error *err)
{
	struct command_line line = { .options = rows };
	int rc;

	set_defaults(o);
	rc = option_take_line(&line, argc, argv, err);
	if (rc == TIDE_OK && line.word_count > 0)
		rc = error_set(err, TIDE_ESYNTAX, "it takes only options, not '%s'",
			       line.words[0]);
	if (rc == TIDE_OK)
		rc = apply_line(o, &line, err);
	if (rc == TIDE_OK)
		hide_password(o, &line);
	o->broker.rules_settings = &o->settings;
	settings_pass_on(&o->settings);
	return rc;
}

void serve_options_deinit(struct serve_options *o)
{
	for (unsigned i = 0; i < o->from_file_count; i++)
		mem_free(o->from_file[i]);
	o->from_file_count = 0;
	args_deinit(&o->settings);
	mem_free(o->store_url);
	o->store_url = NULL;
}

void serve_options_help(FILE *out)
{
	struct buf options = { 0 };

	option_help(rows, &options);
	fprintf(out,
		"usage: tidemq serve [options]\n\n"
		"run a broker.\n\n"
		"It prints `listening on ADDRESS` on standard output for each listener,\n"
		"then `http on ADDRESS`.\n"
		"SIGTERM or Ctrl-C stops it in order; SIGHUP reloads the rules.\n"
		"SIGUSR1 drains it as DRAIN does: publishes are refused, the rest is "
		"served.\n\n"
		"options, with their defaults in parentheses:\n%s\n"
		"examples:\n"
		"  tidemq serve --data /srv/queue --listen 127.0.0.1:7310\n"
		"  tidemq serve --config /etc/tidemq/tidemq.lua\n"
		"  tidemq serve --store redis://queue-redis --standby\n"
		"  tidemq serve --store redis://queue-redis --cluster 10.0.0.1:7312\n\n"
		"exit status: 0 an ordered stop, 1 a failed start or a lost store, "
		"2 wrong usage\n",
		buf_cstr(&options));
	buf_deinit(&options);
}

void serve_options_document(struct buf *out)
{
	buf_append_text(out, OPTION_DOCUMENT_HEAD);
	for (const struct option_row *row = rows; row->name; row++)
		option_document(row, out);
}
