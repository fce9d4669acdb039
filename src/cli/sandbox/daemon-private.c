/* Start and end of a private daemon. Runs in: the CLI, as its user. */
#include "daemon-private.h"
#include "daemon-locate.h"

#include "base/err.h"
#include "base/fd.h"
#include "wire/json.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAM "cloched"
#define OPTIONS_MAX 32
#define LOG_BYTES 2000

/* A session of its own: signals of the terminal concern the client, whose end is the daemon's. */
static _Noreturn void become_program(const char *program, const char *const *options, int fd, int log_fd)
{
        const char *words[OPTIONS_MAX + 4] = {PROGRAM, "--connect-fd"};
        char number[16];
        size_t count = 3;
        sigset_t none;

        snprintf(number, sizeof(number), "%d", fd);
        words[2] = number;
        for (; *options && count < OPTIONS_MAX + 3; options++)
                words[count++] = *options;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        signal(SIGPIPE, SIG_DFL);
        if (setsid() >= 0 && fcntl(fd, F_SETFD, 0) == 0 && dup2(log_fd, STDERR_FILENO) >= 0)
                execv(program, (char *const *)words);
        fprintf(stderr, "cannot start %s: %s\n", program, strerror(errno));
        _exit(1);
}

/* The event that tells why it did not start; 0: the line is none. */
static int take_event(const char *line, struct cloche_err *e)
{
        struct cloche_err bad = {0};
        json_t *event = NULL;
        const char *name, *message;
        int is_taken;

        if (json_load_text(line, strlen(line), &event, &bad) < 0)
                return 0;
        name = json_string_value(json_object_get(event, "error"));
        message = json_string_value(json_object_get(event, "message"));
        is_taken = name && message;
        for (unsigned code = 0; is_taken && code < CLOCHE_CODE_COUNT; code++)
                if (strcmp(name, cloche_code_name(code)) == 0)
                        (void)err_set(e, (enum cloche_code)code, "%s", message);
        json_decref(event);
        return is_taken;
}

/* The last line of its log tells why it ended. */
static void add_log(int fd, struct cloche_err *e)
{
        char text[LOG_BYTES + 1];
        const char *line;
        struct stat status;
        off_t from = fstat(fd, &status) == 0 && status.st_size > LOG_BYTES ? status.st_size - LOG_BYTES : 0;
        ssize_t size = pread(fd, text, LOG_BYTES, from);

        while (size > 0 && text[size - 1] == '\n')
                size--;
        if (size <= 0)
                return;
        text[size] = '\0';
        line = strrchr(text, '\n');
        line = line ? line + 1 : text;
        if (!take_event(line, e))
                (void)err_set(e, e->code, "the private daemon ended: %.400s", line);
}

static void reap(struct daemon_private *daemon)
{
        while (daemon->pid > 0 && waitpid(daemon->pid, NULL, 0) < 0 && errno == EINTR)
                ;
        daemon->pid = 0;
        fd_close(&daemon->log_fd);
}

int daemon_private_start(const char *const *options, struct daemon_private *ret, struct daemon_client *ret_client,
                         struct cloche_err *e)
{
        char program[PATH_MAX];
        int pair[2], r = daemon_find_program(program, sizeof(program), e);

        *ret = (struct daemon_private){.log_fd = -EBADF};
        if (r < 0)
                return r;
        ret->log_fd = memfd_create("log", MFD_CLOEXEC);
        if (ret->log_fd < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "start a private daemon");
        ret->pid = fork();
        if (ret->pid == 0)
                become_program(program, options, pair[1], ret->log_fd);
        close(pair[1]);
        if (ret->pid < 0) {
                close(pair[0]);
                return err_os(e, CLOCHE_E_RESOURCE, errno, "start %s", program);
        }
        r = daemon_adopt(pair[0], ret_client, e);
        if (r < 0) {
                add_log(ret->log_fd, e);
                reap(ret);
        }
        return r;
}

void daemon_private_stop(struct daemon_private *daemon, struct daemon_client *client)
{
        daemon_close(client);
        reap(daemon);
}
