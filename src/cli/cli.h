/* The parts every subcommand shares: its descriptor, its options as a table (help comes from it), its errors. */
#ifndef CLOCHE_CLI_CLI_H
#define CLOCHE_CLI_CLI_H

#include <cloche/cloche.h>

#define CLI_BAD_INPUT 2

struct cli_request; /* what the options said, see options.h */

struct cli_option {
        const char *name;     /* "--timeout", "-c" */
        const char *argument; /* "SECONDS", or NULL for a flag */
        const char *help;
        int (*set)(struct cli_request *request, const char *value); /* 0, or a line was printed and CLI_BAD_INPUT */
        const char *alias;    /* "-e", or NULL */
};

/* How a subcommand works; what it is called and does stands in spec/operations.def. */
struct cli_command {
        const struct cli_option *const *tables; /* NULL-terminated list of tables, each ended by a NULL name */
        int (*run)(struct cli_request *request);
        const char *expected; /* the words there must be, for people: "a language" */
        int positional_min, positional_max; /* before "--" */
        int needs_code;
        int language_word; /* with needs_code: from 1 on, which is the language or a file of one; 0: none */
        int takes_rest; /* words behind "--" go to the script */
        int words_are_rest; /* so do those behind the last one of its own */
};

struct cli_operation {
        const char *name; /* as it is typed: one word or two */
        const char *usage, *summary, *doc;
        const struct cli_command *command;
};

#define CLOCHE_OPERATION(symbol, name, usage, summary, doc) extern const struct cli_command command_##symbol;
#include <cloche/operations.def>
#undef CLOCHE_OPERATION

/* How many of the words are the operation's name; 0 when they are not. */
int cli_matches(const struct cli_operation *operation, int count, char **words);

/* One line on standard error, "cloche: …"; returns CLI_BAD_INPUT. */
int cli_bad(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same for an error of the library: 2 when the caller is at fault, else 1. */
int cli_fail(const struct cloche_err *e);

#endif
