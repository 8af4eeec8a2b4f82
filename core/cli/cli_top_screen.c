#include "cli_top_screen.h"

#include <curses.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define ESCAPE_MS 25 /* from an Esc to the rest of a key */

void *cli_top_screen_open(void)
{
	SCREEN *screen;
	const char *no_color = getenv("NO_COLOR");

	setlocale(LC_CTYPE, "");
	screen = newterm(NULL, stdout, stdin);
	if (!screen)
		return NULL;
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	set_escdelay(ESCAPE_MS);
	curs_set(0);
	if ((!no_color || !*no_color) && has_colors()) {
		start_color();
		use_default_colors();
		init_pair(1, COLOR_RED, -1);
		init_pair(2, COLOR_CYAN, -1);
	}
	return screen;
}

void cli_top_screen_close(void *screen)
{
	if (!screen)
		return;
	endwin();
	delscreen(screen);
}

void cli_top_screen_resize(void)
{
	struct winsize size;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row && size.ws_col)
		resizeterm(size.ws_row, size.ws_col);
	clearok(curscr, TRUE);
}

int cli_top_screen_rows(void)
{
	return LINES;
}

int cli_top_screen_columns(void)
{
	return COLS;
}

void cli_top_screen_begin(void)
{
	erase();
}

void cli_top_screen_line(int y, const char *text, enum cli_top_style style)
{
	static const attr_t attributes[] = { [CLI_TOP_BOLD] = A_BOLD,
					     [CLI_TOP_TITLE] = A_REVERSE,
					     [CLI_TOP_ALARM] = A_BOLD };
	static const short colors[] = { [CLI_TOP_BOLD] = 2, [CLI_TOP_ALARM] = 1 };
	attr_t attribute = attributes[style];

	if (y < 0 || y >= LINES)
		return;
	if (COLOR_PAIRS > 0 && colors[style])
		attribute |= COLOR_PAIR(colors[style]);
	attron(attribute);
	mvaddnstr(y, 0, text, -1);
	attroff(attribute);
}

void cli_top_screen_show(int y, int x)
{
	curs_set(y >= 0);
	if (y >= 0)
		move(y, x < COLS ? x : COLS - 1);
	refresh();
}

int cli_top_screen_key(void)
{
	int key = getch();

	switch (key) {
	case ERR:
		return CLI_TOP_KEY_NONE;
	case KEY_UP:
		return CLI_TOP_KEY_UP;
	case KEY_DOWN:
		return CLI_TOP_KEY_DOWN;
	case KEY_PPAGE:
		return CLI_TOP_KEY_PAGE_UP;
	case KEY_NPAGE:
		return CLI_TOP_KEY_PAGE_DOWN;
	case KEY_HOME:
		return CLI_TOP_KEY_HOME;
	case KEY_ENTER:
	case '\r':
	case '\n':
		return CLI_TOP_KEY_ENTER;
	case KEY_BACKSPACE:
	case 127:
	case '\b':
		return CLI_TOP_KEY_BACK;
	default:
		return key > 0xff ? CLI_TOP_KEY_OTHER : key;
	}
}
