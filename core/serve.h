/* serve.h: `tidemq serve`: a broker from its start to its end. */
#pragma once

/* Returns the exit status: 0 after an orderly end, 1 for a failed start, 2 for
 * wrong usage; the last two with one line on standard error. */
int serve_main(int argc, char **argv);
