/* Dockerfiles, their words and variables: all that a build reads from the file. */
#include "cli/build/dockerfile.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A value with all signs, which are not read again. */
static const char *look_up(void *data, const char *name)
{
        (void)data;
        return strcmp(name, "A") == 0 ? "$A ${A} '\"\\" : strcmp(name, "E") == 0 ? "" : NULL;
}

static void read_words(const char *text)
{
        struct cloche_err e;
        json_t *words = NULL;
        char *expanded = NULL;

        if (docker_split(text, &words, &e) == 0)
                for (size_t i = 0; i < json_array_size(words); i++) {
                        if (docker_expand(json_string_value(json_array_get(words, i)), look_up, NULL, &expanded, &e) ==
                            0)
                                free(expanded);
                        else if (!e.code)
                                abort();
                }
        json_decref(words);
}

/* Rows of ONBUILD that were read can be carried out later. */
static void insert_triggers(struct dockerfile *file)
{
        struct cloche_err e = {0};

        for (size_t i = file->count; i > 0; i--)
                if (file->steps[i - 1].word == DOCKER_ONBUILD && file->count < DOCKERFILE_STEPS_MAX &&
                    dockerfile_insert(file, i - 1, file->steps[i - 1].text, "Dockerfile", &e) < 0)
                        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        char *text = malloc(size + 1);
        struct dockerfile file;
        struct cloche_err e = {0};

        if (!text)
                return 0;
        memcpy(text, data, size);
        if (dockerfile_read(text, size, "Dockerfile", &file, &e) == 0) {
                for (size_t i = 0; i < file.count; i++) {
                        if (!file.steps[i].text || !*file.steps[i].text || file.steps[i].word >= DOCKER_WORDS)
                                abort();
                        read_words(file.steps[i].text);
                }
                insert_triggers(&file);
        } else if (e.code == 0 || !*e.msg) {
                abort();
        }
        dockerfile_done(&file);
        free(text);
        return 0;
}
