/* What the command line said. */
#ifndef CLOCHE_CLI_OPTIONS_H
#define CLOCHE_CLI_OPTIONS_H

#include "cli.h"
#include "errand.h"
#include "mounts.h"
#include "sandbox-words.h"
#include "terminal.h"

#define CLI_FILES_MAX 10000 /* as many as a run takes */
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
        int is_code_stdin; /* it came there */
        const char *stdin_is_for; /* the option that read it; NULL: none */
        char *texts[CLI_TEXTS_MAX]; /* values that came from files, owned */
        size_t text_count;
        json_t *languages; /* NULL: nothing asked for them */
        struct mounts_said mounts;
        const char *prefix; /* the name of a stored one */
        struct terminal terminal; /* of -t */
        int force, cold;
        int is_strict; /* no guard may be missing */
        int denials;           /* are told as they happen */
        struct errand keeping; /* whoever keeps changes that were not written, see outcome.h */
        int dry_run, unified, all;
        const char *links; /* of a sync: inside or any; NULL: any */
        const char *on_error, *conflict; /* of a sync of its own; NULL: as the run said */
        uint64_t runs, concurrency; /* 0: not said */
        struct sandbox_words sandbox;
};

extern const struct cli_option options_code[], options_call[], options_build[], options_limits[], options_files[],
        options_mounts[], options_box[], options_json[], options_prefix[], options_force[], options_bench[], options_sync[], options_diff[], options_all[],
        options_sandbox_limits[], options_timeout[], options_cell_timeout[], options_env[], options_terminal[];

/* Parse argv (behind the subcommand's name) into *request. 0, or the exit code: a line was printed. */
int options_parse(const struct cli_operation *operation, int argc, char **argv, struct cli_request *request);
/* The word at `at` is a language, and the next one a file with code, or it is a file whose name says the language. Nothing to do when there is code
 * already. 0, or the exit code: a line was printed. */
int options_take_code_word(struct cli_request *request, int at);
/* It is a language, or a file whose name ends as one's do. */
int options_is_code_word(const char *word);
/* cli_fail(), for an error of a run: with the language that was meant. */
int options_refuse_language(struct cli_request *request, const struct cloche_err *e);
/* Freed with the request; also on failure. 0, or a line was printed. */
int options_keep_text(struct cli_request *request, char *text);
void options_done(struct cli_request *request);
void options_help(const struct cli_operation *operation);
/* Setters that tables of two files share: of --strict and of -c. */
int options_set_strict(struct cli_request *r, const char *v);
int options_set_code(struct cli_request *r, const char *v);
/* The value of `option`, a whole number of at most nine digits. 0, or a line was printed. */
int options_count(uint64_t *ret, const char *option, const char *v, uint64_t least, uint64_t most);
/* The same for a time; 0 is taken, and means none. */
int options_duration(uint64_t *ret_ms, const char *option, const char *v, double least_ms, double most_ms);

#endif
