/* http_files.h: the files of the page, which are in the binary. */
#pragma once

#include "http_route.h"

extern const struct http_route http_files_routes[];
