/* Definitions shared by every subcommand: its descriptor, its errors. */
#ifndef CLOCHE_CLI_COMMAND_CLI_H
#define CLOCHE_CLI_COMMAND_CLI_H

#include <cloche/error.h>

#define CLI_BAD_INPUT 2

struct cli_request; /* the parsed options, see options.h */

/* The implementation of a subcommand; spec/operations.def has its name and help. */
struct cli_handler {
        int (*run)(struct cli_request *request);
        const char *expected;               /* the required words, for messages: "a language" */
        int positional_min, positional_max; /* before "--" */
        int needs_code;
        int language_word;    /* with needs_code: index from 1 of the word for a language or file; 0: none */
        int takes_rest;       /* words after "--" go to the script */
        int words_are_rest;   /* so do words after the last positional one */
        int word_begins_rest; /* so do the next word after the positional ones, and all behind it */
        int of_existing;      /* the first word is a sandbox that must exist: else a mistyped name would make one */
        int changes;          /* an absent option leaves a value as it is: help names no defaults */
};

struct cli_command {
        const char *name; /* as typed: one word or two */
        const char *usage, *options, *summary, *doc;
        const struct cli_handler *handler;
};

#define CLOCHE_OPERATION(symbol, name, usage, options, summary, doc, more) \
        extern const struct cli_handler command_##symbol;
#include <cloche/operations.def>
#undef CLOCHE_OPERATION

/* The number of words that form the command's name; 0: no match. */
int cli_matches(const struct cli_command *command, int count, char **words);

/* Print one line on standard error, "cloche: …"; returns CLI_BAD_INPUT. */
int cli_bad(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Print an error of the library; returns 2 if the caller is at fault, otherwise 1. */
int cli_fail(const struct cloche_err *e);

#endif
