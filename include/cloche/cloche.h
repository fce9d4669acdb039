/* libcloche runs untrusted code, each piece in its own Linux box.
 *
 * Life cycle:
 * 1) cloche_engine_new() starts a keeper, the only process that may hold privilege.
 * 2) cloche_run_start() makes a box and starts a call or a script in it.
 * 3) cloche_run_wait() gives the result; cloche_run_cancel() may end it at any moment, from any
 *    thread or signal handler.
 * 4) cloche_result_free(), cloche_run_free(), cloche_engine_free(): afterwards no process, mount or
 *    control group is left.
 *
 * Functions return 0 or -code (enum cloche_code) and then fill *e; outputs are untouched
 * on failure. The library never exits and never prints. One engine belongs to one
 * thread, except where noted. */
#ifndef CLOCHE_H
#define CLOCHE_H

#include <cloche/engine.h>
#include <cloche/error.h>
#include <cloche/guards.h>
#include <cloche/limits.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum cloche_file_kind { CLOCHE_FILE_PLAIN, CLOCHE_FILE_DIRECTORY, CLOCHE_FILE_SYMLINK };

/* A file that the engine places in the box before the code runs, in the given order, with missing
 * parent directories. It has one source: data, or fd (borrowed, a regular file; holes stay holes).
 * A directory has no source; the data of a symbolic link is its target. */
struct cloche_file {
        const char *path; /* absolute, or below the working directory */
        enum cloche_file_kind kind;
        const void *data;
        size_t size;
        int fd;        /* used if data is NULL */
        uint32_t mode; /* permission bits; 0: 0644, for a directory 0755 */
};

/* CLOCHE_EVALUATE runs an ECMAScript module in a bare realm, without Node (language javascript,
 * warm or with a bare prefix). The value is its exports, the result has console lines as
 * "console", and errors have a "code" (spec/agent.md). */
enum cloche_run_kind { CLOCHE_CALL, CLOCHE_SCRIPT, CLOCHE_EVALUATE };

struct cloche_run_options {
        enum cloche_run_kind kind;
        const char *language; /* name or alias of a runtime */
        const char *code;     /* source text, any bytes */
        size_t code_size;     /* 0: strlen(code) */
        const char *filename; /* shown in stacks, and used as the script's name; NULL: main.<extension> */
        const char *function; /* NULL: the only public function; without one the code is the body */
        /* JSON array of values or of {index, value}, or JSON object. Values that JSON lacks are in
         * tagged form (spec/values.md). */
        const char *args;
        const char *kwargs; /* JSON object */
        /* JSON object: params, variadic, acceptsKwargs, input, output, strict
         * (spec/signatures.md). */
        const char *schema;
        const char *build; /* JSON object: standard, flags, sources; compiled languages only */
        int64_t tenant;    /* owner of the run: two tenants share no template and no build */
        const char *image; /* of the store, sha256-DIGITS or sha256:DIGITS; NULL: the engine's, or the prefix's */
        /* Settings of the image, JSON: env, workingDirectory, runsAs as `cloche image
         * inspect --json` prints them. The first two apply where the caller states
         * nothing else. NULL: none. */
        const char *image_settings;
        const char *workdir; /* NULL: /workspace */
        const struct cloche_file *files;
        size_t file_count;
        /* Paths to read back after the run, absolute or below the working directory:
         * files.collected of the result has for each {path, kind, size, mode} and content, target
         * or entries, or an error. */
        const char *const *collect;
        size_t collect_count;
        /* JSON object of the executor contract: dirs, permissions, loading, sync, security,
         * onPermissionDenied. NULL: no mounts. */
        const char *mount;
        /* With has_caller, a connected unix socket (borrowed): root's engine mounts for the process
         * that connected it, with only that user's rights, and writes as that user. A directory
         * that the user may not read, or with rules that permit it write, is CLOCHE_E_FORBIDDEN.
         * Root does not count as such a caller. */
        int has_caller, caller_fd;
        cloche_file_handler on_file_event;
        void *file_event_data;
        /* Events to send: bits 1u << enum cloche_file_event. Without BEFORE no questions are
         * sent. */
        unsigned file_events;
        /* JSON object {allow: [rule, …], deny: [rule, …]}: see Network in spec/sandbox.md. NULL: no
         * network. Not for forked runs. */
        const char *network;
        const char *const *argv; /* script: arguments after the script's name */
        size_t argc;
        const char *const *env; /* "NAME=value", added to the minimal environment */
        size_t env_count;
        /* Borrowed descriptors for a script's standard streams, if stream_fds is true. -1, or
         * stream_fds false: stdin is empty, stdout and stderr are captured. The engine relays the
         * output; the guest never holds these descriptors. */
        int stream_fds;
        int stdin_fd, stdout_fd, stderr_fd;
        /* Not 0: the script's streams are one terminal in the box, of this size; stdout_fd gets all
         * of its output. Cold scripts with stream_fds only. */
        unsigned cols, rows;
        struct cloche_limits limits;
        int omit_changes, omit_contents, omit_denied; /* resultOptions of the contract */
        /* A call may be forked from a template instead of started cold: from this prefix
         * (borrowed), or with warm from the bare language. It waits for its turn; the wall limit
         * counts from then on. */
        cloche_prefix *prefix;
        int warm;
        /* JSON objects of declarations (spec/agent.md). Not with a prefix, which has its own. */
        const char *globals, *imports;
        cloche_bridge_handler on_bridge; /* NULL: with a prefix, the prefix's */
        void *bridge_data;
        /* NULL, or called once when the run has ended, from within cloche_engine_turn or a wait;
         * cloche_run_wait then does not block. */
        void (*on_end)(void *data, cloche_run *run);
        /* NULL, or called with output as it arrives; the result holds the same output. Not called
         * for a stream with a descriptor of the caller. stream: 1 or 2. */
        void (*on_output)(void *data, cloche_run *run, int stream, const void *bytes, size_t size);
        void *data;
};

/* Set-up code that runs once and is forked into every run. */
struct cloche_prefix_options {
        const char *language;
        const char *code;
        size_t code_size;                           /* 0: strlen(code) */
        const char *filename;                       /* NULL: prefix.<extension> */
        const char *build, *image, *image_settings; /* as in runs */
        int64_t tenant;                             /* as in runs; a run with this prefix belongs to this tenant */
        const char *globals, *imports;              /* JSON objects of declarations (spec/agent.md) */
        const struct cloche_file *files;            /* in the set-up's box and in every run's */
        size_t file_count;
        int bare;                        /* set up the bare realm, for runs of CLOCHE_EVALUATE; 0: the language's own */
        cloche_bridge_handler on_bridge; /* for runs without one */
        void *bridge_data;
        struct cloche_limits limits; /* for the set-up */
};

/* Start an engine and its keeper.
 * opt     borrowed, may be NULL.
 * ret     owned by the caller, cloche_engine_free().
 * Errors  CLOCHE_E_KEEPER (host), CLOCHE_E_INVALID_ARGUMENT (caller). */
CLOCHE_API CLOCHE_MUST_CHECK int cloche_engine_new(const struct cloche_engine_options *opt, cloche_engine **ret,
                                                   struct cloche_err *e);

/* List the languages, without an engine: a JSON array of {name, aliases, extension, extensions,
 * interpreter, warm, build, evaluate}.
 * opt     borrowed, may be NULL; only runtimes_dir is used.
 * ret     owned by the caller, free(). */
CLOCHE_API CLOCHE_MUST_CHECK int cloche_languages(const struct cloche_engine_options *opt, char **ret,
                                                  struct cloche_err *e);

/* End the keeper and with it every box. Accepts NULL. Runs of the engine must have been freed. */
CLOCHE_API void cloche_engine_free(cloche_engine *engine);

/* Return the state of a guard for boxes of this engine; reason is "" if enforced, and lives as long
 * as the engine. */
CLOCHE_API enum cloche_guard_state cloche_engine_guard(const cloche_engine *engine, enum cloche_guard guard,
                                                       const char **ret_reason);

/* Return the guards that may be missing or degraded, listed or by the profile: bit 1u << enum
 * cloche_guard. */
CLOCHE_API uint32_t cloche_engine_optional(const cloche_engine *engine);

struct cloche_guard_report {
        enum cloche_guard_state state;
        int proven;       /* an attempt in a box to climb it has failed */
        char reason[220]; /* the observation, or the reason why it is missing */
};

/* Run a guest of ours that tries to climb every wall from inside, in a box started cold and in one
 * forked from a template, and report the walls that held in both.
 * ret     CLOCHE_GUARD_COUNT rows.
 * Errors  as a run, except missing guards: these are reported. */
CLOCHE_API CLOCHE_MUST_CHECK int cloche_engine_selftest(cloche_engine *engine, struct cloche_guard_report *ret,
                                                        struct cloche_err *e);

/* Code that keeps a right of its template: set-up code of a prefix; code of a context that can
 * be forked. */
enum cloche_right_holder { CLOCHE_HOLDER_SET_UP, CLOCHE_HOLDER_CONTEXT, CLOCHE_HOLDER_COUNT };

struct cloche_right_report {
        const char *name, *doc; /* static */
        struct cloche_right_trial {
                int may;        /* spec/rights.def grants it */
                int is_open;    /* at least one way to it was open */
                char seen[220]; /* the open ways; if there are none, the refused ones */
        } trials[CLOCHE_HOLDER_COUNT];
};

/* Run code of ours that tries all rights of spec/rights.def, as set-up code of a prefix and as code
 * of a context that can be forked, in the boxes of both and in those beneath.
 * ret     CLOCHE_RIGHT_COUNT rows.
 * Errors  as cloche_engine_selftest; CLOCHE_E_STATE (host): a right could not be tried. */
CLOCHE_API CLOCHE_MUST_CHECK int cloche_engine_rights(cloche_engine *engine, struct cloche_right_report *ret,
                                                      struct cloche_err *e);

struct cloche_landlocked_report {
        const char *name, *doc; /* static */
        int is_enforced;        /* every refused act failed, and every permitted one was open */
        char seen[220];
};

/* Start a process that enters the rules of each program of spec/landlocked.def, and tries the
 * refused and the permitted acts.
 * ret     CLOCHE_LANDLOCKED_COUNT rows.
 * Errors  CLOCHE_E_KEEPER, _RESOURCE, _STATE (host). A kernel without Landlock is reported, not an
 *         error. */
CLOCHE_API CLOCHE_MUST_CHECK int cloche_engine_landlock(cloche_engine *engine, struct cloche_landlocked_report *ret,
                                                        struct cloche_err *e);

struct cloche_host_report {
        /* Static: the feature, its first Linux release, the effect of its absence. */
        const char *name, *since, *without;
        int is_present;
        char detail[220]; /* the finding, or "" */
};

/* Try each of these features on this host.
 * ret     CLOCHE_HOST_COUNT rows. */
CLOCHE_API void cloche_engine_host(const cloche_engine *engine, struct cloche_host_report *ret);

/* Check the options, request a box, and start the run in it when the box is ready.
 * opt     borrowed during the call only.
 * Errors  CLOCHE_E_UNKNOWN_LANGUAGE, _INVALID_JSON, _INVALID_ARGUMENT (caller); _GUARD_MISSING,
 *         _KEEPER (host). */
CLOCHE_API CLOCHE_MUST_CHECK int cloche_run_start(cloche_engine *engine, const struct cloche_run_options *opt,
                                                  cloche_run **ret, struct cloche_err *e);

/* Wait for the end of the run and drop the box. Call it once for each run.
 * ret     owned by the caller, cloche_result_free().
 * Errors  for a run that could not begin: CLOCHE_E_NAMESPACE, _MOUNT, _CGROUP, _MISSING_RUNTIME,
 *         _TIMEOUT and others (host). A failure of the guest's code is a result, not an error. */
CLOCHE_API CLOCHE_MUST_CHECK int cloche_run_wait(cloche_run *run, cloche_result **ret, struct cloche_err *e);

/* End the run with CLOCHE_STATUS_TERMINATED. Safe from any thread and from signal handlers, at
 * any moment before cloche_run_free(). */
CLOCHE_API void cloche_run_cancel(cloche_run *run);

/* Send a signal to a script's program and all processes beneath it. Any other run, or one whose
 * program has not begun, is cancelled. As safe as cloche_run_cancel. */
CLOCHE_API void cloche_run_signal(cloche_run *run, int signal);

/* Resize the terminal of a run that has one, 1 to 65535 each. As safe as cloche_run_cancel. */
CLOCHE_API void cloche_run_resize(cloche_run *run, unsigned cols, unsigned rows);

/* Return the step that a run waits for before and after its code runs, in a few words
 * ("compiling"); NULL: none. Static. As safe as cloche_run_cancel. */
CLOCHE_API const char *cloche_run_phase(const cloche_run *run);

/* Stop reading, so that the guest blocks when its pipes are full: for callers with a slow receiver.
 * At the end of the run the rest of its output is still sent to on_output. */
CLOCHE_API void cloche_run_hold_output(cloche_run *run, int hold);

/* Kill the rest of the run and free it. Accepts NULL. */
CLOCHE_API void cloche_run_free(cloche_run *run);

/* Set up a prefix, or find it: equal options are one template, kept as long as memory permits.
 * opt     borrowed during the call only.
 * ret     owned by the caller, cloche_prefix_free().
 * Errors  CLOCHE_E_PREFIX (guest): the set-up threw, did not settle, or left something that cannot
 *         be forked; failure is then its error as JSON, owned by the caller, free(); NULL
 *         otherwise. Others as cloche_run_start. */
CLOCHE_API CLOCHE_MUST_CHECK int cloche_prefix_new(cloche_engine *engine, const struct cloche_prefix_options *opt,
                                                   cloche_prefix **ret, char **failure, struct cloche_err *e);
/* Do the same without waiting: call cloche_prefix_state after each turn. */
CLOCHE_API CLOCHE_MUST_CHECK int cloche_prefix_start(cloche_engine *engine, const struct cloche_prefix_options *opt,
                                                     cloche_prefix **ret, struct cloche_err *e);
/* Return 1 if the set-up is not ready, 0 if runs can be forked from it, else the error of
 * cloche_prefix_new. */
CLOCHE_API CLOCHE_MUST_CHECK int cloche_prefix_state(cloche_prefix *prefix, char **failure, struct cloche_err *e);
/* Free the prefix. Started runs continue. Accepts NULL. */
CLOCHE_API void cloche_prefix_free(cloche_prefix *prefix);

/* The request of a call of a host function: JSON text, values in tagged form; valid during the
 * call.
 * target  ["global", name] or ["import", specifier, name], then names of nested members */
CLOCHE_API const char *cloche_bridge_call_target(const cloche_bridge_call *call);
CLOCHE_API const char *cloche_bridge_call_args(const cloche_bridge_call *call);
CLOCHE_API const char *cloche_bridge_call_kwargs(const cloche_bridge_call *call);
/* Return the run, or NULL if it has ended: an answer is then dropped. */
CLOCHE_API cloche_run *cloche_bridge_call_run(const cloche_bridge_call *call);
/* Answer the call; it ends also on failure of this function.
 * value   JSON text, NULL for undefined
 * fields  JSON object, or NULL */
CLOCHE_API int cloche_bridge_answer(cloche_bridge_call *call, const char *value, struct cloche_err *e);
CLOCHE_API int cloche_bridge_fail(cloche_bridge_call *call, const char *name, const char *message, const char *fields,
                                  struct cloche_err *e);

/* For callers with their own event loop: wait until this is readable, at most
 * cloche_engine_timeout_ms (-1: any time), then take a turn, which does not block. */
CLOCHE_API int cloche_engine_fd(const cloche_engine *engine);
CLOCHE_API int cloche_engine_timeout_ms(const cloche_engine *engine);
CLOCHE_API void cloche_engine_turn(cloche_engine *engine);
/* Return 1 if the keeper is gone, or has not answered for half a minute. Nothing can be started
 * then, and the engine can only be freed. */
CLOCHE_API int cloche_engine_is_over(const cloche_engine *engine);
/* Return the number of runs that wait for their turn. */
CLOCHE_API unsigned cloche_engine_waiting(const cloche_engine *engine);

CLOCHE_API enum cloche_status cloche_result_status(const cloche_result *result);
CLOCHE_API int cloche_result_exit_code(const cloche_result *result);
/* Return the value as JSON text (tagged forms, bytes in base64); NULL if the run has no value. */
CLOCHE_API const char *cloche_result_value(const cloche_result *result);
/* Return the whole result object of the contract as JSON text. Borrowed, lives with the result. */
CLOCHE_API const char *cloche_result_json(const cloche_result *result);
/* Return the captured bytes, *ret_size of them. A terminating 0 is not guaranteed. */
CLOCHE_API const char *cloche_result_stdout(const cloche_result *result, size_t *ret_size);
CLOCHE_API const char *cloche_result_stderr(const cloche_result *result, size_t *ret_size);
/* Return the type, message or stack of the guest's error, or NULL. */
CLOCHE_API const char *cloche_result_error_type(const cloche_result *result);
CLOCHE_API const char *cloche_result_error_message(const cloche_result *result);
CLOCHE_API const char *cloche_result_error_stack(const cloche_result *result);
/* Take the run's changes of mounted directories out of the result. They are written to the host
 * (see member sync of the result) or not (sync.mode manual, or a run without success). Owned by
 * the caller, cloche_changeset_free(); NULL if the run had no mounts. */
CLOCHE_API cloche_changeset *cloche_result_take_changeset(cloche_result *result);
CLOCHE_API void cloche_result_free(cloche_result *result);

/* Return {created, modified, deleted}, as in files of a result, as JSON text, free(); NULL without
 * memory. */
CLOCHE_API char *cloche_changeset_json(const cloche_changeset *set);
/* Save the changes in an empty directory; load them again with an engine that may mount the same
 * directories.
 * dir_fd  borrowed
 * Errors  CLOCHE_E_UNREADABLE_FILE, _INVALID_JSON, _INVALID_ARGUMENT (caller), _RESOURCE (host). */
CLOCHE_API CLOCHE_MUST_CHECK int cloche_changeset_save(const cloche_changeset *set, int dir_fd, struct cloche_err *e);
CLOCHE_API CLOCHE_MUST_CHECK int cloche_changeset_load(cloche_engine *engine, int dir_fd, cloche_changeset **ret,
                                                       struct cloche_err *e);
/* Make a set from changes in the form of a result, with contents.
 * changes  a JSON array, or a JSON object of created, modified and deleted
 * mount    as in runs */
CLOCHE_API CLOCHE_MUST_CHECK int cloche_changeset_from_json(cloche_engine *engine, const char *changes,
                                                            const char *mount, cloche_changeset **ret,
                                                            struct cloche_err *e);
CLOCHE_API void cloche_changeset_free(cloche_changeset *set); /* accepts NULL */

struct cloche_sync_options {
        const cloche_changeset *changes; /* borrowed until the sync is freed */
        const char *on_error;            /* rollback, continue, abort; NULL: the mount's value */
        /* For a file that the host changed meanwhile: refuse, keepBoth, overwrite; NULL: as
         * above. */
        const char *conflict;
        /* inside: a symbolic link that leads out of its directory is refused; any; NULL: as
         * above. */
        const char *links;
        int dry_run;               /* only report the steps */
        int has_caller, caller_fd; /* as in runs */
        cloche_file_handler on_event;
        void *event_data;
        unsigned events;
        cloche_run *run; /* passed to on_event */
        /* NULL, or called once when the sync has ended, from within
         * cloche_engine_turn or a wait. */
        void (*on_end)(void *data, cloche_sync *sync);
        void *data;
};

enum cloche_sync_action { CLOCHE_SYNC_CONTINUE, CLOCHE_SYNC_SKIP, CLOCHE_SYNC_ABORT };

/* Write changes to the host, one transaction for each mounted directory. After a crash at any
 * moment the next sync of the directory completes the old tree or the new one. */
CLOCHE_API CLOCHE_MUST_CHECK int cloche_sync_start(cloche_engine *engine, const struct cloche_sync_options *opt,
                                                   cloche_sync **ret, struct cloche_err *e);
/* Answer the question of a BEFORE event. SKIP omits this change. ABORT omits all changes:
 * nothing is written, and all are reported as skipped. If the mount's sync.allowAbort is false,
 * ABORT acts like SKIP. reason may be NULL. */
CLOCHE_API int cloche_sync_answer(cloche_sync_question *question, enum cloche_sync_action action, const char *reason,
                                  struct cloche_err *e);
/* Wait for the end of the sync. ret is JSON text, free(): {synced, failed, skipped,
 * conflicts, kept}, with aborted {path, reason} after an abort; for a dry run {steps,
 * denied, conflicts, skipped}. */
CLOCHE_API CLOCHE_MUST_CHECK int cloche_sync_wait(cloche_sync *sync, char **ret, struct cloche_err *e);
/* Return the same without waiting; CLOCHE_E_STATE while the sync is running. */
CLOCHE_API CLOCHE_MUST_CHECK int cloche_sync_result(cloche_sync *sync, char **ret, struct cloche_err *e);
/* Undo a sync that is running, or finish it if it can no longer be undone. Accepts NULL. */
CLOCHE_API void cloche_sync_free(cloche_sync *sync);

#ifdef __cplusplus
}
#endif
#endif
