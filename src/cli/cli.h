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
};

struct cli_command {
        const char *name, *usage, *summary, *description;
        const struct cli_option *const *tables; /* NULL-terminated list of tables, each ended by a NULL name */
        int (*run)(struct cli_request *request);
        int positional_max; /* before "--"; a language, a function */
        int takes_rest;     /* words behind "--" go to the script */
};

extern const struct cli_command command_call, command_run, command_selftest;

/* One line on standard error, "cloche: …"; returns CLI_BAD_INPUT. */
int cli_bad(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same for an error of the library: 2 when the caller is at fault, else 1. */
int cli_fail(const struct cloche_err *e);

#endif
