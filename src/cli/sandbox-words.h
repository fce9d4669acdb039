/* What the command line said to the commands of sandboxes, which ask a daemon; and what they have in common. */
#ifndef CLOCHE_CLI_SANDBOX_WORDS_H
#define CLOCHE_CLI_SANDBOX_WORDS_H

#include "cli.h"
#include "daemon-client.h"

#include <stdio.h>

struct sandbox_words {
        const char *socket, *session, *cwd, *process, *signal, *word, *branch, *username, *password_file; /* NULL: not said */
        const char *sandbox, *context, *language, *displays, *output;                                   /* likewise */
        json_t *allow, *deny, *labels;                                                                  /* owned */
        uint64_t expose, unexpose, depth, count;                                                        /* 0: not said */
        uint64_t idle_ms;                                                                               /* UINT64_MAX: not said */
        int input, terminal, follow, none, log, no_replay, forkable, no_files, allow_errors, restart;
};

extern const struct cli_option options_daemon[], options_socket[], options_sandbox[], options_sandbox_network[], options_run_network[], options_session[], options_exec[],
        options_process_id[], options_attach[], options_follow[], options_signal[], options_standard[], options_ports[], options_network[], options_git[];
extern const struct cli_option options_choice[], options_context[], options_prompt[], options_language[], options_context_create[], options_cell[],
        options_displays[], options_fork[], options_checkpoint[], options_notebook[];

void sandbox_words_begin(struct sandbox_words *words);
void sandbox_words_done(struct sandbox_words *words);

/* -- asking --------------------------------------------------------------------------------------------------- */

/* Each: 0, or the exit code: a line was printed. */

/* The daemon that --socket or CLOCHE_SOCKET names, else the system's, else the user's own, which is started when there is none. */
int sandbox_open(const struct cli_request *request, struct daemon_client *ret);
/* Ask and wait. ret: the answer in text form, a new reference; may be NULL. */
int sandbox_ask(struct daemon_client *c, const char *method, json_t *params, json_t **ret);
/* The session that -s names is there, or made; without -s nothing is asked: the default one is made when it is used. */
int sandbox_session(struct daemon_client *c, const struct cli_request *request);
/* One line at the first use of a sandbox that came back without its latest changes; none with --json. A failure here comes again in the use itself, which prints it. */
void sandbox_tell_lost(struct daemon_client *c, const struct cli_request *request, const char *sandbox);
/* Open, ask once, close. */
int sandbox_ask_once(const struct cli_request *request, const char *method, json_t *params, json_t **ret);

/* An error on standard error, without what could steer a terminal: it may quote a guest. */
int sandbox_fail(const struct cloche_err *e);
/* The names of guards that a daemon sent, escaped likewise. */
void sandbox_print_missing(FILE *out, const json_t *missing);

/* {"sandbox": the first word}, a new reference. */
json_t *sandbox_params(const struct cli_request *request);
/* Limits that were said, by name; NULL: none. */
json_t *sandbox_limits(const struct cli_request *request);
/* {NAME: VALUE} of --env; NULL: none. */
json_t *sandbox_env(const struct cli_request *request);
/* {allow, deny}; NULL when nothing was said of it. */
json_t *sandbox_network(const struct cli_request *request);
/* The words behind "--", for a shell: one is a text of its language, several are a command and its arguments. NULL without memory. */
json_t *sandbox_command(const struct cli_request *request);

/* Standard output: a value as one line of JSON. */
void sandbox_print_json(const json_t *value);
/* Long output comes as bytes, whatever is in it; in JSON it is text where it can be. */
void sandbox_make_text(json_t *answer, const char *name);
/* The text of an object's member, "" when there is none. */
const char *sandbox_text(const json_t *object, const char *name);

#endif
