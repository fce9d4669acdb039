#include "control.h"

#include "base/err.h"
#include "base/fd.h"
#include "overlay.h"
#include "place.h"
#include "reserved.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define REQUEST_MAX (16u << 20)
#define TOLD_WAITING_MAX 256    /* unsent notifications; beyond that they are dropped */
#define ANSWERS_WAITING_MAX 512 /* beyond that no requests are read */
#define ATTACHED_MAX (1u << 20) /* contents in one answer, plus one file: we share the box's memory limit */

struct outgoing {
        struct outgoing *next;
        struct buf bytes;
        size_t sent;
        int fd; /* sent with the first byte; -EBADF: none */
};

/* -- sending -------------------------------------------------------------------------------------------------- */

void control_init(struct control *control, int fd, struct mount *mount)
{
        *control = (struct control){.fd = fd, .mount = mount, .attached = BUF_INIT(FRAME_BYTES_MAX)};
        frame_reader_init(&control->in, REQUEST_MAX);
}

static void drop_first(struct control *control)
{
        struct outgoing *first = control->first;

        control->first = first->next;
        if (!control->first)
                control->last = NULL;
        control->waiting--;
        fd_close(&first->fd);
        buf_done(&first->bytes);
        free(first);
}

void control_done(struct control *control)
{
        while (control->first)
                drop_first(control);
        while (control->given_count)
                fd_close(&control->given[--control->given_count]);
        changes_done(&control->list);
        buf_done(&control->attached);
        frame_reader_done(&control->in);
}

/* Takes bytes and fd. */
static int enqueue(struct control *control, struct buf *bytes, int fd)
{
        struct outgoing *outgoing = calloc(1, sizeof(*outgoing));

        if (!outgoing) {
                buf_done(bytes);
                fd_close(&fd);
                return -1;
        }
        outgoing->bytes = *bytes;
        outgoing->fd = fd;
        *(control->last ? &control->last->next : &control->first) = outgoing;
        control->last = outgoing;
        control->waiting++;
        return 0;
}

static ssize_t send_piece(int socket_fd, const char *data, size_t size, int fd)
{
        union {
                struct cmsghdr header;
                char room[CMSG_SPACE(sizeof(int))];
        } ancillary = {0};
        struct iovec iov = {(void *)(uintptr_t)data, size};
        struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

        if (fd >= 0) {
                msg.msg_control = ancillary.room;
                msg.msg_controllen = sizeof(ancillary.room);
                ancillary.header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
                memcpy(CMSG_DATA(&ancillary.header), &fd, sizeof(fd));
        }
        return sendmsg(socket_fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static int flush(struct control *control)
{
        while (control->first) {
                struct outgoing *first = control->first;
                ssize_t n = send_piece(control->fd, first->bytes.data + first->sent, first->bytes.size - first->sent, first->fd);

                if (n < 0)
                        return errno == EAGAIN || errno == EINTR ? 0 : -1;
                fd_close(&first->fd);
                first->sent += (size_t)n;
                if (first->sent == first->bytes.size)
                        drop_first(control);
        }
        return 0;
}

void control_tell(struct control *control, const char *method, json_t *params)
{
        struct buf bytes = BUF_INIT(1u << 20);

        if (control->waiting >= TOLD_WAITING_MAX || rpc_notify(method, params, NULL, 0, &bytes, NULL) < 0) {
                if (control->waiting >= TOLD_WAITING_MAX)
                        json_decref(params);
                buf_done(&bytes);
                return;
        }
        if (enqueue(control, &bytes, -EBADF) == 0)
                flush(control);
}

/* -- requests ------------------------------------------------------------------------------------------------- */

static int not_found(struct cloche_err *e, int r, const json_t *path)
{
        char *text = path_from_json(path);

        err_os(e, CLOCHE_E_UNREADABLE_FILE, -r, "%.200s", text ? text : "path");
        free(text);
        return -CLOCHE_E_UNREADABLE_FILE;
}

static int find(struct control *control, const json_t *params, struct node **ret, struct cloche_err *e)
{
        const json_t *given = json_object_get(params, "path");
        char *path = path_from_json(given);
        int r = path ? overlay_walk(control->mount, path, ret) : 0;

        if (!path)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "path: expected a string, or bytes");
        free(path);
        return r < 0 ? not_found(e, r, given) : 0;
}

static int read_index(const json_t *params, const char *key, size_t *ret, struct cloche_err *e)
{
        const json_t *value = json_object_get(params, key);

        if (!value || json_is_null(value))
                return 0;
        if (!json_is_integer(value) || json_integer_value(value) < 0)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "%s: expected a whole number, not negative", key);
        *ret = (size_t)json_integer_value(value);
        return 0;
}

/* All pages show the list as of the first page's request. */
static int prepare_list(struct control *control, size_t after, struct cloche_err *e)
{
        if (after == 0) {
                changes_done(&control->list);
                return changes_collect(control->mount, &control->list, e);
        }
        if (!control->listed || after > control->list.count)
                return err_set(e, CLOCHE_E_STATE, "changes: after %zu there is nothing; the list begins with after 0", after);
        return 0;
}

static void add_ledger(json_t *ret, const struct ledger *ledger)
{
        json_object_set_new(ret, "denials", ledger_denials_json(ledger));
        json_object_set_new(ret, "denialsDropped", json_integer((json_int_t)ledger->denials_dropped));
        json_object_set_new(ret, "warnings", ledger_warnings_json(ledger));
        json_object_set_new(ret, "warningsDropped", json_integer((json_int_t)ledger->warnings_dropped));
}

/* Take the first received descriptor; -EBADF: none. */
static int take_given(struct control *control)
{
        int fd;

        if (!control->given_count)
                return -EBADF;
        fd = control->given[0];
        memmove(control->given, control->given + 1, --control->given_count * sizeof(fd));
        return fd;
}

/* 0: attached. Otherwise the row goes without contents. */
static int attach_contents(struct control *control, const struct change *change, json_t *row)
{
        _cleanup_fd_ int fd = upper_open(&control->mount->upper, change->content, O_RDONLY);
        size_t at = control->attached.size;
        char *room = fd < 0 ? NULL : buf_reserve(&control->attached, (size_t)change->size);

        if (!room || fd_read_full(fd, room, (size_t)change->size) < 0)
                return -1;
        control->attached.size += (size_t)change->size;
        return json_object_set_new(row, "bytes", json_pack("{s:I, s:I}", "at", (json_int_t)at, "n", (json_int_t)change->size));
}

/* Attach the contents of rows, at most file_max bytes each and all_max in total. The page of rows
 * ends when the answer is large enough. */
static void attach_page(struct control *control, json_t *rows, size_t from, size_t file_max, size_t all_max, size_t *end)
{
        for (size_t i = from; i < *end; i++) {
                const struct change *change = &control->list.rows[i];

                if (control->attached.size >= ATTACHED_MAX) {
                        *end = i;
                        break;
                }
                if (change->kind == S_IFREG && change->content && change->size <= file_max && change->size <= all_max - control->attached.size)
                        (void)attach_contents(control, change, json_array_get(rows, i - from));
        }
        while (json_array_size(rows) > *end - from)
                json_array_remove(rows, json_array_size(rows) - 1);
}

static int do_changes(struct control *control, const json_t *params, json_t **ret, int *ret_fd, struct cloche_err *e)
{
        size_t after = 0, limit = SIZE_MAX, file_max = 0, all_max = 0, end;
        int r = read_index(params, "after", &after, e);
        json_t *rows;

        (void)ret_fd;
        if (r == 0)
                r = read_index(params, "limit", &limit, e);
        if (r == 0)
                r = read_index(params, "fileBytes", &file_max, e);
        if (r == 0)
                r = read_index(params, "allBytes", &all_max, e);
        if (r == 0 && limit == 0)
                r = err_set(e, CLOCHE_E_INVALID_ARGUMENT, "limit: expected one at least");
        if (r == 0)
                r = prepare_list(control, after, e);
        if (r < 0)
                return r;
        rows = changes_to_json(&control->list, after, limit, &end);
        if (all_max > 0)
                attach_page(control, rows, after, file_max, all_max, &end);
        *ret = json_pack("{s:o, s:I}", "changes", rows, "total", (json_int_t)control->list.count);
        control->listed = end < control->list.count;
        json_object_set_new(*ret, "more", json_boolean(control->listed));
        if (after == 0)
                add_ledger(*ret, &control->mount->ledger);
        if (!control->listed)
                changes_done(&control->list);
        return 0;
}

static int do_contents(struct control *control, const json_t *params, json_t **ret, int *ret_fd, struct cloche_err *e)
{
        (void)params;
        *ret_fd = fcntl(control->mount->upper.dir_fd, F_DUPFD_CLOEXEC, 0);
        if (*ret_fd < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "give the contents' directory");
        *ret = json_object();
        return 0;
}

static int do_place(struct control *control, const json_t *params, json_t **ret, int *ret_fd, struct cloche_err *e)
{
        const char *kind = json_string_value(json_object_get(params, "kind"));
        _cleanup_fd_ int fd = kind && strcmp(kind, "file") == 0 ? take_given(control) : -EBADF;
        int r = place(control->mount, params, fd, e);

        (void)ret_fd;
        if (r == 0)
                *ret = json_object();
        return r;
}

static int do_open(struct control *control, const json_t *params, json_t **ret, int *ret_fd, struct cloche_err *e)
{
        struct node *node;
        int r = find(control, params, &node, e);

        if (r < 0)
                return r;
        *ret_fd = node->kind == S_IFREG ? overlay_open_contents(control->mount, node, O_RDONLY) : -EINVAL;
        r = *ret_fd < 0 ? not_found(e, *ret_fd, json_object_get(params, "path")) : 0;
        if (r == 0)
                *ret = json_pack("{s:I, s:b}", "size", (json_int_t)(node->own ? node->attributes.size : (uint64_t)node->st.st_size),
                                 "changed", node->content != 0);
        overlay_settle(control->mount, node);
        return r;
}

/* Find a node by its path on the host, deleted ones included. */
static struct node *find_gone(struct mount *mount, const char *path)
{
        struct node *node = mount->tree.root;
        char part[NODE_NAME_MAX + 1];

        while (node && *path) {
                size_t size = strcspn(path, "/");
                struct name *name;

                if (size > NODE_NAME_MAX || size == 0)
                        return NULL;
                memcpy(part, path, size);
                part[size] = '\0';
                name = tree_find(&mount->tree, node, part);
                node = name ? name->gone ? name->gone : name->node : NULL;
                path += size + (path[size] == '/');
        }
        return node;
}

static int do_origin(struct control *control, const json_t *params, json_t **ret, int *ret_fd, struct cloche_err *e)
{
        char *path = path_from_json(json_object_get(params, "path"));
        bool by_host = json_is_true(json_object_get(params, "deleted"));
        struct lower_identity identity;
        struct node *node = NULL;
        int r = 0;

        (void)ret_fd;
        if (by_host && path)
                node = find_gone(control->mount, path);
        else
                r = find(control, params, &node, e);
        free(path);
        if (r < 0)
                return r;
        if (node && !node->has_lower)
                overlay_settle(control->mount, node);
        if (!node || !node->has_lower)
                return err_set(e, CLOCHE_E_STATE, "origin: the host never had it");
        lower_identify(&node->st, &identity);
        path = node_lower_path(node, control->mount->path) ? strdup(node_lower_path(node, control->mount->path)) : NULL;
        *ret = json_pack("{s:o, s:o}", "path", path_to_json(path ? path : ""), "identity",
                         change_identity_json(node->own ? &node->copied : &identity));
        free(path);
        overlay_settle(control->mount, node);
        return 0;
}

static int do_freeze(struct control *control, const json_t *params, json_t **ret, int *ret_fd, struct cloche_err *e)
{
        (void)params;
        (void)ret_fd;
        (void)e;
        control->frozen = true;
        *ret = json_object();
        return 0;
}

static int do_thaw(struct control *control, const json_t *params, json_t **ret, int *ret_fd, struct cloche_err *e)
{
        (void)params;
        (void)ret_fd;
        (void)e;
        control->frozen = false;
        *ret = json_object();
        return 0;
}

static int do_usage(struct control *control, const json_t *params, json_t **ret, int *ret_fd, struct cloche_err *e)
{
        const struct mount *mount = control->mount;

        (void)params;
        (void)ret_fd;
        (void)e;
        *ret = json_pack("{s:I, s:I, s:I, s:I, s:I, s:{s:I, s:I}}", "nodes", (json_int_t)mount->tree.node_count, "names",
                         (json_int_t)mount->tree.name_count, "changed", (json_int_t)mount->tree.changed_count, "handles",
                         (json_int_t)mount->open_handles, "bytes", (json_int_t)mount->upper.bytes_used, "passthrough",
                         "opened", (json_int_t)mount->passthrough.opened, "refused", (json_int_t)mount->passthrough.refused);
        return 0;
}

static int do_configure(struct control *control, const json_t *params, json_t **ret, int *ret_fd, struct cloche_err *e)
{
        int r;

        (void)ret_fd;
        if (control->configured)
                return err_set(e, CLOCHE_E_STATE, "configure: it is already");
        r = control->configure(control->argument, params, ret, e);
        control->configured = r == 0;
        control->failed = r < 0;
        return r;
}

/* Check for an unfinished sync. Its journal is read by cloche-sync only. */
static int do_journal(struct control *control, const json_t *params, json_t **ret, int *ret_fd, struct cloche_err *e)
{
        (void)params;
        (void)ret_fd;
        (void)e;
        *ret = json_pack("{s:b}", "journal", faccessat(control->mount->lower.root_fd, RESERVED_NAME, F_OK, AT_SYMLINK_NOFOLLOW) == 0);
        return 0;
}

/* early: permitted before configure. */
static const struct method {
        const char *name;
        int (*call)(struct control *control, const json_t *params, json_t **ret, int *ret_fd, struct cloche_err *e);
        bool early;
} methods[] = {
        {"journal", do_journal, true},
        {"configure", do_configure, true}, {"changes", do_changes, false}, {"open", do_open, false}, {"origin", do_origin, false},
        {"freeze", do_freeze, false},      {"thaw", do_thaw, false},       {"usage", do_usage, false},
        {"contents", do_contents, false},  {"place", do_place, false},
};

static int call(struct control *control, const struct rpc_message *m, json_t **ret, int *ret_fd, struct cloche_err *e)
{
        for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
                if (strcmp(methods[i].name, m->method) == 0) {
                        if (!control->configured && !methods[i].early)
                                return err_set(e, CLOCHE_E_STATE, "%s: configure comes first", m->method);
                        return methods[i].call(control, m->params, ret, ret_fd, e);
                }
        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "there is no method '%.40s'", m->method);
}

static int answer(struct control *control, const struct rpc_message *m)
{
        struct buf bytes = BUF_INIT(FRAME_BYTES_MAX);
        struct cloche_err e = {0};
        json_t *result = NULL;
        int fd = -EBADF, r = call(control, m, &result, &fd, &e);

        if (r == 0)
                r = rpc_result(json_incref(m->id), result ? result : json_null(), control->attached.data, control->attached.size, &bytes, &e);
        buf_consume(&control->attached, control->attached.size);
        if (r < 0) {
                fd_close(&fd);
                r = rpc_error(json_incref(m->id), -32000, e.msg, json_pack("{s:s}", "code", cloche_code_name((unsigned)e.code)), &bytes, NULL);
        }
        if (r < 0) {
                buf_done(&bytes);
                return -1;
        }
        return enqueue(control, &bytes, fd);
}

/* -- serving -------------------------------------------------------------------------------------------------- */

short control_events(const struct control *control)
{
        return (short)((control->waiting < ANSWERS_WAITING_MAX ? POLLIN : 0) | (control->first ? POLLOUT : 0));
}

static int take_messages(struct control *control)
{
        struct frame frame;
        int r;

        while ((r = frame_reader_next(&control->in, &frame, NULL)) > 0) {
                struct rpc_message m;

                if (rpc_parse(&frame, &m, NULL) < 0)
                        return -1;
                r = m.kind == RPC_REQUEST ? answer(control, &m) : 0;
                rpc_message_done(&m);
                if (r < 0)
                        return -1;
        }
        return r;
}

/* Keep the descriptors of one message; -1 if there are more than any request uses. */
static int keep_given(struct control *control, const struct msghdr *msg)
{
        const struct cmsghdr *header = CMSG_FIRSTHDR(msg);
        size_t count = header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS
                               ? (header->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;
        bool fits = !(msg->msg_flags & MSG_CTRUNC);

        for (size_t i = 0; i < count; i++) {
                int fd;

                memcpy(&fd, CMSG_DATA(header) + i * sizeof(fd), sizeof(fd));
                if (control->given_count < sizeof(control->given) / sizeof(control->given[0]))
                        control->given[control->given_count++] = fd;
                else {
                        fd_close(&fd);
                        fits = false;
                }
        }
        return fits ? 0 : -1;
}

static ssize_t receive(struct control *control, char *at, size_t room)
{
        union {
                struct cmsghdr header;
                char room[CMSG_SPACE(sizeof(int))];
        } ancillary;
        struct iovec iov = {at, room};
        struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = ancillary.room, .msg_controllen = sizeof(ancillary.room)};
        ssize_t n = recvmsg(control->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

        if (n > 0 && keep_given(control, &msg) < 0) {
                errno = EPROTO;
                return -1;
        }
        return n;
}

int control_serve(struct control *control)
{
        size_t room;
        char *at;
        ssize_t n;

        if (flush(control) < 0)
                return -1;
        if (control->waiting >= ANSWERS_WAITING_MAX)
                return 0;
        at = frame_reader_room(&control->in, &room);
        if (!at)
                return -1;
        n = receive(control, at, room);
        if (n == 0)
                return -1;
        if (n < 0)
                return errno == EAGAIN || errno == EINTR ? 0 : -1;
        frame_reader_filled(&control->in, (size_t)n);
        return take_messages(control) < 0 ? -1 : flush(control);
}
