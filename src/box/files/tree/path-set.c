/* Runs in: cloche-files, within a box, with its user's rights. */
#include "path-set.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static uint64_t turn(uint64_t value, unsigned bits)
{
        return value << bits | value >> (64 - bits);
}

static void mix(uint64_t v[4])
{
        v[0] += v[1];
        v[1] = turn(v[1], 13) ^ v[0];
        v[0] = turn(v[0], 32);
        v[2] += v[3];
        v[3] = turn(v[3], 16) ^ v[2];
        v[0] += v[3];
        v[3] = turn(v[3], 21) ^ v[0];
        v[2] += v[1];
        v[1] = turn(v[1], 17) ^ v[2];
        v[2] = turn(v[2], 32);
}

/* SipHash-2-4 (Aumasson, Bernstein 2012): an archive's author cannot make its paths collide.
 * Never 0. */
static uint64_t hash(const uint64_t key[2], const char *path, size_t size)
{
        uint64_t v[4] = {key[0] ^ UINT64_C(0x736f6d6570736575), key[1] ^ UINT64_C(0x646f72616e646f6d),
                         key[0] ^ UINT64_C(0x6c7967656e657261), key[1] ^ UINT64_C(0x7465646279746573)};
        size_t at = 0;

        for (int last = 0; !last; at += 8) {
                uint64_t word = 0;
                size_t left = size - at;

                last = left < 8;
                memcpy(&word, path + at, last ? left : 8);
                if (last)
                        word |= (uint64_t)(size & 0xff) << 56;
                v[3] ^= word;
                mix(v);
                mix(v);
                v[0] ^= word;
        }
        v[2] ^= 0xff;
        for (int i = 0; i < 4; i++)
                mix(v);
        v[0] ^= v[1] ^ v[2] ^ v[3];
        return v[0] ? v[0] : 1;
}

static uint64_t *slot_of(uint64_t *slots, size_t room, uint64_t value)
{
        size_t i = (size_t)value & (room - 1);

        while (slots[i] && slots[i] != value)
                i = (i + 1) & (room - 1);
        return &slots[i];
}

static int grow(struct path_set *s)
{
        size_t room = s->room ? s->room * 2 : 256;
        uint64_t *slots = calloc(room, sizeof(*slots));

        if (!slots || (!s->room && getrandom(s->key, sizeof(s->key), 0) != (ssize_t)sizeof(s->key))) {
                free(slots);
                return -ENOMEM;
        }
        for (size_t i = 0; i < s->room; i++)
                if (s->slots[i])
                        *slot_of(slots, room, s->slots[i]) = s->slots[i];
        free(s->slots);
        s->slots = slots;
        s->room = room;
        return 0;
}

int path_set_add(struct path_set *s, const char *path, size_t size)
{
        uint64_t value, *slot;

        if (s->count * 2 >= s->room && grow(s) < 0)
                return -ENOMEM;
        value = hash(s->key, path, size);
        slot = slot_of(s->slots, s->room, value);
        if (*slot)
                return 0;
        *slot = value;
        s->count++;
        return 1;
}

int path_set_has(const struct path_set *s, const char *path, size_t size)
{
        return s->room && *slot_of(s->slots, s->room, hash(s->key, path, size)) != 0;
}

void path_set_done(struct path_set *s)
{
        free(s->slots);
        *s = (struct path_set){0};
}
