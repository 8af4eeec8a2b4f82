/* entry_value.h: whether members and values of tables and documents can be read. */
#pragma once

#include "store/store_walk.h"

/* `row` of a key that is a table or a document.
 *
 * @return  TIDE_OK, or TIDE_ESYNTAX and what it should be */
TIDE_MUST_USE int entry_value_check(const struct layout_name *name,
				    const struct store_walk_row *row, struct error *err);
