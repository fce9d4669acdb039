/* The state of the shell after a command: directory, children, exported variables.
 * Runs in: bash of a session, with the guest's rights, beside the guest's code. */
#include "session.h"

#include "base/fd.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* Includes reparented children, which bash does not track. The main thread is the parent of all
 * children. */
#define CHILDREN "/proc/thread-self/children"

extern char **export_env;
extern char *the_current_working_directory;

/* Variables that are useless elsewhere: every answer has the directory, and a value of SHELLOPTS
 * may keep a shell from starting. */
static const char *const not_exported[] = {"_", "PWD", "OLDPWD", "SHLVL", "SHELLOPTS", "BASHOPTS"};

struct text {
        char *data;
        size_t size, room;
};

static struct text last_sent, next;

/* -- children -------------------------------------------------------------------------------------------------- */

static int has_children(void)
{
        siginfo_t info;

        return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

static void list_children(struct shell_answer *answer)
{
        FILE *file = fopen(CHILDREN, "re");
        int pid;

        while (file && fscanf(file, "%d", &pid) == 1) {
                if (answer->job_count < SHELL_JOBS_MAX)
                        answer->jobs[answer->job_count] = pid;
                answer->job_count++;
        }
        if (file)
                fclose(file);
}

static void report_directory(struct shell_answer *answer)
{
        const char *directory = the_current_working_directory;
        char found[SHELL_CWD_MAX];

        if (!directory || strlen(directory) >= SHELL_CWD_MAX)
                directory = getcwd(found, sizeof(found));
        snprintf(answer->cwd, sizeof(answer->cwd), "%s", directory ? directory : "");
}

void export_state(struct shell_answer *answer)
{
        report_directory(answer);
        if (has_children())
                list_children(answer);
}

/* -- exported variables ---------------------------------------------------------------------------------------- */

static int is_exported(const char *variable)
{
        const size_t length = strcspn(variable, "=");

        for (size_t i = 0; i < sizeof(not_exported) / sizeof(not_exported[0]); i++)
                if (strlen(not_exported[i]) == length && strncmp(variable, not_exported[i], length) == 0)
                        return 0;
        return 1;
}

static void add(struct text *text, const char *string)
{
        const size_t size = strlen(string) + 1;

        if (text->size + size > text->room) {
                text->room = 2 * (text->size + size);
                text->data = xrealloc(text->data, text->room);
        }
        memcpy(text->data + text->size, string, size);
        text->size += size;
}

/* True if it differs from the last one sent. */
static int collect_environment(void)
{
        next.size = 0;
        maybe_make_export_env();
        for (char **variable = export_env; variable && *variable; variable++)
                if (is_exported(*variable))
                        add(&next, *variable);
        return next.size != last_sent.size || (next.size && memcmp(next.data, last_sent.data, next.size) != 0);
}

static void mark_as_sent(void)
{
        const struct text was = last_sent;

        last_sent = next;
        next = was;
}

int export_environment(void)
{
        int fd;

        if (!collect_environment())
                return -EBADF;
        fd = fd_from_bytes("environment", next.data, next.size);
        if (fd >= 0)
                mark_as_sent();
        return fd;
}

int export_start(void)
{
        if (access(CHILDREN, R_OK) < 0) {
                builtin_error("%s: %s", CHILDREN, strerror(errno));
                return -1;
        }
        collect_environment();
        mark_as_sent();
        return 0;
}
