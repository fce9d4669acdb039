#include "loadable.h"

#include <bashjmp.h>

#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include <version.h>

#define FRAME "cloche"

extern int want_pending_command;

int loadable_fits(void)
{
        if (strcmp(dist_version, DISTVERSION) == 0)
                return 1;
        builtin_error("made for bash %s, not %s", DISTVERSION, dist_version);
        return 0;
}

void loadable_look_plain(void)
{
        want_pending_command = 0;
        unbind_variable("BASH_EXECUTION_STRING");
}

/* The shell leaves code by jumping to top_level. What the code was in the middle of is undone by its unwind frames. */
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
