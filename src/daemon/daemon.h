/* cloched: one thread, one loop. The engine's own loop is a descriptor in it; connections, runs, prefixes and requests of HTTP are
 * lists that begin here.
 *
 * main.c starts it: options, listeners, engine, then privilege is dropped, and only then is anything read that others wrote. */
#ifndef CLOCHE_DAEMON_DAEMON_H
#define CLOCHE_DAEMON_DAEMON_H

#include "caller.h"
#include "languages.h"
#include "options.h"
#include "stats.h"
#include "supervisor-protocol.h"

#include <cloche/cloche.h>
#include <sys/queue.h>
#include <uv.h>

struct client;
struct connection;
struct container;
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
        struct languages languages;
        struct stats stats;
        struct callers callers;
        TAILQ_HEAD(connections, connection) connections;
        TAILQ_HEAD(clients, client) unsent; /* have something to write */
        TAILQ_HEAD(jobs, job) jobs;
        TAILQ_HEAD(kept_prefixes, kept_prefix) prefixes;
        TAILQ_HEAD(kept_changesets, kept_changeset) changesets;
        TAILQ_HEAD(sync_jobs, sync_job) syncs;
        TAILQ_HEAD(sandbox_jobs, sandbox_job) sandbox_jobs;
        TAILQ_HEAD(proxies, proxy) proxies;
        TAILQ_HEAD(sandbox_sockets, sandbox_socket) sandbox_sockets;
        TAILQ_HEAD(listeners, listener) listeners;
        char *listen_names; /* of descriptors that were handed over; their listeners point into it */
        TAILQ_HEAD(web_sockets, web_socket) web_sockets;
        uint64_t request_bytes; /* of runs under way */
        uint64_t next_prefix, next_changeset, next_client;
        unsigned connection_count, prefixes_starting, raw_count;
        char *state_dir;   /* where sandboxes are saved; NULL: nowhere */
        int state_lock_fd; /* held as long */
        char *builds_dir;  /* of root's daemon that has a state directory */
        uid_t uid;         /* of root's daemon: the user of its own (own-user.h), or 0 */
        int users_fd;      /* held while it lives, and with it that user */
        int notice_fd;     /* what the user was told of missing guards (user/notice.h); or negative */
        struct {
                int landlock_abi, is_filtered; /* 0: it is not */
        } confinement;
        uint64_t idle_since_ns; /* 0: there is work */
        int is_stopping, is_hurried, exit_code;
        enum supervisor_message_kind state_told; /* to the supervisor */
        uint64_t told_ns;                        /* while it starts */
        int is_abandoning; /* told twice to end: what is not saved is given up, which is no failure */
        enum { SANDBOXES_RUN, SANDBOXES_STOP, SANDBOXES_ENDED } sandboxes_state;
};

#define PRINCIPAL_TOKEN (-1) /* whoever has the token; else a user id */

/* Take no new work; what runs may go on for so long. Again: end at once. */
void daemon_stop(struct daemon *d, uint64_t grace_ms, const char *why);
/* Something ended that a stop may have waited for. */
void daemon_look(struct daemon *d);

#endif
