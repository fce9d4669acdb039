/* The parts of cloche-bash.so: a loadable builtin that turns a live bash into the agent. One
 * thread, except for capture.c's. */
#ifndef CLOCHE_BASH_AGENT_H
#define CLOCHE_BASH_AGENT_H

#include "box/agent/agent.h"

#include "box/shell/loadable.h"

/* -- evaluate.c: running code in this shell -------------------------------------------------------------------- */

enum ending {
        ENDED,            /* normally, or by `return` */
        ENDED_BY_SYNTAX,  /* the parser failed before the end of the code */
        ENDED_BY_EXIT,    /* the builtin `exit` */
        ENDED_BY_ERREXIT, /* a command failed under `set -e` */
        ENDED_BY_SHELL,   /* an unset variable under `set -u`, a division by zero: the shell gave up with a message */
};

struct outcome {
        enum ending ending;
        int status;
        char message[1024]; /* the shell's own, "" if there was none */
        char stack[2048];   /* where the shell gave up, innermost first */
};

/* The code's file is the bottom entry of BASH_SOURCE until leave_file(), like a script's. */
void enter_file(const char *filename);
void leave_file(void);

/* status_before: $? at the start of the code. */
void evaluate_code(const char *code, const char *filename, int status_before, struct outcome *ret);
/* Parse code without running it. 0, or not; message: the last of the parser's, "" if there was
 * none. */
int read_code(const char *code, char *message, size_t size);
/* words: the function's name and its arguments; takes ownership. */
void evaluate_function(SHELL_VAR *function, WORD_LIST *words, struct outcome *ret);
/* The trap on EXIT, once. */
void evaluate_exit_trap(void);

/* -- messages.c: the shell's own messages on stderr ----------------------------------------------------------- */

void messages_start(void);
void messages_forget(void);
/* Neither print nor remember messages until released. */
void messages_hold(int is_held);
/* Remember messages without printing them. */
void messages_mute(int is_mute);
/* The last message, "" if there is none. After a syntax error the line with the description. */
const char *messages_last(void);

/* -- capture.c: stdout of the function ------------------------------------------------------------------------- */

/* 0, or -1 with the reason. The request fails if more than limit bytes are printed. */
int capture_begin(struct agent *a, size_t limit, const char **ret_why);
/* The captured output, borrowed until capture_begin. Later writers have no reader. */
void capture_end(const char **ret_text, size_t *ret_size);
/* Wait for the thread of the last capture: a template must have none. */
void capture_settle(void);

/* -- arguments.c: values to words ------------------------------------------------------------------------------ */

/* 0, or -1 after agent_throw. */
int arguments_read(const struct agent_request *request, struct agent_reply *reply, WORD_LIST **ret);
/* A value as a word; NULL with the reason. Owned by the caller, from the shell's allocator. */
char *value_word(const struct agent_request *request, const json_t *value, const char **ret_why);

/* -- result.c: text to values ---------------------------------------------------------------------------------- */

/* 0, or -1 after agent_throw. */
int result_from_text(struct agent_reply *reply, const char *text, size_t size);
/* The value, in text form, if text is JSON from its beginning to its end; else NULL. */
json_t *json_of(const char *text, size_t size);

/* -- host.c: host functions as commands ------------------------------------------------------------------------ */

/* 0, or -1 after agent_throw. */
int host_declare(struct agent *a, const struct agent_request *request, struct agent_reply *reply);
/* Add a command of this name; all data except the name is static. */
void add_builtin(const char *name, sh_builtin_func_t *function, char *const *about, const char *usage);

/* -- builtin.c ------------------------------------------------------------------------------------------------- */

/* Refresh the shell's cached copies of IFS, PATH, LC_ALL and others. names: the keys of an object. */
void heed_variables(const json_t *names);

/* -- cells.c: contexts ------------------------------------------------------------------------------------------ */

extern const struct agent_method cell_methods[];

/* Prepare for cells. 0, or -errno. */
int cells_start(void);
int cells_are_open(void);

/* True if the cell that this process belongs to is running: only then may it send. */
int cell_may_tell(void);
size_t cell_store_bytes(void);

/* Codes of errors (spec/agent.md). */
enum { REFUSED_REQUEST = -32600, REFUSED_PARAMS = -32602, REFUSED_THREW = -32000, REFUSED_BRANCH = -32001 };

/* All return -1. */
int refuse(struct agent_refusal *refusal, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
int refuse_params(struct agent_refusal *refusal, const char *name, const char *what);
/* 0 if a context is open. */
int refuse_unopened(const struct agent *a, const char *method, struct agent_refusal *refusal);
/* A string without NUL. */
int is_shell_text(const json_t *value);

/* -- opening.c ------------------------------------------------------------------------------------------------- */

int answer_open(struct agent *a, const json_t *params, json_t **ret_result, struct agent_refusal *refusal);

/* -- shows.c: displays and input of cells --------------------------------------------------------------------- */

void shows_start(struct agent *a);

/* -- names.c: variables and completions -------------------------------------------------------------------------- */

/* Names defined so far are not the user's. The first call counts. */
void names_start(void);
/* Nor are these, of an object. */
void names_hide(const json_t *env);
int answer_describe(struct agent *a, const json_t *params, json_t **ret_result, struct agent_refusal *refusal);
int answer_complete(struct agent *a, const json_t *params, json_t **ret_result, struct agent_refusal *refusal);

/* -- looks.c: the word at a place, and whether code is whole ------------------------------------------------------ */

int answer_inspect(struct agent *a, const json_t *params, json_t **ret_result, struct agent_refusal *refusal);
int answer_is_complete(struct agent *a, const json_t *params, json_t **ret_result, struct agent_refusal *refusal);

#endif
