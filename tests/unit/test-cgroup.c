/* Finding control groups from the texts and files of hosts unlike ours. */
#include "jail/cgroup/home.h"
#include "tap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

static void put_in(const char *directory, const char *file, const char *text)
{
        char path[160];
        FILE *out;

        snprintf(path, sizeof(path), "%s/%s", directory, file);
        out = fopen(path, "w");
        if (out) {
                fputs(text, out);
                fclose(out);
        }
}

static const char version_1[] = "24 1 8:1 / / rw - ext4 /dev/vda rw\n"
                                "30 24 0:26 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
                                "31 24 0:27 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids\n"
                                "32 24 0:28 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
                                "33 24 0:29 / /sys/fs/cgroup/freezer rw,relatime shared:9 - cgroup cgroup rw,freezer\n";
static const char groups_1[] = "4:memory:/user.slice\n3:pids:/\n2:cpu,cpuacct:/a/b\n1:freezer:/\n";

static void test_version_1(void)
{
        struct cgroup_unified unified;
        struct cgroup_host host;

        cgroup_host_find(&host, &unified, version_1, groups_1);
        CHECK(host.places[CGROUP_MEMORY].version == 1, "memory is found in version 1");
        CHECK(strcmp(host.places[CGROUP_MEMORY].base, "/sys/fs/cgroup/memory/user.slice") == 0,
              "below the caller's own group: %s", host.places[CGROUP_MEMORY].base);
        CHECK(strcmp(host.places[CGROUP_PIDS].base, "/sys/fs/cgroup/pids") == 0, "the root group adds no slash");
        CHECK(strcmp(host.places[CGROUP_CPU].base, host.places[CGROUP_CPUACCT].base) == 0,
              "controllers mounted together share a directory");
        CHECK(host.places[CGROUP_FREEZER].version == 1, "optional fields of mountinfo do not confuse");
}

static void test_nothing(void)
{
        struct cgroup_unified unified;
        struct cgroup_host host;

        cgroup_host_find(&host, &unified, "24 1 8:1 / / rw - ext4 /dev/vda rw\n", "0::/\n");
        for (int c = 0; c < CGROUP_CONTROLLERS; c++) {
                CHECK(host.places[c].version == 0, "controller %d is not invented", c);
                CHECK(host.places[c].reason[0] != '\0', "and the reason is said: %s", host.places[c].reason);
        }
}

static void test_malformed(void)
{
        static const char *const texts[] = {"",       "\n\n", " - ", "a b c - cgroup", "1 2 3 4 5 6 - cgroup cgroup",
                                            "- - - -"};
        struct cgroup_unified unified;
        struct cgroup_host host;

        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
                cgroup_host_find(&host, &unified, texts[i], ":::::\n::\nmemory\n4:memory");
                CHECK(host.places[CGROUP_MEMORY].version == 0, "malformed mountinfo %zu finds nothing", i);
        }
}

static void test_name_is_not_prefix(void)
{
        struct cgroup_unified unified;
        struct cgroup_host host;

        cgroup_host_find(&host, &unified, "30 24 0:26 / /c rw - cgroup cgroup rw,cpuset,memoryx\n",
                         "4:cpuset,memoryx:/\n");
        CHECK(host.places[CGROUP_CPU].version == 0, "cpuset is not cpu");
        CHECK(host.places[CGROUP_MEMORY].version == 0, "memoryx is not memory");
}

/* In a container of version 1 the mount's root is the container's group, and /proc/self/cgroup names it too. */
static void test_mount_root(void)
{
        struct cgroup_unified unified;
        struct cgroup_host host;

        cgroup_host_find(&host, &unified, "30 24 0:26 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
                         "4:memory:/docker/abc\n");
        CHECK(strcmp(host.places[CGROUP_MEMORY].base, "/sys/fs/cgroup/memory") == 0, "the mount's root is cut: %s",
              host.places[CGROUP_MEMORY].base);
        cgroup_host_find(&host, &unified, "30 24 0:26 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
                         "4:memory:/docker/abcd\n");
        CHECK(host.places[CGROUP_MEMORY].version == 0, "a group outside the mount is not ours");
}

/* A version 2 hierarchy of plain files: the directory is the mount point, own the caller's group. */
static char tree[64];

static void put_tree(const char *file, const char *text)
{
        put_in(tree, file, text);
}

static void remove_tree_files(void)
{
        static const char *const files[] = {"own/cgroup.events",          "own/cgroup.procs",
                                            "own/cgroup.subtree_control", "own/cloche-callers/cgroup.procs",
                                            "own/cloche-callers",         "own",
                                            "cgroup.controllers",         "cgroup.procs",
                                            "cgroup.subtree_control",     ""};
        char path[160];

        for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
                snprintf(path, sizeof(path), "%s/%s", tree, files[i]);
                remove(path);
        }
}

static void find_in_tree(const char *own, struct cgroup_host *ret, struct cgroup_unified *ret_unified)
{
        char mountinfo[200], groups[200];

        snprintf(mountinfo, sizeof(mountinfo), "30 24 0:26 / %s rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n", tree);
        snprintf(groups, sizeof(groups), "0::%s\n", own);
        cgroup_host_find(ret, ret_unified, mountinfo, groups);
}

static void test_version_2(void)
{
        struct cgroup_unified unified;
        struct cgroup_host host;

        snprintf(tree, sizeof(tree), "/tmp/test-cgroup-XXXXXX");
        CHECK(mkdtemp(tree) != NULL, "a hierarchy");
        put_tree("cgroup.controllers", "cpuset cpu io memory hugetlb pids\n");
        find_in_tree("/user.slice/session-1.scope", &host, &unified);
        for (int c = 0; c < CGROUP_CONTROLLERS; c++)
                CHECK(host.places[c].version == 2 && host.places[c].base[0] == '\0',
                      "controller %d is found in version 2, its home is chosen later", c);
        CHECK(strcmp(unified.mount_point, tree) == 0 && strcmp(unified.own, "/user.slice/session-1.scope") == 0,
              "the own group: %s", unified.own);
        find_in_tree("/", &host, &unified);
        CHECK(unified.own[0] == '\0', "the topmost group adds no slash");
        put_tree("cgroup.controllers", "cpuset hugetlb\n");
        find_in_tree("/a", &host, &unified);
        CHECK(host.places[CGROUP_MEMORY].version == 0 && host.places[CGROUP_FREEZER].version == 0,
              "a hierarchy without a controller of ours is not used");
        put_tree("cgroup.controllers", "");
        remove_tree_files();
}

/* -- which group boxes get groups beneath ------------------------------------------------------------------------ */

struct manager {
        int calls, code; /* code: 0, or the error it answers with */
};

static int request(const void *data, struct cloche_err *e)
{
        struct manager *manager = (struct manager *)data;

        manager->calls++;
        e->code = (enum cloche_code)manager->code;
        snprintf(e->msg, sizeof(e->msg), "the manager said no");
        return -manager->code;
}

static int home_of(const char *own, struct manager *manager, char *ret, struct cloche_err *e)
{
        struct cgroup_unified unified = {0};

        snprintf(unified.mount_point, sizeof(unified.mount_point), "%s", tree);
        snprintf(unified.own, sizeof(unified.own), "%s", own);
        return cgroup_home_open(&unified, request, manager, ret, e);
}

static void test_home(void)
{
        struct manager none = {.code = CLOCHE_E_NOT_FOUND}, refusing = {.code = CLOCHE_E_CGROUP};
        char home[CGROUP_PATH_MAX], group[160];
        struct cloche_err e = {0};

        snprintf(tree, sizeof(tree), "/tmp/test-cgroup-XXXXXX");
        CHECK(mkdtemp(tree) != NULL, "a hierarchy");
        snprintf(group, sizeof(group), "%s/own", tree);
        CHECK(mkdir(group, 0755) == 0, "with a group");
        put_tree("own/cgroup.events", "populated 1\n");
        put_tree("own/cgroup.procs", "");
        put_tree("own/cgroup.subtree_control", "");
        CHECK(home_of("/own", &none, home, &e) == 0 && strcmp(home, group) == 0,
              "without a manager an owned group is the home: %s", e.msg);
        CHECK(none.calls == 1, "the manager is asked first");
        CHECK(home_of("/own/cloche-callers", &none, home, &e) == 0 && strcmp(home, group) == 0,
              "a caller that was moved has the same home: %s", home);
        if (geteuid() == 0)
                CHECK(home_of("/own", &refusing, home, &e) == -CLOCHE_E_CGROUP && strstr(e.msg, "the manager said no"),
                      "a refusal is told to root: %s", e.msg);
        put_tree("cgroup.procs", "1\n");
        put_tree("cgroup.subtree_control", "");
        if (geteuid() == 0)
                CHECK(home_of("/own", &none, home, &e) == 0 && strcmp(home, tree) == 0,
                      "root without a manager works in the topmost group: %s", home);
        if (setxattr(group, "user.delegate", "1", 1, 0) == 0) {
                none.calls = 0;
                CHECK(home_of("/own", &none, home, &e) == 0 && strcmp(home, group) == 0 && none.calls == 0,
                      "a delegated group is the home, and nobody is asked");
                if (geteuid() == 0 && chown(group, 12345, 12345) == 0) {
                        CHECK(home_of("/own", &refusing, home, &e) == -CLOCHE_E_CGROUP,
                              "root takes no group that another user has marked");
                        CHECK(chown(group, 0, 0) == 0, "it is root's again");
                }
        }
        put_tree("own/cgroup.procs", "0\n");
        CHECK(home_of("/own", &none, home, &e) != 0 || strcmp(home, tree) == 0,
              "a process of another pid namespace cannot be moved: %s", e.msg);
        remove_tree_files();
}

/* -- limits of a living box, in files that are none of the kernel's ---------------------------------------------- */

static char base[64];

static void put(const char *file, const char *text)
{
        char directory[80];

        snprintf(directory, sizeof(directory), "%s/box7", base);
        put_in(directory, file, text);
}

static int has(const char *file, const char *text)
{
        char path[160], line[100] = "";
        FILE *in;

        snprintf(path, sizeof(path), "%s/box7/%s", base, file);
        in = fopen(path, "r");
        if (in) {
                if (!fgets(line, sizeof(line), in))
                        line[0] = '\0';
                fclose(in);
        }
        return strcmp(line, text) == 0;
}

static void make_base(struct cgroup_host *host, int version)
{
        char path[160];

        snprintf(base, sizeof(base), "/tmp/test-cgroup-XXXXXX");
        CHECK(mkdtemp(base) != NULL, "a directory for version %d", version);
        snprintf(path, sizeof(path), "%s/box7", base);
        CHECK(mkdir(path, 0755) == 0, "with a box");
        memset(host, 0, sizeof(*host));
        for (int c = CGROUP_MEMORY; c <= CGROUP_CPU; c++) {
                host->places[c].version = version;
                snprintf(host->places[c].base, sizeof(host->places[c].base), "%s", base);
        }
}

static void remove_base(void)
{
        static const char *const files[] = {"memory.limit_in_bytes",
                                            "memory.memsw.limit_in_bytes",
                                            "memory.usage_in_bytes",
                                            "memory.max",
                                            "memory.swap.max",
                                            "memory.current",
                                            "memory.reclaim",
                                            "pids.max",
                                            "cpu.max",
                                            "cpu.cfs_quota_us",
                                            ""};
        char path[160];

        for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
                snprintf(path, sizeof(path), "%s/box7/%s", base, files[i]);
                remove(path);
        }
        remove(base);
}

static void test_limit_2(void)
{
        struct cgroup_host host;
        struct cloche_err e = {0};

        make_base(&host, 2);
        put("memory.current", "50000000\n");
        put("memory.reclaim", "");
        put("memory.max", "90000000");
        put("memory.swap.max", "max");
        put("pids.max", "10");
        put("cpu.max", "max 100000");
        CHECK(cgroup_limit(&host, 7, &(struct cgroup_limits){.memory_bytes = 60000000}, &e) == 0 &&
                      has("memory.max", "60000000"),
              "memory is lowered: %s", e.msg);
        CHECK(has("pids.max", "10") && has("cpu.max", "max 100000"), "what is 0 stays as it is");
        CHECK(cgroup_limit(&host, 7, &(struct cgroup_limits){.memory_bytes = 40000000, .pids = 20}, &e) ==
                      -CLOCHE_E_INVALID_ARGUMENT,
              "not below what is used: %s", e.msg);
        CHECK(strstr(e.msg, "40000000") && strstr(e.msg, "50000000"), "both numbers are named");
        CHECK(has("memory.max", "60000000") && has("pids.max", "10"), "and nothing was changed");
        CHECK(has("memory.reclaim", "10000000"), "but it was asked for");
        put("memory.max", ""); /* the kernel's files are replaced by each text */
        put("pids.max", "");
        put("cpu.max", "");
        CHECK(cgroup_limit(&host, 7, &(struct cgroup_limits){UINT64_MAX, 20, 150}, &e) == 0, "all at once: %s", e.msg);
        CHECK(has("memory.max", "max") && has("pids.max", "20") && has("cpu.max", "150000 100000"),
              "as they are said there");
        host.places[CGROUP_PIDS].version = 0;
        CHECK(cgroup_limit(&host, 7, &(struct cgroup_limits){.pids = 20}, &e) == -CLOCHE_E_GUARD_MISSING,
              "a limit nobody holds is refused: %s", e.msg);
        remove_base();
}

static void test_limit_1(void)
{
        struct cgroup_host host;
        struct cloche_err e = {0};

        make_base(&host, 1);
        put("memory.limit_in_bytes", "90000000");
        put("memory.usage_in_bytes", "50000000\n");
        put("pids.max", "10");
        put("cpu.cfs_quota_us", "");
        CHECK(cgroup_limit(&host, 7, &(struct cgroup_limits){95000000, 30, 50}, &e) == 0,
              "without accounting of swap: %s", e.msg);
        CHECK(has("memory.limit_in_bytes", "95000000") && has("pids.max", "30") && has("cpu.cfs_quota_us", "50000"),
              "all three");
        put("memory.limit_in_bytes", "95000000"); /* of which two digits are overwritten */
        put("memory.memsw.limit_in_bytes", "");
        CHECK(cgroup_limit(&host, 7, &(struct cgroup_limits){.memory_bytes = UINT64_MAX}, &e) == 0, "with it: %s",
              e.msg);
        CHECK(has("memory.memsw.limit_in_bytes", "-1") && has("memory.limit_in_bytes", "-1000000"), "none is -1 there");
        remove_base();
}

/* Plain files stand for the groups of box 7, all controllers in one directory. */
static void make_box(int version, struct cgroup_host *ret)
{
        char path[160];

        memset(ret, 0, sizeof(*ret));
        snprintf(tree, sizeof(tree), "/tmp/test-cgroup-XXXXXX");
        CHECK(mkdtemp(tree) != NULL, "a group's directory");
        snprintf(path, sizeof(path), "%s/box7", tree);
        mkdir(path, 0755);
        for (int c = 0; c < CGROUP_CONTROLLERS; c++) {
                ret->places[c].version = version;
                snprintf(ret->places[c].base, sizeof(ret->places[c].base), "%s", tree);
        }
}

static void remove_box(const char *const files[2][CGROUP_COUNTERS])
{
        char path[160];

        for (int version = 0; version < 2; version++)
                for (int i = 0; i < CGROUP_COUNTERS; i++) {
                        snprintf(path, sizeof(path), "%s/%s", tree, files[version][i]);
                        remove(path);
                }
        snprintf(path, sizeof(path), "%s/box7", tree);
        rmdir(path);
        rmdir(tree);
}

static const char *const counter_files[2][CGROUP_COUNTERS] = {
        {"box7/memory.max_usage_in_bytes", "box7/memory.oom_control", "box7/cpuacct.usage", "box7/pids.peak",
         "box7/pids.events"},
        {"box7/memory.peak", "box7/memory.events", "box7/cpu.stat", "box7/pids.peak", "box7/pids.events"},
};

static void test_usage(int version)
{
        static const char *const texts[2][CGROUP_COUNTERS] = {
                {"655360\n", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n", "6430483\n", "2\n", "max 4\n"},
                {"655360\n", "low 0\nhigh 0\nmax 9\noom 5\noom_kill 3\noom_group_kill 0\n",
                 "usage_usec 6430\nuser_usec 1\nsystem_usec 2\n", "2\n", "max 4\n"},
        };
        struct cgroup_usage_files files;
        struct cgroup_usage usage;
        struct cgroup_host host;

        make_box(version, &host);
        for (int i = 0; i < CGROUP_COUNTERS; i++)
                put_tree(counter_files[version - 1][i], texts[version - 1][i]);
        CHECK(cgroup_usage_open(&host, 7, &files) == 0, "version %d: counters are opened", version);
        cgroup_usage_read(&files, &usage);
        CHECK(usage.memory_known && usage.memory_peak_bytes == 655360 && usage.oom_kills == 3,
              "version %d: memory, and what was killed", version);
        CHECK(usage.cpu_known && usage.cpu_ns == (version == 1 ? 6430483 : 6430000), "version %d: processor time",
              version);
        CHECK(usage.pids_known && usage.pids_peak == 2 && usage.pids_refused == 4, "version %d: tasks", version);
        put_tree(counter_files[version - 1][CGROUP_OOM_KILLS],
                 version == 1 ? "oom_kill_disable 0\nunder_oom 1\noom_kill 12\n" : "oom_kill 12\n");
        put_tree(counter_files[version - 1][CGROUP_PIDS_REFUSED], "max 5\n");
        cgroup_usage_read(&files, &usage);
        CHECK(usage.oom_kills == 12 && usage.pids_refused == 5, "version %d: open files show each change", version);
        cgroup_usage_close(&files);
        CHECK(!files.is_open && files.fds[0] < 0, "version %d: and are closed once", version);
        cgroup_usage_close(&files);
        remove_box(counter_files);
}

static void test_usage_without_files(void)
{
        struct cgroup_usage_files files;
        struct cgroup_usage usage;
        struct cgroup_host host;

        make_box(2, &host);
        host.places[CGROUP_PIDS].version = 0;
        put_tree("box7/memory.events", "low 0\nhigh 0\n");
        put_tree("box7/cpu.stat", "");
        CHECK(cgroup_usage_open(&host, 7, &files) == 0, "a host without some counters is none without all");
        cgroup_usage_read(&files, &usage);
        CHECK(!usage.memory_known && !usage.cpu_known && !usage.pids_known && usage.oom_kills == 0,
              "what is not there is not known");
        cgroup_usage_close(&files);
        remove_box(counter_files);
}

static void test_usage_without_descriptors(void)
{
        struct rlimit all, few;
        struct cgroup_usage_files files;
        struct cgroup_host host;
        int fd;

        make_box(1, &host);
        for (int i = 0; i < CGROUP_COUNTERS; i++)
                put_tree(counter_files[0][i], "1\n");
        fd = dup(0);
        getrlimit(RLIMIT_NOFILE, &all);
        few = (struct rlimit){.rlim_cur = (rlim_t)fd + 2, .rlim_max = all.rlim_max};
        setrlimit(RLIMIT_NOFILE, &few);
        close(fd);
        CHECK(cgroup_usage_open(&host, 7, &files) == -EMFILE && !files.is_open, "a part of the counters is an error");
        setrlimit(RLIMIT_NOFILE, &all);
        CHECK(dup(0) == fd, "and leaves no descriptor");
        close(fd);
        remove_box(counter_files);
}

int main(void)
{
        test_version_1();
        test_nothing();
        test_malformed();
        test_name_is_not_prefix();
        test_mount_root();
        test_version_2();
        test_home();
        test_limit_2();
        test_limit_1();
        test_usage(1);
        test_usage(2);
        test_usage_without_files();
        test_usage_without_descriptors();
        return tap_done();
}
