/* entry_value.h: whether members and values that are no messages can be read. */
#pragma once

#include "store/store_walk.h"

/* `row` of a key without ids.
 *
 * @return  TIDE_OK, or TIDE_ESYNTAX and what it should be */
TIDE_MUST_USE int entry_value_check(const struct layout_name *name,
				    const struct store_walk_row *row, struct error *err);
