/* The greeting of TLS: which server it names, in whatever records it comes. */
#include "helpers/egress/read/client-hello.h"
#include "tap.h"

#include <string.h>

struct bytes {
        unsigned char data[40000];
        size_t size;
};

static void put(struct bytes *b, const void *data, size_t size)
{
        memcpy(b->data + b->size, data, size);
        b->size += size;
}

static void put_number(struct bytes *b, size_t value, unsigned width)
{
        while (width-- > 0)
                b->data[b->size++] = (unsigned char)(value >> 8 * width);
}

static void put_server_name(struct bytes *b, const char *name, unsigned type)
{
        size_t size = strlen(name);

        put_number(b, 0, 2);
        put_number(b, size + 5, 2);
        put_number(b, size + 3, 2);
        put_number(b, type, 1);
        put_number(b, size, 2);
        put(b, name, size);
}

/* names: how often. */
static struct bytes hello(const char *name, int names, size_t padding)
{
        static struct bytes extensions, b;
        static const unsigned char nothing[20000];

        extensions.size = b.size = 0;
        put_number(&extensions, 21, 2);
        put_number(&extensions, padding, 2);
        put(&extensions, nothing, padding);
        for (int i = 0; i < names; i++)
                put_server_name(&extensions, name, 0);
        put_number(&b, 1, 1);
        put_number(&b, 34 + 1 + 2 + 2 + 2 + 2 + extensions.size, 3);
        put(&b, nothing, 34);
        put_number(&b, 0, 1);
        put_number(&b, 2, 2);
        put_number(&b, 0x1301, 2);
        put_number(&b, 1, 1);
        put_number(&b, 0, 1);
        put_number(&b, extensions.size, 2);
        put(&b, extensions.data, extensions.size);
        return b;
}

/* In records of that many bytes. */
static struct bytes records(const struct bytes *message, size_t each)
{
        static struct bytes b;

        b.size = 0;
        for (size_t at = 0; at < message->size; at += each) {
                size_t size = message->size - at < each ? message->size - at : each;

                put_number(&b, 22, 1);
                put_number(&b, 0x0301, 2);
                put_number(&b, size, 2);
                put(&b, message->data + at, size);
        }
        return b;
}

static enum client_hello read_name(const struct bytes *b, char name[HOST_NAME_MAX_BYTES + 1])
{
        size_t used = 0;
        enum client_hello found = client_hello_read(b->data, b->size, name, &used);

        if (found == CLIENT_HELLO_NAMED || found == CLIENT_HELLO_NAMELESS)
                CHECK(used <= b->size && used > 0, "so many bytes it took");
        return found;
}

static void test_names(void)
{
        char name[HOST_NAME_MAX_BYTES + 1];
        static const char *const wrong[] = {"",      "a b",       "1.2.3.4", "a..b", "a\x01", "m\xc3\xbcnchen.de",
                                            "[::1]", "a.test:443"};

        for (size_t each = 1; each < 400; each = each * 3 + 1) {
                struct bytes message = hello("WWW.a.test", 1, 10), b = records(&message, each);
                int early = 0;

                CHECK(read_name(&b, name) == CLIENT_HELLO_NAMED && strcmp(name, "www.a.test") == 0,
                      "a name, in records of %zu bytes", each);
                for (size_t size = 1; size < b.size; size++) {
                        size_t used;

                        early += client_hello_read(b.data, size, name, &used) != CLIENT_HELLO_MORE;
                }
                CHECK(early == 0, "nothing is said before all of it has come");
        }
        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
                struct bytes message = hello(wrong[i], 1, 0), b = records(&message, 500);

                CHECK(read_name(&b, name) == CLIENT_HELLO_MALFORMED, "no name of a host: %zu", i);
        }
}

static void test_shapes(void)
{
        char name[HOST_NAME_MAX_BYTES + 1];
        struct bytes message = hello("a.test", 0, 0), b = records(&message, 16384);

        CHECK(read_name(&b, name) == CLIENT_HELLO_NAMELESS && !name[0], "none is named");
        message = hello("a.test", 2, 0);
        b = records(&message, 16384);
        CHECK(read_name(&b, name) == CLIENT_HELLO_MALFORMED, "two are");
        message = hello("a.test", 1, 15000);
        b = records(&message, 4000);
        CHECK(read_name(&b, name) == CLIENT_HELLO_NAMED, "a long greeting");
        message = hello("a.test", 1, 17000);
        b = records(&message, 4000);
        CHECK(read_name(&b, name) == CLIENT_HELLO_MALFORMED, "one that is too long");
        message = hello("a.test", 1, 0);
        put(&message, "xyz", 3);
        b = records(&message, 16384);
        CHECK(read_name(&b, name) == CLIENT_HELLO_MALFORMED, "with something behind it");
        message = hello("a.test", 1, 0);
        message.data[0] = 2;
        b = records(&message, 16384);
        CHECK(read_name(&b, name) == CLIENT_HELLO_MALFORMED, "another message");
        for (size_t at = 0; at < message.size; at++) {
                message = hello("a.test", 1, 0);
                message.data[at] ^= 0xff;
                b = records(&message, 16384);
                (void)read_name(&b, name); /* the sanitizers look on */
        }
}

static void test_second(void)
{
        static const unsigned char change[] = {20, 3, 3, 0, 1, 1}, data[] = {23, 3, 3, 0, 3, 'a', 'b', 'c'},
                                   other[] = {22, 3, 3, 0, 4, 16, 0, 0, 0};
        struct client_hello_watch watch = {.name = "a.test"};
        struct bytes message = hello("a.test", 1, 0), b = records(&message, 16384);

        CHECK(client_hello_follow(&watch, change, sizeof(change)) == sizeof(change) &&
                      client_hello_follow(&watch, data, sizeof(data)) == sizeof(data),
              "other records pass");
        CHECK(client_hello_follow(&watch, data, 3) == 0 && client_hello_follow(&watch, data, 6) == 6 &&
                      client_hello_follow(&watch, data + 6, 2) == 2,
              "in pieces, too");
        CHECK(client_hello_follow(&watch, b.data, 9) == 0 &&
                      client_hello_follow(&watch, b.data, b.size) == (ssize_t)b.size && watch.is_over,
              "a second greeting with the same name");
        watch = (struct client_hello_watch){.name = "b.test"};
        CHECK(client_hello_follow(&watch, b.data, b.size) == -1, "not with another");
        watch = (struct client_hello_watch){.name = ""};
        CHECK(client_hello_follow(&watch, b.data, b.size) == -1, "nor with one where there was none");
        watch = (struct client_hello_watch){.name = "a.test"};
        CHECK(client_hello_follow(&watch, other, sizeof(other)) == sizeof(other) && watch.is_over,
              "another message of the handshake: there will be none");
}

int main(void)
{
        test_names();
        test_shapes();
        test_second();
        return tap_done();
}
