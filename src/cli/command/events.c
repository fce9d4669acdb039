/* cloche git, watch, events: requests that report events while they run.
 * Runs in: the CLI, as its user. */
#include "base/fd.h"
#include "cli/options/options.h"
#include "cli/output/print.h"
#include "cli/sandbox/follow.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define PASSWORD_BYTES 4096

/* required: a sandbox that must exist, NULL: none; frees params. */
static int follow_once(struct cli_request *request, struct follow *f, const char *required, const char *method,
                       json_t *params, json_t **ret)
{
        struct daemon_client client;
        int code = sandbox_open(request, &client);

        *ret = NULL;
        if (code) {
                json_decref(params);
                return code;
        }
        f->client = &client;
        code = required ? sandbox_require(&client, required) : 0;
        if (code)
                json_decref(params);
        else
                code = follow_request(f, method, params, ret);
        daemon_close(&client);
        return code;
}

/* -- git ------------------------------------------------------------------------------------------------------ */

/* Read the first line; 0, or a line was printed. */
static int read_password(const char *path, char ret[PASSWORD_BYTES])
{
        _cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        ssize_t n = fd < 0 ? -1 : read(fd, ret, PASSWORD_BYTES - 1);

        if (n < 0)
                return cli_bad("--password-file: cannot read '%s': %s", path, strerror(errno));
        ret[n] = '\0';
        ret[strcspn(ret, "\r\n")] = '\0';
        return *ret ? 0 : cli_bad("--password-file: '%s' begins with an empty line", path);
}

static json_t *git_params(const struct cli_request *request, const char *password)
{
        const struct sandbox_options *options = &request->sandbox;
        const char *const *words = request->positional;
        json_t *params = json_pack("{s:s, s:s, s:s*, s:s*, s:s*, s:s*, s:s*}", "sandbox", words[0], "url", words[1],
                                   "dir", words[2], "branch", options->branch, "username", options->username,
                                   "password", password, "session", options->session);

        if (params && options->depth)
                json_object_set_new(params, "depth", json_integer((json_int_t)options->depth));
        if (params && request->run.limits.wall_ms)
                json_object_set_new(params, "timeoutMs",
                                    json_integer(request->run.limits.wall_ms == CLOCHE_UNLIMITED
                                                         ? 0
                                                         : (json_int_t)request->run.limits.wall_ms));
        return params;
}

static int git(struct cli_request *request)
{
        struct follow f = {.all_is_error = 1};
        char password[PASSWORD_BYTES];
        const char *file = request->sandbox.password_file;
        json_t *done = NULL;
        int code = file ? read_password(file, password) : 0;

        if (code)
                return code;
        code = follow_once(request, &f, NULL, "git.checkout", git_params(request, file ? password : NULL), &done);
        if (code == 0 && request->json) {
                sandbox_print_json(done);
        } else if (code == 0) {
                print_name(stdout, sandbox_text(done, "dir"));
                printf("  %s  ", sandbox_text(done, "commit"));
                print_name(stdout, sandbox_text(done, "branch"));
                putchar('\n');
        }
        json_decref(done);
        return code;
}

/* -- watch and events ----------------------------------------------------------------------------------------- */

static void print_change(const char *event, const json_t *about)
{
        if (strcmp(event, "change") != 0) {
                printf("%s\n", event);
                return;
        }
        printf("%-7s ", sandbox_text(about, "type"));
        if (json_object_get(about, "from")) {
                print_path(stdout, json_object_get(about, "from"));
                fputs(" -> ", stdout);
        }
        print_path(stdout, json_object_get(about, "path"));
        printf("%s\n", json_is_true(json_object_get(about, "isDirectory")) ? "/" : "");
}

/* Print the event and its members as "name value" pairs; nested values are JSON. */
static void print_event(const char *event, const json_t *about)
{
        const char *name;
        json_t *value;

        printf("%s", event);
        json_object_foreach ((json_t *)about, name, value) {
                char *text = json_is_string(value)
                                     ? NULL
                                     : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII);

                fputs("  ", stdout);
                print_name(stdout, name);
                putchar(' ');
                print_name(stdout, text ? text : json_string_value(value));
                free(text);
        }
        putchar('\n');
}

struct event_printer {
        int json;
        void (*print)(const char *event, const json_t *about);
};

static int on_event(void *data, const struct daemon_message *message)
{
        const struct event_printer *event_printer = data;
        struct cloche_err e = {0};
        json_t *about, *line;

        if (daemon_text_form(message, &about, &e) < 0)
                return sandbox_fail(&e);
        if (event_printer->json) {
                line = json_pack("{s:s, s:O}", "event", message->event, "about", about);
                sandbox_print_json(line);
                json_decref(line);
        } else {
                event_printer->print(message->event, about);
        }
        json_decref(about);
        if (fflush(stdout) == 0 && !ferror(stdout))
                return 0;
        return errno == EPIPE ? FOLLOW_UNREAD : (cli_bad("cannot write output: %s", strerror(errno)), 1);
}

static int watch(struct cli_request *request)
{
        struct event_printer event_printer = {request->json, print_change};
        struct follow f = {.on_event = on_event, .data = &event_printer};
        json_t *ended;
        json_t *params = json_pack("{s:s, s:s}", "sandbox", request->positional[0], "path", request->positional[1]);
        int code = follow_once(request, &f, NULL, "file.watch", params, &ended);

        json_decref(ended);
        return code;
}

static int events(struct cli_request *request)
{
        struct event_printer event_printer = {request->json, print_event};
        struct follow f = {.on_event = on_event, .data = &event_printer};
        json_t *ended;
        int code = follow_once(request, &f, request->positional[0], "sandbox.events", sandbox_params(request), &ended);

        json_decref(ended);
        return code;
}

const struct cli_handler command_git = {
        .run = git,
        .expected = "a sandbox and a URL",
        .positional_min = 2,
        .positional_max = 3,
};

const struct cli_handler command_watch = {
        .run = watch,
        .of_existing = 1,
        .expected = "a sandbox and a path",
        .positional_min = 2,
        .positional_max = 2,
};

const struct cli_handler command_events = {
        .run = events,
        .expected = "a sandbox",
        .positional_min = 1,
        .positional_max = 1,
};
