/* Layers, which sandboxes share by hard links: a save replaces a sandbox's archive as a whole and
 * never writes into it. Runs in: cloched-engine, on its loop, with the rights of the daemon's user. */
#include "layer.h"
#include "sandbox/core/store.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define LAYERS ".packages"
#define LAYERS_MAX 32 /* of one principal */
/* Later, names without a version may mean others. */
#define LAYER_AGE_S (INT64_C(7) * 24 * 60 * 60)
#define SWEEP_EVERY_NS (UINT64_C(3600) * 1000000000)

static int open_layers(const struct sandboxes *all, int64_t principal, int make)
{
        char name[32];
        _cleanup_fd_ int fd = -EBADF;

        if (all->state_fd < 0)
                return -ENOENT;
        snprintf(name, sizeof(name), "%lld", (long long)principal);
        fd = sandbox_store_open_below(all->state_fd, name, make);
        return fd < 0 ? fd : sandbox_store_open_below(fd, LAYERS, make);
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
        unlinkat(fd, key, 0);
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
                unlinkat(layers_fd, key, 0);
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
        char name[256];
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

/* Remove the oldest ones beyond the maximum. The operator's bound of saved sandboxes is one of layers, too: each may
 * take as much room. Sandboxes that began with one keep theirs. */
static void make_room(const struct sandboxes *all, int layers_fd)
{
        unsigned saved_max = all->options.saved_max,
                 most = saved_max && saved_max < LAYERS_MAX ? saved_max : LAYERS_MAX;
        struct oldest oldest;

        do {
                oldest = (struct oldest){.count = 0};
                each_entry(layers_fd, find_oldest, &oldest);
        } while (oldest.count >= most && unlinkat(layers_fd, oldest.name, 0) == 0);
}

int sandbox_layer_keep(const struct sandbox *s, const char *key, struct cloche_err *e)
{
        _cleanup_fd_ int layers_fd = open_layers(s->all, s->principal, 1);
        _cleanup_fd_ int dir_fd = layers_fd < 0 ? -EBADF : sandbox_store_open(s, 0);

        if (dir_fd >= 0)
                make_room(s->all, layers_fd);
        if (dir_fd < 0 || renameat(dir_fd, SANDBOX_STORE_FILES, layers_fd, key) < 0)
                return err_os(e, CLOCHE_E_RESOURCE,
                              layers_fd < 0 ? -layers_fd
                              : dir_fd < 0  ? -dir_fd
                                            : errno,
                              "keep the packages in the state directory");
        return 0;
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
