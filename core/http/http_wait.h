/* http_wait.h: a request that waits: the engine leaves its connection alone. */
#pragma once

#include "http_request_private.h"

void http_wait_begin(struct http_request *q);
/* It goes on. Harmless when it does not wait. */
void http_wait_end(struct http_request *q);
/* The engine has worked for long enough: it waits for the next turn of the loop. */
bool http_wait_turn(struct http_request *q);
/* The engine runs again: those that waited for their turn go on. */
void http_wait_next(struct http_engine *e);
/* It ends. */
void http_wait_forget(struct http_request *q);
