/* The line that lists the missing guards for an ordinary user. It is printed once per user and
 * host, and again when the set of missing guards changes. Runs in: the CLI, cloched; as the user
 * who started them. */
#ifndef CLOCHE_USER_NOTICE_H
#define CLOCHE_USER_NOTICE_H

#include <cloche/engine.h>

#define NOTICE_BYTES 768

/* The guards that are not enforced on this host although `engine` lets runs start: bit
 * 1u << enum cloche_guard. */
uint32_t notice_missing(const cloche_engine *engine);
/* Open the record of the printed line, for notice_take: a confined process could not open it later.
 * Negative: no guard is missing, or nothing can be recorded, and the line is printed each time. */
int notice_open(uint32_t missing);
/* Return 1 with the text for these guards if it must be printed now, and record it. Otherwise 0,
 * and *ret is "". */
int notice_take(int record_fd, uint32_t missing, char ret[NOTICE_BYTES]);

/* A sandbox lost changes at this time, according to its description. 1 if this was not printed for
 * this user and host yet; it is recorded. */
int notice_take_lost(const char *sandbox, const char *time);

#endif
