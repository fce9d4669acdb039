/* cloche: the command line. A subcommand is one file with its descriptor; help and dispatch come from the table. */
#include "cli.h"
#include "options.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct cli_operation operations[] = {
#define CLOCHE_OPERATION(name, usage, summary, doc) {#name, usage, summary, doc, &command_##name},
#include <cloche/operations.def>
#undef CLOCHE_OPERATION
};
#define OPERATIONS (sizeof(operations) / sizeof(operations[0]))

int cli_bad(const char *format, ...)
{
        va_list ap;

        fputs("cloche: ", stderr);
        va_start(ap, format);
        vfprintf(stderr, format, ap);
        va_end(ap);
        fputc('\n', stderr);
        return CLI_BAD_INPUT;
}

int cli_fail(const struct cloche_err *e)
{
        cli_bad("%s", e->msg);
        return cloche_code_fault(e->code) == CLOCHE_FAULT_CALLER ? CLI_BAD_INPUT : 1;
}

static const struct cli_operation *find(const char *name)
{
        for (size_t i = 0; i < OPERATIONS; i++)
                if (strcmp(operations[i].name, name) == 0)
                        return &operations[i];
        return NULL;
}

static int help(const char *name)
{
        const struct cli_operation *operation = name ? find(name) : NULL;

        if (name && !operation)
                return cli_bad("there is no command '%s'", name);
        if (operation) {
                options_help(operation);
                return 0;
        }
        printf("cloche: run code nobody vouches for, each piece in its own Linux box\n\nusage: cloche COMMAND …\n\n");
        for (size_t i = 0; i < OPERATIONS; i++)
                printf("  %-10s %s\n", operations[i].name, operations[i].summary);
        printf("\ncloche help COMMAND tells more; cloche --version says which this is.\n");
        return 0;
}

static int wants_help(int argc, char **argv)
{
        for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
                if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
                        return 1;
        return 0;
}

static int dispatch(const struct cli_operation *operation, int argc, char **argv)
{
        struct cli_request *request;
        int code;

        if (wants_help(argc, argv))
                return help(operation->name);
        request = calloc(1, sizeof(*request));
        if (!request)
                return cli_bad("out of memory");
        code = options_parse(operation, argc, argv, request);
        if (code == 0)
                code = operation->command->run(request);
        options_done(request);
        free(request);
        return code;
}

int main(int argc, char **argv)
{
        const char *word = argc > 1 ? argv[1] : "";
        const struct cli_operation *operation = find(word);

        if (operation)
                return dispatch(operation, argc - 2, argv + 2);
        if (strcmp(word, "--version") == 0) {
                printf("cloche " CLOCHE_VERSION "\n");
                return 0;
        }
        if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0)
                return help(argc > 2 ? argv[2] : NULL);
        if (!*word) {
                help(NULL);
                return CLI_BAD_INPUT;
        }
        return cli_bad("there is no command '%s' (cloche --help lists them)", word);
}
