/* scripts.h: the scripts that the store has Redis run: each is the .lua file beside it
 * (tools/embed_scripts.awk), which says what KEYS and ARGV are, and ends with a zero.
 *
 * They are sent with EVAL each time: a kilobyte beside hundreds of rows, and there is no
 * NOSCRIPT to answer by asking again out of order. Redis compiles a text once. */
#pragma once

#include "base/slice.h"

extern const struct slice script_dedupe_trim;
extern const struct slice script_erase_begin;
extern const struct slice script_erase_partition;
extern const struct slice script_holder_cell;
extern const struct slice script_holder_join;
extern const struct slice script_holder_migrate;
extern const struct slice script_holder_release;
extern const struct slice script_holder_split;
extern const struct slice script_holder_take;
extern const struct slice script_log_trim;
extern const struct slice script_log_truncate;
extern const struct slice script_purge;
extern const struct slice script_read;
extern const struct slice script_return_lost;
extern const struct slice script_take;
extern const struct slice script_tried;
extern const struct slice script_tries_trim;
extern const struct slice script_walk_ask;
extern const struct slice script_walk_keys;
extern const struct slice script_walk_shard;
