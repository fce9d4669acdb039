/* Requests to sandboxes and the image store. Runs in: cloched-engine, on its loop, with the rights
 * of the daemon's user. */
#include "door.h"

#include "base/err.h"
#include "daemon/images/program.h"

#include <errno.h>
#include <stdlib.h>

static void reply(struct door *door, const struct door_reply *reply)
{
        door->open = NULL;
        door->hooks->reply(door, reply);
}

static void on_result(void *data, const json_t *result, const struct buf *attachments)
{
        reply(data, &(struct door_reply){.result = result, .attachments = attachments});
}

static void on_fail(void *data, const struct cloche_err *e, const json_t *about)
{
        reply(data, &(struct door_reply){.e = e, .about = about});
}

static void on_event(void *data, const char *event, const json_t *about, const struct buf *attachments)
{
        struct door *door = data;

        door->hooks->event(door, event, about, attachments);
}

static int is_deleted(const struct door *door)
{
        return door->had_sandbox && door->sandbox &&
               !sandboxes_has(door->daemon->sandboxes, door->principal, door->sandbox);
}

void door_call(struct door *door, const char *method, json_t *params, const struct buf *attachments)
{
        static const struct sandbox_face face = {.event = on_event, .result = on_result, .fail = on_fail};
        static const struct buf none = {0};
        struct cloche_err e = {0};
        int r;

        if (door->sandbox)
                json_object_set_new(params, "sandbox", json_string(door->sandbox));
        if (is_deleted(door))
                r = err_set(&e, CLOCHE_E_NOT_FOUND, "the sandbox \"%s\" was deleted meanwhile", door->sandbox);
        else
                r = params ? sandboxes_request(door->daemon->sandboxes, door->principal, method, params,
                                               attachments ? attachments : &none, &face, door, &door->open, &e)
                           : err_os(&e, CLOCHE_E_RESOURCE, ENOMEM, "make a request to a sandbox");
        json_decref(params);
        door->had_sandbox |= r >= 0 && door->sandbox;
        if (r < 0)
                reply(door, &(struct door_reply){.e = &e});
}

void door_done(struct door *door)
{
        if (door->open)
                sandbox_request_cancel(door->open);
        if (door->image)
                image_request_detach(door->image);
        free(door->sandbox);
}

void door_hold(struct door *door, size_t waiting)
{
        int wanted = waiting > (door->is_held ? DOOR_WAITING_BYTES / 4 : DOOR_WAITING_BYTES);

        if (!door->open || wanted == door->is_held)
                return;
        door->is_held = wanted; /* before the release: that may fill the connection again */
        sandbox_request_hold(door->open, wanted);
}
