/* stomp_channel.h: the channels of a STOMP connection and the answers that they owe. */
#pragma once

#include "stomp.h"

/* What a reply is the answer to. */
struct stomp_owed {
	enum stomp_verb verb;
	bool is_part; /* of a request: it is told only if it fails */
	bool is_kept; /* until COMMIT, and so is its receipt */
	struct slice receipt;
	/* If it is an error: stomp_frame_explain. */
	const char *word;
	struct slice sentence;
	struct slice kept; /* of a COMMIT: receipts before its own, a NUL behind each */
};

/* One that is free, with its channel of the session open. Gives f->rc. */
TIDE_MUST_USE int stomp_channel_open(struct stomp *l, struct stomp_frame *f,
				     struct stomp_channel **out);
/* The subscription of that id, or NULL. */
struct stomp_channel *stomp_channel_find(struct stomp *l, struct slice id);
/* Likewise, by its serial; also one that has ended, while it holds messages. */
struct stomp_channel *stomp_channel_find_serial(struct stomp *l, uint64_t serial);
/* Its subscription has ended: it goes, unless it holds messages. It may be freed by the
 * call. */
void stomp_channel_release(struct stomp *l, struct stomp_channel *ch,
			   const struct stomp_frame *f);
static inline struct stomp_channel *stomp_channel_zero(const struct stomp *l)
{
	return l->channels[0];
}
static inline struct channel *stomp_channel_session(const struct stomp *l,
						    const struct stomp_channel *ch)
{
	return session_channel(l->base.session, ch->number);
}
void stomp_channel_init(struct stomp *l);
void stomp_channel_deinit(struct stomp *l);

/* The next reply of the channel that is created answers this. */
void stomp_channel_owe(struct stomp_channel *ch, const struct stomp_owed *owed);
/* The reply that was created last is an error: RabbitMQ's words for it. */
void stomp_channel_explain(struct stomp_channel *ch, const char *word,
			   struct slice sentence);
/* What a reply that leaves answers; good until the next call for the channel. */
struct stomp_owed stomp_channel_pay(struct stomp_channel *ch);
/* The answer to a frame, or to a part of what it asks for. */
struct reply *stomp_channel_reply(struct stomp *l, struct stomp_channel *ch,
				  const struct stomp_frame *f);
struct reply *stomp_channel_part(struct stomp *l, struct stomp_channel *ch,
				 const struct stomp_frame *f);
/* The reply, the channel's last, is the error of the frame: gives f->rc. */
int stomp_channel_fail(struct stomp_channel *ch, struct stomp_frame *f, struct reply *r);
/* Its session's channel was closed: it is free when it owes nothing. */
void stomp_channel_settle(struct stomp *l, struct stomp_channel *ch);
