/* The reader of Dockerfiles: instructions for images above, flags, lines of errors. */
#include "cli/build/dockerfile.h"
#include "tap.h"

#include <string.h>

static void test_reading(void)
{
        static const struct {
                const char *text;
                const char *error; /* a part of it; NULL: none */
        } rows[] = {
                {"FROM a\nONBUILD RUN x", NULL},
                {"FROM a\nonbuild copy --from=b x \\\n y", NULL},
                {"FROM a\nONBUILD ONBUILD RUN x", "f:2: ONBUILD ONBUILD: it stands once"},
                {"FROM a\nONBUILD onBuild FROM x", "f:2: ONBUILD ONBUILD: it stands once"},
                {"FROM a\n\nONBUILD FROM x", "f:3: ONBUILD FROM is not permitted"},
                {"FROM a\nONBUILD MAINTAINER x", "f:2: ONBUILD MAINTAINER is not permitted"},
                {"FROM a\nONBUILD", "f:2: ONBUILD needs a value"},
                {"FROM a\nONBUILD RUN", "f:2: RUN needs a value"},
                {"FROM a\nONBUILD # x", "f:2: ONBUILD: expected an instruction"},
                {"FROM a\nONBUILD RUN <<E\nx\nE", "f:2: the here document 'E' is not closed"},
                {"FROM a\nONBUILD RUN --what=x y", "f:2: RUN --what is not supported"},
                {"FROM a\nONBUILD WHAT x", "f:2: 'WHAT' is no instruction"},
                {"ONBUILD RUN x\nFROM a", "f:1: ONBUILD stands before FROM"},
                {"FROM a\nRUN --network=none --mount=type=cache,target=/x y", NULL},
                {"FROM a\nRUN --network y", "f:2: RUN --network: expected a value"},
                {"FROM a\nCOPY --network=none x y", "f:2: COPY --network is not supported"},
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct dockerfile file;
                struct cloche_err e = {0};
                int r = dockerfile_read(rows[i].text, strlen(rows[i].text), "f", &file, &e);

                CHECK(rows[i].error ? r < 0 && strstr(e.msg, rows[i].error) != NULL : r == 0, "row %zu: %s", i, e.msg);
                dockerfile_done(&file);
        }
}

static void test_insertion(void)
{
        static const char text[] = "FROM a\n\nFROM b\nRUN last";
        static const char *const bad[] = {"", "#", "FROM x", "ONBUILD RUN x", "RUN a\nRUN b", "RUN <<E", "\\"};
        struct dockerfile file;
        struct cloche_err e = {0};
        int r = dockerfile_read(text, sizeof(text) - 1, "f", &file, &e);

        CHECK(r == 0 && file.count == 3, "three steps");
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                e = (struct cloche_err){0};
                CHECK(dockerfile_insert(&file, 1, bad[i], "f", &e) < 0 && strncmp(e.msg, "f:3: ", 5) == 0 &&
                              file.count == 3,
                      "row %zu is refused: %s", i, e.msg);
        }
        CHECK(dockerfile_insert(&file, 1, "RUN second", "f", &e) == 0 &&
                      dockerfile_insert(&file, 1, "ENV A=1", "f", &e) == 0,
              "two are inserted");
        CHECK(file.count == 5 && file.steps[2].word == DOCKER_ENV && file.steps[3].word == DOCKER_RUN &&
                      strcmp(file.steps[3].text, "second") == 0 && strcmp(file.steps[4].text, "last") == 0,
              "behind the step, the last one first");
        CHECK(file.steps[2].line == 3 && file.steps[4].line == 4, "they have its line");
        CHECK(dockerfile_insert(&file, 4, "CMD [\"x\"]", "f", &e) == 0 && file.steps[5].word == DOCKER_CMD &&
                      json_array_size(file.steps[5].list) == 1,
              "one at the end");
        for (r = 0; r == 0;)
                r = dockerfile_insert(&file, 0, "ENV A=1", "f", &e);
        CHECK(file.count == DOCKERFILE_STEPS_MAX && strstr(e.msg, "more than 1000 instructions"), "there is a maximum");
        dockerfile_done(&file);
}

int main(void)
{
        test_reading();
        test_insertion();
        return tap_done();
}
