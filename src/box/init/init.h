/* The jobs of a box's PID 1, one file each; main.c receives requests and sends the answers. All
 * of it runs in the box, one thread, one request at a time, beside hostile code of the same user:
 * each function is bounded, whatever other processes of the box do.
 *
 * Functions take the request, and the descriptors that came with it, borrowed. They return 0, or a
 * negative code with *e set; ret_fd is sent with the answer and closed then. */
#ifndef CLOCHE_BOX_INIT_INIT_H
#define CLOCHE_BOX_INIT_INIT_H

#include "proto/init.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/types.h>

/* files.c */
int files_put(struct init_request *request, const int *fds, size_t fd_count, struct cloche_err *e);
int files_get(const struct init_request *request, int *ret_fd, struct cloche_err *e);
int files_read_link(const struct init_request *request, int *ret_fd, struct cloche_err *e);
/* Make the directories above path; path is modified temporarily. */
int files_make_parents(char *path, struct cloche_err *e);
int init_files_list(const struct init_request *request, int *ret_fd, struct cloche_err *e);

/* programs.c; cpu_seconds: RLIMIT_CPU of each program, 0: none; open_files: RLIMIT_NOFILE. */
void programs_set_up(rlim_t cpu_seconds, rlim_t open_files);
int programs_spawn(const struct init_request *request, const int *fds, size_t fd_count, pid_t *ret_pid, int *ret_fd,
                   struct cloche_err *e);
/* Reap dead children, and report those that programs_spawn started. options: WNOHANG, or 0 to wait
 * until no child is left. */
void programs_reap(int options);

/* kill.c */
/* SIGKILL everything but us. */
int kill_all(struct cloche_err *e);
int kill_asked(const struct init_request *request, const int *fds, size_t fd_count, int32_t *ret_count,
               struct cloche_err *e);

/* One line of /proc/PID/stat (proc_pid_stat(5)). */
struct process_stat {
        pid_t pid, parent;
        char state;
        uint64_t threads, start_ticks; /* distinguishes a reused pid from the old process */
};
int process_stat_parse(const char *line, struct process_stat *ret);

/* net.c */
int net_connect(const struct init_request *request, int *ret_fd, struct cloche_err *e);
int net_ports(int *ret_fd, struct cloche_err *e);
/* Parse one line of /proc/net/tcp or tcp6 (proc_pid_net(5)): 1 for a listening socket, 0 for
 * another, -1 for anything else. */
int net_parse_socket(const char *line, struct init_port *ret);

/* main.c: send a message. fd: sent along, unless -EBADF. Exits if the engine is gone. */
void init_send(const struct init_answer *answer, int fd);

#endif
