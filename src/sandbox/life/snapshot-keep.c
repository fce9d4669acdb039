/* Writing a snapshot to the disk, as a transaction:
 *
 *   STATE/PRINCIPAL/.snapshots/NAME.new/files           a link to the archive that the sandbox saved
 *                                      /snapshot.json   with the digest of that archive
 *   STATE/PRINCIPAL/.snapshots/NAME                     the same, renamed once all of it is on the disk;
 *                                                       an earlier one is NAME.new from then on
 *
 * A process that is killed meanwhile leaves a directory with SANDBOX_STORE_NEW, which the next
 * one removes. A removal begins by the reverse renaming. Runs in: cloched-engine, with the
 * rights of the daemon's user; the digest and fsync(2), which take seconds for a large archive,
 * in a thread beside its loop. */
#include "snapshot-keep.h"

#include "base/err.h"
#include "base/fd.h"
#include "base/hex.h"
#include "engine/loop/aside.h"
#include "sandbox/core/store.h"
#include "wire/json.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PIECE_BYTES 65536

struct snapshot_keeping {
        struct snapshot *snapshot; /* NULL: it was freed */
        void (*done)(struct snapshot *snapshot, const struct cloche_err *e);
        struct aside *aside;
        /* These are the thread's alone, until it has ended. */
        char name[SANDBOX_NAME_MAX], digest[SNAPSHOT_DIGEST_SIZE];
        json_t *object;
        int dir_fd, list_fd, principal_fd;
        int is_replacing, is_named; /* is_named: it has its name on the disk */
        uint64_t bytes;
        int code;
};

static void write_new_name(char ret[NAME_MAX + 1], const char *name)
{
        snprintf(ret, NAME_MAX + 1, "%s" SANDBOX_STORE_NEW, name);
}

void snapshot_remove(int list_fd, const char *name, int is_new)
{
        static const char *const files[] = {SANDBOX_STORE_FILES, SNAPSHOT_DEFINITION,
                                            SNAPSHOT_DEFINITION SANDBOX_STORE_NEW};
        char new_name[NAME_MAX + 1];
        _cleanup_fd_ int fd = -EBADF;

        write_new_name(new_name, name);
        if (!is_new)
                (void)renameat(list_fd, name, list_fd, new_name);
        fd = sandbox_store_open_below(list_fd, new_name, 0);
        for (size_t i = 0; fd >= 0 && i < sizeof(files) / sizeof(files[0]); i++)
                unlinkat(fd, files[i], 0);
        unlinkat(list_fd, new_name, AT_REMOVEDIR);
}

/* A snapshot takes the place of an earlier one on the disk before it does so in memory: the earlier
 * one has the other name then. */
int snapshot_open(const struct snapshot *snapshot, int list_fd)
{
        char new_name[NAME_MAX + 1];
        const char *const names[] = {snapshot->name, new_name};

        write_new_name(new_name, snapshot->name);
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                _cleanup_fd_ int fd = sandbox_store_open_below(list_fd, names[i], 0);
                struct stat status;

                if (fd >= 0 && fstat(fd, &status) == 0 && status.st_ino == snapshot->inode)
                        return TAKE_FD(fd);
        }
        return -ENOENT;
}

/* -- in the thread ------------------------------------------------------------------------------------------------ */

/* "" if there are no files: the sandbox was never saved. */
static int digest(struct snapshot_keeping *keeping)
{
        _cleanup_fd_ int fd = openat(keeping->dir_fd, SANDBOX_STORE_FILES, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        uint8_t piece[PIECE_BYTES], sum[SHA256_DIGEST_SIZE];
        struct sha256_ctx hash;
        ssize_t n;

        if (fd < 0)
                return errno == ENOENT ? 0 : -errno;
        sha256_init(&hash);
        while ((n = read(fd, piece, sizeof(piece))) > 0) {
                sha256_update(&hash, (size_t)n, piece);
                keeping->bytes += (uint64_t)n;
        }
        if (n < 0 || fsync(fd) < 0)
                return -errno;
        sha256_digest(&hash, sizeof(sum), sum);
        strcpy(keeping->digest, "sha256-");
        hex_write(keeping->digest + strlen(keeping->digest), sum, sizeof(sum));
        return 0;
}

static int write_definition(struct snapshot_keeping *keeping)
{
        char *text;
        int r;

        json_object_set_new(keeping->object, "bytes", json_integer((json_int_t)keeping->bytes));
        json_object_set_new(keeping->object, "digest", json_string(keeping->digest));
        text = json_dump_text(keeping->object, JSON_INDENT(1));
        r = text ? sandbox_store_write_text(keeping->dir_fd, SNAPSHOT_DEFINITION, text) : -ENOMEM;
        free(text);
        return r;
}

/* EINVAL: this file system needs no fsync(2) of directories. */
static int flush(int fd)
{
        return fsync(fd) < 0 && errno != EINVAL ? -errno : 0;
}

static int flush_definition(const struct snapshot_keeping *keeping)
{
        _cleanup_fd_ int fd = openat(keeping->dir_fd, SNAPSHOT_DEFINITION, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

        return fd < 0 ? -errno : flush(fd);
}

/* An exchange, so that a process which is killed leaves the earlier one or this one. */
static int change_name(struct snapshot_keeping *keeping, const char *new_name)
{
        if (renameat2(keeping->list_fd, new_name, keeping->list_fd, keeping->name,
                      keeping->is_replacing ? RENAME_EXCHANGE : 0) < 0)
                return -errno;
        keeping->is_named = 1;
        return 0;
}

static void undo(const struct snapshot_keeping *keeping, const char *new_name)
{
        if (keeping->is_named && keeping->is_replacing)
                (void)renameat2(keeping->list_fd, new_name, keeping->list_fd, keeping->name, RENAME_EXCHANGE);
        snapshot_remove(keeping->list_fd, keeping->name, !keeping->is_named || keeping->is_replacing);
}

static void on_keep(void *data)
{
        struct snapshot_keeping *keeping = data;
        char new_name[NAME_MAX + 1];
        int r = digest(keeping);

        write_new_name(new_name, keeping->name);
        if (r == 0)
                r = write_definition(keeping);
        if (r == 0)
                r = flush_definition(keeping);
        if (r == 0)
                r = flush(keeping->dir_fd);
        if (r == 0)
                r = change_name(keeping, new_name);
        if (r == 0)
                r = flush(keeping->list_fd);
        if (r == 0)
                r = flush(keeping->principal_fd);
        if (r == 0 && keeping->is_replacing)
                snapshot_remove(keeping->list_fd, keeping->name, 1);
        if (r < 0)
                undo(keeping, new_name);
        keeping->code = r;
}

/* -- on the loop -------------------------------------------------------------------------------------------------- */

static void keeping_free(struct snapshot_keeping *keeping)
{
        fd_close(&keeping->dir_fd);
        fd_close(&keeping->list_fd);
        fd_close(&keeping->principal_fd);
        json_decref(keeping->object);
        free(keeping);
}

static void on_kept(void *data)
{
        struct snapshot_keeping *keeping = data;
        struct snapshot *snapshot = keeping->snapshot;
        struct cloche_err e = {0};

        if (keeping->code < 0)
                err_os(&e, CLOCHE_E_RESOURCE, -keeping->code, "keep the snapshot %s in the state directory",
                       keeping->name);
        if (snapshot) {
                snapshot->keeping = NULL;
                snapshot->bytes = keeping->bytes;
                strcpy(snapshot->digest, keeping->digest);
                keeping->done(snapshot, keeping->code < 0 ? &e : NULL);
        }
        keeping_free(keeping);
}

void snapshot_keep_detach(struct snapshot *snapshot)
{
        if (snapshot->keeping)
                snapshot->keeping->snapshot = NULL;
}

static json_t *describe(const struct snapshot *snapshot)
{
        json_t *object = json_pack("{s:s, s:s, s:I, s:O, s:O}", "snapshot", snapshot->name, "sandbox",
                                   snapshot->sandbox, "createdMs", (json_int_t)snapshot->created_ms, "labels",
                                   snapshot->labels, "definition", snapshot->heritage),
               *own = json_deep_copy(object); /* the thread may share no object with the loop */

        json_decref(object);
        return own;
}

/* One that was never saved has no archive. */
static int link_files(const struct snapshot_keeping *keeping, struct snapshot_source from)
{
        _cleanup_fd_ int from_fd = -EBADF;
        int r;

        if (from.sandbox) {
                r = sandbox_store_link(from.sandbox, keeping->dir_fd);
                return r == -ENOENT ? 0 : r;
        }
        from_fd = snapshot_open(from.snapshot, keeping->list_fd);
        if (from_fd < 0)
                return from_fd;
        r = linkat(from_fd, SANDBOX_STORE_FILES, keeping->dir_fd, SANDBOX_STORE_FILES, 0);
        return r < 0 && errno != ENOENT ? -errno : 0;
}

/* Make the directory with its link. */
static int open_all(struct snapshot_keeping *keeping, struct snapshot_source from)
{
        struct snapshot *snapshot = keeping->snapshot;
        char new_name[NAME_MAX + 1];
        struct stat status;

        write_new_name(new_name, keeping->name);
        keeping->list_fd = sandbox_store_open_named(snapshot->all, snapshot->principal, SNAPSHOTS, 1);
        if (keeping->list_fd < 0)
                return keeping->list_fd;
        keeping->principal_fd = openat(keeping->list_fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (keeping->principal_fd < 0)
                return -errno;
        keeping->dir_fd = sandbox_store_open_below(keeping->list_fd, new_name, 1);
        if (keeping->dir_fd < 0)
                return keeping->dir_fd;
        if (fstat(keeping->dir_fd, &status) < 0)
                return -errno;
        snapshot->inode = status.st_ino;
        return link_files(keeping, from);
}

int snapshot_keep(struct snapshot *snapshot, struct snapshot_source from, int is_replacing,
                  void (*done)(struct snapshot *snapshot, const struct cloche_err *e), struct cloche_err *e)
{
        struct snapshot_keeping *keeping = calloc(1, sizeof(*keeping));
        int r;

        if (!keeping)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "keep a snapshot");
        *keeping = (struct snapshot_keeping){.snapshot = snapshot,
                                             .done = done,
                                             .object = describe(snapshot),
                                             .is_replacing = is_replacing,
                                             .dir_fd = -EBADF,
                                             .list_fd = -EBADF,
                                             .principal_fd = -EBADF};
        strcpy(keeping->name, snapshot->name);
        r = keeping->object ? open_all(keeping, from) : -ENOMEM;
        r = r < 0 ? err_os(e, CLOCHE_E_RESOURCE, -r, "keep the snapshot %s in the state directory", snapshot->name)
                  : aside_start(&snapshot->all->engine->loop, -EBADF, on_keep, on_kept, keeping, &keeping->aside, e);
        if (r < 0) {
                if (keeping->list_fd >= 0)
                        snapshot_remove(keeping->list_fd, keeping->name, 1);
                keeping_free(keeping);
                return r;
        }
        snapshot->keeping = keeping;
        return 0;
}
