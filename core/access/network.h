/* network.h: whose an address is, as far as it can be told: those who share it share what
 * is counted. */
#pragma once

#include <stddef.h>

#include "base/slice.h"

#define NETWORK_TEXT_MAX 64

/* The address without its port; of IPv6 its network of 64 bits: one machine has all of
 * it. "192.0.2.7", "2001:db8:1:2::/64", "unix".
 *
 * @param peer  "192.0.2.7:50412", "[2001:db8:1:2::3]:50412", "unix"; NULL: not known */
void network_name(const char *peer, char out[NETWORK_TEXT_MAX]);

/* Of "127.0.0.1:50412" and "[::1]:50412"; no data for "unix" and NULL. */
struct slice network_host(const char *peer);
