/* Fuzz: ends of HTTP messages. The input's first byte selects requests or responses. However it
 * is split, in one piece or byte by byte, the next parser gets the same; and a sound message is
 * parsed as sound again, and stays the same. */
#include "daemon/http/framing.h"

#include <stdlib.h>
#include <string.h>

#define SIZE_MAX_TRIED (64u << 10)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int holds)
{
        if (!holds)
                abort();
}

static size_t in_one(struct framing *f, char *to, const char *from, size_t size)
{
        memcpy(to + 1, from, size);
        size = framing_filter(f, to, 1, size, size + 1);
        return size + framing_rest(f, to + size, FRAMING_REST_MAX);
}

static size_t by_bytes(struct framing *f, char *to, const char *from, size_t size)
{
        char piece[FRAMING_REST_MAX];
        size_t out = 0;

        for (size_t i = 0; i < size; i++) {
                size_t at = (size_t)framing_holds(f), n;

                piece[at] = from[i];
                n = framing_filter(f, piece, at, 1, sizeof(piece));
                memcpy(to + out, piece, n);
                out += n;
        }
        return out + framing_rest(f, to + out, FRAMING_REST_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static char one[SIZE_MAX_TRIED + 2 * FRAMING_REST_MAX], bytes[sizeof(one)], again[sizeof(one)];
        enum framing_side side = size > 0 && data[0] == 'A' ? FRAMING_ANSWERS : FRAMING_REQUESTS;
        struct framing f, g, h;
        size_t n;

        if (size == 0 || size > SIZE_MAX_TRIED)
                return 0;
        framing_init(&f, side);
        framing_init(&g, side);
        framing_init(&h, side);
        n = in_one(&f, one, (const char *)data + 1, size - 1);
        must(n == by_bytes(&g, bytes, (const char *)data + 1, size - 1) && f.fault == g.fault &&
             memcmp(one, bytes, n) == 0);
        must(*framing_message(f.fault) || !f.fault);
        if (!f.fault)
                must(in_one(&h, again, one, n) == n && !h.fault && memcmp(one, again, n) == 0);
        return 0;
}
