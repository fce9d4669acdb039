/* Server names in the TLS client hello. Runs in: cloche-egress, on bytes of the guest; pure. */
#include "client-hello.h"

#include <stdint.h>
#include <string.h>

#define RECORD_HEADER 5
#define RECORD_BYTES_MAX 16384
#define RECORD_HANDSHAKE 22
#define RECORD_LAST 23 /* application data; 20 is a change of cipher, 21 an alert */
#define HANDSHAKE_HEADER 4
#define HANDSHAKE_CLIENT_HELLO 1
#define FIXED_BYTES 34 /* version and random */
#define EXTENSION_SERVER_NAME 0
#define NAME_TYPE_HOST 0

struct cursor {
        const unsigned char *at, *end;
};

static size_t left(const struct cursor *c)
{
        return (size_t)(c->end - c->at);
}

/* Read a number of the given width; 0 or -1. */
static int take_number(struct cursor *c, unsigned bytes, size_t *ret)
{
        if (left(c) < bytes)
                return -1;
        for (*ret = 0; bytes > 0; bytes--)
                *ret = *ret << 8 | *c->at++;
        return 0;
}

/* Read a vector with its length prefix. */
static int take_vector(struct cursor *c, unsigned length_bytes, struct cursor *ret)
{
        size_t size;

        if (take_number(c, length_bytes, &size) < 0 || size > left(c))
                return -1;
        *ret = (struct cursor){c->at, c->at + size};
        c->at += size;
        return 0;
}

/* Join handshake bytes across records: 1: the first message is complete; 0: more are needed; -1:
 * malformed. */
static int join(const unsigned char *bytes, size_t size, unsigned char *message, size_t *ret_size, size_t *ret_used)
{
        struct cursor in = {bytes, bytes + size};
        size_t have = 0, want = HANDSHAKE_HEADER;

        while (left(&in) > 0) {
                size_t type, version, record, piece;

                if (in.at[0] != RECORD_HANDSHAKE)
                        return -1;
                if (take_number(&in, 1, &type) < 0 || take_number(&in, 2, &version) < 0 ||
                    take_number(&in, 2, &record) < 0)
                        return 0;
                if (version >> 8 != 3 || record == 0 || record > RECORD_BYTES_MAX)
                        return -1;
                piece = record < left(&in) ? record : left(&in);
                if (have + piece > HANDSHAKE_HEADER + CLIENT_HELLO_MAX)
                        return -1;
                memcpy(message + have, in.at, piece);
                in.at += piece;
                have += piece;
                if (have >= HANDSHAKE_HEADER)
                        want = HANDSHAKE_HEADER + ((size_t)message[1] << 16 | (size_t)message[2] << 8 | message[3]);
                if ((have > 0 && message[0] != HANDSHAKE_CLIENT_HELLO) || want > HANDSHAKE_HEADER + CLIENT_HELLO_MAX)
                        return -1;
                if (have >= want) {
                        *ret_size = want;
                        *ret_used = (size_t)(in.at - bytes);
                        return have == want && piece == record ? 1 : -1; /* no bytes may follow yet */
                }
        }
        return 0;
}

/* Read the list of names; one of them may be a host name. */
static enum client_hello read_server_name(struct cursor extension, char ret_name[HOST_NAME_MAX_BYTES + 1])
{
        struct cursor list, name;
        size_t type;

        if (take_vector(&extension, 2, &list) < 0 || left(&extension) > 0 || take_number(&list, 1, &type) < 0 ||
            type != NAME_TYPE_HOST || take_vector(&list, 2, &name) < 0 || left(&list) > 0)
                return CLIENT_HELLO_MALFORMED;
        return host_name((const char *)name.at, left(&name), ret_name) == 0 ? CLIENT_HELLO_NAMED
                                                                            : CLIENT_HELLO_MALFORMED;
}

static enum client_hello read_extensions(struct cursor extensions, char ret_name[HOST_NAME_MAX_BYTES + 1])
{
        enum client_hello found = CLIENT_HELLO_NAMELESS;

        while (left(&extensions) > 0) {
                struct cursor extension;
                size_t type;

                if (take_number(&extensions, 2, &type) < 0 || take_vector(&extensions, 2, &extension) < 0)
                        return CLIENT_HELLO_MALFORMED;
                if (type != EXTENSION_SERVER_NAME)
                        continue;
                if (found != CLIENT_HELLO_NAMELESS) /* two names: the server might use either */
                        return CLIENT_HELLO_MALFORMED;
                found = read_server_name(extension, ret_name);
                if (found != CLIENT_HELLO_NAMED)
                        return found;
        }
        return found;
}

enum client_hello client_hello_read(const unsigned char *bytes, size_t size, char ret_name[HOST_NAME_MAX_BYTES + 1],
                                    size_t *ret_used)
{
        unsigned char message[HANDSHAKE_HEADER + CLIENT_HELLO_MAX];
        struct cursor hello, session, suites, compressions, extensions;
        size_t message_size;
        int r = join(bytes, size, message, &message_size, ret_used);

        ret_name[0] = '\0';
        if (r <= 0)
                return r < 0 ? CLIENT_HELLO_MALFORMED : CLIENT_HELLO_MORE;
        if (message_size < HANDSHAKE_HEADER + FIXED_BYTES)
                return CLIENT_HELLO_MALFORMED;
        hello = (struct cursor){message + HANDSHAKE_HEADER + FIXED_BYTES, message + message_size};
        if (take_vector(&hello, 1, &session) < 0 || take_vector(&hello, 2, &suites) < 0 ||
            take_vector(&hello, 1, &compressions) < 0)
                return CLIENT_HELLO_MALFORMED;
        if (left(&hello) == 0)
                return CLIENT_HELLO_NAMELESS;
        if (take_vector(&hello, 2, &extensions) < 0 || left(&hello) > 0)
                return CLIENT_HELLO_MALFORMED;
        return read_extensions(extensions, ret_name);
}

static ssize_t follow_handshake(struct client_hello_watch *watch, const unsigned char *bytes, size_t size)
{
        char name[HOST_NAME_MAX_BYTES + 1];
        enum client_hello found;
        size_t used;

        if (size <= RECORD_HEADER)
                return 0;
        watch->is_over = bytes[RECORD_HEADER] != HANDSHAKE_CLIENT_HELLO;
        if (watch->is_over)
                return (ssize_t)size;
        found = client_hello_read(bytes, size, name, &used);
        if (found == CLIENT_HELLO_MORE)
                return 0;
        watch->is_over = 1;
        return found == CLIENT_HELLO_MALFORMED || strcmp(name, watch->name) != 0 ? -1 : (ssize_t)used;
}

/* Follow one record or a part of it. */
static ssize_t follow(struct client_hello_watch *watch, const unsigned char *bytes, size_t size)
{
        size_t taken;

        if (watch->is_over)
                return (ssize_t)size;
        if (watch->skip == 0) {
                if (bytes[0] == RECORD_HANDSHAKE)
                        return follow_handshake(watch, bytes, size);
                watch->is_over = bytes[0] < RECORD_HANDSHAKE - 2 || bytes[0] > RECORD_LAST;
                if (watch->is_over || size < RECORD_HEADER)
                        return watch->is_over ? (ssize_t)size : 0;
                watch->skip = RECORD_HEADER + ((size_t)bytes[3] << 8 | bytes[4]);
        }
        taken = size < watch->skip ? size : watch->skip;
        watch->skip -= taken;
        return (ssize_t)taken;
}

ssize_t client_hello_follow(struct client_hello_watch *watch, const unsigned char *bytes, size_t size)
{
        size_t at = 0;

        while (at < size) {
                ssize_t n = follow(watch, bytes + at, size - at);

                if (n < 0)
                        return -1;
                if (n == 0)
                        break;
                at += (size_t)n;
        }
        return (ssize_t)at;
}
