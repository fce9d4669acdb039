/* Read the JSON of images. Runs in: cloche-image, as its user, confined to the store and the
 * source. */
#include "manifest.h"

#include "base/err.h"
#include "wire/json.h"

#include <stdlib.h>
#include <string.h>

#define OTHERS_BYTES 160

static int refuse(struct cloche_err *e, const char *part, const char *why)
{
        return err_set(e, CLOCHE_E_BAD_ARCHIVE, "%s %s", part, why);
}

static int load(const char *text, size_t size, const char *part, json_t **ret, struct cloche_err *e)
{
        struct cloche_err cause = {0};

        if (size > MANIFEST_BYTES_MAX)
                return err_set(e, CLOCHE_E_BAD_ARCHIVE, "%s has more than %u bytes", part, MANIFEST_BYTES_MAX);
        if (json_load_text(text, size, ret, &cause) < 0)
                return err_set(e, CLOCHE_E_BAD_ARCHIVE, "%s: %s", part, cause.msg);
        return 0;
}

/* A text member; NULL if it is absent, no text, or has a NUL. */
static const char *text_of(const json_t *object, const char *name)
{
        const json_t *member = json_object_get(object, name);
        const char *text = json_string_value(member);

        return text && strlen(text) == json_string_length(member) ? text : NULL;
}

static void *make_rows(size_t count, size_t size)
{
        return calloc(count ? count : 1, size);
}

/* -- descriptors ---------------------------------------------------------------------------------------------- */

static int read_digest(const char *text, const char *part, char ret[HASH_TEXT_SIZE], struct cloche_err *e)
{
        static const char prefix[] = "sha256:";
        const char *hex;

        if (!text || strncmp(text, prefix, strlen(prefix)) != 0)
                return refuse(e, part, "has a digest that is not sha256:… (no other kind is supported)");
        hex = text + strlen(prefix);
        if (!hash_is_text(hex, strlen(hex)))
                return refuse(e, part, "has a digest that is not 64 digits");
        memcpy(ret, hex, HASH_TEXT_SIZE);
        return 0;
}

static enum descriptor_kind kind_of(const char *type)
{
        static const struct {
                const char *type;
                enum descriptor_kind kind;
        } types[] = {
                {"application/vnd.oci.image.index.v1+json", DESCRIPTOR_INDEX},
                {"application/vnd.docker.distribution.manifest.list.v2+json", DESCRIPTOR_INDEX},
                {"application/vnd.oci.image.manifest.v1+json", DESCRIPTOR_MANIFEST},
                {"application/vnd.docker.distribution.manifest.v2+json", DESCRIPTOR_MANIFEST},
        };

        for (size_t i = 0; type && i < sizeof(types) / sizeof(types[0]); i++)
                if (strcmp(types[i].type, type) == 0)
                        return types[i].kind;
        return DESCRIPTOR_OTHER;
}

static int read_descriptor(const json_t *json, const char *part, struct descriptor *ret, struct cloche_err *e)
{
        const json_t *size = json_object_get(json, "size"), *platform = json_object_get(json, "platform");

        if (!json_is_integer(size) || json_integer_value(size) < 0)
                return refuse(e, part, "has a descriptor without a size");
        *ret = (struct descriptor){
                .size = json_integer_value(size),
                .kind = kind_of(text_of(json, "mediaType")),
                .tag = text_of(json_object_get(json, "annotations"), "org.opencontainers.image.ref.name"),
                .os = text_of(platform, "os"),
                .architecture = text_of(platform, "architecture"),
                .variant = text_of(platform, "variant"),
        };
        return read_digest(text_of(json, "digest"), part, ret->hex, e);
}

/* -- index ---------------------------------------------------------------------------------------------------- */

int image_index_read(const char *text, size_t size, struct image_index *ret, struct cloche_err *e)
{
        const json_t *rows;
        int r;

        *ret = (struct image_index){0};
        r = load(text, size, "the index", &ret->json, e);
        if (r < 0)
                return r;
        rows = json_object_get(ret->json, "manifests");
        if (!json_is_array(rows))
                return refuse(e, "the index", "has no list of manifests");
        if (json_array_size(rows) > MANIFEST_ROWS_MAX)
                return err_set(e, CLOCHE_E_BAD_ARCHIVE, "the index lists %zu images, expected at most %d",
                               json_array_size(rows), MANIFEST_ROWS_MAX);
        ret->rows = make_rows(json_array_size(rows), sizeof(*ret->rows));
        if (!ret->rows)
                return err_set(e, CLOCHE_E_RESOURCE, "out of memory");
        for (; r == 0 && ret->count < json_array_size(rows); ret->count++)
                r = read_descriptor(json_array_get(rows, ret->count), "the index", &ret->rows[ret->count], e);
        return r;
}

void image_index_done(struct image_index *index)
{
        json_decref(index->json);
        free(index->rows);
        *index = (struct image_index){0};
}

/* A tag stands alone or after a name: "v1", "docker.io/library/x:v1". */
static bool has_tag(const char *name, const char *tag)
{
        const char *colon = name ? strrchr(name, ':') : NULL;

        return name && (strcmp(name, tag) == 0 || (colon && strcmp(colon + 1, tag) == 0));
}

/* An index in the index has images of several platforms, so it fits if nothing speaks against
 * it. */
static bool is_ours(const struct descriptor *row, const char *architecture)
{
        return row->kind != DESCRIPTOR_OTHER && (!row->os || strcmp(row->os, "linux") == 0) &&
               (!row->architecture || strcmp(row->architecture, architecture) == 0);
}

static void add_other(char others[OTHERS_BYTES], const char *text)
{
        size_t used = strlen(others);

        if (text && used + strlen(text) + 3 < OTHERS_BYTES)
                snprintf(others + used, OTHERS_BYTES - used, "%s%s", used ? ", " : "", text);
}

static int refuse_choice(const struct image_index *index, const char *tag, bool is_ambiguous, struct cloche_err *e)
{
        char tags[OTHERS_BYTES] = "", platforms[OTHERS_BYTES] = "";

        for (size_t i = 0; i < index->count; i++) {
                add_other(tags, index->rows[i].tag);
                add_other(platforms, index->rows[i].architecture);
        }
        if (is_ambiguous)
                return err_set(e, CLOCHE_E_BAD_ARCHIVE, "the source has several images: name one as SOURCE:TAG%s%s",
                               *tags ? "; its tags: " : "", tags);
        if (tag)
                return err_set(e, CLOCHE_E_BAD_ARCHIVE, "the source has no image '%.60s' for this machine%s%s", tag,
                               *tags ? "; its tags: " : "", tags);
        return err_set(e, CLOCHE_E_BAD_ARCHIVE, "the source has no image for this machine%s%s",
                       *platforms ? "; its processors: " : "", platforms);
}

int image_index_choose(const struct image_index *index, const char *tag, const char *architecture,
                       const struct descriptor **ret, struct cloche_err *e)
{
        *ret = NULL;
        for (size_t i = 0; i < index->count; i++) {
                const struct descriptor *row = &index->rows[i];

                if (!is_ours(row, architecture) || (tag && !has_tag(row->tag, tag)))
                        continue;
                if (*ret && strcmp((*ret)->hex, row->hex) != 0)
                        return refuse_choice(index, tag, true, e);
                *ret = row;
        }
        return *ret ? 0 : refuse_choice(index, tag, false, e);
}

/* -- manifest ------------------------------------------------------------------------------------------------- */

static int read_layer(const json_t *json, struct descriptor *ret, struct cloche_err *e)
{
        const char *type = text_of(json, "mediaType");

        if (json_array_size(json_object_get(json, "urls")) > 0 ||
            (type && (strstr(type, "nondistributable") || strstr(type, ".foreign."))))
                return refuse(e, "the manifest",
                              "has a layer that is kept elsewhere: nothing is fetched here (skopeo copy, first)");
        if (type && strstr(type, "encrypted"))
                return refuse(e, "the manifest", "has an encrypted layer");
        return read_descriptor(json, "the manifest", ret, e);
}

static int check_layer_count(size_t count, struct cloche_err *e)
{
        return count <= MANIFEST_LAYERS_MAX
                       ? 0
                       : err_set(e, CLOCHE_E_BAD_ARCHIVE, "the image has %zu layers, expected at most %d", count,
                                 MANIFEST_LAYERS_MAX);
}

int image_manifest_read(const char *text, size_t size, struct image_manifest *ret, struct cloche_err *e)
{
        const json_t *layers;
        int r;

        *ret = (struct image_manifest){0};
        r = load(text, size, "the manifest", &ret->json, e);
        if (r == 0)
                r = read_descriptor(json_object_get(ret->json, "config"), "the manifest", &ret->config, e);
        if (r < 0)
                return r;
        layers = json_object_get(ret->json, "layers");
        if (!json_is_array(layers))
                return refuse(e, "the manifest", "has no list of layers");
        r = check_layer_count(json_array_size(layers), e);
        if (r < 0)
                return r;
        ret->layers = make_rows(json_array_size(layers), sizeof(*ret->layers));
        if (!ret->layers)
                return err_set(e, CLOCHE_E_RESOURCE, "out of memory");
        for (; r == 0 && ret->layer_count < json_array_size(layers); ret->layer_count++)
                r = read_layer(json_array_get(layers, ret->layer_count), &ret->layers[ret->layer_count], e);
        return r;
}

void image_manifest_done(struct image_manifest *manifest)
{
        json_decref(manifest->json);
        free(manifest->layers);
        *manifest = (struct image_manifest){0};
}

/* -- docker archives ------------------------------------------------------------------------------------------ */

static int read_docker_image(const json_t *json, struct docker_image *ret, struct cloche_err *e)
{
        static const char part[] = "manifest.json";
        const json_t *layers = json_object_get(json, "Layers");
        int r = check_layer_count(json_array_size(layers), e);

        if (r < 0)
                return r;
        ret->config = text_of(json, "Config");
        ret->tags = json_object_get(json, "RepoTags");
        if (!ret->config || !json_is_array(layers))
                return refuse(e, part, "has an image without Config or Layers");
        ret->layers = make_rows(json_array_size(layers), sizeof(*ret->layers));
        if (!ret->layers)
                return err_set(e, CLOCHE_E_RESOURCE, "out of memory");
        for (; ret->layer_count < json_array_size(layers); ret->layer_count++) {
                const json_t *layer = json_array_get(layers, ret->layer_count);

                if (!json_is_string(layer) || strlen(json_string_value(layer)) != json_string_length(layer))
                        return refuse(e, part, "has a layer without a name");
                ret->layers[ret->layer_count] = json_string_value(layer);
        }
        return 0;
}

int docker_manifest_read(const char *text, size_t size, struct docker_manifest *ret, struct cloche_err *e)
{
        int r;

        *ret = (struct docker_manifest){0};
        r = load(text, size, "manifest.json", &ret->json, e);
        if (r < 0)
                return r;
        if (!json_is_array(ret->json) || json_array_size(ret->json) > MANIFEST_ROWS_MAX)
                return err_set(e, CLOCHE_E_BAD_ARCHIVE, "manifest.json is not a list of at most %d images",
                               MANIFEST_ROWS_MAX);
        ret->images = make_rows(json_array_size(ret->json), sizeof(*ret->images));
        if (!ret->images)
                return err_set(e, CLOCHE_E_RESOURCE, "out of memory");
        for (; r == 0 && ret->count < json_array_size(ret->json); ret->count++)
                r = read_docker_image(json_array_get(ret->json, ret->count), &ret->images[ret->count], e);
        return r;
}

void docker_manifest_done(struct docker_manifest *manifest)
{
        for (size_t i = 0; i < manifest->count; i++)
                free(manifest->images[i].layers);
        json_decref(manifest->json);
        free(manifest->images);
        *manifest = (struct docker_manifest){0};
}

static bool is_tagged(const struct docker_image *image, const char *tag)
{
        for (size_t i = 0; i < json_array_size(image->tags); i++)
                if (has_tag(json_string_value(json_array_get(image->tags, i)), tag))
                        return true;
        return false;
}

int docker_manifest_choose(const struct docker_manifest *manifest, const char *tag, const struct docker_image **ret,
                           struct cloche_err *e)
{
        *ret = NULL;
        for (size_t i = 0; i < manifest->count; i++) {
                if (tag && !is_tagged(&manifest->images[i], tag))
                        continue;
                if (*ret)
                        return refuse(e, "the source", "has several images: name one as SOURCE:TAG");
                *ret = &manifest->images[i];
        }
        if (*ret)
                return 0;
        return tag ? err_set(e, CLOCHE_E_BAD_ARCHIVE, "the source has no image '%.60s'", tag)
                   : refuse(e, "manifest.json", "lists no image");
}

/* -- configuration -------------------------------------------------------------------------------------------- */

/* Without NUL, which no variable and no path can have. */
static bool is_text(const json_t *json)
{
        return json_is_string(json) && strlen(json_string_value(json)) == json_string_length(json);
}

static bool is_texts(const json_t *list)
{
        for (size_t i = 0; i < json_array_size(list); i++)
                if (!is_text(json_array_get(list, i)))
                        return false;
        return true;
}

/* Members of the configuration that a record keeps, of this type or null. */
static const struct {
        const char *given, *kept;
        json_type type;
} members[] = {
        {"Env", "env", JSON_ARRAY},
        {"WorkingDir", "workingDir", JSON_STRING},
        {"User", "user", JSON_STRING},
        {"Entrypoint", "entrypoint", JSON_ARRAY},
        {"Cmd", "cmd", JSON_ARRAY},
        {"Labels", "labels", JSON_OBJECT},
        {"ExposedPorts", "exposedPorts", JSON_OBJECT},
        {"Volumes", "volumes", JSON_OBJECT},
        {"Healthcheck", "healthcheck", JSON_OBJECT},
        {"StopSignal", "stopSignal", JSON_STRING},
        {"Shell", "shell", JSON_ARRAY},
        {"OnBuild", "onBuild", JSON_ARRAY},
};

static int keep_members(const json_t *json, json_t **ret, struct cloche_err *e)
{
        *ret = json_object();
        for (size_t i = 0; *ret && i < sizeof(members) / sizeof(members[0]); i++) {
                json_t *member = json_object_get(json, members[i].given);

                if (!member || json_is_null(member))
                        continue;
                if (json_typeof(member) != members[i].type || (json_is_array(member) && !is_texts(member)) ||
                    (json_is_string(member) && !is_text(member)))
                        return err_set(e, CLOCHE_E_BAD_ARCHIVE, "the configuration's %s is of another type, or has NUL",
                                       members[i].given);
                if (json_object_set(*ret, members[i].kept, member) < 0)
                        return err_set(e, CLOCHE_E_RESOURCE, "out of memory");
        }
        return *ret ? 0 : err_set(e, CLOCHE_E_RESOURCE, "out of memory");
}

/* The command of the last step that is recorded. */
static const char *created_by(const json_t *history)
{
        size_t count = json_array_size(history);

        return count ? text_of(json_array_get(history, count - 1), "created_by") : NULL;
}

static int read_diff_ids(const json_t *ids, struct image_config *ret, struct cloche_err *e)
{
        int r = check_layer_count(json_array_size(ids), e);

        if (r < 0)
                return r;
        if (!json_is_array(ids))
                return refuse(e, "the configuration", "has no list rootfs.diff_ids");
        ret->diff_ids = make_rows(json_array_size(ids), sizeof(*ret->diff_ids));
        if (!ret->diff_ids)
                return err_set(e, CLOCHE_E_RESOURCE, "out of memory");
        for (; r == 0 && ret->diff_id_count < json_array_size(ids); ret->diff_id_count++)
                r = read_digest(json_string_value(json_array_get(ids, ret->diff_id_count)), "the configuration",
                                ret->diff_ids[ret->diff_id_count], e);
        return r;
}

int image_config_read(const char *text, size_t size, struct image_config *ret, struct cloche_err *e)
{
        int r;

        *ret = (struct image_config){0};
        r = load(text, size, "the configuration", &ret->json, e);
        if (r == 0)
                r = keep_members(json_object_get(ret->json, "config"), &ret->kept, e);
        if (r == 0)
                r = read_diff_ids(json_object_get(json_object_get(ret->json, "rootfs"), "diff_ids"), ret, e);
        if (r < 0)
                return r;
        ret->os = text_of(ret->json, "os");
        ret->architecture = text_of(ret->json, "architecture");
        ret->created = text_of(ret->json, "created");
        ret->created_by = created_by(json_object_get(ret->json, "history"));
        return 0;
}

void image_config_done(struct image_config *config)
{
        json_decref(config->json);
        json_decref(config->kept);
        free(config->diff_ids);
        *config = (struct image_config){0};
}

int image_config_check(const struct image_config *config, const char *architecture, size_t layer_count,
                       struct cloche_err *e)
{
        if (config->os && *config->os && strcmp(config->os, "linux") != 0)
                return err_set(e, CLOCHE_E_BAD_ARCHIVE, "the image is for the system %.40s, this machine runs linux",
                               config->os);
        if (config->architecture && *config->architecture && strcmp(config->architecture, architecture) != 0)
                return err_set(e, CLOCHE_E_BAD_ARCHIVE, "the image is for the processor %.40s, this machine has %s",
                               config->architecture, architecture);
        if (config->diff_id_count != layer_count)
                return err_set(e, CLOCHE_E_BAD_ARCHIVE, "the image has %zu layers, its configuration names %zu",
                               layer_count, config->diff_id_count);
        return 0;
}
