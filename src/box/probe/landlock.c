/* Rules of the programs that confine themselves with Landlock. Runs in: cloche-probe on the host,
 * as the user of the engine that started it, far from any guest. */
#include "probe.h"

#include "jail/filter/landlock.h"

#include <cloche/guards.h>

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define SEEN_BYTES 220 /* as in struct cloche_landlocked_report */
#define READABLE "/usr"

static const char *const writable_places[] = {"/dev/shm", "/tmp", "/var/tmp"};
static const char *writable; /* the one in which a file without a name can be made */

static int open_and_close(const char *path, int flags)
{
        int fd = open(path, flags | O_CLOEXEC, 0600);

        if (fd >= 0)
                close(fd);
        return fd < 0 ? -1 : 0;
}

/* -- the attempts ----------------------------------------------------------------------------------------------- */

static int list_readable(void)
{
        return open_and_close(READABLE, O_RDONLY | O_DIRECTORY);
}

static int write_nameless(void)
{
        return open_and_close(writable, O_WRONLY | O_TMPFILE);
}

static int read_other(void)
{
        return open_and_close("/proc/self/status", O_RDONLY);
}

static int list_root(void)
{
        return open_and_close("/", O_RDONLY | O_DIRECTORY);
}

static int listen_tcp(void)
{
        const struct sockaddr_in anywhere = {.sin_family = AF_INET};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        return bind(fd, (const struct sockaddr *)&anywhere, sizeof(anywhere));
}

/* No process listens at the port: the network refuses a permitted connection. */
static int connect_tcp(void)
{
        const struct sockaddr_in nobody = {.sin_family = AF_INET,
                                           .sin_port = htons(1),
                                           .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0),
            r = connect(fd, (const struct sockaddr *)&nobody, sizeof(nobody));

        return r < 0 && errno != EACCES && errno != EPERM ? 0 : r;
}

static int signal_parent(void)
{
        return kill(getppid(), 0);
}

/* The first ABI with which the rules of each program refuse it; 0: permitted. */
static const struct {
        const char *name;
        int (*try)(void);
        int refused_since[CLOCHE_LANDLOCKED_COUNT];
} trials[] = {
        {"listing " READABLE, list_readable, {[CLOCHE_LANDLOCKED_EGRESS] = 1}},
        {"writing where it may", write_nameless, {[CLOCHE_LANDLOCKED_EGRESS] = 1}},
        {"reading /proc/self/status", read_other, {1, 1, 1, 1}},
        {"listing /", list_root, {1, 1, 1, 1}},
        {"listening on TCP", listen_tcp, {4, 4, 4, 4}},
        {"connecting by TCP",
         connect_tcp,
         {[CLOCHE_LANDLOCKED_FS] = 4, [CLOCHE_LANDLOCKED_SYNC] = 4, [CLOCHE_LANDLOCKED_IMAGE] = 4}},
        {"signals to others", signal_parent, {6, 6, 6, 6}},
};
#define TRIALS (sizeof(trials) / sizeof(trials[0]))

/* -- the programs ----------------------------------------------------------------------------------------------- */

static const char *const names[CLOCHE_LANDLOCKED_COUNT] = {
#define CLOCHE_LANDLOCKED(symbol, name, doc) [CLOCHE_LANDLOCKED_##symbol] = name,
#include <cloche/landlocked.def>
#undef CLOCHE_LANDLOCKED
};

/* The same rules as in the program itself: helpers/fs/main.c, helpers/sync/main.c,
 * helpers/image/confine.c, helpers/egress/guard.c. */
static int enter_rules(enum cloche_landlocked program, int *ret_abi, struct cloche_err *e)
{
        int readable_fd = open(READABLE, O_PATH | O_DIRECTORY | O_CLOEXEC),
            writable_fd = open(writable, O_PATH | O_DIRECTORY | O_CLOEXEC);
        const struct landlock_place mount[] = {{readable_fd, 0}, {writable_fd, 1}},
                                    sync[] = {{writable_fd, LANDLOCK_TREE}, {readable_fd, 0}};

        switch (program) {
        case CLOCHE_LANDLOCKED_FS:
                return landlock_enter(mount, 2, ret_abi, e);
        case CLOCHE_LANDLOCKED_SYNC:
        case CLOCHE_LANDLOCKED_IMAGE:
                return landlock_enter(sync, 2, ret_abi, e);
        case CLOCHE_LANDLOCKED_EGRESS:
                return landlock_leave_connections(ret_abi, e);
        case CLOCHE_LANDLOCKED_COUNT:
                break;
        }
        abort();
}

static void add(char text[SEEN_BYTES], const char *word)
{
        size_t size = strlen(text);

        snprintf(text + size, SEEN_BYTES - size, "%s%s", size ? ", " : "", word);
}

/* True if everything is open without the rules; otherwise a refusal would prove nothing. */
static int is_tried(void)
{
        for (size_t i = 0; i < TRIALS; i++)
                if (trials[i].try() < 0)
                        return printf("absent\t%s: %s without any rules\n", trials[i].name, strerror(errno)), 0;
        return 1;
}

static void try_program(enum cloche_landlocked program)
{
        char permitted[SEEN_BYTES] = "", refused[SEEN_BYTES] = "";
        struct cloche_err e = {0};
        int abi = 0;

        printf("%s\t", names[program]);
        if (!is_tried())
                return;
        if (enter_rules(program, &abi, &e) < 0) {
                printf("absent\t%s\n", e.msg);
                return;
        }
        for (size_t i = 0; i < TRIALS; i++) {
                int since = trials[i].refused_since[program],
                    is_refused = trials[i].try() < 0 && (errno == EACCES || errno == EPERM);

                if (is_refused != (since > 0 && abi >= since)) {
                        printf("absent\tABI %d: %s is %s\n", abi, trials[i].name, is_refused ? "refused" : "open");
                        return;
                }
                add(is_refused ? refused : permitted, trials[i].name);
        }
        printf("enforced\tABI %d: refused %s; open %s\n", abi, refused, permitted);
}

int landlock_try_all(void)
{
        for (size_t i = 0; i < sizeof(writable_places) / sizeof(writable_places[0]) && !writable; i++)
                if (open_and_close(writable_places[i], O_WRONLY | O_TMPFILE) == 0)
                        writable = writable_places[i];
        if (!writable || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return fprintf(stderr, "cloche-probe: there is no place to write to\n"), 1;
        for (int program = 0; program < CLOCHE_LANDLOCKED_COUNT; program++) {
                pid_t pid;

                fflush(stdout);
                pid = fork();
                if (pid == 0) {
                        try_program((enum cloche_landlocked)program);
                        return 0;
                }
                if (pid < 0 || waitpid(pid, NULL, 0) < 0)
                        return 1;
        }
        return 0;
}
