/* Runs in: the CLI, as its user; cloche-image reads all that others wrote. */
#include "image-store.h"

#include "cli/options/options.h"
#include "cli/output/progress.h"
#include "cli/output/signals.h"
#include "cli/sandbox/daemon-client.h"
#include "cli/sandbox/daemon-locate.h"
#include "cli/sandbox/sandbox-options.h"
#include "xdg.h"

#include "base/err.h"
#include "base/fd.h"
#include "base/privilege.h"
#include "engine/box/image-client.h"
#include "engine/box/image.h"
#include "user/images-dir.h"

#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define PROGRAM IMAGE_CLIENT_PROGRAM
#define PROGRESS_BYTES 80

/* -- the directory -------------------------------------------------------------------------------------------- */

/* Others may pass the directory above root's, which the daemon's state may share. */
int image_store_path(const struct cli_request *request, char *ret, size_t size)
{
        char buffer[XDG_PATH_BYTES];
        const char *path = request->engine.images_dir;

        if (!path)
                path = images_dir_find(buffer, sizeof(buffer));
        if (!path)
                return cli_bad("there is no home directory for the image store: set HOME, or name a directory by "
                               "--images");
        if (!request->engine.images_dir && privilege_is_root() && mkdir("/var/lib/cloche", 0755) < 0 && errno != EEXIST)
                return cli_bad("cannot make /var/lib/cloche: %s", strerror(errno));
        return snprintf(ret, size, "%s", path) < (int)size ? 0 : cli_bad("--images: the path is too long");
}

int image_store_open(const struct cli_request *request, int *ret)
{
        char path[XDG_PATH_BYTES];
        int code = image_store_path(request, path, sizeof(path));

        if (code == 0)
                code = cli_xdg_make_directories(path);
        if (code)
                return code;
        *ret = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return *ret < 0 ? cli_bad("cannot open the image store '%s': %s", path, strerror(errno)) : 0;
}

/* -- the program ---------------------------------------------------------------------------------------------- */

static int is_program(const char *directory, const char *below, char *ret, size_t size)
{
        return snprintf(ret, size, "%s%s/" PROGRAM, directory, below) < (int)size && access(ret, X_OK) == 0;
}

/* As the engine finds its keeper: named, in the build tree, as installed. */
static int find_program(char *ret, size_t size)
{
        const char *named = getenv("CLOCHE_LIBEXEC");
        char own[PATH_MAX];
        ssize_t n = readlink("/proc/self/exe", own, sizeof(own) - 1);
        char *slash;

        own[n < 0 ? 0 : n] = '\0';
        slash = strrchr(own, '/');
        if (slash)
                *slash = '\0';
        if (named && *named)
                return is_program(named, "", ret, size) ? 0 : cli_bad("$CLOCHE_LIBEXEC has no " PROGRAM);
        if (is_program(own, "", ret, size) || is_program(own, "/../libexec/cloche", ret, size) ||
            is_program(CLOCHE_LIBEXEC_DIR, "", ret, size))
                return 0;
        return cli_bad("there is no " PROGRAM " in " CLOCHE_LIBEXEC_DIR ": name its directory by $CLOCHE_LIBEXEC");
}

/* -- progress ------------------------------------------------------------------------------------------------- */

/* The handler of a timer reads one text while the next is written. */
static char texts[2][PROGRESS_BYTES];
static const char *_Atomic now;

static const char *progress_now(void)
{
        return atomic_load(&now);
}

/* Tenths, so that the line changes seldom: each text is shown once on a line of its own. */
static void show(const json_t *params)
{
        static unsigned which;
        json_int_t done = json_integer_value(json_object_get(params, "done")),
                   total = json_integer_value(json_object_get(params, "total"));
        const char *phase = json_string_value(json_object_get(params, "phase"));
        char text[PROGRESS_BYTES];

        if (!phase)
                return;
        if (total > 0 && done <= total)
                snprintf(text, sizeof(text), "%.50s: %d %%", phase, (int)(done * 10 / total) * 10);
        else
                snprintf(text, sizeof(text), "%.60s", phase);
        if (atomic_load(&now) && strcmp(text, atomic_load(&now)) == 0)
                return;
        which ^= 1;
        memcpy(texts[which], text, sizeof(text));
        atomic_store(&now, texts[which]);
}

/* -- users of a tree ------------------------------------------------------------------------------------------ */

/* Return the process that holds a lock of flock(2) on this file; 0: none is known.
 * proc_locks(5). */
static long find_locker(const struct stat *status)
{
        FILE *locks = fopen("/proc/locks", "re");
        char line[256];
        long found = 0;

        while (locks && !found && fgets(line, sizeof(line), locks)) {
                unsigned long long inode;
                unsigned major, minor;
                long pid;

                if (sscanf(line, "%*s FLOCK %*s %*s %ld %x:%x:%llu", &pid, &major, &minor, &inode) == 4 && pid > 0 &&
                    inode == status->st_ino && makedev(major, minor) == status->st_dev)
                        found = pid;
        }
        if (locks)
                fclose(locks);
        return found;
}

static void read_program_name(long pid, char ret[17])
{
        char path[64];
        FILE *file;

        snprintf(path, sizeof(path), "/proc/%ld/comm", pid);
        file = fopen(path, "re");
        if (!file || !fgets(ret, 17, file))
                ret[0] = '\0';
        ret[strcspn(ret, "\n")] = '\0';
        if (file)
                fclose(file);
}

static void add_text(struct cloche_err *e, const char *text)
{
        strncat(e->msg, text, sizeof(e->msg) - strlen(e->msg) - 1);
}

static void name_sandboxes_of(const json_t *answer, const char *tree, struct cloche_err *e)
{
        const char *before = ": sandbox ";
        const json_t *sandbox;
        size_t i;

        json_array_foreach (json_object_get(answer, "sandboxes"), i, sandbox) {
                const char *image = json_string_value(json_object_get(sandbox, "image"));

                if (!image || strcmp(image, tree) != 0)
                        continue;
                add_text(e, before);
                add_text(e, sandbox_text(sandbox, "sandbox"));
                before = ", sandbox ";
        }
}

/* The lock is the keeper's, so its daemon is asked for the caller's sandboxes of the tree. */
static void name_sandboxes(const char *tree, struct cloche_err *e)
{
        char path[DAEMON_SOCKET_BYTES];
        struct daemon_client client;
        struct daemon_message message;
        struct cloche_err ignored = {0};

        if (daemon_locate(NULL, LOCATE_ONLY, path, &ignored) != 1 || daemon_open(path, 0, &client, &ignored) < 0)
                return;
        if (daemon_call(&client, "sandbox.list", json_object(), NULL, 0, &message, &ignored) == 0) {
                name_sandboxes_of(message.body, tree, e);
                daemon_message_done(&message);
        }
        daemon_close(&client);
}

/* cloche-image sees no processes, so its message names the tree alone: add a process that uses
 * it. */
static void name_user(int store_fd, struct cloche_err *e)
{
        const char *found = e->code == CLOCHE_E_STATE ? strstr(e->msg, "sha256-") : NULL;
        char tree[72], path[100], name[17], user[64];
        struct stat status;
        long pid;

        if (!found)
                return;
        snprintf(tree, sizeof(tree), "%s", found);
        snprintf(path, sizeof(path), "trees/%s", tree);
        pid = fstatat(store_fd, path, &status, AT_SYMLINK_NOFOLLOW) < 0 ? 0 : find_locker(&status);
        if (!pid)
                return;
        read_program_name(pid, name);
        snprintf(user, sizeof(user), " by process %ld (%s)", pid, name);
        add_text(e, user);
        if (strcmp(name, "cloche-keeper") == 0)
                name_sandboxes(tree, e);
}

/* 0, or an exit code; an error of the program is in *e, for others a line was printed. */
static int begin(const struct cli_request *request, int data_fd, struct image_store *ret, struct cloche_err *e)
{
        char program[PATH_MAX];
        json_t *opened = NULL;
        int code;

        *ret = (struct image_store){.fd = -EBADF};
        code = image_store_open(request, &ret->fd);
        if (code == 0)
                code = find_program(program, sizeof(program));
        if (code == 0 && image_client_start(program, ret->fd, data_fd, 0, &ret->client, e) < 0)
                code = 1;
        ret->is_open = code == 0;
        if (code == 0 && image_client_request(&ret->client, "open", json_object(), NULL, &opened, e) < 0)
                code = 1;
        json_decref(opened);
        if (code)
                image_store_end(ret);
        return code;
}

void image_store_end(struct image_store *store)
{
        if (store->is_open)
                image_client_stop(&store->client);
        store->is_open = 0;
        fd_close(&store->fd);
}

static int ask(struct image_store *store, const char *method, json_t *params, json_t **ret, struct cloche_err *e)
{
        int r;

        progress_watch(progress_now);
        r = image_client_request(&store->client, method, params ? params : json_object(), show, ret, e);
        progress_end();
        name_user(store->fd, e);
        return r < 0;
}

int image_store_ask(const struct cli_request *request, struct image_store *store, const char *method, json_t *params,
                    json_t **ret, struct cloche_err *ret_e)
{
        int code = store->is_open ? 0 : begin(request, -1, store, ret_e);

        *ret = NULL;
        if (code == 0)
                return ask(store, method, params, ret, ret_e);
        json_decref(params);
        return code;
}

int image_store_request(const struct cli_request *request, const char *method, json_t *params, int data_fd,
                        json_t **ret)
{
        struct image_store store;
        struct cloche_err e = {0};
        int code = begin(request, data_fd, &store, &e);

        *ret = NULL;
        if (code == 0)
                code = ask(&store, method, params, ret, &e);
        else
                json_decref(params);
        image_store_end(&store);
        if (e.code)
                code = sandbox_fail(&e);
        return e.code == CLOCHE_E_CANCELLED ? SIGNALS_CANCELLED : code;
}

static char *settings_text(const json_t *image)
{
        json_t *settings = image_settings_pick(image);
        char *text = settings ? json_dumps(settings, JSON_COMPACT | JSON_SORT_KEYS) : NULL;

        json_decref(settings);
        return text;
}

int image_store_resolve(struct cli_request *request)
{
        json_t *answer = NULL;
        const char *tree;
        char *kept, *settings;
        int bad, code = image_store_request(request, "inspect", json_pack("{s:s}", "name", request->image_name), -1,
                                            &answer);

        if (code)
                return code;
        tree = json_string_value(json_object_get(answer, "tree"));
        kept = tree ? strdup(tree) : NULL;
        settings = settings_text(answer);
        json_decref(answer);
        if (!kept || !settings) {
                free(kept);
                free(settings);
                return cli_bad("the image store has no tree and settings of the image '%s'", request->image_name);
        }
        request->engine.image = kept;
        request->engine.image_settings = settings;
        code = options_keep_text(request, kept);
        bad = options_keep_text(request, settings);
        return code ? code : bad;
}
