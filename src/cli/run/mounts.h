/* Mounted directories from the command line, combined into the `mount` object of a run. */
#ifndef CLOCHE_CLI_RUN_MOUNTS_H
#define CLOCHE_CLI_RUN_MOUNTS_H

#include "cli/command/cli.h"

#include <cloche/engine.h>
#include <jansson.h>

#define MOUNTS_MAX 8

struct mounts_options {
        json_t *object;          /* NULL: none */
        char *roots[MOUNTS_MAX]; /* the host's directories, real paths; of a file the one it is in */
        size_t count;
        char *text;
};

/* The directory that contains the file of this absolute path; NULL: no memory. */
char *mounts_directory(const char *path);

struct cloche_run_options;

/* Each returns 0, or a line was printed. */
int mounts_add(struct mounts_options *mounts, const char *value);      /* PLACE=HOSTPATH[:RULES.json] */
int mounts_add_rule(struct mounts_options *mounts, const char *value); /* PATTERN=[-]ACTION,… */
int mounts_set(struct mounts_options *mounts, const char *section, const char *member, const char *option,
               const char *value);
/* Call after all options: the run's mount, and the directories the engine may mount. */
int mounts_bind(struct mounts_options *mounts, struct cloche_engine_options *engine, struct cloche_run_options *run);
void mounts_done(struct mounts_options *mounts);

#endif
