/* peer_host.h: where a connection comes from, without the port. */
#pragma once

#include "base/slice.h"

/* Of "127.0.0.1:50412" and "[::1]:50412"; no data for "unix" and NULL. */
struct slice peer_host(const char *peer);
