/* Text of requests and answers: queries, UTF-8 in pieces, times, random names. Runs in:
 * cloched-engine, on its loop, with the rights of the daemon's user. */
#include "internal.h"

#include "base/clock.h"
#include "base/hex.h"
#include "base/utf8.h"
#include "wire/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* -- UTF-8 ----------------------------------------------------------------------------------------------------- */

int container_is_utf8(const void *data, size_t size, int may_be_cut)
{
        size_t valid = utf8_valid_size(data, size), good;

        if (valid == size)
                return 1;
        (void)utf8_character((const char *)data + valid, size - valid, &good);
        return may_be_cut && good == size - valid;
}

/* Append the complete characters. Bytes from *ret_used on are the beginning of a character. */
static int append_whole(const unsigned char *bytes, size_t size, int is_end, struct buf *out, size_t *ret_used)
{
        size_t at = 0, from = 0;
        int r = 0;

        while (at < size && r == 0) {
                size_t good, length = utf8_character(bytes + at, size - at, &good);

                if (length > 0) {
                        at += length;
                        continue;
                }
                if (good > 0 && at + good == size && !is_end)
                        break;
                r = buf_append(out, bytes + from, at - from);
                if (r == 0)
                        r = buf_append(out, UTF8_REPLACEMENT, strlen(UTF8_REPLACEMENT));
                at += good > 0 ? good : 1;
                from = at;
        }
        *ret_used = at;
        return r < 0 ? r : buf_append(out, bytes + from, at - from);
}

int container_utf8_append(struct container_utf8 *u, const void *data, size_t size, int is_end, struct buf *out)
{
        const unsigned char *bytes = data;
        size_t used;
        int r = 0;

        while (r == 0 && u->held_size > 0 && (size > 0 || is_end)) {
                if (size > 0) {
                        u->held[u->held_size++] = *bytes++;
                        size--;
                }
                r = append_whole(u->held, u->held_size, is_end && size == 0, out, &used);
                memmove(u->held, u->held + used, u->held_size - used);
                u->held_size -= (unsigned)used;
        }
        if (r < 0 || size == 0)
                return r;
        r = append_whole(bytes, size, is_end, out, &used);
        u->held_size = (unsigned)(size - used);
        memcpy(u->held, bytes + used, u->held_size);
        return r;
}

/* -- values of the core ---------------------------------------------------------------------------------------- */

json_t *container_words(const char *text)
{
        json_t *words = json_valid_text(text, strlen(text));

        return words ? words : json_string("");
}

/* -- URLs ------------------------------------------------------------------------------------------------------ */

char *container_decode(const char *text, size_t size)
{
        char *decoded = malloc(size + 1), *to = decoded;

        for (size_t i = 0; decoded && i < size; i++) {
                int high, low;

                if (text[i] != '%') {
                        *to++ = text[i];
                        continue;
                }
                high = size - i > 2 ? hex_digit(text[i + 1]) : -1;
                low = size - i > 2 ? hex_digit(text[i + 2]) : -1;
                if (high < 0 || low < 0 || high * 16 + low == 0) {
                        free(decoded);
                        return NULL;
                }
                *to++ = (char)(high * 16 + low);
                i += 2;
        }
        if (!decoded)
                return NULL;
        *to = '\0';
        if (container_is_utf8(decoded, (size_t)(to - decoded), 0))
                return decoded;
        free(decoded);
        return NULL;
}

int container_query_is_good(const struct container_request *q)
{
        char *decoded = container_decode(q->query, strlen(q->query));

        free(decoded);
        return decoded != NULL;
}

char *container_query(const struct container_request *q, const char *name)
{
        size_t name_size = strlen(name);

        for (const char *at = q->query; at && *at;) {
                size_t size = strcspn(at, "&");

                if (size > name_size && strncmp(at, name, name_size) == 0 && at[name_size] == '=')
                        return container_decode(at + name_size + 1, size - name_size - 1);
                at += size + (at[size] == '&');
        }
        return NULL;
}

/* -- time and random digits ------------------------------------------------------------------------------------ */

json_t *container_now(void)
{
        char text[CLOCK_TEXT_SIZE];

        return json_string(clock_text_now(text));
}

void container_random(char *to, size_t digits)
{
        unsigned char bytes[32] = {0};

        if (getrandom(bytes, sizeof(bytes), 0) < 0) {
                struct timespec now;

                /* This only avoids equal names. */
                clock_gettime(CLOCK_MONOTONIC, &now);
                memcpy(bytes, &now, sizeof(now) < sizeof(bytes) ? sizeof(now) : sizeof(bytes));
        }
        hex_write(to, bytes, digits / 2);
}
