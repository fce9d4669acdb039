#include "internal.h"

#include <stdlib.h>
#include <string.h>

/* Print the paths that git ignores below a directory, each with a NUL, if there is a repository. */
#define IGNORED                                                                                  \
        "cd -- \"$CLOCHE_DIR\" && if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then " \
        "git ls-files -z --others --ignored --exclude-standard --directory; fi"
/* Exit code 0: the sandbox's image can make a squashfs archive of a tar archive (squashfs-tools 4.5). */
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
/* Replace the old contents by the ones that were unpacked beside them. */
#define EXCHANGE                                                                                                      \
        "cd -- \"$CLOCHE_DIR\" && find . -mindepth 1 -maxdepth 1 ! -name \"$CLOCHE_NEW\" -exec rm -rf -- {} + && cd " \
        "-- \"$CLOCHE_NEW\" && "                                                                                      \
        "find . -mindepth 1 -maxdepth 1 -exec mv -t .. -- {} + && cd .. && rmdir -- \"$CLOCHE_NEW\""

static void run(struct container_ask *a, const char *command, json_t *env, container_then then)
{
        container_call(a, "exec",
                       json_pack("{s:s, s:b, s:i, s:o}", "command", command, "fork", 1, "outputBytes",
                                 CONTAINER_OUTPUT_BYTES, "env", env),
                       NULL, then);
}

static int has_failed(const struct container_reply *reply)
{
        return json_integer_value(json_object_get(reply->result, "exitCode")) != 0;
}

static void tool_failed(struct container_ask *a, const struct container_reply *reply, enum container_code code)
{
        json_t *said = container_string(json_object_get(reply->result, "stderr"), reply->attachments);

        container_refuse(a, code, a->route->failed, NULL, "%s",
                         json_string_value(said) && *json_string_value(said) ? json_string_value(said)
                                                                             : a->route->failed);
        json_decref(said);
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

static void measured(struct container_ask *a, const struct container_reply *reply)
{
        const struct creation *creation = a->state;

        container_answer(a, json_pack("{s:b, s:O, s:O, s:s}", "success", 1, "sizeBytes",
                                      json_object_get(reply->result, "size"), "archivePath",
                                      container_field(a, "archivePath"), "format",
                                      creation->is_squashed ? "squashfs" : "tar.zst"));
}

static void squashed(struct container_ask *a, const struct container_reply *reply)
{
        if (has_failed(reply))
                tool_failed(a, reply, CONTAINER_BACKUP_CREATE_FAILED);
        else
                container_call(a, "file.stat", json_pack("{s:O}", "path", container_field(a, "archivePath")), NULL,
                               measured);
}

/* Return the path of the tar archive that is converted to squashfs. */
static json_t *tar_path(const struct container_ask *a)
{
        const struct creation *creation = a->state;

        return json_sprintf("%s.%s.tar", container_text(a, "archivePath"), creation->random);
}

static void packed(struct container_ask *a, const struct container_reply *reply)
{
        const struct creation *creation = a->state;
        const char *format = json_string_value(json_object_get(container_field(a, "compression"), "format"));

        (void)reply;
        if (creation->is_squashed)
                run(a, SQUASH,
                    json_pack("{s:O, s:o, s:s}", "CLOCHE_ARCHIVE", container_field(a, "archivePath"), "CLOCHE_TAR",
                              tar_path(a), "CLOCHE_COMPRESSION", format ? format : "zstd"),
                    squashed);
        else
                container_call(a, "file.stat", json_pack("{s:O}", "path", container_field(a, "archivePath")), NULL,
                               measured);
}

static void pack(struct container_ask *a, const struct container_reply *reply)
{
        const struct creation *creation = a->state;

        (void)reply;
        container_call(a, "archive.create",
                       json_pack("{s:O, s:o, s:s, s:O}", "path", container_field(a, "dir"), "to",
                                 creation->is_squashed ? tar_path(a) : json_incref(container_field(a, "archivePath")),
                                 "format", creation->is_squashed ? "tar" : "tar.zst", "exclude", creation->excludes),
                       NULL, packed);
}

static void make_parent(struct container_ask *a)
{
        const char *path = container_text(a, "archivePath"), *slash = strrchr(path, '/');

        if (!slash || slash == path)
                pack(a, NULL);
        else
                container_call(a, "file.mkdir",
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

static void ignored(struct container_ask *a, const struct container_reply *reply)
{
        struct creation *creation = a->state;
        const char *bytes = "";
        size_t size = 0;

        if (has_failed(reply)) {
                tool_failed(a, reply, CONTAINER_BACKUP_CREATE_FAILED);
                return;
        }
        (void)container_bytes(json_object_get(reply->result, "stdout"), reply->attachments, &bytes, &size);
        for (size_t at = 0; at < size;) {
                size_t n = strnlen(bytes + at, size - at);
                size_t bare = n > 0 && bytes[at + n - 1] == '/' ? n - 1 : n;

                if (bare > 0)
                        json_array_append_new(creation->excludes,
                                              glob_of(bytes + at, bare)); /* names that are not UTF-8 are left out */
                at += n + 1;
        }
        make_parent(a);
}

static void can_squash(struct container_ask *a, const struct container_reply *reply)
{
        struct creation *creation = a->state;

        creation->is_squashed = !has_failed(reply);
        if (container_flag(a, "gitignore"))
                run(a, IGNORED, json_pack("{s:O}", "CLOCHE_DIR", container_field(a, "dir")), ignored);
        else
                make_parent(a);
}

void container_backup_create(struct container_ask *a)
{
        const char *format = json_string_value(json_object_get(container_field(a, "compression"), "format"));
        struct creation *creation;

        if (format && strcmp(format, "gzip") != 0 && strcmp(format, "lz4") != 0 && strcmp(format, "zstd") != 0) {
                container_refuse(a, CONTAINER_VALIDATION_FAILED, a->route->failed, NULL,
                                 "\"compression.format\" is \"%.40s\", expected gzip, lz4 or zstd", format);
                return;
        }
        creation = malloc(sizeof(*creation));
        if (!creation) {
                container_refuse(a, CONTAINER_INTERNAL_ERROR, a->route->failed, NULL, "out of memory");
                return;
        }
        *creation = (struct creation){.excludes = container_field(a, "excludes")
                                                          ? json_deep_copy(container_field(a, "excludes"))
                                                          : json_array()};
        container_random(creation->random, sizeof(creation->random) - 1);
        a->state = creation;
        a->state_done = release;
        run(a, CAN_SQUASH, json_object(), can_squash);
}

/* -- restore --------------------------------------------------------------------------------------------------- */

static void restored(struct container_ask *a, const struct container_reply *reply)
{
        if (has_failed(reply))
                tool_failed(a, reply, CONTAINER_BACKUP_RESTORE_FAILED);
        else
                container_answer(a, json_pack("{s:b, s:O}", "success", 1, "dir", container_field(a, "dir")));
}

static void unpacked(struct container_ask *a, const struct container_reply *reply)
{
        (void)reply;
        run(a, EXCHANGE,
            json_pack("{s:O, s:s}", "CLOCHE_DIR", container_field(a, "dir"), "CLOCHE_NEW", (const char *)a->state),
            restored);
}

static void unsquashed(struct container_ask *a, const struct container_reply *reply)
{
        if (has_failed(reply))
                tool_failed(a, reply, CONTAINER_BACKUP_RESTORE_FAILED);
        else
                unpacked(a, reply);
}

/* Unpack the archive, now that its kind is known, as a whole before any old file is removed. */
static void looked(struct container_ask *a, const struct container_reply *reply)
{
        json_int_t code = json_integer_value(json_object_get(reply->result, "exitCode"));

        if (code > 1)
                tool_failed(a, reply, CONTAINER_BACKUP_RESTORE_FAILED);
        else if (code == 1)
                container_call(a, "archive.extract",
                               json_pack("{s:O, s:o}", "path", container_field(a, "archivePath"), "to",
                                         json_sprintf("%s/%s", container_text(a, "dir"), (const char *)a->state)),
                               NULL, unpacked);
        else
                run(a, UNSQUASH,
                    json_pack("{s:O, s:s, s:O}", "CLOCHE_DIR", container_field(a, "dir"), "CLOCHE_NEW",
                              (const char *)a->state, "CLOCHE_ARCHIVE", container_field(a, "archivePath")),
                    unsquashed);
}

void container_backup_restore(struct container_ask *a)
{
        char *name = malloc(32);

        if (!name) {
                container_refuse(a, CONTAINER_INTERNAL_ERROR, a->route->failed, NULL, "out of memory");
                return;
        }
        memcpy(name, ".cloche-restore-", 16);
        container_random(name + 16, 12);
        a->state = name;
        a->state_done = free;
        run(a, IS_SQUASHED, json_pack("{s:O}", "CLOCHE_ARCHIVE", container_field(a, "archivePath")), looked);
}
