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

#include <ctype.h>
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

/* Ask about code in the context; quietly, for the answer only helps. 0, or the exit code. */
static int ask(struct repl *r, const char *method, const char *code, size_t size, json_t *more, json_t **ret)
{
        struct follow follow = {.client = &r->client, .is_quiet = 1};
        json_t *text = json_stringn(code, size);

        *ret = NULL;
        if (!text || !more) {
                json_decref(text);
                json_decref(more);
                return -1;
        }
        json_object_set_new(more, "sandbox", json_string(r->target.sandbox));
        json_object_set_new(more, "context", json_string(r->target.context));
        json_object_set_new(more, "code", text);
        return follow_request(&follow, method, more, ret);
}

/* -- completion ----------------------------------------------------------------------------------------------- */

static int is_word(char c)
{
        return isalnum((unsigned char)c) || c == '_' || c & 0x80;
}

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
        size_t before = utf8_count(r->typed.data, r->typed.size);
        _cleanup_buf_ struct buf code = BUF_INIT(CELL_BYTES_MAX);
        json_t *answer = NULL;
        int code_of;

        if (buf_append(&code, r->typed.data, r->typed.size) < 0 || buf_append(&code, line, size) < 0)
                return -1;
        code_of = ask(r, "context.complete", code.data, code.size, json_object(), &answer);
        if (code_of == 0)
                code_of = take_matches(answer, before + utf8_count(line, size), before, ret);
        json_decref(answer);
        return code_of;
}

/* -- descriptions --------------------------------------------------------------------------------------------- */

/* Print the description of the name at this place, in bytes. 1: there is one. */
static int print_description(struct repl *r, const char *code, size_t size, size_t at, int has_source)
{
        json_t *answer = NULL;
        const char *text;

        if (ask(r, "context.inspect", code, size,
                json_pack("{s:I, s:i}", "at", (json_int_t)utf8_count(code, at), "detail", has_source), &answer) != 0)
                return 0;
        text = json_string_value(json_object_get(json_object_get(answer, "data"), "text/plain"));
        if (text) {
                print_bytes(stdout, text, strlen(text), PRINT_TEXT);
                printf("\n\n");
                fflush(stdout);
        }
        json_decref(answer);
        return text != NULL;
}

static void describe_name(void *data, const char *line, size_t size, size_t at)
{
        struct repl *r = data;
        _cleanup_buf_ struct buf code = BUF_INIT(CELL_BYTES_MAX);

        if (buf_append(&code, r->typed.data, r->typed.size) < 0 || buf_append(&code, line, size) < 0 ||
            !print_description(r, code.data, code.size, r->typed.size + at, 0))
                printf("no such name here\n");
}

/* NAME? and NAME??, as IPython has them; 1: it was one, and its description is printed. */
static int is_question(struct repl *r, const char *code, size_t size)
{
        size_t name = 0, end;

        while (size > 0 && strchr(" \t\r\n", code[size - 1]))
                size--;
        while (name < size && (is_word(code[name]) || code[name] == '.'))
                name++;
        for (end = name; end < size && code[end] == '?'; end++)
                ;
        return strcmp(r->target.language, "python") == 0 && name > 0 && end == size &&
               (end - name == 1 || end - name == 2) && print_description(r, code, name, name, end - name == 2);
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

/* The language's parser decides, unless it cannot be asked (a cell of another client runs) or does
 * not know. Code with a mistake is run, which tells the mistake. */
static int goes_on(struct repl *r, size_t size)
{
        json_t *answer = NULL;
        int code = ask(r, "context.isComplete", r->typed.data, size, json_object(), &answer), result;
        const char *status = json_string_value(json_object_get(answer, "status"));

        if (code == 0 && status && strcmp(status, "unknown") != 0)
                result = strcmp(status, "incomplete") == 0;
        else
                result = is_incomplete(r->target.language, r->typed.data, size);
        json_decref(answer);
        return result;
}

static int take_line(struct repl *r, const char *line, size_t size)
{
        size_t whole;

        if (buf_append(&r->typed, line, size) < 0)
                return cli_bad("the cell has more than %u bytes", CELL_BYTES_MAX), 1;
        whole = r->typed.size - (r->typed.data[r->typed.size - 1] == '\n');
        if (is_blank(&r->typed) || is_question(r, r->typed.data, whole))
                buf_consume(&r->typed, r->typed.size);
        else if (!goes_on(r, whole))
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

/* Lines of the context's last cells, of all clients, are offered like those typed here. */
static void remember_cells(struct repl *r, struct prompt *prompt)
{
        struct follow follow = {.client = &r->client, .is_quiet = 1};
        json_t *answer = NULL, *entry;
        size_t i;

        (void)follow_request(&follow, "context.history",
                             json_pack("{s:s, s:s}", "sandbox", r->target.sandbox, "context", r->target.context),
                             &answer);
        json_array_foreach (json_object_get(answer, "entries"), i, entry) {
                char *code = strdup(sandbox_text(entry, "code")), *at = code, *line;

                while (at && (line = strsep(&at, "\n")))
                        if (*line && is_typable(line)) {
                                char *whole = NULL;

                                if (asprintf(&whole, "%s\n", line) > 0)
                                        prompt_remember(prompt, whole);
                                free(whole);
                        }
                free(code);
        }
        json_decref(answer);
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
        prompt = prompt_new(has_history ? file : NULL,
                            &(struct prompt_help){.complete = complete_line, .describe = describe_name, .data = r});
        if (!prompt)
                return cli_bad("no memory for a prompt"), 1;
        remember_cells(r, prompt);
        printf("%s in sandbox %s, context %s. Tab completes, Alt-H describes, Ctrl-C interrupts, Ctrl-D ends.\n",
               r->target.language, r->target.sandbox, r->target.context);
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
