/* An image on top of another one of the store: the changes of a sandbox, another configuration,
 * or both. */
#ifndef CLOCHE_HELPERS_IMAGE_COMMIT_H
#define CLOCHE_HELPERS_IMAGE_COMMIT_H

#include "helpers/image/read/change.h"
#include "helpers/image/store/store.h"

#define COMMIT_SCRATCH "scratch" /* the name of an image without files */

struct commit_options {
        const char *tree;     /* of the image below, as a digest; NULL: that of name */
        const char *name;     /* by which the image below was found; its configuration is inherited if it has the tree;
                                 NULL:     that of any image that has it */
        const json_t *config; /* members that replace those of the image below; of env and labels the members are
                                 added; null removes. NULL: none */
        const char *created_by;        /* NULL: not stated */
        const char *reference;         /* NAME:TAG; "": none */
        const char *architecture;      /* of this machine */
        char key[HASH_TEXT_SIZE];      /* of the build step; "": none */
        bool keeps_names;              /* a name that another image has is refused */
        const struct changes *changes; /* the source is the archive of a sandbox; NULL: it is not read */
};

/* *ret: the answer, as that of an import. After any error the store is as before. */
CLOCHE_MUST_CHECK int commit_run(const struct store *store, int source_fd, const struct commit_options *options,
                                 struct work *work, json_t **ret, struct cloche_err *e);

#endif
