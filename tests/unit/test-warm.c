/* The library's warm runs: the bridge, the queue, turns among prefixes. Needs root, for real boxes. */
#include <cloche/cloche.h>

#include "engine/loop/engine.h"
#include "engine/warm/prefix.h"
#include "engine/warm/template.h"
#include "tap.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define RUNS_MAX 16

static struct cloche_err e;
static char libexec[4096];

/* The arguments that the host's functions received. */
static struct host {
        cloche_bridge_call *open[RUNS_MAX];
        int open_count, hold, calls, inside, inside_most;
        char last_target[200], last_args[200], last_kwargs[200];
} host;

static const char globals[] =
        "{\"echo\": {\"kind\": \"function\"}, \"hang\": {\"kind\": \"function\"}, \"fail\": {\"kind\": \"function\"},"
        " \"enter\": {\"kind\": \"function\"}, \"leave\": {\"kind\": \"function\"}, \"bad\": {\"kind\": \"function\"},"
        " \"ns\": {\"kind\": \"object\", \"members\": {\"deep\": {\"kind\": \"function\"}}}}";

static void release_all(void)
{
        /* The last request is answered first. */
        while (host.open_count > 0) {
                cloche_bridge_call *call = host.open[--host.open_count];

                (void)cloche_bridge_answer(call, cloche_bridge_call_args(call), NULL);
        }
}

static void on_call(void *data, cloche_bridge_call *call)
{
        const char *target = cloche_bridge_call_target(call);

        (void)data;
        host.calls++;
        snprintf(host.last_target, sizeof(host.last_target), "%s", target);
        snprintf(host.last_args, sizeof(host.last_args), "%s", cloche_bridge_call_args(call));
        snprintf(host.last_kwargs, sizeof(host.last_kwargs), "%s", cloche_bridge_call_kwargs(call));
        if (strstr(target, "hang")) {
                host.open[host.open_count++] = call;
                if (host.open_count == host.hold)
                        release_all();
        } else if (strstr(target, "fail")) {
                (void)cloche_bridge_fail(call, "TeapotError", "short and stout",
                                         "{\"status\": 418, \"parts\": [\"handle\", \"spout\"]}", NULL);
        } else if (strstr(target, "bad")) {
                struct cloche_err why = {0};

                CHECK(cloche_bridge_answer(call, "[1,", &why) < 0 && why.code, "an answer that is not JSON: %s",
                      why.msg);
        } else {
                host.inside += strstr(target, "enter") ? 1 : strstr(target, "leave") ? -1 : 0;
                host.inside_most = host.inside > host.inside_most ? host.inside : host.inside_most;
                (void)cloche_bridge_answer(call, cloche_bridge_call_args(call), NULL);
        }
}

/* -- engines and runs ----------------------------------------------------------------------------------------- */

static cloche_engine *engine_with(struct cloche_engine_options options)
{
        cloche_engine *engine = NULL;

        options.libexec_dir = libexec;
        host = (struct host){0};
        if (cloche_engine_new(&options, &engine, &e) < 0) {
                CHECK(0, "start an engine: %s", e.msg);
                exit(1);
        }
        return engine;
}

static cloche_engine *engine_of(unsigned runs_max, unsigned queue_max)
{
        return engine_with((struct cloche_engine_options){.runs_max = runs_max, .queue_max = queue_max});
}

static cloche_prefix *prefix_of(cloche_engine *engine, const char *code)
{
        struct cloche_prefix_options options = {.language = "python",
                                                .code = code,
                                                .globals = globals,
                                                .on_bridge = on_call};
        cloche_prefix *prefix = NULL;

        if (cloche_prefix_new(engine, &options, &prefix, NULL, &e) < 0) {
                CHECK(0, "set up a prefix: %s", e.msg);
                exit(1);
        }
        return prefix;
}

static struct cloche_run_options call_of(cloche_prefix *prefix, const char *code)
{
        return (struct cloche_run_options){.kind = CLOCHE_CALL,
                                           .language = "python",
                                           .code = code,
                                           .prefix = prefix,
                                           .limits = {.wall_ms = 15000}};
}

static cloche_run *start(cloche_engine *engine, const struct cloche_run_options *opt)
{
        cloche_run *run = NULL;

        return cloche_run_start(engine, opt, &run, &e) < 0 ? NULL : run;
}

/* The result as text to look for things in; freed by the next call. */
static const char *end_of(cloche_run *run)
{
        static char *text;
        cloche_result *result = NULL;

        free(text);
        text = NULL;
        if (!run || cloche_run_wait(run, &result, &e) < 0)
                text = strdup(e.msg);
        else
                text = strdup(cloche_result_json(result));
        cloche_result_free(result);
        cloche_run_free(run);
        return text;
}

static const char *run_to_end(cloche_engine *engine, cloche_prefix *prefix, const char *code)
{
        struct cloche_run_options opt = call_of(prefix, code);

        return end_of(start(engine, &opt));
}

static void drive(cloche_engine *engine, int ms)
{
        struct timespec begun, now;

        clock_gettime(CLOCK_MONOTONIC, &begun);
        do {
                struct pollfd polled = {.fd = cloche_engine_fd(engine), .events = POLLIN};

                poll(&polled, 1, 5);
                cloche_engine_turn(engine);
                clock_gettime(CLOCK_MONOTONIC, &now);
        } while ((now.tv_sec - begun.tv_sec) * 1000 + (now.tv_nsec - begun.tv_nsec) / 1000000 < ms);
}

static void drive_until_open(cloche_engine *engine, int count)
{
        for (int i = 0; i < 300 && host.open_count < count; i++)
                drive(engine, 10);
}

static int holds(const char *text, const char *part)
{
        return text && strstr(text, part) != NULL;
}

/* -- the bridge ----------------------------------------------------------------------------------------------- */

static void test_calls(void)
{
        cloche_engine *engine = engine_of(0, 0);
        cloche_prefix *prefix =
                prefix_of(engine, "from concurrent.futures import ThreadPoolExecutor\ndef ask(n): return hang(n)[0]\n"
                                  "known = echo");
        const char *said = run_to_end(engine, prefix, "return echo(1, 'two', None, b'\\x00', key={'a': [True]})");

        CHECK(holds(said, "\"result\":[1,\"two\",null,{"), "arguments come back: %.200s", said);
        CHECK(strcmp(host.last_target, "[\"global\",\"echo\"]") == 0 && holds(host.last_kwargs, "\"key\""),
              "target %s, kwargs %s", host.last_target, host.last_kwargs);
        said = run_to_end(engine, prefix, "return [ns.deep(7), known(8)]");
        CHECK(holds(said, "\"result\":[[7],[8]]"), "a nested member, and one the set-up kept: %.200s", said);
        host.hold = 3;
        said = run_to_end(engine, prefix,
                          "with ThreadPoolExecutor(3) as pool:\n    return list(pool.map(ask, [1, 2, 3]))");
        CHECK(holds(said, "\"result\":[1,2,3]"), "three open at once, answered in disorder: %.200s", said);
        said = run_to_end(engine, prefix,
                          "try:\n    fail(1)\nexcept Exception as e:\n    return [type(e).__name__, str(e), e.status, "
                          "e.parts]");
        CHECK(holds(said, "TeapotError") && holds(said, "short and stout") && holds(said, "418") &&
                      holds(said, "spout"),
              "an error has name, message and fields: %.200s", said);
        said = run_to_end(engine, prefix, "fail(1)");
        CHECK(holds(said, "\"status\":\"error\"") && holds(said, "short and stout"),
              "one that is not caught is the run's: %.200s", said);
        said = run_to_end(engine, prefix, "try:\n    bad()\nexcept Exception as e:\n    return 'caught ' + str(e)");
        CHECK(holds(said, "caught") && holds(said, "\"success\":true"),
              "the guest is told of an answer that could not be sent: %.200s", said);
        said = run_to_end(engine, prefix, "return echo(object())");
        CHECK(holds(said, "\"status\":\"error\""), "an argument that cannot be sent is an error: %.200s", said);
        cloche_prefix_free(prefix);
        cloche_engine_free(engine);
}

static void test_limits(void)
{
        cloche_engine *engine = engine_of(0, 0);
        cloche_prefix *prefix = prefix_of(engine, "");
        struct cloche_run_options opt = call_of(prefix, "for i in range(10):\n    try:\n        echo(i)\n    except "
                                                        "BaseException:\n        pass\nreturn 1");
        const char *said;

        opt.limits.bridge_calls = 3;
        said = end_of(start(engine, &opt));
        CHECK(holds(said, "\"status\":\"error\"") && host.calls == 3, "the fourth call of three ends the run: %.200s",
              said);
        opt.limits.bridge_calls = 10;
        said = end_of(start(engine, &opt));
        CHECK(holds(said, "\"success\":true"), "ten of ten are well: %.200s", said);
        opt = call_of(prefix, "try:\n    echo('x' * 5000)\nexcept BaseException:\n    pass\nreturn 1");
        opt.limits.bridge_bytes = 2000;
        said = end_of(start(engine, &opt));
        CHECK(holds(said, "\"status\":\"error\"") && holds(said, "bridgeBytes"), "too many bytes end the run: %.300s",
              said);
        opt.limits.bridge_bytes = 20000;
        CHECK(holds(end_of(start(engine, &opt)), "\"success\":true"), "fewer are well");
        CHECK(holds(run_to_end(engine, prefix, "return 1"), "\"success\":true"), "the next run is well");
        cloche_prefix_free(prefix);
        cloche_engine_free(engine);
}

static void test_late(void)
{
        cloche_engine *engine = engine_of(0, 0);
        cloche_prefix *prefix = prefix_of(engine, "");
        struct cloche_run_options opt = call_of(prefix, "hang(1)");
        cloche_run *run = start(engine, &opt);
        const char *said;

        drive_until_open(engine, 1);
        CHECK(host.open_count == 1 && cloche_bridge_call_run(host.open[0]) == run, "a call is open");
        cloche_run_cancel(run);
        said = end_of(run);
        CHECK(holds(said, "\"status\":\"terminated\""), "cancelled while it is: %.200s", said);
        CHECK(cloche_bridge_call_run(host.open[0]) == NULL, "the call knows");
        CHECK(cloche_bridge_answer(host.open[0], "1", &e) == 0, "an answer that comes late goes nowhere");
        host.open_count = 0;
        opt.limits.wall_ms = 300;
        run = start(engine, &opt);
        said = end_of(run);
        CHECK(holds(said, "\"status\":\"timeout\"") && host.open_count == 1, "an answer that never comes: %.200s",
              said);
        CHECK(cloche_bridge_fail(host.open[0], "Error", "late", "{}", &e) == 0, "nor does an error");
        host.open_count = 0;
        opt.limits.wall_ms = 15000;
        opt.code = "import threading, time\nthreading.Thread(target=hang, args=[1], "
                   "daemon=True).start()\ntime.sleep(0.2)\nreturn 5";
        said = end_of(start(engine, &opt));
        CHECK(holds(said, "\"result\":5") && host.open_count == 1, "a run may end with a call open: %.200s", said);
        release_all();
        run = start(engine, &opt);
        drive_until_open(engine, 1);
        cloche_run_free(run);
        CHECK(host.open_count == 1 && cloche_bridge_call_run(host.open[0]) == NULL, "so may one that is freed");
        release_all();
        CHECK(holds(run_to_end(engine, prefix, "return echo(1)"), "\"result\":[1]"), "the next run is well");
        cloche_prefix_free(prefix);
        cloche_engine_free(engine);
}

/* -- the queue ------------------------------------------------------------------------------------------------ */

static void test_queue(void)
{
        cloche_engine *engine = engine_of(1, 2);
        cloche_prefix *prefix = prefix_of(engine, "");
        struct cloche_run_options opt = call_of(prefix, "hang(1)\nreturn 1");
        cloche_run *runs[4];
        int r;

        runs[0] = start(engine, &opt);
        drive_until_open(engine, 1);
        opt.code = "return 2";
        runs[1] = start(engine, &opt);
        runs[2] = start(engine, &opt);
        r = cloche_run_start(engine, &opt, &runs[3], &e);
        CHECK(runs[1] && runs[2] && r == -CLOCHE_E_QUEUE_FULL && cloche_code_fault(e.code) == CLOCHE_FAULT_CALLER,
              "the queue is full: %s", e.msg);
        cloche_run_cancel(runs[1]);
        CHECK(holds(end_of(runs[1]), "\"status\":\"terminated\""), "one that waits is cancelled");
        runs[1] = start(engine, &opt);
        CHECK(runs[1] != NULL, "its place is free");
        release_all();
        /* In their order: a run keeps its place until it is freed. */
        CHECK(holds(end_of(runs[0]), "\"result\":1") && holds(end_of(runs[2]), "\"result\":2") &&
                      holds(end_of(runs[1]), "\"result\":2"),
              "all come to their turn");
        cloche_prefix_free(prefix);
        cloche_engine_free(engine);
}

static void test_runs_max(void)
{
        cloche_engine *engine = engine_of(2, 0);
        cloche_prefix *prefix = prefix_of(engine, "import time");
        static const char *const codes[] = {"enter()\ntime.sleep(0.1)\nleave()\nreturn 1",
                                            "enter()\ntime.sleep(3)\nleave()\nreturn 1"};
        int good = 8;

        /* On a busy machine short runs may end before the next one begins. */
        for (size_t c = 0; c < 2 && good == 8 && host.inside_most < 2; c++) {
                struct cloche_run_options opt = call_of(prefix, codes[c]);
                cloche_run *runs[8];

                good = 0;
                for (int i = 0; i < 8; i++)
                        runs[i] = start(engine, &opt);
                for (int i = 0; i < 8; i++)
                        good += holds(end_of(runs[i]), "\"success\":true");
        }
        CHECK(good == 8 && host.inside_most == 2, "eight runs, %d good, %d at once of 2", good, host.inside_most);
        cloche_prefix_free(prefix);
        cloche_engine_free(engine);
}

static cloche_run *ended[RUNS_MAX];
static int ended_count;

static void on_end(void *data, cloche_run *run)
{
        (void)data;
        ended[ended_count++] = run;
}

/* Ten of one wait when two of another come: these are not the last. */
static void test_turns(void)
{
        cloche_engine *engine = engine_of(1, 0);
        cloche_prefix *one = prefix_of(engine, "x = 'one'"), *other = prefix_of(engine, "x = 'other'");
        char order[RUNS_MAX] = "";
        const char *last;

        ended_count = 0;
        for (int i = 0; i < 12; i++) {
                struct cloche_run_options opt = call_of(i < 10 ? one : other, "return x");

                opt.on_end = on_end;
                if (!start(engine, &opt))
                        CHECK(0, "start run %d: %s", i, e.msg);
        }
        for (int turns = 0, taken = 0; taken < 12 && turns < 2000; turns++) {
                drive(engine, 5);
                while (taken < ended_count)
                        strcat(order, holds(end_of(ended[taken++]), "\"other\"") ? "b" : "a");
        }
        last = strrchr(order, 'b');
        CHECK(strlen(order) == 12, "twelve runs of two prefixes end, and it is told: %s", order);
        CHECK(last && last - order <= 6, "the two of the second are not starved: %s", order);
        cloche_prefix_free(one);
        cloche_prefix_free(other);
        cloche_engine_free(engine);
}

static void test_prefixes(void)
{
        cloche_engine *engine = engine_of(0, 0);
        struct cloche_prefix_options options = {.language = "python", .code = "raise LookupError('nothing')"};
        cloche_prefix *prefix = NULL, *same;
        struct cloche_run_options opt;
        cloche_run *run;
        char *failure = NULL;
        int r = cloche_prefix_new(engine, &options, &prefix, &failure, &e);

        CHECK(r == -CLOCHE_E_PREFIX && !prefix && holds(failure, "LookupError") && holds(failure, "nothing"),
              "a set-up that throws: %s, %s", e.msg, failure ? failure : "-");
        free(failure);
        prefix = prefix_of(engine, "x = 1");
        same = prefix_of(engine, "x = 1");
        opt = call_of(same, "hang(1)\nreturn x");
        run = start(engine, &opt);
        drive_until_open(engine, 1);
        cloche_prefix_free(prefix);
        cloche_prefix_free(same);
        release_all();
        CHECK(holds(end_of(run), "\"result\":1"), "a run goes on when its prefix was freed");
        opt = call_of(NULL, "return echo(3)");
        opt.warm = 1;
        opt.globals = globals;
        opt.on_bridge = on_call;
        CHECK(holds(end_of(start(engine, &opt)), "\"result\":[3]"), "functions of the host without a prefix");
        opt.on_bridge = NULL;
        CHECK(!holds(end_of(start(engine, &opt)), "\"success\":true"), "and not where nobody offers them");
        opt.globals = "{\"echo\": 5}";
        CHECK(!holds(end_of(start(engine, &opt)), "\"success\":true"), "a declaration that is none: %s", e.msg);
        cloche_engine_free(engine);
}

/* -- boxes that wait for a child ------------------------------------------------------------------------------ */

struct pool {
        unsigned forked, made, pending;
};

static struct pool pool_of(const cloche_prefix *prefix)
{
        const struct instance *instance;
        struct pool pool = {0};

        TAILQ_FOREACH (instance, &prefix->template->instances, link)
                *(instance->state == INSTANCE_READY  ? &pool.forked
                  : instance->state == INSTANCE_MADE ? &pool.made
                                                     : &pool.pending) += 1;
        return pool;
}

static int drive_until_pool(cloche_engine *engine, const cloche_prefix *prefix, unsigned forked, unsigned made)
{
        struct pool pool = {0};

        for (int i = 0; i < 600; i++) {
                pool = pool_of(prefix);
                if (pool.forked == forked && pool.made == made && pool.pending == 0)
                        return 1;
                drive(engine, 10);
        }
        printf("# %u forked, %u made, %u pending\n", pool.forked, pool.made, pool.pending);
        return 0;
}

static void say(struct template *t, const char *method, unsigned fork)
{
        struct rpc_message m = {.kind = RPC_NOTIFICATION,
                                .method = method,
                                .params = json_pack("{s:i, s:s}", "fork", (int)fork, "message", "no memory")};

        (void)t->channel.on_message(t, &m, NULL, &e);
        json_decref((json_t *)m.params);
}

static void test_boxes_ahead(void)
{
        cloche_engine *engine =
                engine_with((struct cloche_engine_options){.spares = 1, .boxes_ahead = 2, .runs_max = RUNS_MAX});
        cloche_prefix *prefix = prefix_of(engine, "");
        struct cloche_run_options opt = call_of(prefix, "hang(1)\nreturn 1");
        struct template *t = prefix->template;
        cloche_run *runs[5];
        unsigned forks;
        int good = 0;

        CHECK(t->instance_count == 0, "nothing is made before the first run");
        CHECK(holds(run_to_end(engine, prefix, "return 1"), "\"result\":1") && drive_until_pool(engine, prefix, 1, 2),
              "after it one box has a child, and two wait without");
        forks = t->forks;
        drive(engine, 50);
        CHECK(t->forks == forks, "nothing more is forked");
        say(t, "exited", 0);
        say(t, "failed", 0);
        CHECK(t->instance_count == 3, "the end of a child that no box has ends none: %u", t->instance_count);
        for (int i = 0; i < 5; i++)
                runs[i] = start(engine, &opt);
        CHECK(pool_of(prefix).made == 0, "runs beyond the spare take the boxes that wait");
        drive_until_open(engine, 5);
        CHECK(host.open_count == 5, "five run at once: %d", host.open_count);
        release_all();
        for (int i = 0; i < 5; i++)
                good += holds(end_of(runs[i]), "\"result\":1");
        CHECK(good == 5 && drive_until_pool(engine, prefix, 1, 2), "and three of their boxes stay: %d good", good);
        opt.limits.memory_bytes = 100 << 20;
        opt.code = "return 2";
        CHECK(holds(end_of(start(engine, &opt)), "\"result\":2") && drive_until_pool(engine, prefix, 1, 2),
              "boxes of other limits make room");
        template_drop_instances(t);
        CHECK(holds(end_of(start(engine, &opt)), "\"result\":2"), "without any box a run has one made");
        cloche_prefix_free(prefix);
        cloche_engine_free(engine);
}

/* A run that begins while a box of its own is on the way takes the one that waits; cancelled, it leaves
 * the pool as it is to be. */
static void test_cancelled_before_its_fork(void)
{
        cloche_engine *engine =
                engine_with((struct cloche_engine_options){.spares = CLOCHE_NO_SPARES, .boxes_ahead = 1});
        cloche_prefix *prefix = prefix_of(engine, "");
        struct cloche_run_options opt = call_of(prefix, "return 1");
        cloche_run *run;

        CHECK(holds(end_of(start(engine, &opt)), "\"result\":1") && drive_until_pool(engine, prefix, 0, 1),
              "a box without a child waits");
        for (int i = 0; i < 3; i++) {
                run = start(engine, &opt);
                CHECK(pool_of(prefix).pending == 1, "its fork is requested");
                cloche_run_free(run);
        }
        CHECK(drive_until_pool(engine, prefix, 1, 0), "the child of runs that were cancelled waits for another");
        CHECK(holds(end_of(start(engine, &opt)), "\"result\":1"), "which it serves");
        cloche_prefix_free(prefix);
        cloche_engine_free(engine);
}

/* The template tells of a fork that failed, perhaps before the keeper has answered. */
static void test_failed_forks(void)
{
        cloche_engine *engine =
                engine_with((struct cloche_engine_options){.spares = CLOCHE_NO_SPARES, .boxes_ahead = 1});
        cloche_prefix *prefix = prefix_of(engine, "");
        struct cloche_run_options opt = call_of(prefix, "return 1");
        struct template *t = prefix->template;
        cloche_run *run;

        (void)end_of(start(engine, &opt));
        CHECK(drive_until_pool(engine, prefix, 0, 1), "a box without a child waits");
        run = start(engine, &opt);
        say(t, "failed", TAILQ_FIRST(&t->instances)->fork);
        CHECK(t->instance_count == 1 && pool_of(prefix).pending == 1,
              "a fork into a used box that fails: the run gets another box");
        CHECK(holds(end_of(run), "\"result\":1"), "and ends well");
        template_drop_instances(t);
        run = start(engine, &opt);
        for (int i = 0; i < 600 && !(TAILQ_FIRST(&t->instances) && TAILQ_FIRST(&t->instances)->is_forked); i++)
                uv_run(&engine->loop, UV_RUN_ONCE);
        say(t, "failed", TAILQ_FIRST(&t->instances)->fork);
        CHECK(holds(end_of(run), "fork the template: no memory"), "a fork into a new box that fails is told: %s",
              e.msg);
        CHECK(holds(end_of(start(engine, &opt)), "\"result\":1"), "the next run is well");
        cloche_prefix_free(prefix);
        cloche_engine_free(engine);
}

static void test_no_idle_boxes(void)
{
        cloche_engine *engine = engine_with((struct cloche_engine_options){.spares = CLOCHE_NO_SPARES});
        cloche_prefix *prefix = prefix_of(engine, "");

        for (int i = 0; i < 3; i++)
                CHECK(holds(run_to_end(engine, prefix, "return 1"), "\"result\":1"), "a run on demand");
        drive(engine, 100);
        CHECK(prefix->template->instance_count == 0, "without spares no box stays");
        cloche_prefix_free(prefix);
        cloche_engine_free(engine);
}

static void find_libexec(void)
{
        ssize_t n = readlink("/proc/self/exe", libexec, sizeof(libexec) - 1);
        char *slash;

        libexec[n < 0 ? 0 : n] = '\0';
        for (int i = 0; i < 2; i++)
                if ((slash = strrchr(libexec, '/')))
                        *slash = '\0';
}

static unsigned templates_alive(cloche_engine *engine)
{
        const struct template *t;
        unsigned count = 0;

        TAILQ_FOREACH (t, &engine->templates, link)
                count += t->state == TEMPLATE_READY;
        return count;
}

/* Unreferenced set-ups are kept as far as the budget goes; a referenced one always is. */
static void test_eviction(void)
{
        cloche_engine *engine =
                engine_with((struct cloche_engine_options){.spares = CLOCHE_NO_SPARES, .templates_bytes = 1});
        cloche_prefix *held = prefix_of(engine, "held = 1"), *other;
        char code[32];

        for (int i = 0; i < 4; i++) {
                snprintf(code, sizeof(code), "other = %d", i);
                other = prefix_of(engine, code);
                cloche_prefix_free(other);
        }
        CHECK(templates_alive(engine) == 3, "of a small budget: base, held one, last one: %u", templates_alive(engine));
        cloche_prefix_free(held);
        cloche_engine_free(engine);
        engine = engine_with((struct cloche_engine_options){.spares = CLOCHE_NO_SPARES});
        for (int i = 0; i < 3; i++) {
                snprintf(code, sizeof(code), "other = %d", i);
                other = prefix_of(engine, code);
                cloche_prefix_free(other);
        }
        CHECK(templates_alive(engine) == 4, "of the default budget: all: %u", templates_alive(engine));
        cloche_engine_free(engine);
}

int main(void)
{
        if (geteuid() != 0) {
                printf("ok 1 - # SKIP needs root\n1..1\n");
                return 0;
        }
        find_libexec();
        test_calls();
        test_limits();
        test_late();
        test_queue();
        test_runs_max();
        test_turns();
        test_prefixes();
        test_eviction();
        test_boxes_ahead();
        test_cancelled_before_its_fork();
        test_failed_forks();
        test_no_idle_boxes();
        return tap_done();
}
