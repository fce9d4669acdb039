/* cloche cp: files between the host and a sandbox, a piece at a time. What a sandbox says of its files is hostile: names are checked, and on the
 * host nothing is opened through a link that it could have sent. */
#ifndef CLOCHE_CLI_COPY_H
#define CLOCHE_CLI_COPY_H

#include "daemon-client.h"

#define COPY_PIECE_BYTES (1 << 20)
#define COPY_PATH_BYTES 4096

struct copy {
        struct daemon_client client;
        const char *sandbox;
        int code; /* the exit code so far: what could not be copied is said and passed over */
};

/* Each: 0, or the exit code: a line was printed. */

/* inside: a path of the sandbox, or below its /workspace; host: of the host, or "-". */
int copy_in(struct copy *copy, const char *host, const char *inside);
int copy_out(struct copy *copy, const char *inside, const char *host);

/* One request about a path; more is stolen and may be NULL. *ret: the answer, to be done with; NULL: nobody wants it. */
int copy_ask(struct copy *copy, const char *method, const char *path, json_t *more, const void *data, size_t size, struct daemon_told *ret,
             struct cloche_err *e);
/* "directory/name", or name when directory is ""; -CLOCHE_E_TOO_LARGE. */
int copy_join(char ret[COPY_PATH_BYTES], const char *directory, const char *name, struct cloche_err *e);
/* The last part of a path, without slashes at its end; into ret. */
const char *copy_last(const char *path, char ret[COPY_PATH_BYTES]);
/* What a path of the sandbox is: an entry of file.stat, a new reference; NULL: nothing is there. */
int copy_stat(struct copy *copy, const char *inside, json_t **ret, struct cloche_err *e);
/* SIGINT, SIGTERM or SIGHUP came: what is half there is to be removed, and nothing more begun. */
int copy_is_cancelled(void);
/* Until there is something to read, or it is cancelled. */
void copy_wait(int fd);
/* Say it, and go on: it counts for the exit code. */
void copy_passed_over(struct copy *copy, const struct cloche_err *e);

#endif
