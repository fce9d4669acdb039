/* The protocol between the engine and the shell of a session: bash, with the builtin of
 * src/box/shell loaded, on descriptor 3, SOCK_SEQPACKET. Each request is one packet. The answer to
 * SHELL_RUN comes when the command has ended, in the order of the requests; the shell reads nothing
 * meanwhile. Guest code runs in the same process, so the engine trusts nothing it receives.
 *
 *   bash --norc --noprofile -c '…; enable -f /proc/self/fd/4 cloche_session && cloche_session'
 *
 * 3: this socket; 4: the builtin, a sealed memory file. Both are moved to other numbers and close
 * on exec: commands find 0, 1, 2 only. */
#ifndef CLOCHE_PROTO_SHELL_H
#define CLOCHE_PROTO_SHELL_H

#include <stdint.h>

#define SHELL_CWD_MAX 4096
#define SHELL_JOBS_MAX 64
#define SHELL_COMMAND_MAX (64u << 20)

enum shell_op {
        SHELL_READY = 1, /* sent once: the shell accepts requests */
        /* Run a command in the shell itself. fds: [0] memory file of strings, [1]
         * stdin [2] stdout [3] stderr. */
        SHELL_RUN,
        /* Run it in a forked copy, in its own process session (setsid(2)), which reaps the
         * processes it starts. fds: as for SHELL_RUN, and [4] a pipe: struct shell_status is
         * written to it when the command has ended; it closes without one if the copy was killed.
         * The answer comes at once, with the pid. */
        SHELL_FORK,
        /* Export and unset variables. fds: [0] memory file of strings, without a command. */
        SHELL_EXPORT,
};

/* The memory file of strings holds, in this order: command_size bytes of the command; if has_cwd a
 * directory, terminated; env_count terminated strings: NAME=VALUE to export, NAME to unset. With
 * SHELL_RUN and SHELL_FORK directory and variables are for this command only. */
struct shell_request {
        uint32_t op, serial;
        uint32_t command_size, has_cwd, env_count, reserved;
};

enum shell_flag {
        SHELL_ENVIRONMENT = 1, /* with one descriptor: a memory file of the exported variables, each terminated; sent
                                  when they changed */
        SHELL_INTERRUPTED = 2, /* the command was aborted by SIGINT */
};

struct shell_answer {
        uint32_t op, serial;
        int32_t exit_code; /* SHELL_RUN: 0 to 255. SHELL_FORK: pid of the supervisor, which keeps the processes that the
                              copy leaves behind */
        int32_t pid;       /* SHELL_FORK: of the copy, in the shell's pid namespace; negative: -errno of the fork */
        uint32_t flags;
        uint32_t job_count; /* living children of the shell; their pids follow */
        int32_t jobs[SHELL_JOBS_MAX];
        char cwd[SHELL_CWD_MAX]; /* current directory, terminated */
};

/* Written to the pipe of a SHELL_FORK. */
struct shell_status {
        int32_t wait_status; /* as from waitpid(2), of the shell that ran the command */
        uint32_t reserved;
        uint64_t user_us, system_us, max_rss_bytes;
};

#endif
