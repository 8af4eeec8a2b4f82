/* check.h: `tidemq check`: look at a rules directory before it goes live. */
#pragma once

#include <stdbool.h>

#include "base/args.h"
#include "base/table.h"

/* A directed graph of named nodes, and its circles. */
struct graph_node {
	const char *name;
	/* The rest is the graph's own. */
	UT_hash_handle hh;
	struct graph_node **links;
	size_t count, cap;
	size_t at;    /* the next link to follow */
	size_t place; /* on the way */
	enum { UNSEEN, ON_WAY, DONE } state;
	bool is_reported; /* a circle that ends here */
};

/* All zero when it is empty. */
struct graph {
	struct graph_node *nodes;
	struct graph_node **way;
	size_t way_len;
};

struct check_options {
	const char *dir;
	const char *lua_dir;
	const char *url;             /* of a running broker with definitions; or NULL */
	const char *definitions;     /* a file of them; or NULL */
	const struct args *settings; /* behind tide.setting */
	bool is_json;                /* findings_print_json alone */
};

void graph_deinit(struct graph *g);

/* The names outlive the graph. */
void graph_link(struct graph *g, const char *from, const char *to);

/* @param way  the nodes of a circle in their order, each once; good during the call */
typedef void graph_circle_fn(void *ctx, struct graph_node *const *way, size_t count);

/* Calls `on_circle` for one circle of each group of nodes that lead to each other, and
 * for further ones; at most once a node. Starts at the first name in the alphabet. Takes
 * time in proportion to nodes and links; memory, not the stack, holds the way. Once for
 * a graph. */
void graph_each_circle(struct graph *g, graph_circle_fn *on_circle, void *ctx);

/* Load every script as a broker would, run luacheck where it is installed, and compare
 * the rules with the definitions, if there are any. Prints the findings.
 *
 * @return  exit status: 0 no problem, 1 problems, 2 the file of definitions cannot be
 *          read */
int check_run(const struct check_options *o);
