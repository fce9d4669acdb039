#include "compile.h"
#include "dependencies.h"

#include "base/fd.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define OUTPUT_BYTES_MAX (256 << 10)
#define DEPENDENCIES_BYTES_MAX (4 << 20)
#define WORDS_MAX 512
#define DEPENDENCIES_NAME "/.dependencies"

extern char **environ;

static int fail(struct compile_error *e, const char *type, const char *format, ...)
        __attribute__((format(printf, 3, 4)));
static int fail(struct compile_error *e, const char *type, const char *format, ...)
{
        va_list list;

        e->type = type;
        va_start(list, format);
        vsnprintf(e->message, sizeof(e->message), format, list);
        va_end(list);
        return -1;
}

void compile_error_done(struct compile_error *e)
{
        free(e->text);
        e->text = NULL;
}

/* -- the caller's options ------------------------------------------------------------------------------------- */

static int starts(const char *text, const char *with)
{
        return strncmp(text, with, strlen(with)) == 0;
}

static int is_forbidden(const char *flag)
{
        static const char *const whole[] = {"-c",   "-E",   "-S",      "-r",  "-s",       "-",      "-v",
                                            "-###", "-pie", "-no-pie", "-g0", "-gtoggle", "-ggdb0", NULL};
        static const char *const beginnings[] = {"-o",
                                                 "-M",
                                                 "-x",
                                                 "-B",
                                                 "-shared",
                                                 "-static",
                                                 "-fsyntax-only",
                                                 "-fplugin",
                                                 "-wrapper",
                                                 "-specs",
                                                 "--",
                                                 "-print-",
                                                 "-dump",
                                                 "-d",
                                                 "-save-temps",
                                                 "-std=",
                                                 "-fdiagnostics-",
                                                 "-fmessage-length",
                                                 "-fno-pic",
                                                 "-fno-PIC",
                                                 "-fpie",
                                                 "-fPIE",
                                                 "-flto",
                                                 "-gsplit-dwarf",
                                                 "-gstabs",
                                                 "-gxcoff",
                                                 "-gvms",
                                                 "-Wl,-s",
                                                 "-Wl,-S",
                                                 "-Wl,--strip",
                                                 "-Wl,-o",
                                                 "-Wl,--output",
                                                 "-pass-exit-codes",
                                                 "-no-canonical",
                                                 "-fdump-",
                                                 "-fcompare-debug",
                                                 "-foffload",
                                                 "-fprofile",
                                                 "-ftest-coverage",
                                                 NULL};

        for (const char *const *at = whole; *at; at++)
                if (strcmp(flag, *at) == 0)
                        return 1;
        for (const char *const *at = beginnings; *at; at++)
                if (starts(flag, *at))
                        return 1;
        return flag[0] != '-';
}

static int check_flags(const json_t *flags, struct compile_error *e)
{
        if (flags && !json_is_array(flags))
                return fail(e, "BuildError", "build.flags must be an array of strings");
        for (size_t i = 0; i < json_array_size(flags); i++) {
                const char *flag = json_string_value(json_array_get(flags, i));

                if (!flag)
                        return fail(e, "BuildError", "build.flags[%zu] must be a string", i);
                if (is_forbidden(flag))
                        return fail(e, "BuildError", "build.flags[%zu]: '%.80s' cannot be used%s", i, flag,
                                    starts(flag, "-std=") ? ": name it as build.standard"
                                    : flag[0] == '@' || flag[0] == '-'
                                            ? ""
                                            : ": a flag begins with '-' and holds its value, as -Idir");
        }
        return json_array_size(flags) > WORDS_MAX / 4 ? fail(e, "BuildError", "build.flags: at most %d", WORDS_MAX / 4)
                                                      : 0;
}

static int check_standard(const json_t *standard, int is_cpp, struct compile_error *e)
{
        const char *text = json_string_value(standard);

        if (!standard || json_is_null(standard))
                return 0;
        if (!text || !*text || text[strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789+:")])
                return fail(e, "BuildError", "build.standard must be a name like %s", is_cpp ? "c++20" : "c17");
        if (is_cpp != (strchr(text, '+') != NULL))
                return fail(e, "BuildError", "build.standard: '%.40s' is no standard of %s", text,
                            is_cpp ? "C++" : "C");
        return 0;
}

/* A relative path below the directory. */
static int is_inside(const char *path)
{
        if (!*path || *path == '/' || strlen(path) > 200)
                return 0;
        for (const char *at = path; at; at = strchr(at, '/')) {
                at += *at == '/';
                if (!*at || *at == '/' || *at == '-' || (at[0] == '.' && (at[1] == '/' || !at[1] || at[1] == '.')))
                        return 0;
        }
        for (const char *at = path; *at; at++)
                if (!isalnum((unsigned char)*at) && !strchr("._-+/", *at))
                        return 0;
        return 1;
}

static const char *extension_of(const char *path)
{
        const char *dot = strrchr(path, '.');

        return dot && !strchr(dot, '/') ? dot : "";
}

enum source_kind { SOURCE_HEADER, SOURCE_C, SOURCE_CPP, SOURCE_ASSEMBLER };

static enum source_kind kind_of(const char *path)
{
        const char *extension = extension_of(path);

        if (strcmp(extension, ".c") == 0)
                return SOURCE_C;
        if (strcmp(extension, ".cpp") == 0 || strcmp(extension, ".cc") == 0 || strcmp(extension, ".cxx") == 0 ||
            strcmp(extension, ".C") == 0)
                return SOURCE_CPP;
        if (strcmp(extension, ".s") == 0 || strcmp(extension, ".S") == 0)
                return SOURCE_ASSEMBLER;
        return SOURCE_HEADER;
}

static int check_sources(const json_t *sources, const char *main_name, int is_cpp, struct compile_error *e)
{
        const char *name;
        json_t *text;

        if (sources && !json_is_object(sources))
                return fail(e, "BuildError", "build.sources must be an object of names and texts");
        json_object_foreach ((json_t *)sources, name, text) { /* NOLINT: only read */
                if (!json_is_string(text))
                        return fail(e, "BuildError", "build.sources: '%.80s' must be a string", name);
                if (!is_inside(name))
                        return fail(e, "BuildError", "build.sources: '%.80s' is no relative path of plain names", name);
                if (strcmp(name, main_name) == 0)
                        return fail(e, "BuildError", "build.sources: '%.80s' is the name of the code itself", name);
                if (!is_cpp && kind_of(name) == SOURCE_CPP)
                        return fail(e, "BuildError", "build.sources: '%.80s' is C++, the language is C", name);
        }
        return json_object_size(sources) > WORDS_MAX / 4
                       ? fail(e, "BuildError", "build.sources: at most %d", WORDS_MAX / 4)
                       : 0;
}

static const json_t *part(const struct compile_job *job, const char *name)
{
        const json_t *value = json_object_get(job->build, name);

        return json_is_null(value) ? NULL : value;
}

static int check_job(const struct compile_job *job, const char *main_name, struct compile_error *e)
{
        const char *key;
        json_t *value;

        json_object_foreach ((json_t *)job->build, key, value) /* NOLINT: only read */
                if (strcmp(key, "standard") != 0 && strcmp(key, "flags") != 0 && strcmp(key, "sources") != 0)
                        return fail(e, "BuildError", "build has no key '%.60s', expected standard, flags or sources",
                                    key);
        if (check_standard(part(job, "standard"), job->is_cpp, e) < 0 || check_flags(part(job, "flags"), e) < 0)
                return -1;
        return check_sources(part(job, "sources"), main_name, job->is_cpp, e);
}

/* -- files ---------------------------------------------------------------------------------------------------- */

int compile_directory(struct compiled *c)
{
        const char *base = getenv("TMPDIR");

        if (!base || strlen(base) > 40 || *base != '/')
                base = "/tmp";
        snprintf(c->directory, sizeof(c->directory), "%.40s/.cloche-XXXXXX", base);
        if (!mkdtemp(c->directory)) {
                c->directory[0] = '\0';
                return -1;
        }
        snprintf(c->object, sizeof(c->object), "%s/.object", c->directory);
        c->dependencies = BUF_INIT(DEPENDENCIES_BYTES_MAX);
        return 0;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
        (void)st;
        (void)kind;
        (void)ftw;
        remove(path);
        return 0;
}

void compiled_done(struct compiled *c)
{
        if (c->directory[0])
                nftw(c->directory, remove_one, 8, FTW_DEPTH | FTW_PHYS);
        c->directory[0] = '\0';
        buf_done(&c->dependencies);
}

static int write_file(const char *directory, const char *name, const void *data, size_t size)
{
        char path[320];
        _cleanup_fd_ int fd = -1;

        snprintf(path, sizeof(path), "%s/%s", directory, name);
        for (char *at = path + strlen(directory) + 1; (at = strchr(at, '/')); *at++ = '/') {
                *at = '\0';
                mkdir(path, 0700);
        }
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        return fd < 0 ? -errno : fd_write_full(fd, data, size);
}

/* The name of the code's file. */
static void compile_name(const struct compile_job *job, char *ret, size_t size)
{
        const char *slash = job->filename ? strrchr(job->filename, '/') : NULL,
                   *name = slash ? slash + 1 : job->filename;

        if (!name || !*name || *name == '.' || *name == '-' || strlen(name) > 100 || !is_inside(name))
                name = job->is_cpp ? "main.cpp" : "main.c";
        snprintf(ret, size, "%s", name);
}

static int write_sources(const struct compile_job *job, const char *main_name, const char *directory,
                         struct compile_error *e)
{
        _cleanup_buf_ struct buf text = BUF_INIT(SIZE_MAX / 2);
        const char *name;
        json_t *value;
        int r = job->is_body ? compile_wrap_body(job, main_name, &text)
                             : buf_append(&text, job->code, strlen(job->code));

        if (r == 0)
                r = write_file(directory, main_name, text.data ? text.data : "", text.size);
        json_object_foreach ((json_t *)part(job, "sources"), name, value) /* NOLINT: only read */
                if (r == 0)
                        r = write_file(directory, name, json_string_value(value), json_string_length(value));
        return r < 0 ? fail(e, "BuildError", "write the sources: %s", strerror(-r)) : 0;
}

/* -- the command ---------------------------------------------------------------------------------------------- */

struct command {
        const char *words[WORDS_MAX];
        size_t count;
        char *owned[WORDS_MAX];
        size_t owned_count;
};

static void add(struct command *c, const char *word)
{
        if (c->count + 1 < WORDS_MAX)
                c->words[c->count++] = word;
}

static void add_made(struct command *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add_made(struct command *c, const char *format, ...)
{
        va_list list;
        char *made;

        va_start(list, format);
        if (c->count + 1 < WORDS_MAX && vasprintf(&made, format, list) > 0) {
                c->owned[c->owned_count++] = made;
                add(c, made);
        }
        va_end(list);
}

static void command_done(struct command *c)
{
        while (c->owned_count > 0)
                free(c->owned[--c->owned_count]);
}

static void add_sources(struct command *c, const struct compile_job *job, const char *main_name, const char *directory)
{
        const char *name;
        json_t *value;

        add(c, "-x");
        add(c, job->is_cpp ? "c++" : "c");
        add_made(c, "%s/%s", directory, main_name);
        json_object_foreach ((json_t *)part(job, "sources"), name, value) { /* NOLINT: only read */
                enum source_kind kind = kind_of(name);

                if (kind == SOURCE_HEADER)
                        continue;
                add(c, "-x");
                add(c, kind == SOURCE_C ? "c" : kind == SOURCE_CPP ? "c++" : "assembler-with-cpp");
                add_made(c, "%s/%s", directory, name);
        }
        add(c, "-x");
        add(c, "none");
}

/* The compilers' own default is C++17. With C among the sources it stays, because a standard
 * holds for all of a command. */
static const char *standard_of(const struct compile_job *job)
{
        const char *name, *standard = json_string_value(part(job, "standard"));
        json_t *value;

        if (standard || !job->is_cpp)
                return standard;
        json_object_foreach ((json_t *)part(job, "sources"), name, value) /* NOLINT: only read */
                if (kind_of(name) == SOURCE_C)
                        return NULL;
        return "gnu++20";
}

/* -O2 costs 5 ms of 50 for a small function of C, but a third of the time of C++, where -O1 has most of its effect. */
static void make_command(struct command *c, const struct compile_job *job, const char *main_name,
                         const struct compiled *to)
{
        const char *standard = standard_of(job);
        const json_t *flags = part(job, "flags");

        add(c, ""); /* the compiler */
        add(c, "-pipe");
        add(c, "-g");
        add(c, job->is_cpp ? "-O1" : "-O2");
        add(c, "-fno-ipa-icf"); /* every function has debug information of its own, also one identical to another */
        if (standard)
                add_made(c, "-std=%s", standard);
        add(c, "-fdiagnostics-color=never");
        add_made(c, "-ffile-prefix-map=%s/=", to->directory);
        add_made(c, "-iquote%s", to->directory);
        add(c, "-iquote.");
        if (job->target == COMPILE_LIBRARY) {
                add(c, "-fPIC");
                add(c, "-shared");
                /* The user's own functions come before those of the C library that have the same name. */
                add(c, "-Wl,-Bsymbolic-functions");
                if (!job->is_partial)
                        add(c, "-Wl,-z,defs");
        }
        for (size_t i = 0; i < json_array_size(flags); i++)
                if (!starts(json_string_value(json_array_get(flags, i)), "-l"))
                        add(c, json_string_value(json_array_get(flags, i)));
        add_sources(c, job, main_name, to->directory);
        add(c, "-o");
        add(c, to->object);
        for (size_t i = 0; i < json_array_size(flags); i++)
                if (starts(json_string_value(json_array_get(flags, i)), "-l"))
                        add(c, json_string_value(json_array_get(flags, i)));
        add(c, "-lm");
        add(c, "-lpthread");
        c->words[c->count] = NULL;
}

/* -- running it ----------------------------------------------------------------------------------------------- */

/* The compiler's environment: messages in English, dependencies written to a file. */
static char **environment(const char *directory)
{
        size_t count = 0, kept = 0;
        char **made;

        while (environ[count])
                count++;
        made = calloc(count + 3, sizeof(*made));
        for (size_t i = 0; made && i < count; i++)
                if (!starts(environ[i], "LC_") && !starts(environ[i], "LANGUAGE=") &&
                    !starts(environ[i], "SUNPRO_DEPENDENCIES=") && !starts(environ[i], "DEPENDENCIES_OUTPUT=") &&
                    !starts(environ[i], "GCC_"))
                        made[kept++] = environ[i];
        if (made && asprintf(&made[kept], "SUNPRO_DEPENDENCIES=%s" DEPENDENCIES_NAME " cloche", directory) > 0)
                made[kept + 1] = strdup("LC_ALL=C.UTF-8");
        return made;
}

static void environment_done(char **made)
{
        size_t count = 0;

        while (made && made[count])
                count++;
        if (count >= 2) {
                free(made[count - 1]);
                free(made[count - 2]);
        }
        free(made);
}

static pid_t start(const char *const *compilers, struct command *c, char **env, int output)
{
        posix_spawn_file_actions_t actions;
        pid_t pid = -1;
        int r = ENOENT;

        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
        posix_spawn_file_actions_adddup2(&actions, output, 1);
        posix_spawn_file_actions_adddup2(&actions, output, 2);
        for (; r == ENOENT && *compilers; compilers++) {
                c->words[0] = *compilers;
                r = posix_spawnp(&pid, *compilers, &actions, NULL, (char *const *)c->words,
                                 env); /* NOLINT: not written */
        }
        posix_spawn_file_actions_destroy(&actions);
        errno = r;
        return r ? -1 : pid;
}

static void read_all(int fd, struct buf *out)
{
        char rest[4096];

        for (;;) {
                char *room = out->max - out->size >= sizeof(rest) ? buf_reserve(out, sizeof(rest)) : NULL;
                ssize_t n = read(fd, room ? room : rest, sizeof(rest));

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return;
                if (room)
                        out->size += (size_t)n;
        }
}

/* The exit status; -1 with errno. */
static int run_compiler(const struct compile_job *job, struct command *command, const char *directory,
                        struct buf *output)
{
        static const char *const c_compilers[] = {"gcc", "cc", "clang", NULL};
        static const char *const cpp_compilers[] = {"g++", "c++", "clang++", NULL};
        char **env = environment(directory);
        int ends[2], status = -1;
        pid_t pid;

        if (!env || pipe2(ends, O_CLOEXEC) < 0) {
                environment_done(env);
                return -1;
        }
        pid = start(job->is_cpp ? cpp_compilers : c_compilers, command, env, ends[1]);
        close(ends[1]);
        if (pid > 0) {
                read_all(ends[0], output);
                while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                        ;
                errno = 0;
        }
        close(ends[0]);
        environment_done(env);
        return pid > 0 ? status : -1;
}

/* -- diagnostics ---------------------------------------------------------------------------------------------- */

/* Without the directories: with the user's file names. */
static char *in_user_terms(const struct buf *output, const char *directory)
{
        char *text = calloc(1, output->size + 1), *to = text;
        char prefixes[2][4100] = {"", ""};

        if (!text)
                return NULL;
        snprintf(prefixes[0], sizeof(prefixes[0]), "%s/", directory);
        if (getcwd(prefixes[1], sizeof(prefixes[1]) - 1))
                strcat(prefixes[1], "/");
        for (size_t at = 0; at < output->size;) {
                size_t skipped = 0;

                for (size_t i = 0; i < 2; i++) {
                        size_t size = strlen(prefixes[i]);

                        if (size > 1 && at + size <= output->size && size > skipped &&
                            memcmp(output->data + at, prefixes[i], size) == 0)
                                skipped = size;
                }
                if (skipped == 0 && output->data[at])
                        *to++ = output->data[at];
                at += skipped ? skipped : 1;
        }
        return text;
}

static int copy_line(const char *at, const char *from, char *ret, size_t size)
{
        size_t length = strcspn(at, "\n"), kept = (size_t)(from - at) < length ? length - (size_t)(from - at) : 0;

        snprintf(ret, size, "%.*s", (int)(kept < size ? kept : size - 1), from);
        return 1;
}

static const char *find_in_line(const char *line, const char *what)
{
        const char *found = strstr(line, what);

        return found && found < line + strcspn(line, "\n") ? found : NULL;
}

/* The first line with an error: "main.c:3:5: error: ...", or the linker's own. */
static void summarize(const char *text, char *ret, size_t size)
{
        static const char *const signs[] = {": undefined reference to ",
                                            ": multiple definition of ",
                                            "ld: cannot find ",
                                            ": error: ",
                                            ": fatal error: ",
                                            "error: ",
                                            NULL};

        for (const char *const *sign = signs; *sign; sign++)
                for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
                        const char *from = line, *ld;

                        if (!find_in_line(line, *sign))
                                continue;
                        ld = find_in_line(line, "ld: ");
                        copy_line(line, ld ? ld + 4 : from, ret, size);
                        return;
                }
        copy_line(text, text, ret, size);
}

static void tell_warnings(const char *text)
{
        size_t size = strlen(text);

        if (size)
                fd_write_full(2, text, size);
}

static int judge(int status, struct buf *output, struct compiled *to, struct compile_error *e)
{
        if (status < 0)
                return errno == ENOENT
                               ? fail(e, "BuildError", "the image has no compiler (gcc, cc or clang; g++ for C++)")
                               : fail(e, "BuildError", "start the compiler: %s", strerror(errno));
        e->text = in_user_terms(output, to->directory);
        if (!e->text)
                return fail(e, "BuildError", "no memory");
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
                tell_warnings(e->text);
                compile_error_done(e);
                return 0;
        }
        if (WIFSIGNALED(status))
                return fail(e, "CompileError", "the compiler was ended by signal %d", WTERMSIG(status));
        e->type = "CompileError";
        summarize(e->text, e->message, sizeof(e->message));
        return -1;
}

/* -- dependencies --------------------------------------------------------------------------------------------- */

/* Dependencies are unknown if the compiler's list cannot be read whole. */
static void note_dependencies(struct compiled *c)
{
        _cleanup_buf_ struct buf text = BUF_INIT(DEPENDENCIES_BYTES_MAX);
        char path[96], *room;
        struct stat st;
        _cleanup_fd_ int fd = -1;

        snprintf(path, sizeof(path), "%s" DEPENDENCIES_NAME, c->directory);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0)
                return;
        room = buf_reserve(&text, (size_t)st.st_size);
        if (room && fd_read_full(fd, room, (size_t)st.st_size) == 0)
                dependencies_parse(room, (size_t)st.st_size, c->directory, &c->dependencies);
}

/* The compiler is a dependency: another one compiles anew. */
static void note_compiler(struct compiled *c, const char *name)
{
        const char *path = getenv("PATH");
        char whole[512];

        for (const char *at = path ? path : "/usr/bin:/bin"; *at; at += strcspn(at, ":"), at += *at == ':') {
                snprintf(whole, sizeof(whole), "%.*s/%s", (int)strcspn(at, ":"), at, name);
                if (access(whole, X_OK) < 0)
                        continue;
                dependencies_append(&c->dependencies, whole, strlen(whole));
                return;
        }
}

int compile(const struct compile_job *job, struct compiled *ret, struct compile_error *e)
{
        _cleanup_buf_ struct buf output = BUF_INIT(OUTPUT_BYTES_MAX);
        struct command command = {0};
        char main_name[128];
        int r, status;

        *ret = (struct compiled){0};
        *e = (struct compile_error){0};
        compile_name(job, main_name, sizeof(main_name));
        if (check_job(job, main_name, e) < 0)
                return -1;
        if (compile_directory(ret) < 0)
                return fail(e, "BuildError", "make a directory to compile in: %s", strerror(errno));
        r = write_sources(job, main_name, ret->directory, e);
        if (r == 0) {
                make_command(&command, job, main_name, ret);
                status = run_compiler(job, &command, ret->directory, &output);
                r = judge(status, &output, ret, e);
                if (r == 0)
                        note_dependencies(ret);
                if (r == 0 && ret->dependencies.size > 0)
                        note_compiler(ret, command.words[0]);
                command_done(&command);
        }
        if (r < 0)
                compiled_done(ret);
        return r;
}
