/* The daemon's first process: sockets, the engine's process, its restarts. Runs in: the
 * supervisor, with the rights of its starter. */
#include "supervisor.h"
#include "daemon/core/auth.h"
#include "daemon/core/daemon.h"
#include "daemon/core/log.h"
#include "listen.h"
#include "notify.h"
#include "on-demand.h"
#include "proto/supervisor.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/peer.h"
#include "jail/cgroup/cgroup.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define TURN_MS 1000
#define TURN_NS (UINT64_C(1000000) * TURN_MS)
#define CHILDREN_NS (UINT64_C(15000000000)) /* for the keeper to end after its engine */
#define START_NS (UINT64_C(120000000000))   /* for an engine to start; it is silent until it serves */
#define END_MS 90000                        /* beyond the grace: SAVE_MS of loop.c, last messages, boxes */
#define PAUSE_MS_MIN 100
#define PAUSE_MS_MAX 10000
#define PROVEN_NS (UINT64_C(60000000000)) /* an engine that served this long ends a series of failures */

struct supervisor {
        struct daemon_options *options;
        char **argv;
        char program[4096];
        struct daemon sockets; /* only its listeners are used */
        int signal_fd, link_fd;
        int socket_fd; /* O_PATH of the unix socket; -EBADF: none */
        pid_t engine;  /* 0: none */
        enum supervisor_message_kind
                state; /* last relevant message: MESSAGE_BEGIN, MESSAGE_READY or MESSAGE_STOPPING */
        int status;    /* wait status of the last engine */
        int ordered;   /* the signal that ends the daemon, or 0 */
        int has_served;
        unsigned restarts, failures_in_row;
        uint64_t started_ns, turned_ns, silence_ns;
        uint64_t end_ns; /* deadline of an engine that is ending, after which it is killed; 0: none */
        int is_given_up; /* it was killed at that deadline */
        int has_state;   /* the engine before saved sandboxes */
        sigset_t outer_mask;
};

/* -- passing descriptors -------------------------------------------------------------------------------------- */

struct handed {
        int fds[LISTEN_FDS_MAX + HANDED_MORE];
        int count;
        char *names;
        FILE *names_stream;
};

static int add_handed(struct handed *h, int fd, const char *name, const char *suffix)
{
        if (h->count == LISTEN_FDS_MAX + HANDED_MORE)
                return -E2BIG;
        fprintf(h->names_stream, "%s%s%s", h->count ? ":" : "", name, suffix);
        h->fds[h->count++] = fd;
        return 0;
}

static int collect(const struct supervisor *s, int link_fd, struct handed *h)
{
        static const char *const names[ENTRANCE_COUNT] = {[ENTRANCE_DAEMON] = HANDED_SOCKET,
                                                          [ENTRANCE_CONTAINER] = HANDED_CONTAINER,
                                                          [ENTRANCE_E2B] = HANDED_E2B};
        const struct listener *l;
        size_t size;
        int r;

        h->names_stream = open_memstream(&h->names, &size);
        if (!h->names_stream)
                return -ENOMEM;
        r = add_handed(h, link_fd, HANDED_LINK, "");
        if (s->options->on_demand.lock_fd >= 0)
                r = add_handed(h, s->options->on_demand.lock_fd, HANDED_LOCK, "");
        TAILQ_FOREACH (l, &s->sockets.listeners, link)
                if (r == 0)
                        r = add_handed(h, l->fd, names[l->entrance.kind],
                                       l->entrance.sandbox ? l->entrance.sandbox : "");
        return fclose(h->names_stream) == 0 ? r : -ENOMEM;
}

/* Move fds[i] to LISTEN_FDS_START + i, open across exec. They first move above all these numbers,
 * so that none is overwritten. */
static int arrange(struct handed *h)
{
        for (int i = 0; i < h->count; i++)
                if ((h->fds[i] = fcntl(h->fds[i], F_DUPFD_CLOEXEC, LISTEN_FDS_START + h->count)) < 0)
                        return -errno;
        for (int i = 0; i < h->count; i++)
                if (dup2(h->fds[i], LISTEN_FDS_START + i) < 0)
                        return -errno;
        return close_range(LISTEN_FDS_START + (unsigned)h->count, ~0u, 0) < 0 ? -errno : 0;
}

static int pass_descriptors(const struct supervisor *s, int link_fd)
{
        struct handed h = {0};
        char text[16];
        int r = collect(s, link_fd, &h);

        if (r == 0)
                r = arrange(&h);
        if (r < 0)
                return r;
        setenv("LISTEN_FDNAMES", h.names, 1);
        snprintf(text, sizeof(text), "%d", h.count);
        setenv("LISTEN_FDS", text, 1);
        snprintf(text, sizeof(text), "%d", (int)getpid());
        return setenv("LISTEN_PID", text, 1) < 0 ? -errno : 0;
}

/* -- the engine's process ------------------------------------------------------------------------------------- */

/* Execute, not only fork: addresses that a crash reveals do not hold in the next engine. */
static _Noreturn void become_engine(const struct supervisor *s, int link_fd)
{
        int r;

        setsid(); /* Ctrl-C at a terminal reaches only the supervisor, which forwards it once */
        sigprocmask(SIG_SETMASK, &s->outer_mask, NULL);
        signal(SIGPIPE, SIG_DFL);
        r = pass_descriptors(s, link_fd);
        if (r == 0) {
                execv(s->program, s->argv);
                r = -errno;
        }
        log_event(LEVEL_ERROR, "cannot-start", "{s:s, s:s}", "program", s->program, "why", strerror(-r));
        _exit(1);
}

static int start_engine(struct supervisor *s, struct cloche_err *e)
{
        struct supervisor_message message = {.kind = MESSAGE_BEGIN,
                                             .number = s->restarts,
                                             .has_state = (uint32_t)s->has_state};
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "make a socketpair");
        (void)send(pair[0], &message, sizeof(message), MSG_NOSIGNAL);
        s->state = MESSAGE_BEGIN;
        s->silence_ns = 0;
        s->started_ns = s->turned_ns = clock_now_ns();
        s->engine = fork();
        if (s->engine == 0)
                become_engine(s, pair[1]);
        close(pair[1]);
        s->link_fd = pair[0];
        if (s->engine > 0)
                return 0;
        s->engine = 0;
        fd_close(&s->link_fd);
        return err_os(e, CLOCHE_E_RESOURCE, errno, "fork the engine's process");
}

static void on_ready(struct supervisor *s, int has_state)
{
        s->state = MESSAGE_READY;
        s->has_state = has_state;
        if (!s->has_served) {
                notify("READY=1");
                on_demand_ready(s->options);
        }
        s->has_served = 1;
}

/* Set the deadline for running jobs to end and for sandboxes to be saved. */
static void set_end(struct supervisor *s)
{
        if (!s->end_ns)
                s->end_ns = clock_now_ns() + (s->options->grace_ms + END_MS) * UINT64_C(1000000);
}

/* Without a signal only an idle engine may stop: else its exit is a crash, whatever it sends. */
static void on_stopping(struct supervisor *s)
{
        if (!s->ordered && !s->options->exit_when_idle_ms)
                return;
        set_end(s);
        s->state = MESSAGE_STOPPING;
        notify("STOPPING=1");
        listen_stop(&s->sockets); /* new connections are refused from now on */
}

static void on_failed(struct supervisor *s, struct supervisor_message *message)
{
        message->error.msg[sizeof(message->error.msg) - 1] = '\0';
        if (!s->has_served)
                on_demand_fail(s->options, &message->error);
}

/* The engine may have been reaped already: its last message can be read after its end. */
static void kill_engine(const struct supervisor *s, const char *event)
{
        log_event(LEVEL_ERROR, event, "{s:i}", "pid", (int)s->engine);
        if (s->engine > 0)
                kill(s->engine, SIGKILL);
}

static void receive_message(struct supervisor *s)
{
        struct supervisor_message message;
        ssize_t n = peer_receive(s->link_fd, &message, sizeof(message));

        if (n < 0 && errno == EBADMSG) /* an attacker controls the engine */
                kill_engine(s, "engine-sends-descriptors");
        if (n == 0 || (n < 0 && errno == EBADMSG))
                peer_close(&s->link_fd); /* the engine ends */
        if (n != sizeof(message))
                return;
        s->silence_ns = 0;
        if (message.kind == MESSAGE_READY && s->state == MESSAGE_BEGIN)
                on_ready(s, message.number != 0);
        else if (message.kind == MESSAGE_STOPPING && s->state != MESSAGE_STOPPING)
                on_stopping(s);
        else if (message.kind == MESSAGE_FAILED)
                on_failed(s, &message);
}

/* Orphans of the engine become our children (PR_SET_CHILD_SUBREAPER). 1: no child is left. */
static int reap(struct supervisor *s)
{
        int status;
        pid_t pid;

        while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
                if (pid == s->engine) {
                        s->engine = 0;
                        s->status = status;
                }
        return pid < 0 && errno == ECHILD;
}

static void on_order(struct supervisor *s, int number)
{
        struct supervisor_message message = {.kind = MESSAGE_SIGNAL, .number = (uint32_t)number};

        s->ordered = number;
        set_end(s);
        if (s->engine && s->state == MESSAGE_BEGIN)
                kill(s->engine,
                     number); /* it reads no message before its loop runs, and ignores signals from then on */
        if (s->link_fd >= 0)
                (void)send(s->link_fd, &message, sizeof(message), MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Wait for a signal, a message or the timeout. */
static void turn(struct supervisor *s, int timeout_ms)
{
        struct pollfd polled[] = {{.fd = s->signal_fd, .events = POLLIN}, {.fd = s->link_fd, .events = POLLIN}};
        struct signalfd_siginfo signal;

        if (poll(polled, 2, timeout_ms) <= 0)
                return;
        if (polled[1].revents)
                receive_message(s);
        if (polled[0].revents && read(s->signal_fd, &signal, sizeof(signal)) == sizeof(signal)) {
                if (signal.ssi_signo == SIGCHLD)
                        reap(s);
                else
                        on_order(s, (int)signal.ssi_signo);
        }
}

/* Kill an engine that is past its deadline. */
static void look_for_end(struct supervisor *s)
{
        if (!s->end_ns || s->is_given_up || clock_now_ns() <= s->end_ns)
                return;
        s->is_given_up = 1;
        kill_engine(s, "engine-does-not-end");
}

/* An iteration counts at most two seconds: a machine that slept or a frozen group did not hang. */
static void look_for_silence(struct supervisor *s)
{
        uint64_t now_ns = clock_now_ns(), passed_ns = now_ns - s->turned_ns,
                 hang_ns = s->options->hang_ms * UINT64_C(1000000);

        s->turned_ns = now_ns;
        s->silence_ns += passed_ns < 2 * TURN_NS ? passed_ns : 2 * TURN_NS;
        if (s->state == MESSAGE_BEGIN && hang_ns < START_NS)
                hang_ns = START_NS;
        if (!s->options->hang_ms || s->silence_ns < hang_ns)
                return;
        kill_engine(s, "engine-hangs");
        s->silence_ns = 0;
}

static void kill_children(void)
{
        char path[64];
        FILE *list;
        int pid;

        snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
        list = fopen(path, "re");
        if (!list) /* a kernel without CONFIG_PROC_CHILDREN */
                log_event(LEVEL_ERROR, "keeper-not-killed", "{s:s, s:s}", "path", path, "why", strerror(errno));
        while (list && fscanf(list, "%d", &pid) == 1)
                kill(pid, SIGKILL); /* an unreaped child of ours, so the pid is not reused */
        if (list)
                fclose(list);
}

/* 1: no child is left. 0: timeout. */
static int wait_for_children(struct supervisor *s, int kills)
{
        uint64_t since_ns = clock_now_ns();

        while (!reap(s)) {
                if (clock_now_ns() - since_ns > CHILDREN_NS)
                        return 0;
                if (kills)
                        kill_children();
                cgroup_thaw_left(); /* those of a keeper that was killed are our children now */
                turn(s, TURN_MS);
        }
        return 1;
}

/* The keeper ends by itself after its engine, and its boxes with it. A keeper that hangs is killed,
 * with its children. */
static void end_children(struct supervisor *s)
{
        if (wait_for_children(s, 0))
                return;
        log_event(LEVEL_ERROR, "keeper-hangs", "{s:i}", "seconds", (int)(CHILDREN_NS / 1000000000));
        if (!wait_for_children(s, 1))
                log_event(LEVEL_ERROR, "keeper-not-killed", "{s:i}", "seconds", (int)(CHILDREN_NS / 1000000000));
}

/* -- restart -------------------------------------------------------------------------------------------------- */

/* Unlink the path only if its inode is the one held open: another daemon may have replaced it. */
static void remove_socket(const char *path, int ours_fd)
{
        struct stat st, ours;

        if (ours_fd >= 0 && fstat(ours_fd, &ours) == 0 && lstat(path, &st) == 0 && st.st_dev == ours.st_dev &&
            st.st_ino == ours.st_ino)
                (void)unlink(path);
}

static int open_sockets(struct supervisor *s, struct cloche_err *e)
{
        int r = listen_open(&s->sockets, e);

        fd_close(&s->socket_fd);
        if (r == 0 && s->options->socket_path)
                s->socket_fd = open(s->options->socket_path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        return r;
}

/* An engine under an attacker's control can shut down sockets that it shares with us. */
static int is_broken(int fd)
{
        struct pollfd polled = {.fd = fd};
        int listens = 0;
        socklen_t size = sizeof(listens);

        return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) < 0 || !listens ||
               (poll(&polled, 1, 0) == 1 && polled.revents & (POLLHUP | POLLERR));
}

/* Reopen the sockets of the options. A service manager reopens its own sockets, and restarts the
 * daemon with them. */
static int mend_sockets(struct supervisor *s, struct cloche_err *e)
{
        const struct listener *l;
        int broken = 0;

        TAILQ_FOREACH (l, &s->sockets.listeners, link)
                broken += is_broken(l->fd);
        if (!broken)
                return 0;
        log_event(LEVEL_ERROR, "sockets-broken", "{s:i}", "count", broken);
        if (s->sockets.listen_names)
                return err_set(e, CLOCHE_E_STATE,
                               "a socket that was passed to this daemon no longer listens: restart its unit");
        listen_stop(&s->sockets);
        if (s->options->socket_path)
                remove_socket(s->options->socket_path, s->socket_fd);
        return open_sockets(s, e);
}

static int is_final(const struct supervisor *s)
{
        return s->state == MESSAGE_STOPPING || s->ordered || !s->has_served;
}

static int exit_code(const struct supervisor *s)
{
        return WIFEXITED(s->status) ? WEXITSTATUS(s->status) : 1;
}

static void log_end(const struct supervisor *s)
{
        log_event(LEVEL_ERROR, "engine-ended", "{s:s, s:i, s:i}", "how", WIFSIGNALED(s->status) ? "signal" : "exit",
                  "number", WIFSIGNALED(s->status) ? WTERMSIG(s->status) : WEXITSTATUS(s->status), "restarts",
                  (int)s->restarts);
}

/* The pause doubles with each failure: a caller that can crash the engine gets few tries. */
static void pause_before_start(struct supervisor *s)
{
        uint64_t pause_ms = PAUSE_MS_MIN, until_ns, now_ns = clock_now_ns();

        if (s->state == MESSAGE_READY && now_ns - s->started_ns > PROVEN_NS)
                s->failures_in_row = 0;
        for (unsigned i = 0; i < s->failures_in_row && pause_ms < PAUSE_MS_MAX; i++)
                pause_ms *= 2;
        s->failures_in_row++;
        until_ns = now_ns + (pause_ms < PAUSE_MS_MAX ? pause_ms : PAUSE_MS_MAX) * 1000000;
        while (!s->ordered && (now_ns = clock_now_ns()) < until_ns)
                turn(s, (int)((until_ns - now_ns) / 1000000) + 1);
}

/* recv fails with ECONNRESET first if the engine left a message of ours unread. */
static void receive_last_messages(struct supervisor *s)
{
        ssize_t n = s->link_fd < 0 ? 0 : 1;

        while (n > 0 || (n < 0 && errno == ECONNRESET)) {
                n = recv(s->link_fd, &(char){0}, 1, MSG_PEEK | MSG_DONTWAIT);
                if (n > 0)
                        receive_message(s);
        }
}

static void watch(struct supervisor *s)
{
        struct cloche_err e = {0};

        if (start_engine(s, &e) < 0) {
                log_event(LEVEL_ERROR, "cannot-start", "{s:s, s:s}", "error", cloche_code_name(e.code), "message",
                          e.msg);
                if (!s->has_served)
                        on_demand_fail(s->options, &e);
                s->status = 1 << 8; /* like exit(1) */
        }
        while (s->engine) {
                turn(s, TURN_MS);
                if (s->engine) {
                        look_for_end(s);
                        look_for_silence(s);
                }
        }
        receive_last_messages(s);
        peer_close(&s->link_fd);
        end_children(s);
}

/* -- life ----------------------------------------------------------------------------------------------------- */

static int set_up(struct supervisor *s, struct cloche_err *e)
{
        ssize_t n = readlink("/proc/self/exe", s->program, sizeof(s->program) - 1);
        sigset_t mask;

        if (n < 0)
                return err_os(e, CLOCHE_E_SPAWN, errno, "find the program of this process");
        s->program[n] = '\0';
        sigemptyset(&mask);
        sigaddset(&mask, SIGTERM);
        sigaddset(&mask, SIGINT);
        sigaddset(&mask, SIGHUP);
        sigaddset(&mask, SIGCHLD);
        if (sigprocmask(SIG_BLOCK, &mask, &s->outer_mask) < 0 || (s->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC)) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "take signals");
        if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 || prctl(PR_SET_DUMPABLE, 0) < 0)
                return err_os(e, CLOCHE_E_PRIVILEGE, errno, "set up the supervisor");
        notify_prepare();
        return 0;
}

/* The token file exists before the port is open. The engine reads the file itself. */
static int make_token(struct daemon_options *o, struct cloche_err *e)
{
        int r = o->listen || o->token_file ? auth_load_token(o, e) : 0;

        explicit_bzero(o->token, sizeof(o->token));
        return r;
}

static int fail(struct supervisor *s, const struct cloche_err *e)
{
        log_event(LEVEL_ERROR, "cannot-start", "{s:s, s:s}", "error", cloche_code_name(e->code), "message", e->msg);
        on_demand_fail(s->options, e);
        return cloche_code_fault(e->code) == CLOCHE_FAULT_CALLER ? 2 : 1;
}

int supervisor_run(struct daemon_options *o, char **argv)
{
        static struct supervisor s;
        struct cloche_err e = {0};
        int r;

        s = (struct supervisor){.options = o,
                                .argv = argv,
                                .signal_fd = -EBADF,
                                .link_fd = -EBADF,
                                .socket_fd = -EBADF,
                                .sockets = {.options = *o}};
        TAILQ_INIT(&s.sockets.listeners);
        r = set_up(&s, &e);
        if (r == 0)
                r = make_token(o, &e);
        if (r == 0)
                r = open_sockets(&s, &e);
        if (r < 0)
                return fail(&s, &e);
        for (;;) {
                watch(&s);
                if (is_final(&s))
                        break;
                log_end(&s);
                pause_before_start(&s);
                if (s.ordered)
                        break;
                if (mend_sockets(&s, &e) < 0)
                        return fail(&s, &e);
                s.restarts++;
        }
        listen_stop(&s.sockets);
        if (o->socket_path)
                remove_socket(o->socket_path, s.socket_fd);
        return exit_code(&s);
}
