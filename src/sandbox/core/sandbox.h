/* Sandboxes: boxes that stay, with sessions, processes, files, ports and a network. A server sends
 * requests with the methods of spec/sandbox.def and receives answers and events. All code runs on
 * the engine's loop and never blocks it.
 *
 * Life cycle: sandboxes_new() reads the saved sandboxes. sandboxes_request() begins a request; its
 * callbacks are called with events, then with exactly one of result and fail, never from within
 * sandboxes_request itself. A callback may begin a new request, but must not cancel one.
 * sandboxes_stop() saves and ends all; sandboxes_free() ends the remaining ones. */
#ifndef CLOCHE_SANDBOX_CORE_SANDBOX_H
#define CLOCHE_SANDBOX_CORE_SANDBOX_H

#include "base/buf.h"

#include <cloche/engine.h>
#include <jansson.h>

/* Our programs for boxes, read from their directory by sandboxes_new. */
#define SANDBOX_SHELL "cloche-session.so"
#define SANDBOX_FILES "cloche-files"
/* gem has no variable for its sources. The file is written at each start of a sandbox. */
#define SANDBOX_GEMRC "/home/cloche/.local/share/cloche/gemrc"

struct sandboxes;
struct sandbox_request;
struct sandbox_boxes;

/* How whoever reads that a connection was refused can change the rules of that sandbox. */
enum sandboxes_reach {
        SANDBOXES_BY_COMMAND,   /* cloche net: the command line finds a socket of the daemon */
        SANDBOXES_BY_OPERATION, /* sandbox.update, by a client */
        SANDBOXES_OUT_OF_REACH, /* only the daemon's options for new sandboxes */
};

/* The image store, to which sandbox.commit adds. */
struct sandbox_images {
        /* Fails unless this caller may add images. */
        int (*check)(void *data, int64_t principal, struct cloche_err *e);
        /* Make an image of an archive of changes. fd: sealed, borrowed; params: of the
         * image program, stolen. done is called once, never from within; one of result
         * and e is NULL, borrowed. */
        int (*commit)(void *data, int64_t principal, int fd, json_t *params,
                      void (*done)(void *done_data, const json_t *result, const struct cloche_err *e), void *done_data,
                      void **ret, struct cloche_err *e);
        void (*cancel)(void *commit); /* before done: nothing is kept */
};

struct sandboxes_options {
        cloche_engine *engine;
        const struct sandbox_boxes *boxes; /* core/box.h; NULL: boxes of the engine's keeper */
        const char *state_dir;             /* for saved sandboxes; NULL: they end with the process */
        const char *preview_host;          /* HOST or HOST:PORT of preview URLs; NULL: none */
        int preview_is_tls;
        const struct sandbox_images *images; /* NULL: there is none */
        void *images_data;
        enum sandboxes_reach reach, token_reach; /* token_reach: of negative principals */
        const json_t *env;      /* variables of all programs, unless the sandbox or the request has them; NULL: none */
        const char *gemrc;      /* text of the file SANDBOX_GEMRC in each sandbox; NULL: none */
        const json_t *network;  /* policy of sandboxes that are made without one (spec/sandbox.md); NULL: none */
        uint64_t save_every_ms; /* interval of saves of a running sandbox with changes; 0: only when it stops */
        unsigned sandboxes_max; /* running at once, of all principals; 0: 1000 */
        unsigned saved_max;     /* of one principal, running or not; 0: 10000 */
        unsigned volumes_max;   /* of one principal; 0: 64 */
        uint64_t
                volume_bytes_max; /* of all volumes of one principal, and its sandboxes' files on the disk; 0: 16 GiB */
        int has_layers_on_disk;   /* writable roots lie there also where they could lie in memory */
        /* A sandbox's files could not be saved. Called again only after a successful save, and when
         * sandboxes_stop ends the sandbox. May be NULL. */
        void (*on_unsaved)(void *data, int64_t principal, const char *name, const struct cloche_err *e);
        /* Changes in a sandbox between these times (real, milliseconds) are lost, because it or the
         * earlier daemon ended by accident. May be NULL. */
        void (*on_lost)(void *data, int64_t principal, const char *name, uint64_t from_ms, uint64_t to_ms);
        void (*on_load)(void *data); /* in sandboxes_new, after each saved sandbox that was read. May be NULL */
        void *events_data;           /* for all three */
};

/* Callbacks of a request. Values are in frame form (spec/values.md): their bytes are in
 * attachments, which may be empty. Arguments are borrowed for the call. */
struct sandbox_face {
        void (*event)(void *data, const char *event, const json_t *about, const struct buf *attachments);
        void (*result)(void *data, const json_t *result, const struct buf *attachments);
        /* about: further members of the error, in plain values, or NULL. */
        void (*fail)(void *data, const struct cloche_err *e, const json_t *about);
        /* The unix socket of the user whose rights decide about mounts, borrowed;
         * negative: none. NULL: none. */
        int (*caller)(void *data);
        /* Find a prefix of the caller, by id or name, and how to show it; both borrowed, the
         * title for the call. -CLOCHE_E_NOT_FOUND. NULL: the caller has none. */
        int (*prefix)(void *data, const char *name, const cloche_prefix **ret, const char **ret_title,
                      struct cloche_err *e);
};

CLOCHE_MUST_CHECK int sandboxes_new(const struct sandboxes_options *opt, struct sandboxes **ret, struct cloche_err *e);
/* Prepare the prefixes of a principal's contexts of these languages (names with commas), without
 * waiting for them. -CLOCHE_E_UNKNOWN_LANGUAGE. */
CLOCHE_MUST_CHECK int sandboxes_warm(struct sandboxes *all, int64_t principal, const char *languages,
                                     struct cloche_err *e);
int sandboxes_has(const struct sandboxes *all, int64_t principal, const char *name);
/* The state directory, borrowed; negative: there is none. */
int sandboxes_state_fd(const struct sandboxes *all);
/* A file of JSON there, which is replaced as a whole. 0 or -errno; -ENOENT: there is none. */
CLOCHE_MUST_CHECK int sandboxes_state_read(const struct sandboxes *all, const char *name, size_t size_max,
                                           json_t **ret);
CLOCHE_MUST_CHECK int sandboxes_state_write(const struct sandboxes *all, const char *name, const char *text);
/* Its labels, borrowed until the next request; NULL: there is no such sandbox. */
const json_t *sandboxes_labels(const struct sandboxes *all, int64_t principal, const char *name);
/* Report the sandboxes that were made of an image of the store, stopped ones too. */
void sandboxes_each_image(const struct sandboxes *all, void (*each)(void *data, const char *name, const char *image),
                          void *data);
/* Report the snapshots of such sandboxes. */
void snapshots_each_image(const struct sandboxes *all, void (*each)(void *data, const char *name, const char *image),
                          void *data);
/* Save and end all; done is called once, from the loop. A sandbox that cannot be saved ends too,
 * after a call of on_unsaved. */
void sandboxes_stop(struct sandboxes *all, void (*done)(void *data), void *data);
/* The process will exit before sandboxes_stop is done: call on_unsaved, with e, for each sandbox
 * that changed and is not saved. */
void sandboxes_report_unsaved(struct sandboxes *all, const struct cloche_err *e);
void sandboxes_free(struct sandboxes *all); /* accepts NULL */

/* params: an object in frame form, checked by the rows of sandbox.def; borrowed, like attachments.
 * face and data: used until the outcome. Errors at once: CLOCHE_E_INVALID_ARGUMENT, _NOT_FOUND,
 * _RESOURCE; then no callback is called. */
CLOCHE_MUST_CHECK int sandboxes_request(struct sandboxes *all, int64_t principal, const char *method,
                                        const json_t *params, const struct buf *attachments,
                                        const struct sandbox_face *face, void *data, struct sandbox_request **ret,
                                        struct cloche_err *e);
/* Stop the request if its work can be stopped, and free it; no further callback is called. */
void sandbox_request_cancel(struct sandbox_request *request);
/* For file.watch: send the changes until now at once, then the event "flushed". Two calls without
 * that event between them may be one. */
void sandbox_request_flush(struct sandbox_request *request);
/* The client is too slow: send no more output until the hold ends. The end of a hold sends, from
 * within, the output that waited, and perhaps the outcome. */
void sandbox_request_hold(struct sandbox_request *request, int hold);

/* A connection to a port of a sandbox: fd is connected, nonblocking and owned by the callee; or
 * -EBADF with e. Never called from within. It is called once more, with e, when the port is no
 * longer exposed or the sandbox ends: then close the connection. */
typedef void (*sandbox_connected)(void *data, int fd, const struct cloche_err *e);
struct sandbox_dial;
/* For a preview: anyone who has the token. name, token: from the URL. CLOCHE_E_NOT_FOUND: unknown
 * sandbox, port not exposed, or wrong token, with one message. An open preview keeps the sandbox
 * from being idle: call sandbox_preview_close when its connection has ended. */
CLOCHE_MUST_CHECK int sandboxes_preview(struct sandboxes *all, const char *name, unsigned port, const char *token,
                                        sandbox_connected connected, void *data, struct sandbox_dial **ret,
                                        struct cloche_err *e);
/* Must be called once, also after an error and before it is connected; no callback follows. */
void sandbox_preview_close(struct sandbox_dial *dial);
/* True if the principal's sandbox of that name has exposed the port. */
int sandboxes_exposes(const struct sandboxes *all, int64_t principal, const char *name, unsigned port);
/* The same without a token, for the principal itself. */
CLOCHE_MUST_CHECK int sandboxes_dial(struct sandboxes *all, int64_t principal, const char *name, unsigned port,
                                     sandbox_connected connected, void *data, struct sandbox_dial **ret,
                                     struct cloche_err *e);

/* Write one line: why programs in that sandbox may not connect, and how the operator can allow it.
 * 0: there is no such sandbox. */
int sandboxes_explain_network(const struct sandboxes *all, int64_t principal, const char *name, char *ret, size_t size);

/* environment/layer.c: the packages that are kept for new sandboxes of a principal:
 * Layer[] of spec/answers.def. */
json_t *sandboxes_layers(const struct sandboxes *all, int64_t principal);
/* -CLOCHE_E_NOT_FOUND. */
CLOCHE_MUST_CHECK int sandboxes_layer_delete(const struct sandboxes *all, int64_t principal, const char *layer,
                                             struct cloche_err *e);

/* For metrics. */
struct sandboxes_count {
        unsigned sandboxes, running, sessions, processes, requests;
};
struct sandboxes_count sandboxes_count(const struct sandboxes *all);

#endif
