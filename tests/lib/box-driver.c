/* For tests: a keeper and its boxes, driven by lines of JSON on standard input, with a line of response each
 * (tests/lib/keeper_boxes.py):
 *   {"do": "make", "box": "a", "sandbox": true, "template": true, "parent": "c", "shared": "b", "mount":
 * "/workspace/m", "limits": {"memoryBytes": 1}}
 *   {"do": "spawn", "box": "a", "argv": ["sh"], "env": ["A=1"], "cwd": "/tmp", "reaps": true, "terminal": [80, 24],
 * "program": "/host/file"}: {"pid"} spawn with "template": true: descriptors 3 and 4 are a template's. {"do": "fork",
 * "box": "a"}: {"pid"}, a number for read, write and close; with "context": true also for {"do": "tell" | "hear", …},
 * which write to its channel and read from there, as write and read; and
 *   {"do": "send" | "receive", …, "message": {…}}, {"message"}: one frame each. make with "runtime": "/host/directory":
 * an agent's, for a template; with "image": "/host/directory"
 *   {"do": "read", "box": "a", "pid": 2, "until": "text"}: {"data"}: until that was printed, or the end
 *   {"do": "write" | "close" | "wait" | "kill" | "connect" | "ports" | "quiesce" | "limit" | "usage" | "drop" |
 * "drop-later" | "serve", …}, {"do": "images", "written": true, "method": "prune", "params": {}}
 *   {"do": "volume", "action": 1, "id": "0…", "size": 0}; make with "mount" and "volume": its id; with "scratch":
 * likewise. A failure is {"error": name, "message"}. Usage: box-driver LIBEXEC-DIR RUNTIMES-DIR [TREES-DIR [WRITTEN]]
 */
#include "base/err.h"
#include "base/fd.h"
#include "engine/box/keeper-client.h"
#include "proto/init.h"

#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define BOXES_MAX 1024
#define PROGRAMS_MAX 512
#define PATIENCE_MS 20000 /* on a machine of usual speed */
#define DATA_MAX (1u << 20)

struct program {
        int32_t pid;
        int in_fd, out_fd; /* the same for a terminal */
        int channel_fd;    /* for a context; else -EBADF */
        int has_ended, wait_status;
};

static struct place {
        char name[64];
        struct keeper_box box;
        struct program programs[PROGRAMS_MAX];
        size_t program_count;
        int channel_fd; /* of the template in it; or -EBADF */
} places[BOXES_MAX];
static size_t place_count;
static struct keeper *keeper;

static const char *text_of(const json_t *ask, const char *key)
{
        const char *text = json_string_value(json_object_get(ask, key));

        return text ? text : "";
}

static struct place *find_place(const json_t *ask, const char *key)
{
        for (size_t i = 0; i < place_count; i++)
                if (places[i].name[0] && strcmp(places[i].name, text_of(ask, key)) == 0)
                        return &places[i];
        return NULL;
}

static struct program *find_program(struct place *place, int32_t pid)
{
        for (size_t i = place->program_count; i > 0; i--)
                if (place->programs[i - 1].pid == pid)
                        return &place->programs[i - 1];
        return NULL;
}

/* -- the box's init --------------------------------------------------------------------------------------------- */

/* CLOCHE_TEST_PATIENCE: the factor by which this machine is slower. */
static int patience_ms(void)
{
        const char *factor = getenv("CLOCHE_TEST_PATIENCE");

        return (int)(PATIENCE_MS * (factor ? atof(factor) : 1));
}

static int hear(struct place *place, struct init_answer *ret, int *ret_fd, int timeout_ms, struct cloche_err *e)
{
        struct pollfd polled = {.fd = place->box.control_fd, .events = POLLIN};
        size_t fd_count = 1;
        ssize_t n;

        *ret_fd = -EBADF;
        if (poll(&polled, 1, timeout_ms) <= 0)
                return err_set(e, CLOCHE_E_TIMEOUT, "the box's init does not answer");
        n = fd_receive(place->box.control_fd, ret, sizeof(*ret), ret_fd, &fd_count, 0);
        if (n != sizeof(*ret))
                return err_set(e, CLOCHE_E_STATE, "the box's init is gone (%zd)", n);
        if (ret->op == INIT_EXITED) {
                struct program *program = find_program(place, ret->pid);

                if (program) {
                        program->has_ended = 1;
                        program->wait_status = ret->wait_status;
                }
        }
        return 0;
}

static int ask_init(struct place *place, const struct init_request *request, const int *fds, size_t fd_count,
                    struct init_answer *ret, int *ret_fd, struct cloche_err *e)
{
        int r = fd_send(place->box.control_fd, request, sizeof(*request), fds, fd_count);

        if (r < 0)
                return err_os(e, CLOCHE_E_STATE, -r, "the box's init is gone");
        do
                r = hear(place, ret, ret_fd, patience_ms(), e);
        while (r == 0 && ret->op == INIT_EXITED);
        if (r == 0 && ret->op != request->op)
                return err_set(e, CLOCHE_E_PROTOCOL, "the box's init answered %u to %u", ret->op, request->op);
        if (r == 0 && ret->err.code) {
                *e = ret->err;
                return -(int)ret->err.code;
        }
        return r;
}

/* -- requests ------------------------------------------------------------------------------------------------ */

static uint64_t limit_of(const json_t *limits, const char *name, uint64_t absent)
{
        const json_t *value = json_object_get(limits, name);

        return !value ? absent : json_is_null(value) ? UINT64_MAX : (uint64_t)json_integer_value(value);
}

static struct keeper_box_limits limits_of(const json_t *limits, uint64_t absent)
{
        return (struct keeper_box_limits){
                .memory_bytes = limit_of(limits, "memoryBytes", absent),
                .pids = limit_of(limits, "pids", absent),
                .cpu_percent = limit_of(limits, "cpuPercent", absent),
                .cpu_ms = limit_of(limits, "cpuMs", absent),
                .disk_bytes = limit_of(limits, "diskBytes", absent),
                .disk_inodes = limit_of(limits, "diskInodes", absent),
                .file_bytes = limit_of(limits, "fileBytes", absent),
                .open_files = limit_of(limits, "openFiles", absent),
        };
}

/* r: the result of the request with keeper_on_waited and w. */
static int wait_for(int r, const struct keeper_wait *w, struct cloche_err *e)
{
        return r < 0 ? r : keeper_wait(keeper, w, e);
}

static struct jail_user user_of(const json_t *ask)
{
        struct jail_user user = jail_user_default();

        if (ask) {
                user.uid = (uint32_t)json_integer_value(json_object_get(ask, "uid"));
                user.gid = (uint32_t)json_integer_value(json_object_get(ask, "gid"));
                snprintf(user.name, sizeof(user.name), "%s", text_of(ask, "name"));
                snprintf(user.home, sizeof(user.home), "%s", text_of(ask, "home"));
        }
        return user;
}

static int make_box(const struct keeper_box_spec *spec, struct keeper_box *ret, struct cloche_err *e)
{
        struct keeper_wait w = {0};
        int r = wait_for(keeper_box_make_async(keeper, spec, keeper_on_waited, &w, e), &w, e);

        return r < 0 ? r : keeper_box_take(w.box, w.fds, w.fd_count, ret, e);
}

static json_t *do_make(const json_t *ask, struct cloche_err *e)
{
        static struct keeper_box_spec spec;
        struct place *place = &places[place_count], *shared = find_place(ask, "shared"),
                     *parent = find_place(ask, "parent");
        const json_t *number = json_object_get(ask, "shared_id");

        memset(&spec, 0, sizeof(spec));
        spec.limits = limits_of(json_object_get(ask, "limits"), UINT64_MAX);
        spec.optional_guards = ~0u;
        spec.parent = parent ? parent->box.id : KEEPER_NO_BOX;
        spec.is_template = json_is_true(json_object_get(ask, "template"));
        spec.shared_with = shared ? shared->box.id : number ? (uint32_t)json_integer_value(number) : KEEPER_NO_BOX;
        if (spec.parent == KEEPER_NO_BOX && spec.shared_with == KEEPER_NO_BOX)
                spec.user = user_of(json_object_get(ask, "user"));
        spec.is_sandbox = json_is_true(json_object_get(ask, "sandbox"));
        spec.has_root = json_is_true(json_object_get(ask, "root"));
        spec.has_writable_root = spec.has_root || json_is_true(json_object_get(ask, "writable_root"));
        snprintf(spec.runtime_dir, sizeof(spec.runtime_dir), "%s", text_of(ask, "runtime"));
        snprintf(spec.image, sizeof(spec.image), "%s", text_of(ask, "image"));
        if (text_of(ask, "mount")[0]) {
                snprintf(spec.mounts[0], sizeof(spec.mounts[0]), "%s", text_of(ask, "mount"));
                spec.mount_count = 1;
        }
        if (text_of(ask, "volume")[0]) {
                snprintf(spec.volumes[0], sizeof(spec.volumes[0]), "%s", text_of(ask, "volume"));
                spec.volume_mounts = 1;
        }
        snprintf(spec.scratch, sizeof(spec.scratch), "%s", text_of(ask, "scratch"));
        if (place_count == BOXES_MAX) {
                err_set(e, CLOCHE_E_RESOURCE, "the driver has no room for more than %d boxes", BOXES_MAX);
                return NULL;
        }
        if (make_box(&spec, &place->box, e) < 0)
                return NULL;
        snprintf(place->name, sizeof(place->name), "%s", text_of(ask, "box"));
        place->channel_fd = -EBADF;
        place_count++;
        return json_pack("{s:i}", "id", (int)place->box.id);
}

static int add_strings(char *at, size_t room, size_t *size, const json_t *list, uint32_t *count)
{
        const json_t *item;
        size_t i;

        *count = 0;
        json_array_foreach (list, i, item) {
                size_t length = json_string_length(item) + 1;

                if (*size + length > room)
                        return -E2BIG;
                memcpy(at + *size, json_string_value(item), length);
                *size += length;
                ++*count;
        }
        return 0;
}

/* A file of the host, sealed. */
static int load(const char *path)
{
        static char bytes[16u << 20];
        _cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, bytes, sizeof(bytes));
        int program_fd = n < 0 ? -1 : fd_from_bytes("program", bytes, (size_t)n);

        if (program_fd >= 0)
                (void)fchmod(program_fd, 0555);
        return program_fd;
}

/* Descriptors 3 and 4 of a template's interpreter. */
static int add_template(struct place *place, int *fds, size_t *count, struct cloche_err *e)
{
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "prepare");
        place->channel_fd = pair[0];
        fds[(*count)++] = pair[1];
        fds[(*count)++] = place->box.fork_fd;
        return 0;
}

static json_t *do_spawn(const json_t *ask, struct cloche_err *e)
{
        static char strings[64 * 1024];
        struct place *place = find_place(ask, "box");
        const json_t *terminal = json_object_get(ask, "terminal");
        struct init_request request = {.op = INIT_SPAWN};
        struct init_answer answer;
        int fds[8], in[2], out[2], master_fd = -EBADF, r;
        size_t size, count = 0;

        size = strlen(text_of(ask, "cwd")) + 1;
        memcpy(strings, text_of(ask, "cwd"), size);
        if (add_strings(strings, sizeof(strings), &size, json_object_get(ask, "argv"), &request.argc) < 0 ||
            add_strings(strings, sizeof(strings), &size, json_object_get(ask, "env"), &request.envc) < 0 ||
            pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0) {
                err_os(e, CLOCHE_E_RESOURCE, errno, "prepare");
                return NULL;
        }
        fds[count++] = fd_from_bytes("strings", strings, size);
        if (terminal) {
                request.flags |= INIT_SPAWN_TERMINAL;
                request.cols = (uint32_t)json_integer_value(json_array_get(terminal, 0));
                request.rows = (uint32_t)json_integer_value(json_array_get(terminal, 1));
        } else {
                fds[count++] = in[0];
                fds[count++] = out[1];
                fds[count++] = out[1];
        }
        if (json_is_true(json_object_get(ask, "reaps")))
                request.flags |= INIT_SPAWN_REAPS;
        if (text_of(ask, "program")[0]) {
                request.flags |= INIT_SPAWN_PROGRAM;
                fds[count++] = json_is_true(json_object_get(ask, "unsealed"))
                                       ? open(text_of(ask, "program"), O_RDONLY | O_CLOEXEC)
                                       : load(text_of(ask, "program"));
        }
        r = json_is_true(json_object_get(ask, "template")) ? add_template(place, fds, &count, e) : 0;
        if (r == 0)
                r = ask_init(place, &request, fds, count, &answer, &master_fd, e);
        if (place->channel_fd >= 0 && json_is_true(json_object_get(ask, "template")))
                close(fds[count - 2]);
        close(fds[0]);
        close(in[0]);
        close(out[1]);
        if (request.flags & INIT_SPAWN_PROGRAM)
                close(fds[count - 1]);
        if (terminal || r < 0) {
                close(in[1]);
                close(out[0]);
        }
        if (r < 0)
                return NULL;
        if (place->program_count == PROGRAMS_MAX)
                place->program_count = 0;
        place->programs[place->program_count++] =
                (struct program){.pid = answer.pid,
                                 .in_fd = terminal ? master_fd : in[1],
                                 .out_fd = terminal ? master_fd : out[0],
                                 .channel_fd = json_is_true(json_object_get(ask, "template"))
                                                       ? fcntl(place->channel_fd, F_DUPFD_CLOEXEC, 0)
                                                       : -EBADF};
        return json_pack("{s:i}", "pid", answer.pid);
}

static json_t *do_fork(const json_t *ask, struct place *place, struct cloche_err *e)
{
        int in[2], out[2], channel[2], fds[KEEPER_FORK_FDS], r;
        struct keeper_wait w = {0};
        uint32_t fork;

        if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0 ||
            socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel) < 0) {
                err_os(e, CLOCHE_E_RESOURCE, errno, "prepare");
                return NULL;
        }
        fds[0] = in[0];
        fds[1] = fds[2] = out[1];
        fds[3] = channel[1];
        fds[4] = place->box.fork_fd;
        r = wait_for(keeper_box_fork_async(keeper, place->box.id, fds, fds[4] >= 0 ? 5 : 4, keeper_on_waited, &w, &fork,
                                           e),
                     &w, e);
        close(in[0]);
        close(out[1]);
        close(channel[1]);
        fd_close(&place->box.fork_fd); /* otherwise the end of the child's channel would not be noticed */
        if (r < 0 || !json_is_true(json_object_get(ask, "context")))
                fd_close(&channel[0]);
        if (r < 0) {
                close(in[1]);
                close(out[0]);
                return NULL;
        }
        if (place->program_count == PROGRAMS_MAX)
                place->program_count = 0;
        place->programs[place->program_count++] = (struct program){.pid = 1000000 + (int32_t)fork,
                                                                   .in_fd = in[1],
                                                                   .out_fd = out[0],
                                                                   .channel_fd = channel[0]};
        return json_pack("{s:i}", "pid", 1000000 + (int)fork);
}

/* Start an egress program for the box; it ends with its connection. */
static json_t *do_serve(struct place *place, struct cloche_err *e)
{
        static struct keeper_service_spec spec = {.service = KEEPER_SERVICE_NET};
        struct keeper_wait w = {0};
        int pair[2], r;

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
                err_os(e, CLOCHE_E_RESOURCE, errno, "prepare");
                return NULL;
        }
        r = wait_for(keeper_serve_async(keeper, place->box.id, &spec, &pair[1], 1, keeper_on_waited, &w, e), &w, e);
        close(pair[1]);
        if (r < 0)
                close(pair[0]);
        return r < 0 ? NULL : json_object();
}

/* spec/values.md: two sizes, JSON, attachments. */
static int send_text(int fd, const json_t *message)
{
        char *text = json_dumps(message, JSON_COMPACT | JSON_ENCODE_ANY);
        uint32_t size = text ? (uint32_t)strlen(text) : 0, head[2] = {size + 4, size};
        int r = text ? fd_write_full(fd, head, sizeof(head)) : -ENOMEM;

        if (r == 0)
                r = fd_write_full(fd, text, size);
        free(text);
        return r;
}

static json_t *receive_text(int fd, struct cloche_err *e)
{
        static char data[DATA_MAX];
        struct pollfd polled = {.fd = fd, .events = POLLIN};
        uint32_t head[2];
        json_t *message;

        if (poll(&polled, 1, patience_ms()) <= 0) {
                err_set(e, CLOCHE_E_TIMEOUT, "no frame came");
                return NULL;
        }
        if (fd_read_full(fd, head, sizeof(head)) < 0 || head[0] < 4 || head[0] > DATA_MAX || head[1] > head[0] - 4 ||
            fd_read_full(fd, data, head[0] - 4) < 0) {
                err_set(e, CLOCHE_E_STATE, "the channel has ended");
                return NULL;
        }
        message = json_loadb(data, head[1], JSON_DECODE_ANY, NULL);
        return json_pack("{s:o}", "message", message ? message : json_null());
}

static json_t *do_volume(const json_t *ask, struct cloche_err *e)
{
        struct keeper_volume_spec spec = {.action = (uint32_t)json_integer_value(json_object_get(ask, "action")),
                                          .size_bytes = (uint64_t)json_integer_value(json_object_get(ask, "size")),
                                          .entries = (uint64_t)json_integer_value(json_object_get(ask, "entries"))};
        struct keeper_wait w = {0};

        snprintf(spec.id, sizeof(spec.id), "%s", text_of(ask, "id"));
        return wait_for(keeper_volume_async(keeper, &spec, keeper_on_waited, &w, e), &w, e) < 0 ? NULL : json_object();
}

/* One request to a program of the image store. */
static json_t *do_images(const json_t *ask, struct cloche_err *e)
{
        static struct keeper_service_spec spec;
        struct keeper_wait w = {0};
        int pair[2], null_fd = open("/dev/null", O_RDWR | O_CLOEXEC), r;
        json_t *said = NULL, *opening = json_pack("{s:s, s:i, s:s}", "jsonrpc", "2.0", "id", 1, "method", "open"),
               *request = json_pack("{s:s, s:i, s:O, s:O?}", "jsonrpc", "2.0", "id", 2, "method",
                                    json_object_get(ask, "method"), "params", json_object_get(ask, "params"));

        spec = (struct keeper_service_spec){.service = KEEPER_SERVICE_IMAGES,
                                            .is_written = json_is_true(json_object_get(ask, "written")),
                                            .root = (uint32_t)json_integer_value(json_object_get(ask, "root"))};
        strncpy(spec.path, text_of(ask, "path"), sizeof(spec.path) - 1);
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
                err_os(e, CLOCHE_E_RESOURCE, errno, "prepare");
                return NULL;
        }
        r = wait_for(keeper_serve_async(keeper, KEEPER_NO_BOX, &spec, (const int[]){null_fd, pair[1]}, 2,
                                        keeper_on_waited, &w, e),
                     &w, e);
        close(pair[1]);
        close(null_fd);
        if (r == 0 && send_text(pair[0], opening) == 0 && (said = receive_text(pair[0], e)) &&
            send_text(pair[0], request) == 0) {
                json_decref(said);
                said = receive_text(pair[0], e);
        }
        json_decref(opening);
        json_decref(request);
        close(pair[0]);
        return said;
}

/* Reads until the text, the end of file, or the timeout. */
static json_t *read_shown_until(int fd, int is_framed, const char *until, struct cloche_err *e)
{
        static char data[DATA_MAX];
        size_t have = 0;
        json_t *ret;

        for (;;) {
                struct pollfd polled = {.fd = fd, .events = POLLIN};
                ssize_t n;

                data[have] = '\0';
                if ((until[0] && strstr(data, until)) || have + 1 == DATA_MAX)
                        break;
                if (poll(&polled, 1, patience_ms()) <= 0) {
                        err_set(e, CLOCHE_E_TIMEOUT, "'%s' was not printed, but: %.150s", until, data);
                        return NULL;
                }
                n = read(fd, data + have, DATA_MAX - 1 - have);
                if (n <= 0)
                        break;
                for (ssize_t i = 0; is_framed && i < n; i++)
                        if (data[have + (size_t)i] < ' ' || data[have + (size_t)i] > '~')
                                data[have + (size_t)i] = ' ';
                have += (size_t)n;
        }
        ret = json_object();
        json_object_set_new(ret, "data", json_stringn_nocheck(data, have));
        return ret;
}

static json_t *read_until(int fd, const char *until, struct cloche_err *e)
{
        return read_shown_until(fd, 0, until, e);
}

static json_t *do_read(const json_t *ask, struct program *program, struct cloche_err *e)
{
        return read_until(program->out_fd, text_of(ask, "until"), e);
}

/* The texts of frames; the sizes between them are skipped. */
static json_t *do_hear(const json_t *ask, struct program *program, struct cloche_err *e)
{
        return read_shown_until(program->channel_fd, 1, text_of(ask, "until"), e);
}

static json_t *write_data(const json_t *ask, int fd, struct cloche_err *e)
{
        const json_t *data = json_object_get(ask, "data");
        int r = fd_write_full(fd, json_string_value(data), json_string_length(data));

        if (r < 0)
                err_os(e, CLOCHE_E_STATE, -r, "write");
        return r < 0 ? NULL : json_object();
}

static json_t *do_write(const json_t *ask, struct program *program, struct cloche_err *e)
{
        return write_data(ask, program->in_fd, e);
}

static json_t *do_tell(const json_t *ask, struct program *program, struct cloche_err *e)
{
        return write_data(ask, program->channel_fd, e);
}

static json_t *do_send(const json_t *ask, struct program *program, struct cloche_err *e)
{
        int r = send_text(program->channel_fd, json_object_get(ask, "message"));

        if (r < 0)
                err_os(e, CLOCHE_E_STATE, -r, "send a frame");
        return r < 0 ? NULL : json_object();
}

static json_t *do_receive(const json_t *ask, struct program *program, struct cloche_err *e)
{
        (void)ask;
        return receive_text(program->channel_fd, e);
}

static json_t *do_close(struct program *program)
{
        fd_close(&program->channel_fd);
        if (program->out_fd != program->in_fd)
                fd_close(&program->out_fd);
        fd_close(&program->in_fd);
        program->out_fd = -EBADF;
        return json_object();
}

static json_t *do_close_input(const json_t *ask, struct program *program, struct cloche_err *e)
{
        (void)ask;
        (void)e;
        fd_close(&program->in_fd);
        program->in_fd = -EBADF;
        return json_object();
}

static json_t *do_resize(const json_t *ask, struct program *program, struct cloche_err *e)
{
        struct winsize size = {.ws_col = (unsigned short)json_integer_value(json_object_get(ask, "cols")),
                               .ws_row = (unsigned short)json_integer_value(json_object_get(ask, "rows"))};

        if (ioctl(program->in_fd, TIOCSWINSZ, &size) == 0)
                return json_object();
        err_os(e, CLOCHE_E_STATE, errno, "resize");
        return NULL;
}

static json_t *do_wait(struct place *place, struct program *program, struct cloche_err *e)
{
        while (!program->has_ended) {
                struct init_answer answer;
                int fd, r = hear(place, &answer, &fd, patience_ms(), e);

                fd_close(&fd);
                if (r < 0)
                        return NULL;
        }
        return json_pack("{s:i}", "waitStatus", program->wait_status);
}

static json_t *do_kill(const json_t *ask, struct place *place, struct cloche_err *e)
{
        struct init_request request = {
                .op = INIT_KILL,
                .pid = (int32_t)json_integer_value(json_object_get(ask, "pid")),
                .signal = (uint32_t)json_integer_value(json_object_get(ask, "signal")),
                .flags = (json_is_true(json_object_get(ask, "tree")) ? INIT_KILL_TREE : 0u) |
                         (json_is_true(json_object_get(ask, "below")) ? INIT_KILL_BELOW : 0u),
        };
        const json_t *spared = json_object_get(ask, "spared");
        struct init_answer answer;
        int32_t pids[1024];
        int fd, answer_fd, r;

        for (size_t i = 0; i < json_array_size(spared) && i < 1024; i++)
                pids[i] = (int32_t)json_integer_value(json_array_get(spared, i));
        fd = fd_from_bytes("spared", pids, json_array_size(spared) * sizeof(pids[0]));
        r = ask_init(place, &request, &fd, spared ? 1 : 0, &answer, &answer_fd, e);
        close(fd);
        return r < 0 ? NULL : json_pack("{s:i}", "count", answer.pid);
}

static json_t *do_connect(const json_t *ask, struct place *place, struct cloche_err *e)
{
        struct init_request request = {.op = INIT_CONNECT,
                                       .port = (uint32_t)json_integer_value(json_object_get(ask, "port"))};
        struct init_answer answer;
        _cleanup_fd_ int fd = -EBADF;
        const json_t *data = json_object_get(ask, "data");

        if (ask_init(place, &request, NULL, 0, &answer, &fd, e) < 0)
                return NULL;
        fcntl(fd, F_SETFL, 0);
        if (data && fd_write_full(fd, json_string_value(data), json_string_length(data)) < 0) {
                err_set(e, CLOCHE_E_STATE, "the connection is closed");
                return NULL;
        }
        return data ? read_until(fd, "", e) : json_object();
}

static json_t *do_ports(struct place *place, struct cloche_err *e)
{
        struct init_request request = {.op = INIT_PORTS};
        struct init_answer answer;
        struct init_port port;
        _cleanup_fd_ int fd = -EBADF;
        json_t *ports = json_array();

        if (ask_init(place, &request, NULL, 0, &answer, &fd, e) < 0)
                return NULL;
        for (off_t at = 0; pread(fd, &port, sizeof(port), at) == sizeof(port); at += (off_t)sizeof(port))
                json_array_append_new(ports, json_pack("[i,i]", (int)port.port, (int)port.is_loopback));
        return json_pack("{s:o}", "ports", ports);
}

static json_t *do_quiesce(struct place *place, struct cloche_err *e)
{
        struct init_request request = {.op = INIT_QUIESCE};
        struct init_answer answer;
        int fd;

        return ask_init(place, &request, NULL, 0, &answer, &fd, e) < 0
                       ? NULL
                       : json_pack("{s:I}", "diskBytes", (json_int_t)answer.disk_bytes_used);
}

static json_t *do_limit(const json_t *ask, struct place *place, struct cloche_err *e)
{
        struct keeper_box_limits limits = limits_of(json_object_get(ask, "limits"), 0);
        struct keeper_wait w = {0};

        return wait_for(keeper_box_limit_async(keeper, place->box.id, &limits, keeper_on_waited, &w, e), &w, e) < 0
                       ? NULL
                       : json_object();
}

static json_t *do_usage(struct place *place, struct cloche_err *e)
{
        struct keeper_wait w = {0};

        if (wait_for(keeper_box_usage_async(keeper, place->box.id, keeper_on_waited, &w, e), &w, e) < 0)
                return NULL;
        return json_pack("{s:I,s:I,s:I}", "cpuNs", (json_int_t)w.usage.cpu_ns, "pidsRefused",
                         (json_int_t)w.usage.pids_refused, "oomKills", (json_int_t)w.usage.oom_kills);
}

/* Wait for its end: is it dead? */
static json_t *do_dead(struct place *place, struct cloche_err *e)
{
        struct pollfd polled = {.fd = place->box.pidfd, .events = POLLIN};

        if (poll(&polled, 1, patience_ms()) == 1)
                return json_object();
        err_set(e, CLOCHE_E_TIMEOUT, "the box lives on");
        return NULL;
}

static json_t *do_drop(struct place *place, struct cloche_err *e)
{
        struct keeper_wait w = {0};
        int r = wait_for(keeper_box_drop_async(keeper, place->box.id, keeper_on_waited, &w, e), &w, e);

        fd_close(&place->box.control_fd);
        for (size_t i = 0; i < place->program_count; i++)
                json_decref(do_close(&place->programs[i]));
        return r < 0 ? NULL : json_object();
}

/* A template's is closed only after those beneath were dropped too. */
static json_t *do_drop_later(struct place *place, struct cloche_err *e)
{
        return keeper_box_drop_async(keeper, place->box.id, NULL, NULL, e) < 0 ? NULL : json_object();
}

static json_t *answer(const json_t *ask, struct cloche_err *e)
{
        const char *what = text_of(ask, "do");
        struct place *place = find_place(ask, "box");
        struct program *program =
                place ? find_program(place, (int32_t)json_integer_value(json_object_get(ask, "pid"))) : NULL;
        static const struct {
                const char *name;
                json_t *(*of_place)(struct place *, struct cloche_err *);
                json_t *(*of_asked_place)(const json_t *, struct place *, struct cloche_err *);
                json_t *(*of_program)(const json_t *, struct program *, struct cloche_err *);
        } rows[] = {
                {"ports", .of_place = do_ports},
                {"quiesce", .of_place = do_quiesce},
                {"usage", .of_place = do_usage},
                {"dead", .of_place = do_dead},
                {"drop", .of_place = do_drop},
                {"kill", .of_asked_place = do_kill},
                {"connect", .of_asked_place = do_connect},
                {"limit", .of_asked_place = do_limit},
                {"read", .of_program = do_read},
                {"write", .of_program = do_write},
                {"resize", .of_program = do_resize},
                {"fork", .of_asked_place = do_fork},
                {"serve", .of_place = do_serve},
                {"drop-later", .of_place = do_drop_later},
                {"close-input", .of_program = do_close_input},
                {"tell", .of_program = do_tell},
                {"hear", .of_program = do_hear},
                {"send", .of_program = do_send},
                {"receive", .of_program = do_receive},
        };

        if (strcmp(what, "keeper") == 0)
                return json_pack("{s:i}", "pid", (int)keeper_pid(keeper));
        if (strcmp(what, "make") == 0)
                return do_make(ask, e);
        if (strcmp(what, "images") == 0)
                return do_images(ask, e);
        if (strcmp(what, "volume") == 0)
                return do_volume(ask, e);
        if (!place) {
                err_set(e, CLOCHE_E_INVALID_ARGUMENT, "there is no box '%s'", text_of(ask, "box"));
                return NULL;
        }
        if (strcmp(what, "spawn") == 0)
                return do_spawn(ask, e);
        if (strcmp(what, "wait") == 0 && program)
                return do_wait(place, program, e);
        if (strcmp(what, "close") == 0 && program)
                return do_close(program);
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                if (strcmp(rows[i].name, what) != 0 || (rows[i].of_program && !program))
                        continue;
                return rows[i].of_place         ? rows[i].of_place(place, e)
                       : rows[i].of_asked_place ? rows[i].of_asked_place(ask, place, e)
                                                : rows[i].of_program(ask, program, e);
        }
        err_set(e, CLOCHE_E_INVALID_ARGUMENT, "'%s' cannot be done", what);
        return NULL;
}

int main(int argc, char **argv)
{
        struct cloche_err e = {0};
        char *line = NULL;
        size_t room = 0;

        if (argc < 3 || argc > 5)
                return 2;
        signal(SIGPIPE, SIG_IGN);
        fd_raise_limit(); /* like the programs that it stands for */
        if (keeper_start(argv[1],
                         &(struct keeper_options){.runtimes = argv[2],
                                                  .trees = argc > 3 ? argv[3] : NULL,
                                                  .volumes = getenv("BOX_DRIVER_VOLUMES"),
                                                  .images_are_written = argc > 4},
                         &keeper, &e) < 0) {
                fprintf(stderr, "box-driver: %s\n", e.msg);
                return 1;
        }
        while (getline(&line, &room, stdin) > 0) {
                json_t *ask = json_loads(line, 0, NULL), *said;

                e = (struct cloche_err){0};
                said = answer(ask, &e);
                if (!said)
                        said = json_pack("{s:s,s:s}", "error", cloche_code_name((enum cloche_code)e.code), "message",
                                         e.msg);
                json_dumpf(said, stdout, JSON_COMPACT);
                puts("");
                fflush(stdout);
                json_decref(said);
                json_decref(ask);
        }
        free(line);
        keeper_stop(keeper);
        return 0;
}
