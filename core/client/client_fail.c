#include "client_fail.h"

#include <stdarg.h>
#include <stdio.h>

static const struct {
	int status;
	const char *text;
} texts[] = {
	{ TIDEMQ_OK, "done" },
	{ TIDEMQ_ECONNECT, "the broker could not be reached" },
	{ TIDEMQ_ETIMEDOUT, "the broker did not answer in time" },
	{ TIDEMQ_ECLOSED, "the connection has ended" },
	{ TIDEMQ_EPROTOCOL, "the other side does not speak the protocol" },
	{ TIDEMQ_EINVAL, "a wrong argument" },
	{ TIDEMQ_ENOMEM, "out of memory" },
	{ TIDEMQ_EREFUSED, "the broker refused the request" },
	{ TIDEMQ_EBUSY, "too many requests are unanswered" },
	{ TIDEMQ_ECANCELLED, "the broker ended the subscription" },
	{ TIDEMQ_EEVENT, "an event" },
	{ TIDEMQ_ELOST, "the connection was lost before the reply" },
	{ TIDEMQ_ELEASELOST, "the message is no longer this client's" },
};

const char *tidemq_status_text(int status)
{
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (texts[i].status == status)
			return texts[i].text;
	return "no such status";
}

int client_fail(struct tidemq_error *err, int status, const char *format, ...)
{
	if (!err)
		return status;
	va_list args;
	va_start(args, format);
	err->status = status;
	err->word[0] = 0;
	vsnprintf(err->text, sizeof(err->text), format, args);
	va_end(args);
	return status;
}

int client_fail_refused(struct tidemq_error *err, struct slice word, struct slice text)
{
	bool is_late = slice_is(word, "lease-lost");

	return client_fail_remote(err, is_late ? TIDEMQ_ELEASELOST : TIDEMQ_EREFUSED,
				  word, text);
}

int client_fail_remote(struct tidemq_error *err, int status, struct slice word,
		       struct slice text)
{
	if (!err)
		return status;
	err->status = status;
	snprintf(err->word, sizeof(err->word), "%" SLICE_FMT, SLICE_ARG(word));
	snprintf(err->text, sizeof(err->text), "%" SLICE_FMT, SLICE_ARG(text));
	return status;
}
