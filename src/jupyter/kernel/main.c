/* cloche-kernel: a Jupyter kernel whose code runs in contexts of a sandbox.
 *
 *     cloche-kernel -f CONNECTION_FILE [--language L] [--sandbox NAME] [--socket PATH] [--forkable]
 *
 * Two processes: the first connects to a daemon when the second requests it; the second serves the
 * front ends and has no other right. Runs in: cloche-kernel's first process, as its user. */
#include "base/err.h"
#include "base/fd.h"
#include "base/hex.h"
#include "broker.h"
#include "kernel.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>

#define BAD_INPUT 2
#define CONTEXT_BYTES 40

struct options {
        const char *file;
        struct jupyter_options jupyter;
        struct broker_options broker;
};

static int bad(const char *text, const char *word)
{
        fprintf(stderr, "cloche-kernel: %s%s\n", text, word);
        return BAD_INPUT;
}

/* 0, or the exit code, -1: 0 after a line was printed. */
static int parse(int argc, char **argv, struct options *ret)
{
        static const struct option options[] = {{"language", required_argument, NULL, 'l'},
                                                {"sandbox", required_argument, NULL, 's'},
                                                {"socket", required_argument, NULL, 'S'},
                                                {"forkable", no_argument, NULL, 'F'},
                                                {"version", no_argument, NULL, 'V'},
                                                {"help", no_argument, NULL, 'h'},
                                                {0}};
        int c;

        ret->jupyter = (struct jupyter_options){.language = "python"};
        while ((c = getopt_long(argc, argv, "f:", options, NULL)) != -1) {
                switch (c) {
                case 'f':
                        ret->file = optarg;
                        break;
                case 'l':
                        ret->jupyter.language = optarg;
                        break;
                case 's':
                        ret->jupyter.sandbox = optarg;
                        break;
                case 'S':
                        ret->broker.socket = optarg;
                        break;
                case 'F':
                        ret->jupyter.is_forkable = 1;
                        break;
                case 'V':
                        puts("cloche-kernel " CLOCHE_VERSION);
                        return -1;
                case 'h':
                        puts("cloche-kernel -f CONNECTION_FILE [--language L] [--sandbox NAME] [--socket PATH] "
                             "[--forkable]\nFront ends of Jupyter start it: cloche jupyter install.");
                        return -1;
                default:
                        return BAD_INPUT;
                }
        }
        if (!ret->file || optind < argc)
                return bad("expected -f CONNECTION_FILE, which a front end of Jupyter passes", "");
        if (!jupyter_language_find(ret->jupyter.language))
                return bad("no language with contexts is called ", ret->jupyter.language);
        ret->broker.starts = ret->jupyter.sandbox != NULL;
        if (!ret->jupyter.sandbox)
                ret->jupyter.sandbox = "jupyter";
        return 0;
}

static void make_context(char ret[CONTEXT_BYTES])
{
        unsigned char bytes[8];

        while (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
                ;
        strcpy(ret, "kernel-");
        hex_write(ret + strlen(ret), bytes, sizeof(bytes));
}

/* Its end is that of the first process too. */
static _Noreturn void become_kernel(struct connection *c, const struct jupyter_options *options, const int pair[2])
{
        int fd = pair[1];

        close(pair[0]);
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
                _exit(1);
        exit(kernel_run(c, options, fd));
}

int main(int argc, char **argv)
{
        struct options options = {0};
        struct connection connection;
        struct cloche_err e = {0};
        char context[CONTEXT_BYTES];
        int pair[2], code = parse(argc, argv, &options);
        pid_t pid;

        if (code)
                return code < 0 ? 0 : code;
        fd_open_standard();
        signal(SIGINT, SIG_IGN); /* interrupts are messages */
        signal(SIGPIPE, SIG_IGN);
        make_context(context);
        options.jupyter.context = options.broker.context = context;
        options.broker.sandbox = options.jupyter.sandbox;
        if (connection_open(options.file, &connection, &e) < 0)
                return bad(e.msg, "");
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0 || (pid = fork()) < 0)
                return bad("cannot start: ", strerror(errno));
        if (pid == 0)
                become_kernel(&connection, &options.jupyter, pair);
        close(pair[1]);
        for (int port = 0; port < PORT_COUNT && !connection.is_ipc; port++)
                fd_close(&connection.fds[port]);
        code = broker_serve(&options.broker, pair[0], pid);
        connection_close(&connection); /* names of the file system */
        return code;
}
