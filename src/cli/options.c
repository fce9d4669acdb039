#include "options.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CODE_BYTES_MAX (64u << 20)

/* -- values --------------------------------------------------------------------------------------------------- */

static int set_args(struct cli_request *r, const char *v)
{
        r->run.args = v;
        return 0;
}

static int set_kwargs(struct cli_request *r, const char *v)
{
        r->run.kwargs = v;
        return 0;
}

static int set_schema(struct cli_request *r, const char *v)
{
        r->run.schema = v;
        return 0;
}

static int set_build(struct cli_request *r, const char *v)
{
        r->run.build = v;
        return 0;
}

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
        return cli_bad("%s: '%s' is not a whole number from %llu to %llu", option, v, (unsigned long long)least, (unsigned long long)most);
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

static int set_env(struct cli_request *r, const char *v)
{
        if (!strchr(v, '=') || v[0] == '=')
                return cli_bad("--env: '%s' is not NAME=VALUE", v);
        if (r->run.env_count == CLI_ENV_MAX)
                return cli_bad("--env: given more than %d times", CLI_ENV_MAX);
        r->env[r->run.env_count++] = v;
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
                        return cli_bad("--optional: there is no guard '%.*s' (cloche selftest lists them)", (int)size, v);
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

static int set_file(struct cli_request *r, const char *v)
{
        const char *equals = strchr(v, '=');
        struct cloche_file *file = &r->files[r->run.file_count];
        struct stat st;

        if (!equals || equals == v || !equals[1])
                return cli_bad("--file: '%s' is not VPATH=HOSTPATH", v);
        if (r->run.file_count == CLI_FILES_MAX)
                return cli_bad("--file: given more than %d times", CLI_FILES_MAX);
        *file = (struct cloche_file){.path = strndup(v, (size_t)(equals - v)), .fd = -1};
        if (!file->path)
                return cli_bad("out of memory");
        r->run.file_count++;
        /* O_NONBLOCK: a pipe of that name is not waited for. */
        file->fd = open(equals + 1, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (file->fd < 0 || fstat(file->fd, &st) < 0)
                return cli_bad("--file: cannot read '%s': %s", equals + 1, strerror(errno));
        if (!S_ISREG(st.st_mode))
                return cli_bad("--file: cannot read '%s': not a regular file", equals + 1);
        file->mode = st.st_mode & 0111 ? 0755 : 0644;
        return 0;
}

static int set_mount(struct cli_request *r, const char *v)
{
        return mounts_add(&r->mounts, v);
}

static int set_rule(struct cli_request *r, const char *v)
{
        return mounts_add_rule(&r->mounts, v);
}

static int set_sync(struct cli_request *r, const char *v)
{
        return mounts_set(&r->mounts, "sync", "mode", "--sync", v);
}

static int set_on_error(struct cli_request *r, const char *v)
{
        return mounts_set(&r->mounts, "sync", "onError", "--on-error", v);
}

static int set_conflict(struct cli_request *r, const char *v)
{
        return mounts_set(&r->mounts, "sync", "conflict", "--conflict", v);
}

static int set_on_denied(struct cli_request *r, const char *v)
{
        return mounts_set(&r->mounts, NULL, "onPermissionDenied", "--on-denied", v);
}

static int set_denials(struct cli_request *r, const char *v)
{
        (void)v;
        r->denials = 1;
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

/* -- code ----------------------------------------------------------------------------------------------------- */

static int read_code(struct cli_request *r, int fd, const char *name)
{
        size_t room = 0;

        for (;;) {
                ssize_t n;

                if (room - r->code_size < 2) {
                        char *grown;

                        room = room ? room * 2 : 65536;
                        grown = realloc(r->code, room);
                        if (!grown)
                                return cli_bad("out of memory");
                        r->code = grown;
                }
                n = read(fd, r->code + r->code_size, room - r->code_size - 1);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return cli_bad("cannot read '%s': %s", name, strerror(errno));
                if (n == 0)
                        break;
                r->code_size += (size_t)n;
                if (r->code_size > CODE_BYTES_MAX)
                        return cli_bad("'%s' has more than %u bytes", name, CODE_BYTES_MAX);
        }
        r->code[r->code_size] = '\0';
        return 0;
}

static int first_code(struct cli_request *r)
{
        return r->have_code++ ? cli_bad("code was given twice: use one of -c, -f and -") : 0;
}

static int set_code(struct cli_request *r, const char *v)
{
        int bad = first_code(r);

        if (bad)
                return bad;
        r->code = strdup(v);
        r->code_size = strlen(v);
        return r->code ? 0 : cli_bad("out of memory");
}

static int set_code_file(struct cli_request *r, const char *v)
{
        const char *slash = strrchr(v, '/');
        int bad = first_code(r), fd;

        if (bad)
                return bad;
        fd = open(v, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return cli_bad("-f: cannot read '%s': %s", v, strerror(errno));
        bad = read_code(r, fd, v);
        close(fd);
        r->run.filename = slash ? slash + 1 : v;
        return bad;
}

static int set_code_stdin(struct cli_request *r, const char *v)
{
        int bad = first_code(r);

        (void)v;
        r->is_code_stdin = 1;
        return bad ? bad : read_code(r, STDIN_FILENO, "standard input");
}

const struct cli_option options_code[] = {
        {"-c", "CODE", "the code itself", set_code},
        {"-f", "FILE", "a file that holds the code", set_code_file},
        {"-", NULL, "the code comes on standard input", set_code_stdin},
        {0},
};
const struct cli_option options_call[] = {
        {"--args", "JSON", "arguments: an array, or an object of keywords", set_args},
        {"--kwargs", "JSON", "keyword arguments: an object", set_kwargs},
        {"--schema", "JSON", "what the function takes and returns (spec/signatures.md); what does not fit is an error", set_schema},
        {0},
};
const struct cli_option options_build[] = {
        {"--build", "JSON", "how a compiled language is built: an object of standard, flags and sources", set_build},
        {0},
};
const struct cli_option options_json[] = {
        {"--json", NULL, "print the whole answer as JSON, and nothing else, on standard output", set_json},
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
const struct cli_option options_bench[] = {
        {"-c", "CODE", "what every run does; default: return 1", set_code},
        {"--runs", "N", "runs a question; default 100", set_runs},
        {"--concurrency", "N", "runs at once, for throughput; default: as many as there are processors", set_concurrency},
        {"--spares", "N", "boxes kept ready; default 2, and 0 leaves that question out", set_spares},
        {"--cold", NULL, "cold calls only", set_cold},
        {0},
};
const struct cli_option options_script[] = {
        {"--env", "NAME=VALUE", "an environment variable of the script; may be repeated", set_env},
        {0},
};
const struct cli_option options_env[] = {
        {"-e", "NAME=VALUE", "an environment variable; may be repeated", set_env},
        {0},
};
const struct cli_option options_files[] = {
        {"--file", "VPATH=HOSTPATH", "put a copy of a host file into the box; may be repeated", set_file},
        {0},
};
const struct cli_option options_mounts[] = {
        {"--mount", "VDIR=HOSTDIR[:RULES.json]", "show a host directory in the box, to be read; may be repeated", set_mount},
        {"--rule", "PATTERN=[-]ACTION,…", "permit (with -: deny) read, list, create, modify, delete or * there; the first match decides", set_rule},
        {"--sync", "MODE", "batch: changes are written to the host after success; manual: kept for cloche sync", set_sync},
        {"--on-error", "POLICY", "when a change cannot be written: rollback, continue or abort", set_on_error},
        {"--conflict", "POLICY", "when the host changed a file meanwhile: refuse, keepBoth or overwrite", set_conflict},
        {"--on-denied", "POLICY", "what the code sees of a denial: throw (an error), ignore or virtual", set_on_denied},
        {"--denials", NULL, "tell of denials on standard error as they happen", set_denials},
        {0},
};
const struct cli_option options_sync[] = {
        {"--dry-run", NULL, "say what would be done, and what would be denied or in conflict; write nothing", set_dry_run},
        {"--on-error", "POLICY", "rollback, continue or abort when a change cannot be written; default: as the run said", set_sync_on_error},
        {"--conflict", "POLICY", "refuse, keepBoth or overwrite what the host changed meanwhile; default: as the run said", set_sync_conflict},
        {0},
};
const struct cli_option options_diff[] = {
        {"-u", NULL, "show how texts differ from the host's, as diff -u does", set_unified},
        {0},
};
const struct cli_option options_all[] = {
        {"--all", NULL, "all there are", set_all},
        {0},
};
const struct cli_option options_box[] = {
        {"--image", "DIR", "a directory as root file system, in place of the host's /usr", set_image},
        {"--optional", "GUARD[,GUARD…]", "run even where these guards, and no others, are missing or degraded", set_optional},
        {"--core-scheduling", NULL, "no other code on the hyperthreads of a core while a box runs there; an error where it cannot be had", set_core_scheduling},
        {"--strict", NULL, "refuse when any guard is missing, also of those that an ordinary user may lack", options_set_strict},
        {0},
};

/* -- parsing -------------------------------------------------------------------------------------------------- */

static const struct cli_option *find_option(const struct cli_command *command, const char *word, size_t size)
{
        for (const struct cli_option *const *table = command->tables; *table; table++)
                for (const struct cli_option *option = *table; option->name; option++)
                        if (strlen(option->name) == size && memcmp(option->name, word, size) == 0)
                                return option;
        return NULL;
}

/* One option at argv[*at]; "--name value" and "--name=value". */
static int parse_option(const struct cli_operation *operation, int argc, char **argv, int *at, struct cli_request *request)
{
        const char *word = argv[*at], *equals = strncmp(word, "--", 2) == 0 ? strchr(word, '=') : NULL;
        size_t size = equals ? (size_t)(equals - word) : strlen(word);
        const struct cli_option *option = find_option(operation->command, word, size);

        if (!option)
                return cli_bad("there is no option '%.*s' (cloche help %s lists them)", (int)size, word, operation->name);
        if (!option->argument)
                return equals ? cli_bad("%s takes no value", option->name) : option->set(request, NULL);
        if (equals)
                return option->set(request, equals + 1);
        if (++*at == argc)
                return cli_bad("%s: expected %s", option->name, option->argument);
        return option->set(request, argv[*at]);
}

/* An ordinary user may lack some guards, unless the words say which. */
static int bind_guards(struct cli_request *request)
{
        if (request->is_strict && request->engine.optional_guards)
                return cli_bad("--strict and --optional contradict each other: use one");
        request->engine.profile = request->is_strict || request->engine.optional_guards ? CLOCHE_PROFILE_NONE : CLOCHE_PROFILE_USER;
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

int options_parse(const struct cli_operation *operation, int argc, char **argv, struct cli_request *request)
{
        sandbox_words_begin(&request->sandbox);
        for (int at = 0; at < argc; at++) {
                int bad = 0;

                if (strcmp(argv[at], "--") == 0 && operation->command->takes_rest) {
                        request->run.argv = (const char *const *)argv + at + 1;
                        request->run.argc = (size_t)(argc - at - 1);
                        break;
                }
                if (argv[at][0] == '-')
                        bad = parse_option(operation, argc, argv, &at, request);
                else if (request->positional_count == operation->command->positional_max)
                        bad = cli_bad("'%s' is one word too many (usage: cloche %s %s)", argv[at], operation->name, operation->usage);
                else
                        request->positional[request->positional_count++] = argv[at];
                if (bad)
                        return bad;
        }
        if (request->positional_count < operation->command->positional_min)
                return cli_bad("expected %s (usage: cloche %s %s)", operation->command->expected, operation->name, operation->usage);
        if (operation->command->needs_code && !request->have_code)
                return cli_bad("expected code: one of -c CODE, -f FILE and -");
        bind_request(request);
        if (request->denials && !request->mounts.object)
                return cli_bad("--denials: expected --mount VDIR=HOSTDIR");
        if (bind_guards(request))
                return CLI_BAD_INPUT;
        return mounts_bind(&request->mounts, &request->engine, &request->run);
}

void options_done(struct cli_request *request)
{
        for (size_t i = 0; i < request->run.file_count; i++) {
                free((char *)request->files[i].path);
                if (request->files[i].fd >= 0)
                        close(request->files[i].fd);
        }
        mounts_done(&request->mounts);
        sandbox_words_done(&request->sandbox);
        free(request->code);
}

/* Words of a text in lines of at most 80 columns. */
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

void options_help(const struct cli_operation *operation)
{
        printf("cloche %s: %s\n\nusage: cloche %s %s\n\n", operation->name, operation->summary, operation->name, operation->usage);
        print_wrapped(operation->doc);
        for (const struct cli_option *const *table = operation->command->tables; *table; table++) {
                printf("%s", (*table)->help ? "\n" : "");
                for (const struct cli_option *option = *table; option->name && option->help; option++)
                        printf("  %s%s%-*s %s\n", option->name, option->argument ? " " : "",
                               (int)(28 - strlen(option->name) - (option->argument != NULL)), option->argument ? option->argument : "",
                               option->help);
        }
}
