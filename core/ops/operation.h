/* operation.h: the operations of the broker, each in one row of one table.
 *
 * An operation is what people and programs ask of a broker beside the path of messages:
 * to declare a queue, to purge it, to list users. Its row in operation_rows.c has all of
 * its words: the verb of the line protocol, the route over HTTP, the parameters with
 * their types and ranges, the permission, the function, the help. The row is read by
 *
 *   proto/line    the verb, and HELP: operation_find, operation_run
 *   http          the route, and GET /api
 *   cli           the verb, its help, man page and completion: cli_operation.c
 *   make docs     docs/openapi.json and docs/operations-reference.md, by GET /api
 *
 * To add an operation: a row, and the function of the session that it names. */
#pragma once

#include "session/session.h"

enum parameter_type {
	PARAMETER_NAME,     /* struct slice; a name */
	PARAMETER_ADDRESS,  /* struct slice; a name, or "-" for the empty one */
	PARAMETER_TEXT,     /* struct slice; from `min` to `max` bytes; max 0: any */
	PARAMETER_UINT,     /* uint64_t */
	PARAMETER_INT,      /* int64_t */
	PARAMETER_DURATION, /* int64_t, ms; not given and no fallback: as it was */
	PARAMETER_SHARE,    /* double, above 0, at most 1 */
	PARAMETER_CHOICE,   /* unsigned: the index in `what`, and `min` */
	PARAMETER_FLAG,     /* bool; a flag on the line */
	PARAMETER_SWITCH,   /* bool; `name=yes` on the line */
	PARAMETER_ID,       /* uint64_t; of a message */
	PARAMETER_IDS,      /* struct id_list; on the line the words to the options */
	PARAMETER_POSITION, /* struct position */
	PARAMETER_OPTIONS,  /* const struct args *; all options that have no row */
	PARAMETER_FIXED,    /* unsigned `fallback`: no parameter, the row says it */
};

enum parameter_feature {
	PARAMETER_WORD = 1,   /* on the line it has no name: its place says what it is */
	PARAMETER_NEEDED = 2, /* no default */
	PARAMETER_LINE_ONLY = 4,    /* not over HTTP */
	PARAMETER_HTTP_ONLY = 8,    /* not on the line */
	PARAMETER_JSON = 16,        /* over HTTP by default the JSON type of `value` */
	PARAMETER_LINE_NEEDED = 32, /* no default on the line */
	PARAMETER_SCRIPT = 64,      /* names a script, and no script has a '=' */
	PARAMETER_BYTES = 64, /* on the command line perhaps with K, M or G behind it */
};

struct parameter {
	const char *name; /* NULL: behind the last */
	/* The name on the line, if another one is documented there. Both are taken,
	 * unless the row has options of scripts. */
	const char *line;
	enum parameter_type type;
	unsigned features;
	size_t offset; /* of the value in union operation_spec */
	/* A name: "a queue". CHOICE: "this, that or other". Others: what is
	 * expected, in the place of the range. */
	const char *what;
	int64_t min;
	uint64_t max;
	int64_t fallback;
	const char *help;
};

/* The permission that an operation needs. The tag is checked for each request, before the
 * function is called; so is the permission for the object of the row. For other names the
 * function asks. */
enum permission {
	PERMISSION_NONE, /* any user */
	PERMISSION_MONITOR,
	PERMISSION_ADMIN,
	PERMISSION_CONFIGURE,
	PERMISSION_WRITE,
	PERMISSION_READ,
};

enum operation_feature {
	OPERATION_DOCUMENT = 1, /* its answer may be large, or long in the making */
	OPERATION_ANSWERS = 2,  /* is asked for its answer: no `quiet` */
	OPERATION_PAGED = 4,    /* over HTTP {"total","items"} */
	OPERATION_DECLARES = 8, /* over HTTP: a vhost that a grant names is made */
	OPERATION_VHOST = 16,   /* over HTTP: the vhost is a parameter, not in the path */
	OPERATION_CHECKS = 32,  /* the function checks the tag, and says more */
	OPERATION_INTERNAL = 64,  /* no verb of the command line: for programs */
	OPERATION_UNUSABLE = 128, /* its object may be one that cannot be used */
};

/* The kind of thing that the first name of a request names: it is looked for before the
 * function is called. */
enum operation_object { OBJECT_NONE, OBJECT_ANY, OBJECT_QUEUE, OBJECT_TOPIC };

/* Where the parameters of a request go. */
union operation_spec {
	struct declare_spec declare;
	struct delete_spec delete;
	struct bind_spec bind;
	struct peek_spec peek;
	struct redrive_spec redrive;
	struct purge_spec purge;
	struct kick_spec kick;
	struct by_id_spec by_id;
	struct group_spec group;
	struct pause_spec pause;
	struct lock_request lock;
	struct list_spec list;
	struct stats_spec stats;
	struct shared_spec shared;
	struct user_spec user;
	struct rules_spec rules;
	struct retry_spec retry;
	struct simulate_login login;
	struct simulate_access access;
	struct simulate_declare simulate;
	struct trace_spec trace;
	struct operate_spec operate;
};

struct operation_call {
	struct session *session;
	struct channel *channel;
	const union operation_spec *spec;
	struct queue *queue; /* the object; NULL: none is named */
};

struct operation {
	const char *name; /* "purgeQueue": of the operation in docs/openapi.json */
	const char *line; /* "RULES shadow drop"; NULL: not on the line */
	const char *method, *path; /* NULL: not over HTTP */
	enum permission permission;
	unsigned features;
	int (*run)(const struct operation_call *c, struct reply *r, struct error *err);
	const struct parameter *parameters; /* never NULL */
	enum operation_object object;
	const char *help;
	/* For docs/openapi.json: the schema of the answer, the statuses beside 200, 400,
	 * 401, 403 and 503, and the group of operations. */
	const char *answer, *errors, *group;
};

/* The table; the last row is all zeros. */
extern const struct operation operation_rows[];
/* In the order of the table; NULL behind the last. */
const struct operation *operation_at(size_t index);
/* The row that a line means, whatever the case of its verb. `rest` is what follows its
 * words. NULL: there is none, and `err` says so if the verb has other rows; else its code
 * is TIDE_EVERB. */
const struct operation *operation_find(struct slice line, struct slice *rest,
				       struct error *err);
/* How many words it takes beside its own. */
unsigned operation_words(const struct operation *o, bool is_needed);
/* NULL: it has none of the type. */
const struct parameter *operation_parameter(const struct operation *o,
					    enum parameter_type type);
/* The word of that place; NULL behind the last. */
const struct parameter *operation_word(const struct operation *o, unsigned index);
/* The name of a parameter on the line, as help and errors have it. */
const char *operation_line_name(const struct parameter *p);
/* A word as usage shows it: "<queue>", "in|out|both". */
void operation_write_word(const struct parameter *p, struct buf *out);
/* "PURGE <queue> [before=] [partition=]", without an end. */
void operation_write_usage(const struct operation *o, struct buf *out);
/* The named parameters: options on the line, flags there, all but the path over HTTP. */
enum operation_names { OPERATION_LINE_OPTIONS, OPERATION_LINE_FLAGS, OPERATION_HTTP };
bool operation_takes(const struct operation *o, struct slice name,
		     enum operation_names which);
/* The names, each behind a space. */
void operation_write_names(const struct operation *o, enum operation_names which,
			   struct buf *out);
/* For programs: the members of the row, as GET /api has them. */
void operation_write(const struct operation *o, struct json *j);

/* A request, as the door has it by which it came. */
struct operation_request {
	bool is_line; /* errors name parameters as on the line */
	void *ctx;
	/* The value; data == NULL: not given. Of a flag "1" or "0". May set an error,
	 * and returns no data then. */
	struct slice (*value)(void *ctx, const struct parameter *p, struct error *err);
	/* All that have no row. */
	int (*options)(void *ctx, const struct operation *o, const struct parameter *p,
		       struct args *out, struct error *err);
};
/* Read the parameters of rows into a struct, in which the offsets of the rows are. None
 * is a list of ids or of options. */
TIDE_MUST_USE int operation_read(const struct parameter *rows,
				 const struct operation_request *q, void *spec,
				 struct error *err);
/* Read the parameters, ask for the permission, and call the function, which finishes `r`
 * now or later. On an error the caller does. */
TIDE_MUST_USE int operation_run(const struct operation *o,
				const struct operation_request *q,
				const struct operation_call *call, struct reply *r,
				struct error *err);
