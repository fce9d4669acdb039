/* Decide if the line about missing guards is due, and remember it.
 * Runs in: the CLI and cloched, as the user who started them. */
#include "notice.h"
#include "guards.h"
#include "xdg.h"

#include "base/fd.h"

#include <cloche/cloche.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#define LOST_BYTES_MAX 65536

uint32_t notice_missing(const cloche_engine *engine)
{
        return guards_missing(engine) & cloche_engine_optional(engine);
}

/* A home directory may be shared by several hosts: each has its own file. 0 or -errno. */
static int find_record(const char *name, char ret[PATH_MAX])
{
        struct utsname host;
        int r = xdg_find("XDG_STATE_HOME", ".local/state", "cloche", ret, PATH_MAX - 80), n;

        if (r < 0)
                return r;
        r = xdg_make_directories(ret);
        if (r < 0)
                return r;
        uname(&host);
        for (char *c = host.nodename; *c; c++)
                if (*c == '/')
                        *c = '_';
        n = (int)strlen(ret);
        snprintf(ret + n, PATH_MAX - (size_t)n, "/%s-%.64s", name, host.nodename);
        return 0;
}

int notice_open(uint32_t missing)
{
        char path[PATH_MAX];
        int fd, r = missing ? find_record("guards", path) : -ENOENT;

        if (r < 0)
                return r;
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
        if (fd < 0)
                fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        return fd < 0 ? -errno : fd;
}

static int is_recorded(int fd, const char *names)
{
        char text[GUARDS_TEXT_BYTES];
        ssize_t n = pread(fd, text, sizeof(text), 0);

        return n == (ssize_t)strlen(names) && memcmp(text, names, (size_t)n) == 0;
}

/* If recording fails, the line is printed each time. */
static void record(int fd, const char *names)
{
        if (ftruncate(fd, 0) == 0 && lseek(fd, 0, SEEK_SET) == 0)
                (void)fd_write_full(fd, names, strlen(names));
}

int notice_take(int record_fd, uint32_t missing, char ret[NOTICE_BYTES])
{
        char names[GUARDS_TEXT_BYTES];

        ret[0] = '\0';
        if (!missing)
                return 0;
        guards_join(missing, ", ", names, sizeof(names));
        if (is_recorded(record_fd, names))
                return 0;
        record(record_fd, names);
        snprintf(ret, NOTICE_BYTES,
                 "guards missing for this user: %s; root has all of them, a login through systemd or a unit with "
                 "Delegate=yes gives control groups; "
                 "cloche selftest shows the reasons, --strict refuses runs without them (printed once per host)",
                 names);
        return 1;
}

/* One line each; when the file is full, the oldest may be printed again. */
int notice_take_lost(const char *sandbox, const char *time)
{
        char path[PATH_MAX], line[160], text[LOST_BYTES_MAX + 1];
        _cleanup_fd_ int fd = -EBADF;
        ssize_t n;
        int size = snprintf(line, sizeof(line), "/%s %s\n", sandbox, time); /* no name has a slash */

        if (size < 0 || (size_t)size >= sizeof(line) || find_record("lost", path) < 0)
                return 1;
        fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
        n = fd < 0 ? 0 : pread(fd, text, LOST_BYTES_MAX, 0);
        text[n < 0 ? 0 : n] = '\0';
        if (strstr(text, line))
                return 0;
        if (fd >= 0 && n + size > LOST_BYTES_MAX && ftruncate(fd, 0) < 0)
                return 1;
        if (fd >= 0)
                (void)fd_write_full(fd, line, (size_t)size);
        return 1;
}
