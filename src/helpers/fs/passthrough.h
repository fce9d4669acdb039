/* The kernel reads large unchangeable files directly, without a copy through us (FUSE passthrough,
 * Linux 6.9). */
#ifndef CLOCHE_HELPERS_FS_PASSTHROUGH_H
#define CLOCHE_HELPERS_FS_PASSTHROUGH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct iovec;
struct fs_mount;
struct node;

/* A mount's connection to the keeper. */
struct fs_passthrough {
        int keeper_fd, fuse_fd; /* keeper_fd: -EBADF: none */
        bool offered, accepted; /* by the kernel; by us at the start of the connection */
        uint32_t serial;
        int32_t answering; /* id for the answer being written; 0: none */
        uint64_t opened, refused;
};

/* fuse_fd: of the connection; borrowed. Takes keeper_fd; -EBADF: none. Stays off if root_fd's file
 * system does not support it. */
void passthrough_init(struct fs_passthrough *passthrough, int fuse_fd, int keeper_fd, int root_fd);

/* Patch messages that libfuse 3.14 does not support: the request and answer of FUSE_INIT, and the
 * answer to an open. */
void passthrough_note_init(struct fs_passthrough *passthrough, const void *request, size_t size);
void passthrough_amend_init(struct fs_passthrough *passthrough, const struct iovec *iov, int count);
void passthrough_amend_open(struct fs_passthrough *passthrough, const struct iovec *iov, int count);

/* Decide how to answer a permitted open with these flags; fd is its contents (or -EBADF). 1: the
 * kernel reads directly, and passthrough_release() must follow; 0: ordinary open; -ESTALE: the host
 * now has another file than the one the kernel reads; -EINVAL: O_DIRECT, which the file does not
 * support. */
int passthrough_open(struct fs_mount *mount, struct node *node, int flags, int fd);
void passthrough_release(struct fs_mount *mount, struct node *node);

#endif
