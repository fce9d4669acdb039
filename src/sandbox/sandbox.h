/* Sandboxes: boxes that stay, with sessions, processes, files, ports and a network. Whoever serves clients asks with the methods of
 * spec/sandbox.def and gets answers and events; everything happens on the engine's loop, nothing blocks it.
 *
 * Life cycle: sandboxes_new() reads what was saved. sandboxes_ask() begins a request; its face hears events, then exactly one of result and fail,
 * never from within sandboxes_ask itself. A face may ask anew from where it hears, but not cancel. sandboxes_stop() saves and ends all; sandboxes_free() ends what is left. */
#ifndef CLOCHE_SANDBOX_SANDBOX_H
#define CLOCHE_SANDBOX_SANDBOX_H

#include "base/buf.h"

#include <cloche/cloche.h>
#include <jansson.h>

/* Programs of ours that go into boxes, read from their directory by sandboxes_new. */
#define SANDBOX_SHELL "cloche-session.so"
#define SANDBOX_FILES "cloche-files"

struct sandboxes;
struct sandbox_ask;

struct sandboxes_options {
        cloche_engine *engine;
        const char *state_dir;     /* where sandboxes are saved; NULL: nowhere, they end with the process */
        const char *preview_host;  /* HOST or HOST:PORT of preview URLs; NULL: none */
        int preview_is_tls;
        const json_t *network;     /* policy of sandboxes that are made without one (spec/sandbox.md); NULL: none */
        uint64_t save_every_ms;    /* of a running sandbox that changed; 0: only when it stops */
        unsigned sandboxes_max;    /* running at once, of all principals; 0: 1000 */
        unsigned saved_max;        /* of one principal, running or not; 0: 10000 */
        /* A sandbox's files could not be saved; again only after they could be, and when sandboxes_stop ends it all the same. May be NULL. */
        void (*on_unsaved)(void *data, int64_t principal, const char *name, const struct cloche_err *e);
        /* What changed in a sandbox between these times (real, milliseconds) is lost: it, or the daemon before, ended by accident. May be NULL. */
        void (*on_lost)(void *data, int64_t principal, const char *name, uint64_t from_ms, uint64_t to_ms);
        void (*on_load)(void *data); /* while sandboxes_new reads what was saved: one more was read. May be NULL */
        void *events_data;           /* of all three */
};

/* Values are in frame form (spec/values.md): bytes stand in attachments, which may be empty. All borrowed for the time of the call. */
struct sandbox_face {
        void (*event)(void *data, const char *event, const json_t *about, const struct buf *attachments);
        void (*result)(void *data, const json_t *result, const struct buf *attachments);
        /* about: further members of the error, in plain values, or NULL. */
        void (*fail)(void *data, const struct cloche_err *e, const json_t *about);
};

CLOCHE_MUST_CHECK int sandboxes_new(const struct sandboxes_options *opt, struct sandboxes **ret, struct cloche_err *e);
/* Set up what a principal's contexts of these languages (names with commas) are forked from; it is not waited for. -CLOCHE_E_UNKNOWN_LANGUAGE. */
CLOCHE_MUST_CHECK int sandboxes_warm(struct sandboxes *all, int64_t principal, const char *languages, struct cloche_err *e);
/* Save and end all; done is told once, from the loop. One that cannot be saved ends too: on_unsaved is called before. */
void sandboxes_stop(struct sandboxes *all, void (*done)(void *data), void *data);
/* The process ends before sandboxes_stop is done: on_unsaved is called, with e, for each sandbox that changed and is not saved. */
void sandboxes_abandon(struct sandboxes *all, const struct cloche_err *e);
void sandboxes_free(struct sandboxes *all); /* accepts NULL */

/* params: an object in frame form, checked by the rows of sandbox.def; borrowed, as attachments are. face and data: until it is over.
 * Errors at once: CLOCHE_E_INVALID_ARGUMENT, _NOT_FOUND, _RESOURCE; the face hears nothing then. */
CLOCHE_MUST_CHECK int sandboxes_ask(struct sandboxes *all, int64_t principal, const char *method, const json_t *params,
                                    const struct buf *attachments, const struct sandbox_face *face, void *data,
                                    struct sandbox_ask **ret, struct cloche_err *e);
/* What it does is ended where it can be; the face hears nothing more, and the ask is gone. */
void sandbox_ask_cancel(struct sandbox_ask *ask);
/* For file.watch: changes until now are told at once, then the event "flushed". Two calls without that event between them may be one. */
void sandbox_ask_flush(struct sandbox_ask *ask);
/* The asker does not keep up: tell no more output until it is let go; what waited, and perhaps the outcome, is then told from within. */
void sandbox_ask_hold(struct sandbox_ask *ask, int hold);

/* A connection to a port of a sandbox: fd is connected, nonblocking and owned by whoever hears; or -EBADF with e. Never from within. It is heard once
 * more, with e, when the port is not exposed any more or the sandbox ends: the connection is to be closed then. */
typedef void (*sandbox_connected)(void *data, int fd, const struct cloche_err *e);
struct sandbox_dial;
/* For a preview: whoever has the token. name, token: of the URL. CLOCHE_E_NOT_FOUND: unknown sandbox, port not exposed, or another token; all alike.
 * A preview that is open keeps the sandbox from being idle: sandbox_preview_over once its connection has ended. */
CLOCHE_MUST_CHECK int sandboxes_preview(struct sandboxes *all, const char *name, unsigned port, const char *token, sandbox_connected connected, void *data,
                                        struct sandbox_dial **ret, struct cloche_err *e);
/* Always due once, also after an error was heard and before it is connected: nothing more is heard. */
void sandbox_preview_over(struct sandbox_dial *dial);
/* Whether the principal's sandbox of that name has exposed the port. */
int sandboxes_exposes(const struct sandboxes *all, int64_t principal, const char *name, unsigned port);
/* The same without a token, for the principal's own use. */
CLOCHE_MUST_CHECK int sandboxes_dial(struct sandboxes *all, int64_t principal, const char *name, unsigned port, sandbox_connected connected, void *data,
                                     struct sandbox_dial **ret, struct cloche_err *e);

/* Why programs in that sandbox may not connect to where they want, and who can allow it, as one line; 0: there is no such sandbox. */
int sandboxes_explain_network(const struct sandboxes *all, int64_t principal, const char *name, char *ret, size_t size);

/* For metrics. */
struct sandboxes_count { unsigned sandboxes, running, sessions, processes, asks; };
struct sandboxes_count sandboxes_count(const struct sandboxes *all);

#endif
