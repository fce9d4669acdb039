/* Sessions: a name, a directory, an environment and, while in use, a shell. The first command
 * starts the shell, and the next one restarts it after it ended. Runs in: cloched-engine, on its
 * loop, with the rights of the daemon's user. */
#include "session.h"
#include "sandbox/core/spawn.h"
#include "shell.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

static int check_name(const char *name, struct cloche_err *e)
{
        size_t size = strlen(name);

        if (size == 0 || size >= SANDBOX_NAME_MAX)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "session: the name has %zu bytes, expected 1 to %d", size,
                               SANDBOX_NAME_MAX - 1);
        return 0;
}

struct session *session_new(struct sandbox *s, const char *name, const char *cwd, json_t *env, int isolated,
                            uint64_t timeout_ms, struct cloche_err *e)
{
        struct session *session, *other;
        unsigned count = 0;

        TAILQ_FOREACH (other, &s->sessions, link)
                count++;
        if (check_name(name, e) < 0)
                return NULL;
        session = calloc(1, sizeof(*session));
        if (count >= SANDBOX_SESSIONS_MAX) {
                free(session);
                err_set(e, CLOCHE_E_QUEUE_FULL, "the sandbox has %u sessions already: delete one (session.delete)",
                        count);
                return NULL;
        }
        if (session && (session->start_cwd = strdup(cwd ? cwd : sandbox_directory(s))))
                session->stuck_timer = sandbox_timer_new(s, session);
        if (!session || !session->stuck_timer) {
                if (session)
                        free(session->start_cwd);
                free(session);
                err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "make a session");
                return NULL;
        }
        session->sandbox = s;
        strcpy(session->name, name);
        session->env = env ? json_incref(env) : NULL;
        session->created_ms = clock_real_ms();
        session->timeout_ms = timeout_ms;
        session->is_isolated = isolated;
        control_init(&session->own_control, &control_of_sandbox);
        session->shell_fd = -EBADF;
        session->control = isolated ? &session->own_control : &s->control;
        TAILQ_INIT(&session->commands);
        TAILQ_INSERT_TAIL(&s->sessions, session, link);
        return session;
}

struct session *session_look_up(struct sandbox *s, const char *name)
{
        struct session *session;

        TAILQ_FOREACH (session, &s->sessions, link)
                if (!session->is_closing && strcmp(session->name, name) == 0)
                        return session;
        return NULL;
}

struct session *session_find(struct sandbox *s, const char *name, struct cloche_err *e)
{
        struct session *session;

        name = name ? name : DEFAULT_SESSION;
        if (check_name(name, e) < 0)
                return NULL;
        session = session_look_up(s, name);
        if (session)
                return session;
        if (strcmp(name, DEFAULT_SESSION) == 0)
                return session_new(s, name, NULL, NULL, 0, 0, e);
        err_set(e, CLOCHE_E_NOT_FOUND, "there is no session \"%.64s\" in this sandbox (session.list lists them)", name);
        return NULL;
}

static void session_free(struct session *session)
{
        TAILQ_REMOVE(&session->sandbox->sessions, session, link);
        sandbox_timer_close(session->stuck_timer);
        json_decref(session->env);
        free(session->start_cwd);
        free(session);
}

/* Release its parts of the box, and fail its commands. */
static void release(struct session *session, const struct cloche_err *e)
{
        if (session->state != SHELL_NONE && session->pid && session->control->fd >= 0)
                (void)sandbox_send_kill(session->control, session->pid, SIGKILL, INIT_KILL_TREE, NULL, 0, NULL, NULL,
                                        NULL);
        control_detach(session->control, session);
        shell_close(session);
        shell_refuse_all(session, e);
        if (session->is_isolated)
                control_close(&session->own_control);
        if (session->has_box)
                sandbox_drop_box(session->sandbox->all, session->box);
        session->has_box = 0;
}

void session_close(struct session *session)
{
        struct cloche_err e;

        if (session->is_closing)
                return;
        session->is_closing = 1;
        session->users++;
        err_set(&e, CLOCHE_E_SESSION_ENDED, "the session was deleted");
        release(session, &e);
        session_unuse(session);
}

void session_unuse(struct session *session)
{
        if (--session->users == 0 && session->is_closing)
                session_free(session);
}

static int is_own(const char *row)
{
        static const char *const own[] = {"PWD=", "OLDPWD=", "SHLVL=", "_=", "BASH_ENV=", "SHELLOPTS=", "BASHOPTS="};

        for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
                if (strncmp(row, own[i], strlen(own[i])) == 0)
                        return 1;
        return 0;
}

static int has_row(char *const *rows, const char *row)
{
        for (; rows && *rows; rows++)
                if (strcmp(*rows, row) == 0)
                        return 1;
        return 0;
}

/* Record the exported variables that differ from the sandbox's. */
static void remember_exported(struct session *session)
{
        char **base = sandbox_env_list(session->sandbox, NULL);
        json_t *env = base && session->exported ? json_object() : NULL;

        for (char **row = session->exported; env && *row; row++) {
                char *equals = strchr(*row, '=');

                if (is_own(*row) || has_row(base, *row))
                        continue;
                *equals = '\0';
                if (sandbox_env_is_name(*row)) /* skips functions; json_string fails unless it is UTF-8 */
                        json_object_set_new(env, *row, json_string(equals + 1));
                *equals = '=';
        }
        sandbox_env_free(base);
        if (!env)
                return;
        json_decref(session->env);
        session->env = env;
}

void sessions_remember(struct sandbox *s)
{
        struct session *session;

        TAILQ_FOREACH (session, &s->sessions, link) {
                char *cwd = session->cwd ? strdup(session->cwd) : NULL;

                remember_exported(session);
                if (!cwd)
                        continue;
                free(session->start_cwd);
                session->start_cwd = cwd;
        }
}

int sessions_are_settled(const struct sandbox *s)
{
        const struct session *session;

        TAILQ_FOREACH (session, &s->sessions, link)
                if (session->is_isolated && !session->has_box && session->state == SHELL_STARTING)
                        return 0;
        return 1;
}

void sessions_take_up(struct sandbox *s)
{
        struct session *session, *next;

        for (session = TAILQ_FIRST(&s->sessions); session; session = next) {
                next = TAILQ_NEXT(session, link);
                shell_take_up(session);
        }
}

void sessions_on_box_closed(struct sandbox *s)
{
        struct session *session, *next;
        struct cloche_err e;

        err_set(&e, CLOCHE_E_SANDBOX_ENDED, "the sandbox has ended");
        sessions_remember(s);
        for (session = TAILQ_FIRST(&s->sessions); session; session = next) {
                next = TAILQ_NEXT(session, link);
                session->users++;
                release(session, &e);
                session_unuse(session);
        }
}
