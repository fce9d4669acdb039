/* An archive of an image as an HTTP body. Runs in: cloched-engine, on its loop, with the
 * rights of the daemon's user. */
#include "image-body.h"
#include "daemon/images/upload.h"
#include "request.h"

#include "base/err.h"
#include "daemon/http/operation.h"
#include "daemon/http/server.h"

#include <errno.h>
#include <stdlib.h>

struct image_body {
        struct daemon *daemon;
        struct http_request *request;
        struct image_upload *upload;
};

static void on_room(void *data)
{
        const struct image_body *body = data;

        http_body_hold(body->request, 0);
}

static void on_end(void *data, const json_t *result, const struct cloche_err *e)
{
        const struct image_body *body = data;

        if (e)
                web_refuse(body->request, e);
        else
                web_answer(body->request, operation_at(OPERATION_IMAGE_PUT)->success, json_incref((json_t *)result));
}

static void on_body(void *data, const void *bytes, size_t size)
{
        struct image_body *body = data;
        struct cloche_err e = {0};

        body->daemon->stats.bytes_read += size;
        if (image_upload_write(body->upload, bytes, size, &e) < 0)
                web_refuse(body->request, &e);
        else
                http_body_hold(body->request, image_upload_is_full(body->upload));
}

static void on_whole(void *data)
{
        const struct image_body *body = data;

        image_upload_end(body->upload);
}

static void on_over(void *data)
{
        struct image_body *body = data;

        image_upload_close(body->upload);
        free(body);
}

int image_body_begin(struct daemon *d, struct http_request *request, int64_t principal, const json_t *params,
                     struct cloche_err *e)
{
        static const struct image_upload_face face = {.on_room = on_room, .on_end = on_end};
        static const struct http_handler handler = {.on_body = on_body, .on_whole = on_whole, .on_over = on_over};
        struct image_body *body;
        int r = daemon_check_work(d, e);

        if (r < 0)
                return r;
        body = calloc(1, sizeof(*body));
        if (!body)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "take an archive");
        *body = (struct image_body){.daemon = d, .request = request};
        r = image_upload_begin(d, principal, params, &face, body, &body->upload, e);
        if (r < 0) {
                free(body);
                return r;
        }
        http_request_handle(request, &handler, body);
        return 0;
}
