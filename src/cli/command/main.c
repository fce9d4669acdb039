/* cloche: the command line. A subcommand is one file with its descriptor; help and dispatch use
 * the table. Runs in: the CLI, as its user. */
#include "cli.h"
#include "cli/options/complete.h"
#include "cli/options/options.h"
#include "cli/output/progress.h"
#include "cli/output/signals.h"

#include "base/fd.h"
#include "base/suggest.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct cli_command commands[] = {
#define CLOCHE_OPERATION(symbol, name, usage, options, summary, doc, more) \
        {name, usage, options, summary, doc, &command_##symbol},
#include <cloche/operations.def>
#undef CLOCHE_OPERATION
};
#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

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

int cli_matches(const struct cli_command *command, int count, char **words)
{
        const char *rest = command->name;

        for (int i = 0; i < count; i++) {
                size_t size = strcspn(rest, " ");

                if (strlen(words[i]) != size || memcmp(words[i], rest, size) != 0)
                        return 0;
                if (!rest[size])
                        return i + 1;
                rest += size + 1;
        }
        return 0;
}

static const struct cli_command *find(int count, char **words, int *ret_taken)
{
        for (size_t i = 0; i < COMMANDS; i++)
                if ((*ret_taken = cli_matches(&commands[i], count, words)) > 0)
                        return &commands[i];
        return NULL;
}

/* True for the first word of two-word names: "prefix" for "prefix create". */
static int is_first_word(const struct cli_command *command, const char *word)
{
        size_t size = strlen(word);

        return size && strncmp(command->name, word, size) == 0 && command->name[size] == ' ';
}

static int is_first_word_of_any(const char *word)
{
        for (size_t i = 0; i < COMMANDS; i++)
                if (is_first_word(&commands[i], word))
                        return 1;
        return 0;
}

/* Commands of other programs, which are spelled differently from ours. */
static const struct {
        const char *typed, *meant; /* meant: a command, or its second word */
} habits[] = {
        {"list", "ls"},
        {"ls", "list"},
        {"delete", "rm"},
        {"remove", "rm"},
        {"delete", "drop"},
        {"remove", "drop"},
        {"rm", "drop"},
        {"rm", "delete"},
        {"new", "create"},
        {"show", "get"},
        {"inspect", "get"},
        {"show", "inspect"},
        {"get", "inspect"},
        {"eval", "call"},
        {"execute", "run"},
        {"script", "run"},
        {"ssh", "shell"},
        {"attach", "shell"},
        {"copy", "cp"},
        {"network", "net"},
        {"doctor", "selftest"},
        {"test", "selftest"},
        {"ls", "sandbox ls"},
        {"list", "sandbox ls"},
        {"create", "sandbox create"},
        {"rm", "sandbox rm"},
        {"stop", "sandbox stop"},
        {"status", "daemon status"},
        {"pull", "import"},
        {"images", "image ls"},
        {"volumes", "volume ls"},
        {"sandboxes", "sandbox ls"},
        {"contexts", "context list"},
};

/* The command of one word that follows a first word without need, or NULL: "sandbox exec". */
static const struct cli_command *by_second_word(int count, char **words)
{
        for (size_t i = 0; count > 1 && i < COMMANDS; i++)
                if (is_first_word_of_any(words[0]) && strcmp(words[1], commands[i].name) == 0)
                        return &commands[i];
        return NULL;
}

/* The word of a command at `index` (0, 1) of those typed, with the ones behind it;
 * NULL: the first one differs. */
static const char *own_word(const struct cli_command *command, int index, char **words)
{
        if (index && !is_first_word(command, words[0]))
                return NULL;
        return command->name + (index ? strlen(words[0]) + 1 : 0);
}

struct nearest {
        struct suggest word;
        const struct cli_command
                *habitual; /* the command that another program's word means; NULL: it is our own word */
};

static void consider(struct nearest *n, const char *candidate, size_t size, const struct cli_command *habitual)
{
        const char *before = n->word.best;

        suggest_candidate(&n->word, candidate, size);
        if (n->word.best != before)
                n->habitual = habitual;
}

/* The word nearest to the one at `index`, of our commands and of other programs'. */
static struct nearest nearest_to(int index, char **words)
{
        static const char *const builtin[] = {"help", "version"};
        struct nearest n = {.word = suggest_for(words[index], strlen(words[index]))};
        const char *name;

        for (size_t i = 0; !index && i < sizeof(builtin) / sizeof(builtin[0]); i++)
                consider(&n, builtin[i], strlen(builtin[i]), NULL);
        for (size_t i = 0; i < COMMANDS; i++)
                if ((name = own_word(&commands[i], index, words)))
                        consider(&n, name, strcspn(name, " "), NULL);
        for (size_t i = 0; i < COMMANDS; i++)
                for (size_t k = 0; k < sizeof(habits) / sizeof(habits[0]); k++)
                        if ((name = own_word(&commands[i], index, words)) && strcmp(name, habits[k].meant) == 0)
                                consider(&n, habits[k].typed, strlen(habits[k].typed), &commands[i]);
        return n;
}

static int unknown_but_meant(int index, char **words, const struct cli_command *meant)
{
        return cli_bad("there is no command '%s%s%s'; did you mean 'cloche %s'?", words[0], index ? " " : "",
                       index ? words[1] : "", meant->name);
}

static int unknown(int count, char **words)
{
        int is_first = is_first_word_of_any(words[0]), index = is_first && count > 1;
        struct nearest nearest = nearest_to(index, words);
        const struct cli_command *second = by_second_word(count, words);
        char after[200] = "", meant[SUGGEST_TEXT_BYTES];
        size_t size = 0;

        if (second && nearest.word.distance > 0)
                return unknown_but_meant(index, words, second);
        if (options_is_code_word(words[0]))
                return cli_bad("there is no command '%s'; did you mean 'cloche run %s%s'?", words[0], words[0],
                               strchr(words[0], '.') ? "" : " FILE");
        if (nearest.habitual)
                return unknown_but_meant(index, words, nearest.habitual);

        for (size_t i = 0; i < COMMANDS && size < sizeof(after); i++)
                if (is_first_word(&commands[i], words[0]))
                        size += (size_t)snprintf(after + size, sizeof(after) - size, "%s%s", size ? ", " : "",
                                                 commands[i].name + strlen(words[0]) + 1);
        if (index)
                return cli_bad("there is no command '%s %s' (after %s: %s)%s", words[0], words[1], words[0], after,
                               suggest_text(&nearest.word, meant));
        if (is_first)
                return cli_bad("%s: expected one of %s", words[0], after);
        return cli_bad("there is no command '%s' (cloche --help lists them)%s", words[0],
                       suggest_text(&nearest.word, meant));
}

static void list(const char *first_word)
{
        printf("cloche: run untrusted code, each call or script in its own Linux box\n\nusage: cloche COMMAND …\n\n");
        for (size_t i = 0; i < COMMANDS; i++)
                if (!first_word || is_first_word(&commands[i], first_word))
                        printf("  %-20s %s\n", commands[i].name, commands[i].summary);
        printf("\ncloche help COMMAND shows details of a command; cloche --version prints the version.\n");
}

static int help(int count, char **words)
{
        int taken;
        const struct cli_command *command = find(count, words, &taken);

        if (command) {
                options_help(command);
                return 0;
        }
        for (size_t i = 0; count == 1 && i < COMMANDS; i++)
                if (is_first_word(&commands[i], words[0])) {
                        list(words[0]);
                        return 0;
                }
        if (count > 0)
                return unknown(count, words);
        list(NULL);
        return 0;
}

static int wants_help(int argc, char **argv)
{
        for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
                if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
                        return 1;
        return 0;
}

static int dispatch(const struct cli_command *command, int argc, char **argv)
{
        struct cli_request *request;
        int code;

        if (wants_help(argc, argv)) {
                options_help(command);
                return 0;
        }
        request = calloc(1, sizeof(*request));
        if (!request)
                return cli_bad("out of memory");
        code = options_parse(command, argc, argv, request);
        progress_allow(!request->json);
        request->is_of_existing = command->handler->of_existing;
        if (code == 0)
                code = command->handler->run(request);
        progress_end();
        options_done(request);
        free(request);
        return code;
}

static int start(int argc, char **argv)
{
        static char output[1 << 16]; /* more than each help: finish() has the reason of the last write only */
        const char *word = argc > 1 ? argv[1] : "";
        int taken;
        const struct cli_command *command = find(argc - 1, argv + 1, &taken);

        fd_open_standard();
        fd_raise_limit();
        setvbuf(stdout, output, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF, sizeof(output));
        if (command)
                return dispatch(command, argc - 1 - taken, argv + 1 + taken);
        if (strcmp(word, "__complete") == 0)
                return complete(commands, COMMANDS, argc - 2, argv + 2);
        if (strcmp(word, "--version") == 0 || strcmp(word, "version") == 0) {
                printf("cloche " CLOCHE_VERSION "\n");
                return 0;
        }
        if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0)
                return help(argc - 2, argv + 2);
        if (!*word) {
                list(NULL);
                return CLI_BAD_INPUT;
        }
        if (argc == 3 && wants_help(1, argv + 2))
                return help(1, argv + 1);
        return unknown(argc - 1, argv + 1);
}

/* Return the exit code of a command that printed: output that was lost, on a full disk, is an
 * error. */
static int finish(int code)
{
        int is_lost, reason;

        errno = 0;
        is_lost = fflush(stdout) != 0 || ferror(stdout);
        reason = errno; /* 0: of an earlier write */
        if (!is_lost)
                signals_die_if_interrupted(code);
        if (!is_lost || code)
                return code;
        cli_bad("cannot write standard output%s%s", reason ? ": " : "", reason ? strerror(reason) : "");
        return 1;
}

int main(int argc, char **argv)
{
        return finish(start(argc, argv));
}
