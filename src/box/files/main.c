/* cloche-files [DIRECTORY]: serve the files of a box from within, with its user's rights. Requests
 * arrive on descriptor 3; relative paths are below DIRECTORY, by default /workspace. Exits when the
 * channel closes.
 * cloche-files --pack PATH...: write these directories as an archive to standard output.
 * cloche-files --pack-system: the same of the system's directories, for an image.
 * cloche-files --unpack DIRECTORY [EMPTIED]: read such an archive from standard input; the contents
 * of EMPTIED are removed first.
 * Runs in: cloche-files, within a box, with its user's rights. */
#include "base/err.h"
#include "box/files/archive/pack.h"
#include "box/files/archive/unpack.h"
#include "box/files/tree/tree.h"
#include "serve.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHANNEL_FD 3

static int print_error(const struct cloche_err *e)
{
        fprintf(stderr, "cloche-files: %s\n", e->msg);
        return 1;
}

static int usage(void)
{
        fprintf(stderr, "usage: cloche-files [DIRECTORY], cloche-files --pack PATH..., cloche-files --pack-system, "
                        "cloche-files --unpack DIRECTORY "
                        "[EMPTIED]; all are absolute paths\n");
        return 2;
}

static int run_server(const char *directory)
{
        struct cloche_err e = {0};

        if (fcntl(CHANNEL_FD, F_SETFD, FD_CLOEXEC) < 0) {
                fprintf(stderr, "cloche-files: descriptor %d is not open: it is the channel\n", CHANNEL_FD);
                return 2;
        }
        return serve(CHANNEL_FD, directory, &e) < 0 ? print_error(&e) : 0;
}

static int all_absolute(char *const *paths)
{
        while (*paths && **paths == '/')
                paths++;
        return !*paths;
}

static int unpack_files(const char *directory, const char *emptied, struct cloche_err *e)
{
        uint64_t count = 0;
        int r = emptied ? tree_empty(emptied, &count, e) : 0;

        return r < 0 ? r : unpack_restore(STDIN_FILENO, directory, e);
}

int main(int argc, char **argv)
{
        struct cloche_err e = {0};
        sigset_t flushes;

#ifndef CHECKED /* set for sanitizers, one of which reads its own process */
        /* Other processes of the box have the same rights and must not access this one. */
        prctl(PR_SET_DUMPABLE, 0);
#endif
        signal(SIGPIPE, SIG_IGN);
        signal(SIGXFSZ, SIG_IGN); /* over the file size limit, write fails with EFBIG instead of a fatal signal */
        sigemptyset(&flushes);
        sigaddset(&flushes, SIGUSR1);
        sigprocmask(SIG_BLOCK, &flushes, NULL); /* a watch unblocks it when it is ready (watch.c) */
        umask(0);
        if (argc > 2 && strcmp(argv[1], "--pack") == 0 && all_absolute(argv + 2))
                return pack_save(STDOUT_FILENO, argv + 2, &e) < 0 ? print_error(&e) : 0;
        if (argc == 2 && strcmp(argv[1], "--pack-system") == 0)
                return pack_system(STDOUT_FILENO, &e) < 0 ? print_error(&e) : 0;
        if ((argc == 3 || argc == 4) && strcmp(argv[1], "--unpack") == 0 && all_absolute(argv + 2))
                return unpack_files(argv[2], argv[3], &e) < 0 ? print_error(&e) : 0;
        if (argc > 2 || !all_absolute(argv + 1))
                return usage();
        return run_server(argc > 1 ? argv[1] : "/workspace");
}
