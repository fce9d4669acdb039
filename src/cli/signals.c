#include "signals.h"

#include <errno.h>
#include <sys/signalfd.h>

static sigset_t heard(void)
{
        static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGWINCH};
        sigset_t set;

        sigemptyset(&set);
        for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
                sigaddset(&set, numbers[i]);
        return set;
}

void signals_block(sigset_t *ret_before)
{
        const sigset_t set = heard();

        sigprocmask(SIG_BLOCK, &set, ret_before);
}

int signals_open(void)
{
        const sigset_t set = heard();
        int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);

        return fd < 0 ? -errno : fd;
}
