#include "author.h"

#include <stdio.h>

#include "session.h"

void author_of(const struct session *s, char *out, size_t size)
{
	const char *peer = s->ops->peer ? s->ops->peer(s->ctx) : NULL;
	bool has_name = s->name && s->name[0];

	snprintf(out, size, "connection %llu%s%.100s%s%s%.150s",
		 (unsigned long long)s->number, has_name ? " '" : "",
		 has_name ? s->name : "", has_name ? "'" : "", peer ? " from " : "",
		 peer ? peer : "");
}
