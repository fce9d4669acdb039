/* Files of a run: placed before it, compared after it. */
#ifndef CLOCHE_ENGINE_FILES_H
#define CLOCHE_ENGINE_FILES_H

#include "box.h"
#include "mount.h"

#include <cloche/cloche.h>
#include <jansson.h>

#define FILES_CONTENT_MAX (1u << 20)        /* of one file in the result; larger ones are named without contents */
#define FILES_CONTENTS_TOTAL_MAX (16u << 20) /* of all together */
#define FILES_ROOT "/workspace"

/* A listing of FILES_ROOT, sorted by path. Paths point into bytes. */
struct files {
        struct files_entry {
                const char *path; /* not terminated */
                struct init_entry about;
        } *entries;
        size_t count;
        char *bytes;
};

/* An absolute path without empty parts and '.' for path, which may be relative to workdir and have them; '..' is
 * -CLOCHE_E_INVALID_ARGUMENT. */
int files_normalise(const char *path, const char *workdir, char *ret, size_t size, struct cloche_err *e);
/* An absolute normal path in the box's writable places for path, which may be relative to workdir.
 * -CLOCHE_E_INVALID_ARGUMENT for anything else. */
int files_resolve(const char *path, const char *workdir, char *ret, size_t size, struct cloche_err *e);

/* The caller's files, held until there is a box; a descriptor's contents are read when they are placed. */
struct kept_files {
        struct kept_file {
                char *path; /* in the box */
                int fd;
                uint32_t mode; /* with its type, as st_mode; a link's target are the contents */
        } *rows;
        size_t count;
};

/* mounts: NULL, or those of the run. ret is done with kept_files_done(), also on failure. */
int files_keep(const struct cloche_file *files, size_t count, const char *workdir, struct mounts *mounts, struct kept_files *ret, struct cloche_err *e);
/* One more, a plain file of ours, at a path that is not checked. */
int files_keep_more(struct kept_files *files, const char *path, const void *data, size_t size, struct cloche_err *e);
void kept_files_done(struct kept_files *files);

int files_list(struct box *box, struct files *ret, struct cloche_err *e);
/* The same from the memory file that init sent; borrowed. */
int files_parse_fd(int fd, struct files *ret, struct cloche_err *e);
/* Records as init writes them; pure. bytes is taken, also on failure. */
int files_parse(char *bytes, size_t size, struct files *ret, struct cloche_err *e);
void files_done(struct files *files);
/* A whole regular file of at most max bytes, read from its beginning: NULL, or bytes owned by the caller. */
char *files_read(int fd, size_t max, size_t *ret_size);
/* size bytes from a position on, or fewer where the file ends before. */
char *files_read_at(int fd, off_t at, size_t size, size_t *ret_size);

/* {created, modified, deleted, denied}; contents are fetched from the box unless omit_contents. */
int files_compare(struct box *box, const struct files *before, const struct files *after, int omit_contents, json_t **ret,
                  struct cloche_err *e);

/* [{path, kind, size, mode, content | target | entries | error}] of what lies there now. */
json_t *files_collect(struct box *box, char *const *paths, size_t count);

/* A JSON string for bytes that are UTF-8, else the tagged form; NULL when out of memory. */
json_t *files_bytes_to_json(const void *bytes, size_t size);
/* The same as a held value (wire/value.h). */
json_t *files_bytes_to_value(const void *bytes, size_t size);

#endif
