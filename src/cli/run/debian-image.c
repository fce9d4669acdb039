/* Images that mmdebstrap makes. Runs in: the CLI, as its user; mmdebstrap does the work, and
 * cloche-image imports the result. mmdebstrap and the scripts of packages have the rights of that
 * user; those of root are root of a user namespace alone. */
#include "debian-image.h"

#include "cli/options/options.h"
#include "cli/output/signals.h"
#include "image-store.h"
#include "own-ids.h"

#include "base/fd.h"
#include "base/privilege.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAM "mmdebstrap"
#define SOURCE_BYTES_MAX (1u << 20)
#define SOURCES_MAX 64
#define WORD_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.+-"
#define HOOK_VARIABLE "CLOCHE_IMAGE_HOOK" /* mmdebstrap prints the words of a hook that fails */
#define STATUS_FAILED 126
#define STATUS_MISSING 127 /* a shell's, for a program that is not there */

/* The files of apt(8), in its order. */
static const char *const patterns[] = {"/etc/apt/sources.list", "/etc/apt/sources.list.d/*.list",
                                       "/etc/apt/sources.list.d/*.sources"};

struct sources {
        glob_t found;
        const char *paths[SOURCES_MAX + 1]; /* those that mmdebstrap reads, then NULL */
};

/* -- sources ---------------------------------------------------------------------------------------------------- */

static int find_sources(const char *named, glob_t *ret)
{
        int flags = GLOB_NOSORT;

        if (named)
                return glob(named, GLOB_NOMAGIC, NULL, ret);
        for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
                (void)glob(patterns[i], flags, NULL, ret);
                flags |= GLOB_APPEND;
        }
        return 0;
}

enum naming { NAMES_NONE, NAMES_PART, NAMES_SUITE };

/* True if a line that is no comment has the word; a part of the suite bookworm is
 * bookworm-security. */
static enum naming find_word(char *text, const char *word)
{
        enum naming found = NAMES_NONE;
        char *rest;

        for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
                for (char *at = line; *line != '#' && (at = strstr(at, word)); at++) {
                        if (at != line && !strchr(" \t", at[-1]))
                                continue;
                        if (strchr(" \t/", at[strlen(word)]))
                                return NAMES_SUITE;
                        if (at[strlen(word)] == '-')
                                found = NAMES_PART;
                }
        return found;
}

static enum naming names_suite(const char *path, const char *suite)
{
        _cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        char *text = fd < 0 ? NULL : calloc(1, SOURCE_BYTES_MAX + 1);
        enum naming found = text && read(fd, text, SOURCE_BYTES_MAX) > 0 ? find_word(text, suite) : NAMES_NONE;

        free(text);
        return found;
}

/* The packages come from the suites that the files name, whatever the image's suite
 * is: another one is refused. */
static int choose_sources(const struct debian_image *image, struct sources *ret)
{
        size_t count = 0;
        int is_named = 0;

        if (find_sources(image->sources, &ret->found) != 0)
                return cli_bad("--sources: cannot find '%s'", image->sources);
        if (image->sources && access(ret->found.gl_pathv[0], R_OK) != 0)
                return cli_bad("--sources: %s: %s", ret->found.gl_pathv[0], strerror(errno));
        if (ret->found.gl_pathc > SOURCES_MAX)
                return cli_bad("apt has %zu files of sources, expected at most %d", ret->found.gl_pathc, SOURCES_MAX);
        for (size_t i = 0; i < ret->found.gl_pathc; i++) {
                enum naming names = names_suite(ret->found.gl_pathv[i], image->suite);

                if (names != NAMES_NONE || !image->only_suite)
                        ret->paths[count++] = ret->found.gl_pathv[i];
                is_named |= names == NAMES_SUITE;
        }
        if (is_named)
                return 0;
        return image->sources ? cli_bad("%s does not name the suite '%s'", image->sources, image->suite)
                              : cli_bad("apt's configuration does not name the suite '%s': name a file of sources that "
                                        "does by --sources",
                                        image->suite);
}

/* -- programs --------------------------------------------------------------------------------------------------- */

/* The process group that does the work; 0: none. */
static atomic_int working;
static atomic_int is_cancelled;

/* The program removes its files and ends; then this process does. The import leaves
 * nothing when it is killed. */
static void on_signal(int number)
{
        int group = atomic_load(&working);

        signals_note(number);
        atomic_store(&is_cancelled, 1);
        if (group == 0)
                signals_exit(SIGNALS_CANCELLED);
        kill(-group, number);
}

static void catch_signals(void)
{
        const struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

        sigaction(SIGINT, &action, NULL);
        sigaction(SIGTERM, &action, NULL);
        sigaction(SIGHUP, &action, NULL);
}

/* ids_fd: -1: the program has the rights of this process. */
static _Noreturn void become(const char *const *argv, int out_fd, int ids_fd, const sigset_t *mask)
{
        int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC), error;

        setpgid(0, 0);
        error = ids_fd >= 0 ? own_ids_enter(ids_fd) : 0;
        if (!error && ids_fd >= 0 && access(debian_image_directory(), W_OK | X_OK) < 0)
                error = cli_bad("%s lies in a directory that other users may not enter: name another one by TMPDIR",
                                debian_image_directory());
        if (error)
                _exit(STATUS_FAILED);
        sigprocmask(SIG_SETMASK, mask, NULL);
        if (dup2(null_fd, STDIN_FILENO) >= 0 && dup2(out_fd, STDOUT_FILENO) >= 0)
                execvp(argv[0], (char *const *)argv);
        _exit(errno == ENOENT ? STATUS_MISSING : STATUS_FAILED);
}

static int map_ids(const struct own_ids *ids, pid_t pid, int fds[2])
{
        struct cloche_err e = {0};
        int code;

        fd_close(&fds[1]);
        code = own_ids_map(ids, pid, fds[0], &e) < 0 ? sandbox_fail(&e) : 0;
        fd_close(&fds[0]); /* after an error the child ends */
        return code;
}

/* Return the exit status as shells count it, or -errno. mmdebstrap waits for its child when it
 * gets a signal, so the child must get it too: they have a process group of their own. ids: of the
 * namespace in which the program is root; NULL: none. */
static int run_program(const char *const *argv, int out_fd, const struct own_ids *ids)
{
        int status = 0, fds[2] = {-EBADF, -EBADF};
        sigset_t before;
        pid_t pid;

        if (ids && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
                return -errno;
        signals_block(&before);
        pid = fork();
        if (pid == 0) {
                fd_close(&fds[0]);
                if (ids)
                        own_ids_keep(ids);
                become(argv, out_fd, ids ? fds[1] : -1, &before);
        }
        if (pid > 0) {
                setpgid(pid, pid);
                atomic_store(&working, pid);
                catch_signals();
                if (ids)
                        (void)map_ids(ids, pid, fds);
        }
        fd_close(&fds[0]);
        fd_close(&fds[1]);
        sigprocmask(SIG_SETMASK, &before, NULL);
        if (pid < 0)
                return -errno;
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        atomic_store(&working, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int debian_image_check_program(const char *program, const char *way_out)
{
        _cleanup_fd_ int null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
        int status = run_program((const char *const[]){program, "--version", NULL}, null_fd, NULL);

        if (status == 0)
                return 0;
        return status == STATUS_MISSING ? cli_bad("%s is not installed: %s", program, way_out)
                                        : cli_bad("%s does not work: '%s --version' failed", program, program);
}

/* -- mmdebstrap ------------------------------------------------------------------------------------------------- */

static int check_words(const struct debian_image *image)
{
        const char *suite = image->suite, *packages = image->packages;

        if (!suite)
                return cli_bad("expected --suite SUITE, of the machine's apt configuration or of --sources FILE");
        if (!*suite || *suite == '-' || suite[strspn(suite, WORD_CHARACTERS)])
                return cli_bad("--suite: '%s' is not the name of a suite", suite);
        if (packages && (!*packages || *packages == '-' || packages[strspn(packages, WORD_CHARACTERS ",")]))
                return cli_bad("--packages: '%s' is not a list as a,b,c", packages);
        return 0;
}

/* Files that an image without manuals lacks. Licences must go with the packages. */
static const char *const slim[] = {"--dpkgopt=path-exclude=/usr/share/doc/*",
                                   "--dpkgopt=path-include=/usr/share/doc/*/copyright",
                                   "--dpkgopt=path-exclude=/usr/share/man/*",
                                   "--dpkgopt=path-exclude=/usr/share/info/*",
                                   "--dpkgopt=path-exclude=/usr/share/locale/*"};

/* Its messages are the progress: they go to standard error as they come. */
static int run_mmdebstrap(const struct debian_image *image, const struct sources *sources, int out_fd,
                          const struct own_ids *ids)
{
        char variant[64];
        const char *argv[SOURCES_MAX + 9 + sizeof(slim) / sizeof(slim[0])] =
                {PROGRAM, variant, "--dpkgopt=force-unsafe-io"}; /* after a crash nothing of the root is used */
        const char *base = image->base ? image->base : "", *packages = image->packages ? image->packages : "";
        char *include = NULL;
        size_t count = 3;
        int status = -ENOMEM, is_any = *base || *packages;

        snprintf(variant, sizeof(variant), "--variant=%s", image->variant ? image->variant : "minbase");
        for (size_t i = 0; image->is_slim && i < sizeof(slim) / sizeof(slim[0]); i++)
                argv[count++] = slim[i];
        if (is_any && asprintf(&include, "--include=%s%s%s", base, *base && *packages ? "," : "", packages) > 0)
                argv[count++] = include;
        if (image->hook && setenv(HOOK_VARIABLE, image->hook, 1) == 0)
                argv[count++] = "--setup-hook=sh -c \"$" HOOK_VARIABLE "\" hook \"$1\"";
        if (ids) /* it unshares what it mounts */
                argv[count++] = "--mode=unshare";
        argv[count++] = image->suite;
        argv[count++] = "-";
        memcpy(argv + count, sources->paths, sizeof(sources->paths));
        if ((!is_any || include) && (!image->hook || getenv(HOOK_VARIABLE)) &&
            (!image->time || setenv("SOURCE_DATE_EPOCH", image->time, 1) == 0))
                status = run_program(argv, out_fd, ids);
        free(include);
        return status;
}

/* The image's root is made in a directory of the namespace, whose files only its root removes. */
static int run_apart(const struct debian_image *image, const struct sources *sources, int out_fd)
{
        const char *before = getenv("TMPDIR");
        struct cloche_err e = {0};
        struct own_ids ids;
        int status = own_ids_open(debian_image_directory(), &ids, &e) < 0 ? STATUS_FAILED : 0;
        char *kept = before ? strdup(before) : NULL;

        if (status)
                sandbox_fail(&e);
        else if (setenv("TMPDIR", ids.directory, 1) < 0)
                status = -errno;
        else
                status = run_mmdebstrap(image, sources, out_fd, &ids);
        if (ids.directory[0])
                (void)run_program((const char *const[]){"find", ids.directory, "-mindepth", "1", "-delete", NULL},
                                  STDERR_FILENO, &ids);
        own_ids_close(&ids);
        if (kept)
                setenv("TMPDIR", kept, 1);
        else
                unsetenv("TMPDIR");
        free(kept);
        return status;
}

static int make_archive(const struct debian_image *image, const struct sources *sources, int out_fd)
{
        int status =
                privilege_is_root() ? run_apart(image, sources, out_fd) : run_mmdebstrap(image, sources, out_fd, NULL);

        if (status == 0)
                return 0;
        if (status < 0)
                return cli_bad("cannot start " PROGRAM ": %s", strerror(-status));
        if (atomic_load(&is_cancelled))
                return SIGNALS_CANCELLED;
        if (status == STATUS_MISSING)
                return cli_bad(PROGRAM " is not installed: install it (apt install " PROGRAM
                                       "), or import a tar file that it made on another machine (cloche image import)");
        return cli_bad(PROGRAM " failed: its messages stand above; if no mirror answers, --sources names others; "
                               "TMPDIR names a "
                               "directory with more space%s",
                       privilege_is_root() ? "" : " (a user other than root needs ids in /etc/subuid and /etc/subgid)"),
               1;
}

/* -- the image -------------------------------------------------------------------------------------------------- */

const char *debian_image_directory(void)
{
        const char *directory = getenv("TMPDIR");

        return directory && *directory ? directory : "/tmp";
}

/* The archive is imported once it is whole: a part of one could look like an end. */
static int make(struct cli_request *request, const struct debian_image *image, const struct sources *sources)
{
        const char *directory = debian_image_directory();
        _cleanup_fd_ int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        json_t *answer = NULL;
        int code;

        if (fd < 0)
                return cli_bad("cannot make a file in %s: %s (TMPDIR names another directory)", directory,
                               strerror(errno));
        code = make_archive(image, sources, fd);
        if (code == 0 && lseek(fd, 0, SEEK_SET) < 0)
                code = cli_bad("cannot read the archive: %s", strerror(errno));
        if (code == 0)
                code = image_store_request(request, "import",
                                           json_pack("{s:s, s:s}", "source", PROGRAM, "name", image->name), fd,
                                           &answer);
        if (code == 0 && !image->is_silent)
                image_print_import(request, answer);
        json_decref(answer);
        return code;
}

/* A store that refuses the import, or the name, shall do so before the work, which takes
 * minutes. */
static int check_store(const struct cli_request *request, const char *name)
{
        json_t *answer = NULL;
        int code = image_store_request(request, "list", json_pack("{s:s}", "name", name), -1, &answer);

        json_decref(answer);
        return code;
}

int debian_image_make(struct cli_request *request, const struct debian_image *image)
{
        struct sources sources = {0};
        int code = check_words(image);

        if (code == 0)
                code = choose_sources(image, &sources);
        if (code == 0)
                code = check_store(request, image->name);
        if (code == 0)
                code = make(request, image, &sources);
        globfree(&sources.found);
        return code;
}
