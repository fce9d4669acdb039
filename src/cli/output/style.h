/* Colours where people look: on a terminal, unless NO_COLOR is set or TERM is dumb. */
#ifndef CLOCHE_CLI_OUTPUT_STYLE_H
#define CLOCHE_CLI_OUTPUT_STYLE_H

#include <stdio.h>

enum style { STYLE_NONE, STYLE_HEADING, STYLE_GOOD, STYLE_WAITING, STYLE_BAD, STYLE_PAST, STYLE_CHOSEN };

/* True if the stream is a terminal that takes colours. */
int style_is_on(FILE *out);
/* Return the sequence that begins a style, and the one that ends each; empty if is_on is 0. */
const char *style_begin(enum style style, int is_on);
const char *style_end(enum style style, int is_on);
/* Return the style of a state, by its first word: "running", "failed 3". */
enum style style_of_state(const char *state);

#endif
