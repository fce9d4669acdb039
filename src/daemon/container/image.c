/* The image of a sandbox that a request makes: the first of cloched --container-image, or
 * the one of them that the request names. Runs in: cloched-engine, on its loop, with the
 * rights of the daemon's user. */
#include "internal.h"

#include "daemon/core/log.h"
#include "daemon/images/names.h"
#include "daemon/images/program.h"

#include "base/err.h"

#include <string.h>

/* Handlers that make no sandbox. */
static int is_of_server(const struct container_request *q)
{
        static void (*const handlers[])(struct container_request *) = {
                container_greet, container_health, container_ping,  container_version,
                container_rpc,   container_socket, container_proxy, container_backup_upload,
        };

        for (size_t i = 0; i < sizeof(handlers) / sizeof(handlers[0]); i++)
                if (q->route->handle == handlers[i])
                        return 1;
        return 0;
}

/* The name that the request states; NULL: none. */
static const char *stated(const struct container_request *q)
{
        return q->route->handle == container_session_create ? container_text(q, "image") : NULL;
}

/* "tools" and "tools:latest" are one. */
static int is_same(const char *one, const char *other)
{
        static const char tag[] = ":latest";
        size_t size = strlen(other);

        return strncmp(one, other, size) == 0 && (!one[size] || strcmp(one + size, tag) == 0);
}

static int is_permitted(const struct daemon *d, const char *name)
{
        const struct option_list *list = &d->options.container_images;

        for (unsigned i = 0; i < list->count; i++)
                if (is_same(name, list->names[i]) || is_same(list->names[i], name))
                        return 1;
        return 0;
}

static void on_made(struct container_request *q, const struct door_reply *reply)
{
        const char *has = json_string_value(json_object_get(reply->result, "image")), *wanted = q->image_tree;

        if (stated(q) && (!has || !wanted || strcmp(has, wanted) != 0))
                container_refuse(q, CONTAINER_RESOURCE_BUSY, NULL, NULL,
                                 "the sandbox '%s' exists and keeps its image (%.120s): leave out 'image', or delete "
                                 "the sandbox (sandbox.delete)",
                                 q->door.sandbox, has ? has : "the daemon's own");
        else
                container_handle_named(q);
}

static void on_found(void *data, const json_t *result, const struct cloche_err *e)
{
        struct container_request *q = data;
        json_t *params;

        q->door.image = NULL;
        if (e) {
                container_fail(q, &(struct door_reply){.e = e});
                return;
        }
        params = json_pack("{s:s}", "image", stated(q) ? stated(q) : q->door.daemon->options.container_images.names[0]);
        if (!params || image_name_put(params, result, 1) < 0) {
                json_decref(params);
                container_refuse(q, CONTAINER_INTERNAL_ERROR, NULL, NULL,
                                 "the program of the image store sent an invalid message");
                return;
        }
        snprintf(q->image_tree, sizeof(q->image_tree), "%s", json_string_value(json_object_get(params, "image")));
        q->image_tree[strlen("sha256")] = '-'; /* as sandboxes show it */
        container_call(q, "sandbox.create", params, NULL, on_made);
}

void container_handle_image(struct container_request *q)
{
        const struct option_list *images = &q->door.daemon->options.container_images;
        const char *name = stated(q);
        struct cloche_err e = {0};

        if (is_of_server(q) || (!name && (images->count == 0 || sandboxes_has(q->door.daemon->sandboxes,
                                                                              q->door.principal, q->door.sandbox)))) {
                container_handle_named(q);
                return;
        }
        if (name && !is_permitted(q->door.daemon, name)) {
                container_refuse(q, CONTAINER_PERMISSION_DENIED, NULL, NULL,
                                 "the image '%.120s' is not one of this daemon's container API: cloched "
                                 "--container-image %.120s permits it",
                                 name, name);
                return;
        }
        if (images_read(q->door.daemon, "resolve", json_pack("{s:s}", "name", name ? name : images->names[0]), on_found,
                        q, &q->door.image, &e) < 0)
                container_fail(q, &(struct door_reply){.e = &e});
}

/* -- at the start --------------------------------------------------------------------------------------------- */

static void warn(const char *name, const struct cloche_err *e)
{
        log_event(LEVEL_WARNING, "container-image", "{s:s, s:s}", "image", name, "why", e->msg);
}

static void on_checked(void *data, const json_t *result, const struct cloche_err *e)
{
        (void)result;
        if (e)
                warn(data, e);
}

void container_check_images(struct daemon *d)
{
        const struct option_list *images = &d->options.container_images;
        struct image_request *request;
        struct cloche_err e = {0};

        for (unsigned i = 0; i < images->count; i++)
                if (images_read(d, "resolve", json_pack("{s:s}", "name", images->names[i]), on_checked,
                                (void *)images->names[i], &request, &e) < 0)
                        warn(images->names[i], &e);
}
