/* Layers, which sandboxes share by hard links: a save replaces a sandbox's archive as
 * a whole and never writes into it. Runs in: cloched-engine, on its loop, with the
 * rights of the daemon's user. */
#include "layer.h"
#include "sandbox/core/store.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "wire/json.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LAYERS ".packages"
#define ABOUT "." /* before the name of a layer: its description */
#define LAYER_NAME_SIZE 257
#define LAYER_DIGITS 64
#define ABOUT_BYTES_MAX (1 << 20) /* 600 packages have at most 200 bytes each */
#define LAYERS_MAX 32             /* of one principal */
/* Later, names without a version may mean others. */
#define LAYER_AGE_S (INT64_C(7) * 24 * 60 * 60)
#define SWEEP_EVERY_NS (UINT64_C(3600) * 1000000000)

static int open_layers(const struct sandboxes *all, int64_t principal, int make)
{
        return sandbox_store_open_named(all, principal, LAYERS, make);
}

/* Its description goes first, which alone means nothing. */
static int remove_layer(int layers_fd, const char *key)
{
        char about[LAYER_NAME_SIZE];

        snprintf(about, sizeof(about), ABOUT "%s", key);
        unlinkat(layers_fd, about, 0);
        return unlinkat(layers_fd, key, 0) < 0 ? -errno : 0;
}

static int is_old(int layers_fd, const char *key)
{
        struct stat st;

        return fstatat(layers_fd, key, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
               (int64_t)(clock_real_ms() / 1000) - st.st_mtim.tv_sec > LAYER_AGE_S;
}

int sandbox_layer_exists(const struct sandboxes *all, int64_t principal, const char *key)
{
        _cleanup_fd_ int fd = open_layers(all, principal, 0);
        struct stat st;

        if (fd < 0 || fstatat(fd, key, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
                return 0;
        if (!is_old(fd, key))
                return 1;
        remove_layer(fd, key);
        return 0;
}

/* Call each with the entries of a directory, but not with hidden ones. */
static void each_entry(int dir_fd, void (*each)(void *data, int dir_fd, const char *name), void *data)
{
        int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *dir = fd < 0 ? NULL : fdopendir(fd);

        for (const struct dirent *entry; dir && (entry = readdir(dir));)
                if (entry->d_name[0] != '.')
                        each(data, dir_fd, entry->d_name);
        if (dir)
                closedir(dir);
}

static void remove_old(void *data, int layers_fd, const char *key)
{
        (void)data;
        if (is_old(layers_fd, key))
                remove_layer(layers_fd, key);
}

static void sweep_principal(void *data, int state_fd, const char *name)
{
        _cleanup_fd_ int fd = sandbox_store_open_below(state_fd, name, 0);
        _cleanup_fd_ int layers_fd = fd < 0 ? -EBADF : sandbox_store_open_below(fd, LAYERS, 0);

        if (layers_fd >= 0)
                each_entry(layers_fd, remove_old, data);
}

void sandbox_layers_tidy(struct sandboxes *all, uint64_t now_ns)
{
        if (all->state_fd < 0 || (all->layers_swept_ns && now_ns - all->layers_swept_ns < SWEEP_EVERY_NS))
                return;
        all->layers_swept_ns = now_ns;
        each_entry(all->state_fd, sweep_principal, NULL);
}

struct oldest {
        char name[LAYER_NAME_SIZE];
        time_t since_s;
        unsigned count; /* of all */
};

static void find_oldest(void *data, int layers_fd, const char *key)
{
        struct oldest *oldest = data;
        struct stat st;

        if (fstatat(layers_fd, key, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return;
        if (oldest->count++ > 0 && st.st_mtim.tv_sec >= oldest->since_s)
                return;
        oldest->since_s = st.st_mtim.tv_sec;
        snprintf(oldest->name, sizeof(oldest->name), "%s", key);
}

/* Remove the oldest ones beyond the maximum. The operator's bound of saved sandboxes is one of
 * layers, too: each may take as much room. Sandboxes that began with one keep theirs. */
static void make_room(const struct sandboxes *all, int layers_fd)
{
        unsigned saved_max = all->options.saved_max,
                 most = saved_max && saved_max < LAYERS_MAX ? saved_max : LAYERS_MAX;
        struct oldest oldest;

        do {
                oldest = (struct oldest){.count = 0};
                each_entry(layers_fd, find_oldest, &oldest);
        } while (oldest.count >= most && remove_layer(layers_fd, oldest.name) == 0);
}

static int write_about(int layers_fd, const char *key, const json_t *about)
{
        char *text = json_dump_text(about, JSON_COMPACT), name[LAYER_NAME_SIZE];
        _cleanup_fd_ int fd = -EBADF;
        int r;

        snprintf(name, sizeof(name), ABOUT "%s", key);
        fd = openat(layers_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
        r = fd < 0 ? -errno : text ? fd_write_full(fd, text, strlen(text)) : -ENOMEM;
        free(text);
        return r;
}

int sandbox_layer_keep(const struct sandbox *s, const char *key, const json_t *about, struct cloche_err *e)
{
        _cleanup_fd_ int layers_fd = open_layers(s->all, s->principal, 1);
        _cleanup_fd_ int dir_fd = layers_fd < 0 ? -EBADF : sandbox_store_open(s, 0);

        int r = layers_fd < 0 ? layers_fd : dir_fd < 0 ? dir_fd : 0;

        if (r == 0) {
                make_room(s->all, layers_fd);
                r = write_about(layers_fd, key, about);
        }
        if (r == 0 && renameat(dir_fd, SANDBOX_STORE_FILES, layers_fd, key) < 0)
                r = -errno;
        return r < 0 ? err_os(e, CLOCHE_E_RESOURCE, -r, "keep the packages in the state directory") : 0;
}

int sandbox_layer_give(const struct sandbox *s, const char *key, struct cloche_err *e)
{
        _cleanup_fd_ int layers_fd = open_layers(s->all, s->principal, 0);
        _cleanup_fd_ int dir_fd = layers_fd < 0 ? -EBADF : sandbox_store_open(s, 1);

        if (dir_fd < 0 || linkat(layers_fd, key, dir_fd, SANDBOX_STORE_FILES, 0) < 0)
                return err_os(e, CLOCHE_E_RESOURCE,
                              layers_fd < 0 ? -layers_fd
                              : dir_fd < 0  ? -dir_fd
                                            : errno,
                              "give the sandbox %s its packages", s->name);
        return 0;
}

/* -- for their owner -------------------------------------------------------------------------------------------- */

static json_t *read_about(int layers_fd, const char *key)
{
        char name[LAYER_NAME_SIZE];
        _cleanup_fd_ int fd = -EBADF;
        json_error_t why;

        snprintf(name, sizeof(name), ABOUT "%s", key);
        fd = openat(layers_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        return fd < 0 ? NULL : sandbox_store_read_json(fd, ABOUT_BYTES_MAX, &why);
}

static void add_layer(void *data, int layers_fd, const char *key)
{
        json_t *about = read_about(layers_fd, key), *packages = json_object_get(about, "packages"),
               *image = json_object_get(about, "image"), *rows = data;
        struct stat st;
        uint64_t made_ms;
        size_t at = 0;

        if (fstatat(layers_fd, key, &st, AT_SYMLINK_NOFOLLOW) == 0 && !is_old(layers_fd, key)) {
                made_ms = (uint64_t)st.st_mtim.tv_sec * 1000 + (uint64_t)st.st_mtim.tv_nsec / 1000000;
                while (at < json_array_size(rows) &&
                       (uint64_t)json_integer_value(json_object_get(json_array_get(rows, at), "made")) <= made_ms)
                        at++;
                json_array_insert_new(rows, at,
                                      json_pack("{s:s, s:o, s:O*, s:I, s:I}", "layer", key, "packages",
                                                packages ? json_incref(packages) : json_object(), "image", image,
                                                "bytes", (json_int_t)st.st_size, "made", (json_int_t)made_ms));
        }
        json_decref(about);
}

json_t *sandboxes_layers(const struct sandboxes *all, int64_t principal)
{
        _cleanup_fd_ int layers_fd = open_layers(all, principal, 0);
        json_t *rows = json_array(), *row;
        size_t i;

        if (layers_fd >= 0)
                each_entry(layers_fd, add_layer, rows);
        json_array_foreach (rows, i, row) {
                uint64_t made_ms = (uint64_t)json_integer_value(json_object_get(row, "made"));

                json_object_set_new(row, "createdAt", sandbox_time_json(made_ms));
                json_object_set_new(row, "expiresAt", sandbox_time_json(made_ms + (uint64_t)LAYER_AGE_S * 1000));
                json_object_del(row, "made");
        }
        return rows;
}

int sandboxes_layer_delete(const struct sandboxes *all, int64_t principal, const char *layer, struct cloche_err *e)
{
        _cleanup_fd_ int layers_fd = open_layers(all, principal, 0);
        int is_one = strlen(layer) == LAYER_DIGITS && strspn(layer, "0123456789abcdef") == LAYER_DIGITS,
            r = !is_one         ? -ENOENT
                : layers_fd < 0 ? layers_fd
                                : remove_layer(layers_fd, layer);

        if (r == -ENOENT)
                return err_set(e, CLOCHE_E_NOT_FOUND, "there are no packages \"%.64s\" (packages.list lists them)",
                               layer);
        return r < 0 ? err_os(e, CLOCHE_E_RESOURCE, -r, "remove packages from the state directory") : 0;
}
