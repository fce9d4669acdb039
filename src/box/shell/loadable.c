/* Parts that each loadable builtin of ours needs: the version check, guarded jumps, hidden traces.
 * Runs in: bash of a session or an agent, with the guest's rights. */
#include "loadable.h"

#include <bashjmp.h>

#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <version.h>

#define FRAME "cloche"

extern int want_pending_command;

/* The parts of bash that we use are the same in these versions, except the start of ARRAY. */
static const char *const versions[] = {"5.1", "5.2"};

struct array_of_5_1 {
        int type;
        intmax_t max_index;
        int num_elements;
};

struct array_of_5_2 {
        intmax_t max_index, num_elements;
};

static int is_known(const char *version)
{
        for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++)
                if (strcmp(version, versions[i]) == 0)
                        return 1;
        return 0;
}

int loadable_fits(void)
{
        if (strcmp(dist_version, DISTVERSION) == 0 || (is_known(dist_version) && is_known(DISTVERSION)))
                return 1;
        builtin_error("this is bash %s, and Cloche's part for bash is made for %s: use an image with bash %s",
                      dist_version, is_known(DISTVERSION) ? "5.1 and 5.2" : DISTVERSION,
                      is_known(DISTVERSION) ? "5.1 or 5.2 (Debian 11 to 13)" : DISTVERSION);
        return 0;
}

long loadable_array_size(const ARRAY *array)
{
        if (strcmp(dist_version, DISTVERSION) == 0)
                return array_num_elements(array);
        if (strcmp(dist_version, "5.1") == 0)
                return ((const struct array_of_5_1 *)array)->num_elements;
        return ((const struct array_of_5_2 *)array)->num_elements;
}

void loadable_hide_traces(void)
{
        want_pending_command = 0;
        unbind_variable("BASH_EXECUTION_STRING");
}

/* The shell leaves code by a jump to top_level. The unwind frames of the code undo its
 * unfinished work. */
int loadable_guard(int (*work)(void *data), void *data, void (*about_to_undo)(int jump, void *data), int *ret_status)
{
        procenv_t outer;
        volatile int jump;

        memcpy(outer, top_level, sizeof(outer));
        begin_unwind_frame(FRAME);
        jump = setjmp_nosigs(top_level);
        if (jump == 0)
                *ret_status = work(data);
        if (about_to_undo)
                about_to_undo(jump, data);
        run_unwind_frame(FRAME);
        memcpy(top_level, outer, sizeof(outer));
        return jump;
}

int loadable_move_up(int fd)
{
        static const int numbers[] = {700, 300, 100, 30, 10};

        for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
                int moved_fd = fcntl(fd, F_DUPFD_CLOEXEC, numbers[i]);

                if (moved_fd >= 0) {
                        close(fd);
                        return moved_fd;
                }
        }
        return fd;
}
