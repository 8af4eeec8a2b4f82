#include "network.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/slice.h"

#define IPV6_NETWORK_BYTES 8

static bool name_ipv6(struct slice text, char out[NETWORK_TEXT_MAX])
{
	char address[INET6_ADDRSTRLEN];
	static const unsigned char none[IPV6_NETWORK_BYTES];
	struct in6_addr ip;
	bool is_network;

	snprintf(address, sizeof(address), "%.*s", SLICE_HEAD(text, sizeof(address) - 1));
	if (inet_pton(AF_INET6, address, &ip) != 1)
		return false;
	/* Loopback, and an IPv4 address in its place, are in none. */
	is_network = memcmp(ip.s6_addr, none, sizeof(none)) != 0;
	if (is_network)
		memset(ip.s6_addr + IPV6_NETWORK_BYTES, 0,
		       sizeof(ip.s6_addr) - IPV6_NETWORK_BYTES);
	inet_ntop(AF_INET6, &ip, address, sizeof(address));
	snprintf(out, NETWORK_TEXT_MAX, "%s%s", address, is_network ? "/64" : "");
	return true;
}

void network_name(const char *peer, char out[NETWORK_TEXT_MAX])
{
	struct slice text = slice_from(peer ? peer : ""), inside;

	if (slice_has_prefix(text, "[")) {
		inside = slice_skip(text, 1);
		inside.len = slice_find(inside, ']');
		if (name_ipv6(inside, out))
			return;
	}
	inside = slice_cut(&text, ':');
	snprintf(out, NETWORK_TEXT_MAX, "%.*s", SLICE_HEAD(inside, NETWORK_TEXT_MAX - 1));
}

struct slice network_host(const char *peer)
{
	const char *colon = peer ? strrchr(peer, ':') : NULL;
	struct slice host = { peer, colon ? (size_t)(colon - peer) : 0 };

	if (!colon)
		return (struct slice){ 0 };
	if (host.len >= 2 && host.data[0] == '[' && host.data[host.len - 1] == ']')
		host = (struct slice){ peer + 1, host.len - 2 };
	return host;
}
