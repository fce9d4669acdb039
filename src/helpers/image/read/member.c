/* Runs in: cloche-image, as its user, confined to the store and the source. */
#include "member.h"

#include "base/err.h"

#include <string.h>
#include <sys/stat.h>

#define WHITEOUT ".wh."
#define OPAQUE ".wh..wh..opq"
#define WHITEOUT_OWN ".wh..wh." /* of the file system that made the layer */

static int refuse(const struct layer_member *m, struct cloche_err *e, const char *why)
{
        return err_set(e, CLOCHE_E_BAD_ARCHIVE, "the member %.120s %s", m->path, why);
}

static int has_prefix(const char *text, const char *prefix)
{
        return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* -- paths ---------------------------------------------------------------------------------------------------- */

int layer_member_check_depth(const struct layer_member *m, struct cloche_err *e)
{
        unsigned depth = 1;

        for (const char *at = m->path; (at = strchr(at, '/')); at++)
                if (++depth > MEMBER_DEPTH_MAX)
                        return err_set(e, CLOCHE_E_BAD_ARCHIVE, "the member %.80s… is in more than %d directories",
                                       m->path, MEMBER_DEPTH_MAX);
        return 0;
}

/* True below a directory of the file system that made the layer. */
static int is_in_own(const char *path)
{
        const char *at = path;

        while (!has_prefix(at, WHITEOUT_OWN)) {
                at = strchr(at, '/');
                if (!at)
                        return 0;
                at++;
        }
        return 1;
}

static int is_below_whiteout(const char *path, const char *name)
{
        for (const char *at = path; at < name; at = strchr(at, '/') + 1)
                if (has_prefix(at, WHITEOUT))
                        return 1;
        return 0;
}

/* Cut the path at its last name, which is no more than a sign. */
static void cut(struct layer_member *m, char *name)
{
        if (name > m->path)
                name[-1] = '\0';
        else
                name[0] = '\0';
}

static int read_whiteout(struct layer_member *m, struct cloche_err *e)
{
        char *slash = strrchr(m->path, '/'), *name = slash ? slash + 1 : m->path;

        if (is_below_whiteout(m->path, name))
                return is_in_own(m->path) ? (m->kind = LAYER_LEFT_OUT, 1) : refuse(m, e, "is below a whiteout");
        if (!has_prefix(name, WHITEOUT))
                return 0;
        if (strcmp(name, OPAQUE) == 0) {
                m->kind = LAYER_OPAQUE;
                cut(m, name);
                return 1;
        }
        if (has_prefix(name, WHITEOUT_OWN)) {
                m->kind = LAYER_LEFT_OUT;
                return 1;
        }
        if (!name[4] || strcmp(name + 4, ".") == 0 || strcmp(name + 4, "..") == 0)
                return refuse(m, e, "is a whiteout of no name");
        memmove(name, name + 4, strlen(name + 4) + 1);
        m->kind = LAYER_WHITEOUT;
        return 1;
}

/* -- kinds ---------------------------------------------------------------------------------------------------- */

/* Boxes have a /dev of their own, which needs none of the image's devices. */
static int leave_out_device(struct layer_member *m, struct layer_drops *drops, struct cloche_err *e)
{
        if (!has_prefix(m->path, "dev/"))
                return refuse(m, e, "is a device: images have none outside of /dev");
        drops->devices++;
        m->kind = LAYER_LEFT_OUT;
        return 0;
}

static int read_hard_link(struct layer_member *m, struct cloche_err *e)
{
        int r = member_path(archive_entry_hardlink(m->entry), m->link_path, e);

        m->kind = LAYER_HARD_LINK;
        m->link = m->link_path;
        if (r < 0)
                return err_wrap(e, "the hard link %.60s", m->path);
        return *m->link_path && strcmp(m->path, m->link_path) != 0 ? 0 : refuse(m, e, "is a hard link to itself");
}

static int read_link(struct layer_member *m, struct cloche_err *e)
{
        m->kind = LAYER_LINK;
        m->link = archive_entry_symlink(m->entry);
        if (!m->link || !*m->link)
                return refuse(m, e, "is a link to nothing");
        return strlen(m->link) <= MEMBER_PATH_MAX ? 0 : refuse(m, e, "is a link with a target that is too long");
}

static int read_kind(struct layer_member *m, struct layer_drops *drops, struct cloche_err *e)
{
        mode_t type = archive_entry_filetype(m->entry);

        if (archive_entry_hardlink(m->entry))
                return read_hard_link(m, e);
        if (type == AE_IFLNK)
                return read_link(m, e);
        if (type == AE_IFCHR || type == AE_IFBLK)
                return leave_out_device(m, drops, e);
        if (type == AE_IFIFO || type == AE_IFSOCK) {
                drops->pipes++;
                m->kind = LAYER_LEFT_OUT;
                return 0;
        }
        if (type != AE_IFREG && type != AE_IFDIR)
                return refuse(m, e, "is of an unknown kind");
        m->kind = type == AE_IFDIR ? LAYER_DIRECTORY : LAYER_FILE;
        return 0;
}

/* Programs of the image would otherwise get rights by a mode. */
static void read_attributes(struct layer_member *m, struct layer_drops *drops)
{
        m->mode = archive_entry_perm(m->entry);
        drops->setid += (m->mode & (S_ISUID | S_ISGID)) && m->kind <= LAYER_DIRECTORY;
        m->mode &= 01777;
        if (m->kind == LAYER_FILE)
                m->mode &= 0777;
        m->time = (struct timespec){archive_entry_mtime_is_set(m->entry) ? archive_entry_mtime(m->entry) : 0, 0};
}

static int read_owner(struct layer_member *m, struct cloche_err *e)
{
        la_int64_t uid = archive_entry_uid(m->entry), gid = archive_entry_gid(m->entry);

        /* The last number of 32 bits changes nothing: chown(2). */
        if (uid < 0 || uid >= UINT32_MAX || gid < 0 || gid >= UINT32_MAX)
                return refuse(m, e, "has an owner or group outside of 0 to 4294967294");
        m->uid = (uid_t)uid;
        m->gid = (gid_t)gid;
        return 0;
}

int layer_member_read_facts(struct layer_member *m, struct layer_drops *drops, struct cloche_err *e)
{
        int r = read_kind(m, drops, e);

        if (r < 0 || m->kind == LAYER_LEFT_OUT)
                return r;
        if (!*m->path && m->kind != LAYER_DIRECTORY)
                return err_set(e, CLOCHE_E_BAD_ARCHIVE, "a member that is no directory has no name");
        m->size =
                m->kind == LAYER_FILE && archive_entry_size(m->entry) > 0 ? (uint64_t)archive_entry_size(m->entry) : 0;
        read_attributes(m, drops);
        return read_owner(m, e);
}

int layer_member_read(struct archive_entry *entry, struct layer_member *ret, struct layer_drops *drops,
                      struct cloche_err *e)
{
        const char *given = archive_entry_pathname(entry);
        int r;

        ret->entry = entry;
        ret->link = NULL;
        ret->is_opaque = false;
        if (!given)
                return err_set(e, CLOCHE_E_BAD_ARCHIVE, "a member has no name that could be read");
        r = member_path(given, ret->path, e);
        if (r == 0)
                r = layer_member_check_depth(ret, e);
        if (r == 0)
                r = read_whiteout(ret, e);
        if (r != 0)
                return r < 0 ? r : 0;
        return layer_member_read_facts(ret, drops, e);
}

/* -- extended attributes -------------------------------------------------------------------------------------- */

int layer_member_attribute(const struct layer_member *m, struct layer_drops *drops, const char **ret_name,
                           const void **ret_value, size_t *ret_size)
{
        while (archive_entry_xattr_next(m->entry, ret_name, ret_value, ret_size) == ARCHIVE_OK) {
                const char *name = *ret_name;

                if (!name)
                        continue;
                if (strcmp(name, "security.capability") == 0)
                        drops->capabilities++;
                else if (!has_prefix(name, "user.") || has_prefix(name, "user.overlay."))
                        drops->attributes++;
                else
                        return 1;
        }
        return 0;
}

json_t *layer_drops_json(const struct layer_drops *drops)
{
        return json_pack("{s:I, s:I, s:I, s:I, s:I, s:o*}", "devices", (json_int_t)drops->devices, "pipes",
                         (json_int_t)drops->pipes, "setid", (json_int_t)drops->setid, "capabilities",
                         (json_int_t)drops->capabilities, "attributes", (json_int_t)drops->attributes, "owners",
                         drops->owners > 0 ? json_integer((json_int_t)drops->owners) : NULL);
}
