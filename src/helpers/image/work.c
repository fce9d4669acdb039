/* Runs in: cloche-image, as its user, confined to the store and the source. */
#include "work.h"

#include "base/clock.h"
#include "base/err.h"

#define POLL_NS UINT64_C(50000000)
#define SEND_NS UINT64_C(200000000)

int work_no_memory(struct cloche_err *e)
{
        return err_set(e, CLOCHE_E_RESOURCE, "out of memory");
}

int work_go_on(struct work *work, const char *phase, uint64_t done, uint64_t total, struct cloche_err *e)
{
        uint64_t now = clock_now_ns();

        if (now - work->polled_ns < POLL_NS)
                return 0;
        work->polled_ns = now;
        if (server_is_cancelled(work->server))
                return err_set(e, CLOCHE_E_CANCELLED, "cancelled: nothing is kept");
        if (now - work->sent_ns < SEND_NS)
                return 0;
        work->sent_ns = now;
        /* A client that reads too slowly misses some. */
        (void)server_notify(work->server, "progress",
                            json_pack("{s:s, s:I, s:I}", "phase", phase, "done", (json_int_t)done, "total",
                                      (json_int_t)total));
        return 0;
}
