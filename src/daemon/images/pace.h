/* The pace of an upload: less than a minimum in each period is too slow, however regular it
 * comes. Pure. */
#ifndef CLOCHE_DAEMON_IMAGES_PACE_H
#define CLOCHE_DAEMON_IMAGES_PACE_H

#include <stdint.h>

#define PACE_BYTES (64u << 10)
#define PACE_NS (UINT64_C(120) * 1000000000)

struct pace {
        uint64_t since_ns, bytes; /* since then */
};

/* The next period begins: bytes came, or the upload waited for its reader. */
static inline void pace_renew(struct pace *pace, uint64_t now_ns)
{
        *pace = (struct pace){.since_ns = now_ns};
}

static inline void pace_add(struct pace *pace, uint64_t bytes, uint64_t now_ns)
{
        pace->bytes += bytes;
        if (pace->bytes >= PACE_BYTES)
                pace_renew(pace, now_ns);
}

static inline int pace_is_slow(const struct pace *pace, uint64_t now_ns)
{
        return now_ns - pace->since_ns >= PACE_NS;
}

#endif
