/* The outcome of mounted directories: reported during and after a run; unwritten changes are
 * kept. */
#ifndef CLOCHE_CLI_OUTPUT_OUTCOME_H
#define CLOCHE_CLI_OUTPUT_OUTCOME_H

#include "cli/options/options.h"
#include "cli/run/changes.h"

struct outcome {
        char name[CHANGES_NAME_BYTES]; /* of the kept changes, or "" */
        int has_failed;                /* the requested sync failed */
        char *text;                    /* for people, owned */
        size_t size;
};

/* Call before the engine starts: registers events of the run and the process that keeps changes. 0,
 * or a line was printed. */
int outcome_prepare(struct cli_request *request);
/* After the run: keep its unwritten changes, if any. Call outcome_done() on ret after a failure
 * too. */
int outcome_settle(struct cli_request *request, cloche_result *result, struct outcome *ret);
/* Print a line for each warning and, with has_denials, for each connection and name refused; of
 * a run that failed, for the first of them in any case. 1:
 * output of the run was lost. */
int outcome_print_notes(FILE *out, const cloche_result *result, int has_denials);
/* The same for a result of a daemon. */
int outcome_print_notes_of(FILE *out, const json_t *whole, int has_denials);
void outcome_done(struct outcome *outcome);

/* Directories of the host and their paths in the box. */
struct outcome_mounts {
        const char *const *targets, *const *sources;
        size_t count;
};

/* Print the result of a sync for people: the written paths; the problems and their reasons. */
void outcome_print_written(FILE *out, const char *before, const struct outcome_mounts *mounts, const json_t *sync);
void outcome_print_problems(FILE *out, const char *before, const struct outcome_mounts *mounts, const json_t *sync);
int outcome_sync_failed(const json_t *sync);
/* Print the host's form of a path of the box. */
void outcome_print_path(FILE *out, const struct outcome_mounts *mounts, const json_t *path);

#endif
