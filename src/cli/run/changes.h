/* Unwritten changes of runs, kept for later below the user's state directory:
 *
 *   changes/NAME/about.json  written by the user's own process: time, directories, count
 *   changes/NAME/set/        the changes in the library's format; written and read without
 *   privilege only
 *
 * A name is the time in UTC and some random letters, so names sort by age. Functions print a line
 * and return an exit code, or 0. */
#ifndef CLOCHE_CLI_RUN_CHANGES_H
#define CLOCHE_CLI_RUN_CHANGES_H

#include "helper.h"

#include <cloche/cloche.h>
#include <jansson.h>
#include <stdint.h>
#include <time.h>

#define CHANGES_NAME_BYTES 32
#define CHANGES_MOUNTS_MAX 8

/* -- kept changes ---------- */

struct changes_kept {
        char name[CHANGES_NAME_BYTES];
        json_t *about;
        time_t made;
        json_int_t count;
        size_t mount_count;
        const char *targets[CHANGES_MOUNTS_MAX], *sources[CHANGES_MOUNTS_MAX]; /* in the box, on the host */
        char *roots[CHANGES_MOUNTS_MAX]; /* the sources, and of a file the directory it is in */
        int set_fd, dir_fd;
};

int changes_names(char ***ret, size_t *ret_count);
/* name: NULL for the newest of a directory that holds the current one, or lies in it. Call
 * changes_close() on ret after a failure too. */
int changes_open(const char *name, struct changes_kept *ret);
void changes_close(struct changes_kept *kept);
/* Prevents concurrent syncs of the same changes. */
int changes_lock(const struct changes_kept *kept);
int cli_changes_drop(const char *name);
int cli_changes_drop_all(void);
/* Update the number of remaining changes. */
int changes_recount(const struct changes_kept *kept, uint32_t count);

/* The deepest target that contains path, with *ret_below after its slash, or that equals path, with
 * ""; -1: none. */
int changes_find_mount(const char *const *targets, size_t count, const char *path, const char **ret_below);

/* -- keeping -- */

/* Call before dropping privilege. mount: the run's, borrowed until the privileged helper has
 * ended. */
int changes_prepare(struct privileged_helper *helper, const json_t *mount);
/* Keep a set of count changes. Ends the privileged helper; a failure leaves nothing behind. */
int cli_changes_keep(struct privileged_helper *helper, const cloche_changeset *set, uint32_t count,
                     char ret_name[CHANGES_NAME_BYTES]);

#endif
