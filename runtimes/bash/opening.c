/* `open`: the shell becomes a context (spec/agent.md). */
#include "bash-agent.h"

#include "box/shell/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int check_variable(const char *name, const json_t *value, struct agent_refusal *refusal)
{
        const SHELL_VAR *variable = legal_identifier(name) ? find_variable(name) : NULL;

        if (!legal_identifier(name) || !is_shell_text(value))
                return refuse(refusal, REFUSED_PARAMS,
                              "params.env: '%.80s' is no variable of a shell, with text without NUL", name);
        if (variable && (readonly_p(variable) || noassign_p(variable)))
                return refuse(refusal, REFUSED_PARAMS,
                              "params.env: the variable %.80s is the shell's own, and read-only", name);
        return 0;
}

static int check_open(const json_t *params, struct agent_refusal *refusal)
{
        const json_t *cwd = json_object_get(params, "cwd"), *env = json_object_get(params, "env"), *value;
        const char *language = json_string_value(json_object_get(params, "language")), *name;

        if (cells_are_open())
                return refuse(refusal, REFUSED_REQUEST, "a context is open here already");
        if (language && strcmp(language, "bash") != 0)
                return refuse(refusal, REFUSED_PARAMS, "params.language is '%.80s': this is the agent of bash",
                              language);
        if (cwd && !json_is_null(cwd) && !is_shell_text(cwd))
                return refuse_params(refusal, "cwd", "null or a path without NUL");
        if (env && !json_is_object(env))
                return refuse_params(refusal, "env", "an object");
        json_object_foreach ((json_t *)env, name, value)
                if (check_variable(name, value, refusal) < 0)
                        return -1;
        return 0;
}

static void export_all(const json_t *env)
{
        const char *name;
        json_t *value;

        json_object_foreach ((json_t *)env, name, value) {
                SHELL_VAR *variable = bind_variable(name, (char *)json_string_value(value), 0);

                if (variable)
                        VSETATTR(variable, att_exported);
        }
        heed_variables(env);
}

static void make_directories(const char *path)
{
        char *copy = savestring(path);

        for (char *at = strchr(copy + 1, '/'); at; at = strchr(at + 1, '/')) {
                *at = '\0';
                mkdir(copy, 0777);
                *at = '/';
        }
        mkdir(copy, 0777);
        free(copy);
}

/* By `cd`, which sets PWD. */
static int enter(void *path)
{
        WORD_LIST *words = make_word_list(make_word("--"), make_word_list(make_word(path), NULL));
        int status = builtin_address_internal("cd", 1)->function(words);

        dispose_words(words);
        return status;
}

static int enter_directory(const char *path, struct agent_refusal *refusal)
{
        char absolute[4096];
        int status = EXECUTION_FAILURE;

        snprintf(absolute, sizeof(absolute), "%s%s", *path == '/' ? "" : "./", path);
        make_directories(absolute);
        messages_forget();
        messages_mute(1);
        loadable_guard(enter, absolute, NULL, &status);
        messages_mute(0);
        if (status == EXECUTION_SUCCESS)
                return 0;
        refusal->type = "DirectoryError";
        return refuse(refusal, REFUSED_THREW, "the context cannot be in %.200s: %.200s", path, messages_last());
}

int answer_open(struct agent *a, const json_t *params, json_t **ret_result, struct agent_refusal *refusal)
{
        const char *cwd = json_string_value(json_object_get(params, "cwd"));
        char interpreter[64];
        int r;

        if (check_open(params, refusal) < 0)
                return -1;
        hooks_become_top_level();
        export_all(json_object_get(params, "env"));
        if (cwd && enter_directory(cwd, refusal) < 0)
                return -1;
        r = fds_start();
        if (r == 0)
                r = interrupt_start();
        if (r == 0)
                r = cells_start();
        if (r < 0)
                return refuse(refusal, REFUSED_THREW, "the context cannot be made: %s", strerror(-r));
        setpgid(0, 0); /* interrupt_programs() */
        shows_start(a);
        names_start();
        names_hide(json_object_get(params, "env"));
        hooks_start();
        snprintf(interpreter, sizeof(interpreter), "bash %s", shell_version_string());
        *ret_result = json_pack("{s:i, s:s}", "pid", (int)getpid(), "interpreter", interpreter);
        return 0;
}
