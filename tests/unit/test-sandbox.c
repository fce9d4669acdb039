/* Sandboxes on boxes that this test plays: it answers for the keeper, for PID 1 of each box and for its shells. */
#include "engine/loop/engine.h"
#include "sandbox/core/box.h"
#include "sandbox/core/sandbox.h"
#include "sandbox/core/sandboxes.h"
#include "sandbox/session/session.h"

#include "base/fd.h"
#include "proto/shell.h"
#include "tap.h"

#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BOXES_MAX 1024
#define PATIENCE_MS 5000

/* A program that a box runs: a shell, or a copy of one that runs `wait`. */
struct fake_box {
        int is_alive, init_fd, shell_fd;
        int32_t next_pid, shell_pid, waiting_pid;
        int status_fd;           /* of the copy */
        uint32_t waiting_serial; /* of a command in the shell that waits */
        int waiting_fds[3];      /* its descriptors */
        int32_t killed_pid, swept;
        uint32_t signals;          /* that were sent: a bit each */
        struct shell_request last; /* that the shell received */
};

static struct fake_box boxes[BOXES_MAX];
static unsigned box_count, dropped_count;
static int makes_fail;
static unsigned freezes_left; /* requests until a box is frozen */
static int is_hostile;        /* PID 1 and the shell send messages at random */
static struct cloche_engine engine;
static struct sandboxes *all;
static struct cloche_err e;

/* -- the keeper ------------------------------------------------------------------------------------------------- */

static struct reply {
        keeper_done done;
        void *data;
        uint32_t box;
        int fds[2], is_made, is_frozen;
} replies[64];
static unsigned reply_count;

static struct reply *queue_reply(keeper_done done, void *data)
{
        replies[reply_count] = (struct reply){.done = done, .data = data, .fds = {-EBADF, -EBADF}};
        return &replies[reply_count++];
}

static int make(const struct sandboxes *of, const struct image *image, const struct cloche_limits *limits,
                uint32_t beside, int has_writable_root, int has_root, const struct sandbox_identity *identity,
                const struct mounts *mounts, const struct volume_uses *volumes, keeper_done done, void *data,
                struct cloche_err *error)
{
        struct fake_box *b = &boxes[box_count];
        struct reply *reply = queue_reply(done, data);
        int pair[2];

        (void)of;
        (void)image;
        (void)limits;
        (void)beside;
        (void)has_writable_root;
        (void)has_root;
        (void)identity;
        (void)mounts;
        (void)volumes;
        (void)error;
        if (makes_fail)
                return 0;
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                _exit(1);
        *b = (struct fake_box){.is_alive = 1,
                               .init_fd = pair[1],
                               .shell_fd = -EBADF,
                               .next_pid = 100,
                               .status_fd = -EBADF};
        reply->is_made = 1;
        reply->box = box_count++;
        reply->fds[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        reply->fds[1] = pair[0];
        return 0;
}

static void box_end(struct fake_box *b)
{
        if (!b->is_alive)
                return;
        b->is_alive = 0;
        fd_close(&b->init_fd);
        fd_close(&b->shell_fd);
        fd_close(&b->status_fd);
}

static int drop(const struct sandboxes *of, uint32_t box, keeper_done done, void *data)
{
        (void)of;
        box_end(&boxes[box]);
        dropped_count++;
        if (done)
                queue_reply(done, data);
        return 0;
}

static int limit(const struct sandboxes *of, uint32_t box, const struct keeper_box_limits *limits, keeper_done done,
                 void *data, struct cloche_err *error)
{
        (void)of;
        (void)box;
        (void)limits;
        (void)error;
        queue_reply(done, data);
        return 0;
}

static int freeze(const struct sandboxes *of, uint32_t box, int is_frozen, keeper_done done, void *data,
                  struct cloche_err *error)
{
        (void)of;
        (void)box;
        (void)error;
        freezes_left -= is_frozen && freezes_left > 0;
        queue_reply(done, data)->is_frozen = is_frozen && freezes_left == 0;
        return 0;
}

static int read_usage(const struct sandboxes *of, uint32_t box, struct keeper_usage *ret)
{
        (void)of;
        (void)box;
        *ret = (struct keeper_usage){0};
        return 1;
}

static void read_present(const struct sandboxes *of, uint32_t box, struct cgroup_present *ret)
{
        (void)of;
        (void)box;
        *ret = (struct cgroup_present){0};
}

static int request_usage(const struct sandboxes *of, uint32_t box, keeper_done done, void *data)
{
        (void)of;
        (void)box;
        queue_reply(done, data);
        return 0;
}

static unsigned detach(const struct sandboxes *of, const void *data)
{
        unsigned count = 0;

        (void)of;
        for (unsigned i = 0; i < reply_count; i++)
                if (replies[i].data == data && replies[i].done) {
                        replies[i].done = NULL;
                        count++;
                }
        return count;
}

static const struct sandbox_boxes fake = {make, drop, limit, freeze, read_usage, read_present, request_usage, detach};

static void deliver_replies(void)
{
        unsigned count = reply_count;
        struct reply now[64];

        memcpy(now, replies, count * sizeof(now[0]));
        reply_count = 0;
        for (unsigned i = 0; i < count; i++) {
                struct keeper_answer answer = {.box = now[i].box, .is_frozen = (uint32_t)now[i].is_frozen};
                struct cloche_err error = {.code = CLOCHE_E_RESOURCE, .msg = "no box today"};
                struct keeper_reply reply = {.answer = &answer, .fds = now[i].fds, .fd_count = now[i].is_made ? 2 : 0};

                if (makes_fail && !now[i].is_made)
                        reply.error = &error;
                if (now[i].done)
                        now[i].done(now[i].data, &reply);
                fd_close(&now[i].fds[0]);
                fd_close(&now[i].fds[1]);
        }
}

/* -- a hostile box ---------------------------------------------------------------------------------------------- */

/* The same numbers in each run. */
static uint32_t below(uint32_t count)
{
        static uint32_t state = 1;

        state = state * 1664525 + 1013904223;
        return (state >> 8) % count;
}

/* Few, so that programs, shells and copies are often mistaken for each other. */
static int32_t some_pid(void)
{
        return below(100) ? 2 + (int32_t)below(20) : (int32_t)below(4) - 2;
}

/* A failed send means that the engine has closed the socket. */
static void send_some_init(const struct fake_box *b, uint32_t op)
{
        struct init_answer answer = {.op = op, .pid = some_pid(), .wait_status = (int32_t)below(3) * 128};

        if (below(8) == 0)
                answer.err = (struct cloche_err){.code = CLOCHE_E_SPAWN, .msg = "no program today"};
        if (below(1000) == 0)
                answer.op = below(16);
        (void)fd_send(b->init_fd, &answer, below(1000) ? sizeof(answer) : below(sizeof(answer)), NULL, 0);
}

static void send_some_shell(const struct fake_box *b, const struct shell_request *to)
{
        struct shell_answer answer = {.op = below(20) ? to->op : below(6),
                                      .serial = below(20) ? to->serial : below(100),
                                      .exit_code = below(4) ? some_pid() : 0,
                                      .pid = some_pid(),
                                      .job_count = below(3) * 40,
                                      .cwd = "/workspace"};

        (void)fd_send(b->shell_fd, &answer, below(200) ? sizeof(answer) : below(sizeof(answer)), NULL, 0);
}

/* Messages that nothing requested. */
static void disturb(struct fake_box *b)
{
        if (b->is_alive && below(30) == 0)
                send_some_init(b, INIT_EXITED);
        if (b->shell_fd >= 0 && below(40) == 0)
                send_some_shell(b, &b->last);
        if (b->shell_fd >= 0 && below(400) == 0)
                fd_close(&b->shell_fd);
        if (b->status_fd >= 0 && below(20) == 0)
                fd_close(&b->status_fd);
        if (b->is_alive && below(2000) == 0)
                box_end(b);
}

/* -- PID 1 and the shell ---------------------------------------------------------------------------------------- */

static void send_shell(struct fake_box *b, const struct shell_answer *answer)
{
        if (fd_send(b->shell_fd, answer, sizeof(*answer), NULL, 0) < 0)
                CHECK(0, "the shell of a box is read");
}

static void end_copy(struct fake_box *b, int wait_status)
{
        struct shell_status status = {.wait_status = wait_status};

        if (write(b->status_fd, &status, sizeof(status)) != sizeof(status))
                CHECK(0, "the status of a copy is read");
        fd_close(&b->status_fd);
}

static void end_waiting(struct fake_box *b, int exit_code)
{
        struct shell_answer answer = {.op = SHELL_RUN, .serial = b->waiting_serial, .exit_code = exit_code};

        strcpy(answer.cwd, "/workspace");
        b->waiting_serial = 0;
        for (int i = 0; i < 3; i++)
                fd_close(&b->waiting_fds[i]);
        send_shell(b, &answer);
}

static void on_kill(struct fake_box *b, const struct init_request *request, struct init_answer *answer)
{
        answer->pid = 1;
        if (request->flags & INIT_KILL_BELOW && request->pid != b->shell_pid) { /* nothing was left behind */
                b->swept++;
                answer->pid = 0;
                return;
        }
        b->killed_pid = request->pid;
        b->signals |= 1u << request->signal;
        if (request->pid == b->waiting_pid && b->status_fd >= 0)
                end_copy(b, (int)request->signal);
        if (request->pid == b->shell_pid && request->signal == SIGKILL && b->waiting_serial)
                end_waiting(b, 137);
}

static void serve_init(struct fake_box *b)
{
        struct init_request request;
        struct init_answer answer = {0};
        struct shell_answer ready = {.op = SHELL_READY};
        int fds[8];
        size_t count = 8;
        ssize_t n = b->is_alive ? fd_receive(b->init_fd, &request, sizeof(request), fds, &count, MSG_DONTWAIT) : -1;

        if (n != sizeof(request))
                return;
        if (is_hostile) {
                for (uint32_t answers = below(200) ? 1 : below(3); answers > 0; answers--)
                        send_some_init(b, request.op);
                if (request.op == INIT_SPAWN && count == 6) {
                        fd_close(&b->shell_fd);
                        b->shell_fd = TAKE_FD(fds[4]);
                        ready.op = below(10) ? SHELL_READY : below(6);
                        (void)fd_send(b->shell_fd, &ready, sizeof(ready), NULL, 0);
                }
                for (size_t i = 0; i < count; i++)
                        fd_close(&fds[i]);
                return;
        }
        answer.op = request.op;
        if (request.op == INIT_SPAWN)
                answer.pid = b->next_pid++;
        if (request.op == INIT_KILL)
                on_kill(b, &request, &answer);
        if (fd_send(b->init_fd, &answer, sizeof(answer), NULL, 0) < 0)
                CHECK(0, "the PID 1 of a box is read");
        if (request.op == INIT_SPAWN && count == 6) {
                b->shell_fd = TAKE_FD(fds[4]);
                b->shell_pid = answer.pid;
                strcpy(ready.cwd, "/workspace");
                send_shell(b, &ready);
        }
        for (size_t i = 0; i < count; i++)
                fd_close(&fds[i]);
}

/* The commands that this shell has: say, fail, wait. */
static void run(struct fake_box *b, const struct shell_request *request, int *fds)
{
        struct shell_answer answer = {.op = request->op, .serial = request->serial};
        char command[16] = "";

        if (pread(fds[0], command, sizeof(command) - 1, 0) < 0)
                _exit(1);
        command[request->command_size < 15 ? request->command_size : 15] = '\0';
        strcpy(answer.cwd, "/workspace");
        if (request->op == SHELL_FORK) {
                b->waiting_pid = answer.pid = b->next_pid++;
                answer.exit_code = b->next_pid++;
                b->status_fd = TAKE_FD(fds[4]);
                send_shell(b, &answer);
        } else if (strcmp(command, "wait") == 0) {
                b->waiting_serial = request->serial;
                for (int i = 0; i < 3; i++)
                        b->waiting_fds[i] = TAKE_FD(fds[1 + i]);
        } else {
                if (strcmp(command, "say") == 0 && write(fds[2], "hello\n", 6) != 6)
                        _exit(1);
                answer.exit_code = strcmp(command, "fail") == 0 ? 3 : 0;
                send_shell(b, &answer);
        }
}

static void serve_shell(struct fake_box *b)
{
        struct shell_request request;
        int fds[5] = {-EBADF, -EBADF, -EBADF, -EBADF, -EBADF};
        size_t count = 5;
        ssize_t n =
                b->shell_fd >= 0 ? fd_receive(b->shell_fd, &request, sizeof(request), fds, &count, MSG_DONTWAIT) : -1;

        if (n == sizeof(request) && is_hostile) {
                if (request.op == SHELL_FORK) {
                        fd_close(&b->status_fd);
                        b->status_fd = TAKE_FD(fds[4]);
                }
                b->last = request;
                for (uint32_t answers = below(3); answers > 0; answers--)
                        send_some_shell(b, &request);
        } else if (n == sizeof(request)) {
                run(b, &request, fds);
        }
        for (size_t i = 0; n > 0 && i < count; i++)
                fd_close(&fds[i]);
}

static void turn(void)
{
        deliver_replies();
        for (unsigned i = 0; i < box_count; i++) {
                serve_init(&boxes[i]);
                serve_shell(&boxes[i]);
                if (is_hostile)
                        disturb(&boxes[i]);
        }
        uv_run(&engine.loop, UV_RUN_NOWAIT);
        usleep(is_hostile ? 0 : 500);
}

/* -- requests --------------------------------------------------------------------------------------------------- */

struct outcome {
        struct sandbox_request *request;
        json_t *result;
        struct cloche_err error;
        int is_there, events;
};

static void on_event(void *data, const char *event, const json_t *about, const struct buf *attachments)
{
        struct outcome *o = data;

        (void)event;
        (void)about;
        (void)attachments;
        o->events++;
}

static void on_result(void *data, const json_t *result, const struct buf *attachments)
{
        struct outcome *o = data;

        (void)attachments;
        o->result = json_deep_copy(result);
        o->is_there = 1;
}

static void on_fail(void *data, const struct cloche_err *error, const json_t *about)
{
        struct outcome *o = data;

        (void)about;
        o->error = *error;
        o->is_there = 1;
}

static const struct sandbox_face face = {on_event, on_result, on_fail};

static void start(struct outcome *o, const char *method, json_t *params)
{
        static const struct buf none;

        json_decref(o->result);
        *o = (struct outcome){0};
        if (sandboxes_request(all, 0, method, params, &none, &face, o, &o->request, &o->error) < 0)
                o->is_there = 1;
        json_decref(params);
}

static void await(struct outcome *o)
{
        for (int i = 0; i < PATIENCE_MS * 2 && !o->is_there; i++)
                turn();
        if (!o->is_there)
                CHECK(0, "a request has an outcome");
}

static void call(struct outcome *o, const char *method, json_t *params)
{
        start(o, method, params);
        await(o);
}

static const char *text(const struct outcome *o, const char *name)
{
        const char *value = json_string_value(json_object_get(o->result, name));

        return value ? value : "";
}

static int number(const struct outcome *o, const char *name)
{
        return (int)json_integer_value(json_object_get(o->result, name));
}

static json_t *in(const char *sandbox)
{
        return json_pack("{s:s}", "sandbox", sandbox);
}

static json_t *with(const char *sandbox, const char *name, const char *value)
{
        return json_pack("{s:s, s:s}", "sandbox", sandbox, name, value);
}

/* The box that runs the sandbox's shell: the newest that has one. */
static struct fake_box *busy_box(void)
{
        for (unsigned i = box_count; i-- > 0;)
                if (boxes[i].is_alive && (boxes[i].waiting_serial || boxes[i].status_fd >= 0))
                        return &boxes[i];
        return NULL;
}

static struct fake_box *await_busy_box(void)
{
        for (int i = 0; i < PATIENCE_MS * 2 && !busy_box(); i++)
                turn();
        return busy_box();
}

/* -- tests ------------------------------------------------------------------------------------------------------ */

static void test_create_and_exec(void)
{
        struct outcome o = {0};

        call(&o, "sandbox.create", in("one"));
        CHECK(o.result && strcmp(text(&o, "state"), "running") == 0, "a created sandbox runs: %s", o.error.msg);
        call(&o, "exec", with("one", "command", "say"));
        CHECK(o.result && strcmp(text(&o, "stdout"), "hello\n") == 0 && number(&o, "exitCode") == 0,
              "exec returns the output: %s", o.error.msg);
        call(&o, "exec", with("one", "command", "fail"));
        CHECK(number(&o, "exitCode") == 3, "and the exit code");
        call(&o, "exec", with("two", "command", "say"));
        CHECK(o.result != NULL, "a sandbox is made on first use: %s", o.error.msg);
        call(&o, "exec", json_object());
        CHECK(o.error.code == CLOCHE_E_INVALID_ARGUMENT, "exec needs a sandbox: %s", o.error.msg);
        call(&o, "sandbox.get", in("three"));
        CHECK(o.error.code == CLOCHE_E_NOT_FOUND, "sandbox.get makes none: %s", o.error.msg);
        json_decref(o.result);
}

static void test_process_states(void)
{
        struct outcome o = {0};
        struct fake_box *b;
        char id[64];

        call(&o, "process.start", with("one", "command", "wait"));
        snprintf(id, sizeof(id), "%s", text(&o, "process"));
        CHECK(strcmp(text(&o, "status"), "running") == 0, "a process starts: %s", o.error.msg);
        b = await_busy_box();
        CHECK(b != NULL, "its box has it");
        call(&o, "process.kill", with("one", "process", id));
        CHECK(o.result && b->signals == 1u << SIGTERM && b->killed_pid == b->waiting_pid, "a kill sends SIGTERM: %s",
              o.error.msg);
        CHECK(b->swept > 0, "and sweeps what the process left behind");
        call(&o, "process.get", with("one", "process", id));
        CHECK(strcmp(text(&o, "status"), "killed") == 0 && strcmp(text(&o, "signal"), "SIGTERM") == 0,
              "then it was killed");
        call(&o, "process.kill", with("one", "process", id));
        CHECK(o.result != NULL, "killing it again changes nothing: %s", o.error.msg);
        for (int code = 0; code < 2; code++) {
                call(&o, "process.start", with("one", "command", "wait"));
                snprintf(id, sizeof(id), "%s", text(&o, "process"));
                b = await_busy_box();
                start(&o, "process.wait", with("one", "process", id));
                turn();
                end_copy(b, code << 8);
                await(&o);
                CHECK(json_integer_value(json_object_get(json_object_get(o.result, "process"), "exitCode")) == code,
                      "process.wait returns exit code %d: %s", code, o.error.msg);
                call(&o, "process.get", with("one", "process", id));
                CHECK(strcmp(text(&o, "status"), code ? "failed" : "completed") == 0, "its status is %s",
                      text(&o, "status"));
        }
        json_decref(o.result);
}

/* The session is busy, so PID 1 would start it: no request may be left there whose process is freed. */
static void test_a_start_that_fails(void)
{
        enum { BYTES = 65 << 20 };
        struct outcome running = {0}, o = {0};
        char *input = malloc(BYTES + 1);
        struct fake_box *b;

        if (!input)
                abort();
        memset(input, 'x', BYTES);
        input[BYTES] = '\0';
        start(&running, "exec", with("one", "command", "wait"));
        b = await_busy_box();
        call(&o, "exec",
             json_pack("{s:s, s:s, s:b, s:s}", "sandbox", "one", "command", "say", "fork", 1, "stdin", input));
        CHECK(!o.result && strstr(o.error.msg, "68157440 bytes"), "more input than is held is refused: %s",
              o.error.msg);
        for (int i = 0; i < 20; i++)
                turn();
        end_waiting(b, 0);
        await(&running);
        CHECK(running.result != NULL, "the session goes on: %s", running.error.msg);
        json_decref(running.result);
        json_decref(o.result);
        free(input);
}

static void test_cancel(void)
{
        struct outcome o = {0};
        struct fake_box *b;

        start(&o, "exec", with("one", "command", "wait"));
        b = await_busy_box();
        CHECK(b && !o.is_there, "a command runs");
        sandbox_request_cancel(o.request);
        for (int i = 0; i < PATIENCE_MS * 2 && b->waiting_serial; i++)
                turn();
        CHECK(b->killed_pid == b->shell_pid && b->signals & 1u << SIGKILL && !o.is_there,
              "a cancelled command is killed, without an outcome");
        call(&o, "exec", with("one", "command", "say"));
        CHECK(o.result != NULL, "the session goes on: %s", o.error.msg);
        json_decref(o.result);
}

static void test_collapse(void)
{
        struct outcome o = {0}, other = {0};
        struct fake_box *b;

        start(&o, "exec", with("one", "command", "wait"));
        b = await_busy_box();
        box_end(b);
        await(&o);
        CHECK(o.error.code == CLOCHE_E_SANDBOX_ENDED, "a command ends with its box: %s", o.error.msg);
        call(&other, "exec", with("one", "command", "say"));
        CHECK(other.result != NULL, "the next one starts the sandbox again: %s", other.error.msg);
        json_decref(o.result);
        json_decref(other.result);
}

static void test_stop(void)
{
        struct outcome o = {0}, stop = {0};
        unsigned dropped = dropped_count;

        start(&o, "exec", with("one", "command", "wait"));
        (void)await_busy_box();
        call(&stop, "sandbox.stop", in("one"));
        CHECK(stop.result && strcmp(text(&stop, "state"), "stopped") == 0 && dropped_count > dropped,
              "a stopped sandbox has no box: %s", stop.error.msg);
        await(&o);
        CHECK(o.error.code == CLOCHE_E_SANDBOX_ENDED, "its commands have ended: %s", o.error.msg);
        makes_fail = 1;
        call(&o, "exec", with("one", "command", "say"));
        CHECK(o.error.code == CLOCHE_E_RESOURCE, "without a box a command fails: %s", o.error.msg);
        call(&o, "sandbox.create", json_pack("{s:s, s:{s:s}}", "sandbox", "never", "env", "NOT", "pooled"));
        CHECK(o.error.code == CLOCHE_E_RESOURCE, "nor is a sandbox made: %s", o.error.msg);
        call(&o, "sandbox.get", in("never"));
        CHECK(o.error.code == CLOCHE_E_NOT_FOUND, "and none is left: %s", o.error.msg);
        makes_fail = 0;
        call(&o, "exec", with("one", "command", "say"));
        CHECK(o.result != NULL, "and is tried again: %s", o.error.msg);
        call(&o, "sandbox.delete", in("one"));
        call(&o, "sandbox.get", in("one"));
        CHECK(o.error.code == CLOCHE_E_NOT_FOUND, "a deleted sandbox is gone: %s", o.error.msg);
        json_decref(o.result);
        json_decref(stop.result);
}

static void test_pause(void)
{
        struct outcome o = {0}, command = {0};
        struct sandbox *s;

        call(&o, "exec", with("rests", "command", "say"));
        freezes_left = 4;
        call(&o, "sandbox.pause", in("rests"));
        CHECK(o.result && strcmp(text(&o, "state"), "paused") == 0 && freezes_left == 0,
              "a sandbox is paused once the keeper says so: %s", o.error.msg);
        call(&o, "sandbox.pause", in("rests"));
        CHECK(o.error.code == CLOCHE_E_STATE, "once: %s", o.error.msg);
        call(&o, "exec", with("rests", "command", "say"));
        CHECK(strcmp(text(&o, "stdout"), "hello\n") == 0, "a command wakes it: %s", o.error.msg);
        start(&command, "exec", json_pack("{s:s, s:s, s:i}", "sandbox", "rests", "command", "wait", "timeoutMs", 1));
        (void)await_busy_box();
        freezes_left = UINT32_MAX;
        s = sandbox_find(all, 0, "rests");
        start(&o, "sandbox.pause", in("rests"));
        for (int i = 0; i < PATIENCE_MS && s->state != SANDBOX_PAUSING; i++)
                turn();
        s->freeze_since_ns = 0; /* long ago */
        await(&o);
        CHECK(o.error.code == CLOCHE_E_STATE && s->state == SANDBOX_RUNNING, "one that cannot be frozen goes on: %s",
              o.error.msg);
        await(&command);
        CHECK(json_is_true(json_object_get(command.result, "timedOut")), "and so does its time");
        freezes_left = UINT32_MAX;
        start(&o, "sandbox.pause", in("rests"));
        for (int i = 0; i < PATIENCE_MS && s->state != SANDBOX_PAUSING; i++)
                turn();
        box_end(&boxes[s->box]);
        await(&o);
        CHECK(o.error.code == CLOCHE_E_SANDBOX_ENDED, "its box may end before it is frozen: %s", o.error.msg);
        call(&command, "exec", with("rests", "command", "say"));
        CHECK(command.result != NULL, "the next command has another: %s", command.error.msg);
        freezes_left = 0;
        call(&o, "sandbox.pause", in("rests"));
        box_end(&boxes[s->box]);
        call(&command, "exec", with("rests", "command", "say"));
        CHECK(command.error.code == CLOCHE_E_SANDBOX_ENDED || command.result, "a paused box may end: %s",
              command.error.msg);
        call(&command, "sandbox.resume", in("rests"));
        CHECK(command.result != NULL, "the next use makes another: %s", command.error.msg);
        call(&o, "sandbox.pause", in("rests"));
        call(&o, "sandbox.delete", in("rests"));
        CHECK(o.result != NULL, "a paused sandbox is deleted: %s", o.error.msg);
        json_decref(o.result);
        json_decref(command.result);
}

/* The sandbox that a pool would give to the next request; NULL: none. */
static struct sandbox *ready_one(void)
{
        struct session *session;
        struct sandbox *s;

        TAILQ_FOREACH (s, &all->pool, link) {
                session = session_find(s, DEFAULT_SESSION, NULL);
                if (s->state == SANDBOX_RUNNING && session && session->state == SHELL_IDLE)
                        return s;
        }
        return NULL;
}

static void test_pool(void)
{
        struct outcome o = {0};
        struct sandbox *s;

        call(&o, "sandbox.create", in("first"));
        for (int i = 0; i < PATIENCE_MS && !ready_one(); i++)
                turn();
        s = ready_one();
        call(&o, "sandbox.create", in("second"));
        CHECK(s && sandbox_find(all, 0, "second") == s, "a new sandbox comes from the pool: %s", o.error.msg);
        for (int i = 0; i < PATIENCE_MS && !ready_one(); i++)
                turn();
        s = ready_one();
        if (!CHECK(s != NULL, "the pool is filled again"))
                return;
        sandbox_stop(s, 0);
        call(&o, "sandbox.create", in("third"));
        CHECK(o.result && sandbox_find(all, 0, "third") != s, "but not one that is about to stop: %s", o.error.msg);
        json_decref(o.result);
}

/* -- hostile boxes ---------------------------------------------------------------------------------------------- */

static void start_some(struct outcome *o)
{
        static const char *const sessions[] = {"default", "default", "second", "apart"};
        const char *session = sessions[below(4)];
        char id[16];

        snprintf(id, sizeof(id), "p%u", below(6));
        switch (below(10)) {
        case 0:
                start(o, "process.kill",
                      json_pack("{s:s, s:s, s:i}", "sandbox", "hostile", "process", id, "graceMs", 5));
                break;
        case 1:
                start(o, "process.kill",
                      json_pack("{s:s, s:s, s:s}", "sandbox", "hostile", "process", id, "signal",
                                below(2) ? "SIGKILL" : "SIGINT"));
                break;
        case 2:
                start(o, "process.cleanup", in("hostile"));
                break;
        case 3:
                start(o, "session.create",
                      json_pack("{s:s, s:s, s:b}", "sandbox", "hostile", "session", session, "isolation",
                                strcmp(session, "apart") == 0));
                break;
        case 4:
                start(o, below(8) ? "process.killAll" : "session.delete", with("hostile", "session", session));
                break;
        case 5:
                start(o, "session.env",
                      json_pack("{s:s, s:s, s:{s:s}}", "sandbox", "hostile", "session", session, "env", "A", "b"));
                break;
        case 6:
        case 7:
                start(o, "process.start",
                      json_pack("{s:s, s:s, s:s, s:s}", "sandbox", "hostile", "session", session, "process", id,
                                "command", "wait"));
                break;
        case 8:
                freezes_left = below(3);
                start(o, below(2) ? "sandbox.pause" : "sandbox.resume", in("hostile"));
                break;
        default:
                start(o, below(60) ? "exec" : "sandbox.stop",
                      json_pack("{s:s, s:s, s:s, s:i, s:b}", "sandbox", "hostile", "session", session, "command", "say",
                                "timeoutMs", (int)below(2), "fork", (int)below(2)));
        }
}

/* No message of PID 1 or of a shell may end the engine: this test ends with it. */
static void test_hostile_boxes(void)
{
        enum { OUTCOMES = 12, TURNS = 20000 };
        static struct outcome outcomes[OUTCOMES];
        struct outcome o = {0};
        unsigned results = 0, failures = 0;

        is_hostile = 1;
        for (int i = 0; i < TURNS && box_count < BOXES_MAX - 8; i++) {
                struct outcome *row = &outcomes[below(OUTCOMES)];

                if (row->request && !row->is_there && below(4) == 0) {
                        sandbox_request_cancel(row->request);
                        row->request = NULL;
                } else if (!row->request || row->is_there) {
                        results += row->result != NULL;
                        failures += row->error.code != 0;
                        start_some(row);
                }
                turn();
        }
        for (int i = 0; i < OUTCOMES; i++) {
                if (outcomes[i].request && !outcomes[i].is_there)
                        sandbox_request_cancel(outcomes[i].request);
                json_decref(outcomes[i].result);
        }
        CHECK(results > 0 && failures > 0, "hostile boxes: %u results, %u failures", results, failures);
        is_hostile = 0;
        call(&o, "sandbox.delete", in("hostile"));
        CHECK(o.result != NULL, "their sandbox is deleted: %s", o.error.msg);
        json_decref(o.result);
}

static void on_stopped(void *data)
{
        *(int *)data = 1;
}

int main(void)
{
        static const char *const programs[] = {SANDBOX_SHELL, SANDBOX_FILES};
        char directory[] = "/tmp/test-sandbox-XXXXXX";
        struct sandboxes_options options = {.engine = &engine, .boxes = &fake};
        int is_stopped = 0;

        signal(SIGPIPE, SIG_IGN);
        if (!mkdtemp(directory) || uv_loop_init(&engine.loop) < 0)
                return 1;
        stream_turns_open(&engine.streams, &engine.loop);
        engine.libexec_dir = directory;
        engine.libexec_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        for (int i = 0; i < 2; i++)
                close(openat(engine.libexec_fd, programs[i], O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
        if (!CHECK(sandboxes_new(&options, &all, &e) == 0, "sandboxes on boxes of this test: %s", e.msg))
                return tap_done();
        test_create_and_exec();
        test_process_states();
        test_a_start_that_fails();
        test_cancel();
        test_collapse();
        test_stop();
        test_pause();
        test_pool();
        test_hostile_boxes();
        sandboxes_stop(all, on_stopped, &is_stopped);
        for (int i = 0; i < PATIENCE_MS * 2 && !is_stopped; i++)
                turn();
        CHECK(is_stopped && dropped_count == box_count, "all boxes are dropped at the end: %u of %u", dropped_count,
              box_count);
        sandboxes_free(all);
        for (int i = 0; i < 2; i++)
                unlinkat(engine.libexec_fd, programs[i], 0);
        close(engine.libexec_fd);
        rmdir(directory);
        stream_turns_close(&engine.streams);
        while (uv_run(&engine.loop, UV_RUN_NOWAIT))
                ;
        uv_loop_close(&engine.loop);
        return tap_done();
}
