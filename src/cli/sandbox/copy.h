/* cloche cp: copy files between the host and a sandbox in pieces. File data from a sandbox is
 * hostile: names are checked, and on the host no file is opened through a link that the sandbox
 * could have sent. */
#ifndef CLOCHE_CLI_SANDBOX_COPY_H
#define CLOCHE_CLI_SANDBOX_COPY_H

#include "daemon-client.h"

#define COPY_PIECE_BYTES (1 << 20)
#define COPY_PATH_BYTES 4096

struct copy {
        struct daemon_client client;
        const char *sandbox;
        int code; /* exit code so far: entries that fail are reported and skipped */
        /* Return true for an entry below a directory of the host that stays there; name: with
         * those of the directories, from the one that was given on. NULL: none does. */
        int (*stays)(void *data, const char *name, int is_directory);
        void *stays_data;
};

/* Each returns 0, or the exit code after a line was printed. */

/* inside: an absolute path of the sandbox, or one below its /workspace; host: a path of the
 * host, or "-". */
int cli_copy_in(struct copy *copy, const char *host, const char *inside);
/* Copy the entry of an open directory to exactly that path; the contents of a directory join
 * those that are there. name: for messages. */
int cli_copy_entry(struct copy *copy, int dir_fd, const char *entry, const char *name, const char *inside);
int cli_copy_out(struct copy *copy, const char *inside, const char *host);

/* One request for a path; more is stolen and may be NULL. *ret: the answer, to be freed; ret may
 * be NULL. */
int copy_request(struct copy *copy, const char *method, const char *path, json_t *more, const void *data, size_t size,
                 struct daemon_message *ret, struct cloche_err *e);
/* Write a piece of a file. The first one, at 0, makes or truncates the file, with this mode. */
int copy_write_piece(struct copy *copy, const char *path, const void *data, size_t size, uint64_t offset, unsigned mode,
                     struct cloche_err *e);
/* "directory/name", or name when directory is ""; -CLOCHE_E_TOO_LARGE. */
int copy_join(char ret[COPY_PATH_BYTES], const char *directory, const char *name, struct cloche_err *e);
/* Copy the last part of a path, without trailing slashes, into ret. */
const char *copy_last(const char *path, char ret[COPY_PATH_BYTES]);
/* Fetch file.stat of a path of the sandbox: an entry, a new reference; NULL: not found. */
int copy_stat(struct copy *copy, const char *inside, json_t **ret, struct cloche_err *e);
/* Have signals cancel, from now on. 0, or a line was printed. */
int copy_catch_signals(void);
/* True after SIGINT, SIGTERM or SIGHUP: remove partial files and start nothing new. */
int copy_is_cancelled(void);
/* Wait until fd is readable or the copy is cancelled. */
void copy_wait(int fd);
/* Report an error and continue; it counts for the exit code. */
void copy_skip(struct copy *copy, const struct cloche_err *e);

#endif
