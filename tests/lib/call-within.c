/* Make one system call in another process, like code that has taken it over: hostile/confined-daemon.py.
 *
 *     call-within PID NUMBER [ARGUMENT…]     a number, or s:TEXT for the address of a text
 *
 * Prints the result of the call (-errno), or "killed N" if the process died of it. x86-64. ptrace(2). */
#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define RED_ZONE 4096

static _Noreturn void fail(const char *what)
{
        perror(what);
        exit(2);
}

/* Finds a syscall instruction in the C library's code. */
static uint64_t find_syscall(pid_t pid, int memory_fd)
{
        char path[64], line[512], permissions[5];
        unsigned long from, to;
        FILE *maps;

        snprintf(path, sizeof(path), "/proc/%d/maps", pid);
        maps = fopen(path, "re");
        while (maps && fgets(line, sizeof(line), maps)) {
                char *bytes, *found;

                if (sscanf(line, "%lx-%lx %4s", &from, &to, permissions) != 3 || permissions[2] != 'x' ||
                    !strstr(line, "libc.so"))
                        continue;
                bytes = malloc(to - from);
                if (!bytes || pread(memory_fd, bytes, to - from, (off_t)from) != (ssize_t)(to - from))
                        fail("read the code");
                found = memmem(bytes, to - from, "\x0f\x05", 2);
                if (found)
                        return from + (uint64_t)(found - bytes);
        }
        fail("find a system call");
}

static void wait_for_stop(pid_t pid)
{
        int status;

        if (waitpid(pid, &status, __WALL) < 0)
                fail("waitpid");
        if (WIFSTOPPED(status))
                return;
        printf("killed %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
        exit(0);
}

static uint64_t argument(const char *text, int memory_fd, uint64_t *stack)
{
        size_t size = strlen(text + 2) + 1;

        if (strncmp(text, "s:", 2) != 0)
                return (uint64_t)strtoll(text, NULL, 0);
        *stack = (*stack - size) & ~UINT64_C(15);
        if (pwrite(memory_fd, text + 2, size, (off_t)*stack) != (ssize_t)size)
                fail("write an argument");
        return *stack;
}

int main(int argc, char **argv)
{
        pid_t pid = argc > 2 ? atoi(argv[1]) : 0;
        struct user_regs_struct saved, regs;
        uint64_t stack, arguments[6] = {0};
        char path[64];
        int memory_fd;

        if (!pid || argc > 9 || ptrace(PTRACE_SEIZE, pid, NULL, NULL) < 0 ||
            ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) < 0)
                fail("trace");
        wait_for_stop(pid);
        snprintf(path, sizeof(path), "/proc/%d/mem", pid);
        memory_fd = open(path, O_RDWR | O_CLOEXEC);
        if (memory_fd < 0 || ptrace(PTRACE_GETREGS, pid, NULL, &saved) < 0)
                fail("look into it");
        stack = saved.rsp - RED_ZONE;
        for (int i = 3; i < argc; i++)
                arguments[i - 3] = argument(argv[i], memory_fd, &stack);
        regs = saved;
        regs.rip = find_syscall(pid, memory_fd);
        regs.orig_rax = (uint64_t)-1;
        regs.rax = strtoull(argv[2], NULL, 0);
        regs.rdi = arguments[0];
        regs.rsi = arguments[1];
        regs.rdx = arguments[2];
        regs.r10 = arguments[3];
        regs.r8 = arguments[4];
        regs.r9 = arguments[5];
        regs.rsp = stack & ~UINT64_C(15);
        if (ptrace(PTRACE_SETREGS, pid, NULL, &regs) < 0 || ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) < 0)
                fail("make it call");
        wait_for_stop(pid);
        if (ptrace(PTRACE_GETREGS, pid, NULL, &regs) < 0 || ptrace(PTRACE_SETREGS, pid, NULL, &saved) < 0 ||
            ptrace(PTRACE_DETACH, pid, NULL, NULL) < 0)
                fail("let it go");
        printf("%lld\n", (long long)regs.rax);
        return 0;
}
