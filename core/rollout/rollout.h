/* rollout.h: what stands between new rules and the active ones, for whoever owns the
 * broker. */
#pragma once

#include "broker/broker.h"

struct history;
struct recent;
struct replay;
struct shadow;
struct trials;
struct upload;

struct rollout {
	struct broker *broker;
	struct history *history; /* of the rules */
	struct trials *trials;   /* before rules become active; NULL at the end */
	struct recent *recent;   /* the last publishes */
	struct shadow *shadow;   /* rules that decide in parallel; NULL for none */
	struct replay *replay;   /* under way; NULL for none */
	struct upload *upload;   /* likewise */
};
