#include "peer_host.h"

#include <string.h>

struct slice peer_host(const char *peer)
{
	const char *colon = peer ? strrchr(peer, ':') : NULL;
	struct slice host = { peer, colon ? (size_t)(colon - peer) : 0 };

	if (!colon)
		return (struct slice){ 0 };
	if (host.len >= 2 && host.data[0] == '[' && host.data[host.len - 1] == ']')
		host = (struct slice){ peer + 1, host.len - 2 };
	return host;
}
