/* The image store, as the daemon sees it: requests to cloche-image, which the keeper starts. The
 * engine's process has no right to open the store. */
#ifndef CLOCHE_DAEMON_IMAGES_PROGRAM_H
#define CLOCHE_DAEMON_IMAGES_PROGRAM_H

#include "daemon/core/daemon.h"

#include <jansson.h>

struct image_program;
struct image_request;

/* One of result and e is NULL; borrowed. */
typedef void (*image_answered)(void *data, const json_t *result, const struct cloche_err *e);

/* Fails if the daemon has no image store. */
CLOCHE_MUST_CHECK int images_check_store(const struct daemon *d, struct cloche_err *e);

/* Send a request to the program that reads, which is started if it does not run. params are stolen.
 * *ret may be detached until the answer. */
CLOCHE_MUST_CHECK int images_read(struct daemon *d, const char *method, json_t *params, image_answered answered,
                                  void *data, struct image_request **ret, struct cloche_err *e);
/* No answer will come. The program goes on. */
void image_request_detach(struct image_request *request);

/* Start another program for a caller. data_fd: the source of an import, borrowed; -EBADF: none.
 * -CLOCHE_E_QUEUE_FULL: there are too many, or too many of this caller. */
CLOCHE_MUST_CHECK int image_program_start(struct daemon *d, int64_t principal, int data_fd, int may_write,
                                          struct image_program **ret, struct cloche_err *e);
CLOCHE_MUST_CHECK int image_program_request(struct image_program *p, const char *method, json_t *params,
                                            image_answered answered, void *data, struct image_request **ret,
                                            struct cloche_err *e);
/* End it; no answer comes any more, and it is freed later. Work that is not finished
 * is undone. Accepts NULL. */
void image_program_close(struct image_program *p);

/* Free closed programs; called in each iteration of the loop. */
void images_reap(struct daemon *d);
/* End the reader if it does not answer, or has had nothing to do for a while. */
void images_sweep(struct daemon *d, uint64_t now_ns);
/* Close and free all of them, before the engine is freed. */
void images_stop(struct daemon *d);

#endif
