/* policies.h: the policies (declare/) are asked about what there is: at the start, and
 * again when other rules become active, between the turns of the loop. */
#pragma once

#include "broker.h"

struct policies *policies_create(struct broker *b);
void policies_destroy(struct policies *p);
/* The definitions have been read from Redis; nothing is attached to the rules yet.
 * Likewise for each generation that the start tries. */
void policies_begin(struct broker *b);
/* What tide.check_option answers: may a policy set this? */
int policies_check_option(const char *kind, const struct arg *option, struct error *err);
/* There is a new generation; what cannot be used has not been tried with it yet. */
void policies_renew(struct broker *b);
