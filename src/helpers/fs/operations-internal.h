/* Shared by operations*.c. */
#ifndef CLOCHE_HELPERS_FS_OPERATIONS_INTERNAL_H
#define CLOCHE_HELPERS_FS_OPERATIONS_INTERNAL_H

#include "helpers/fs/tree/access.h"
#include "operations.h"

#define CACHE_OWN_S 3600.0 /* for entries that only the guest can change */

struct handle {
        struct node *node;
        int fd;
        uint64_t content; /* content number of fd; 0: the host's */
        bool unopened;    /* the kernel's cached pages suffice */
        bool drop;        /* discard writes */
        bool passes;      /* the kernel reads directly */
        bool denied;      /* modify was refused, and recorded, at open */
        bool made;        /* by the open that created the file: writing is allowed whatever the rules for modify */
};

struct fs_mount *mount_of(fuse_req_t req);
struct node *node_of(fuse_req_t req, fuse_ino_t ino);
fuse_ino_t ino_of(const struct fs_mount *mount, const struct node *node);

/* Map a verdict: 1: perform the operation; 0: pretend to; -EACCES. */
int go_on(enum access_verdict verdict);

double attr_cache_s(const struct fs_mount *mount, const struct node *node);
/* Fill an entry and count the kernel's reference. */
void fill_entry(struct fs_mount *mount, struct node *node, struct fuse_entry_param *ret);
void forget(struct fs_mount *mount, struct node *node, uint64_t count);

/* Check the creation of a name. *ret_virtual: for the guest only. Returns like go_on(). */
int may_make(struct fs_mount *mount, struct node *parent, const char *name, bool *ret_virtual);
/* Put a node under a new name and touch the parent. On failure node is settled. */
int put_new(struct fs_mount *mount, struct node *parent, const char *name, struct node *node, bool is_virtual);
/* A node of the guest without a name yet; it stays nameless if its creation is
 * pretended. NULL: no room. */
struct node *make_node(struct fs_mount *mount, mode_t mode);

void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set, struct fuse_file_info *fi);
void op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *fi);
void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi);
void op_write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size, off_t offset, struct fuse_file_info *fi);
void op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void op_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t size, struct fuse_file_info *fi);
void op_lseek(fuse_req_t req, fuse_ino_t ino, off_t offset, int whence, struct fuse_file_info *fi);
void op_copy_file_range(fuse_req_t req, fuse_ino_t ino_in, off_t off_in, struct fuse_file_info *fi_in,
                        fuse_ino_t ino_out, off_t off_out, struct fuse_file_info *fi_out, size_t size, int flags);

void op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi);
void op_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi);
void op_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);

void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name);
void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name);
void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent, const char *new_name,
               unsigned flags);

void op_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size, int flags);
void op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size);
void op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size);
void op_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name);

#endif
