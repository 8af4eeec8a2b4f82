/* password.h: passwords as they are kept: scrypt, as a PHC string.
 *
 * "$scrypt$ln=14,r=8,p=5$<salt>$<key>", both in base64 without padding. The cost is
 * written into it, so that it may change later. To hash or to verify takes some 100 ms of
 * a processor and 16 MiB: it is work for a thread. All of it may run on any thread. */
#pragma once

#include <sys/queue.h>
#include <uv.h>

#include "base/error.h"
#include "base/slice.h"

#define PASSWORD_LEN_MAX 1024
/* Of the text, with its end. */
#define PASSWORD_TEXT_MAX 128

/* The password text of no user: its verification takes as long as with the others. */
extern const char password_of_nobody[PASSWORD_TEXT_MAX];

/* 1 to PASSWORD_LEN_MAX bytes. */
TIDE_MUST_USE int password_check(struct slice password, struct error *err);
/* TIDE_ELIMIT: there is no memory or no randomness for it. */
TIDE_MUST_USE int password_hash(struct slice password, char out[PASSWORD_TEXT_MAX],
				struct error *err);
/* Is it a text of this form, of a cost that can be borne? */
bool password_is_readable(struct slice text);
/* Compared in constant time; false too when it cannot be verified. */
bool password_is_right(struct slice password, const char *text);
/* The proof by which a right password is known again: it is of use with the key
 * alone, and for this text alone. false: there is no memory. */
#define PASSWORD_PROOF_BYTES 32
bool password_prove(struct slice key, struct slice password, const char *text,
		    unsigned char out[PASSWORD_PROOF_BYTES]);
/* In constant time. */
bool password_is_proof(const unsigned char a[PASSWORD_PROOF_BYTES],
		       const unsigned char b[PASSWORD_PROOF_BYTES]);
/* A key of so many random bytes; false: there is no randomness. */
bool password_draw_key(unsigned char *out, size_t len);
/* Overwrite what was a password. */
void password_wipe(void *data, size_t len);

#define PASSWORD_WORK_MAX 2

struct password_job;

struct password_work {
	uv_loop_t *loop;
	STAILQ_HEAD(, password_job) waiting;
	unsigned running;
	uint64_t count;               /* of those that were begun */
	void (*on_closed)(void *ctx); /* not NULL: it is closing */
	void *ctx;
};

struct password_result {
	int status;       /* < 0: it could not be hashed */
	const char *why;  /* then */
	bool is_right;    /* of one that was verified */
	const char *text; /* of one that was hashed, as it is to be kept */
};
typedef void (*password_work_fn)(void *ctx, const struct password_result *result);

void password_work_init(struct password_work *w, uv_loop_t *loop);
struct password_job *password_work_hash(struct password_work *w, struct slice password,
					password_work_fn on_done, void *ctx);
/* @param text  as it is kept */
struct password_job *password_work_verify(struct password_work *w, struct slice password,
					  const char *text, password_work_fn on_done,
					  void *ctx);
/* on_done will not come. */
void password_work_cancel(struct password_job *job);
/* No on_done comes any more. What runs is waited for: on_closed comes then, perhaps
 * within the call. */
void password_work_close(struct password_work *w, void (*on_closed)(void *ctx),
			 void *ctx);
