/* Kernelspecs: the files by which front ends of Jupyter find kernels. */
#ifndef CLOCHE_CLI_JUPYTER_KERNELSPEC_H
#define CLOCHE_CLI_JUPYTER_KERNELSPEC_H

#include <stddef.h>

struct kernelspec {
        const char *language;         /* ours */
        const char *sandbox, *socket; /* NULL: those that the kernel chooses when it starts */
        int is_forkable;
        const char *prefix; /* share/jupyter/kernels below it; NULL: the user's directory */
};

/* Write it, and print its path. 0, or the exit code after a line was printed. */
int kernelspec_write(const struct kernelspec *spec);

#endif
