/* A progress line on the terminal, shown after one second of waiting. Disabled if standard error is
 * no terminal or the answer is for programs. Runs in: the command line. */
#ifndef CLOCHE_CLI_OUTPUT_PROGRESS_H
#define CLOCHE_CLI_OUTPUT_PROGRESS_H

/* Call it once, before the others. */
void progress_allow(int yes);
/* Show what: static text, "copying". It replaces the previous text. */
void progress_start(const char *what);
/* Show several phases in sequence: now is called in a signal handler; NULL means no wait. */
void progress_watch(const char *(*now)(void));
void progress_end(void);

#endif
