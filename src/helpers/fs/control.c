/* Serve the engine's requests and notify it of denials.
 * Runs in: cloche-fs, as the mounted directory's owner or the caller, confined. */
#include "control.h"

#include "base/err.h"
#include "base/fd.h"
#include "helpers/fs/rules/reserved.h"
#include "helpers/fs/tree/overlay.h"
#include "seed.h"

#include <fcntl.h>
#include <string.h>

#define REQUEST_MAX (16u << 20)
#define NOTIFY_MAX (64u << 10)  /* bytes of unread notifications; beyond that they are dropped */
#define ATTACHED_MAX (1u << 20) /* contents in one answer, plus one file: we share the box's memory limit */

/* -- requests ------------------------------------------------------------------------------------------------- */

/* All pages show the list as of the first page's request. */
static int prepare_list(struct fs_control *control, size_t after, struct cloche_err *e)
{
        if (after == 0) {
                changes_done(&control->list);
                return changes_collect(control->mount, &control->list, e);
        }
        if (!control->listed || after > control->list.count)
                return err_set(e, CLOCHE_E_STATE, "changes: after %zu there is nothing; the list begins with after 0",
                               after);
        return 0;
}

static void add_denial_log(json_t *ret, const struct denial_log *log)
{
        json_object_set_new(ret, "denials", denial_log_denials_json(log));
        json_object_set_new(ret, "denialsDropped", json_integer((json_int_t)log->denials_dropped));
        json_object_set_new(ret, "warnings", denial_log_warnings_json(log));
        json_object_set_new(ret, "warningsDropped", json_integer((json_int_t)log->warnings_dropped));
}

/* 0: attached. Otherwise the row goes without contents. */
static int attach_contents(const struct fs_control *control, const struct change *change, json_t *row,
                           struct buf *attached)
{
        _cleanup_fd_ int fd = upper_open(&control->mount->upper, change->content, O_RDONLY);
        size_t at = attached->size;
        char *room = fd < 0 ? NULL : buf_reserve(attached, (size_t)change->size);

        if (!room || fd_read_full(fd, room, (size_t)change->size) < 0)
                return -1;
        attached->size += (size_t)change->size;
        return json_object_set_new(row, "bytes",
                                   json_pack("{s:I, s:I}", "at", (json_int_t)at, "n", (json_int_t)change->size));
}

/* Attach the contents of rows, at most file_max bytes each and all_max in total. The page of rows
 * ends when the answer is large enough. */
static void attach_page(const struct fs_control *control, json_t *rows, size_t from, size_t file_max, size_t all_max,
                        size_t *end, struct buf *attached)
{
        for (size_t i = from; i < *end; i++) {
                const struct change *change = &control->list.rows[i];

                if (attached->size >= ATTACHED_MAX) {
                        *end = i;
                        break;
                }
                if (change->kind == S_IFREG && change->content && change->size <= file_max &&
                    change->size <= all_max - attached->size)
                        (void)attach_contents(control, change, json_array_get(rows, i - from), attached);
        }
        while (json_array_size(rows) > *end - from)
                json_array_remove(rows, json_array_size(rows) - 1);
}

static int handle_changes(void *argument, const json_t *params, struct server_reply *ret, struct cloche_err *e)
{
        struct fs_control *control = argument;
        size_t after = 0, limit = SIZE_MAX, file_max = 0, all_max = 0, end;
        int r = fs_settings_number(params, "after", &after, e);
        json_t *rows;

        if (r == 0)
                r = fs_settings_number(params, "limit", &limit, e);
        if (r == 0)
                r = fs_settings_number(params, "fileBytes", &file_max, e);
        if (r == 0)
                r = fs_settings_number(params, "allBytes", &all_max, e);
        if (r == 0 && limit == 0)
                r = err_set(e, CLOCHE_E_INVALID_ARGUMENT, "limit: expected one at least");
        if (r == 0)
                r = prepare_list(control, after, e);
        if (r < 0)
                return r;
        rows = changes_to_json(&control->list, after, limit, &end);
        if (all_max > 0)
                attach_page(control, rows, after, file_max, all_max, &end, &ret->attachments);
        ret->result = json_pack("{s:o, s:I}", "changes", rows, "total", (json_int_t)control->list.count);
        control->listed = end < control->list.count;
        json_object_set_new(ret->result, "more", json_boolean(control->listed));
        if (after == 0)
                add_denial_log(ret->result, &control->mount->denial_log);
        if (!control->listed)
                changes_done(&control->list);
        return 0;
}

static int handle_contents(void *argument, const json_t *params, struct server_reply *ret, struct cloche_err *e)
{
        struct fs_control *control = argument;
        (void)params;
        ret->fd = fcntl(control->mount->upper.dir_fd, F_DUPFD_CLOEXEC, 0);
        if (ret->fd < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "give the contents' directory");
        return 0;
}

static int handle_place(void *argument, const json_t *params, struct server_reply *ret, struct cloche_err *e)
{
        struct fs_control *control = argument;
        const char *kind = json_string_value(json_object_get(params, "kind"));
        _cleanup_fd_ int fd = kind && strcmp(kind, "file") == 0 ? server_take_fd(&control->server) : -EBADF;
        int r = seed_entry(control->mount, params, fd, e);

        (void)ret;
        return r;
}

static int handle_usage(void *argument, const json_t *params, struct server_reply *ret, struct cloche_err *e)
{
        struct fs_control *control = argument;
        const struct fs_mount *mount = control->mount;

        (void)params;
        (void)e;
        ret->result =
                json_pack("{s:I, s:I, s:I, s:I, s:I, s:{s:I, s:I}}", "nodes", (json_int_t)mount->tree.node_count,
                          "names", (json_int_t)mount->tree.name_count, "changed", (json_int_t)mount->tree.changed_count,
                          "handles", (json_int_t)mount->open_handles, "bytes", (json_int_t)mount->upper.bytes_used,
                          "passthrough", "opened", (json_int_t)mount->passthrough.opened, "refused",
                          (json_int_t)mount->passthrough.refused);
        return 0;
}

static int handle_configure(void *argument, const json_t *params, struct server_reply *ret, struct cloche_err *e)
{
        struct fs_control *control = argument;

        return control->configure(control, params, &ret->result, e);
}

/* Check for an unfinished sync. Its journal is read by cloche-sync only. */
static int handle_journal(void *argument, const json_t *params, struct server_reply *ret, struct cloche_err *e)
{
        struct fs_control *control = argument;
        (void)params;
        (void)e;
        ret->result =
                json_pack("{s:b}", "journal",
                          faccessat(control->mount->lower.root_fd, RESERVED_NAME, F_OK, AT_SYMLINK_NOFOLLOW) == 0);
        return 0;
}

static const struct server_method methods[] = {
        {"journal", SERVER_ALWAYS, handle_journal},
        {"configure", SERVER_OPENS, handle_configure},
        {"changes", SERVER_AFTER, handle_changes},
        {"usage", SERVER_AFTER, handle_usage},
        {"contents", SERVER_AFTER, handle_contents},
        {"place", SERVER_AFTER, handle_place},
        {NULL, SERVER_ALWAYS, NULL},
};

void fs_control_init(struct fs_control *control, int fd, struct fs_mount *mount)
{
        const struct server_options options = {.methods = methods,
                                               .argument = control,
                                               .request_bytes_max = REQUEST_MAX,
                                               .reply_bytes_max = FRAME_BYTES_MAX,
                                               .notify_bytes_max = NOTIFY_MAX};

        *control = (struct fs_control){.mount = mount};
        server_init(&control->server, fd, &options);
}
