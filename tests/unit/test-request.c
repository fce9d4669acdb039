/* The keeper's interface: requests that it refuses before any action. */
#include "keeper/request.h"
#include "tap.h"

#include <string.h>

static struct keeper_request make_request(void)
{
        static struct keeper_request request;

        memset(&request, 0, sizeof(request));
        request.op = KEEPER_BOX_MAKE;
        request.spec.parent = KEEPER_NO_BOX;
        request.spec.shared_with = KEEPER_NO_BOX;
        request.spec.user = jail_user_default();
        memset(&request.spec.limits, 0xff, sizeof(request.spec.limits));
        return request;
}

static int check(const struct keeper_request *request, struct cloche_err *e)
{
        return keeper_request_check(request, sizeof(*request), e);
}

static void test_sizes(void)
{
        struct keeper_request request = make_request();
        struct cloche_err e = {0};

        CHECK(check(&request, &e) == 0, "a request without limits is taken: %s", e.msg);
        CHECK(keeper_request_check(&request, sizeof(request) - 1, &e) == -CLOCHE_E_PROTOCOL,
              "a short packet is refused: %s", e.msg);
        CHECK(keeper_request_check(&request, 0, &e) == -CLOCHE_E_PROTOCOL, "an empty packet is refused");
        request.op = KEEPER_OP_COUNT;
        CHECK(check(&request, &e) == -CLOCHE_E_PROTOCOL, "an unknown request is refused: %s", e.msg);
        request.op = UINT32_MAX;
        CHECK(check(&request, &e) == -CLOCHE_E_PROTOCOL, "and a far one");
        request.op = KEEPER_BOX_DROP;
        CHECK(keeper_request_check(&request, KEEPER_REQUEST_HEAD, &e) == 0,
              "another request than for a box is its head: %s", e.msg);
        CHECK(check(&request, &e) == -CLOCHE_E_PROTOCOL, "and nothing more: %s", e.msg);
}

static void test_roots(void)
{
        struct keeper_request request = make_request();
        struct cloche_err e = {0};

        request.spec.is_sandbox = request.spec.has_root = 1;
        memset(request.spec.image, '0', sizeof(KEEPER_TREE_PREFIX) - 1 + KEEPER_TREE_DIGITS);
        memcpy(request.spec.image, KEEPER_TREE_PREFIX, sizeof(KEEPER_TREE_PREFIX) - 1);
        CHECK(check(&request, &e) == -CLOCHE_E_INVALID_ARGUMENT, "root has a writable root: %s", e.msg);
        request.spec.has_writable_root = 1;
        CHECK(check(&request, &e) == 0, "and then it is taken: %s", e.msg);
        request.spec.has_root = 2;
        CHECK(check(&request, &e) == -CLOCHE_E_PROTOCOL, "a flag is 0 or 1: %s", e.msg);
}

static void test_parents(void)
{
        struct keeper_request request = make_request();
        struct cloche_err e = {0};

        request.spec.parent = 7;
        CHECK(check(&request, &e) == -CLOCHE_E_INVALID_ARGUMENT, "a box beneath a template has its user: %s", e.msg);
        request.spec.user = (struct jail_user){0};
        CHECK(check(&request, &e) == 0, "a box beneath a template is asked for: %s", e.msg);
        strcpy(request.spec.image, "/image");
        CHECK(check(&request, &e) == -CLOCHE_E_INVALID_ARGUMENT, "but not with an image: %s", e.msg);
        request.spec.is_template = 2;
        CHECK(check(&request, &e) == -CLOCHE_E_PROTOCOL, "a flag is 0 or 1: %s", e.msg);
}

static void test_users(void)
{
        static const struct jail_user good[] = {
                {1001, 0, "app", "/home/app"},
                {JAIL_ID_MAX, JAIL_ID_MAX, "a", "/home/b.c_d-E"},
                {65534, 65534, "nobody", JAIL_HOME},
        };
        static const struct jail_user bad[] = {
                {0, 0, "root", JAIL_HOME},
                {0, 1000, "root", JAIL_HOME},
                {JAIL_ID_MAX + 1, 1, "app", JAIL_HOME},
                {1, UINT32_MAX, "app", JAIL_HOME},
                {1001, 1001, "", JAIL_HOME},
                {1001, 1001, "a:b", JAIL_HOME},
                {1001, 1001, "a\tb", JAIL_HOME},
                {1001, 1001, "a\nb", JAIL_HOME},
                {1001, 1001, "..", JAIL_HOME},
                {1001, 1001, "app", "/home/.."},
                {1001, 1001, "app", "/home/a/b"},
                {1001, 1001, "app", "/home/"},
                {1001, 1001, "app", "/root"},
                {1001, 1001, "app", "home/app"},
                {1001, 1001, "app", ""},
        };
        struct keeper_request request = make_request();
        struct cloche_err e = {0};

        for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
                request.spec.user = good[i];
                CHECK(check(&request, &e) == 0, "a box shows %u:%u: %s", good[i].uid, good[i].gid, e.msg);
        }
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                request.spec.user = bad[i];
                CHECK(check(&request, &e) < 0, "not %u:%u, row %zu: %s", bad[i].uid, bad[i].gid, i, e.msg);
        }
        request = make_request();
        memset(request.spec.user.name, 'a', sizeof(request.spec.user.name));
        CHECK(check(&request, &e) == -CLOCHE_E_PROTOCOL, "an unterminated name is refused: %s", e.msg);
        request = make_request();
        memset(request.spec.user.home + strlen("/home/"), 'a', sizeof(request.spec.user.home) - strlen("/home/"));
        CHECK(check(&request, &e) == -CLOCHE_E_PROTOCOL, "an unterminated home too: %s", e.msg);
        request = make_request();
        request.spec.shared_with = 3;
        CHECK(check(&request, &e) == -CLOCHE_E_INVALID_ARGUMENT, "a box beside a sandbox's has its user: %s", e.msg);
}

static void test_paths(void)
{
        struct keeper_request request = make_request();
        struct cloche_err e = {0};

        strcpy(request.spec.image, "relative/image");
        CHECK(check(&request, &e) == -CLOCHE_E_INVALID_ARGUMENT, "a relative image is refused: %s", e.msg);
        request = make_request();
        memset(request.spec.runtime_dir, '/', sizeof(request.spec.runtime_dir));
        CHECK(check(&request, &e) == -CLOCHE_E_PROTOCOL, "an unterminated path is refused: %s", e.msg);
}

#define TREE "sha256-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void test_trees(void)
{
        static const char *const bad[] = {
                "sha256-",
                "sha256",
                "sha512-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
                "sha256-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde",
                TREE "0",
                TREE "/",
                TREE "/..",
                TREE "\t",
                "./" TREE,
                "../trees/" TREE,
                " " TREE,
                TREE " ",
                "..",
                ".",
                "image",
                "python:3.11",
                "sha256-0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF",
                "sha256-../../../../../../../../../../../../../../../../../../../../../etc",
                "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
                "SHA256-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        };
        struct keeper_request request = make_request();
        struct cloche_err e = {0};

        strcpy(request.spec.image, TREE);
        CHECK(check(&request, &e) == 0, "an image from the store is requested: %s", e.msg);
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                strcpy(request.spec.image, bad[i]);
                CHECK(check(&request, &e) == -CLOCHE_E_INVALID_ARGUMENT, "'%s' is refused: %s", bad[i], e.msg);
        }
        strcpy(request.spec.image, TREE);
        request.spec.parent = 7;
        CHECK(check(&request, &e) == -CLOCHE_E_INVALID_ARGUMENT, "beneath a template too: %s", e.msg);
        request = make_request();
        strcpy(request.spec.image, TREE);
        request.spec.shared_with = 3;
        CHECK(check(&request, &e) == -CLOCHE_E_INVALID_ARGUMENT, "beside a sandbox's box too: %s", e.msg);
        request = make_request();
        memset(request.spec.image, 'a', sizeof(request.spec.image));
        CHECK(check(&request, &e) == -CLOCHE_E_PROTOCOL, "an unterminated one is refused: %s", e.msg);
        request = make_request();
        strcpy(request.spec.runtime_dir, TREE);
        CHECK(check(&request, &e) == -CLOCHE_E_INVALID_ARGUMENT, "a runtime has none of these names: %s", e.msg);
}

/* files: a bit for each mount that is a file. */
static int check_places(const char *first, const char *second, uint32_t parent, uint32_t files, struct cloche_err *e)
{
        struct keeper_request request = make_request();

        request.spec.parent = parent;
        if (parent != KEEPER_NO_BOX)
                request.spec.user = (struct jail_user){0};
        request.spec.file_mounts = files;
        request.spec.mount_count = second ? 2 : 1;
        strcpy(request.spec.mounts[0], first);
        strcpy(request.spec.mounts[1], second ? second : "");
        return check(&request, e);
}

static int check_mounts(const char *first, const char *second, uint32_t parent, struct cloche_err *e)
{
        return check_places(first, second, parent, 0, e);
}

static int check_files(const char *first, const char *second, uint32_t files, struct cloche_err *e)
{
        return check_places(first, second, KEEPER_NO_BOX, files, e);
}

static void test_mounts(void)
{
        static const char *const bad[] = {"", "data", "/", "/data/", "//data", "/data/../etc", "/./data", "/data/.."};
        struct keeper_request request = make_request();
        struct cloche_err e = {0};

        CHECK(check_mounts("/data", "/workspace/a.b", KEEPER_NO_BOX, &e) == 0, "places of mounts are taken: %s", e.msg);
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
                CHECK(check_mounts(bad[i], NULL, KEEPER_NO_BOX, &e) == -CLOCHE_E_INVALID_ARGUMENT,
                      "'%s' is refused: %s", bad[i], e.msg);
        CHECK(check_mounts("/data", "/data/x", KEEPER_NO_BOX, &e) == 0, "a mount may lie in a mount: %s", e.msg);
        CHECK(check_mounts("/data/x", "/data", KEEPER_NO_BOX, &e) == 0, "the other way round too: %s", e.msg);
        CHECK(check_files("/data", "/data/x", 1, &e) == -CLOCHE_E_INVALID_ARGUMENT, "but not in one that is a file: %s",
              e.msg);
        CHECK(check_files("/data/x", "/data", 2, &e) == -CLOCHE_E_INVALID_ARGUMENT, "the other way round neither: %s",
              e.msg);
        CHECK(check_files("/data", "/data/x", 2, &e) == 0, "a file may lie in a directory: %s", e.msg);
        CHECK(check_mounts("/data", "/data", KEEPER_NO_BOX, &e) == -CLOCHE_E_INVALID_ARGUMENT,
              "and the same place twice");
        CHECK(check_mounts("/data", "/database", KEEPER_NO_BOX, &e) == 0, "a longer name is another place: %s", e.msg);
        CHECK(check_mounts("/workspace/x", NULL, 3, &e) == 0, "beneath a template what is writable has room: %s",
              e.msg);
        CHECK(check_mounts("/data", NULL, 3, &e) == -CLOCHE_E_INVALID_ARGUMENT, "nothing else: %s", e.msg);
        request.spec.mount_count = KEEPER_MOUNTS_MAX + 1;
        CHECK(check(&request, &e) == -CLOCHE_E_INVALID_ARGUMENT, "too many are refused: %s", e.msg);
        request = make_request();
        request.spec.mount_count = 1;
        memset(request.spec.mounts[0], '/', sizeof(request.spec.mounts[0]));
        CHECK(check(&request, &e) == -CLOCHE_E_PROTOCOL, "an unterminated place is refused: %s", e.msg);
        request = make_request();
        strcpy(request.spec.mounts[0], "/data");
        request.spec.mount_count = request.spec.is_template = 1;
        CHECK(check(&request, &e) == -CLOCHE_E_INVALID_ARGUMENT, "a template has none: %s", e.msg);
}

static void test_services(void)
{
        static struct keeper_request request;
        size_t size = keeper_request_size(KEEPER_SERVE);
        struct cloche_err e = {0};

        request.op = KEEPER_SERVE;
        strcpy(request.service.path, "a/b");
        CHECK(keeper_request_check(&request, size, &e) == 0, "a service is asked for: %s", e.msg);
        CHECK(keeper_request_check(&request, size - 1, &e) == -CLOCHE_E_PROTOCOL, "not with less: %s", e.msg);
        CHECK(keeper_request_check(&request, sizeof(request), &e) == -CLOCHE_E_PROTOCOL, "nor with more");
        strcpy(request.service.path, "/etc");
        CHECK(keeper_request_check(&request, size, &e) == -CLOCHE_E_INVALID_ARGUMENT, "an absolute path is refused: %s",
              e.msg);
        memset(request.service.path, 'x', sizeof(request.service.path));
        CHECK(keeper_request_check(&request, size, &e) == -CLOCHE_E_PROTOCOL, "an unterminated one too");
        request.service.path[0] = '\0';
        request.service.is_written = 1;
        CHECK(keeper_request_check(&request, size, &e) == 0, "one that is written to: %s", e.msg);
        request.service.is_written = 2;
        CHECK(keeper_request_check(&request, size, &e) == -CLOCHE_E_PROTOCOL, "that is yes or no: %s", e.msg);
        request.service.is_written = 0;
        request.service.service = KEEPER_SERVICE_NET;
        CHECK(keeper_request_check(&request, size, &e) == 0, "a network is asked for: %s", e.msg);
        strcpy(request.service.path, "a");
        CHECK(keeper_request_check(&request, size, &e) == -CLOCHE_E_INVALID_ARGUMENT, "not with a directory: %s",
              e.msg);
        request.service.path[0] = '\0';
        request.service.service = KEEPER_SERVICE_COUNT;
        CHECK(keeper_request_check(&request, size, &e) == -CLOCHE_E_PROTOCOL, "and another service: %s", e.msg);
}

static void test_limits(void)
{
        struct keeper_request request = make_request();
        struct cloche_err e = {0};

        request.spec.limits.memory_bytes = 1;
        CHECK(check(&request, &e) == -CLOCHE_E_INVALID_ARGUMENT, "too little memory is refused: %s", e.msg);
        CHECK(strstr(e.msg, "memory_bytes") != NULL, "and named");
        request = make_request();
        request.spec.limits.pids = UINT64_MAX - 1;
        CHECK(check(&request, &e) == -CLOCHE_E_INVALID_ARGUMENT, "too many tasks are refused: %s", e.msg);
        request = make_request();
        request.spec.limits.open_files = 1024;
        CHECK(check(&request, &e) == 0, "a limit in range is taken");
}

static void test_new_limits(void)
{
        struct keeper_request request = make_request();
        struct cloche_err e = {0};

        request.op = KEEPER_BOX_LIMIT;
        memset(&request.spec.limits, 0, sizeof(request.spec.limits));
        CHECK(check(&request, &e) == 0, "nothing need be changed: %s", e.msg);
        request.spec.limits.disk_bytes = 1;
        CHECK(check(&request, &e) == 0, "what cannot be changed is not looked at");
        request.spec.limits.pids = 1;
        CHECK(check(&request, &e) == -CLOCHE_E_INVALID_ARGUMENT && strstr(e.msg, "pids"),
              "too few tasks are refused: %s", e.msg);
        request.spec.limits.pids = UINT64_MAX;
        request.spec.limits.cpu_percent = UINT64_MAX - 1;
        CHECK(check(&request, &e) == -CLOCHE_E_INVALID_ARGUMENT && strstr(e.msg, "cpu_percent"),
              "and too much of the processor: %s", e.msg);
}

static void test_sandboxes(void)
{
        struct keeper_request request = make_request();
        struct cloche_err e = {0};

        request.spec.is_sandbox = 1;
        CHECK(check(&request, &e) == 0, "a sandbox is asked for: %s", e.msg);
        request.spec.is_sandbox = 2;
        CHECK(check(&request, &e) == -CLOCHE_E_PROTOCOL, "a flag is 0 or 1: %s", e.msg);
        request.spec.is_sandbox = request.spec.is_template = 1;
        CHECK(check(&request, &e) == -CLOCHE_E_INVALID_ARGUMENT, "it is no template: %s", e.msg);
        request = make_request();
        request.spec.shared_with = 3;
        request.spec.user = (struct jail_user){0};
        CHECK(check(&request, &e) == 0, "a box that shares is asked for: %s", e.msg);
        request.spec.parent = 3;
        CHECK(check(&request, &e) == 0, "beneath a template too: %s", e.msg);
        request.spec.is_template = 1;
        CHECK(check(&request, &e) == 0, "and as one: %s", e.msg);
        request.spec.parent = KEEPER_NO_BOX;
        CHECK(check(&request, &e) == -CLOCHE_E_INVALID_ARGUMENT, "but not as one of its own: %s", e.msg);
        request.spec.parent = 3;
        request.spec.is_template = 0;
        strcpy(request.spec.mounts[0], "/workspace/m");
        request.spec.mount_count = 1;
        CHECK(check(&request, &e) == -CLOCHE_E_INVALID_ARGUMENT, "nor with mounts of its own: %s", e.msg);
        request.spec.mount_count = 0;
        request.spec.parent = KEEPER_NO_BOX;
        strcpy(request.spec.runtime_dir, "/runtime");
        CHECK(check(&request, &e) == 0, "beside a sandbox with a runtime of its own: %s", e.msg);
        request.spec.parent = 3;
        CHECK(check(&request, &e) == -CLOCHE_E_INVALID_ARGUMENT, "which it has from its template beneath one: %s",
              e.msg);
        request = make_request();
        request.spec.shared_with = 3;
        request.spec.is_sandbox = 1;
        CHECK(check(&request, &e) == -CLOCHE_E_INVALID_ARGUMENT, "nor as a sandbox itself: %s", e.msg);
}

static void test_volumes(void)
{
        static struct keeper_request request;
        size_t size = keeper_request_size(KEEPER_VOLUME);
        struct cloche_err e = {0};

        request = (struct keeper_request){.op = KEEPER_VOLUME, .volume = {.action = KEEPER_VOLUME_OPEN}};
        strcpy(request.volume.id, "0123456789abcdef0123456789abcdef");
        CHECK(keeper_request_check(&request, size, &e) == 0, "a volume is asked for: %s", e.msg);
        CHECK(keeper_request_check(&request, size - 1, &e) == -CLOCHE_E_PROTOCOL, "not with less: %s", e.msg);
        request.volume.size_bytes = KEEPER_VOLUME_BYTES_MIN;
        CHECK(keeper_request_check(&request, size, &e) == -CLOCHE_E_PROTOCOL, "nor with a size: %s", e.msg);
        request.volume.action = KEEPER_VOLUME_MAKE;
        CHECK(keeper_request_check(&request, size, &e) == 0, "a new one has a size: %s", e.msg);
        request.volume.size_bytes--;
        CHECK(keeper_request_check(&request, size, &e) == -CLOCHE_E_INVALID_ARGUMENT, "none too small: %s", e.msg);
        request.volume.size_bytes = KEEPER_VOLUME_BYTES_MAX + 1;
        CHECK(keeper_request_check(&request, size, &e) == -CLOCHE_E_INVALID_ARGUMENT, "nor too large: %s", e.msg);
        request.volume.size_bytes = KEEPER_VOLUME_BYTES_MAX;
        request.volume.id[31] = '/';
        CHECK(keeper_request_check(&request, size, &e) == -CLOCHE_E_PROTOCOL, "an id is digits: %s", e.msg);
        memset(request.volume.id, 'a', sizeof(request.volume.id));
        CHECK(keeper_request_check(&request, size, &e) == -CLOCHE_E_PROTOCOL, "and ends: %s", e.msg);
        strcpy(request.volume.id, "../../../../../../../etc/shadow0");
        CHECK(keeper_request_check(&request, size, &e) == -CLOCHE_E_PROTOCOL, "and no path: %s", e.msg);
        strcpy(request.volume.id, "0123456789abcdef0123456789abcdef");
        request.volume.action = KEEPER_VOLUME_ACTIONS;
        CHECK(keeper_request_check(&request, size, &e) == -CLOCHE_E_PROTOCOL, "an unknown action: %s", e.msg);
}

/* They become lines of files in the box. */
static void test_names_of_a_box(void)
{
        struct keeper_request request = make_request();
        struct cloche_err e = {0};

        strcpy(request.spec.host_name, "cloche-0a");
        strcpy(request.spec.boot_id, "0a1b2c3d-0000-4000-8000-000000000000");
        CHECK(check(&request, &e) == -CLOCHE_E_INVALID_ARGUMENT, "only a sandbox has a name: %s", e.msg);
        request.spec.is_sandbox = 1;
        CHECK(check(&request, &e) == 0, "a sandbox has a name: %s", e.msg);
        request.spec.host_name[6] = '\n';
        CHECK(check(&request, &e) == -CLOCHE_E_PROTOCOL, "a name is one line: %s", e.msg);
        memset(request.spec.host_name, 'a', sizeof(request.spec.host_name));
        CHECK(check(&request, &e) == -CLOCHE_E_PROTOCOL, "a name is terminated: %s", e.msg);
        request.spec.host_name[0] = '\0';
        request.spec.boot_id[8] = ' ';
        CHECK(check(&request, &e) == -CLOCHE_E_PROTOCOL, "a boot id is one word: %s", e.msg);
}

static void test_scratch_volumes(void)
{
        static struct keeper_request request;
        size_t size = keeper_request_size(KEEPER_VOLUME);
        struct keeper_request box = make_request();
        struct cloche_err e = {0};

        request =
                (struct keeper_request){.op = KEEPER_VOLUME,
                                        .volume = {.action = KEEPER_VOLUME_SCRATCH, .size_bytes = 65536, .entries = 1}};
        strcpy(request.volume.id, "0123456789abcdef0123456789abcdef");
        CHECK(keeper_request_check(&request, size, &e) == 0, "it may be small: %s", e.msg);
        request.volume.entries = KEEPER_SCRATCH_ENTRIES_MAX + 1;
        CHECK(keeper_request_check(&request, size, &e) == -CLOCHE_E_INVALID_ARGUMENT, "too many files: %s", e.msg);
        request.volume.entries = 0;
        CHECK(keeper_request_check(&request, size, &e) == -CLOCHE_E_INVALID_ARGUMENT, "no files: %s", e.msg);
        request.volume.entries = 1;
        request.volume.size_bytes = KEEPER_VOLUME_BYTES_MAX + 1;
        CHECK(keeper_request_check(&request, size, &e) == -CLOCHE_E_INVALID_ARGUMENT, "too large: %s", e.msg);
        request.volume.size_bytes = KEEPER_VOLUME_BYTES_MAX;
        request.volume.action = KEEPER_VOLUME_MAKE;
        CHECK(keeper_request_check(&request, size, &e) == -CLOCHE_E_PROTOCOL, "others count no files: %s", e.msg);
        box.spec.is_sandbox = box.spec.has_writable_root = 1;
        memset(box.spec.image, '0', KEEPER_TREE_SIZE - 1);
        memcpy(box.spec.image, KEEPER_TREE_PREFIX, sizeof(KEEPER_TREE_PREFIX) - 1);
        strcpy(box.spec.scratch, request.volume.id);
        CHECK(check(&box, &e) == 0, "a writable root lies in one: %s", e.msg);
        box.spec.scratch[0] = '/';
        CHECK(check(&box, &e) == -CLOCHE_E_PROTOCOL, "an id is digits: %s", e.msg);
        box.spec.scratch[0] = '0';
        box.spec.has_writable_root = 0;
        CHECK(check(&box, &e) == -CLOCHE_E_PROTOCOL, "another root has none: %s", e.msg);
}

static void test_volumes_of_a_box(void)
{
        struct keeper_request request = make_request();
        struct cloche_err e = {0};

        request.spec.is_sandbox = 1;
        request.spec.mount_count = 2;
        strcpy(request.spec.mounts[0], "/mount");
        strcpy(request.spec.mounts[1], "/data");
        strcpy(request.spec.volumes[1], "0123456789abcdef0123456789abcdef");
        request.spec.volume_mounts = request.spec.read_only = 2;
        CHECK(check(&request, &e) == 0, "a sandbox may have a volume: %s", e.msg);
        request.spec.read_only = 3;
        CHECK(check(&request, &e) == -CLOCHE_E_PROTOCOL, "only a volume is read-only: %s", e.msg);
        request.spec.read_only = 0;
        request.spec.file_mounts = 2;
        CHECK(check(&request, &e) == -CLOCHE_E_PROTOCOL, "a volume is no file: %s", e.msg);
        request.spec.file_mounts = 0;
        request.spec.volume_mounts = 6;
        CHECK(check(&request, &e) == -CLOCHE_E_PROTOCOL, "there is no third mount: %s", e.msg);
        request.spec.volume_mounts = 2;
        strcpy(request.spec.mounts[0], "/data/inner");
        CHECK(check(&request, &e) == -CLOCHE_E_INVALID_ARGUMENT, "no mount lies in a volume: %s", e.msg);
        strcpy(request.spec.mounts[0], "/mount");
        strcpy(request.spec.mounts[1], "/mount/data");
        CHECK(check(&request, &e) == -CLOCHE_E_INVALID_ARGUMENT, "and no volume in a mount: %s", e.msg);
        strcpy(request.spec.mounts[1], "/data");
        request.spec.volumes[1][0] = 'X';
        CHECK(check(&request, &e) == -CLOCHE_E_PROTOCOL, "an id is digits: %s", e.msg);
        request.spec.volumes[1][0] = '0';
        request.spec.is_sandbox = 0;
        CHECK(check(&request, &e) == -CLOCHE_E_INVALID_ARGUMENT, "a run has none: %s", e.msg);
}

int main(void)
{
        test_sizes();
        test_roots();
        test_parents();
        test_users();
        test_paths();
        test_trees();
        test_mounts();
        test_volumes();
        test_names_of_a_box();
        test_scratch_volumes();
        test_volumes_of_a_box();
        test_services();
        test_limits();
        test_new_limits();
        test_sandboxes();
        return tap_done();
}
