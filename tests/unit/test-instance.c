/* Instances: beneath a template as of runs, and sharing a sandbox's files. Needs root, for real
 * boxes. With an argument it prints how long they take. */
#include <cloche/cloche.h>

#include "base/clock.h"
#include "base/fd.h"
#include "engine/loop/engine.h"
#include "engine/warm/instance.h"
#include "engine/warm/prefix.h"
#include "engine/warm/template.h"
#include "tap.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SAMPLES 31
#define DROP_MS 60 /* dropped ones must be gone, or the keeper is busy with that */

static struct cloche_err e;
static cloche_engine *engine;
static cloche_prefix *prefix;
static const struct keeper_box_limits no_limits = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX,
                                                   UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};

static struct report {
        int times;
        struct instance *instance;
        struct cloche_err error;
} reported;

static void on_ready(struct instance *instance, const struct cloche_err *error)
{
        struct report *to = instance->owner;

        to->times++;
        to->instance = instance;
        to->error = error ? *error : (struct cloche_err){0};
}

static void must(int r, const char *what)
{
        if (r >= 0)
                return;
        CHECK(0, "%s: %s", what, e.msg);
        exit(1);
}

static void set_up(void)
{
        static char libexec[4096];
        const struct cloche_file file = {.path = "/workspace/of-the-prefix", .data = "x", .size = 1};
        struct cloche_engine_options options = {.spares = CLOCHE_NO_SPARES, .libexec_dir = libexec};
        struct cloche_prefix_options prefix_options = {.language = "python",
                                                       .code = "warm = 'from the prefix'",
                                                       .files = &file,
                                                       .file_count = 1};
        ssize_t n = readlink("/proc/self/exe", libexec, sizeof(libexec) - 1);
        char *slash;

        libexec[n < 0 ? 0 : n] = '\0';
        for (int i = 0; i < 2; i++)
                if ((slash = strrchr(libexec, '/')))
                        *slash = '\0';
        must(cloche_engine_new(&options, &engine, &e), "start an engine");
        must(cloche_prefix_new(engine, &prefix_options, &prefix, NULL, &e), "set up a prefix");
}

/* Its init gets the requests in turn. */
static struct box make_sandbox(void)
{
        struct keeper_box_spec *spec = calloc(1, sizeof(*spec));
        struct keeper_wait w = {0};
        struct keeper_box made;
        struct box box = BOX_NONE;

        spec->limits = no_limits;
        spec->optional_guards = ~0u;
        spec->parent = spec->shared_with = KEEPER_NO_BOX;
        spec->is_sandbox = 1;
        spec->user = jail_user_default();
        must(keeper_box_make_async(engine->keeper, spec, keeper_on_waited, &w, &e), "ask for a sandbox");
        must(keeper_wait(engine->keeper, &w, &e), "make a sandbox");
        must(keeper_box_take(w.box, w.fds, w.fd_count, &made, &e), "take a sandbox");
        box.keeper = engine->keeper;
        box.made = 1;
        box.id = made.id;
        box.control_fd = made.control_fd;
        box.pidfd = made.pidfd;
        free(spec);
        return box;
}

static void drop_sandbox(struct box *box)
{
        struct keeper_wait w = {0};

        must(box_drop(box, keeper_on_waited, &w), "drop the sandbox");
        must(keeper_wait(engine->keeper, &w, &e), "lose the sandbox");
}

static struct instance *request_instance(uint32_t shared_with)
{
        struct instance *instance;

        reported = (struct report){0};
        must(instance_new(prefix->template, &no_limits, NULL, shared_with, 0, &instance, &e), "ask for an instance");
        instance->on_ready = on_ready;
        instance->owner = &reported;
        return instance;
}

static struct instance *wait_for_instance(uint32_t shared_with)
{
        (void)request_instance(shared_with);
        while (!reported.times)
                uv_run(&engine->loop, UV_RUN_ONCE);
        return reported.instance;
}

/* The child's answer to a call, as it stands in the frame. */
static const char *call(struct instance *instance, const char *code)
{
        static char text[8192];
        struct pollfd polled = {.fd = instance->channel.fd, .events = POLLIN};
        uint32_t sizes[2];
        int size;
        ssize_t n;

        size = snprintf(text, sizeof(text),
                        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"call\",\"params\":{\"code\":\"%s\",\"resultBytes\":"
                        "4096}}",
                        code);
        sizes[0] = (uint32_t)size + 4;
        sizes[1] = (uint32_t)size;
        if (write(instance->channel.fd, sizes, sizeof(sizes)) != sizeof(sizes) ||
            write(instance->channel.fd, text, (size_t)size) != size || poll(&polled, 1, 20000) != 1)
                return "it does not listen";
        n = read(instance->channel.fd, text, sizeof(text) - 1);
        if (n < 8)
                return "it has ended";
        text[n] = '\0';
        return text + 8;
}

static void put(struct box *box, const char *path, const char *text)
{
        struct init_request request = {.op = INIT_PUT, .mode = S_IFREG | 0644};
        _cleanup_fd_ int fd = fd_from_bytes("contents", text, strlen(text));
        struct init_answer answer;

        strcpy(request.path, path);
        must(fd_send(box->control_fd, &request, sizeof(request), &fd, 1), "put a file");
        must(fd_receive(box->control_fd, &answer, sizeof(answer), NULL, NULL, 0) == sizeof(answer) && !answer.err.code
                     ? 0
                     : -1,
             "hear of a file");
}

static void test_files(void)
{
        struct box sandbox = make_sandbox();
        char text[64] = "";
        struct instance *instance;
        const char *said;
        int fd;

        put(&sandbox, "/workspace/theirs", "from the sandbox");
        must(box_waiter_new(&sandbox, &e), "wait for the sandbox's init");
        instance = wait_for_instance(sandbox.id);
        CHECK(reported.times == 1 && reported.error.code == 0, "an instance that shares is reported once: %s",
              reported.error.msg);
        CHECK(prefix->template->instance_count == 0, "it is none of the template's");
        said = call(instance,
                    "warm + ', ' + open('/workspace/theirs').read() + str(open('/workspace/mine', 'w').write('mine'))");
        CHECK(strstr(said, "from the prefix, from the sandbox4"),
              "what was set up and the sandbox's files are there: %s", said);
        CHECK(box_get(&sandbox, "/workspace/mine", &fd, &e) == 0 && read(fd, text, sizeof(text)) == 4 &&
                      strcmp(text, "mine") == 0,
              "it writes there: %s", text);
        CHECK(box_get(&sandbox, "/workspace/of-the-prefix", &fd, &e) < 0,
              "files of the prefix are not placed in the sandbox: %s", e.msg);
        instance_free(instance);
        CHECK(box_get(&sandbox, "/workspace/mine", &fd, &e) == 0, "its end leaves the sandbox as it is");
        box_waiter_free(&sandbox);
        drop_sandbox(&sandbox);
}

static void turn_for_ms(int ms)
{
        for (; ms > 0; ms--) {
                uv_run(&engine->loop, UV_RUN_NOWAIT);
                usleep(1000);
        }
}

static void test_failures(void)
{
        struct box sandbox = make_sandbox();
        uint32_t gone = sandbox.id;
        struct instance *instance;

        instance = request_instance(gone);
        instance_free(instance);
        turn_for_ms(400);
        CHECK(reported.times == 0, "an instance freed before it is ready is not reported");
        drop_sandbox(&sandbox);
        instance = wait_for_instance(gone);
        CHECK(reported.times == 1 && reported.error.code == CLOCHE_E_STATE, "without the sandbox it fails: %s",
              reported.error.msg);
        instance_free(instance);
}

static int compare(const void *a, const void *b)
{
        uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

        return x < y ? -1 : x > y;
}

static uint64_t now_us(void)
{
        return clock_now_ns() / 1000;
}

static void say_speed(void)
{
        struct box sandbox = make_sandbox();
        uint64_t shared_us[SAMPLES], plain_us[SAMPLES];

        for (int i = 0; i < SAMPLES; i++) {
                uint64_t began_us = now_us();
                struct instance *instance = wait_for_instance(sandbox.id);

                (void)call(instance, "1");
                shared_us[i] = now_us() - began_us;
                instance_free(instance);
                turn_for_ms(DROP_MS);
                began_us = now_us();
                reported = (struct report){0};
                must(instance_new(prefix->template, &no_limits, NULL, KEEPER_NO_BOX, 0, &instance, &e),
                     "ask for an instance");
                TAILQ_INSERT_TAIL(&prefix->template->instances, instance, link);
                prefix->template->instance_count++;
                while (instance->state != INSTANCE_MADE)
                        uv_run(&engine->loop, UV_RUN_ONCE);
                must(instance_fork_resume(instance, &e), "fork into a box");
                while (instance->state != INSTANCE_READY)
                        uv_run(&engine->loop, UV_RUN_ONCE);
                (void)call(instance, "1");
                plain_us[i] = now_us() - began_us;
                template_drop_instances(prefix->template);
                turn_for_ms(DROP_MS);
        }
        qsort(shared_us, SAMPLES, sizeof(shared_us[0]), compare);
        qsort(plain_us, SAMPLES, sizeof(plain_us[0]), compare);
        printf("# an instance and its first answer, p50: %.2f ms with a sandbox's files, %.2f ms alone\n",
               (double)shared_us[SAMPLES / 2] / 1000, (double)plain_us[SAMPLES / 2] / 1000);
        drop_sandbox(&sandbox);
}

int main(int argc, char **argv)
{
        (void)argv;
        if (geteuid() != 0) {
                printf("ok 1 - # SKIP needs root\n1..1\n");
                return 0;
        }
        set_up();
        test_files();
        test_failures();
        if (argc > 1)
                say_speed();
        cloche_prefix_free(prefix);
        cloche_engine_free(engine);
        return tap_done();
}
