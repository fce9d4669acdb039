/* Snapshots, and the operations sandbox.snapshot and snapshot.*. Runs in: cloched-engine, on its
 * loop, with the rights of the daemon's user. */
#include "snapshot.h"
#include "heritage.h"
#include "log.h"
#include "snapshot-keep.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/state.h"
#include "sandbox/core/store.h"
#include "wire/json.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DEFINITION_BYTES_MAX (2u << 20) /* a definition of a sandbox has at most half of it */
#define LABELS_BYTES_MAX (512u << 10)   /* so that the next daemon reads both */

static const unsigned transitions[SNAPSHOT_STATES] = {
        [SNAPSHOT_MAKING] = STATE_TO(SNAPSHOT_READY),
};

static void set_state(struct snapshot *snapshot, enum snapshot_state state)
{
        STATE_CHECK(transitions, snapshot->state, state);
        snapshot->state = state;
}

static int check_name(const char *name, struct cloche_err *e)
{
        return sandbox_name_check_of("snapshot", name, e);
}

/* A name has at most one that is ready, and at most one that is being made, to take its place. */
static struct snapshot *find_in(const struct sandboxes *all, int64_t principal, const char *name,
                                enum snapshot_state state)
{
        struct snapshot *snapshot;

        TAILQ_FOREACH (snapshot, &all->snapshots, link)
                if (snapshot->principal == principal && snapshot->state == state && strcmp(snapshot->name, name) == 0)
                        return snapshot;
        return NULL;
}

static int find_ready(const struct sandboxes *all, int64_t principal, const char *name, struct snapshot **ret,
                      struct cloche_err *e)
{
        int r = check_name(name, e);

        if (r < 0)
                return r;
        *ret = find_in(all, principal, name, SNAPSHOT_READY);
        return *ret ? 0
                    : err_set(e, CLOCHE_E_NOT_FOUND, "there is no snapshot \"%s\" (snapshot.list lists them)", name);
}

static struct snapshot *snapshot_new(struct sandboxes *all, int64_t principal, const char *name)
{
        struct snapshot *snapshot = calloc(1, sizeof(*snapshot));

        if (!snapshot)
                return NULL;
        snapshot->all = all;
        snapshot->principal = principal;
        strcpy(snapshot->name, name);
        snapshot->created_ms = clock_real_ms();
        TAILQ_INSERT_TAIL(&all->snapshots, snapshot, link);
        return snapshot;
}

static void snapshot_free(struct snapshot *snapshot)
{
        snapshot_keep_detach(snapshot);
        TAILQ_REMOVE(&snapshot->all->snapshots, snapshot, link);
        json_decref(snapshot->heritage);
        json_decref(snapshot->labels);
        free(snapshot);
}

void snapshots_free(struct sandboxes *all)
{
        while (!TAILQ_EMPTY(&all->snapshots))
                snapshot_free(TAILQ_FIRST(&all->snapshots));
}

unsigned snapshots_count(const struct sandboxes *all, int64_t principal)
{
        const struct snapshot *snapshot;
        unsigned count = 0;

        TAILQ_FOREACH (snapshot, &all->snapshots, link)
                count += snapshot->principal == principal;
        return count;
}

void snapshots_each_image(const struct sandboxes *all, void (*each)(void *data, const char *name, const char *image),
                          void *data)
{
        const struct snapshot *snapshot;

        TAILQ_FOREACH (snapshot, &all->snapshots, link) {
                const char *image = json_string_value(json_object_get(snapshot->heritage, "image"));

                if (image && *image)
                        each(data, snapshot->name, image);
        }
}

static json_t *snapshot_json(const struct snapshot *snapshot)
{
        const json_t *of = snapshot->heritage;
        const char *image = json_string_value(json_object_get(of, "image"));
        json_t *object = json_pack("{s:s, s:s, s:o, s:I, s:O, s:s*, s:O*, s:O*}", "snapshot", snapshot->name, "sandbox",
                                   snapshot->sandbox, "createdAt", sandbox_time_json(snapshot->created_ms), "bytes",
                                   (json_int_t)snapshot->bytes, "labels", snapshot->labels, "image",
                                   image && *image ? image : NULL, "imageName", json_object_get(of, "imageName"),
                                   "packages", json_object_get(of, "packages"));

        if (object && snapshot->digest[0])
                json_object_set_new(object, "digest", json_string(snapshot->digest));
        if (object && json_is_true(json_object_get(of, "hasWritableRoot")))
                json_object_set_new(object, "writableRoot", json_true());
        if (object && json_is_true(json_object_get(of, "hasRoot")))
                json_object_set_new(object, "root", json_true());
        return object;
}

/* -- taking one --------------------------------------------------------------------------------------------------- */

static void fail(struct snapshot *snapshot, const struct cloche_err *e)
{
        struct sandbox_request *request = snapshot->request;
        struct cloche_err copy = *e;

        snapshot_free(snapshot);
        if (request)
                sandbox_request_fail(request, &copy, NULL);
}

static void on_kept(struct snapshot *snapshot, const struct cloche_err *e)
{
        struct sandbox_request *request = snapshot->request;
        struct snapshot *earlier;

        if (e) {
                fail(snapshot, e);
                return;
        }
        earlier = find_in(snapshot->all, snapshot->principal, snapshot->name, SNAPSHOT_READY);
        if (earlier)
                snapshot_free(earlier);
        set_state(snapshot, SNAPSHOT_READY);
        snapshot->request = NULL;
        if (!request)
                return;
        if (request->sandbox) {
                sandbox_log_format(request->sandbox, "snapshot", "\"%s\"", snapshot->name);
                sandbox_send_event(request->sandbox, "snapshot", json_pack("{s:s}", "snapshot", snapshot->name));
        }
        sandbox_request_result(request, snapshot_json(snapshot), NULL);
}

/* The client has gone, or its sandbox ended. Once the writing began it is finished, like a save. */
static void cancel(struct sandbox_request *request)
{
        struct snapshot *snapshot = request->state;

        if (request->sandbox)
                sandbox_store_detach(request->sandbox, snapshot);
        snapshot->request = NULL;
        if (!snapshot->keeping)
                snapshot_free(snapshot);
}

/* It takes the place of one that is there: check_new() permitted that. */
static int keep(struct snapshot *snapshot, struct snapshot_source from, struct cloche_err *e)
{
        return snapshot_keep(snapshot, from,
                             find_in(snapshot->all, snapshot->principal, snapshot->name, SNAPSHOT_READY) != NULL,
                             on_kept, e);
}

static void on_saved(void *data, const struct cloche_err *e)
{
        struct snapshot *snapshot = data;
        struct cloche_err own;

        if (e || keep(snapshot, (struct snapshot_source){.sandbox = snapshot->request->sandbox}, &own) < 0)
                fail(snapshot, e ? e : &own);
}

static int check_labels(const json_t *labels, struct cloche_err *e)
{
        char *text = labels ? json_dump_text(labels, JSON_INDENT(1)) : NULL;
        int r = labels && !text ? err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "make a snapshot") : 0;

        if (text && strlen(text) > LABELS_BYTES_MAX)
                r = err_set(e, CLOCHE_E_TOO_LARGE, "the labels of a snapshot have at most %u bytes as JSON",
                            LABELS_BYTES_MAX);
        free(text);
        return r;
}

static int check_new(const struct sandbox_request *request, const char *name, struct cloche_err *e)
{
        int r = check_name(name, e), has_earlier;

        if (r == 0)
                r = check_labels(json_object_get(request->params, "labels"), e);
        if (r < 0)
                return r;
        if (request->all->state_fd < 0)
                return err_set(e, CLOCHE_E_STATE,
                               "snapshots are kept in the daemon's state directory, and it has none: start it with "
                               "--state-dir");
        if (find_in(request->all, request->principal, name, SNAPSHOT_MAKING))
                return err_set(e, CLOCHE_E_STATE, "a snapshot \"%s\" is being made: try again when it is there", name);
        has_earlier = find_in(request->all, request->principal, name, SNAPSHOT_READY) != NULL;
        if (has_earlier && !sandbox_request_flag(request, "replace", 0))
                return err_set(e, CLOCHE_E_STATE,
                               "there is a snapshot \"%s\" already: choose another name, delete it (snapshot.delete), "
                               "or replace it (replace: true)",
                               name);
        return has_earlier ? 0 : sandbox_check_count(request->all, request->principal, 1, e);
}

/* With the labels of the request, or those given. heritage: stolen. */
static struct snapshot *make(const struct sandbox_request *request, const char *name, const char *sandbox,
                             json_t *heritage, json_t *labels, struct cloche_err *e)
{
        json_t *own = json_object_get(request->params, "labels");
        struct snapshot *snapshot = snapshot_new(request->all, request->principal, name);

        if (snapshot) {
                strcpy(snapshot->sandbox, sandbox);
                snapshot->labels = own ? json_incref(own) : labels ? json_incref(labels) : json_object();
                snapshot->heritage = json_incref(heritage);
        }
        json_decref(heritage);
        if (snapshot && snapshot->heritage && snapshot->labels)
                return snapshot;
        err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "make a snapshot");
        if (snapshot)
                snapshot_free(snapshot);
        return NULL;
}

static void attach(struct snapshot *snapshot, struct sandbox_request *request)
{
        snapshot->request = request;
        request->state = snapshot;
        request->cancel = cancel;
}

static int begin(struct sandbox_request *request, const char *name, struct cloche_err *e)
{
        struct sandbox *s = request->sandbox;
        struct snapshot *snapshot = make(request, name, s->name, sandbox_heritage_of(s), NULL, e);
        int r = snapshot ? 0 : -(int)e->code;

        if (r == 0 && s->state != SANDBOX_RUNNING)
                r = keep(snapshot, (struct snapshot_source){.sandbox = s}, e);
        if (r < 0 && snapshot)
                snapshot_free(snapshot);
        if (r < 0)
                return r;
        attach(snapshot, request);
        if (s->state == SANDBOX_RUNNING)
                sandbox_store_save(s, on_saved, snapshot);
        return 0;
}

/* Its saved files are those that it has now. */
static int is_saved(const struct sandbox *s)
{
        return s->state == SANDBOX_STOPPED || (s->state == SANDBOX_PAUSED && !s->is_dirty);
}

int handle_SNAPSHOT(struct sandbox_request *request, struct cloche_err *e)
{
        struct sandbox *s = request->sandbox;
        const char *name = sandbox_request_text(request, "snapshot");
        char made_up[SANDBOX_MADE_UP_SIZE];
        int r;

        if (!name)
                sandbox_make_up_name("snapshot", made_up);
        name = name ? name : made_up;
        r = check_new(request, name, e);
        if (r < 0)
                return r;
        if (s->state == SANDBOX_RUNNING || is_saved(s))
                return begin(request, name, e);
        sandbox_request_set_phase(request, REQUEST_WAITING);
        TAILQ_INSERT_TAIL(&s->waiting, request, turn_link);
        sandbox_start(s);
        return 0;
}

/* -- the other operations ----------------------------------------------------------------------------------------- */

int handle_SNAPSHOT_LIST(struct sandbox_request *request, struct cloche_err *e)
{
        json_t *list = json_array();
        const struct snapshot *snapshot;

        (void)e;
        TAILQ_FOREACH (snapshot, &request->all->snapshots, link)
                if (snapshot->principal == request->principal && snapshot->state == SNAPSHOT_READY)
                        json_array_append_new(list, snapshot_json(snapshot));
        sandbox_request_result(request, json_pack("{s:o}", "snapshots", list), NULL);
        return 0;
}

static int find_named(const struct sandbox_request *request, struct snapshot **ret, struct cloche_err *e)
{
        const char *name = sandbox_request_text(request, "snapshot");

        return name ? find_ready(request->all, request->principal, name, ret, e)
                    : err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                              "the field \"snapshot\" is missing: the name of a snapshot");
}

int handle_SNAPSHOT_GET(struct sandbox_request *request, struct cloche_err *e)
{
        struct snapshot *snapshot;
        int r = find_named(request, &snapshot, e);

        if (r == 0)
                sandbox_request_result(request, snapshot_json(snapshot), NULL);
        return r;
}

int handle_SNAPSHOT_COPY(struct sandbox_request *request, struct cloche_err *e)
{
        const char *to = sandbox_request_text(request, "to");
        struct snapshot *from, *snapshot = NULL;
        int r = find_named(request, &from, e);

        if (r == 0)
                r = to ? check_new(request, to, e)
                       : err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the field \"to\" is missing: the name of the copy");
        if (r == 0) {
                snapshot = make(request, to, from->sandbox, json_incref(from->heritage), from->labels, e);
                r = snapshot ? keep(snapshot, (struct snapshot_source){.snapshot = from}, e) : -(int)e->code;
        }
        if (r < 0 && snapshot)
                snapshot_free(snapshot);
        if (r == 0)
                attach(snapshot, request);
        return r;
}

int handle_SNAPSHOT_DELETE(struct sandbox_request *request, struct cloche_err *e)
{
        struct snapshot *snapshot;
        int r = find_named(request, &snapshot, e);
        _cleanup_fd_ int list_fd =
                r < 0 ? -EBADF : sandbox_store_open_named(request->all, request->principal, SNAPSHOTS, 0);

        if (r < 0)
                return r;
        if (list_fd < 0)
                return err_os(e, CLOCHE_E_RESOURCE, -list_fd, "remove a snapshot from the state directory");
        /* The new one has the name on the disk that a removal begins with. */
        if (find_in(request->all, request->principal, snapshot->name, SNAPSHOT_MAKING))
                return err_set(e, CLOCHE_E_STATE,
                               "the snapshot \"%s\" is being replaced: try again when the new one is there",
                               snapshot->name);
        snapshot_remove(list_fd, snapshot->name, 0);
        snapshot_free(snapshot);
        sandbox_request_result(request, json_object(), NULL);
        return 0;
}

/* -- a sandbox from one ------------------------------------------------------------------------------------------- */

int snapshot_find_for(const struct sandbox_request *request, const struct snapshot **ret, struct cloche_err *e)
{
        static const char *const fixed[] = {"image", "imageName", "imageSettings", "packages", "writableRoot", "root"};
        const char *name = sandbox_request_text(request, "snapshot");
        struct snapshot *snapshot;
        int r;

        *ret = NULL;
        if (!name)
                return 0;
        r = find_ready(request->all, request->principal, name, &snapshot, e);
        if (r < 0)
                return r;
        for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
                if (json_object_get(request->params, fixed[i]))
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                                       "%s: a sandbox from a snapshot has that of the snapshot: leave it out",
                                       fixed[i]);
        *ret = snapshot;
        return 0;
}

int snapshot_begin(const struct snapshot *snapshot, struct sandbox *s, struct cloche_err *e)
{
        s->awaits_files = 1;
        return sandbox_heritage_take(s, snapshot->heritage, e);
}

/* The files, then the definition: a process that is killed in between leaves no sandbox. */
int snapshot_give(const struct snapshot *snapshot, struct sandbox *s, struct cloche_err *e)
{
        _cleanup_fd_ int list_fd = sandbox_store_open_named(s->all, s->principal, SNAPSHOTS, 0);
        _cleanup_fd_ int from_fd = list_fd < 0 ? -EIO : snapshot_open(snapshot, list_fd);
        _cleanup_fd_ int dir_fd = from_fd < 0 ? -EBADF : sandbox_store_open(s, 1);
        int r = from_fd < 0 ? from_fd : dir_fd < 0 ? -EIO : 0;

        if (r == 0 && snapshot->digest[0] && linkat(from_fd, SANDBOX_STORE_FILES, dir_fd, SANDBOX_STORE_FILES, 0) < 0)
                r = -errno;
        if (r == -ENOENT)
                return err_set(e, CLOCHE_E_STATE, "another snapshot has taken the place of \"%s\": try again",
                               snapshot->name);
        if (r < 0)
                return err_os(e, CLOCHE_E_RESOURCE, -r, "give the sandbox %s the files of the snapshot %s", s->name,
                              snapshot->name);
        s->saved_ms = snapshot->created_ms;
        sandbox_on_files(s);
        return sandbox_store_define(s, e);
}

/* -- the start ---------------------------------------------------------------------------------------------------- */

/* One that cannot be read is left alone: its files are there for the operator. */
static void load(struct sandboxes *all, int64_t principal, int list_fd, const char *name)
{
        _cleanup_fd_ int dir_fd = sandbox_store_open_below(list_fd, name, 0);
        _cleanup_fd_ int fd =
                dir_fd < 0 ? -EBADF : openat(dir_fd, SNAPSHOT_DEFINITION, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        struct stat status;
        json_error_t why;
        json_t *object = fd < 0 ? NULL : sandbox_store_read_json(fd, DEFINITION_BYTES_MAX, &why),
               *heritage = json_object_get(object, "definition"), *labels = json_object_get(object, "labels");
        const char *sandbox = json_string_value(json_object_get(object, "sandbox")),
                   *digest = json_string_value(json_object_get(object, "digest"));
        struct snapshot *snapshot =
                json_is_object(heritage) && fstat(dir_fd, &status) == 0 ? snapshot_new(all, principal, name) : NULL;

        if (snapshot) {
                snapshot->inode = status.st_ino;
                snapshot->heritage = json_incref(heritage);
                snapshot->labels = json_is_object(labels) ? json_incref(labels) : json_object();
                snapshot->created_ms = (uint64_t)json_integer_value(json_object_get(object, "createdMs"));
                snapshot->bytes = (uint64_t)json_integer_value(json_object_get(object, "bytes"));
                snprintf(snapshot->sandbox, sizeof(snapshot->sandbox), "%s", sandbox ? sandbox : "");
                snprintf(snapshot->digest, sizeof(snapshot->digest), "%s", digest ? digest : "");
                set_state(snapshot, SNAPSHOT_READY);
        }
        json_decref(object);
}

void snapshots_load(struct sandboxes *all, int64_t principal, int dir_fd)
{
        int fd = sandbox_store_open_below(dir_fd, SNAPSHOTS, 0);
        DIR *dir = fd < 0 ? NULL : fdopendir(fd);

        if (!dir) {
                fd_close(&fd);
                return;
        }
        for (struct dirent *entry; (entry = readdir(dir));) {
                char *ending = strrchr(entry->d_name, '.');

                if (ending && ending > entry->d_name && strcmp(ending, SANDBOX_STORE_NEW) == 0) {
                        *ending = '\0';
                        snapshot_remove(fd, entry->d_name, 1);
                } else if (check_name(entry->d_name, NULL) == 0) {
                        load(all, principal, fd, entry->d_name);
                }
        }
        closedir(dir);
}
