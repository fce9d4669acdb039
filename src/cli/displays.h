/* What cells display, for people: its text on our output, its pictures and the like in files. */
#ifndef CLOCHE_CLI_DISPLAYS_H
#define CLOCHE_CLI_DISPLAYS_H

#include "daemon-client.h"
#include "outlet.h"

enum display_saves {
        DISPLAYS_NAMED,    /* other forms than text are named */
        DISPLAYS_PICTURES, /* pictures are saved, others neither saved nor named */
        DISPLAYS_ALL,      /* every form that a file can hold is saved */
};

struct displays {
        const char *sandbox; /* borrowed; of whom a file may hold what is too large */
        enum display_saves saves;
        const char *directory; /* borrowed; where to; NULL: one is made up when it is needed */
        char made_up[4096];
        unsigned last; /* number of a file */
};

/* A display behind what was printed before. 0, or the exit code: a line was printed. */
int displays_show(struct displays *d, const struct daemon_told *told, struct outlet *out);

#endif
