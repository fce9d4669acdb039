/* Files written into a box before its program starts. Runs in: the engine, on its loop; init and
 * the mounts' servers write them. */
#include "seed.h"

#include "base/fd.h"

#define PENDING_MAX 16 /* concurrent requests: each answer costs an iteration, each request memory */

static void finish(struct seeding *p, const struct cloche_err *e)
{
        void (*done)(void *data, const struct cloche_err *e) = p->done;

        seeding_stop(p);
        done(p->data, e);
}

void seeding_stop(struct seeding *p)
{
        if (!p->done)
                return;
        p->done = NULL;
        mounts_detach_seed(p->mounts, p);
        if (p->box->control)
                control_detach(p->box->control, p);
}

static void go_on(struct seeding *p);

static void on_seeded(void *data, const struct cloche_err *e)
{
        struct seeding *p = data;

        if (e)
                finish(p, e);
        else
                go_on(p);
}

static void on_put(void *data, const struct init_answer *answer, int fd, const struct cloche_err *e)
{
        struct seeding *p = data;

        (void)answer;
        fd_close(&fd);
        p->pending--;
        on_seeded(p, e);
}

/* 1: a request was sent to a server; 0: no file for a mount is left. */
static int seed_mount(struct seeding *p, struct cloche_err *e)
{
        while (p->next_in_mount < p->files->count) {
                const struct kept_file *file = &p->files->rows[p->next_in_mount++];
                const char *below;
                struct mount *mount = mounts_find(p->mounts, file->path, &below);
                int r = mount ? mount_seed(mount, below, file->fd, file->mode, on_seeded, p, e) : 0;

                if (mount)
                        return r < 0 ? r : 1;
        }
        return 0;
}

/* Send files to init, which handles them in this order. */
static int seed_box(struct seeding *p, struct cloche_err *e)
{
        while (p->pending < PENDING_MAX && p->next_in_box < p->files->count) {
                const struct kept_file *file = &p->files->rows[p->next_in_box++];
                struct init_request request = {.op = INIT_PUT, .mode = file->mode};
                const char *below;
                int r;

                if (mounts_find(p->mounts, file->path, &below))
                        continue;
                r = control_request_path(p->box->control, &request, file->path, &file->fd, 1, on_put, p, e);
                if (r < 0)
                        return r;
                p->pending++;
        }
        return 0;
}

static void go_on(struct seeding *p)
{
        struct cloche_err e = {0};
        int r = seed_mount(p, &e);

        if (r > 0)
                return;
        if (r == 0)
                r = seed_box(p, &e);
        if (r < 0 || p->pending == 0)
                finish(p, r < 0 ? &e : NULL);
}

void seeding_start(struct seeding *p, struct box *box, struct mounts *mounts, const struct kept_files *files,
                   void (*done)(void *data, const struct cloche_err *e), void *data)
{
        *p = (struct seeding){.box = box, .mounts = mounts, .files = files, .done = done, .data = data};
        go_on(p);
}
