/* The list is complete before the work begins, and each thread takes the next directory of it: to
 * give directories to the other thread while they are found costs more than the links do. Runs
 * in: cloche-image, as its user, confined to the store and the source. */
#include "linker.h"
#include "tree.h"

#include "base/array.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"

#include <fcntl.h>
#include <linux/limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT_BYTES_MAX (1u << 30) /* 2 million names of 255 bytes have half of it */
#define STACK_BYTES (128u << 10)

/* Files of one directory that follow each other: its path, terminated, and their names. */
struct run {
        size_t at, count;
};

/* The first failure of a call; number 0: none. */
struct failure {
        int number;
        char path[MEMBER_PATH_MAX + NAME_MAX + 2];
};

struct linker {
        pthread_mutex_t lock;
        pthread_cond_t has_work, is_idle;
        struct buf text;
        struct run *runs;
        size_t count, room;
        int from_fd, to_fd;
        size_t next; /* atomic: the run that nobody has begun; from count on: no more */
        int is_wanted, is_busy;
        struct failure failure;
};

/* -- both threads ------------------------------------------------------------------------------------------------- */

static void stop(struct linker *l)
{
        __atomic_store_n(&l->next, l->count, __ATOMIC_RELAXED);
}

static void fail(struct linker *l, int number, const char *directory, const char *name)
{
        pthread_mutex_lock(&l->lock);
        if (l->failure.number == 0) {
                l->failure.number = number;
                snprintf(l->failure.path, sizeof(l->failure.path), "%.*s%s%.*s", MEMBER_PATH_MAX, directory,
                         *directory ? "/" : "", NAME_MAX, name);
        }
        pthread_mutex_unlock(&l->lock);
        stop(l);
}

static void link_run(struct linker *l, const struct run *run)
{
        const char *directory = l->text.data + run->at, *name = directory + strlen(directory) + 1;
        _cleanup_fd_ int from_fd = image_tree_open_below(l->from_fd, directory, O_PATH),
                         to_fd = image_tree_open_below(l->to_fd, directory, O_PATH);

        if (from_fd < 0 || to_fd < 0) {
                fail(l, from_fd < 0 ? -from_fd : -to_fd, directory, "");
                return;
        }
        for (size_t i = 0; i < run->count; i++, name += strlen(name) + 1)
                if (linkat(from_fd, name, to_fd, name, 0) < 0) {
                        fail(l, errno, directory, name);
                        return;
                }
}

/* 0: there is none. */
static int link_next(struct linker *l)
{
        const size_t i = __atomic_fetch_add(&l->next, 1, __ATOMIC_RELAXED);

        if (i >= l->count)
                return 0;
        link_run(l, &l->runs[i]);
        return 1;
}

static void *work(void *argument)
{
        struct linker *l = argument;

        pthread_mutex_lock(&l->lock);
        for (;;) {
                l->is_busy = 0;
                pthread_cond_signal(&l->is_idle);
                while (!l->is_wanted)
                        pthread_cond_wait(&l->has_work, &l->lock);
                l->is_wanted = 0;
                l->is_busy = 1;
                pthread_mutex_unlock(&l->lock);
                while (link_next(l))
                        ;
                pthread_mutex_lock(&l->lock);
        }
        return NULL;
}

/* -- the caller's thread ------------------------------------------------------------------------------------------ */

/* The thread is there when this returns: the filter comes next, and would stop it in its first
 * calls. */
int linker_start(struct linker **ret, struct cloche_err *e)
{
        static struct linker l = {.lock = PTHREAD_MUTEX_INITIALIZER,
                                  .has_work = PTHREAD_COND_INITIALIZER,
                                  .is_idle = PTHREAD_COND_INITIALIZER,
                                  .text = BUF_INIT(TEXT_BYTES_MAX),
                                  .is_busy = 1};
        pthread_attr_t attributes;
        pthread_t thread;
        int r = pthread_attr_init(&attributes);

        if (r == 0)
                r = pthread_attr_setstacksize(&attributes, STACK_BYTES);
        if (r == 0)
                r = pthread_create(&thread, &attributes, work, &l);
        if (r != 0)
                return err_os(e, CLOCHE_E_RESOURCE, r, "start a thread");
        pthread_attr_destroy(&attributes);
        pthread_mutex_lock(&l.lock);
        while (l.is_busy)
                pthread_cond_wait(&l.is_idle, &l.lock);
        pthread_mutex_unlock(&l.lock);
        *ret = &l;
        return 0;
}

static int begin_run(struct linker *l, const char *path, size_t size, struct cloche_err *e)
{
        const size_t at = l->text.size;

        if (size > MEMBER_PATH_MAX)
                return image_tree_failed(ENAMETOOLONG, path, e);
        if (ARRAY_GROW(l->runs, l->count, l->room) < 0 || buf_append(&l->text, path, size) < 0 ||
            buf_append(&l->text, "", 1) < 0)
                return work_no_memory(e);
        l->runs[l->count++] = (struct run){at, 0};
        return 0;
}

int linker_add(struct linker *l, const char *path, struct cloche_err *e)
{
        const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
        const size_t size = slash ? (size_t)(slash - path) : 0;
        const char *before = l->count > 0 ? l->text.data + l->runs[l->count - 1].at : NULL;
        int r = before && strncmp(before, path, size) == 0 && before[size] == '\0' ? 0 : begin_run(l, path, size, e);

        if (r == 0 && buf_append(&l->text, name, strlen(name) + 1) < 0)
                r = work_no_memory(e);
        if (r == 0)
                l->runs[l->count - 1].count++;
        return r;
}

static int tell(const struct failure *failure, struct cloche_err *e)
{
        if (failure->number == 0)
                return 0;
        return failure->number == EMLINK
                       ? err_set(e, CLOCHE_E_RESOURCE,
                                 "%.120s is in as many trees of the image store as its file system permits: remove "
                                 "images (cloche image prune)",
                                 failure->path)
                       : image_tree_failed(failure->number, failure->path, e);
}

int linker_run(struct linker *l, int from_fd, int to_fd, int (*go_on)(void *data, struct cloche_err *e), void *data,
               struct cloche_err *e)
{
        int r = 0;

        l->from_fd = from_fd;
        l->to_fd = to_fd;
        l->next = 0;
        l->failure.number = 0;
        pthread_mutex_lock(&l->lock);
        l->is_wanted = l->is_busy = l->count > 1;
        if (l->is_wanted)
                pthread_cond_signal(&l->has_work);
        pthread_mutex_unlock(&l->lock);
        while (r == 0 && link_next(l))
                r = go_on(data, e);
        if (r < 0)
                stop(l);
        pthread_mutex_lock(&l->lock);
        while (l->is_busy)
                pthread_cond_wait(&l->is_idle, &l->lock);
        pthread_mutex_unlock(&l->lock);
        return r < 0 ? r : tell(&l->failure, e);
}

void linker_clear(struct linker *l)
{
        buf_done(&l->text);
        l->text = (struct buf)BUF_INIT(TEXT_BYTES_MAX);
        free(l->runs);
        l->runs = NULL;
        l->count = l->room = 0;
}
