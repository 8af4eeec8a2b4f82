/* figure_rows.h: the figures of queues, topics, groups and exchanges, one row each.
 *
 * To add one: a row here, and the function that reads it in broker/queue_figures.c. A
 * counter of queues needs its row alone: it is a member of struct queue_counters.
 * Documents show the figures in the order of the rows. */
#pragma once

/* clang-format off */

/* The counters of queues and topics. ROW(counter, help of a queue's, help of a
 * topic's) */
#define BOTH_COUNTERS(ROW) \
ROW(published,     "Messages that the queue took.",                      "Messages that the topic took.") \
ROW(duplicates,    "Messages not taken because their id had been seen.", "Messages not taken because their id had been seen.") \
ROW(delivered,     "Deliveries.",                                        "Deliveries to all groups and readers.") \
ROW(acked,         "Messages acknowledged.",                             "Messages acknowledged, by all groups.") \
ROW(nacked,        "Deliveries that consumers gave back.",               "Deliveries that consumers gave back.") \
ROW(returned,      "Deliveries that came back without a failure.",       "Deliveries that came back without a failure.") \
ROW(timed_out,     "Deliveries not settled in time.",                    "Deliveries not settled in time.") \
ROW(paced,         "Returns that had to wait.",                          "Returns that had to wait.") \
ROW(dead_lettered, "Messages sent to a dead-letter target.",             "Messages sent to a dead-letter target.")

/* The counters of queues alone. ROW(counter, help) */
#define QUEUE_COUNTERS(ROW) \
ROW(unranked,      "Messages whose priority script failed.") \
ROW(redelivered,   "Deliveries that were not the first.") \
ROW(expired,       "Messages that lived too long.") \
ROW(removed,       "Messages removed by their id.") \
ROW(buries,        "Messages that were buried.") \
ROW(kicks,         "Messages that KICK made ready.") \
ROW(death_limited, "Messages buried because they had died too often.") \
ROW(refused,       "Messages not taken because the queue was full or paused.") \
ROW(overflowed,    "Messages given up because the queue was over a limit.")

/* ROW(function, name, shown, sort, script, metric, kind, column, help): struct figure, and
 * the column of `tidemq list` as in cli_table.h, with a space behind it; "": none. */
#ifdef TIDE_REHEARSAL /* of "Add a figure" in docs/architecture.md */
#define REHEARSED_FIGURES(ROW) \
ROW(in_memory, "rehearsed", FIGURE_BOTH, "rehearsed", "rehearsed", "tidemq_queue_rehearsed", FIGURE_GAUGE, "rehearsed ", "What a test adds.")
#else
#define REHEARSED_FIGURES(ROW)
#endif

#define QUEUE_FIGURES(ROW) \
ROW(ready,          "ready",           FIGURE_BOTH,  "ready",     "ready",     "tidemq_queue_messages_ready",       FIGURE_GAUGE, "ready ", "Messages that consumers may have now.") \
ROW(delayed,        "delayed",         FIGURE_BOTH,  "delayed",   "delayed",   "tidemq_queue_messages_delayed",     FIGURE_GAUGE, "delayed ", "Messages that are not due yet.") \
ROW(unacked,        "unacked",         FIGURE_BOTH,  "unacked",   "unacked",   "tidemq_queue_messages_unacked",     FIGURE_GAUGE, "unacked ", "Messages that consumers hold.") \
ROW(buried,         "buried",          FIGURE_BOTH,  "buried",    "buried",    "tidemq_queue_messages_buried",      FIGURE_GAUGE, "buried+ ", "Messages put aside after failures.") \
ROW(messages,       NULL,              0,            NULL,        "messages",  NULL,                                FIGURE_GAUGE, "", NULL) \
ROW(oldest_ready,   "oldest_ready_ms", FIGURE_BOTH,  "age",       NULL,        "tidemq_queue_oldest_ready_seconds", FIGURE_SINCE, "oldest_ready_ms:duration/oldest ", "How long the oldest ready message could have been delivered; 0 without one.") \
ROW(oldest_front,   NULL,              0,            NULL,        "oldest_ms", NULL,                                FIGURE_SINCE, "", NULL) \
ROW(oldest_lease,   "oldest_lease_ms", FIGURE_STATS, NULL,        NULL,        "tidemq_queue_oldest_lease_seconds", FIGURE_SINCE, "", "How long the oldest unacked message has been held; 0 without one.") \
ROW(in,             "in_10s",          FIGURE_LIST,  "in",        "in_rate",   NULL,                                FIGURE_RATE,  "in_10s/in+ ", NULL) \
ROW(out,            "out_10s",         FIGURE_LIST,  "out",       "out_rate",  NULL,                                FIGURE_RATE,  "out_10s/out+ ", NULL) \
ROW(waiting_bytes,  "waiting_bytes",   FIGURE_BOTH,  NULL,        "bytes",     NULL,                                FIGURE_GAUGE, "", NULL) \
ROW(consumers,      "consumers",       FIGURE_BOTH | FIGURE_OF_UNUSABLE, "consumers", "consumers", "tidemq_queue_consumers", FIGURE_GAUGE, "consumers ", "Subscriptions.") \
ROW(in_memory,      "in_memory",       FIGURE_STATS, NULL,        NULL,        NULL,                                FIGURE_GAUGE, "", NULL) \
ROW(width,          "shards",          FIGURE_STATS, NULL,        NULL,        NULL,                                FIGURE_GAUGE, "", NULL) \
ROW(mixed_shards,   "mixed_shards",    FIGURE_STATS, NULL,        NULL,        NULL,                                FIGURE_GAUGE, "", NULL) \
ROW(dedupe_ids,     "dedupe_ids",      FIGURE_STATS, NULL,        NULL,        NULL,                                FIGURE_GAUGE, "", NULL) \
ROW(paused_in,      NULL,              0,            NULL,        NULL,        "tidemq_queue_paused_in",            FIGURE_FLAG, "", "1: publishes are paused.") \
ROW(paused_out,     NULL,              0,            NULL,        NULL,        "tidemq_queue_paused_out",           FIGURE_FLAG, "", "1: deliveries are paused.") \
ROW(groups_blocked, NULL,              0,            NULL,        NULL,        "tidemq_queue_groups_blocked",       FIGURE_GAUGE, "", "Groups of order-by that wait for a message at work.") \
REHEARSED_FIGURES(ROW)

#define TOPIC_FIGURES(ROW) \
ROW(width,      "partitions", FIGURE_BOTH | FIGURE_OF_UNUSABLE, "partitions", NULL, "tidemq_topic_partitions", FIGURE_GAUGE, "partitions ", "Partitions.") \
ROW(kept,       "messages",   FIGURE_BOTH,  "messages", "messages", "tidemq_topic_messages",   FIGURE_GAUGE,   "messages ", "Messages that are kept.") \
ROW(bytes,      "bytes",      FIGURE_BOTH,  "bytes",    "bytes",    "tidemq_topic_size_bytes", FIGURE_GAUGE,   "bytes+ ", "Their size in Redis.") \
ROW(appended,   "appended",   FIGURE_BOTH,  NULL,       NULL,       "tidemq_topic_appended",   FIGURE_COUNTER, "appended+ ", "Messages appended since the topic was declared.") \
ROW(in,         "in_10s",     FIGURE_LIST,  "in",       "in_rate",  NULL,                      FIGURE_RATE,    "in_10s/in+ ", NULL) \
ROW(out,        "out_10s",    FIGURE_LIST,  "out",      "out_rate", NULL,                      FIGURE_RATE,    "out_10s/out+ ", NULL) \
ROW(groups,     "groups",     FIGURE_LIST,  NULL,       NULL,       NULL,                      FIGURE_GAUGE,   "groups? ", NULL) \
ROW(lag,        "lag",        FIGURE_LIST,  "lag",      NULL,       NULL,                      FIGURE_GAUGE,   "lag? ", NULL) \
ROW(consumers,  "consumers",  FIGURE_BOTH | FIGURE_OF_UNUSABLE, "consumers", "consumers", "tidemq_topic_consumers", FIGURE_GAUGE, "consumers ", "Subscriptions.") \
ROW(readers,    "readers",    FIGURE_STATS, NULL,       NULL,       "tidemq_topic_readers",    FIGURE_GAUGE,   "", "Subscriptions without a group.") \
ROW(dedupe_ids, "dedupe_ids", FIGURE_STATS, NULL,       NULL,       NULL,                      FIGURE_GAUGE,   "", NULL)

#define GROUP_FIGURES(ROW) \
ROW(members,  "members",  FIGURE_BOTH, "members", NULL, "tidemq_group_members",          FIGURE_GAUGE,   "members ", "Subscriptions.") \
ROW(gets,     "gets",     FIGURE_BOTH, NULL,      NULL, NULL,                            FIGURE_GAUGE,   "gets?+ ", NULL) \
ROW(lag,      "lag",      FIGURE_BOTH, "lag",     NULL, "tidemq_group_lag_messages",     FIGURE_GAUGE,   "lag ", "Messages that the group has not settled.") \
ROW(since,    "lag_ms",   FIGURE_BOTH | FIGURE_OR_ZERO, NULL, NULL, "tidemq_group_lag_seconds", FIGURE_SINCE, "lag_ms:duration/behind ", "Age of the oldest of these; absent when it is not in memory.") \
ROW(held,     NULL,       0,           NULL,      NULL, "tidemq_group_messages_unacked", FIGURE_GAUGE,   "", "Messages that members hold.") \
ROW(given_up, "given_up", FIGURE_BOTH, NULL,      NULL, "tidemq_group_given_up",         FIGURE_COUNTER, "given_up? ", "Messages that failed for good, without a dead-letter target.") \
ROW(paused,   NULL,       0,           NULL,      NULL, "tidemq_group_paused",           FIGURE_FLAG,    "", "1: deliveries are paused.")

#define EXCHANGE_FIGURES(ROW) \
ROW(bindings,   "bindings",   FIGURE_BOTH, "bindings",   NULL, "tidemq_exchange_bindings",   FIGURE_GAUGE,   "bindings ", "Bindings from it.") \
ROW(published,  "published",  FIGURE_BOTH, "published",  NULL, "tidemq_exchange_published",  FIGURE_COUNTER, "published ", "Messages published to it.") \
ROW(unroutable, "unroutable", FIGURE_LIST, "unroutable", NULL, "tidemq_exchange_unroutable", FIGURE_COUNTER, "unroutable ", "Of these, those that no queue took.")

/* clang-format on */
