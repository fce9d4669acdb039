/* The greeting of TLS. No result for the whole is returned for a part of it; and requests for a
 * second greeting by a server. */
#include "helpers/egress/read/client-hello.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        char name[HOST_NAME_MAX_BYTES + 1], other[HOST_NAME_MAX_BYTES + 1], normal[HOST_NAME_MAX_BYTES + 1];
        struct client_hello_watch watch = {.is_over = 0};
        size_t used = 0, used_before;
        enum client_hello found = client_hello_read(data, size, name, &used);

        if (found == CLIENT_HELLO_NAMED && (host_name(name, strlen(name), normal) < 0 || strcmp(name, normal) != 0))
                abort();
        if (found == CLIENT_HELLO_NAMED || found == CLIENT_HELLO_NAMELESS) {
                if (used == 0 || used > size || client_hello_read(data, used, other, &used_before) != found ||
                    strcmp(name, other) != 0)
                        abort();
                if (client_hello_read(data, used - 1, other, &used_before) != CLIENT_HELLO_MORE)
                        abort();
                strcpy(watch.name, name);
        }
        for (size_t at = 0; at < size;) {
                size_t piece = size - at < 7 ? size - at : 7;
                ssize_t n = client_hello_follow(&watch, data + at, piece);

                if (n <= 0)
                        n = client_hello_follow(&watch, data + at, size - at);
                if (n <= 0)
                        break;
                at += (size_t)n;
        }
        return 0;
}
