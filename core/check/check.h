/* check.h: `tidemq check`: a rules directory looked at before it goes live. */
#ifndef TIDE_CHECK_H
#define TIDE_CHECK_H

struct check_options {
	const char *dir;
	const char *lua_dir;
	const char *url;         /* of a broker whose definitions it must fit; or NULL */
	const char *definitions; /* a file of them; or NULL */
};

/* Load the directory as a broker would, lint it when luacheck is installed, try
 * its filters, and hold it against the definitions, when there are any. Prints
 * what it finds.
 *
 * @return  exit status: 0 nothing is wrong, 1 something is, 2 there is no such
 *          file or broker */
int check_run(const struct check_options *o);

#endif
