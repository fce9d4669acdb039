/* For tests: one engine, one prefix, and runs from it by requests on standard input, a line each:
 *   {"code": "…", "function": "f", "args": […], "limits": {"wallMs": 100}, "files": {"a.txt": "…"}, "changes": true,
 *    "times": 3, "pause": 20}
 * A line of output per run: the result's JSON, or {"failed": {"code": name, "message": …}}. "times"
 * starts that many at once; "pause" waits so many milliseconds before, with the engine at work. Host
 * functions: echo returns its arguments, fail throws a ValueError with a field, hang responds after
 * the end.
 * Usage: warm-runs LANGUAGE|bare SET-UP [SPARES [RUNS-MAX [BOXES-AHEAD]]]; exit code 3 if the set-up fails, its
 * error on standard output. */
#include <cloche/cloche.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TIMES_MAX 64

#define HUNG_MAX 1000

static int is_bare;
static cloche_bridge_call *hung[HUNG_MAX];
static int hung_count;

static const char globals[] =
        "{\"echo\": {\"kind\": \"function\"}, \"fail\": {\"kind\": \"function\"}, \"hang\": {\"kind\": \"function\"},"
        " \"ANSWER\": {\"kind\": \"value\", \"value\": 42}}";
static const char imports[] = "{\"hostmodule\": {\"members\": {\"deep\": {\"kind\": \"object\", \"members\":"
                              " {\"echo\": {\"kind\": \"function\"}}}}}}";

static void on_bridge(void *data, cloche_bridge_call *call)
{
        const char *target = cloche_bridge_call_target(call);

        (void)data;
        if (strstr(target, "echo"))
                (void)cloche_bridge_answer(call, cloche_bridge_call_args(call), NULL);
        else if (strstr(target, "fail"))
                (void)cloche_bridge_fail(call, "ValueError", "no such thing", "{\"status\": 404}", NULL);
        else if (hung_count < HUNG_MAX)
                hung[hung_count++] = call;
}

/* Long after the end of their runs. */
static void answer_hung(void)
{
        while (hung_count > 0)
                (void)cloche_bridge_answer(hung[--hung_count], "1", NULL);
}

static int fail(const char *what, const struct cloche_err *e)
{
        json_t *line = json_pack("{s:{s:s, s:s, s:s}}", "failed", "what", what, "code", cloche_code_name(e->code),
                                 "message", e->msg);

        json_dumpf(line, stdout, JSON_COMPACT);
        puts("");
        fflush(stdout);
        json_decref(line);
        return 3;
}

static struct cloche_limits limits_of(const json_t *request)
{
        struct cloche_limits limits = {0};
        const json_t *given = json_object_get(request, "limits");

#define CLOCHE_LIMIT(field, json, ...) limits.field = (uint64_t)json_integer_value(json_object_get(given, json));
#include <cloche/limits.def>
#undef CLOCHE_LIMIT
        return limits;
}

static size_t files_of(json_t *request, struct cloche_file *files, size_t room)
{
        const char *path;
        json_t *content;
        size_t count = 0;

        json_object_foreach (json_object_get(request, "files"), path, content)
                if (count < room)
                        files[count++] = (struct cloche_file){.path = path,
                                                              .data = json_string_value(content),
                                                              .size = json_string_length(content)};
        return count;
}

static void rest(cloche_engine *engine, json_int_t pause_ms)
{
        struct timespec now;
        double end, at;

        clock_gettime(CLOCK_MONOTONIC, &now);
        end = (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6 + (double)pause_ms;
        do {
                struct pollfd polled = {.fd = cloche_engine_fd(engine), .events = POLLIN};

                poll(&polled, 1, 2);
                cloche_engine_turn(engine);
                clock_gettime(CLOCK_MONOTONIC, &now);
                at = (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
        } while (at < end);
}

static void finish(cloche_run *run)
{
        struct cloche_err e = {0};
        cloche_result *result = NULL;

        if (cloche_run_wait(run, &result, &e) < 0)
                (void)fail("wait", &e);
        else
                printf("%s\n", cloche_result_json(result));
        fflush(stdout);
        cloche_result_free(result);
        cloche_run_free(run);
}

static void serve(cloche_engine *engine, cloche_prefix *prefix, const char *language, json_t *request)
{
        char *args = json_object_get(request, "args") ? json_dumps(json_object_get(request, "args"), 0) : NULL;
        json_int_t times = json_integer_value(json_object_get(request, "times"));
        struct cloche_file files[16];
        struct cloche_run_options opt = {
                .kind = is_bare ? CLOCHE_EVALUATE : CLOCHE_CALL,
                .language = language,
                .code = json_string_value(json_object_get(request, "code")),
                .function = json_string_value(json_object_get(request, "function")),
                .args = args,
                .prefix = prefix,
                .limits = limits_of(request),
                .files = files,
                .file_count = files_of(request, files, 16),
                .omit_changes = !json_is_true(json_object_get(request, "changes")),
        };
        cloche_run *runs[TIMES_MAX];
        int count = 0;

        rest(engine, json_integer_value(json_object_get(request, "pause")));
        do {
                struct cloche_err e = {0};

                if (cloche_run_start(engine, &opt, &runs[count], &e) < 0)
                        (void)fail("start", &e);
                else
                        count++;
        } while (--times > 0 && count < TIMES_MAX);
        for (int i = 0; i < count; i++)
                finish(runs[i]);
        free(args);
}

int main(int argc, char **argv)
{
        struct cloche_engine_options options = {.optional_guards = getenv("CLOCHE_OPTIONAL_ALL") ? ~0u : 0};
        struct cloche_prefix_options setup = {.on_bridge = on_bridge, .globals = globals, .imports = imports};
        struct cloche_err e = {0};
        cloche_engine *engine;
        cloche_prefix *prefix;
        static char line[4 << 20];
        char *failure = NULL;
        int code = 0;

        if (argc < 3)
                return 2;
        is_bare = strncmp(argv[1], "bare", 4) == 0; /* or bare-LANGUAGE */
        if (is_bare)
                argv[1] = argv[1][4] == '-' ? argv[1] + 5 : (char *)"javascript";
        setup.bare = is_bare;
        if (strcmp(argv[1], "c") == 0 || strcmp(argv[1], "cpp") == 0)
                setup.globals = setup.imports = NULL; /* they have no way to the host */
        setup.language = argv[1];
        setup.code = argv[2];
        options.spares = argc > 3 ? (atoi(argv[3]) ? (unsigned)atoi(argv[3]) : CLOCHE_NO_SPARES) : 0;
        options.runs_max = argc > 4 ? (unsigned)atoi(argv[4]) : 0;
        options.boxes_ahead = argc > 5 && *argv[5] ? (atoi(argv[5]) ? (unsigned)atoi(argv[5]) : CLOCHE_NO_SPARES) : 0;
        if (cloche_engine_new(&options, &engine, &e) < 0)
                return fail("engine", &e);
        if (cloche_prefix_new(engine, &setup, &prefix, &failure, &e) < 0) {
                code = fail("prefix", &e);
                free(failure);
                cloche_engine_free(engine);
                return code;
        }
        while (fgets(line, sizeof(line), stdin)) {
                json_t *request = json_loads(line, 0, NULL);

                if (request)
                        serve(engine, prefix, argv[1], request);
                json_decref(request);
        }
        answer_hung();
        cloche_prefix_free(prefix);
        cloche_engine_free(engine);
        return 0;
}
