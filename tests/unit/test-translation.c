/* Translations are asked for when code comes again, kept within bounds, and those of one template. */
#include "engine/warm/translation.h"
#include "tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct translation_use use(struct translations *all, const char *filename, const char *code)
{
        struct translation_use found;

        CHECK(translation_use(all, "call", filename, code, strlen(code), &found, NULL) == 0, "looked up");
        return found;
}

static int tell(struct translations *all, struct translation_use *of, json_t *translation, const char *bytes,
                size_t size)
{
        struct rpc_message m = {.params = json_pack("{s:o*}", "translation", translation)};
        const struct frame f = {.attachments = (const unsigned char *)bytes, .attachments_size = size};
        int r = translation_on_told(all, of, &m, &f, NULL);

        json_decref(m.params);
        return r;
}

static int tell_bytes(struct translations *all, struct translation_use *of, const char *bytes, size_t size)
{
        return tell(all, of, json_pack("{s:s, s:i, s:I}", "$", "bytes", "at", 0, "n", (json_int_t)size), bytes, size);
}

static void test_from_the_second_time_on(void)
{
        struct translations all;
        struct translation_use found;

        translations_init(&all);
        found = use(&all, "main.ts", "a");
        CHECK(!found.param && !found.is_requested, "the first time nothing is asked");
        found = use(&all, "main.ts", "a");
        CHECK(json_is_true(found.param) && found.is_requested, "the second time it is asked for");
        CHECK(tell_bytes(&all, &found, "text", 4) == 0 && !found.is_requested && all.bytes == 4, "it is told once");
        translation_use_done(&found);
        found = use(&all, "main.ts", "a");
        CHECK(json_is_object(found.param) && !found.is_requested, "the third time it is there");
        translation_use_done(&found);
        CHECK(!use(&all, "other.ts", "a").param && !use(&all, "main.ts", "b").param, "of that code and name only");
        translations_done(&all);
        CHECK(all.count == 0 && all.bytes == 0, "all are freed");
}

static void test_none(void)
{
        struct translations all;
        struct translation_use found;

        translations_init(&all);
        (void)use(&all, "main.ts", "a");
        found = use(&all, "main.ts", "a");
        CHECK(tell(&all, &found, json_null(), NULL, 0) == 0, "none is told");
        found = use(&all, "main.ts", "a");
        CHECK(!found.param && !found.is_requested, "and not asked for again");
        (void)use(&all, "main.ts", "b");
        found = use(&all, "main.ts", "b");
        CHECK(tell(&all, &found, NULL, NULL, 0) == -CLOCHE_E_PROTOCOL, "nothing is no answer");
        found = use(&all, "main.ts", "b");
        CHECK(tell(&all, &found, json_pack("{s:s, s:i, s:i}", "$", "bytes", "at", 0, "n", 9), "four", 4) < 0,
              "nor is what the frame does not have");
        (void)use(&all, "main.ts", "c");
        found = use(&all, "main.ts", "c");
        CHECK(tell(&all, &found, json_string("text"), NULL, 0) == -CLOCHE_E_PROTOCOL, "nor is a text");
        translations_done(&all);
}

static void test_bounds(void)
{
        static char large[TRANSLATED_CODE_BYTES_MAX + 2], bytes[TRANSLATION_BYTES_MAX + 1];
        struct translations all, other;
        struct translation_use found;
        char code[32];

        translations_init(&all);
        translations_init(&other);
        for (int i = 0; i < 3 * TRANSLATIONS_MAX; i++) {
                snprintf(code, sizeof(code), "%d", i);
                (void)use(&all, "main.ts", code);
                found = use(&all, "main.ts", code);
                CHECK(tell_bytes(&all, &found, bytes, sizeof(bytes) - 1) == 0, "told");
        }
        CHECK(all.count <= TRANSLATIONS_MAX && all.bytes <= TRANSLATIONS_BYTES_MAX, "%u texts of %zu bytes", all.count,
              all.bytes);
        found = use(&all, "main.ts", code);
        CHECK(json_is_object(found.param), "the latest stays");
        translation_use_done(&found);
        CHECK(!use(&all, "main.ts", "0").param, "the longest unused is gone");

        (void)use(&all, "main.ts", "large");
        found = use(&all, "main.ts", "large");
        CHECK(tell_bytes(&all, &found, bytes, sizeof(bytes)) == 0, "too large a translation is dropped");
        found = use(&all, "main.ts", "large");
        CHECK(!found.param, "and not asked for again");

        memset(large, 'a', sizeof(large) - 1);
        (void)use(&all, "main.ts", large);
        CHECK(!use(&all, "main.ts", large).param, "long code is translated each time");

        translations_move(&all, &other);
        found = use(&other, "main.ts", code);
        CHECK(all.count == 0 && all.bytes == 0 && json_is_object(found.param), "they move with their template");
        translation_use_done(&found);
        translations_done(&all);
        translations_done(&other);
}

int main(void)
{
        test_from_the_second_time_on();
        test_none();
        test_bounds();
        return tap_done();
}
