/* given-changes TARGET SET CHANGES: saves in the directory SET the changes listed by the caller,
 * beneath /workspace/m, which is TARGET of the host. */
#include <cloche/cloche.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
        const char *const roots[] = {argc == 4 ? argv[1] : "/"};
        const struct cloche_engine_options options = {
                .libexec_dir = getenv("CLOCHE_LIBEXEC"),
                .runtimes_dir = getenv("CLOCHE_RUNTIMES"),
                .mount_roots = roots,
                .mount_root_count = 1,
        };
        cloche_engine *engine = NULL;
        cloche_changeset *set = NULL;
        struct cloche_err e = {0};
        char mount[4200];
        int set_fd = argc == 4 ? open(argv[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
        int r = set_fd < 0 ? -1 : cloche_engine_new(&options, &engine, &e);

        if (r == 0) {
                snprintf(mount, sizeof(mount), "{\"dirs\":{\"/workspace/m\":\"%s\"}}", argv[1]);
                r = cloche_changeset_from_json(engine, argv[3], mount, &set, &e);
        }
        if (r == 0)
                r = cloche_changeset_save(set, set_fd, &e);
        if (r < 0)
                fprintf(stderr, "given-changes: %s\n", e.msg);
        cloche_changeset_free(set);
        cloche_engine_free(engine);
        return r < 0;
}
