/* Packages of new sandboxes: installed once in a sandbox of their own, kept as a layer, given to
 * all sandboxes of the principal with the same image, packages and variables. */
#ifndef CLOCHE_SANDBOX_ENVIRONMENT_PACKAGES_H
#define CLOCHE_SANDBOX_ENVIRONMENT_PACKAGES_H

#include "sandbox/core/sandboxes.h"

#define PACKAGES_KEY_SIZE 65

/* Begins the request again. As a handler. */
typedef int (*packages_then)(struct sandbox_request *request, struct cloche_err *e);

/* Find the layer for the request, sandbox.create with packages. 0: ret_key has it. 1:
 * the request waits, and then is called, or the request fails.
 * -CLOCHE_E_INVALID_ARGUMENT, _STATE, _RESOURCE. */
CLOCHE_MUST_CHECK int sandbox_packages_find(struct sandbox_request *request, const struct image *image,
                                            packages_then then, char ret_key[PACKAGES_KEY_SIZE], struct cloche_err *e);
/* Fail for a name of sandboxes that are made and deleted here, unless one is being made now. */
CLOCHE_MUST_CHECK int sandbox_packages_check_name(const struct sandboxes *all, int64_t principal, const char *name,
                                                  struct cloche_err *e);
/* Delete the sandboxes in which packages are being installed; those of an earlier process, too. */
void sandbox_packages_tidy(struct sandboxes *all);
void sandbox_packages_free(struct sandboxes *all);

#endif
