/* Programs in a sandbox: requests to PID 1 to start and kill them, and their environment. Runs in:
 * cloched-engine, on its loop, with the rights of the daemon's user. */
#include "spawn.h"
#include "sandboxes.h"

#include "base/array.h"
#include "base/env.h"
#include "base/err.h"
#include "base/fd.h"
#include "jail/root/plan.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define STRINGS_MAX INIT_STRINGS_MAX

/* Packages go to the home, which belongs to the programs and is saved with the sandbox, and
 * interpreters look there. Without PIP_BREAK_SYSTEM_PACKAGES pip refuses even there (PEP 668). */
#define LOCAL JAIL_HOME "/.local"
#define GEMS LOCAL "/share/gems"
#define LOCAL_PATH LOCAL "/bin:" GEMS "/bin"

static const char *const own_env[] = {
        "PATH=" LOCAL_PATH ":/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin",
        "NPM_CONFIG_PREFIX=" LOCAL,
        "NODE_PATH=" LOCAL "/lib/node_modules",
        "GEM_HOME=" GEMS,
};

/* Root installs where the system looks. */
#define ROOT_PATH "/" JAIL_BIN
static const char *const root_env[] = {
        "PATH=" ROOT_PATH ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME=/root",
        "USER=root",
        "LOGNAME=root",
        "PIP_ROOT_USER_ACTION=ignore",
        "NODE_PATH=/usr/local/lib/node_modules:/usr/lib/node_modules", /* npm -g, of Debian and of Node */
};

#define NPM_AUTHORITIES "NPM_CONFIG_CAFILE=/etc/ssl/certs/ca-certificates.crt"

static const char *const common_env[] = {
        "SHELL=/bin/bash",
        "LANG=C.UTF-8",
        "LC_ALL=C.UTF-8",
        "TMPDIR=/tmp",
        "PIP_BREAK_SYSTEM_PACKAGES=1",
        "PIP_DISABLE_PIP_VERSION_CHECK=1",
        "NPM_CONFIG_UPDATE_NOTIFIER=false",
        /* A connection that the network refuses is refused again: npm would wait for 70 s in
         * between. */
        "NPM_CONFIG_FETCH_RETRY_MINTIMEOUT=500",
        "NPM_CONFIG_FETCH_RETRY_MAXTIMEOUT=2000",
        /* Node has authorities of its own, and NODE_EXTRA_CA_CERTS costs each start of it 55 ms
         * of processor time. npm ignores a file that is not there. */
        NPM_AUTHORITIES,
};
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* -- environments -------------------------------------------------------------------------------------------------- */

int sandbox_env_is_name(const char *name)
{
        size_t size = env_name_size(name);

        return size > 0 && name[size] == '\0';
}

int sandbox_env_check(const json_t *env, struct cloche_err *e)
{
        const char *name;
        json_t *value;

        if (!json_is_object(env))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "env must be an object: text by name");
        if (json_object_size(env) > SANDBOX_ENV_MAX)
                return err_set(e, CLOCHE_E_TOO_LARGE, "env has %zu variables, at most %d are accepted",
                               json_object_size(env), SANDBOX_ENV_MAX);
        json_object_foreach ((json_t *)env, name, value) {
                if (!sandbox_env_is_name(name))
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                                       "env: \"%.60s\" is not a valid name of a variable, expected "
                                       "([A-Za-z_][A-Za-z0-9_]*)",
                                       name);
                if (!json_is_null(value) && !json_is_string(value))
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "env: %.60s must be text, or null to unset it",
                                       name);
                if (json_is_string(value) && strlen(json_string_value(value)) != json_string_length(value))
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "env: the value of %.60s contains NUL", name);
        }
        return 0;
}

int sandbox_env_check_of_all(const json_t *env, struct cloche_err *e)
{
        static const char *const names[] = {"BASH_ENV", "SHELLOPTS", "BASHOPTS"};

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                if (json_object_get(env, names[i]))
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                                       "env: %s cannot be set for a sandbox or session, as its shells could not start "
                                       "with it",
                                       names[i]);
        return sandbox_env_check(env, e);
}

struct env {
        char **rows;
        size_t count, room;
};

static char **find_row(const struct env *env, const char *name, size_t size)
{
        for (size_t i = 0; i < env->count; i++)
                if (strncmp(env->rows[i], name, size) == 0 && env->rows[i][size] == '=')
                        return &env->rows[i];
        return NULL;
}

static void unset(struct env *env, const char *name)
{
        char **row = find_row(env, name, strlen(name));

        if (!row)
                return;
        free(*row);
        *row = env->rows[--env->count];
        env->rows[env->count] = NULL;
}

static int put(struct env *env, char *row)
{
        char **old = row ? find_row(env, row, strcspn(row, "=")) : NULL;

        if (!row)
                return -ENOMEM;
        if (old) {
                free(*old);
                *old = row;
                return 0;
        }
        if (ARRAY_GROW(env->rows, env->count + 1, env->room) < 0) { /* a NULL ends it */
                free(row);
                return -ENOMEM;
        }
        env->rows[env->count++] = row;
        env->rows[env->count] = NULL;
        return 0;
}

static int put_rows(struct env *env, const char *const *rows, size_t count)
{
        int r = 0;

        for (size_t i = 0; r == 0 && i < count; i++)
                r = put(env, strdup(rows[i]));
        return r;
}

static int put_all(struct env *env, const json_t *object)
{
        const char *name;
        json_t *value;
        int r = 0;

        json_object_foreach ((json_t *)object, name, value) {
                char *row = NULL;

                if (json_is_null(value)) {
                        unset(env, name);
                        continue;
                }
                if (asprintf(&row, "%s=%s", name, json_string_value(value)) < 0)
                        row = NULL;
                r = put(env, row);
                if (r < 0)
                        break;
        }
        return r;
}

/* An image's PATH follows the directories to which packages are installed. */
static int put_stated(struct env *env, const json_t *stated, int has_root)
{
        const char *path = json_string_value(json_object_get(stated, "PATH"));
        char *row = NULL;
        int r = put_all(env, stated);

        if (r < 0 || !path)
                return r;
        return put(env, asprintf(&row, "PATH=%s:%s", has_root ? ROOT_PATH : LOCAL_PATH, path) < 0 ? NULL : row);
}

static int put_pair(struct env *env, const char *name, const char *value)
{
        char *row;

        return put(env, asprintf(&row, "%s=%s", name, value) < 0 ? NULL : row);
}

static int put_user(struct env *env, const struct image *image)
{
        const struct jail_user user = image_runs_as(image);
        int r = put_pair(env, "HOME", user.home);

        if (r == 0)
                r = put_pair(env, "USER", user.name);
        return r < 0 ? r : put_pair(env, "LOGNAME", user.name);
}

/* npm takes its file for all authorities, so that those of Node, and of a user's file for it, would
 * have no effect. */
static void leave_authorities_to_node(struct env *env)
{
        char **node = find_row(env, "NODE_EXTRA_CA_CERTS", strlen("NODE_EXTRA_CA_CERTS")),
             **npm = find_row(env, "NPM_CONFIG_CAFILE", strlen("NPM_CONFIG_CAFILE"));

        if (node && npm && strcmp(*npm, NPM_AUTHORITIES) == 0)
                unset(env, "NPM_CONFIG_CAFILE");
}

char **sandbox_env_list(const struct sandbox *s, const json_t *more)
{
        struct env env = {0};
        int r = s->has_root ? put_rows(&env, root_env, COUNT(root_env)) : put_rows(&env, own_env, COUNT(own_env));

        if (r == 0 && !s->has_root)
                r = put_user(&env, &s->image);
        if (r == 0)
                r = put_rows(&env, common_env, COUNT(common_env));
        if (r == 0 && s->image.settings)
                r = put_stated(&env, s->image.settings->env, s->has_root);
        if (r == 0)
                r = put_all(&env, s->all->env);
        if (r == 0)
                r = put_all(&env, s->env);
        if (r == 0 && more)
                r = put_all(&env, more);
        if (r == 0) {
                leave_authorities_to_node(&env);
                return env.rows;
        }
        sandbox_env_free(env.rows);
        return NULL;
}

int sandbox_env_has_npm_authorities(char *const *rows)
{
        for (; rows && *rows; rows++)
                if (strcmp(*rows, NPM_AUTHORITIES) == 0)
                        return 1;
        return 0;
}

char **sandbox_env_from(char *const *exported, const json_t *more)
{
        struct env env = {0};
        int r = 0;

        for (char *const *row = exported; r == 0 && *row; row++)
                r = put(&env, strdup(*row));
        if (r == 0 && more)
                r = put_all(&env, more);
        if (r == 0 && env.rows) {
                leave_authorities_to_node(&env);
                return env.rows;
        }
        sandbox_env_free(env.rows);
        return NULL;
}

json_t *sandbox_env_object(const struct sandbox *s, const json_t *more)
{
        char **env = sandbox_env_list(s, more);
        json_t *object = env ? json_object() : NULL;

        for (char **row = env; object && *row; row++) {
                size_t size = strcspn(*row, "=");

                json_object_setn_new(object, *row, size, json_string(*row + size + 1));
        }
        sandbox_env_free(env);
        return object;
}

void sandbox_env_free(char **env)
{
        for (char **row = env; row && *row; row++)
                free(*row);
        free(env);
}

/* -- requests to PID 1 --------------------------------------------------------------------------------------------- */

static int add_string(struct buf *strings, const char *text)
{
        return buf_append(strings, text, strlen(text) + 1);
}

static int pack(const struct spawn *spawn, struct buf *strings, struct init_request *request)
{
        int r = add_string(strings, spawn->cwd);

        for (const char *const *word = spawn->argv; r == 0 && *word; word++, request->argc++)
                r = add_string(strings, *word);
        for (const char *const *word = spawn->env; r == 0 && *word; word++, request->envc++)
                r = add_string(strings, *word);
        return r;
}

int sandbox_send_spawn(const struct spawn *spawn, control_done done, void *data, struct cloche_err *e)
{
        _cleanup_buf_ struct buf strings = BUF_INIT(STRINGS_MAX);
        struct init_request request = {.op = INIT_SPAWN,
                                       .flags = spawn->flags,
                                       .cols = spawn->cols,
                                       .rows = spawn->rows};

        if (pack(spawn, &strings, &request) < 0)
                return err_set(e, CLOCHE_E_TOO_LARGE,
                               "command and environment have more than %u bytes: pass what is large as a file",
                               STRINGS_MAX);
        return control_spawn(spawn->control, &request, strings.data, strings.size, spawn->fds, spawn->fd_count, done,
                             data, e);
}

int sandbox_spawn_own(struct sandbox *s, const json_t *more, struct spawn *spawn, control_done done, void *data,
                      struct cloche_err *e)
{
        _cleanup_fd_ int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
        char **env = sandbox_env_list(s, more);
        int r;

        for (size_t i = 0; i < spawn->fd_count; i++)
                spawn->fds[i] = spawn->fds[i] >= 0 ? spawn->fds[i] : null_fd;
        spawn->cwd = "/";
        spawn->env = (const char *const *)env;
        r = !env || null_fd < 0 ? err_os(e, CLOCHE_E_RESOURCE, env ? errno : ENOMEM, "start %s", spawn->argv[0])
                                : sandbox_send_spawn(spawn, done, data, e);
        sandbox_env_free(env);
        return r;
}

int sandbox_start_files(struct sandbox *s, struct control *control, const char *const *argv, int in_fd, int out_fd,
                        control_done done, void *data, struct cloche_err *e)
{
        int fds[4] = {in_fd, out_fd, -EBADF, s->all->files_fd};
        struct spawn spawn = {.control = control, .argv = argv, .fds = fds, .fd_count = 4, .flags = INIT_SPAWN_PROGRAM};

        return sandbox_spawn_own(s, NULL, &spawn, done, data, e);
}

int sandbox_send_kill(struct control *control, int32_t pid, int signal, uint32_t flags, const int32_t *spared,
                      size_t spared_count, control_done done, void *data, struct cloche_err *e)
{
        struct init_request request = {.op = INIT_KILL, .pid = pid, .signal = (uint32_t)signal, .flags = flags};
        _cleanup_fd_ int fd = -EBADF;

        if (spared_count > 0) {
                fd = fd_from_bytes("spared", spared, spared_count * sizeof(*spared));
                if (fd < 0)
                        return err_os(e, CLOCHE_E_RESOURCE, -fd, "hold pids");
        }
        return control_request(control, &request, &fd, fd >= 0, done, data, e);
}
