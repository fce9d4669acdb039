/* Runs in: cloche-image, as its user, confined to the store and the source. */
#include "commit.h"
#include "import.h"

#include "base/env.h"
#include "base/err.h"
#include "base/fd.h"
#include "helpers/image/read/stream.h"
#include "helpers/image/store/record.h"
#include "helpers/image/tree/listing.h"
#include "helpers/image/tree/tree.h"
#include "helpers/image/tree/unchanged.h"
#include "helpers/sync/crash.h"
#include "proto/image.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SOURCE_NAME "the archive of the sandbox"

/* -- the image below -------------------------------------------------------------------------------------------- */

/* An image that has this tree; its name may be another one's by now. */
static int find_base(const struct store *store, const struct commit_options *options, json_t **ret,
                     struct cloche_err *e)
{
        char id[HASH_TEXT_SIZE], reference[STORE_REFERENCE_SIZE];
        const char *hex = options->tree ? options->tree + strlen(STORE_TREE_PREFIX) : NULL;
        int r = options->name ? record_find(store, options->name, id, reference, ret, e) : -CLOCHE_E_NOT_FOUND;

        if (!hex || (r == 0 && strcmp(record_tree(*ret), hex) == 0))
                return r;
        if (r == 0)
                json_decref(*ret);
        else if (r != -CLOCHE_E_NOT_FOUND)
                return r;
        return record_find(store, options->tree, id, reference, ret, e);
}

static int take_facts(struct import *import, const json_t *record, const char *created_by, struct cloche_err *e)
{
        const char *os = json_string_value(json_object_get(record, "os")),
                   *architecture = json_string_value(json_object_get(record, "architecture"));

        import->layers = (size_t)json_integer_value(json_object_get(record, "layers")) + 1;
        import->config = json_deep_copy(json_object_get(record, "config"));
        import->os = os ? strdup(os) : NULL;
        import->architecture = architecture ? strdup(architecture) : NULL;
        import->created_by = created_by ? strdup(created_by) : NULL;
        return json_is_object(import->config) && (!os || import->os) && (!architecture || import->architecture) &&
                               (!created_by || import->created_by)
                       ? 0
                       : work_no_memory(e);
}

/* -- the configuration ------------------------------------------------------------------------------------------ */

static int is_text(const json_t *value)
{
        return json_is_string(value) && strlen(json_string_value(value)) == json_string_length(value);
}

static int refuse(struct cloche_err *e, const char *name, const char *why)
{
        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "config: %.40s %s", name, why);
}

/* A variable of the list becomes another one, or is added, or with null removed. */
static int set_variable(json_t *list, const char *name, const json_t *value, struct cloche_err *e)
{
        json_t *row = json_is_null(value) ? NULL : json_sprintf("%s=%s", name, json_string_value(value));
        const size_t size = strlen(name);
        size_t at;

        for (at = 0; at < json_array_size(list); at++) {
                const char *text = json_string_value(json_array_get(list, at));

                if (text && strncmp(text, name, size) == 0 && text[size] == '=')
                        break;
        }
        if (!row)
                return json_is_null(value) ? ((void)json_array_remove(list, at), 0) : work_no_memory(e);
        return (at < json_array_size(list) ? json_array_set_new(list, at, row) : json_array_append_new(list, row)) < 0
                       ? work_no_memory(e)
                       : 0;
}

static int merge_env(json_t *config, const char *name, const json_t *given, struct cloche_err *e)
{
        json_t *list = json_object_get(config, name), *value;
        const char *variable;
        int r = 0;

        if (!list && json_object_set_new(config, name, list = json_array()) < 0)
                return work_no_memory(e);
        json_object_foreach ((json_t *)given, variable, value) {
                if (env_name_size(variable) != strlen(variable) || !*variable)
                        return refuse(e, name, "has a name that is not valid");
                if (!is_text(value) && !json_is_null(value))
                        return refuse(e, name, "has a value that is no text");
                r = r < 0 ? r : set_variable(list, variable, value, e);
        }
        return r;
}

static int merge_labels(json_t *config, const char *name, const json_t *given, struct cloche_err *e)
{
        json_t *labels = json_object_get(config, name), *value;
        const char *label;

        if (!labels && json_object_set_new(config, name, labels = json_object()) < 0)
                return work_no_memory(e);
        json_object_foreach ((json_t *)given, label, value) {
                if (!is_text(value) && !json_is_null(value))
                        return refuse(e, name, "has a value that is no text");
                if (json_is_null(value))
                        json_object_del(labels, label);
                else if (json_object_set(labels, label, value) < 0)
                        return work_no_memory(e);
        }
        return 0;
}

static int replace(json_t *config, const char *name, const json_t *given, struct cloche_err *e)
{
        for (size_t i = 0; i < json_array_size(given); i++)
                if (!is_text(json_array_get(given, i)))
                        return refuse(e, name, "has a row that is no text");
        if (json_is_string(given) && !is_text(given))
                return refuse(e, name, "contains NUL");
        return json_object_set(config, name, (json_t *)given) < 0 ? work_no_memory(e) : 0;
}

/* Ports and volumes: objects whose members are empty. */
static int add_names(json_t *config, const char *name, const json_t *given, struct cloche_err *e)
{
        json_t *names = json_object_get(config, name);

        if (!names && json_object_set_new(config, name, names = json_object()) < 0)
                return work_no_memory(e);
        for (size_t i = 0; i < json_array_size(given); i++) {
                const json_t *row = json_array_get(given, i);

                if (!is_text(row))
                        return refuse(e, name, "has a row that is no text");
                if (json_object_set_new(names, json_string_value(row), json_object()) < 0)
                        return work_no_memory(e);
        }
        return 0;
}

/* Start and ready commands are labels of the image: {start, ready, readyMs}, of which each replaces
 * or with null removes. */
static int merge_startup(json_t *config, const char *name, const json_t *given, struct cloche_err *e)
{
        static const struct {
                const char *member, *label;
                json_type type;
        } rows[] = {{"start", IMAGE_LABEL_START, JSON_STRING},
                    {"ready", IMAGE_LABEL_READY, JSON_STRING},
                    {"readyMs", IMAGE_LABEL_READY_MS, JSON_INTEGER}};
        json_t *labels = json_object(), *value;
        const char *member;
        int r = labels ? 0 : work_no_memory(e);

        json_object_foreach ((json_t *)given, member, value) {
                size_t i = 0;

                while (i < sizeof(rows) / sizeof(rows[0]) && strcmp(rows[i].member, member) != 0)
                        i++;
                if (r < 0 || i == sizeof(rows) / sizeof(rows[0]) ||
                    (!json_is_null(value) && json_typeof(value) != rows[i].type)) {
                        r = r < 0 ? r : refuse(e, name, "must be {start: text, ready: text, readyMs: number}");
                        break;
                }
                if (json_is_string(value) && json_string_length(value) > IMAGE_COMMAND_BYTES_MAX)
                        r = refuse(e, name, "has a command of more than 16384 bytes");
                else if (json_is_integer(value) &&
                         (json_integer_value(value) < 1 || json_integer_value(value) > IMAGE_READY_MS_MAX))
                        r = refuse(e, name, "has a readyMs that is no number from 1 to 600000");
                else if (json_object_set_new(labels, rows[i].label,
                                             json_is_integer(value)
                                                     ? json_sprintf("%lld", (long long)json_integer_value(value))
                                                     : json_incref(value)) < 0)
                        r = work_no_memory(e);
        }
        if (r == 0)
                r = merge_labels(config, "labels", labels, e);
        json_decref(labels);
        return r;
}

/* Members of a request's config: their type, or null. */
static const struct {
        const char *name;
        json_type type;
        int (*take)(json_t *config, const char *name, const json_t *given, struct cloche_err *e);
} members[] = {
        {"env", JSON_OBJECT, merge_env},         {"labels", JSON_OBJECT, merge_labels},
        {"workingDir", JSON_STRING, replace},    {"user", JSON_STRING, replace},
        {"entrypoint", JSON_ARRAY, replace},     {"cmd", JSON_ARRAY, replace},
        {"exposedPorts", JSON_ARRAY, add_names}, {"volumes", JSON_ARRAY, add_names},
        {"healthcheck", JSON_OBJECT, replace},   {"stopSignal", JSON_STRING, replace},
        {"shell", JSON_ARRAY, replace},          {"startup", JSON_OBJECT, merge_startup},
        {"onBuild", JSON_ARRAY, replace},
};

static int merge_member(json_t *config, const char *name, const json_t *given, struct cloche_err *e)
{
        size_t i = 0;

        while (i < sizeof(members) / sizeof(members[0]) && strcmp(members[i].name, name) != 0)
                i++;
        if (i == sizeof(members) / sizeof(members[0]))
                return refuse(e, name,
                              "is unknown: expected env, labels, workingDir, user, entrypoint, cmd, exposedPorts, "
                              "volumes, healthcheck, stopSignal, shell, startup, onBuild");
        if (json_is_null(given) && members[i].take == merge_startup) {
                static const char *const labels[] = {IMAGE_LABEL_START, IMAGE_LABEL_READY, IMAGE_LABEL_READY_MS};

                for (size_t k = 0; k < sizeof(labels) / sizeof(labels[0]); k++)
                        json_object_del(json_object_get(config, "labels"), labels[k]);
                return 0;
        }
        if (json_is_null(given)) {
                json_object_del(config, name);
                return 0;
        }
        return json_typeof(given) == members[i].type ? members[i].take(config, name, given, e)
                                                     : refuse(e, name, "is of another type");
}

static int merge(json_t *config, const json_t *given, struct cloche_err *e)
{
        const char *name;
        json_t *value;
        int r = 0;

        json_object_foreach ((json_t *)given, name, value)
                r = r < 0 ? r : merge_member(config, name, value, e);
        return r;
}

/* -- the tree --------------------------------------------------------------------------------------------------- */

static int apply_changes(struct import *import, struct image_tree *tree, int source_fd, struct cloche_err *e)
{
        struct image_stream *stream = malloc(sizeof(*stream));
        struct image_stream_digests digests;
        struct stat status;
        bool is_file = fstat(source_fd, &status) == 0 && S_ISREG(status.st_mode);
        int r;

        if (!stream)
                return work_no_memory(e);
        r = image_stream_open(stream, source_fd, is_file ? 0 : -1, UINT64_MAX, SOURCE_NAME, e);
        if (r == 0)
                r = image_tree_apply(tree, stream->tar, NULL, SOURCE_NAME,
                                     is_file ? image_stream_bytes_max((uint64_t)status.st_size) : TREE_BYTES_MAX, e);
        if (r == 0)
                r = image_stream_finish(stream, SOURCE_NAME, &digests, e);
        if (r == 0)
                memcpy(import->source, digests.given, HASH_TEXT_SIZE);
        image_stream_close(stream);
        free(stream);
        return r;
}

/* A pipe cannot be read twice. */
static int find_changes(const struct import *import, const struct commit_options *options, int base_fd, int source_fd,
                        bool *ret_none, struct cloche_err *e)
{
        struct image_stream *stream = NULL;
        struct stat status;
        int r;

        if (!options->changes || fstat(source_fd, &status) < 0 || !S_ISREG(status.st_mode))
                return 0;
        stream = malloc(sizeof(*stream));
        if (!stream)
                return work_no_memory(e);
        r = image_stream_open(stream, source_fd, 0, UINT64_MAX, SOURCE_NAME, e);
        if (r == 0)
                r = image_tree_is_unchanged(stream->tar, base_fd, import->store->keeps_ids, options->changes,
                                            SOURCE_NAME, e);
        image_stream_close(stream);
        free(stream);
        *ret_none = r > 0;
        return r < 0 ? r : 0;
}

static int make_tree(struct import *import, const struct commit_options *options, int base_fd, const json_t *below,
                     struct listing_base *base, int source_fd, struct cloche_err *e)
{
        struct image_tree *tree = malloc(sizeof(*tree));
        _cleanup_fd_ int top_fd = -EBADF;
        int r;

        if (!tree)
                return work_no_memory(e);
        image_tree_init(tree, -EBADF, import->store->keeps_ids, import->work);
        snprintf(tree->phase, sizeof(tree->phase), "committing");
        tree->changes = options->changes;
        r = import_make_tree(import, &top_fd, e);
        tree->top_fd = top_fd;
        if (r == 0)
                r = image_tree_begin_with(tree, base_fd, base, e);
        tree->bytes = (uint64_t)json_integer_value(json_object_get(below, "size"));
        /* Lines of a listing that is not that of this tree are of no use. The top has one, too. */
        if (tree->entries + 1 != (uint64_t)json_integer_value(json_object_get(below, "entries")))
                base->count = 0;
        crash_point();
        if (r == 0 && options->changes)
                r = apply_changes(import, tree, source_fd, e);
        if (r == 0 && options->changes && options->changes->owner == 0)
                r = image_tree_cut_accounts(tree, base_fd, e);
        if (r == 0)
                r = import_finish_tree(import, tree, e);
        image_tree_done(tree);
        free(tree);
        return r;
}

static int commit_tree(struct import *import, const struct commit_options *options, int base_fd, const json_t *below,
                       int source_fd, json_t **ret, struct cloche_err *e)
{
        char name[STORE_TREE_NAME_SIZE];
        _cleanup_fd_ int listing_fd = -EBADF;
        struct listing_base base = {0};
        int r = incoming_begin(import->store, &import->incoming, e);

        if (r < 0)
                return r;
        /* Without a listing all files are read. */
        store_tree_name(name, record_tree(below), STORE_LISTING);
        base.listing_fd = listing_fd = openat(import->store->trees_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        import->base = &base;
        r = make_tree(import, options, base_fd, below, &base, source_fd, e);
        if (r == 0)
                r = import_commit(import, ret, e);
        incoming_end(import->store, &import->incoming);
        free(base.inodes);
        import->base = NULL;
        return r;
}

/* Make an image without any file: a build begins with it. It has /etc, for else that of a box is
 * read-only. */
static int commit_nothing(struct import *import, const struct commit_options *options, json_t **ret,
                          struct cloche_err *e)
{
        const struct layer_drops none = {0};
        _cleanup_fd_ int top_fd = -EBADF;
        int r = 0;

        import->config = json_object();
        import->drops = layer_drops_json(&none);
        import->os = strdup("linux");
        import->architecture = strdup(options->architecture);
        if (!import->config || !import->drops || !import->os || !import->architecture)
                return work_no_memory(e);
        r = merge(import->config, options->config, e);
        if (r == 0)
                r = incoming_begin(import->store, &import->incoming, e);
        if (r < 0)
                return r;
        r = import_make_tree(import, &top_fd, e);
        if (r == 0 && (fchmod(top_fd, 0755) < 0 || mkdirat(top_fd, "etc", 0755) < 0))
                r = image_tree_failed(errno, "", e);
        if (r == 0)
                r = import_commit(import, ret, e);
        incoming_end(import->store, &import->incoming);
        return r;
}

static const char *directory_of(const json_t *config)
{
        const char *text = json_string_value(json_object_get(config, "workingDir"));

        return text ? text : "";
}

static int commit_on_base(struct import *import, int source_fd, const struct commit_options *options, json_t **ret,
                          struct cloche_err *e)
{
        _cleanup_fd_ int base_fd = -EBADF;
        json_t *record = NULL;
        const struct layer_drops none = {0};
        bool is_same = !options->changes;
        int r = find_base(import->store, options, &record, e);

        if (r == 0)
                r = store_lock_tree(import->store, record_tree(record), false, &base_fd, e);
        if (r == 0)
                r = take_facts(import, record, options->created_by, e);
        if (r == 0)
                r = merge(import->config, options->config, e);
        if (r == 0)
                r = find_changes(import, options, base_fd, source_fd, &is_same, e);
        /* Another working directory may have to be made in the tree. */
        is_same = r == 0 && is_same &&
                  strcmp(directory_of(import->config), directory_of(json_object_get(record, "config"))) == 0;
        if (is_same) {
                import->layers--;
                import->drops =
                        options->changes ? layer_drops_json(&none) : json_incref(json_object_get(record, "dropped"));
                r = import_commit_again(import, base_fd, record, ret, e);
        } else if (r == 0) {
                r = commit_tree(import, options, base_fd, record, source_fd, ret, e);
        }
        json_decref(record);
        return r;
}

int commit_run(const struct store *store, int source_fd, const struct commit_options *options, struct work *work,
               json_t **ret, struct cloche_err *e)
{
        const struct import_options named = {.source = SOURCE_NAME,
                                             .reference = options->reference,
                                             .keeps_names = options->keeps_names};
        struct import import = {.store = store, .options = &named, .work = work, .kind = "commit"};
        const bool is_scratch = !options->tree && !options->changes && strcmp(options->name, COMMIT_SCRATCH) == 0;
        int r;

        *ret = NULL;
        memcpy(import.key, options->key, HASH_TEXT_SIZE);
        r = is_scratch ? commit_nothing(&import, options, ret, e) : commit_on_base(&import, source_fd, options, ret, e);
        import_done(&import);
        return r;
}
