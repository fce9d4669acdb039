/* Options and requests that the commands for sandboxes share. Runs in: the CLI, as its user. */
#include "sandbox-options.h"

#include "base/err.h"
#include "cli/options/members.h"
#include "cli/options/options.h"
#include "cli/output/print.h"
#include "cli/output/progress.h"
#include "daemon-locate.h"

#include "user/notice.h"

#include <stdlib.h>
#include <string.h>

void sandbox_options_init(struct sandbox_options *words)
{
        words->idle_ms = words->lifetime_ms = words->startup.ready_ms = words->at = UINT64_MAX;
}

void sandbox_options_done(struct sandbox_options *words)
{
        json_decref(words->allow);
        json_decref(words->add);
        json_decref(words->add_deny);
        json_decref(words->deny);
        json_decref(words->labels);
        json_decref(words->filters);
        json_decref(words->volumes);
        json_decref(words->packages);
        json_decref(words->host_ports);
}

/* -- requests ------------------------------------------------------------------------------------------------- */

/* Print a line with text from the daemon; terminal controls are escaped. */
static void print_line(const char *text, const char *after)
{
        fputs("cloche: ", stderr);
        print_advice(stderr, text, PRINT_TEXT);
        fprintf(stderr, "%s\n", after);
}

void sandbox_print_missing(FILE *out, const json_t *missing)
{
        const json_t *name;
        size_t i;

        json_array_foreach (missing, i, name) {
                fputs(i ? ", " : "", out);
                print_name(out, json_string_value(name));
        }
}

int sandbox_fail(const struct cloche_err *e)
{
        char text[MEMBERS_TEXT_BYTES];

        print_line(members_of_sandbox(e->msg, text), "");
        return cloche_code_fault(e->code) == CLOCHE_FAULT_CALLER ? CLI_BAD_INPUT : 1;
}

static int check_strict(const struct cli_request *request, const struct daemon_client *client)
{
        if (!request->is_strict || json_array_size(client->missing) == 0)
                return 0;
        fputs("cloche: the daemon lacks guards: ", stderr);
        sandbox_print_missing(stderr, client->missing);
        fputs(" (cloche selftest gives the reason for each; --strict refuses)\n", stderr);
        return 1;
}

/* The user's own daemon may exit when idle, between the lookup and the greeting. */
static int open_found(const struct cli_request *request, struct daemon_client *ret, struct cloche_err *e)
{
        char path[DAEMON_SOCKET_BYTES];
        int r = daemon_locate(request->sandbox.socket, LOCATE_THEN_START, path, e);

        print_for_socket(request->sandbox.socket);
        if (r == 1)
                r = daemon_open(path, !request->json, ret, e);
        if ((r != -CLOCHE_E_PROTOCOL && r != -CLOCHE_E_NOT_FOUND) || daemon_is_named(request->sandbox.socket))
                return r;
        r = daemon_locate(NULL, START_ONLY, path, e);
        return r == 1 ? daemon_open(path, !request->json, ret, e) : r;
}

int sandbox_open(const struct cli_request *request, struct daemon_client *ret)
{
        struct cloche_err e = {0};
        int code, r;

        progress_start("starting the daemon");
        r = open_found(request, ret, &e);
        progress_end();
        if (r < 0) {
                if (e.code != CLOCHE_E_NOT_FOUND)
                        return e.code ? sandbox_fail(&e) : 1; /* else cloched has printed the reason */
                print_line(e.msg, "");
                return 1;
        }
        if (ret->notice[0])
                print_line(ret->notice, "");
        code = check_strict(request, ret);
        if (code == 0 && request->is_of_existing)
                code = sandbox_require(ret, request->positional[0]);
        if (code)
                daemon_close(ret);
        return code;
}

/* The text of the progress line. */
static const char *what_of(const char *method)
{
        static const struct {
                const char *method, *what;
        } rows[] = {
                {"sandbox.create", "making the sandbox"},
                {"sandbox.stop", "saving the sandbox"},
                {"sandbox.save", "saving the sandbox"},
                {"sandbox.pause", "pausing the sandbox"},
                {"sandbox.resume", "resuming the sandbox"},
                {"sandbox.delete", "ending the sandbox"},
                {"context.create", "starting the interpreter"},
                {"context.fork", "copying the context"},
                {"context.checkpoint", "keeping the context"},
                {"context.rollback", "putting the context back"},
                {"image.warm", "starting the interpreters"},
                {"image.verify", "reading the image"},
                {"image.prune", "removing images"},
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                if (strcmp(rows[i].method, method) == 0)
                        return rows[i].what;
        return "waiting for the daemon";
}

int sandbox_request(struct daemon_client *c, const char *method, json_t *params, json_t **ret)
{
        struct cloche_err e = {0};
        struct daemon_message message = {0};
        int r;

        progress_start(what_of(method));
        r = daemon_call(c, method, params, NULL, 0, &message, &e);
        progress_end();
        if (r == 0 && ret)
                r = daemon_text_form(&message, ret, &e);
        daemon_message_done(&message);
        return r < 0 ? sandbox_fail(&e) : 0;
}

int sandbox_require(struct daemon_client *c, const char *sandbox)
{
        return sandbox_request(c, "sandbox.get", json_pack("{s:s}", "sandbox", sandbox), NULL);
}

void sandbox_print_lost(struct daemon_client *c, const struct cli_request *request, const char *sandbox)
{
        struct cloche_err ignored = {0};
        struct daemon_message message = {0};
        const json_t *lost;

        if (request->json ||
            daemon_call(c, "sandbox.get", json_pack("{s:s}", "sandbox", sandbox), NULL, 0, &message, &ignored) < 0)
                return;
        lost = json_object_get(message.body, "lost");
        if (lost && notice_take_lost(sandbox, sandbox_text(lost, "to")))
                cli_bad("%s: changes from %s to %s may be lost, because the daemon's engine ended without "
                        "saving them (printed once)",
                        sandbox, sandbox_text(lost, "from"), sandbox_text(lost, "to"));
        daemon_message_done(&message);
}

int sandbox_session(struct daemon_client *c, const struct cli_request *request)
{
        json_t *params = sandbox_params(request);

        sandbox_print_lost(c, request, request->positional[0]);
        if (!request->sandbox.session) {
                json_decref(params);
                return 0;
        }
        json_object_set_new(params, "session", json_string(request->sandbox.session));
        return sandbox_request(c, "session.create", params, NULL);
}

int sandbox_request_once(const struct cli_request *request, const char *method, json_t *params, json_t **ret)
{
        struct daemon_client client;
        int code = sandbox_open(request, &client);

        if (code) {
                json_decref(params);
                return code;
        }
        code = sandbox_request(&client, method, params, ret);
        daemon_close(&client);
        return code;
}

int sandbox_request_each(const struct cli_request *request, const char *method, const char *parameter)
{
        struct daemon_client client;
        int code = sandbox_open(request, &client);

        if (code)
                return code;
        for (int i = 0; i < request->positional_count; i++) {
                json_t *params = json_pack("{s:s}", parameter, request->positional[i]);
                int bad = sandbox_request(&client, method, params, NULL);

                code = bad ? bad : code;
        }
        daemon_close(&client);
        return code;
}

/* -- parameters ----------------------------------------------------------------------------------------------- */

json_t *sandbox_params(const struct cli_request *request)
{
        return json_pack("{s:s}", "sandbox", request->positional[0]);
}

json_t *sandbox_limits(const struct cli_request *request)
{
        const struct {
                const char *name;
                uint64_t value;
        } rows[] = {
#define CLOCHE_LIMIT(field, name, ...) {name, request->run.limits.field},
#include <cloche/limits.def>
#undef CLOCHE_LIMIT
        };
        json_t *limits = json_object();

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                if (rows[i].value)
                        json_object_set_new(limits, rows[i].name,
                                            json_integer(rows[i].value == CLOCHE_UNLIMITED
                                                                 ? 0
                                                                 : (json_int_t)rows[i].value));
        if (json_object_size(limits))
                return limits;
        json_decref(limits);
        return NULL;
}

json_t *sandbox_env(const struct cli_request *request)
{
        json_t *env = request->run.env_count ? json_object() : NULL;

        for (size_t i = 0; i < request->run.env_count; i++) {
                const char *equals = strchr(request->env[i], '=');

                json_object_setn_new(env, request->env[i], (size_t)(equals - request->env[i]), json_string(equals + 1));
        }
        return env;
}

/* The host of a rule: HOST, HOST:PORT or HOST:FIRST-LAST. */
static int is_loopback(const char *rule)
{
        return strncmp(rule, "127.", 4) == 0 || (strncmp(rule, "localhost", 9) == 0 && (rule[9] == ':' || !rule[9]));
}

/* '*' and whatever has a letter; IPv4 addresses have none. */
static int is_name(const char *rule)
{
        size_t host = strcspn(rule, ":");

        for (size_t i = 0; i < host; i++)
                if (rule[i] == '*' || ((rule[i] | 32) >= 'a' && (rule[i] | 32) <= 'z'))
                        return 1;
        return 0;
}

int sandbox_check_network(const struct cli_request *request)
{
        const char *loopback = NULL, *rule;
        const json_t *item;
        size_t i;

        json_array_foreach (request->sandbox.allow, i, item) {
                rule = json_string_value(item);
                if (is_loopback(rule))
                        loopback = rule;
                else if (is_name(rule))
                        return 0;
        }
        return loopback ? cli_bad("the rule '%s' names the box's own loopback, which needs none; a service of this "
                                  "machine is reached by the rule host:NAME and the option --host-port NAME=PORT, for "
                                  "a sandbox that of cloched",
                                  loopback)
                        : 0;
}

void sandbox_add_environment(const struct sandbox_options *words, json_t *params)
{
        if (words->image)
                json_object_set_new(params, "image", json_string(words->image));
        if (words->image_name)
                json_object_set_new(params, "imageName", json_string(words->image_name));
        if (words->image_settings)
                json_object_set_new(params, "imageSettings", json_loads(words->image_settings, 0, NULL));
        if (words->is_writable_root)
                json_object_set_new(params, "writableRoot", json_true());
        if (words->is_root)
                json_object_set_new(params, "root", json_true());
        if (words->packages)
                json_object_set(params, "packages", words->packages);
}

static json_t *command_or_none(const char *command)
{
        return !command ? NULL : *command ? json_string(command) : json_null();
}

json_t *sandbox_startup(const struct sandbox_options *words)
{
        json_t *ms = words->startup.ready_ms != UINT64_MAX ? json_integer((json_int_t)words->startup.ready_ms) : NULL,
               *startup = json_pack("{s:o*, s:o*, s:o*}", "start", command_or_none(words->startup.start), "ready",
                                    command_or_none(words->startup.ready), "readyMs", ms);

        if (json_object_size(startup) > 0)
                return startup;
        json_decref(startup);
        return NULL;
}

json_t *sandbox_network(const struct cli_request *request)
{
        const struct sandbox_options *options = &request->sandbox;

        if (!options->allow && !options->deny && !options->none)
                return NULL;
        return json_pack("{s:o, s:o}", "allow", options->allow ? json_incref(options->allow) : json_array(), "deny",
                         options->deny ? json_incref(options->deny) : json_array());
}

json_t *sandbox_command(const struct cli_request *request)
{
        _cleanup_buf_ struct buf text = BUF_INIT(16u << 20);
        int r = 0;

        if (request->run.argc == 1)
                return json_string(request->run.argv[0]);
        for (size_t i = 0; r == 0 && i < request->run.argc; i++) {
                r = i ? buf_append(&text, " ", 1) : 0;
                if (r == 0)
                        r = buf_quote(&text, request->run.argv[i]);
        }
        return r == 0 ? json_stringn(text.data, text.size) : NULL;
}

/* -- printing ------------------------------------------------------------------------------------------------- */

void sandbox_print_json(const json_t *value)
{
        char *text = json_dumps(value, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_ENCODE_ANY);

        puts(text ? text : "null");
        fflush(stdout);
        free(text);
}

const char *sandbox_text(const json_t *object, const char *name)
{
        const char *text = json_string_value(json_object_get(object, name));

        return text ? text : "";
}

void sandbox_make_text(json_t *answer, const char *name)
{
        char *bytes = output_path_bytes(json_object_get(answer, name));
        json_t *text = bytes ? json_string(bytes) : NULL;

        if (text)
                json_object_set_new(answer, name, text);
        free(bytes);
}
