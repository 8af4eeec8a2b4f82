#include "entry_value.h"

#include "access/user.h"
#include "broker/config.h"

static int refuse(struct error *err, const char *should)
{
	return error_set(err, TIDE_ESYNTAX, "should be %s", should);
}

static bool is_number(struct slice text)
{
	uint64_t n;

	return slice_to_uint(text, UINT64_MAX, &n);
}

/* Of a queue or a topic. */
static int check_queue(struct slice value, bool is_topic, struct error *err)
{
	struct config config;
	struct args args;
	int rc;

	if (args_parse(&args, value) < 0)
		return refuse(err, "name=value ...");
	rc = config_parse(&config, is_topic ? CONFIG_TOPIC : CONFIG_QUEUE, &args, err);
	if (rc == TIDE_OK)
		config_deinit(&config);
	args_deinit(&args);
	return rc;
}

static int check_exchange(struct slice value, struct error *err)
{
	struct args args;
	bool is_good = args_parse(&args, value) == TIDE_OK;

	if (is_good) {
		is_good = args_get(&args, "type");
		args_deinit(&args);
	}
	return is_good ? TIDE_OK : refuse(err, "type=... name=value ...");
}

static int check_binding(struct slice text, struct error *err)
{
	struct slice rest = text, kind = slice_cut(&rest, ' ');
	struct args args;
	bool is_good = slice_is(kind, "queue") || slice_is(kind, "exchange");

	for (int i = 0; i < 3; i++)
		is_good &= slice_cut(&rest, ' ').len > 0;
	if (is_good && args_parse(&args, rest) == TIDE_OK)
		args_deinit(&args);
	else
		return refuse(err, "queue|exchange DESTINATION EXCHANGE PATTERN ...");
	return TIDE_OK;
}

static int check_pause(const struct store_walk_row *row, struct error *err)
{
	struct slice rest = row->member, word = slice_cut(&rest, ' ');
	bool is_good = (slice_is(word, "in") || slice_is(word, "out")) && rest.len > 0 &&
		       is_number(row->value);

	return is_good ? TIDE_OK : refuse(err, "in|out QUEUE, with a time");
}

static bool are_two_numbers(struct slice value)
{
	struct slice rest = value, first = slice_cut(&rest, ' ');

	return is_number(first) && is_number(rest);
}

static int check_lock(struct slice value, struct error *err)
{
	return are_two_numbers(value) ? TIDE_OK : refuse(err, "<token> <ttl in ms>");
}

static int check_size(const struct store_walk_row *row, struct error *err)
{
	bool is_good = slice_is(row->member, "before") || slice_is(row->member, "after");

	return is_good && are_two_numbers(row->value)
		       ? TIDE_OK
		       : refuse(err, "before|after, with <messages> <bytes>");
}

/* Of the state or the groups. */
static int check_partition(enum layout_partition_key key,
			   const struct store_walk_row *row, struct error *err)
{
	struct slice rest = row->value, base = slice_cut(&rest, ' ');
	bool is_limit =
		slice_is(row->member, "start") || slice_is(row->member, "largest");
	uint32_t day;

	if (key == LAYOUT_GROUPS)
		return is_number(row->value) ? TIDE_OK : refuse(err, "an offset");
	if (is_limit ? is_number(row->value)
		     : layout_read_day(row->member, &day) && is_number(base) &&
			       are_two_numbers(rest))
		return TIDE_OK;
	return refuse(err, "start|largest, with a number, or a day, with "
			   "<offset> <position> <time>");
}

/* What it says holds no password. */
static int check_user(const struct store_walk_row *row, struct error *err)
{
	struct user *u;
	int rc = user_parse(row->member, row->value, &u, err);

	if (rc == TIDE_OK)
		user_unref(u);
	return rc;
}

static int check_table(enum store_table table, const struct store_walk_row *row,
		       struct error *err)
{
	switch (table) {
	case STORE_EXCHANGES:
		return check_exchange(row->value, err);
	case STORE_QUEUES:
		return check_queue(row->value, false, err);
	case STORE_TOPICS:
		return check_queue(row->value, true, err);
	case STORE_BINDINGS:
		return check_binding(row->member, err);
	case STORE_PAUSES:
		return check_pause(row, err);
	case STORE_LOCKS:
		return check_lock(row->value, err);
	case STORE_USERS:
		return check_user(row, err);
	default:
		return TIDE_OK;
	}
}

static int check_shared(const struct store_walk_row *row, struct error *err)
{
	struct slice rest = row->value, expiry = slice_cut(&rest, ' ');
	bool is_name = row->member.len > 1 && row->member.data[1] == ':' &&
		       memchr("kcb", row->member.data[0], 3);

	if (is_name && is_number(expiry) && rest.len > 0 &&
	    memchr("sinb", rest.data[0], 4))
		return TIDE_OK;
	return refuse(err, "k:, c: or b: and a name, with <expiry> <type><value>");
}

static int check_document(enum layout_document document, const struct store_walk_row *row,
			  struct error *err)
{
	struct slice rest = row->value;

	switch (document) {
	case LAYOUT_IDS:
		return is_number(row->value) ? TIDE_OK : refuse(err, "a time in ms");
	case LAYOUT_SHARED:
		return check_shared(row, err);
	case LAYOUT_SCHEDULE:
		return is_number(slice_cut(&rest, ' '))
			       ? TIDE_OK
			       : refuse(err, "the time of a tick");
	case LAYOUT_LOG:
		return is_number(row->member) ? TIDE_OK : refuse(err, "a number");
	default:
		return TIDE_OK;
	}
}

int entry_value_check(const struct layout_name *name, const struct store_walk_row *row,
		      struct error *err)
{
	switch (name->kind) {
	case LAYOUT_SHARD:
		return check_size(row, err);
	case LAYOUT_PARTITION:
		return check_partition(name->partition_key, row, err);
	case LAYOUT_TABLE:
		return check_table(name->table, row, err);
	case LAYOUT_TOPIC:
		return is_number(row->member) ? TIDE_OK
					      : refuse(err, "the number of a partition");
	case LAYOUT_DOCUMENT:
		return check_document(name->document, row, err);
	default:
		return TIDE_OK;
	}
}
