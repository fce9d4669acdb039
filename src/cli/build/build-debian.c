/* FROM debian:SUITE, when the store has no image of that name: mmdebstrap makes it, from the
 * sources of this machine's apt. Runs in: the CLI, as its user. */
#include "build.h"

#include "cli/output/signals.h"
#include "cli/run/debian-image.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

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

int build_is_debian(const char *image)
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
        char suite[SUITE_BYTES];
        struct debian_image made = {.name = image,
                                    .suite = suite,
                                    .sources = b->request->debian.sources,
                                    .only_suite = 1,
                                    .is_silent = 1};
        int code;

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
int build_make_debian(struct build *b, const char *image)
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
