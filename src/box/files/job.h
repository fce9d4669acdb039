/* A long request runs in its own process. It writes frames into a pipe; the program forwards only
 * whole frames, so that a killed job leaves no torn frame. */
#ifndef CLOCHE_BOX_FILES_JOB_H
#define CLOCHE_BOX_FILES_JOB_H

#include "request.h"
#include "wire/frame.h"

#include <sys/types.h>

struct files_job {
        json_t *id; /* owned */
        pid_t pid;
        int fd; /* read end of its pipe; owned */
        struct frame_reader reader;
};

/* Call run in the new process, which exits with its result: 0 after an answer. The new process
 * closes channel_fd. */
CLOCHE_MUST_CHECK int job_start(struct files_job *job, struct files_request *q, int (*run)(struct files_request *q),
                                int channel_fd, struct cloche_err *e);
/* Read available bytes and pass each whole frame to on_frame. 1: the job still runs; 0: it has
 * exited and is reaped; *ret_answered: with exit code 0. */
int job_read(struct files_job *job, int (*on_frame)(void *data, const struct frame *frame), void *data,
             int *ret_answered);
void job_kill(struct files_job *job);
/* Make a watch send its pending changes at once, then the event "flushed". Other jobs ignore it. */
void job_flush(const struct files_job *job);

#endif
