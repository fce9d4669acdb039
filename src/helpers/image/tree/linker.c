/* Runs in: cloche-image, as its user, confined to the store and the source. */
#include "linker.h"
#include "tree.h"

#include "base/err.h"
#include "base/fd.h"

#include <fcntl.h>
#include <linux/limits.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#define BATCHES 32             /* each holds two descriptors */
#define NAMES_BYTES (4u << 10) /* of a batch: some hundred names, so that both threads end at one time */
#define STACK_BYTES (128u << 10)
#define PATH_BYTES (MEMBER_PATH_MAX + NAME_MAX + 2)

/* Files of one directory. */
struct batch {
        int from_fd, to_fd; /* owned */
        size_t size;        /* of the names, each terminated */
        char names[NAMES_BYTES];
        char directory[MEMBER_PATH_MAX + 1]; /* for messages: with a slash at its end, or "" */
};

/* The first failure of linkat(2); number 0: none. */
struct failure {
        int number;
        char path[PATH_BYTES];
};

struct linker {
        pthread_mutex_t lock;
        pthread_cond_t has_work, is_idle;
        struct batch batches[BATCHES];
        size_t first, count;  /* a ring: those that wait */
        struct batch filling; /* the caller's alone */
        struct batch taken;   /* the thread's alone */
        int is_filling, is_busy;
        struct failure failure;
};

/* -- a batch -------------------------------------------------------------------------------------------------- */

/* Called without the lock. */
static void link_batch(struct batch *b, struct failure *ret)
{
        ret->number = 0;
        for (const char *name = b->names; ret->number == 0 && name < b->names + b->size; name += strlen(name) + 1) {
                if (linkat(b->from_fd, name, b->to_fd, name, 0) == 0)
                        continue;
                ret->number = errno;
                snprintf(ret->path, sizeof(ret->path), "%s%.*s", b->directory, NAME_MAX, name);
        }
        fd_close(&b->from_fd);
        fd_close(&b->to_fd);
        b->size = 0;
}

/* Called with the lock, which it gives up meanwhile. */
static void link_taken(struct linker *l, struct batch *b)
{
        struct failure failure;

        pthread_mutex_unlock(&l->lock);
        link_batch(b, &failure);
        pthread_mutex_lock(&l->lock);
        if (failure.number != 0 && l->failure.number == 0)
                l->failure = failure;
}

static void move(struct batch *from, struct batch *to)
{
        to->from_fd = from->from_fd;
        to->to_fd = from->to_fd;
        to->size = from->size;
        memcpy(to->names, from->names, from->size);
        memcpy(to->directory, from->directory, strlen(from->directory) + 1);
        from->size = 0;
}

/* Called with the lock. */
static void take_first(struct linker *l, struct batch *ret)
{
        move(&l->batches[l->first], ret);
        l->first = (l->first + 1) % BATCHES;
        l->count--;
}

static void *run(void *argument)
{
        struct linker *l = argument;

        pthread_mutex_lock(&l->lock);
        for (;;) {
                while (l->count == 0) {
                        l->is_busy = 0;
                        pthread_cond_signal(&l->is_idle);
                        pthread_cond_wait(&l->has_work, &l->lock);
                }
                l->is_busy = 1;
                take_first(l, &l->taken);
                link_taken(l, &l->taken);
        }
        return NULL;
}

/* -- the caller's thread ---------------------------------------------------------------------------------------- */

/* The thread is there when this returns: the filter comes next, and would stop it in its first
 * calls. */
int linker_start(struct linker **ret, struct cloche_err *e)
{
        static struct linker l = {.lock = PTHREAD_MUTEX_INITIALIZER,
                                  .has_work = PTHREAD_COND_INITIALIZER,
                                  .is_idle = PTHREAD_COND_INITIALIZER,
                                  .is_busy = 1};
        pthread_attr_t attributes;
        pthread_t thread;
        int r = pthread_attr_init(&attributes);

        if (r == 0)
                r = pthread_attr_setstacksize(&attributes, STACK_BYTES);
        if (r == 0)
                r = pthread_create(&thread, &attributes, run, &l);
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

/* Called with the lock. */
static int tell(const struct linker *l, struct cloche_err *e)
{
        const struct failure *failure = &l->failure;

        if (failure->number == 0)
                return 0;
        return failure->number == EMLINK
                       ? err_set(e, CLOCHE_E_RESOURCE,
                                 "%.120s is in as many trees of the image store as its file system permits: remove "
                                 "images (cloche image prune)",
                                 failure->path)
                       : image_tree_failed(failure->number, failure->path, e);
}

int linker_turn(struct linker *l, struct cloche_err *e)
{
        int r;

        if (!l->is_filling)
                return 0;
        l->is_filling = 0;
        pthread_mutex_lock(&l->lock);
        if (l->count < BATCHES) {
                move(&l->filling, &l->batches[(l->first + l->count++) % BATCHES]);
                pthread_cond_signal(&l->has_work);
        } else {
                link_taken(l, &l->filling);
        }
        r = tell(l, e);
        pthread_mutex_unlock(&l->lock);
        return r;
}

static int begin(struct linker *l, int from_fd, int to_fd, const char *name, const char *path, struct cloche_err *e)
{
        struct batch *b = &l->filling;
        const size_t size = strlen(path) - strlen(name);

        if (size > MEMBER_PATH_MAX)
                return image_tree_failed(ENAMETOOLONG, path, e);
        b->from_fd = fcntl(from_fd, F_DUPFD_CLOEXEC, 3);
        b->to_fd = b->from_fd < 0 ? -EBADF : fcntl(to_fd, F_DUPFD_CLOEXEC, 3);
        if (b->to_fd < 0) {
                int r = image_tree_failed(errno, path, e);

                fd_close(&b->from_fd);
                return r;
        }
        memcpy(b->directory, path, size);
        b->directory[size] = '\0';
        l->is_filling = 1;
        return 0;
}

int linker_add(struct linker *l, int from_fd, int to_fd, const char *name, const char *path, struct cloche_err *e)
{
        struct batch *b = &l->filling;
        const size_t size = strlen(name) + 1;
        int r = b->size + size > sizeof(b->names) ? linker_turn(l, e) : 0;

        if (r == 0 && !l->is_filling)
                r = begin(l, from_fd, to_fd, name, path, e);
        if (r < 0)
                return r;
        memcpy(b->names + b->size, name, size);
        b->size += size;
        return 0;
}

int linker_finish(struct linker *l, struct cloche_err *e)
{
        struct cloche_err told_again;
        int r;

        (void)!linker_turn(l, &told_again);
        pthread_mutex_lock(&l->lock);
        while (l->count > 0) {
                take_first(l, &l->filling);
                link_taken(l, &l->filling);
        }
        while (l->is_busy)
                pthread_cond_wait(&l->is_idle, &l->lock);
        r = tell(l, e);
        l->failure.number = 0;
        pthread_mutex_unlock(&l->lock);
        return r;
}
