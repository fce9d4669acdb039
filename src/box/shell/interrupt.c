/* SIGINT abandons the current command at any point. bash alone would not: while it waits for a
 * program it installs its own handler, and obeys the signal only if the program died of it too. So
 * SIGINT is blocked in the shell, and a thread takes it from a signalfd. Under a lock it checks
 * that a command runs, and then sends the main thread a signal that bash does not use.
 *
 * Processes that bash forks get its first signal mask, in which SIGINT is not blocked.
 * Runs in: bash of a session, with the guest's rights, beside the guest's code. */
#include "session.h"

#include "base/fd.h"

#include <poll.h>
#include <pthread.h>
#include <quit.h>
#include <sig.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/signalfd.h>

#define SIGNAL (SIGRTMAX - 7) /* re-armed with each command: a trap on it has no effect */
#define STACK_BYTES 65536

/* Declared in jobs.c and trap.c; their headers omit them or are not shipped. */
extern volatile int wait_signal_received;
int signal_is_trapped(int number);
int signal_is_ignored(int number);
void trap_handler(int number);

static sh_builtin_func_t *shells_kill;

enum signal_reason { SIGNAL_NONE, SIGNAL_FROM_OUTSIDE, SIGNAL_FROM_WITHIN };

static struct {
        pthread_mutex_t lock;
        pthread_t main_thread;
        pid_t starter_pid;
        int is_armed;      /* under the lock */
        atomic_int reason; /* reason why the main thread is being signalled */
        volatile sig_atomic_t is_running, abandoned;
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* -- the thread ------------------------------------------------------------------------------------------------ */

/* The process that started the shell acts for the engine. SIGINT from a process of the guest works
 * as in any shell: its trap runs. */
static void pass_on(const struct signalfd_siginfo *info)
{
        const int is_outside = info->ssi_pid == 0 || (pid_t)info->ssi_pid == state.starter_pid;

        if (!state.is_armed)
                return;
        atomic_store(&state.reason, is_outside ? SIGNAL_FROM_OUTSIDE : SIGNAL_FROM_WITHIN);
        pthread_kill(state.main_thread, SIGNAL);
}

/* Called under the lock: a signal from before the command began is not for that command. */
static void take_signals(void)
{
        struct signalfd_siginfo info;

        while (read(fds_get(FDS_SIGNALS), &info, sizeof(info)) == (ssize_t)sizeof(info))
                pass_on(&info);
}

static void *watch(void *unused)
{
        struct pollfd polled = {.fd = fds_get(FDS_SIGNALS), .events = POLLIN};

        while ((poll(&polled, 1, -1) > 0 && !(polled.revents & ~POLLIN)) || errno == EINTR) {
                pthread_mutex_lock(&state.lock);
                take_signals();
                pthread_mutex_unlock(&state.lock);
        }
        return unused;
}

/* -- the main thread ------------------------------------------------------------------------------------------- */

static void abandon(enum abandoned why)
{
        if (state.abandoned)
                return;
        state.abandoned = why;
        interrupt_state = 1;
        /* bash checks for an interrupt while it waits for a program only if it is interactive; the
         * unwinding resets this. */
        interactive = 1;
        if (wait_intr_flag)
                wait_signal_received = SIGINT;
}

static void on_signal(int number)
{
        const int reason = atomic_exchange(&state.reason, SIGNAL_NONE);

        (void)number;
        if (!state.is_running || reason == SIGNAL_NONE)
                return;
        if (reason == SIGNAL_FROM_OUTSIDE || !signal_is_trapped(SIGINT))
                abandon(ABANDONED_BY_INTERRUPT);
        else if (!signal_is_ignored(SIGINT))
                trap_handler(SIGINT);
}

/* SIGPIPE would end a shell that runs a script; here it ends the command. If it were ignored,
 * programs would inherit that. */
static void on_pipe(int number)
{
        if (!fds_is_shell()) {
                signal(number, SIG_DFL);
                raise(number);
        } else if (state.is_running) {
                abandon(ABANDONED_BY_PIPE);
        }
}

/* bash unblocks all signals on its way to the top level: one that arrives then belongs to the
 * abandoned command. */
static void on_stray_sigint(int number)
{
        if (!fds_is_shell()) {
                signal(number, SIG_DFL);
                raise(number);
        } else if (state.is_running) {
                abandon(ABANDONED_BY_INTERRUPT);
        }
}

static void handle(int number, void (*handler)(int))
{
        struct sigaction action = {.sa_handler = handler};

        sigaction(number, &action, NULL);
}

static void block_sigint(sigset_t *ret)
{
        sigemptyset(ret);
        sigaddset(ret, SIGINT);
        pthread_sigmask(SIG_BLOCK, ret, NULL);
}

/* A command may have changed any of these. */
static void arrange_signals(void)
{
        sigset_t sigint, ours;

        block_sigint(&sigint);
        sigemptyset(&ours);
        sigaddset(&ours, SIGNAL);
        sigaddset(&ours, SIGPIPE);
        pthread_sigmask(SIG_UNBLOCK, &ours, NULL);
        handle(SIGNAL, on_signal);
        if (!signal_is_trapped(SIGPIPE))
                handle(SIGPIPE, on_pipe);
        if (!signal_is_trapped(SIGINT))
                handle(SIGINT, on_stray_sigint);
}

void interrupt_arm(void)
{
        arrange_signals();
        pthread_mutex_lock(&state.lock);
        take_signals();
        state.is_armed = 1;
        state.is_running = 1;
        pthread_mutex_unlock(&state.lock);
}

enum abandoned interrupt_disarm(void)
{
        enum abandoned why;
        sigset_t sigint;

        state.is_running = 0;
        block_sigint(&sigint);
        pthread_mutex_lock(&state.lock);
        state.is_armed = 0;
        pthread_mutex_unlock(&state.lock);
        why = (enum abandoned)state.abandoned;
        state.abandoned = ABANDONED_NOT;
        interactive = 0;
        CLRINTERRUPT;
        wait_signal_received = 0;
        return why;
}

void interrupt_reset_in_fork(void)
{
        struct sigaction action;

        state.is_running = 0;
        if (sigaction(SIGPIPE, NULL, &action) == 0 && action.sa_handler == on_pipe)
                handle(SIGPIPE, SIG_DFL);
}

/* The signal of `kill -INT $$` must have taken effect when `kill` returns, as in any shell. */
static int kill_and_heed(WORD_LIST *words)
{
        const int status = shells_kill(words);

        if (fds_is_shell()) {
                pthread_mutex_lock(&state.lock);
                take_signals();
                pthread_mutex_unlock(&state.lock);
        }
        return status;
}

/* -- starting -------------------------------------------------------------------------------------------------- */

static void replace_kill(void)
{
        struct builtin *builtin = builtin_address_internal("kill", 1);

        shells_kill = builtin->function;
        builtin->function = kill_and_heed;
}

static int start_thread(void)
{
        pthread_attr_t attributes;
        pthread_t thread;
        sigset_t all, before;
        int r;

        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, STACK_BYTES);
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        r = pthread_create(&thread, &attributes, watch, NULL);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        pthread_attr_destroy(&attributes);
        return -r;
}

int interrupt_start(void)
{
        sigset_t sigint;
        int fd;

        state.main_thread = pthread_self();
        state.starter_pid = getppid();
        block_sigint(&sigint);
        fd = signalfd(-1, &sigint, SFD_CLOEXEC | SFD_NONBLOCK);
        if (fd < 0)
                return -errno;
        fds_keep(FDS_SIGNALS, fd);
        replace_kill();
        /* bash installs these handlers when it first needs them (a trap on EXIT, `read -t`), and
         * would replace ours. So they come first. */
        initialize_terminating_signals();
        return start_thread();
}
