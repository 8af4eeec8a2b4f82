/* siphash.h: SipHash-2-4 (Aumasson, Bernstein): a hash with a secret key.
 *
 * Who does not know the key cannot tell the hash of anything: it signs what a client is
 * to give back. */
#pragma once

#include <stdint.h>

#include "base/slice.h"

uint64_t siphash(const uint64_t key[2], struct slice text);
