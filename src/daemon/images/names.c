/* Names of images in requests. The store decides with each request: a name may mean
 * another image from one request to the next. Runs in: cloched-engine, on its loop, with
 * the rights of the daemon's user. */
#include "names.h"
#include "program.h"

#include "base/err.h"
#include "engine/loop/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct image_name {
        struct client_pending pending;
        struct image_request *request;
        json_t *params;
        uint64_t bytes;
        int is_shown; /* the request keeps the name beside the digest */
        image_named named;
        void *data;
};

static int takes_image(enum operation_symbol symbol)
{
        return symbol == OPERATION_CALL || symbol == OPERATION_SCRIPT || symbol == OPERATION_EVALUATE ||
               symbol == OPERATION_PREFIX_CREATE || symbol == OPERATION_SANDBOX_CREATE ||
               symbol == OPERATION_IMAGE_WARM;
}

/* With a mistake in it too, which the engine reports. */
static int is_digest(const char *name)
{
        const size_t size = sizeof("sha256") - 1;

        return strncmp(name, "sha256", size) == 0 && (name[size] == '-' || name[size] == ':');
}

int image_name_is_given(const struct client_request *request, const json_t *params)
{
        const char *name =
                takes_image(request->operation->symbol) ? json_string_value(json_object_get(params, "image")) : NULL;

        return name && *name && request->client->daemon->engine->has_images && !is_digest(name);
}

static void free_name(struct image_name *name)
{
        client_pending_remove(&name->pending);
        name->pending.daemon->request_bytes -= name->bytes;
        json_decref(name->params);
        free(name);
}

static void finish(struct image_name *name, const struct cloche_err *e)
{
        image_named named = name->named;
        void *data = name->data;
        json_t *params = json_incref(name->params);

        free_name(name);
        named(data, e ? NULL : params, e);
        json_decref(params);
}

int image_name_put(json_t *params, const json_t *image, int is_shown)
{
        json_t *tree = json_object_get(image, "tree");

        if (is_shown && json_object_set(params, "imageName", json_object_get(params, "image")) < 0)
                return -1;
        if (!json_is_string(tree) || json_object_set(params, "image", tree) < 0)
                return -1;
        if (json_object_get(params, "imageSettings"))
                return 0;
        return json_object_set_new(params, "imageSettings", image_settings_pick(image));
}

static void on_answer(void *data, const json_t *result, const struct cloche_err *e)
{
        struct image_name *name = data;
        struct cloche_err own = {0};

        if (!e && image_name_put(name->params, result, name->is_shown) < 0) {
                err_set(&own, CLOCHE_E_PROTOCOL, "the program of the image store sent an invalid message");
                e = &own;
        }
        finish(name, e);
}

static void on_cancel(struct client_pending *pending)
{
        struct image_name *name = (struct image_name *)pending;
        struct cloche_err e = {0};

        image_request_detach(name->request);
        err_set(&e, CLOCHE_E_CANCELLED, "the request was cancelled");
        finish(name, &e);
}

static void on_client_closed(struct client_pending *pending)
{
        struct image_name *name = (struct image_name *)pending;
        image_named named = name->named;
        void *data = name->data;

        image_request_detach(name->request);
        free_name(name);
        named(data, NULL, NULL);
}

int image_name_find(const struct client_request *request, json_t *params, image_named named, void *data,
                    struct cloche_err *e)
{
        static const struct client_pending_kind kind = {.cancel = on_cancel, .on_client_closed = on_client_closed};
        int r = client_pending_check(request, e);
        struct image_name *name = r == 0 ? calloc(1, sizeof(*name)) : NULL;

        if (r < 0)
                return r;
        if (!name)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "find an image");
        *name = (struct image_name){.params = json_incref(params),
                                    .bytes = request->bytes,
                                    .is_shown = request->operation->symbol == OPERATION_SANDBOX_CREATE,
                                    .named = named,
                                    .data = data};
        client_pending_add(&name->pending, &kind, request);
        name->pending.daemon->request_bytes += name->bytes;
        r = images_read(request->client->daemon, "resolve",
                        json_pack("{s:O}", "name", json_object_get(params, "image")), on_answer, name, &name->request,
                        e);
        if (r < 0)
                free_name(name);
        return r;
}
