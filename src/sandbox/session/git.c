/* git.checkout: run git of the image, in the sandbox and through its network; no data of a
 * repository is read outside. The script receives its parameters in variables, and credentials
 * through a pipe, so that these appear in no command line, environment or file. Runs in:
 * cloched-engine, on its loop, with the rights of the daemon's user. */
#include "sandbox/network/connections.h"
#include "sandbox/process/process.h"

#include "base/err.h"

#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define TIMEOUT_MS 600000
#define URL_BYTES_MAX 2048
#define KEEP_BYTES (1u << 20)
#define WHY_BYTES_LEAST 80 /* of the words of git in an error */

static const char script[] = "exec 9<&0 </dev/null\n"
                             "git -c credential.helper= -c 'credential.helper=!f() { test \"$1\" = get && cat <&9; }; "
                             "f' -c core.hooksPath=/dev/null -c core.fsmonitor=false"
                             " -c protocol.ext.allow=never -c submodule.recurse=false -c advice.detachedHead=false"
                             " clone --progress ${CLOCHE_GIT_DEPTH:+--depth \"$CLOCHE_GIT_DEPTH\"} "
                             "${CLOCHE_GIT_BRANCH:+--branch \"$CLOCHE_GIT_BRANCH\"}"
                             " -- \"$CLOCHE_GIT_URL\" \"$CLOCHE_GIT_DIR\" 1>&2 9<&9 || exit\n"
                             "exec 9<&-\n"
                             "cd -- \"$CLOCHE_GIT_DIR\" && printf '%s\\n' \"$PWD\" && { git -c core.fsmonitor=false "
                             "rev-parse -q --verify HEAD || echo -; } &&"
                             " { git symbolic-ref -q --short HEAD || echo -; }\n";

struct checkout {
        struct sandbox_request *request;
        struct process *process;
        struct follower follower;
        char *url, *password;
};

/* -- parameters ----------------------------------------------------------------------------------------------- */

static const char *const schemes[] = {"https://", "http://", "ssh://", "git://", "file://"};

/* Cut NAME:PASSWORD out of a URL https://NAME:PASSWORD@host/…. */
static int take_credentials(char *url, char **ret_name, char **ret_password)
{
        char *host = strstr(url, "://"), *at, *colon;

        if (!host || strncasecmp(url, "http", 4) != 0)
                return 0;
        host += 3;
        at = host + strcspn(host, "/?#");
        while (at > host && *at != '@')
                at--;
        if (*at != '@')
                return 0;
        *at = '\0';
        colon = strchr(host, ':');
        if (colon)
                *colon = '\0';
        *ret_name = strdup(host);
        *ret_password = strdup(colon ? colon + 1 : "");
        memmove(host, at + 1, strlen(at + 1) + 1);
        return *ret_name && *ret_password ? 0 : -ENOMEM;
}

static int check_url(const char *url, struct cloche_err *e)
{
        const char *colon = strchr(url, ':');

        if (!*url || strlen(url) > URL_BYTES_MAX)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "url must have 1 to %d bytes", URL_BYTES_MAX);
        for (const char *c = url; *c; c++)
                if ((unsigned char)*c < ' ')
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "url has a control character at position %td",
                                       c - url);
        for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++)
                if (strncasecmp(url, schemes[i], strlen(schemes[i])) == 0)
                        return 0;
        if (url[0] == '/') /* a path in the sandbox: a repository or a bundle */
                return 0;
        /* NAME@HOST:PATH; "ext::" and similar ones are commands. */
        if (url[0] != '-' && colon && colon[1] != ':' && strncmp(colon, "://", 3) != 0 &&
            strcspn(url, "/") > (size_t)(colon - url))
                return 0;
        return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                       "url must begin with https://, http://, ssh://, git:// or file://, or be NAME@HOST:PATH or an "
                       "absolute path in the sandbox");
}

static int check_text(const char *name, const char *text, const char *refused, struct cloche_err *e)
{
        if (text && (!*text || text[0] == '-' || text[strcspn(text, refused)]))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "%s must not be empty, begin with a hyphen or contain line breaks", name);
        return 0;
}

/* A bundle is a file made by git bundle, with a repository or a part of one. */
static const char *const endings[] = {".git", ".bundle"};

/* Return the last part of its path, without its ending, as git clone does. */
static char *directory_of(const char *url)
{
        size_t end = strlen(url), begin;
        char *dir = NULL;

        while (end > 0 && url[end - 1] == '/')
                end--;
        for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
                size_t size = strlen(endings[i]);

                if (end > size && strncmp(url + end - size, endings[i], size) == 0) {
                        end -= size;
                        break;
                }
        }
        for (begin = end; begin > 0 && url[begin - 1] != '/' && url[begin - 1] != ':';)
                begin--;
        if (end == begin || asprintf(&dir, WORKSPACE "/%.*s", (int)(end - begin), url + begin) < 0)
                return NULL;
        return dir;
}

/* -- the outcome ---------------------------------------------------------------------------------------------- */

static const struct {
        const char *text;
        enum cloche_code code;
} failures[] = {
        {"already exists and is not an empty directory", CLOCHE_E_FILE_EXISTS},
        {"Authentication failed", CLOCHE_E_GIT_AUTH},
        {"could not read Username", CLOCHE_E_GIT_AUTH},
        {"could not read Password", CLOCHE_E_GIT_AUTH},
        {"terminal prompts disabled", CLOCHE_E_GIT_AUTH},
        {"returned error: 401", CLOCHE_E_GIT_AUTH},
        {"returned error: 403", CLOCHE_E_GIT_AUTH},
        {"Permission denied (publickey", CLOCHE_E_GIT_AUTH},
        {"Host key verification failed", CLOCHE_E_GIT_AUTH},
        {"Remote branch", CLOCHE_E_GIT_NOT_FOUND},
        {"epository not found", CLOCHE_E_GIT_NOT_FOUND},
        {"' not found", CLOCHE_E_GIT_NOT_FOUND},
        {"does not appear to be a git repository", CLOCHE_E_GIT_NOT_FOUND},
        {"does not exist", CLOCHE_E_GIT_NOT_FOUND},
        {"returned error: 404", CLOCHE_E_GIT_NOT_FOUND},
        {"Could not resolve host", CLOCHE_E_GIT_NETWORK},
        {"Could not resolve hostname", CLOCHE_E_GIT_NETWORK},
        {"Name or service not known", CLOCHE_E_GIT_NETWORK},
        {"unable to look up", CLOCHE_E_GIT_NETWORK},
        {"Failed to connect", CLOCHE_E_GIT_NETWORK},
        {"onnection refused", CLOCHE_E_GIT_NETWORK},
        {"onnection timed out", CLOCHE_E_GIT_NETWORK},
        {"onnection reset", CLOCHE_E_GIT_NETWORK},
        {"etwork is unreachable", CLOCHE_E_GIT_NETWORK},
        {"No route to host", CLOCHE_E_GIT_NETWORK},
        {"unable to access", CLOCHE_E_GIT_NETWORK},
        {"hung up unexpectedly", CLOCHE_E_GIT_NETWORK},
        {"early EOF", CLOCHE_E_GIT_NETWORK},
        {"No space left on device", CLOCHE_E_DISK_FULL},
};

static char *text_of(const struct spool *spool)
{
        size_t size;
        char *text = spool_copy(spool, spool_begin(spool), spool_bytes(spool), &size);

        for (size_t i = 0; text && i < size; i++)
                if (!text[i])
                        text[i] = ' ';
        return text;
}

static void redact(char *text, const char *secret)
{
        size_t size = secret ? strlen(secret) : 0;

        for (char *at = text; size > 0 && (at = strstr(at, secret)); at += size)
                memset(at, '*', size);
}

/* Copy the line of git's output that gives the reason. */
static void why_of(const char *text, char *ret, size_t size)
{
        const char *line = strstr(text, "fatal: ");

        snprintf(ret, size, "%.*s", line ? (int)strcspn(line + 7, "\n") : 20, line ? line + 7 : "no reason was given");
}

static void checkout_free(struct checkout *c)
{
        process_unfollow(&c->follower);
        if (c->process)
                process_unpin(c->process);
        if (c->password)
                explicit_bzero(c->password, strlen(c->password));
        free(c->password);
        free(c->url);
        free(c);
}

/* The caller has the whole output of git besides, so its words leave room for who can allow the
 * connection. */
static void set_reason(const struct checkout *c, enum cloche_code code, const char *why, struct cloche_err *e)
{
        char network[sizeof(e->msg)] = "";
        size_t most = sizeof(e->msg) - sizeof("git: ; "), least = WHY_BYTES_LEAST, room;

        if (code == CLOCHE_E_GIT_NETWORK)
                sandbox_explain_network(c->request->sandbox, network, sizeof(network));
        room = most > strlen(network) + least ? most - strlen(network) : least;
        err_set(e, code, "git: %.*s%s%s", (int)room, why, network[0] ? "; " : "", network);
}

static void fail(struct checkout *c, const char *printed)
{
        struct sandbox_request *request = c->request;
        enum cloche_code code = CLOCHE_E_GIT;
        json_t *about =
                json_pack("{s:i, s:s, s:s*}", "exitCode", c->process->exit_code, "url", c->url, "stderr", printed);
        struct cloche_err e;
        char why[180];

        why_of(printed, why, sizeof(why));
        for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++)
                if (strstr(printed, failures[i].text)) {
                        code = failures[i].code;
                        break;
                }
        if (c->process->timed_out)
                err_set(&e, CLOCHE_E_TIMEOUT, "git did not finish in time: give it more (timeoutMs)");
        else
                set_reason(c, code, why, &e);
        checkout_free(c);
        sandbox_request_fail(request, &e, about);
}

static void finish(struct checkout *c)
{
        struct sandbox_request *request = c->request;
        char *out = text_of(&c->process->streams[STREAM_OUT].spool),
             *printed = text_of(&c->process->streams[STREAM_ERR].spool);
        char *dir = out ? strtok(out, "\n") : NULL, *commit = dir ? strtok(NULL, "\n") : NULL,
             *branch = commit ? strtok(NULL, "\n") : NULL;
        json_t *answer;

        if (printed)
                redact(printed, c->password);
        if (c->process->exit_code != 0 || !commit) {
                fail(c, printed ? printed : "");
        } else { /* an empty repository has no commit, a tag no branch */
                answer = json_pack("{s:s, s:s*, s:s*, s:s*, s:s, s:s*}", "url", c->url, "dir", dir, "commit",
                                   commit[0] == '-' ? NULL : commit, "branch",
                                   !branch || branch[0] == '-' ? NULL : branch, "stdout", "", "stderr", printed);
                checkout_free(c);
                sandbox_request_result(request, answer, NULL);
        }
        free(out);
        free(printed);
}

/* -- the process ---------------------------------------------------------------------------------------------- */

static void checkout_cancel(struct sandbox_request *request)
{
        struct checkout *c = request->state;

        process_unfollow(&c->follower);
        process_detach(c->process);
        checkout_free(c);
}

static void on_begin(struct process *p, const struct cloche_err *e)
{
        struct checkout *c = p->data;
        struct sandbox_request *request = c->request;

        if (!e)
                return;
        c->process = NULL;
        checkout_free(c);
        sandbox_request_fail(request, e, NULL);
}

/* It has ended, and all of git's progress was sent. */
static void on_complete(struct follower *f)
{
        finish((struct checkout *)((char *)f - offsetof(struct checkout, follower)));
}

static void on_release(struct sandbox_request *request)
{
        struct checkout *c = request->state;

        if (c->follower.process)
                process_follower_feed(&c->follower);
}

/* git clones a bundle by its path, but takes a file:// URL for a repository. */
static const char *source_of(const char *url)
{
        static const char scheme[] = "file://";
        size_t size = strlen(url), ending = strlen(".bundle");
        int is_bundle = size > ending && strcmp(url + size - ending, ".bundle") == 0;

        return is_bundle && strncasecmp(url, scheme, strlen(scheme)) == 0 && url[strlen(scheme)] == '/'
                       ? url + strlen(scheme)
                       : url;
}

static json_t *environment(const struct sandbox_request *request, const char *url, const char *dir)
{
        json_t *env = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s*}", "CLOCHE_GIT_URL", url, "CLOCHE_GIT_DIR", dir,
                                "GIT_TERMINAL_PROMPT", "0", "GIT_ALLOW_PROTOCOL", "https:http:ssh:git:file", "LC_ALL",
                                "C", "GIT_SSH_COMMAND", "ssh -oBatchMode=yes", "CLOCHE_GIT_BRANCH",
                                sandbox_request_text(request, "branch"));
        uint64_t depth = sandbox_request_count(request, "depth", 0);

        if (env && depth)
                json_object_set_new(env, "CLOCHE_GIT_DEPTH", json_sprintf("%llu", (unsigned long long)depth));
        return env;
}

static int start(struct checkout *c, const char *name, struct cloche_err *e)
{
        struct sandbox_request *request = c->request;
        char *default_dir = directory_of(c->url), *credentials = NULL;
        const char *dir = sandbox_request_text(request, "dir");
        json_t *env = environment(request, source_of(c->url), dir ? dir : default_dir ? default_dir : "");
        struct process_options opt = {
                .session = sandbox_request_text(request, "session"),
                .command = script,
                .command_size = sizeof(script) - 1,
                .env = env,
                .timeout_ms = sandbox_request_count(request, "timeoutMs", TIMEOUT_MS),
                .is_hidden = 1,
                .keep = SPOOL_LAST,
                .keep_bytes = KEEP_BYTES,
                .on_begin = on_begin,
                .data = c,
        };
        int r = 0;

        if (!dir && !default_dir)
                r = err_set(e, CLOCHE_E_INVALID_ARGUMENT, "url ends in no name for the directory: set dir");
        if (r == 0 && (!env || asprintf(&credentials, "%s%s%s%s%s%s", name ? "username=" : "", name ? name : "",
                                        name ? "\n" : "", c->password ? "password=" : "",
                                        c->password ? c->password : "", c->password ? "\n" : "") < 0)) {
                credentials = NULL;
                r = err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "check out a repository");
        }
        opt.stdin_data = credentials;
        opt.stdin_size = credentials ? strlen(credentials) : 0;
        if (r == 0)
                r = process_start(request->sandbox, &opt, &c->process, e);
        if (credentials)
                explicit_bzero(credentials, strlen(credentials));
        free(credentials);
        free(default_dir);
        json_decref(env);
        return r;
}

int handle_GIT_CHECKOUT(struct sandbox_request *request, struct cloche_err *e)
{
        const char *url = sandbox_request_text(request, "url"), *username = sandbox_request_text(request, "username"),
                   *password = sandbox_request_text(request, "password");
        struct checkout *c;
        char *name = NULL;
        int r = url ? check_url(url, e) : err_set(e, CLOCHE_E_INVALID_ARGUMENT, "git.checkout needs the field \"url\"");

        if (r == 0 && ((r = check_text("branch", sandbox_request_text(request, "branch"), "\n", e)) < 0 ||
                       (r = check_text("dir", sandbox_request_text(request, "dir"), "\n", e)) < 0))
                return r;
        if (r == 0 && ((username && strpbrk(username, "\r\n")) || (password && strpbrk(password, "\r\n"))))
                r = err_set(e, CLOCHE_E_INVALID_ARGUMENT, "username and password must not contain line breaks");
        if (r < 0)
                return r;
        c = calloc(1, sizeof(*c));
        if (!c || !(c->url = strdup(url)) || take_credentials(c->url, &name, &c->password) < 0)
                r = err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "check out a repository");
        if (r == 0 && username) {
                free(name);
                name = strdup(username);
        }
        if (r == 0 && password) {
                free(c->password);
                c->password = strdup(password);
        }
        if (c)
                c->request = request;
        request->state = c;
        if (r == 0) {
                request->cancel = checkout_cancel;
                request->release = on_release;
        }
        if (r == 0)
                r = start(c, name, e);
        free(name);
        if (r < 0) {
                request->cancel = NULL;
                if (c)
                        c->process = NULL;
                if (c)
                        checkout_free(c);
                return r;
        }
        if (request->state != c)
                return 0; /* it could not begin; the outcome is set */
        process_pin(c->process);
        process_follow(&c->follower, c->process, request, 0, on_complete);
        c->follower.at[STREAM_OUT] = UINT64_MAX; /* output of our own script */
        return 0;
}
