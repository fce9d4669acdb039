/* A command's own variables are ordinary global ones while it runs, so that it may assign, unset
 * and declare them freely; the session's are set aside meanwhile. With a separate scope, an unset
 * variable would reveal the session's one.
 * Runs in: bash of a session, with the guest's rights, beside the guest's code. */
#include "session.h"

#include "base/fd.h"

#include <execute_cmd.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char *the_current_working_directory;
extern int line_number;

struct aside {
        char *name;
        SHELL_VAR *variable; /* NULL: there was none */
};

static struct {
        struct aside *rows;
        size_t count, room;
        char *directory; /* the shell's name for it; NULL: it has none */
        int has_directory;
} aside;

/* -- variables ------------------------------------------------------------------------------------------------- */

/* bash keeps the values of PATH, IFS, LC_ALL and others elsewhere too. */
static void heed(const char *name)
{
        array_needs_making = 1;
        stupidly_hack_special_variables((char *)name);
}

static SHELL_VAR *take_out(const char *name)
{
        BUCKET_CONTENTS *item = hash_remove(name, global_variables->table, 0);
        SHELL_VAR *variable = item ? item->data : NULL;

        if (item) {
                free(item->key);
                free(item);
        }
        return variable;
}

static SHELL_VAR *put_aside(const char *name)
{
        struct aside *row;

        if (aside.count == aside.room) {
                aside.room = aside.room ? 2 * aside.room : 16;
                aside.rows = xrealloc(aside.rows, aside.room * sizeof(*aside.rows));
        }
        row = &aside.rows[aside.count++];
        *row = (struct aside){savestring(name), take_out(name)};
        return row->variable;
}

static void put_back(struct aside *row)
{
        SHELL_VAR *own = take_out(row->name);

        if (own)
                dispose_variable(own);
        if (row->variable)
                hash_insert(savestring(row->name), global_variables->table, HASH_NOSRCH)->data = row->variable;
        heed(row->name);
        free(row->name);
}

static void export(const char *name, const char *value)
{
        SHELL_VAR *variable = bind_variable(name, (char *)value, 0);

        if (variable)
                VSETATTR(variable, att_exported);
}

static int complain(const char *name, const char *what)
{
        fprintf(stderr, "%s: %s: %s\n", get_name_for_error(), name, what);
        return -1;
}

static int check(const char *name)
{
        const SHELL_VAR *variable;

        if (!legal_identifier((char *)name))
                return complain(name, "not a valid identifier");
        variable = find_variable(name);
        if (variable && (readonly_p(variable) || noassign_p(variable)))
                return complain(name, "readonly variable");
        return 0;
}

static int set_for_now(const char *name, const char *value)
{
        put_aside(name);
        if (value)
                export(name, value);
        heed(name);
        return 0;
}

static int set_for_good(const char *name, const char *value)
{
        if (value)
                export(name, value);
        else
                unbind_variable(name);
        heed(name);
        return 0;
}

/* text: NAME=VALUE or NAME. All are tried; -1 if one fails. */
static int each(const struct session_request *request, int (*set)(const char *name, const char *value))
{
        const char *at = request->env;
        int r = 0;

        for (uint32_t i = 0; i < request->head.env_count; i++, at += strlen(at) + 1) {
                const char *equals = strchr(at, '=');
                char *name = equals ? substring(at, 0, (int)(equals - at)) : savestring(at);

                if (check(name) < 0 || set(name, equals ? equals + 1 : NULL) < 0)
                        r = -1;
                free(name);
        }
        return r;
}

int overlay_export(const struct session_request *request)
{
        return each(request, set_for_good);
}

/* -- directory ------------------------------------------------------------------------------------------------- */

/* `cd` sets it like any variable: `cd` needs its value, and the session's must be restored
 * afterwards. */
static void put_aside_copied(const char *name)
{
        const SHELL_VAR *was = put_aside(name);

        if (was && value_cell(was) && exported_p(was))
                export(name, value_cell(was));
        else if (was && value_cell(was))
                bind_variable(name, value_cell(was), 0);
}

static void keep_directory(void)
{
        fds_keep(FDS_DIRECTORY, open(".", O_PATH | O_DIRECTORY | O_CLOEXEC));
        aside.directory = the_current_working_directory ? savestring(the_current_working_directory) : NULL;
        aside.has_directory = 1;
        put_aside_copied("PWD");
        put_aside_copied("OLDPWD");
}

static void go_back(void)
{
        if (!aside.has_directory)
                return;
        if ((fds_get(FDS_DIRECTORY) < 0 || fchdir(fds_get(FDS_DIRECTORY)) < 0) &&
            (!aside.directory || chdir(aside.directory) < 0))
                perror("cloche_session: the session's directory");
        fds_drop(FDS_DIRECTORY);
        free(the_current_working_directory);
        the_current_working_directory = aside.directory;
        aside.directory = NULL;
        aside.has_directory = 0;
}

/* With a slash in it `cd` searches no CDPATH, and takes - for a name. */
static int enter(const char *directory)
{
        sh_builtin_func_t *cd = builtin_address_internal("cd", 1)->function;
        char *path = NULL;
        WORD_LIST *words;
        int status;

        if (asprintf(&path, "%s%s", *directory == '/' ? "" : "./", directory) < 0)
                return complain(directory, "no memory");
        words = make_word_list(make_word("--"), make_word_list(make_word(path), NULL));
        free(path);
        line_number = 1;
        this_command_name = "cd";
        status = cd(words);
        this_command_name = NULL;
        dispose_words(words);
        return status == EXECUTION_SUCCESS ? 0 : -1;
}

int overlay_apply(const struct session_request *request)
{
        if (each(request, set_for_now) < 0)
                return -1;
        if (!request->cwd)
                return 0;
        keep_directory();
        return enter(request->cwd);
}

void overlay_undo(void)
{
        go_back();
        while (aside.count)
                put_back(&aside.rows[--aside.count]);
}
