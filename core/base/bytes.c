#include "bytes.h"

struct bytes_key bytes_key = { UINT64_C(0x243f6a8885a308d3),
			       UINT64_C(0x13198a2e03707344) };

void bytes_seed(uint64_t first, uint64_t second)
{
	bytes_key = (struct bytes_key){ first, second };
}

/* Hexadecimal digits. */

/* Random numbers from a state of one word (SplitMix64).
 *
 * Every state is as good a seed as any other. The same seed gives the same sequence.
 * Not for secrets. */
