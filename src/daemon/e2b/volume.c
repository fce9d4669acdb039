/* Volumes, by name, with the daemon's operations. Their contents are read and written in sandboxes
 * alone. Runs in: cloched-engine, on its loop, with the rights of the daemon's user. */
#include "sandbox.h"

#include <string.h>

#define SIZE_BYTES (1ll << 30) /* the clients state no size */

static json_t *volume_of(const struct e2b_request *q, const json_t *volume)
{
        json_t *name = json_object_get(volume, "volume");
        char token[TOKEN_SECRET_SIZE];

        token_derive(q->door.daemon->options.token, "e2b volume", json_string_value(name), token);
        return json_pack("{s:O, s:O, s:s}", "volumeID", name, "name", name, "token", token);
}

static void on_made(struct e2b_request *q, const struct door_reply *reply)
{
        e2b_answer(q, 201, volume_of(q, reply->result));
}

void e2b_on_volume_create(struct e2b_request *q)
{
        const char *name = e2b_text(q->body, "name");

        if (name)
                e2b_call(q, "volume.create", json_pack("{s:s, s:I}", "volume", name, "sizeBytes", SIZE_BYTES), NULL,
                         on_made);
        else
                e2b_refuse(q, 400, "invalid_argument", "'name' is missing, expected the name of a volume");
}

static void on_all(struct e2b_request *q, const struct door_reply *reply)
{
        const json_t *volumes = json_object_get(reply->result, "volumes");
        json_t *all = json_array();

        for (size_t i = 0; i < json_array_size(volumes); i++)
                json_array_append_new(all, volume_of(q, json_array_get(volumes, i)));
        e2b_answer(q, 200, all);
}

void e2b_on_volume_list(struct e2b_request *q)
{
        e2b_call(q, "volume.list", json_object(), NULL, on_all);
}

static void on_found(struct e2b_request *q, const struct door_reply *reply)
{
        e2b_answer(q, 200, volume_of(q, reply->result));
}

void e2b_on_volume_get(struct e2b_request *q)
{
        e2b_call(q, "volume.get", json_pack("{s:s}", "volume", q->parts[0]), NULL, on_found);
}

static void on_deleted(struct e2b_request *q, const struct door_reply *reply)
{
        (void)reply;
        e2b_answer_empty(q);
}

void e2b_on_volume_delete(struct e2b_request *q)
{
        e2b_call(q, "volume.delete", json_pack("{s:s}", "volume", q->parts[0]), NULL, on_deleted);
}
