/* Parsed options of the commands that use a daemon's sandboxes, and their shared functions. */
#ifndef CLOCHE_CLI_SANDBOX_SANDBOX_OPTIONS_H
#define CLOCHE_CLI_SANDBOX_SANDBOX_OPTIONS_H

#include "cli/command/cli.h"
#include "daemon-client.h"

#include <stdio.h>

struct sandbox_options {
        int is_once; /* one list of cloche top */
        const char *socket, *session, *cwd, *process, *signal, *word, *branch, *username,
                *password_file; /* NULL: not given */
        const char *sandbox, *context, *language, *displays, *output, *image, *image_settings,
                *image_name;                                                              /* NULL: not given */
        json_t *allow, *add, *add_deny, *deny, *labels, *packages, *host_ports, *volumes; /* owned */
        json_t *filters;                                                                  /* of sandbox.list; owned */
        const char *order, *after;                                                        /* NULL: not given */
        uint64_t rows_max;                                                                /* 0: not given */
        uint64_t expose, unexpose, depth, count, size_bytes;                              /* 0: not given */
        uint64_t idle_ms, lifetime_ms, at;                                                /* UINT64_MAX: not given */
        const char *idle_action, *end_action, *snapshot;                                  /* NULL: not given */
        struct {
                const char *start, *ready; /* NULL: not given; "": none */
                uint64_t ready_ms;         /* UINT64_MAX: not given */
        } startup;                         /* of an image */
        int input, terminal, follow, none, log, no_replay, forkable, no_files, allow_errors, restart, is_sync,
                is_unsaved, is_without_memory, is_writable_root, is_root, is_reverse, is_replacing, has_source;
};

void sandbox_options_init(struct sandbox_options *words);
void sandbox_options_done(struct sandbox_options *words);

/* -- requests ------------------------------------------------------------------------------------------------- */

/* Each returns 0, or the exit code after a line was printed. */

/* Connect to the daemon named by --socket or CLOCHE_SOCKET; otherwise to the system's, or the
 * user's own, which is started if needed. */
int sandbox_open(const struct cli_request *request, struct daemon_client *ret);
/* Send a request and wait. ret: the answer in text form, a new reference; may be NULL. */
int sandbox_request(struct daemon_client *c, const char *method, json_t *params, json_t **ret);
/* Fail unless the sandbox exists: most operations create it, and deletion succeeds.
 * 0, or a line was printed. */
int sandbox_require(struct daemon_client *c, const char *sandbox);
/* Ensure the session that -s names. Without -s no request is sent: the default one is created at
 * first use. */
int sandbox_session(struct daemon_client *c, const struct cli_request *request);
/* Print one line at the first use of a sandbox that lost its latest changes, unless --json was
 * given. A failure here recurs in the actual request, which reports it. */
void sandbox_print_lost(struct daemon_client *c, const struct cli_request *request, const char *sandbox);
/* Open, send one request, close. */
int sandbox_request_once(const struct cli_request *request, const char *method, json_t *params, json_t **ret);
/* Send one request for each word of the command line, which is its parameter of this name; all
 * are tried. Returns the last exit code that is not 0. */
int sandbox_request_each(const struct cli_request *request, const char *method, const char *parameter);

/* Print an error on standard error with terminal controls escaped: it may quote a guest. */
int sandbox_fail(const struct cloche_err *e);
/* Print the names of guards sent by a daemon, escaped likewise. */
void sandbox_print_missing(FILE *out, const json_t *missing);

/* {"sandbox": the first word}, a new reference. */
json_t *sandbox_params(const struct cli_request *request);
/* The given limits by name; NULL: none. */
json_t *sandbox_limits(const struct cli_request *request);
/* {NAME: VALUE} from --env; NULL: none. */
json_t *sandbox_env(const struct cli_request *request);
/* Add the fields of --image, --writable-root, --root and --packages. */
void sandbox_add_environment(const struct sandbox_options *words, json_t *params);
/* startup of an image's configuration: {start, ready, readyMs}; NULL if not given. */
json_t *sandbox_startup(const struct sandbox_options *words);
/* {allow, deny}; NULL if not given. */
json_t *sandbox_network(const struct cli_request *request);
/* 0, or an exit code where the rules permit the box's own loopback alone: their author wants the
 * host's. */
int sandbox_check_network(const struct cli_request *request);
/* The words after "--", for a shell: one word is shell text, several are a command and its
 * arguments. NULL when out of memory. */
json_t *sandbox_command(const struct cli_request *request);

/* Print a value on standard output as one line of JSON. */
void sandbox_print_json(const json_t *value);
/* Convert bytes to text where possible; long output always arrives as bytes. */
void sandbox_make_text(json_t *answer, const char *name);
/* The text of an object's member, "" if missing. */
const char *sandbox_text(const json_t *object, const char *name);

#endif
