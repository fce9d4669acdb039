/* cloched: one thread, one loop. The engine's own loop is a descriptor in it. Connections, runs,
 * prefixes and HTTP requests are lists that begin here.
 *
 * main.c opens listeners and engine, then drops privileges, and only then reads untrusted input. */
#ifndef CLOCHE_DAEMON_CORE_DAEMON_H
#define CLOCHE_DAEMON_CORE_DAEMON_H

#include "caller.h"
#include "daemon/run/languages.h"
#include "options.h"
#include "proto/supervisor.h"
#include "stats.h"

#include <cloche/engine.h>
#include <sys/queue.h>
#include <uv.h>

struct client;
struct connection;
struct container;
struct e2b;
struct gateway;
struct mcp;

/* The API that a listener serves, and its connections carry. */
struct entrance {
        enum entrance_kind { ENTRANCE_DAEMON, ENTRANCE_CONTAINER, ENTRANCE_E2B, ENTRANCE_COUNT } kind;
        const char *sandbox; /* of ENTRANCE_CONTAINER */
};

struct image_import;
struct image_program;
struct image_upload;
struct job;
struct proxy;
struct sandbox_job;
struct sandbox_socket;
struct sandboxes;
struct sync_job;
struct web_socket;
struct http_server;
struct kept_changeset;
struct kept_prefix;

enum daemon_state {
        DAEMON_RUNNING,
        DAEMON_STOPPING, /* running jobs end */
        DAEMON_SAVING,   /* sandboxes are saved */
        DAEMON_SAVED,    /* or discarded; jobs may still have to end */
        DAEMON_LEAVING,  /* last answers are read */
        DAEMON_STATES
};

struct daemon {
        struct daemon_options options;
        uv_loop_t loop;
        cloche_engine *engine;
        uv_poll_t engine_poll, link_poll;
        uv_timer_t engine_timer, sweep_timer, grace_timer;
        uv_prepare_t turn;
        uv_signal_t signals[3];
        struct http_server *http;
        struct sandboxes *sandboxes;
        struct container *container;
        struct e2b *e2b; /* NULL: not served */
        struct mcp *mcp;
        struct gateway *gateway; /* NULL: not served */
        struct languages languages;
        struct stats stats;
        int has_memory; /* at the start: for interpreters that nobody asked for */
        struct callers callers;
        TAILQ_HEAD(connections, connection) connections;
        TAILQ_HEAD(clients, client) unsent;     /* clients with unwritten output */
        TAILQ_HEAD(jobs, job) jobs, ended_jobs; /* ended_jobs: their runs are freed after the answers have left */
        TAILQ_HEAD(kept_prefixes, kept_prefix) prefixes;
        TAILQ_HEAD(kept_changesets, kept_changeset) changesets;
        TAILQ_HEAD(sync_jobs, sync_job) syncs;
        TAILQ_HEAD(sandbox_jobs, sandbox_job) sandbox_jobs;
        TAILQ_HEAD(proxies, proxy) proxies;
        TAILQ_HEAD(image_programs, image_program) image_programs;
        TAILQ_HEAD(image_uploads, image_upload) image_uploads;
        TAILQ_HEAD(image_imports, image_import) image_imports;
        struct image_program *image_reader; /* NULL: it does not run */
        TAILQ_HEAD(sandbox_sockets, sandbox_socket) sandbox_sockets;
        TAILQ_HEAD(listeners, listener) listeners;
        char *listen_names; /* of descriptors that were passed in; listeners point into it */
        TAILQ_HEAD(web_sockets, web_socket) web_sockets;
        uint64_t request_bytes; /* of running jobs */
        uint64_t next_prefix, next_changeset, next_client, next_upload;
        unsigned connection_count, prefixes_starting, raw_count;
        char *state_dir;   /* for saved sandboxes; NULL: none are saved */
        int state_lock_fd; /* held while state_dir is in use */
        char *builds_dir;  /* for a daemon of root with a state directory */
        uid_t uid;         /* for a daemon of root: its own user (own-user.h), or 0 */
        int users_fd;      /* held while the daemon lives, which reserves that user */
        int notice_fd;     /* the record of notices about missing guards to the user (user/notice.h), or negative */
        struct {
                int landlock_abi, is_filtered; /* 0: not in force */
        } confinement;
        uint64_t idle_since_ns;  /* 0: busy */
        size_t free_mib;         /* free memory of the allocator, a second ago */
        size_t trimmed_mib;      /* the same after it was last returned */
        enum daemon_state state; /* set by loop.c */
        int is_hurried, exit_code;
        enum supervisor_message_kind state_sent; /* last message to the supervisor */
        uint64_t sent_ns;                        /* during the start */
        int is_discarding; /* a second signal came: unsaved sandboxes are discarded, which is not a failure */
};

#define PRINCIPAL_TOKEN (-1) /* any caller with the token; other principals are user ids */

/* Accept no new work; running jobs have grace_ms to end. A second call with 0 ends them at once. */
void daemon_stop(struct daemon *d, uint64_t grace_ms, const char *why);
/* Fails from that moment on. */
int daemon_check_work(const struct daemon *d, struct cloche_err *e);
/* Check whether a stop can proceed, after a job that it may wait for has ended. */
void daemon_check_stop(struct daemon *d);

#endif
