/* A request that may take long, in a process of its own. It writes frames into a pipe; the program hands whole ones on, so that one that is
 * killed leaves no torn frame behind. */
#ifndef CLOCHE_FILES_JOB_H
#define CLOCHE_FILES_JOB_H

#include "request.h"
#include "wire/frame.h"

#include <sys/types.h>

struct job {
        json_t *id; /* owned */
        pid_t pid;
        int fd; /* its frames; owned */
        struct frame_reader reader;
};

/* run is called in the new process, which then ends; what it returns is its exit code: 0 after an answer. channel_fd: not for it. */
CLOCHE_MUST_CHECK int job_start(struct job *job, struct request *q, int (*run)(struct request *q), int channel_fd, struct cloche_err *e);
/* Read what there is, and give each whole frame to hand_on. 1: it may go on; 0: it has ended and is reaped; *ret_answered says whether in order. */
int job_read(struct job *job, int (*hand_on)(void *data, const struct frame *frame), void *data, int *ret_answered);
void job_kill(struct job *job);
/* A watch tells at once what it has gathered, then the event "flushed"; of other jobs nothing comes. */
void job_flush(const struct job *job);

#endif
