/* The requests of a mount's server to the keeper: the kernel shall read a file of the host by
 * itself. SOCK_SEQPACKET, one packet each; fixed values, and descriptors. */
#ifndef CLOCHE_PROTO_PASSTHROUGH_H
#define CLOCHE_PROTO_PASSTHROUGH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PASSTHROUGH_IDS_MAX 1024 /* open at the same time, of one mount */

enum passthrough_op {
        PASSTHROUGH_OPEN,  /* descriptors: the connection (/dev/fuse), the file O_RDONLY; answered */
        PASSTHROUGH_CLOSE, /* descriptor: the connection; not answered, because the server does not wait for it */
        PASSTHROUGH_OP_COUNT
};

struct passthrough_request {
        uint32_t op;
        int32_t id; /* of PASSTHROUGH_CLOSE, else 0 */
        uint32_t serial;
        uint32_t reserved; /* 0 */
};

struct passthrough_answer {
        uint32_t serial;
        int32_t result; /* the id, from 1 on, or -errno; -EOPNOTSUPP: not a file of a supported file system */
};

/* File systems whose files the keeper may handle: none of their calls waits for another program or
 * machine. */
static inline bool passthrough_knows(uint64_t magic)
{
        static const uint32_t known[] = {
                0xef53 /* ext4 */,         0x58465342 /* xfs */,   0x9123683e /* btrfs */,
                0x01021994 /* tmpfs */,    0xf2f52010 /* f2fs */,  0x2fc12fc1 /* zfs */,
                0xca451a4e /* bcachefs */, 0xe0f5e1e2 /* erofs */, 0x73717368 /* squashfs */,
        };

        for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
                if (known[i] == magic)
                        return true;
        return false;
}

#endif
