/* One member of a layer, on its own: a checked path, a permitted kind, the attributes that are
 * kept. */
#ifndef CLOCHE_HELPERS_IMAGE_READ_MEMBER_H
#define CLOCHE_HELPERS_IMAGE_READ_MEMBER_H

#include "box/files/archive/member.h"

#include <archive.h>
#include <archive_entry.h>
#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

#define MEMBER_DEPTH_MAX 1024

enum layer_kind {
        LAYER_FILE,
        LAYER_DIRECTORY,
        LAYER_LINK,
        LAYER_HARD_LINK,
        LAYER_WHITEOUT, /* of path */
        LAYER_OPAQUE,   /* the directory at path has nothing of lower layers */
        LAYER_LEFT_OUT,
};

/* Number of things that were left out. */
struct layer_drops {
        uint64_t devices, pipes, setid, capabilities, attributes;
        uint64_t owners; /* other than root, of a commit to a store whose files have one owner */
};

struct layer_member {
        enum layer_kind kind;
        char path[MEMBER_PATH_MAX + 1]; /* "": the top */
        char link_path[MEMBER_PATH_MAX + 1];
        const char *link; /* symbolic link: its target; hard link: link_path */
        mode_t mode;
        uid_t uid;
        gid_t gid;
        struct timespec time;
        uint64_t size;
        bool is_opaque; /* a directory that has nothing of lower layers */
        struct archive_entry *entry;
};

/* -CLOCHE_E_BAD_ARCHIVE: a path, kind or link that no image may have. */
CLOCHE_MUST_CHECK int layer_member_read(struct archive_entry *entry, struct layer_member *ret,
                                        struct layer_drops *drops, struct cloche_err *e);
CLOCHE_MUST_CHECK int layer_member_check_depth(const struct layer_member *m, struct cloche_err *e);
/* Its kind, attributes and owner; path is set. -CLOCHE_E_BAD_ARCHIVE. */
CLOCHE_MUST_CHECK int layer_member_read_facts(struct layer_member *m, struct layer_drops *drops, struct cloche_err *e);
/* The next extended attribute to keep; 0: no more. Begin with archive_entry_xattr_reset(). */
int layer_member_attribute(const struct layer_member *m, struct layer_drops *drops, const char **ret_name,
                           const void **ret_value, size_t *ret_size);
json_t *layer_drops_json(const struct layer_drops *drops);

#endif
