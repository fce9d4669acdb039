/* Runs in: the CLI, cloched; as the user who started them. */
#include "images-dir.h"

#include "base/privilege.h"
#include "xdg.h"

const char *images_dir_find(char *ret, size_t size)
{
        if (privilege_is_root())
                return IMAGES_DIR_OF_ROOT;
        return xdg_find("XDG_DATA_HOME", ".local/share", "cloche/images", ret, size) < 0 ? NULL : ret;
}
