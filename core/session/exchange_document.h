/* exchange_document.h: members that LIST and STATS both have of an exchange. */
#pragma once

#include "base/json.h"

struct exchange;

/* `type`, `durable`, `auto_delete` */
void exchange_document_kind(const struct exchange *x, struct json *j);
/* `script`, or why it is `unusable`; `options`; with policies also `declared`, `policy`
 */
void exchange_document_options(const struct exchange *x, struct json *j);
