#include "assign.h"

#include "base/mem.h"

/* How many partitions each member is to have: as many as any other, and the rest, one
 * each, for those that have more than that already. */
static void share_out(unsigned *rooms, unsigned partitions, unsigned members)
{
	unsigned each = partitions / members, rest = partitions % members;

	/* A member may get more partitions than it has now. */
	for (unsigned m = 0; m < members; m++) {
		if (rooms[m] > each && rest > 0) {
			rooms[m] = each + 1;
			rest--;
		} else {
			rooms[m] = each;
		}
	}
	for (unsigned m = 0; rest > 0; m++)
		if (rooms[m] == each) {
			rooms[m]++;
			rest--;
		}
}

void assign_partitions(unsigned *owners, unsigned partitions, unsigned members)
{
	unsigned *rooms = mem_zalloc(members * sizeof(*rooms)), m = 0;

	for (unsigned p = 0; p < partitions; p++)
		if (owners[p] < members)
			rooms[owners[p]]++;
	if (members > 0)
		share_out(rooms, partitions, members);
	for (unsigned p = 0; p < partitions; p++)
		if (owners[p] < members && rooms[owners[p]] > 0)
			rooms[owners[p]]--;
		else
			owners[p] = ASSIGN_NONE;
	for (unsigned p = 0; p < partitions && members > 0; p++) {
		if (owners[p] != ASSIGN_NONE)
			continue;
		while (rooms[m] == 0)
			m++;
		owners[p] = m;
		rooms[m]--;
	}
	mem_free(rooms);
}
