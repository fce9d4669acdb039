/* Import an image: its tree is made beside, checked, and moved to its place with its record and
 * name. */
#ifndef CLOCHE_HELPERS_IMAGE_IMPORT_H
#define CLOCHE_HELPERS_IMAGE_IMPORT_H

#include "helpers/image/store/store.h"

struct image_tree;

struct import_options {
        const char *source;    /* for messages */
        const char *tag;       /* of the source's images; NULL: its only one */
        const char *reference; /* NAME:TAG; "": none */
        const char *architecture;
        bool keeps_names; /* a name that another image has is refused */
};

/* source_fd: a directory, a file or a pipe; borrowed. *ret: the answer. -CLOCHE_E_BAD_ARCHIVE;
 * after any error the store is as before. */
CLOCHE_MUST_CHECK int import_run(const struct store *store, int source_fd, const struct import_options *options,
                                 struct work *work, json_t **ret, struct cloche_err *e);

/* The parts below are for import.c, import-commit.c and commit.c. */

struct import {
        const struct store *store;
        const struct import_options *options;
        struct work *work;
        struct incoming incoming;
        json_t *config;              /* the members that the record keeps */
        const char *kind;            /* of the source */
        char source[HASH_TEXT_SIZE]; /* digest of the manifest, or of the archive's bytes; "": a directory */
        char *os, *architecture, *created, *created_by; /* owned; NULL: not stated */
        size_t layers;
        uint64_t bytes;
        json_t *drops;
        const struct listing_base *base; /* of a commit: the tree begins with its files; NULL: none */
        char key[HASH_TEXT_SIZE];        /* of the build step that made it; "": none */
};

/* Make the directory of the new tree. *ret: close it. */
CLOCHE_MUST_CHECK int import_make_tree(struct import *import, int *ret, struct cloche_err *e);
/* Finish the tree and take over its facts. */
CLOCHE_MUST_CHECK int import_finish_tree(struct import *import, struct image_tree *tree, struct cloche_err *e);
/* Free all but the incoming directory. */
void import_done(struct import *import);

/* The image that was imported from a manifest of this digest; "": none. */
CLOCHE_MUST_CHECK int import_find_again(struct import *import, char ret_id[HASH_TEXT_SIZE], struct cloche_err *e);
/* Move incoming/tree to its place and name it. */
CLOCHE_MUST_CHECK int import_commit(struct import *import, json_t **ret, struct cloche_err *e);
/* Make an image of the tree of another one, which is in its place. */
CLOCHE_MUST_CHECK int import_commit_again(struct import *import, int tree_fd, const json_t *below, json_t **ret,
                                          struct cloche_err *e);
/* Give the name to an image that is there. -CLOCHE_E_NOT_FOUND: it was removed meanwhile. */
CLOCHE_MUST_CHECK int import_name(struct import *import, const char *id, json_t **ret, struct cloche_err *e);

#endif
