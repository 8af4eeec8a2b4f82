#include "cidr.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#define IPV4_BITS 96 /* of an IPv6 address, before those of IPv4 */

static const unsigned char ipv4_prefix[] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

static bool is_ipv4(const struct cidr_address *a)
{
	return memcmp(a->bytes, ipv4_prefix, sizeof(ipv4_prefix)) == 0;
}

bool cidr_read_address(struct slice text, struct cidr_address *out)
{
	char copy[INET6_ADDRSTRLEN];

	text = slice_cut(&text, '%');
	if (text.len >= sizeof(copy) || memchr(text.len ? text.data : "", '\0', text.len))
		return false;
	snprintf(copy, sizeof(copy), "%" SLICE_FMT, SLICE_ARG(text));
	if (inet_pton(AF_INET6, copy, out->bytes) == 1)
		return true;
	memcpy(out->bytes, ipv4_prefix, sizeof(ipv4_prefix));
	return inet_pton(AF_INET, copy, out->bytes + sizeof(ipv4_prefix)) == 1;
}

/* The first `bits` are equal. */
static bool is_prefix(const unsigned char *a, const unsigned char *b, unsigned bits)
{
	unsigned char mask = (unsigned char)(0xff00 >> bits % 8);

	return memcmp(a, b, bits / 8) == 0 &&
	       (bits % 8 == 0 || ((a[bits / 8] ^ b[bits / 8]) & mask) == 0);
}

/* The network of `bits` bits that the address lies in. */
static struct cidr_address cut(const struct cidr_address *a, unsigned bits)
{
	struct cidr_address result = { { 0 } };

	memcpy(result.bytes, a->bytes, bits / 8);
	if (bits % 8)
		result.bytes[bits / 8] =
			(unsigned char)(a->bytes[bits / 8] & 0xff00 >> bits % 8);
	return result;
}

static int refuse_bits(struct slice text, const struct cidr *c, bool has_dots,
		       struct error *err)
{
	char address[INET6_ADDRSTRLEN];
	struct cidr_address network = cut(&c->network, c->bits);

	inet_ntop(has_dots ? AF_INET : AF_INET6,
		  network.bytes + (has_dots ? sizeof(ipv4_prefix) : 0), address,
		  sizeof(address));
	return error_set(err, TIDE_ESYNTAX,
			 "'%" SLICE_FMT
			 "' has bits behind its prefix; the network is %s/%u",
			 SLICE_ARG(text), address, c->bits - (has_dots ? IPV4_BITS : 0));
}

int cidr_parse(struct slice text, struct cidr *out, struct error *err)
{
	struct slice prefix = text, address = slice_cut(&prefix, '/');
	bool has_prefix = address.len < text.len;
	bool has_dots = slice_find(address, ':') == address.len;
	unsigned most = has_dots ? 128 - IPV4_BITS : 128;
	uint64_t bits = most;

	if (text.len > 64 || slice_find(address, '%') < address.len ||
	    !cidr_read_address(address, &out->network))
		return error_set(
			err, TIDE_ESYNTAX,
			"'%.*s' is not a network; write 10.0.0.0/8, fd00::/8, or an "
			"address",
			SLICE_HEAD(text, 64));
	if (has_prefix && !slice_to_uint(prefix, most, &bits))
		return error_set(err, TIDE_ESYNTAX,
				 "the prefix of '%" SLICE_FMT
				 "' must be a number from 0 to %u",
				 SLICE_ARG(text), most);
	out->bits = (unsigned)bits + 128 - most;
	if (memcmp(cut(&out->network, out->bits).bytes, out->network.bytes, 16) != 0)
		return refuse_bits(text, out, has_dots, err);
	return TIDE_OK;
}

bool cidr_has(const struct cidr *c, const struct cidr_address *address)
{
	bool is_wider = c->bits < IPV4_BITS; /* than IPv4 */

	return is_prefix(c->network.bytes, address->bytes, c->bits) &&
	       !(is_wider && is_ipv4(address));
}
