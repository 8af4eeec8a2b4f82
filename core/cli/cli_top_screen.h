/* cli_top_screen.h: the terminal of `tidemq top`. What has changed is what is sent. */
#pragma once

enum cli_top_style { CLI_TOP_PLAIN, CLI_TOP_BOLD, CLI_TOP_TITLE, CLI_TOP_ALARM };

/* Keys that are no characters. */
enum cli_top_key {
	CLI_TOP_KEY_NONE = -1,
	CLI_TOP_KEY_ESCAPE = 27,
	CLI_TOP_KEY_UP = 1000,
	CLI_TOP_KEY_DOWN,
	CLI_TOP_KEY_PAGE_UP,
	CLI_TOP_KEY_PAGE_DOWN,
	CLI_TOP_KEY_HOME,
	CLI_TOP_KEY_ENTER,
	CLI_TOP_KEY_BACK,
	CLI_TOP_KEY_OTHER,
};

/* NULL: this terminal cannot be used, and nothing was changed. A process has one. */
void *cli_top_screen_open(void);
/* Give it back as it was. Accepts NULL. */
void cli_top_screen_close(void *screen);
/* Take the size that it has now. */
void cli_top_screen_resize(void);
int cli_top_screen_rows(void);
int cli_top_screen_columns(void);
/* Begin a picture; what no line is put to is empty. */
void cli_top_screen_begin(void);
void cli_top_screen_line(int y, const char *text, enum cli_top_style style);
/* Show it, with the cursor behind what is typed at the line `y`; below 0: nothing is. */
void cli_top_screen_show(int y, int x);
/* The next key that was pressed, without waiting. */
int cli_top_screen_key(void);
