/* Run the command of a request in this shell, or in a fork that ends with it.
 * Runs in: bash of a session, with the guest's rights, beside the guest's code. */
#include "session.h"

#include "base/fd.h"
#include "base/root.h"

#include <bashjmp.h>
#include <execute_cmd.h>
#include <jobs.h>

#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <string.h>

#define AS_TYPED (SEVAL_NONINT | SEVAL_RESETLINE | SEVAL_NOHIST | SEVAL_NOHISTEXP | SEVAL_NOFREE | SEVAL_NOOPTIMIZE)
#define LARGE_BYTES (1u << 20) /* larger memory is freed at once */

void zreset(void);

/* -- descriptors ----------------------------------------------------------------------------------------------- */

static void open_descriptors(struct session_request *request)
{
        for (int i = 0; i < 3; i++) {
                dup2(request->fds[1 + i], i);
                fd_close(&request->fds[1 + i]);
        }
        fd_close(&request->fds[0]);
}

/* Discard output that could not be written: it must not appear in a later command. */
static void settle(FILE *stream)
{
        fflush(stream);
        __fpurge(stream);
        clearerr(stream);
}

void command_close(void)
{
        settle(stdout);
        settle(stderr);
        zreset();
        for (int i = 0; i < 3; i++)
                dup2(fds_get(FDS_NULL), i);
}

/* -- jobs ------------------------------------------------------------------------------------------------------ */

static void drop_if_waited_for(int job)
{
        if (IS_FOREGROUND(job))
                delete_job(job, 0);
}

static void hush_if_dead(int job)
{
        if (DEADJOB(job))
                jobs[job]->flags |= J_NOTIFIED;
}

static void each_job(void (*handle)(int job))
{
        sigset_t sigchld, before;

        sigemptyset(&sigchld);
        sigaddset(&sigchld, SIGCHLD);
        sigprocmask(SIG_BLOCK, &sigchld, &before);
        for (int i = 0; i < js.j_jobslots; i++)
                if (jobs[i])
                        handle(i);
        sigprocmask(SIG_SETMASK, &before, NULL);
}

/* -- evaluating ------------------------------------------------------------------------------------------------ */

static int refuse_nul(const char *command, size_t size)
{
        const char *zero = memchr(command, '\0', size);

        if (!zero)
                return 0;
        fprintf(stderr, "%s: byte %zu of the command is NUL, which no command can have\n", get_name_for_error(),
                (size_t)(zero - command));
        return -1;
}

static int evaluate(void *data)
{
        const struct session_request *request = data;

        if (refuse_nul(request->strings, request->head.command_size) < 0)
                return EX_BADUSAGE;
        if (overlay_apply(request) < 0)
                return EXECUTION_FAILURE;
        return parse_and_execute(request->strings, get_name_for_error(), AS_TYPED) & 0xff;
}

static void get_ready(void)
{
        root_keep_open();
        hooks_before_command();
        each_job(hush_if_dead);
}

static int status_after(int jump, int status)
{
        if (jump == 0)
                return status;
        return last_command_exit_value & 0xff ? last_command_exit_value & 0xff : EXECUTION_FAILURE;
}

static int status_of_abandoned(enum abandoned why)
{
        return 128 + (why == ABANDONED_BY_INTERRUPT ? SIGINT : SIGPIPE);
}

static int is_exit(int jump)
{
        return jump == EXITPROG || jump == EXITBLTIN;
}

void shell_command_run(struct session_request *request, struct shell_answer *answer)
{
        const int is_large = request->head.command_size > LARGE_BYTES;
        enum abandoned why;
        int jump, status = 0;

        open_descriptors(request);
        get_ready();
        interrupt_arm();
        jump = loadable_guard(evaluate, request, NULL, &status);
        why = interrupt_disarm();
        if (!why && is_exit(jump))
                exit_shell(last_command_exit_value & 0xff);
        status = why ? status_of_abandoned(why) : status_after(jump, status);
        hooks_after_command();
        /* Forget the jobs of an abandoned command, so that bash does not report to the next command
         * that the engine killed them. */
        if (why)
                each_job(drop_if_waited_for);
        overlay_undo();
        command_close();
        shell_request_done(request);
        if (is_large)
                malloc_trim(0);
        last_command_exit_value = status;
        answer->exit_code = status;
        answer->flags |= why == ABANDONED_BY_INTERRUPT ? SHELL_INTERRUPTED : 0;
}

_Noreturn void command_run_and_exit(struct session_request *request)
{
        int jump, status = 0;

        open_descriptors(request);
        get_ready();
        jump = loadable_guard(evaluate, request, NULL, &status);
        exit_shell(is_exit(jump) ? last_command_exit_value & 0xff : status_after(jump, status));
        _exit(EXECUTION_FAILURE);
}

/* -- exporting ------------------------------------------------------------------------------------------------- */

static int export(void *data)
{
        return overlay_export(data) < 0 ? EXECUTION_FAILURE : EXECUTION_SUCCESS;
}

void command_export(struct session_request *request, struct shell_answer *answer)
{
        int status = 0, jump = loadable_guard(export, request, NULL, &status);

        answer->exit_code = status_after(jump, status);
        hooks_after_command();
        shell_request_done(request);
}
