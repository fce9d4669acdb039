/* The builtin `cloche_agent`: bash serves the channel, and runs code itself. */
#include "bash-agent.h"

#include <jobs.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define MARK_OF_OLD_FUNCTION (1 << 30) /* not a flag of any command */
#define REHEARSALS 5
#define NOTEBOOK "__cloche_notebook__" /* the variable by which set-up code requests a rehearsal of cells */

extern char *dollar_vars[];
extern volatile int last_command_exit_value;
extern int funcnest_max;
extern pid_t dollar_dollar_pid;
extern time_t shell_start_time;
extern struct timeval shellstart;

void sbrand(unsigned long seed); /* seeds RANDOM */

static int is_set_up;   /* after `prepare` */
static int is_notebook; /* the set-up was one for contexts */

/* -- which function -------------------------------------------------------------------------------------------- */

static void mark_functions(void)
{
        SHELL_VAR **functions = all_shell_functions();

        for (size_t i = 0; functions && functions[i]; i++) {
                FUNCTION_DEF *definition = find_function_def(functions[i]->name);

                if (definition)
                        definition->flags |= MARK_OF_OLD_FUNCTION;
        }
        free(functions);
}

static int is_of_this_code(const SHELL_VAR *function)
{
        const FUNCTION_DEF *definition = find_function_def(function->name);

        return definition && !(definition->flags & MARK_OF_OLD_FUNCTION) && function->name[0] != '_';
}

/* The number of public functions that the code has defined; their names, and the last of them. */
static int find_functions(char *ret_names, size_t size, SHELL_VAR **ret_last)
{
        SHELL_VAR **functions = all_shell_functions();
        size_t used = 0;
        int count = 0;

        ret_names[0] = '\0';
        for (size_t i = 0; functions && functions[i]; i++) {
                if (!is_of_this_code(functions[i]))
                        continue;
                if (used < size)
                        used += (size_t)snprintf(ret_names + used, size - used, "%s%s", count ? ", " : "",
                                                 functions[i]->name);
                *ret_last = functions[i];
                count++;
        }
        free(functions);
        return count;
}

/* -- how the code ended ------------------------------------------------------------------------------------------- */

/* Report code that failed; what: the function, or the file. */
static int throw_outcome(struct agent_reply *reply, const struct outcome *outcome, const char *what)
{
        static const struct {
                const char *verb, *suffix;
        } forms[] = {
                [ENDED] = {"returned", ""},
                [ENDED_BY_EXIT] = {"exited with", ""},
                [ENDED_BY_ERREXIT] = {"ended with status", " under set -e"},
                [ENDED_BY_SHELL] = {"ended with status", ""},
        };
        const int is_told = outcome->ending == ENDED_BY_SHELL && *outcome->message;

        if (outcome->ending == ENDED_BY_SYNTAX)
                return agent_throw(reply, "SyntaxError", NULL, "%s", outcome->message);
        return agent_throw(reply, "ExitStatus", outcome->stack, "%s %s %d%s%s%s", what, forms[outcome->ending].verb,
                           outcome->status, forms[outcome->ending].suffix, is_told ? ": " : "",
                           is_told ? outcome->message : "");
}

/* -- call ------------------------------------------------------------------------------------------------------ */

static void set_name_of_shell(const char *filename)
{
        free(dollar_vars[0]);
        dollar_vars[0] = savestring(filename);
}

/* The code has ended: run its trap on EXIT. */
static void end_shell(const struct agent *a)
{
        if (!agent_is_rehearsing(a))
                evaluate_exit_trap();
}

/* The captured output is not the result: print it. */
static void print(const char *text, size_t size)
{
        fwrite(text, 1, size, stdout);
        fflush(stdout);
}

static int finish(struct agent_reply *reply, const struct outcome *outcome, const char *what, const char *text,
                  size_t size)
{
        if (outcome->status == 0)
                return result_from_text(reply, text, size);
        print(text, size);
        return throw_outcome(reply, outcome, what);
}

static int call_function(struct agent *a, const struct agent_request *request, struct agent_reply *reply,
                         SHELL_VAR *function, WORD_LIST *words)
{
        char *name = savestring(function->name); /* the code may unset it */
        struct outcome outcome;
        const char *text;
        size_t size;
        int r;

        if (capture_begin(a, request->result_bytes, &text) < 0) {
                r = agent_throw(reply, "ResultError", NULL, "%s", text);
        } else {
                evaluate_function(function, make_word_list(make_word(name), copy_word_list(words)), &outcome);
                capture_end(&text, &size);
                end_shell(a);
                r = finish(reply, &outcome, name, text, size);
        }
        free(name);
        return r;
}

static int call_named(struct agent *a, const struct agent_request *request, struct agent_reply *reply, WORD_LIST *words)
{
        SHELL_VAR *function, *last;
        struct outcome outcome;
        char names[1024];

        evaluate_code(request->code, request->filename, 0, &outcome);
        if (outcome.ending != ENDED) {
                end_shell(a);
                if (outcome.ending == ENDED_BY_EXIT && outcome.status == 0)
                        return agent_throw(reply, "ExitStatus", outcome.stack, "%s exited with 0 before %s was called",
                                           request->filename, request->function);
                return throw_outcome(reply, &outcome, request->filename);
        }
        function = find_function(request->function);
        if (function)
                return call_function(a, request, reply, function, words);
        find_functions(names, sizeof(names), &last);
        return agent_throw(reply, "NameError", NULL, "function '%s' is not defined in the code; it defines: %s",
                           request->function, *names ? names : "none");
}

/* The code has to run before it is known whether it is itself the function: until then its output may be the result. */
static int call_unnamed(struct agent *a, const struct agent_request *request, struct agent_reply *reply,
                        WORD_LIST *words)
{
        SHELL_VAR *function;
        struct outcome outcome;
        char names[1024];
        const char *text;
        size_t size;
        int count;

        if (capture_begin(a, request->result_bytes, &text) < 0)
                return agent_throw(reply, "ResultError", NULL, "%s", text);
        evaluate_code(request->code, request->filename, 0, &outcome);
        count = find_functions(names, sizeof(names), &function);
        if (outcome.ending != ENDED || count == 0)
                end_shell(a);
        capture_end(&text, &size);
        if (outcome.ending != ENDED || count == 0)
                return finish(reply, &outcome, request->filename, text, size);
        print(text, size);
        if (count > 1)
                return agent_throw(reply, "NameError", NULL, "the code defines several public functions (%s): name one",
                                   names);
        return call_function(a, request, reply, function, words);
}

static int check_code(const struct agent_request *request, struct agent_reply *reply)
{
        if (strlen(request->code) != request->code_size)
                return agent_throw(reply, "SyntaxError", NULL, "%s: the code has a NUL in it", request->filename);
        return 0;
}

void heed_variables(const json_t *names)
{
        const char *name;
        json_t *value;

        array_needs_making = 1;
        json_object_foreach ((json_t *)names, name, value)
                stupidly_hack_special_variables((char *)name);
}

static int call_with(struct agent *a, const struct agent_request *request, struct agent_reply *reply, WORD_LIST *words)
{
        int r;

        if (funcnest_max == 0)
                funcnest_max = FUNCTIONS_NESTED_MAX;
        set_name_of_shell(request->filename);
        mark_functions();
        enter_file(request->filename);
        remember_args(words, 1);
        r = request->function ? call_named(a, request, reply, words) : call_unnamed(a, request, reply, words);
        leave_file();
        return r;
}

static int call(struct agent *a, const struct agent_request *request, struct agent_reply *reply)
{
        WORD_LIST *words;
        int r;

        reply->signature_source = request->order ? "schema" : "convention";
        if (check_code(request, reply) < 0 || host_declare(a, request, reply) < 0)
                return -1;
        if (arguments_read(request, reply, &words) < 0)
                return -1;
        r = call_with(a, request, reply, words);
        dispose_words(words);
        return r;
}

/* -- prepare, run ---------------------------------------------------------------------------------------------- */

static int prepare(struct agent *a, const struct agent_request *request, struct agent_reply *reply)
{
        struct outcome outcome;

        if (check_code(request, reply) < 0 || host_declare(a, request, reply) < 0)
                return -1;
        is_set_up = 1;
        set_name_of_shell(request->filename);
        enter_file(request->filename);
        evaluate_code(request->code, request->filename, 0, &outcome);
        leave_file();
        is_notebook = find_variable(NOTEBOOK) != NULL;
        unbind_variable(NOTEBOOK);
        if (is_notebook)
                names_start(); /* a caller's set-up may follow, whose names are those of cells */
        return outcome.status ? throw_outcome(reply, &outcome, request->filename) : 0;
}

static WORD_LIST *words_of_argv(const json_t *argv)
{
        WORD_LIST *words = NULL;

        for (size_t i = json_array_size(argv); i-- > 0;)
                words = make_word_list(make_word(json_string_value(json_array_get(argv, i))), words);
        return words;
}

/* The shell leaves by exit_shell(), which runs the trap on EXIT. */
static int run(struct agent *a, const struct agent_request *request)
{
        struct agent_reply reply = {0};
        struct outcome outcome = {.status = EX_USAGE};

        if (check_code(request, &reply) < 0 || host_declare(a, request, &reply) < 0) {
                fprintf(stderr, "%s\n", json_string_value(json_object_get(reply.error, "message")));
                return outcome.status;
        }
        set_name_of_shell(request->filename);
        enter_file(request->filename);
        remember_args(words_of_argv(request->argv), 1);
        evaluate_code(request->code, request->filename, 0, &outcome);
        return outcome.status;
}

/* -- templates ------------------------------------------------------------------------------------------------- */

/* function: its name, or NULL if the code is the body. */
static void rehearse(struct agent *a, const char *function, const char *code)
{
        static const char args[] = "[\"text\", 1, 2.5, null, {\"a\": [true]}]";

        agent_rehearse(a, "call",
                       json_pack("{s:s, s:s, s:s?, s:o, s:{}, s:i}", "code", code, "filename", "main.sh", "function",
                                 function, "args", json_loads(args, 0, NULL), "kwargs", "resultBytes", 65536));
        capture_settle();
        unbind_func("__cloche");
        unbind_function_def("__cloche");
}

static const char *const rehearsed[] = {
        "__cloche() { local a=$1 b=(\"$@\"); [[ $a =~ ^t(.*) && ${#b[@]} -gt 2 ]] && printf '%s %d\\n' \"${a^^}\" "
        "$(($2 + 1)); }",
        "__cloche() { local i; for i in 1 2 3; do case $i in 2) continue ;; esac; done; printf '{\"a\": [1, \"%s\"]}' "
        "\"$1\"; }",
        "__cloche() { local x; x=$(printf x); read -r x <<< \"$x y\"; echo \"${x%% *}\" | { read -r x; echo \"$x\"; }; "
        "}",
};

/* Run code before the fork: the first run of each child then copies fewer pages. */
static void warm_up(struct agent *a)
{
        for (int i = 0; i < REHEARSALS; i++)
                for (size_t n = 0; n < sizeof(rehearsed) / sizeof(rehearsed[0]); n++)
                        rehearse(a, "__cloche", rehearsed[n]);
        unbind_variable("BASH_REMATCH");
        bind_variable("_", "", 0);
        last_command_exit_value = 0;
}

/* After a set-up no command may run unless the run requests it: the set-up may have redefined
 * it, or left traps and set -x. */
static void get_ready(struct agent *a)
{
        int status = last_command_exit_value;

        if (is_notebook)
                agent_rehearse(a, "cell", json_pack("{s:s, s:i}", "code", "", "count", 0));
        else if (!is_set_up)
                rehearse(a, "__cloche", rehearsed[1]);
        else
                rehearse(a, NULL, "");
        last_command_exit_value = status;
}

static void set_own_number(const char *name, long number)
{
        SHELL_VAR *variable = find_variable(name);
        char text[32];

        if (!variable)
                return;
        snprintf(text, sizeof(text), "%ld", number);
        free(value_cell(variable));
        var_setvalue(variable, savestring(text));
}

/* Renew state that siblings must not share, and state of the template that its child does not have. */
static void renew(struct agent *a)
{
        unsigned long seed = 0;

        (void)a;
        if (getrandom(&seed, sizeof(seed), 0) == sizeof(seed))
                sbrand(seed);
        dollar_dollar_pid = getpid();
        last_asynchronous_pid = NO_PID;
        last_made_pid = NO_PID;
        set_own_number("PPID", getppid());
        current_user.uid = getuid();
        current_user.euid = geteuid();
        current_user.gid = getgid();
        current_user.egid = getegid();
        set_own_number("UID", (long)current_user.uid);
        set_own_number("EUID", (long)current_user.euid);
        shell_start_time = time(NULL);
        gettimeofday(&shellstart, NULL);
}

/* -- the builtin ----------------------------------------------------------------------------------------------- */

static int serve(WORD_LIST *words)
{
        static const struct agent_language language = {
                .prepare = prepare,
                .call = call,
                .run = run,
                .warm_up = warm_up,
                .renew = renew,
                .get_ready = get_ready,
                .refused = "ResultError",
                .too_large = "ResultError",
                .forks_send_requests = 1,
                .methods = cell_methods,
        };
        static int is_serving;

        (void)words;
        if (is_serving) {
                builtin_error("the agent is at work");
                return EXECUTION_FAILURE;
        }
        if (!loadable_fits())
                return EXECUTION_FAILURE;
        is_serving = 1;
        loadable_hide_traces();
        messages_start();
        exit_shell(agent_serve(&language, NULL));
        return EXECUTION_FAILURE;
}

static char *const help[] = {"Serve Cloche's channel on descriptor 3.", NULL};

__attribute__((visibility("default"))) extern struct builtin cloche_agent_struct;
struct builtin cloche_agent_struct = {"cloche_agent", serve, BUILTIN_ENABLED, help, "cloche_agent", NULL};
