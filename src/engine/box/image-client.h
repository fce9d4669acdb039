/* cloche-image for a caller that waits: a program for one operation of the image store, or a
 * few. */
#ifndef CLOCHE_ENGINE_BOX_IMAGE_CLIENT_H
#define CLOCHE_ENGINE_BOX_IMAGE_CLIENT_H

#include "wire/client.h"

#include <sys/types.h>

#define IMAGE_CLIENT_PROGRAM "cloche-image"

struct image_client {
        struct wire_client wire;
        int fd;
        pid_t pid;
};

/* program: its path. data_fd: the source or the output; negative: none. is_reader: it can change
 * nothing. The descriptors are borrowed. */
CLOCHE_MUST_CHECK int image_client_start(const char *program, int store_fd, int data_fd, int is_reader,
                                         struct image_client *ret, struct cloche_err *e);
/* Open the store, or send a request to the open one, and wait for the answer. params: stolen.
 * on_progress: gets the parameters of each report; or NULL. */
CLOCHE_MUST_CHECK int image_client_request(struct image_client *c, const char *method, json_t *params,
                                           void (*on_progress)(const json_t *params), json_t **ret,
                                           struct cloche_err *e);
/* End the program, and wait for that. */
void image_client_stop(struct image_client *c);

/* Find the tree and the settings of a name in the store of a directory, as "resolve" answers
 * them. */
CLOCHE_MUST_CHECK int image_client_resolve(const char *libexec_dir, const char *images_dir, const char *name,
                                           json_t **ret, struct cloche_err *e);

#endif
