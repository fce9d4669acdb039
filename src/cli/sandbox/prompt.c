/* Line editing of the repl, by libedit. Runs in: the CLI, as its user. */
#include "prompt.h"

#include "base/fd.h"
#include "base/utf8.h"
#include "cli/output/print.h"
#include "cli/output/signals.h"

#include <errno.h>
#include <histedit.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <wchar.h>

#define HISTORY_LINES 2000
#define SHOWN_MATCHES 100

struct prompt {
        EditLine *editor;
        History *history;
        HistEvent event; /* required by history() */
        char *file, *text;
        int signal_fd;
        enum prompt_end end; /* the reason why no character arrived */
        struct prompt_help help;
};

static struct prompt *of(EditLine *editor)
{
        void *data = NULL;

        el_get(editor, EL_CLIENTDATA, &data);
        return data;
}

/* -- characters ----------------------------------------------------------------------------------------------- */

static void read_signal(struct prompt *p)
{
        struct signalfd_siginfo info;

        if (read(p->signal_fd, &info, sizeof(info)) != sizeof(info))
                return;
        if (info.ssi_signo == SIGWINCH)
                el_resize(p->editor);
        else
                p->end = info.ssi_signo == SIGINT ? PROMPT_INTERRUPTED : PROMPT_SIGNALLED;
}

/* 1: standard input is readable or has ended. 0: a signal ends the line. */
static int wait_for_input(struct prompt *p)
{
        struct pollfd polled[] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = p->signal_fd, .events = POLLIN}};

        for (;;) {
                if (poll(polled, 2, -1) < 0 && errno != EINTR)
                        return 1;
                if (polled[1].revents)
                        read_signal(p);
                if (p->end != PROMPT_LINE)
                        return 0;
                if (polled[0].revents)
                        return 1;
        }
}

/* Replaces libedit's reader, which does not support signalfd: 1, 0 at the end, -1. */
static int read_character(EditLine *editor, wchar_t *ret)
{
        struct prompt *p = of(editor);
        mbstate_t state = {0};
        char byte;

        for (;;) {
                ssize_t n;
                size_t used;

                if (!wait_for_input(p))
                        return -1;
                n = read(STDIN_FILENO, &byte, 1);
                if (n < 0 && (errno == EINTR || errno == EAGAIN))
                        continue;
                if (n <= 0)
                        return (int)n;
                used = mbrtowc(ret, &byte, 1, &state);
                if (used == 0 || used == 1)
                        return 1;
                /* Skip an invalid byte; the next may begin a character. */
                if (used == (size_t)-1)
                        state = (mbstate_t){0};
        }
}

/* -- completion ----------------------------------------------------------------------------------------------- */

static size_t common_size(const struct prompt_matches *m)
{
        size_t size = strlen(m->texts[0]);

        for (size_t i = 1; i < m->count; i++)
                for (size_t k = 0; k < size; k++)
                        if (m->texts[i][k] != m->texts[0][k])
                                size = k;
        return utf8_cut(m->texts[0], strlen(m->texts[0]), size);
}

static void show_matches(const struct prompt_matches *m)
{
        putchar('\n');
        for (size_t i = 0; i < m->count && i < SHOWN_MATCHES; i++) {
                print_name(stdout, m->texts[i]);
                fputs("  ", stdout);
        }
        printf("%s\n", m->count > SHOWN_MATCHES ? "…" : "");
        fflush(stdout);
}

/* The start of the replaced characters. */
static const char *replaced_from(const LineInfo *line, size_t characters)
{
        const char *at = line->cursor;

        while (at > line->buffer && characters > 0)
                if ((*--at & 0xc0) != 0x80)
                        characters--;
        return at;
}

static unsigned char put_match(EditLine *editor, const struct prompt_matches *m)
{
        const LineInfo *line = el_line(editor);
        const char *from = replaced_from(line, m->replaced);
        size_t size = common_size(m), typed = (size_t)(line->cursor - from);
        char *text;

        if (size <= typed && memcmp(from, m->texts[0], size) == 0 && m->count > 1) {
                show_matches(m);
                return CC_REDISPLAY;
        }
        text = strndup(m->texts[0], size);
        if (!text)
                return CC_ERROR;
        el_deletestr(editor, (int)m->replaced);
        el_insertstr(editor, text);
        free(text);
        return CC_REFRESH;
}

static unsigned char complete(EditLine *editor, int character)
{
        struct prompt *p = of(editor);
        const LineInfo *line = el_line(editor);
        size_t size = (size_t)(line->cursor - line->buffer);
        struct prompt_matches matches = {0};
        unsigned char result = CC_ERROR;

        (void)character;
        if (strspn(line->buffer, " \t") >= size)
                return el_insertstr(editor, "    ") == 0 ? CC_REFRESH : CC_ERROR;
        if (p->help.complete(p->help.data, line->buffer, size, &matches) == 0 && matches.count > 0)
                result = put_match(editor, &matches);
        for (size_t i = 0; i < matches.count; i++)
                free(matches.texts[i]);
        free(matches.texts);
        return result;
}

static unsigned char describe(EditLine *editor, int character)
{
        struct prompt *p = of(editor);
        const LineInfo *line = el_line(editor);

        (void)character;
        putchar('\n');
        p->help.describe(p->help.data, line->buffer, (size_t)(line->lastchar - line->buffer),
                         (size_t)(line->cursor - line->buffer));
        fflush(stdout);
        return CC_REDISPLAY;
}

/* -- lines ---------------------------------------------------------------------------------------------------- */

static char *prompt_text(EditLine *editor)
{
        return of(editor)->text;
}

static void set_up(struct prompt *p)
{
        el_set(p->editor, EL_CLIENTDATA, p);
        el_set(p->editor, EL_PROMPT, prompt_text);
        el_set(p->editor, EL_EDITOR, "emacs");
        el_set(p->editor, EL_SIGNAL, 1); /* restores the terminal when stopped by Ctrl-Z */
        el_set(p->editor, EL_GETCFN, read_character);
        el_set(p->editor, EL_HIST, history, p->history);
        el_wset(p->editor, EL_ADDFN, L"cloche-complete", L"what could stand here",
                complete); /* el_set would leak a copy of both */
        el_wset(p->editor, EL_ADDFN, L"cloche-describe", L"what the name at the cursor is", describe);
        el_set(p->editor, EL_BIND, "^I", "cloche-complete", NULL);
        el_set(p->editor, EL_BIND, "^[h", "cloche-describe", NULL);
        el_set(p->editor, EL_BIND, "^[H", "cloche-describe", NULL);
        el_set(p->editor, EL_BIND, "^R", "em-inc-search-prev", NULL);
        history(p->history, &p->event, H_SETSIZE, HISTORY_LINES);
        history(p->history, &p->event, H_SETUNIQUE, 1);
        if (p->file)
                history(p->history, &p->event, H_LOAD, p->file);
        el_source(p->editor, NULL);
}

struct prompt *prompt_new(const char *file, const struct prompt_help *help)
{
        struct prompt *p = calloc(1, sizeof(*p));

        if (!p)
                return NULL;
        /* The terminal uses multibyte characters; a single-byte locale would break them. */
        if (!setlocale(LC_CTYPE, "") || MB_CUR_MAX == 1)
                setlocale(LC_CTYPE, "C.UTF-8");
        *p = (struct prompt){.help = *help, .file = file ? strdup(file) : NULL, .signal_fd = signals_open()};
        p->history = history_init();
        p->editor = el_init("cloche", stdin, stdout, stderr);
        if (p->signal_fd >= 0 && p->history && p->editor) {
                set_up(p);
                return p;
        }
        prompt_free(p);
        return NULL;
}

void prompt_free(struct prompt *p)
{
        if (!p)
                return;
        if (p->file && p->history)
                history(p->history, &p->event, H_SAVE, p->file);
        if (p->editor)
                el_end(p->editor);
        if (p->history)
                history_end(p->history);
        fd_close(&p->signal_fd);
        free(p->file);
        free(p->text);
        free(p);
}

void prompt_remember(struct prompt *p, const char *line)
{
        int r;

        for (r = history(p->history, &p->event, H_FIRST); r >= 0; r = history(p->history, &p->event, H_NEXT))
                if (strcmp(p->event.str, line) == 0)
                        return;
        history(p->history, &p->event, H_ENTER, line);
}

enum prompt_end prompt_read(struct prompt *p, const char *text, const char **ret, size_t *ret_size)
{
        int size = 0;

        free(p->text);
        p->text = strdup(text);
        p->end = PROMPT_LINE;
        /* Prepare the terminal before the prompt appears: Ctrl-D typed in line mode would be
         * lost. */
        el_set(p->editor, EL_PREP_TERM, 1);
        *ret = p->text ? el_gets(p->editor, &size) : NULL;
        *ret_size = *ret && size > 0 ? (size_t)size : 0;
        if (!*ret || size <= 0) {
                putchar('\n');
                return p->end == PROMPT_LINE ? PROMPT_OVER : p->end;
        }
        if (size > 1)
                history(p->history, &p->event, H_ENTER, *ret);
        return PROMPT_LINE;
}
