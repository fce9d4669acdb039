/* A whole terminal. Runs in: the CLI, as its user. */
#include "screen.h"

#include "cli/command/cli.h"
#include "cli/output/signals.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* The other screen of the terminal without a cursor (xterm's private modes 1049 and 25). */
#define ENTER "\033[?1049h\033[?25l"
#define LEAVE "\033[0m\033[?25h\033[?1049l"

static void put(struct screen *s, const char *text, size_t size)
{
        (void)output_queue_put(&s->out, STDOUT_FILENO, text, size);
}

int screen_open(struct screen *s)
{
        sigset_t before;
        int bad;

        *s = (struct screen){.terminal = {.leave = LEAVE}, .signal_fd = -EBADF};
        output_queue_init(&s->out);
        signals_block(&before);
        s->signal_fd = signals_open();
        if (s->signal_fd < 0)
                return cli_bad("cannot read signals: %s", strerror(-s->signal_fd)), 1;
        bad = terminal_raw(&s->terminal);
        if (bad)
                return bad;
        s->is_open = 1;
        terminal_size(&s->cols, &s->rows);
        put(s, ENTER, strlen(ENTER));
        return 0;
}

/* Frames that the terminal has not taken are dropped: it may have stopped. */
void screen_close(struct screen *s)
{
        output_queue_done(&s->out);
        if (s->is_open) {
                output_queue_init(&s->out);
                put(s, LEAVE, strlen(LEAVE));
                (void)output_queue_write(&s->out);
                output_queue_done(&s->out);
        }
        s->is_open = 0;
        terminal_restore(&s->terminal);
        if (s->signal_fd >= 0)
                close(s->signal_fd);
        s->signal_fd = -EBADF;
}

/* -- keys ----------------------------------------------------------------------------------------------------- */

/* The sequences that terminals send for keys; a longer one comes before its beginning. */
static const struct {
        const char *bytes;
        int key;
} sequences[] = {
        {"\033[A", SCREEN_UP}, {"\033OA", SCREEN_UP}, {"\033[B", SCREEN_DOWN}, {"\033OB", SCREEN_DOWN},
        {"\033[", 0},          {"\033O", 0},          {"\033", SCREEN_BACK},   {"\177", SCREEN_BACK},
        {"\b", SCREEN_BACK},   {"\r", SCREEN_ENTER},  {"\n", SCREEN_ENTER},    {"\003", 'q'},
        {"k", SCREEN_UP},      {"j", SCREEN_DOWN},
};

static size_t key_at(const char *bytes, size_t size, int *ret)
{
        for (size_t i = 0; i < sizeof(sequences) / sizeof(sequences[0]); i++) {
                size_t own = strlen(sequences[i].bytes);

                if (own <= size && memcmp(bytes, sequences[i].bytes, own) == 0) {
                        *ret = sequences[i].key;
                        return own;
                }
        }
        *ret = (unsigned char)*bytes;
        return 1;
}

int screen_keys(int ret[], int room)
{
        char bytes[64];
        ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes) < (size_t)room ? sizeof(bytes) : (size_t)room);
        int count = 0;

        if (n < 0 && (errno == EINTR || errno == EAGAIN))
                return 0;
        if (n <= 0)
                return -1;
        for (size_t at = 0; at < (size_t)n; count++)
                at += key_at(bytes + at, (size_t)n - at, &ret[count]);
        return count;
}

int screen_signal(struct screen *s)
{
        struct signalfd_siginfo info;

        if (read(s->signal_fd, &info, sizeof(info)) != sizeof(info))
                return 0;
        if (info.ssi_signo != SIGWINCH)
                return (int)info.ssi_signo;
        terminal_size(&s->cols, &s->rows);
        return 0;
}

/* -- frames --------------------------------------------------------------------------------------------------- */

FILE *screen_begin(struct screen *s)
{
        if (output_queue_fd(&s->out) >= 0)
                return NULL;
        s->frame = open_memstream(&s->text, &s->text_size);
        if (!s->frame)
                abort(); /* out of memory */
        fputs("\033[H", s->frame);
        return s->frame;
}

/* The rest of the screen is empty. */
void screen_finish(struct screen *s)
{
        fputs("\033[J", s->frame);
        if (fclose(s->frame) != 0)
                abort(); /* out of memory */
        s->frame = NULL;
        put(s, s->text, s->text_size);
        free(s->text);
        s->text = NULL;
}
