/* Send frames: to the channel, or from a job into its pipe. 0, or -1 if the reader has gone. */
#ifndef CLOCHE_BOX_FILES_ANSWER_H
#define CLOCHE_BOX_FILES_ANSWER_H

#include "request.h"
#include "wire/frame.h"

int answer_frame(int fd, const struct frame *frame);
/* An answer too large for a frame is replaced by an error. */
int answer_result(int fd, struct request *q);
/* id NULL: the error belongs to no request. */
int answer_error(int fd, const json_t *id, const struct cloche_err *error);
int answer_unknown(int fd, const json_t *id, const char *method);

/* Append the notification `event` {id, event, about} to out. Steals about; copies the attached
 * bytes. -CLOCHE_E_RESOURCE. */
CLOCHE_MUST_CHECK int answer_event(struct buf *out, const struct request *q, const char *event, json_t *about,
                                   const struct buf *attached, struct cloche_err *e);

#endif
