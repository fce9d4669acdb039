/* The agent of C and C++: compiles the code with the image's compiler, loads it into itself, finds
 * the function and its types in the debug information, and calls it.
 *
 *   cloche-native c | cpp                     serves the channel (spec/agent.md)
 *   cloche-native c | cpp run SCRIPT [ARG…]   compiles a program and becomes it */
#include "artifact.h"
#include "base/fd.h"
#include "box/agent/agent.h"
#include "compile.h"
#include "find.h"
#include "invoke.h"
#include "load.h"
#include "wire/rpc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ARTIFACT_BYTES_MAX (256u << 20)
#define SCRIPT_BYTES_MAX (64u << 20)

/* A compiled piece of code. */
struct unit {
        char *code;
        char *filename;
        json_t *build;
        unsigned is_body : 1;
        unsigned is_built : 1; /* to.object exists */
        unsigned is_loaded : 1;
        struct compiled to;
        struct loaded loaded;
};

struct native {
        int is_cpp;
        char folder[400];  /* this program's folder */
        struct unit built; /* the result of `build` or `prepare`, for the next request */
        int has_prefix;    /* after `prepare`: other code may use its names */
        struct agent *agent;
        /* Set while the user's code runs. */
        pid_t pid;
};

/* -- units ---------------------------------------------------------------------------------------------------- */

static void forget(struct unit *u)
{
        compiled_done(&u->to);
        free(u->code);
        free(u->filename);
        json_decref(u->build);
        *u = (struct unit){0};
}

static int is_same(const struct unit *u, const struct agent_request *q, int is_body)
{
        return u->is_built && u->is_body == (unsigned)is_body && strcmp(u->code, q->code) == 0 &&
               (u->build == q->build || (u->build && q->build && json_equal(u->build, q->build)));
}

static void name_unit(struct unit *u, const struct agent_request *q, int is_body)
{
        u->code = strdup(q->code);
        u->filename = strdup(q->filename ? q->filename : "");
        u->build = json_deep_copy(q->build);
        u->is_body = is_body != 0;
}

static int throw_compile(struct agent_reply *reply, struct compile_error *e)
{
        agent_throw(reply, e->type, e->text, "%s", e->message);
        compile_error_done(e);
        return -1;
}

static int compile_unit(const struct native *n, struct unit *u, const struct agent_request *q, int is_body,
                        struct compile_error *e)
{
        struct compile_job job = {
                .is_cpp = n->is_cpp,
                .code = q->code,
                .filename = q->filename,
                .build = q->build,
                .is_body = is_body != 0,
                .is_partial = n->has_prefix != 0,
        };

        forget(u);
        if (strlen(q->code) != q->code_size) {
                *e = (struct compile_error){.type = "CompileError", .message = "the code has a NUL in it"};
                return -1;
        }
        if (compile(&job, &u->to, e) < 0)
                return -1;
        name_unit(u, q, is_body);
        u->is_built = 1;
        return 0;
}

/* Code without a function may be declarations, or the body of one: the first form that compiles counts. */
static int compile_either(const struct native *n, struct unit *u, const struct agent_request *q,
                          struct compile_error *e)
{
        enum compile_shape shape = q->function ? SHAPE_PROGRAM : compile_shape(q->code);
        struct compile_error other;
        int r = compile_unit(n, u, q, shape == SHAPE_BODY, e);

        if (r == 0 || strcmp(e->type, "CompileError") != 0 || shape != SHAPE_UNKNOWN)
                return r;
        r = compile_unit(n, u, q, 1, &other);
        compile_error_done(e);
        *e = other;
        return r;
}

/* Loading runs its own constructors, which may print. */
static int load_unit(struct native *n, struct unit *u, enum load_mode mode, struct agent_reply *reply)
{
        char why[500];
        int r;

        if (u->is_loaded)
                return 0;
        n->pid = getpid();
        r = load(u->to.object, n->folder, n->is_cpp, mode, &u->loaded, why, sizeof(why));
        n->pid = 0;
        if (r < 0)
                return agent_throw(reply, "CompileError", NULL, "%s", why);
        u->is_loaded = 1;
        compiled_done(&u->to);
        return 0;
}

/* -- the user's code runs ------------------------------------------------------------------------------------- */

static void begin(void *data)
{
        struct native *n = data;

        n->pid = getpid();
}

static void flush(const struct loaded *l)
{
        if (l->flush)
                l->flush();
        fflush(NULL);
}

static void end(void *data)
{
        struct native *n = data;

        n->pid = 0;
        if (n->built.is_loaded)
                flush(&n->built.loaded);
}

/* exit() within the function: without this no response would be sent. */
static void on_exit_of_code(int status, void *data)
{
        struct native *n = data;
        char text[64];

        if (n->pid != getpid())
                return;
        n->pid = 0;
        fflush(NULL);
        snprintf(text, sizeof(text), "exit(%d)", status);
        agent_fail_now(n->agent, "SystemExit", text);
}

static int call_function(struct native *n, struct unit *u, const struct function *f, const struct agent_request *q,
                         struct agent_reply *reply)
{
        struct invocation v = {
                .request = q,
                .reply = reply,
                .library = &u->loaded.library,
                .catch = u->loaded.catch,
                .begin = begin,
                .end = end,
                .data = n,
        };
        int r;

        r = find_is_main(f) ? invoke_main(&v, f, u->filename && *u->filename ? u->filename : "main") : invoke(&v, f);
        flush(&u->loaded);
        return r;
}

static int call_unit(struct native *n, struct unit *u, const struct agent_request *q, struct agent_reply *reply)
{
        struct function *f = find_function(&u->loaded, q, reply);

        return f ? call_function(n, u, f, q, reply) : -1;
}

/* -- default arguments of C++ --------------------------------------------------------------------------------- */

/* The number of parameters up to the last one with an argument. */
static size_t last_given(const struct function *f, const struct agent_request *q)
{
        size_t last = json_array_size(q->args);

        while (last > 0 && agent_is_hole(q, last - 1))
                last--;
        for (size_t i = last; i < f->parameter_count; i++)
                if (f->parameters[i].name && json_object_get(q->kwargs, f->parameters[i].name))
                        last = i + 1;
        return last;
}

/* The function, if there are fewer arguments than parameters; else NULL. Loads nothing. */
static struct function *find_short_of(struct unit *u, const struct agent_request *q)
{
        struct agent_reply unheard = {.attachments = BUF_INIT(0)};
        struct loaded l = u->loaded;
        struct function *f;
        size_t least, most;
        char why[200];

        if (!u->is_loaded)
                l.program = program_read(u->to.object, 0, why, sizeof(why));
        f = l.program ? find_function(&l, q, &unheard) : NULL;
        json_decref(unheard.error);
        if (!f || f->needs_object || f->is_variadic || find_is_main(f))
                return NULL;
        invoke_arity(f, &least, &most);
        return find_given_count(q) < least && last_given(f, q) < f->parameter_count ? f : NULL;
}

/* The code, followed by a function that calls f with its first arguments only: the compiler
 * fills in the others, or reports an error. */
static char *with_caller(const struct function *f, size_t given, const char *code)
{
        static const char *const forms[] = {"", " noexcept"};
        char *text = NULL;
        size_t size;
        FILE *out = open_memstream(&text, &size);

        fprintf(out, "%s\n#line 1 \"default arguments\"\ntemplate <class T> struct cloche_defaults;\n", code);
        for (size_t form = 0; form < 2; form++) {
                fprintf(out, "%stemplate <class R", form ? "#ifdef __cpp_noexcept_function_type\n" : "");
                for (size_t i = 0; i < given; i++)
                        fprintf(out, ", class A%zu", i);
                fprintf(out, ", class... Z> struct cloche_defaults<R(");
                for (size_t i = 0; i < given; i++)
                        fprintf(out, "A%zu, ", i);
                fprintf(out, "Z...)%s> { static R call(", forms[form]);
                for (size_t i = 0; i < given; i++)
                        fprintf(out, "%sA%zu a%zu", i ? ", " : "", i, i);
                fprintf(out, ") { return ::%s(", f->name);
                for (size_t i = 0; i < given; i++)
                        fprintf(out, "%sstatic_cast<A%zu &&>(a%zu)", i ? ", " : "", i, i);
                fprintf(out, "); } };\n%s", form ? "#endif\n" : "");
        }
        fprintf(out, "template struct cloche_defaults<decltype(::%s)>;\n", f->name);
        return fclose(out) == 0 ? text : NULL;
}

static struct function *find_caller(struct loaded *l)
{
        size_t count;
        struct function *all = program_functions(l->program, &count);

        for (size_t i = 0; i < count; i++)
                if (strncmp(all[i].name, "cloche_defaults<", 16) == 0)
                        return &all[i];
        return NULL;
}

/* 1: called, with the response's r in *ret_r; 0: there are no such defaults. */
static int call_with_defaults(struct native *n, struct unit *u, const struct agent_request *q,
                              struct agent_reply *reply, int *ret_r)
{
        struct function *f = n->is_cpp && !u->is_body ? find_short_of(u, q) : NULL, *caller;
        struct agent_request longer = *q;
        struct unit own = {0};
        struct compile_error e;
        char *code;

        if (!f)
                return 0;
        code = with_caller(f, last_given(f, q), q->code);
        longer.code = code;
        longer.code_size = code ? strlen(code) : 0;
        if (!code || compile_unit(n, &own, &longer, 0, &e) < 0) {
                if (code)
                        compile_error_done(&e);
                free(code);
                return 0;
        }
        free(code);
        *ret_r = load_unit(n, &own, LOAD_OWN, reply);
        if (*ret_r < 0)
                return 1;
        caller = find_caller(&own.loaded);
        if (!caller)
                return 0;
        program_read_function(own.loaded.program, caller);
        caller->prototype = f->prototype;
        caller->place = f->place;
        for (size_t i = 0; i < caller->parameter_count; i++)
                caller->parameters[i].name = f->parameters[i].name;
        *ret_r = call_function(n, &own, caller, q, reply);
        return 1;
}

/* -- requests ------------------------------------------------------------------------------------------------- */

static struct native *data_of(struct agent *a)
{
        struct native *n = agent_data(a);

        n->agent = a;
        return n;
}

static int wants_body(const struct agent_request *q)
{
        return !q->function && compile_shape(q->code) != SHAPE_PROGRAM;
}

static int use_artifact(struct native *n, const struct agent_request *q)
{
        struct unit *u = &n->built;
        const unsigned char *data;
        unsigned flags;
        size_t size;

        if (!q->artifact || !agent_bytes(q, q->artifact, &data, &size))
                return 0;
        forget(u);
        if (compile_directory(&u->to) < 0)
                return 0;
        if (!artifact_unpack(data, size, u->to.object, &flags)) {
                forget(u);
                return 0;
        }
        name_unit(u, q, flags & 1);
        u->is_built = 1;
        return 1;
}

/* Only compiles: code that has run could change the bytes that are kept for later runs. */
static int handle_build(struct agent *a, const struct agent_request *q, struct agent_reply *reply)
{
        struct native *n = agent_data(a);
        _cleanup_buf_ struct buf artifact = BUF_INIT(ARTIFACT_BYTES_MAX);
        struct compile_error e;

        if (use_artifact(n, q))
                return 0;
        if (compile_either(n, &n->built, q, &e) < 0)
                return throw_compile(reply, &e);
        /* Without a list of dependencies nothing is kept. */
        if (n->built.to.dependencies.size > 0 &&
            artifact_pack(n->built.to.object, &n->built.to.dependencies, n->built.is_body, &artifact) == 0)
                reply->value = agent_attach(reply, artifact.data, artifact.size);
        return 0;
}

static int handle_prepare(struct agent *a, const struct agent_request *q, struct agent_reply *reply)
{
        struct native *n = data_of(a);
        struct compile_error e;
        struct function *all;
        size_t count;

        if (!is_same(&n->built, q, 0) && !is_same(&n->built, q, 1) && compile_either(n, &n->built, q, &e) < 0)
                return throw_compile(reply, &e);
        if (load_unit(n, &n->built, LOAD_GLOBAL, reply) < 0)
                return -1;
        n->has_prefix = 1;
        /* Read here, so that no child has to. */
        all = program_functions(n->built.loaded.program, &count);
        for (size_t i = 0; i < count; i++)
                if (all[i].is_public || (q->function && find_answers_to(&all[i], q->function)))
                        program_read_function(n->built.loaded.program, &all[i]);
        flush(&n->built.loaded);
        return 0;
}

static int handle_call(struct agent *a, const struct agent_request *q, struct agent_reply *reply)
{
        struct native *n = data_of(a);
        struct unit own = {0}, *u = &n->built;
        struct compile_error e;
        int r;

        if (!is_same(u, q, 0) && !is_same(u, q, 1)) {
                u = &own;
                if (compile_unit(n, u, q, wants_body(q), &e) < 0)
                        return throw_compile(reply, &e);
        } else if (wants_body(q) && !u->is_body) { /* declarations, which cannot be called */
                u = &own;
                if (compile_unit(n, u, q, 1, &e) < 0)
                        return throw_compile(reply, &e);
        }
        if (call_with_defaults(n, u, q, reply, &r))
                return r;
        if (load_unit(n, u, LOAD_LOCAL, reply) < 0)
                return -1;
        /* A function of the set-up may be called by its name. */
        if (u == &own && n->has_prefix && q->function && !find_has(&u->loaded, q->function) &&
            find_has(&n->built.loaded, q->function))
                u = &n->built;
        return call_unit(n, u, q, reply);
}

/* Before the first request: pages that a call will touch are copied from the template now, by a call
 * of a function that the code cannot have. Nothing of the code runs. */
static void get_ready(struct agent *a)
{
        const struct unit *u = &data_of(a)->built;

        if (u->is_loaded)
                agent_rehearse(a, "call",
                               json_pack("{s:s, s:s, s:s, s:[s,i,f], s:{}, s:i, s:O*}", "code", u->code, "filename",
                                         u->filename, "function", " ", "args", "text", 1, 2.5, "kwargs", "resultBytes",
                                         65536, "build", u->build));
}

/* -- scripts -------------------------------------------------------------------------------------------------- */

static int show(struct compile_error *e)
{
        fprintf(stderr, "%s%s%s", e->text ? e->text : e->message, e->text ? "" : "\n", "");
        compile_error_done(e);
        return 1;
}

static char **words_of(const struct agent_request *q, int *ret_count)
{
        size_t count = json_array_size(q->argv);
        char **words = calloc(count + 2, sizeof(*words));

        words[0] = strdup(q->filename ? q->filename : "main");
        for (size_t i = 0; i < count; i++)
                words[i + 1] = strdup(json_string_value(json_array_get(q->argv, i)));
        *ret_count = (int)count + 1;
        return words;
}

/* A script of a template: its main runs in this process. */
static int handle_run(struct agent *a, const struct agent_request *q)
{
        struct native *n = agent_data(a);
        struct unit u = {0};
        struct compile_error e;
        struct agent_reply reply = {0};
        int (*main_function)(int, char **, char **), count;
        char **words;
        struct function *f;

        if (compile_unit(n, &u, q, compile_shape(q->code) != SHAPE_PROGRAM, &e) < 0)
                return show(&e);
        if (load_unit(n, &u, LOAD_LOCAL, &reply) < 0 || !(f = find_main(&u.loaded))) {
                fprintf(stderr, "%s\n",
                        reply.error ? json_string_value(json_object_get(reply.error, "message"))
                                    : "the code has no main");
                return 1;
        }
        words = words_of(q, &count);
        memcpy(&main_function, &f->address, sizeof(main_function));
        exit(main_function(count, words, environ));
}

static char *read_script(const char *path, size_t *ret_size)
{
        _cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        struct stat st;
        char *text = NULL;

        if (fd < 0 || fstat(fd, &st) < 0 || st.st_size > SCRIPT_BYTES_MAX ||
            !(text = calloc(1, (size_t)st.st_size + 1)) || fd_read_full(fd, text, (size_t)st.st_size) < 0) {
                fprintf(stderr, "%s: %s\n", path, errno ? strerror(errno) : "too large");
                free(text);
                return NULL;
        }
        *ret_size = (size_t)st.st_size;
        return text;
}

#define CHANNEL_FD 3
#define CALL_ID 1
#define THREW (-32000) /* spec/agent.md */

/* Shows the engine that the code did not compile, unlike a program that exits with 1; the
 * program itself never has the channel. */
static int send_failure(const struct compile_error *e)
{
        _cleanup_buf_ struct buf out = BUF_INIT(1 << 20);
        json_t *data = json_pack("{s:s, s:s}", "type", e->type ? e->type : "BuildError", "message", e->message);
        struct stat st;

        if (fstat(CHANNEL_FD, &st) < 0 || !S_ISSOCK(st.st_mode)) {
                json_decref(data);
                return -1;
        }
        if (rpc_error(json_integer(CALL_ID), THREW, e->message, data, &out, NULL) < 0)
                return -1;
        return fd_write_full(CHANNEL_FD, out.data, out.size);
}

static int show_failure(struct compile_error *e)
{
        struct compile_error sent = {.type = e->type};

        snprintf(sent.message, sizeof(sent.message), "%s", e->message);
        (void)show(e);
        if (send_failure(&sent) <
            0) /* on a terminal there is no channel, and a program may exit with this code as well */
                fprintf(stderr, "cloche: error: %s: %s\n", sent.type ? sent.type : "BuildError", sent.message);
        return CLOCHE_EXIT_NOT_COMPILED;
}

/* Compile, and become the program; its file is deleted before. */
static int run_script(int is_cpp, char **words)
{
        struct compile_job job = {.is_cpp = is_cpp, .target = COMPILE_PROGRAM, .filename = words[0]};
        struct compiled to;
        struct compile_error e;
        size_t size;
        char *code = read_script(words[0], &size);
        int fd;

        (void)fcntl(CHANNEL_FD, F_SETFD, FD_CLOEXEC);
        if (!code)
                return 1;
        if (strlen(code) != size) {
                fprintf(stderr, "%s: the code has a NUL in it\n", words[0]);
                return 1;
        }
        job.code = code;
        job.is_body = compile_shape(code) != SHAPE_PROGRAM;
        if (compile(&job, &to, &e) < 0)
                return show_failure(&e);
        fd = open(to.object, O_RDONLY | O_CLOEXEC);
        compiled_done(&to);
        if (fd >= 0)
                fexecve(fd, words, environ);
        fprintf(stderr, "start the program: %s\n", strerror(errno));
        return 1;
}

/* -- main ----------------------------------------------------------------------------------------------------- */

static void find_folder(const char *self, char *ret, size_t size)
{
        const char *slash = strrchr(self, '/');

        snprintf(ret, size, "%.*s", slash ? (int)(slash - self) : 1, slash ? self : ".");
}

int main(int argc, char **argv)
{
        static struct native n;
        static const struct agent_language language = {
                .prepare = handle_prepare,
                .call = handle_call,
                .run = handle_run,
                .build = handle_build,
                .get_ready = get_ready,
        };
        int is_cpp = argc > 1 && strcmp(argv[1], "cpp") == 0;

        if (argc < 2 || (!is_cpp && strcmp(argv[1], "c") != 0) ||
            (argc > 2 && (strcmp(argv[2], "run") != 0 || argc < 4))) {
                fprintf(stderr, "usage: %s c|cpp [run SCRIPT [ARG...]]\n", argv[0]);
                return 2;
        }
        if (argc > 2)
                return run_script(is_cpp, argv + 3);
        n.is_cpp = is_cpp;
        find_folder(argv[0], n.folder, sizeof(n.folder));
        /* A killed run must not lose the lines it printed. */
        setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
        on_exit(on_exit_of_code, &n);
        return agent_serve(&language, &n);
}
