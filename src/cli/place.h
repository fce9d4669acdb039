/* Where cells run: a sandbox and a context of it. What is not named is made, and ends with us: so signals are for requests meanwhile, which hear them. */
#ifndef CLOCHE_CLI_PLACE_H
#define CLOCHE_CLI_PLACE_H

#include "daemon-client.h"

#include <signal.h>

struct place {
        struct daemon_client *client;        /* borrowed */
        char *sandbox, *context, *language;  /* owned; language: as the context has it */
        int owns_sandbox, owns_context;
        sigset_t signals; /* blocked before */
};

/* sandbox, context, language: borrowed, NULL: not named. 0, or the exit code: a line was printed. To be closed in either case. */
int place_open(struct place *place, struct daemon_client *client, const char *sandbox, const char *context, const char *language);
/* What was made is taken down. 0, or the exit code. */
int place_close(struct place *place);

#endif
