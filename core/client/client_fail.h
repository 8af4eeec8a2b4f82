/* client_fail.h: filling a struct tidemq_error. */
#pragma once

#include "tidemq/client.h"
#include "base/error.h"
#include "base/slice.h"

/* Fill `err`, which may be NULL, and return `status`. */
int client_fail(struct tidemq_error *err, int status, const char *format, ...)
	TIDE_PRINTF(3, 4);

/* The same for what the broker said: its code and its sentence. */
int client_fail_remote(struct tidemq_error *err, int status, struct slice word,
		       struct slice text);

/* The same with the status of a refusal: TIDEMQ_EREFUSED or TIDEMQ_ELEASELOST. */
int client_fail_refused(struct tidemq_error *err, struct slice word, struct slice text);
