#include "step.h"

#include <stddef.h>

void step_unfollow(struct followers *list, struct follower *f)
{
	struct follower **at = &list->first;

	list->steps = 0;
	while (*at) {
		if (*at == f) {
			*at = f->next;
			continue;
		}
		list->steps |= (*at)->steps;
		at = &(*at)->next;
	}
}

void step_follow(struct followers *list, struct follower *f)
{
	struct follower **at = &list->first;

	step_unfollow(list, f);
	while (*at && (*at)->role < f->role)
		at = &(*at)->next;
	f->next = *at;
	*at = f;
	list->steps |= f->steps;
}

/* A follower may leave when it is told. */
void step_tell_all(const struct followers *list, struct step *s)
{
	struct follower *next;

	for (struct follower *f = list->first; f; f = next) {
		next = f->next;
		if (f->steps & STEP_BIT(s->kind))
			f->tell(f, s);
	}
}
