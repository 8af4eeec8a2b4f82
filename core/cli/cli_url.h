/* cli_url.h: the URL of another vhost of the same broker. */
#pragma once

/* The URLs, which are good, with that vhost in place of theirs: for mem_free. */
char *cli_url_with(const char *urls, const char *vhost);
/* Likewise, with a cell of a store that is split, and no vhost. */
char *cli_url_of_cell(const char *urls, unsigned cell);
