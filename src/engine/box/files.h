/* Files of a run: placed before it, compared after it. */
#ifndef CLOCHE_ENGINE_BOX_FILES_H
#define CLOCHE_ENGINE_BOX_FILES_H

#include "box.h"
#include "engine/mounts/mount.h"

#include <cloche/error.h>
#include <jansson.h>

struct cloche_file;

#define FILES_CONTENT_MAX (1u << 20)         /* of one file in a result; larger ones have no contents there */
#define FILES_CONTENTS_TOTAL_MAX (16u << 20) /* of all files of a result */
#define FILES_ROOT "/workspace"

/* A listing of FILES_ROOT, sorted by path. Paths point into bytes. */
struct files {
        struct files_entry {
                const char *path; /* not terminated */
                struct init_entry about;
        } * entries;
        size_t count;
        char *bytes;
};

/* Make path, which may be relative to workdir, absolute, without empty parts and '.'; a part '..'
 * is -CLOCHE_E_INVALID_ARGUMENT. */
int files_normalise(const char *path, const char *workdir, char *ret, size_t size, struct cloche_err *e);
/* Likewise, and the path must be in a writable place of the box; else
 * -CLOCHE_E_INVALID_ARGUMENT. */
int files_resolve(const char *path, const char *workdir, char *ret, size_t size, struct cloche_err *e);

/* The caller's files, held until there is a box. Contents behind a descriptor are read when they
 * are placed. */
struct kept_files {
        struct kept_file {
                char *path; /* in the box */
                int fd;
                uint32_t mode; /* st_mode with the type; the contents of a link are its target */
        } * rows;
        size_t count;
};

/* mounts: those of the run, or NULL. Call kept_files_done() on ret, also on failure. */
int files_keep(const struct cloche_file *files, size_t count, const char *workdir, struct mounts *mounts,
               struct kept_files *ret, struct cloche_err *e);
/* Add a plain file of ours, at a path that is not checked. */
int files_keep_more(struct kept_files *files, const char *path, const void *data, size_t size, struct cloche_err *e);
void kept_files_done(struct kept_files *files);

int files_list(struct box *box, struct files *ret, struct cloche_err *e);
/* Parse the memory file that init sent; borrowed. */
int files_parse_fd(int fd, struct files *ret, struct cloche_err *e);
/* Parse the records that init writes; pure. Takes bytes, also on failure. */
int files_parse(char *bytes, size_t size, struct files *ret, struct cloche_err *e);
void files_done(struct files *files);
/* Read a whole regular file of at most max bytes from its beginning. Returns bytes owned by the
 * caller, or NULL. */
char *files_read(int fd, size_t max, size_t *ret_size);
/* Read size bytes at a position, fewer at the end of the file. */
char *files_read_at(int fd, off_t at, size_t size, size_t *ret_size);

/* Make {created, modified, deleted, denied}; contents are read from the box unless
 * omit_contents. */
int files_compare(struct box *box, const struct files *before, const struct files *after, int omit_contents,
                  json_t **ret, struct cloche_err *e);

/* Make [{path, kind, size, mode, content | target | entries | error}] of the present files at
 * paths. */
json_t *files_collect(struct box *box, char *const *paths, size_t count);

/* Return a JSON string for UTF-8 bytes, the tagged form for others, NULL without memory. */
json_t *files_bytes_to_json(const void *bytes, size_t size);
/* Likewise, as a held value (wire/value.h). */
json_t *files_bytes_to_value(const void *bytes, size_t size);

#endif
