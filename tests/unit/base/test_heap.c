#include "check.h"

#include <stdlib.h>

#include "base/heap.h"

#define NODES 500

static void check_heap(const struct heap *h)
{
	for (size_t i = 1; i <= h->count; i++) {
		assert_int_equal(h->nodes[i]->index, i);
		if (i > 1)
			assert_true(h->nodes[i / 2]->key <= h->nodes[i]->key);
	}
}

TEST_THAT(an_empty_heap_has_no_least)
{
	struct heap h = { 0 };
	struct heap_node n = { 0 };
	assert_null(heap_min(&h));
	assert_false(heap_has(&n));
	heap_remove(&h, &n);
	heap_deinit(&h);
}

TEST_THAT(nodes_come_out_by_their_keys)
{
	struct heap_node nodes[NODES] = { 0 };
	struct heap h = { 0 };
	srand(7);
	for (size_t i = 0; i < NODES; i++)
		heap_set(&h, &nodes[i], rand() % 100 - 50);
	int64_t last = INT64_MIN;
	size_t count = 0;
	for (struct heap_node *n; (n = heap_min(&h)); count++) {
		assert_true(n->key >= last);
		last = n->key;
		heap_remove(&h, n);
		assert_false(heap_has(n));
	}
	assert_int_equal(count, NODES);
	heap_deinit(&h);
}

TEST_THAT(the_extreme_keys_are_ordered_too)
{
	static const int64_t keys[] = { INT64_MAX, 0, INT64_MIN, -1, INT64_MAX - 1 };
	struct heap_node nodes[COUNT(keys)] = { 0 };
	struct heap h = { 0 };
	for (size_t i = 0; i < COUNT(keys); i++)
		heap_set(&h, &nodes[i], keys[i]);
	assert_int_equal(heap_min(&h)->key, INT64_MIN);
	heap_remove(&h, heap_min(&h));
	assert_int_equal(heap_min(&h)->key, -1);
	heap_deinit(&h);
	assert_false(heap_has(&nodes[0]));
}

TEST_THAT(any_mix_of_set_move_and_remove_keeps_the_order)
{
	struct heap_node nodes[NODES] = { 0 };
	struct heap h = { 0 };
	srand(11);
	for (int round = 0; round < 5000; round++) {
		struct heap_node *n = &nodes[rand() % NODES];
		if (rand() % 3 == 0)
			heap_remove(&h, n);
		else
			heap_set(&h, n, rand() % 1000);
		if (round % 50 == 0)
			check_heap(&h);
	}
	size_t in = 0;
	for (size_t i = 0; i < NODES; i++)
		in += heap_has(&nodes[i]) ? 1 : 0;
	assert_int_equal(in, h.count);
	check_heap(&h);
	heap_deinit(&h);
}

TEST_THAT(all_nodes_may_get_one_key)
{
	struct heap_node nodes[5] = { 0 };
	struct heap h = { 0 };

	heap_set_all(&h, 7);
	for (size_t i = 0; i < COUNT(nodes); i++)
		heap_set(&h, &nodes[i], (int64_t)i);
	heap_set_all(&h, 7);
	for (size_t i = 0; i < COUNT(nodes); i++)
		assert_int_equal(nodes[i].key, 7);
	check_heap(&h);
	heap_deinit(&h);
}

RUN_TESTS()
