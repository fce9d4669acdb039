/* Trials of the rules of programs that confine themselves with Landlock. cloche-probe runs on the
 * host, because boxes may not call Landlock. */
#include "probe.h"

#include "base/err.h"
#include "base/fd.h"

#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

/* Handle a line "program\tenforced|absent\tdetail". */
static void note(void *data, char *line)
{
        struct cloche_landlocked_report *rows = data;
        const char *name = strsep(&line, "\t"), *state = strsep(&line, "\t");

        for (int program = 0; line && program < CLOCHE_LANDLOCKED_COUNT; program++)
                if (strcmp(name, rows[program].name) == 0) {
                        rows[program].is_enforced = strcmp(state, "enforced") == 0;
                        snprintf(rows[program].seen, sizeof(rows[program].seen), "%s", line);
                }
}

/* Start the program by its descriptor: the user of this process may not reach its path. */
static int start(const cloche_engine *engine, const struct probe_streams *streams, pid_t *ret, struct cloche_err *e)
{
        char path[32], *const argv[] = {(char *)"cloche-probe", (char *)"--landlock", NULL},
                              *const environment[] = {NULL};
        posix_spawn_file_actions_t actions;
        int code;

        if (engine->probe_fd < 0)
                return err_os(e, CLOCHE_E_KEEPER, ENOENT, "open %s/cloche-probe", engine->libexec_dir);
        snprintf(path, sizeof(path), "/proc/self/fd/%d", engine->probe_fd);
        code = posix_spawn_file_actions_init(&actions);
        if (code)
                return err_os(e, CLOCHE_E_RESOURCE, code, "start cloche-probe");
        code = posix_spawn_file_actions_adddup2(&actions, streams->null_fd, 0);
        if (!code)
                code = posix_spawn_file_actions_adddup2(&actions, streams->write_fd, 1);
        if (!code)
                code = posix_spawn_file_actions_adddup2(&actions, streams->null_fd, 2);
        if (!code)
                code = posix_spawn(ret, path, &actions, NULL, argv, environment);
        posix_spawn_file_actions_destroy(&actions);
        return code ? err_os(e, CLOCHE_E_KEEPER, code, "start cloche-probe") : 0;
}

static int check_tried(const struct cloche_landlocked_report *rows, struct cloche_err *e)
{
        for (int program = 0; program < CLOCHE_LANDLOCKED_COUNT; program++)
                if (!rows[program].seen[0])
                        return err_set(e, CLOCHE_E_STATE, "the rules of %s could not be tried", rows[program].name);
        return 0;
}

int cloche_engine_landlock(cloche_engine *engine, struct cloche_landlocked_report *ret, struct cloche_err *e)
{
        static const struct cloche_landlocked_report rows[CLOCHE_LANDLOCKED_COUNT] = {
#define CLOCHE_LANDLOCKED(symbol, program, row_doc) [CLOCHE_LANDLOCKED_##symbol] = {.name = program, .doc = row_doc},
#include <cloche/landlocked.def>
#undef CLOCHE_LANDLOCKED
        };
        _cleanup_probe_streams_ struct probe_streams streams = PROBE_STREAMS_INIT;
        pid_t pid;
        int r = probe_streams_open(&streams, e);

        if (r == 0)
                r = start(engine, &streams, &pid, e);
        if (r < 0)
                return r;
        fd_close(&streams.write_fd);
        memcpy(ret, rows, sizeof(rows));
        r = probe_read(streams.read_fd, note, ret, e);
        if (r < 0)
                kill(pid, SIGKILL);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                ;
        return r < 0 ? r : check_tried(ret, e);
}
