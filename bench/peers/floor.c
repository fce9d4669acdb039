/* The kernel's own time for the unavoidable steps: fork, exit, wait, and one hop over a unix
 * socket. Prints JSON lines; see README.md.  floor [--quick] [--only PREFIX] */
#define _GNU_SOURCE
#include <err.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BLOCKS = 10, WARM_UP = 10, MESSAGE = 100, HEAP = 20 << 20, HUGE_PAGE = 2 << 20, SAMPLES = 2000 };

struct floor {
        const char *peer, *question, *note;
        bool (*setup)(const struct floor *floor); /* false: this machine cannot */
        double (*sample)(void);
        void (*teardown)(void);
        int advice;
        int echo_cpu; /* nth allowed CPU for the echoing process */
        const char *skipped;
        double *ms;
        int count;
};

static double now_ms(void)
{
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* --- fork --- */

static void *heap_mapping;
static int reply[2];

static long huge_kb(void)
{
        char line[256];
        long kb = 0;
        FILE *smaps = fopen("/proc/self/smaps_rollup", "re");
        while (smaps && fgets(line, sizeof line, smaps))
                sscanf(line, "AnonHugePages: %ld", &kb);
        if (smaps)
                fclose(smaps);
        return kb;
}

static bool setup_fork(const struct floor *floor)
{
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, reply))
                err(1, "socketpair");
        if (!floor->advice)
                return true;
        heap_mapping = mmap(NULL, HEAP + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (heap_mapping == MAP_FAILED)
                err(1, "mmap");
        char *heap = (char *)(((size_t)heap_mapping + HUGE_PAGE - 1) & -(size_t)HUGE_PAGE);
        madvise(heap_mapping, HEAP + HUGE_PAGE, MADV_NOHUGEPAGE);
        madvise(heap, HEAP, floor->advice);
        memset(heap, 1, HEAP);
        return floor->advice != MADV_HUGEPAGE || huge_kb() >= HEAP / 1024;
}

static void teardown_fork(void)
{
        close(reply[0]);
        close(reply[1]);
        if (heap_mapping)
                munmap(heap_mapping, HEAP + HUGE_PAGE);
        heap_mapping = NULL;
}

static double sample_fork_exit_wait(void)
{
        double started = now_ms();
        pid_t pid = fork();
        if (pid < 0)
                err(1, "fork");
        if (!pid)
                _exit(0);
        waitpid(pid, NULL, 0);
        return now_ms() - started;
}

static double sample_fork_reply(void)
{
        char byte;
        double started = now_ms();
        pid_t pid = fork();
        if (pid < 0)
                err(1, "fork");
        if (!pid)
                _exit(write(reply[1], "x", 1) != 1);
        if (read(reply[0], &byte, 1) != 1)
                err(1, "reply");
        double took = now_ms() - started;
        waitpid(pid, NULL, 0);
        return took;
}

/* --- unix socket --- */

static int echo_fd = -1;
static pid_t echo_pid;
static cpu_set_t allowed;

static bool pin(int nth)
{
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
                if (!CPU_ISSET(cpu, &allowed) || nth-- > 0)
                        continue;
                cpu_set_t one;
                CPU_ZERO(&one);
                CPU_SET(cpu, &one);
                return !sched_setaffinity(0, sizeof one, &one);
        }
        return false;
}

static void echo(int fd)
{
        char message[MESSAGE];
        while (recv(fd, message, sizeof message, MSG_WAITALL) == MESSAGE &&
               send(fd, message, sizeof message, 0) == MESSAGE)
                ;
        _exit(0);
}

static bool setup_echo(const struct floor *floor)
{
        int pair[2];
        if (CPU_COUNT(&allowed) <= floor->echo_cpu)
                return false;
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
                err(1, "socketpair");
        echo_pid = fork();
        if (echo_pid < 0)
                err(1, "fork");
        if (!echo_pid) {
                close(pair[0]);
                pin(floor->echo_cpu);
                echo(pair[1]);
        }
        close(pair[1]);
        echo_fd = pair[0];
        return pin(0);
}

static double sample_round_trip(void)
{
        char message[MESSAGE] = {0};
        double started = now_ms();
        if (send(echo_fd, message, sizeof message, 0) != MESSAGE ||
            recv(echo_fd, message, sizeof message, MSG_WAITALL) != MESSAGE)
                err(1, "round trip");
        return now_ms() - started;
}

static void teardown_echo(void)
{
        if (echo_fd < 0)
                return;
        close(echo_fd);
        waitpid(echo_pid, NULL, 0);
        echo_fd = -1;
        sched_setaffinity(0, sizeof allowed, &allowed);
}

/* --- table, run, rows --- */

#define FORK .setup = setup_fork, .teardown = teardown_fork
#define EXIT "fork_exit_wait", FORK, .sample = sample_fork_exit_wait
#define REPLY "fork_reply", FORK, .sample = sample_fork_reply
#define ECHO "socket_round_trip", .setup = setup_echo, .teardown = teardown_echo, .sample = sample_round_trip

static struct floor floors[] = {
        {"floor/c-tiny", EXIT, .note = "C process of a few pages"},
        {"floor/c-20mb-4k", EXIT, .note = "20 MB touched, 4 KB pages", .advice = MADV_NOHUGEPAGE},
        {"floor/c-20mb-huge", EXIT, .note = "20 MB touched, huge pages", .advice = MADV_HUGEPAGE},
        {"floor/c-tiny", REPLY, .note = "until one byte arrives"},
        {"floor/c-20mb-4k", REPLY, .note = "until one byte arrives", .advice = MADV_NOHUGEPAGE},
        {"floor/c-20mb-huge", REPLY, .note = "until one byte arrives", .advice = MADV_HUGEPAGE},
        {"floor/c-one-cpu", ECHO, .note = "100 bytes each way, both processes on one CPU", .echo_cpu = 0},
        {"floor/c-two-cpus", ECHO, .note = "100 bytes each way, a CPU each", .echo_cpu = 1},
};

#define FLOORS (sizeof floors / sizeof *floors)

static void measure_block(struct floor *floor, int count)
{
        if (floor->setup(floor)) {
                for (int i = 0; i < WARM_UP; i++)
                        floor->sample();
                for (int i = 0; i < count; i++)
                        floor->ms[floor->count++] = floor->sample();
        } else {
                floor->skipped = "this machine has no second CPU, or no huge pages to give";
        }
        floor->teardown();
}

static bool is_chosen(const struct floor *floor, const char *only)
{
        return !strncmp(floor->peer, only, strlen(only));
}

static int ascending(const void *a, const void *b)
{
        double x = *(const double *)a, y = *(const double *)b;
        return (x > y) - (x < y);
}

static double percentile(const struct floor *floor, double share)
{
        return floor->ms[(int)(share * (floor->count - 1) + 0.5)];
}

static void print_row(struct floor *floor)
{
        printf("{\"peer\": \"%s\", \"question\": \"%s\", ", floor->peer, floor->question);
        if (floor->skipped) {
                printf("\"skipped\": \"%s\"}\n", floor->skipped);
                return;
        }
        qsort(floor->ms, (size_t)floor->count, sizeof *floor->ms, ascending);
        printf("\"n\": %d, \"p50_ms\": %.4f, \"p99_ms\": %.4f, \"note\": \"%s\"}\n", floor->count,
               percentile(floor, 0.5), percentile(floor, 0.99), floor->note);
}

int main(int argc, char **argv)
{
        int samples = SAMPLES;
        const char *only = "";
        for (int i = 1; i < argc; i++) {
                if (!strcmp(argv[i], "--quick"))
                        samples = SAMPLES / 10;
                else if (!strcmp(argv[i], "--only") && i + 1 < argc)
                        only = argv[++i];
                else
                        errx(2, "usage: floor [--quick] [--only PREFIX]");
        }
        sched_getaffinity(0, sizeof allowed, &allowed);
        for (size_t i = 0; i < FLOORS; i++)
                if (!(floors[i].ms = calloc((size_t)samples, sizeof(double))))
                        err(1, "calloc");
        for (int block = 0; block < BLOCKS; block++)
                for (size_t i = 0; i < FLOORS; i++)
                        if (is_chosen(&floors[i], only) && !floors[i].skipped)
                                measure_block(&floors[i], samples / BLOCKS);
        for (size_t i = 0; i < FLOORS; i++)
                if (is_chosen(&floors[i], only))
                        print_row(&floors[i]);
        return 0;
}
