/* Parse the words of a command by its tables of options, and print its help.
 * Runs in: the CLI, as its user. */
#include "options.h"

#include "base/suggest.h"
#include "base/utf8.h"
#include "cli/run/image-store.h"
#include "engine/box/image.h"

#include <assert.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* -- values --------------------------------------------------------------------------------------------------- */

int options_count(uint64_t *ret, const char *option, const char *v, uint64_t least, uint64_t most)
{
        size_t size = strlen(v);

        *ret = size > 0 && size < 20 && strspn(v, "0123456789") == size ? strtoull(v, NULL, 10) : UINT64_MAX;
        if (*ret >= least && *ret <= most)
                return 0;
        return cli_bad("%s: '%s' is not a whole number from %llu to %llu", option, v, (unsigned long long)least,
                       (unsigned long long)most);
}

int options_set_spares(struct cli_request *r, const char *v)
{
        uint64_t count;
        int bad = options_count(&count, "--spares", v, 0, 1000);

        r->engine.spares = count == 0 ? CLOCHE_NO_SPARES : (unsigned)count;
        return bad;
}

int options_set_image(struct cli_request *r, const char *v)
{
        struct image image;
        struct stat st;

        r->image_name = NULL;
        r->engine.image = v;
        if (image_read(v, &image) || (stat(v, &st) == 0 && S_ISDIR(st.st_mode)))
                return 0;
        if (!*v || strchr("/.", *v))
                return cli_bad("--image: '%s' is neither a directory nor an image (cloche image ls)", v);
        r->image_name = v; /* --images may follow */
        return 0;
}

/* The daemon finds the name in its own store, unless --images names one. */
int options_set_sandbox_image(struct cli_request *r, const char *v)
{
        struct image image;

        if (strchr(v, '/'))
                return cli_bad("--image: '%s' is a path: a sandbox is made of an image of the store (cloche image "
                               "import "
                               "DIRECTORY NAME)",
                               v);
        r->sandbox.image = v;
        r->image_name = image_read(v, &image) ? NULL : v; /* --images may follow */
        return 0;
}

int options_set_optional(struct cli_request *r, const char *v)
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

/* -- tables --------------------------------------------------------------------------------------------------- */

/* The offset of a member; a member of another type fails to compile. */
#define MEMBER(type, member) \
        (offsetof(struct cli_request, member) + 0 * sizeof(_Generic(((struct cli_request *)NULL)->member, type : 1)))
#define SET_CALL(target, min, max) .set = options_set_##target
#define SET_FLAG(target, min, max) .kind = OPTION_FLAG, .offset = MEMBER(int, target)
#define SET_TEXT(target, min, max) .kind = OPTION_TEXT, .offset = MEMBER(const char *, target)
#define SET_COUNT(target, min, max) .kind = OPTION_COUNT, .offset = MEMBER(uint64_t, target), .least = min, .most = max
#define SET_TIME(target, min, max) .kind = OPTION_TIME, .offset = MEMBER(uint64_t, target), .least = min, .most = max

#define LIMIT_NONE(...)
#define LIMIT_TIME(...) LIMIT("TIME", __VA_ARGS__)
#define LIMIT_SIZE(...) LIMIT("SIZE", __VA_ARGS__)
#define LIMIT_BYTES(...) LIMIT("SIZE", __VA_ARGS__)
#define LIMIT_COUNT(...) LIMIT("N", __VA_ARGS__)
#define LIMIT_PERCENT(...) LIMIT("PERCENT", __VA_ARGS__)
#define LIMIT(argument, group, field, option, about) \
        {group, option, "", argument, "", SET_CALL(field, 0, 0), .help = about},
#define OF_SANDBOX_RUN(row)
#define OF_SANDBOX_BOX(row) row

static const struct cli_option options[] = {
#define CLOCHE_OPTION(group, option, alias, argument, words, kind, target, min, max, about, more) \
        {#group, option, alias, argument, words, SET_##kind(target, min, max), .help = about},
#define CLOCHE_LIMIT(field, json, unit, def, min, max, doc, scope, sandbox, rlimit, argument, option, about, more) \
        LIMIT_##argument("limits", field, option, about)                                                           \
                OF_SANDBOX_##scope(LIMIT_##argument("sandbox_limits", field, option, more))
#include <cloche/limits.def>
#include <cloche/options.def>
#undef CLOCHE_LIMIT
#undef CLOCHE_OPTION
};

/* -- parsing -------------------------------------------------------------------------------------------------- */

static int is_word(const char *name, const char *word, size_t size)
{
        return size > 0 && strlen(name) == size && memcmp(name, word, size) == 0;
}

static const char *next_word(const char *words)
{
        words += strcspn(words, " ");
        return words + (*words == ' ');
}

const struct cli_option *options_next(const struct cli_command *command, const struct cli_option *option)
{
        size_t at = option ? (size_t)(option - options) + 1 : 0;
        const char *group = command->options;

        while (option && !is_word(option->group, group, strcspn(group, " ")))
                group = next_word(group);
        for (; *group; group = next_word(group), at = 0)
                for (; at < sizeof(options) / sizeof(options[0]); at++)
                        if (is_word(options[at].group, group, strcspn(group, " ")))
                                return &options[at];
        return NULL;
}

const struct cli_option *options_find(const struct cli_command *command, const char *word, size_t size)
{
        const struct cli_option *option = NULL;

        while ((option = options_next(command, option)))
                if (is_word(option->name, word, size) || is_word(option->alias, word, size))
                        break;
        return option;
}

/* Names that options have in other programs. */
static const struct {
        const char *typed, *meant;
} habits[] = {
        {"--volume", "--mount"}, {"-v", "--mount"},      {"--cwd", "-C"},
        {"--workdir", "-C"},     {"-w", "-C"},           {"-m", "--memory"},
        {"--mem", "--memory"},   {"--net", "--network"}, {"--timeout", "--lifetime"},
        {"--ttl", "--lifetime"},
};

/* Options that a command has no need of. */
static const struct {
        const char *command, *typed, *instead;
} plain_words[] = {
        {"call", "--function", "the function is a word behind the code"},
        {"sandbox create", "--name", "the name is a word of its own"},
        {"run", "--socket",
         "a run makes its box itself, without a daemon; cloche call --socket, exec and context run use one"},
};

static const char *habit(const struct cli_command *command, const char *word, size_t size)
{
        for (size_t i = 0; i < sizeof(habits) / sizeof(habits[0]); i++)
                if (is_word(habits[i].typed, word, size) &&
                    options_find(command, habits[i].meant, strlen(habits[i].meant)))
                        return habits[i].meant;
        return NULL;
}

static int refuse_option(const struct cli_command *command, const char *word, size_t size)
{
        struct suggest s = suggest_for(word, size);
        const struct cli_option *option = NULL;
        const char *usual = habit(command, word, size);
        char meant[SUGGEST_TEXT_BYTES];

        for (size_t i = 0; i < sizeof(plain_words) / sizeof(plain_words[0]); i++)
                if (is_word(plain_words[i].typed, word, size) && strcmp(command->name, plain_words[i].command) == 0)
                        return cli_bad("there is no option '%s': %s (usage: cloche %s %s)", plain_words[i].typed,
                                       plain_words[i].instead, command->name, command->usage);
        if (word[strspn(word, "-")] == '\0')
                return cli_bad("unexpected word '%s' (usage: cloche %s %s)", word, command->name, command->usage);
        while ((option = options_next(command, option)))
                if (strlen(option->name) > 2)
                        suggest_candidate(&s, option->name, strlen(option->name));
        if (usual) {
                s.best = usual;
                s.best_size = strlen(usual);
        }
        return cli_bad("there is no option '%.*s' (cloche help %s lists them%s)%s", (int)size, word, command->name,
                       command->handler->takes_rest ? "; words after -- go to the command" : "",
                       suggest_text(&s, meant));
}

/* "a b c" as "a, b or c". */
static void list_words(const char *words, char *ret, size_t size)
{
        size_t used = 0;

        for (; *words; words = next_word(words)) {
                size_t word = strcspn(words, " ");

                used += (size_t)snprintf(ret + used, size - used, "%.*s%s", (int)word, words,
                                         !words[word]                    ? ""
                                         : strchr(words + word + 1, ' ') ? ", "
                                                                         : " or ");
                assert(used < size);
        }
}

/* The engine's error would name a member of the request, not the option. */
static int set_text(const struct cli_option *option, const char **member, const char *value)
{
        const char *word = option->words;
        char all[160];

        while (*word && !is_word(value, word, strcspn(word, " ")))
                word = next_word(word);
        if (*option->words && !*word) {
                list_words(option->words, all, sizeof(all));
                return cli_bad("%s must be %s", option->name, all);
        }
        *member = value;
        return 0;
}

static int set_option(const struct cli_option *option, struct cli_request *request, const char *value)
{
        void *member = (char *)request + option->offset;

        switch (option->kind) {
        case OPTION_FLAG:
                *(int *)member = 1;
                return 0;
        case OPTION_TEXT:
                return set_text(option, member, value);
        case OPTION_COUNT:
                return options_count(member, option->name, value, option->least, option->most);
        case OPTION_TIME:
                return options_duration(member, option->name, value, (double)option->least, (double)option->most);
        case OPTION_CALL:
        default:
                return option->set(request, value);
        }
}

/* Parse one option at argv[*at]: "--name value" or "--name=value". */
static int parse_option(const struct cli_command *command, int argc, char **argv, int *at, struct cli_request *request)
{
        const char *word = argv[*at], *equals = strncmp(word, "--", 2) == 0 ? strchr(word, '=') : NULL;
        size_t size = equals ? (size_t)(equals - word) : strlen(word);
        const struct cli_option *option = options_find(command, word, size);

        if (!option)
                return refuse_option(command, word, size);
        if (!*option->argument)
                return equals ? cli_bad("%s takes no value", option->name) : set_option(option, request, NULL);
        if (equals)
                return set_option(option, request, equals + 1);
        if (++*at == argc)
                return cli_bad("%s: expected %s", option->name, option->argument);
        return set_option(option, request, argv[*at]);
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

#define CONTEXT_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

/* The option that a word without one was probably meant for; NULL if there is none. */
static const char *option_of_word(const struct cli_handler *handler, const char *word)
{
        int is_run = handler == &command_context_run;

        if ((is_run || handler == &command_context_create) && options_is_language(word))
                return "a language is named by --language";
        if (!is_run)
                return NULL;
        return word[strspn(word, CONTEXT_LETTERS)] ? "code is given by -c" : "a context is named by --context";
}

static int refuse_words(const struct cli_command *command, const struct cli_request *request)
{
        const struct cli_handler *handler = command->handler;
        const char *const *words = request->positional + handler->positional_max;
        const char *option = option_of_word(handler, words[0]);
        char *json = strcmp(command->name, "call") == 0
                             ? words_as_json(words, request->positional_count - handler->positional_max)
                             : NULL;
        int bad;

        if (json)
                bad = cli_bad("unexpected word '%s': pass arguments of the function as --args '%s'", words[0], json);
        else if (option)
                bad = cli_bad("unexpected word '%s': %s (usage: cloche %s %s)", words[0], option, command->name,
                              command->usage);
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

/* True if the words of a command begin here. */
static int is_rest(const struct cli_handler *handler, const struct cli_request *request, const char *word)
{
        return handler->takes_rest &&
               (strcmp(word, "--") == 0 ||
                (handler->word_begins_rest && word[0] != '-' && request->positional_count == handler->positional_max));
}

int options_parse(const struct cli_command *command, int argc, char **argv, struct cli_request *request)
{
        const struct cli_handler *handler = command->handler;
        int at, bad = 0, rest;

        sandbox_options_init(&request->sandbox);
        request->keep_bytes = UINT64_MAX;
        /* One more for a word that stands for standard input. */
        request->positional =
                calloc((size_t)argc + (size_t)handler->positional_max + 2, sizeof(request->positional[0]));
        if (!request->positional)
                return cli_bad("out of memory");
        for (at = 0; bad == 0 && at < argc && !is_rest(handler, request, argv[at]); at++)
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
        rest = at + (at < argc && strcmp(argv[at], "--") == 0);
        take_words(command, request, argv + rest, argc - rest);
        bind_request(request);
        if (request->denials && !request->mounts.object && !request->sandbox.allow && !request->sandbox.deny)
                return cli_bad("--denials: expected --mount PLACE=HOSTPATH or --network RULES");
        if (bind_guards(request))
                return CLI_BAD_INPUT;
        if (request->sandbox.socket && request->engine.image) { /* the daemon finds it in its own store */
                request->sandbox.image = request->engine.image;
                request->engine.image = NULL;
        }
        if (request->sandbox.image && !request->engine.images_dir)
                request->image_name = NULL;
        bad = request->image_name ? image_store_resolve(request) : 0;
        if (bad)
                return bad;
        if (request->image_name && request->sandbox.image) {
                request->sandbox.image_name = request->image_name;
                request->sandbox.image = request->engine.image;
                request->sandbox.image_settings = request->engine.image_settings;
                request->engine.image = request->engine.image_settings = NULL;
        }
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
        json_decref(request->build.args);
        json_decref(request->build.secrets);
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
static int help_size(const struct cli_handler *handler, const struct cli_option *option)
{
        const char *end =
                handler->changes && strcmp(option->group, "daemon") != 0 ? strstr(option->help, "; default") : NULL;

        return (int)(end ? (size_t)(end - option->help) : strlen(option->help));
}

static void print_option(const struct cli_option *option, int size)
{
        char names[80];
        int width;

        snprintf(names, sizeof(names), "%s%s%s%s%s", option->alias, *option->alias ? ", " : "", option->name,
                 *option->argument ? " " : "", option->argument);
        width = 28 + (int)(strlen(names) - utf8_count(names, strlen(names))); /* printf(3) counts bytes */
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
        const struct cli_option *option = NULL;
        const char *group = "";

        printf("cloche %s: %s\n\nusage: cloche %s%s%s\n\n", command->name, command->summary, command->name,
               *command->usage ? " " : "", command->usage);
        print_wrapped(command->doc);
        while ((option = options_next(command, option))) {
                if (strcmp(group, option->group) != 0)
                        putchar('\n');
                group = option->group;
                print_option(option, help_size(command->handler, option));
        }
        print_examples(command);
}
