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

static int is_recorded(const char *path, const char *names)
{
        _cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        char text[GUARDS_TEXT_BYTES];
        ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));

        return n == (ssize_t)strlen(names) && memcmp(text, names, (size_t)n) == 0;
}

/* Where nothing can be remembered the line is printed each time. */
static void record(const char *path, const char *names)
{
        _cleanup_fd_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);

        if (fd >= 0)
                (void)fd_write_full(fd, names, strlen(names));
}

int notice_take(uint32_t missing, char ret[NOTICE_BYTES])
{
        char names[GUARDS_TEXT_BYTES], path[PATH_MAX];
        int has_path;

        ret[0] = '\0';
        if (!missing)
                return 0;
        guards_join(missing, ", ", names, sizeof(names));
        has_path = find_record(path) == 0;
        if (has_path && is_recorded(path, names))
                return 0;
        if (has_path)
                record(path, names);
        snprintf(ret, NOTICE_BYTES,
                 "guards missing for this user: %s; root has all of them, a login through systemd or a unit with Delegate=yes gives control groups; "
                 "cloche selftest says why each is missing, --strict refuses runs without them (printed once per host)",
                 names);
        return 1;
}
