/* A shell that stays, and runs one piece of code after another: the steps of sessions and contexts
 * (runtimes/bash) around each piece.
 * Runs in: bash of a session, with the guest's rights, beside the guest's code. */
#include "session.h"

#include <execute_cmd.h>
#include <jobs.h>

extern int read_but_dont_execute, just_one_command, evalnest, sourcenest, funcnest_max;
extern int expand_aliases, no_exit_on_failed_exec, startup_state;

int change_flag(int flag, int on_or_off); /* '-' is on */

void hooks_become_top_level(void)
{
        while (parse_and_execute_level)
                parse_and_execute_cleanup(-1);
        run_unwind_protects();
        executing_builtin = 0;
}

void hooks_start(void)
{
        startup_state = 0; /* the startup state of `bash -c` executes the last program in the shell's place */
        expand_aliases = 1;
        no_exit_on_failed_exec = 1;
        last_command_exit_value = 0;
}

void hooks_before_command(void)
{
        if (read_but_dont_execute)
                change_flag('n', '+');
        if (just_one_command)
                change_flag('t', '+');
        if (funcnest_max == 0)
                funcnest_max = FUNCTIONS_NESTED_MAX;
        this_shell_builtin = NULL;
        this_command_name = NULL;
}

void hooks_after_command(void)
{
        loop_level = breaking = continuing = executing_list = executing_builtin = 0;
        comsub_ignore_return = return_catch_flag = funcnest = evalnest = sourcenest = 0;
        stop_making_children();
        unfreeze_jobs_list();
}
