/* The control socket between the engine and a box's PID 1: SOCK_SEQPACKET, one packet a request,
 * one packet an answer in the same order; INIT_EXITED comes without a request. PID 1 is our
 * program, but it lives beside hostile code: the engine checks every answer. When the socket
 * closes, PID 1 exits, and the box ends with it (pid_namespaces(7)). */
#ifndef CLOCHE_PROTO_INIT_H
#define CLOCHE_PROTO_INIT_H

#include <cloche/error.h>

#define INIT_PATH_MAX 4096
#define INIT_STRINGS_MAX (4u << 20) /* argv and environment of one program */
#define INIT_LIST_MAX (64u << 20)   /* bytes of one INIT_LIST answer */

enum init_op {
        /* Make a file with the kind and permissions of mode, and the directories on the way. path:
         * absolute, or below /workspace. fds: [0] contents, from position 0 to its end, holes kept;
         * the target of a symbolic link; none for a directory. */
        INIT_PUT = 1,
        /* Start a program. fds: [0] memory file of NUL-terminated strings: cwd, argc
         * arguments, envc environment; [1] stdin [2] stdout [3] stderr, and perhaps [4]
         * channel, which becomes descriptor 3, and [5] a template's fork socket, which becomes
         * descriptor 4. argv[0] is looked up in the PATH of the new environment. The answer
         * comes after exec succeeded. */
        INIT_SPAWN,
        /* SIGKILL everything but PID 1 and reap it, so that the files stand still. */
        INIT_QUIESCE,
        /* List path recursively. Answer fds: [0] memory file of struct init_entry, each followed
         * by its path (path_size bytes, relative to the listed directory, no terminator). Not
         * followed: symlinks, mounts. */
        INIT_LIST,
        /* Open a regular file for reading, no symlink followed. Answer fds: [0] the file. */
        INIT_GET,
        /* The target of a symbolic link. Answer fds: [0] memory file with it. */
        INIT_READLINK,
        /* Record the state of the box, before the first run in it. */
        INIT_RECORD_STATE,
        /* SIGKILL everything but PID 1, then check that the box is as it was recorded. */
        INIT_CHECK_CLEAN,
        INIT_EXITED, /* never requested: a program started by INIT_SPAWN ended */
        /* Signal a process of the box by its pid there, and with INIT_KILL_TREE all its
         * descendants, including those forked meanwhile. fds: none, or [0] a memory
         * file of int32_t: pids to spare with all their descendants. Answer pid: the
         * number of signalled processes. */
        INIT_KILL,
        /* Connect to a port of the box's loopback, IPv4 first. Answer fds: [0] a nonblocking socket
         * that may still be connecting. CLOCHE_E_PORT_CLOSED: no process listens. */
        INIT_CONNECT,
        /* Answer fds: [0] memory file of struct init_port, one a listening TCP socket of the
         * box. */
        INIT_PORTS,
        /* Measure the box's writable file system. */
        INIT_DISK,
};

/* For INIT_SPAWN. */
enum init_spawn_flag {
        INIT_SPAWN_REAPS = 1, /* prctl(2) PR_SET_CHILD_SUBREAPER: its descendants stay beneath it as long as it lives */
        INIT_SPAWN_TERMINAL =
                2, /* 0, 1, 2 are a new terminal, its controlling one; only [0] is sent. Answer fds: [0] the master */
        INIT_SPAWN_PROGRAM = 4, /* the last descriptor is the program, sealed; argv[0] is only its name */
};

/* For INIT_KILL. */
enum init_kill_flag {
        INIT_KILL_TREE = 1,  /* its descendants too */
        INIT_KILL_BELOW = 2, /* its descendants only */
};

struct init_port {
        uint32_t port;
        uint32_t is_loopback; /* bound to 127.0.0.0/8 or ::1 */
};

struct init_request {
        uint32_t op;
        uint32_t mode;            /* INIT_PUT: as st_mode */
        uint32_t argc, envc;      /* INIT_SPAWN */
        uint32_t flags;           /* INIT_SPAWN, INIT_KILL */
        int32_t pid;              /* INIT_KILL */
        uint32_t signal;          /* INIT_KILL */
        uint32_t port;            /* INIT_CONNECT */
        uint32_t cols, rows;      /* INIT_SPAWN_TERMINAL */
        char path[INIT_PATH_MAX]; /* INIT_PUT, INIT_LIST, INIT_GET, INIT_READLINK; terminated */
};

struct init_answer {
        uint32_t op;
        int32_t pid;         /* INIT_SPAWN, INIT_EXITED: in the box's pid namespace */
        int32_t wait_status; /* INIT_EXITED: as from waitpid(2) */
        uint32_t is_clean;   /* INIT_CHECK_CLEAN */
        uint64_t user_us, system_us,
                max_rss_bytes; /* INIT_EXITED: getrusage(2) of that program and its waited-for children */
        uint64_t disk_bytes_used,
                disk_inodes_used; /* INIT_QUIESCE, INIT_CHECK_CLEAN, INIT_DISK: of the box's writable file system */
        uint64_t disk_bytes_free, disk_inodes_free;
        struct cloche_err err; /* code 0: done */
};

struct init_entry {
        uint64_t size, mtime_ns, ctime_ns, inode;
        uint32_t mode; /* st_mode */
        uint32_t path_size;
};

#endif
