/* Kill the process at a chosen point, in tests only.
 * Runs in: cloche-sync, as the directory's owner, Landlocked to it. */
#include "crash.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

/* Count down; an unset variable never reaches zero. */
static int is_reached(const char *variable, long *left)
{
        const char *text = getenv(variable);

        if (*left == 0)
                *left = text ? atol(text) : -1;
        return *left > 0 && --*left == 0 ? (*left = -1) : 0;
}

void crash_point(void)
{
        static long left;

        if (!is_reached("CLOCHE_SYNC_CRASH", &left))
                return;
        kill(getpid(), SIGKILL);
        abort(); /* the filter of cloche-image refuses the other signal */
}

int crash_failure(void)
{
        static long left;

        return is_reached("CLOCHE_SYNC_FAIL", &left);
}
