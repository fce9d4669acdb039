/* libcloche: run code nobody vouches for, each piece in its own Linux box.
 *
 * Life cycle: 1) cloche_engine_new() starts a keeper, the only process that may hold privilege.
 * 2) cloche_run_start() makes a box and starts a call or a script in it. 3) cloche_run_wait() gives the result;
 * cloche_run_cancel() may end it at any moment, from any thread or signal handler. 4) cloche_result_free(),
 * cloche_run_free(), cloche_engine_free(): afterwards no process, mount or control group is left.
 *
 * Functions return 0 or -code (enum cloche_code) and then fill *e; outputs are untouched on failure.
 * The library never exits and never prints. One engine belongs to one thread, except where said. */
#ifndef CLOCHE_H
#define CLOCHE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CLOCHE_API __attribute__((visibility("default")))
#define CLOCHE_MUST_CHECK __attribute__((warn_unused_result))

enum cloche_fault { CLOCHE_FAULT_NONE, CLOCHE_FAULT_CALLER, CLOCHE_FAULT_GUEST, CLOCHE_FAULT_HOST, CLOCHE_FAULT_BUG };

enum cloche_code {
        CLOCHE_OK,
#define CLOCHE_ERROR(symbol, name, fault, http, text) CLOCHE_E_##symbol,
#include <cloche/errors.def>
#undef CLOCHE_ERROR
        CLOCHE_CODE_COUNT
};

enum cloche_status {
#define CLOCHE_STATUS(symbol, name, exit_code, doc) CLOCHE_STATUS_##symbol,
#include <cloche/statuses.def>
#undef CLOCHE_STATUS
        CLOCHE_STATUS_COUNT
};

enum cloche_guard {
#define CLOCHE_GUARD(symbol, name, profile, doc) CLOCHE_GUARD_##symbol,
#include <cloche/guards.def>
#undef CLOCHE_GUARD
        CLOCHE_GUARD_COUNT
};

enum cloche_right {
#define CLOCHE_RIGHT(symbol, name, set_up, context, doc) CLOCHE_RIGHT_##symbol,
#include <cloche/rights.def>
#undef CLOCHE_RIGHT
        CLOCHE_RIGHT_COUNT
};

/* Programs of ours that confine themselves with Landlock. */
enum cloche_landlocked {
#define CLOCHE_LANDLOCKED(symbol, name, doc) CLOCHE_LANDLOCKED_##symbol,
#include <cloche/landlocked.def>
#undef CLOCHE_LANDLOCKED
        CLOCHE_LANDLOCKED_COUNT
};

/* Which guards may be missing without being named: NONE: none; USER: the rows of spec/guards.def that an ordinary user may lack. USER has
 * no effect on an engine that has root's rights, where a missing guard stays an error. */
enum cloche_profile { CLOCHE_PROFILE_NONE, CLOCHE_PROFILE_USER };

/* OFF: nobody asked for it; nothing is missing then. */
enum cloche_guard_state { CLOCHE_GUARD_ABSENT, CLOCHE_GUARD_DEGRADED, CLOCHE_GUARD_ENFORCED, CLOCHE_GUARD_OFF, CLOCHE_GUARD_STATE_COUNT };

/* An error value: plain bytes, no allocation, the same in every process. 256 bytes so that it is written to a
 * pipe in one piece (pipe(7), PIPE_BUF). */
struct cloche_err {
        uint16_t code;    /* enum cloche_code */
        uint16_t reserved;
        int32_t os_errno; /* 0 when the cause is not a system call */
        char msg[248];    /* "build root: bind /usr: No such file or directory"; always terminated */
};

/* Limits of a run. 0 means the safe default of spec/limits.def, CLOCHE_UNLIMITED means none. */
#define CLOCHE_UNLIMITED UINT64_MAX
struct cloche_limits {
#define CLOCHE_LIMIT(field, json, unit, def, min, max, doc) uint64_t field;
#include <cloche/limits.def>
#undef CLOCHE_LIMIT
};

typedef struct cloche_engine cloche_engine;
typedef struct cloche_run cloche_run;
typedef struct cloche_result cloche_result;
typedef struct cloche_prefix cloche_prefix;
typedef struct cloche_bridge_call cloche_bridge_call;
typedef struct cloche_changeset cloche_changeset;
typedef struct cloche_sync cloche_sync;
typedef struct cloche_sync_question cloche_sync_question;

/* A guest calls a function of the host. It is to be answered once, with cloche_bridge_answer or cloche_bridge_fail, in the
 * handler or any time later; several may be open. Runs in the engine's thread. */
typedef void (*cloche_bridge_handler)(void *data, cloche_bridge_call *call);

/* What happens to mounted directories, told or asked while it happens. about: JSON text, lives as long as the call.
 * DENIED   {path, operation, rule, count, timestamp}: a run was refused something; told at the first and at each doubling of the count
 * BEFORE   a change as in files of a result: question is to be answered once, with cloche_sync_answer, in the handler or any time later
 * AFTER    {path, success, error?}
 * ERROR    {change, error} */
enum cloche_file_event { CLOCHE_FILE_DENIED, CLOCHE_SYNC_BEFORE, CLOCHE_SYNC_AFTER, CLOCHE_SYNC_ERROR };
/* run: NULL for a sync of its own. Runs in the engine's thread. */
typedef void (*cloche_file_handler)(void *data, cloche_run *run, enum cloche_file_event event, const char *about,
                                    cloche_sync_question *question);

struct cloche_engine_options {
        const char *libexec_dir;  /* holds cloche-keeper and cloche-box-init; NULL: found by itself */
        const char *runtimes_dir; /* holds one folder a language; NULL: found by itself */
        const char *image;        /* a directory used as root image; NULL: the host's /usr, read-only */
        uint32_t optional_guards; /* bit 1u << enum cloche_guard: may be missing or degraded */
        /* Of runs that are forked from templates; 0: the default in brackets. */
        unsigned runs_max;  /* at once (twice the processors) */
        unsigned queue_max; /* that wait for their turn; more are CLOCHE_E_QUEUE_FULL (10,000) */
        uint64_t templates_bytes; /* memory of templates nobody uses, kept for reuse (a quarter of the machine's) */
        /* Where builds of compiled languages are kept, at most 256 MiB; NULL: below $XDG_CACHE_HOME/cloche or ~/.cache/cloche; "":
         * nowhere. A directory that others may write to is not used. */
        const char *cache_dir;
        uint32_t becomes_uid; /* the user this process will be once the engine runs, whose that directory is to be; 0: it stays who it is */
        /* Directories of the host, absolute, that runs may mount, with all beneath; none: no mounts. At most 32, borrowed. */
        const char *const *mount_roots;
        size_t mount_root_count;
        /* NULL, or for each of them: whose rights decide in runs and syncs without a caller what may be mounted, with his groups of now; -1: those of
         * the mounted directory's owner, as without the array. Another user than ours wants root. */
        const int64_t *mount_root_uids;
        unsigned base_forks; /* after so many forks, or half an hour, a new interpreter takes the place of the one that runs are forked from (10,000) */
        unsigned spares;    /* boxes with a forked child kept ready per template in use (2); CLOCHE_NO_SPARES: none */
        enum cloche_profile profile; /* more optional guards, by a name */
        int core_scheduling; /* wanted: the guard of this name */
};

#define CLOCHE_NO_SPARES (~0u)

/* The exit code of a script that did not compile (sysexits.h, EX_DATAERR); its error then is of type CompileError or BuildError. */
#define CLOCHE_EXIT_NOT_COMPILED 65

enum cloche_file_kind { CLOCHE_FILE_PLAIN, CLOCHE_FILE_DIRECTORY, CLOCHE_FILE_SYMLINK };

/* A file placed in the box before the code runs, in the order given; directories on the way are made. Exactly one source: data, or fd
 * (borrowed, a regular file, whose holes stay holes). A directory has none, a symbolic link its target as data. */
struct cloche_file {
        const char *path; /* absolute, or below the working directory */
        enum cloche_file_kind kind;
        const void *data;
        size_t size;
        int fd;        /* used when data is NULL */
        uint32_t mode; /* permission bits; 0: 0644, of a directory 0755 */
};

/* CLOCHE_EVALUATE: an ECMAScript module in a bare realm, without Node (language javascript, warm or of a bare prefix). Its
 * exports are the value; console lines stand in the result as "console"; errors have a "code" (spec/agent.md). */
enum cloche_run_kind { CLOCHE_CALL, CLOCHE_SCRIPT, CLOCHE_EVALUATE };

struct cloche_run_options {
        enum cloche_run_kind kind;
        const char *language; /* name or alias of a runtime */
        const char *code;     /* source text, any bytes */
        size_t code_size;     /* 0: strlen(code) */
        const char *filename; /* shown in stacks, and the script's name; NULL: main.<extension> */
        const char *function; /* NULL: the one public function, else the code is the body */
        const char *args;     /* JSON array, of values or of {index, value}, or object; values JSON lacks in tagged form (spec/values.md) */
        const char *kwargs;   /* JSON object */
        const char *schema;   /* JSON object: params, variadic, acceptsKwargs, input, output, strict (spec/signatures.md) */
        const char *build;    /* JSON object: standard, flags, sources; compiled languages only */
        int64_t tenant;       /* of whom it is: code of different tenants is forked from no common template and shares no build */
        const char *workdir;  /* NULL: /workspace */
        const struct cloche_file *files;
        size_t file_count;
        /* Paths to be read back when the run has ended, absolute or below the working directory: files.collected of the result has for
         * each {path, kind, size, mode} and content, target or entries, or an error. */
        const char *const *collect;
        size_t collect_count;
        /* JSON object of the executor contract: dirs, permissions, loading, sync, security, onPermissionDenied; NULL: none. */
        const char *mount;
        /* With has_caller, a connected unix socket (borrowed): root's engine mounts for the process that connected it, with that user's rights only, and
         * writes as him. A directory that he may not read, or with rules that permit it write, is CLOCHE_E_FORBIDDEN. Root counts as no such caller. */
        int has_caller, caller_fd;
        cloche_file_handler on_file_event;
        void *file_event_data;
        unsigned file_events; /* bit 1u << enum cloche_file_event: which are wanted; without BEFORE nobody is asked */
        /* JSON object {allow: [rule, …], deny: [rule, …]} as spec/sandbox.md says under Network; NULL: no network. Not of runs that are forked. */
        const char *network;
        const char *const *argv; /* script: arguments after the script's name */
        size_t argc;
        const char *const *env;  /* "NAME=value", added to the minimal environment */
        size_t env_count;
        /* Borrowed descriptors for a script's standard streams, -1 or 0-initialised with stream_fds false: stdin is
         * empty, stdout and stderr are captured. Output is relayed, the guest never holds these descriptors. */
        int stream_fds;
        int stdin_fd, stdout_fd, stderr_fd;
        /* Not 0: the script's streams are one terminal in the box, of this size; stdout_fd has all of its output. Cold scripts with stream_fds only. */
        unsigned cols, rows;
        struct cloche_limits limits;
        int omit_changes, omit_contents, omit_denied; /* resultOptions of the contract */
        /* A call may be forked from a template instead of started cold: of this prefix (borrowed), or with warm of the bare
         * language. It waits for its turn; the wall limit counts from when it has it. */
        cloche_prefix *prefix;
        int warm;
        const char *globals, *imports; /* JSON objects of declarations (spec/agent.md); not with a prefix, which has its own */
        cloche_bridge_handler on_bridge; /* NULL: with a prefix, the prefix's */
        void *bridge_data;
        /* NULL, or called once when the run has ended, from within cloche_engine_turn or a wait; cloche_run_wait then
         * does not block. */
        void (*on_end)(void *data, cloche_run *run);
        /* NULL, or called with output as it comes, which the result holds as well; not of a stream with a descriptor of the
         * caller's. stream: 1 or 2. */
        void (*on_output)(void *data, cloche_run *run, int stream, const void *bytes, size_t size);
        void *data;
};

/* Set-up code that runs once and is forked into every run. */
struct cloche_prefix_options {
        const char *language;
        const char *code;
        size_t code_size;     /* 0: strlen(code) */
        const char *filename; /* NULL: prefix.<extension> */
        const char *build;    /* as of runs */
        int64_t tenant;       /* as of runs; a run with this prefix is this tenant's */
        const char *globals, *imports; /* JSON objects of declarations (spec/agent.md) */
        const struct cloche_file *files; /* in the set-up's box and in every run's */
        size_t file_count;
        int bare; /* set up the bare realm, for runs of CLOCHE_EVALUATE; else the language's own */
        cloche_bridge_handler on_bridge; /* of runs that name none */
        void *bridge_data;
        struct cloche_limits limits; /* of the set-up */
};

/* Start an engine and its keeper.
 * opt     borrowed, may be NULL.
 * ret     owned by the caller, cloche_engine_free().
 * Errors  CLOCHE_E_KEEPER (host), CLOCHE_E_INVALID_ARGUMENT (caller). */
CLOCHE_API CLOCHE_MUST_CHECK int cloche_engine_new(const struct cloche_engine_options *opt, cloche_engine **ret,
                                                   struct cloche_err *e);

/* Lists the languages, without an engine: a JSON array of {name, aliases, extension, extensions, interpreter, warm, build, evaluate}.
 * opt     borrowed, may be NULL; of it runtimes_dir only.
 * ret     owned by the caller, free(). */
CLOCHE_API CLOCHE_MUST_CHECK int cloche_languages(const struct cloche_engine_options *opt, char **ret, struct cloche_err *e);

/* End the keeper and with it every box. Accepts NULL. Runs of the engine must have been freed. */
CLOCHE_API void cloche_engine_free(cloche_engine *engine);

/* What protects boxes made by this engine; reason is "" when enforced and lives as long as the engine. */
CLOCHE_API enum cloche_guard_state cloche_engine_guard(const cloche_engine *engine, enum cloche_guard guard,
                                                       const char **ret_reason);

/* The guards that may be missing or degraded, named or by the profile: bit 1u << enum cloche_guard. */
CLOCHE_API uint32_t cloche_engine_optional(const cloche_engine *engine);

struct cloche_guard_report {
        enum cloche_guard_state state;
        int proven;       /* something in a box tried to climb it and could not */
        char reason[220]; /* what was seen, or what is missing */
};

/* Let a guest of ours climb every wall that can be climbed from inside, in a box started cold and in one forked from a
 * template, and say which held in both.
 * ret     CLOCHE_GUARD_COUNT rows.
 * Errors  those of a run, but missing guards: they are what is reported. */
CLOCHE_API CLOCHE_MUST_CHECK int cloche_engine_selftest(cloche_engine *engine, struct cloche_guard_report *ret,
                                                        struct cloche_err *e);

/* Code that keeps a right of its template: set-up code of a prefix; code of a context that can be forked. */
enum cloche_right_holder { CLOCHE_HOLDER_SET_UP, CLOCHE_HOLDER_CONTEXT, CLOCHE_HOLDER_COUNT };

struct cloche_right_report {
        const char *name, *doc; /* static */
        struct cloche_right_trial {
                int may;        /* it is to have the right: spec/rights.def */
                int is_open;    /* some way to it was open */
                char seen[220]; /* the ways that were open, or else those that were refused */
        } trials[CLOCHE_HOLDER_COUNT];
};

/* Let code of ours try all that spec/rights.def lists, as set-up code of a prefix and as code of a context that can be forked, in the boxes of both and in those beneath.
 * ret     CLOCHE_RIGHT_COUNT rows.
 * Errors  those of cloche_engine_selftest; CLOCHE_E_STATE (host): something could not be tried. */
CLOCHE_API CLOCHE_MUST_CHECK int cloche_engine_rights(cloche_engine *engine, struct cloche_right_report *ret, struct cloche_err *e);

struct cloche_landlocked_report {
        const char *name, *doc; /* static */
        int is_enforced; /* all that its rules refuse was refused, all that they permit was open */
        char seen[220];
};

/* Have a process enter the rules of each program of spec/landlocked.def, and try what they refuse and permit.
 * ret     CLOCHE_LANDLOCKED_COUNT rows.
 * Errors  CLOCHE_E_KEEPER, _RESOURCE, _STATE (host). A kernel without Landlock is none, but what is reported. */
CLOCHE_API CLOCHE_MUST_CHECK int cloche_engine_landlock(cloche_engine *engine, struct cloche_landlocked_report *ret, struct cloche_err *e);

/* Features of the host's kernel that boxes use where they are; spec/host.def. */
enum cloche_host_feature {
#define CLOCHE_HOST(symbol, name, since, without) CLOCHE_HOST_##symbol,
#include <cloche/host.def>
#undef CLOCHE_HOST
        CLOCHE_HOST_COUNT
};

struct cloche_host_report {
        const char *name, *since, *without; /* static: the feature, the Linux release that brought it, what happens where it is not */
        int is_present;
        char detail[220]; /* what was found, or "" */
};

/* Try which of these features this host has.
 * ret     CLOCHE_HOST_COUNT rows. */
CLOCHE_API void cloche_engine_host(const cloche_engine *engine, struct cloche_host_report *ret);

/* Check everything the caller said, and begin: a box is asked for, and the run starts in it when there is one.
 * opt     borrowed during the call only.
 * Errors  CLOCHE_E_UNKNOWN_LANGUAGE, _INVALID_JSON, _INVALID_ARGUMENT (caller); _GUARD_MISSING, _KEEPER (host). */
CLOCHE_API CLOCHE_MUST_CHECK int cloche_run_start(cloche_engine *engine, const struct cloche_run_options *opt,
                                                  cloche_run **ret, struct cloche_err *e);

/* Wait for the end and drop the box. Once per run. ret is owned by the caller, cloche_result_free().
 * Errors  of a run that could not begin: CLOCHE_E_NAMESPACE, _MOUNT, _CGROUP, _MISSING_RUNTIME, _TIMEOUT and others (host). A failure of the
 *         guest's code is not an error but a result. */
CLOCHE_API CLOCHE_MUST_CHECK int cloche_run_wait(cloche_run *run, cloche_result **ret, struct cloche_err *e);

/* End the run with CLOCHE_STATUS_TERMINATED. Safe from any thread and from signal handlers, at any moment before
 * cloche_run_free(). */
CLOCHE_API void cloche_run_cancel(cloche_run *run);

/* Send a signal to a script's program and everything beneath it. A run that is no script in a box of its own, or whose program has not begun, is
 * cancelled. As safe as cloche_run_cancel. */
CLOCHE_API void cloche_run_signal(cloche_run *run, int signal);

/* The terminal of a run that has one is of another size, 1 to 65535 each. As safe as cloche_run_cancel. */
CLOCHE_API void cloche_run_resize(cloche_run *run, unsigned cols, unsigned rows);

/* The step a run waits for before and after its code runs, in a few words ("compiling"); NULL: nothing. Static. As safe as cloche_run_cancel. */
CLOCHE_API const char *cloche_run_phase(const cloche_run *run);

/* Let the guest wait, once its pipes are full, instead of reading on: for callers that pass output on to someone slower. What it had
 * written when it ends is told by on_output all the same. */
CLOCHE_API void cloche_run_hold_output(cloche_run *run, int hold);

/* Kill what is left of the run and free it. Accepts NULL. */
CLOCHE_API void cloche_run_free(cloche_run *run);

/* Set up a prefix, or find it: equal options are one template, kept as long as memory permits.
 * opt     borrowed during the call only.
 * ret     owned by the caller, cloche_prefix_free().
 * Errors  CLOCHE_E_PREFIX (guest): the set-up threw, did not settle, or left something that cannot be forked; failure is
 *         then its error as JSON, owned by the caller, free(); NULL otherwise. Others as of cloche_run_start. */
CLOCHE_API CLOCHE_MUST_CHECK int cloche_prefix_new(cloche_engine *engine, const struct cloche_prefix_options *opt,
                                                   cloche_prefix **ret, char **failure, struct cloche_err *e);
/* The same without waiting: the set-up is under way, and cloche_prefix_state is asked after each turn. */
CLOCHE_API CLOCHE_MUST_CHECK int cloche_prefix_start(cloche_engine *engine, const struct cloche_prefix_options *opt,
                                                     cloche_prefix **ret, struct cloche_err *e);
/* 1: not yet; 0: runs may be forked from it; else what cloche_prefix_new would have said. */
CLOCHE_API CLOCHE_MUST_CHECK int cloche_prefix_state(cloche_prefix *prefix, char **failure, struct cloche_err *e);
/* Runs that were started go on. Accepts NULL. */
CLOCHE_API void cloche_prefix_free(cloche_prefix *prefix);

/* What a call of a host function wants: JSON text, values in tagged form; live as long as the call.
 * target  ["global", name] or ["import", specifier, name], then names of nested members */
CLOCHE_API const char *cloche_bridge_call_target(const cloche_bridge_call *call);
CLOCHE_API const char *cloche_bridge_call_args(const cloche_bridge_call *call);
CLOCHE_API const char *cloche_bridge_call_kwargs(const cloche_bridge_call *call);
/* NULL when the run is over: an answer then goes nowhere. */
CLOCHE_API cloche_run *cloche_bridge_call_run(const cloche_bridge_call *call);
/* Both end the call, also on failure. value: JSON text, NULL for undefined. fields: JSON object or NULL. */
CLOCHE_API int cloche_bridge_answer(cloche_bridge_call *call, const char *value, struct cloche_err *e);
CLOCHE_API int cloche_bridge_fail(cloche_bridge_call *call, const char *name, const char *message, const char *fields,
                                  struct cloche_err *e);

/* For callers with a loop of their own: wait for this to be readable, at most cloche_engine_timeout_ms (-1: any time), then
 * take a turn, which does not block. */
CLOCHE_API int cloche_engine_fd(const cloche_engine *engine);
CLOCHE_API int cloche_engine_timeout_ms(const cloche_engine *engine);
CLOCHE_API void cloche_engine_turn(cloche_engine *engine);
/* 1: the keeper is gone, or has not answered for half a minute; nothing can be started, and the engine can only be freed. */
CLOCHE_API int cloche_engine_is_over(const cloche_engine *engine);
/* Runs that wait for their turn. */
CLOCHE_API unsigned cloche_engine_waiting(const cloche_engine *engine);

CLOCHE_API enum cloche_status cloche_result_status(const cloche_result *result);
CLOCHE_API int cloche_result_exit_code(const cloche_result *result);
/* The returned value as JSON text (tagged forms, bytes in base64); NULL when the run has none. */
CLOCHE_API const char *cloche_result_value(const cloche_result *result);
/* The whole result object of the contract as JSON text. Borrowed, lives with the result. */
CLOCHE_API const char *cloche_result_json(const cloche_result *result);
/* Captured bytes; not terminated by contract, *ret_size says how many. */
CLOCHE_API const char *cloche_result_stdout(const cloche_result *result, size_t *ret_size);
CLOCHE_API const char *cloche_result_stderr(const cloche_result *result, size_t *ret_size);
/* The guest's error: its type, message and stack, or NULL. */
CLOCHE_API const char *cloche_result_error_type(const cloche_result *result);
CLOCHE_API const char *cloche_result_error_message(const cloche_result *result);
CLOCHE_API const char *cloche_result_error_stack(const cloche_result *result);
/* What the run did to mounted directories, whether it was written to the host (member sync of the result says what was) or not
 * (sync.mode manual, or a run without success): taken out of the result, owned by the caller, cloche_changeset_free(); NULL: it had no mounts. */
CLOCHE_API cloche_changeset *cloche_result_take_changeset(cloche_result *result);
CLOCHE_API void cloche_result_free(cloche_result *result);

/* {created, modified, deleted} as in files of a result, as JSON text, free(); NULL without memory. */
CLOCHE_API char *cloche_changeset_json(const cloche_changeset *set);
/* Keep it in an empty directory, and read it again, with an engine that may mount the same directories. dir_fd is borrowed.
 * Errors  CLOCHE_E_UNREADABLE_FILE, _INVALID_JSON, _INVALID_ARGUMENT (caller), _RESOURCE (host). */
CLOCHE_API CLOCHE_MUST_CHECK int cloche_changeset_save(const cloche_changeset *set, int dir_fd, struct cloche_err *e);
CLOCHE_API CLOCHE_MUST_CHECK int cloche_changeset_load(cloche_engine *engine, int dir_fd, cloche_changeset **ret, struct cloche_err *e);
/* From changes as a result has them, with contents: an array, or an object of created, modified and deleted. mount: as of runs. */
CLOCHE_API CLOCHE_MUST_CHECK int cloche_changeset_from_json(cloche_engine *engine, const char *changes, const char *mount,
                                                            cloche_changeset **ret, struct cloche_err *e);
CLOCHE_API void cloche_changeset_free(cloche_changeset *set); /* accepts NULL */

struct cloche_sync_options {
        const cloche_changeset *changes; /* borrowed until the sync is freed */
        const char *on_error; /* rollback, continue, abort; NULL: as the mount said */
        const char *conflict; /* what to do with a file that the host changed meanwhile: refuse, keepBoth, overwrite; NULL: as above */
        const char *links;    /* inside: a symbolic link that leads out of its directory is refused; any; NULL: as above */
        int dry_run;          /* say what would be done */
        int has_caller, caller_fd; /* as of runs */
        cloche_file_handler on_event;
        void *event_data;
        unsigned events;
        cloche_run *run;      /* given to on_event */
        /* NULL, or called once when it is over, from within cloche_engine_turn or a wait. */
        void (*on_end)(void *data, cloche_sync *sync);
        void *data;
};

enum cloche_sync_action { CLOCHE_SYNC_CONTINUE, CLOCHE_SYNC_SKIP, CLOCHE_SYNC_ABORT };

/* Write changes to the host, a transaction per mounted directory: a crash at any moment leaves the old tree or the new one, once the
 * next sync of the directory has looked at it. */
CLOCHE_API CLOCHE_MUST_CHECK int cloche_sync_start(cloche_engine *engine, const struct cloche_sync_options *opt, cloche_sync **ret,
                                                   struct cloche_err *e);
/* Ends the question. skip: this change is not synced; abort: none is, nothing was written, and each is among the skipped ones. reason may be NULL. */
CLOCHE_API int cloche_sync_answer(cloche_sync_question *question, enum cloche_sync_action action, const char *reason, struct cloche_err *e);
/* {synced, failed, skipped, conflicts, kept}, and aborted {path, reason}; of a dry run {steps, denied, conflicts, skipped}. JSON text, free(). */
CLOCHE_API CLOCHE_MUST_CHECK int cloche_sync_wait(cloche_sync *sync, char **ret, struct cloche_err *e);
/* The same without waiting; CLOCHE_E_STATE while it is under way. */
CLOCHE_API CLOCHE_MUST_CHECK int cloche_sync_result(cloche_sync *sync, char **ret, struct cloche_err *e);
/* What is under way is undone, unless it was beyond that; then it is finished. Accepts NULL. */
CLOCHE_API void cloche_sync_free(cloche_sync *sync);

CLOCHE_API const char *cloche_code_name(unsigned code);
CLOCHE_API const char *cloche_code_text(unsigned code);
CLOCHE_API enum cloche_fault cloche_code_fault(unsigned code);
CLOCHE_API const char *cloche_status_name(enum cloche_status status);
CLOCHE_API const char *cloche_guard_name(enum cloche_guard guard);
CLOCHE_API const char *cloche_guard_state_name(enum cloche_guard_state state); /* "absent", "degraded", "enforced", "off" */
CLOCHE_API int cloche_guard_is_missing(enum cloche_guard_state state); /* absent or degraded */
CLOCHE_API uint32_t cloche_profile_guards(enum cloche_profile profile); /* bit 1u << enum cloche_guard */

#ifdef __cplusplus
}
#endif
#endif
