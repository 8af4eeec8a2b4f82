#include "check.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "check/check.h"

static void write_way(void *ctx, struct graph_node *const *way, size_t count)
{
	struct buf *out = ctx;

	for (size_t i = 0; i < count; i++)
		buf_printf(out, "%s ", way[i]->name);
	buf_append_text(out, "| ");
}

/* Links as pairs of digits: "01" leads from 0 to 1. */
static void assert_circles(const char *links, const char *wanted)
{
	static const char *const names[] = { "0", "1", "2", "3", "4" };
	struct graph g = { 0 };
	struct buf out = { 0 };

	for (; *links; links += 2)
		graph_link(&g, names[links[0] - '0'], names[links[1] - '0']);
	graph_each_circle(&g, write_way, &out);
	assert_buf(&out, wanted);
	buf_deinit(&out);
	graph_deinit(&g);
}

TEST_THAT(a_graph_without_circles_has_none)
{
	assert_circles("", "");
	assert_circles("0102132303", "");
}

TEST_THAT(circles_are_found_wherever_they_are)
{
	assert_circles("00", "0 | ");
	assert_circles("011220", "0 1 2 | ");
	assert_circles("0112213443", "1 2 | 3 4 | ");
	assert_circles("01122331", "1 2 3 | ");
}

TEST_THAT(a_node_closes_one_circle_alone)
{
	assert_circles("01101010", "0 1 | ");
	assert_circles("01100220", "0 1 | ");
}

struct longest {
	size_t len;
};

static void take_longest(void *ctx, struct graph_node *const *way, size_t count)
{
	struct longest *longest = ctx;

	if (count > longest->len)
		longest->len = count;
}

/* A walk by recursion would need some 100 MB of stack. */
TEST_THAT(a_circle_may_have_a_million_nodes)
{
	const size_t count = 1000000;
	char(*names)[8] = calloc(count, sizeof(*names));
	struct graph g = { 0 };
	struct longest longest = { 0 };

	for (size_t i = 0; i < count; i++)
		snprintf(names[i], sizeof(*names), "%zu", i);
	for (size_t i = 0; i < count; i++)
		graph_link(&g, names[i], names[(i + 1) % count]);
	graph_each_circle(&g, take_longest, &longest);
	assert_int_equal(longest.len, count);
	graph_deinit(&g);
	free(names);
}

RUN_TESTS()
