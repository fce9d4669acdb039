/* A whole terminal: keys, frames, and the terminal as it was when the program ends in any way. */
#ifndef CLOCHE_CLI_TOP_SCREEN_H
#define CLOCHE_CLI_TOP_SCREEN_H

#include "cli/output/output-queue.h"
#include "cli/sandbox/terminal.h"

#include <stdio.h>

enum screen_key { SCREEN_UP = 0x100, SCREEN_DOWN, SCREEN_ENTER, SCREEN_BACK };

struct screen {
        struct terminal terminal;
        struct output_queue out;
        int signal_fd;
        unsigned cols, rows;
        int is_open;
        FILE *frame; /* while one is drawn */
        char *text;
        size_t text_size;
};

/* The end of each line of a frame, before its newline. */
#define SCREEN_END_OF_LINE "\033[K\r"

/* 0, or a line was printed. */
int screen_open(struct screen *s);
void screen_close(struct screen *s);
/* Read keys: a character, or one of screen_key. Returns their number; -1: the terminal has gone. */
int screen_keys(int ret[], int room);
/* Return the signal that ends the program; 0: none, the size may be another. */
int screen_signal(struct screen *s);
/* Begin a frame, to be written to the result; NULL: the terminal has not taken the last one. */
FILE *screen_begin(struct screen *s);
void screen_finish(struct screen *s);

#endif
