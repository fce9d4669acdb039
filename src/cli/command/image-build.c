/* cloche image build and cloche image debian: images of packages. Runs in: the CLI, as its user;
 * mmdebstrap and npm do the work, with the rights of that user. */
#include "cli/build/command.h"
#include "cli/options/options.h"
#include "cli/run/debian-image.h"
#include "cli/run/image-store.h"

#include "base/fd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>

#define MIB (1u << 20)

/* -- the table of the standard image ---------------------------------------------------------------------------- */

struct npm_package {
        const char *name, *version, *machine, *integrity, *program, *path;
};

#define STANDARD_IMAGE(name, suite, ...)
#define STANDARD_DEBIAN(purpose, packages) "," packages
#define STANDARD_NPM(...)
static const char debian_packages[] = "" /* each begins with a comma */
#include <cloche/standard.def>
        ;
#undef STANDARD_IMAGE
#undef STANDARD_DEBIAN
#undef STANDARD_NPM

#define STANDARD_IMAGE(...)
#define STANDARD_DEBIAN(...)
#define STANDARD_NPM(...) {__VA_ARGS__},
static const struct npm_package npm_packages[] = {
#include <cloche/standard.def>
};
#undef STANDARD_IMAGE
#undef STANDARD_DEBIAN
#undef STANDARD_NPM

#define STANDARD_IMAGE(...) \
        {                   \
                __VA_ARGS__ \
        }
#define STANDARD_DEBIAN(...)
#define STANDARD_NPM(...)
static const struct {
        const char *name, *suite;
        unsigned working_mib, store_mib;
} standard =
#include <cloche/standard.def>
        ;
#undef STANDARD_IMAGE
#undef STANDARD_DEBIAN
#undef STANDARD_NPM

/* -- packages of npm -------------------------------------------------------------------------------------------- */

/* It runs on the host, which has npm's configuration. No script of a package runs. The host keys of
 * openssh-server would be the same in all sandboxes. */
static const char hook_begin[] =
        "set -eu\n"
        "umask 022\n"
        "rm -f \"$1/etc/ssh/ssh_host_\"*\n"
        "lib=$1/usr/local/lib\n"
        "cache=$1/tmp/npm\n"
        "mkdir -p \"$lib\" \"$1/usr/local/bin\"\n"
        "cd \"$lib\"\n"
        "cat >package-lock.json <<'END'\n%s\nEND\n"
        "cat >package.json <<'END'\n%s\nEND\n"
        "npm ci --cache \"$cache\" --ignore-scripts --no-audit --no-fund --loglevel=error --fetch-retries=1 >&2 || {\n"
        "echo 'cloche: npm cannot install the packages: its messages stand above (npm config '"
        "'set registry names another registry)' >&2\n"
        "exit 1; }\n"
        "rm -rf \"$cache\" package.json package-lock.json node_modules/.bin "
        "node_modules/.package-lock.json\n"
        "cd \"$1/usr/local/bin\"\n";
static const char hook_link[] = "ln -s '../lib/node_modules/%s/%s' '%s'\n";

static int is_for(const struct npm_package *package, const char *machine)
{
        return !*package->machine || strcmp(package->machine, machine) == 0;
}

/* The row of package-lock.json has the hash, which npm compares. */
static int add_package(json_t *wanted, json_t *locked, const struct npm_package *package)
{
        char path[256];

        snprintf(path, sizeof(path), "node_modules/%s", package->name);
        return json_object_set_new(wanted, package->name, json_string(package->version)) |
               json_object_set_new(locked, path,
                                   json_pack("{s:s, s:s}", "version", package->version, "integrity",
                                             package->integrity));
}

/* Return the script, owned by the caller, or NULL. */
static char *write_hook(const char *machine)
{
        json_t *wanted = json_object(), *locked = json_object(), *root = json_pack("{s:O}", "dependencies", wanted);
        json_t *lock = json_pack("{s:i, s:b, s:O}", "lockfileVersion", 3, "requires", 1, "packages", locked);
        char *hook = NULL, *lock_text, *root_text;
        size_t size;
        FILE *out = open_memstream(&hook, &size);
        int bad = json_object_set(locked, "", root);

        for (size_t i = 0; i < sizeof(npm_packages) / sizeof(npm_packages[0]); i++)
                if (is_for(&npm_packages[i], machine))
                        bad |= add_package(wanted, locked, &npm_packages[i]);
        lock_text = json_dumps(lock, JSON_COMPACT);
        root_text = json_dumps(root, JSON_COMPACT);
        bad |= !lock_text || !root_text || !out;
        if (!bad)
                fprintf(out, hook_begin, lock_text, root_text);
        for (size_t i = 0; !bad && i < sizeof(npm_packages) / sizeof(npm_packages[0]); i++)
                if (is_for(&npm_packages[i], machine))
                        fprintf(out, hook_link, npm_packages[i].name, npm_packages[i].path, npm_packages[i].program);
        bad |= !out || fclose(out) != 0;
        free(lock_text);
        free(root_text);
        json_decref(lock);
        json_decref(root);
        json_decref(locked);
        json_decref(wanted);
        if (!bad)
                return hook;
        free(hook);
        return NULL;
}

/* -- the standard image ----------------------------------------------------------------------------------------- */

static int check_room(const struct statvfs *room, unsigned need_mib, const char *place, const char *way_out)
{
        unsigned long long free_mib = (unsigned long long)room->f_bavail * room->f_frsize / MIB;

        return free_mib >= need_mib ? 0
                                    : cli_bad("the standard image needs %u MiB in %s, which has %llu MiB left: %s",
                                              need_mib, place, free_mib, way_out);
}

/* Before the work, which takes minutes. */
static int check_space(const struct cli_request *request)
{
        const char *directory = debian_image_directory();
        _cleanup_fd_ int store_fd = -EBADF;
        struct statvfs room;
        int code = statvfs(directory, &room) == 0
                           ? check_room(&room, standard.working_mib, directory, "name another directory by TMPDIR")
                           : cli_bad("TMPDIR: cannot use '%s': %s", directory, strerror(errno));

        if (code == 0)
                code = image_store_open(request, &store_fd);
        if (code == 0 && fstatvfs(store_fd, &room) < 0)
                code = cli_bad("cannot read the size of the image store: %s", strerror(errno));
        return code ? code
                    : check_room(&room, standard.store_mib, "the image store",
                                 "remove images (cloche image prune), or name another store by --images");
}

static int build_standard(struct cli_request *request)
{
        struct utsname host;
        char *hook;
        struct debian_image image = {.name = request->positional_count ? request->positional[0] : standard.name,
                                     .suite = request->debian.suite ? request->debian.suite : standard.suite,
                                     .base = debian_packages + 1,
                                     .packages = request->debian.packages,
                                     .sources = request->debian.sources,
                                     .only_suite = 1};
        int code = check_space(request);

        if (code == 0)
                code = debian_image_check_program("npm", "install it (apt install npm)");
        if (code)
                return code;
        uname(&host);
        hook = write_hook(host.machine);
        if (!hook)
                return cli_bad("%s", strerror(ENOMEM));
        image.hook = hook;
        code = debian_image_make(request, &image);
        free(hook);
        return code;
}

static int build(struct cli_request *request)
{
        const struct cli_request *r = request;
        int is_file = r->build.file || r->build.tag || r->build.args || r->build.secrets || r->build.is_reproducible ||
                      r->build.is_uncached || r->build.is_pulled || r->sandbox.allow || r->sandbox.deny ||
                      r->sandbox.host_ports || r->sandbox.startup.start || r->sandbox.startup.ready ||
                      r->sandbox.startup.ready_ms != UINT64_MAX;

        if (r->debian.is_standard && is_file)
                return cli_bad("--standard takes --suite, --packages and --sources: the other options are for a "
                               "Dockerfile");
        if (r->debian.is_standard)
                return build_standard(request);
        if (r->debian.suite || r->debian.packages)
                return cli_bad("--suite and --packages need --standard (cloche image debian makes an image of other "
                               "packages)");
        return request->positional_count ? build_image(request)
                                         : cli_bad("expected the directory of the Dockerfile, or --standard");
}

static int debian(struct cli_request *request)
{
        const struct debian_image image = {.name = request->positional[0],
                                           .suite = request->debian.suite,
                                           .packages = request->debian.packages,
                                           .sources = request->debian.sources};

        return debian_image_make(request, &image);
}

const struct cli_handler command_image_build = {
        .run = build,
        .positional_max = 1,
};

const struct cli_handler command_image_debian = {
        .run = debian,
        .expected = "a name for the image",
        .positional_min = 1,
        .positional_max = 1,
};
