#include "tap.h"
#include "wire/base64.h"
#include "wire/frame.h"
#include "wire/json.h"
#include "wire/rpc.h"
#include "wire/value.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)

static struct cloche_err err;

static json_t *parse(const char *text)
{
        json_t *value = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);

        if (!value)
                abort(); /* a mistake in this file */
        return value;
}

static json_t *load_vectors(const char *name)
{
        const char *folder = getenv("CLOCHE_TEST_VECTORS");
        char path[512];
        json_t *rows;

        snprintf(path, sizeof(path), "%s/%s", folder ? folder : "tests/vectors", name);
        rows = json_load_file(path, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, NULL);
        CHECK(json_array_size(rows) > 0, "%s is there", name);
        return rows;
}

/* A failure must have this code, say where, and leave the output parameter unchanged. */
static int failed(int r, unsigned code, const char *says)
{
        int good = r == -(int)code && err.code == code && strstr(err.msg, says);

        if (!good)
                printf("# returned %d, code %u: %s\n", r, err.code, err.msg);
        err = (struct cloche_err){0};
        return good;
}

/* -- base64 --------------------------------------------------------------------------------------------------- */

static void test_base64(void)
{
        _cleanup_buf_ struct buf text = BUF_INIT(4096), bytes = BUF_INIT(4096), small = BUF_INIT(5),
                                 empty = BUF_INIT(16);
        unsigned char all[256];
        int same = 1;

        for (size_t i = 0; i < sizeof(all); i++)
                all[i] = (unsigned char)i;
        for (size_t size = 0; size <= sizeof(all); size++) {
                text.size = bytes.size = 0;
                same &= base64_encode(&text, all, size) == 0 && base64_decode(&bytes, text.data, text.size) == 0 &&
                        bytes.size == size && (size == 0 || memcmp(bytes.data, all, size) == 0);
        }
        CHECK(same, "base64 there and back, 0 to 256 bytes");
        CHECK(base64_encode(&small, "abcd", 4) == -ENOBUFS && small.size == 0, "base64 keeps to the maximum, out");
        CHECK(base64_decode(&small, "AAAAAAAA", 8) == -ENOBUFS && small.size == 0, "base64 keeps to the maximum, in");
        text.size = 0;
        CHECK(base64_encode(&text, "", 0) == 0 && text.size == 0, "base64 of nothing");
        CHECK(base64_encode(&empty, "", 0) == 0 && base64_decode(&empty, "", 0) == 0,
              "base64 of nothing in a new buffer");
}

/* -- frames --------------------------------------------------------------------------------------------------- */

static size_t from_hex(const char *hex, char *ret, size_t room)
{
        size_t size = strlen(hex) / 2;

        if (size > room)
                abort();
        for (size_t i = 0; i < size; i++) {
                unsigned byte;

                if (sscanf(hex + 2 * i, "%2x", &byte) != 1)
                        abort();
                ret[i] = (char)byte;
        }
        return size;
}

static int is_frame(const struct frame *f, const json_t *want)
{
        const char *json = json_string_value(json_object_get(want, "json"));
        char attachments[256];
        size_t size;

        if (!want) /* counted only */
                return 1;
        size = from_hex(json_string_value(json_object_get(want, "attachments")), attachments, sizeof(attachments));
        return f->json_size == strlen(json) && memcmp(f->json, json, f->json_size) == 0 &&
               f->attachments_size == size && memcmp(f->attachments, attachments, size) == 0;
}

/* Feed in pieces of at most step bytes; the last answer of frame_reader_next, *ret_good when all frames were as wanted.
 */
static int feed(const char *data, size_t size, size_t step, size_t max, const json_t *frames, size_t *ret_count,
                int *ret_good)
{
        struct frame_reader reader;
        struct frame f;
        int r;

        frame_reader_init(&reader, max);
        *ret_count = 0;
        *ret_good = 1;
        r = frame_reader_next(&reader, &f, &err);
        for (size_t at = 0; r >= 0 && at < size;) {
                size_t room = 0, n = size - at < step ? size - at : step;
                char *to = frame_reader_room(&reader, &room);

                if (!to || room == 0)
                        abort();
                n = n < room ? n : room;
                memcpy(to, data + at, n);
                frame_reader_filled(&reader, n);
                at += n;
                while ((r = frame_reader_next(&reader, &f, &err)) > 0)
                        *ret_good &= is_frame(&f, json_array_get(frames, (*ret_count)++));
        }
        frame_reader_done(&reader);
        return r;
}

static void test_frame_vector(const json_t *row, size_t step)
{
        const char *name = json_string_value(json_object_get(row, "name"));
        const char *error = json_string_value(json_object_get(row, "error"));
        const json_t *frames = json_object_get(row, "frames");
        char data[1024];
        size_t size = from_hex(json_string_value(json_object_get(row, "hex")), data, sizeof(data)), count;
        int good, r = feed(data, size, step, FRAME_BYTES_MAX, frames, &count, &good);

        if (error)
                CHECK(r < 0 && strcmp(cloche_code_name((unsigned)-r), error) == 0 && err.msg[0],
                      "frames by %zu: %s: %s", step, name, err.msg);
        else
                CHECK(r == 0 && good && count == json_array_size(frames), "frames by %zu: %s", step, name);
}

static void test_frame_vectors(void)
{
        json_t *rows = load_vectors("frames.json"), *row;
        size_t i;

        json_array_foreach (rows, i, row) {
                test_frame_vector(row, 1);
                test_frame_vector(row, 7);
                test_frame_vector(row, 1024);
        }
        json_decref(rows);
}

static void test_room_for_a_head(void)
{
        struct frame_reader reader;
        size_t room, reserved;
        char *to;

        frame_reader_init(&reader, MIB);
        to = frame_reader_room(&reader, &room);
        if (!to)
                abort();
        memcpy(to, "\xff\xff\0\0", 4);
        frame_reader_filled(&reader, 4);
        reserved = reader.in.room;
        CHECK(frame_reader_room(&reader, &room) == to + 4 && room == reserved - 4 && reader.in.room == reserved,
              "the first bytes of a frame do not move the buffer");
        frame_reader_filled(&reader, room);
        CHECK(frame_reader_room(&reader, &room) && room > 4, "a full buffer grows");
        frame_reader_done(&reader);
}

static void test_frame_limits(void)
{
        _cleanup_buf_ struct buf out = BUF_INIT(4 * MIB), small = BUF_INIT(16);
        json_t *none = json_array();
        char *large = calloc(1, MIB);
        size_t count;
        int good;

        if (!large)
                abort();
        CHECK(frame_build(&out, "{}", 2, large, 1000, &err) == 0, "build a frame");
        CHECK(feed(out.data, out.size, out.size, 1006, none, &count, &good) == 0 && count == 1,
              "a frame of the reader's maximum");
        CHECK(failed(feed(out.data, out.size, out.size, 1005, none, &count, &good), CLOCHE_E_TOO_LARGE, "1005"),
              "a frame of one byte more");
        CHECK(failed(feed(out.data, 4, 1, 1005, none, &count, &good), CLOCHE_E_TOO_LARGE, "1005"),
              "it is known from its length alone");
        out.size = 0;
        CHECK(frame_build(&out, "{}", 2, large, MIB, &err) == 0 && frame_build(&out, "[]", 2, NULL, 0, &err) == 0 &&
                      feed(out.data, out.size, 65536, MIB + 6, none, &count, &good) == 0 && count == 2,
              "a frame over many reads, and one behind it");
        CHECK(failed(frame_build(&small, "123456789", 9, NULL, 0, &err), CLOCHE_E_TOO_LARGE, "17 bytes") &&
                      small.size == 0,
              "a frame over the buffer's maximum");
        CHECK(frame_build(&small, "12345678", 8, NULL, 0, &err) == 0, "a frame of the buffer's maximum");
        CHECK(failed(frame_build(&out, "", FRAME_JSON_BYTES_MAX + 1u, NULL, 0, &err), CLOCHE_E_TOO_LARGE, "at most"),
              "JSON over the hard maximum");
        CHECK(failed(frame_build(&out, "", 0, large, SIZE_MAX, &err), CLOCHE_E_TOO_LARGE, "at most"),
              "attachments over the hard maximum");
        free(large);
        json_decref(none);
}

/* -- JSON ----------------------------------------------------------------------------------------------------- */

static int loads(const char *text, size_t size)
{
        json_t *value = NULL;
        int r = json_load_text(text, size, &value, &err);

        json_decref(value);
        return r;
}

/* An empty buffer has no address; arithmetic on a null pointer is undefined, as is memchr of it. */
static void test_json_of_nothing(void)
{
        json_t *value = NULL;

        CHECK(failed(loads(NULL, 0), CLOCHE_E_INVALID_JSON, "expected"), "no text");
        CHECK(failed(loads("", 0), CLOCHE_E_INVALID_JSON, "expected"), "an empty text");
        CHECK(failed(json_load_human(NULL, 0, &value, &err), CLOCHE_E_INVALID_JSON, "expected"), "no text of a human");
        CHECK(loads("0", 1) == 0, "and the least there is");
}

static void test_json_depth(void)
{
        _cleanup_buf_ struct buf text = BUF_INIT(MIB);

        for (int i = 0; i < JSON_DEPTH_MAX; i++)
                buf_append(&text, "[", 1);
        for (int i = 0; i < JSON_DEPTH_MAX; i++)
                buf_append(&text, "]", 1);
        CHECK(loads(text.data, text.size) == 0, "JSON of the greatest depth");
        text.size = JSON_DEPTH_MAX;
        buf_append(&text, "[", 1);
        CHECK(failed(loads(text.data, text.size), CLOCHE_E_INVALID_JSON, "nested deeper than"),
              "JSON deeper than that");
        text.size = 0;
        buf_append(&text, "\"\\\"", 3);
        for (int i = 0; i < 2 * JSON_DEPTH_MAX; i++)
                buf_append(&text, "[{", 2);
        buf_append(&text, "\\\\\"", 3);
        CHECK(loads(text.data, text.size) == 0, "brackets in strings are not depth");
}

static void test_json_text(void)
{
        static const char *const good[] = {"{}", "[]",  " null ",      "0",
                                           "-0", "1e5", "\"\\u0000\"", "[1,2.5,\"\\ud83d\\ude00\"]"};
        static const char *const bad[] = {
                "",
                " ",
                "{",
                "]",
                "[1,]",
                "{\"a\":1,\"a\":2}",
                "{\"a\":1,\"\\u0061\":2}",
                "[1] 2",
                "NaN",
                "01",
                "+1",
                "1.",
                "'a'",
                "\"\\ud800\"",
                "\"\xff\"",
                "\"\xed\xa0\x80\"",
                "\"\n\"",
                "{\"\\u0000\":1}",
                "1e400",
                "12345678901234567890",
                "// c\n1",
                "\xef\xbb\xbf{}",
                "\"",
                "\"\\",
                "[\"]",
        };

        for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
                CHECK(loads(good[i], strlen(good[i])) == 0, "JSON %s", good[i]);
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
                CHECK(failed(loads(bad[i], strlen(bad[i])), CLOCHE_E_INVALID_JSON, "line"), "refused JSON, number %zu",
                      i);
        CHECK(loads("1\0", 2) < 0, "NUL behind JSON");
        CHECK(failed(loads("", FRAME_JSON_BYTES_MAX + (size_t)1), CLOCHE_E_TOO_LARGE, "at most"),
              "JSON over the hard maximum is not looked at");
}

static void test_json_human(void)
{
        static const char *const rows[][2] = {
                {"9007199254740991", "9007199254740991"},
                {"-9007199254740991", "-9007199254740991"},
                {"9007199254740992", "{\"$\":\"bigint\",\"v\":\"9007199254740992\"}"},
                {"-9007199254740992", "{\"$\":\"bigint\",\"v\":\"-9007199254740992\"}"},
                {"[12345678901234567890]", "[{\"$\":\"bigint\",\"v\":\"12345678901234567890\"}]"},
                {"{\"a\":-12345678901234567890,\"b\":1}",
                 "{\"a\":{\"$\":\"bigint\",\"v\":\"-12345678901234567890\"},\"b\":1}"},
                {"12345678901234567890.5", "12345678901234567890.5"},
                {"12345678901234567890e2", "12345678901234567890e2"},
                {"\"12345678901234567890\"", "\"12345678901234567890\""},
                {"{\"12345678901234567890\":\"\\\"12345678901234567890\"}",
                 "{\"12345678901234567890\":\"\\\"12345678901234567890\"}"},
                {" [ 1 , 99999999999999999999 ] ", "[1,{\"$\":\"bigint\",\"v\":\"99999999999999999999\"}]"},
        };
        static const char *const bad[] = {"-",
                                          "--1",
                                          "012345678901234567890",
                                          "-012345678901234567890",
                                          "1234567890123456789a",
                                          "12345678901234567890.",
                                          "",
                                          "[1",
                                          "{12345678901234567890:1}"};

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                json_t *want = parse(rows[i][1]), *have = NULL;

                CHECK(json_load_human(rows[i][0], strlen(rows[i][0]), &have, &err) == 0 && json_equal(have, want),
                      "people's JSON %s", rows[i][0]);
                json_decref(want);
                json_decref(have);
        }
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                json_t *have = NULL;

                CHECK(json_load_human(bad[i], strlen(bad[i]), &have, &err) == -CLOCHE_E_INVALID_JSON && !have,
                      "people's JSON refused: %s", bad[i]);
        }
}

/* -- values --------------------------------------------------------------------------------------------------- */

/* Text form to frame form, checked, and back; json_equal distinguishes 1 from 1.0. */
static int survives(json_t *value)
{
        _cleanup_buf_ struct buf attachments = BUF_INIT(4 * MIB);
        json_t *framed = NULL, *back = NULL, *before = json_deep_copy(value);
        int good = value_text_to_frame(value, &attachments, &framed, &err) == 0 &&
                   value_check(framed, attachments.size, &err) == 0 &&
                   value_frame_to_text(framed, attachments.data, attachments.size, &back, &err) == 0 &&
                   json_equal(value, back) && json_equal(value, before);

        if (!good)
                printf("# %s\n", err.msg);
        json_decref(framed);
        json_decref(back);
        json_decref(before);
        return good;
}

static void test_valid_vectors(const char *file)
{
        static const char *const members[] = {"value", "python", "javascript"};
        json_t *rows = load_vectors(file), *row, *value;
        size_t i;

        json_array_foreach (rows, i, row)
                for (size_t k = 0; k < sizeof(members) / sizeof(members[0]); k++)
                        if ((value = json_object_get(row, members[k])))
                                CHECK(survives(value), "%s of: %s", members[k],
                                      json_string_value(json_object_get(row, "name")));
        json_decref(rows);
}

/* invalid-text.json has values that only a decoder of the text form can get. */
static void test_invalid_vectors(const char *file)
{
        json_t *rows = load_vectors(file), *row;
        size_t i;

        json_array_foreach (rows, i, row) {
                _cleanup_buf_ struct buf attachments = BUF_INIT(MIB);
                const char *name = json_string_value(json_object_get(row, "name"));
                json_t *value = json_object_get(row, "value"), *made = NULL;

                CHECK(failed(value_check(value, 0, &err), CLOCHE_E_PROTOCOL, "$"), "refused in a frame: %s", name);
                CHECK(failed(value_text_to_frame(value, &attachments, &made, &err), CLOCHE_E_INVALID_JSON, "$") &&
                              !made && attachments.size == 0,
                      "refused in text: %s", name);
                CHECK(failed(value_frame_to_text(value, "", 0, &made, &err), CLOCHE_E_PROTOCOL, "$") && !made,
                      "refused by conversion: %s", name);
        }
        json_decref(rows);
}

static void test_paths(void)
{
        static const char *const rows[][2] = {
                {"{\"a\":[0,1,2,{\"b\":{\"$\":\"nope\"}}]}", "$.a[3].b: "},
                {"{\"$\":\"nope\"}", "$: "},
                {"[{\"a b\":{\"$\":1}}]", "$[0][\"a b\"]: "},
                {"{\"\":{\"$\":1}}", "$[\"\"]: "},
                {"{\"\\u001b[31m\\u007f\":{\"$\":1}}", "$[\"?[31m?\"]: "},
                {"{\"$\":\"\\u001b[31m\"}", "\"?[31m\""},
                {"[[1,9007199254740992]]", "$[0][1]: "},
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                json_t *value = parse(rows[i][0]);

                CHECK(failed(value_check(value, 0, &err), CLOCHE_E_PROTOCOL, rows[i][1]), "the path %s", rows[i][1]);
                json_decref(value);
        }
}

/* Whatever the keys are, messages are printed and sent: they must be UTF-8. */
static void test_paths_are_text(void)
{
        int good = 1;

        for (int width = 30; width < 60; width++)
                for (int depth = 1; depth < 12; depth++) {
                        json_t *value = parse("{\"$\":\"nope\"}"), *text;
                        char key[256];

                        memset(key, 'a', (size_t)width);
                        strcpy(key + width, "ä😀ä😀ä😀ä😀");
                        for (int i = 0; i < depth; i++) {
                                json_t *outer = json_object();

                                json_object_set_new(outer, key, value);
                                value = outer;
                        }
                        good &= value_check(value, 0, &err) == -CLOCHE_E_PROTOCOL;
                        text = json_string(err.msg);
                        good &= text != NULL && strstr(err.msg, "there is no tag") != NULL;
                        json_decref(text);
                        json_decref(value);
                }
        CHECK(good, "cut paths stay UTF-8, and the cause stays");
}

static int check_ranges(const char *text, size_t size)
{
        json_t *value = parse(text);
        int r = value_check(value, size, &err);

        json_decref(value);
        return r;
}

#define RANGE(at, n) "{\"$\":\"bytes\",\"at\":" #at ",\"n\":" #n "}"

static void test_ranges(void)
{
        CHECK(check_ranges("[" RANGE(0, 4) "," RANGE(4, 4) "]", 8) == 0, "ranges side by side");
        CHECK(check_ranges("[" RANGE(4, 4) "," RANGE(0, 4) "]", 8) == 0, "ranges in any order");
        CHECK(check_ranges("[" RANGE(0, 1) "]", 8) == 0, "bytes that nobody names");
        CHECK(check_ranges("[" RANGE(0, 4) "," RANGE(0, 0) "," RANGE(2, 0) "," RANGE(8, 0) "]", 8) == 0,
              "empty ranges share nothing");
        CHECK(failed(check_ranges("[" RANGE(0, 5) "," RANGE(4, 4) "]", 8), CLOCHE_E_PROTOCOL, "share"),
              "ranges that overlap");
        CHECK(failed(check_ranges("[" RANGE(0, 8) "," RANGE(5, 0) "," RANGE(6, 2) "]", 8), CLOCHE_E_PROTOCOL, "share"),
              "overlap around an empty range");
        CHECK(failed(check_ranges("[" RANGE(0, 8) "," RANGE(0, 8) "]", 8), CLOCHE_E_PROTOCOL, "share"),
              "one range twice");
        CHECK(failed(check_ranges(RANGE(0, 9), 8), CLOCHE_E_PROTOCOL, "outside"), "a range over the end");
        CHECK(failed(check_ranges(RANGE(9, 0), 8), CLOCHE_E_PROTOCOL, "outside"), "an empty range behind the end");
        CHECK(failed(check_ranges(RANGE(9223372036854775807, 9223372036854775807), 8), CLOCHE_E_PROTOCOL, "outside"),
              "ranges that wrap around");
        CHECK(failed(check_ranges("{\"$\":\"array\",\"t\":\"f64\",\"at\":0,\"n\":7}", 8), CLOCHE_E_PROTOCOL,
                     "elements"),
              "a part of an element");
        CHECK(failed(check_ranges("{\"$\":\"bytes\",\"at\":0.0,\"n\":0}", 8), CLOCHE_E_PROTOCOL, "integers"),
              "an offset that is a float");
}

/* An array of one value again and again: sanitized objects of their own would cost seconds. */
static json_t *many(size_t count, json_t *value)
{
        json_t *array = json_array();

        for (size_t i = 0; i < count; i++)
                json_array_append(array, value);
        json_decref(value);
        return array;
}

static json_t *many_ranges(size_t count, json_int_t size)
{
        return many(count, json_pack("{s:s, s:i, s:I}", "$", "bytes", "at", 0, "n", size));
}

/* A guest that names the same bytes again and again must not make us hold them so often. */
static void test_amplification(void)
{
        json_t *value = many_ranges(65536, (json_int_t)MIB), *made = NULL;
        char *bytes = calloc(1, MIB);

        if (!bytes)
                abort();
        CHECK(failed(value_frame_to_text(value, bytes, MIB, &made, &err), CLOCHE_E_PROTOCOL,
                     "$[1]: two values share") &&
                      !made,
              "64 GiB of text out of 1 MiB are refused at the second value");
        json_decref(value);
        value = many_ranges(2, 8);
        CHECK(failed(value_frame_to_text(value, bytes, 64, &made, &err), CLOCHE_E_PROTOCOL, "share") && !made,
              "an overlap leaves the output as it was");
        json_decref(value);
        free(bytes);
}

static void test_attachment_count(void)
{
        _cleanup_buf_ struct buf attachments = BUF_INIT(MIB);
        json_t *most = many_ranges(VALUE_ATTACHMENTS_MAX, 0), *more = many_ranges(VALUE_ATTACHMENTS_MAX + 1, 0);
        json_t *text = many(VALUE_ATTACHMENTS_MAX + 1, json_pack("{s:s, s:s}", "$", "bytes", "b64", "AA==")),
               *made = NULL;

        CHECK(value_check(most, 0, &err) == 0, "65536 attachments in a frame");
        CHECK(failed(value_check(more, 0, &err), CLOCHE_E_PROTOCOL, "65536"), "one more in a frame");
        CHECK(failed(value_text_to_frame(text, &attachments, &made, &err), CLOCHE_E_INVALID_JSON, "65536") &&
                      attachments.size == 0,
              "one more in text");
        json_array_remove(text, 0);
        CHECK(value_text_to_frame(text, &attachments, &made, &err) == 0 && attachments.size == 65536,
              "65536 attachments in text");
        json_decref(most);
        json_decref(more);
        json_decref(text);
        json_decref(made);
}

static void test_text_limits(void)
{
        _cleanup_buf_ struct buf attachments = BUF_INIT(8);
        json_t *value = parse("[{\"$\":\"bytes\",\"b64\":\"AAAAAAAA\"},{\"$\":\"bytes\",\"b64\":\"AAAA\"}]"),
               *made = NULL;

        CHECK(failed(value_text_to_frame(value, &attachments, &made, &err), CLOCHE_E_TOO_LARGE, "too many") && !made &&
                      attachments.size == 0,
              "bytes over the buffer's maximum");
        json_decref(value);
        buf_append(&attachments, "xy", 2);
        value = parse("[{\"$\":\"bytes\",\"b64\":\"AAAA\"},{\"$\":\"bytes\",\"b64\":\"\"}]");
        CHECK(value_text_to_frame(value, &attachments, &made, &err) == 0 && attachments.size == 5 &&
                      json_integer_value(json_object_get(json_array_get(made, 0), "at")) == 2,
              "bytes go behind those that are there");
        json_decref(made);
        made = NULL;
        json_array_append_new(value, parse("{\"$\":\"nope\"}"));
        CHECK(failed(value_text_to_frame(value, &attachments, &made, &err), CLOCHE_E_INVALID_JSON, "$[2]: ") &&
                      attachments.size == 5,
              "a refusal leaves no bytes behind");
        json_decref(value);
}

/* Bytes of every kind come back as they were, and a user's own key is no tag. */
static void test_held(void)
{
        _cleanup_buf_ struct buf attachments = BUF_INIT(64);
        json_t *value = parse("{\"a\":{\"$\":\"bytes\",\"b64\":\"AP/"
                              "+\"},\"b\":{\"$\":\"object\",\"v\":[[\"$\",1],[\"raw\",\"x\"]]}}");
        json_t *mixed = parse("[{\"$\":\"bytes\",\"b64\":\"AP8=\"},{\"raw\":\"x\",\"b64\":\"y\"}]"), *held = NULL,
               *framed = NULL;
        const json_t *raw;
        char *text;

        CHECK(value_read(value, VALUE_TEXT, NULL, 0, &held, &err) == 0, "a text is held: %s", err.msg);
        raw = json_object_get(json_object_get(held, "a"), VALUE_HELD_BYTES);
        CHECK(json_string_length(raw) == 3 && memcmp(json_string_value(raw), "\0\xff\xfe", 3) == 0,
              "bytes are held as they are");
        text = value_dump(held, JSON_COMPACT | JSON_SORT_KEYS);
        CHECK(text && strstr(text, "AP/+") && strstr(text, "[\"raw\",\"x\"]"), "and dumped as text: %s",
              text ? text : "");
        CHECK(value_write(mixed, VALUE_FRAME, &attachments, &framed, &err) == 0 && attachments.size == 2 &&
                      json_integer_value(json_object_get(json_array_get(framed, 0), "n")) == 2 &&
                      json_equal(json_array_get(framed, 1), json_array_get(mixed, 1)),
              "base64 among what is held goes into the frame, members without a tag stay");
        free(text);
        json_decref(value);
        json_decref(mixed);
        json_decref(held);
        json_decref(framed);
}

static json_t *nest(int depth, const char *inner, const char *head, const char *tail)
{
        _cleanup_buf_ struct buf text = BUF_INIT(MIB);

        for (int i = 0; i < depth; i++)
                buf_append(&text, head, strlen(head));
        buf_append(&text, inner, strlen(inner));
        for (int i = 0; i < depth; i++)
                buf_append(&text, tail, strlen(tail));
        buf_append(&text, "", 1);
        return parse(text.data);
}

static void test_depth(void)
{
        static const char *const rows[][3] = {
                {"[", "]", "arrays"},
                {"{\"a\":", "}", "objects"},
                {"{\"$\":\"set\",\"v\":[", "]}", "sets"},
                {"{\"$\":\"map\",\"v\":[[1,", "]]}", "maps"},
                {"{\"$\":\"object\",\"v\":[[\"$\",", "]]}", "escaped objects"},
                {"{\"$\":\"class\",\"t\":\"A\",\"v\":", "}", "classes"},
                {"{\"$\":\"error\",\"v\":{\"name\":\"\",\"message\":\"\",\"fields\":{\"a\":", "}}}", "errors"},
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                json_t *value = nest(VALUE_DEPTH_MAX, "1", rows[i][0], rows[i][1]);

                CHECK(value_check(value, 0, &err) == 0, "200 %s nested: %s", rows[i][2], err.msg);
                json_decref(value);
                value = nest(VALUE_DEPTH_MAX, "{\"$\":\"bigint\",\"v\":\"1\"}", rows[i][0], rows[i][1]);
                CHECK(value_check(value, 0, &err) == 0, "a big integer in 200 %s: %s", rows[i][2], err.msg);
                json_decref(value);
                value = nest(VALUE_DEPTH_MAX, "[]", rows[i][0], rows[i][1]);
                CHECK(failed(value_check(value, 0, &err), CLOCHE_E_PROTOCOL, "deeper than 200"),
                      "an empty array in 200 %s", rows[i][2]);
                json_decref(value);
                value = nest(VALUE_DEPTH_MAX + 1, "1", rows[i][0], rows[i][1]);
                CHECK(failed(value_check(value, 0, &err), CLOCHE_E_PROTOCOL, "200"), "201 %s nested", rows[i][2]);
                json_decref(value);
        }
}

static void test_single_values(void)
{
        static const char *const bad[] = {
                "9007199254740992",
                "-9007199254740992",
                "9223372036854775807",
                "{\"$\":\"bigint\",\"v\":\"-0\"}",
                "{\"$\":\"hole\",\"v\":1}",
                "{\"$\":\"object\",\"v\":[[{\"$\":\"bytes\",\"at\":0,\"n\":0},1]]}",
                "{\"$\":\"utf16\",\"v\":\"x\"}",
                "{\"$\":\"bytes\\u0000\",\"at\":0,\"n\":0}",
                "{\"$\":\"date\",\"v\":\"2026-11-21T10:20:30.1234567890Z\"}",
                "{\"$\":\"date\",\"v\":\"0000-01-01\"}",
                "{\"$\":\"object\",\"v\":[[\"a\\u0000\",1],[\"a\\u0000\",2]]}",
        };
        static const char *const good[] = {
                "9007199254740991",
                "1e308",
                "-1e308",
                "1.7976931348623157e308",
                "{\"$\":\"object\",\"v\":[[\"a\",1],[\"a\\u0000\",2]]}",
                "{\"$\":\"date\",\"v\":\"2000-02-29T23:59:59.999999999-23:59\"}",
                "{\"$\":\"buffer\",\"b64\":\"AAEC\"}",
                "{\"$\":\"utf16\",\"b64\":\"PdhhAA==\"}",
                "{\"$\":\"hole\"}",
                "{\"$\":\"object\",\"v\":[[{\"$\":\"utf16\",\"b64\":\"Pdg=\"},1]]}",
                "{\"$\":\"error\",\"v\":{\"name\":\"E\",\"message\":{\"$\":\"utf16\",\"b64\":\"Pdg=\"}}}",
                "{\"$\":\"regexp\",\"source\":\"a\\u0000\",\"flags\":\"yvusmigd\"}",
        };

        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                json_t *value = parse(bad[i]);

                CHECK(failed(value_check(value, 0, &err), CLOCHE_E_PROTOCOL, "$"), "refused: %s", bad[i]);
                json_decref(value);
        }
        for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
                json_t *value = parse(good[i]);

                CHECK(survives(value), "taken: %s", good[i]);
                json_decref(value);
        }
}

static int checks(const char *text)
{
        json_t *value = parse(text);
        int r = value_check(value, 0, &err);

        json_decref(value);
        return r;
}

#define REF(n) "{\"$\":\"ref\",\"n\":" #n "}"

static void test_references(void)
{
        static const char *const disordered[] = {
                "{\"a\":1,\"1\":" REF(0) "}",
                "{\"2\":1,\"1\":1,\"x\":" REF(0) "}",
                "[{\"a\":1,\"0\":1}," REF(0) "]",
                "[" REF(0) ",{\"a\":1,\"4294967294\":1}]",
                "[" REF(0) ",{\"$\":\"error\",\"v\":{\"name\":\"\",\"message\":\"\",\"fields\":{\"a\":1,\"0\":1}}}]",
        };
        static const char *const ordered[] = {
                "{\"1\":1,\"a\":" REF(0) "}",
                "{\"9\":1,\"10\":1,\"x\":" REF(0) "}",
                "[" REF(0) ",{\"a\":1,\"4294967295\":1,\"01\":1,\"\":1}]",
                "{\"a\":1,\"1\":2}",
                "{\"$\":\"object\",\"v\":[[\"a\"," REF(0) "],[\"0\",1]]}",
        };

        for (size_t i = 0; i < sizeof(disordered) / sizeof(disordered[0]); i++)
                CHECK(failed(checks(disordered[i]), CLOCHE_E_PROTOCOL, "JavaScript's order"),
                      "not in JavaScript's order: %s", disordered[i]);
        for (size_t i = 0; i < sizeof(ordered) / sizeof(ordered[0]); i++)
                CHECK(checks(ordered[i]) == 0, "in JavaScript's order: %s", ordered[i]);
        CHECK(failed(checks("[0,{\"a\":[" REF(3) "]}]"), CLOCHE_E_PROTOCOL, "$[1].a[0]: a reference"),
              "the path of a reference");
        CHECK(failed(checks("[" REF(0.0) "]"), CLOCHE_E_PROTOCOL, "integer"), "a reference that is a float");
        CHECK(failed(checks("{\"$\":\"map\",\"v\":[[1,2],[\"a\",3],[\"a\",4]]}"), CLOCHE_E_PROTOCOL,
                     "$[2]: this key is there twice"),
              "the path of a key that is there twice");
        CHECK(checks("{\"$\":\"map\",\"v\":[[\"1\",1],[1,1],[[\"1\"],1],[[\"1\"],1]]}") == 0,
              "other keys may look the same");
}

/* -- messages ------------------------------------------------------------------------------------------------- */

static int parses(const char *text, struct rpc_message *ret)
{
        struct frame f = {.json = text, .json_size = strlen(text), .attachments = (const unsigned char *)""};

        return rpc_parse(&f, ret, &err);
}

static void test_rpc_good(void)
{
        struct rpc_message m;

        CHECK(parses("{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"call\",\"params\":{\"a\":1}}", &m) == 0 &&
                      m.kind == RPC_REQUEST && json_integer_value(m.id) == 7 && strcmp(m.method, "call") == 0 &&
                      json_object_size(m.params) == 1 && !m.result && !m.error,
              "a request");
        rpc_message_done(&m);
        CHECK(parses("{\"jsonrpc\":\"2.0\",\"method\":\"log\",\"params\":[1]}", &m) == 0 &&
                      m.kind == RPC_NOTIFICATION && !m.id,
              "a notification");
        rpc_message_done(&m);
        CHECK(parses("{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"result\":null}", &m) == 0 && m.kind == RPC_RESULT &&
                      json_is_null(m.result) && !m.method,
              "a result of null");
        rpc_message_done(&m);
        CHECK(parses("{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32000,\"message\":\"no\",\"data\":{}}}", &m) ==
                              0 &&
                      m.kind == RPC_ERROR && m.error_code == -32000 && strcmp(m.error_message, "no") == 0,
              "an error");
        rpc_message_done(&m);
        CHECK(parses("{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"\"}}", &m) == 0 &&
                      m.kind == RPC_ERROR,
              "an error without an id");
        rpc_message_done(&m);
        rpc_message_done(&m);
        CHECK(!m.root, "done twice");
}

static void test_rpc_bad(void)
{
        static const char *const rows[] = {
                "",
                "1",
                "[]",
                "{}",
                "[{\"jsonrpc\":\"2.0\",\"method\":\"a\"}]",
                "{\"method\":\"a\"}",
                "{\"jsonrpc\":2.0,\"method\":\"a\"}",
                "{\"jsonrpc\":\"1.0\",\"method\":\"a\"}",
                "{\"jsonrpc\":\"2.0\\u0000\",\"method\":\"a\"}",
                "{\"jsonrpc\":\"2.0\"}",
                "{\"jsonrpc\":\"2.0\",\"id\":1}",
                "{\"jsonrpc\":\"2.0\",\"method\":1}",
                "{\"jsonrpc\":\"2.0\",\"method\":null}",
                "{\"jsonrpc\":\"2.0\",\"method\":\"a\\u0000b\"}",
                "{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"params\":1}",
                "{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"params\":null}",
                "{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"id\":null}",
                "{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"id\":1.5}",
                "{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"id\":{}}",
                "{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"id\":true}",
                "{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"id\":1,\"result\":1}",
                "{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"error\":{\"code\":1,\"message\":\"\"}}",
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1,\"error\":{\"code\":1,\"message\":\"\"}}",
                "{\"jsonrpc\":\"2.0\",\"result\":1}",
                "{\"jsonrpc\":\"2.0\",\"id\":null,\"result\":1}",
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":null}",
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":\"no\"}",
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{}}",
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":1}}",
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":\"1\",\"message\":\"\"}}",
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":2147483648,\"message\":\"\"}}",
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-9223372036854775808,\"message\":\"\"}}",
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"a\"}",
                "{\"jsonrpc\":\"2.0\",\"method\":\"a\"} x",
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct rpc_message m = {0};

                CHECK(failed(parses(rows[i], &m), CLOCHE_E_PROTOCOL, "m") && !m.root, "no message: %s", rows[i]);
        }
}

/* Read the one frame of out as a message; its attachments must be these. */
static int reads(struct buf *out, const char *attachments, struct rpc_message *ret)
{
        struct frame_reader reader;
        struct frame f;
        size_t room;
        char *to;
        int good;

        frame_reader_init(&reader, MIB);
        to = frame_reader_room(&reader, &room);
        if (!to || out->size > room)
                abort();
        memcpy(to, out->data, out->size);
        frame_reader_filled(&reader, out->size);
        good = frame_reader_next(&reader, &f, &err) == 1 && f.attachments_size == strlen(attachments) &&
               memcmp(f.attachments, attachments, f.attachments_size) == 0 && rpc_parse(&f, ret, &err) == 0;
        frame_reader_done(&reader);
        out->size = 0;
        return good;
}

static void test_rpc_build(void)
{
        _cleanup_buf_ struct buf out = BUF_INIT(MIB), small = BUF_INIT(20);
        struct rpc_message m = {0};

        CHECK(rpc_request(json_integer(1), "call", parse("{\"s\":\"a\\u0000ä\"}"), "xyz", 3, &out, &err) == 0 &&
                      reads(&out, "xyz", &m) && m.kind == RPC_REQUEST &&
                      json_string_length(json_object_get(m.params, "s")) == 4,
              "a request there and back");
        rpc_message_done(&m);
        CHECK(rpc_notify("log", NULL, NULL, 0, &out, &err) == 0 && reads(&out, "", &m) && m.kind == RPC_NOTIFICATION &&
                      !m.params,
              "a notification there and back");
        rpc_message_done(&m);
        CHECK(failed(rpc_request(json_integer(1), "call", json_object(), NULL, 0, &small, &err), CLOCHE_E_TOO_LARGE,
                     "room") &&
                      small.size == 0,
              "a request over the buffer's maximum");
        CHECK(rpc_result(json_string("a"), json_null(), "b", 1, &out, &err) == 0 && reads(&out, "b", &m) &&
                      m.kind == RPC_RESULT && json_is_null(m.result),
              "a result there and back");
        rpc_message_done(&m);
        CHECK(rpc_error(json_integer(9), -32601, "there is no method \"x\"", NULL, &out, &err) == 0 &&
                      reads(&out, "", &m) && m.kind == RPC_ERROR && m.error_code == -32601 &&
                      !json_object_get(m.error, "data"),
              "an error there and back");
        rpc_message_done(&m);
        CHECK(rpc_error(NULL, -32700, "not JSON", parse("{\"at\":3}"), &out, &err) == 0 && reads(&out, "", &m) &&
                      json_is_null(m.id) && json_is_object(json_object_get(m.error, "data")),
              "an error for a request that could not be read");
        rpc_message_done(&m);
}

int main(void)
{
        test_base64();
        test_frame_vectors();
        test_room_for_a_head();
        test_frame_limits();
        test_json_of_nothing();
        test_json_depth();
        test_json_text();
        test_json_human();
        test_valid_vectors("values.json");
        test_valid_vectors("rich.json");
        test_invalid_vectors("invalid.json");
        test_invalid_vectors("invalid-rich.json");
        test_invalid_vectors("invalid-text.json");
        test_paths();
        test_paths_are_text();
        test_ranges();
        test_amplification();
        test_attachment_count();
        test_text_limits();
        test_held();
        test_depth();
        test_single_values();
        test_references();
        test_rpc_good();
        test_rpc_bad();
        test_rpc_build();
        return tap_done();
}
