/* The engine talks to the shell of a session: bash, with the builtin of src/shell loaded, on descriptor 3, SOCK_SEQPACKET. One packet a
 * request; SHELL_RUN is answered when the command has ended, in the order they were asked, and nothing else is read meanwhile. Code
 * of the guest runs in the same process: the engine believes nothing that comes back.
 *
 *   bash --norc --noprofile -c '…; enable -f /proc/self/fd/4 cloche_session && cloche_session'
 *
 * 3: this socket; 4: the builtin, a sealed memory file. Both are moved out of the way and close on exec: commands find 0, 1, 2 only. */
#ifndef CLOCHE_SANDBOX_SHELL_PROTOCOL_H
#define CLOCHE_SANDBOX_SHELL_PROTOCOL_H

#include <stdint.h>

#define SHELL_CWD_MAX 4096
#define SHELL_JOBS_MAX 64
#define SHELL_COMMAND_MAX (64u << 20)

enum shell_op {
        SHELL_READY = 1, /* told once: the shell takes requests */
        /* Run a command in the shell itself. fds: [0] memory file of strings, [1] stdin [2] stdout [3] stderr. */
        SHELL_RUN,
        /* Run it in a forked copy, in a process session of its own (setsid(2)), which reaps what it starts. fds: as of SHELL_RUN, and [4] a pipe to which struct
         * shell_status is written when the command has ended; it closes without one when the copy was killed. Answered at once, with its pid. */
        SHELL_FORK,
        /* Export and unset variables. fds: [0] memory file of strings, without a command. */
        SHELL_EXPORT,
};

/* The memory file of strings holds, one behind the other: command_size bytes of the command; with has_cwd a directory, terminated; env_count
 * terminated strings: NAME=VALUE to be exported, NAME to be unset. Of SHELL_RUN and SHELL_FORK both are for this command only. */
struct shell_request {
        uint32_t op, serial;
        uint32_t command_size, has_cwd, env_count, reserved;
};

enum shell_flag {
        SHELL_ENVIRONMENT = 1, /* one descriptor came along: a memory file of the exported variables, each terminated, as they changed since last told */
        SHELL_INTERRUPTED = 2, /* the command was abandoned because of SIGINT */
};

struct shell_answer {
        uint32_t op, serial;
        int32_t exit_code;     /* SHELL_RUN: 0 to 255. SHELL_FORK: pid of the copy's supervisor, beneath which stays what the copy leaves behind */
        int32_t pid;           /* SHELL_FORK: of the copy, in the shell's pid namespace; negative: -errno, it could not be made */
        uint32_t flags;
        uint32_t job_count;    /* children of the shell that are alive now: their pids */
        int32_t jobs[SHELL_JOBS_MAX];
        char cwd[SHELL_CWD_MAX]; /* where the shell is; terminated */
};

/* On the pipe of a SHELL_FORK. */
struct shell_status {
        int32_t wait_status;   /* as from waitpid(2), of the shell that ran the command */
        uint32_t reserved;
        uint64_t user_us, system_us, max_rss_bytes;
};

#endif
