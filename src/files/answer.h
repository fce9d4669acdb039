/* Frames that are told: to the channel, or from a job into its pipe. 0, or -1 when nobody reads any more. */
#ifndef CLOCHE_FILES_ANSWER_H
#define CLOCHE_FILES_ANSWER_H

#include "request.h"
#include "wire/frame.h"

int answer_frame(int fd, const struct frame *frame);
/* An answer too large for a frame becomes the error that says so. */
int answer_result(int fd, struct request *q);
/* id NULL: of no request. */
int answer_error(int fd, const json_t *id, const struct cloche_err *error);
int answer_unknown(int fd, const json_t *id, const char *method);

/* The notification `event` {id, event, about}, appended to out; about is stolen, its bytes are attached. -CLOCHE_E_RESOURCE. */
CLOCHE_MUST_CHECK int answer_event(struct buf *out, const struct request *q, const char *event, json_t *about, const struct buf *attached, struct cloche_err *e);

#endif
