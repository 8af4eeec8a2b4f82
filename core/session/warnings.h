/* warnings.h: what somebody should look after though the broker may be given work: one
 * row of a table for each kind.
 *
 * What is to be compared with a minute ago (queues, groups, scripts, memory) is looked at
 * every few seconds, in slices; the rest is looked at by whoever asks. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct service;
struct warnings;

struct warnings *warnings_create(struct service *s);
void warnings_destroy(struct warnings *w);
/* In each turn: look, when it is time. */
void warnings_turn(struct warnings *w);
/* When that is, wall clock. */
int64_t warnings_due_ms(const struct warnings *w);

/* `text` is one sentence, good for the call. */
typedef void (*warnings_fn)(void *ctx, const char *code, const char *text);
/* Tell each warning.
 *
 * @param has_names  they are named: a line for each of the first few. Else one line says
 *                   how many there are */
void warnings_each(const struct warnings *w, bool has_names, warnings_fn tell, void *ctx);

/* For the metrics: the kinds by their numbers, and how many things each warns of. NULL:
 * there is no such kind. */
const char *warnings_code(unsigned number);
unsigned warnings_count(const struct warnings *w, unsigned number);
