#include "notice.h"
#include "guards.h"
#include "xdg.h"

#include "base/fd.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

uint32_t notice_missing(const cloche_engine *engine)
{
        return guards_missing(engine) & cloche_engine_optional(engine);
}

/* A home directory may be shared by several hosts: each has a file of its own. 0 or -errno. */
static int find_record(char ret[PATH_MAX])
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
        snprintf(ret + n, PATH_MAX - (size_t)n, "/guards-%.64s", host.nodename);
        return 0;
}

int notice_open(uint32_t missing)
{
        char path[PATH_MAX];
        int fd, r = missing ? find_record(path) : -ENOENT;

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

/* Where nothing can be remembered the line is printed each time. */
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
                 "guards missing for this user: %s; root has all of them, a login through systemd or a unit with Delegate=yes gives control groups; "
                 "cloche selftest says why each is missing, --strict refuses runs without them (printed once per host)",
                 names);
        return 1;
}
