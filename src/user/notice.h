/* The line that tells an ordinary user which guards are missing. It is printed once per user and host, and again when the set of
 * missing guards changes. Runs in: the CLI, cloched; as the user who started them. */
#ifndef CLOCHE_USER_NOTICE_H
#define CLOCHE_USER_NOTICE_H

#include <cloche/cloche.h>

#define NOTICE_BYTES 768

/* The guards that are not enforced on this host although `engine` lets runs start: bit 1u << enum cloche_guard. */
uint32_t notice_missing(const cloche_engine *engine);
/* Open the record of the line that was printed, for notice_take: a process that confines itself could not open it then. Negative: no guard is missing,
 * or nothing can be remembered, and the line is printed each time. */
int notice_open(uint32_t missing);
/* The text for these guards when it has to be printed now, which is then remembered: 1. Else 0, and *ret is "". */
int notice_take(int record_fd, uint32_t missing, char ret[NOTICE_BYTES]);

/* A sandbox lost changes at this time, as its description says: 1 when it was not printed for this user and host yet; it is remembered. */
int notice_take_lost(const char *sandbox, const char *time);

#endif
