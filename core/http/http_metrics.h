/* http_metrics.h: /metrics, as Prometheus reads it. */
#pragma once

#include "http_route.h"

extern const struct http_route http_metrics_routes[];
