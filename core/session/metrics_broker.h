/* metrics_broker.h: the metrics of the broker itself, and of its vhosts. */
#pragma once

#include "base/exposition.h"

struct service;

/* The broker, its connections, Redis, the loop and the process. */
void metrics_broker_write(struct service *s, struct exposition *e);
/* What each vhost has. */
void metrics_broker_write_vhosts(struct service *s, struct exposition *e);
