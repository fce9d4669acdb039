/* Block signals and read them from a descriptor. Runs in: the CLI, as its user. */
#include "signals.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/signalfd.h>
#include <unistd.h>

static atomic_int noted;

static sigset_t handled_signals(void)
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
        const sigset_t set = handled_signals();

        sigprocmask(SIG_BLOCK, &set, ret_before);
}

int signals_open(void)
{
        const sigset_t set = handled_signals();
        int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);

        return fd < 0 ? -errno : fd;
}

void signals_note(int number)
{
        atomic_store(&noted, number);
}

int signals_is_interrupted(int code)
{
        return atomic_load(&noted) == SIGINT && (code == SIGNALS_CANCELLED || code == SIGNALS_INTERRUPTED);
}

void signals_die_if_interrupted(int code)
{
        sigset_t only;

        if (!signals_is_interrupted(code))
                return;
        sigemptyset(&only);
        sigaddset(&only, SIGINT);
        signal(SIGINT, SIG_DFL);
        raise(SIGINT);
        sigprocmask(SIG_UNBLOCK, &only, NULL);
}

void signals_exit(int code)
{
        signals_die_if_interrupted(code);
        _exit(code);
}
