/* Input requests of a cell, answered with lines of standard input.
 * Runs in: the CLI, as its user. */
#include "questions.h"

#include "base/err.h"
#include "cli/command/cli.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES_MAX (1u << 20)
#define OPEN_MAX 1000
#define PIECE_BYTES 65536

void questions_init(struct questions *q, const char *sandbox)
{
        *q = (struct questions){.sandbox = sandbox, .typed = BUF_INIT(LINE_BYTES_MAX + PIECE_BYTES)};
}

void questions_done(struct questions *q)
{
        questions_drop(q);
        json_decref(q->open);
        buf_done(&q->typed);
}

int questions_are_open(const struct questions *q)
{
        return json_array_size(q->open) > 0;
}

void questions_drop(struct questions *q)
{
        terminal_restore(&q->terminal);
        json_array_clear(q->open);
}

/* -- prompts -------------------------------------------------------------------------------------------------- */

/* Show the oldest request's prompt. */
static int show_prompt(struct questions *q, struct output_queue *out, struct cloche_err *e)
{
        const json_t *about = json_array_get(q->open, 0), *prompt = json_object_get(about, "prompt");
        int r = about ? output_queue_put(out, STDOUT_FILENO, json_string_value(prompt), json_string_length(prompt)) : 0;

        if (r < 0)
                return err_os(e, CLOCHE_E_RESOURCE, -r, "hold a prompt");
        if (json_is_true(json_object_get(about, "password")) && isatty(STDIN_FILENO) && terminal_hide(&q->terminal))
                return err_set(e, CLOCHE_E_RESOURCE, "cannot hide the typed password");
        return 0;
}

/* -- answers -------------------------------------------------------------------------------------------------- */

/* Answer the oldest request; line NULL: end of file. */
static int answer(struct questions *q, const char *line, size_t size, struct output_queue *out,
                  struct daemon_client *client, struct cloche_err *e)
{
        const json_t *about = json_array_get(q->open, 0);
        json_t *value = line ? json_stringn(line, size) : NULL;
        json_t *params =
                json_pack("{s:s, s:O, s:O, s:o*}", "sandbox", q->sandbox, "context", json_object_get(about, "context"),
                          "input", json_object_get(about, "input"), "value", value);
        json_int_t id;
        int r;

        terminal_restore(&q->terminal);
        if (line && isatty(STDIN_FILENO))
                out->last = '\n'; /* the terminal has echoed it */
        if (line && !value)
                cli_bad("the line is not UTF-8: the input request fails");
        r = daemon_request(client, "context.input", params, NULL, 0, &id, e);
        json_array_remove(q->open, 0);
        return r == 0 ? show_prompt(q, out, e) : r;
}

/* Answer as many requests as there are lines. */
static int answer_all(struct questions *q, struct output_queue *out, struct daemon_client *client, struct cloche_err *e)
{
        int r = 0;

        while (r == 0 && questions_are_open(q)) {
                const char *end = q->typed.size ? memchr(q->typed.data, '\n', q->typed.size) : NULL;
                size_t size = end ? (size_t)(end - q->typed.data) : q->typed.size;

                if (!end && !q->is_over && size <= LINE_BYTES_MAX)
                        return 0;
                if (size > LINE_BYTES_MAX)
                        return err_set(e, CLOCHE_E_TOO_LARGE, "a line of standard input has more than %u bytes",
                                       LINE_BYTES_MAX);
                r = answer(q, end || size ? q->typed.data : NULL, size, out, client, e);
                buf_consume(&q->typed, size + (end != NULL));
        }
        return r;
}

int questions_take(struct questions *q, const json_t *about, struct output_queue *out, struct daemon_client *client,
                   struct cloche_err *e)
{
        int r = 0;

        if (!q->open)
                q->open = json_array();
        if (json_array_size(q->open) == OPEN_MAX)
                return err_set(e, CLOCHE_E_TOO_LARGE, "the code has more than %d input requests at once", OPEN_MAX);
        if (json_array_append(q->open, (json_t *)about) < 0)
                return err_set(e, CLOCHE_E_RESOURCE, "no memory for an input request");
        if (json_array_size(q->open) == 1)
                r = show_prompt(q, out, e);
        return r == 0 ? answer_all(q, out, client, e) : r;
}

int questions_read(struct questions *q, struct output_queue *out, struct daemon_client *client, struct cloche_err *e)
{
        char *room = buf_reserve(&q->typed, PIECE_BYTES);
        ssize_t n = room ? read(STDIN_FILENO, room, PIECE_BYTES) : -1;

        if (!room)
                return err_set(e, CLOCHE_E_RESOURCE, "no memory for standard input");
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
                return 0;
        if (n > 0)
                q->typed.size += (size_t)n;
        if (n <= 0 && isatty(STDIN_FILENO))
                /* Ctrl-D answers this request; the next may have a line. */
                return answer(q, NULL, 0, out, client, e);
        q->is_over = n <= 0;
        return answer_all(q, out, client, e);
}
