/* Runs in: cloche-image, as its user, confined to the store and the source. */
#include "import.h"

#include "base/err.h"
#include "base/fd.h"
#include "helpers/image/read/bundle.h"
#include "helpers/image/read/manifest.h"
#include "helpers/image/tree/tree.h"
#include "helpers/sync/crash.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define BLOBS "blobs/sha256/"

int import_make_tree(struct import *import, int *ret, struct cloche_err *e)
{
        if (mkdirat(import->incoming.fd, "tree", 0700) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "make a tree in the image store");
        *ret = openat(import->incoming.fd, "tree", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return *ret < 0 ? err_os(e, CLOCHE_E_RESOURCE, errno, "open a tree in the image store") : 0;
}

int import_finish_tree(struct import *import, struct image_tree *tree, struct cloche_err *e)
{
        import->bytes = tree->bytes;
        import->drops = layer_drops_json(&tree->drops);
        return import->drops ? image_tree_finish(tree, e) : work_no_memory(e);
}

static char *copy_text(const char *text)
{
        return text && *text ? strdup(text) : NULL;
}

/* -- layers --------------------------------------------------------------------------------------------------- */

/* One layer of an image. digest, size: as its descriptor has it, or NULL and UINT64_MAX. */
struct layer {
        const char *part, *digest, *diff_id;
        uint64_t size;
};

static int check_digests(const struct layer *layer, const struct image_stream_digests *digests, struct cloche_err *e)
{
        if (layer->digest && strcmp(layer->digest, digests->given) != 0)
                return err_set(e, CLOCHE_E_BAD_ARCHIVE, "the layer %.80s has the digest sha256:%.16s…, not its own",
                               layer->part, digests->given);
        if (strcmp(layer->diff_id, digests->plain) != 0)
                return err_set(e, CLOCHE_E_BAD_ARCHIVE,
                               "the layer %.80s unpacked has the digest sha256:%.16s…, not that of the configuration",
                               layer->part, digests->plain);
        return 0;
}

static int apply_open(struct image_tree *tree, const struct layer *layer, const struct bundle_file *file,
                      struct cloche_err *e)
{
        struct image_stream *stream = malloc(sizeof(*stream));
        struct image_stream_digests digests;
        int r;

        if (!stream)
                return work_no_memory(e);
        r = image_stream_open(stream, file->fd, file->at, file->size, layer->part, e);
        if (r == 0)
                r = image_tree_apply(tree, stream->tar, NULL, layer->part, image_stream_bytes_max(file->size), e);
        if (r == 0)
                r = image_stream_finish(stream, layer->part, &digests, e);
        if (r == 0)
                r = check_digests(layer, &digests, e);
        image_stream_close(stream);
        free(stream);
        return r;
}

static int apply_layer(struct image_tree *tree, const struct bundle *bundle, const struct layer *layer,
                       struct cloche_err *e)
{
        struct bundle_file file = {.own_fd = -EBADF};
        int r = bundle_open(bundle, layer->part, &file, e);

        if (r == 0)
                r = err_set(e, CLOCHE_E_BAD_ARCHIVE, "the source has no file %.100s", layer->part);
        if (r > 0 && layer->size != UINT64_MAX && file.size != layer->size)
                r = err_set(e, CLOCHE_E_BAD_ARCHIVE, "the layer %.80s has %llu bytes, its descriptor says %llu",
                            layer->part, (unsigned long long)file.size, (unsigned long long)layer->size);
        if (r > 0)
                r = apply_open(tree, layer, &file, e);
        fd_close(&file.own_fd);
        return r;
}

static int apply_layers(struct import *import, const struct bundle *bundle, const struct layer *layers, size_t count,
                        struct cloche_err *e)
{
        struct image_tree *tree = malloc(sizeof(*tree));
        _cleanup_fd_ int top_fd = -EBADF;
        int r;

        if (!tree)
                return work_no_memory(e);
        image_tree_init(tree, -EBADF, import->store->keeps_ids, import->work);
        r = import_make_tree(import, &top_fd, e);
        tree->top_fd = top_fd;
        for (size_t i = 0; r == 0 && i < count; i++) {
                crash_point();
                snprintf(tree->phase, sizeof(tree->phase), "unpacking layer %zu of %zu", i + 1, count);
                r = apply_layer(tree, bundle, &layers[i], e);
        }
        if (r == 0)
                r = import_finish_tree(import, tree, e);
        import->layers = count;
        image_tree_done(tree);
        free(tree);
        return r;
}

/* -- images --------------------------------------------------------------------------------------------------- */

static int keep_config(struct import *import, const struct image_config *config, struct cloche_err *e)
{
        import->config = json_incref(config->kept);
        import->os = copy_text(config->os);
        import->architecture = copy_text(config->architecture);
        import->created = copy_text(config->created);
        import->created_by = copy_text(config->created_by);
        return import->config ? 0 : work_no_memory(e);
}

static int read_config(struct import *import, const struct buf *text, size_t layer_count, struct image_config *ret,
                       struct cloche_err *e)
{
        int r = image_config_read(text->data, text->size, ret, e);

        if (r == 0)
                r = image_config_check(ret, import->options->architecture, layer_count, e);
        return r == 0 ? keep_config(import, ret, e) : r;
}

/* Name the image if an earlier import made it. 1: it has the name; 0: its tree is to be made. */
static int name_again(struct import *import, json_t **ret, struct cloche_err *e)
{
        char again[HASH_TEXT_SIZE];
        int r = import_find_again(import, again, e);

        if (r < 0 || !*again)
                return r;
        r = import_name(import, again, ret, e);
        return r == 0 ? 1 : r == -CLOCHE_E_NOT_FOUND ? 0 : r; /* it was removed meanwhile */
}

static int read_part(const struct bundle *bundle, const char *name, struct buf *ret, struct cloche_err *e)
{
        int r = bundle_read(bundle, name, MANIFEST_BYTES_MAX, ret, e);

        return r == 0 ? err_set(e, CLOCHE_E_BAD_ARCHIVE, "the source has no file %.100s", name) : r < 0 ? r : 0;
}

/* Read a blob and compare it with its descriptor. */
static int read_blob(const struct bundle *bundle, const struct descriptor *descriptor, struct buf *ret,
                     struct cloche_err *e)
{
        char name[sizeof(BLOBS) + HASH_TEXT_SIZE], hex[HASH_TEXT_SIZE];
        int r;

        snprintf(name, sizeof(name), BLOBS "%s", descriptor->hex);
        r = read_part(bundle, name, ret, e);
        if (r < 0)
                return r;
        if ((int64_t)ret->size != descriptor->size)
                return err_set(e, CLOCHE_E_BAD_ARCHIVE, "%s has %zu bytes, its descriptor says %lld", name, ret->size,
                               (long long)descriptor->size);
        hash_bytes(ret->data, ret->size, hex);
        return strcmp(hex, descriptor->hex) == 0
                       ? 0
                       : err_set(e, CLOCHE_E_BAD_ARCHIVE, "%s has the digest sha256:%.16s…, not its own", name, hex);
}

static int apply_manifest(struct import *import, const struct bundle *bundle, const struct image_manifest *manifest,
                          const struct image_config *config, struct cloche_err *e)
{
        struct layer *layers = calloc(manifest->layer_count + 1, sizeof(*layers));
        char(*names)[sizeof(BLOBS) + HASH_TEXT_SIZE] = calloc(manifest->layer_count + 1, sizeof(*names));
        int r = layers && names ? 0 : work_no_memory(e);

        for (size_t i = 0; r == 0 && i < manifest->layer_count; i++) {
                snprintf(names[i], sizeof(names[i]), BLOBS "%s", manifest->layers[i].hex);
                layers[i] = (struct layer){names[i], manifest->layers[i].hex, config->diff_ids[i],
                                           (uint64_t)manifest->layers[i].size};
        }
        if (r == 0)
                r = apply_layers(import, bundle, layers, manifest->layer_count, e);
        free(layers);
        free(names);
        return r;
}

/* The manifest is known: make the tree, unless an earlier import did. */
static int import_manifest(struct import *import, const struct bundle *bundle, const struct descriptor *row,
                           json_t **ret, struct cloche_err *e)
{
        _cleanup_buf_ struct buf text = BUF_INIT(MANIFEST_BYTES_MAX + 1),
                                 config_text = BUF_INIT(MANIFEST_BYTES_MAX + 1);
        struct image_manifest manifest = {0};
        struct image_config config = {0};
        int r = read_blob(bundle, row, &text, e);

        if (r == 0)
                r = image_manifest_read(text.data, text.size, &manifest, e);
        if (r == 0)
                r = read_blob(bundle, &manifest.config, &config_text, e);
        if (r == 0)
                r = read_config(import, &config_text, manifest.layer_count, &config, e);
        memcpy(import->source, row->hex, HASH_TEXT_SIZE);
        if (r == 0)
                r = name_again(import, ret, e);
        if (r == 0)
                r = apply_manifest(import, bundle, &manifest, &config, e);
        image_manifest_done(&manifest);
        image_config_done(&config);
        return r < 0 ? r : 0;
}

static int import_index(struct import *import, const struct bundle *bundle, json_t **ret, struct cloche_err *e)
{
        _cleanup_buf_ struct buf text = BUF_INIT(MANIFEST_BYTES_MAX + 1);
        const char *tag = import->options->tag;
        const struct descriptor *row = NULL;
        struct image_index index = {0};
        struct descriptor chosen;
        int r = read_part(bundle, "index.json", &text, e);

        for (int depth = 0; r == 0; depth++) {
                if (depth == MANIFEST_DEPTH_MAX)
                        r = err_set(e, CLOCHE_E_BAD_ARCHIVE, "the index has more than %d indexes in each other",
                                    MANIFEST_DEPTH_MAX);
                if (r == 0)
                        r = image_index_read(text.data, text.size, &index, e);
                if (r == 0)
                        r = image_index_choose(&index, tag, import->options->architecture, &row, e);
                if (r == 0)
                        chosen = *row;
                image_index_done(&index);
                if (r < 0 || chosen.kind == DESCRIPTOR_MANIFEST)
                        break;
                tag = NULL; /* the outermost index has the tags */
                text.size = 0;
                r = read_blob(bundle, &chosen, &text, e);
        }
        return r == 0 ? import_manifest(import, bundle, &chosen, ret, e) : r;
}

/* -- docker archives ------------------------------------------------------------------------------------------ */

/* The configuration is named by its digest: "<hex>.json" or "blobs/sha256/<hex>". */
static int check_config_name(const char *name, const struct buf *text, char ret[HASH_TEXT_SIZE], struct cloche_err *e)
{
        const char *slash = strrchr(name, '/'), *hex = slash ? slash + 1 : name;

        hash_bytes(text->data, text->size, ret);
        if (!hash_is_text(hex, strcspn(hex, ".")))
                return err_set(e, CLOCHE_E_BAD_ARCHIVE, "the configuration %.100s is not named by its digest", name);
        return strncmp(hex, ret, HASH_TEXT_SIZE - 1) == 0
                       ? 0
                       : err_set(e, CLOCHE_E_BAD_ARCHIVE, "%.100s has the digest sha256:%.16s…, not its own", name,
                                 ret);
}

static int apply_docker(struct import *import, const struct bundle *bundle, const struct docker_image *image,
                        const struct image_config *config, struct cloche_err *e)
{
        struct layer *layers = calloc(image->layer_count + 1, sizeof(*layers));
        int r;

        if (!layers)
                return work_no_memory(e);
        for (size_t i = 0; i < image->layer_count; i++)
                layers[i] = (struct layer){image->layers[i], NULL, config->diff_ids[i], UINT64_MAX};
        r = apply_layers(import, bundle, layers, image->layer_count, e);
        free(layers);
        return r;
}

static int import_docker(struct import *import, const struct bundle *bundle, json_t **ret, struct cloche_err *e)
{
        _cleanup_buf_ struct buf text = BUF_INIT(MANIFEST_BYTES_MAX + 1),
                                 config_text = BUF_INIT(MANIFEST_BYTES_MAX + 1);
        struct docker_manifest manifest = {0};
        const struct docker_image *image = NULL;
        struct image_config config = {0};
        int r = read_part(bundle, "manifest.json", &text, e);

        if (r == 0)
                r = docker_manifest_read(text.data, text.size, &manifest, e);
        if (r == 0)
                r = docker_manifest_choose(&manifest, import->options->tag, &image, e);
        if (r == 0)
                r = read_part(bundle, image->config, &config_text, e);
        if (r == 0)
                r = check_config_name(image->config, &config_text, import->source, e);
        if (r == 0)
                r = read_config(import, &config_text, image->layer_count, &config, e);
        if (r == 0)
                r = name_again(import, ret, e);
        if (r == 0)
                r = apply_docker(import, bundle, image, &config, e);
        image_config_done(&config);
        docker_manifest_done(&manifest);
        return r < 0 ? r : 0;
}

static int import_bundle(struct import *import, const struct bundle *bundle, json_t **ret, struct cloche_err *e)
{
        struct bundle_file file = {.own_fd = -EBADF};
        int r = bundle_open(bundle, "oci-layout", &file, e);

        fd_close(&file.own_fd);
        if (r < 0)
                return r;
        import->kind = r ? "oci" : "docker";
        if (r)
                return import_index(import, bundle, ret, e);
        r = bundle_open(bundle, "manifest.json", &file, e);
        fd_close(&file.own_fd);
        return r < 0 ? r
               : r   ? import_docker(import, bundle, ret, e)
                     : err_set(e, CLOCHE_E_BAD_ARCHIVE,
                               "%.100s has neither oci-layout nor manifest.json: it is an image's archive without them",
                               import->options->source);
}

/* -- root file systems ---------------------------------------------------------------------------------------- */

static int begin_root(struct import *import, const char *kind, struct cloche_err *e)
{
        import->kind = kind;
        import->layers = 1;
        import->config = json_object();
        import->os = strdup("linux");
        import->architecture = strdup(import->options->architecture);
        return import->config && import->os && import->architecture ? 0 : work_no_memory(e);
}

static int apply_root(struct import *import, struct archive *archive, struct archive_entry *const *read,
                      uint64_t bytes_max, struct archive_entry_linkresolver *links, struct cloche_err *e)
{
        struct stat store;
        struct image_tree *tree = malloc(sizeof(*tree));
        _cleanup_fd_ int top_fd = -EBADF;
        int r;

        if (!tree)
                return work_no_memory(e);
        image_tree_init(tree, -EBADF, import->store->keeps_ids, import->work);
        snprintf(tree->phase, sizeof(tree->phase), "unpacking");
        r = import_make_tree(import, &top_fd, e);
        tree->top_fd = top_fd;
        tree->links = links;
        if (r == 0 && fstat(import->store->fd, &store) < 0)
                r = err_os(e, CLOCHE_E_RESOURCE, errno, "look at the image store");
        if (r == 0) {
                tree->store_device = store.st_dev;
                tree->store_inode = store.st_ino;
                r = image_tree_apply(tree, archive, read, import->options->source, bytes_max, e);
        }
        if (r == 0)
                r = import_finish_tree(import, tree, e);
        image_tree_done(tree);
        free(tree);
        return r;
}

/* A pipe cannot be read again, so the parts of an image are copied. */
static int import_copy(struct import *import, struct image_stream *stream, struct archive_entry *entry, json_t **ret,
                       struct cloche_err *e)
{
        _cleanup_fd_ int spool_fd =
                openat(import->incoming.fd, "spool", O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        struct bundle bundle = {0};
        int r;

        if (spool_fd < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "copy the source to the image store");
        r = bundle_copy(&bundle, stream, entry, spool_fd, import->options->source, import->work, e);
        if (r == 0)
                r = import_bundle(import, &bundle, ret, e);
        bundle_done(&bundle);
        return r;
}

static int import_root(struct import *import, struct image_stream *stream, struct archive_entry *const *read,
                       uint64_t size, struct cloche_err *e)
{
        struct image_stream_digests digests;
        int r = begin_root(import, "tar", e);

        if (r == 0)
                r = apply_root(import, stream->tar, read,
                               size == UINT64_MAX ? TREE_BYTES_MAX : image_stream_bytes_max(size), NULL, e);
        if (r == 0)
                r = image_stream_finish(stream, import->options->source, &digests, e);
        if (r == 0)
                memcpy(import->source, digests.given, HASH_TEXT_SIZE);
        return r;
}

/* Return the path without "./", as far as its beginning tells the kind of the archive; NULL: no
 * name. */
static const char *path_of(struct archive_entry *entry)
{
        const char *path = archive_entry_pathname(entry);

        while (path && strncmp(path, "./", 2) == 0)
                path += 2;
        return path;
}

static bool is_top(const char *path)
{
        return path && (!*path || strcmp(path, ".") == 0);
}

/* The first member decides on the kind; the top directory may come before it. */
static int import_members(struct import *import, struct image_stream *stream, uint64_t size, json_t **ret,
                          struct cloche_err *e)
{
        struct archive_entry *entry, *read[3] = {NULL}, *top = NULL;
        const char *name = import->options->source, *path;
        int r = image_stream_next(stream->tar, name, &entry, e);

        if (r > 0 && is_top(path_of(entry))) {
                top = archive_entry_clone(entry);
                r = top ? image_stream_next(stream->tar, name, &entry, e) : work_no_memory(e);
        }
        path = r > 0 ? path_of(entry) : NULL;
        if (r == 0 && !top)
                r = err_set(e, CLOCHE_E_BAD_ARCHIVE, "%.100s has no members", name);
        else if (path && bundle_is_part(path))
                r = import_copy(import, stream, entry, ret, e);
        else if (r >= 0) {
                read[0] = top ? top : entry;
                read[1] = top && r > 0 ? entry : NULL;
                r = import_root(import, stream, read, size, e);
        }
        archive_entry_free(top);
        return r;
}

static int import_stream(struct import *import, int fd, int64_t at, uint64_t size, json_t **ret, struct cloche_err *e)
{
        struct image_stream *stream = malloc(sizeof(*stream));
        int r;

        if (!stream)
                return work_no_memory(e);
        r = image_stream_open(stream, fd, at, UINT64_MAX, import->options->source, e);
        if (r == 0)
                r = import_members(import, stream, size, ret, e);
        image_stream_close(stream);
        free(stream);
        return r;
}

static int import_file(struct import *import, int fd, uint64_t size, json_t **ret, struct cloche_err *e)
{
        struct bundle bundle;
        int r = bundle_list(&bundle, fd, import->options->source, e);

        if (r > 0)
                r = import_bundle(import, &bundle, ret, e);
        else if (r == 0)
                r = import_stream(import, fd, 0, size, ret, e);
        bundle_done(&bundle);
        return r;
}

/* -- directories ---------------------------------------------------------------------------------------------- */

static int apply_disk(struct import *import, int fd, struct archive *disk, struct archive_entry_linkresolver *links,
                      struct cloche_err *e)
{
        archive_entry_linkresolver_set_strategy(links, ARCHIVE_FORMAT_TAR_PAX_INTERCHANGE);
        archive_read_disk_set_symlink_physical(disk);
        archive_read_disk_set_behavior(disk, ARCHIVE_READDISK_NO_TRAVERSE_MOUNTS | ARCHIVE_READDISK_NO_ACL |
                                                     ARCHIVE_READDISK_NO_FFLAGS);
        if (fchdir(fd) < 0)
                return err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "open %.100s", import->options->source);
        if (archive_read_disk_open(disk, ".") != ARCHIVE_OK)
                return image_stream_failed(disk, import->options->source, e);
        return apply_root(import, disk, NULL, TREE_BYTES_MAX, links, e);
}

static int apply_directory(struct import *import, int fd, struct cloche_err *e)
{
        struct archive *disk = archive_read_disk_new();
        struct archive_entry_linkresolver *links = archive_entry_linkresolver_new();
        int r = disk && links ? apply_disk(import, fd, disk, links, e) : work_no_memory(e);

        archive_entry_linkresolver_free(links);
        archive_read_free(disk);
        return r;
}

static int import_directory(struct import *import, int fd, json_t **ret, struct cloche_err *e)
{
        struct bundle bundle = {.dir_fd = fd, .fd = -EBADF};
        int r;

        if (faccessat(fd, "oci-layout", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
                return import_bundle(import, &bundle, ret, e);
        r = begin_root(import, "directory", e);
        return r == 0 ? apply_directory(import, fd, e) : r;
}

/* -- whole ---------------------------------------------------------------------------------------------------- */

static int import_source(struct import *import, int source_fd, json_t **ret, struct cloche_err *e)
{
        struct stat status;
        int64_t at;

        if (fstat(source_fd, &status) < 0)
                return err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "read %.100s", import->options->source);
        if (S_ISDIR(status.st_mode))
                return import_directory(import, source_fd, ret, e);
        at = S_ISREG(status.st_mode) ? lseek(source_fd, 0, SEEK_CUR) : -1;
        if (at == 0)
                return import_file(import, source_fd, (uint64_t)status.st_size, ret, e);
        return import_stream(import, source_fd, -1, UINT64_MAX, ret, e);
}

void import_done(struct import *import)
{
        json_decref(import->config);
        json_decref(import->drops);
        free(import->os);
        free(import->architecture);
        free(import->created);
        free(import->created_by);
}

int import_run(const struct store *store, int source_fd, const struct import_options *options, struct work *work,
               json_t **ret, struct cloche_err *e)
{
        struct import import = {.store = store, .options = options, .work = work};
        int r = incoming_begin(store, &import.incoming, e);

        *ret = NULL;
        if (r == 0)
                r = import_source(&import, source_fd, ret, e);
        if (r == 0 && !*ret)
                r = import_commit(&import, ret, e);
        incoming_end(store, &import.incoming);
        import_done(&import);
        return r;
}
