/* The parts of a Jupyter message: each is a size of two bytes and its bytes. The first byte of the input chooses
 * between a key and none; with one, a signature is made for it where the input has an empty one. An accepted message
 * has its header, and is refused the second time. */
#include "jupyter/kernel/frames.h"

#include <stdlib.h>
#include <string.h>

#define PARTS_MAX (FRAMES_MAX + 2)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t split(const uint8_t *data, size_t size, struct frames_part parts[PARTS_MAX])
{
        size_t count = 0;

        for (size_t at = 0; at + 2 <= size && count < PARTS_MAX;) {
                size_t length = data[at] | (size_t)data[at + 1] << 8;

                at += 2;
                if (length > size - at)
                        length = size - at;
                parts[count++] = (struct frames_part){data + at, length};
                at += length;
        }
        return count;
}

/* An empty part after the delimiter becomes the right signature. */
static void sign(const struct frames_key *key, struct frames_part *parts, size_t count, char *signature)
{
        for (size_t i = 0; i + 1 + FRAMES_JSON < count; i++)
                if (parts[i].size == 9 && memcmp(parts[i].data, "<IDS|MSG>", 9) == 0 && parts[i + 1].size == 0) {
                        frames_sign(key, &parts[i + 2], signature);
                        parts[i + 1] = (struct frames_part){signature, strlen(signature)};
                        return;
                }
}

static void check_address(const struct frames_message *m)
{
        size_t at = 0, size, sum = 0, count = 0;

        while (frames_identity(m->address, m->address_size, &at, &size)) {
                sum += size + 1;
                count++;
        }
        if (sum != m->address_size || at != m->address_size || count > 4)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static struct frames_key keys[2];
        struct frames_part parts[PARTS_MAX];
        struct frames_message message;
        char signature[FRAMES_SIGNATURE_SIZE] = "";
        struct cloche_err e;
        struct frames_key *key;
        size_t count;

        if (!keys[0].key && (frames_key_init(&keys[0], "") < 0 || frames_key_init(&keys[1], "secret") < 0))
                abort();
        if (size == 0)
                return 0;
        key = &keys[data[0] & 1];
        count = split(data + 1, size - 1, parts);
        if (key->size)
                sign(key, parts, count, signature);
        if (frames_parse(key, parts, count, &message, &e) < 0)
                return 0;
        if (!json_is_object(message.header) || !json_is_object(message.content) ||
            !json_is_string(json_object_get(message.header, "msg_id")))
                abort();
        check_address(&message);
        frames_message_done(&message);
        if (key->size && frames_parse(key, parts, count, &message, &e) != -CLOCHE_E_FORBIDDEN)
                abort();
        return 0;
}
