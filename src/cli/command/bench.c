/* cloche bench: measure the cost of a run here, cold, forked and prepared. Prints a table, with
 * ratios to a floor of the same run.
 * Runs in: the CLI, as its user; a run that root started drops to a user of its own first. */
#include "cli/output/memory.h"
#include "cli/run/helper.h"
#include "cli/run/session.h"
#include "cli/run/store.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define RUNS 100
#define WARM_UP 3
#define PAUSE_MS 30 /* between runs: the last boxes end, and spares are made */
#define BRIDGE_CALLS 200
#define BRIDGE_RUNS 5
#define BOXES_AHEAD 2
#define ROWS_MAX 8
#define FLOOR "fork, exit and wait of this process"

/* Samples per language: an empty run, and 200 host calls in sequence. */
static const struct sample {
        const char *language, *code;
        const char *asking; /* NULL: no host functions */
        int is_cold_only;
} sample_programs[] = {
        {"python", "return 1", "for i in range(200): reply(i)\nreturn 1"},
        {"javascript", "return 1", "for (let i = 0; i < 200; i++) await reply(i); return 1"},
        {"typescript", "return 1 as number", "for (let i: number = 0; i < 200; i++) await reply(i); return 1"},
        {"ruby", "1", "200.times { |i| reply(i) }\n1"},
        {"php", "return 1;", "for ($i = 0; $i < 200; $i++) reply($i); return 1;"},
        {"bash", "echo 1", "for ((i = 0; i < 200; i++)); do reply $i >/dev/null; done; echo 1"},
        {"c", "int one(void) { return 1; }", NULL},
        {"cpp", "int one() { return 1; }", NULL},
        {"perl", "1", NULL, 1},
};

struct row {
        char question[64];
        size_t count;
        double p50, p99;
        double per_second; /* 0: no concurrent runs */
};

struct bench {
        struct cli_request *request;
        const struct sample *sample;
        struct stored stored;
        struct cloche_run_options run;
        cloche_engine *forking, *ahead, *prepared; /* nothing is prewarmed; boxes without a child; spares */
        cloche_prefix *prefixes[3];
        struct privileged_helper meter;
        unsigned templates; /* alive in an engine */
        int has_meter;
        struct spare_memory memory;
        struct row rows[ROWS_MAX];
        size_t row_count;
};

struct samples {
        double *ms;
        size_t count, room;
};

/* -- samples -------------------------------------------------------------------------------------------------- */

static double now_ms(void)
{
        return (double)clock_now_ns() / 1e6;
}

static void add_sample(struct samples *samples, double ms)
{
        if (samples->count < samples->room)
                samples->ms[samples->count++] = ms;
}

static int compare(const void *a, const void *b)
{
        double one = *(const double *)a, other = *(const double *)b;

        return one < other ? -1 : one > other;
}

/* Nearest rank. */
static double percentile(const struct samples *samples, unsigned percent)
{
        size_t rank = (samples->count * percent + 99) / 100;

        return samples->count ? samples->ms[rank ? rank - 1 : 0] : 0;
}

static void add_row(struct bench *bench, const char *question, struct samples *samples, double per_second)
{
        struct row *row = &bench->rows[bench->row_count++];

        qsort(samples->ms, samples->count, sizeof(double), compare);
        *row = (struct row){.count = samples->count,
                            .p50 = percentile(samples, 50),
                            .p99 = percentile(samples, 99),
                            .per_second = per_second};
        snprintf(row->question, sizeof(row->question), "%s", question);
}

static int make_samples(struct samples *samples, size_t room)
{
        *samples = (struct samples){.ms = calloc(room, sizeof(double)), .room = room};
        return samples->ms ? 0 : cli_bad("out of memory");
}

static void progress(const char *question, size_t done, size_t of)
{
        if (isatty(STDERR_FILENO))
                fprintf(stderr, done < of ? "\r\033[K%s: %zu of %zu" : "\r\033[K", question, done, of);
}

/* -- one run -------------------------------------------------------------------------------------------------- */

static void drive(cloche_engine *engine, double ms)
{
        double end = now_ms() + ms;

        for (double left = ms; left > 0; left = end - now_ms()) {
                struct pollfd polled = {.fd = cloche_engine_fd(engine), .events = POLLIN};
                int timeout = cloche_engine_timeout_ms(engine);

                poll(&polled, 1, timeout >= 0 && timeout < left ? timeout : (int)left + 1);
                cloche_engine_turn(engine);
        }
}

/* Check the result: measuring failed runs is meaningless. */
static int finish(cloche_run *run)
{
        cloche_result *result = NULL;
        struct cloche_err e = {0};
        int code = cloche_run_wait(run, &result, &e) < 0 ? cli_fail(&e) : 0;

        if (code == 0 && cloche_result_status(result) != CLOCHE_STATUS_SUCCESS) {
                cli_bad("a run ended with %s: %s: %s", cloche_status_name(cloche_result_status(result)),
                        cloche_result_error_type(result), cloche_result_error_message(result));
                code = 1;
        }
        cloche_result_free(result);
        return code;
}

static int run_once(cloche_engine *engine, const struct cloche_run_options *opt, double *ret_ms)
{
        double start = now_ms();
        cloche_run *run = NULL;
        struct cloche_err e = {0};
        int code = cloche_run_start(engine, opt, &run, &e) < 0 ? cli_fail(&e) : 0;

        if (code == 0)
                code = finish(run);
        *ret_ms = now_ms() - start;
        cloche_run_free(run);
        return code;
}

/* -- measurements --------------------------------------------------------------------------------------------- */

static int one_by_one(struct bench *bench, const char *question, cloche_engine *engine,
                      const struct cloche_run_options *opt)
{
        size_t runs = bench->request->runs;
        struct samples samples;
        int code = make_samples(&samples, runs);

        for (size_t i = 0; code == 0 && i < WARM_UP + runs; i++) {
                double ms;

                code = run_once(engine, opt, &ms);
                if (i >= WARM_UP)
                        add_sample(&samples, ms);
                drive(engine, PAUSE_MS);
                progress(question, i, WARM_UP + runs);
        }
        progress(question, 1, 1);
        if (code == 0)
                add_row(bench, question, &samples, 0);
        free(samples.ms);
        return code;
}

static int measure_floor(struct bench *bench)
{
        struct samples samples;
        int code = make_samples(&samples, bench->request->runs);

        for (size_t i = 0; code == 0 && i < bench->request->runs; i++) {
                double start = now_ms();
                pid_t pid = fork();

                if (pid == 0)
                        _exit(0);
                if (pid < 0 || waitpid(pid, NULL, 0) < 0)
                        code = cli_bad("cannot fork: %s", strerror(errno));
                add_sample(&samples, now_ms() - start);
        }
        if (code == 0)
                add_row(bench, FLOOR, &samples, 0);
        free(samples.ms);
        return code;
}

struct flight {
        cloche_run *run;
        double start, end;
};

static void on_landed(void *data, cloche_run *run)
{
        struct flight *flight = data;

        (void)run;
        flight->end = now_ms();
}

static int land(struct flight *flight, struct samples *samples)
{
        int code = finish(flight->run);

        add_sample(samples, flight->end - flight->start);
        cloche_run_free(flight->run);
        *flight = (struct flight){0};
        return code;
}

static int take_off(cloche_engine *engine, struct cloche_run_options opt, struct flight *flight)
{
        struct cloche_err e = {0};

        opt.on_end = on_landed;
        opt.data = flight;
        flight->start = now_ms();
        return cloche_run_start(engine, &opt, &flight->run, &e) < 0 ? cli_fail(&e) : 0;
}

static int fly(cloche_engine *engine, const struct cloche_run_options *opt, struct flight *flights, size_t at_once,
               struct samples *samples)
{
        size_t started = 0;
        int code = 0;

        while (code == 0 && samples->count < samples->room) {
                for (size_t i = 0; code == 0 && i < at_once; i++) {
                        if (flights[i].end > 0)
                                code = land(&flights[i], samples);
                        if (code == 0 && !flights[i].run && started < samples->room) {
                                code = take_off(engine, *opt, &flights[i]);
                                started++;
                        }
                }
                if (code == 0 && samples->count < samples->room) {
                        struct pollfd polled = {.fd = cloche_engine_fd(engine), .events = POLLIN};

                        poll(&polled, 1, cloche_engine_timeout_ms(engine));
                        cloche_engine_turn(engine);
                }
                progress("many at once", samples->count, samples->room);
        }
        progress("", 1, 1);
        for (size_t i = 0; i < at_once; i++)
                cloche_run_free(flights[i].run);
        return code;
}

static int at_once(struct bench *bench, cloche_engine *engine, const struct cloche_run_options *opt)
{
        size_t width = bench->request->concurrency,
               runs = bench->request->runs < 4 * width ? 4 * width : bench->request->runs;
        struct flight *flights = calloc(width, sizeof(*flights));
        double start = now_ms();
        struct samples samples;
        char question[64];
        int code = make_samples(&samples, runs);

        if (code == 0)
                code = flights ? fly(engine, opt, flights, width, &samples) : cli_bad("out of memory");
        snprintf(question, sizeof(question), "%s, %zu at once", bench->request->cold ? "cold calls" : "runs", width);
        if (code == 0)
                add_row(bench, question, &samples, (double)runs * 1000 / (now_ms() - start));
        free(flights);
        free(samples.ms);
        return code;
}

struct echo {
        struct samples samples;
        double answered; /* 0: the run's first call is not a round trip */
};

static void on_call(void *data, cloche_bridge_call *call)
{
        struct echo *echo = data;

        if (echo->answered > 0)
                add_sample(&echo->samples, now_ms() - echo->answered);
        echo->answered = now_ms();
        (void)cloche_bridge_answer(call, cloche_bridge_call_args(call), NULL);
}

/* Measures from an answer to the next call. */
static int measure_bridge(struct bench *bench)
{
        struct cloche_run_options opt = {.kind = CLOCHE_CALL, .language = bench->run.language, .warm = 1};
        struct echo echo = {0};
        double ms;
        int code = make_samples(&echo.samples, BRIDGE_RUNS * (BRIDGE_CALLS - 1));

        opt.code = bench->sample->asking;
        opt.globals = "{\"reply\": {\"kind\": \"function\"}}";
        opt.on_bridge = on_call;
        opt.bridge_data = &echo;
        for (size_t i = 0; code == 0 && i < BRIDGE_RUNS; i++) {
                echo.answered = 0;
                code = run_once(bench->forking, &opt, &ms);
        }
        if (code == 0)
                add_row(bench, "call of a host function and back", &echo.samples, 0);
        free(echo.samples.ms);
        return code;
}

static int measure_memory(struct bench *bench)
{
        drive(bench->prepared, 20 * PAUSE_MS);
        bench->has_meter = 0;
        if (privileged_helper_run(&bench->meter, &bench->memory, sizeof(bench->memory)) != 0)
                bench->memory = (struct spare_memory){0};
        return 0;
}

static int measure_warm(struct bench *bench)
{
        struct cloche_run_options opt = bench->run;
        int code;

        opt.warm = 1;
        opt.prefix = bench->prefixes[0];
        code = one_by_one(bench, "run forked on demand", bench->forking, &opt);
        if (code == 0 && bench->sample->asking)
                code = measure_bridge(bench);
        if (code == 0 && !bench->prepared)
                return at_once(bench, bench->forking, &opt);
        opt.prefix = bench->prefixes[1];
        if (code == 0)
                code = one_by_one(bench, "run forked into a box made ahead", bench->ahead, &opt);
        opt.prefix = bench->prefixes[2];
        if (code == 0)
                code = one_by_one(bench, "run from a spare", bench->prepared, &opt);
        if (code == 0)
                code = measure_memory(bench);
        return code ? code : at_once(bench, bench->prepared, &opt);
}

static int measure(struct bench *bench)
{
        int code = measure_floor(bench);

        if (code == 0 && !bench->request->prefix)
                code = one_by_one(bench, "cold call", bench->forking, &bench->run);
        if (code)
                return code;
        return bench->request->cold ? at_once(bench, bench->forking, &bench->run) : measure_warm(bench);
}

/* -- table ---------------------------------------------------------------------------------------------------- */

static double ratio(const struct bench *bench, const struct row *row)
{
        return bench->rows[0].p50 > 0 ? row->p50 / bench->rows[0].p50 : 0;
}

static const char *source(const struct bench *bench)
{
        return bench->memory.is_group ? "memory control group" : "PSS, smaps_rollup";
}

static void print_table(const struct bench *bench)
{
        printf("%-40s %7s %10s %10s %9s\n", "question", "n", "p50 ms", "p99 ms", "ratio");
        for (const struct row *row = bench->rows; row < bench->rows + bench->row_count; row++)
                printf("%-40s %7zu %10.3f %10.3f %9.1f\n", row->question, row->count, row->p50, row->p99,
                       ratio(bench, row));
        for (const struct row *row = bench->rows; row < bench->rows + bench->row_count; row++)
                if (row->per_second > 0)
                        printf("%s: %.1f a second\n", row->question, row->per_second);
        if (bench->memory.boxes)
                printf("memory of an idle spare: %.2f MiB (%s, mean of %u)\n",
                       (double)bench->memory.bytes / bench->memory.boxes / (1 << 20), source(bench),
                       bench->memory.boxes);
        printf("ratio: p50 to that of \"%s\", in this same run\n", FLOOR);
}

static void print_json(const struct bench *bench)
{
        json_t *rows = json_array(), *memory = NULL, *all;
        char *text;

        for (const struct row *row = bench->rows; row < bench->rows + bench->row_count; row++)
                json_array_append_new(rows, json_pack("{s:s, s:I, s:f, s:f, s:f, s:o*}", "question", row->question, "n",
                                                      (json_int_t)row->count, "p50Ms", row->p50, "p99Ms", row->p99,
                                                      "ratio", ratio(bench, row), "perSecond",
                                                      row->per_second > 0 ? json_real(row->per_second) : NULL));
        if (bench->memory.boxes)
                memory = json_pack("{s:I, s:I, s:s}", "boxes", (json_int_t)bench->memory.boxes, "bytesEach",
                                   (json_int_t)(bench->memory.bytes / bench->memory.boxes), "source", source(bench));
        all = json_pack("{s:s, s:s?, s:s, s:o, s:o*}", "language", bench->run.language, "prefix",
                        bench->request->prefix, "floor", FLOOR, "rows", rows, "spareMemory", memory);
        text = json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(6));
        printf("%s\n", text ? text : "{}");
        free(text);
        json_decref(all);
}

/* -- engines -------------------------------------------------------------------------------------------------- */

static int start_engines(struct bench *bench)
{
        struct cloche_engine_options opt = bench->request->engine;
        struct cloche_err e = {0};
        int has_spares = opt.spares != CLOCHE_NO_SPARES && !bench->request->cold, r;

        opt.runs_max = (unsigned)bench->request->concurrency;
        opt.spares = CLOCHE_NO_SPARES;
        r = session_start(&opt, &bench->forking, &e);
        opt.boxes_ahead = BOXES_AHEAD;
        if (r == 0 && has_spares)
                r = session_start(&opt, &bench->ahead, &e);
        opt.boxes_ahead = 0;
        opt.spares = bench->request->engine.spares;
        if (r == 0 && has_spares) /* the last: the meter looks at its keeper */
                r = session_start(&opt, &bench->prepared, &e);
        if (r == 0)
                session_notice(bench->request, bench->forking);
        if (r == 0)
                r = session_drop_privilege(&e);
        session_end_by_signal(1);
        return r < 0 ? cli_fail(&e) : 0;
}

static int set_up(struct bench *bench)
{
        int code = 0;

        if (!bench->request->prefix)
                return 0;
        code = session_set_up(bench->request, bench->forking, &bench->stored.prefix, &bench->prefixes[0]);
        if (code == 0 && bench->prepared)
                code = session_set_up(bench->request, bench->ahead, &bench->stored.prefix, &bench->prefixes[1]);
        if (code == 0 && bench->prepared)
                code = session_set_up(bench->request, bench->prepared, &bench->stored.prefix, &bench->prefixes[2]);
        session_end_by_signal(1);
        return code;
}

/* Create the meter first: it holds nothing of an engine and keeps its privilege. */
static int work(struct bench *bench)
{
        int code = privileged_helper_prepare(&bench->meter, memory_of_spares, &bench->templates);

        bench->has_meter = code == 0;
        if (code == 0)
                code = start_engines(bench);
        if (code == 0)
                code = set_up(bench);
        if (code == 0)
                code = measure(bench);
        if (code == 0 && bench->request->json)
                print_json(bench);
        else if (code == 0)
                print_table(bench);
        for (int i = 0; i < 3; i++)
                cloche_prefix_free(bench->prefixes[i]);
        cloche_engine_free(bench->prepared);
        cloche_engine_free(bench->ahead);
        cloche_engine_free(bench->forking);
        if (bench->has_meter)
                privileged_helper_cancel(&bench->meter);
        return code;
}

static int run(struct cli_request *request)
{
        long processors = sysconf(_SC_NPROCESSORS_ONLN);
        struct bench bench = {.request = request, .run = {.kind = CLOCHE_CALL, .omit_changes = 1}};
        int code = 0;

        if (request->cold && request->prefix)
                return cli_bad("--cold: a cold call is not forked from a prefix");
        if (request->prefix)
                code = cli_store_load(request->prefix, &bench.stored);
        if (code)
                return code;
        request->runs = request->runs ? request->runs : RUNS;
        request->concurrency = request->concurrency ? request->concurrency : processors > 0 ? (uint64_t)processors : 1;
        bench.run.language = request->positional[0] ? request->positional[0]
                             : request->prefix      ? bench.stored.prefix.language
                                                    : "python";
        for (size_t i = 0; i < sizeof(sample_programs) / sizeof(sample_programs[0]); i++)
                if (strcmp(sample_programs[i].language, bench.run.language) == 0)
                        bench.sample = &sample_programs[i];
        if (!bench.sample && !request->code) {
                store_done(&bench.stored);
                return cli_bad("there is no sample program in '%s': give one with -c", bench.run.language);
        }
        bench.sample = bench.sample ? bench.sample : &(const struct sample){0};
        bench.run.code = request->code ? request->code : bench.sample->code;
        request->cold |= bench.sample->is_cold_only;
        bench.run.limits = request->run.limits;
        bench.templates = request->prefix ? 2 : 1;
        code = work(&bench);
        store_done(&bench.stored);
        return code;
}

const struct cli_handler command_bench = {
        .run = run,
        .positional_max = 1,
};
