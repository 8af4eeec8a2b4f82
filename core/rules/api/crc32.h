/* crc32.h: the CRC-32 of zlib, PNG and Ethernet (polynomial 0xEDB88320). It finds
 * accidents, not intent. */
#pragma once

#include <stdint.h>

#include "base/slice.h"

uint32_t crc32_of(struct slice bytes);
