/* The objects of libcloche, the callbacks, and the options of an engine. Part of cloche.h. */
#ifndef CLOCHE_ENGINE_H
#define CLOCHE_ENGINE_H

#include <cloche/guards.h>
#include <stddef.h>
#include <stdint.h>

typedef struct cloche_engine cloche_engine;
typedef struct cloche_run cloche_run;
typedef struct cloche_result cloche_result;
typedef struct cloche_prefix cloche_prefix;
typedef struct cloche_bridge_call cloche_bridge_call;
typedef struct cloche_changeset cloche_changeset;
typedef struct cloche_sync cloche_sync;
typedef struct cloche_sync_question cloche_sync_question;

/* The engine calls this in its thread when a guest calls a function of the host. Answer each call
 * once, with cloche_bridge_answer or cloche_bridge_fail, in the handler or at any time later.
 * Several calls may be open. */
typedef void (*cloche_bridge_handler)(void *data, cloche_bridge_call *call);

/* Events of mounted directories. about: JSON text, valid during the call.
 * DENIED   {path, operation, rule, count, timestamp}: an access of a run was refused. Sent at the
 *          first refusal and whenever the count doubles.
 * BEFORE   a change, as in files of a result. Answer question once, with cloche_sync_answer, in the
 *          handler or at any time later.
 * AFTER    {path, success, error?}
 * ERROR    {change, error} */
enum cloche_file_event { CLOCHE_FILE_DENIED, CLOCHE_SYNC_BEFORE, CLOCHE_SYNC_AFTER, CLOCHE_SYNC_ERROR };
/* The engine calls this in its thread. run is NULL for a separate sync. */
typedef void (*cloche_file_handler)(void *data, cloche_run *run, enum cloche_file_event event, const char *about,
                                    cloche_sync_question *question);

struct cloche_engine_options {
        const char *libexec_dir;  /* has cloche-keeper and cloche-box-init; NULL: found automatically */
        const char *runtimes_dir; /* has one folder for each language; NULL: found automatically */
        /* The image of boxes that name none: a directory, or one of the store, by its name,
         * which is looked up now, or sha256- and 64 digits. A directory of that name is
         * preferred. NULL: the host's /usr, read-only. */
        const char *image;
        const char *image_settings; /* as in runs */
        /* The image store, which `cloche image` fills: runs may name the images in it. It need not
         * exist yet. NULL: none. */
        const char *images_dir;
        /* Where root's keeper holds volumes of sandboxes: absolute, made at first use. NULL:
         * none. */
        const char *volumes_dir;
        int images_are_written;   /* a daemon may have images imported and removed */
        uint32_t optional_guards; /* bit 1u << enum cloche_guard: may be missing or degraded */
        /* For runs that are forked from templates. 0: the default in brackets. */
        unsigned runs_max;        /* runs at the same time (twice the processors) */
        unsigned queue_max;       /* runs that wait; one more is CLOCHE_E_QUEUE_FULL (10,000) */
        uint64_t templates_bytes; /* memory of unused templates, kept for reuse (a quarter of the machine's) */
        /* Directory for builds of compiled languages, at most 256 MiB; NULL: below
         * $XDG_CACHE_HOME/cloche or ~/.cache/cloche; "": none. A directory that others may write to
         * is not used. */
        const char *cache_dir;
        uint32_t becomes_uid; /* uid this process switches to after start-up; owner of cache_dir. 0: no switch */
        /* Absolute paths of host directories that runs may mount, with everything beneath. At most
         * 32, borrowed. Empty: no mounts. */
        const char *const *mount_roots;
        size_t mount_root_count;
        /* NULL, or a uid for each root. The rights of this user, with the user's groups at this
         * time, decide on mounts in runs and syncs without a caller. -1: the owner of the mounted
         * directory, as without the array. Any uid but that of this process needs root. */
        const int64_t *mount_root_uids;
        /* Forks (10,000), or half an hour, after which a new interpreter replaces the one that runs
         * are forked from. */
        unsigned base_forks;
        unsigned spares; /* prewarmed boxes with a forked child for each template in use (2); CLOCHE_NO_SPARES: none */
        enum cloche_profile profile; /* a named set of further optional guards */
        int core_scheduling;         /* enable the guard of this name */
        /* Prewarmed boxes without a child, for runs beyond the spares (2; with CLOCHE_NO_SPARES
         * above, 0); CLOCHE_NO_SPARES: none. */
        unsigned boxes_ahead;
        unsigned templates_max; /* unused templates of one tenant, kept for reuse (16) */
};

#define CLOCHE_NO_SPARES (~0u)

#endif
