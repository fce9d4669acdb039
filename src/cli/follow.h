/* A request that tells while it is under way: output goes to ours as it comes and no faster than it is taken, standard input goes to the process
 * no faster than that takes it, and signals end it. */
#ifndef CLOCHE_CLI_FOLLOW_H
#define CLOCHE_CLI_FOLLOW_H

#include "daemon-client.h"
#include "outlet.h"
#include "questions.h"
#include "terminal.h"

#define FOLLOW_CANCELLED 143 /* exit codes: SIGINT, SIGTERM or SIGHUP came; */
#define FOLLOW_UNREAD 141    /* nobody reads our output any more, as after SIGPIPE */

struct follow {
        /* By the caller; borrowed. */
        struct daemon_client *client;
        const char *sandbox, *process; /* process: NULL when it is none */
        int passes_input;              /* to the process */
        struct terminal *terminal;     /* raw: changes of size are passed on, and Ctrl-] leaves the process alone; NULL: none */
        int all_is_error;              /* what is told as output is not what was asked for */
        int (*on_event)(void *data, const struct daemon_told *told); /* of all but output: 0, or the exit code to end with; NULL: dropped */
        int ends_unread;               /* as soon as nobody reads our output; else at the next write */
        int takes_output;              /* on_event takes output too, in place of our streams */
        void *data;
        const char *context;           /* SIGINT interrupts the cell that runs in it, a second one ends the request; NULL: the first one does */
        const char *waits_for;         /* until it begins, see progress.h; NULL: nothing to speak of */
        struct questions *questions;   /* what a cell asks is answered from standard input; NULL: nobody asks */
        /* Of the time between. */
        json_int_t id, input_id; /* input_id: 0 when the process takes more */
        int signal_fd, input_is_over, is_leaving, is_over, cancels;
        int has_begun, interrupts; /* of a cell */
        int ended_by;              /* the signal that took it back; 0: none did */
        int code; /* what it is to end with whatever the answer; 0: as the answer says */
        struct outlet out;
        int is_held;
        json_t *result;
        uint64_t deadline_ns; /* of a cancel; 0: none */
};

/* Until the request is answered. 0: *ret is the result in text form, or NULL when it was left by Ctrl-]. Else the exit code: a line was printed where
 * there is something to say, the terminal put back before. *ret is a new reference or NULL in either case. */
int follow_run(struct follow *f, json_int_t id, json_t **ret);
/* Ask, and the same. params is stolen. */
int follow_request(struct follow *f, const char *method, json_t *params, json_t **ret);

#endif
