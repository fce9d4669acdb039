/* Points for mounts inside of this mount.
 * Runs in: cloche-fs, as the mounted directory's owner or the caller, confined. */
#include "points.h"

#include <string.h>

bool points_is_on_way(const struct fs_mount *mount, const struct node *node)
{
        for (size_t i = 0; i < SETTINGS_POINTS_MAX && mount->points[i]; i++)
                for (const struct node *at = mount->points[i]->node; at; at = node_parent(at))
                        if (at == node)
                                return true;
        return false;
}

bool points_has_path(struct fs_mount *mount, const char *path)
{
        for (size_t i = 0; i < SETTINGS_POINTS_MAX && mount->points[i]; i++) {
                const char *point = name_path(mount->points[i], mount->path);

                if (point && strcmp(point, path) == 0)
                        return true;
        }
        return false;
}
