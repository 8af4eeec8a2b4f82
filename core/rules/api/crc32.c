#include "crc32.h"

/* The effect of four bits on the rest; 16 entries are in the cache of any machine. */
static const uint32_t by_nibble[16] = {
	0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
	0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
	0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
};

uint32_t crc32_of(struct slice bytes)
{
	uint32_t crc = UINT32_MAX;

	for (size_t i = 0; i < bytes.len; i++) {
		crc ^= (unsigned char)bytes.data[i];
		crc = crc >> 4 ^ by_nibble[crc & 0xf];
		crc = crc >> 4 ^ by_nibble[crc & 0xf];
	}
	return ~crc;
}
