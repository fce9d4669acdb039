/* Runs in: cloche-image, as its user, confined to the store and the source. */
#include "change.h"

#include "base/err.h"
#include "box/files/archive/pack.h"
#include "jail/root/accounts.h"
#include "jail/root/plan.h"
#include "proto/image.h"

#include <string.h>

#define WHITEOUT ".wh."

/* Overlayfs shows a removed file as this device. */
static bool is_whiteout(struct archive_entry *entry)
{
        return archive_entry_filetype(entry) == AE_IFCHR && archive_entry_rdev(entry) == 0 &&
               !archive_entry_hardlink(entry);
}

static bool is_opaque(struct archive_entry *entry)
{
        const char *name;
        const void *value;
        size_t size;

        archive_entry_xattr_reset(entry);
        while (archive_entry_xattr_next(entry, &name, &value, &size) == ARCHIVE_OK)
                if (name && strcmp(name, PACK_OPAQUE) == 0)
                        return size == 1 && *(const char *)value == 'y';
        return false;
}

static int check_names(const char *path, struct cloche_err *e)
{
        for (const char *at = path; at; at = strchr(at, '/') ? strchr(at, '/') + 1 : NULL)
                if (strncmp(at, WHITEOUT, strlen(WHITEOUT)) == 0)
                        return err_set(e, CLOCHE_E_BAD_ARCHIVE,
                                       "the file /%.120s has a name that begins with '" WHITEOUT
                                       "', which means a removed file in images: rename it",
                                       path);
        return 0;
}

/* The path in the image, in place. Return true for one in a layer of the writable root. */
static bool cut_place(char *path)
{
        const size_t size = strlen(JAIL_CHANGES);

        if (strncmp(path, JAIL_CHANGES, size) != 0 || (path[size] != '/' && path[size]))
                return false;
        memmove(path, path + size + (path[size] == '/'), strlen(path + size + (path[size] == '/')) + 1);
        return true;
}

/* A directory that the sandbox has, and its image has not, as it was made. */
static bool is_made(const struct layer_member *m, const struct changes *changes)
{
        return archive_entry_filetype(m->entry) == AE_IFDIR &&
               archive_entry_perm(m->entry) == image_path_made_mode(m->path) &&
               archive_entry_uid(m->entry) == changes->owner && archive_entry_gid(m->entry) == changes->group;
}

/* Files of boxes, and directories of sandboxes. */
static bool is_box(const struct layer_member *m, bool is_layer, const struct changes *changes)
{
        const size_t size = strcspn(m->path, "/");
        const bool has_root = changes->owner == 0;

        return !*m->path || (image_top_is_box(m->path, size) && !(has_root && image_top_is_roots(m->path, size))) ||
               (image_path_is_box(m->path) && !(has_root && jail_path_is_account(m->path))) ||
               (!is_layer && is_made(m, changes));
}

/* The target of a hard link has a prefix too. */
static int read_link(struct layer_member *m, struct cloche_err *e)
{
        if (m->kind != LAYER_HARD_LINK)
                return 0;
        (void)cut_place(m->link_path);
        return check_names(m->link_path, e);
}

int layer_change_read(struct archive_entry *entry, const struct changes *changes, struct layer_member *ret,
                      struct layer_drops *drops, struct cloche_err *e)
{
        const char *given = archive_entry_pathname(entry);
        bool is_layer;
        int r;

        ret->entry = entry;
        ret->link = NULL;
        ret->is_opaque = false;
        if (!given)
                return err_set(e, CLOCHE_E_BAD_ARCHIVE, "a member has no name that could be read");
        r = member_path(given, ret->path, e);
        if (r < 0)
                return r;
        is_layer = cut_place(ret->path);
        ret->kind = is_box(ret, is_layer, changes)   ? LAYER_LEFT_OUT
                    : is_layer && is_whiteout(entry) ? LAYER_WHITEOUT
                                                     : LAYER_FILE;
        if (ret->kind == LAYER_LEFT_OUT)
                return 0;
        r = layer_member_check_depth(ret, e);
        if (r == 0)
                r = check_names(ret->path, e);
        if (r < 0 || ret->kind == LAYER_WHITEOUT)
                return r;
        r = layer_member_read_facts(ret, drops, e);
        if (r == 0)
                r = read_link(ret, e);
        if (r < 0)
                return r;
        ret->is_opaque = is_layer && ret->kind == LAYER_DIRECTORY && is_opaque(entry);
        if (ret->is_opaque) /* it has no other attribute: that of the layer is not left out, but obeyed */
                archive_entry_xattr_clear(entry);
        ret->uid = ret->uid == changes->owner ? 0 : ret->uid;
        ret->gid = ret->gid == changes->group ? 0 : ret->gid;
        if (changes->time >= 0)
                ret->time = (struct timespec){.tv_sec = changes->time};
        return 0;
}
