/* Large files that nobody may change are read by the kernel itself, without a copy of ours (FUSE passthrough, Linux 6.9). */
#ifndef CLOCHE_FS_PASSTHROUGH_H
#define CLOCHE_FS_PASSTHROUGH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct iovec;
struct mount;
struct node;

/* The way to the keeper, of a mount. */
struct passthrough {
        int keeper_fd, fuse_fd; /* keeper_fd: -EBADF: none */
        bool offered, accepted; /* by the kernel, by us when the connection began */
        uint32_t serial;
        int32_t answering; /* the id the answer that is being written is to have; 0: none */
        uint64_t opened, refused;
};

/* fuse_fd: of the connection; borrowed. keeper_fd: owned from now on; -EBADF. Not at all where root_fd's file system is none for it. */
void passthrough_init(struct passthrough *passthrough, int fuse_fd, int keeper_fd, int root_fd);

/* What libfuse 3.14 does not know of: the question and the answer with which a connection begins, and the answer to an open. */
void passthrough_note_init(struct passthrough *passthrough, const void *request, size_t size);
void passthrough_amend_init(struct passthrough *passthrough, const struct iovec *iov, int count);
void passthrough_amend_open(struct passthrough *passthrough, const struct iovec *iov, int count);

/* How an open with these flags is to be answered that was permitted, and whose contents fd is (or -EBADF): 1: the kernel reads by itself,
 * and passthrough_release() is to follow; 0: the ordinary way; -ESTALE: the host has another file there now than the one the
 * kernel reads; -EINVAL: O_DIRECT, and the file cannot. */
int passthrough_open(struct mount *mount, struct node *node, int flags, int fd);
void passthrough_release(struct mount *mount, struct node *node);

#endif
