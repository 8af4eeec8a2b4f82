/* service_health.h: whether the broker may be given work, for those who ask without a
 * login: nothing that it says is secret. */
#pragma once

#include "service.h"

#define SERVICE_HEALTH_MAX 8

struct service_note {
	const char *code; /* "store" */
	char text[256];
};

struct service_health {
	/* Why it is not ready; none: it is. */
	struct service_note reasons[SERVICE_HEALTH_MAX];
	unsigned reason_count;
	/* What somebody should look after. */
	struct service_note warnings[SERVICE_HEALTH_MAX];
	unsigned warning_count;
};

void service_health(const struct service *s, struct service_health *out);
