#include "bash-agent.h"

#include <bashjmp.h>
#include <execute_cmd.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define STACK_FRAMES_MAX 50
#define AS_A_FILE (SEVAL_NONINT | SEVAL_RESETLINE | SEVAL_NOHIST | SEVAL_NOOPTIMIZE)

extern int sourcelevel, line_number_for_err_trap;

/* From trap.h, which Debian does not ship. */
#define EXIT_TRAP 0
int signal_is_trapped(int number);
int run_exit_trap(void);

static ARRAY *array_named(const char *name)
{
        SHELL_VAR *variable = find_variable(name);

        return variable && array_p(variable) ? array_cell(variable) : NULL;
}

static void push(const char *array_name, const char *value)
{
        ARRAY *array = array_named(array_name);

        if (array)
                array_rshift(array, 1, (char *)value);
}

static void pop(const char *array_name)
{
        ARRAY *array = array_named(array_name);

        if (array)
                array_dispose_element(array_shift(array, 1, 0));
}

/* Do the same as the shell for the file of a script. */
void enter_file(const char *filename)
{
        push("BASH_SOURCE", filename);
        push("BASH_LINENO", "0");
        push("FUNCNAME", "main");
}

void leave_file(void)
{
        pop("BASH_SOURCE");
        pop("BASH_LINENO");
        pop("FUNCNAME");
}

/* -- a jump out of the code ------------------------------------------------------------------------------------ */

static const char *element(ARRAY *array, int place)
{
        const char *text = array ? array_reference(array, place) : NULL;

        return text ? text : "";
}

/* Runs while FUNCNAME still has the called functions. The last entry is the file's own. */
static void describe_stack(int line, struct outcome *outcome)
{
        ARRAY *names = array_named("FUNCNAME"), *files = array_named("BASH_SOURCE"),
              *lines = array_named("BASH_LINENO");
        int count = names ? (int)loadable_array_size(names) - 1 : 0;
        size_t used = 0;

        for (int i = 0; i < count && i < STACK_FRAMES_MAX && used < sizeof(outcome->stack); i++) {
                used += (size_t)snprintf(outcome->stack + used, sizeof(outcome->stack) - used, "%s%s: line %d: %s",
                                         i ? "\n" : "", element(files, i), line, element(names, i));
                line = atoi(element(lines, i));
        }
}

static void describe_jump(int jump, struct outcome *outcome)
{
        const int line = jump == ERREXIT ? line_number_for_err_trap : executing_line_number();

        if (jump == EXITPROG || jump == EXITBLTIN)
                outcome->ending = ENDED_BY_EXIT;
        else
                outcome->ending = jump == ERREXIT ? ENDED_BY_ERREXIT : ENDED_BY_SHELL;
        outcome->status = last_command_exit_value & 0xff;
        if (outcome->ending != ENDED_BY_EXIT && outcome->status == 0)
                outcome->status = 1;
        describe_stack(line, outcome);
}

struct guarded {
        int (*work)(void *data);
        void *data;
        struct outcome *outcome;
};

static int do_work(void *data)
{
        const struct guarded *guarded = data;

        return guarded->work(guarded->data);
}

static void describe_end(int jump, void *data)
{
        struct outcome *outcome = ((const struct guarded *)data)->outcome;

        if (jump)
                describe_jump(jump, outcome);
        snprintf(outcome->message, sizeof(outcome->message), "%s", messages_last());
}

static void guard(int (*work)(void *data), void *data, struct outcome *ret)
{
        struct guarded guarded = {work, data, ret};
        int status = 0;

        *ret = (struct outcome){0};
        if (loadable_guard(do_work, &guarded, describe_end, &status))
                last_command_exit_value = ret->status;
        else
                ret->status = status;
}

/* -- code ------------------------------------------------------------------------------------------------------ */

struct code {
        const char *text, *filename;
        int status_before, is_torn;
};

static int evaluate_text(void *data)
{
        struct code *code = data;
        int status;

        last_command_exit_value = code->status_before;
        status = parse_and_execute(savestring(code->text), code->filename, AS_A_FILE);
        code->is_torn = last_command_exit_value == EX_BADSYNTAX;
        return status;
}

/* `return` is allowed outside functions, as in a file that is sourced. */
static int evaluate_with_return(void *data)
{
        unwind_protect_int(return_catch_flag);
        unwind_protect_jmp_buf(return_catch);
        unwind_protect_int(sourcelevel);
        return_catch_flag++;
        sourcelevel++;
        if (setjmp_nosigs(return_catch)) {
                parse_and_execute_cleanup(-1);
                return return_catch_value & 0xff;
        }
        return evaluate_text(data);
}

static int read_text(void *data)
{
        const struct code *code = data;

        return parse_and_execute(savestring(code->text), code->filename, AS_A_FILE | SEVAL_PARSEONLY);
}

/* An unclosed quote or bracket leaves no trace in the shell but the message. */
static int cannot_be_read(struct code *code)
{
        struct outcome outcome;

        messages_hold(1);
        guard(read_text, code, &outcome);
        messages_hold(0);
        return outcome.status != 0;
}

int read_code(const char *code, char *message, size_t size)
{
        const int status_before = last_command_exit_value;
        struct code data = {.text = code, .filename = "cell"};
        struct outcome outcome;

        messages_forget();
        messages_mute(1);
        guard(read_text, &data, &outcome);
        messages_mute(0);
        snprintf(message, size, "%s", messages_last());
        messages_forget();
        last_command_exit_value = status_before;
        return outcome.ending != ENDED || outcome.status != 0;
}

void evaluate_code(const char *code, const char *filename, int status_before, struct outcome *ret)
{
        struct code data = {.text = code, .filename = filename, .status_before = status_before};

        messages_forget();
        guard(evaluate_with_return, &data, ret);
        if (ret->ending == ENDED && (data.is_torn || (ret->status != 0 && *ret->message && cannot_be_read(&data)))) {
                ret->ending = ENDED_BY_SYNTAX;
                ret->status = EX_USAGE;
        }
}

/* -- functions ------------------------------------------------------------------------------------------------- */

struct function_call {
        SHELL_VAR *function;
        WORD_LIST *words;
};

static int execute_call(void *data)
{
        struct function_call *call = data;

        return execute_shell_function(call->function, call->words) & 0xff;
}

void evaluate_function(SHELL_VAR *function, WORD_LIST *words, struct outcome *ret)
{
        struct function_call call = {function, words};

        messages_forget();
        guard(execute_call, &call, ret);
        dispose_words(words);
}

static int execute_trap(void *unused)
{
        (void)unused;
        return run_exit_trap();
}

void evaluate_exit_trap(void)
{
        struct outcome ignored;

        if (signal_is_trapped(EXIT_TRAP))
                guard(execute_trap, NULL, &ignored);
}
