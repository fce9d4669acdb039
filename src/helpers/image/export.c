/* Runs in: cloche-image, as its user, confined to the store and the output. */
#include "export.h"

#include "base/err.h"
#include "base/fd.h"
#include "helpers/image/read/stream.h"
#include "helpers/image/store/record.h"
#include "wire/json.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define BLOBS "blobs/sha256/"
#define FIXED_TIME "1970-01-01T00:00:00Z" /* of an image that states none: the bytes stay the same */

struct export
{
        struct archive *archive;
        struct work *work;
        const json_t *record;
        const char *tag;
};

static int failed(struct export *x, struct cloche_err *e)
{
        int number = archive_errno(x->archive);
        const char *text = archive_error_string(x->archive);

        return number > 0 ? err_os(e, CLOCHE_E_RESOURCE, number, "write the image")
                          : err_set(e, CLOCHE_E_RESOURCE, "write the image: %s", text ? text : "the output failed");
}

/* -- members -------------------------------------------------------------------------------------------------- */

static int begin_member(struct export *x, const char *name, uint64_t size, struct cloche_err *e)
{
        struct archive_entry *entry = archive_entry_new();
        int r;

        if (!entry)
                return work_no_memory(e);
        archive_entry_set_pathname(entry, name);
        archive_entry_set_filetype(entry, AE_IFREG);
        archive_entry_set_perm(entry, 0644);
        archive_entry_set_size(entry, (la_int64_t)size);
        archive_entry_set_mtime(entry, 0, 0);
        r = archive_write_header(x->archive, entry);
        archive_entry_free(entry);
        return r == ARCHIVE_OK || r == ARCHIVE_WARN ? 0 : failed(x, e);
}

static int write_member(struct export *x, const char *name, const char *text, size_t size, struct cloche_err *e)
{
        int r = begin_member(x, name, size, e);

        return r < 0 || archive_write_data(x->archive, text, size) == (la_ssize_t)size ? r : failed(x, e);
}

/* Write JSON as a blob; takes json. *ret: its descriptor. */
static int write_blob(struct export *x, json_t *json, const char *type, json_t **ret, struct cloche_err *e)
{
        char *text = json ? json_dump_text(json, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
        char hex[HASH_TEXT_SIZE], name[sizeof(BLOBS) + HASH_TEXT_SIZE];
        int r;

        json_decref(json);
        if (!text)
                return work_no_memory(e);
        hash_bytes(text, strlen(text), hex);
        snprintf(name, sizeof(name), BLOBS "%s", hex);
        r = write_member(x, name, text, strlen(text), e);
        *ret = json_pack("{s:s, s:s+, s:I}", "mediaType", type, "digest", "sha256:", hex, "size",
                         (json_int_t)strlen(text));
        free(text);
        return r == 0 && !*ret ? work_no_memory(e) : r;
}

static int copy_layer(struct export *x, int fd, const char *hex, uint64_t size, struct cloche_err *e)
{
        char name[sizeof(BLOBS) + HASH_TEXT_SIZE], *part = malloc(STREAM_PART_BYTES);
        uint64_t done = 0;
        int r;

        snprintf(name, sizeof(name), BLOBS "%s", hex);
        r = part ? begin_member(x, name, size, e) : work_no_memory(e);
        while (r == 0 && done < size) {
                ssize_t n = pread(fd, part, STREAM_PART_BYTES, (off_t)done);

                if (n <= 0)
                        r = err_os(e, CLOCHE_E_RESOURCE, n < 0 ? errno : EIO, "read the layer");
                else if (archive_write_data(x->archive, part, (size_t)n) != n)
                        r = failed(x, e);
                else
                        r = work_go_on(x->work, "writing", done += (uint64_t)n, size, e);
        }
        free(part);
        return r;
}

/* -- JSON ----------------------------------------------------------------------------------------------------- */

static const struct {
        const char *kept, *given;
} members[] = {
        {"env", "Env"},
        {"workingDir", "WorkingDir"},
        {"user", "User"},
        {"entrypoint", "Entrypoint"},
        {"cmd", "Cmd"},
        {"labels", "Labels"},
        {"exposedPorts", "ExposedPorts"},
        {"volumes", "Volumes"},
        {"healthcheck", "Healthcheck"},
        {"stopSignal", "StopSignal"},
        {"shell", "Shell"},
        {"onBuild", "OnBuild"},
};

static json_t *make_config(const struct export *x, const char *hex)
{
        const json_t *kept = json_object_get(x->record, "config");
        const char *created = json_string_value(json_object_get(x->record, "created")),
                   *architecture = json_string_value(json_object_get(x->record, "architecture"));
        json_t *config = json_object();

        for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
                if (json_object_get(kept, members[i].kept))
                        json_object_set(config, members[i].given, json_object_get(kept, members[i].kept));
        return json_pack("{s:s, s:s, s:s, s:o, s:{s:s, s:[s+]}, s:[{s:s, s:s}]}", "created",
                         created ? created : FIXED_TIME, "architecture", architecture ? architecture : "", "os",
                         "linux", "config", config, "rootfs", "type", "layers", "diff_ids", "sha256:", hex, "history",
                         "created", created ? created : FIXED_TIME, "created_by", "cloche image export");
}

static int write_texts(struct export *x, const char *hex, uint64_t size, struct cloche_err *e)
{
        static const char layout[] = "{\"imageLayoutVersion\":\"1.0.0\"}";
        json_t *config = NULL, *manifest = NULL, *index;
        char *text = NULL;
        int r = write_blob(x, make_config(x, hex), "application/vnd.oci.image.config.v1+json", &config, e);

        if (r == 0)
                r = write_blob(x,
                               json_pack("{s:i, s:s, s:o, s:[{s:s, s:s+, s:I}]}", "schemaVersion", 2, "mediaType",
                                         "application/vnd.oci.image.manifest.v1+json", "config", config, "layers",
                                         "mediaType", "application/vnd.oci.image.layer.v1.tar", "digest",
                                         "sha256:", hex, "size", (json_int_t)size),
                               "application/vnd.oci.image.manifest.v1+json", &manifest, e);
        if (r < 0)
                return r;
        json_object_set_new(manifest, "annotations", json_pack("{s:s}", "org.opencontainers.image.ref.name", x->tag));
        index = json_pack("{s:i, s:[o]}", "schemaVersion", 2, "manifests", manifest);
        text = index ? json_dump_text(index, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
        r = text ? write_member(x, "index.json", text, strlen(text), e) : work_no_memory(e);
        free(text);
        json_decref(index);
        return r == 0 ? write_member(x, "oci-layout", layout, sizeof(layout) - 1, e) : r;
}

/* -- whole ---------------------------------------------------------------------------------------------------- */

static int hash_file(int fd, char ret[HASH_TEXT_SIZE], uint64_t *ret_size, struct cloche_err *e)
{
        char *part = malloc(STREAM_PART_BYTES);
        struct sha256_ctx hash;
        ssize_t n = 0;

        *ret_size = 0;
        sha256_init(&hash);
        while (part && (n = pread(fd, part, STREAM_PART_BYTES, (off_t)*ret_size)) > 0) {
                sha256_update(&hash, (size_t)n, (const uint8_t *)part);
                *ret_size += (uint64_t)n;
        }
        hash_finish(&hash, ret);
        free(part);
        return !part ? work_no_memory(e) : n < 0 ? err_os(e, CLOCHE_E_RESOURCE, errno, "read the layer") : 0;
}

static int write_image(struct export *x, int layer_fd, int out_fd, struct cloche_err *e)
{
        char hex[HASH_TEXT_SIZE];
        uint64_t size;
        int r = hash_file(layer_fd, hex, &size, e);

        if (r < 0)
                return r;
        x->archive = archive_write_new();
        if (!x->archive)
                return work_no_memory(e);
        if (archive_write_set_format_pax_restricted(x->archive) != ARCHIVE_OK ||
            archive_write_add_filter_none(x->archive) != ARCHIVE_OK ||
            archive_write_set_bytes_in_last_block(x->archive, 1) != ARCHIVE_OK ||
            archive_write_open_fd(x->archive, out_fd) != ARCHIVE_OK)
                r = failed(x, e);
        if (r == 0)
                r = copy_layer(x, layer_fd, hex, size, e);
        if (r == 0)
                r = write_texts(x, hex, size, e);
        if (r == 0 && archive_write_close(x->archive) != ARCHIVE_OK)
                r = failed(x, e);
        archive_write_free(x->archive);
        return r;
}

/* A member of the archive begins with its digest and size, so the layer is written to a file
 * first. */
static int export_tree(struct export *x, const struct store *store, int tree_fd, int out_fd, struct cloche_err *e)
{
        struct incoming incoming;
        _cleanup_fd_ int layer_fd = -EBADF;
        int r = incoming_begin(store, &incoming, e);

        if (r < 0)
                return r;
        layer_fd = openat(incoming.fd, "layer", O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        r = layer_fd < 0 ? err_os(e, CLOCHE_E_RESOURCE, errno, "make a layer in the image store")
                         : export_layer(tree_fd, store->keeps_ids, layer_fd, x->work,
                                        (uint64_t)json_integer_value(json_object_get(x->record, "size")), e);
        if (r == 0)
                r = write_image(x, layer_fd, out_fd, e);
        incoming_end(store, &incoming);
        return r;
}

int export_run(const struct store *store, const char *name, int out_fd, struct work *work, json_t **ret,
               struct cloche_err *e)
{
        char id[HASH_TEXT_SIZE], reference[STORE_REFERENCE_SIZE];
        _cleanup_fd_ int tree_fd = -EBADF;
        struct export x = {.work = work};
        json_t *record = NULL;
        int r = record_find(store, name, id, reference, &record, e);

        if (r == 0)
                r = store_lock_tree(store, record_tree(record), false, &tree_fd, e);
        x.record = record;
        x.tag = *reference ? strchr(reference, ':') + 1 : "latest";
        if (r == 0)
                r = export_tree(&x, store, tree_fd, out_fd, e);
        *ret = r == 0 ? json_pack("{s:s, s:s+}", "name", reference, "id", "sha256:", id) : NULL;
        json_decref(record);
        return r == 0 && !*ret ? work_no_memory(e) : r;
}
