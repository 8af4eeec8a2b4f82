#include "check.h"

#include <stdbool.h>

#include "log/assign.h"

#define PARTITIONS_MAX 5
#define MEMBERS_MAX 4

static unsigned count_of(const unsigned *owners, unsigned partitions, unsigned member)
{
	unsigned count = 0;

	for (unsigned p = 0; p < partitions; p++)
		count += owners[p] == member;
	return count;
}

static bool is_balanced(const unsigned *owners, unsigned partitions, unsigned members)
{
	unsigned least = partitions, most = 0, sum = 0;

	for (unsigned m = 0; m < members; m++) {
		unsigned count = count_of(owners, partitions, m);

		least = count < least ? count : least;
		most = count > most ? count : most;
		sum += count;
	}
	return sum == partitions && most - least <= 1;
}

static unsigned kept(const unsigned *before, const unsigned *after, unsigned partitions)
{
	unsigned count = 0;

	for (unsigned p = 0; p < partitions; p++)
		count += before[p] == after[p];
	return count;
}

/* Count up in a base; false when all digits were at their highest. */
static bool next(unsigned *digits, unsigned count, unsigned base)
{
	for (unsigned i = 0; i < count; i++) {
		if (++digits[i] < base)
			return true;
		digits[i] = 0;
	}
	return false;
}

static unsigned most_that_can_be_kept(const unsigned *before, unsigned partitions,
				      unsigned members)
{
	unsigned any[PARTITIONS_MAX] = { 0 }, most = 0;

	do {
		if (is_balanced(any, partitions, members) &&
		    kept(before, any, partitions) > most)
			most = kept(before, any, partitions);
	} while (next(any, partitions, members));
	return most;
}

/* All who may have had each partition, two of them gone. */
static void check_all(unsigned partitions, unsigned members)
{
	unsigned before[PARTITIONS_MAX] = { 0 }, after[PARTITIONS_MAX],
		 again[PARTITIONS_MAX];
	size_t size = partitions * sizeof(before[0]);

	do {
		memcpy(after, before, sizeof(after));
		for (unsigned p = 0; p < partitions; p++)
			if (before[p] == members + 1)
				after[p] = ASSIGN_NONE;
		memcpy(again, after, sizeof(again));
		assign_partitions(after, partitions, members);
		assign_partitions(again, partitions, members);
		assert_memory_equal(after, again, size);
		assert_true(is_balanced(after, partitions, members));
		assert_int_equal(kept(before, after, partitions),
				 most_that_can_be_kept(before, partitions, members));
		assign_partitions(again, partitions, members);
		assert_memory_equal(after, again, size);
	} while (next(before, partitions, members + 2));
}

TEST_THAT(all_small_groups_are_balanced_with_the_fewest_moves)
{
	for (unsigned partitions = 1; partitions <= PARTITIONS_MAX; partitions++)
		for (unsigned members = 1; members <= MEMBERS_MAX; members++)
			check_all(partitions, members);
}

TEST_THAT(without_members_nobody_has_anything)
{
	unsigned owners[] = { 0, 1, ASSIGN_NONE };

	assign_partitions(owners, 3, 0);
	for (unsigned p = 0; p < 3; p++)
		assert_int_equal(owners[p], ASSIGN_NONE);
	assign_partitions(owners, 0, 0);
	assign_partitions(owners, 0, 3);
	assert_int_equal(owners[0], ASSIGN_NONE);
}

TEST_THAT(a_new_group_has_ranges)
{
	unsigned owners[8], expected[] = { 0, 0, 0, 1, 1, 1, 2, 2 };

	memset(owners, 0xff, sizeof(owners));
	assign_partitions(owners, 8, 3);
	assert_memory_equal(owners, expected, sizeof(owners));
}

TEST_THAT(who_comes_gets_a_share_and_who_goes_leaves_his_own_alone)
{
	unsigned owners[64], before[64];

	memset(owners, 0xff, sizeof(owners));
	for (unsigned members = 1; members <= 80; members++) {
		memcpy(before, owners, sizeof(before));
		assign_partitions(owners, 64, members);
		assert_true(is_balanced(owners, 64, members));
		if (members > 1)
			assert_int_equal(64 - kept(before, owners, 64), 64 / members);
	}
	for (unsigned members = 79; members >= 1; members--) {
		unsigned had = count_of(owners, 64, members);

		memcpy(before, owners, sizeof(before));
		assign_partitions(owners, 64, members);
		assert_true(is_balanced(owners, 64, members));
		assert_int_equal(64 - kept(before, owners, 64), had);
	}
}

RUN_TESTS()
