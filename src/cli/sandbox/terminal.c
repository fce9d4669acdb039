/* Raw mode and its restoration by a child process. Runs in: the CLI, as its user. */
#include "terminal.h"

#include "base/fd.h"
#include "cli/command/cli.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define SIZE_MAX_CELLS 1000 /* spec/sandbox.def, process.resize */

int terminal_check(const char *command)
{
        if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO))
                return 0;
        return cli_bad("%s: standard input and output must be a terminal (cloche run without -t, and cloche exec -i, "
                       "work without a terminal)",
                       command);
}

static unsigned cells(unsigned reported, unsigned otherwise)
{
        return reported == 0 ? otherwise : reported > SIZE_MAX_CELLS ? SIZE_MAX_CELLS : reported;
}

void terminal_size(unsigned *ret_cols, unsigned *ret_rows)
{
        struct winsize size = {0};

        if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0)
                size = (struct winsize){0};
        *ret_cols = cells(size.ws_col, 80);
        *ret_rows = cells(size.ws_row, 24);
}

/* Wait for the byte that reports a clean end, or for the parent's end. */
static int keep(void *data, int socket_fd)
{
        struct terminal *t = data;
        _cleanup_fd_ int fd = -EBADF;
        char word;

        /* Leave the group, so that its signals do not reach this process. It may then set the mode
         * from the background. */
        (void)setpgid(0, 0);
        signal(SIGTTOU, SIG_IGN);
        if (fd_read_full(socket_fd, &word, 1) == 0)
                return 0;
        if (t->leave)
                (void)fd_write_full(STDOUT_FILENO, t->leave, strlen(t->leave));
        if (tcsetattr(STDIN_FILENO, TCSANOW, &t->before) == 0)
                return 0;
        /* The session ended with its leader, which hung up the terminal (tty_ioctl(4), TIOCNOTTY):
         * open it anew. */
        fd = open(t->path, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
        if (fd >= 0)
                (void)tcsetattr(fd, TCSANOW, &t->before);
        return 0;
}

int terminal_prepare(struct terminal *t)
{
        int bad;

        if (t->is_prepared)
                return 0;
        if (ttyname_r(STDIN_FILENO, t->path, sizeof(t->path)) != 0)
                t->path[0] = '\0';
        if (tcgetattr(STDIN_FILENO, &t->before) < 0)
                return cli_bad("cannot read the terminal's mode: %s", strerror(errno)), 1;
        bad = privileged_helper_prepare(&t->keeper, keep, t);
        t->is_prepared = bad == 0;
        return bad;
}

static int change(struct terminal *t, void (*make)(struct termios *mode))
{
        struct termios mode;
        int bad = terminal_prepare(t);

        if (bad)
                return bad;
        t->is_prepared = 0;
        mode = t->before;
        make(&mode);
        if (privileged_helper_start(&t->keeper) == 0 && tcsetattr(STDIN_FILENO, TCSANOW, &mode) == 0) {
                t->is_changed = 1;
                return 0;
        }
        cli_bad("cannot set the terminal's mode: %s", strerror(errno));
        privileged_helper_cancel(&t->keeper);
        return 1;
}

int terminal_raw(struct terminal *t)
{
        return change(t, cfmakeraw);
}

static void hide(struct termios *mode)
{
        mode->c_lflag &= ~(tcflag_t)ECHO;
        mode->c_lflag |= ECHONL;
}

int terminal_hide(struct terminal *t)
{
        return change(t, hide);
}

void terminal_restore(struct terminal *t)
{
        if (t->is_prepared)
                privileged_helper_cancel(&t->keeper);
        t->is_prepared = 0;
        if (!t->is_changed)
                return;
        t->is_changed = 0;
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &t->before);
        (void)fd_write_full(t->keeper.fd, ".", 1);
        (void)privileged_helper_wait(&t->keeper);
}
