/* The saved state of sandboxes: the definition as JSON, and the files as an archive that the file
 * program writes and reads in the box. It is never parsed outside.
 *
 *   STATE/PRINCIPAL/NAME/sandbox.json   the definition
 *   STATE/PRINCIPAL/NAME/files          its root without /dev/shm and the image's files (box/files/archive/pack.h);
 * replaced as a whole
 *   STATE/PRINCIPAL/NAME/log            life/log.c
 *
 * Runs in: cloched-engine, on its loop, with the rights of the daemon's user. */
#include "store.h"
#include "sandbox/environment/volumes.h"
#include "sandbox/life/deadline.h"
#include "sandbox/life/log.h"
#include "sandbox/life/snapshot.h"
#include "sandbox/network/port.h"
#include "sandbox/session/session.h"
#include "spawn.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "engine/loop/aside.h"
#include "engine/loop/stream.h"
#include "wire/json.h"

#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define DEFINITION "sandbox.json"
#define FILES SANDBOX_STORE_FILES
#define FILES_NEW "files.new"
#define ARCHIVE_OVERHEAD_BYTES (UINT64_C(64) << 20) /* beyond the quota: headers of small files */
#define DEFINITION_BYTES_MAX (1u << 20)             /* the daemon reads all of them when it starts */
#define ROOM_BYTES (64u << 10)                      /* for a definition and headers of a few files */
#define SAVE_AGAIN_NS (UINT64_C(60000000000))

struct store_waiter {
        TAILQ_ENTRY(store_waiter) link;
        void (*packed)(void *data); /* or NULL */
        void (*done)(void *data, const struct cloche_err *e);
        void *data;
};

#define FLUSHED_MAX 4

/* fsync(2) of these descriptors, in order, in a separate thread: for a whole archive it takes
 * seconds. */
struct store_job;
struct flush {
        struct aside *aside;
        struct store_job *job; /* NULL: the job has ended */
        void (*then)(struct store_job *job);
        int fds[FLUSHED_MAX];
        int code;
};

/* A run of the file program. */
struct store_job {
        struct sandbox *sandbox;
        int is_restore, dir_fd, file_fd;
        struct stream archive; /* what the file program writes */
        int32_t pid;
        int has_exited, wait_status;
        uint64_t bytes;
        unsigned silent_looks;       /* since its last bytes */
        uint64_t begun_ms, begun_ns; /* real, monotonic: the archive may lack later changes */
        int is_packed;               /* the archive is whole, with its name for new ones */
        int code;                    /* of writing the archive */
        struct cloche_err error;     /* or of the definition */
        struct flush *flush;         /* while an fsync(2) is under way */
        TAILQ_HEAD(store_waiters, store_waiter) waiters;
        struct store_waiters queued; /* waiters that came while files were being read: the next job is theirs */
};

/* -- directories ---------------------------------------------------------------------------------------------- */

static void principal_name(int64_t principal, char *ret, size_t size)
{
        snprintf(ret, size, "%lld", (long long)principal);
}

int sandbox_store_open_below(int at_fd, const char *name, int make)
{
        int fd;

        if (make && mkdirat(at_fd, name, 0700) < 0 && errno != EEXIST)
                return -errno;
        fd = openat(at_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

int sandbox_store_open_named(const struct sandboxes *all, int64_t principal, const char *name, int make)
{
        char text[32];
        _cleanup_fd_ int fd = -EBADF;

        if (all->state_fd < 0)
                return -ENOENT;
        principal_name(principal, text, sizeof(text));
        fd = sandbox_store_open_below(all->state_fd, text, make);
        return fd < 0 ? fd : sandbox_store_open_below(fd, name, make);
}

int sandbox_store_open(const struct sandbox *s, int make)
{
        return sandbox_store_open_named(s->all, s->principal, s->name, make);
}

/* -- files in them -------------------------------------------------------------------------------------------- */

int sandbox_store_write_text(int dir_fd, const char *name, const char *text)
{
        char new_name[NAME_MAX + 1];
        _cleanup_fd_ int fd = -EBADF;
        int r;

        snprintf(new_name, sizeof(new_name), "%s" SANDBOX_STORE_NEW, name);
        fd = openat(dir_fd, new_name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
        r = fd < 0 ? -errno : fd_write_full(fd, text, strlen(text));
        return r == 0 && renameat(dir_fd, new_name, dir_fd, name) < 0 ? -errno : r;
}

/* Read the file in one piece: json_loadfd(3) reads byte by byte. */
json_t *sandbox_store_read_json(int fd, off_t size_max, json_error_t *ret_why)
{
        struct stat st;
        char *text = fstat(fd, &st) == 0 && st.st_size <= size_max ? malloc((size_t)st.st_size + 1) : NULL;
        json_t *object = NULL;

        strcpy(ret_why->text, "it is too large, or cannot be read");
        if (text && fd_read_full(fd, text, (size_t)st.st_size) == 0)
                object = json_loadb(text, (size_t)st.st_size, JSON_REJECT_DUPLICATES, ret_why);
        free(text);
        return object;
}

/* -- definitions ---------------------------------------------------------------------------------------------- */

static json_t *sessions_json(const struct sandbox *s)
{
        json_t *list = json_array();
        const struct session *session;

        TAILQ_FOREACH (session, &s->sessions, link)
                if (!session->is_closing)
                        json_array_append_new(list, json_pack("{s:s, s:s, s:O*, s:b, s:I, s:I}", "session",
                                                              session->name, "cwd", session->start_cwd, "env",
                                                              session->env, "isolation", session->is_isolated,
                                                              "timeoutMs", (json_int_t)session->timeout_ms, "createdMs",
                                                              (json_int_t)session->created_ms));
        return list;
}

static json_t *ports_json(const struct sandbox *s)
{
        json_t *list = json_array();
        const struct port *port;

        TAILQ_FOREACH (port, &s->ports, link)
                json_array_append_new(list, json_pack("{s:i, s:s, s:s*, s:I}", "port", (int)port->number, "token",
                                                      port->token, "name", port->name, "exposedMs",
                                                      (json_int_t)port->exposed_at_ms));
        return list;
}

/* There is no fsync(2) here, which would block all clients of the daemon for up to 90 ms. After
 * a power cut the file may have its old content, or on some file systems none;
 * sandbox_store_load accepts both. A save flushes it with the files. */
static int write_definition(int dir_fd, const char *sandbox, const char *text, struct cloche_err *e)
{
        int r = sandbox_store_write_text(dir_fd, DEFINITION, text);

        return r < 0 ? err_os(e, CLOCHE_E_RESOURCE, -r, "write " DEFINITION " of the sandbox %s in the state directory",
                              sandbox)
                     : 0;
}

/* True if changes would be lost if this process were killed. Frozen programs make none. */
static int may_lose_changes(const struct sandbox *s)
{
        return s->state == SANDBOX_PAUSED ? s->is_dirty : s->state >= SANDBOX_RUNNING;
}

json_t *sandbox_store_definition(struct sandbox *s)
{
        json_t *object;

        sessions_remember(s);
        object = json_pack("{s:s, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:O, s:O, s:O, s:I, s:o, s:o, s:s, s:O*, "
                           "s:O*, s:O*, s:O*, s:O*, s:b, s:b, s:b, s:O*}",
                           "sandbox", s->name, "runs", may_lose_changes(s), "pausedMs",
                           s->state == SANDBOX_PAUSED || s->has_files_only ? (json_int_t)s->paused_ms : 0, "createdMs",
                           (json_int_t)s->created_ms, "usedMs", (json_int_t)s->used_ms, "savedMs",
                           (json_int_t)s->saved_ms, "lostFromMs", (json_int_t)s->lost_from_ms, "lostToMs",
                           (json_int_t)s->lost_to_ms, "limits", limits_named(&s->requested_limits), "env", s->env,
                           "network", s->network_policy, "labels", s->labels, "idleMs", (json_int_t)s->idle_ms,
                           "sessions", sessions_json(s), "ports", ports_json(s), "image", s->image.name,
                           "imageSettings", s->image.name[0] && s->image.settings ? s->image.settings->json : NULL,
                           "imageName", s->image_name, "startup", s->commands, "packages", s->packages, "mount",
                           s->mount, "hasCaller", s->has_caller, "hasWritableRoot", s->has_writable_root, "hasRoot",
                           s->has_root, "volumes", s->volumes);
        if (object)
                json_object_set_new(object, "hostName", json_string(s->identity.host_name));
        if (object)
                sandbox_deadline_write(s, object);
        return object;
}

int sandbox_store_define(struct sandbox *s, struct cloche_err *e)
{
        _cleanup_fd_ int dir_fd = -EBADF;
        json_t *object;
        char *text;
        int r;

        if (s->all->state_fd < 0 || s->awaits_files)
                return 0;
        dir_fd = sandbox_store_open(s, 1);
        if (dir_fd < 0)
                return err_os(e, CLOCHE_E_RESOURCE, -dir_fd,
                              "open the directory of the sandbox %s in the state directory", s->name);
        object = sandbox_store_definition(s);
        text = object ? json_dump_text(object, JSON_INDENT(1)) : NULL;
        if (text && strlen(text) > DEFINITION_BYTES_MAX)
                r = err_set(e, CLOCHE_E_TOO_LARGE,
                            "the environment, labels, network rules, sessions and ports of the sandbox %s have %zu "
                            "bytes as JSON, at most %u are possible: remove some of them",
                            s->name, strlen(text), DEFINITION_BYTES_MAX);
        else
                r = text ? write_definition(dir_fd, s->name, text, e)
                         : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "write the state of a sandbox");
        free(text);
        json_decref(object);
        return r;
}

int sandbox_has_saved_files(const struct sandbox *s)
{
        return s->all->state_fd >= 0 && (s->saved_ms || !s->is_dirty);
}

void sandbox_store_lost(struct sandbox *s, uint64_t to_ms)
{
        const struct sandboxes_options *options = &s->all->options;

        s->lost_from_ms = s->saved_ms ? s->saved_ms : s->created_ms;
        s->lost_to_ms = to_ms;
        sandbox_log(s, "lost", "changes since its last save, as it ended without being saved");
        if (options->on_lost)
                options->on_lost(options->events_data, s->principal, s->name, s->lost_from_ms, s->lost_to_ms);
        (void)sandbox_store_define(s, NULL); /* if this fails, the old definition makes the next daemon report the loss
                                                again */
}

static void load_session(struct sandbox *s, const json_t *row)
{
        const char *name = json_string_value(json_object_get(row, "session"));
        json_t *env = json_object_get(row, "env");
        struct session *session;

        if (!name || strlen(name) >= SANDBOX_NAME_MAX || (env && sandbox_env_check(env, NULL) < 0))
                return;
        session = session_new(s, name, json_string_value(json_object_get(row, "cwd")), env,
                              json_is_true(json_object_get(row, "isolation")),
                              (uint64_t)json_integer_value(json_object_get(row, "timeoutMs")), NULL);
        if (session)
                session->created_ms = (uint64_t)json_integer_value(json_object_get(row, "createdMs"));
}

/* If the store lacks it by now, the next start fails with that reason. */
static void load_image(struct sandbox *s, const char *name, const json_t *settings)
{
        char *text = settings ? json_dump_text(settings, JSON_COMPACT | JSON_SORT_KEYS) : NULL;

        if (name && keeper_is_tree(name)) {
                image_drop(&s->image);
                strcpy(s->image.name, name);
                if (image_settings_take(&s->all->engine->image_settings, text, &s->image.settings, NULL) < 0)
                        s->image.settings = NULL; /* a daemon wrote them that checked less */
                image_hold(&s->image);
        }
        free(text);
}

static void load_commands(struct sandbox *s, json_t *startup)
{
        struct image image = s->image;

        if (!startup || image_take_startup(s->all->engine, startup, &image, NULL) < 0)
                return;
        sandbox_use_commands(s, &image, startup);
}

static void load_port(struct sandbox *s, const json_t *row)
{
        const char *token = json_string_value(json_object_get(row, "token")),
                   *name = json_string_value(json_object_get(row, "name"));
        struct port *port = token && strlen(token) < sizeof(port->token) ? calloc(1, sizeof(*port)) : NULL;

        if (!port)
                return;
        port->number = (unsigned)json_integer_value(json_object_get(row, "port"));
        strcpy(port->token, token);
        port->name = name ? strdup(name) : NULL;
        port->exposed_at_ms = (uint64_t)json_integer_value(json_object_get(row, "exposedMs"));
        TAILQ_INSERT_TAIL(&s->ports, port, link);
}

static void replace(json_t **member, json_t *value)
{
        sandbox_replace(member, json_is_object(value) ? value : NULL);
}

int sandbox_store_take(struct sandbox *s, const json_t *object, struct cloche_err *e)
{
        const char *host_name = json_string_value(json_object_get(object, "hostName"));
        json_t *row;
        size_t i;

        limits_read(json_object_get(object, "limits"), &s->requested_limits);
        s->created_ms = (uint64_t)json_integer_value(json_object_get(object, "createdMs"));
        s->used_ms = (uint64_t)json_integer_value(json_object_get(object, "usedMs"));
        s->saved_ms = (uint64_t)json_integer_value(json_object_get(object, "savedMs"));
        s->lost_from_ms = (uint64_t)json_integer_value(json_object_get(object, "lostFromMs"));
        s->lost_to_ms = (uint64_t)json_integer_value(json_object_get(object, "lostToMs"));
        s->idle_ms = (uint64_t)json_integer_value(json_object_get(object, "idleMs"));
        if (host_name && strlen(host_name) < sizeof(s->identity.host_name))
                strcpy(s->identity.host_name, host_name);
        sandbox_deadline_read(s, object);
        load_image(s, json_string_value(json_object_get(object, "image")), json_object_get(object, "imageSettings"));
        load_commands(s, json_object_get(object, "startup"));
        if (json_is_string(json_object_get(object, "imageName")))
                s->image_name = json_incref(json_object_get(object, "imageName"));
        replace(&s->packages, json_object_get(object, "packages"));
        replace(&s->mount, json_object_get(object, "mount"));
        s->has_caller = json_is_true(json_object_get(object, "hasCaller"));
        if (json_is_array(json_object_get(object, "volumes")))
                s->volumes = json_incref(json_object_get(object, "volumes"));
        s->has_writable_root = json_is_true(json_object_get(object, "hasWritableRoot"));
        s->has_root = s->has_writable_root && json_is_true(json_object_get(object, "hasRoot"));
        replace(&s->env, json_object_get(object, "env"));
        replace(&s->labels, json_object_get(object, "labels"));
        replace(&s->network_policy, json_object_get(object, "network"));
        json_array_foreach (json_object_get(object, "sessions"), i, row)
                load_session(s, row);
        json_array_foreach (json_object_get(object, "ports"), i, row)
                load_port(s, row);
        return sandbox_set_limits(s, &s->requested_limits, e);
}

static int load_definition(struct sandboxes *all, int64_t principal, const char *name, int dir_fd, struct cloche_err *e)
{
        _cleanup_fd_ int fd = openat(dir_fd, DEFINITION, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        json_error_t why;
        json_t *object;
        struct sandbox *s;
        int r;

        if (fd < 0)
                return err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "open %s/" DEFINITION " of the state directory",
                              name);
        object = sandbox_store_read_json(fd, DEFINITION_BYTES_MAX, &why);
        s = sandbox_new(all, principal, name, e);
        if (!s) {
                json_decref(object);
                return -(int)e->code;
        }
        if (!json_is_object(object)) { /* keep its files; it gets default options */
                snprintf(s->save_error, sizeof(s->save_error),
                         "its definition could not be read (%s) and was kept as " DEFINITION ".bad",
                         object ? "no object" : why.text);
                (void)renameat(dir_fd, DEFINITION, dir_fd, DEFINITION ".bad");
                json_decref(object);
                return 0;
        }
        r = sandbox_store_take(s, object, e);
        s->is_dirty = json_is_true(json_object_get(object, "runs")); /* it was not stopped */
        s->paused_ms = (uint64_t)json_integer_value(json_object_get(object, "pausedMs"));
        s->has_files_only = s->paused_ms && sandbox_has_saved_files(s);
        if (s->is_dirty)
                sandbox_store_lost(s, s->paused_ms ? s->paused_ms : clock_real_ms());
        s->is_dirty = 0;
        sandbox_deadline_settle(s);
        if (!s->has_files_only)
                s->paused_ms = 0;
        json_decref(object);
        return r;
}

/* Remove the remains of a killed daemon: partial files, and a sandbox that was being made or
 * deleted. 1: a sandbox is left. */
static int tidy_directory(int principal_fd, const char *name, int dir_fd)
{
        struct stat st;

        unlinkat(dir_fd, DEFINITION ".new", 0);
        unlinkat(dir_fd, FILES_NEW, 0);
        unlinkat(dir_fd, SANDBOX_STORE_LOG SANDBOX_STORE_NEW, 0);
        if (fstatat(dir_fd, DEFINITION, &st, AT_SYMLINK_NOFOLLOW) == 0)
                return 1;
        unlinkat(dir_fd, FILES, 0);
        unlinkat(dir_fd, SANDBOX_STORE_LOG, 0);
        unlinkat(principal_fd, name, AT_REMOVEDIR);
        return 0;
}

static int load_principal(struct sandboxes *all, int64_t principal, int dir_fd, struct cloche_err *e)
{
        DIR *dir = fdopendir(dir_fd);
        int r = 0;

        if (!dir) {
                close(dir_fd);
                return err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "list the state directory");
        }
        for (struct dirent *entry; r == 0 && (entry = readdir(dir));) {
                _cleanup_fd_ int fd =
                        entry->d_name[0] == '.' ? -EBADF : sandbox_store_open_below(dirfd(dir), entry->d_name, 0);

                if (fd >= 0 && sandbox_name_check(entry->d_name, NULL) == 0 &&
                    tidy_directory(dirfd(dir), entry->d_name, fd))
                        r = load_definition(all, principal, entry->d_name, fd, e);
                if (all->options.on_load)
                        all->options.on_load(all->options.events_data);
        }
        closedir(dir);
        return r;
}

int sandbox_store_load(struct sandboxes *all, struct cloche_err *e)
{
        int list_fd = openat(all->state_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
        DIR *dir = list_fd < 0 ? NULL : fdopendir(list_fd);

        if (!dir)
                return err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "list the state directory");
        for (struct dirent *entry; r == 0 && (entry = readdir(dir));) {
                char *end;
                long long principal = strtoll(entry->d_name, &end, 10);
                int fd = *end || end == entry->d_name ? -EBADF
                                                      : sandbox_store_open_below(all->state_fd, entry->d_name, 0);

                if (fd >= 0) {
                        sandbox_volumes_load(all, principal, fd);
                        snapshots_load(all, principal, fd);
                }
                if (fd >= 0)
                        r = load_principal(all, principal, fd, e);
        }
        closedir(dir);
        return r;
}

void sandbox_store_remove(struct sandbox *s)
{
        static const char *const names[] = {DEFINITION,
                                            DEFINITION ".new",
                                            DEFINITION ".bad",
                                            FILES,
                                            FILES_NEW,
                                            SANDBOX_STORE_LOG,
                                            SANDBOX_STORE_LOG SANDBOX_STORE_NEW};
        _cleanup_fd_ int dir_fd = s->all->state_fd < 0 ? -EBADF : sandbox_store_open(s, 0), principal_fd = -EBADF;
        char principal[32];

        if (dir_fd < 0)
                return;
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                unlinkat(dir_fd, names[i], 0);
        principal_name(s->principal, principal, sizeof(principal));
        principal_fd = sandbox_store_open_below(s->all->state_fd, principal, 0);
        if (principal_fd >= 0)
                unlinkat(principal_fd, s->name, AT_REMOVEDIR);
}

int sandbox_store_rename(const struct sandbox *s, const char *name)
{
        _cleanup_fd_ int principal_fd = -EBADF;
        char principal[32];

        if (s->all->state_fd < 0)
                return 0;
        principal_name(s->principal, principal, sizeof(principal));
        principal_fd = sandbox_store_open_below(s->all->state_fd, principal, 0);
        return principal_fd < 0 ? principal_fd : renameat(principal_fd, s->name, principal_fd, name) < 0 ? -errno : 0;
}

/* -- jobs ----------------------------------------------------------------------------------------------------- */

static void begin_queued(struct sandbox *s, struct store_waiters *waiters);

static void complete_waiters(struct store_waiters *waiters, const struct cloche_err *e)
{
        struct store_waiter *waiter;

        while ((waiter = TAILQ_FIRST(waiters))) {
                TAILQ_REMOVE(waiters, waiter, link);
                if (waiter->done)
                        waiter->done(waiter->data, e);
                free(waiter);
        }
}

/* Free the job, then call the waiters, which may end the sandbox. */
static void job_done(struct store_job *job, int is_lost, const struct cloche_err *e)
{
        struct sandbox *s = job->sandbox;
        struct store_waiters waiters, queued;

        TAILQ_INIT(&waiters);
        TAILQ_INIT(&queued);
        TAILQ_CONCAT(&waiters, &job->waiters, link);
        assert(!job->is_restore || TAILQ_EMPTY(&job->queued));
        TAILQ_CONCAT(is_lost ? &waiters : &queued, &job->queued, link);
        s->store_job = NULL;
        if (e && !job->is_restore)
                job->sandbox->is_dirty = 1;
        if (job->flush)
                job->flush->job = NULL;
        control_detach(&job->sandbox->control, job);
        stream_close(&job->archive);
        fd_close(&job->file_fd);
        fd_close(&job->dir_fd);
        free(job);
        begin_queued(s, &queued);
        complete_waiters(&waiters, e);
}

void sandbox_store_on_box_closed(struct sandbox *s)
{
        struct cloche_err e;

        if (!s->store_job)
                return;
        err_set(&e, CLOCHE_E_SANDBOX_ENDED, "the sandbox ended while its files were being %s",
                s->store_job->is_restore ? "restored" : "saved");
        job_done(s->store_job, 1, &e);
}

void sandbox_store_detach(struct sandbox *s, const void *data)
{
        struct store_waiter *waiter;

        if (!s->store_job)
                return;
        TAILQ_FOREACH (waiter, &s->store_job->waiters, link)
                if (waiter->data == data)
                        waiter->done = NULL;
        TAILQ_FOREACH (waiter, &s->store_job->queued, link)
                if (waiter->data == data)
                        waiter->done = NULL;
}

void sandbox_store_failed(struct sandbox *s, const struct cloche_err *e)
{
        const struct sandboxes_options *options = &s->all->options;

        if (s->is_deleted)
                return;
        if (!s->is_unsaved)
                sandbox_log(s, "unsaved", e->msg);
        snprintf(s->save_error, sizeof(s->save_error), "%s", e->msg);
        s->save_retry_ns = clock_now_ns() + SAVE_AGAIN_NS;
        if (options->on_unsaved && (!s->is_unsaved || s->all->is_stopping))
                options->on_unsaved(options->events_data, s->principal, s->name, e);
        s->is_unsaved = 1;
}

static void conclude(struct store_job *job)
{
        struct sandbox *s = job->sandbox;
        struct cloche_err e = job->error;

        if (e.code == 0 && job->code < 0)
                err_os(&e, CLOCHE_E_RESOURCE, -job->code, "write the files of the sandbox %s", s->name);
        else if (e.code == 0 && job->wait_status != 0)
                err_set(&e, CLOCHE_E_RESOURCE,
                        "the files of the sandbox %s could not be %s: the file program ended with %s %d", s->name,
                        job->is_restore ? "restored" : "saved", WIFSIGNALED(job->wait_status) ? "signal" : "status",
                        WIFSIGNALED(job->wait_status) ? WTERMSIG(job->wait_status) : WEXITSTATUS(job->wait_status));
        if (!job->is_restore && e.code) {
                sandbox_store_failed(s, &e);
                unlinkat(job->dir_fd, FILES_NEW, 0);
        } else if (!job->is_restore) {
                s->save_error[0] = '\0';
                s->is_unsaved = 0;
                s->save_retry_ns = 0;
                s->kept_ns = job->begun_ns;
        }
        job_done(job, 0, e.code ? &e : NULL);
}

static void flush_free(struct flush *flush)
{
        for (size_t i = 0; i < FLUSHED_MAX; i++)
                fd_close(&flush->fds[i]);
        free(flush);
}

static void on_flush(void *data)
{
        struct flush *flush = data;

        /* EINVAL: this file system needs no fsync(2) of directories. */
        for (size_t i = 0; i < FLUSHED_MAX && flush->code == 0; i++)
                if (flush->fds[i] >= 0 && fsync(flush->fds[i]) < 0 && errno != EINVAL)
                        flush->code = -errno;
}

static void on_flushed(void *data)
{
        struct flush *flush = data;
        struct store_job *job = flush->job;

        if (job) {
                job->flush = NULL;
                job->code = flush->code;
                if (job->code < 0)
                        conclude(job);
                else
                        flush->then(job);
        }
        flush_free(flush);
}

/* fds: duplicated; negative ones are skipped. */
static int flush(struct store_job *job, const int fds[FLUSHED_MAX], void (*then)(struct store_job *job))
{
        struct flush *flush = calloc(1, sizeof(*flush));
        int r = flush ? 0 : -ENOMEM;

        if (!flush)
                return r;
        for (size_t i = 0; i < FLUSHED_MAX; i++) {
                flush->fds[i] = fds[i] < 0 ? -EBADF : fcntl(fds[i], F_DUPFD_CLOEXEC, 3);
                if (fds[i] >= 0 && flush->fds[i] < 0)
                        r = -errno;
        }
        flush->job = job;
        flush->then = then;
        /* uv_queue_work would abort the process if its threads could not be made. */
        if (r == 0 && aside_start(&job->sandbox->all->engine->loop, -EBADF, on_flush, on_flushed, flush, &flush->aside,
                                  &job->error) < 0)
                r = -job->error.os_errno;
        if (r < 0)
                flush_free(flush);
        else
                job->flush = flush;
        return r;
}

/* Replace the old archive by the new one and write the definition that belongs to it; then flush
 * the definition and all directories, so that they survive a power cut. */
static void keep(struct store_job *job)
{
        struct sandbox *s = job->sandbox;
        _cleanup_fd_ int principal_fd = -EBADF, definition_fd = -EBADF;
        char principal[32];
        int r = renameat(job->dir_fd, FILES_NEW, job->dir_fd, FILES) < 0 ? -errno : 0;

        job->is_packed = 0;
        if (r == 0) {
                s->saved_ms = job->begun_ms;
                r = sandbox_store_define(s, &job->error);
        }
        if (r == 0) {
                principal_name(s->principal, principal, sizeof(principal));
                principal_fd = sandbox_store_open_below(s->all->state_fd, principal, 0);
                definition_fd = openat(job->dir_fd, DEFINITION, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
                r = principal_fd < 0 ? principal_fd : definition_fd < 0 ? -errno : 0;
        }
        if (r == 0)
                r = flush(job, (int[FLUSHED_MAX]){definition_fd, job->dir_fd, principal_fd, s->all->state_fd},
                          conclude);
        if (r < 0) {
                job->code = r;
                conclude(job);
        }
}

static void tell_packed(struct store_job *job)
{
        struct store_waiter *waiter;

        job->is_packed = 1;
        TAILQ_FOREACH (waiter, &job->waiters, link)
                if (waiter->done && waiter->packed)
                        waiter->packed(waiter->data);
}

static void look(struct store_job *job)
{
        if (!job->has_exited || job->archive.fd >= 0 || job->flush)
                return;
        if (!job->is_restore && job->code == 0 && job->wait_status == 0)
                tell_packed(job);
        if (job->is_restore || job->code < 0 || job->wait_status != 0 ||
            (job->code = flush(job, (int[FLUSHED_MAX]){job->file_fd, -1, -1, -1}, keep)) < 0)
                conclude(job);
}

void sandbox_stores_exited(struct sandbox *s, const struct init_answer *exit)
{
        struct store_job *job = s->store_job;

        if (!job || job->pid != exit->pid)
                return;
        job->has_exited = 1;
        job->wait_status = exit->wait_status;
        look(job);
}

static void on_packed(void *owner, const char *data, size_t size)
{
        struct store_job *job = owner;
        uint64_t most = job->sandbox->limits.disk_bytes;

        job->bytes += size;
        job->silent_looks = 0;
        if (most != CLOCHE_UNLIMITED && job->bytes > most + ARCHIVE_OVERHEAD_BYTES)
                job->code = -EFBIG;
        if (job->code == 0)
                job->code = fd_write_full(job->file_fd, data, size);
        if (job->code < 0) {
                stream_close(&job->archive); /* this ends the file program */
                look(job);
        }
}

static void on_packed_all(void *owner)
{
        look(owner);
}

/* Its end fails the job. It has the guest's user, whose programs can stop it again and again. */
void sandbox_store_tidy(struct sandbox *s)
{
        struct store_job *job = s->store_job;

        if (!job || job->is_restore || job->has_exited || !job->pid || ++job->silent_looks < SANDBOX_STALLED_LOOKS)
                return;
        if (!job->error.code)
                err_set(&job->error, CLOCHE_E_RESOURCE,
                        "the files of the sandbox %s could not be read: no byte came for %d s, as if a program of the "
                        "sandbox had stopped the one that reads them",
                        s->name, SANDBOX_STALLED_LOOKS);
        (void)sandbox_send_kill(&s->control, job->pid, SIGKILL, 0, NULL, 0, NULL, NULL, NULL);
}

static void on_spawned(void *data, const struct init_answer *answer, int fd, const struct cloche_err *e)
{
        struct store_job *job = data;
        struct cloche_err copy;

        fd_close(&fd);
        if (e) {
                copy = *e;
                job_done(job, 0, &copy);
                return;
        }
        job->pid = answer->pid;
}

static struct store_waiter *waiter_new(void (*done)(void *data, const struct cloche_err *e), void *data)
{
        struct store_waiter *waiter = malloc(sizeof(*waiter));

        if (waiter)
                *waiter = (struct store_waiter){.done = done, .data = data};
        return waiter;
}

static struct store_job *job_new(struct sandbox *s, int is_restore)
{
        static const struct stream_owner calls = {.take = on_packed, .on_end = on_packed_all};
        struct store_job *job = malloc(sizeof(*job));

        if (!job)
                return NULL;
        *job = (struct store_job){.sandbox = s, .is_restore = is_restore, .dir_fd = -EBADF, .file_fd = -EBADF};
        stream_init(&job->archive, &calls, job, -EBADF);
        TAILQ_INIT(&job->waiters);
        TAILQ_INIT(&job->queued);
        s->store_job = job;
        return job;
}

static int begin_save(struct store_job *job, struct cloche_err *e)
{
        static const char *const argv[] = {"cloche-files", "--pack", "/", NULL};
        struct sandbox *s = job->sandbox;
        _cleanup_fd_ int their_fd = -EBADF;
        int r;

        s->is_dirty = 0; /* later changes may be missing in the archive */
        job->begun_ms = clock_real_ms();
        job->begun_ns = clock_now_ns();
        job->dir_fd = sandbox_store_open(s, 1);
        job->file_fd = job->dir_fd < 0 ? -EBADF
                                       : openat(job->dir_fd, FILES_NEW,
                                                O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (job->file_fd < 0)
                return err_os(e, CLOCHE_E_RESOURCE, job->dir_fd < 0 ? -job->dir_fd : errno, "save the sandbox %s",
                              s->name);
        r = stream_pipe(&job->archive.fd, &their_fd, 1, e);
        if (r == 0)
                r = stream_start(&job->archive, &s->all->engine->streams, e);
        return r < 0 ? r : sandbox_start_files(s, &s->control, argv, -EBADF, their_fd, on_spawned, job, e);
}

/* Start a save for these waiters, and take them over. */
static void begin_queued(struct sandbox *s, struct store_waiters *waiters)
{
        struct cloche_err e = {0};
        struct store_job *job = TAILQ_EMPTY(waiters) ? NULL : job_new(s, 0);

        if (TAILQ_EMPTY(waiters))
                return;
        if (!job) {
                err_os(&e, CLOCHE_E_RESOURCE, ENOMEM, "save a sandbox");
                sandbox_store_failed(s, &e);
                complete_waiters(waiters, &e);
                return;
        }
        TAILQ_CONCAT(&job->waiters, waiters, link);
        if (begin_save(job, &e) < 0) {
                sandbox_store_failed(s, &e);
                job_done(job, 0, &e);
        }
}

int sandbox_store_link(const struct sandbox *s, int to_fd)
{
        _cleanup_fd_ int dir_fd = sandbox_store_open(s, 0);
        const char *name = s->store_job && s->store_job->is_packed ? FILES_NEW : FILES;

        if (dir_fd < 0)
                return dir_fd;
        return linkat(dir_fd, name, to_fd, FILES, 0) < 0 ? -errno : 0;
}

void sandbox_store_save(struct sandbox *s, void (*done)(void *data, const struct cloche_err *e), void *data)
{
        sandbox_store_save_for(s, NULL, done, data);
}

void sandbox_store_save_for(struct sandbox *s, void (*packed)(void *data),
                            void (*done)(void *data, const struct cloche_err *e), void *data)
{
        struct cloche_err e = {0};
        struct store_waiters waiters = TAILQ_HEAD_INITIALIZER(waiters);
        struct store_waiter *waiter;

        if (s->all->state_fd < 0 || !s->has_box) {
                if (done)
                        done(data, NULL);
                return;
        }
        waiter = waiter_new(done, data);
        if (waiter)
                waiter->packed = packed;
        if (!waiter) {
                err_os(&e, CLOCHE_E_RESOURCE, ENOMEM, "save a sandbox");
                if (done)
                        done(data, &e);
        } else if (s->store_job) { /* the current job may have read the files before their last changes */
                TAILQ_INSERT_TAIL(&s->store_job->queued, waiter, link);
        } else {
                TAILQ_INSERT_TAIL(&waiters, waiter, link);
                begin_queued(s, &waiters);
        }
}

/* Reserve the bytes in an unnamed file for a moment. File systems without such files or without
 * fallocate(2) are not checked. */
int sandbox_store_check_room(const struct sandbox *s, uint64_t bytes, struct cloche_err *e)
{
        _cleanup_fd_ int dir_fd = sandbox_store_open(s, 1), fd = -EBADF;
        uint64_t most = s->limits.disk_bytes;

        if (dir_fd >= 0)
                fd = openat(dir_fd, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
        if (fd < 0 && (dir_fd < 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)))
                return err_os(e, CLOCHE_E_RESOURCE, dir_fd < 0 ? -dir_fd : errno,
                              "open the state directory of the sandbox %s", s->name);
        if (most != CLOCHE_UNLIMITED && bytes > most)
                bytes = most;
        bytes += ROOM_BYTES;
        if (fd >= 0 && fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)bytes) < 0 && errno != EOPNOTSUPP)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "reserve %llu bytes for the files of the sandbox %s",
                              (unsigned long long)bytes, s->name);
        return 0;
}

void sandbox_store_restore(struct sandbox *s, void (*done)(void *data, const struct cloche_err *e), void *data)
{
        static const char *const argv[] = {"cloche-files", "--unpack", "/", NULL};
        _cleanup_fd_ int dir_fd = s->all->state_fd < 0 ? -EBADF : sandbox_store_open(s, 0);
        _cleanup_fd_ int file_fd = s->given_fd >= 0 ? TAKE_FD(s->given_fd)
                                   : dir_fd < 0     ? -EBADF
                                                : openat(dir_fd, FILES, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        int why = dir_fd < 0 ? -dir_fd : errno;
        struct cloche_err e = {0};
        struct store_waiter *waiter;
        struct store_job *job;
        struct stat st;

        if ((s->all->state_fd < 0 && file_fd < 0) || s->is_pooled || (file_fd < 0 && why == ENOENT)) {
                done(data, NULL);
                return;
        }
        /* Fail: a start without the saved files would make the next save replace them by
         * nothing. */
        if (file_fd < 0 || fstat(file_fd, &st) < 0 || !S_ISREG(st.st_mode)) {
                err_os(&e, CLOCHE_E_UNREADABLE_FILE, file_fd < 0 ? why : EINVAL,
                       "open the saved files of the sandbox %s", s->name);
                done(data, &e);
                return;
        }
        waiter = waiter_new(done, data);
        job = waiter ? job_new(s, 1) : NULL;
        if (!job) {
                free(waiter);
                err_os(&e, CLOCHE_E_RESOURCE, ENOMEM, "restore the files of a sandbox");
                done(data, &e);
                return;
        }
        TAILQ_INSERT_TAIL(&job->waiters, waiter, link);
        if (sandbox_start_files(s, &s->control, argv, file_fd, -EBADF, on_spawned, job, &e) < 0)
                job_done(job, 0, &e);
}
