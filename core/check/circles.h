/* circles.h: dead letters and bindings that lead back to where they start. */
#ifndef TIDE_CHECK_CIRCLES_H
#define TIDE_CHECK_CIRCLES_H

#include "model.h"

/* Reports queues whose dead letters come back, and exchanges that are bound to
 * themselves, in the end. Dead letters are decided by the rules of the model, as a
 * broker decides them. */
void circles_check(struct model *m);

#endif
