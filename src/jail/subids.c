/* Runs in: an ordinary user's keeper, and a helper of it. */
#include "subids.h"

#include "base/err.h"
#include "base/fd.h"
#include "ids.h"

#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TOLD_BYTES 200 /* of a program's message */

static const struct kind {
        const char *file, *program, *option; /* of usermod(8) */
} kinds[] = {
        {"/etc/subuid", "newuidmap", "--add-subuids"},
        {"/etc/subgid", "newgidmap", "--add-subgids"},
};

/* The environment of the keeper is empty: a program that has more rights is run by one of these
 * paths. The second is NixOS's. */
static const char *const directories[] = {"/usr/bin", "/run/wrappers/bin"};

/* -- the ranges ------------------------------------------------------------------------------------------------- */

static uint32_t read_number(const char *text)
{
        char *end;
        unsigned long number = strtoul(text, &end, 10);

        return *text >= '0' && *text <= '9' && *end == '\0' && number <= UINT32_MAX ? (uint32_t)number : 0;
}

/* A row is NAME:FIRST:COUNT, or has the number of the user. 1: it is this user's, and large
 * enough; 0: this user's; -1: another. */
static int read_row(char *line, const char *name, const char *number, uint32_t *ret_first)
{
        char *first = strchr(line, ':'), *count = first ? strchr(first + 1, ':') : NULL;

        if (!count)
                return -1;
        *first++ = *count++ = '\0';
        count[strcspn(count, "\n")] = '\0';
        if (strcmp(line, name) != 0 && strcmp(line, number) != 0)
                return -1;
        *ret_first = read_number(first);
        return *ret_first > 0 && read_number(count) >= IDS_IN_RANGE && *ret_first <= UINT32_MAX - IDS_IN_RANGE;
}

/* The first number behind all rows. The file may be of any form; 0: no range is left. */
static uint32_t next_free(uint32_t free_from, const char *line)
{
        const char *first = strchr(line, ':'), *count = first ? strchr(first + 1, ':') : NULL;
        const uint64_t end = count ? strtoull(first + 1, NULL, 10) + strtoull(count + 1, NULL, 10) : 0;

        return end > UINT32_MAX - IDS_IN_RANGE ? 0 : end > free_from ? (uint32_t)end : free_from;
}

/* A user's first range is 100000-165535 where useradd(8) gives them. */
#define FIRST_LENT 100000

static int refuse(const struct kind *kind, const char *name, const char *found, uint32_t free_from,
                  struct cloche_err *e)
{
        char range[32] = "FIRST-LAST";

        if (free_from > 0)
                snprintf(range, sizeof(range), "%u-%u", (unsigned)free_from, (unsigned)(free_from + IDS_IN_RANGE - 1));
        return err_set(e, CLOCHE_E_PRIVILEGE,
                       "root in a sandbox needs %u ids for the user %s, and %s%s: root gives them with usermod %s %s "
                       "%s, "
                       "or start it with writableRoot",
                       IDS_IN_RANGE, name, kind->file, found, kind->option, range, name);
}

static int find_range(const struct kind *kind, const char *name, uint32_t *ret, struct cloche_err *e)
{
        FILE *file = fopen(kind->file, "re");
        char *line = NULL, number[12], found[80] = " has none";
        int is_found = 0;
        uint32_t free_from = FIRST_LENT;
        unsigned at = 0;
        size_t room = 0;

        if (!file)
                snprintf(found, sizeof(found), " cannot be read (%.60s)", strerror(errno));
        snprintf(number, sizeof(number), "%u", (unsigned)geteuid());
        while (file && !is_found && getline(&line, &room, file) > 0) {
                int r;

                at++;
                free_from = free_from > 0 ? next_free(free_from, line) : 0;
                r = read_row(line, name, number, ret);
                if (r == 0)
                        snprintf(found, sizeof(found), " has fewer, or no numbers, in line %u", at);
                is_found = r > 0;
        }
        free(line);
        if (file)
                fclose(file);
        return is_found ? 0 : refuse(kind, name, found, free_from, e);
}

static int find_program(const char *name, char ret[64], struct cloche_err *e)
{
        for (size_t i = 0; i < sizeof(directories) / sizeof(directories[0]); i++) {
                snprintf(ret, 64, "%s/%s", directories[i], name);
                if (access(ret, X_OK) == 0)
                        return 0;
        }
        return err_set(e, CLOCHE_E_PRIVILEGE,
                       "root in a sandbox of an ordinary user needs the program %s: apt install uidmap (other systems: "
                       "shadow, shadow-utils)",
                       name);
}

int subids_find(struct subids *ret, struct cloche_err *e)
{
        const struct passwd *own = getpwuid(geteuid());
        char path[64];
        int r;

        if (!own)
                return err_set(e, CLOCHE_E_PRIVILEGE,
                               "root in a sandbox needs a name for the user %u, under which /etc/subuid lends ids",
                               (unsigned)geteuid());
        r = find_range(&kinds[0], own->pw_name, &ret->uid, e);
        if (r == 0)
                r = find_range(&kinds[1], own->pw_name, &ret->gid, e);
        for (size_t i = 0; r == 0 && i < sizeof(kinds) / sizeof(kinds[0]); i++)
                r = find_program(kinds[i].program, path, e);
        return r;
}

/* -- the maps --------------------------------------------------------------------------------------------------- */

static _Noreturn void execute(const char *path, pid_t pid, uint32_t own, uint32_t first, int told_fd)
{
        char pid_text[12], own_text[12], first_text[12], count_text[12];
        const char *const argv[] = {path, pid_text, "0", own_text, "1", "1", first_text, count_text, NULL};
        char *const env[] = {NULL};
        int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

        snprintf(pid_text, sizeof(pid_text), "%d", (int)pid);
        snprintf(own_text, sizeof(own_text), "%u", own);
        snprintf(first_text, sizeof(first_text), "%u", first);
        snprintf(count_text, sizeof(count_text), "%u", IDS_IN_RANGE - 1);
        if (null_fd >= 0 && dup2(null_fd, 0) == 0 && dup2(null_fd, 1) == 1 && dup2(told_fd, 2) == 2)
                execve(path, (char *const *)argv, env);
        _exit(127);
}

static int run(const char *name, pid_t pid, uint32_t own, uint32_t first, struct cloche_err *e)
{
        _cleanup_fd_ int read_fd = -EBADF, write_fd = -EBADF;
        char path[64], told[TOLD_BYTES] = "";
        int pair[2], status, r = find_program(name, path, e);
        pid_t program;

        if (r < 0)
                return r;
        if (pipe2(pair, O_CLOEXEC) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "make a pipe");
        read_fd = pair[0];
        write_fd = pair[1];
        program = fork();
        if (program == 0)
                execute(path, pid, own, first, write_fd);
        if (program < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "fork");
        fd_close(&write_fd);
        (void)fd_read_full(read_fd, told, sizeof(told) - 1);
        if (waitpid(program, &status, 0) < 0)
                return err_os(e, CLOCHE_E_NAMESPACE, errno, "wait for %s", name);
        told[strcspn(told, "\n")] = '\0';
        return status == 0 ? 0
                           : err_set(e, CLOCHE_E_NAMESPACE, "%s did not map the ids of the box: %s", path,
                                     *told ? told : "it said nothing");
}

int subids_map(const struct subids *ids, pid_t pid, struct cloche_err *e)
{
        int r = run("newgidmap", pid, getegid(), ids->gid, e);

        return r == 0 ? run("newuidmap", pid, geteuid(), ids->uid, e) : r;
}
