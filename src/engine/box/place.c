#include "place.h"

#include "base/fd.h"

#define ASKED_MAX 16 /* concurrent requests: each answer costs an iteration, each request memory */

static void finish(struct placing *p, const struct cloche_err *e)
{
        void (*done)(void *data, const struct cloche_err *e) = p->done;

        placing_stop(p);
        done(p->data, e);
}

void placing_stop(struct placing *p)
{
        if (!p->done)
                return;
        p->done = NULL;
        mounts_forget_place(p->mounts, p);
        if (p->box->control)
                control_forget(p->box->control, p);
}

static void go_on(struct placing *p);

static void on_put(void *data, const struct init_answer *answer, int fd, const struct cloche_err *e)
{
        struct placing *p = data;

        (void)answer;
        fd_close(&fd);
        p->asked--;
        if (e)
                finish(p, e);
        else
                go_on(p);
}

static void on_placed(void *data, const struct cloche_err *e)
{
        struct placing *p = data;

        if (e)
                finish(p, e);
        else
                go_on(p);
}

/* 1: a request was sent to a server; 0: no file for a mount is left. */
static int place_in_mount(struct placing *p, struct cloche_err *e)
{
        while (p->next_in_mount < p->files->count) {
                const struct kept_file *file = &p->files->rows[p->next_in_mount++];
                const char *below;
                struct mount *mount = mounts_find(p->mounts, file->path, &below);
                int r = mount ? mount_place(mount, below, file->fd, file->mode, on_placed, p, e) : 0;

                if (mount)
                        return r < 0 ? r : 1;
        }
        return 0;
}

/* Send files to init, which handles them in this order. */
static int put_in_box(struct placing *p, struct cloche_err *e)
{
        while (p->asked < ASKED_MAX && p->next_in_box < p->files->count) {
                const struct kept_file *file = &p->files->rows[p->next_in_box++];
                struct init_request request = {.op = INIT_PUT, .mode = file->mode};
                const char *below;
                int r;

                if (mounts_find(p->mounts, file->path, &below))
                        continue;
                r = control_ask_path(p->box->control, &request, file->path, &file->fd, 1, on_put, p, e);
                if (r < 0)
                        return r;
                p->asked++;
        }
        return 0;
}

static void go_on(struct placing *p)
{
        struct cloche_err e = {0};
        int r = place_in_mount(p, &e);

        if (r > 0)
                return;
        if (r == 0)
                r = put_in_box(p, &e);
        if (r < 0 || p->asked == 0)
                finish(p, r < 0 ? &e : NULL);
}

void placing_begin(struct placing *p, struct box *box, struct mounts *mounts, const struct kept_files *files,
                   void (*done)(void *data, const struct cloche_err *e), void *data)
{
        *p = (struct placing){.box = box, .mounts = mounts, .files = files, .done = done, .data = data};
        go_on(p);
}
