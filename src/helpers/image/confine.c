/* Runs in: cloche-image, before it reads any byte of a source. */
#include "confine.h"

#include "base/err.h"
#include "jail/caps.h"
#include "jail/filter/filter.h"
#include "jail/filter/landlock.h"

#include <errno.h>
#include <sys/prctl.h>
#include <sys/resource.h>

static const struct sock_filter calls[] = {
#include "image-filter-rows.inc"
};
static const struct sock_filter reader_calls[] = {
#include "image-reader-filter-rows.inc"
};

int confine_capabilities(const struct confinement *about, struct cloche_err *e)
{
        const struct rlimit none = {0, 0};

        if (setrlimit(RLIMIT_CORE, &none) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
                return err_os(e, CLOCHE_E_PRIVILEGE, errno, "refuse core files");
        if (about->keeps_ids)
                return about->is_reader ? caps_keep_reading(e) : caps_keep_files(e);
        return caps_give_up() < 0 ? err_os(e, CLOCHE_E_PRIVILEGE, errno, "drop capabilities") : 0;
}

int confine_files(const struct confinement *about, int store_fd, int source_fd, int *ret_abi, struct cloche_err *e)
{
        const struct landlock_place places[] = {{store_fd, about->is_reader ? 0 : LANDLOCK_TREE}, {source_fd, 0}};
        int r = landlock_enter(places, source_fd >= 0 ? 2 : 1, ret_abi, e);

        /* Before ABI 2 Landlock forbids moves between directories. */
        if (r == 0 && *ret_abi < 2)
                return err_set(e, CLOCHE_E_GUARD_MISSING, "landlock: ABI %d of this kernel, expected at least 2",
                               *ret_abi);
        return r;
}

int confine_calls(const struct confinement *about, struct cloche_err *e)
{
        return about->is_reader ? FILTER_ENTER(reader_calls, e) : FILTER_ENTER(calls, e);
}
