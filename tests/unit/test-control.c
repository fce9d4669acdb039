/* The control socket of a box's init, played by this test: answers, silence, and owners that go away in the middle of
 * an answer. */
#include "engine/loop/control.h"

#include "base/fd.h"
#include "tap.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const struct control_kind quick = {"box", CLOCHE_E_STATE, 50, 0},
                                 lasting = {"sandbox", CLOCHE_E_SANDBOX_ENDED, 50, 1};
static uv_loop_t loop;
static int init_fd;
static struct cloche_err e;

static struct told {
        int answers, errors, ends;
        struct cloche_err error;
        int32_t pids[8];
        struct control *to_free; /* in the first answer */
} told;

static void on_answer(void *data, const struct init_answer *answer, int fd, const struct cloche_err *error)
{
        struct told *to = data;

        fd_close(&fd);
        if (error)
                to->error = *error;
        else
                to->pids[to->answers % 8] = answer->pid;
        to->answers += !error;
        to->errors += error != NULL;
        control_free(to->to_free);
        to->to_free = NULL;
}

static void on_end(void *data, const struct cloche_err *error)
{
        struct told *to = data;

        to->ends++;
        to->error = *error;
}

static struct control *begin(const struct control_kind *kind)
{
        struct control *c;
        int pair[2];

        told = (struct told){0};
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                _exit(1);
        init_fd = pair[1];
        c = control_new(kind, pair[0], &loop, &e);
        if (!c)
                _exit(1);
        c->on_end = on_end;
        c->data = &told;
        return c;
}

static void finish(struct control *c)
{
        control_free(c);
        fd_close(&init_fd);
        while (uv_run(&loop, UV_RUN_ONCE))
                ;
}

static void ask(struct control *c, int times)
{
        struct init_request request = {.op = INIT_KILL};

        for (int i = 0; i < times; i++)
                if (control_request(c, &request, NULL, 0, on_answer, &told, &e) < 0)
                        CHECK(0, "ask: %s", e.msg);
}

static void answer(int times)
{
        struct init_request request;
        struct init_answer said = {.op = INIT_KILL};

        for (int i = 0; i < times; i++) {
                if (read(init_fd, &request, sizeof(request)) != sizeof(request))
                        _exit(1);
                said.pid = i;
                if (fd_send(init_fd, &said, sizeof(said), NULL, 0) < 0)
                        _exit(1);
        }
}

static void test_answers(void)
{
        struct control *c = begin(&control_of_box);

        ask(c, 3);
        answer(3);
        while (told.answers < 3)
                uv_run(&loop, UV_RUN_ONCE);
        CHECK(told.pids[0] == 0 && told.pids[1] == 1 && told.pids[2] == 2 && told.errors == 0, "answers come in order");
        ask(c, 1);
        control_detach(c, &told);
        answer(1);
        uv_run(&loop, UV_RUN_ONCE);
        CHECK(told.answers == 3, "a question that was forgotten has no answer");
        finish(c);
}

static void test_silence(void)
{
        struct control *c = begin(&quick);

        ask(c, 2);
        while (!told.ends)
                uv_run(&loop, UV_RUN_ONCE);
        CHECK(told.errors == 2 && told.error.code == CLOCHE_E_TIMEOUT, "questions to an init that is silent fail: %s",
              told.error.msg);
        CHECK(control_request(c, &(struct init_request){0}, NULL, 0, on_answer, &told, &e) == -CLOCHE_E_STATE,
              "nothing can be asked any more: %s", e.msg);
        finish(c);
        c = begin(&quick);
        ask(c, 1);
        answer(1);
        while (!told.answers)
                uv_run(&loop, UV_RUN_ONCE);
        usleep(100000);
        uv_run(&loop, UV_RUN_NOWAIT);
        CHECK(told.ends == 0, "an init that has nothing to say may be silent");
        finish(c);
}

static struct control *asked_again;

static void ask_again(void *data, const struct init_answer *answer, int fd, const struct cloche_err *error)
{
        on_answer(data, answer, fd, error);
        ask(asked_again, 1);
}

/* The box of a sandbox, with files in it. */
static void test_silence_that_is_outlived(void)
{
        struct control *c = begin(&lasting);

        asked_again = c;
        ask(c, 1);
        if (control_request(c, &(struct init_request){.op = INIT_KILL}, NULL, 0, ask_again, &told, &e) < 0)
                CHECK(0, "ask: %s", e.msg);
        while (told.errors < 2)
                uv_run(&loop, UV_RUN_ONCE);
        CHECK(told.ends == 0 && told.error.code == CLOCHE_E_TIMEOUT, "requests fail, and it goes on: %s",
              told.error.msg);
        while (told.errors < 3)
                uv_run(&loop, UV_RUN_ONCE);
        CHECK(told.ends == 0, "also one that was asked when others failed, later");
        ask(c, 1);
        answer(4);
        while (!told.answers)
                uv_run(&loop, UV_RUN_ONCE);
        CHECK(told.answers == 1 && told.pids[0] == 3, "late answers are dropped, and the next one is told");
        finish(c);
}

static void test_ends(void)
{
        struct control *c = begin(&control_of_box);

        ask(c, 2);
        fd_close(&init_fd);
        while (!told.ends)
                uv_run(&loop, UV_RUN_ONCE);
        CHECK(told.errors == 2 && told.error.code == CLOCHE_E_STATE, "questions to an init that is gone fail: %s",
              told.error.msg);
        finish(c);
        c = begin(&control_of_box);
        ask(c, 2);
        control_close(c);
        CHECK(told.errors == 2 && told.ends == 0, "so do open questions when it is closed");
        finish(c);
}

/* With sanitizers: nothing that was freed is looked at. */
static void test_owners_that_go(void)
{
        struct control *c = begin(&control_of_box);

        ask(c, 3);
        answer(3);
        told.to_free = c;
        uv_run(&loop, UV_RUN_ONCE);
        CHECK(told.answers == 1 && told.errors == 0,
              "it is freed by the first answer's callback, and no other is called");
        finish(NULL);
        c = begin(&control_of_box);
        ask(c, 3);
        fd_close(&init_fd);
        told.to_free = c;
        uv_run(&loop, UV_RUN_ONCE);
        CHECK(told.errors == 1 && told.ends == 0, "and by the first callback after init is gone");
        finish(NULL);
        c = begin(&quick);
        ask(c, 3);
        told.to_free = c;
        while (!told.errors)
                uv_run(&loop, UV_RUN_ONCE);
        CHECK(told.errors == 1 && told.ends == 0, "and by the first callback after it was silent");
        finish(NULL);
}

static void test_its_socket(void)
{
        struct control *c = begin(&control_of_box);
        int fd;

        ask(c, 1);
        fd = control_free_but_fd(c);
        CHECK(fd >= 0 && told.answers + told.errors + told.ends == 0,
              "the socket is given back, and no callback is called");
        CHECK(read(init_fd, &(struct init_request){0}, sizeof(struct init_request)) == sizeof(struct init_request) &&
                      write(init_fd, "x", 1) == 1 && read(fd, &(char){0}, 1) == 1,
              "it is as it was");
        close(fd);
        finish(NULL);
}

/* Processes without a process id could be neither signalled nor recognised at their exit. */
static void test_invalid_pids(void)
{
        struct init_request request = {.op = INIT_SPAWN};
        struct init_answer said = {.op = INIT_SPAWN};

        for (said.pid = -1; said.pid < 3; said.pid++) {
                struct control *c = begin(&lasting);

                if (control_request(c, &request, NULL, 0, on_answer, &told, &e) < 0 ||
                    fd_send(init_fd, &said, sizeof(said), NULL, 0) < 0)
                        CHECK(0, "ask: %s", e.msg);
                while (!told.ends && !told.answers)
                        uv_run(&loop, UV_RUN_ONCE);
                CHECK(said.pid == 2 ? told.answers == 1 && told.ends == 0
                                    : told.errors == 1 && told.ends == 1 && told.error.code == CLOCHE_E_PROTOCOL,
                      "a program with the process id %d: %s", (int)said.pid, told.error.msg);
                finish(c);
        }
}

static void test_invalid_exits(void)
{
        struct init_answer exit = {.op = INIT_EXITED};
        struct control *c = begin(&lasting);

        if (fd_send(init_fd, &exit, sizeof(exit), NULL, 0) < 0)
                CHECK(0, "send an exit");
        while (!told.ends)
                uv_run(&loop, UV_RUN_ONCE);
        CHECK(told.ends == 1, "the exit of no process ends the box");
        finish(c);
}

int main(void)
{
        uv_loop_init(&loop);
        test_answers();
        test_silence();
        test_silence_that_is_outlived();
        test_ends();
        test_owners_that_go();
        test_its_socket();
        test_invalid_pids();
        test_invalid_exits();
        CHECK(uv_loop_close(&loop) == 0, "no handle is left");
        return tap_done();
}
