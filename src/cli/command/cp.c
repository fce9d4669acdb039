/* cloche cp SOURCE TARGET, one of them SANDBOX:PATH. Runs in: the CLI, as its user. */
#include "base/err.h"
#include "cli/options/options.h"
#include "cli/output/progress.h"
#include "cli/output/signals.h"
#include "cli/sandbox/copy.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NAME_MAX_BYTES 63

static volatile sig_atomic_t cancelled;
static int wake_fds[2] = {-EBADF, -EBADF}; /* readable once cancelled */

/* A second signal exits without waiting for the daemon to remove partial files. */
static void on_signal(int number)
{
        signals_note(number);
        if (cancelled)
                signals_exit(SIGNALS_CANCELLED);
        cancelled = 1;
        (void)!write(wake_fds[1], "!", 1);
}

int copy_catch_signals(void)
{
        struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

        if (pipe2(wake_fds, O_CLOEXEC) < 0)
                return cli_bad("cannot make a pipe: %s", strerror(errno));
        sigaction(SIGINT, &action, NULL);
        sigaction(SIGTERM, &action, NULL);
        sigaction(SIGHUP, &action, NULL);
        signal(SIGPIPE, SIG_IGN);
        return 0;
}

int copy_is_cancelled(void)
{
        return cancelled;
}

void copy_wait(int fd)
{
        struct pollfd polled[] = {{.fd = fd, .events = POLLIN}, {.fd = wake_fds[0], .events = POLLIN}};

        while (poll(polled, 2, -1) < 0 && errno == EINTR)
                ;
}

/* -- shared by both directions -------------------------------------------------------------------------------- */

int copy_request(struct copy *copy, const char *method, const char *path, json_t *more, const void *data, size_t size,
                 struct daemon_message *ret, struct cloche_err *e)
{
        json_t *params = json_pack("{s:s, s:s}", "sandbox", copy->sandbox, "path", path);
        struct daemon_message message;
        int r;

        if (params && more)
                json_object_update(params, more);
        json_decref(more);
        r = daemon_call(&copy->client, method, params, data, size, &message, e);
        if (r < 0)
                return r;
        if (ret)
                *ret = message;
        else
                daemon_message_done(&message);
        return 0;
}

int copy_join(char ret[COPY_PATH_BYTES], const char *directory, const char *name, struct cloche_err *e)
{
        int slash = *directory && directory[strlen(directory) - 1] != '/';
        int n = snprintf(ret, COPY_PATH_BYTES, "%s%s%s", directory, slash ? "/" : "", name);

        return n < COPY_PATH_BYTES
                       ? 0
                       : err_set(e, CLOCHE_E_TOO_LARGE, "a path of %d bytes, at most %d are accepted: %.60s…", n,
                                 COPY_PATH_BYTES - 1, ret);
}

const char *copy_last(const char *path, char ret[COPY_PATH_BYTES])
{
        size_t end = strlen(path), begin;

        while (end > 1 && path[end - 1] == '/')
                end--;
        for (begin = end; begin > 0 && path[begin - 1] != '/'; begin--)
                ;
        snprintf(ret, COPY_PATH_BYTES, "%.*s", (int)(end - begin), path + begin);
        return ret;
}

int copy_stat(struct copy *copy, const char *inside, json_t **ret, struct cloche_err *e)
{
        struct daemon_message message;
        int r = copy_request(copy, "file.stat", inside, NULL, NULL, 0, &message, e);

        *ret = NULL;
        if (r == -CLOCHE_E_FILE_NOT_FOUND)
                return 0;
        if (r < 0)
                return r;
        *ret = json_incref(message.body);
        daemon_message_done(&message);
        return 0;
}

void copy_skip(struct copy *copy, const struct cloche_err *e)
{
        int code = sandbox_fail(e);

        copy->code = copy->code ? copy->code : code;
}

/* -- the command ---------------------------------------------------------------------------------------------- */

/* Parse SANDBOX:PATH: returns the path, by default that of the workspace, and copies the name to
 * ret. NULL: a path of the host. */
static const char *inside_of(const char *word, char ret[NAME_MAX_BYTES + 1])
{
        size_t size = 0;

        while (isalnum((unsigned char)word[size]) || word[size] == '-')
                size++;
        if (size == 0 || size > NAME_MAX_BYTES || word[size] != ':')
                return NULL;
        snprintf(ret, NAME_MAX_BYTES + 1, "%.*s", (int)size, word);
        return word[size + 1] ? word + size + 1 : "/workspace";
}

static int cp(struct cli_request *request)
{
        char from_name[NAME_MAX_BYTES + 1], to_name[NAME_MAX_BYTES + 1];
        const char *source = request->positional[0], *target = request->positional[1];
        const char *from = inside_of(source, from_name), *to = inside_of(target, to_name);
        struct copy copy = {.sandbox = from ? from_name : to_name};
        int code;

        if (!from == !to)
                return cli_bad("one of '%s' and '%s' must be SANDBOX:PATH, the other a path of the host (./a:b if "
                               "it has a colon)",
                               source, target);
        code = copy_catch_signals();
        if (code == 0)
                code = sandbox_open(request, &copy.client);
        if (code)
                return code;
        code = from ? sandbox_require(&copy.client, copy.sandbox) : 0;
        if (code) {
                daemon_close(&copy.client);
                return code;
        }
        sandbox_print_lost(&copy.client, request, copy.sandbox);
        progress_start("copying");
        code = from ? cli_copy_out(&copy, from, target) : cli_copy_in(&copy, source, to);
        progress_end();
        daemon_close(&copy.client);
        if (cancelled)
                return SIGNALS_CANCELLED;
        return code ? code : copy.code;
}

const struct cli_handler command_cp = {
        .run = cp,
        .expected = "a source and a target",
        .positional_min = 2,
        .positional_max = 2,
};
