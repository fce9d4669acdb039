/* A line on the terminal that says what is waited for, once it takes longer than a second. Nothing where standard error is no terminal, or the
 * answer is for programs. Runs in: the command line. */
#ifndef CLOCHE_CLI_PROGRESS_H
#define CLOCHE_CLI_PROGRESS_H

/* Once, before the others. */
void progress_allow(int yes);
/* what: static text, "copying". A new one takes the place of what was waited for. */
void progress_begin(const char *what);
/* Several things one after the other: now is called in a signal handler, and NULL says nothing is waited for. */
void progress_watch(const char *(*now)(void));
void progress_end(void);

#endif
