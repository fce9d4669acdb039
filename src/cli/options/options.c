/* Parse the words of a command by its tables of options, and print its help.
 * Runs in: the CLI, as its user. */
#include "options.h"
#include "suggest.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* -- values --------------------------------------------------------------------------------------------------- */

static int set_json(struct cli_request *r, const char *v)
{
        (void)v;
        r->json = 1;
        return 0;
}

static int set_prefix(struct cli_request *r, const char *v)
{
        r->prefix = v;
        return 0;
}

static int set_force(struct cli_request *r, const char *v)
{
        (void)v;
        r->force = 1;
        return 0;
}

static int set_cold(struct cli_request *r, const char *v)
{
        (void)v;
        r->cold = 1;
        return 0;
}

int options_count(uint64_t *ret, const char *option, const char *v, uint64_t least, uint64_t most)
{
        size_t size = strlen(v);

        *ret = size > 0 && size < 10 && strspn(v, "0123456789") == size ? strtoull(v, NULL, 10) : UINT64_MAX;
        if (*ret >= least && *ret <= most)
                return 0;
        return cli_bad("%s: '%s' is not a whole number from %llu to %llu", option, v, (unsigned long long)least,
                       (unsigned long long)most);
}

static int set_runs(struct cli_request *r, const char *v)
{
        return options_count(&r->runs, "--runs", v, 1, 1000000);
}

static int set_concurrency(struct cli_request *r, const char *v)
{
        return options_count(&r->concurrency, "--concurrency", v, 1, 1000);
}

static int set_spares(struct cli_request *r, const char *v)
{
        uint64_t count;
        int bad = options_count(&count, "--spares", v, 0, 1000);

        r->engine.spares = count == 0 ? CLOCHE_NO_SPARES : (unsigned)count;
        return bad;
}

static int set_image(struct cli_request *r, const char *v)
{
        struct stat st;

        if (stat(v, &st) < 0 || !S_ISDIR(st.st_mode))
                return cli_bad("--image: '%s' is not a directory", v);
        r->engine.image = v;
        return 0;
}

static int set_optional(struct cli_request *r, const char *v)
{
        while (*v) {
                size_t size = strcspn(v, ","), found = 0;

                for (int g = 0; g < CLOCHE_GUARD_COUNT; g++) {
                        const char *name = cloche_guard_name((enum cloche_guard)g);

                        if (strlen(name) == size && memcmp(name, v, size) == 0) {
                                r->engine.optional_guards |= 1u << g;
                                found = 1;
                        }
                }
                if (!found)
                        return cli_bad("--optional: there is no guard '%.*s' (cloche selftest lists them)", (int)size,
                                       v);
                v += size + (v[size] == ',');
        }
        return 0;
}

static int set_core_scheduling(struct cli_request *r, const char *v)
{
        (void)v;
        r->engine.core_scheduling = 1;
        return 0;
}

int options_set_strict(struct cli_request *r, const char *v)
{
        (void)v;
        r->is_strict = 1;
        return 0;
}

static int set_sync_on_error(struct cli_request *r, const char *v)
{
        r->on_error = v;
        return 0;
}

static int set_sync_conflict(struct cli_request *r, const char *v)
{
        r->conflict = v;
        return 0;
}

static int set_links(struct cli_request *r, const char *v)
{
        r->links = v;
        return 0;
}

static int set_dry_run(struct cli_request *r, const char *v)
{
        (void)v;
        r->dry_run = 1;
        return 0;
}

static int set_unified(struct cli_request *r, const char *v)
{
        (void)v;
        r->unified = 1;
        return 0;
}

static int set_all(struct cli_request *r, const char *v)
{
        (void)v;
        r->all = 1;
        return 0;
}

/* -- tables --------------------------------------------------------------------------------------------------- */

const struct cli_option options_json[] = {
        {"--json", NULL, "print only the complete answer as JSON on standard output", set_json},
        {0},
};
const struct cli_option options_prefix[] = {
        {"--prefix", "NAME", "fork from this set-up (cloche prefix create)", set_prefix},
        {0},
};
const struct cli_option options_force[] = {
        {"--force", NULL, "replace the prefix of that name", set_force},
        {0},
};
const struct cli_option options_remove[] = {
        {"--force", NULL, "a name that does not exist is no error", set_force, "-f"},
        {0},
};
const struct cli_option options_bench[] = {
        {"-c", "CODE", "the code of each run; default: return 1", options_set_code},
        {"--runs", "N", "runs for each measurement; default 100", set_runs},
        {"--concurrency", "N", "concurrent runs, for throughput; default: the number of processors", set_concurrency},
        {"--spares", "N", "spare boxes; default 2, 0 skips that measurement", set_spares},
        {"--cold", NULL, "measure cold calls only", set_cold},
        {0},
};
const struct cli_option options_sync[] = {
        {"--dry-run", NULL, "show changes, denials and conflicts without writing anything", set_dry_run},
        {"--on-error", "POLICY", "if a change cannot be written: rollback, continue or abort; default: as in the run",
         set_sync_on_error},
        {"--conflict", "POLICY",
         "if the host changed a file meanwhile: refuse, keepBoth or overwrite; default: as in the run",
         set_sync_conflict},
        {"--links", "WHERE", "inside: refuse symbolic links that lead out of their directory (default: as in the run)",
         set_links},
        {0},
};
const struct cli_option options_diff[] = {
        {"-u", NULL, "show the differences of text files as diff -u does", set_unified},
        {0},
};
const struct cli_option options_all[] = {
        {"--all", NULL, "all sets", set_all},
        {0},
};
const struct cli_option options_box[] = {
        {"--image", "DIR", "use this directory as root file system instead of the host's /usr", set_image},
        {"--optional", "GUARD[,GUARD…]", "run even if these guards, and no others, are missing or degraded",
         set_optional},
        {"--core-scheduling", NULL,
         "run no other code on the hyperthreads of a core while a box runs there; an error if the kernel cannot",
         set_core_scheduling},
        {"--strict", NULL, "refuse if any guard is missing, including those that an ordinary user may lack",
         options_set_strict},
        {0},
};

/* -- parsing -------------------------------------------------------------------------------------------------- */

static int is_word(const char *name, const char *word, size_t size)
{
        return name && strlen(name) == size && memcmp(name, word, size) == 0;
}

static const struct cli_option *find_option(const struct cli_handler *handler, const char *word, size_t size)
{
        for (const struct cli_option *const *table = handler->tables; *table; table++)
                for (const struct cli_option *option = *table; option->name; option++)
                        if (is_word(option->name, word, size) || is_word(option->alias, word, size))
                                return option;
        return NULL;
}

static int refuse_option(const struct cli_command *command, const char *word, size_t size)
{
        struct suggest s = suggest_for(word, size);
        char meant[SUGGEST_TEXT_BYTES];

        for (const struct cli_option *const *table = command->handler->tables; *table; table++)
                for (const struct cli_option *option = *table; option->name; option++)
                        if (strlen(option->name) > 2)
                                suggest_candidate(&s, option->name, strlen(option->name));
        return cli_bad("there is no option '%.*s' (cloche help %s lists them%s)%s", (int)size, word, command->name,
                       command->handler->takes_rest ? "; words after -- go to the command" : "",
                       suggest_text(&s, meant));
}

/* Parse one option at argv[*at]: "--name value" or "--name=value". */
static int parse_option(const struct cli_command *command, int argc, char **argv, int *at, struct cli_request *request)
{
        const char *word = argv[*at], *equals = strncmp(word, "--", 2) == 0 ? strchr(word, '=') : NULL;
        size_t size = equals ? (size_t)(equals - word) : strlen(word);
        const struct cli_option *option = find_option(command->handler, word, size);

        if (!option)
                return refuse_option(command, word, size);
        if (!option->argument)
                return equals ? cli_bad("%s takes no value", option->name) : option->set(request, NULL);
        if (equals)
                return option->set(request, equals + 1);
        if (++*at == argc)
                return cli_bad("%s: expected %s", option->name, option->argument);
        return option->set(request, argv[*at]);
}

/* An ordinary user may lack some guards, unless options name them. */
static int bind_guards(struct cli_request *request)
{
        if (request->is_strict && request->engine.optional_guards)
                return cli_bad("--strict and --optional contradict each other: use one");
        request->engine.profile =
                request->is_strict || request->engine.optional_guards ? CLOCHE_PROFILE_NONE : CLOCHE_PROFILE_USER;
        return 0;
}

static void bind_request(struct cli_request *request)
{
        request->run.files = request->files;
        request->run.env = request->env;
        request->run.code = request->code;
        request->run.code_size = request->code_size;
        request->run.language = request->positional[0];
        request->run.function = request->positional[1];
}

/* Words after the command's own go to the script, before those after "--". */
static void take_words(const struct cli_command *command, struct cli_request *request, char **rest, int rest_count)
{
        int own = command->handler->positional_max,
            more = command->handler->words_are_rest ? request->positional_count - own : 0;
        const char **words = request->positional + own;

        if (more < 0)
                more = 0;
        for (int i = 0; i < rest_count; i++)
                words[more + i] = rest[i];
        request->positional_count -= more;
        request->run.argv = words;
        request->run.argc = (size_t)(more + rest_count);
}

/* "[1, \"a\"]" for the words 1 and a, for a line that can be typed; free(); NULL if a quote in them
 * would break it. */
static char *words_as_json(const char *const *words, int count)
{
        json_t *list = json_array();
        char *text;

        for (int i = 0; i < count; i++) {
                json_t *value = json_loads(words[i], JSON_DECODE_ANY, NULL);

                json_array_append_new(list, value ? value : json_string(words[i]));
        }
        text = json_dumps(list, JSON_ENCODE_ANY);
        json_decref(list);
        if (!text || !strchr(text, '\''))
                return text;
        free(text);
        return NULL;
}

static int refuse_words(const struct cli_command *command, const struct cli_request *request)
{
        const struct cli_handler *handler = command->handler;
        const char *const *words = request->positional + handler->positional_max;
        char *json = strcmp(command->name, "call") == 0
                             ? words_as_json(words, request->positional_count - handler->positional_max)
                             : NULL;
        int bad;

        if (json)
                bad = cli_bad("unexpected word '%s': pass arguments of the function as --args '%s'", words[0], json);
        else if (handler == &command_context_run)
                bad = cli_bad("unexpected word '%s': a context is named as --context %s (usage: cloche %s %s)",
                              words[0], words[0], command->name, command->usage);
        else if (handler->takes_rest)
                bad = cli_bad("unexpected word '%s': the command goes after -- (usage: cloche %s %s)", words[0],
                              command->name, command->usage);
        else
                bad = cli_bad("unexpected word '%s' (usage: cloche %s %s)", words[0], command->name, command->usage);
        free(json);
        return bad;
}

static int check_words(const struct cli_command *command, const struct cli_request *request)
{
        const struct cli_handler *handler = command->handler;

        if (request->positional_count > handler->positional_max && !handler->words_are_rest)
                return refuse_words(command, request);
        if (request->positional_count < handler->positional_min)
                return cli_bad("expected %s (usage: cloche %s %s)", handler->expected, command->name, command->usage);
        if (handler->needs_code && !request->have_code)
                return cli_bad("expected code: one of FILE, -c CODE, -f FILE and - (usage: cloche %s %s)",
                               command->name, command->usage);
        return 0;
}

int options_parse(const struct cli_command *command, int argc, char **argv, struct cli_request *request)
{
        const struct cli_handler *handler = command->handler;
        int at, bad = 0;

        sandbox_options_init(&request->sandbox);
        /* One more for a word that stands for standard input. */
        request->positional =
                calloc((size_t)argc + (size_t)handler->positional_max + 2, sizeof(request->positional[0]));
        if (!request->positional)
                return cli_bad("out of memory");
        for (at = 0; bad == 0 && at < argc && !(strcmp(argv[at], "--") == 0 && handler->takes_rest); at++)
                if (argv[at][0] == '-')
                        bad = parse_option(command, argc, argv, &at, request);
                else
                        request->positional[request->positional_count++] = argv[at];
        if (bad == 0 && handler->needs_code && handler->language_word)
                bad = options_take_code_word(request, handler->language_word - 1);
        if (bad == 0)
                bad = check_words(command, request);
        if (bad)
                return bad;
        take_words(command, request, argv + at + 1, at < argc ? argc - at - 1 : 0);
        bind_request(request);
        if (request->denials && !request->mounts.object && !request->sandbox.allow && !request->sandbox.deny)
                return cli_bad("--denials: expected --mount PLACE=HOSTPATH or --network RULES");
        if (bind_guards(request))
                return CLI_BAD_INPUT;
        return mounts_bind(&request->mounts, &request->engine, &request->run);
}

void options_done(struct cli_request *request)
{
        for (size_t i = 0; i < request->run.file_count; i++) {
                free((char *)request->files[i].path);
                free((char *)request->files[i].data);
                if (request->files[i].fd >= 0)
                        close(request->files[i].fd);
        }
        mounts_done(&request->mounts);
        sandbox_options_done(&request->sandbox);
        for (size_t i = 0; i < request->run.env_count; i++)
                free((char *)request->env[i]);
        for (size_t i = 0; i < request->text_count; i++)
                free(request->texts[i]);
        json_decref(request->languages);
        free(request->positional);
        free(request->code);
}

/* Print a text's words in lines of at most 80 columns. */
static void print_wrapped(const char *text)
{
        size_t column = 0;

        while (*text) {
                size_t size = strcspn(text, " ");

                if (column > 0 && column + 1 + size > 80) {
                        putchar('\n');
                        column = 0;
                }
                column += (size_t)printf("%s%.*s", column ? " " : "", (int)size, text);
                text += size + (text[size] == ' ');
        }
        putchar('\n');
}

/* The size of an option's help. A command that changes an object keeps its value where an option is
 * absent, so the default does not apply; only that of --socket is the command's own. */
static int help_size(const struct cli_handler *handler, const struct cli_option *table, const struct cli_option *option)
{
        const char *end = handler->changes && table != options_daemon ? strstr(option->help, "; default") : NULL;

        return (int)(end ? (size_t)(end - option->help) : strlen(option->help));
}

static void print_option(const struct cli_option *option, int size)
{
        char names[80];
        int width = 28;

        snprintf(names, sizeof(names), "%s%s%s%s%s", option->alias ? option->alias : "", option->alias ? ", " : "",
                 option->name, option->argument ? " " : "", option->argument ? option->argument : "");
        for (const char *at = names; *at; at++)
                width += ((unsigned char)*at & 0xc0) == 0x80; /* no column of its own */
        printf("  %-*s %.*s\n", width, names, size, option->help);
}

static void print_examples(const struct cli_command *command)
{
        static const struct {
                const struct cli_handler *handler;
                const char *line;
        } rows[] = {
#define CLOCHE_EXAMPLE(symbol, line) {&command_##symbol, line},
#include <cloche/examples.def>
#undef CLOCHE_EXAMPLE
        };
        const char *before = "\nexamples:\n";

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                if (rows[i].handler == command->handler) {
                        printf("%s  %s\n", before, rows[i].line);
                        before = "";
                }
}

void options_help(const struct cli_command *command)
{
        printf("cloche %s: %s\n\nusage: cloche %s %s\n\n", command->name, command->summary, command->name,
               command->usage);
        print_wrapped(command->doc);
        for (const struct cli_option *const *table = command->handler->tables; *table; table++) {
                printf("%s", (*table)->help ? "\n" : "");
                for (const struct cli_option *option = *table; option->name && option->help; option++)
                        print_option(option, help_size(command->handler, *table, option));
        }
        print_examples(command);
}
