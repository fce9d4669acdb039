/* The options of the commands for sandboxes. Runs in: the CLI, as its user. */
#include "setters.h"

#include <stdlib.h>
#include <string.h>

#define DAY_MS 86400000.0

/* -- values --------------------------------------------------------------------------------------------------- */

TEXT_SETTER(socket)
TEXT_SETTER(session)
TEXT_SETTER(cwd)
TEXT_SETTER(process)
TEXT_SETTER(signal)
TEXT_SETTER(word)
TEXT_SETTER(branch)
TEXT_SETTER(username)
TEXT_SETTER(password_file)
FLAG_SETTER(input)
FLAG_SETTER(terminal)
FLAG_SETTER(follow)
FLAG_SETTER(none)
FLAG_SETTER(log)

static int set_idle(struct cli_request *r, const char *v)
{
        return options_duration(&r->sandbox.idle_ms, "--idle", v, 1, DAY_MS);
}

static int set_expose(struct cli_request *r, const char *v)
{
        return options_count(&r->sandbox.expose, "--expose", v, 1024, 65535);
}

static int set_unexpose(struct cli_request *r, const char *v)
{
        return options_count(&r->sandbox.unexpose, "--unexpose", v, 1024, 65535);
}

static int set_depth(struct cli_request *r, const char *v)
{
        return options_count(&r->sandbox.depth, "--depth", v, 1, 100000000);
}

static int add_text(json_t **list, const char *option, const char *v)
{
        json_t *text = json_string(v);

        if (!text)
                return cli_bad("%s: expected text in UTF-8", option);
        if (!*list)
                *list = json_array();
        return json_array_append_new(*list, text) < 0 ? cli_bad("out of memory") : 0;
}

static int set_allow(struct cli_request *r, const char *v)
{
        return add_text(&r->sandbox.allow, "--allow", v);
}

static int set_deny(struct cli_request *r, const char *v)
{
        return add_text(&r->sandbox.deny, "--deny", v);
}

/* RULE,RULE,…; a leading '!' denies. */
static int set_network(struct cli_request *r, const char *v)
{
        int bad = *v ? 0 : cli_bad("--network: expected HOST, HOST:PORT or HOST:FIRST-LAST, separated by commas");

        while (bad == 0 && *v) {
                size_t size = strcspn(v, ",");
                int is_denied = *v == '!';
                char *rule = strndup(v + is_denied, size - (size_t)is_denied);

                bad = !rule ? cli_bad("out of memory")
                            : add_text(is_denied ? &r->sandbox.deny : &r->sandbox.allow, "--network", rule);
                free(rule);
                v += size;
                v += *v == ',';
        }
        return bad;
}

static int set_label(struct cli_request *r, const char *v)
{
        const char *equals = strchr(v, '=');

        if (!equals || equals == v)
                return cli_bad("--label: '%s' is not NAME=VALUE", v);
        if (!r->sandbox.labels)
                r->sandbox.labels = json_object();
        if (json_object_setn_new(r->sandbox.labels, v, (size_t)(equals - v), json_string(equals + 1)) < 0)
                return cli_bad("--label: '%s' is not text in UTF-8", v);
        return 0;
}

/* "-" is a positional word, like the path it replaces. */
static int add_standard(struct cli_request *r, const char *v)
{
        (void)v;
        if (r->positional_count == 2)
                return cli_bad("unexpected word '-' (usage: cloche cp SOURCE TARGET)");
        r->positional[r->positional_count++] = "-";
        return 0;
}

/* -- tables --------------------------------------------------------------------------------------------------- */

const struct cli_option options_socket[] = {
        {"--socket", "PATH",
         "socket of the daemon; default: $CLOCHE_SOCKET, else the system's daemon if you may use it, else your own",
         set_socket},
        {0},
};
const struct cli_option options_daemon[] = {
        {"--socket", "PATH",
         "socket of the daemon; default: $CLOCHE_SOCKET, else the system's daemon if you may use it, else your own, "
         "started on demand",
         set_socket},
        {"--strict", NULL, "refuse a daemon where any guard is missing", options_set_strict},
        {0},
};
const struct cli_option options_sandbox[] = {
        {"--idle", "TIME",
         "time without requests and processes after which it is saved and stopped, 0: never; default 20m", set_idle},
        {"--label", "NAME=VALUE", "a label for your own use; may be repeated", set_label},
        {0},
};
const struct cli_option options_sandbox_network[] = {
        {"--allow", "RULE", "allow connections to HOST, HOST:PORT or HOST:FIRST-LAST; may be repeated; default: none",
         set_allow},
        {"--deny", "RULE", "deny connections to it; may be repeated", set_deny},
        {0},
};
const struct cli_option options_run_network[] = {
        {"--network", "RULES",
         "allow connections to HOST, HOST:PORT or HOST:FIRST-LAST, separated by commas; a leading ! denies; "
         "default: none",
         set_network},
        {0},
};
const struct cli_option options_session[] = {
        {"-s", "SESSION",
         "session with directory, variables and functions of the shell, created if missing; default: default",
         set_session},
        {"-C", "DIR", "working directory; default: that of the session", set_cwd},
        {0},
};
const struct cli_option options_exec[] = {
        {"-i", NULL, "pass standard input to the command", set_input},
        {"-t", NULL, "run on a terminal, with or without -i; Ctrl-] detaches", set_terminal},
        {0},
};
const struct cli_option options_terminal[] = {
        {"-t", NULL,
         "run on a terminal of its own, shown on yours; without time limits unless --timeout or --cpu-time set one",
         set_terminal},
        {0},
};
const struct cli_option options_process_id[] = {
        {"--process", "ID", "id of the process; default: one is made up", set_process},
        {0},
};
const struct cli_option options_attach[] = {
        {"--process", "ID", "attach to the terminal of this process instead of a new one", set_process},
        {0},
};
const struct cli_option options_follow[] = {
        {"-f", NULL, "also print new output until the process ends", set_follow},
        {0},
};
const struct cli_option options_signal[] = {
        {"-s", "SIGNAL", "send only this signal, a name or number; default: TERM, and KILL after five seconds",
         set_signal},
        {0},
};
const struct cli_option options_standard[] = {
        {"-", NULL, "standard input or output instead of a path of the host", add_standard},
        {0},
};
const struct cli_option options_ports[] = {
        {"--expose", "PORT", "expose the port to holders of the token", set_expose},
        {"--unexpose", "PORT", "stop exposing the port", set_unexpose},
        {"--name", "WORD", "with --expose: a name for your own use", set_word},
        {0},
};
const struct cli_option options_network[] = {
        {"--allow", "RULE", "allow HOST, HOST:PORT or HOST:FIRST-LAST; may be repeated; replaces the previous rules",
         set_allow},
        {"--deny", "RULE", "deny it, even if --allow matches; may be repeated", set_deny},
        {"--none", NULL, "deny all connections", set_none},
        {"--log", NULL, "show the last decisions about connections", set_log},
        {0},
};
const struct cli_option options_git[] = {
        {"--branch", "NAME", "branch or tag; default: the repository's own", set_branch},
        {"--depth", "N", "number of commits; default: all", set_depth},
        {"--username", "NAME", "user name for http and https", set_username},
        {"--password-file", "FILE",
         "file whose first line is the password or token; it appears in no command line, file or answer",
         set_password_file},
        {"-s", "SESSION", "session whose directory a relative DIR is resolved in; default: default", set_session},
        {0},
};
