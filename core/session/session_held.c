/* What a channel holds. */
#include "session_private.h"

bool session_held_any(const struct channel *ch)
{
	return ch->held.count > 0 || !RB_EMPTY(&ch->holder.runs);
}

bool session_held_was_given(const struct channel *ch, uint64_t tag, uint64_t id)
{
	const struct entry *e = held_from(&ch->held, tag);

	return tag > 0 && tag <= ch->held.last_tag &&
	       (!e || e->tag != tag || e->id == id);
}
