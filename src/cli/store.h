/* Named set-ups of prefixes: a file each below the user's data directory. Its first line says as JSON what it is; the code and
 * the files follow as they are. Functions print a line and return an exit code, or 0. */
#ifndef CLOCHE_CLI_STORE_H
#define CLOCHE_CLI_STORE_H

#include "options.h"

#include <jansson.h>
#include <time.h>

struct stored {
        struct cloche_prefix_options prefix; /* points into what follows */
        time_t made;
        size_t size;
        void *map;
        json_t *head;
        struct cloche_file *files;
};

int store_check_name(const char *name);
/* 1 or 0 */
int store_has(const char *name);
int store_load(const char *name, struct stored *ret);
void store_done(struct stored *stored);
/* What the request says, under that name. An older one is replaced with force only. */
int store_save(const char *name, const struct cloche_prefix_options *prefix, int force);
int store_drop(const char *name);
/* Names in order, *ret_count of them; each and the list are owned by the caller. */
int store_names(char ***ret, size_t *ret_count);

#endif
