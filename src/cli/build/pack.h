/* Files on their way into the sandbox of a step, as archives: one request for each MiB, not for
 * each file. Functions return 0, or an exit code after a line was printed. */
#ifndef CLOCHE_CLI_BUILD_PACK_H
#define CLOCHE_CLI_BUILD_PACK_H

#include "box.h"

struct archive;

struct pack {
        struct build *build;
        int64_t uid, gid; /* of all members; -1: nobody's choice, as the sandbox has one user */
        int64_t mode;     /* of files and directories; -1: their own */
        struct archive *archive;
        char to[COPY_PATH_BYTES]; /* the directory for the members of the archive */
        uint64_t bytes;           /* of the archive */
        struct cloche_err e;      /* of a request */
};

/* Have the next members go into this directory of the sandbox. */
int pack_begin(struct pack *pack, const char *to);
/* Add an entry of an open directory of the context. path: in the context; member: in the directory
 * of the sandbox, "": what is in a directory of the context. */
int pack_entry(struct pack *pack, int dir_fd, const char *name, const char *path, const char *member);
/* Add a file that begins, of this size; its bytes follow. */
int pack_file(struct pack *pack, const char *member, uint64_t size, unsigned mode, json_int_t time);
int pack_bytes(struct pack *pack, const void *data, size_t size);
/* Unpack the last archive. */
int pack_finish(struct pack *pack);
/* After an error too. */
void pack_done(struct pack *pack);
/* The request that unpacks BUILD_ARCHIVE there, with the owner and mode. */
int pack_extract(struct pack *pack, const char *to);

#endif
