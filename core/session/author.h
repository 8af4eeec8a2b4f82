/* author.h: who asked for other rules, for RULES log. */
#ifndef TIDE_SESSION_AUTHOR_H
#define TIDE_SESSION_AUTHOR_H

#include <stddef.h>

struct session;

#define AUTHOR_MAX 300

#define AUTHOR_SIGNAL "SIGHUP"
#define AUTHOR_FILES "files changed"

/* "connection 7 'deploy' from 127.0.0.1:50412"; the name only if it has one. */
void author_of(const struct session *s, char *out, size_t size);

#endif
