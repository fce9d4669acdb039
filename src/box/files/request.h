/* One request in progress: its parameters and its answer. Handlers fill result (and
 * attached, for bytes), or fail. Members are borrowed except result and attached, which
 * become those of the reply. */
#ifndef CLOCHE_BOX_FILES_REQUEST_H
#define CLOCHE_BOX_FILES_REQUEST_H

#include "base/buf.h"

#include <cloche/error.h>
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#define REQUEST_ATTACHED_MAX (256u << 20)

struct files_request {
        const char *directory; /* base of relative paths */
        const json_t *id;
        const char *method;
        const json_t *params; /* validated (params.h) */
        const unsigned char *attachments;
        int out_fd; /* in a job: the pipe for its frames */
        json_t *result;
        struct buf attached;
};

/* The absolute path of a parameter, without "//", "." and trailing slash; owned by the caller.
 * -CLOCHE_E_INVALID_ARGUMENT. */
CLOCHE_MUST_CHECK int request_path(const struct files_request *q, const char *name, char **ret, struct cloche_err *e);
/* A text parameter, or NULL. */
const char *request_text(const struct files_request *q, const char *name);
uint64_t request_count(const struct files_request *q, const char *name, uint64_t absent);
int request_is_true(const struct files_request *q, const char *name, int absent);
/* Permission bits, or absent. -CLOCHE_E_INVALID_ARGUMENT over 07777. */
CLOCHE_MUST_CHECK int request_mode(const struct files_request *q, const char *name, mode_t absent, mode_t *ret,
                                   struct cloche_err *e);

/* Text if the bytes are UTF-8, otherwise the bytes form with the bytes attached; a new reference,
 * NULL when out of memory. */
json_t *request_text_or_bytes(struct files_request *q, const void *data, size_t size);
/* "2026-11-21T10:20:30.123Z"; a new reference. */
json_t *request_time(const struct timespec *time);
/* Takes result; NULL becomes the out-of-memory error. */
CLOCHE_MUST_CHECK int request_answer(struct files_request *q, json_t *result, struct cloche_err *e);
int request_no_memory(struct cloche_err *e);

/* -- errors of system calls ----------------------------------------------------------------------------------- */

/* Set the error for the errno of a file system call (spec/errors.def). */
int files_os(struct cloche_err *e, int os_errno, const char *format, ...) __attribute__((format(printf, 3, 4)));

static inline void free_text(char **text)
{
        free(*text);
}

#define _cleanup_text_ __attribute__((cleanup(free_text)))

#endif
