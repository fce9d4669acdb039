/* cloche image debian: an image of Debian packages. Runs in: the CLI, as its user; mmdebstrap does the work, with the
 * rights of that user, and cloche-image imports the result. */
#include "cli/options/options.h"
#include "cli/run/image-store.h"

#include "base/fd.h"
#include "base/privilege.h"

#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAM "mmdebstrap"
#define SOURCE_BYTES_MAX (1u << 20)
#define SOURCES_MAX 64
#define WORD_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.+-"

/* The files of apt(8), in its order. */
static const char *const patterns[] = {"/etc/apt/sources.list", "/etc/apt/sources.list.d/*.list",
                                       "/etc/apt/sources.list.d/*.sources"};

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

/* True if a line that is no comment has the word. */
static int has_word(char *text, const char *word)
{
        char *rest;

        for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
                for (char *at = line; *line != '#' && (at = strstr(at, word)); at++)
                        if ((at == line || strchr(" \t", at[-1])) && strchr(" \t/", at[strlen(word)]))
                                return 1;
        return 0;
}

static int names_suite(const char *path, const char *suite)
{
        _cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        char *text = fd < 0 ? NULL : calloc(1, SOURCE_BYTES_MAX + 1);
        int found = text && read(fd, text, SOURCE_BYTES_MAX) > 0 && has_word(text, suite);

        free(text);
        return found;
}

/* The packages come from the suites that the files name, whatever --suite says: another one is refused. */
static int check_sources(const struct cli_request *request, const glob_t *sources)
{
        const char *suite = request->debian.suite;

        if (sources->gl_pathc > SOURCES_MAX)
                return cli_bad("apt has %zu files of sources, expected at most %d", sources->gl_pathc, SOURCES_MAX);
        for (size_t i = 0; i < sources->gl_pathc; i++)
                if (names_suite(sources->gl_pathv[i], suite))
                        return 0;
        return request->debian.sources ? cli_bad("%s does not name the suite '%s'", request->debian.sources, suite)
                                       : cli_bad("apt's configuration does not name the suite '%s': name a file of "
                                                 "sources that does by --sources",
                                                 suite);
}

/* -- mmdebstrap ------------------------------------------------------------------------------------------------- */

static int check_words(const struct cli_request *request)
{
        const char *suite = request->debian.suite, *packages = request->debian.packages;

        if (!suite)
                return cli_bad("expected --suite SUITE, of the machine's apt configuration or of --sources FILE");
        if (!*suite || *suite == '-' || suite[strspn(suite, WORD_CHARACTERS)])
                return cli_bad("--suite: '%s' is not the name of a suite", suite);
        if (packages && (!*packages || *packages == '-' || packages[strspn(packages, WORD_CHARACTERS ",")]))
                return cli_bad("--packages: '%s' is not a list as a,b,c", packages);
        return 0;
}

static _Noreturn void become_mmdebstrap(const struct cli_request *request, const glob_t *sources, int out_fd)
{
        const char *argv[SOURCES_MAX + 8] = {PROGRAM, "--variant=minbase"};
        char include[65536];
        size_t count = 2;

        if (request->debian.packages) {
                snprintf(include, sizeof(include), "--include=%s", request->debian.packages);
                argv[count++] = include;
        }
        argv[count++] = request->debian.suite;
        argv[count++] = "-";
        for (size_t i = 0; i < sources->gl_pathc; i++)
                argv[count++] = sources->gl_pathv[i];
        if (dup2(out_fd, STDOUT_FILENO) >= 0)
                execvp(PROGRAM, (char *const *)argv);
        _exit(errno == ENOENT ? 127 : 126);
}

/* Its messages are the progress: they go to standard error as they come. */
static int run_mmdebstrap(const struct cli_request *request, const glob_t *sources, int out_fd)
{
        pid_t pid = fork();
        int status = -1;

        if (pid == 0)
                become_mmdebstrap(request, sources, out_fd);
        while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        if (pid < 0)
                return cli_bad("cannot fork: %s", strerror(errno));
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
                return 0;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
                return cli_bad(PROGRAM " is not installed: install it (apt install " PROGRAM
                                       "), or import a tar file that it made on another machine (cloche image import)");
        return cli_bad(PROGRAM " failed: its messages stand above%s",
                       privilege_is_root() ? "" : " (a user other than root needs ids in /etc/subuid and /etc/subgid)"),
               1;
}

/* -- the image -------------------------------------------------------------------------------------------------- */

/* The archive is imported once it is whole: a part of one could look like an end. */
static int make(struct cli_request *request, const glob_t *sources)
{
        const char *directory = getenv("TMPDIR");
        _cleanup_fd_ int fd = open(directory && *directory ? directory : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        json_t *answer = NULL;
        int code;

        if (fd < 0)
                return cli_bad("cannot make a file in %s: %s (TMPDIR names another directory)",
                               directory && *directory ? directory : "/tmp", strerror(errno));
        code = run_mmdebstrap(request, sources, fd);
        if (code == 0 && lseek(fd, 0, SEEK_SET) < 0)
                code = cli_bad("cannot read the archive: %s", strerror(errno));
        if (code == 0)
                code = image_store_request(request, "import",
                                           json_pack("{s:s, s:s}", "source", PROGRAM, "name", request->positional[0]),
                                           fd, &answer);
        if (code == 0)
                image_print_import(request, answer);
        json_decref(answer);
        return code;
}

static int debian(struct cli_request *request)
{
        glob_t sources = {0};
        int code = check_words(request);

        if (code == 0 && find_sources(request->debian.sources, &sources) != 0)
                code = cli_bad("--sources: cannot find '%s'", request->debian.sources);
        if (code == 0)
                code = check_sources(request, &sources);
        if (code == 0)
                code = make(request, &sources);
        globfree(&sources);
        return code;
}

const struct cli_handler command_image_debian = {
        .run = debian,
        .expected = "a name for the image",
        .positional_min = 1,
        .positional_max = 1,
};
