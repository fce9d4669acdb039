/* cloche-image: the image store. Runs in: its own process, as the store's owner, outside any box;
 * it reads archives from anyone.
 *
 *     cloche-image STORE_FD DATA_FD CONTROL_FD [read]
 *
 * STORE_FD is the store's directory. DATA_FD is the source of an import (a directory, a file, a
 * pipe) or the output of an export; else /dev/null. CONTROL_FD is a stream socket to the client
 * (README.md); the process exits when it closes. With "read" it can change nothing in the store. */
#include "commit.h"
#include "confine.h"
#include "export.h"
#include "helpers/image/store/builds.h"
#include "helpers/image/store/record.h"
#include "helpers/image/tree/linker.h"
#include "import.h"
#include "manage.h"

#include "base/err.h"
#include "base/fd.h"
#include "base/privilege.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>

enum { STORE_FD = 3, DATA_FD, CONTROL_FD, FD_END };
#define REQUEST_BYTES_MAX (1u << 20) /* the names of all trees that a daemon uses */
#define NOTIFY_BYTES_MAX (64u << 10)
#define SOURCE_TEXT_MAX 4096

struct program {
        struct server server;
        struct store store;
        struct work work;
        struct confinement confinement;
        const char *architecture;
};

/* -- parameters ----------------------------------------------------------------------------------------------- */

/* A text member of a request. is_needed: absent is an error. */
static int read_text(const json_t *params, const char *name, bool is_needed, const char **ret, struct cloche_err *e)
{
        const json_t *member = json_object_get(params, name);

        *ret = json_string_value(member);
        if ((!member || json_is_null(member)) && !is_needed)
                return 0;
        return *ret && strlen(*ret) == json_string_length(member) && strlen(*ret) <= SOURCE_TEXT_MAX
                       ? 0
                       : err_set(e, CLOCHE_E_INVALID_ARGUMENT, "%s: expected a text", name);
}

/* The name of processors in images (GOARCH). */
static const char *architecture_of(const char *machine)
{
        static const struct {
                const char *machine, *name;
        } names[] = {
                {"x86_64", "amd64"}, {"aarch64", "arm64"},   {"armv7l", "arm"},  {"riscv64", "riscv64"},
                {"i686", "386"},     {"ppc64le", "ppc64le"}, {"s390x", "s390x"}, {"loongarch64", "loong64"},
        };

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                if (strcmp(names[i].machine, machine) == 0)
                        return names[i].name;
        return "unknown";
}

/* -- requests ------------------------------------------------------------------------------------------------- */

static int handle_open(void *argument, const json_t *params, struct server_reply *ret, struct cloche_err *e)
{
        struct program *p = argument;
        struct stat status;
        int abi = 0, r;

        (void)params;
        r = store_open(&p->store, STORE_FD, p->confinement.keeps_ids, p->confinement.is_reader, e);

        if (r == 0)
                r = confine_files(&p->confinement, STORE_FD,
                                  fstat(DATA_FD, &status) == 0 && S_ISDIR(status.st_mode) ? DATA_FD : -EBADF, &abi, e);
        if (r == 0 && !p->confinement.is_reader)
                r = linker_start(&p->work.linker, e);
        if (r == 0)
                r = confine_calls(&p->confinement, e);
        if (r == 0)
                ret->result = json_pack("{s:i, s:b}", "landlock", abi, "keepsIds", p->confinement.keeps_ids);
        return r;
}

static int handle_import(void *argument, const json_t *params, struct server_reply *ret, struct cloche_err *e)
{
        struct program *p = argument;
        char reference[STORE_REFERENCE_SIZE];
        struct import_options options = {.reference = reference, .architecture = p->architecture};
        const char *name;
        int r = read_text(params, "source", true, &options.source, e);

        if (r == 0)
                r = read_text(params, "tag", false, &options.tag, e);
        if (r == 0)
                r = read_text(params, "name", true, &name, e);
        if (r == 0)
                r = reference_read(name, reference, e);
        options.keeps_names = json_is_true(json_object_get(params, "keep"));
        return r == 0 ? import_run(&p->store, DATA_FD, &options, &p->work, &ret->result, e) : r;
}

/* A name is optional: a build step has none. */
static int read_commit(const json_t *params, struct commit_options *ret, char reference[STORE_REFERENCE_SIZE],
                       struct cloche_err *e)
{
        const char *name, *key;
        int r = read_text(params, "tree", false, &ret->tree, e);

        ret->config = json_object_get(params, "config");
        ret->keeps_names = json_is_true(json_object_get(params, "keep"));
        if (r == 0 && ret->tree && strncmp(ret->tree, STORE_TREE_PREFIX, strlen(STORE_TREE_PREFIX)) != 0)
                r = err_set(e, CLOCHE_E_INVALID_ARGUMENT, "tree: expected " STORE_TREE_PREFIX "DIGITS");
        if (r == 0)
                r = read_text(params, "base", !ret->tree, &ret->name, e);
        if (r == 0)
                r = read_text(params, "createdBy", false, &ret->created_by, e);
        if (r == 0)
                r = read_text(params, "key", false, &key, e);
        if (r == 0 && key)
                r = builds_key(json_integer_value(json_object_get(params, "principal")), key, ret->key, e);
        if (r == 0)
                r = read_text(params, "name", false, &name, e);
        reference[0] = '\0';
        return r == 0 && name ? reference_read(name, reference, e) : r;
}

static int handle_commit(void *argument, const json_t *params, struct server_reply *ret, struct cloche_err *e)
{
        struct program *p = argument;
        char reference[STORE_REFERENCE_SIZE];
        const json_t *owner = json_object_get(params, "owner"), *group = json_object_get(params, "group"),
                     *time = json_object_get(params, "time");
        const struct changes changes = {.owner = (uint32_t)json_integer_value(owner),
                                        .group = (uint32_t)json_integer_value(group ? group : owner),
                                        .time = json_is_integer(time) ? json_integer_value(time) : -1};
        struct commit_options options = {.reference = reference,
                                         .architecture = p->architecture,
                                         .changes = json_is_integer(owner) ? &changes : NULL};
        int r = read_commit(params, &options, reference, e);

        if (r == 0)
                r = store_refresh(&p->store, e);
        return r == 0 ? commit_run(&p->store, DATA_FD, &options, &p->work, &ret->result, e) : r;
}

/* The image of a build step, if it was made before. */
static int handle_step(void *argument, const json_t *params, struct server_reply *ret, struct cloche_err *e)
{
        struct program *p = argument;
        char key[HASH_TEXT_SIZE], id[HASH_TEXT_SIZE];
        json_t *record = NULL;
        const char *given;
        int r = read_text(params, "key", true, &given, e);

        if (r == 0)
                r = builds_key(json_integer_value(json_object_get(params, "principal")), given, key, e);
        if (r == 0)
                r = store_refresh(&p->store, e);
        if (r == 0)
                r = builds_find(&p->store, key, id, &record, e);
        if (r == 0)
                ret->result = json_pack("{s:s+, s:O}", "id", "sha256:", id, "tree", json_object_get(record, "tree"));
        json_decref(record);
        return r == 0 && !ret->result ? work_no_memory(e) : r;
}

static int handle_list(void *argument, const json_t *params, struct server_reply *ret, struct cloche_err *e)
{
        struct program *p = argument;
        char reference[STORE_REFERENCE_SIZE];
        const char *name;
        int r = read_text(params, "name", false, &name, e);

        if (r == 0 && name)
                r = reference_read(name, reference, e);
        if (r == 0)
                r = store_refresh(&p->store, e);
        return r == 0 ? manage_list(&p->store, json_is_true(json_object_get(params, "own")), &ret->result, e) : r;
}

/* The name of an image to read, in the store as it is now. */
static int read_name(struct program *p, const json_t *params, const char **ret, struct cloche_err *e)
{
        int r = read_text(params, "name", true, ret, e);

        return r == 0 ? store_refresh(&p->store, e) : r;
}

static int handle_inspect(void *argument, const json_t *params, struct server_reply *ret, struct cloche_err *e)
{
        struct program *p = argument;
        const char *name;
        int r = read_name(p, params, &name, e);

        return r == 0 ? manage_inspect(&p->store, name, &ret->result, e) : r;
}

static int handle_resolve(void *argument, const json_t *params, struct server_reply *ret, struct cloche_err *e)
{
        struct program *p = argument;
        const char *name;
        int r = read_name(p, params, &name, e);

        return r == 0 ? manage_resolve(&p->store, name, &ret->result, e) : r;
}

static int handle_verify(void *argument, const json_t *params, struct server_reply *ret, struct cloche_err *e)
{
        struct program *p = argument;
        const char *name;
        int r = read_name(p, params, &name, e);

        return r == 0 ? manage_verify(&p->store, name, &p->work, &ret->result, e) : r;
}

static int handle_remove(void *argument, const json_t *params, struct server_reply *ret, struct cloche_err *e)
{
        struct program *p = argument;
        const char *name;
        int r = read_text(params, "name", true, &name, e);

        return r == 0 ? manage_remove(&p->store, name, &ret->result, e) : r;
}

static int handle_prune(void *argument, const json_t *params, struct server_reply *ret, struct cloche_err *e)
{
        struct program *p = argument;
        const json_t *keep = json_object_get(params, "keepBytes"), *pinned = json_object_get(params, "pinned");

        if (keep && (!json_is_integer(keep) || json_integer_value(keep) < 0))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "keepBytes: expected a number of bytes");
        if (pinned && !json_is_object(pinned))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "pinned: expected an object with names of trees");
        return manage_prune(&p->store, keep ? (uint64_t)json_integer_value(keep) : UINT64_MAX, pinned, &ret->result, e);
}

static int handle_export(void *argument, const json_t *params, struct server_reply *ret, struct cloche_err *e)
{
        struct program *p = argument;
        const char *name;
        int r = read_text(params, "name", true, &name, e);

        return r == 0 ? export_run(&p->store, name, DATA_FD, &p->work, &ret->result, e) : r;
}

static const struct server_method methods[] = {
        {"open", SERVER_OPENS, handle_open},       {"import", SERVER_AFTER, handle_import},
        {"list", SERVER_AFTER, handle_list},       {"inspect", SERVER_AFTER, handle_inspect},
        {"resolve", SERVER_AFTER, handle_resolve}, {"verify", SERVER_AFTER, handle_verify},
        {"remove", SERVER_AFTER, handle_remove},   {"prune", SERVER_AFTER, handle_prune},
        {"export", SERVER_AFTER, handle_export},   {"commit", SERVER_AFTER, handle_commit},
        {"step", SERVER_AFTER, handle_step},       {NULL, SERVER_ALWAYS, NULL},
};

static const struct server_method reader_methods[] = {
        {"open", SERVER_OPENS, handle_open},       {"list", SERVER_AFTER, handle_list},
        {"inspect", SERVER_AFTER, handle_inspect}, {"resolve", SERVER_AFTER, handle_resolve},
        {"verify", SERVER_AFTER, handle_verify},   {NULL, SERVER_ALWAYS, NULL},
};

int main(int argc, char **argv)
{
        static struct program p = {.store = {-EBADF, -EBADF, -EBADF, -EBADF, false}};
        const bool is_reader = argc == 5 && strcmp(argv[4], "read") == 0;
        const struct server_options options = {
                .methods = is_reader ? reader_methods : methods,
                .argument = &p,
                .request_bytes_max = REQUEST_BYTES_MAX,
                .reply_bytes_max = FRAME_BYTES_MAX,
                .notify_bytes_max = NOTIFY_BYTES_MAX,
        };
        struct cloche_err e = {0};
        struct utsname machine;

        if ((argc != 4 && !is_reader) || fd_arrange(argv + 1, FD_END - STORE_FD, STORE_FD) < 0) {
                fprintf(stderr, "usage: cloche-image STORE_FD DATA_FD CONTROL_FD [read]\n");
                return 2;
        }
        p.confinement = (struct confinement){.keeps_ids = privilege_is_root(), .is_reader = is_reader};
        if (confine_capabilities(&p.confinement, &e) < 0) {
                fprintf(stderr, "cloche-image: %s\n", e.msg);
                return 1;
        }
        p.architecture = uname(&machine) < 0 ? "unknown" : architecture_of(machine.machine);
        /* Signals of the terminal end the client; this process then removes its unfinished work. */
        signal(SIGINT, SIG_IGN);
        signal(SIGHUP, SIG_IGN);
        signal(SIGPIPE, SIG_IGN);
        umask(0);
        fd_raise_limit();
        server_init(&p.server, CONTROL_FD, &options);
        p.work.server = &p.server;
        server_run(&p.server);
        server_done(&p.server);
        store_close(&p.store);
        return 0;
}
