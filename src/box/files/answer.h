/* Build frames: a job writes its answer into its pipe, and a watch its events. */
#ifndef CLOCHE_BOX_FILES_ANSWER_H
#define CLOCHE_BOX_FILES_ANSWER_H

#include "request.h"

/* Write the result of a request, or error unless it is NULL, as one frame; it waits
 * while the pipe is full. A result too large for a frame is replaced by an error. 0, or
 * -1 if the reader has gone. */
CLOCHE_MUST_CHECK int answer_write(struct files_request *q, const struct cloche_err *error);

/* Append the notification `event` {id, event, about} to out. Steals about; copies the attached
 * bytes. -CLOCHE_E_RESOURCE. */
CLOCHE_MUST_CHECK int answer_event(struct buf *out, const struct files_request *q, const char *event, json_t *about,
                                   const struct buf *attached, struct cloche_err *e);

#endif
