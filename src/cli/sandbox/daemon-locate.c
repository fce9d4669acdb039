/* The socket of the named, the system's or the user's own daemon. Runs in: the CLI, as its user. */
#include "daemon-locate.h"

#include "base/err.h"
#include "base/fd.h"
#include "user/discovery.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAM "cloched"

/* -- the program ---------------------------------------------------------------------------------------------- */

/* The order is DISCOVERY_PROGRAM of spec/discovery.def. Near: in a build tree, and as installed. */
static const char *const near[] = {"", "/../sbin", "/../libexec/cloche"};
static const char *const installed[] = {
#define DISCOVERY_DIRECTORY(users, is_checked, parent, name, doc)
#define DISCOVERY_INSTALLED(path) path,
#include <cloche/discovery-places.def>
#undef DISCOVERY_DIRECTORY
#undef DISCOVERY_INSTALLED
};
#define INSTALLED (sizeof(installed) / sizeof(installed[0]))

static int is_file(const char *path)
{
        struct stat st;

        return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

static int is_program(const char *directory, int directory_size, const char *below, char *ret, size_t size)
{
        return snprintf(ret, size, "%.*s%s/" PROGRAM, directory_size, directory, below) < (int)size && is_file(ret);
}

static int find_near(char *ret, size_t size)
{
        char own[PATH_MAX];
        ssize_t n = readlink("/proc/self/exe", own, sizeof(own) - 1);
        const char *slash;

        own[n < 0 ? 0 : n] = '\0';
        slash = strrchr(own, '/');
        for (size_t i = 0; slash && i < sizeof(near) / sizeof(near[0]); i++)
                if (is_program(own, (int)(slash - own), near[i], ret, size))
                        return 1;
        return 0;
}

static int is_bin(const char *directory, size_t size)
{
        return size >= 4 && memcmp(directory + size - 4, "/bin", 4) == 0;
}

/* below: only of directories named bin; "": of all. */
static int find_on_path(const char *below, char *ret, size_t size)
{
        const char *path = getenv("PATH");

        for (size_t length; path && *path; path += length + (path[length] == ':')) {
                length = strcspn(path, ":");
                if (path[0] == '/' && (!*below || is_bin(path, length)) &&
                    is_program(path, (int)length, below, ret, size))
                        return 1;
        }
        return 0;
}

static int find_installed(char *ret, size_t size)
{
        for (size_t i = 0; i < INSTALLED; i++)
                if (is_program(installed[i], (int)strlen(installed[i]), "", ret, size))
                        return 1;
        return 0;
}

static int none_found(struct cloche_err *e)
{
        char places[200] = "";
        size_t size = 0;

        for (size_t i = 0; i < INSTALLED; i++)
                size += (size_t)snprintf(places + size, sizeof(places) - size, "%s%s", i ? ", " : "", installed[i]);
        return discovery_fault(e, DISCOVERY_MISSING, places, NULL);
}

int daemon_find_program(char *ret, size_t size, struct cloche_err *e)
{
        const char *named = getenv("CLOCHE_DAEMON");

        if (named && *named) {
                snprintf(ret, size, "%s", named);
                return is_file(named) ? 0 : discovery_fault(e, DISCOVERY_NAMED, "$CLOCHE_DAEMON", named);
        }
        return find_near(ret, size) || find_on_path("", ret, size) || find_on_path("/../sbin", ret, size) ||
                               find_installed(ret, size)
                       ? 0
                       : none_found(e);
}

/* -- starting it ---------------------------------------------------------------------------------------------- */

/* The profile has no effect for root. */
static _Noreturn void become_program(const char *program, int out_fd)
{
        sigset_t none;

        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        signal(SIGPIPE, SIG_DFL);
        if (dup2(out_fd, STDOUT_FILENO) >= 0)
                execl(program, PROGRAM, "--on-demand", "--profile", "user", NULL);
        fprintf(stderr, "cloche: cannot start %s: %s\n", program, strerror(errno));
        _exit(1);
}

/* Read one line without its newline. */
static void read_line(int fd, char *ret, size_t size)
{
        size_t have = 0;
        ssize_t n;

        while (have < size - 1 && ((n = read(fd, ret + have, size - 1 - have)) > 0 || (n < 0 && errno == EINTR)))
                have += n > 0 ? (size_t)n : 0;
        ret[have] = '\0';
        ret[strcspn(ret, "\n")] = '\0';
}

/* When cloched cannot start, it prints its own error on standard error. */
static int start(char ret[DAEMON_SOCKET_BYTES], struct cloche_err *e)
{
        char program[PATH_MAX];
        int pair[2], status = 0, r = daemon_find_program(program, sizeof(program), e);
        pid_t pid;

        if (r < 0)
                return r;
        if (pipe2(pair, O_CLOEXEC) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "make a pipe");
        pid = fork();
        if (pid == 0)
                become_program(program, pair[1]);
        close(pair[1]);
        if (pid > 0)
                read_line(pair[0], ret, DAEMON_SOCKET_BYTES);
        close(pair[0]);
        if (pid < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "start %s", program);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        *e = (struct cloche_err){0};
        return status == 0 && ret[0] == '/' ? 1 : -1;
}

/* -- locating it ---------------------------------------------------------------------------------------------- */

static const char *named_socket(const char *socket)
{
        const char *variable = getenv("CLOCHE_SOCKET");

        return socket ? socket : variable && *variable ? variable : NULL;
}

int daemon_is_named(const char *socket)
{
        return named_socket(socket) != NULL;
}

int daemon_locate(const char *socket, enum locate how, char ret[DAEMON_SOCKET_BYTES], struct cloche_err *e)
{
        const char *named = named_socket(socket);
        int r = named ? daemon_check_path(named, e) : 0;

        if (r < 0)
                return r;
        if (named) {
                strcpy(ret, named);
                return 1;
        }
        if (how != START_ONLY)
                r = daemon_find(ret, e);
        return r == 0 && how != LOCATE_ONLY ? start(ret, e) : r;
}
