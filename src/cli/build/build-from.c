/* FROM: images of the store, stages, and debian:SUITE, which mmdebstrap makes of the sources of
 * this machine's apt if the store has none. Runs in: the CLI, as its user. */
#include "box.h"

#include "cli/output/signals.h"
#include "cli/run/debian-image.h"

#include "base/array.h"
#include "base/err.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define NAME "debian"
#define SUITE_WITHOUT_TAG "stable"
#define SUITE_BYTES 64

/* The last part of a tag, and the set of packages of mmdebstrap that it means. */
static const struct {
        const char *ending, *variant;
        int is_slim;
} variants[] = {{"-slim", "minbase", 1},
                {"-essential", "essential", 0},
                {"-buildd", "buildd", 0},
                {"-important", "important", 0},
                {"-standard", "standard", 0}};

static int is_debian_name(const char *image)
{
        const size_t size = strlen(NAME);

        return strncmp(image, NAME, size) == 0 && (!image[size] || (image[size] == ':' && image[size + 1]));
}

/* Cut the variant off the suite. */
static void take_variant(char *suite, struct debian_image *ret)
{
        for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++) {
                const size_t size = strlen(suite), ending = strlen(variants[i].ending);

                if (size <= ending || strcmp(suite + size - ending, variants[i].ending) != 0)
                        continue;
                suite[size - ending] = '\0';
                ret->variant = variants[i].variant;
                ret->is_slim = variants[i].is_slim;
                return;
        }
}

static int make(struct build *b, const char *image)
{
        const char *tag = strchr(image, ':');
        char suite[SUITE_BYTES], time[24];
        struct debian_image made = {.name = image,
                                    .suite = suite,
                                    .sources = b->request->debian.sources,
                                    .only_suite = 1,
                                    .is_silent = 1};
        int code;

        /* The day is in /etc/shadow. */
        snprintf(time, sizeof(time), "%lld", (long long)b->time);
        made.time = b->time >= 0 ? time : NULL;
        snprintf(suite, sizeof(suite), "%s", tag ? tag + 1 : SUITE_WITHOUT_TAG);
        take_variant(suite, &made);
        if (!b->request->json)
                fprintf(stderr, "cloche: [%zu/%zu] FROM %s: mmdebstrap makes it of the suite %s\n", b->at + 1,
                        b->file.count, image, suite);
        code = debian_image_make(b->request, &made);
        if (code != 0 && code != SIGNALS_CANCELLED)
                (void)build_bad(b, "the image '%.100s' is not in the store, and was not made: the reason stands above",
                                image);
        return code;
}

/* mmdebstrap gets the signals that cancel the build; then they are the build's again. */
static int make_debian(struct build *b, const char *image)
{
        static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
        struct sigaction before[sizeof(numbers) / sizeof(numbers[0])];
        int code;

        for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
                sigaction(numbers[i], NULL, &before[i]);
        code = make(b, image);
        for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
                sigaction(numbers[i], &before[i], NULL);
        return code;
}

/* -- images and stages ------------------------------------------------------------------------------------------ */

static const char *look_up_before(void *data, const char *name)
{
        return json_string_value(json_object_get(((struct build *)data)->args, name));
}

static const char *look_up_platform(void *data, const char *name)
{
        const char *value = look_up_before(data, name);

        return value                                                                       ? value
               : strcmp(name, "BUILDPLATFORM") == 0 || strcmp(name, "TARGETPLATFORM") == 0 ? "linux/" BUILD_ARCHITECTURE
                                                                                           : NULL;
}

static const struct stage *find_stage(const struct build *b, const char *name)
{
        for (size_t i = b->stage_count; i > 0; i--)
                if (b->stages[i - 1].name && strcasecmp(b->stages[i - 1].name, name) == 0)
                        return &b->stages[i - 1];
        return NULL;
}

static char *copy_text(const json_t *object, const char *name)
{
        const char *text = json_string_value(json_object_get(object, name));

        return strdup(text ? text : "");
}

int build_take_image(struct stage *stage, const json_t *image)
{
        char *id = copy_text(image, "id"), *tree = copy_text(image, "tree");

        free(stage->id);
        free(stage->tree);
        stage->id = id;
        stage->tree = tree;
        return id && tree ? 0 : cli_bad("%s", strerror(ENOMEM));
}

static int inspect(struct build *b, const char *name, json_t **ret, struct cloche_err *e)
{
        return image_store_ask(b->request, &b->store, "inspect", json_pack("{s:s}", "name", name), ret, e);
}

/* An image of Debian that the store lacks is made; with --pull others too, once a build. */
static int find_image(struct build *b, const char *name, json_t **ret)
{
        const int is_debian = is_debian_name(name);
        int is_missing = is_debian && b->request->build.is_pulled && !json_object_get(b->pulled, name), code = 0;
        struct cloche_err e = {0};

        if (!is_missing)
                code = inspect(b, name, ret, &e);
        if (code && e.code == CLOCHE_E_NOT_FOUND && is_debian)
                is_missing = 1;
        if (is_missing) {
                e = (struct cloche_err){0};
                code = make_debian(b, name);
                if (code == 0 && json_object_set_new(b->pulled, name, json_true()) == 0)
                        code = inspect(b, name, ret, &e);
        }
        return e.code ? build_fail(b, &e) : code;
}

static int begin_image(struct build *b, struct stage *stage, const char *image)
{
        json_t *answer = NULL, *made = NULL;
        struct cloche_err e = {0};
        int is_scratch = strcmp(image, "scratch") == 0,
            code = is_scratch ? image_store_ask(b->request, &b->store, "commit", json_pack("{s:s}", "base", image),
                                                &made, &e)
                              : 0;

        if (e.code)
                code = build_fail(b, &e);
        if (code == 0)
                code = find_image(b, is_scratch ? sandbox_text(made, "id") : image, &answer);
        json_decref(made);
        if (code)
                return code;
        code = build_take_image(stage, answer);
        stage->config = json_deep_copy(json_object_get(answer, "config"));
        snprintf(stage->key, sizeof(stage->key), "%.64s", code ? "" : stage->id + strcspn(stage->id, ":") + 1);
        json_decref(answer);
        return code ? code : stage->config ? 0 : build_no_memory(b);
}

static int begin_stage(struct build *b, const char *image, const char *name)
{
        const struct stage *below = find_stage(b, image);
        struct stage stage = {.args = json_object(), .name = name ? strdup(name) : NULL};
        int code = 0;

        if (!below)
                code = begin_image(b, &stage, image);
        else {
                stage.id = strdup(below->id);
                stage.tree = strdup(below->tree);
                stage.config = json_deep_copy(below->config);
                memcpy(stage.key, below->key, sizeof(stage.key));
        }
        if (ARRAY_GROW(b->stages, b->stage_count, b->stage_room) < 0)
                code = build_no_memory(b);
        else
                b->stages[b->stage_count++] = stage;
        if (code == 0) { /* of the image below alone: those of this one are for images on it */
                json_decref(b->triggers);
                b->triggers = json_incref(json_object_get(stage.config, "onBuild"));
                json_object_del(stage.config, "onBuild");
        }
        return code;
}

/* The instructions that the image below has for those on it come next. They are the image's
 * author's, and bounded like a Dockerfile. */
int build_insert_triggers(struct build *b)
{
        json_t *triggers = b->triggers;
        struct cloche_err e = {0};
        int r = 0;

        b->triggers = NULL;
        for (size_t i = json_array_size(triggers); r == 0 && i > 0; i--) {
                const char *text = json_string_value(json_array_get(triggers, i - 1));

                r = dockerfile_insert(&b->file, b->at, text ? text : "", b->path, &e);
        }
        json_decref(triggers);
        return r < 0 ? sandbox_fail(&e) : 0;
}

/* Images of other machines are in no store. */
static int check_platform(struct build *b, const struct docker_step *step)
{
        const char *given = docker_flag(step, "platform"), own[] = "linux/" BUILD_ARCHITECTURE;
        struct cloche_err e = {0};
        char *platform = NULL;
        int code = given && docker_expand(given, look_up_platform, b, &platform, &e) < 0 ? build_fail(b, &e) : 0;

        if (code == 0 && platform && *platform && strcmp(platform, own) != 0)
                code = build_bad(b, "--platform=%.60s: this machine is %s", platform, own);
        free(platform);
        return code;
}

/* IMAGE [AS NAME]; only ARGs before the first FROM count. */
int build_from(struct build *b, const struct docker_step *step)
{
        struct cloche_err e = {0};
        json_t *words = NULL;
        char *image = NULL;
        int code = check_platform(b, step);
        size_t count;

        if (code == 0)
                code = docker_split(step->text, &words, &e) < 0 ? build_fail(b, &e) : 0;
        count = json_array_size(words);

        if (code == 0 && count != 1 &&
            (count != 3 || strcasecmp(json_string_value(json_array_get(words, 1)), "as") != 0))
                code = build_bad(b, "expected IMAGE, or IMAGE AS NAME");
        if (code == 0 && docker_expand(json_string_value(json_array_get(words, 0)), look_up_before, b, &image, &e) < 0)
                code = build_fail(b, &e);
        if (code == 0 && !*image)
                code = build_bad(b, "the name of the image is empty: give the ARG a value (--build-arg)");
        if (code == 0)
                code = begin_stage(b, image, json_string_value(json_array_get(words, 2)));
        free(image);
        json_decref(words);
        return code;
}
