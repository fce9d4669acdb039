/* Runs in: cloche-image, as its user, confined to the store and the source. */
#include "settings.h"

#include "base/env.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/utf8.h"
#include "helpers/image/read/accounts.h"
#include "helpers/image/tree/tree.h"
#include "helpers/image/work.h"
#include "jail/user.h"
#include "proto/image.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define USER_BYTES_MAX 256
#define NOTE_VALUE_MAX 80
#define BOX_DIRECTORY "/workspace"
#define RUNS_AS ": code runs as the box's user " JAIL_NAME " (1000:1000)"

struct settings {
        int tree_fd;
        bool keeps_ids, has_failed;
        const json_t *config;
        json_t *env, *notes, *user, *runs_as, *startup;
        char directory[IMAGE_DIRECTORY_SIZE]; /* "": none */
};

/* Add a line "MEMBER VALUE REST"; a long value is cut. */
static void note(struct settings *s, const char *member, const char *value, const char *rest)
{
        int size = (int)utf8_cut(value, strlen(value), NOTE_VALUE_MAX);

        if (json_array_append_new(s->notes, json_sprintf("%s %.*s%s", member, size, value, rest)) < 0)
                s->has_failed = true;
}

static const char *text_of(const json_t *config, const char *name)
{
        const char *text = json_string_value(json_object_get(config, name));

        return text ? text : "";
}

/* Open a path of the image as code in a box would find it: links lead to places in the tree. */
static int open_in_tree(int tree_fd, const char *path, int flags)
{
        const struct open_how how = {.flags = (unsigned)flags | O_CLOEXEC,
                                     .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
        int fd = (int)syscall(SYS_openat2, tree_fd, path, &how, sizeof(how));

        return fd < 0 ? -errno : fd;
}

/* -- environment ---------------------------------------------------------------------------------------------- */

int settings_check(const json_t *config, struct cloche_err *e)
{
        const json_t *list = json_object_get(config, "env");
        size_t bytes = 0;

        if (json_array_size(list) > IMAGE_ENV_MAX)
                return err_set(e, CLOCHE_E_BAD_ARCHIVE,
                               "the configuration's Env has %zu variables, expected at most %d", json_array_size(list),
                               IMAGE_ENV_MAX);
        for (size_t i = 0; i < json_array_size(list); i++)
                bytes += json_string_length(json_array_get(list, i));
        return bytes <= IMAGE_ENV_BYTES_MAX
                       ? 0
                       : err_set(e, CLOCHE_E_BAD_ARCHIVE, "the configuration's Env has %zu bytes, expected at most %u",
                                 bytes, IMAGE_ENV_BYTES_MAX);
}

static void read_variable(struct settings *s, const char *row)
{
        size_t size = env_name_size(row);

        if (size == 0 || row[size] != '=')
                note(s, "Env", row, " is left out: its name is not valid");
        else if (image_variable_is_box(row, size))
                note(s, "Env", row, " is left out: the variable belongs to the box");
        else if (json_object_setn_new(s->env, row, size, json_string(row + size + 1)) < 0)
                s->has_failed = true;
}

static void read_env(struct settings *s)
{
        const json_t *list = json_object_get(s->config, "env");

        for (size_t i = 0; i < json_array_size(list); i++)
                read_variable(s, json_string_value(json_array_get(list, i)));
}

/* -- working directory ---------------------------------------------------------------------------------------- */

/* Places at the top of a box that are never the image's (jail/root/sources.c). */
static const struct {
        const char *path;
        bool is_writable;
} box_places[] = {
        {"/workspace", true}, {"/tmp", true},  {"/home/cloche", true}, {"/home", false}, {"/root", false},
        {"/run", false},      {"/dev", false}, {"/proc", false},       {"/sys", false},  {"/boot", false},
};

/* Return a row of box_places, or -1 for a path in the tree. */
static int find_place(const char *path)
{
        for (size_t i = 0; i < sizeof(box_places) / sizeof(box_places[0]); i++)
                if (path_is_at_or_below(path, box_places[i].path))
                        return (int)i;
        return -1;
}

/* Write the path without empty parts and "."; false: it is relative, too long, or has a part
 * "..". */
static bool clean(const char *path, char ret[IMAGE_DIRECTORY_SIZE])
{
        size_t used = 0;

        if (*path != '/' || strlen(path) >= IMAGE_DIRECTORY_SIZE)
                return false;
        while (*path) {
                size_t size = strcspn(path, "/");

                if (size == 2 && memcmp(path, "..", 2) == 0)
                        return false;
                if (size > 0 && !(size == 1 && *path == '.')) {
                        ret[used++] = '/';
                        memcpy(ret + used, path, size);
                        used += size;
                }
                path += size + (path[size] == '/');
        }
        if (used == 0)
                ret[used++] = '/';
        ret[used] = '\0';
        return true;
}

/* Return why code cannot begin there, or NULL. */
static const char *find_obstacle(const struct settings *s, const char *path)
{
        char part[IMAGE_DIRECTORY_SIZE];
        const mode_t enters = s->keeps_ids ? S_IXOTH : S_IXUSR;
        size_t size = 1;

        for (snprintf(part, sizeof(part), "%s", path);; part[size++] = '/') {
                _cleanup_fd_ int fd = -EBADF;
                struct stat status;

                size += strcspn(part + size, "/");
                part[size] = '\0';
                fd = open_in_tree(s->tree_fd, part, O_PATH);
                if (fd < 0)
                        return strerror(-fd);
                if (fstat(fd, &status) < 0 || !S_ISDIR(status.st_mode))
                        return "it is no directory";
                if (!(status.st_mode & enters))
                        return "its mode keeps the box's user out";
                if (!path[size])
                        return NULL;
        }
}

static void read_directory(struct settings *s)
{
        const char *given = text_of(s->config, "workingDir"), *why = NULL;
        char path[IMAGE_DIRECTORY_SIZE], rest[160];
        int place;

        if (!*given)
                return;
        place = clean(given, path) ? find_place(path) : -2;
        if (place == -2)
                why = "it is no absolute path without \"..\"";
        else if (place >= 0 && !box_places[place].is_writable)
                why = "boxes have a directory of their own there";
        else if (place < 0)
                why = find_obstacle(s, path);
        if (!why) {
                memcpy(s->directory, path, sizeof(s->directory));
                return;
        }
        snprintf(rest, sizeof(rest), ": code begins in " BOX_DIRECTORY ", for %s", why);
        note(s, "WorkingDir", given, rest);
}

/* -- user ----------------------------------------------------------------------------------------------------- */

/* Read a file of /etc. 0: there is none that can be read. */
static size_t read_accounts(const struct settings *s, const char *path, char **ret)
{
        _cleanup_fd_ int fd = open_in_tree(s->tree_fd, path, O_RDONLY | O_NONBLOCK);
        struct stat status;

        *ret = NULL;
        if (fd < 0 || fstat(fd, &status) < 0 || !S_ISREG(status.st_mode) || status.st_size == 0 ||
            status.st_size > ACCOUNTS_BYTES_MAX)
                return 0;
        *ret = malloc((size_t)status.st_size);
        return *ret && fd_read_full(fd, *ret, (size_t)status.st_size) == 0 ? (size_t)status.st_size : 0;
}

/* As container engines do: names come first, then numbers; a number without a row has the group
 * 0. */
static bool look_up_user(const struct settings *s, const char *name, struct account *ret)
{
        char *text;
        size_t size = read_accounts(s, "etc/passwd", &text);
        uint32_t uid = 0;
        bool is_number = account_read_id(name, strlen(name), &uid), found = account_find(text, size, name, 0, ret);

        if (!found && is_number && !account_find(text, size, NULL, uid, ret))
                *ret = (struct account){.uid = uid};
        free(text);
        return found || is_number;
}

static bool look_up_group(const struct settings *s, const char *name, uint32_t *ret)
{
        char *text;
        size_t size = read_accounts(s, "etc/group", &text);
        bool found = account_find_group(text, size, name, ret) || account_read_id(name, strlen(name), ret);

        free(text);
        return found;
}

/* Return why code runs as the box's own user all the same, or NULL. */
static const char *find_user_obstacle(const struct account *account)
{
        if (account->uid == 0)
                return ", for it is no root of its box";
        return jail_user_has_ids(account->uid, account->gid) ? NULL : ", for boxes have no such number";
}

/* Its home is a link to the box's, if both are beside each other; else it is the box's. */
static void keep_runs_as(struct settings *s, const char *given, const struct account *account)
{
        const char *name = jail_user_is_name(account->name) ? account->name : JAIL_NAME;
        bool is_beside = jail_user_is_home(account->home);

        s->runs_as = json_pack("{s:I, s:I, s:s, s:s}", "uid", (json_int_t)account->uid, "gid", (json_int_t)account->gid,
                               "name", name, "home", is_beside ? account->home : JAIL_HOME);
        if (!s->runs_as)
                s->has_failed = true;
        if (*account->home && !is_beside)
                note(s, "User", given, ": its home is " JAIL_HOME ", which can be written");
}

static void keep_user(struct settings *s, const char *given, const struct account *account)
{
        const char *obstacle = find_user_obstacle(account);
        char rest[160];

        s->user = json_pack("{s:s, s:I, s:I}", "stated", given, "uid", (json_int_t)account->uid, "gid",
                            (json_int_t)account->gid);
        /* Names and homes are bytes: those that JSON cannot hold are left out. */
        if (s->user && *account->name)
                (void)json_object_set_new(s->user, "name", json_string(account->name));
        if (s->user && *account->home)
                (void)json_object_set_new(s->user, "home", json_string(account->home));
        if (!obstacle) {
                keep_runs_as(s, given, account);
                return;
        }
        snprintf(rest, sizeof(rest), " (%u:%u)" RUNS_AS "%s", account->uid, account->gid, obstacle);
        note(s, "User", given, rest);
}

static void read_user(struct settings *s)
{
        const char *given = text_of(s->config, "user");
        char name[USER_BYTES_MAX];
        struct account account;
        char *colon;

        if (!*given)
                return;
        snprintf(name, sizeof(name), "%s", given);
        colon = strchr(name, ':');
        if (colon)
                *colon++ = '\0';
        if (strlen(given) < sizeof(name) && look_up_user(s, name, &account) &&
            (!colon || look_up_group(s, colon, &account.gid)))
                keep_user(s, given, &account);
        else
                note(s, "User", given, " is not in /etc/passwd and /etc/group of the image" RUNS_AS);
}

/* -- start and ready commands --------------------------------------------------------------------------------- */

static void read_command(struct settings *s, const char *label, const char *member)
{
        const json_t *labels = json_object_get(s->config, "labels");
        const char *command = text_of(labels, label);

        if (!*command)
                return;
        if (strlen(command) > IMAGE_COMMAND_BYTES_MAX)
                note(s, "Label", label, " is left out: the command is too long");
        else if (json_object_set_new(s->startup, member, json_string(command)) < 0)
                s->has_failed = true;
}

static void read_ready_time(struct settings *s)
{
        const char *text = text_of(json_object_get(s->config, "labels"), IMAGE_LABEL_READY_MS);
        char *end;
        unsigned long ms = strtoul(text, &end, 10);

        if (!*text)
                return;
        if (strspn(text, "0123456789") != strlen(text) || ms < 1 || ms > IMAGE_READY_MS_MAX)
                note(s, "Label", IMAGE_LABEL_READY_MS, " is left out: it is no number from 1 to 600000");
        else if (json_object_set_new(s->startup, "readyMs", json_integer((json_int_t)ms)) < 0)
                s->has_failed = true;
}

static void read_startup(struct settings *s)
{
        read_command(s, IMAGE_LABEL_START, "start");
        read_command(s, IMAGE_LABEL_READY, "ready");
        if (json_object_get(s->startup, "ready"))
                read_ready_time(s);
        else if (*text_of(json_object_get(s->config, "labels"), IMAGE_LABEL_READY_MS))
                note(s, "Label", IMAGE_LABEL_READY_MS, " has no effect: the image has no ready command (--ready)");
}

/* -- whole ---------------------------------------------------------------------------------------------------- */

/* The directory is root's, as those that an archive does not describe. */
static int make_one(int parent_fd, const char *name, struct cloche_err *e)
{
        struct timespec times[2];
        struct stat status;

        if (fstat(parent_fd, &status) < 0)
                return image_tree_failed(errno, name, e);
        if (mkdirat(parent_fd, name, 0755) < 0)
                return errno == EEXIST ? 0 : image_tree_failed(errno, name, e);
        times[0] = times[1] = status.st_mtim;
        if (utimensat(parent_fd, name, times, AT_SYMLINK_NOFOLLOW) < 0 ||
            utimensat(parent_fd, ".", times, AT_SYMLINK_NOFOLLOW) < 0)
                return image_tree_failed(errno, name, e);
        return 0;
}

int settings_prepare(int tree_fd, const json_t *config, struct cloche_err *e)
{
        _cleanup_fd_ int parent_fd = image_tree_open_below(tree_fd, "", O_RDONLY);
        const char *given = text_of(config, "workingDir");
        char path[IMAGE_DIRECTORY_SIZE], *name = path + 1;
        int r = settings_check(config, e);

        if (r < 0 || !*given || !clean(given, path) || !path[1] || find_place(path) >= 0)
                return r;
        for (char *slash; r == 0 && parent_fd >= 0 && name; name = slash) {
                int fd;

                slash = strchr(name, '/');
                if (slash)
                        *slash++ = '\0';
                if (strlen(name) > NAME_MAX)
                        return 0; /* read_directory() reports it */
                r = make_one(parent_fd, name, e);
                fd = image_tree_open_below(parent_fd, name, O_RDONLY);
                fd_close(&parent_fd);
                parent_fd = fd; /* a link or a file ends it */
        }
        return r;
}

int settings_make(int tree_fd, bool keeps_ids, const json_t *config, json_t **ret, struct cloche_err *e)
{
        struct settings s = {.tree_fd = tree_fd,
                             .keeps_ids = keeps_ids,
                             .config = config,
                             .env = json_object(),
                             .startup = json_object(),
                             .notes = json_array()};

        *ret = NULL;
        read_env(&s);
        read_directory(&s);
        read_user(&s);
        read_startup(&s);
        if (!s.has_failed)
                *ret = json_pack("{s:O, s:s*, s:O*, s:O*, s:O*, s:O}", "env", s.env, "workingDirectory",
                                 *s.directory ? s.directory : NULL, "user", s.user, "runsAs", s.runs_as, "startup",
                                 json_object_size(s.startup) > 0 ? s.startup : NULL, "notes", s.notes);
        json_decref(s.env);
        json_decref(s.notes);
        json_decref(s.user);
        json_decref(s.runs_as);
        json_decref(s.startup);
        return *ret ? 0 : work_no_memory(e);
}
