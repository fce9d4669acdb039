/* What became of mounted directories: told while a run goes on and when it has ended, and kept when it was not written. */
#ifndef CLOCHE_CLI_OUTCOME_H
#define CLOCHE_CLI_OUTCOME_H

#include "changes.h"
#include "options.h"

struct outcome {
        char name[CHANGES_NAME_BYTES]; /* of what was kept, or "" */
        int has_failed;                /* a sync that was to be */
        char *text; /* for people, owned */
        size_t size;
};

/* Before the engine starts: events of the run, and whoever keeps what is left. 0, or a line was printed. */
int outcome_prepare(struct cli_request *request);
/* The run has ended: its changes are kept, where there are any. ret is done with outcome_done(), also on failure. */
int outcome_settle(struct cli_request *request, cloche_result *result, struct outcome *ret);
/* A line for each warning, and, has_denials, for each connection and name that a run was refused. 1: output of the run was lost. */
int outcome_print_notes(FILE *out, const cloche_result *result, int has_denials);
void outcome_done(struct outcome *outcome);

/* Directories and what the box calls them. */
struct outcome_mounts {
        const char *const *targets, *const *sources;
        size_t count;
};

/* Lines for people of what a sync did: what was written; what was not and why, and what else there is to know. */
void outcome_print_written(FILE *out, const char *before, const struct outcome_mounts *mounts, const json_t *sync);
void outcome_print_problems(FILE *out, const char *before, const struct outcome_mounts *mounts, const json_t *sync);
int outcome_sync_failed(const json_t *sync);
/* A path of the box as the host has it. */
void outcome_print_path(FILE *out, const struct outcome_mounts *mounts, const json_t *path);

#endif
