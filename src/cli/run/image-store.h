/* The image store, through cloche-image (src/helpers/image/README.md). Functions print a line and
 * return an exit code, or 0. */
#ifndef CLOCHE_CLI_RUN_IMAGE_STORE_H
#define CLOCHE_CLI_RUN_IMAGE_STORE_H

#include "engine/box/image-client.h"

#include <cloche/error.h>
#include <jansson.h>

struct cli_request;

/* Open the store's directory; it is made if it is missing. */
int image_store_open(const struct cli_request *request, int *ret);
/* Send one request and wait, with a progress line. params: stolen; NULL: none. data_fd: the source
 * or the output; -1: none. *ret: the answer, a new reference. */
int image_store_request(const struct cli_request *request, const char *method, json_t *params, int data_fd,
                        json_t **ret);

/* A program for several requests; {0} before the first. */
struct image_store {
        struct image_client client;
        int fd;
        int is_open;
};

/* Send a request without printing an error of the store: *ret_e has it, code 0 if a line was
 * printed. */
int image_store_ask(const struct cli_request *request, struct image_store *store, const char *method, json_t *params,
                    json_t **ret, struct cloche_err *ret_e);
void image_store_end(struct image_store *store);
/* Write the path of the store. */
int image_store_path(const struct cli_request *request, char *ret, size_t size);
/* Print the answer of an import: the name, and on standard error what was left out. */
void image_print_notes(const json_t *notes);
void image_print_import(const struct cli_request *request, const json_t *answer);
/* Set the engine's image to the tree of request->image_name. */
int image_store_resolve(struct cli_request *request);

#endif
