/* Displays of cells, for people: text on our output; pictures and other forms in files. */
#ifndef CLOCHE_CLI_CELLS_DISPLAYS_H
#define CLOCHE_CLI_CELLS_DISPLAYS_H

#include "cli/output/output-queue.h"
#include "cli/sandbox/daemon-client.h"

enum display_saves {
        DISPLAYS_NAMED,    /* forms other than text are named */
        DISPLAYS_PICTURES, /* pictures are saved, others neither saved nor named */
        DISPLAYS_ALL,      /* every form that fits a file is saved */
};

struct displays {
        const char *sandbox; /* borrowed; its files may hold displays that are too large */
        enum display_saves saves;
        const char *directory; /* borrowed; destination; NULL: created when needed */
        char made_up[4096];
        unsigned last; /* number of the last file */
};

/* Show a display after earlier output. 0, or the exit code after a line was printed. */
int displays_show(struct displays *d, const struct daemon_message *message, struct output_queue *out);

#endif
