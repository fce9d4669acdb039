/* cloche repl: type code cell by cell, in a context that lives until the end.
 * Runs in: the CLI, as its user. */
#include "base/fd.h"
#include "base/utf8.h"
#include "cli/cells/cells.h"
#include "cli/cells/incomplete.h"
#include "cli/cells/target.h"
#include "cli/options/options.h"
#include "cli/output/print.h"
#include "cli/run/xdg.h"
#include "cli/sandbox/prompt.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CELL_BYTES_MAX (64u << 20)
#define MATCHES_MAX 1000

struct repl {
        const struct cli_request *request;
        struct daemon_client client;
        struct cells_target target;
        struct questions questions;
        struct cells cells;
        struct buf typed; /* the cell so far */
};

/* -- completion ----------------------------------------------------------------------------------------------- */

/* Completions come from a guest: none may contain terminal controls. */
static int is_typable(const char *text)
{
        for (; *text; text++)
                if ((unsigned char)*text < 0x20 || *text == 0x7f)
                        return 0;
        return 1;
}

static int take_matches(const json_t *answer, size_t at, size_t before, struct prompt_matches *ret)
{
        const json_t *matches = json_object_get(answer, "matches"), *match;
        json_int_t from = json_integer_value(json_object_get(answer, "from"));
        size_t i;

        if (from < (json_int_t)before || from > (json_int_t)at ||
            json_integer_value(json_object_get(answer, "to")) != (json_int_t)at)
                return -1;
        ret->replaced = at - (size_t)from;
        ret->texts = calloc(MATCHES_MAX, sizeof(*ret->texts));
        json_array_foreach (matches, i, match)
                if (ret->texts && ret->count < MATCHES_MAX && json_is_string(match) &&
                    is_typable(json_string_value(match)) && (ret->texts[ret->count] = strdup(json_string_value(match))))
                        ret->count++;
        return 0;
}

static int complete_line(void *data, const char *line, size_t size, struct prompt_matches *ret)
{
        struct repl *r = data;
        struct follow follow = {.client = &r->client};
        size_t before = utf8_count(r->typed.data, r->typed.size);
        _cleanup_buf_ struct buf code = BUF_INIT(CELL_BYTES_MAX);
        json_t *answer = NULL, *text;
        int code_of;

        if (buf_append(&code, r->typed.data, r->typed.size) < 0 || buf_append(&code, line, size) < 0)
                return -1;
        text = json_stringn(code.data, code.size);
        if (!text)
                return -1;
        code_of = follow_request(&follow, "context.complete",
                                 json_pack("{s:s, s:s, s:o}", "sandbox", r->target.sandbox, "context",
                                           r->target.context, "code", text),
                                 &answer);
        if (code_of == 0)
                code_of = take_matches(answer, before + utf8_count(line, size), before, ret);
        json_decref(answer);
        return code_of;
}

/* -- cells ---------------------------------------------------------------------------------------------------- */

/* 0: continue; otherwise the exit code. */
static int run_typed(struct repl *r)
{
        json_t *answer = NULL;
        int code = cells_run(&r->cells, r->typed.data, r->typed.size, &answer),
            is_given_up = !answer && r->cells.ended_by == SIGINT;

        json_decref(answer);
        buf_consume(&r->typed, r->typed.size);
        if (!r->cells.ends_line) {
                putchar('\n');
                fflush(stdout);
        }
        if (is_given_up)
                cli_bad("stopped waiting for the cell: unless the interrupt ends it, the interpreter is restarted");
        return r->cells.is_lost || (r->cells.ended_by && !is_given_up) ? code : 0;
}

static int is_blank(const struct buf *text)
{
        for (size_t i = 0; i < text->size; i++)
                if (!strchr(" \t\r\n", text->data[i]))
                        return 0;
        return 1;
}

static int take_line(struct repl *r, const char *line, size_t size)
{
        size_t whole;

        if (buf_append(&r->typed, line, size) < 0)
                return cli_bad("the cell has more than %u bytes", CELL_BYTES_MAX), 1;
        whole = r->typed.size - (r->typed.data[r->typed.size - 1] == '\n');
        if (is_blank(&r->typed))
                buf_consume(&r->typed, r->typed.size);
        else if (!is_incomplete(r->target.language, r->typed.data, whole))
                return run_typed(r);
        return 0;
}

static int type_cells(struct repl *r, struct prompt *prompt)
{
        int code = 0;

        while (code == 0) {
                const char *line;
                size_t size;
                enum prompt_end end = prompt_read(prompt, r->typed.size ? "... " : ">>> ", &line, &size);

                if (end == PROMPT_OVER)
                        return 0;
                if (end == PROMPT_SIGNALLED)
                        return FOLLOW_CANCELLED;
                if (end == PROMPT_INTERRUPTED)
                        buf_consume(&r->typed, r->typed.size);
                else
                        code = take_line(r, line, size);
        }
        return code;
}

static int converse(struct repl *r)
{
        char state[XDG_PATH_BYTES], file[XDG_PATH_BYTES + 40];
        int has_history =
                cli_xdg_find("XDG_STATE_HOME", ".local/state", "cloche", "history", state, sizeof(state)) == 0 &&
                cli_xdg_make_directories(state) == 0;
        struct prompt *prompt;
        int code;

        snprintf(file, sizeof(file), "%s/history-%s", state, r->target.language);
        prompt = prompt_new(has_history ? file : NULL, complete_line, r);
        if (!prompt)
                return cli_bad("no memory for a prompt"), 1;
        printf("%s in sandbox %s, context %s. Tab completes, Ctrl-C interrupts, Ctrl-D ends.\n", r->target.language,
               r->target.sandbox, r->target.context);
        fflush(stdout);
        code = type_cells(r, prompt);
        prompt_free(prompt);
        return code;
}

/* Run all of standard input as one cell. */
static int run_piped(struct repl *r)
{
        for (;;) {
                char *room = buf_reserve(&r->typed, 65536);
                ssize_t n = room ? read(STDIN_FILENO, room, 65536) : 0;

                if (!room)
                        return cli_bad("standard input has more than %u bytes", CELL_BYTES_MAX);
                if (n < 0 && errno != EINTR)
                        return cli_bad("cannot read standard input: %s", strerror(errno)), 1;
                if (n == 0)
                        break;
                r->typed.size += n > 0 ? (size_t)n : 0;
        }
        return is_blank(&r->typed) ? 0 : cells_run(&r->cells, r->typed.data, r->typed.size, NULL);
}

/* -- both ---------------------------------------------------------------------------------------------------- */

static int work(struct repl *r, int is_terminal)
{
        const char *directory = r->request->sandbox.displays;

        questions_init(&r->questions, r->target.sandbox);
        r->cells = (struct cells){
                .client = &r->client,
                .sandbox = r->target.sandbox,
                .context = r->target.context,
                .timeout_ms = r->request->run.limits.wall_ms,
                .restart = 1,
                .interrupts = is_terminal,
                .questions = is_terminal ? &r->questions : NULL,
                .displays = {.sandbox = r->target.sandbox,
                             .directory = directory,
                             .saves = directory     ? DISPLAYS_ALL
                                      : is_terminal ? DISPLAYS_PICTURES
                                                    : DISPLAYS_NAMED},
        };
        return is_terminal ? converse(r) : run_piped(r);
}

static int repl(struct cli_request *request)
{
        struct repl r = {.request = request, .typed = BUF_INIT(CELL_BYTES_MAX)};
        const char *language = request->positional[0];
        int code, bad;

        if (language && !options_is_language(language))
                return cli_bad("there is no language '%s' (cloche languages lists them); a sandbox is named by "
                               "--sandbox %s",
                               language, language);
        code = sandbox_open(request, &r.client);
        if (code)
                return code;
        if (request->sandbox.sandbox)
                sandbox_print_lost(&r.client, request, request->sandbox.sandbox);
        code = cells_target_open(&r.target, &r.client, &request->sandbox, request->sandbox.context, language);
        if (code == 0)
                code = work(&r, isatty(STDIN_FILENO) && isatty(STDOUT_FILENO));
        questions_done(&r.questions);
        bad = cells_target_close(&r.target);
        daemon_close(&r.client);
        buf_done(&r.typed);
        return code ? code : bad;
}

const struct cli_handler command_repl = {.run = repl, .positional_max = 1};
