/* Requests about sessions. Runs in: cloched-engine, on its loop, with the rights of the daemon's
 * user. */
#include "sandbox/core/spawn.h"
#include "sandbox/core/tool.h"
#include "sandbox/process/process.h"

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
static int create(struct sandbox_request *request, const char *name, struct cloche_err *e)
{
        struct session *session = session_look_up(request->sandbox, name);
        int is_new = !session;

        if (!session)
                session = session_new(request->sandbox, name, sandbox_request_text(request, "cwd"),
                                      json_object_get(request->params, "env"),
                                      sandbox_request_flag(request, "isolation", 0),
                                      sandbox_request_count(request, "timeoutMs", 0), e);
        if (!session)
                return -(int)e->code;
        sandbox_request_result(request,
                               json_pack("{s:s, s:s, s:b, s:b}", "session", session->name, "cwd", cwd_of(session),
                                         "created", is_new, "isolation", session->is_isolated),
                               NULL);
        return 0;
}

static void creation_cancel(struct sandbox_request *request)
{
        sandbox_tool_cancel(request->state);
}

static void on_directory(void *data, const json_t *result, const struct buf *attachments, const struct cloche_err *e)
{
        struct sandbox_request *request = data;
        struct cloche_err error = {0};

        (void)result;
        (void)attachments;
        if (e)
                err_set(&error, e->code, "the session's directory: %.380s", e->msg);
        if (e || create(request, sandbox_request_text(request, "session"), &error) < 0)
                sandbox_request_fail(request, &error, NULL);
}

/* Make the directory of a session. If that fails the session is not made: it must not start
 * elsewhere. */
static int make_directory(struct sandbox_request *request, const char *cwd, struct cloche_err *e)
{
        struct tool_job *job;
        int r = sandbox_tool_request(request->sandbox, "file.mkdir",
                                     json_pack("{s:s, s:b}", "path", cwd, "recursive", 1), NULL, on_directory, request,
                                     &job, e);

        if (r < 0)
                return r;
        request->state = job;
        request->cancel = creation_cancel;
        return 0;
}

int handle_SESSION_CREATE(struct sandbox_request *request, struct cloche_err *e)
{
        struct sandbox *s = request->sandbox;
        const char *name = sandbox_request_text(request, "session"), *cwd = sandbox_request_text(request, "cwd");
        const json_t *env = json_object_get(request->params, "env");
        char made_up[32];

        if (cwd && (cwd[0] != '/' || strlen(cwd) >= SHELL_CWD_MAX))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "cwd must be an absolute path of at most %d bytes",
                               SHELL_CWD_MAX - 1);
        if (env && sandbox_env_check_of_all(env, e) < 0)
                return -(int)e->code;
        if (!name) {
                snprintf(made_up, sizeof(made_up), "session-%llu", (unsigned long long)++s->next_session);
                json_object_set_new(request->params, "session", json_string(made_up));
                name = sandbox_request_text(request, "session");
        }
        if (name && cwd && strcmp(cwd, WORKSPACE) != 0 && !session_look_up(s, name))
                return make_directory(request, cwd, e);
        return name ? create(request, name, e) : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "make a session");
}

int handle_SESSION_LIST(struct sandbox_request *request, struct cloche_err *e)
{
        json_t *list = json_array();
        struct session *session;

        (void)e;
        TAILQ_FOREACH (session, &request->sandbox->sessions, link)
                if (!session->is_closing)
                        json_array_append_new(list, json_pack("{s:s, s:s, s:b, s:b, s:o}", "session", session->name,
                                                              "cwd", cwd_of(session), "isolation", session->is_isolated,
                                                              "busy", session_is_busy(session), "createdAt",
                                                              sandbox_time_json(session->created_ms)));
        sandbox_request_result(request, json_pack("{s:o}", "sessions", list), NULL);
        return 0;
}

int handle_SESSION_DELETE(struct sandbox_request *request, struct cloche_err *e)
{
        const char *name = sandbox_request_text(request, "session");
        struct session *session;
        struct process *p;

        if (!name)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "session.delete needs the field \"session\"");
        if (strcmp(name, DEFAULT_SESSION) == 0)
                return err_set(e, CLOCHE_E_STATE,
                               "the session \"default\" cannot be deleted: delete the sandbox, or use another session");
        session = session_find(request->sandbox, name, e);
        if (!session)
                return -(int)e->code;
        TAILQ_FOREACH (p, &request->sandbox->processes, link)
                if (p->session == session && !process_is_ended(p))
                        (void)process_kill(p, SIGKILL, 1, 0, NULL);
        session_close(session);
        sandbox_request_result(request, json_pack("{s:s}", "session", name), NULL);
        return 0;
}

/* -- variables ------------------------------------------------------------------------------------------------ */

struct export
{
        struct sandbox_request *request;
        struct session *session;
        struct shell_command command;
};

static void export_free(struct export *x)
{
        session_unuse(x->session);
        free(x);
}

static void export_cancel(struct sandbox_request *request)
{
        struct export *x = request->state;

        session_detach(x->session, &x->command);
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
        struct sandbox_request *request = x->request;
        json_t *answer = json_pack("{s:s}", "session", x->session->name);
        struct cloche_err e;

        (void)signal;
        (void)interrupted;
        export_free(x);
        if (exit_code == 0 && !session_ended) {
                sandbox_request_result(request, answer, NULL);
                return;
        }
        json_decref(answer);
        err_set(&e, session_ended ? CLOCHE_E_SESSION_ENDED : CLOCHE_E_STATE,
                session_ended ? "the session ended" : "the shell refused a variable: it may be readonly");
        sandbox_request_fail(request, &e, NULL);
}

static void export_failed(void *data, const struct cloche_err *e)
{
        struct export *x = data;
        struct sandbox_request *request = x->request;

        export_free(x);
        sandbox_request_fail(request, e, NULL);
}

int handle_SESSION_ENV(struct sandbox_request *request, struct cloche_err *e)
{
        const json_t *env = json_object_get(request->params, "env");
        struct session *session;
        struct export *x;

        if (!env || sandbox_env_check(env, e) < 0)
                return env ? -(int)e->code
                           : err_set(e, CLOCHE_E_INVALID_ARGUMENT, "session.env needs the field \"env\"");
        session = session_find(request->sandbox, sandbox_request_text(request, "session"), e);
        if (!session)
                return -(int)e->code;
        x = calloc(1, sizeof(*x));
        if (!x)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "export variables");
        x->request = request;
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
        request->state = x;
        request->cancel = export_cancel;
        session_run(session, &x->command);
        return 0;
}
