/* Runs in: the engine. */
#include "image.h"

#include "base/err.h"
#include "engine/loop/engine.h"

int image_read(const char *name, struct image *ret)
{
        const size_t algorithm = sizeof(KEEPER_TREE_PREFIX) - 2;

        if (strlen(name) != sizeof(ret->name) - 1)
                return 0;
        strcpy(ret->name, name);
        if (ret->name[algorithm] == ':')
                ret->name[algorithm] = '-';
        return keeper_is_tree(ret->name);
}

int image_take(const cloche_engine *engine, const char *name, struct image *ret, struct cloche_err *e)
{
        ret->name[0] = '\0';
        if (!name || !name[0])
                return 0;
        if (!image_read(name, ret))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "image must be " KEEPER_TREE_PREFIX
                               " and %d digits of 0-9a-f, not '%.100s': cloche image "
                               "ls lists the images",
                               KEEPER_TREE_DIGITS, name);
        if (!engine->has_images)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "the image %s cannot be used: this engine has no image store (cloched --images names "
                               "one)",
                               name);
        return 0;
}
