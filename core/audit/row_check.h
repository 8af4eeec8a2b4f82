/* row_check.h: what is wrong with a row of a key, as far as it tells alone. */
#pragma once

#include "damage.h"

/* Takes the damage. */
typedef void (*row_check_fn)(void *ctx, struct damage *d);

void row_check(struct damage_key *key, const struct store_walk_row *row,
	       row_check_fn on_damage, void *ctx);
