/* The engine's side of the keeper against one that is stopped: this program itself, under the keeper's name. */
#include "engine/box/keeper-client.h"

#include "base/fd.h"
#include "tap.h"

#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define REQUESTS 3000 /* far more than a socket holds */
#define HANG_S 60     /* a request that waits ends the test */

static struct cloche_err e;

/* -- the other side: answers in turn, and stops after the greeting and after each ping ------------------------ */

static int fake_answer(const struct keeper_request *request, size_t fd_count)
{
        struct keeper_answer answer = {.op = request->op,
                                       .serial = request->serial,
                                       .box = request->op == KEEPER_BOX_FORK ? (uint32_t)fd_count : request->box};

        return fd_send(3, &answer, request->op == KEEPER_HELLO ? sizeof(answer) : KEEPER_ANSWER_HEAD, NULL, 0);
}

static int fake_keeper(void)
{
        static struct keeper_request request;
        int fds[KEEPER_FORK_FDS];
        size_t fd_count = KEEPER_FORK_FDS;
        ssize_t n;

        for (; (n = fd_receive(3, &request, sizeof(request), fds, &fd_count, 0)) > 0; fd_count = KEEPER_FORK_FDS) {
                if ((size_t)n != keeper_request_size(request.op) || fake_answer(&request, fd_count) < 0)
                        return 1;
                for (size_t i = 0; i < fd_count; i++)
                        close(fds[i]);
                if (request.op == KEEPER_HELLO || request.op == KEEPER_PING)
                        raise(SIGSTOP);
        }
        return 0;
}

/* -- this side ------------------------------------------------------------------------------------------------ */

static struct keeper *start_stopped(void)
{
        char directory[] = "/tmp/keeper-client-XXXXXX", program[PATH_MAX], link[sizeof(directory) + 16];
        ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
        struct keeper *k = NULL;
        int r, status;

        program[n < 0 ? 0 : n] = '\0';
        if (!mkdtemp(directory))
                return NULL;
        snprintf(link, sizeof(link), "%s/cloche-keeper", directory);
        r = symlink(program, link) < 0 ? -1 : keeper_start(directory, &(struct keeper_options){0}, &k, &e);
        unlink(link);
        rmdir(directory);
        if (r == 0 && waitpid(keeper_pid(k), &status, WUNTRACED) == keeper_pid(k) && WIFSTOPPED(status))
                return k;
        CHECK(0, "start the keeper: %s", e.msg);
        exit(1);
}

static struct told {
        unsigned count, out_of_order, errors;
        char why[sizeof(e.msg)];
} told;

static void on_answer(void *data, struct keeper_reply *reply)
{
        (void)data;
        if (reply->error) {
                told.errors++;
                snprintf(told.why, sizeof(told.why), "%s", reply->error->msg);
        } else {
                told.out_of_order += reply->answer->box != told.count;
                told.count++;
        }
}

static int held;

static void on_held(void *data)
{
        (void)data;
        held = 1;
}

static void test_more_than_the_socket_holds(void)
{
        struct keeper *k = start_stopped();
        struct keeper_wait w = {0};
        uint32_t fork;
        int r = 0;

        told = (struct told){0};
        keeper_on_held(k, on_held, NULL);
        for (uint32_t i = 0; i < REQUESTS && r == 0; i++)
                r = keeper_box_drop_later(k, i, on_answer, NULL, &e);
        CHECK(r == 0 && held, "%d requests to a keeper that is stopped are held back: %s", REQUESTS, e.msg);
        CHECK(keeper_send_held(k) > 0, "and tried again soon");
        r = keeper_box_fork_later(k, 0, (int[]){0, 1, 2, 2}, 4, keeper_on_waited, &w, &fork, &e);
        kill(keeper_pid(k), SIGCONT);
        if (r == 0)
                r = keeper_wait(k, &w, &e);
        CHECK(r == 0 && w.box == 4, "the last one comes with its %u descriptors: %s", w.box, e.msg);
        CHECK(told.count == REQUESTS && told.out_of_order == 0, "%u were answered before, %u of them out of order",
              told.count, told.out_of_order);
        CHECK(keeper_send_held(k) < 0, "nothing is held back any more");
        keeper_stop(k);
}

static void test_one_that_is_given_up(void)
{
        struct keeper *k = start_stopped();
        pid_t pid = keeper_pid(k);
        int r = 0;

        told = (struct told){0};
        for (uint32_t i = 0; i < REQUESTS && r == 0; i++)
                r = keeper_box_usage_later(k, i, on_answer, NULL, &e);
        keeper_give_up(k, "it is silent");
        CHECK(told.errors == REQUESTS && strcmp(told.why, "it is silent") == 0, "%u open requests failed: %s",
              told.errors, told.why);
        CHECK(keeper_ping_later(k, on_answer, NULL, &e) == -CLOCHE_E_KEEPER && strcmp(e.msg, "it is silent") == 0,
              "nothing can be asked any more: %s", e.msg);
        keeper_stop(k);
        CHECK(kill(pid, 0) == 0, "it is not waited for");
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
}

static void test_a_ping(void)
{
        struct keeper *k = start_stopped();
        struct keeper_wait w = {0};
        int r = keeper_ping_later(k, keeper_on_waited, &w, &e);

        kill(keeper_pid(k), SIGCONT);
        if (r == 0)
                r = keeper_wait(k, &w, &e);
        CHECK(r == 0, "a ping is answered: %s", e.msg);
        waitpid(keeper_pid(k), NULL, WUNTRACED);
        kill(keeper_pid(k), SIGCONT);
        keeper_stop(k);
}

int main(int argc, char **argv)
{
        if (argc > 0 && strcmp(argv[0], "cloche-keeper") == 0)
                return fake_keeper();
        alarm(HANG_S);
        test_more_than_the_socket_holds();
        test_one_that_is_given_up();
        test_a_ping();
        return tap_done();
}
