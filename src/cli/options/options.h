/* The parsed command line. */
#ifndef CLOCHE_CLI_OPTIONS_OPTIONS_H
#define CLOCHE_CLI_OPTIONS_OPTIONS_H

#include "cli/command/cli.h"
#include "cli/run/helper.h"
#include "cli/run/mounts.h"
#include "cli/sandbox/sandbox-options.h"
#include "cli/sandbox/terminal.h"

#include <cloche/cloche.h>

#define CLI_FILES_MAX 10000 /* the maximum of a run */
#define CLI_ENV_MAX 1000
#define CLI_WORDS_MAX 100
#define CLI_TEXTS_MAX 8

struct cli_request {
        struct cloche_engine_options engine;
        struct cloche_run_options run;
        struct cloche_file files[CLI_FILES_MAX];
        const char *env[CLI_ENV_MAX]; /* owned */
        const char **positional;
        int positional_count;
        char *code; /* owned */
        size_t code_size;
        int have_code, json;
        int is_of_existing;         /* of its command */
        int is_code_stdin;          /* code was read from standard input */
        const char *stdin_is_for;   /* the option that read it; NULL: none */
        char *texts[CLI_TEXTS_MAX]; /* values read from files, owned */
        size_t text_count;
        json_t *languages; /* NULL: not fetched */
        struct mounts_options mounts;
        const char *prefix;       /* the name of a stored prefix */
        const char *image_name;   /* of the store, not yet looked up */
        struct terminal terminal; /* for -t */
        int force, cold;
        int is_strict;                    /* every guard is required */
        int denials;                      /* denials are printed as they happen */
        struct privileged_helper keeping; /* the process that keeps unwritten changes, see outcome.h */
        int dry_run, unified, all;
        const char *links;               /* for a sync: inside or any; NULL: any */
        const char *on_error, *conflict; /* for a separate sync; NULL: as in the run */
        uint64_t runs, concurrency;      /* 0: not given */
        struct {
                const char *suite, *packages, *sources; /* NULL: not given */
                int is_standard;
        } debian;
        struct {
                const char *file, *tag; /* NULL: not given */
                json_t *args, *secrets; /* objects, owned; NULL: none */
                int is_reproducible, is_uncached, is_pulled;
        } build;
        struct {
                const char *connect, *tools, *network, *image; /* NULL: not given */
                int is_read_only;
        } mcp;
        struct {
                const char *file, *keys, *user; /* NULL: not given */
        } ssh;
        struct {
                const char *language, *prefix; /* NULL: not given */
                int is_forkable, is_user;
        } jupyter;
        uint64_t keep_bytes; /* UINT64_MAX: not given */
        const char *token_file;
        int all_images; /* those without a name too */
        int of_daemon;  /* the image store of a daemon; or its socket is named */
        struct sandbox_options sandbox;
};

/* A row of spec/options.def; the texts are "" where the row has none. */
struct cli_option {
        const char *group, *name, *alias, *argument, *words;
        enum { OPTION_CALL, OPTION_FLAG, OPTION_TEXT, OPTION_COUNT, OPTION_TIME } kind;
        size_t offset; /* in struct cli_request; not for OPTION_CALL */
        uint64_t least, most;
        int (*set)(struct cli_request *request, const char *value); /* 0, or CLI_BAD_INPUT after a line was printed */
        const char *help;
};

/* Return the option of a command after `option` (NULL: the first) in the order of help; NULL:
 * none. */
const struct cli_option *options_next(const struct cli_command *command, const struct cli_option *option);
/* Return a command's option of that name or alias; NULL: none. */
const struct cli_option *options_find(const struct cli_command *command, const char *word, size_t size);
/* Parse argv (after the subcommand's name) into *request. 0, or the exit code after a line was
 * printed. */
int options_parse(const struct cli_command *command, int argc, char **argv, struct cli_request *request);
/* Take the word at `at`: a language followed by a file with code, or a file whose name
 * implies the language. Does nothing if code was given already. 0, or the exit code
 * after a line was printed. */
int options_take_code_word(struct cli_request *request, int at);
int options_is_language(const char *word);
/* True for a language, or a file name with a language's suffix. */
int options_is_code_word(const char *word);
/* cli_fail() for an error of a run: names options instead of members, and the intended language. */
int options_refuse(struct cli_request *request, const struct cloche_err *e);
/* Keep text until the request is freed; frees it on failure. 0, or a line was printed. */
int options_keep_text(struct cli_request *request, char *text);
void options_done(struct cli_request *request);
void options_help(const struct cli_command *command);

/* The functions of rows with the kind CALL, and of limits. 0, or an exit code after a line was
 * printed. */
#define DECLARE_FLAG(target)
#define DECLARE_TEXT(target)
#define DECLARE_COUNT(target)
#define DECLARE_TIME(target)
#define DECLARE_CALL(target) int options_set_##target(struct cli_request *request, const char *value);
#define CLOCHE_OPTION(group, option, alias, argument, words, kind, target, ...) DECLARE_##kind(target)
#define CLOCHE_LIMIT(field, ...) DECLARE_CALL(field)
#include <cloche/limits.def>
#include <cloche/options.def>
#undef CLOCHE_LIMIT
#undef CLOCHE_OPTION

/* Parse the value of `option`, a whole number of at most nine digits. 0, or a line was printed. */
int options_count(uint64_t *ret, const char *option, const char *v, uint64_t least, uint64_t most);
/* The same for a time; 0 is accepted and means none. */
int options_duration(uint64_t *ret_ms, const char *option, const char *v, double least_ms, double most_ms);

#endif
