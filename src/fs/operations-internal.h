/* Shared by operations*.c. */
#ifndef CLOCHE_FS_OPERATIONS_INTERNAL_H
#define CLOCHE_FS_OPERATIONS_INTERNAL_H

#include "operations.h"
#include "permit.h"

#define CACHE_OWN_S 3600.0 /* what only the guest can change */

struct handle {
        struct node *node;
        int fd;
        uint64_t content; /* of which fd is; 0: the host's */
        bool unopened;    /* what the kernel has in its cache will do */
        bool drop;        /* what is written is thrown away */
        bool passes;      /* the kernel reads by itself */
        bool denied;      /* modifying was refused and recorded when it was opened */
        bool made;        /* by the open that made the file: it may be filled, whatever the rules say of changing it */
};

struct mount *mount_of(fuse_req_t req);
struct node *node_of(fuse_req_t req, fuse_ino_t ino);
fuse_ino_t ino_of(const struct mount *mount, const struct node *node);

/* A verdict that is no yes: 1 when the operation is to go on, 0 when it is to be pretended, -EACCES. */
int go_on(enum permit permit);

double entry_cache_s(const struct mount *mount, const struct node *node);
double attr_cache_s(const struct mount *mount, const struct node *node);
/* Fill an entry and count the kernel's reference. */
void fill_entry(struct mount *mount, struct node *node, struct fuse_entry_param *ret);
/* The reference is taken back when the kernel did not take it. */
void reply_entry(fuse_req_t req, struct mount *mount, struct node *node, bool cached);
void forget(struct mount *mount, struct node *node, uint64_t count);

/* Checks of a name that is to be made, and what making it comes to. *ret_virtual: for the guest alone. As go_on(). */
int may_make(struct mount *mount, struct node *parent, const char *name, bool *ret_virtual);
/* A node under a new name; the parent is touched. On failure node is settled. */
int put_new(struct mount *mount, struct node *parent, const char *name, struct node *node, bool is_virtual);
/* A node of the guest, without a name so far; without one for good when its making is only pretended. NULL: no room. */
struct node *make_node(struct mount *mount, mode_t mode);

int handle_new(struct mount *mount, struct node *node, struct fuse_file_info *fi, struct handle **ret);
void handle_free(struct mount *mount, struct handle *handle);

void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set, struct fuse_file_info *fi);
void op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *fi);
void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi);
void op_write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size, off_t offset, struct fuse_file_info *fi);
void op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void op_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t size, struct fuse_file_info *fi);
void op_lseek(fuse_req_t req, fuse_ino_t ino, off_t offset, int whence, struct fuse_file_info *fi);
void op_copy_file_range(fuse_req_t req, fuse_ino_t ino_in, off_t off_in, struct fuse_file_info *fi_in, fuse_ino_t ino_out,
                        off_t off_out, struct fuse_file_info *fi_out, size_t size, int flags);

void op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi);
void op_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi);
void op_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);

void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name);
void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name);
void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent, const char *new_name, unsigned flags);

void op_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size, int flags);
void op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size);
void op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size);
void op_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name);

#endif
