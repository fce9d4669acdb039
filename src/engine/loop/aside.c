#include "aside.h"

#include "base/err.h"
#include "handle.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>

struct aside {
        uv_async_t done; /* first member: closing it frees all (handle.h) */
        pthread_t thread;
        int control_fd;
        void (*work)(void *data), (*after)(void *data);
        void *data;
};

static void on_done(uv_async_t *async)
{
        struct aside *a = (struct aside *)async;

        pthread_join(a->thread, NULL);
        handle_close(a);
        a->after(a->data);
}

static void *run(void *data)
{
        struct aside *a = data;

        a->work(a->data);
        uv_async_send(&a->done);
        return NULL;
}

/* Block signals in the thread: they are for the threads of the engine's owner. */
static int create(struct aside *a)
{
        sigset_t all, before;
        int code;

        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        code = pthread_create(&a->thread, NULL, run, a);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        return code;
}

int aside_start(uv_loop_t *loop, int control_fd, void (*work)(void *data), void (*after)(void *data), void *data,
                struct aside **ret, struct cloche_err *e)
{
        struct aside *a = malloc(sizeof(*a));
        int code;

        if (!a)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "start a thread");
        *a = (struct aside){.control_fd = control_fd, .work = work, .after = after, .data = data};
        code = -uv_async_init(loop, &a->done, on_done);
        if (code) {
                free(a);
                return err_os(e, CLOCHE_E_RESOURCE, code, "start a thread");
        }
        code = create(a);
        if (code) {
                handle_close(a);
                return err_os(e, CLOCHE_E_RESOURCE, code, "start a thread");
        }
        *ret = a;
        return 0;
}

void aside_cut_short(struct aside *a)
{
        shutdown(a->control_fd, SHUT_RDWR);
}
