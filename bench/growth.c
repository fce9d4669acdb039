/* Growth of memory with prefixes, and with pooled children. One JSON line a size:
 *   {"question": "prefixes", "count": 100, "group_bytes": …, "ms_each": …}    count different set-ups, up and idle
 *   {"question": "spares", "count": 1000, "group_bytes": …, "ms_each": …}     count forked children of one set-up
 * group_bytes is the kernel's charge for all boxes together, page tables and namespaces included (memory.usage of
 * the keeper's group), less the charge before. Usage: bench-growth LANGUAGE prefixes|spares COUNT… */
#include <cloche/cloche.h>
#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static double now_ms(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* The group of the one keeper whose parent is this process, found by name below this process's group. Version 1. */
static long long group_bytes(void)
{
        char line[512], path[1024] = "", file[1400];
        FILE *f = fopen("/proc/self/cgroup", "re");
        long long sum = -1;
        DIR *dir;

        while (f && fgets(line, sizeof(line), f))
                if (strstr(line, ":memory:"))
                        snprintf(path, sizeof(path), "/sys/fs/cgroup/memory%.*s",
                                 (int)strcspn(strstr(line, ":memory:") + 8, "\n"), strstr(line, ":memory:") + 8);
        if (f)
                fclose(f);
        dir = path[0] ? opendir(path) : NULL;
        for (struct dirent *entry; dir && (entry = readdir(dir));) {
                long long bytes = 0;

                if (strncmp(entry->d_name, "cloche-", 7) != 0)
                        continue;
                snprintf(file, sizeof(file), "%s/%s/memory.usage_in_bytes", path, entry->d_name);
                f = fopen(file, "re");
                if (f && fscanf(f, "%lld", &bytes) == 1)
                        sum = sum < 0 ? bytes : sum + bytes;
                if (f)
                        fclose(f);
        }
        if (dir)
                closedir(dir);
        return sum;
}

static void turn_until_quiet(cloche_engine *engine, int quiet_ms)
{
        for (double quiet = now_ms(); now_ms() - quiet < quiet_ms;) {
                struct pollfd polled = {.fd = cloche_engine_fd(engine), .events = POLLIN};

                if (poll(&polled, 1, 5) > 0)
                        quiet = now_ms();
                cloche_engine_turn(engine);
        }
}

static void print(const char *question, int count, long long bytes, double ms)
{
        printf("{\"question\": \"%s\", \"count\": %d, \"group_bytes\": %lld, \"bytes_each\": %lld, \"ms_each\": "
               "%.2f}\n",
               question, count, bytes, bytes / count, ms / count);
        fflush(stdout);
}

static int measure_prefixes(const char *language, int count, struct cloche_err *e)
{
        cloche_prefix **prefixes = calloc((size_t)count, sizeof(cloche_prefix *)), *first = NULL;
        struct cloche_prefix_options opt = {.language = language, .code = ""};
        struct cloche_engine_options options = {.spares = CLOCHE_NO_SPARES};
        cloche_engine *engine;
        long long before;
        double start;
        int r = cloche_engine_new(&options, &engine, e);

        if (r < 0 || !prefixes)
                return r;
        r = cloche_prefix_new(engine, &opt, &first, NULL, e); /* creates the base that all share */
        before = group_bytes();
        start = now_ms();
        for (int i = 0; r == 0 && i < count; i++) {
                char code[64];

                snprintf(code, sizeof(code), "x = %d", i);
                opt.code = code;
                r = cloche_prefix_new(engine, &opt, &prefixes[i], NULL, e);
        }
        if (r == 0)
                print("prefixes", count, group_bytes() - before, now_ms() - start);
        for (int i = 0; i < count; i++)
                cloche_prefix_free(prefixes[i]);
        cloche_prefix_free(first);
        cloche_engine_free(engine);
        free(prefixes);
        return r;
}

static int measure_spares(const char *language, int count, struct cloche_err *e)
{
        struct cloche_engine_options options = {.spares = (unsigned)count, .runs_max = 4};
        struct cloche_prefix_options setup = {.language = language, .code = "x = 5"};
        struct cloche_run_options opt = {.kind = CLOCHE_CALL, .language = language, .code = "42", .omit_changes = 1};
        cloche_engine *engine;
        cloche_prefix *prefix = NULL;
        cloche_result *result = NULL;
        cloche_run *run = NULL;
        long long before;
        double start;
        int r = cloche_engine_new(&options, &engine, e);

        if (r < 0)
                return r;
        r = cloche_prefix_new(engine, &setup, &prefix, NULL, e);
        before = group_bytes();
        start = now_ms();
        opt.prefix = prefix;
        if (r == 0)
                r = cloche_run_start(engine, &opt, &run, e);
        if (r == 0)
                r = cloche_run_wait(run, &result, e);
        cloche_result_free(result);
        cloche_run_free(run);
        if (r == 0) {
                turn_until_quiet(engine, 300);
                print("spares", count, group_bytes() - before, now_ms() - start - 300);
        }
        cloche_prefix_free(prefix);
        cloche_engine_free(engine);
        return r;
}

int main(int argc, char **argv)
{
        struct rlimit files;
        struct cloche_err e = {0};

        if (argc < 4)
                return 2;
        /* Six descriptors for each pooled child. */
        if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
                files.rlim_cur = files.rlim_max;
                setrlimit(RLIMIT_NOFILE, &files);
        }
        for (int i = 3; i < argc; i++) {
                int r = strcmp(argv[2], "spares") == 0 ? measure_spares(argv[1], atoi(argv[i]), &e)
                                                       : measure_prefixes(argv[1], atoi(argv[i]), &e);

                if (r < 0) {
                        fprintf(stderr, "bench-growth: %s\n", e.msg);
                        return 1;
                }
        }
        return 0;
}
