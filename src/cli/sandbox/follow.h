/* Follow a request with events. Output is written to ours only as fast as it is read, standard
 * input is sent to the process only as fast as it reads, and signals end the request. */
#ifndef CLOCHE_CLI_SANDBOX_FOLLOW_H
#define CLOCHE_CLI_SANDBOX_FOLLOW_H

#include "cli/cells/questions.h"
#include "cli/output/output-queue.h"
#include "daemon-client.h"
#include "terminal.h"

#define FOLLOW_CANCELLED 143 /* exit code after SIGINT, SIGTERM or SIGHUP */
#define FOLLOW_UNREAD 141    /* exit code if our output is closed, as after SIGPIPE */

struct follow {
        /* Set by the caller; borrowed. */
        struct daemon_client *client;
        const char *sandbox, *process; /* process: NULL if none */
        int passes_input;              /* send standard input to the process */
        int ends_input;            /* a signal ends the input, and the process is killed if it goes on after that end */
        struct terminal *terminal; /* raw mode: size changes are passed on, and Ctrl-] detaches; NULL: none */
        int is_error_plain; /* standard error is for people: bytes that could control a terminal are shown as \xNN */
        int all_is_error;   /* output goes to standard error, since it is not the requested result */
        int (*on_event)(void *data,
                        const struct daemon_message *message); /* not for output: 0, or the exit code; NULL: none */
        int ends_unread;  /* end as soon as our output is closed; otherwise at the next write */
        int takes_output; /* on_event also receives output, instead of our streams */
        int is_quiet;     /* an error of the request is told by the exit code only */
        void *data;
        const char *context;   /* SIGINT interrupts the running cell, a second one ends the request; NULL: the first one
                                  ends it */
        const char *waits_for; /* shown until it begins, see progress.h; NULL: nothing */
        struct questions *questions; /* input requests of a cell are answered from standard input; NULL: none */
        /* State while it runs. */
        json_int_t id, input_id; /* input_id: 0 when the process accepts more */
        int signal_fd, input_is_over, is_leaving, is_over, cancels;
        int has_begun, interrupts; /* for a cell */
        int ended_by;              /* the signal that cancelled it; 0: none */
        int code;                  /* exit code that overrides the answer's; 0: none */
        struct output_queue out;
        int is_held;
        json_t *result;
        uint64_t deadline_ns; /* timeout of a cancel; 0: none */
};

/* Run until the request is answered. 0: *ret is the result in text form, or NULL after Ctrl-].
 * Otherwise the exit code; an error line was printed if needed, after the terminal was restored.
 * *ret is a new reference or NULL in either case. */
int follow_run(struct follow *f, json_int_t id, json_t **ret);
/* Send a request and follow it. params is stolen. */
int follow_request(struct follow *f, const char *method, json_t *params, json_t **ret);

#endif
