/* Backups of directories of a sandbox: create, restore, upload. Runs in: cloched-engine, on its
 * loop, with the rights of the daemon's user. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

/* Exit code 0: the sandbox's image can make a squashfs archive of a tar archive (squashfs-tools
 * 4.5). */
#define CAN_SQUASH "mksquashfs -help 2>&1 | grep -q -e '^-tar'"
/* Limited: by default it uses memory and processors as the host has them. */
#define SQUASH                                                                                                        \
        "mksquashfs - \"$CLOCHE_ARCHIVE\" -tar -noappend -quiet -no-progress -comp \"$CLOCHE_COMPRESSION\" -mem 64M " \
        "-processors 2 <\"$CLOCHE_TAR\" >/dev/null; "                                                                 \
        "code=$?; rm -f -- \"$CLOCHE_TAR\"; exit $code"
/* Exit code 0: the archive is squashfs. 1: it is not. 2: there is no archive, or no unsquashfs for
 * it; stderr has the error. */
#define IS_SQUASHED                                                                                                    \
        "kind=$(head -c 4 -- \"$CLOCHE_ARCHIVE\" | tr -d '\\0') || exit 2; [ \"$kind\" = hsqs ] || exit 1; command "   \
        "-v unsquashfs >/dev/null || "                                                                                 \
        "{ echo 'the archive is squashfs, and unsquashfs is not in the image of this sandbox: install squashfs-tools " \
        "there, which is the daemon'\\''s host without --image' >&2; exit 2; }"
#define UNSQUASH                                                                                                   \
        "mkdir -p -- \"$CLOCHE_DIR\" && unsquashfs -quiet -no-progress -no-xattrs -d \"$CLOCHE_DIR/$CLOCHE_NEW\" " \
        "\"$CLOCHE_ARCHIVE\" >/dev/null || "                                                                       \
        "{ code=$?; rm -rf -- \"$CLOCHE_DIR/$CLOCHE_NEW\"; exit $code; }"
enum {
#define BACKUP_COMMAND(symbol, ...) symbol,
#include <cloche/backups.def>
#undef BACKUP_COMMAND
};

static const char *const commands[] = {
#define BACKUP_COMMAND(symbol, name, command, doc) [symbol] = (command),
#include <cloche/backups.def>
#undef BACKUP_COMMAND
};

static void run(struct container_request *q, const char *command, json_t *env, container_then then)
{
        container_call(q, "exec",
                       json_pack("{s:s, s:b, s:i, s:o}", "command", command, "fork", 1, "outputBytes",
                                 CONTAINER_OUTPUT_BYTES, "env", env),
                       NULL, then);
}

static int has_failed(const struct door_reply *reply)
{
        return json_integer_value(json_object_get(reply->result, "exitCode")) != 0;
}

static void tool_failed(struct container_request *q, const struct door_reply *reply, enum container_code code)
{
        json_t *printed = door_string(json_object_get(reply->result, "stderr"), reply->attachments);

        container_refuse(q, code, q->route->failed, NULL, "%s",
                         json_string_value(printed) && *json_string_value(printed) ? json_string_value(printed)
                                                                                   : q->route->failed);
        json_decref(printed);
}

/* -- create ---------------------------------------------------------------------------------------------------- */

struct creation {
        json_t *excludes;
        int is_squashed; /* else tar.zst */
        char random[13]; /* in the name of the tar archive between; ends in a NUL */
};

static void release(void *data)
{
        struct creation *creation = data;

        json_decref(creation->excludes);
        free(creation);
}

static void measured(struct container_request *q, const struct door_reply *reply)
{
        const struct creation *creation = q->state;

        container_answer(q, json_pack("{s:b, s:O, s:O, s:s}", "success", 1, "sizeBytes",
                                      json_object_get(reply->result, "size"), "archivePath",
                                      container_field(q, "archivePath"), "format",
                                      creation->is_squashed ? "squashfs" : "tar.zst"));
}

static void squashed(struct container_request *q, const struct door_reply *reply)
{
        if (has_failed(reply))
                tool_failed(q, reply, CONTAINER_BACKUP_CREATE_FAILED);
        else
                container_call(q, "file.stat", json_pack("{s:O}", "path", container_field(q, "archivePath")), NULL,
                               measured);
}

/* Return the path of the tar archive that is converted to squashfs. */
static json_t *tar_path(const struct container_request *q)
{
        const struct creation *creation = q->state;

        return json_sprintf("%s.%s.tar", container_text(q, "archivePath"), creation->random);
}

static void packed(struct container_request *q, const struct door_reply *reply)
{
        const struct creation *creation = q->state;
        const char *format = json_string_value(json_object_get(container_field(q, "compression"), "format"));

        (void)reply;
        if (creation->is_squashed)
                run(q, SQUASH,
                    json_pack("{s:O, s:o, s:s}", "CLOCHE_ARCHIVE", container_field(q, "archivePath"), "CLOCHE_TAR",
                              tar_path(q), "CLOCHE_COMPRESSION", format ? format : "zstd"),
                    squashed);
        else
                container_call(q, "file.stat", json_pack("{s:O}", "path", container_field(q, "archivePath")), NULL,
                               measured);
}

static void pack(struct container_request *q, const struct door_reply *reply)
{
        const struct creation *creation = q->state;

        (void)reply;
        container_call(q, "archive.create",
                       json_pack("{s:O, s:o, s:s, s:O}", "path", container_field(q, "dir"), "to",
                                 creation->is_squashed ? tar_path(q) : json_incref(container_field(q, "archivePath")),
                                 "format", creation->is_squashed ? "tar" : "tar.zst", "exclude", creation->excludes),
                       NULL, packed);
}

static void make_parent(struct container_request *q)
{
        const char *path = container_text(q, "archivePath"), *slash = strrchr(path, '/');

        if (!slash || slash == path)
                pack(q, NULL);
        else
                container_call(q, "file.mkdir",
                               json_pack("{s:s%, s:b}", "path", path, (size_t)(slash - path), "recursive", 1), NULL,
                               pack);
}

/* Return a glob that matches only this path. */
static json_t *glob_of(const char *path, size_t size)
{
        _cleanup_buf_ struct buf glob = BUF_INIT(SIZE_MAX / 2);
        int r = memchr(path, '/', size) ? 0 : buf_append(&glob, "/", 1);

        for (size_t i = 0; r == 0 && i < size; i++)
                if ((r = strchr("*?[]{}()!+@\\", path[i]) ? buf_append(&glob, "\\", 1) : 0) == 0)
                        r = buf_append(&glob, path + i, 1);
        return r == 0 ? json_stringn(glob.data ? glob.data : "", glob.size) : NULL;
}

static void ignored(struct container_request *q, const struct door_reply *reply)
{
        struct creation *creation = q->state;
        const char *bytes = "";
        size_t size = 0;

        if (has_failed(reply)) {
                tool_failed(q, reply, CONTAINER_BACKUP_CREATE_FAILED);
                return;
        }
        (void)door_bytes(json_object_get(reply->result, "stdout"), reply->attachments, &bytes, &size);
        for (size_t at = 0; at < size;) {
                size_t n = strnlen(bytes + at, size - at);
                size_t bare = n > 0 && bytes[at + n - 1] == '/' ? n - 1 : n;

                if (bare > 0)
                        json_array_append_new(creation->excludes,
                                              glob_of(bytes + at, bare)); /* names that are not UTF-8 are left out */
                at += n + 1;
        }
        make_parent(q);
}

static void can_squash(struct container_request *q, const struct door_reply *reply)
{
        struct creation *creation = q->state;

        creation->is_squashed = !has_failed(reply);
        if (container_flag(q, "gitignore"))
                run(q, commands[IGNORED], json_pack("{s:O}", "CLOCHE_DIR", container_field(q, "dir")), ignored);
        else
                make_parent(q);
}

void container_backup_create(struct container_request *q)
{
        const char *format = json_string_value(json_object_get(container_field(q, "compression"), "format"));
        struct creation *creation;

        if (format && strcmp(format, "gzip") != 0 && strcmp(format, "lz4") != 0 && strcmp(format, "zstd") != 0) {
                container_refuse(q, CONTAINER_VALIDATION_FAILED, q->route->failed, NULL,
                                 "\"compression.format\" is \"%.40s\", expected gzip, lz4 or zstd", format);
                return;
        }
        creation = malloc(sizeof(*creation));
        if (!creation) {
                container_refuse(q, CONTAINER_INTERNAL_ERROR, q->route->failed, NULL, "out of memory");
                return;
        }
        *creation = (struct creation){.excludes = container_field(q, "excludes")
                                                          ? json_deep_copy(container_field(q, "excludes"))
                                                          : json_array()};
        container_random(creation->random, sizeof(creation->random) - 1);
        q->state = creation;
        q->state_done = release;
        run(q, CAN_SQUASH, json_object(), can_squash);
}

/* -- restore --------------------------------------------------------------------------------------------------- */

static void restored(struct container_request *q, const struct door_reply *reply)
{
        if (has_failed(reply))
                tool_failed(q, reply, CONTAINER_BACKUP_RESTORE_FAILED);
        else
                container_answer(q, json_pack("{s:b, s:O}", "success", 1, "dir", container_field(q, "dir")));
}

static void unpacked(struct container_request *q, const struct door_reply *reply)
{
        (void)reply;
        run(q, commands[EXCHANGE],
            json_pack("{s:O, s:s}", "CLOCHE_DIR", container_field(q, "dir"), "CLOCHE_NEW", (const char *)q->state),
            restored);
}

static void unsquashed(struct container_request *q, const struct door_reply *reply)
{
        if (has_failed(reply))
                tool_failed(q, reply, CONTAINER_BACKUP_RESTORE_FAILED);
        else
                unpacked(q, reply);
}

/* Unpack the archive, now that its kind is known, as a whole before any old file is removed. */
static void looked(struct container_request *q, const struct door_reply *reply)
{
        json_int_t code = json_integer_value(json_object_get(reply->result, "exitCode"));

        if (code > 1)
                tool_failed(q, reply, CONTAINER_BACKUP_RESTORE_FAILED);
        else if (code == 1)
                container_call(q, "archive.extract",
                               json_pack("{s:O, s:o}", "path", container_field(q, "archivePath"), "to",
                                         json_sprintf("%s/%s", container_text(q, "dir"), (const char *)q->state)),
                               NULL, unpacked);
        else
                run(q, UNSQUASH,
                    json_pack("{s:O, s:s, s:O}", "CLOCHE_DIR", container_field(q, "dir"), "CLOCHE_NEW",
                              (const char *)q->state, "CLOCHE_ARCHIVE", container_field(q, "archivePath")),
                    unsquashed);
}

void container_backup_restore(struct container_request *q)
{
        char *name = malloc(32);

        if (!name) {
                container_refuse(q, CONTAINER_INTERNAL_ERROR, q->route->failed, NULL, "out of memory");
                return;
        }
        memcpy(name, ".cloche-restore-", 16);
        container_random(name + 16, 12);
        q->state = name;
        q->state_done = free;
        run(q, IS_SQUASHED, json_pack("{s:O}", "CLOCHE_ARCHIVE", container_field(q, "archivePath")), looked);
}
