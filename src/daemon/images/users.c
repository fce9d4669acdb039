/* The users of an image, and callers who may change the store. Runs in: cloched-engine, on its
 * loop, with the rights of the daemon's user. */
#include "daemon/run/prefix.h"
#include "daemon/start/listen.h"
#include "operations.h"

#include "base/err.h"
#include "engine/loop/engine.h"
#include "engine/warm/prefix.h"
#include "sandbox/core/sandbox.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NAMED_MAX 8

int images_is_owner(const struct daemon *d, int64_t principal)
{
        const struct listener *l;

        if (principal == 0 || (d->options.connect_fd >= 0 && principal == (int64_t)getuid()))
                return 1;
        TAILQ_FOREACH (l, &d->listeners, link)
                if (!l->is_tcp && (int64_t)l->own_uid == principal)
                        return 1;
        return 0;
}

int images_check_change(const struct daemon *d, int64_t principal, int adds, struct cloche_err *e)
{
        if (d->options.image_changes == IMAGE_CHANGES_NONE)
                return err_set(e, CLOCHE_E_FORBIDDEN,
                               "this daemon may not change its image store: start it with cloched --image-changes, or "
                               "use cloche image on its machine");
        if (images_is_owner(d, principal) || (adds && d->options.image_changes == IMAGE_CHANGES_ALL))
                return 0;
        return err_set(e, CLOCHE_E_FORBIDDEN, "%s of this daemon is left to root and the user who started it%s",
                       adds ? "importing images" : "removing and replacing images",
                       adds ? " (cloched --image-changes all permits others to add images)" : "");
}

/* -- users ---------------------------------------------------------------------------------------------------- */

/* image: the name of a tree, "" for the daemon's own root. */
typedef void (*image_user)(void *data, const char *kind, const char *name, const char *image);

struct visit {
        image_user each;
        void *data;
};

static void visit_sandbox(void *data, const char *name, const char *image)
{
        const struct visit *visit = data;

        visit->each(visit->data, "sandbox", name, image);
}

static void visit_snapshot(void *data, const char *name, const char *image)
{
        const struct visit *visit = data;

        visit->each(visit->data, "snapshot", name, image);
}

static void visit_users(const struct daemon *d, image_user each, void *data)
{
        struct visit visit = {each, data};
        const struct kept_prefix *kept;
        const struct template *t;
        struct image own;

        if (image_read(d->engine->image, &own))
                each(data, "option", "--image", own.name);
        sandboxes_each_image(d->sandboxes, visit_sandbox, &visit);
        snapshots_each_image(d->sandboxes, visit_snapshot, &visit);
        TAILQ_FOREACH (kept, &d->prefixes, link)
                if (kept->prefix)
                        each(data, "prefix", kept->name ? kept->name : kept->id, kept->prefix->template->image.name);
        TAILQ_FOREACH (t, &d->engine->templates, link)
                if (!t->setup && (t->state == TEMPLATE_STARTING || t->state == TEMPLATE_READY))
                        each(data, "warm interpreter of", t->runtime->name, t->image.name);
}

struct users {
        struct image image;
        char text[400];
        unsigned count;
};

static void add(void *data, const char *kind, const char *name, const char *image)
{
        struct users *users = data;
        size_t size = strlen(users->text);

        if (strcmp(image, users->image.name) == 0 && users->count++ < NAMED_MAX)
                snprintf(users->text + size, sizeof(users->text) - size, "%s%s %.63s", size ? ", " : "", kind, name);
}

int images_check_unused(const struct daemon *d, const char *name, const char *tree, struct cloche_err *e)
{
        struct users users = {0};

        if (!image_read(tree, &users.image))
                return err_set(e, CLOCHE_E_PROTOCOL, "the program of the image store sent an invalid message");
        visit_users(d, add, &users);
        if (users.count > NAMED_MAX)
                snprintf(users.text + strlen(users.text), sizeof(users.text) - strlen(users.text), ", and %u more",
                         users.count - NAMED_MAX);
        return users.count == 0 ? 0
                                : err_set(e, CLOCHE_E_STATE,
                                          "the image %.140s is in use: %s (delete them first; interpreters end after "
                                          "ten minutes without use, sandboxes made ahead after one)",
                                          name, users.text);
}

static void pin(void *data, const char *kind, const char *name, const char *image)
{
        (void)kind;
        (void)name;
        if (*image)
                json_object_set_new(data, image, json_true());
}

json_t *images_in_use(const struct daemon *d)
{
        json_t *names = json_object();

        visit_users(d, pin, names);
        return names;
}
