/* image.upload and image.import over frames: an archive in pieces, each of which is
 * answered when the next may come. Runs in: cloched-engine, on its loop, with the
 * rights of the daemon's user. */
#include "daemon/http/field.h"
#include "operations.h"
#include "upload.h"

#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IMPORTS_MAX 16 /* of a connection */

/* Belongs to its connection. */
struct image_import {
        struct client_pending pending; /* the request that waits; client NULL: none */
        TAILQ_ENTRY(image_import) link;
        struct client *client;
        const struct operation *operation; /* of that request */
        struct image_upload *upload;
        struct cloche_err error; /* why it has no upload any more */
        char id[24];
};

static void free_import(struct image_import *import)
{
        client_pending_remove(&import->pending);
        TAILQ_REMOVE(&import->client->daemon->image_imports, import, link);
        image_upload_close(import->upload);
        free(import);
}

void images_on_client_closed(struct client *client)
{
        struct image_import *import, *next;

        for (import = TAILQ_FIRST(&client->daemon->image_imports); import; import = next) {
                next = TAILQ_NEXT(import, link);
                if (import->client == client)
                        free_import(import);
        }
}

/* -- answers -------------------------------------------------------------------------------------------------- */

static void send_progress(struct image_import *import)
{
        json_t *answer =
                json_pack("{s:s, s:I}", "upload", import->id, "bytes", (json_int_t)image_upload_bytes(import->upload));

        import->client->face->result(import->client, import->operation, import->pending.id, answer);
        json_decref(answer);
        client_pending_remove(&import->pending);
}

static void on_room(void *data)
{
        struct image_import *import = data;

        if (import->pending.client && import->operation->symbol == OPERATION_IMAGE_UPLOAD)
                send_progress(import);
}

/* An error before the last piece is the answer of the piece that waits, or of the next
 * one, which finds no upload. */
static void on_end(void *data, const json_t *result, const struct cloche_err *e)
{
        struct image_import *import = data;
        struct cloche_err early = {0};

        if (!e && import->operation->symbol != OPERATION_IMAGE_IMPORT) {
                err_set(&early, CLOCHE_E_PROTOCOL, "the program of the image store sent an invalid message");
                e = &early;
        }
        if (import->pending.client && e)
                import->client->face->fail(import->client, import->pending.id, e, NULL);
        else if (import->pending.client)
                import->client->face->result(import->client, import->operation, import->pending.id, result);
        if (import->pending.client || !e) {
                free_import(import);
                return;
        }
        image_upload_close(import->upload);
        import->upload = NULL;
        import->error = *e;
}

static void on_cancel(struct client_pending *pending)
{
        struct image_import *import = (struct image_import *)pending;
        struct cloche_err e = {0};

        err_set(&e, CLOCHE_E_CANCELLED, "the import was cancelled: nothing is kept");
        import->client->face->fail(import->client, pending->id, &e, NULL);
        free_import(import);
}

/* images_on_client_closed() frees it. */
static void on_client_closed(struct client_pending *pending)
{
        (void)pending;
}

/* -- requests ------------------------------------------------------------------------------------------------- */

static int find(const struct client *client, const char *id, struct image_import **ret, struct cloche_err *e)
{
        struct image_import *import;

        TAILQ_FOREACH (import, &client->daemon->image_imports, link)
                if (import->client == client && strcmp(import->id, id) == 0) {
                        *ret = import;
                        return import->pending.client ? err_set(e, CLOCHE_E_STATE,
                                                                "the piece before is not taken yet: wait for its "
                                                                "answer")
                                                      : 0;
                }
        return err_set(e, CLOCHE_E_NOT_FOUND, "there is no upload %.40s on this connection", id);
}

static unsigned count(const struct client *client)
{
        const struct image_import *import;
        unsigned count = 0;

        TAILQ_FOREACH (import, &client->daemon->image_imports, link)
                count += import->client == client;
        return count;
}

static int begin(const struct client_request *request, struct image_import **ret, struct cloche_err *e)
{
        static const struct image_upload_face face = {.on_room = on_room, .on_end = on_end};
        struct client *client = request->client;
        struct image_import *import;
        int r;

        if (!json_object_get(request->params, "image"))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "%s needs \"image\", the name to give, or \"upload\"",
                               request->operation->method);
        if (count(client) >= IMPORTS_MAX)
                return err_set(e, CLOCHE_E_QUEUE_FULL, "this connection has %d uploads, the maximum: finish one first",
                               IMPORTS_MAX);
        import = calloc(1, sizeof(*import));
        if (!import)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "begin an import");
        import->client = client;
        import->operation = request->operation;
        r = image_upload_begin(client->daemon, client->principal, request->params, &face, import, &import->upload, e);
        if (r < 0) {
                free(import);
                return r;
        }
        snprintf(import->id, sizeof(import->id), "u%llu", (unsigned long long)++client->daemon->next_upload);
        TAILQ_INSERT_TAIL(&client->daemon->image_imports, import, link);
        *ret = import;
        return 0;
}

static int write_piece(struct image_import *import, const json_t *content, struct cloche_err *e)
{
        size_t size = json_string_length(content);
        const char *bytes = json_is_string(content) ? json_string_value(content) : field_bytes(content, &size);

        if (!import->upload) {
                *e = import->error;
                return -(int)e->code;
        }
        return content && bytes ? image_upload_write(import->upload, bytes, size, e) : 0;
}

static void go_on(struct image_import *import)
{
        if (import->operation->symbol == OPERATION_IMAGE_IMPORT)
                image_upload_end(import->upload);
        else if (!image_upload_is_full(import->upload))
                send_progress(import);
}

int image_import(const struct client_request *request, json_t **ret, struct cloche_err *e)
{
        static const struct client_pending_kind kind = {.cancel = on_cancel, .on_client_closed = on_client_closed};
        const char *id = json_string_value(json_object_get(request->params, "upload"));
        struct image_import *import = NULL;
        int r = client_pending_check(request, e);

        (void)ret;
        if (r == 0)
                r = id ? find(request->client, id, &import, e) : begin(request, &import, e);
        if (r < 0)
                return r;
        r = write_piece(import, json_object_get(request->params, "content"), e);
        if (r < 0) {
                free_import(import);
                return r;
        }
        import->operation = request->operation;
        client_pending_add(&import->pending, &kind, request);
        go_on(import);
        return 1;
}
