/* share.h: where the framework (lua/) and the shipped rules (rules/) are. */
#ifndef TIDE_SHARE_H
#define TIDE_SHARE_H

/* A directory called `name` that has `probe` in it: in the current directory,
 * in the checkout that the binary was built in, or where it was installed. The
 * last is the answer too when there is none. Static storage, one a name. */
const char *share_lua_dir(void);
const char *share_rules_dir(void);

#endif
