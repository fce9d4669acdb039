/* Contexts (spec/agent.md): cells run one after another in this shell, which ends only by `exec` and signals. */
#include "bash-agent.h"

#include "box/shell/session.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define STORE_BYTES ((size_t)16 << 20)

extern volatile int last_command_exit_value;

static struct {
        int is_open;
        atomic_uint *running; /* number of the running cell, 0: none; shared with forked processes */
        unsigned cell;        /* the latest one that this process has seen */
        size_t store_bytes;
} context = {.store_bytes = STORE_BYTES};

int cell_may_tell(void)
{
        return context.cell != 0 && context.running && atomic_load(context.running) == context.cell;
}

size_t cell_store_bytes(void)
{
        return context.store_bytes;
}

int refuse(struct agent_refusal *refusal, int code, const char *format, ...)
{
        va_list ap;

        refusal->code = code;
        va_start(ap, format);
        vsnprintf(refusal->message, sizeof(refusal->message), format, ap);
        va_end(ap);
        return -1;
}

int refuse_params(struct agent_refusal *refusal, const char *name, const char *what)
{
        return refuse(refusal, REFUSED_PARAMS, "params.%s must be %s", name, what);
}

int refuse_unopened(const struct agent *a, const char *method, struct agent_refusal *refusal)
{
        if (context.is_open || agent_is_rehearsing(a))
                return 0;
        return refuse(refusal, REFUSED_REQUEST, "no context is open here: `open` comes before `%s`", method);
}

int is_shell_text(const json_t *value)
{
        return json_is_string(value) && strlen(json_string_value(value)) == json_string_length(value);
}

int cells_start(void)
{
        void *shared = mmap(NULL, sizeof(*context.running), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

        if (shared == MAP_FAILED)
                return -errno;
        context.running = shared;
        context.is_open = 1;
        return 0;
}

int cells_are_open(void)
{
        return context.is_open;
}

/* -- how a cell ended ------------------------------------------------------------------------------------------ */

static json_t *lines_of(const char *text)
{
        json_t *lines = json_array();

        for (const char *end; *text; text = *end ? end + 1 : end) {
                end = strchrnul(text, '\n');
                json_array_append_new(lines, agent_text(text, (size_t)(end - text)));
        }
        return lines;
}

static json_t *failed(const char *name, const char *message, const char *stack)
{
        return json_pack("{s:s, s:{s:s, s:o, s:o}}", "status", "error", "error", "name", name, "message",
                         agent_text(message, strlen(message)), "traceback", lines_of(stack));
}

static json_t *failed_by_status(const struct outcome *outcome)
{
        static const struct {
                const char *before, *after;
        } forms[] = {
                [ENDED] = {"", ""},
                [ENDED_BY_EXIT] = {"exit ", ""},
                [ENDED_BY_ERREXIT] = {"", " under set -e"},
                [ENDED_BY_SHELL] = {"", ""},
        };
        const int is_told = outcome->ending == ENDED_BY_SHELL && *outcome->message;
        char text[sizeof(outcome->message) + 64];

        snprintf(text, sizeof(text), "%s%d%s%s%s", forms[outcome->ending].before, outcome->status,
                 forms[outcome->ending].after, is_told ? ": " : "", is_told ? outcome->message : "");
        return failed("ExitStatus", text, outcome->stack);
}

static json_t *result_of(const struct outcome *outcome, enum abandoned why)
{
        if (why == ABANDONED_BY_INTERRUPT)
                return failed("Interrupt", "the cell was interrupted", "");
        if (why == ABANDONED_BY_PIPE)
                return failed("ExitStatus", "141: nobody reads what the shell writes to a pipe", "");
        if (outcome->ending == ENDED_BY_SYNTAX)
                return failed("SyntaxError", outcome->message, "");
        if (outcome->ending == ENDED && outcome->status == 0)
                return json_pack("{s:s}", "status", "ok");
        return failed_by_status(outcome);
}

/* -- cell ------------------------------------------------------------------------------------------------------ */

/* Give the cell a new number: processes of earlier cells still hold theirs. */
static void begin_telling(void)
{
        static unsigned last;

        if (++last == 0)
                last = 1;
        context.cell = last;
        atomic_store(context.running, last);
}

/* A forked process that waits for a response is reading the channel: it has to stop first. */
static void end_telling(struct agent *a)
{
        atomic_store(context.running, 0);
        agent_await_askers(a);
}

/* Children that the cell waited for end with it, as at a terminal. Background jobs ignore
 * SIGINT, and the shell has it blocked. */
static void interrupt_programs(void)
{
        if (getpgrp() == getpid())
                kill(0, SIGINT);
}

static json_t *run(struct agent *a, const char *code, const char *filename)
{
        const int is_rehearsal = agent_is_rehearsing(a);
        enum abandoned why = ABANDONED_NOT;
        struct outcome outcome;

        hooks_before_command();
        enter_file(filename);
        if (!is_rehearsal) {
                begin_telling();
                interrupt_arm();
        }
        evaluate_code(code, filename, last_command_exit_value & 0xff, &outcome);
        if (!is_rehearsal) {
                why = interrupt_disarm();
                hooks_after_command();
                if (why == ABANDONED_BY_INTERRUPT)
                        interrupt_programs();
                end_telling(a);
        }
        leave_file();
        fflush(stdout);
        last_command_exit_value = why ? 128 + (why == ABANDONED_BY_INTERRUPT ? SIGINT : SIGPIPE) : outcome.status;
        return result_of(&outcome, why);
}

static int is_count(const json_t *value)
{
        return json_is_integer(value) && json_integer_value(value) >= 0;
}

static int check_cell(const json_t *params, struct agent_refusal *refusal)
{
        const json_t *filename = json_object_get(params, "filename"), *store = json_object_get(params, "storeBytes");

        if (!json_is_string(json_object_get(params, "code")))
                return refuse_params(refusal, "code", "a string");
        if (!is_count(json_object_get(params, "count")))
                return refuse_params(refusal, "count", "an integer from 0");
        if (filename && !json_is_null(filename) && !is_shell_text(filename))
                return refuse_params(refusal, "filename", "null or a string without NUL");
        if (store && !is_count(store))
                return refuse_params(refusal, "storeBytes", "an integer from 0");
        return 0;
}

static int answer_cell(struct agent *a, const json_t *params, json_t **ret_result, struct agent_refusal *refusal)
{
        const json_t *code = json_object_get(params, "code"), *store = json_object_get(params, "storeBytes");
        const char *given = json_string_value(json_object_get(params, "filename"));
        char filename[4096];

        if (refuse_unopened(a, "cell", refusal) < 0 || check_cell(params, refusal) < 0)
                return -1;
        if (given)
                snprintf(filename, sizeof(filename), "%s", given);
        else
                snprintf(filename, sizeof(filename), "Cell In[%lld]",
                         (long long)json_integer_value(json_object_get(params, "count")));
        context.store_bytes = store ? (size_t)json_integer_value(store) : STORE_BYTES;
        if (is_shell_text(code))
                *ret_result = run(a, json_string_value(code), filename);
        else
                *ret_result = failed("SyntaxError", "the code has a NUL in it", "");
        return 0;
}

static int refuse_branch(struct agent *a, const json_t *params, json_t **ret_result, struct agent_refusal *refusal)
{
        (void)a, (void)params, (void)ret_result;
        return refuse(refusal, REFUSED_BRANCH, "contexts of Bash cannot be forked: this agent has no way to do that");
}

const struct agent_method cell_methods[] = {
        {"open", answer_open},         {"cell", answer_cell},       {"describe", answer_describe},
        {"complete", answer_complete}, {"inspect", answer_inspect}, {"isComplete", answer_is_complete},
        {"branch", refuse_branch},     {"enter", refuse_branch},    {NULL, NULL},
};
