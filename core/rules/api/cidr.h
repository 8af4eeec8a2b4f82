/* cidr.h: networks of IPv4 and IPv6 as RFC 4632 writes them: "10.0.0.0/8", "fd00::/8".
 *
 * IPv4 is kept as IPv6 has it (::ffff:10.0.0.1), so that both spellings of an address are
 * the same one. */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "base/slice.h"

struct cidr_address {
	unsigned char bytes[16];
};

struct cidr {
	struct cidr_address network;
	unsigned bits; /* of the prefix, 0 to 128 */
};

/* "10.1.2.3", "::ffff:10.1.2.3", "fd00::1", "fe80::1%eth0"; false for anything else. */
bool cidr_read_address(struct slice text, struct cidr_address *out);

/* A network, or an address alone, which is the network of itself. TIDE_ESYNTAX with a
 * sentence; bits behind the prefix that are set are refused too. */
TIDE_MUST_USE int cidr_parse(struct slice text, struct cidr *out, struct error *err);

/* A network of IPv6 has no address of IPv4 in it, not even "::/0". */
bool cidr_has(const struct cidr *c, const struct cidr_address *address);
