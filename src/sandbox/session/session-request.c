/* Requests about sessions. */
#include "sandbox/core/internal.h"

#include "base/err.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *cwd_of(const struct session *session)
{
        return session->cwd ? session->cwd : session->start_cwd;
}

/* 0: the request has its outcome. Another request may have made the session while the directory was
 * made. */
static int create(struct sandbox_ask *ask, const char *name, struct cloche_err *e)
{
        struct session *session = session_look_up(ask->sandbox, name);
        int is_new = !session;

        if (!session)
                session = session_new(ask->sandbox, name, ask_text(ask, "cwd"), json_object_get(ask->params, "env"),
                                      ask_flag(ask, "isolation", 0), ask_count(ask, "timeoutMs", 0), e);
        if (!session)
                return -(int)e->code;
        ask_result(ask,
                   json_pack("{s:s, s:s, s:b, s:b}", "session", session->name, "cwd", cwd_of(session), "created",
                             is_new, "isolation", session->is_isolated),
                   NULL);
        return 0;
}

static void creation_cancel(struct sandbox_ask *ask)
{
        tool_cancel(ask->state);
}

static void on_directory(void *data, const json_t *result, const struct buf *attachments, const struct cloche_err *e)
{
        struct sandbox_ask *ask = data;
        struct cloche_err error = {0};

        (void)result;
        (void)attachments;
        if (e)
                err_set(&error, e->code, "the session's directory: %.380s", e->msg);
        if (e || create(ask, ask_text(ask, "session"), &error) < 0)
                ask_fail(ask, &error, NULL);
}

/* Make the directory of a session. If that fails the session is not made: it must not start
 * elsewhere. */
static int make_directory(struct sandbox_ask *ask, const char *cwd, struct cloche_err *e)
{
        struct tool_job *job;
        int r = tool_ask(ask->sandbox, "file.mkdir", json_pack("{s:s, s:b}", "path", cwd, "recursive", 1), NULL,
                         on_directory, ask, &job, e);

        if (r < 0)
                return r;
        ask->state = job;
        ask->cancel = creation_cancel;
        return 0;
}

int begin_SESSION_CREATE(struct sandbox_ask *ask, struct cloche_err *e)
{
        struct sandbox *s = ask->sandbox;
        const char *name = ask_text(ask, "session"), *cwd = ask_text(ask, "cwd");
        const json_t *env = json_object_get(ask->params, "env");
        char made_up[32];

        if (cwd && (cwd[0] != '/' || strlen(cwd) >= SHELL_CWD_MAX))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "cwd must be an absolute path of at most %d bytes",
                               SHELL_CWD_MAX - 1);
        if (env && env_check_of_all(env, e) < 0)
                return -(int)e->code;
        if (!name) {
                snprintf(made_up, sizeof(made_up), "session-%llu", (unsigned long long)++s->next_session);
                json_object_set_new(ask->params, "session", json_string(made_up));
                name = ask_text(ask, "session");
        }
        if (name && cwd && strcmp(cwd, WORKSPACE) != 0 && !session_look_up(s, name))
                return make_directory(ask, cwd, e);
        return name ? create(ask, name, e) : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "make a session");
}

int begin_SESSION_LIST(struct sandbox_ask *ask, struct cloche_err *e)
{
        json_t *list = json_array();
        struct session *session;

        (void)e;
        TAILQ_FOREACH (session, &ask->sandbox->sessions, link)
                if (!session->is_closing)
                        json_array_append_new(list, json_pack("{s:s, s:s, s:b, s:b, s:o}", "session", session->name,
                                                              "cwd", cwd_of(session), "isolation", session->is_isolated,
                                                              "busy", session_is_busy(session), "createdAt",
                                                              time_json(session->created_ms)));
        ask_result(ask, json_pack("{s:o}", "sessions", list), NULL);
        return 0;
}

int begin_SESSION_DELETE(struct sandbox_ask *ask, struct cloche_err *e)
{
        const char *name = ask_text(ask, "session");
        struct session *session;
        struct process *p;

        if (!name)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "session.delete needs the field \"session\"");
        if (strcmp(name, DEFAULT_SESSION) == 0)
                return err_set(e, CLOCHE_E_STATE, "the session \"default\" cannot be deleted");
        session = session_find(ask->sandbox, name, e);
        if (!session)
                return -(int)e->code;
        TAILQ_FOREACH (p, &ask->sandbox->processes, link)
                if (p->session == session && !p->is_ended)
                        (void)process_kill(p, SIGKILL, 1, 0, NULL);
        session_close(session);
        ask_result(ask, json_pack("{s:s}", "session", name), NULL);
        return 0;
}

/* -- variables ------------------------------------------------------------------------------------------------ */

struct export
{
        struct sandbox_ask *ask;
        struct session *session;
        struct shell_command command;
};

static void export_free(struct export *x)
{
        session_unuse(x->session);
        free(x);
}

static void export_cancel(struct sandbox_ask *ask)
{
        struct export *x = ask->state;

        session_forget(x->session, &x->command);
        export_free(x);
}

static void export_begun(void *data, int32_t pid)
{
        (void)data;
        (void)pid;
}

static void export_ended(void *data, int exit_code, int signal, int session_ended, int interrupted)
{
        struct export *x = data;
        struct sandbox_ask *ask = x->ask;
        json_t *answer = json_pack("{s:s}", "session", x->session->name);
        struct cloche_err e;

        (void)signal;
        (void)interrupted;
        export_free(x);
        if (exit_code == 0 && !session_ended) {
                ask_result(ask, answer, NULL);
                return;
        }
        json_decref(answer);
        err_set(&e, session_ended ? CLOCHE_E_SESSION_ENDED : CLOCHE_E_STATE,
                session_ended ? "the session ended" : "the shell refused a variable: is it readonly?");
        ask_fail(ask, &e, NULL);
}

static void export_failed(void *data, const struct cloche_err *e)
{
        struct export *x = data;
        struct sandbox_ask *ask = x->ask;

        export_free(x);
        ask_fail(ask, e, NULL);
}

int begin_SESSION_ENV(struct sandbox_ask *ask, struct cloche_err *e)
{
        const json_t *env = json_object_get(ask->params, "env");
        struct session *session;
        struct export *x;

        if (!env || env_check(env, e) < 0)
                return env ? -(int)e->code
                           : err_set(e, CLOCHE_E_INVALID_ARGUMENT, "session.env needs the field \"env\"");
        session = session_find(ask->sandbox, ask_text(ask, "session"), e);
        if (!session)
                return -(int)e->code;
        x = calloc(1, sizeof(*x));
        if (!x)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "export variables");
        x->ask = ask;
        x->session = session;
        session->users++;
        x->command = (struct shell_command){.command = "",
                                            .env = env,
                                            .fds = {-EBADF, -EBADF, -EBADF},
                                            .status_fd = -EBADF,
                                            .is_export = 1,
                                            .on_begin = export_begun,
                                            .on_end = export_ended,
                                            .on_fail = export_failed,
                                            .data = x};
        ask->state = x;
        ask->cancel = export_cancel;
        session_run(session, &x->command);
        return 0;
}
