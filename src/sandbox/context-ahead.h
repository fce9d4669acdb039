/* An interpreter that waits in a sandbox which has made contexts of its language: forked already, its pages its own, so that the next context is there at once. */
#ifndef CLOCHE_SANDBOX_CONTEXT_AHEAD_H
#define CLOCHE_SANDBOX_CONTEXT_AHEAD_H

#include "notebook.h"

struct sandbox;

/* One that is ready, now the caller's; NULL: none. */
struct seat *ahead_take(struct sandbox *s, const struct runtime *runtime);
/* One was wanted: so will another be. It is made in a while, off the path of what is asked now. */
void ahead_want(struct sandbox *s, const struct runtime *runtime);
/* None was wanted for long. */
void ahead_tidy(struct sandbox *s, uint64_t now_ns);
void ahead_gone(struct sandbox *s);

#endif
