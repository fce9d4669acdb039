/* Volumes: their definitions, and the operations volume.*.
 *
 *   STATE/PRINCIPAL/.volumes/NAME.json   the definition; "ready" is false before its image is there and while it
 *                                        is being removed
 *
 * The definition is written before the image is made, and removed after the image: each
 * image that a killed daemon left behind has a name here, and the next one removes it. The
 * image is the keeper's (keeper/volume.c). Runs in: cloched-engine, on its loop, with the
 * rights of the daemon's user. */
#include "volumes.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/hex.h"
#include "base/state.h"
#include "sandbox/core/store.h"
#include "wire/json.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define VOLUMES ".volumes"
#define ENDING ".json"
#define DEFINITION_BYTES_MAX 65536
#define FILE_NAME_SIZE (VOLUME_NAME_MAX + sizeof(ENDING) + 4)
#define COUNT_OF_CALLER 64
#define BYTES_OF_CALLER (UINT64_C(16) << 30)

static const unsigned transitions[VOLUME_STATES] = {
        [VOLUME_MAKING] = STATE_TO(VOLUME_READY) | STATE_TO(VOLUME_REMOVING),
        [VOLUME_READY] = STATE_TO(VOLUME_REMOVING),
        [VOLUME_REMOVING] = STATE_TO(VOLUME_READY), /* it could not be removed */
};

static void set_state(struct sandbox_volume *volume, enum volume_state state)
{
        STATE_CHECK(transitions, volume->state, state);
        volume->state = state;
}

static int check_name(const char *name, struct cloche_err *e)
{
        size_t size = strlen(name);
        int good = size > 0 && size < VOLUME_NAME_MAX && isalnum((unsigned char)name[0]);

        for (size_t i = 0; good && i < size; i++)
                good = isalnum((unsigned char)name[i]) || name[i] == '-' || name[i] == '_';
        return good ? 0
                    : err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                              "\"%.70s\" is not a valid name of a volume: expected 1 to %d of A-Z a-z 0-9 - _, with a "
                              "letter or digit first",
                              name, VOLUME_NAME_MAX - 1);
}

struct sandbox_volume *sandbox_volume_find(const struct sandboxes *all, int64_t principal, const char *name)
{
        struct sandbox_volume *volume;

        TAILQ_FOREACH (volume, &all->volumes, link)
                if (volume->principal == principal && strcmp(volume->name, name) == 0)
                        return volume;
        return NULL;
}

static struct sandbox_volume *volume_new(struct sandboxes *all, int64_t principal, const char *name)
{
        struct sandbox_volume *volume = calloc(1, sizeof(*volume));

        if (!volume)
                return NULL;
        volume->all = all;
        volume->principal = principal;
        strcpy(volume->name, name);
        TAILQ_INSERT_TAIL(&all->volumes, volume, link);
        return volume;
}

static void volume_free(struct sandbox_volume *volume)
{
        TAILQ_REMOVE(&volume->all->volumes, volume, link);
        json_decref(volume->labels);
        free(volume);
}

/* -- definitions ------------------------------------------------------------------------------------------------ */

static int open_definitions(const struct sandbox_volume *volume, int make)
{
        return sandbox_store_open_named(volume->all, volume->principal, VOLUMES, make);
}

static int define(const struct sandbox_volume *volume, struct cloche_err *e)
{
        _cleanup_fd_ int dir_fd = open_definitions(volume, 1);
        json_t *object = json_pack("{s:s, s:s, s:b, s:I, s:I, s:O}", "volume", volume->name, "id", volume->id, "ready",
                                   volume->state == VOLUME_READY, "sizeBytes", (json_int_t)volume->size_bytes,
                                   "createdMs", (json_int_t)volume->created_ms, "labels", volume->labels);
        char *text = object ? json_dump_text(object, JSON_INDENT(1)) : NULL, name[FILE_NAME_SIZE];
        int r = !text ? -ENOMEM : dir_fd < 0 ? dir_fd : 0;

        json_decref(object);
        snprintf(name, sizeof(name), "%s" ENDING, volume->name);
        if (r == 0 && strlen(text) > DEFINITION_BYTES_MAX) {
                free(text);
                return err_set(e, CLOCHE_E_TOO_LARGE, "the labels of a volume have at most %d bytes as JSON",
                               DEFINITION_BYTES_MAX);
        }
        if (r == 0)
                r = sandbox_store_write_text(dir_fd, name, text);
        free(text);
        return r < 0 ? err_os(e, CLOCHE_E_RESOURCE, -r, "write the definition of the volume %s", volume->name) : 0;
}

static void undefine(const struct sandbox_volume *volume)
{
        _cleanup_fd_ int dir_fd = open_definitions(volume, 0);
        char name[FILE_NAME_SIZE];

        snprintf(name, sizeof(name), "%s" ENDING, volume->name);
        if (dir_fd >= 0)
                unlinkat(dir_fd, name, 0);
}

/* -- the keeper ------------------------------------------------------------------------------------------------- */

static int request_keeper(struct sandbox_volume *volume, enum keeper_volume_action action, keeper_done done,
                          struct cloche_err *e)
{
        struct keeper_volume_spec spec = {.action = action,
                                          .size_bytes = action == KEEPER_VOLUME_MAKE ? volume->size_bytes : 0};

        memcpy(spec.id, volume->id, sizeof(spec.id));
        return volume->all->boxes->volume(volume->all, &spec, done, done ? volume : NULL, e);
}

/* The request that waits for the keeper's answer about it; NULL: its client has gone. */
static struct sandbox_request *find_request(const struct sandbox_volume *volume,
                                            int (*handle)(struct sandbox_request *request, struct cloche_err *e))
{
        struct sandbox_request *request;

        TAILQ_FOREACH (request, &volume->all->requests, link)
                if (request->state == volume && request->method->handle == handle)
                        return request;
        return NULL;
}

static json_t *used_by(const struct sandbox_volume *volume)
{
        json_t *names = json_array();
        const struct sandbox *s;

        TAILQ_FOREACH (s, &volume->all->list, link)
                if (s->principal == volume->principal && !s->is_deleted && sandbox_volumes_name(s, volume->name))
                        json_array_append_new(names, json_string(s->name));
        return names;
}

static json_t *volume_json(const struct sandbox_volume *volume)
{
        return json_pack("{s:s, s:I, s:o, s:O, s:o}", "volume", volume->name, "sizeBytes",
                         (json_int_t)volume->size_bytes, "createdAt", sandbox_time_json(volume->created_ms), "labels",
                         volume->labels, "usedBy", used_by(volume));
}

static json_t *usage_json(const struct keeper_volume_usage *usage)
{
        return json_pack("{s:I, s:I, s:I, s:I}", "bytes", (json_int_t)usage->bytes, "usedBytes",
                         (json_int_t)usage->used_bytes, "entries", (json_int_t)usage->entries, "usedEntries",
                         (json_int_t)usage->used_entries);
}

/* It stays. One that a killed daemon left unfinished is removed by the next daemon. */
static void fail_removal(struct sandbox_volume *volume, const struct cloche_err *e)
{
        struct sandbox_request *request = find_request(volume, handle_VOLUME_DELETE);

        volume->is_requested = 0;
        if (volume->was_ready) {
                set_state(volume, VOLUME_READY);
                (void)define(volume, NULL); /* if this fails, the next daemon removes it */
        }
        if (request)
                sandbox_request_fail(request, e, NULL);
}

static void on_removed(void *data, struct keeper_reply *reply)
{
        struct sandbox_volume *volume = data;
        struct sandbox_request *request = find_request(volume, handle_VOLUME_DELETE);

        if (reply->error) {
                fail_removal(volume, reply->error);
                return;
        }
        undefine(volume);
        if (request)
                sandbox_request_result(request, json_object(), NULL);
        volume_free(volume);
}

/* Close, and perhaps remove, one that nobody uses. A keeper that is gone has closed it. */
static void settle(struct sandbox_volume *volume)
{
        struct cloche_err e = {0};

        if (volume->users > 0 || volume->is_requested)
                return;
        if (volume->is_open)
                (void)request_keeper(volume, KEEPER_VOLUME_CLOSE, NULL, NULL);
        volume->is_open = 0;
        if (volume->state != VOLUME_REMOVING)
                return;
        volume->is_requested = 1;
        if (request_keeper(volume, KEEPER_VOLUME_REMOVE, on_removed, &e) < 0)
                fail_removal(volume, &e);
}

static void on_made(void *data, struct keeper_reply *reply)
{
        struct sandbox_volume *volume = data;
        struct sandbox_request *request = find_request(volume, handle_VOLUME_CREATE);
        struct cloche_err e = {0};

        if (reply->error) {
                undefine(volume);
                if (request)
                        sandbox_request_fail(request, reply->error, NULL);
                volume_free(volume);
                return;
        }
        set_state(volume, VOLUME_READY);
        if (define(volume, &e) < 0) { /* its definition says that it is unfinished, so it is removed */
                set_state(volume, VOLUME_REMOVING);
                if (request)
                        sandbox_request_fail(request, &e, NULL);
                settle(volume);
        } else if (request) {
                sandbox_request_result(request, volume_json(volume), NULL);
        }
}

/* Sandboxes that wait for it, and requests that measure it. */
static void on_open(void *data, struct keeper_reply *reply)
{
        struct sandbox_volume *volume = data;
        struct sandbox_request *request;
        struct sandbox *s;

        volume->is_requested = 0;
        if (!reply->error)
                volume->is_open = 1;
        while ((request = find_request(volume, handle_VOLUME_GET))) {
                json_t *object = reply->error ? NULL : volume_json(volume);

                volume->users--;
                if (object)
                        json_object_set_new(object, "usage", usage_json(&reply->answer->volume));
                if (reply->error)
                        sandbox_request_fail(request, reply->error, NULL);
                else
                        sandbox_request_result(request, object, NULL);
        }
        TAILQ_FOREACH (s, &volume->all->list, link)
                if (s->principal == volume->principal && sandbox_volumes_name(s, volume->name))
                        sandbox_on_volumes(s, reply->error);
        settle(volume);
}

static int measure(struct sandbox_volume *volume, struct cloche_err *e)
{
        int r = volume->is_requested ? 0 : request_keeper(volume, KEEPER_VOLUME_OPEN, on_open, e);

        volume->is_requested |= r == 0;
        return r;
}

int sandbox_volume_enter(struct sandbox_volume *volume, struct cloche_err *e)
{
        int r = volume->is_open ? 0 : measure(volume, e);

        volume->users += r == 0;
        return r;
}

void sandbox_volume_leave(struct sandbox_volume *volume)
{
        volume->users--;
        settle(volume);
}

/* -- the operations --------------------------------------------------------------------------------------------- */

static int read_name(const struct sandbox_request *request, const char **ret, struct cloche_err *e)
{
        *ret = sandbox_request_text(request, "volume");
        if (!*ret)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the field \"volume\" is missing: the name of a volume");
        if (request->all->state_fd < 0)
                return err_set(e, CLOCHE_E_STATE, "the daemon has no state directory (--state-dir), and so no volumes");
        return check_name(*ret, e);
}

static int find(const struct sandbox_request *request, struct sandbox_volume **ret, struct cloche_err *e)
{
        const char *name;
        int r = read_name(request, &name, e);

        if (r < 0)
                return r;
        *ret = sandbox_volume_find(request->all, request->principal, name);
        return *ret && (*ret)->state == VOLUME_READY
                       ? 0
                       : err_set(e, CLOCHE_E_NOT_FOUND, "there is no volume \"%s\" (volume.list lists them)", name);
}

/* The operator bounds the bytes that one caller reserves; the disk, those of all. */
int sandbox_volumes_check_room(const struct sandboxes *all, int64_t principal, uint64_t size_bytes,
                               struct cloche_err *e)
{
        uint64_t most = all->options.volume_bytes_max ? all->options.volume_bytes_max : BYTES_OF_CALLER, bytes = 0;
        const struct sandbox_volume *volume;
        const struct sandbox *s;

        TAILQ_FOREACH (volume, &all->volumes, link)
                if (volume->principal == principal)
                        bytes += volume->size_bytes;
        TAILQ_FOREACH (s, &all->list, link)
                if (s->principal == principal && s->volume_uses && s->volume_uses->scratch[0])
                        bytes += s->limits.disk_bytes;
        if (size_bytes > most || bytes > most - size_bytes)
                return err_set(e, CLOCHE_E_QUEUE_FULL,
                               "this caller's volumes, and its sandboxes whose files are on the disk, have %llu bytes, "
                               "at most %llu are possible: make a smaller one, or delete those that are not needed "
                               "(the operator sets cloched --volume-space)",
                               (unsigned long long)bytes, (unsigned long long)most);
        return 0;
}

static int check_room(const struct sandbox_request *request, uint64_t size_bytes, struct cloche_err *e)
{
        const struct sandboxes_options *options = &request->all->options;
        unsigned most = options->volumes_max ? options->volumes_max : COUNT_OF_CALLER, count = 0;
        const struct sandbox_volume *volume;

        TAILQ_FOREACH (volume, &request->all->volumes, link)
                count += volume->principal == request->principal;
        if (count >= most)
                return err_set(e, CLOCHE_E_QUEUE_FULL,
                               "this caller has %u volumes, at most %u are kept: delete those that are not needed",
                               count, most);
        if (size_bytes < KEEPER_VOLUME_BYTES_MIN || size_bytes > KEEPER_VOLUME_BYTES_MAX)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "sizeBytes is %llu, expected %llu to %llu bytes",
                               (unsigned long long)size_bytes, (unsigned long long)KEEPER_VOLUME_BYTES_MIN,
                               (unsigned long long)KEEPER_VOLUME_BYTES_MAX);
        return sandbox_volumes_check_room(request->all, request->principal, size_bytes, e);
}

int sandbox_volume_make_up_id(char ret[KEEPER_VOLUME_ID_SIZE])
{
        unsigned char chance[(KEEPER_VOLUME_ID_SIZE - 1) / 2];

        if (getrandom(chance, sizeof(chance), 0) != sizeof(chance))
                return -1;
        hex_write(ret, chance, sizeof(chance));
        return 0;
}

int handle_VOLUME_CREATE(struct sandbox_request *request, struct cloche_err *e)
{
        uint64_t size_bytes = sandbox_request_count(request, "sizeBytes", 0);
        json_t *labels = json_object_get(request->params, "labels");
        struct sandbox_volume *volume;
        const char *name;
        int r = read_name(request, &name, e);

        if (r == 0 && sandbox_volume_find(request->all, request->principal, name))
                return err_set(e, CLOCHE_E_STATE, "there is a volume \"%s\" already", name);
        if (r == 0)
                r = check_room(request, size_bytes, e);
        if (r < 0)
                return r;
        volume = volume_new(request->all, request->principal, name);
        if (!volume || sandbox_volume_make_up_id(volume->id) < 0) {
                if (volume)
                        volume_free(volume);
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "make a volume");
        }
        volume->size_bytes = size_bytes;
        volume->created_ms = clock_real_ms();
        volume->labels = labels ? json_incref(labels) : json_object();
        r = define(volume, e);
        if (r == 0)
                r = request_keeper(volume, KEEPER_VOLUME_MAKE, on_made, e);
        if (r < 0) {
                undefine(volume);
                volume_free(volume);
                return r;
        }
        request->state = volume;
        return 0;
}

int handle_VOLUME_LIST(struct sandbox_request *request, struct cloche_err *e)
{
        json_t *list = json_array();
        const struct sandbox_volume *volume;

        (void)e;
        TAILQ_FOREACH (volume, &request->all->volumes, link)
                if (volume->principal == request->principal && volume->state == VOLUME_READY)
                        json_array_append_new(list, volume_json(volume));
        sandbox_request_result(request, json_pack("{s:o}", "volumes", list), NULL);
        return 0;
}

static void get_cancel(struct sandbox_request *request)
{
        sandbox_volume_leave(request->state);
        request->state = NULL;
}

int handle_VOLUME_GET(struct sandbox_request *request, struct cloche_err *e)
{
        struct sandbox_volume *volume;
        int r = find(request, &volume, e);

        if (r == 0)
                r = measure(volume, e);
        if (r < 0)
                return r;
        volume->users++;
        request->state = volume;
        request->cancel = get_cancel;
        return 0;
}

static int check_unused(const struct sandbox_volume *volume, struct cloche_err *e)
{
        json_t *names = used_by(volume), *name;
        char text[160] = "";
        size_t i, used = 0;

        json_array_foreach (names, i, name)
                if (used < sizeof(text))
                        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s", i ? ", " : "",
                                                 json_string_value(name));
        i = json_array_size(names);
        json_decref(names);
        if (i > 0)
                return err_set(e, CLOCHE_E_STATE, "the volume \"%s\" is used by %zu sandbox%s: delete %s first: %s%s",
                               volume->name, i, i == 1 ? "" : "es", i == 1 ? "it" : "them", text,
                               used < sizeof(text) ? "" : "…");
        return 0;
}

int handle_VOLUME_DELETE(struct sandbox_request *request, struct cloche_err *e)
{
        struct sandbox_volume *volume;
        int r = find(request, &volume, e);

        if (r == 0)
                r = check_unused(volume, e);
        if (r < 0)
                return r;
        set_state(volume, VOLUME_REMOVING);
        volume->was_ready = 1;
        r = define(volume, e);
        if (r < 0) {
                set_state(volume, VOLUME_READY);
                return r;
        }
        request->state = volume;
        settle(volume); /* else when the last sandbox with it has ended, or it was measured */
        return 0;
}

/* -- the start and the end -------------------------------------------------------------------------------------- */

/* A definition that cannot be read is left alone: with its id the operator finds the image. */
static void load(struct sandboxes *all, int64_t principal, int dir_fd, const char *file)
{
        _cleanup_fd_ int fd = openat(dir_fd, file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        char name[VOLUME_NAME_MAX] = "";
        json_error_t why;
        json_t *object = fd < 0 ? NULL : sandbox_store_read_json(fd, DEFINITION_BYTES_MAX, &why),
               *labels = json_object_get(object, "labels");
        const char *id = json_string_value(json_object_get(object, "id"));
        struct sandbox_volume *volume = NULL;

        snprintf(name, sizeof(name), "%.*s", (int)(strlen(file) - strlen(ENDING)), file);
        if (id && strlen(id) == KEEPER_VOLUME_ID_SIZE - 1 && keeper_is_volume(id) && check_name(name, NULL) == 0)
                volume = volume_new(all, principal, name);
        if (volume) {
                strcpy(volume->id, id);
                volume->size_bytes = (uint64_t)json_integer_value(json_object_get(object, "sizeBytes"));
                volume->created_ms = (uint64_t)json_integer_value(json_object_get(object, "createdMs"));
                volume->labels = json_is_object(labels) ? json_incref(labels) : json_object();
                set_state(volume, json_is_true(json_object_get(object, "ready")) ? VOLUME_READY : VOLUME_REMOVING);
                settle(volume);
        }
        json_decref(object);
}

void sandbox_volumes_load(struct sandboxes *all, int64_t principal, int dir_fd)
{
        int fd = sandbox_store_open_below(dir_fd, VOLUMES, 0);
        DIR *dir = fd < 0 ? NULL : fdopendir(fd);

        if (!dir) {
                fd_close(&fd);
                return;
        }
        for (struct dirent *entry; (entry = readdir(dir));) {
                const char *ending = strrchr(entry->d_name, '.');

                if (ending && ending > entry->d_name && strcmp(ending, ENDING) == 0)
                        load(all, principal, fd, entry->d_name);
                else if (ending && strcmp(ending, SANDBOX_STORE_NEW) == 0) /* it was being written */
                        unlinkat(fd, entry->d_name, 0);
        }
        closedir(dir);
}

void sandbox_volumes_free(struct sandboxes *all)
{
        struct sandbox_volume *volume;

        while ((volume = TAILQ_FIRST(&all->volumes))) {
                (void)all->boxes->detach(all, volume);
                volume_free(volume);
        }
}
