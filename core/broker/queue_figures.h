/* queue_figures.h: the tables of figures, with the functions that read them. */
#pragma once

#include "figures/figure.h"
#include "group.h"
#include "rules/api/queue_facts.h"

extern const struct figure_table queue_figures_all;      /* of a struct queue */
extern const struct figure_table queue_figures_topic;    /* likewise, that is a topic */
extern const struct figure_table queue_figures_group;    /* of a struct topic_group */
extern const struct figure_table queue_figures_exchange; /* of a struct exchange */

/* The facts that tide.queue reads: for engine_hooks. */
struct queue_facts queue_figures_for_scripts(struct broker *b);
