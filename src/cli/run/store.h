/* Named set-ups of prefixes, one file each below the user's data directory. The first line
 * describes the set-up as JSON; code and files follow verbatim. Functions print a line and return
 * an exit code, or 0. */
#ifndef CLOCHE_CLI_RUN_STORE_H
#define CLOCHE_CLI_RUN_STORE_H

#include "cli/options/options.h"

#include <jansson.h>
#include <time.h>

struct stored {
        struct cloche_prefix_options prefix; /* points into the mapped file */
        time_t made;
        size_t size;
        void *map;
        json_t *head;
        struct cloche_file *files;
};

int store_check_name(const char *name);
/* 1 or 0 */
int store_has(const char *name);
int cli_store_load(const char *name, struct stored *ret);
void store_done(struct stored *stored);
/* Save the request's set-up under that name; force: replace an older one. */
int cli_store_save(const char *name, const struct cloche_prefix_options *prefix, int force);
int store_drop(const char *name);
/* Sorted names, *ret_count of them; the list and its entries are owned by the caller. */
int store_names(char ***ret, size_t *ret_count);

#endif
