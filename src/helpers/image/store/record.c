/* Runs in: cloche-image, as its user, confined to the store and the source. */
#include "record.h"

#include "base/err.h"
#include "base/fd.h"
#include "base/suggest.h"
#include "wire/json.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define NAMES_FILE "names.json"
#define ID_PREFIX "sha256:"
#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define DIGITS "0123456789"

/* -- names ---------------------------------------------------------------------------------------------------- */

/* A slash would make a name look like a directory, and so would a leading dot. */
static bool is_word(const char *text, size_t size, const char *characters)
{
        return size > 0 && size <= STORE_NAME_MAX && text[0] != '.' && text[0] != '-' &&
               strspn(text, characters) == size;
}

int reference_read(const char *text, char ret[STORE_REFERENCE_SIZE], struct cloche_err *e)
{
        const char *colon = strchr(text, ':'), *tag = colon ? colon + 1 : "latest";
        size_t size = colon ? (size_t)(colon - text) : strlen(text);

        if (strspn(text, LOWER DIGITS "._-") != size || !is_word(text, size, LOWER DIGITS "._-"))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "'%.80s' is no name of an image: expected 1 to %d of a-z, 0-9, '.', '_' and '-', not "
                               "first '.' or '-'",
                               text, STORE_NAME_MAX);
        if (!is_word(tag, strlen(tag), LOWER "ABCDEFGHIJKLMNOPQRSTUVWXYZ" DIGITS "._-"))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "'%.80s' is no tag of an image: expected 1 to %d letters, digits, '.', '_' and '-'", tag,
                               STORE_NAME_MAX);
        snprintf(ret, STORE_REFERENCE_SIZE, "%.*s:%s", (int)size, text, tag);
        return 0;
}

int names_load(const struct store *store, json_t **ret, struct cloche_err *e)
{
        int r = store_read_json(store->fd, NAMES_FILE, ret, e);

        if (r < 0)
                return r;
        if (!*ret)
                *ret = json_object();
        if (*ret && !json_is_object(*ret))
                return err_set(e, CLOCHE_E_STATE, "the image store: " NAMES_FILE " is no object");
        return *ret ? 0 : work_no_memory(e);
}

int names_save(const struct store *store, const json_t *names, struct cloche_err *e)
{
        return store_write_json(store->fd, NAMES_FILE, names, e);
}

/* -- records -------------------------------------------------------------------------------------------------- */

static void write_file_name(const char *id, char ret[HASH_TEXT_SIZE + 5])
{
        snprintf(ret, HASH_TEXT_SIZE + 5, "%.64s.json", id);
}

int record_identify(const json_t *record, char ret[HASH_TEXT_SIZE], struct cloche_err *e)
{
        static const char *const members[] = {"tree", "config", "architecture", "os"};
        json_t *identity = json_object();
        char *text;

        for (size_t i = 0; identity && i < sizeof(members) / sizeof(members[0]); i++)
                json_object_set(identity, members[i], json_object_get(record, members[i]));
        text = identity ? json_dump_text(identity, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
        json_decref(identity);
        if (!text)
                return work_no_memory(e);
        hash_bytes(text, strlen(text), ret);
        free(text);
        return 0;
}

int record_save(const struct store *store, const char *id, const json_t *record, struct cloche_err *e)
{
        char name[HASH_TEXT_SIZE + 5];

        write_file_name(id, name);
        return store_write_json(store->images_fd, name, record, e);
}

int record_load(const struct store *store, const char *id, json_t **ret, struct cloche_err *e)
{
        char name[HASH_TEXT_SIZE + 5];
        int r;

        write_file_name(id, name);
        r = store_read_json(store->images_fd, name, ret, e);
        if (r < 0)
                return r;
        if (!*ret)
                return err_set(e, CLOCHE_E_NOT_FOUND, "the image store has no image " ID_PREFIX "%.64s", id);
        return record_tree(*ret) ? 0 : err_set(e, CLOCHE_E_STATE, "the image store: %s names no tree", name);
}

int record_remove(const struct store *store, const char *id, struct cloche_err *e)
{
        char name[HASH_TEXT_SIZE + 5];

        write_file_name(id, name);
        if (unlinkat(store->images_fd, name, 0) < 0 && errno != ENOENT)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "remove the image %s", name);
        return 0;
}

static int load_one(const struct store *store, const char *name, json_t *all, struct cloche_err *e)
{
        size_t size = strcspn(name, ".");
        char id[HASH_TEXT_SIZE] = "";
        json_t *record = NULL;
        int r;

        if (!hash_is_text(name, size) || strcmp(name + size, ".json") != 0)
                return 0;
        memcpy(id, name, size);
        r = record_load(store, id, &record, e);
        if (r == 0 && json_object_set(all, id, record) < 0)
                r = work_no_memory(e);
        json_decref(record);
        return r;
}

int record_load_all(const struct store *store, json_t **ret, struct cloche_err *e)
{
        DIR *dir;
        int r = 0;

        *ret = json_object();
        if (!*ret)
                return work_no_memory(e);
        if (store->images_fd < 0)
                return 0;
        dir = store_list(store->images_fd);
        if (!dir)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "list the images");
        for (struct dirent *entry; r == 0 && (entry = readdir(dir));)
                r = load_one(store, entry->d_name, *ret, e);
        closedir(dir);
        return r;
}

const char *record_tree(const json_t *record)
{
        const char *text = json_string_value(json_object_get(record, "tree"));
        size_t prefix = strlen(ID_PREFIX);

        return text && strncmp(text, ID_PREFIX, prefix) == 0 && hash_is_text(text + prefix, strlen(text + prefix))
                       ? text + prefix
                       : NULL;
}

bool record_has_tree(const json_t *records, const char *tree, const char *but_id)
{
        const char *id;
        json_t *record;

        json_object_foreach ((json_t *)records, id, record)
                if (strcmp(record_tree(record), tree) == 0 && (!but_id || strcmp(id, but_id) != 0))
                        return true;
        return false;
}

/* A digest is that of the image or of its tree. */
static int find_digest(const struct store *store, const char *hex, char id[HASH_TEXT_SIZE], json_t **ret,
                       struct cloche_err *e)
{
        json_t *records = NULL, *record;
        const char *own_id;
        int r = record_load_all(store, &records, e);

        json_object_foreach (records, own_id, record)
                if (!*ret && (strcmp(own_id, hex) == 0 || strcmp(record_tree(record), hex) == 0)) {
                        snprintf(id, HASH_TEXT_SIZE, "%s", own_id);
                        *ret = json_incref(record);
                }
        json_decref(records);
        return r < 0 || *ret ? r : err_set(e, CLOCHE_E_NOT_FOUND, "the image store has no image or tree %s", hex);
}

/* The name may be mistyped, or have other tags. */
static int no_such_name(const json_t *names, const char *reference, struct cloche_err *e)
{
        struct suggest s = suggest_for(reference, strcspn(reference, ":"));
        const char *name;
        json_t *id;

        json_object_foreach ((json_t *)names, name, id)
                suggest_candidate(&s, name, strcspn(name, ":"));
        if (s.best)
                return err_set(e, CLOCHE_E_NOT_FOUND,
                               "there is no image '%s'; did you mean '%.257s'? (cloche image ls lists them)", reference,
                               s.best);
        return err_set(e, CLOCHE_E_NOT_FOUND,
                       "there is no image '%s' (cloche image ls lists them, cloche image import makes one)", reference);
}

int record_find(const struct store *store, const char *text, char id[HASH_TEXT_SIZE],
                char reference[STORE_REFERENCE_SIZE], json_t **ret, struct cloche_err *e)
{
        size_t prefix = strlen(STORE_TREE_PREFIX);
        json_t *names = NULL;
        const char *found;
        int r;

        *ret = NULL;
        reference[0] = '\0';
        if (strncmp(text, "sha256", prefix - 1) == 0 && (text[prefix - 1] == ':' || text[prefix - 1] == '-') &&
            hash_is_text(text + prefix, strlen(text + prefix)))
                return find_digest(store, text + prefix, id, ret, e);
        r = reference_read(text, reference, e);
        if (r == 0)
                r = names_load(store, &names, e);
        found = r == 0 ? json_string_value(json_object_get(names, reference)) : NULL;
        if (r == 0 && (!found || !hash_is_text(found, strlen(found))))
                r = no_such_name(names, reference, e);
        if (r == 0) {
                memcpy(id, found, HASH_TEXT_SIZE);
                r = record_load(store, id, ret, e);
        }
        json_decref(names);
        return r;
}
