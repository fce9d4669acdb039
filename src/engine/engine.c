#include "engine.h"

#include "base/err.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The directory of the running program, or "". */
static void program_directory(char *ret, size_t size)
{
        ssize_t n = readlink("/proc/self/exe", ret, size - 1);
        char *slash;

        ret[n < 0 ? 0 : n] = '\0';
        slash = strrchr(ret, '/');
        if (slash)
                *slash = '\0';
        else
                ret[0] = '\0';
}

/* A directory that holds probe: the caller's word, the environment's, a build tree's, the installation's. Only the last
 * two are searched for; what was named is taken as it is. */
static void find_directory(const char *named, const char *variable, const char *const *near, const char *probe, const char *installed,
                           char *ret, size_t size)
{
        const char *given = named ? named : getenv(variable);
        char base[2048], path[4096];

        if (given && *given) {
                snprintf(ret, size, "%s", given);
                return;
        }
        program_directory(base, sizeof(base));
        for (; base[0] && *near; near++) {
                snprintf(ret, size, "%s%s", base, *near);
                snprintf(path, sizeof(path), "%s/%s", ret, probe);
                if (access(path, F_OK) == 0)
                        return;
        }
        snprintf(ret, size, "%s", installed);
}

static void find_libexec(const struct cloche_engine_options *opt, char *ret, size_t size)
{
        static const char *const near[] = {"", "/src/keeper", "/../keeper", "/../src/keeper", NULL};

        find_directory(opt->libexec_dir, "CLOCHE_LIBEXEC", near, "cloche-keeper", CLOCHE_LIBEXEC_DIR, ret, size);
}

static void find_runtimes(const struct cloche_engine_options *opt, char *ret, size_t size)
{
        static const char *const near[] = {"/runtimes", "/../runtimes", "/../../runtimes", "/../../../runtimes", NULL};

        find_directory(opt->runtimes_dir, "CLOCHE_RUNTIMES", near, "python/manifest.json", CLOCHE_RUNTIMES_DIR, ret, size);
}

/* The keeper wants absolute paths: its own directory is /. */
static int absolute(const char *path, char **ret, struct cloche_err *e)
{
        *ret = path ? realpath(path, NULL) : strdup("");
        return *ret ? 0 : err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "open '%.100s'", path ? path : "");
}

static int open_probe(const char *libexec_dir)
{
        char path[4200];

        snprintf(path, sizeof(path), "%s/cloche-probe", libexec_dir);
        return open(path, O_RDONLY | O_CLOEXEC);
}

static int start(cloche_engine *engine, const struct cloche_engine_options *opt, struct cloche_err *e)
{
        char libexec[4096], runtimes[4096];
        char *runtimes_path = NULL;
        int r;

        find_libexec(opt, libexec, sizeof(libexec));
        find_runtimes(opt, runtimes, sizeof(runtimes));
        r = absolute(opt->image, &engine->image, e);
        if (r < 0)
                return err_wrap(e, "image");
        r = absolute(runtimes, &runtimes_path, e);
        if (r < 0)
                r = err_wrap(e, "runtimes");
        if (r == 0)
                r = runtimes_load(runtimes_path, &engine->runtimes, e);
        if (r == 0)
                r = absolute(libexec, &engine->libexec_dir, e);
        if (r == 0)
                engine->probe_fd = open_probe(engine->libexec_dir);
        if (r == 0)
                r = keeper_start(engine->libexec_dir, &engine->keeper, e);
        free(runtimes_path);
        return r;
}

int cloche_engine_new(const struct cloche_engine_options *opt, cloche_engine **ret, struct cloche_err *e)
{
        static const struct cloche_engine_options none;
        cloche_engine *engine = calloc(1, sizeof(*engine));
        int r;

        if (!engine)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "start an engine");
        if (!opt)
                opt = &none;
        r = uv_loop_init(&engine->loop);
        if (r < 0) {
                free(engine);
                return err_os(e, CLOCHE_E_RESOURCE, -r, "make a loop");
        }
        engine->optional_guards = opt->optional_guards;
        engine->probe_fd = -EBADF;
        r = start(engine, opt, e);
        if (r < 0) {
                cloche_engine_free(engine);
                return r;
        }
        *ret = engine;
        return 0;
}

void cloche_engine_free(cloche_engine *engine)
{
        if (!engine)
                return;
        keeper_stop(engine->keeper);
        runtimes_done(&engine->runtimes);
        uv_loop_close(&engine->loop);
        fd_close(&engine->probe_fd);
        free(engine->image);
        free(engine->libexec_dir);
        free(engine);
}

enum cloche_guard_state cloche_engine_guard(const cloche_engine *engine, enum cloche_guard guard, const char **ret_reason)
{
        const struct keeper_guard *row = keeper_guard(engine->keeper, guard);

        if (ret_reason)
                *ret_reason = row->reason;
        return row->state > CLOCHE_GUARD_ENFORCED ? CLOCHE_GUARD_ABSENT : (enum cloche_guard_state)row->state;
}
