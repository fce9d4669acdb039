/* The JSON of images: the index and manifest of an OCI layout (OCI image specification 1.1), the
 * manifest.json of `docker save`, and the configuration of both. Hostile bytes; pure. */
#ifndef CLOCHE_HELPERS_IMAGE_READ_MANIFEST_H
#define CLOCHE_HELPERS_IMAGE_READ_MANIFEST_H

#include "helpers/image/hash.h"

#include <cloche/error.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define MANIFEST_BYTES_MAX (4u << 20)
#define MANIFEST_ROWS_MAX 1000 /* images of an index */
#define MANIFEST_LAYERS_MAX 500
#define MANIFEST_DEPTH_MAX 3 /* an index in an index */

enum descriptor_kind { DESCRIPTOR_INDEX, DESCRIPTOR_MANIFEST, DESCRIPTOR_OTHER };

/* Texts are borrowed from the JSON. */
struct descriptor {
        char hex[HASH_TEXT_SIZE];
        int64_t size;
        enum descriptor_kind kind;
        const char *tag;                         /* org.opencontainers.image.ref.name; NULL: none */
        const char *os, *architecture, *variant; /* NULL: not stated */
};

struct image_index {
        json_t *json;
        struct descriptor *rows;
        size_t count;
};

struct image_manifest {
        json_t *json;
        struct descriptor config;
        struct descriptor *layers;
        size_t layer_count;
};

/* One image of a docker archive: names of members. */
struct docker_image {
        const char *config;
        const char **layers;
        size_t layer_count;
        const json_t *tags;
};

struct docker_manifest {
        json_t *json;
        struct docker_image *images;
        size_t count;
};

struct image_config {
        json_t *json;
        json_t *kept;                                         /* the members that a record holds */
        const char *os, *architecture, *created, *created_by; /* NULL: not stated */
        char (*diff_ids)[HASH_TEXT_SIZE];
        size_t diff_id_count;
};

/* Errors: -CLOCHE_E_BAD_ARCHIVE. Each is released with its _done(), also after an error. */
CLOCHE_MUST_CHECK int image_index_read(const char *text, size_t size, struct image_index *ret, struct cloche_err *e);
void image_index_done(struct image_index *index);
CLOCHE_MUST_CHECK int image_manifest_read(const char *text, size_t size, struct image_manifest *ret,
                                          struct cloche_err *e);
void image_manifest_done(struct image_manifest *manifest);
CLOCHE_MUST_CHECK int docker_manifest_read(const char *text, size_t size, struct docker_manifest *ret,
                                           struct cloche_err *e);
void docker_manifest_done(struct docker_manifest *manifest);
CLOCHE_MUST_CHECK int image_config_read(const char *text, size_t size, struct image_config *ret, struct cloche_err *e);
void image_config_done(struct image_config *config);

/* Choose the one image for this machine; tag NULL: any. -CLOCHE_E_BAD_ARCHIVE: none, or several. */
CLOCHE_MUST_CHECK int image_index_choose(const struct image_index *index, const char *tag, const char *architecture,
                                         const struct descriptor **ret, struct cloche_err *e);
CLOCHE_MUST_CHECK int docker_manifest_choose(const struct docker_manifest *manifest, const char *tag,
                                             const struct docker_image **ret, struct cloche_err *e);
/* An image of another system or processor is refused; so is a number of layers that is not the
 * configuration's. */
CLOCHE_MUST_CHECK int image_config_check(const struct image_config *config, const char *architecture,
                                         size_t layer_count, struct cloche_err *e);

#endif
