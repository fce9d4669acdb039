/* The state of a sandbox. It is told from the moment on when it is true: a start may fail until it
 * runs, and a stop as long as the files are being saved.
 *
 * A paused sandbox has its memory (SANDBOX_PAUSED), or its files only: then it has no box
 * (SANDBOX_STOPPED), and has_files_only makes the difference to a stopped one. Memory ends with
 * the processes, so a paused sandbox whose keeper or daemon ends has its files only. Runs in:
 * cloched-engine, on its loop, with the rights of the daemon's user. */
#include "state.h"
#include "deadline.h"
#include "log.h"
#include "sandbox/core/store.h"

#include "base/clock.h"
#include "base/state.h"

#include <string.h>

static const unsigned transitions[SANDBOX_STATES] = {
        [SANDBOX_STOPPED] = STATE_TO(SANDBOX_STARTING),
        [SANDBOX_STARTING] = STATE_TO(SANDBOX_RUNNING) | STATE_TO(SANDBOX_DROPPING),
        [SANDBOX_RUNNING] = STATE_TO(SANDBOX_STOPPING) | STATE_TO(SANDBOX_PAUSING) | STATE_TO(SANDBOX_DROPPING),
        [SANDBOX_PAUSING] = STATE_TO(SANDBOX_PAUSED) | STATE_TO(SANDBOX_RESUMING) | STATE_TO(SANDBOX_DROPPING),
        [SANDBOX_PAUSED] = STATE_TO(SANDBOX_RESUMING) | STATE_TO(SANDBOX_DROPPING),
        [SANDBOX_RESUMING] = STATE_TO(SANDBOX_RUNNING) | STATE_TO(SANDBOX_DROPPING),
        [SANDBOX_STOPPING] = STATE_TO(SANDBOX_RUNNING) | STATE_TO(SANDBOX_DROPPING),
        [SANDBOX_DROPPING] = STATE_TO(SANDBOX_STOPPED),
};

static const struct {
        const char *state, *kind;
} words[SANDBOX_STATES][2] = {
        /* by has_files_only */
        [SANDBOX_STOPPED] = {{"stopped", NULL}, {"paused", "files"}},
        [SANDBOX_STARTING] = {{"stopped", NULL}, {"paused", "files"}},
        [SANDBOX_RUNNING] = {{"running", NULL}, {"running", NULL}},
        [SANDBOX_PAUSING] = {{"running", NULL}, {"running", NULL}},
        [SANDBOX_PAUSED] = {{"paused", "memory"}, {"paused", "memory"}},
        [SANDBOX_RESUMING] = {{"paused", "memory"}, {"paused", "memory"}},
        [SANDBOX_STOPPING] = {{"running", NULL}, {"running", NULL}},
        [SANDBOX_DROPPING] = {{"stopped", NULL}, {"paused", "files"}},
};

int sandbox_has_memory(const struct sandbox *s)
{
        return s->state == SANDBOX_PAUSED || s->state == SANDBOX_RESUMING;
}

json_t *sandbox_state_json(const struct sandbox *s)
{
        int i = s->has_files_only != 0;

        return json_pack("{s:s, s:s*}", "state", words[s->state][i].state, "pauseKind", words[s->state][i].kind);
}

/* A save may fail; then the sandbox goes on running, whatever was planned. */
static void note_pause(struct sandbox *s)
{
        int has_files_only = s->state == SANDBOX_STOPPED && s->has_files_only;

        if (s->state == SANDBOX_RUNNING && s->plan == SANDBOX_STAYS)
                s->has_files_only = 0;
        if ((s->state == SANDBOX_PAUSED || has_files_only) && !s->paused_ms)
                s->paused_ms = clock_real_ms();
        else if ((s->state == SANDBOX_RUNNING || s->state == SANDBOX_STOPPED) && !s->has_files_only)
                s->paused_ms = 0;
}

void sandbox_set_state(struct sandbox *s, enum sandbox_state state)
{
        enum sandbox_state before = s->state;

        STATE_CHECK(transitions, s->state, state);
        s->state = state;
        note_pause(s);
        if (state == SANDBOX_PAUSED || state == SANDBOX_STOPPED)
                sandbox_deadline_settle(s);
        /* Before anybody is told of the pause, and before anything changes after it: the
         * daemon may be killed then. If the definition cannot be written, the next daemon
         * reports the sandbox as stopped. */
        if (!s->is_pooled && !s->is_deleted && sandbox_has_memory(s))
                (void)sandbox_store_define(s, NULL);
        sandbox_log_state(s, before);
        if (state == SANDBOX_RUNNING || state == SANDBOX_PAUSED || state == SANDBOX_STOPPED)
                sandbox_send_event(s, "state", sandbox_state_json(s));
}
