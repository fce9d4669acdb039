/* Messages of clients from their parts. Pure. Runs in: cloche-kernel, which has given up its
 * rights. */
#include "frames.h"

#include "base/err.h"
#include "base/hex.h"
#include "wire/json.h"

#include <errno.h>
#include <nettle/hmac.h>
#include <nettle/memops.h>
#include <stdlib.h>
#include <string.h>

#define DELIMITER "<IDS|MSG>"
#define IDENTITIES_MAX 4
#define BUCKETS (1u << 14)

/* -- signatures that were seen
 * --------------------------------------------------------------------------------------
 * */

/* The last ones, in a ring, and an index by their first bytes. */
struct replay {
        unsigned char seen[FRAMES_REPLAY_MAX][SHA256_DIGEST_SIZE];
        int next[FRAMES_REPLAY_MAX]; /* of the same bucket; -1: none */
        int bucket[BUCKETS];
        size_t count; /* of all that were kept */
};

static unsigned bucket_of(const unsigned char *signature)
{
        return (signature[0] | (unsigned)signature[1] << 8) % BUCKETS;
}

static void forget(struct replay *replay, int slot)
{
        int *link = &replay->bucket[bucket_of(replay->seen[slot])];

        while (*link != slot)
                link = &replay->next[*link];
        *link = replay->next[slot];
}

static int was_seen(const struct replay *replay, const unsigned char *signature)
{
        for (int slot = replay->bucket[bucket_of(signature)]; slot >= 0; slot = replay->next[slot])
                if (memcmp(replay->seen[slot], signature, SHA256_DIGEST_SIZE) == 0)
                        return 1;
        return 0;
}

static void remember(struct replay *replay, const unsigned char *signature)
{
        int slot = (int)(replay->count % FRAMES_REPLAY_MAX);
        unsigned bucket = bucket_of(signature);

        if (replay->count >= FRAMES_REPLAY_MAX)
                forget(replay, slot);
        memcpy(replay->seen[slot], signature, SHA256_DIGEST_SIZE);
        replay->next[slot] = replay->bucket[bucket];
        replay->bucket[bucket] = slot;
        replay->count++;
}

int frames_key_init(struct frames_key *key, const char *text)
{
        *key = (struct frames_key){.key = strdup(text), .size = strlen(text), .replay = malloc(sizeof(*key->replay))};
        if (!key->key || !key->replay) {
                frames_key_done(key);
                return -ENOMEM;
        }
        key->replay->count = 0;
        for (size_t i = 0; i < BUCKETS; i++)
                key->replay->bucket[i] = -1;
        return 0;
}

void frames_key_done(struct frames_key *key)
{
        free(key->key);
        free(key->replay);
        *key = (struct frames_key){0};
}

/* -- signing
 * --------------------------------------------------------------------------------------------------------
 * */

static void digest(const struct frames_key *key, const struct frames_part texts[FRAMES_JSON],
                   uint8_t ret[SHA256_DIGEST_SIZE])
{
        struct hmac_sha256_ctx hmac;

        hmac_sha256_set_key(&hmac, key->size, (const uint8_t *)key->key);
        for (size_t i = 0; i < FRAMES_JSON; i++)
                hmac_sha256_update(&hmac, texts[i].size, texts[i].data);
        hmac_sha256_digest(&hmac, SHA256_DIGEST_SIZE, ret);
}

void frames_sign(const struct frames_key *key, const struct frames_part texts[FRAMES_JSON],
                 char ret[FRAMES_SIGNATURE_SIZE])
{
        uint8_t bytes[SHA256_DIGEST_SIZE];

        ret[0] = '\0';
        if (key->size == 0)
                return;
        digest(key, texts, bytes);
        hex_write(ret, bytes, sizeof(bytes));
}

/* The comparison takes the same time for all signatures. */
static int check_signature(struct frames_key *key, const struct frames_part *signature,
                           const struct frames_part texts[FRAMES_JSON], struct cloche_err *e)
{
        uint8_t bytes[SHA256_DIGEST_SIZE];
        char expected[FRAMES_SIGNATURE_SIZE];

        if (key->size == 0)
                return 0;
        digest(key, texts, bytes);
        hex_write(expected, bytes, sizeof(bytes));
        if (signature->size != sizeof(expected) - 1 || !memeql_sec(signature->data, expected, signature->size))
                return err_set(e, CLOCHE_E_FORBIDDEN, "a message has a wrong signature");
        if (was_seen(key->replay, bytes))
                return err_set(e, CLOCHE_E_FORBIDDEN, "a message came twice");
        remember(key->replay, bytes);
        return 0;
}

/* -- parts
 * ----------------------------------------------------------------------------------------------------------
 * */

static int keep_identity(struct frames_message *m, const struct frames_part *part)
{
        if (part->size > 255 || m->address_size + 1 + part->size > sizeof(m->address))
                return -1;
        m->address[m->address_size++] = (unsigned char)part->size;
        if (part->size > 0)
                memcpy(m->address + m->address_size, part->data, part->size);
        m->address_size += part->size;
        return 0;
}

const void *frames_identity(const void *address, size_t size, size_t *at, size_t *ret_size)
{
        const unsigned char *bytes = address;
        size_t from = *at + 1;

        if (*at >= size)
                return NULL;
        *ret_size = bytes[*at];
        *at = from + *ret_size;
        return bytes + from;
}

static int is_delimiter(const struct frames_part *part)
{
        return part->size == sizeof(DELIMITER) - 1 && memcmp(part->data, DELIMITER, part->size) == 0;
}

static int load(const struct frames_part *part, json_t **ret, struct cloche_err *e)
{
        int r = json_load_text(part->size ? part->data : "", part->size, ret, e);

        if (r < 0)
                return r;
        return json_is_object(*ret) ? 0 : err_set(e, CLOCHE_E_INVALID_JSON, "a part of a message is no object");
}

static int is_header(const json_t *header)
{
        return json_is_string(json_object_get(header, "msg_id")) && json_is_string(json_object_get(header, "msg_type"));
}

int frames_parse(struct frames_key *key, const struct frames_part *parts, size_t count, struct frames_message *ret,
                 struct cloche_err *e)
{
        const struct frames_part *texts;
        size_t at = 0;
        int r;

        *ret = (struct frames_message){0};
        while (at < count && at < IDENTITIES_MAX && !is_delimiter(&parts[at]))
                if (keep_identity(ret, &parts[at++]) < 0)
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "an identity is too long");
        if (at >= count || !is_delimiter(&parts[at]) || count - at < 2 + FRAMES_JSON)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "a message lacks parts");
        texts = &parts[at + 2];
        ret->size = texts[0].size + texts[FRAMES_JSON - 1].size;
        if (texts[0].size > FRAMES_HEADER_MAX)
                return err_set(e, CLOCHE_E_TOO_LARGE, "a header is too large");
        r = check_signature(key, &parts[at + 1], texts, e);
        if (r == 0)
                r = load(&texts[0], &ret->header, e);
        if (r == 0)
                r = load(&texts[FRAMES_JSON - 1], &ret->content, e);
        if (r == 0 && !is_header(ret->header))
                r = err_set(e, CLOCHE_E_INVALID_ARGUMENT, "a header lacks members");
        if (r < 0)
                frames_message_done(ret);
        return r;
}

void frames_message_done(struct frames_message *m)
{
        json_decref(m->header);
        json_decref(m->content);
        m->header = m->content = NULL;
}
