/* Options from the command line and the environment. Runs in: the supervisor and cloched-engine,
 * at their start, with the rights of their starter. */
#include "options.h"
#include "caller.h"
#include "packages.h"

#include "base/privilege.h"
#include "base/utf8.h"
#include "user/images-dir.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BAD_INPUT 2
#define MOUNT_ROOTS_MAX 32 /* cloche.h, mount_roots */
#define VOLUMES_DIR_OF_ROOT "/var/lib/cloche/volumes"
#define ON_DEMAND_IDLE_MS 300000

static int bad(const char *format, ...) __attribute__((format(printf, 1, 2)));

static int bad(const char *format, ...)
{
        va_list ap;

        fputs("cloched: ", stderr);
        va_start(ap, format);
        vfprintf(stderr, format, ap);
        va_end(ap);
        fputs(" (cloched --help lists the options)\n", stderr);
        return BAD_INPUT;
}

static int whole(const char *option, const char *value, unsigned long min, unsigned long max, unsigned long *ret)
{
        if (!*value || strlen(value) > 12 || strspn(value, "0123456789") != strlen(value) ||
            strtoul(value, NULL, 10) < min || strtoul(value, NULL, 10) > max)
                return bad("%s must be a whole number from %lu to %lu, not '%s'", option, min, max, value);
        *ret = strtoul(value, NULL, 10);
        return 0;
}

/* -- setters -------------------------------------------------------------------------------------------------- */

static int set_socket(struct daemon_options *o, const char *value)
{
        if (!*value || strlen(value) > 107)
                return bad("--socket must be a path of 1 to 107 bytes");
        o->socket_path = value;
        return 0;
}

static int set_listen(struct daemon_options *o, const char *value)
{
        const char *colon = strrchr(value, ':');
        unsigned long port;

        if (!colon || colon == value)
                return bad("--listen must be HOST:PORT, not '%s'", value);
        o->listen = value;
        return whole("--listen's port", colon + 1, 0, 65535, &port);
}

static int add_id(const char *option, const char *value, long *ids, unsigned *count)
{
        unsigned long id;

        if (*count == OPTIONS_LIST_MAX)
                return bad("%s is given more than %d times", option, OPTIONS_LIST_MAX);
        if (whole(option, value, 0, UINT32_MAX - 1, &id))
                return BAD_INPUT;
        ids[(*count)++] = (long)id;
        return 0;
}

static int add_uid(struct daemon_options *o, const char *value)
{
        return add_id("--allow-uid", value, o->uids.ids, &o->uids.count);
}

static int add_gid(struct daemon_options *o, const char *value)
{
        return add_id("--allow-gid", value, o->gids.ids, &o->gids.count);
}

/* expected: the text that the option expects instead; NULL: the value is valid. */
static int add_name(const char *option, const char *value, const char *expected, struct option_list *list)
{
        if (expected)
                return bad("%s must be %s, not '%s'", option, expected, value);
        if (list->count == OPTIONS_LIST_MAX)
                return bad("%s is given more than %d times", option, OPTIONS_LIST_MAX);
        list->names[list->count++] = value;
        return 0;
}

static int add_host(struct daemon_options *o, const char *value)
{
        return add_name("--allow-host", value, NULL, &o->hosts);
}

static int add_origin(struct daemon_options *o, const char *value)
{
        return add_name("--allow-origin", value, NULL, &o->origins);
}

static int set_level(struct daemon_options *o, const char *value)
{
        int level = level_find(value);

        if (level < 0)
                return bad("--log-level must be error, warning, info or debug, not '%s'", value);
        o->level = (enum level)level;
        return 0;
}

/* A last colon that is followed only by digits begins the user. */
static int add_mount_root(struct daemon_options *o, const char *value)
{
        const char *colon = strrchr(value, ':');
        unsigned long uid;

        if (colon && (!colon[1] || colon[1 + strspn(colon + 1, "0123456789")]))
                colon = NULL;
        if (value[0] != '/')
                return bad("--mount-root must be an absolute path, not '%s'", value);
        if (o->engine.mount_root_count == MOUNT_ROOTS_MAX)
                return bad("--mount-root is given more than %d times", MOUNT_ROOTS_MAX);
        if (colon && whole("--mount-root's user", colon + 1, 0, UINT32_MAX - 1, &uid))
                return BAD_INPUT;
        o->mount_root_uids[o->engine.mount_root_count] = colon ? (int64_t)uid : -1;
        o->mount_roots[o->engine.mount_root_count] = colon ? strndup(value, (size_t)(colon - value)) : value;
        if (!o->mount_roots[o->engine.mount_root_count++])
                return bad("out of memory");
        o->engine.mount_roots = o->mount_roots;
        o->engine.mount_root_uids = o->mount_root_uids;
        return 0;
}

static int set_spares(struct daemon_options *o, const char *value)
{
        unsigned long spares;
        int code = whole("--spares", value, 0, 1000, &spares);

        o->engine.spares = spares ? (unsigned)spares : CLOCHE_NO_SPARES;
        return code;
}

static int set_optional(struct daemon_options *o, const char *value)
{
        while (*value) {
                size_t size = strcspn(value, ",");
                int g = 0;

                while (g < CLOCHE_GUARD_COUNT && (strlen(cloche_guard_name((enum cloche_guard)g)) != size ||
                                                  strncmp(cloche_guard_name((enum cloche_guard)g), value, size) != 0))
                        g++;
                if (g == CLOCHE_GUARD_COUNT)
                        return bad("--optional: there is no guard '%.*s' (cloche selftest lists them)", (int)size,
                                   value);
                o->engine.optional_guards |= 1u << g;
                value += size + (value[size] == ',');
        }
        return 0;
}

static int set_profile(struct daemon_options *o, const char *value)
{
        static const char *const names[] = {[CLOCHE_PROFILE_NONE] = "none", [CLOCHE_PROFILE_USER] = "user"};

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                if (strcmp(names[i], value) == 0) {
                        o->engine.profile = (enum cloche_profile)i;
                        return 0;
                }
        return bad("--profile must be none or user, not '%s'", value);
}

static int set_preview_host(struct daemon_options *o, const char *value)
{
        size_t size = strspn(value, "abcdefghijklmnopqrstuvwxyz0123456789.-");
        unsigned long port;

        if (size == 0 || size > 180 || value[0] == '.' || (value[size] && value[size] != ':'))
                return bad("--preview-host must be HOST or HOST:PORT, the host in lower case, not '%s'", value);
        o->preview_host = value;
        return value[size] ? whole("--preview-host's port", value + size + 1, 1, 65535, &port) : 0;
}

static int set_network(struct daemon_options *o, const char *value)
{
        o->network = value;
        return *value ? 0
                      : bad("--network needs rules, separated by commas: HOST or HOST:PORT, with a leading ! to deny");
}

static int add_package_index(struct daemon_options *o, const char *value)
{
        return add_name("--package-index", value, packages_check_index(o, value), &o->package_indexes);
}

static int add_network_preset(struct daemon_options *o, const char *value)
{
        return add_name("--network-preset", value, packages_check_preset(value), &o->network_presets);
}

static int add_host_port(struct daemon_options *o, const char *value)
{
        return add_name("--host-port", value, packages_check_port(o, value), &o->host_ports);
}

static int set_package_proxy(struct daemon_options *o, const char *value)
{
        const char *expected = packages_check_proxy(value);

        o->package_proxy = value;
        return expected ? bad("--package-proxy must be %s, not '%s'", expected, value) : 0;
}

static int set_volumes(struct daemon_options *o, const char *value)
{
        o->engine.volumes_dir = value;
        return *value && *value != '/' ? bad("--volumes must be an absolute path or '', not '%s'", value) : 0;
}

static int set_layers(struct daemon_options *o, const char *value)
{
        o->has_layers_on_disk = strcmp(value, "disk") == 0;
        return o->has_layers_on_disk || strcmp(value, "memory") == 0
                       ? 0
                       : bad("--layers must be memory or disk, not '%s'", value);
}

static int set_image_changes(struct daemon_options *o, const char *value)
{
        static const char *const names[] = {"none", "owner", "all"};

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                if (strcmp(names[i], value) == 0) {
                        o->image_changes = (enum image_changes)i;
                        o->engine.images_are_written = i != IMAGE_CHANGES_NONE;
                        return 0;
                }
        return bad("--image-changes must be none, owner or all, not '%s'", value);
}

static int add_container(struct daemon_options *o, const char *value)
{
        const char *equals = strchr(value, '='), *colon = equals ? memrchr(value, ':', (size_t)(equals - value)) : NULL;
        char port[8];
        unsigned long number;

        if (!colon || colon == value || !equals[1])
                return bad("--container-listen must be HOST:PORT=SANDBOX, not '%s'", value);
        if (o->container_count == OPTIONS_LIST_MAX)
                return bad("--container-listen is given more than %d times", OPTIONS_LIST_MAX);
        snprintf(port, sizeof(port), "%.*s", (int)(equals - colon - 1), colon + 1);
        o->containers[o->container_count++] = (struct container_listen){value, (size_t)(equals - value)};
        return whole("--container-listen's port", port, 0, 65535, &number);
}

static int add_e2b(struct daemon_options *o, const char *value)
{
        const char *colon = strrchr(value, ':');
        unsigned long number;

        if (!colon || colon == value)
                return bad("--e2b-listen must be HOST:PORT, not '%s'", value);
        return add_name("--e2b-listen", value, NULL, &o->e2b_listen) < 0
                       ? -1
                       : whole("--e2b-listen's port", colon + 1, 0, 65535, &number);
}

static int add_container_image(struct daemon_options *o, const char *value)
{
        return add_name("--container-image", value, *value && !strchr(value, '/') ? NULL : "the name of an image",
                        &o->container_images);
}

/* A row has a setter, or the field of struct daemon_options that gets its text or number. */
static const struct option_row {
        const char *name, *argument, *help;
        int (*set)(struct daemon_options *o, const char *value);
        size_t at;
        size_t size; /* of the number; 0: text */
        unsigned long min, max, unit;
} rows[] = {
#define NUMBER(field, min, max, unit) \
        NULL, offsetof(struct daemon_options, field), sizeof(((struct daemon_options *)0)->field), min, max, unit
#define TEXT(field) NULL, offsetof(struct daemon_options, field), 0, 0, 0, 0
#define FLAG(field) NUMBER(field, 1, 1, 1)
        {"--socket", "PATH", "accept connections on this unix socket", set_socket},
        {"--listen", "HOST:PORT", "accept connections on TCP; port 0: any free port, named in the log", set_listen},
        {"--connect-fd", "N", "serve this one connection of frames, and end with it",
         NUMBER(connect_fd, 0, 1u << 20, 1)},
        {"--on-demand", NULL,
         "print the socket of the daemon that serves this user; start one in the background when there is none",
         FLAG(is_on_demand)},
        {"--exit-when-idle", "SECONDS",
         "end after this many seconds without a connection, a run and a running sandbox (never; --on-demand: 300)",
         NUMBER(exit_when_idle_ms, 1, 31536000, 1000)},
        {"--hang-timeout", "SECONDS", "kill and restart an engine that has not responded for this time; 0: never (60)",
         NUMBER(hang_ms, 0, 86400, 1000)},
        {"--token-file", "FILE", "file with the token that callers on TCP must send; created if missing",
         TEXT(token_file)},
        {"--tls-certificate", "FILE", "certificate in PEM; with --tls-key, TCP connections use TLS",
         TEXT(tls_certificate_file)},
        {"--tls-key", "FILE", "private key in PEM", TEXT(tls_key_file)},
        {"--allow-uid", "UID",
         "permit this user to use the socket (root and the daemon's own user may always); may be repeated", add_uid},
        {"--allow-gid", "GID", "permit this group to use the socket; may be repeated", add_gid},
        {"--allow-host", "NAME", "serve HTTP requests for this host name (in addition to IP addresses and localhost)",
         add_host},
        {"--allow-origin", "ORIGIN", "permit requests from web pages of this origin", add_origin},
        {"--max-connections", "N", "connections at one time, for each kind of caller (4096)",
         NUMBER(connections_max, 1, 1000000, 1)},
        {"--auth-timeout", "SECONDS", "time from the connection to hello, or to a permitted request (15)",
         NUMBER(auth_ms, 1, 3600, 1000)},
        {"--max-request", "MIB", "size of one request (128)", NUMBER(body_bytes_max, 1, 1024, 1u << 20)},
        {"--grace", "SECONDS", "time that runs may continue after SIGTERM (10)", NUMBER(grace_ms, 0, 86400, 1000)},
        {"--log-level", "LEVEL", "error, warning, info or debug (info)", set_level},
        {"--image", "IMAGE",
         "use this directory, or this image of the store (its name, or sha256- and 64 digits), as root file system of "
         "boxes that name no image (the host's /usr)",
         TEXT(engine.image)},
        {"--images", "DIR",
         "the image store, whose images requests may name; '': none (/var/lib/cloche/images for root, else below "
         "~/.local/share/cloche)",
         TEXT(engine.images_dir)},
        {"--image-changes", "WHO",
         "who may import and remove images through the daemon: none, owner (root and the user who started it), or all "
         "(others add images, and cannot replace or remove them) (none)",
         set_image_changes},
        {"--max-image", "MIB", "size of an archive of an image that a client imports (8192)",
         NUMBER(image_bytes_max, 1, 1u << 20, 1u << 20)},
        {"--mount-root", "DIR[:UID]",
         "permit mounts of this host directory and those below it (a private daemon: /); with UID, callers with a "
         "token have this user's rights",
         add_mount_root},
        {"--state-dir", "DIR",
         "save sandboxes in this directory; '': do not save them ($STATE_DIRECTORY/sandboxes, else below "
         "/var/lib/cloche or ~/.local/state/cloche)",
         TEXT(state_dir)},
        {"--temporary-state", NULL,
         "a private daemon empties --state-dir at its end, and saves no sandboxes then (they are saved)",
         FLAG(is_state_temporary)},
        {"--save-every", "SECONDS",
         "interval at which running sandboxes that changed are saved; 0: only when they stop (60)",
         NUMBER(save_every_ms, 0, 86400, 1000)},
        {"--max-sandboxes", "N", "sandboxes that run at one time (1000)", NUMBER(sandboxes_max, 1, 100000, 1)},
        {"--max-saved", "N", "sandboxes of one caller, running and saved (10000)", NUMBER(saved_max, 1, 1000000, 1)},
        {"--volumes", "DIR",
         "the directory of volumes, which root's keeper alone can reach; '': none (/var/lib/cloche/volumes for root)",
         set_volumes},
        {"--max-volumes", "N", "volumes of one caller (64)", NUMBER(volumes_max, 1, 1000000, 1)},
        {"--volume-space", "MIB",
         "size of all volumes of one caller, and of its sandboxes with --layers=disk, which is reserved on the disk "
         "(16384)",
         NUMBER(volume_bytes_max, 16, 1u << 24, 1u << 20)},
        {"--layers", "PLACE",
         "where the files of sandboxes with a writable root are: memory, or disk: each in a file of its limit's size "
         "in "
         "the directory of volumes (memory; before Linux 6.6 always disk)",
         set_layers},
        {"--contexts", "LANGUAGE,…",
         "set up contexts of these languages at the start instead of at first use; '': none (with --container-listen: "
         "javascript,typescript if 1 GiB of memory is free)",
         TEXT(contexts)},
        {"--network", "RULE,…", "network of sandboxes that are created without a policy; !RULE denies (none)",
         set_network},
        {"--host-port", "NAME=PORT",
         "permit policies to open this port of the host's 127.0.0.1 by the rule host:NAME; may be repeated (none)",
         add_host_port},
        {"--network-preset", "NAME=RULE,…",
         "what the rule NAME stands for, in addition to --package-index for python, node and ruby; may be repeated "
         "(what the host's tools are configured with)",
         add_network_preset},
        {"--package-index", "KIND=URL",
         "index from which sandboxes install packages; KIND is pip, npm or gem; may be repeated (that of the tool)",
         add_package_index},
        {"--package-proxy", "URL", "proxy through which pip, npm and gem in sandboxes connect", set_package_proxy},
        {"--preview-host", "HOST[:PORT]", "serve exposed ports of sandboxes at PORT-SANDBOX-TOKEN.HOST",
         set_preview_host},
        {"--container-listen", "HOST:PORT=SANDBOX",
         "serve the container API of this sandbox on loopback, without a token", add_container},
        {"--e2b-listen", "HOST:PORT",
         "serve the E2B API on loopback; cloche e2b env prints the settings of its clients", add_e2b},
        {"--mcp", NULL, "serve the Model Context Protocol at /mcp of the other listeners (docs/mcp.md)", FLAG(is_mcp)},
        {"--mcp-ask", NULL,
         "ask the user before a tool of the Model Context Protocol makes a sandbox with a network (it is made)",
         FLAG(is_mcp_ask)},
        {"--conformance", NULL, "add the fixtures of the conformance tests of the Model Context Protocol; needs --mcp",
         FLAG(is_conformance)},
        {"--jupyter", NULL, "serve kernels for notebooks at /jupyter of the other listeners (docs/jupyter.md)",
         FLAG(is_jupyter)},
        {"--container-image", "IMAGE",
         "make sandboxes of the container API of this image of the store (the daemon's own); may be repeated: requests "
         "may name each of them, and the first is for those that name none",
         add_container_image},
        {"--runs", "N", "runs at one time (twice the number of processors)", NUMBER(engine.runs_max, 1, 100000, 1)},
        {"--queue", "N", "runs that may wait (10000)", NUMBER(engine.queue_max, 1, 1000000, 1)},
        {"--max-warm", "N", "interpreters of one caller that stay ready while nothing uses them (16)",
         NUMBER(engine.templates_max, 1, 100000, 1)},
        {"--base-forks", "N", "forks after which a new interpreter is started to fork from (10000)",
         NUMBER(engine.base_forks, 1, 1000000000, 1)},
        {"--spares", "N", "prewarmed boxes with a child for each template in use (2), and 2 without", set_spares},
        {"--optional", "GUARD,…", "guards that may be missing or degraded", set_optional},
        {"--core-scheduling", NULL,
         "run no other code on the hyperthreads of a core while a box runs there; an error if the kernel cannot",
         FLAG(engine.core_scheduling)},
        {"--profile", "NAME", "user: guards that only root can have may be missing if the daemon is not root's (none)",
         set_profile},
};
#undef NUMBER
#undef TEXT
#undef FLAG
#define ROWS (sizeof(rows) / sizeof(rows[0]))

static int set(const struct option_row *row, struct daemon_options *o, const char *value)
{
        void *field = (char *)o + row->at;
        unsigned long number = 1;

        if (row->set)
                return row->set(o, value);
        if (row->size && value && whole(row->name, value, row->min, row->max, &number))
                return BAD_INPUT;
        if (row->size == sizeof(unsigned long))
                *(unsigned long *)field = number * row->unit;
        else if (row->size)
                *(unsigned *)field = (unsigned)(number * row->unit);
        else
                *(const char **)field = value;
        return 0;
}

static int help(void)
{
        printf("cloched: the Cloche daemon\n\nusage: cloched [OPTION…]\n\n");
        for (size_t i = 0; i < ROWS; i++) {
                const char *argument = rows[i].argument ? rows[i].argument : "";
                int used = (int)(strlen(rows[i].name) + utf8_count(argument, strlen(argument)));

                printf("  %s %s%*s %s\n", rows[i].name, argument, used < 28 ? 28 - used : 0, "", rows[i].help);
        }
        printf("\nValues in parentheses are defaults. Sockets of systemd (LISTEN_FDS) are served too.\n");
        return 0;
}

/* Read "--name value" or "--name=value". */
static int read_one(struct daemon_options *o, char **argv, int *at)
{
        size_t size = strcspn(argv[*at], "=");
        const char *value = argv[*at][size] ? argv[*at] + size + 1 : argv[*at + 1];

        for (size_t i = 0; i < ROWS; i++)
                if (strlen(rows[i].name) == size && strncmp(rows[i].name, argv[*at], size) == 0) {
                        if (!rows[i].argument) {
                                if (argv[*at][size])
                                        return bad("%s takes no value", rows[i].name);
                                *at += 1;
                                return set(&rows[i], o, NULL);
                        }
                        if (!value)
                                return bad("%s needs %s", rows[i].name, rows[i].argument);
                        *at += argv[*at][size] ? 1 : 2;
                        return set(&rows[i], o, value);
                }
        return bad("there is no option '%s'", argv[*at]);
}

static int check(const struct daemon_options *o)
{
        if (o->is_on_demand &&
            (o->connect_fd >= 0 || o->socket_path || o->listen || o->container_count || o->e2b_listen.count))
                return bad("--on-demand excludes --socket, --listen, --container-listen, --e2b-listen and "
                           "--connect-fd");
        if (o->connect_fd >= 0 && (o->socket_path || o->listen || o->container_count || o->e2b_listen.count))
                return bad("--connect-fd excludes --socket, --listen, --container-listen and --e2b-listen");
        if (!o->tls_certificate_file != !o->tls_key_file)
                return bad("--tls-certificate and --tls-key need each other: give both");
        if (o->tls_key_file && !o->listen && !getenv("LISTEN_FDS"))
                return bad("--tls-certificate and --tls-key need --listen");
        if (o->is_state_temporary && (o->connect_fd < 0 || !o->state_dir || !*o->state_dir))
                return bad("--temporary-state needs --connect-fd and --state-dir");
        if (o->is_conformance && !o->is_mcp)
                return bad("--conformance needs --mcp");
        if (!o->is_on_demand && o->connect_fd < 0 && !o->socket_path && !o->listen && !o->container_count &&
            !o->e2b_listen.count && !getenv("LISTEN_FDS"))
                return bad("expected --socket, --listen, --container-listen, --e2b-listen, --connect-fd or "
                           "--on-demand");
        return 0;
}

int options_read(int argc, char **argv, struct daemon_options *ret, int *ret_code)
{
        int at = 1;

        *ret = (struct daemon_options){
                .connect_fd = -1,
                .link_fd = -1,
                .is_plain = 1,
                .grace_ms = 10000,
                .level = LEVEL_INFO,
                .connections_max = 4096,
                .auth_ms = CALLER_AUTH_SECONDS * 1000,
                .body_bytes_max = 128u << 20,
                .image_bytes_max = 8ul << 30,
                .save_every_ms = 60000,
                .hang_ms = 60000,
                .on_demand = {.ready_fd = -1, .lock_fd = -1},
        };
        static char images_dir[4096];

        *ret_code = 0;
        while (at < argc && *ret_code == 0) {
                if (strcmp(argv[at], "--help") == 0 || strcmp(argv[at], "-h") == 0)
                        return *ret_code = help(), 1;
                if (strcmp(argv[at], "--version") == 0)
                        return printf("cloched " CLOCHE_VERSION "\n"), 1;
                if (strcmp(argv[at], "--on-demand") != 0 && strncmp(argv[at], "--profile", 9) != 0)
                        ret->is_plain = 0;
                *ret_code = read_one(ret, argv, &at);
        }
        if (*ret_code == 0)
                *ret_code = check(ret);
        if (!ret->engine.images_dir)
                ret->engine.images_dir = images_dir_find(images_dir, sizeof(images_dir));
        else if (!ret->engine.images_dir[0])
                ret->engine.images_dir = NULL;
        if (!ret->engine.volumes_dir)
                ret->engine.volumes_dir = privilege_is_root() ? VOLUMES_DIR_OF_ROOT : NULL;
        else if (!ret->engine.volumes_dir[0])
                ret->engine.volumes_dir = NULL;
        if (*ret_code == 0 && ret->is_on_demand && !ret->exit_when_idle_ms)
                ret->exit_when_idle_ms = ON_DEMAND_IDLE_MS;
        if (*ret_code == 0 && (ret->connect_fd >= 0 || ret->is_on_demand) && ret->engine.mount_root_count == 0)
                *ret_code = add_mount_root(ret, "/"); /* the starter has access to its own directories anyway */
        return *ret_code != 0;
}
